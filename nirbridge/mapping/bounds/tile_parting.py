"""The fewest links over all ways to part a few blocks into tiles, exactly, by dynamic programming over sets of blocks.

The last block of a set S shares its tile with others of it, or with none. So the least cost of S is the least over the
sets T of up to c blocks with that block, of the cost of a tile with T plus the least cost of S without T (Bellman's
recursion for set partitioning). A set is a number whose bit b says whether it has block b; numbers below 2^d are the
sets of the first d blocks, so their costs are an array of d axes with two places each, and all S of one T are a view
of it.
"""

from __future__ import annotations

from math import comb

import numpy as np

from nirbridge.arrays import Array
from nirbridge.mapping.bounds.tile_sets import members

BLOCKS_MAX = 22
"""More blocks have too many sets: of 22 their costs take 34 MB."""
WORK_MAX = 60_000_000
"""Pairs of a set and of a tile within it that are looked at: all of 18 blocks on tiles of 4, of 16 on any tiles."""


def is_exact(blocks: int, per_tile: int) -> bool:
    """Whether so few blocks can be parted exactly, and in more ways than one."""
    if per_tile < 2 or blocks > BLOCKS_MAX:
        return False
    return sum(comb(d, k) << (d - k) for d in range(blocks) for k in range(min(per_tile, d + 1))) <= WORK_MAX


def least_parting(blocks: int, cost: list[Array], host_cost: list[Array]) -> float:
    """The least sum of costs of tiles that part all blocks, one of which, possibly empty, is the host's.

    Args:
        blocks: number of blocks, at least 1.
        cost: per size of a set from 1 on, the cost of a tile of each set of that size, in the order of ``tile_sets``.
        host_cost: the same of the host's tile.
    """
    least, full = np.full(1 << blocks, np.inf), (1 << blocks) - 1
    least[0] = 0.0
    on_tile, of_tile = _as_numbers(cost, blocks), [list[int]() for _ in range(blocks)]
    for tile in np.flatnonzero(np.isfinite(on_tile)).tolist():
        of_tile[tile.bit_length() - 1].append(tile)
    for last, tiles in enumerate(of_tile):
        before = least[: 1 << last].reshape((2,) * last)  # the first axis is that of the last block
        own = least[1 << last : 2 << last].reshape((2,) * last)
        for tile in tiles:
            inside = [(tile >> b) & 1 for b in reversed(range(last))]
            sets = tuple(1 if is_in else slice(None) for is_in in inside)
            rest = before[tuple(0 if is_in else slice(None) for is_in in inside)]
            own[sets] = np.minimum(own[sets], rest + on_tile[tile])
    on_host = _as_numbers(host_cost, blocks)
    on_host[0] = 0.0
    return float(np.min(on_host + least[full ^ np.arange(1 << blocks)]))


def _as_numbers(cost: list[Array], blocks: int) -> Array:
    """The cost of each set by its number; infinite where it has none."""
    found = np.full(1 << blocks, np.inf)
    for size, own in enumerate(cost, start=1):
        found[(1 << members(np.arange(len(own)), size, blocks)).sum(axis=1)] = own
    return found
