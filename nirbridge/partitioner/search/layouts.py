"""The tilings of a population that the search may choose from, as a small integer polytope.

A channel x row x column population is cut into bands of rows, a band into channel groups, a group into pieces of
consecutive columns; each of these is a path over positions, so the choices are flows on small graphs. A flat
population, whose pieces cost alike wherever they lie, is covered by ranges of chosen lengths. Pieces of equal cost
vectors are one class: this is what keeps the search small.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from nirbridge._types import Box
from nirbridge.arrays import Array
from nirbridge.partitioner.cost.connectivity import AllToAll, Explicit, Separable
from nirbridge.partitioner.cost.sizing import CostModel
from nirbridge.partitioner.search.slicing import (
    FINE_WIDTHS,
    WIDTHS,
    ChannelRanges,
    Ends,
    cuts,
    largest_range_end,
    vector,
    word_groups,
)

BAND_CHOICES = 2
"""Bands (height and channel groups) offered per population: more make the search slower, not better."""
BAND_GAIN = 0.005
FLAT_CHOICES = 40
"""Lengths offered for a flat population; beyond, lengths that add up well."""

Band = tuple[int, ChannelRanges]
"""Height of a band of rows, and the ranges of channels that it is cut into."""


@dataclass(frozen=True, slots=True)
class LayoutArc:
    """One choice: a piece of ``cost_class`` (or, for a band, none: -1). ``where`` locates it for ``realise``."""

    cost_class: int
    where: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class LayoutRow:
    """One linear constraint over the arcs of a layout: ``sum(coefficient * arc) == rhs`` (``>=`` where cover)."""

    terms: tuple[tuple[int, int], ...]
    rhs: int
    cover: bool = False


@dataclass(frozen=True, slots=True)
class Layout:
    """The choices for one population."""

    population: str
    kind: str
    arcs: tuple[LayoutArc, ...]
    rows: tuple[LayoutRow, ...]
    bands: tuple[Band, ...] = ()
    """The band choices."""
    boxes: tuple[Box, ...] = ()
    """The boxes of a fixed layout."""


ClassTable = dict[tuple[object, ...], int]
"""Number of each class of slices, (population, *cost vector), in the order in which they are met."""


def class_number(table: ClassTable, population: str, cost: Array) -> int:
    """The class of a slice of ``population`` with this cost vector."""
    return table.setdefault((population, *cost.tolist()), len(table))


def class_vectors(table: ClassTable) -> Array:
    """Cost vectors of the classes: int64 [classes, resources]."""
    return np.array([cost for _, *cost in table], np.int64) if table else np.zeros((0, 0), np.int64)


def layouts(
    sizes: CostModel,
    slots: Mapping[str, Array],
    tilings: Mapping[str, tuple[Box, ...]],
    cap: Array,
    segments: int | None = None,
    *,
    fine: bool = False,
) -> tuple[tuple[Layout, ...], Array]:
    """The layouts of all populations and the cost vectors of their classes.

    ``slots`` are the output axons per neuron that pieces are charged with; ``tilings`` an incumbent, which stays
    among the choices where the form of a population offers no others. ``segments``: cut rows only at this many even
    positions, which makes fewer classes. ``fine``: more widths, and channels in two
    groups of which one fills its words.
    """
    table: ClassTable = {}
    by_population = []
    for population in sizes.network.populations:
        name = population.name
        if _is_uniform(sizes, name, slots[name]):
            by_population.append(_flat(sizes, name, slots[name], cap, table))
        elif len(population.shape) == 3 and not any(isinstance(e.form, Explicit) for e in sizes.incoming[name]):
            by_population.append(_banded(sizes, name, slots[name], cap, table, segments, fine=fine))
        else:
            by_population.append(_fixed(sizes, name, slots[name], tilings[name], table))
    return tuple(by_population), class_vectors(table)


def _is_uniform(sizes: CostModel, name: str, slots: Array) -> bool:
    """True for a flat population whose ranges cost alike wherever they lie."""
    if len(sizes.shapes[name]) != 1 or sizes.count_decays or sizes.count_thresholds:
        return False
    if slots.size and slots.min() != slots.max():
        return False
    return all(isinstance(e.form, AllToAll) or _is_one_to_one(e.form) for e in sizes.incoming[name])


def _is_one_to_one(form: object) -> bool:
    if not isinstance(form, Separable) or len(form.axes) != 1:
        return False
    axis = form.axes[0]
    return axis.n_in == axis.n_out and bool(np.array_equal(axis.outs, np.arange(axis.n_out)))


def _flat(sizes: CostModel, name: str, slots: Array, cap: Array, table: ClassTable) -> Layout:
    """Lengths at which the words change (and the largest that fits): shorter pieces cost no less."""
    (length,) = sizes.shapes[name]
    lengths = _useful_lengths(sizes, name, slots, cap, length)
    arcs = tuple(LayoutArc(class_number(table, name, vector(sizes, name, ((0, n),), slots)), (n,)) for n in lengths)
    terms = tuple((i, n) for i, n in enumerate(lengths))
    return Layout(name, "flat", arcs, (LayoutRow(terms, length, cover=True),))


def _useful_lengths(sizes: CostModel, name: str, slots: Array, cap: Array, length: int) -> tuple[int, ...]:
    longest = largest_range_end(0, 1, length, lambda box: bool(np.all(vector(sizes, name, box, slots) <= cap)))
    words = [sizes.cost(name, ((0, n),)).synapse_words for n in range(1, longest + 1)]
    last_of_step = [n for n in range(1, longest) if words[n] > words[n - 1]]
    if len(last_of_step) > FLAT_CHOICES:
        # words grow with nearly every neuron: any length will do, so take sizes that add up well
        last_of_step = sorted({1, *(2**k for k in range(longest.bit_length() - 1)), longest * 3 // 4})
    rest = length % longest
    return tuple(sorted({*last_of_step, longest, *((rest,) if rest else ())}))


def _fixed(sizes: CostModel, name: str, slots: Array, boxes: tuple[Box, ...], table: ClassTable) -> Layout:
    """The incumbent's boxes and nothing else."""
    arcs = tuple(LayoutArc(class_number(table, name, vector(sizes, name, b, slots)), (i,)) for i, b in enumerate(boxes))
    return Layout(name, "fixed", arcs, tuple(LayoutRow(((i, 1),), 1) for i in range(len(boxes))), boxes=boxes)


