"""The three partitioning methods: sequential, packed (first-fit), and cp-sat with a proved bound."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise, product

import numpy as np

from nirbridge._types import Progress
from nirbridge.arrays import Array
from nirbridge.partitioner.cost.axons import Blocks, resource_use
from nirbridge.partitioner.cost.resources import exceeded, limits
from nirbridge.partitioner.cost.sizing import CostModel
from nirbridge.partitioner.model import Slice
from nirbridge.partitioner.search import column_generation as master
from nirbridge.partitioner.search.filling import swapped
from nirbridge.partitioner.search.interruption import kept
from nirbridge.partitioner.search.layouts import Layout, layouts, realise
from nirbridge.partitioner.search.slicing import (
    NoTiling,
    PackingItems,
    Tilings,
    best_grid,
    in_core_order,
    largest_slices,
    output_slots,
    pack,
    shrunk_capacity,
    tile_all,
    vector,
)

FINER = (1, 2, 3)
"""Packed also tries slices that fill a half and a third of a core."""
CLASSES_MAX = 400
"""Above this many piece classes the pattern search is not tried: it would not end in reasonable time."""
FINE_CLASSES_MAX = 200
"""The same for finer pieces, which are searched after the others."""
SEGMENTS = (None, 6, 3, 2, 1)
"""Where rows may be cut, from anywhere to nowhere: the first that gives few enough piece classes is searched."""
WORDS = 2
CERTAIN = (0, WORDS, 5)
"""Columns of a packing vector that add up over the pieces of a core: neurons, words, least output axons."""
SLACKS = (0.2, 0.05)
"""How far below the bound the linear master must come before cores are settled; the last resort runs to its end."""


@dataclass(frozen=True, slots=True)
class SearchResult:
    """Blocks found by a search, and a lower bound on the cores of the tilings it could have chosen.

    ``interrupted``: Ctrl-C ended the search.
    """

    blocks: Blocks
    sliced_bound: int
    spent: float
    interrupted: bool = False


def sequential(sizes: CostModel, cap: Array) -> tuple[Blocks, Tilings]:
    """A layer at a time, near-equal pieces, each on a core of its own.

    Raises:
        NoTiling: some population cannot be cut so that its slices fit.
    """
    tilings, _ = tile_all(sizes, cap)
    return tuple((Slice(name, box),) for name, boxes in tilings.items() for box in boxes), tilings


def packed(sizes: CostModel, cap: Array, tilings: Tilings, groups: Mapping[str, int], enough: int = 0) -> Blocks:
    """First-fit of pieces, several populations to a core: the best of several cuttings and orders.

    The pieces of ``tilings`` (those of `sequential`) are tried first, so there are never more cores than there; no
    more are tried once there are ``enough`` cores or fewer.
    """
    pieces, cores = _first_enough(((p, pack(p, cap)) for p in _cuttings(sizes, cap, tilings, groups)), enough)
    return tuple(in_core_order([pieces.slices[i] for i in core], tuple(sizes.shapes)) for core in cores)


Packing = tuple[PackingItems, list[list[int]]]


def _first_enough(packings: Iterator[Packing], enough: int) -> Packing:
    """The packing of fewest cores, the first of equals."""
    best = next(packings)
    while len(best[1]) > enough and (other := next(packings, None)) is not None:
        best = min(best, other, key=lambda packing: len(packing[1]))
    return best


def _cuttings(sizes: CostModel, cap: Array, tilings: Tilings, groups: Mapping[str, int]) -> Iterator[PackingItems]:
    yield _pieces(sizes, tilings, groups)
    for cut, finer in tuple(product((best_grid, largest_slices), FINER))[1:]:  # the first gives ``tilings`` again
        with suppress(NoTiling):
            finer_tilings, _ = tile_all(sizes, shrunk_capacity(cap, finer), cut)
            yield _pieces(sizes, finer_tilings, groups)


def _pieces(sizes: CostModel, tilings: Tilings, groups: Mapping[str, int]) -> PackingItems:
    slots = output_slots(sizes, tilings)
    slices = tuple(Slice(name, box) for name, boxes in tilings.items() for box in boxes)
    vectors = np.array([vector(sizes, s.population, s.box, slots[s.population]) for s in slices], np.int64)
    return PackingItems(slices, vectors, tuple(groups.get(s.population, 0) for s in slices))


def fewest_cores(
    sizes: CostModel,
    cap: Array,
    incumbent: Blocks,
    tilings: Tilings,
    least: Mapping[str, int],
    lower: int,
    budget: master.SearchBudget,
    seed: int,
    progress: Progress,
) -> SearchResult:
    """Patterns of piece classes by column generation, settled core by core, with a bound for these slicings.

    ``least`` are output axons that any map needs per neuron (they are charged; the rest is checked at the end),
    ``lower`` a bound for any map.
    """
    slots = {name: np.full(shape, least[name], np.int64) for name, shape in sizes.shapes.items()}
    choices, classes = few_layouts(sizes, slots, tilings, cap)
    if not len(classes):
        return SearchResult(incumbent, lower, 0.0)
    problem = master.master_problem(choices, classes, cap, certain_columns(sizes))
    by_resource = master.resource_bounds(problem)
    bound = max(lower, *(int(np.ceil(cores - master.TOLERANCE)) for cores in by_resource.values()))
    best, spent = incumbent, 0.0
    start = np.eye(len(classes), dtype=np.int64)
    nothing = np.zeros(len(classes), np.int64)
    for slack in (*SLACKS, None):
        if len(best) <= bound:
            break
        enough = 0.0 if slack is None else bound - slack
        progress(f"patterns: {len(best)} cores, at least {bound}", None)
        generated = kept(best, master.generate, problem, start, nothing, budget, bound, seed, enough)
        if not np.isfinite(generated.linear) or (slack != SLACKS[0] and len(generated.patterns) == len(start)):
            break
        start, bound, spent = generated.patterns, max(bound, generated.bound), spent + generated.spent
        if generated.work > budget.linear_time:
            # too large for the linear programs: what they gave is a bound; settling cores would take as long each
            break
        for cores in _targets(bound, generated.linear, len(best)):
            if spent > budget.total_time:
                return SearchResult(best, _bound_of(bound, best, lower), spent)
            result, time = kept(best, master.dive, problem, generated, cores, budget, seed)
            spent += time
            blocks = None if result is None else _legal(sizes, cap, _blocks(sizes, choices, *result))
            if blocks is not None:
                best = blocks
                break
    return SearchResult(best, _bound_of(bound, best, lower), spent)


def _bound_of(bound: int, best: Blocks, lower: int) -> int:
    """``bound``, which holds for some tilings; ``lower`` where ``best`` are fewer, which are then of other ones."""
    return bound if bound <= len(best) else lower


def few_layouts(
    sizes: CostModel, slots: Mapping[str, Array], tilings: Tilings, cap: Array, *, fine: bool = False
) -> tuple[tuple[Layout, ...], Array]:
    """The layouts that cut rows at most places of those with few enough classes; empty: there are none."""
    for segments in SEGMENTS:
        choices, classes = layouts(sizes, slots, tilings, cap, segments, fine=fine)
        if 0 < len(classes) <= (FINE_CLASSES_MAX if fine else CLASSES_MAX):
            return choices, classes
    return (), np.zeros((0, len(cap)), np.int64)


def certain_columns(sizes: CostModel) -> tuple[int, ...]:
    """Columns that bounds may use: where kernels are shared, words are an upper bound and prove nothing."""
    return tuple(c for c in CERTAIN if c != WORDS or not sizes.chip.synapses.shared_kernels)


def _targets(bound: int, linear: float, best: int) -> list[int]:
    """Numbers of cores to try, up to the best known, in ever larger steps.

    The first is the bound where the linear master allows it, else one that leaves half a core to spare.
    """
    least = bound if linear <= bound + master.TOLERANCE else int(np.ceil(linear + 0.5))
    return [least + s for s in (0, 1, 2, 4, 8, 16, 32, 64) if least + s < best]


def _blocks(sizes: CostModel, choices: tuple[Layout, ...], contents: Array, arcs: Array) -> Blocks:
    """The cores of a solution: each takes pieces of its classes, in the order in which they lie in the network."""
    cores, rest = assigned(sizes, choices, contents, arcs)
    if rest:
        raise AssertionError("a solution of the master must supply every piece it cuts")
    return cores


def assigned(
    sizes: CostModel, choices: tuple[Layout, ...], contents: Array, arcs: Array
) -> tuple[Blocks, tuple[Slice, ...]]:
    """Cores with the pieces of their classes, in the order in which these lie in the network; the pieces left."""
    boxes: dict[int, list[Slice]] = {}
    edges = np.concatenate(([0], np.cumsum([len(c.arcs) for c in choices])))
    for choice, (a, b) in zip(choices, pairwise(edges), strict=True):
        for number, pieces in realise(choice, sizes, arcs[a:b]).items():
            boxes.setdefault(number, []).extend(Slice(choice.population, box) for box in pieces)
    names = tuple(sizes.shapes)
    cores = []
    for counts in sorted(contents.tolist(), reverse=True):
        slices = []
        for number, n in enumerate(counts):
            supply = boxes.get(number, [])
            slices += supply[:n]
            boxes[number] = supply[n:]
        if slices:
            cores.append(in_core_order(slices, names))
    return tuple(cores), tuple(piece for supply in boxes.values() for piece in supply)


def _legal(sizes: CostModel, cap: Array, blocks: Blocks) -> Blocks | None:
    """The blocks within every limit, if need be after swaps; None: they are not."""
    if is_within(sizes, blocks):
        return blocks
    other = swapped(sizes, cap, blocks)
    return other if other is not None and is_within(sizes, other) else None


def is_within(sizes: CostModel, blocks: Blocks) -> bool:
    """True if every block is within every limit of the chip, counted in full."""
    limit = limits(sizes.chip)
    return all(not exceeded(used, limit) for used in resource_use(sizes, blocks))
