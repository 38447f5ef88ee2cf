"""Cost of a slice on a core: closed forms over the structure of its incoming projections.

Sums over several slices of a core are upper bounds of its use (shared sources and decays count once there);
``mapping.checker`` counts exactly.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from itertools import product
from typing import NamedTuple

import numpy as np

from nirbridge._types import Box, Shape
from nirbridge.arrays import Array
from nirbridge.chips.model import Chip, SynapseFormat
from nirbridge.network.model import Network, Population, Projection
from nirbridge.network.operators import Chain, Conv, Identity, Reshape, SumPool
from nirbridge.partitioner.cost.axis import Axis
from nirbridge.partitioner.cost.connectivity import (
    AllToAll,
    AxisLists,
    Connectivity,
    Explicit,
    Patterns,
    Separable,
    axis_lists,
    box_lists,
    connectivity,
    flat_indices,
    input_channels,
    mark_sources,
    numbering_axes,
    out_degrees,
    range_patterns,
    sources_of,
)
from nirbridge.partitioner.cost.resources import (
    as_stored,
    axon_list_words,
    delay_on_chip_steps,
    distinct_profiles,
    fills_gaps,
    profile_counts,
    run_words,
    shared_list_words,
)

# -- translations --------------------------------------------------------------------------------------------------
# Which boxes have the same lists of synapses but for a shift of the sources: what is counted for one holds for all.
#
# Next-fit streams cut a layer at places that come again and again; to list the synapses of every core would take longer
# than the search. Boxes of a separable projection are alike where the relations of their ranges, counted from the first
# output and the first input, are equal element by element on every axis, and several boxes of a core lie as far apart.


class Translations:
    """Keys of boxes, equal where they are alike. Axes are told apart by identity: they have to stay alive."""

    def __init__(self) -> None:
        self._numbers: dict[object, int] = {}
        self._ranges: dict[tuple[int, int, int], tuple[int, int]] = {}

    def key(self, form: Separable, boxes: Sequence[Box]) -> Hashable:
        """The key of boxes that a core numbers one after the other, by one projection."""
        key: list[Hashable] = []
        corner = [start for start, _ in boxes[0]]
        origin: list[int] = []
        for box in boxes:
            found = [self._range(axis, *span) for axis, span in zip(form.axes, box, strict=True)]
            first = [base for _, base in found]
            origin = origin or first
            away = tuple(start - c for (start, _), c in zip(box, corner, strict=True))
            sources_away = tuple(a - b for a, b in zip(first, origin, strict=True))
            key.append((tuple(b - a for a, b in box), tuple(number for number, _ in found), away, sources_away))
        return tuple(key)

    def _range(self, axis: Axis, start: int, stop: int) -> tuple[int, int]:
        """A number that is equal for ranges that are alike, and the first input of the range."""
        key = (id(axis), start, stop)
        if key not in self._ranges:
            content, first = _content(axis, start, stop)
            self._ranges[key] = self._numbers.setdefault(content, len(self._numbers)), first
        return self._ranges[key]


def _content(axis: Axis, start: int, stop: int) -> tuple[object, int]:
    if axis.full:
        return axis.touched.tobytes(), 0
    places, inputs = axis.within(start, stop)
    first = int(inputs.min()) if len(inputs) else 0
    outputs = axis.outs[places] - start
    return (outputs.tobytes(), (inputs - first).tobytes(), axis.taps[places].tobytes()), first


def with_shared_axes(form: Connectivity, known: dict[object, Axis]) -> Connectivity:
    """The form with one object for all equal axes: what is cached by axis then serves every layer alike."""
    if not isinstance(form, Separable):
        return form
    return Separable(tuple(known.setdefault(_all_of(axis), axis) for axis in form.axes))


def _all_of(axis: Axis) -> tuple[object, ...]:
    lists = (axis.touched, axis.indptr, axis.outs, axis.taps)
    return axis.n_in, axis.n_out, axis.full, axis.contiguous, *(a.tobytes() for a in lists)


class SliceCost(NamedTuple):
    """Cost of one slice without its output axons, in the order of the packing vectors."""

    neurons: int
    input_axons: int
    synapse_words: int
    decay_profiles: int
    threshold_profiles: int


@dataclass(frozen=True, slots=True, eq=False)
class IncomingProjection:
    """One projection into a population, with its structure."""

    index: int
    source: str
    form: Connectivity
    delayed: bool
    shares: bool
    fills: bool


def box_size(box: Box) -> int:
    """Number of neurons of a box."""
    return math.prod(b - a for a, b in box)


@dataclass(frozen=True, slots=True, eq=False)
class CostModel:
    """The network seen from a core of ``chip`` with ``weight_bits`` weights. Build it with ``cost_model``.

    ``like`` names, for each population, the first one whose boxes cost the same. The dicts after it are caches;
    ``kinds`` is that of the tiling: (population, axis, cuts) -> kinds of ranges.
    """

    network: Network
    chip: Chip
    weight_bits: int
    populations: Mapping[str, Population]
    shapes: Mapping[str, Shape]
    incoming: Mapping[str, tuple[IncomingProjection, ...]]
    outgoing: Mapping[str, tuple[tuple[str, IncomingProjection], ...]]
    count_decays: bool
    count_thresholds: bool
    like: Mapping[str, str]
    kinds: dict[tuple[str, int, int], list[tuple[tuple[int, int], int]]] = field(default_factory=dict)
    _costs: dict[tuple[str, Box], SliceCost] = field(default_factory=dict)
    _lists: dict[int, AxisLists | None] = field(default_factory=dict)
    _patterns: dict[tuple[int, int, int], Patterns] = field(default_factory=dict)
    _words: dict[tuple[object, ...], int] = field(default_factory=dict)
    _alike: Translations = field(default_factory=Translations)

    def cost(self, population: str, box: Box) -> SliceCost:
        """The cost of one box of a population, on its own."""
        key = (self.like[population], box)
        if key not in self._costs:
            words = sum(self.words(population, edge, box) for edge in self.incoming[population])
            profiles = self._profiles(population, box)
            self._costs[key] = SliceCost(box_size(box), self.axons(population, box), words, *profiles)
        return self._costs[key]

    def axons(self, population: str, box: Box) -> int:
        """Distinct sources with a target in the box."""
        total = 0
        by_source: dict[str, list[IncomingProjection]] = {}
        for edge in self.incoming[population]:
            by_source.setdefault(edge.source, []).append(edge)
        for edges in by_source.values():
            if len(edges) == 1:
                total += self._single_axons(population, edges[0], box)
            else:
                sources = [self.sources(population, edge, box)[0] for edge in edges]
                total += len(np.unique(np.concatenate(sources)))
        return total

    def _single_axons(self, population: str, edge: IncomingProjection, box: Box) -> int:
        form = edge.form
        if isinstance(form, AllToAll):
            return int(form.touched.sum())
        if isinstance(form, Separable):
            return math.prod(
                sum(n for _, n, _ in self.axis_patterns(axis, lo, hi))
                for axis, (lo, hi) in zip(form.axes, box, strict=True)
            )
        return len(self.sources(population, edge, box)[0])

    def sources(self, population: str, edge: IncomingProjection, box: Box) -> tuple[Array, Array]:
        """Flat indices of the edge's sources with a target in the box, and how many targets each has there."""
        shape = self.shapes[population]
        return sources_of(edge.form, box, lambda b: flat_indices(shape, b))

    def mark_sources(self, population: str, edge: IncomingProjection, box: Box, marks: Array) -> None:
        """Set the marks (bool, flat) of the edge's sources with a target in the box."""
        shape = self.shapes[population]
        mark_sources(edge.form, box, lambda b: flat_indices(shape, b), marks)

    def words(self, population: str, edge: IncomingProjection, box: Box) -> int:
        """Words that one projection takes in a core that holds this box."""
        form, fmt, bits = edge.form, self.chip.synapses, self.weight_bits
        if isinstance(form, AllToAll):
            return int(form.touched.sum()) * run_words(box_size(box), fmt, bits, delayed=edge.delayed)
        if isinstance(form, Separable):
            return self._separable_words(edge, form, box)
        return self.listed_words(population, edge, (box,))

    def listed_words(self, population: str, edge: IncomingProjection, boxes: Sequence[Box]) -> int:
        """Words of one projection into boxes numbered one after the other in a core, synapse by synapse."""
        form = edge.form
        kind = self._alike.key(form, boxes) if isinstance(form, Separable) else (edge.index, *boxes)
        key = (kind, edge.delayed, edge.shares, edge.fills)
        if key not in self._words:
            self._words[key] = self._count_listed(population, edge, boxes)
        return self._words[key]

    def _count_listed(self, population: str, edge: IncomingProjection, boxes: Sequence[Box]) -> int:
        shape, form = self.shapes[population], edge.form
        assert not isinstance(form, AllToAll), "runs of a dense projection are counted in closed form"
        sources, positions, taps, start = [], [], [], 0
        for box in boxes:
            source, position, tap = box_lists(form, box, flat_indices(shape, box))
            sources.append(source)
            positions.append(position + start)
            taps.append(tap)
            start += box_size(box)
        source, position = np.concatenate(sources), np.concatenate(positions)
        fmt, bits, low = self.chip.synapses, self.weight_bits, start.bit_length()
        if edge.shares and isinstance(form, Separable):
            order = np.lexsort((position, source))
            source, channel, tap = source[order], input_channels(form, source[order]), np.concatenate(taps)[order]
            return shared_list_words(source, position[order], tap, channel, fmt, bits, delayed=edge.delayed)
        source, position = np.divmod(np.sort((source << low) | position), 1 << low)
        words = axon_list_words(source, position, fmt, bits, delayed=edge.delayed, filled=edge.fills)[1]
        return int(words.sum())

    def _separable_words(self, edge: IncomingProjection, form: Separable, box: Box) -> int:
        order = numbering_axes(form.target_shape)[::-1]
        patterns = tuple(self.axis_patterns(form.axes[a], *box[a]) for a in order)
        widths = tuple(box[a][1] - box[a][0] for a in order)
        key = (order, patterns, widths, edge.delayed, edge.shares)
        if key not in self._words:
            self._words[key] = self.pattern_words(edge, order, patterns, widths)
        return self._words[key]

    def pattern_words(
        self, edge: IncomingProjection, order: tuple[int, ...], patterns: tuple[Patterns, ...], widths: tuple[int, ...]
    ) -> int:
        """Words of a box known by the patterns of its axes, fastest axis first."""
        total = 0
        # shared: one copy per distinct pattern, and channel; a flat input is one channel
        every = order if not edge.shares else (0,) if len(order) > 1 else ()
        for combination in product(*patterns):
            alike = [n if axis in every else d for axis, (_, n, d) in zip(order, combination, strict=True)]
            total += math.prod(alike) * self._list_words([r for r, _, _ in combination], widths, delayed=edge.delayed)
        return total

    def _list_words(self, runs: list[tuple[int, ...]], widths: tuple[int, ...], *, delayed: bool) -> int:
        """Words of one axon whose targets are a product of runs, fastest axis first."""
        fmt, bits = self.chip.synapses, self.weight_bits
        stretches, repeats, carry = [1], 1, 1
        merged = True
        for lengths, width in zip(runs, widths, strict=True):
            if merged:
                stretches = [n * carry for n in lengths]
                merged = lengths == (width,)
                carry *= width
            else:
                repeats *= sum(lengths)
        words = repeats * sum(run_words(n, fmt, bits, delayed=delayed) for n in stretches)
        if fmt.index_bits is None:
            return words
        targets = math.prod(sum(lengths) for lengths in runs)
        return min(words, run_words(targets, fmt, bits, delayed=delayed, sparse=True))

    def axis_patterns(self, axis: Axis, lo: int, hi: int) -> Patterns:
        """(run lengths within [lo, hi), inputs with that pattern, distinct taps among them) of inputs that reach."""
        key = (id(axis), lo, hi)
        if key not in self._patterns:
            if id(axis) not in self._lists:
                self._lists[id(axis)] = axis_lists(axis)
            self._patterns[key] = range_patterns(axis, self._lists[id(axis)], lo, hi)
        return self._patterns[key]

    def range_kind(self, population: str, axis: int, piece: tuple[int, int]) -> object:
        """Equal for ranges along an axis with equal costs of the population's slices, for any other axes."""
        if self.count_decays or self.count_thresholds:
            return piece
        kind: list[object] = [piece[1] - piece[0]]
        for edge in self.incoming[population]:
            if isinstance(edge.form, Explicit):
                return piece
            if isinstance(edge.form, Separable):
                kind.append(self.axis_patterns(edge.form.axes[axis], *piece))
        joint = len({edge.source for edge in self.incoming[population]}) < len(self.incoming[population])
        # sources that two projections share are counted once: that depends on where the range lies
        return piece if joint else tuple(kind)

    def _profiles(self, population: str, box: Box) -> tuple[int, int]:
        if not (self.count_decays or self.count_thresholds):
            return 0, 0
        decays, thresholds = profile_counts(self.populations, ((population, box),))
        return decays if self.count_decays else 0, thresholds if self.count_thresholds else 0


