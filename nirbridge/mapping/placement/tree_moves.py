"""Annealing of blocks on cores by exact multicast trees, compiled (numba, extra ``fast``)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from nirbridge.arrays import Array, weighted_sum
from nirbridge.mapping.mesh import HOST_TILE
from nirbridge.mapping.placement.board import PlacementBoard
from nirbridge.mapping.traffic import Traffic

HOT, COLD = 0.5, 0.05
"""First and last temperature, in mean hops of a block."""
STEPS_LEAST = 400
"""Steps a block: with less none is made, since heat needs time to cool."""
STEP_ENTRIES = 20
"""Work of a proposal that weighs no tree, in entries of trees."""


@dataclass(frozen=True, slots=True)
class TreeBudget:
    """Work of the annealing of trees: runs, the most steps a block in each, and entries in all runs together."""

    runs: int = 0
    steps_per_block: int = 0
    entries: int = 0


NO_TREES = TreeBudget()
"""No run."""


def runs_and_steps(board: PlacementBoard, nets: Traffic, budget: TreeBudget) -> tuple[int, int]:
    """Runs, and the steps of each; none where there would be too few steps to be of use.

    Fewer runs in full come before more short ones.
    """
    blocks = len(board.movable)
    if budget.runs == 0 or blocks < 2 or len(nets.source) == 0:
        return 0, 0
    entries = np.bincount(nets.entry_nets(), minlength=len(nets.source)) + 4
    step = STEP_ENTRIES + 2 * int(entries[nets.nets].sum()) // nets.blocks
    steps = min(budget.entries // step, budget.steps_per_block * blocks)
    if steps < STEPS_LEAST * blocks:
        return 0, 0
    return min(budget.runs, budget.entries // step // steps), steps


def annealed_trees(board: PlacementBoard, nets: Traffic, rng: np.random.Generator, steps: int) -> PlacementBoard | None:
    """The best position that ``steps`` proposals find from ``board``; None where none is better than it.

    Needs numba (see ``compiled.is_available``).
    """
    from nirbridge.mapping.placement import tree_kernels as kernels

    state = np.array([rng.integers(1, 2**63)], np.uint64)
    trees, best = _tree_board(board, nets), board.site.copy()
    kernels.load_all(trees)
    unit = float(weighted_sum(nets.rate, trees.links)) / len(board.movable)
    if unit <= 0.0 or kernels.anneal(trees, state, steps, HOT * unit, COLD * unit, best) >= 0.0:
        return None
    found = board.copy()
    found.put(board.movable, best[board.movable])
    return found


def _tree_board(board: PlacementBoard, nets: Traffic) -> Any:
    from nirbridge.mapping.placement import tree_kernels as kernels

    sites, extent = board.sites, board.extent
    tiles, first = np.unique(sites.tile, return_index=True)
    grid = np.full(extent, -1, np.int64)
    grid[sites.x[first], sites.y[first]] = tiles
    tile_start = np.concatenate(([0], np.cumsum(np.bincount(sites.tile))))
    arrays: tuple[Array, ...] = (
        *(nets.source, nets.rate, nets.ptr, nets.targets, nets.net_ptr, nets.nets, board.movable),
        *(np.append(board.x, HOST_TILE[0]), np.append(board.y, HOST_TILE[1])),
        *(board.site.copy(), board.block.copy(), sites.x, sites.y),
        *(grid, tile_start, np.argsort(sites.tile, kind="stable")),
        *(np.zeros(len(nets.source), np.int64), np.zeros((*extent, 4))),
        *np.zeros((3, len(nets.source)), np.int64),
        *np.zeros((2, extent[0]), np.int64),
        np.zeros((3, len(sites.cores)), np.int64),
    )
    return kernels.TreeBoard._make(arrays)
