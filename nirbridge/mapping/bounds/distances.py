"""The least sum of distances between all pairs of blocks on a mesh, and how many are far from the host at least.

The sum is a quadratic form in the blocks of each tile that is concave where their number is kept (distances of the
plane are of negative type), so a best placement has full tiles and at most one other. Full tiles in columns of k1, k2,
... of them have the least distances along x if the columns are ordered with the largest in the middle and smaller ones
outwards in turns (Hardy, Littlewood, Polya 1934, Inequalities, section 10.2). Their rows are majorized by those where
each column fills the same rows, row j having a tile in every column of more than j (Gale-Ryser). More unequal rows are
never farther apart: in its best order the sum is concave in any move of tiles between two rows.

Where these ways are too many, only the numbers of columns and rows with tiles are looked at, w and h: columns of 1 to h
tiles are majorized by those that are full, one that is not, and 1 in all others, and rows of 1 to w tiles alike.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from nirbridge.arrays import Array

ROWS_LISTED, TILES_LISTED, TILES_LISTED_IN_ROWS = 4, 24, 64
"""Most tiles of which all columns are looked at: 24, or 64 in meshes of up to 4 rows, some 2,000 ways."""


def least_distances(blocks: int, per_tile: int, extent: tuple[int, int]) -> float:
    """A lower bound on the links between blocks, summed over all pairs, of ``blocks`` blocks in any placement.

    Args:
        blocks: number of blocks; the mesh has room for them.
        per_tile: blocks that a tile may hold.
        extent: columns and rows of tiles of the mesh.
    """
    tiles, more = divmod(blocks, per_tile)
    rows, columns = sorted(extent)
    full = _least_of_tiles(tiles, rows, columns)
    # of c blocks on a tile r are a share r / c of the mean of none and all
    part = more / per_tile
    return per_tile**2 * ((1 - part) * full + (part * _least_of_tiles(tiles + 1, rows, columns) if more else 0.0))


def beyond_rings(blocks: int, per_tile: int, extent: tuple[int, int]) -> Array:
    """How many of ``blocks`` blocks are at least 1, 2, ... links away from the host's tile in any placement [rings]."""
    links = np.add.outer(np.arange(extent[0]), np.arange(extent[1])).ravel()
    beyond = blocks - per_tile * np.cumsum(np.bincount(links))
    return beyond[beyond > 0]


def _least_of_tiles(tiles: int, rows: int, columns: int) -> int:
    """The same for blocks that have a tile each; exact where all columns are looked at."""
    if tiles < 2:
        return 0
    if tiles <= (TILES_LISTED_IN_ROWS if rows <= ROWS_LISTED else TILES_LISTED):
        return min(
            _along(own) + _along([sum(k > j for k in own) for j in range(own[0])])
            for own in _columns(tiles, min(rows, tiles), columns)
        )
    sizes = ((w, h) for h in range(1, rows + 1) for w in range(1, columns + 1) if w + h - 1 <= tiles <= w * h)
    return min(_along(_fullest(tiles, w, h)) + _along(_fullest(tiles, h, w)) for w, h in sizes)


def _columns(tiles: int, most: int, columns: int) -> Iterator[tuple[int, ...]]:
    """Every way to write ``tiles`` as a sum of up to ``columns`` numbers up to ``most``, the largest first."""
    if tiles == 0:
        yield ()
        return
    for first in range(min(most, tiles), -(-tiles // columns) - 1, -1):
        for others in _columns(tiles - first, first, columns - 1) if columns > 1 or first == tiles else ():
            yield (first, *others)


def _fullest(tiles: int, lines: int, most: int) -> list[int]:
    """``lines`` numbers from 1 to ``most`` whose sum is ``tiles``, as large as they can be from the first on."""
    full, more = divmod(tiles - lines, most - 1) if most > 1 else (lines, 0)
    return [*[most] * full, *[1 + more] * (full < lines), *[1] * (lines - full - 1)]


def _along(lines: Sequence[int]) -> int:
    """Distances between tiles across lines, of which the i-th largest is i // 2 from the middle one."""
    largest = sorted(lines, reverse=True)
    before = np.cumsum(largest[1::2][::-1] + largest[::2])
    return int((before * (before[-1] - before)).sum()) if len(before) else 0