def _banded(
    sizes: CostModel, name: str, slots: Array, cap: Array, table: ClassTable, segments: int | None, *, fine: bool
) -> Layout:
    height = sizes.shapes[name][1]
    arcs: list[LayoutArc] = []
    rows: list[LayoutRow] = []
    bands = _band_choices(sizes, name, slots, cap, fine=fine)
    widths = FINE_WIDTHS if fine else WIDTHS
    at_row: list[list[tuple[int, int]]] = [[] for _ in range(height + 1)]
    for choice, (band, ranges) in enumerate(bands):
        members: dict[tuple[object, ...], list[tuple[int, int]]] = {}
        for r in range(height - band + 1):
            arc = len(arcs)
            arcs.append(LayoutArc(-1, (choice, r)))
            at_row[r].append((arc, 1))
            at_row[r + band].append((arc, -1))
            # bands are alike in the cost of their rows and the output axons of their neurons
            axons = np.ascontiguousarray(slots[:, r : r + band, :].sum(axis=1)).tobytes()
            members.setdefault((sizes.range_kind(name, 1, (r, r + band)), axons), []).append((arc, r))
        for same in members.values():
            _columns(sizes, name, slots, cap, table, (choice, band, ranges), Ends(segments, widths), same, arcs, rows)
    flow = [LayoutRow(tuple(terms), (r == 0) - (r == height)) for r, terms in enumerate(at_row)]
    return Layout(name, "banded", tuple(arcs), (*flow, *rows), bands)


def _columns(
    sizes: CostModel,
    name: str,
    slots: Array,
    cap: Array,
    table: ClassTable,
    choice: tuple[int, int, ChannelRanges],
    ends: Ends,
    same: list[tuple[int, int]],
    arcs: list[LayoutArc],
    rows: list[LayoutRow],
) -> None:
    """Per channel group of a kind of band: a flow of column pieces from 0 to the width, as much as there are bands."""
    number, band, ranges = choice
    width = sizes.shapes[name][2]
    r = same[0][1]
    for group, (c0, c1) in enumerate(ranges):
        flow: list[list[tuple[int, int]]] = [[] for _ in range(width + 1)]
        for start in range(width):
            for stop in ends.after(start, width):
                cost = vector(sizes, name, ((c0, c1), (r, r + band), (start, stop)), slots)
                if np.any(cost > cap):
                    break
                arc = len(arcs)
                arcs.append(LayoutArc(class_number(table, name, cost), (number, r, group, start, stop)))
                flow[start].append((arc, 1))
                flow[stop].append((arc, -1))
        amount = [(arc, -1) for arc, _ in same]
        rows.append(LayoutRow((*flow[0], *amount), 0))
        rows.extend(LayoutRow(tuple(flow[c]), 0) for c in range(1, width))


