"""Positions of blocks during the search of a placement: the only mutable state of the search."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from nirbridge.arrays import Array
from nirbridge.chips.model import Chip, CoreId
from nirbridge.mapping.mesh import hops_from_host, tiles_of


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
