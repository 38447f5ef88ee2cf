"""Tilings of a population into slices that each fit a core: grids, largest ones, stretches; first-fit packing."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby, pairwise, product

import numpy as np

from nirbridge._types import Box, Shape
from nirbridge.arrays import Array
from nirbridge.chips.model import Chip
from nirbridge.partitioner.cost.resources import limits, run_words
from nirbridge.partitioner.cost.sizing import CostModel, SliceCost, box_size, touched_pieces
from nirbridge.partitioner.model import Slice

Tilings = dict[str, tuple[Box, ...]]
ChannelRanges = tuple[tuple[int, int], ...]
"""The channels of a population in groups: from the first to before the second number."""
Cut = Callable[[CostModel, str, Array | None, Array], tuple[Box, ...]]
"""How one population is cut, as ``best_grid`` does."""

UNLIMITED = 2**60
ROUNDS_MAX = 40
"""Rounds in which tilings are refined against each other before the search gives up."""


class NoTiling(Exception):
    """A population has no tiling within the limits (inner signal; ``explain`` says why to the user)."""

    def __init__(self, population: str, output_axons: int) -> None:
        super().__init__(population)
        self.population, self.output_axons = population, output_axons


def capacity(chip: Chip) -> Array:
    """Limits of a core as a packing vector: the fields of ``SliceCost`` in order, then output axons (int64 [6])."""
    limit = limits(chip)
    names = (*SliceCost._fields, "output_axons")
    return np.array([UNLIMITED if limit[n] is None else limit[n] for n in names], np.int64)


def shrunk_capacity(cap: Array, finer: int) -> Array:
    """Neurons and words of a fraction of a core; axons in full, since a finer cut does not need fewer of them."""
    smaller = cap.copy()
    smaller[[0, 2]] = np.maximum(cap[[0, 2]] // finer, 1)
    return smaller


def cuts(length: int, parts: int) -> tuple[tuple[int, int], ...]:
    """``parts`` near-equal consecutive ranges of ``[0, length)``; the longer ones first."""
    quotient, rest = divmod(length, parts)
    edges = [i * quotient + min(i, rest) for i in range(parts + 1)]
    return tuple(pairwise(edges))


def grid(shape: Shape, parts: tuple[int, ...]) -> tuple[Box, ...]:
    """The boxes of a grid with ``parts`` near-equal cuts per axis, rows first and channels last."""
    axes = [cuts(n, p) for n, p in zip(shape, parts, strict=True)]
    if len(shape) == 1:
        return tuple((r,) for r in axes[0])
    return tuple((c, *spatial) for *spatial, c in product(*axes[1:], axes[0]))


def word_groups(sizes: CostModel, population: str) -> list[ChannelRanges]:
    """Cuts of the channels in two groups of which the first fills the words of a list: it can be cut at any pixel."""
    channels, fmt = sizes.shapes[population][0], sizes.chip.synapses
    if fmt.words is None or fmt.shared_kernels:
        return []
    words = run_words(np.arange(channels + 1), fmt, sizes.weight_bits, delayed=False)
    return [((0, n), (n, channels)) for n in range(1, channels) if words[n + 1] > words[n]]


def vector(sizes: CostModel, population: str, box: Box, slots: Array | None) -> Array:
    """The packing vector of a box: ``SliceCost`` and its output axons (0 where ``slots`` is None)."""
    out = 0 if slots is None else int(slots[tuple(slice(a, b) for a, b in box)].sum())
    return np.array([*sizes.cost(population, box), out], np.int64)


def _fits(sizes: CostModel, population: str, boxes: tuple[Box, ...], slots: Array | None, cap: Array) -> bool:
    # the first piece is among the largest: most grids that do not fit are refused by it alone
    return all(_is_within(sizes, population, box, slots, cap) for box in boxes)


def _is_within(sizes: CostModel, population: str, box: Box, slots: Array | None, cap: Array) -> bool:
    # neurons first: a box of too many is refused without listing all of its synapses
    return box_size(box) <= int(cap[0]) and bool(np.all(vector(sizes, population, box, slots) <= cap))


def largest_range_end(start: int, least: int, most: int, fits: Callable[[Box], bool]) -> int:
    """Largest end up to ``most`` of a range from ``start`` that fits, by bisection; ``least`` if none above does."""
    return most - bisect_left(range(most, least, -1), True, key=lambda stop: fits(((start, stop),)))


def _distinct_parts(length: int) -> tuple[int, ...]:
    """Numbers of cuts whose longest piece differ: one for each reachable length of the longest piece."""
    return tuple(sorted({math.ceil(length / size) for size in range(1, length + 1)}))


def _least_last(sizes: CostModel, name: str, lead: tuple[int, ...], slots: Array | None, cap: Array) -> int | None:
    options = _distinct_parts(sizes.shapes[name][-1])
    first = bisect_left(options, True, key=lambda parts: _grid_fits(sizes, name, (*lead, parts), slots, cap))
    return options[first] if first < len(options) else None


def slice_kinds(sizes: CostModel, name: str, parts: tuple[int, ...]) -> list[tuple[Box, int]]:
    """One box of each kind of piece of a grid, and how many are of that kind: pieces of a kind cost alike.

    Ranges along an axis are alike where every incoming projection has the same pattern there.
    """
    axes = [_kinds_of_ranges(sizes, name, axis, n) for axis, n in enumerate(parts)]
    return [(tuple(p for p, _ in combination), math.prod(n for _, n in combination)) for combination in product(*axes)]


def _kinds_of_ranges(sizes: CostModel, name: str, axis: int, parts: int) -> list[tuple[tuple[int, int], int]]:
    """One range of each kind along an axis that is cut into ``parts``, and how many are of that kind."""
    key = (sizes.like[name], axis, parts)
    if key not in sizes.kinds:
        kinds: dict[object, tuple[tuple[int, int], int]] = {}
        for piece in cuts(sizes.shapes[name][axis], parts):
            first, count = kinds.get(kind := sizes.range_kind(name, axis, piece), (piece, 0))
            kinds[kind] = (first, count + 1)
        sizes.kinds[key] = list(kinds.values())
    return sizes.kinds[key]


def _grid_fits(sizes: CostModel, name: str, parts: tuple[int, ...], slots: Array | None, cap: Array) -> bool:
    kinds = slice_kinds(sizes, name, parts)
    if not all(_is_within(sizes, name, box, None, cap) for box, _ in kinds):
        return False
    return slots is None or int(_grid_sums(slots, parts).max()) <= int(cap[-1])


def _grid_sums(values: Array, parts: tuple[int, ...]) -> Array:
    """Sums of ``values`` over the pieces of a grid."""
    for axis, (length, n) in enumerate(zip(values.shape, parts, strict=True)):
        values = np.add.reduceat(values, [a for a, _ in cuts(length, n)], axis=axis)
    return values


def best_grid(sizes: CostModel, name: str, slots: Array | None, cap: Array) -> tuple[Box, ...]:
    """The grid of fewest pieces that each fit ``cap`` (then of fewest words), of those whose longest pieces differ.

    Fewest where what fits fits in finer grids too; where it does not (borders, strides), a grid that fits.

    Raises:
        NoTiling: not even single neurons fit.
    """
    shape = sizes.shapes[name]
    if not _grid_fits(sizes, name, (1,) * len(shape), slots, cap):
        _check_single(sizes, name, slots, cap)
    best: tuple[int, int, tuple[int, ...]] | None = None
    # numbers of cuts of all axes but the last, which is searched
    for lead in sorted(product(*(_distinct_parts(n) for n in shape[:-1])), key=math.prod):
        if best is not None and math.prod(lead) > best[0]:
            break
        last = _least_last(sizes, name, lead, slots, cap)
        if last is None:
            continue
        parts = (*lead, last)
        words = sum(n * sizes.cost(name, box).synapse_words for box, n in slice_kinds(sizes, name, parts))
        candidate = (math.prod(parts), words, parts)
        best = candidate if best is None else min(best, candidate)
    if best is None:
        raise NoTiling(name, 0)
    return grid(shape, best[2])


def _check_single(sizes: CostModel, name: str, slots: Array | None, cap: Array) -> None:
    """Refuse at once, without a search, where one neuron alone does not fit."""
    shape = sizes.shapes[name]
    middle = tuple((n // 2, n // 2 + 1) for n in shape)
    if np.any(vector(sizes, name, middle, None) > cap):
        raise NoTiling(name, 0)
    if slots is not None and int(slots.max()) > int(cap[-1]):
        raise NoTiling(name, int(slots.max()))


def output_slots(sizes: CostModel, tilings: Mapping[str, tuple[Box, ...]]) -> dict[str, Array]:
    """Output axons of each neuron if every piece had a core of its own, by population."""
    return {name: touched_pieces(sizes, name, tilings) for name in sizes.shapes}


def tile_all(sizes: CostModel, cap: Array, cut: Cut = best_grid) -> tuple[Tilings, dict[str, Array]]:
    """Tilings of all populations that fit ``cap`` with their output axons counted, and those counts.

    Targets are cut before their sources, since cutting a target adds output axons to its sources. In a
    cycle the counts are refined until they settle.

    Raises:
        NoTiling: some population cannot be cut so that it fits.
    """
    names = [p.name for p in sizes.network.populations]
    first: Tilings = {}
    for name in names:
        if sizes.like[name] not in first:
            first[sizes.like[name]] = cut(sizes, name, None, cap)
    tilings: Tilings = {name: first[sizes.like[name]] for name in names}
    for _ in range(ROUNDS_MAX):
        changed = False
        for name in reversed(names):
            slots = touched_pieces(sizes, name, tilings)
            if not _fits(sizes, name, tilings[name], slots, cap):
                tilings[name] = cut(sizes, name, slots, cap)
                changed = True
        if not changed:
            return tilings, output_slots(sizes, tilings)
    raise NoTiling(names[-1], 0)


def largest_slices(sizes: CostModel, name: str, slots: Array | None, cap: Array) -> tuple[Box, ...]:
    """A flat population cut into largest pieces and one rest; other shapes as ``best_grid``.

    Largest pieces fill the words of a core exactly where equal ones waste the end of a run.

    Raises:
        NoTiling: not even single neurons fit.
    """
    shape = sizes.shapes[name]
    if len(shape) != 1:
        return best_grid(sizes, name, slots, cap)
    boxes: list[Box] = []
    start = 0
    while start < shape[0]:
        stop = largest_range_end(start, start, shape[0], lambda box: _fits(sizes, name, (box,), slots, cap))
        if stop == start:
            raise NoTiling(name, 0 if slots is None else int(slots.max()))
        boxes.append(((start, stop),))
        start = stop
    return tuple(boxes)


# -- packing -------------------------------------------------------------------------------------------------------
# First-fit packing of slices into cores.


@dataclass(frozen=True, slots=True, eq=False)
class PackingItems:
    """Pieces of all populations, in a fixed order; ``vectors: [pieces, resources]`` are their packing vectors."""

    slices: tuple[Slice, ...]
    vectors: Array
    groups: tuple[int, ...]
    """Pieces of different groups never share a core (pinned populations)."""


def first_fit(pieces: PackingItems, cap: Array, order: Array) -> list[list[int]]:
    """Piece numbers per core: each piece, in ``order``, goes to the first core where all its resources fit."""
    room = np.zeros((len(order), len(cap)), np.int64)
    group = np.zeros(len(order), np.int64)
    cores: list[list[int]] = []
    for piece in order.tolist():
        n = len(cores)
        fits = np.all(room[:n] >= pieces.vectors[piece], axis=1) & (group[:n] == pieces.groups[piece])
        core = int(np.argmax(fits)) if fits.any() else n
        if core == n:
            cores.append([])
            room[n], group[n] = cap, pieces.groups[piece]
        cores[core].append(piece)
        room[core] -= pieces.vectors[piece]
    return cores


def packing_orders(pieces: PackingItems, cap: Array) -> list[Array]:
    """Orders worth trying: as they come; by the resource that is fullest, descending; by the sum of shares."""
    share = pieces.vectors / np.maximum(cap, 1)
    index = np.arange(len(pieces.slices))
    return [
        index,
        np.lexsort((index, -share.sum(axis=1), -share.max(axis=1))),
        np.lexsort((index, -share.sum(axis=1))),
    ]


def pack(pieces: PackingItems, cap: Array) -> list[list[int]]:
    """The best of first-fit over ``packing_orders`` (the first of equals)."""
    return min((first_fit(pieces, cap, order) for order in packing_orders(pieces, cap)), key=len)


def in_core_order(slices: list[Slice], populations: tuple[str, ...]) -> tuple[Slice, ...]:
    """Slices as a core numbers them: populations in network order, boxes row by row; ranges that touch are joined."""
    rank = {name: i for i, name in enumerate(populations)}

    def key(piece: Slice) -> tuple[int, Box]:
        return rank[piece.population], (*piece.box[1:], piece.box[0])

    joined: list[Slice] = []
    for _, members in groupby(sorted(slices, key=key), key=lambda s: s.population):
        joined.extend(_join_ranges(list(members)))
    return tuple(joined)


def _join_ranges(slices: list[Slice]) -> list[Slice]:
    if len(slices[0].box) != 1:
        return slices
    joined = [slices[0]]
    for piece in slices[1:]:
        (start, stop), (a, b) = joined[-1].box[0], piece.box[0]
        if a == stop:
            joined[-1] = Slice(piece.population, ((start, b),))
        else:
            joined.append(piece)
    return joined


# -- stretches -----------------------------------------------------------------------------------------------------
# Stretches of a population in an order of its axes, as boxes.


WIDTH_CHOICES = 12
"""Up to this width a strip may be cut anywhere into any pieces; wider ones into pieces of chosen widths."""

WIDTHS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256)
"""Widths of pieces in wide maps."""
FINE_WIDTHS = (*range(1, 9), 10, 12, 14, *range(16, 33, 4), *range(40, 65, 8), 80, 96, 128, 192, 256)
"""The same in fine layouts: a core holds few pixels of layers with many words, so all small widths are offered."""


def interval_boxes(lengths: Shape, start: int, stop: int) -> Iterator[Box]:
    """The boxes, in order, of places ``start`` to ``stop`` of a row-major grid of ``lengths``."""
    if len(lengths) == 1:
        yield ((start, stop),)
        return
    inner = math.prod(lengths[1:])
    (first, head), (last, tail) = divmod(start, inner), divmod(stop, inner)
    if first == last:
        yield from (((first, first + 1), *rest) for rest in interval_boxes(lengths[1:], head, tail))
        return
    if head:
        yield from (((first, first + 1), *rest) for rest in interval_boxes(lengths[1:], head, inner))
        first += 1
    if first < last:
        yield ((first, last), *tuple((0, n) for n in lengths[1:]))
    if tail:
        yield from (((last, last + 1), *rest) for rest in interval_boxes(lengths[1:], 0, tail))


@dataclass(slots=True, eq=False)
class Queue:
    """The neurons of one population that are left: the first ``stop`` places of its order of axes."""

    population: str
    axes: tuple[int, ...]
    lengths: Shape
    group: int
    words: float
    stop: int

    def slices(self, count: int) -> tuple[Slice, ...]:
        """The slices of the last ``count`` neurons."""
        found = []
        for box in interval_boxes(self.lengths, self.stop - count, self.stop) if count else ():
            by_axis = dict(zip(self.axes, box, strict=True))
            found.append(Slice(self.population, tuple(by_axis[axis] for axis in sorted(by_axis))))
        return tuple(found)


@dataclass(frozen=True, slots=True)
class Ends:
    """Where pieces of a row may end: at multiples of a segment; or anywhere in a narrow map, else after ``widths``."""

    segments: int | None
    widths: tuple[int, ...]

    def after(self, start: int, width: int) -> list[int]:
        """The ends of pieces that begin at ``start``."""
        if self.segments is not None:
            step = -(-width // self.segments)
            return [] if start % step else [*range(start + step, width, step), width]
        if width <= WIDTH_CHOICES:
            return list(range(start + 1, width + 1))
        return sorted(start + w for w in {*self.widths, width - start} if w <= width - start)
