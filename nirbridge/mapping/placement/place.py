"""Placement of blocks on cores.

Objective (spikes per step): multicast hops, plus ``refine.LINK_WEIGHT`` times the load of the busiest link. Several
starts (row-major, snakes, Hilbert, greedy), annealing of pairwise pulls, exact moves and swaps, and
annealing of exact trees. The work is counted in array elements, never in seconds, so a seed
and an effort always give the same placement.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice

import numpy as np

from nirbridge._types import Progress, no_progress
from nirbridge.chips.cores import Cores, cores_of
from nirbridge.chips.model import Chip, CoreId
from nirbridge.errors import Diagnostic, DoesNotFit, UsageError, counted, did_you_mean
from nirbridge.mapping.placement import starts
from nirbridge.mapping.placement.anneal import anneal, block_costs, pairwise_cost, step_work
from nirbridge.mapping.placement.board import PlacementBoard, Sites
from nirbridge.mapping.placement.refine import WIDTH, ExactCost, exact_cost, refine
from nirbridge.mapping.placement.tree_moves import NO_TREES, TreeBudget, annealed_trees, runs_and_steps
from nirbridge.mapping.traffic import PairwisePulls, Traffic, pairwise_pulls, traffic
from nirbridge.partitioner.cost.axons import AxonTable


@dataclass(frozen=True, slots=True)
class PlacementBudget:
    """Work of one placement: runs, annealing steps a block and entries of exact trees a block, each with its most.

    ``trees``: that of the compiled annealing that follows.
    """

    runs: int
    steps_per_block: int
    anneal_work: int
    entries_per_block: int
    entries: int
    trees: TreeBudget = NO_TREES


EFFORTS: Mapping[str, PlacementBudget] = {
    "fast": PlacementBudget(
        1, 10, 30_000_000, 10_000, 2_000_000, TreeBudget(1, 2_500, 20_000_000, targets=10**9, small=(50, 15_000))
    ),
    "default": PlacementBudget(
        1, 20, 60_000_000, 30_000, 4_000_000, TreeBudget(1, 2_500, 100_000_000, targets=4 * 10**9, small=(100, 30_000))
    ),
    "max": PlacementBudget(
        6, 400, 6_000_000_000, 1_500_000, 300_000_000, TreeBudget(12, 10_000, 6_000_000_000, targets=2 * 10**10)
    ),
}
ANNEAL_HEAT, REFINE_HEAT = 0.5, 0.3
BLOCKS_LEAST = 50
"""Smaller partitions get the work of this many blocks: it is cheap, and small boards have local minima too."""
EXACT_STARTS_MAX = 1_000_000
"""Above this many entries of nets, starts are weighed by pairwise pulls, and only the best of them exactly."""
FULL_CHIP_MAX = 2**14
"""Cores that the search uses of a chip that has more of them, and more than four to a block."""
LONG_STEP, STEPS_LEAST = 1_000_000, 8
"""Where an exact step looks at more entries than this, and the work would end after fewer steps, none is made."""
HOT_ENTRIES_PER_BLOCK = 20_000
"""With less work than this, exact steps only descend: heat needs time to cool."""


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
    budget = EFFORTS[effort] if trees else replace(EFFORTS[effort], trees=NO_TREES)
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
    return _by_trees(exact_cost(board, nets), seed, EFFORTS[effort].trees, progress).board.cores_with(pins)


def search_placement(
    board: PlacementBoard, nets: Traffic, seed: int, budget: PlacementBudget, progress: Progress
) -> PlacementBoard:
    """The best position found for the movable blocks of ``board``."""
    pull = pairwise_pulls(nets)
    boards = list(_starts(board, pull))
    if len(nets.targets) > EXACT_STARTS_MAX:
        boards = [min(boards, key=lambda start: pairwise_cost(start, pull, block_costs(start, pull)))]
    started = sorted((exact_cost(start, nets) for start in boards), key=_value)
    best = started[0]
    if len(nets.source) == 0 or len(board.movable) == 0:
        return best.board
    movable = max(len(board.movable), BLOCKS_LEAST)
    full_steps, work = budget.steps_per_block * movable, step_work(board, pull)
    # where the work does not last for every run in full, one good run beats several short ones
    runs = budget.runs if full_steps * work * budget.runs <= budget.anneal_work else 1
    steps = max(min(full_steps, budget.anneal_work // work), 1)
    entries = min(budget.entries_per_block * movable, budget.entries) // runs
    progress("place", 0.0)
    for run in range(runs):
        rng = np.random.default_rng([seed, run])
        start = started[run % len(started)]
        annealed = exact_cost(anneal(start.board, pull, rng, steps, ANNEAL_HEAT), nets)
        heat = REFINE_HEAT if entries >= HOT_ENTRIES_PER_BLOCK * movable else 0.0
        found = min((start, annealed), key=_value)
        step = _step_entries(nets)
        if step <= LONG_STEP or entries >= STEPS_LEAST * step:
            found = refine(found, pull, rng, entries, heat=heat)
        best = min((best, found), key=_value)
        progress("place", (run + 1) / runs)
    return _by_trees(best, seed, budget.trees, progress).board


def _by_trees(best: ExactCost, seed: int, budget: TreeBudget, progress: Progress) -> ExactCost:
    """The best position that annealing of exact trees finds, or ``best``."""
    runs = runs_and_steps(len(best.board.movable), best.nets, best.board.sites, budget)
    start = best.board
    for run in range(runs.count):
        found = annealed_trees(start, best.nets, np.random.default_rng([seed, run]), runs)
        best = best if found is None else min((best, exact_cost(found, best.nets)), key=_value)
        progress("anneal trees", (run + 1) / runs.count)
    return best


def _step_entries(nets: Traffic) -> int:
    """About the entries of trees that one exact step looks at: the nets of a block and of each of its partners."""
    nets_per_block = len(nets.nets) // max(nets.blocks, 1)
    return 2 * WIDTH * nets_per_block * (len(nets.targets) // max(len(nets.source), 1))


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