def shares_kernels(projection: Projection, form: Connectivity, fmt: SynapseFormat) -> bool:
    """True where the chip stores alike kernels once: convolutions, pools, one to one (and chains of them)."""
    operator = projection.operator
    parts = operator.parts if isinstance(operator, Chain) else (operator,)
    alike = all(isinstance(p, Conv | SumPool | Identity | Reshape) for p in parts)
    # a flat input is one channel; one that is flattened on the way keeps its own
    in_channels = isinstance(form, Separable) and (len(form.axes) > 1 or len(operator.input_shape) == 1)
    return fmt.shared_kernels and alike and in_channels


def cost_model(network: Network, chip: Chip, weight_bits: int) -> CostModel:
    """The sizes of ``network`` on ``chip``.

    Raises:
        ModelError: a projection has neither a closed form nor few enough synapses to be listed.
    """
    network = as_stored(network, chip)
    populations, shapes = {p.name: p for p in network.populations}, {p.name: p.shape for p in network.populations}
    incoming: dict[str, list[IncomingProjection]] = {p.name: [] for p in network.populations}
    outgoing: dict[str, list[tuple[str, IncomingProjection]]] = {p.name: [] for p in network.populations}
    axes: dict[object, Axis] = {}
    for index, projection in enumerate(network.projections):
        if projection.target not in shapes:
            continue
        form = connectivity(projection.operator, f"projection {projection.source!r} -> {projection.target!r}")
        form = with_shared_axes(form, axes)
        shares = shares_kernels(projection, form, chip.synapses)
        delayed, fills = delay_on_chip_steps(projection) > 0, fills_gaps(projection.operator)
        edge = IncomingProjection(index, projection.source, form, delayed, shares, fills)
        incoming[projection.target].append(edge)
        if projection.source in shapes:
            outgoing[projection.source].append((projection.target, edge))
    decays, thresholds = distinct_profiles(network)
    count_decays = chip.core.decay_profiles is not None and decays > chip.core.decay_profiles
    count_thresholds = chip.core.threshold_profiles is not None and thresholds > chip.core.threshold_profiles
    like = {name: name for name in shapes} if count_decays or count_thresholds else _alike(shapes, incoming)
    fed, feeds = {k: tuple(v) for k, v in incoming.items()}, {k: tuple(v) for k, v in outgoing.items()}
    of_network = (populations, shapes, fed, feeds)
    return CostModel(network, chip, weight_bits, *of_network, count_decays, count_thresholds, like)


