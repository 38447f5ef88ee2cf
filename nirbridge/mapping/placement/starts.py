"""Starting placements, and the two baselines that benchmarks compare with: row-major and random."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from nirbridge.arrays import Array
from nirbridge.chips.model import CoreId
from nirbridge.mapping.placement.board import PlacementBoard, Sites
from nirbridge.mapping.traffic import PairwisePulls


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
