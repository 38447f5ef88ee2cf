"""The host's part of a quantized network: integer inputs, recorded variables, and outputs computed from readouts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from nirbridge.arrays import Array
from nirbridge.errors import Diagnostic, UsageError, quoted
from nirbridge.network.apply import apply
from nirbridge.network.model import Network, Population, Port, Projection, Timing
from nirbridge.network.neurons import neuron
from nirbridge.quantization.model import FixedInput, QuantizedNetwork
from nirbridge.simulators.checks import versions
from nirbridge.simulators.inputs import Input, open_inputs
from nirbridge.simulators.recording import Channel, recording_channels
from nirbridge.simulators.types import Probe

DEFAULT_TIMING = Timing(None, "euler", "to-value", ">", "per-second")


def signature_network(quantized: QuantizedNetwork) -> Network:
    """A network of the same names and shapes, for checks of inputs and records."""
    populations = tuple(
        Population(p.name, p.shape, neuron("IF", theta=1.0 if p.neuron.fires else None, max_spikes=p.neuron.max_spikes))
        for p in quantized.populations
    )
    inputs = tuple(Port(p.name, p.shape) for p in quantized.inputs)
    ports = inputs, quantized.outputs
    return Network(quantized.dt, DEFAULT_TIMING, populations, quantized.reads, *ports, axes=quantized.axes)


def late_of(quantized: QuantizedNetwork, state: object = None, *, drain: bool) -> Mapping[str, int]:
    """Time steps that a run to be drained cuts from the head of each node: its latency; none of another run.

    Raises:
        UsageError: the run continues another one, from a state.
    """
    if drain and state is not None:
        limit = "its first time steps belong to the run before"
        raise UsageError.of("a run from a state", "cannot be drained", limit, "leave drain out")
    return quantized.latency if drain else {}


def fixed_meta(
    quantized: QuantizedNetwork,
    steps: int,
    first_step: int,
    batch: int | None,
    late: Mapping[str, int] | None = None,
    **own: Any,
) -> dict[str, Any]:
    """The meta of a recording of integers; ``late``: as of ``late_of``; ``own``: further entries of one simulator."""
    drained = {"drained": dict(late)} if late else {}
    return {
        "dt": quantized.dt,
        "steps": steps,
        "first_step": first_step,
        "batch": batch,
        "chip": quantized.chip,
        "versions": versions("numpy"),
        "seed": None,
        "latency": {name: value - (late or {}).get(name, 0) for name, value in quantized.latency.items()},
        "outputs": [port.name for port in quantized.outputs],
        "scale": {p.name: p.neuron.scale.tolist() for p in quantized.populations},
        "v_offset": {p.name: p.neuron.v_offset.tolist() for p in quantized.populations},
        "notes": list(quantized.notes),
        "v": "integers, after the reset",
        "u": "integers, the synaptic current",
        **drained,
        **own,
    }


def fixed_channels(quantized: QuantizedNetwork, shown: Network, record: Sequence[Probe] | None) -> list[Channel]:
    """The requested arrays, as integers for populations.

    Raises:
        UsageError: unknown nodes and variables, or ``i``, which integers call ``u``.
    """
    wrong = [r for r in record or () if "i" in r.variables]
    if wrong:
        raise UsageError(
            *(
                Diagnostic(
                    f"record {quoted(r.node)}", "no variable 'i'", "", "record 'u', the synaptic current in integers"
                )
                for r in wrong
            )
        )
    binary = frozenset(p.name for p in quantized.inputs if not p.graded)
    wide = {p.name: max(p.neuron.u_bits, p.neuron.v_bits) for p in quantized.populations}
    typed = []
    for channel in recording_channels(shown, record, binary, "float64"):
        kind = channel.dtype
        if channel.node in wide and channel.variable in ("u", "v"):
            kind = "int32" if wide[channel.node] <= 32 else "int64"
        typed.append(replace(channel, dtype=kind))
    return typed


def integer_values(port: FixedInput, values: Array, first_step: int) -> Array:
    """Inputs as integers. Raises UsageError for values that the input does not take."""
    flat = values.reshape(*values.shape[:2], -1)
    if port.graded:
        with np.errstate(over="ignore"):
            integers = np.rint(flat / port.scale)
        wrong = ~(np.abs(integers) <= port.value_max)
        limit = f"it takes {-port.value_max * port.scale:g} to {port.value_max * port.scale:g}"
    else:
        integers = flat
        wrong = (flat != 0) & (flat != 1)
        limit = "it takes spikes, 0 and 1"
    if bool(wrong.any()):
        place = np.unravel_index(int(np.argmax(wrong)), wrong.shape)
        found = f"{flat[place]:g} at time step {first_step + int(place[0])}"
        most = float(np.abs(flat.astype(float)).max())
        enough = quoted(f"{port.name}={np.ceil(most * 100) / 100:g}:8")
        way = "encode values as spikes, or count events of a time step as one (--events clip)"
        step = f"quantize it as graded where the chip can (quantize --graded {enough}), {way}"
        step = step if np.isfinite(most) else "give finite numbers"
        raise UsageError.of(f"input {quoted(port.name)}", found, limit, step)
    return integers.astype(np.int64 if port.graded else np.int8)


def readout_values(
    quantized: QuantizedNetwork, port: Port, steps: int, history: Mapping[str, Array], depths: Mapping[str, int]
) -> Array:
    """The values of an output port, ``[steps, batch, *shape]``: its projections, which the host applies.

    ``history``: the integers that each source sent, ``depths`` time steps of the past first; of a readout its v.
    """
    total: Array | None = None
    for read in (p for p in quantized.reads if p.target == port.name):
        sent = _arriving(quantized, read, steps, history[read.source], depths[read.source])
        batch = sent.shape[1]
        values = apply(read.operator, sent.reshape(steps * batch, *read.operator.input_shape))
        values = values.reshape(steps, batch, *port.shape)
        values = values if read.bias is None else values + read.bias
        total = values if total is None else total + values
    assert total is not None, "the checker lets no output without a source through"
    return total


def _arriving(quantized: QuantizedNetwork, read: Projection, steps: int, sent: Array, depth: int) -> Array:
    """Delayed values of the source: spikes, or reals (graded input, readout); ``[steps, batch, neurons]``."""
    delays = np.broadcast_to(read.delay_steps.reshape(-1), sent.shape[2:])
    if delays.any():
        late = np.stack([sent[depth + t - delays, :, np.arange(sent.shape[2])].T for t in range(steps)])
    else:
        late = sent[depth:]
    for port in quantized.inputs:
        if port.name == read.source:
            return late * port.scale if port.graded else late
    source = quantized.population(read.source)
    if source.neuron.fires:
        return late
    real = late.reshape(*late.shape[:2], *source.shape) / source.neuron.scale + source.neuron.v_offset
    return real.reshape(late.shape)


def integer_inputs(
    quantized: QuantizedNetwork,
    inputs: Mapping[str, Input] | Input,
    steps: int | None,
    silent: int = 0,
    first_step: int = 0,
) -> tuple[dict[str, Array], bool]:
    """Arrays ``[steps, batch, *shape]`` of int64 by input name, and whether the caller's have a batch axis.

    A graded input gets the nearest whole number of its scale. ``silent``: time steps of zeros that follow.
    ``first_step``: of a run that continues from a state.

    Raises:
        UsageError: wrong names, shapes or types; values that an input does not take.
    """
    opened = open_inputs(signature_network(quantized), inputs, steps, first_step, "float64").longer(silent)
    arrays = opened.read(0, opened.steps)
    integers = {p.name: integer_values(p, arrays[p.name], first_step).astype(np.int64) for p in quantized.inputs}
    shaped = {name: values.reshape(arrays[name].shape) for name, values in integers.items()}
    return shaped or {"": np.zeros((opened.steps, 1, 0), np.int64)}, opened.batch is not None
