"""Interleaved tilings of feature maps: cores that hold all rows, or every m-th row, of a group of channels.

On a chip that stores equal kernels once, a core with the whole maps of a few channels stores the fewest truncated
kernels, but its lists may be too short to fill their words. With every m-th row it holds more channels, in longer lists
that are hardly more truncated (``cost.axons``). A population is divided into groups of channels, each with its
own m. Patterns (``column_generation``) decide which groups share a core; a population appears at most once in a
pattern, because two of its groups would interrupt the lists of their common sources.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from nirbridge.arrays import Array
from nirbridge.partitioner.cost.axons import ROWS, Blocks, row_patterns, words_of_rows
from nirbridge.partitioner.cost.connectivity import AllToAll, Separable
from nirbridge.partitioner.cost.sizing import CostModel
from nirbridge.partitioner.model import Slice
from nirbridge.partitioner.search import column_generation as master
from nirbridge.partitioner.search.column_generation import SearchBudget
from nirbridge.partitioner.search.layouts import (
    ClassTable,
    Layout,
    LayoutArc,
    LayoutRow,
    class_number,
    class_vectors,
)
from nirbridge.partitioner.search.slicing import UNLIMITED, in_core_order

STEP_MAX = 8
"""Rows are interleaved by at most this much, and by no more than the kernel has rows."""
WAYS = 2
"""Steps between rows that are offered per population: those with the least share of a core per neuron."""
HALVES = 6
"""Number of group sizes offered: the most channels of a piece, and its halves, quarters, ..."""
CLASSES_MAX = 500
POPULATIONS_MAX = 60
"""Larger problems are not tried: they would take minutes."""
STEPS = (0, 1, 2, 4, 8)
"""Numbers of cores beyond that of the linear master problem, tried in turn."""


@dataclass(frozen=True, slots=True, eq=False)
class Strand:
    """Some rows of a population (none: it is flat), with the words of a core that holds 1, 2, ... of its channels."""

    rows: tuple[int, ...]
    neurons: int
    words: Array

    def offered(self, channels: int) -> list[int]:
        """Numbers of channels of a piece: the fewest words per channel up to each, and halves of the most."""
        each = self.words / np.arange(1, len(self.words) + 1)
        lowest = np.flatnonzero(each < np.concatenate(([np.inf], np.minimum.accumulate(each)[:-1]))) + 1
        most = len(self.words)
        halves = {most >> k for k in range(HALVES)} - {0}
        rest = {channels % most} - {0}
        return sorted({*lowest.tolist()[-HALVES:], *halves, *rest})

    def share(self, cap: Array) -> float:
        """The least share of a core per channel."""
        n = np.arange(1, len(self.words) + 1)
        return float(np.maximum(self.words / n / cap[2], self.neurons / cap[0]).min())


Way = tuple[Strand, ...]
"""The rows of a population in strands: a step between rows, and the first row of each."""


@dataclass(frozen=True, slots=True, eq=False)
class Choices:
    """The ways of a population, best first, and how many channels (neurons of a flat one) there are."""

    population: str
    channels: int
    ways: tuple[Way, ...]


def interleaved_cores(
    sizes: CostModel, cap: Array, lower: int, most: int, budget: SearchBudget, seed: int
) -> Blocks | None:
    """Fewer cores than ``most``; their exact use is yet to be checked. None: none found.

    Only for chips that store like kernels once and limit nothing but neurons and words.
    """
    if not is_offered(sizes, cap):
        return None
    choices = [choices_of(sizes, name, cap) for name in sizes.shapes]
    if any(not c.ways for c in choices):
        return None
    table: ClassTable = {}
    layouts = tuple(_layout(c, number, len(choices), cap, table) for number, c in enumerate(choices))
    vectors = class_vectors(table)
    if len(vectors) > CLASSES_MAX:
        return None
    limit = np.concatenate((cap[[0, 2]], np.ones(len(choices), np.int64)))
    problem = master.master_problem(layouts, vectors, limit, (0, 1))
    nothing, start = np.zeros(len(vectors), np.int64), np.eye(len(vectors), dtype=np.int64)
    # certificates of these tilings are of no use: none is looked for
    generated = master.generate(problem, start, nothing, budget, most, seed, lower - 1.0)
    spent = generated.spent
    least = max(int(np.ceil(generated.linear + 0.25)), lower) if np.isfinite(generated.linear) else most
    for cores in (least + more for more in STEPS if least + more < most):
        result, time = master.dive(problem, generated, cores, budget, seed)
        spent += time
        if result is not None:
            return _blocks(sizes, choices, layouts, *result)
        if spent > budget.total_time:
            break
    return None


def is_offered(sizes: CostModel, cap: Array) -> bool:
    """True where kernels are shared, words are limited, axons and profiles are not, and some map has rows."""
    free = all(n >= UNLIMITED for n in cap[[1, 5]].tolist()) and not (sizes.count_decays or sizes.count_thresholds)
    spatial = any(len(shape) > 1 and shape[ROWS] > 1 for shape in sizes.shapes.values())
    shared = sizes.chip.synapses.shared_kernels and cap[2] < UNLIMITED
    return bool(free and spatial and shared and len(sizes.shapes) <= POPULATIONS_MAX)


def choices_of(sizes: CostModel, name: str, cap: Array) -> Choices:
    """The ways of one population, by their share of a core; none where its channels do not all cost the same."""
    shape = sizes.shapes[name]
    edges = sizes.incoming[name]
    if len(shape) == 1:
        way = _strand(sizes, name, (), cap) if all(isinstance(e.form, AllToAll) for e in edges) else None
        return Choices(name, shape[0], () if way is None else ((way,),))
    if not all(isinstance(e.form, Separable) and _is_even(e.form) for e in edges):
        return Choices(name, shape[0], ())
    taps = [int(np.diff(e.form.axes[ROWS].output_ptr).max(initial=1)) for e in edges if isinstance(e.form, Separable)]
    found: list[tuple[float, Way]] = []
    for step in range(1, min(max(taps, default=1), STEP_MAX, shape[ROWS]) + 1):
        strands = [_strand(sizes, name, tuple(range(a, shape[ROWS], step)), cap) for a in range(step)]
        way = tuple(s for s in strands if s is not None)
        if len(way) == step:
            found.append((sum(s.share(cap) for s in way), way))
    return Choices(name, shape[0], tuple(way for _, way in sorted(found, key=lambda f: f[0])[:WAYS]))


def _is_even(form: Separable) -> bool:
    """True if channels are alike: each has all input channels, or one of its own."""
    axis = form.axes[0]
    return axis.full or (axis.n_in == axis.n_out and bool(np.array_equal(axis.outs, np.arange(axis.n_out))))


def _strand(sizes: CostModel, name: str, rows: tuple[int, ...], cap: Array) -> Strand | None:
    """A strand with the words of up to as many channels as fit a core; None: not one fits."""
    shape = sizes.shapes[name]
    neurons = len(rows) * int(np.prod(shape[ROWS + 1 :])) if rows else 1
    edges = [(e, e.form) for e in sizes.incoming[name]]
    patterns = [row_patterns(f.axes[ROWS], np.array(rows)) if isinstance(f, Separable) else None for _, f in edges]
    rest = tuple((0, n) for n in shape[1:])
    words: list[int] = []
    for channels in range(1, min(shape[0], int(cap[0]) // neurons) + 1):
        box = ((0, channels), *rest)
        total = 0
        for (edge, _), own in zip(edges, patterns, strict=True):
            total += words_of_rows(sizes, edge, box, rows, own) if own is not None else sizes.words(name, edge, box)
        if total > cap[2]:
            break
        words.append(total)
    return Strand(rows, neurons, np.array(words, np.int64)) if words else None


def _layout(choices: Choices, number: int, populations: int, cap: Array, table: ClassTable) -> Layout:
    """Arcs (way, -1): the channels of a way; arcs (way, strand, channels): pieces, which cover them in each strand."""
    arcs = [LayoutArc(-1, (w, -1)) for w in range(len(choices.ways))]
    rows = [LayoutRow(tuple((w, 1) for w in range(len(arcs))), choices.channels)]
    alone = np.zeros(populations, np.int64)
    alone[number] = 1
    for w, way in enumerate(choices.ways):
        for s, strand in enumerate(way):
            terms = [(w, -1)]
            for channels in strand.offered(choices.channels):
                use = np.array([channels * strand.neurons, strand.words[channels - 1]])
                terms.append((len(arcs), channels))
                kind = class_number(table, choices.population, np.concatenate((use, alone)))
                arcs.append(LayoutArc(kind, (w, s, channels)))
            rows.append(LayoutRow(tuple(terms), 0, cover=True))
    return Layout(choices.population, "interleaved", tuple(arcs), tuple(rows))


Piece = tuple[Slice, ...]


def _blocks(
    sizes: CostModel, choices: Sequence[Choices], layouts: Sequence[Layout], contents: Array, arcs: Array
) -> Blocks:
    """The cores of a solution, each with pieces of its classes, in the order in which they lie in the network."""
    supply: dict[int, list[Piece]] = {}
    start = 0
    for own, layout in zip(choices, layouts, strict=True):
        counts = arcs[start : start + len(layout.arcs)]
        start += len(layout.arcs)
        for kind, pieces in _pieces(sizes, own, layout, counts).items():
            supply.setdefault(kind, []).extend(pieces)
    names, cores = tuple(sizes.shapes), []
    for counts in sorted(contents.tolist(), reverse=True):
        held = [supply[kind].pop(0) for kind, n in enumerate(counts) for _ in range(n) if supply.get(kind)]
        if held:
            cores.append(in_core_order([s for piece in held for s in piece], names))
    if any(supply.values()):
        raise AssertionError("a solution of the master must supply every piece it cuts")
    return tuple(cores)


def _pieces(sizes: CostModel, choices: Choices, layout: Layout, counts: Array) -> Mapping[int, list[Piece]]:
    """The pieces of one population, by class; the last ones have fewer channels where more are covered than there."""
    shape = sizes.shapes[choices.population]
    left = {arc.where: (arc.cost_class, int(n)) for arc, n in zip(layout.arcs, counts, strict=True)}
    pieces: dict[int, list[Piece]] = {}
    base = 0
    for w, way in enumerate(choices.ways):
        end = base + left[w, -1][1]
        for s, strand in enumerate(way):
            first = base
            for where, (kind, n) in sorted(left.items(), key=lambda item: -item[0][-1]):
                for _ in range(n if len(where) == 3 and where[:2] == (w, s) else 0):
                    stop = min(first + where[2], end)
                    if stop > first:
                        pieces.setdefault(kind, []).append(_slices(choices.population, shape, strand, first, stop))
                    first = stop
        base = end
    return pieces


def _slices(name: str, shape: tuple[int, ...], strand: Strand, first: int, stop: int) -> Piece:
    """The slices of some channels of a strand: rows that touch are one slice."""
    rest = tuple((0, n) for n in shape[ROWS + 1 :])
    if not strand.rows:
        return (Slice(name, ((first, stop),)),)
    rows = np.array(strand.rows)
    ranges = np.split(rows, np.flatnonzero(np.diff(rows) > 1) + 1)
    return tuple(Slice(name, ((first, stop), (int(r[0]), int(r[-1]) + 1), *rest)) for r in ranges)
