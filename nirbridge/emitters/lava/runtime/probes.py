"""Probes of a Lava program: checked before it runs, then applied to its recording."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np

from nirbridge.arrays import Array
from nirbridge.emitters.artifact import Artifact, read_document
from nirbridge.emitters.lava.runtime.run import TIMING, run_program
from nirbridge.emitters.ports import PROGRAM
from nirbridge.errors import Diagnostic, UsageError, quoted
from nirbridge.network.model import Network, Population, Port
from nirbridge.network.neurons import neuron
from nirbridge.simulators.inputs import Input
from nirbridge.simulators.recording import Channel, recording_channels
from nirbridge.simulators.types import Probe, Recording


@dataclass(frozen=True, slots=True)
class Requested:
    """The arrays of a recording, None: those that the program records by default."""

    channels: tuple[Channel, ...] | None
    outputs: frozenset[str]

    @property
    def texts(self) -> tuple[str, ...]:
        """The same as the program's own ``--record`` takes it."""
        return tuple(dict.fromkeys(f"{c.node}:{self._source(c)}" for c in self.channels or ()))

    def recording(self, recorded: Recording) -> Recording:
        """The program's recording: every ``every``-th time step, and sums where requested."""
        if self.channels is None:
            return recorded
        arrays = {(c.node, c.variable): _taken(self._found(c, recorded), c) for c in self.channels}
        every = {f"{c.node}/{c.variable}": c.every for c in self.channels if c.every > 1}
        return Recording(MappingProxyType(arrays), MappingProxyType({**recorded.meta, "every": every}))

    def _source(self, channel: Channel) -> str:
        return "s" if channel.node in self.outputs else channel.source

    def _found(self, channel: Channel, recorded: Recording) -> Array:
        """An output is stored as ``v`` where a readout alone leads to it, under whichever name it was requested."""
        names = ("s", "v") if channel.node in self.outputs else (channel.source,)
        return next(recorded.arrays[channel.node, name] for name in names if (channel.node, name) in recorded.arrays)


def run_with_probes(
    program: Artifact, inputs: Mapping[str, Input] | Input, *, record: Sequence[Probe] | None, **options: Any
) -> Recording:
    """As ``run_program``, with probes in place of texts."""
    probes = requested(program, record)
    return probes.recording(run_program(program, inputs, record=probes.texts, **options))


def requested(program: Artifact, record: Sequence[Probe] | None) -> Requested:
    """The probes of a program, with all of them checked.

    Raises:
        UsageError: unknown nodes and variables, and inputs, which a program does not record.
    """
    facts = read_document(program, PROGRAM, dict.fromkeys(("inputs", "nodes", "outputs"), list[dict[str, Any]]))
    network = _signature(facts)
    outputs = frozenset(port.name for port in network.outputs)
    if record is None:
        return Requested(None, outputs)
    channels = recording_channels(network, record, frozenset(), "float64")
    inputs = {port.name for port in network.inputs}
    wrong = [Diagnostic(f"record {quoted(c.node)}", "is an input", "a program records populations and outputs")
             for c in channels if c.node in inputs]  # fmt: skip
    wrong += [Diagnostic(f"record {quoted(p.node)}", "variable i", "", "the current is u here")
              for p in record if "i" in p.variables]  # fmt: skip
    if wrong:
        raise UsageError(*wrong)
    return Requested(tuple(channels), outputs)


def _signature(facts: Any) -> Network:
    """A network of the names and shapes of a program, without projections."""
    populations = tuple(
        Population(n["name"], tuple(n["shape"]), neuron("IF", theta=1.0 if n["fires"] else None))
        for n in facts["nodes"]
    )
    inputs, outputs = (tuple(Port(p["name"], tuple(p["shape"])) for p in facts[key]) for key in ("inputs", "outputs"))
    return Network(facts["dt"], TIMING, populations, (), inputs, outputs)


def _taken(values: Array, channel: Channel) -> Array:
    kept_values = (
        values.sum(axis=0, dtype=np.int64)
        if channel.variable == "count"
        else values[channel.every - 1 :: channel.every]
    )
    kept_values.flags.writeable = False
    return kept_values
