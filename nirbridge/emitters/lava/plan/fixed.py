"""The plan of a program in integers: one process per population, or one per population and core."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from nirbridge.arrays import Array, freeze
from nirbridge.emitters.lava.plan.model import LavaPlan
from nirbridge.emitters.lava.plan.processes import lava_layer, lava_synapse, register_problems, synapse_problems, v_max
from nirbridge.emitters.program import InputSpec, PopulationParts, ProcessPart, output_spec
from nirbridge.errors import Diagnostic, ModelError, quoted
from nirbridge.network.apply import matrix
from nirbridge.network.operators import Dense, Sparse
from nirbridge.quantization.model import FixedPopulation, FixedProjection, QuantizedNetwork

if TYPE_CHECKING:
    from nirbridge.mapping.model import MappedNetwork

_SYNAPSES_MAX = 200_000_000
_GRADED = "encode its values as spikes (nirbridge.simulators.encoders), or choose a chip with graded spikes (loihi2)"


def fixed_plan(quantized: QuantizedNetwork, mapped: MappedNetwork | Sequence[Any] | None = None) -> LavaPlan:
    """Which processes compute a quantized network; with ``mapped`` one per core that holds a piece of a population.

    Raises:
        ModelError: what Lava or the chip cannot hold; every problem.
    """
    ModelError.raise_all(_problems(quantized))
    pieces = {p.name: (None,) for p in quantized.populations} if mapped is None else split_by_core(quantized, mapped)
    return _plan(quantized, pieces)


def _plan(quantized: QuantizedNetwork, pieces: Mapping[str, tuple[Array | None, ...]]) -> LavaPlan:
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
    return LavaPlan(
        chip=quantized.chip,
        dt=quantized.dt,
        tag="fixed_pt",
        layers=tuple(layers),
        synapses=tuple(synapses),
        inputs=tuple(InputSpec(i.name, i.shape, inputs[i.name], i.value_max, i.scale) for i in quantized.inputs),
        nodes=tuple(_node(quantized, name, slices) for name, slices in parts.items() if name not in inputs),
        outputs=tuple(output_spec(port.name, port.shape, quantized.reads) for port in quantized.outputs),
        latency=quantized.latency,
        notes=quantized.notes,
        extra={"assumed": list(quantized.network.assumed) if quantized.network is not None else []},
    )


def _node(quantized: QuantizedNetwork, name: str, parts: tuple[ProcessPart, ...]) -> PopulationParts:
    p = quantized.population(name)
    n = p.neuron
    return PopulationParts(name, p.shape, parts, n.fires, n.max_spikes, n.scale, n.v_offset)


def _message_bits(quantized: QuantizedNetwork) -> dict[str, int]:
    """0 for sources of spikes 0 and 1; of several or graded ones the bits that their greatest value takes."""
    bits = {i.name: i.value_max.bit_length() if i.graded else 0 for i in quantized.inputs}
    for p in quantized.populations:
        bits[p.name] = p.neuron.max_spikes.bit_length() if p.neuron.max_spikes > 1 else 0
    return bits


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


def split_by_core(
    quantized: QuantizedNetwork, mapped: MappedNetwork | Sequence[Any]
) -> Mapping[str, tuple[Array | None, ...]]:
    """Per population the flat indices of each of its slices, block by block; of a map, or of slices one by one.

    Raises:
        ModelError: the map is of another network.
    """
    shapes = {p.name: p.shape for p in quantized.populations}
    indices: dict[str, list[Array]] = {name: [] for name in shapes}
    orders = {} if isinstance(mapped, Sequence) else mapped.partition.orders
    pieces = mapped if isinstance(mapped, Sequence) else [s for b in mapped.partition.blocks for s in b.slices]
    for piece in pieces:
        if piece.population not in shapes:
            raise ModelError.of("map", f"has a population {quoted(piece.population)}", "", "map this network")
        shape = shapes[piece.population]
        grid = np.arange(int(np.prod(shape)), dtype=np.int64).reshape(shape)
        places = grid[tuple(slice(a, b) for a, b in piece.box)].ravel()
        order = orders.get(piece.population)
        indices[piece.population].append(places if order is None else np.asarray(order)[places])
    for name, slices in indices.items():
        size = int(np.prod(shapes[name]))
        if sum(map(len, slices)) != size or len(np.unique(np.concatenate([*slices, np.zeros(0, np.int64)]))) != size:
            raise ModelError.of("map", f"does not cover population {quoted(name)}", "", "map this network")
    return {name: tuple(slices) for name, slices in indices.items()}


def population_slice(p: FixedPopulation, at: Array | None) -> FixedPopulation:
    """The population of the neurons at these flat indices; all of it for None."""
    return p if at is None else replace(p, shape=(len(at),), neuron=_of_neurons(p.neuron, at))


def _of_neurons(values: Any, at: Array) -> Any:
    """An array of neurons, or every one of a record, cut to some of them; all else as it is."""
    if is_dataclass(values) and not isinstance(values, type):
        return replace(values, **{f.name: _of_neurons(getattr(values, f.name), at) for f in fields(values)})
    return freeze(values.ravel()[at]) if isinstance(values, np.ndarray) and values.ndim else values


def synapses_between(
    p: FixedProjection, sources: tuple[ProcessPart, ...], targets: tuple[ProcessPart, ...]
) -> Iterator[tuple[FixedProjection, str, str]]:
    """(projection, id of the source's process, id of the target's) for every pair that shares a synapse."""
    if all(part.at is None for part in (*sources, *targets)):
        yield p, sources[0].id, targets[0].id
        return
    rows = matrix(p.operator, _SYNAPSES_MAX)
    for target in targets:
        some = rows if target.at is None else rows[target.at]
        for source in sources:
            piece = some if source.at is None else some[:, source.at]
            if piece.nnz:
                yield _cut(p, piece, source.at, target.at), source.id, target.id


def _cut(p: FixedProjection, piece: Any, source: Array | None, target: Array | None) -> FixedProjection:
    from scipy.sparse import csr_array

    rows: Any = csr_array(piece)
    rows.sort_indices()
    shape = rows.shape
    if isinstance(p.operator, Dense):
        operator: Dense | Sparse = Dense(freeze(rows.toarray(), np.int64))
    else:
        arrays = (freeze(a, np.int64) for a in (rows.indptr, rows.indices, rows.data))
        operator = Sparse(*arrays, input_shape=(shape[1],), output_shape=(shape[0],))
    delays = p.delay_steps if not p.delay_steps.ndim or source is None else freeze(p.delay_steps.ravel()[source])
    late = p.target_delay_steps
    late = late if not late.ndim or target is None else freeze(late.ravel()[target])
    return replace(p, operator=operator, delay_steps=delays, target_delay_steps=late)
