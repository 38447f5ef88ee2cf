"""Cores as points of the mesh: chips are a chain along x, so chip c begins at global column ``c * width_tiles``."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from nirbridge.arrays import Array
from nirbridge.chips.model import Chip, CoreId

HOST_TILE = (0, 0)
"""Where host inputs enter the mesh: column and row of the first tile of the first chip."""


def tiles_of(cores: Sequence[CoreId], chip: Chip) -> tuple[Array, Array]:
    """Global tile column and row of each core: two int64 arrays [cores]."""
    x = [core.chip * chip.mesh.width_tiles + core.x for core in cores]
    return np.array(x, dtype=np.int64), np.array([core.y for core in cores], dtype=np.int64)


def hops_from_host(x: Array, y: Array) -> Array:
    """Links from where host inputs enter to the tiles (x, y)."""
    return np.abs(x - HOST_TILE[0]) + np.abs(y - HOST_TILE[1])


def route_hops(a: CoreId, b: CoreId, chip: Chip) -> int:
    """Links of the X-Y path between two cores: 0 within a tile."""
    columns_apart = (a.chip - b.chip) * chip.mesh.width_tiles + a.x - b.x
    return abs(columns_apart) + abs(a.y - b.y)
