"""Placement of blocks on cores.

Objective (spikes per step): multicast hops, plus ``exact.LINK_WEIGHT`` times the load of the busiest link. The best of
some starts (row-major, snakes, Hilbert, greedy) is annealed on exact trees. The work is counted in nets weighed, never
in seconds, so a seed and an effort always give the same placement.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice

import numpy as np

from nirbridge._types import Progress, no_progress
from nirbridge.chips.cores import Cores, cores_of
from nirbridge.chips.model import Chip, CoreId
from nirbridge.errors import Diagnostic, DoesNotFit, UsageError, counted, did_you_mean
from nirbridge.mapping.placement import starts
from nirbridge.mapping.placement.board import PlacementBoard, Sites
from nirbridge.mapping.placement.exact import ExactCost, exact_cost
from nirbridge.mapping.placement.tree_moves import NO_TREES, TreeBudget, annealed_trees, runs_and_steps
from nirbridge.mapping.traffic import PairwisePulls, Traffic, pairwise_pulls, traffic
from nirbridge.partitioner.cost.axons import AxonTable

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
    orders = (starts.row_major, starts.snake, starts.columns_snake, starts.hilbert)
    yield from (starts.in_order(board, order(board.sites)) for order in orders)
    yield starts.greedy(board, pull)


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
