"""Cores as points of one mesh of the tiles of all chips: a chip begins at its place on the board times its size."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from nirbridge.arrays import Array
from nirbridge.chips.model import Chip, CoreId

HOST_TILE = (0, 0)
"""Where host inputs enter the mesh: column and row of the first tile of the first chip."""


def tiles_of(cores: Sequence[CoreId], chip: Chip) -> tuple[Array, Array]:
    """Global tile column and row of each core: two int64 arrays [cores]."""
    width, height, places = chip.mesh.width_tiles, chip.mesh.height_tiles, chip.board.places
    if places is None:  # a chain along x
        x = [core.chip * width + core.x for core in cores]
        return np.array(x, dtype=np.int64), np.array([core.y for core in cores], dtype=np.int64)
    x = [places[core.chip][0] * width + core.x for core in cores]
    y = [places[core.chip][1] * height + core.y for core in cores]
    return np.array(x, dtype=np.int64), np.array(y, dtype=np.int64)


def hops_from_host(x: Array, y: Array) -> Array:
    """Links from where host inputs enter to the tiles (x, y)."""
    return np.abs(x - HOST_TILE[0]) + np.abs(y - HOST_TILE[1])


def route_hops(a: CoreId, b: CoreId, chip: Chip) -> int:
    """Links of the X-Y path between two cores: 0 within a tile."""
    (x0, x1), (y0, y1) = tiles_of((a, b), chip)
    return int(abs(x0 - x1) + abs(y0 - y1))
