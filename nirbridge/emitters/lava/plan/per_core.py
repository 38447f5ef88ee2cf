"""Populations cut as a map cuts them, so that every core has processes of its own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from nirbridge.arrays import Array, freeze
from nirbridge.emitters.lava.plan.model import ProcessPart
from nirbridge.errors import ModelError, quoted
from nirbridge.network.apply import matrix
from nirbridge.network.operators import Dense, Sparse
from nirbridge.quantization.model import FixedPopulation, FixedProjection, QuantizedNetwork

if TYPE_CHECKING:
    from nirbridge.mapping.model import MappedNetwork

_SYNAPSES_MAX = 200_000_000
_PER_NEURON = ("du", "dv", "bias_mant", "fires_above", "reset_amount", "spike_size", "refractory_steps", "v_init")


def split_by_core(
    quantized: QuantizedNetwork, mapped: MappedNetwork | Sequence[Any]
) -> Mapping[str, tuple[Array | None, ...]]:
    """Per population the flat indices of each of its slices, block by block; of a map, or of slices one by one.

    Raises:
        ModelError: the map is of another network.
    """
    shapes = {p.name: p.shape for p in quantized.populations}
    indices: dict[str, list[Array]] = {name: [] for name in shapes}
    pieces = mapped if isinstance(mapped, Sequence) else [s for b in mapped.partition.blocks for s in b.slices]
    for piece in pieces:
        if piece.population not in shapes:
            raise ModelError.of("map", f"has a population {quoted(piece.population)}", "", "map this network")
        shape = shapes[piece.population]
        grid = np.arange(int(np.prod(shape)), dtype=np.int64).reshape(shape)
        indices[piece.population].append(grid[tuple(slice(a, b) for a, b in piece.box)].ravel())
    for name, slices in indices.items():
        size = int(np.prod(shapes[name]))
        if sum(map(len, slices)) != size or len(np.unique(np.concatenate([*slices, np.zeros(0, np.int64)]))) != size:
            raise ModelError.of("map", f"does not cover population {quoted(name)}", "", "map this network")
    return {name: tuple(slices) for name, slices in indices.items()}


def population_slice(p: FixedPopulation, at: Array | None) -> FixedPopulation:
    """The population of the neurons at these flat indices; all of it for None."""
    if at is None:
        return p
    fields = {name: getattr(p.neuron, name) for name in (*_PER_NEURON, "u_init", "scale", "v_offset")}
    cut = {name: a if a is None or not a.ndim else freeze(a.ravel()[at]) for name, a in fields.items()}
    return replace(p, shape=(len(at),), neuron=replace(p.neuron, **cut))


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