def _alike(shapes: Mapping[str, Shape], incoming: Mapping[str, Sequence[IncomingProjection]]) -> dict[str, str]:
    """Per population the first one with the same windows from as many sources (axes are shared, see ``cost_model``)."""
    first: dict[object, str] = {}
    like = {}
    for name, edges in incoming.items():
        one_each = len({edge.source for edge in edges}) == len(edges)
        kind: object = name
        if one_each and all(isinstance(edge.form, Separable) for edge in edges):
            forms = [(edge.form.axes, edge) for edge in edges if isinstance(edge.form, Separable)]
            kind = (shapes[name], tuple((*map(id, axes), e.delayed, e.shares) for axes, e in forms))
        like[name] = first.setdefault(kind, name)
    return like


def total_out_degrees(sizes: CostModel) -> dict[str, Array]:
    """Targets of each source neuron or host input over all its projections onto the chip: int64, flat, by name."""
    totals: dict[str, Array] = {}
    for edges in sizes.incoming.values():
        for edge in edges:
            degrees = out_degrees(edge.form)
            totals[edge.source] = totals[edge.source] + degrees if edge.source in totals else degrees
    return totals


def touched_pieces(sizes: CostModel, population: str, tilings: Mapping[str, tuple[Box, ...]]) -> Array:
    """Per neuron of a population, how many pieces of the tilings hold a target of it (int64, population's shape).

    This is its number of output axons when every piece has a core of its own, and an upper bound in any packing.
    """
    shape = sizes.shapes[population]
    total = np.zeros(math.prod(shape), np.int64)
    by_target: dict[str, list[IncomingProjection]] = {}
    for target, edge in sizes.outgoing[population]:
        by_target.setdefault(target, []).append(edge)
    for target, edges in by_target.items():
        by_axis = _touched_by_axis(edges, tilings[target])
        if by_axis is not None:
            total += by_axis
            continue
        for box in tilings[target]:
            total[reduce(np.union1d, [sizes.sources(target, edge, box)[0] for edge in edges])] += 1
    return total.reshape(shape)


def _touched_by_axis(edges: list[IncomingProjection], boxes: tuple[Box, ...]) -> Array | None:
    """The same for one separable projection onto a grid of boxes: a product over the axes; None elsewhere."""
    if len(edges) > 1 or not isinstance(form := edges[0].form, Separable):
        return None
    ranges = [sorted({box[axis] for box in boxes}) for axis in range(len(form.axes))]
    if math.prod(len(r) for r in ranges) != len(boxes) or set(product(*ranges)) != set(boxes):
        return None
    counts = [np.zeros(axis.n_in, np.int64) for axis in form.axes]
    for count, axis, cuts in zip(counts, form.axes, ranges, strict=True):
        for lo, hi in cuts:
            count[axis.inputs_of(lo, hi)[0]] += 1
    return reduce(np.multiply.outer, counts).ravel()
