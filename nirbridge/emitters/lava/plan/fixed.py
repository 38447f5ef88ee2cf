"""The plan of a program in integers: one process per population, or one per population and core."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from nirbridge._types import Shape
from nirbridge.arrays import Array
from nirbridge.emitters.lava.plan.layers import lava_layer, register_problems, v_max
from nirbridge.emitters.lava.plan.model import (
    InputSpec,
    LavaPlan,
    LavaPopulation,
    LavaSource,
    OutputSpec,
    ProcessPart,
    Readout,
)
from nirbridge.emitters.lava.plan.synapses import lava_synapse, synapse_problems
from nirbridge.errors import Diagnostic, ModelError, quoted
from nirbridge.network.apply import matrix
from nirbridge.network.model import Projection
from nirbridge.network.operators import Identity, Reshape
from nirbridge.quantization.model import QuantizedNetwork

if TYPE_CHECKING:
    from nirbridge.mapping.model import MappedNetwork

_READ_SYNAPSES_MAX = 50_000_000
_GRADED = "encode its values as spikes (nirbridge.simulators.encoders), or choose a chip with graded spikes (loihi2)"


def fixed_plan(quantized: QuantizedNetwork, mapped: MappedNetwork | Sequence[Any] | None = None) -> LavaPlan:
    """Which processes compute a quantized network; with ``mapped`` one per core that holds a piece of a population.

    Raises:
        ModelError: what Lava or the chip cannot hold; every problem.
    """
    ModelError.raise_all(_problems(quantized))
    if mapped is not None:
        from nirbridge.emitters.lava.plan.per_core import split_by_core

        pieces = split_by_core(quantized, mapped)
    else:
        pieces = {p.name: (None,) for p in quantized.populations}
    return _plan(quantized, pieces)


def _plan(quantized: QuantizedNetwork, pieces: Mapping[str, tuple[Array | None, ...]]) -> LavaPlan:
    from nirbridge.emitters.lava.plan.per_core import population_slice, synapses_between

    inputs = {port.name: f"input{k}" for k, port in enumerate(quantized.inputs)}
    parts: dict[str, tuple[ProcessPart, ...]] = {}
    layers, shapes = [], {inputs[port.name]: port.shape or (1,) for port in quantized.inputs}
    for p in quantized.populations:
        slices = [ProcessPart(f"layer{len(layers) + j}", at) for j, at in enumerate(pieces[p.name])]
        parts[p.name] = tuple(slices)
        layers += [lava_layer(part.id, population_slice(p, part.at), v_max(quantized, p.name)) for part in slices]
    shapes |= {x.id: x.shape for x in layers}
    parts |= {name: (ProcessPart(id),) for name, id in inputs.items()}
    bits = _message_bits(quantized)
    synapses = []
    for p in quantized.projections:
        for piece, source, target in synapses_between(p, parts[p.source], parts[p.target]):
            ends = (shapes[source], shapes[target])
            synapses.append(lava_synapse(f"synapse{len(synapses)}", piece, (source, target), ends, bits[p.source]))
    used = {s.source for s in synapses}
    sources = tuple(LavaSource(id, shapes[id]) for id in inputs.values() if id in used)
    return LavaPlan(
        chip=quantized.chip,
        dt=quantized.dt,
        tag="fixed_pt",
        sources=sources,
        layers=tuple(layers),
        synapses=tuple(synapses),
        inputs=tuple(InputSpec(i.name, i.shape, inputs[i.name], i.value_max, i.scale) for i in quantized.inputs),
        nodes=tuple(_node(quantized, name, slices) for name, slices in parts.items() if name not in inputs),
        outputs=tuple(output_spec(port.name, port.shape, quantized.reads) for port in quantized.outputs),
        latency=quantized.latency,
        notes=quantized.notes,
        extra={"assumed": list(quantized.network.assumed) if quantized.network is not None else []},
    )


def _node(quantized: QuantizedNetwork, name: str, parts: tuple[ProcessPart, ...]) -> LavaPopulation:
    p = quantized.population(name)
    n = p.neuron
    return LavaPopulation(name, p.shape, parts, n.fires, n.max_spikes, n.scale, n.v_offset)


def _message_bits(quantized: QuantizedNetwork) -> dict[str, int]:
    """0 for sources of spikes 0 and 1; of several or graded ones the bits that their greatest value takes."""
    bits = {i.name: i.value_max.bit_length() if i.graded else 0 for i in quantized.inputs}
    for p in quantized.populations:
        bits[p.name] = p.neuron.max_spikes.bit_length() if p.neuron.max_spikes > 1 else 0
    return bits


def output_spec(name: str, shape: Shape, reads: tuple[Projection, ...]) -> OutputSpec:
    """An output with what the host applies for it."""
    return OutputSpec(name, shape, tuple(_read(p) for p in reads if p.target == name))


def _read(p: Projection) -> Readout:
    if isinstance(p.operator, Identity | Reshape):
        return Readout(p.source, None, p.bias, p.delay_steps, p.target_delay_steps)
    rows = matrix(p.operator, _READ_SYNAPSES_MAX)
    arrays = {"data": rows.data, "indices": rows.indices.astype(np.int64), "indptr": rows.indptr.astype(np.int64)}
    return Readout(p.source, arrays, p.bias, p.delay_steps, p.target_delay_steps)


def _problems(quantized: QuantizedNetwork) -> Iterator[Diagnostic]:
    for port in quantized.inputs:
        if port.graded and not quantized.formats.get("programmable", True):
            limit = f"{quoted(quantized.chip)} takes spikes of 0 and 1"
            yield Diagnostic(f"input {quoted(port.name)}", "graded values", limit, _GRADED)
    for p in quantized.populations:
        yield from register_problems(p)
    silent = {p.name for p in quantized.populations if not p.neuron.fires}
    for p in quantized.projections:
        yield from synapse_problems(p)
        if p.source in silent:
            subject = f"projection {quoted(p.source)} to {quoted(p.target)}"
            yield Diagnostic(
                subject, "its source is a readout", "values of v are not sent on the chip", "end the network there"
            )
        elif math.prod(p.operator.output_shape) == 0:
            yield Diagnostic(f"population {quoted(p.target)}", "no neurons", "", "remove it")
