"""Synapses that a map leaves out because their integers are 0, where the chip stores lists or a crossbar.

Decided on the integers that the cores hold (on the real weights, where nothing runs the map). A source keeps a full row
where that takes no more words than its list without zeros; kernels of windows stay whole. The weights of the network
are not changed: only the structure that is counted (``MappedNetwork.stored_network``).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from nirbridge._types import Shape
from nirbridge.arrays import Array, freeze
from nirbridge.chips.model import Chip, SynapseFormat
from nirbridge.errors import NirbridgeError
from nirbridge.mapping.integers import default_integers
from nirbridge.mapping.synapses import synapse_count
from nirbridge.network.apply import matrix
from nirbridge.network.compose import part_weights, parts_of
from nirbridge.network.model import Network, Projection
from nirbridge.network.operators import Chain, Conv, Dense, Identity, Operator, Reshape, Scale, Sparse, SumPool
from nirbridge.partitioner.cost.resources import axon_list_words, delay_on_chip_steps, run_words
from nirbridge.quantization.model import FixedProjection, QuantizedNetwork

SAVED_LEAST = 16
"""A dense projection becomes lists if they save at least one word in this number; else its closed form stays."""
LISTED_MAX = 30_000_000
"""Projections with more synapses stay whole: the search lists no more."""
MATRIX_MAX = 5_000_000
LATENCY_MAX = 100_000
"""A file that states more is wrong, and states are stepped back by the latency."""
SCREENED_ABOVE = 1_000_000
"""Larger projections are quantized for their zeros only where many weights are small."""


@dataclass(frozen=True, slots=True)
class MapFacts:
    """The facts of a map that decide its integers; ``runs``: False where nothing runs it."""

    weight_bits: int
    latency: Mapping[str, int] | None = None
    early_spikes: tuple[str, ...] = ()
    runs: bool = True


def stored_operators(
    network: Network, chip: Chip, facts: MapFacts, integers: QuantizedNetwork | None = None
) -> dict[int, Operator]:
    """Index of each projection that is stored without its zeros, and the synapses that are stored.

    ``integers``: those that will run; None: those that ``mapping.integers.integers_of`` gives.
    """
    populations = {p.name for p in network.populations}
    fmt, bits = chip.synapses, facts.weight_bits
    if bits not in fmt.weight_bits:
        return {}
    asked = [
        k
        for k, p in enumerate(network.projections)
        if p.target in populations
        and may_be_cut(p.operator, fmt)
        and (integers is not None or may_hold_zeros(p.operator, bits))
    ]
    if not asked:
        return {}
    if integers is None and facts.runs:
        integers = _integers(network, chip, facts)
    held = {} if integers is None else {p.index: p for p in integers.projections}
    stored = {}
    for k in asked:
        operator = stored_of(network.projections[k], held.get(k), fmt, bits)
        if operator is not None:
            stored[k] = operator
    return stored


def _integers(network: Network, chip: Chip, facts: MapFacts) -> QuantizedNetwork | None:
    """The integers of the map; None where the chip has none for the network, so that the real weights count."""
    if max((facts.latency or {}).values(), default=0) > LATENCY_MAX:
        return None
    try:
        return default_integers(network, chip, facts.weight_bits, facts.latency, facts.early_spikes)
    except NirbridgeError:
        return None


def may_be_cut(operator: Operator, fmt: SynapseFormat) -> bool:
    """True if the synapses of an operator are stored one by one: windows keep their kernels, if not half are zeros."""
    parts = [part for part in parts_of(operator) if not isinstance(part, Identity | Reshape)]
    if any(isinstance(part, Dense | Sparse) for part in parts):
        return True
    if len(parts) != 1 or isinstance(parts[0], SumPool):
        return False
    part = parts[0]
    if isinstance(part, Conv):
        return not fmt.shared_kernels and 2 * int(np.count_nonzero(part.weight)) <= part.weight.size
    return isinstance(part, Scale)


def may_hold_zeros(operator: Operator, weight_bits: int) -> bool:
    """False where a look at the real weights shows that hardly any zero can be left out."""
    weights = [w for part in parts_of(operator) if (w := part_weights(part)) is not None]
    if any(_is_shape_alone(w) for w in weights):
        return False
    small = [int(np.count_nonzero(np.abs(w) <= _rounds_to_zero(w, weight_bits))) for w in weights]
    return any(
        n and (w.size <= SCREENED_ABOVE or n * SAVED_LEAST >= w.size) for n, w in zip(small, weights, strict=True)
    )


def _is_shape_alone(weights: Array) -> bool:
    """Weights of a shape without values: one element in memory."""
    return weights.size > 1 and not any(weights.strides)


def _rounds_to_zero(weights: Array, bits: int) -> float:
    """Weights up to this size are 0 where the largest fills a grid of steps of 2."""
    return 1.01 * float(np.abs(weights).max(initial=0.0)) / max(2 ** (bits - 1) - 1, 1)


def stored_of(
    projection: Projection, held: FixedProjection | None, fmt: SynapseFormat, weight_bits: int
) -> Operator | None:
    """The synapses of one projection that are stored; None: all of its structure. ``held``: its integers."""
    operator = projection.operator
    weighted = operator if held is None else held.operator
    lists = _lists(weighted, operator)
    if lists is None:
        return None
    if isinstance(weighted, Dense) and len(lists.source) == int(lists.used.sum()) * len(lists.target):
        return None if lists.used.all() else _without_sources(operator, lists.used)
    kept = _full_rows(lists, fmt, weight_bits, delayed=delay_on_chip_steps(projection) > 0)
    if kept is None:
        whole = not isinstance(weighted, Dense) or lists.used.all()
        return None if whole else _without_sources(operator, lists.used)
    more = lists.rows(kept)
    own = ~kept[lists.source]
    source, place = np.concatenate((lists.source[own], more[0])), np.concatenate((lists.place[own], more[1]))
    return None if len(source) > LISTED_MAX else _pattern(operator, lists.target[place], source)


@dataclass(frozen=True, slots=True, eq=False)
class _Lists:
    """Synapses whose weight is not 0: ``source`` and ``place`` of each, by source, then place.

    ``place``: rank of the target in the order of numbering, ``target[place]`` its flat index. ``used`` [sources]: it
    has such a synapse. ``every``: the same pair of all synapses of the structure; None: every pair of them.
    """

    source: Array
    place: Array
    target: Array
    used: Array
    every: tuple[Array, Array] | None

    def rows(self, sources: Array) -> tuple[Array, Array]:
        """Source and place of all synapses of the structure from ``sources`` (a mask)."""
        if self.every is not None:
            own = sources[self.every[0]]
            return self.every[0][own], self.every[1][own]
        index = np.flatnonzero(sources)
        return np.repeat(index, len(self.target)), np.tile(np.arange(len(self.target)), len(index))


def _lists(weighted: Operator, operator: Operator) -> _Lists | None:
    """The lists of an operator with the weights of ``weighted``; None: no zeros, or too many synapses to look at."""
    shape = operator.output_shape
    target = np.arange(math.prod(shape)).reshape(shape).transpose(*range(1, len(shape)), *range(len(shape))[:1]).ravel()
    columns = math.prod(operator.input_shape)
    if isinstance(weighted, Dense):
        present = weighted.weight != 0
        if present.all():
            return None
        source, place = np.nonzero(present[target].T)
        return _Lists(source, place, target, present.any(axis=0), None)
    try:
        table = weighted if isinstance(weighted, Sparse) else matrix(weighted, MATRIX_MAX)
    except NirbridgeError:
        return None
    present = np.asarray(table.data) != 0
    if present.all():
        return None
    rank = np.empty(len(target), np.int64)
    rank[target] = np.arange(len(target))
    place, source = rank[np.repeat(np.arange(len(target)), np.diff(table.indptr))], np.asarray(table.indices, np.int64)
    order = np.lexsort((place, source))
    place, source, present = place[order], source[order], present[order]
    used = np.bincount(source[present], minlength=columns) > 0
    return _Lists(source[present], place[present], target, used, (source, place))


def _full_rows(lists: _Lists, fmt: SynapseFormat, bits: int, *, delayed: bool) -> Array | None:
    """The sources that keep their zeros, bool [sources]; None: every used one, for want of a gain."""
    if fmt.words is None:
        return np.zeros(len(lists.used), bool)
    full, cut = np.zeros((2, len(lists.used)), np.int64)
    ids, words = axon_list_words(lists.source, lists.place, fmt, bits, delayed=delayed)
    cut[ids] = words
    if lists.every is None:
        full[:] = run_words(len(lists.target), fmt, bits, delayed=delayed)
    else:
        ids, words = axon_list_words(*lists.every, fmt, bits, delayed=delayed)
        full[ids] = words
    kept = lists.used & (full <= cut)
    before = int(full[lists.used].sum()) if lists.every is None else int(full.sum())
    saved = before - int(np.where(kept, full, cut).sum())
    worth = saved > 0 and (lists.every is not None or saved * SAVED_LEAST >= before)
    return kept if worth else None


def _pattern(operator: Operator, target: Array, source: Array) -> Sparse:
    """A structure without weights."""
    order = np.lexsort((source, target))
    counts = np.bincount(target, minlength=math.prod(operator.output_shape))
    indptr = np.concatenate(([0], np.cumsum(counts)))
    return _ones(indptr, source[order], operator.input_shape, operator.output_shape)


def _ones(indptr: Array, indices: Array, input_shape: Shape, output_shape: Shape) -> Sparse:
    ones = freeze(np.broadcast_to(np.float64(1), indices.shape))
    return Sparse(freeze(indptr, np.int64), freeze(indices, np.int64), ones, input_shape, output_shape)


def _without_sources(operator: Operator, used: Array) -> Operator:
    """Full rows of the sources that have a weight: the closed form of a dense projection."""
    index, rows = np.flatnonzero(used), math.prod(operator.output_shape)
    if len(index) == 0:
        return _pattern(operator, index, index)
    picked = _ones(np.arange(len(index) + 1), index, operator.input_shape, (len(index),))
    full = Dense(freeze(np.broadcast_to(np.float64(1), (rows, len(index)))))
    if operator.output_shape == (rows,):
        return Chain((picked, full))
    return Chain((picked, full, Reshape((rows,), operator.output_shape)))


def left_out_note(network: Network, stored: Mapping[int, Operator]) -> str:
    """How many synapses are not stored, as a note of the map."""
    every = sum(synapse_count(network.projections[k].operator) for k in stored)
    gone = every - sum(synapse_count(operator) for operator in stored.values())
    return f"{gone:,} of {every:,} weights are 0 in the chip's integers and take no synapse (--keep-zeros stores them)"


def lost_weights(network: Network, stored: Mapping[int, Operator], integers: QuantizedNetwork | None) -> dict[int, int]:
    """Weights that are not 0 and have no synapse, by the index of their projection; none: the map holds them all.

    ``integers``: those that run; None: the real weights count.
    """
    held = {} if integers is None else {p.index: p.operator for p in integers.projections}
    lost = {k: _missing(operator, held.get(k, network.projections[k].operator)) for k, operator in stored.items()}
    return {k: missing for k, missing in lost.items() if missing}


def _missing(stored: Operator, weighted: Operator) -> int:
    """Weights other than 0 outside the stored structure."""
    pattern = stored.parts[0] if isinstance(stored, Chain) else stored
    assert isinstance(pattern, Sparse), "zeros are left out of lists, or of whole sources"
    if isinstance(weighted, Dense):
        present = weighted.weight != 0
        if isinstance(stored, Chain):
            held = present[:, pattern.indices]
        else:
            held = present[np.repeat(np.arange(len(pattern.indptr) - 1), np.diff(pattern.indptr)), pattern.indices]
        return int(np.count_nonzero(present)) - int(np.count_nonzero(held))
    table: Any = matrix(weighted, LISTED_MAX)
    held = table.multiply(matrix(pattern, LISTED_MAX))
    return int(table.count_nonzero() - held.count_nonzero())
