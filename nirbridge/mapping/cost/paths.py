"""Paths of messages between pairs of cores: their links within and between chips, and the loads of links."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from nirbridge.arrays import Array
from nirbridge.chips.boards import board_tiles
from nirbridge.chips.model import Chip, CoreId
from nirbridge.mapping.mesh import HOST_TILE, tiles_of


@dataclass(frozen=True, slots=True, eq=False)
class Paths:
    """X-Y paths of pairs (source block or host, target block), int64 [pairs] each.

    ``hops_x``, ``hops_y``: links within chips; ``crossings_x``, ``crossings_y``: links between chips. ``along_x`` and
    ``along_y`` [pairs, links]: 1 where a path takes a link along x or along y, between chips too; ``between``: 1 where
    it takes a link between chips.
    """

    hops_x: Array
    hops_y: Array
    crossings_x: Array
    crossings_y: Array
    along_x: sparse.csr_array
    along_y: sparse.csr_array
    between: sparse.csr_array


def paths_between(source: Array, target: Array, cores: Sequence[CoreId], chip: Chip) -> Paths:
    """The paths from ``source`` [pairs] (-1: the host, which enters at ``HOST_TILE``) to ``target`` [pairs]."""
    x, y = (np.append(a, host) for a, host in zip(tiles_of(cores, chip), HOST_TILE, strict=True))
    x0, y0, x1, y1 = x[source], y[source], x[target], y[target]
    width, height = chip.mesh.width_tiles, chip.mesh.height_tiles
    crossings_x, crossings_y = np.abs(x1 // width - x0 // width), np.abs(y1 // height - y0 // height)
    columns, rows = board_tiles(chip, 1 + max((core.chip for core in cores), default=0))
    along_x, along_y = _links(x0, x1, y0, (rows, columns)), _links(y0, y1, x1, (columns, rows))
    cut = (_crossings(along_x, columns, width), _crossings(along_y, rows, height))
    return Paths(
        np.abs(x1 - x0) - crossings_x,
        np.abs(y1 - y0) - crossings_y,
        crossings_x,
        crossings_y,
        along_x,
        along_y,
        sparse.csr_array(sparse.hstack(cut)),
    )


def _links(start: Array, stop: Array, line: Array, shape: tuple[int, int]) -> sparse.csr_array:
    """[paths, links]: 1 for every link from ``start`` to ``stop`` on a line; ``shape``: lines and their length.

    Link ``(line * length + i) * 2 + d`` leaves place i upwards (d = 0) or downwards (d = 1).
    """
    lines, length = shape
    count = np.abs(stop - start)
    path = np.repeat(np.arange(len(start)), count)
    within = np.arange(len(path)) - np.repeat(np.cumsum(count) - count, count)
    down = (stop < start)[path]
    place = start[path] + np.where(down, -within, within)
    link = (line[path] * length + place) * 2 + down
    ones = np.ones(len(path), np.int64)
    return sparse.csr_array((ones, (path, link)), shape=(len(start), lines * length * 2))


def _crossings(along: sparse.csr_array, length: int, size: int) -> sparse.csr_array:
    """The links of ``along`` that lead from one chip to the next; ``size``: tiles of a chip along the lines."""
    shape = along.shape
    assert shape is not None, "a matrix has a shape"
    link = np.arange(shape[1])
    place, down = link // 2 % length, link % 2
    leaves = np.where(down == 1, place % size == 0, place % size == size - 1)
    kept = along.copy()
    kept.data = np.where(leaves[kept.indices], kept.data, 0)
    return kept


def most_over_a_link(counts: sparse.csr_array, along: sparse.csr_array) -> Array:
    """The most messages over one link in each time step, float64 [steps]; ``counts`` [steps, pairs]."""
    loads: Any = counts @ along
    if not loads.nnz:
        return np.zeros(loads.shape[0])
    return np.asarray(loads.max(axis=1).todense(), dtype=np.float64).ravel()
