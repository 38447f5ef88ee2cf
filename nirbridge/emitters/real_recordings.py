"""Recordings of programs that compute a network in real numbers, from what their ``program.json`` says."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from nirbridge.arrays import Array
from nirbridge.errors import Diagnostic, UsageError, quoted
from nirbridge.network.model import Network, Population, Port, Timing
from nirbridge.network.neurons import neuron
from nirbridge.simulators.inputs import Inputs
from nirbridge.simulators.recording import Channel, ChannelRecorder, recording_channels
from nirbridge.simulators.types import Key, Probe, Recording

TIMING = Timing(None, "euler", "to-value", ">", "per-second")
DTYPE = "float32"


def signature(facts: Any) -> Network:
    """A network of the names and shapes of a program, without projections.

    ``facts`` has ``dt``; ``nodes`` with ``name``, ``shape``, ``fires``, ``max_spikes``; ``inputs`` and ``outputs``.
    """
    populations = tuple(
        Population(
            n["name"],
            tuple(n["shape"]),
            neuron("IF", theta=1.0 if n["fires"] else None, max_spikes=n["max_spikes"]),
        )
        for n in facts["nodes"]
    )
    inputs, outputs = (tuple(Port(p["name"], tuple(p["shape"])) for p in facts[key]) for key in ("inputs", "outputs"))
    return Network(facts["dt"], TIMING, populations, (), inputs, outputs)


def real_channels(
    network: Network,
    facts: Any,
    record: Sequence[Probe] | None,
    variables: Sequence[str] = ("s", "u", "v"),
    *,
    dtype: str = DTYPE,
) -> list[Channel]:
    """The requested arrays, outputs in the type that the reference records.

    Args:
        network: the signature of the program.
        facts: each of ``outputs`` has ``name``, ``dtype`` and ``reads_out``.
        record: the probes; None: all outputs.
        variables: those of a population that the program records.
        dtype: the type that the program computes in.

    Raises:
        UsageError: unknown nodes, and variables that the program does not record.
    """
    populations = {p.name for p in network.populations}
    others = [(p, v) for p in record or () for v in ("s", "u", "v", "i") if v in p.variables and v not in variables]
    wrong = [
        Diagnostic(f"record {quoted(p.node)}", f"variable {v}", "", f"a program records {_joined(variables)}")
        for p, v in others
        if v == "i" or p.node in populations or p.node == "*"
    ]
    UsageError.raise_all(wrong)
    silent = {p["name"] for p in facts["outputs"] if p["reads_out"]}
    probes = record or [Probe(p.name, ("v" if p.name in silent else "s",)) for p in network.outputs]
    types = {p["name"]: p["dtype"] for p in facts["outputs"]}
    channels = recording_channels(network, probes, frozenset(), dtype)
    return [c if c.node not in types or c.variable != "s" else replace(c, dtype=types[c.node]) for c in channels]


def _joined(variables: Sequence[str]) -> str:
    *most, last = variables
    return f"{', '.join(most)} and {last}" if most else last


def population_keys(network: Network, channels: Sequence[Channel]) -> set[Key]:
    """The variables of populations that the channels are made of."""
    populations = {p.name for p in network.populations}
    return {(c.node, c.source) for c in channels if c.node in populations}


def real_recording(
    network: Network,
    channels: Sequence[Channel],
    opened: Inputs,
    found: Mapping[Key, Array],
    outputs: Mapping[str, Array],
    *,
    backend: str,
    dtype: str = DTYPE,
) -> Recording:
    """The recording of a run.

    Args:
        network: the signature of the program.
        channels: the requested arrays.
        opened: the inputs.
        found: variables of populations, ``[steps, samples, *shape]`` or flat over neurons.
        outputs: by name, ``[steps, samples, *shape]``.
        backend: what ran it.
        dtype: the type that it computed in.
    """
    shapes = {p.name: p.shape for p in network.populations}
    taken = {key: a.reshape(*a.shape[:2], *shapes[key[0]]) for key, a in found.items()}
    taken |= {(name, variable): a for name, a in outputs.items() for variable in ("s", "v")}
    inputs = opened.read(0, opened.steps)
    taken |= {(name, "s"): np.asarray(a, dtype) for name, a in inputs.items()}
    first = opened.first_step
    recorder = ChannelRecorder(channels, first, opened.steps, opened.batch or 1)
    recorder.take(taken, opened.steps, np.asarray)
    meta = {"dt": network.dt, "steps": opened.steps, "first_step": first, "batch": opened.batch, "backend": backend}
    meta |= {"dtype": dtype, "latency": {}, "outputs": [p.name for p in network.outputs]}
    return recorder.finish(opened.batch is not None, meta)
