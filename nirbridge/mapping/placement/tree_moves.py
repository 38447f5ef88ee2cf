"""Positions of blocks during a search, and their annealing by exact multicast trees (compiled where it takes long)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from nirbridge._types import Progress
from nirbridge.arrays import Array, weighted_sum
from nirbridge.chips.model import Chip, CoreId
from nirbridge.mapping.route import HOST_TILE, hops_from_host, tiles_of
from nirbridge.mapping.traffic import Traffic
from nirbridge.partitioner.cost.axons import HOST
from nirbridge.partitioner.search.irregular.jit import announce, compiled, plain

HOT, COLD = 0.5, 0.05
"""First and last temperature, in mean hops of a block."""
STEPS_LEAST = 400
"""Steps a block: with less none is made, since heat needs time to cool."""
STEP_NETS = 20
"""Work of a proposal that weighs no tree, in nets."""
OF_PARTS, OF_BLOCKS = 1.5, 0.6
"""Parts that a proposal moves: 1.5, and 0.6 for each that a block has (seven of ten move up to three parts)."""

COUNTS_MAX = 200_000_000
"""Counters of targets by tile and core, of two bytes each: beyond, no step is made."""


@dataclass(frozen=True, slots=True)
class TreeBudget:
    """Work of the annealing of trees: runs, the most steps a part in each, and nets weighed in all runs together.

    ``small``: steps a part, and nets: where these steps weigh no more nets, they are the one run, and no code is
    compiled, which takes 20 s, once.
    ``steps_due``: where ``nets`` do not last for these steps a part, up to ``nets_most`` are taken. ``targets``: those
    of the nets weighed, in all runs together; 0: not limited. A move that is made changes the load of every link of its
    trees: with 25 targets a net takes 350 ns, with two 17 ns.
    """

    runs: int = 0
    steps_per_block: int = 0
    nets: int = 0
    steps_due: int = 0
    nets_most: int = 0
    targets: int = 0
    small: tuple[int, int] = (0, 0)


@dataclass(frozen=True, slots=True)
class Runs:
    """Number of annealing runs, steps of each, and whether they are few enough for plain Python."""

    count: int
    steps: int
    is_small: bool = False

    def code(self, function: Any) -> Any:
        """A loop (``irregular.jit``) as these runs call it."""
        return plain(function) if self.is_small else compiled(function)

    def announce(self, progress: Progress) -> None:
        """Tell where these runs have to wait for the compiler."""
        from nirbridge.mapping.placement import part_kernels as kernels

        if self.count and not self.is_small:
            announce(kernels.anneal, progress)


NO_TREES = TreeBudget()
"""No run."""


def runs_and_steps(
    movable: int,
    nets: Traffic,
    sites: Sites,
    budget: TreeBudget,
    least: int = STEPS_LEAST,
    parts_of_block: float = 1.0,
) -> Runs:
    """Runs, and the steps of each; none where there would be fewer than ``least`` steps for each part that may move.

    Fewer runs in full come before more short ones. ``movable``: the number of these parts, blocks or slices.
    """
    tiles = (int(sites.x.max(initial=0)) + 1) * (int(sites.y.max(initial=0)) + 1)
    count = len(nets.source)
    if budget.runs == 0 or movable < 2 or not 0 < count * (tiles + len(sites.x)) <= COUNTS_MAX:
        return Runs(0, 0)
    step = STEP_NETS + int((OF_PARTS + OF_BLOCKS * parts_of_block) * len(nets.nets) / nets.blocks)
    few = budget.small[0] * movable
    if 0 < few * step <= budget.small[1]:
        return Runs(1, few, is_small=True)
    most = budget.nets if budget.targets == 0 else min(budget.nets, budget.targets * count // len(nets.targets))
    due = min(budget.steps_due * movable, budget.nets_most // step)
    steps = min(max(most // step, due), budget.steps_per_block * movable)
    if steps < least * movable:
        return Runs(0, 0)
    return Runs(min(budget.runs, max(most // step // steps, 1)), steps)


def annealed_trees(board: PlacementBoard, nets: Traffic, rng: np.random.Generator, runs: Runs) -> PlacementBoard | None:
    """The best position that one of ``runs`` finds from ``board``; None where none is better than it."""
    from nirbridge.mapping.placement import part_kernels as kernels

    trees, best = tree_board(board, nets, runs), board.site.copy()
    unit = float(weighted_sum(nets.rate, trees.links)) / len(board.movable)
    if unit <= 0.0:
        return None
    state = np.array([rng.integers(1, 2**63)], np.uint64)
    runs.code(kernels.anneal)(trees, kernels.BLOCKS, state, runs.steps, HOT * unit, COLD * unit, best)
    if trees.tally[kernels.LOWEST] >= 0.0:
        return None
    found = board.copy()
    found.put(board.movable, best[board.movable])
    return found


def tree_board(board: PlacementBoard, nets: Traffic, runs: Runs) -> Any:
    """The board of blocks for some runs; pinned ones are on sites of their own, after the usable sites."""
    pinned = np.flatnonzero(board.site < 0)
    site = board.site.copy()
    site[pinned] = len(board.sites.cores) + np.arange(len(pinned))
    needs = PartNeeds.none(nets.blocks, len(nets.source))
    return Parts(nets, board.movable, site, needs).on(board.sites, board.x[pinned], board.y[pinned], runs)


@dataclass(frozen=True, slots=True, eq=False)
class PartNeeds:
    """Resource use of single parts in a core.

    ``size`` [nets]: neurons of each net; ``needs`` [2, parts]: neurons and, at most, words; ``kind`` [parts]: equal
    numbers for slices that fill a core alike; ``profile`` [parts]: for those of the same profiles; ``most`` [4]:
    neurons, words, input and output axons that a core may hold.
    """

    size: Array
    needs: Array
    kind: Array
    profile: Array
    most: Array

    @classmethod
    def none(cls, parts: int, nets: int) -> PartNeeds:
        """Needs of whole blocks, which keep every limit on any core."""
        nothing = np.zeros(parts, np.int64)
        nothing_of_core = np.zeros((2, parts), np.int64), nothing, nothing, np.zeros(4, np.int64)
        return cls(np.zeros(nets, np.int64), *nothing_of_core)


@dataclass(frozen=True, slots=True, eq=False)
class Parts:
    """Parts of the network and their sites: ``site`` [parts], the ``movable`` parts, and the nets between parts."""

    nets: Traffic
    movable: Array
    site: Array
    needs: PartNeeds

    def on(self, sites: Sites, pinned_x: Array, pinned_y: Array, runs: Runs) -> Any:
        """The board for runs on some sites, followed by those of pinned parts (columns and rows of their tiles)."""
        from nirbridge.mapping.placement import tree_kernels as kernels

        nets, own, parts, count = self.nets, self.needs, self.nets.blocks, len(self.nets.source)
        rate = np.asarray(self.nets.rate, np.float64)
        x, y = np.append(sites.x, pinned_x), np.append(sites.y, pinned_y)
        extent = (int(x.max(initial=0)) + 1, int(y.max(initial=0)) + 1)
        fed, owned = rows_of(nets.targets, nets.entry_nets(), parts), _owned(nets)
        arrays: tuple[Array, ...] = (
            *(nets.source, rate, own.size, nets.ptr, nets.targets, nets.net_ptr, nets.nets, *fed, *owned),
            *(self.movable, own.needs, own.kind, own.profile),
            *(np.append(x[self.site], HOST_TILE[0]), np.append(y[self.site], HOST_TILE[1]), self.site.copy()),
            *(np.full(len(x), -1, np.int64), *np.full((2, parts), -1, np.int64), x, y),
            *_tiles(sites, extent),
            *(np.zeros((count, *extent), np.int16), np.zeros((count, len(x)), np.int16)),
            *(np.ones((count, extent[0]), np.int16), np.zeros((count, extent[0]), np.int16)),
            *(np.full(count, extent[0], np.int64), np.full(count, -1, np.int64), *np.zeros((2, count), np.int64)),
            *(np.zeros((*extent, 4)), np.zeros((4, len(x)), np.int64), own.most, np.zeros(3), np.zeros(3, np.int64)),
            *np.zeros((6, count), np.int64),
            *(np.zeros(2, np.int64), np.zeros((3, parts), np.int64)),
        )
        # compiled code is for one kind of arrays: those that are read-only would compile all of it again
        board = kernels.TreeBoard._make(a if a.flags.writeable else a.copy() for a in arrays)
        runs.code(kernels.fill)(board)
        return board


def _tiles(sites: Sites, extent: tuple[int, int]) -> tuple[Array, Array, Array]:
    """The tile at each column and row (-1: none), where the sites of each begin, and the sites, tile by tile."""
    tiles, first = np.unique(sites.tile, return_index=True)
    grid = np.full(extent, -1, np.int64)
    grid[sites.x[first], sites.y[first]] = tiles
    starts = np.concatenate(([0], np.cumsum(np.bincount(sites.tile))))
    return grid, starts, np.argsort(sites.tile, kind="stable")


def rows_of(row: Array, value: Array, rows: int) -> tuple[Array, Array]:
    """Compressed rows: the start of each row [rows + 1], and the values row by row."""
    starts = np.concatenate(([0], np.cumsum(np.bincount(row, minlength=rows)))).astype(np.int64)
    return starts, value[np.argsort(row, kind="stable")].astype(np.int64)


def _owned(nets: Traffic) -> tuple[Array, Array]:
    """The nets whose source is each part."""
    net = np.flatnonzero(nets.source != HOST)
    return rows_of(nets.source[net], net, nets.blocks)


# -- board ---------------------------------------------------------------------------------------------------------
# Positions of blocks during the search of a placement: the only mutable state of the search.


@dataclass(frozen=True, slots=True, eq=False)
class Sites:
    """Cores that the search may use, in order; ``x, y`` their tiles, ``tile`` a number per tile, from 0 on.

    ``host_hops``: links from where host inputs enter.
    """

    cores: tuple[CoreId, ...]
    x: Array
    y: Array
    tile: Array
    host_hops: Array

    @classmethod
    def of(cls, cores: Sequence[CoreId], chip: Chip) -> Sites:
        """The sites of ``cores``."""
        x, y = tiles_of(cores, chip)
        tile = np.unique(x * (int(y.max(initial=0)) + 1) + y, return_inverse=True)[1]
        return cls(tuple(cores), x, y, tile.astype(np.int64), hops_from_host(x, y))


@dataclass(slots=True, eq=False)
class PlacementBoard:
    """Blocks on sites. ``x, y`` [blocks] are tiles; ``site`` [blocks] is -1 for a pinned block, which never moves.

    ``block`` [sites] is the block on a site, or -1.
    """

    sites: Sites
    x: Array
    y: Array
    site: Array
    block: Array
    movable: Array

    @classmethod
    def empty(cls, sites: Sites, blocks: int, pins: Mapping[int, CoreId], chip: Chip) -> PlacementBoard:
        """A board with only the pinned blocks on it."""
        board = cls(
            sites,
            np.zeros(blocks, np.int64),
            np.zeros(blocks, np.int64),
            np.full(blocks, -1, np.int64),
            np.full(len(sites.cores), -1, np.int64),
            np.array([b for b in range(blocks) if b not in pins], dtype=np.int64),
        )
        pinned = list(pins)
        board.x[pinned], board.y[pinned] = tiles_of([pins[b] for b in pinned], chip)
        return board

    @property
    def extent(self) -> tuple[int, int]:
        """Columns and rows that blocks and sites take."""
        x = max(self.sites.x.max(initial=0), self.x.max(initial=0))
        y = max(self.sites.y.max(initial=0), self.y.max(initial=0))
        return int(x) + 1, int(y) + 1

    def cores_with(self, pins: Mapping[int, CoreId]) -> tuple[CoreId, ...]:
        """The core of each block, where every one that is not pinned has a site."""
        return tuple(pins[b] if b in pins else self.sites.cores[site] for b, site in enumerate(self.site.tolist()))

    def copy(self) -> PlacementBoard:
        """The same position, to go on from independently."""
        arrays = (self.x.copy(), self.y.copy(), self.site.copy(), self.block.copy())
        return PlacementBoard(self.sites, *arrays, self.movable)

    def put(self, blocks: Array, sites: Array) -> None:
        """Set movable ``blocks`` on ``sites`` that are empty, or all at once a permutation of the old ones."""
        self.block[self.site[blocks][self.site[blocks] >= 0]] = -1
        self.site[blocks] = sites
        self.block[sites] = blocks
        self.x[blocks], self.y[blocks] = self.sites.x[sites], self.sites.y[sites]
