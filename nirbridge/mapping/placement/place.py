"""Placement of blocks on cores.

Objective (spikes per step): multicast hops, plus ``LINK_WEIGHT`` times the load of the busiest link. The best of
some starts (row-major, snakes, Hilbert, greedy) is annealed on exact trees. The work is counted in nets weighed, never
in seconds, so a seed and an effort always give the same placement.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np

from nirbridge._types import Progress, no_progress
from nirbridge.arrays import Array, weighted_sum
from nirbridge.chips import Chip, CoreId, Cores, cores_of
from nirbridge.errors import Diagnostic, DoesNotFit, UsageError, counted, did_you_mean
from nirbridge.mapping.placement.tree_moves import (
    NO_TREES,
    PlacementBoard,
    Sites,
    TreeBudget,
    annealed_trees,
    runs_and_steps,
)
from nirbridge.mapping.route import HOST_TILE, MulticastTrees, link_loads, multicast_trees, tree_hops
from nirbridge.mapping.traffic import PairwisePulls, Traffic, gather, pairwise_pulls, traffic
from nirbridge.partitioner.cost.axons import HOST, AxonTable

EFFORTS: Mapping[str, TreeBudget] = {
    "fast": TreeBudget(1, 2_500, 20_000_000, targets=10**9, small=(50, 15_000)),
    "default": TreeBudget(1, 2_500, 100_000_000, targets=4 * 10**9, small=(100, 30_000)),
    "max": TreeBudget(12, 10_000, 6_000_000_000, targets=2 * 10**10),
}
FULL_CHIP_MAX = 2**14
"""Cores that the search uses of a chip that has more of them, and more than four to a block."""


def place(
    axons: AxonTable,
    blocks: int,
    chip: Chip,
    *,
    chips: int = 1,
    seed: int = 0,
    effort: str = "default",
    pins: Mapping[int, CoreId] | None = None,
    progress: Progress | None = None,
    nets: Traffic | None = None,
    trees: bool = True,
) -> tuple[CoreId, ...]:
    """Place every block on a core; the result is in block order and depends on the arguments alone.

    Args:
        axons: the axon table, over blocks ``0 … blocks - 1``.
        blocks: number of blocks.
        chip: the chip; its ``dead_cores`` are never used.
        chips: chips in a row.
        seed: of every random choice.
        effort: ``fast``, ``default`` or ``max``.
        pins: blocks that must sit on a given core.
        progress: called with a stage's name and the fraction of it that is done.
        nets: ``traffic`` of the table, where it is known.
        trees: anneal exact trees at the end; ``annealed_on_trees`` does so later.

    Raises:
        DoesNotFit: more blocks than cores.
        UsageError: an unknown effort, a pin of an unknown block, onto a dead or unknown core, or two on one core.
    """
    pins = dict(pins or {})
    usable = cores_of(chip, chips)
    _check(blocks, usable, chip, chips, effort, pins)
    if blocks == 0:
        return ()
    board = PlacementBoard.empty(Sites.of(_near(usable, blocks, pins), chip), blocks, pins, chip)
    nets = traffic(axons, blocks) if nets is None else nets
    budget = EFFORTS[effort] if trees else NO_TREES
    return search_placement(board, nets, seed, budget, progress or no_progress).cores_with(pins)


def annealed_on_trees(
    nets: Traffic,
    cores: Sequence[CoreId],
    chip: Chip,
    *,
    chips: int = 1,
    seed: int = 0,
    effort: str = "default",
    pins: Mapping[int, CoreId] | None = None,
    progress: Progress = no_progress,
) -> tuple[CoreId, ...]:
    """The cores of placed blocks after annealing of exact trees from there; the same ones where none is better.

    ``cores`` holds the core of each block, its pinned one where ``pins`` has it; the other arguments are those of
    ``place``.
    """
    pins = dict(pins or {})
    near = _near(cores_of(chip, chips), nets.blocks, pins)
    # neurons that moved may have a core farther away
    sites = Sites.of((*near, *sorted(set(cores) - {*near, *pins.values()})), chip)
    site_of = {core: site for site, core in enumerate(sites.cores)}
    board = PlacementBoard.empty(sites, nets.blocks, pins, chip)
    board.put(board.movable, np.array([site_of[cores[b]] for b in board.movable.tolist()], np.int64))
    return _by_trees(exact_cost(board, nets), seed, EFFORTS[effort], progress).board.cores_with(pins)


def search_placement(
    board: PlacementBoard, nets: Traffic, seed: int, budget: TreeBudget, progress: Progress
) -> PlacementBoard:
    """The best position found for the movable blocks of ``board``."""
    progress("place", None)
    best = min((exact_cost(start, nets) for start in _starts(board, pairwise_pulls(nets))), key=_value)
    return _by_trees(best, seed, budget, progress).board


def _by_trees(best: ExactCost, seed: int, budget: TreeBudget, progress: Progress) -> ExactCost:
    """The best position that annealing of exact trees finds, or ``best``."""
    runs = runs_and_steps(len(best.board.movable), best.nets, best.board.sites, budget)
    start = best.board
    runs.announce(progress)
    for run in range(runs.count):
        found = annealed_trees(start, best.nets, np.random.default_rng([seed, run]), runs)
        best = best if found is None else min((best, exact_cost(found, best.nets)), key=_value)
        progress("anneal trees", (run + 1) / runs.count)
    return best


def _value(state: ExactCost) -> float:
    return state.value


def _starts(board: PlacementBoard, pull: PairwisePulls) -> Iterable[PlacementBoard]:
    orders = (row_major, snake, columns_snake, hilbert)
    yield from (in_order(board, order(board.sites)) for order in orders)
    yield greedy(board, pull)


def _near(usable: Cores, blocks: int, pins: Mapping[int, CoreId]) -> tuple[CoreId, ...]:
    """The cores that the search uses: the first ones, four to a block, and all of the first chip and of pinned ones.

    A board may have a hundred times more cores than a model needs; those far from everything never pay, and are not
    even made. Of a chip of more than ``FULL_CHIP_MAX`` cores only those in a square at its corner, and around each
    pinned core.
    """
    taken, most = set(pins.values()), max(FULL_CHIP_MAX, 4 * blocks)
    full_chips = {usable[0].chip, *(core.chip for core in taken)}
    free = (core for core in usable if core not in taken)
    if len(usable) - len(taken) <= most:
        return tuple(core for i, core in enumerate(free) if i < 4 * blocks or core.chip in full_chips)
    side = math.isqrt(most // usable.chip.mesh.cores_per_tile) + 1
    corners = [(chip, 0, 0) for chip in full_chips] + [(c.chip, c.x - side // 2, c.y - side // 2) for c in taken]
    near = set(islice(free, 4 * blocks))
    for corner in corners:
        near.update(core for core in _square(usable.chip, *corner, side) if core in usable and core not in taken)
    return tuple(sorted(near, key=lambda core: (core.chip, core.y, core.x, core.core)))


def _square(chip: Chip, on_chip: int, left: int, top: int, side: int) -> Iterator[CoreId]:
    """The cores of the tiles of a square, as far as it lies on the chip."""
    mesh = chip.mesh
    for y in range(max(top, 0), min(top + side, mesh.height_tiles)):
        for x in range(max(left, 0), min(left + side, mesh.width_tiles)):
            yield from (CoreId(on_chip, x, y, core) for core in range(mesh.cores_per_tile))


def _check(
    blocks: int, usable: Sequence[CoreId], chip: Chip, chips: int, effort: str, pins: Mapping[int, CoreId]
) -> None:
    if effort not in EFFORTS:
        hint = did_you_mean(effort, EFFORTS) or "choose one of them"
        raise UsageError(Diagnostic(f"effort {effort!r}", "unknown", f"known efforts: {', '.join(EFFORTS)}", hint))
    if blocks > len(usable):
        raise DoesNotFit(_too_many(blocks, len(usable), chip, chips))
    UsageError.raise_all(_pin_problems(blocks, usable, chip, chips, pins))


def _too_many(blocks: int, cores: int, chip: Chip, chips: int) -> Diagnostic:
    needed = -(-blocks // max(cores // chips, 1))
    step = (
        f"use --chips {needed}" if needed <= chip.mesh.chips_max else "use a larger chip or board, or a smaller model"
    )
    have = f"{chips} {chip.name} {'chip has' if chips == 1 else 'chips have'} {cores:,} usable cores"
    found = f"{counted(blocks, 'block')}, one to a core"
    return Diagnostic("placement", found, have, step, {"blocks": blocks, "cores": cores})


def _pin_problems(
    blocks: int, usable: Sequence[CoreId], chip: Chip, chips: int, pins: Mapping[int, CoreId]
) -> Iterable[Diagnostic]:
    dead, first = set(chip.dead_cores), {}
    for block in sorted(pins):
        core = pins[block]
        subject = f"pin of block {block} to core {tuple(core)}"
        if not 0 <= block < blocks:
            yield Diagnostic(subject, "no such block", f"blocks are 0 to {blocks - 1}", "pin one of those")
        if core in dead:
            yield Diagnostic(subject, "the core is masked out", "a pin needs a usable core", "choose another core")
        elif core not in usable:
            mesh = chip.mesh
            limit = (
                f"{chips} {chip.name} chip{'s' * (chips != 1)} of {mesh.width_tiles} x {mesh.height_tiles} tiles"
                f" of {counted(mesh.cores_per_tile, 'core')}"
            )
            yield Diagnostic(subject, "no such core", limit, "choose a core within that, or more --chips")
        elif core in first:
            yield Diagnostic(
                subject, f"block {first[core]} is pinned there too", "a core holds one block", "move one of them"
            )
        first.setdefault(core, block)


# -- exact ---------------------------------------------------------------------------------------------------------
# The exact cost of a placement: multicast hops per step and the load of the busiest link, in spikes per step.

LINK_WEIGHT = 1.0
"""Weight of the busiest link: its spikes count twice, once as hops and once more."""


@dataclass(frozen=True, slots=True, eq=False)
class ExactCost:
    """A position with its exact cost: ``hops`` per net, ``loads`` per link (see ``link_loads``)."""

    board: PlacementBoard
    nets: Traffic
    hops: Array
    loads: Array

    @property
    def value(self) -> float:
        """The objective."""
        return float(weighted_sum(self.nets.rate, self.hops)) + LINK_WEIGHT * float(self.loads.max(initial=0.0))


def exact_cost(board: PlacementBoard, nets: Traffic) -> ExactCost:
    """The exact cost of a position, computed anew."""
    paths = net_trees(board, nets, np.arange(len(nets.source)))
    return ExactCost(board, nets, tree_hops(paths), link_loads(paths, nets.rate, *board.extent))


def net_trees(board: PlacementBoard, nets: Traffic, which: Array) -> MulticastTrees:
    """Trees of the nets ``which`` as the board stands."""
    entries, counts = gather(nets.ptr, which)
    source, targets = nets.source[which], nets.targets[entries]
    group = np.repeat(np.arange(len(which), dtype=np.int64), counts)
    x, y = _source_tiles(board, source)
    return multicast_trees(x, y, group, board.x[targets], board.y[targets])


def _source_tiles(board: PlacementBoard, source: Array) -> tuple[Array, Array]:
    if len(board.x) == 0:
        return source.copy(), source.copy()
    is_host = source == HOST
    return np.where(is_host, HOST_TILE[0], board.x[source]), np.where(is_host, HOST_TILE[1], board.y[source])


# -- starts --------------------------------------------------------------------------------------------------------
# Starting placements, and the two baselines that benchmarks compare with: row-major and random.


def place_row_major(cores: Sequence[CoreId], blocks: int) -> tuple[CoreId, ...]:
    """Baseline: block b on the b-th core, tiles row by row of one chip after the other.

    ``cores`` are the usable cores, at least ``blocks``.
    """
    return tuple(sorted(cores, key=lambda c: (c.chip, c.y, c.x, c.core))[:blocks])


def place_random(cores: Sequence[CoreId], blocks: int, seed: int) -> tuple[CoreId, ...]:
    """Baseline: blocks on distinct cores drawn at random."""
    order = np.random.default_rng(seed).permutation(len(cores))[:blocks]
    return tuple(cores[i] for i in order)


def row_major(sites: Sites) -> Array:
    """Order of the sites: row by row (of each chip, as ``cores`` come)."""
    return np.lexsort((sites.x, sites.y, _chip(sites)))


def snake(sites: Sites) -> Array:
    """Order of the sites: rows in turn from left to right and from right to left."""
    return np.lexsort((np.where(sites.y % 2 == 0, sites.x, -sites.x), sites.y, _chip(sites)))


def columns_snake(sites: Sites) -> Array:
    """Order of the sites: columns in turn downwards and upwards, over all chips."""
    return np.lexsort((np.where(sites.x % 2 == 0, sites.y, -sites.y), sites.x))


def hilbert(sites: Sites) -> Array:
    """Order of the sites along a Hilbert curve over each square of the chips' chain."""
    side = 1 << int(sites.y.max(initial=0)).bit_length()
    distance = _hilbert_distance(sites.x % side, sites.y, side)
    return np.lexsort((distance, sites.x // side))


def _hilbert_distance(x: Array, y: Array, side: int) -> Array:
    """Position of (x, y) on the Hilbert curve over a side x side square (side a power of two)."""
    x, y, distance = x.copy(), y.copy(), np.zeros(len(x), np.int64)
    step = side // 2
    while step > 0:
        right, down = (x & step) > 0, (y & step) > 0
        distance += step * step * ((3 * right) ^ down)
        mirror = ~down & right
        x, y = np.where(mirror, side - 1 - x, x), np.where(mirror, side - 1 - y, y)
        x, y = np.where(down, x, y), np.where(down, y, x)
        step //= 2
    return distance


def _chip(sites: Sites) -> Array:
    return np.array([core.chip for core in sites.cores], dtype=np.int64)


def in_order(board: PlacementBoard, order: Array) -> PlacementBoard:
    """The movable blocks, in their own order, on the sites of ``order``."""
    started = board.copy()
    started.put(board.movable, order[: len(board.movable)])
    return started


def greedy(board: PlacementBoard, pull: PairwisePulls) -> PlacementBoard:
    """One block after the other, the one most pulled to those that are placed, where its pulls are shortest."""
    started = board.copy()
    sites = board.sites
    is_open = np.zeros(len(board.x), bool)
    is_open[board.movable] = True
    attraction = pull.host.copy()
    for block in np.flatnonzero(~is_open).tolist():
        others, weights = pull.row(block)
        attraction[others] += weights
    for _ in range(len(board.movable)):
        block = int(np.argmax(np.where(is_open, attraction, -1.0)))
        others, weights = pull.row(block)
        placed = ~is_open[others]
        length = span_costs(started, others[placed], weights[placed]) + pull.host[block] * sites.host_hops
        length = np.where(started.block < 0, length, np.inf)
        started.put(np.array([block]), np.array([int(np.argmin(length))]))
        is_open[block] = False
        attraction[others] += weights
    return started


def span_costs(board: PlacementBoard, others: Array, weights: Array) -> Array:
    """Weighted hops from every site to the blocks ``others``: float64 [sites]."""
    sites = board.sites
    return _along(sites.x, board.x[others], weights) + _along(sites.y, board.y[others], weights)


def _along(of_site: Array, of_block: Array, weights: Array) -> Array:
    length = int(max(of_site.max(initial=0), of_block.max(initial=0))) + 1
    mass = np.bincount(of_block, weights, length)
    moment = np.bincount(of_block, weights * of_block, length)
    below, below_moment = np.cumsum(mass), np.cumsum(moment)
    at = np.arange(length)
    # sum of w |p - at| = (at * mass below - moment below) + (moment above - at * mass above)
    cost = 2 * (at * below - below_moment) + below_moment[-1] - at * below[-1]
    return cost[of_site]