def _band_choices(sizes: CostModel, name: str, slots: Array, cap: Array, *, fine: bool) -> tuple[Band, ...]:
    """The bands to offer: strips of one row, and taller or narrower bands that are clearly better.

    A band that costs per neuron what a strip costs adds only symmetry. The score is the least share of a core per
    neuron; the kept ones are the best of each height and of each cut into groups that gain ``BAND_GAIN``.
    """
    height = sizes.shapes[name][1]
    heights = sorted({h for h in (1, 2, 3, 4, 5, 6, 8, height) if h <= height})
    tried = [
        (_score(sizes, name, slots, cap, h, g), g, h) for g in _channel_groups(sizes, name, fine=fine) for h in heights
    ]
    scored = sorted((score, len(g), h, g) for score, g, h in tried if score is not None)
    strips = [s for s in scored if s[2] == 1]
    base = strips[0] if strips else scored[0]
    better = [s for s in scored if s[0] < base[0] * (1 - BAND_GAIN)]
    chosen = {(band, ranges) for _, _, band, ranges in [base, *better[: BAND_CHOICES - 1]]}
    return tuple(sorted(chosen))


def _channel_groups(sizes: CostModel, name: str, *, fine: bool) -> list[ChannelRanges]:
    channels = sizes.shapes[name][0]
    equal = [cuts(channels, g) for g in sorted({g for g in (1, 2, 4, 8, 16, channels) if g <= channels})]
    return list(dict.fromkeys([*equal, *(word_groups(sizes, name) if fine else ())]))


def _score(sizes: CostModel, name: str, slots: Array, cap: Array, band: int, ranges: ChannelRanges) -> float | None:
    """Share of the fullest resource per neuron: of the first group, or the mean of two that differ; None: none fits."""
    (low, high), (start, stop) = ranges[0], ranges[-1]
    first = _range_score(sizes, name, slots, cap, band, (low, high))
    if abs((stop - start) - (high - low)) <= 1 or first is None:
        return first
    last = _range_score(sizes, name, slots, cap, band, (start, stop))
    return None if last is None else (first * (high - low) + last * (stop - start)) / sizes.shapes[name][0]


def _range_score(
    sizes: CostModel, name: str, slots: Array, cap: Array, band: int, channels: tuple[int, int]
) -> float | None:
    """Share of the fullest resource per neuron at the best width, for a piece in the middle; None: none fits."""
    _, height, width = sizes.shapes[name]
    r = (height - band) // 2
    best: float | None = None
    for w in range(1, width + 1):
        start = (width - w) // 2
        cost = vector(sizes, name, (channels, (r, r + band), (start, start + w)), slots)
        if np.any(cost > cap):
            break
        share = float((cost / np.maximum(cap, 1)).max()) / int(cost[0])
        best = share if best is None else min(best, share)
    return best


def realise(layout: Layout, sizes: CostModel, counts: Array) -> dict[int, list[Box]]:
    """The boxes, by class, of integer arc values that satisfy the layout's rows; they tile the population."""
    if layout.kind == "flat":
        return _realise_flat(layout, sizes.shapes[layout.population][0], counts)
    boxes: dict[int, list[Box]] = {}
    if layout.kind == "fixed":
        for arc, box in zip(layout.arcs, layout.boxes, strict=True):
            boxes.setdefault(arc.cost_class, []).append(box)
        return boxes
    _, height, width = sizes.shapes[layout.population]
    left = {arc.where: int(n) for arc, n in zip(layout.arcs, counts, strict=True) if n}
    classes = {arc.where: arc.cost_class for arc in layout.arcs}
    kinds = _kinds(layout)
    row = 0
    while row < height:
        choice, start = next(w for w in sorted(left) if len(w) == 2 and w[1] == row and left[w])
        band, ranges = layout.bands[choice]
        for group, (c0, c1) in enumerate(ranges):
            column = 0
            while column < width:
                head = (choice, kinds[choice, start], group, column)
                where = next(w for w in sorted(left) if w[:4] == head and len(w) == 5 and left[w])
                left[where] -= 1
                box = ((c0, c1), (row, row + band), (column, where[4]))
                boxes.setdefault(classes[where], []).append(box)
                column = where[4]
        row += band
    return boxes


def _kinds(layout: Layout) -> dict[tuple[int, int], int]:
    """(choice, row) -> the row that stands for bands of its kind: column arcs name that one."""
    kinds: dict[tuple[int, int], int] = {}
    for row in layout.rows:
        positive = [layout.arcs[a].where for a, c in row.terms if c > 0]
        negative = [layout.arcs[a].where for a, c in row.terms if c < 0]
        if positive and negative and all(len(w) == 5 for w in positive) and all(len(w) == 2 for w in negative):
            for choice, r in negative:
                kinds[choice, r] = positive[0][1]
    return kinds


def _realise_flat(layout: Layout, length: int, counts: Array) -> dict[int, list[Box]]:
    boxes: dict[int, list[Box]] = {}
    start = 0
    for arc, n in sorted(zip(layout.arcs, counts.tolist(), strict=True), key=lambda pair: -pair[0].where[0]):
        for _ in range(n):
            stop = min(start + arc.where[0], length)
            if stop > start:
                boxes.setdefault(arc.cost_class, []).append(((start, stop),))
            start = stop
    return boxes
