"""A lower bound on multicast hops over all placements: by the tiles that nets touch, and by distances between blocks.

``tile_program`` counts a link for each tile of a net but one, wherever the tiles are. ``distance_flows`` counts links
between blocks, and from the host to blocks, however many are on a tile. Both hold for any rates, so for any split of
the rates the sum is a bound. The tiling that the program finds says how much a net brings there; flows, in turns, take
the rates that bring more with them, and the program is solved again for the rest.

More blocks than ``SETS_MAX`` allows are cut into windows for the program, with each net in the window of most of its
ends: a net touches no fewer tiles than some of its blocks do. Nets that take most work for their rate are left out
beyond ``WORK_MAX``. Both only lower the bound.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy import sparse

from nirbridge._types import Progress, no_progress
from nirbridge.arrays import Array
from nirbridge.mapping.bounds.distance_flows import Flows, Lengths
from nirbridge.mapping.bounds.tile_nets import TouchingNets
from nirbridge.mapping.bounds.tile_program import Rows, incidence, tiling
from nirbridge.mapping.traffic import Traffic

SETS_MAX = 110_000_000
"""Sets of blocks that are looked at in each round: those of up to 4 of 227 blocks, of 57 tiles of loihi1."""
WORK_MAX = 200_000_000
"""Sets of as many blocks as a tile holds, all of one net, over the nets of a window: the work of their rates; and pairs
of blocks of one net, over all nets."""
SPLITS_MAX, SETTLED = 3, 0.03
"""Splits of the rates that are tried, at most: the last is one that gains, but less than this part of the bound."""
TILES = 0.1
"""Part of the time after which the first tiling is done, about."""


def tile_bound(
    nets: Traffic,
    per_tile: int,
    extent: tuple[int, int] | None = None,
    enough: float = math.inf,
    progress: Progress = no_progress,
) -> float:
    """The bound.

    Args:
        nets: the nets between blocks.
        per_tile: cores of a tile.
        extent: columns and rows of tiles of a mesh with room for all blocks; None: distances do not count, and the
            bound of tiles of one core is 0, since the number of targets says as much.
        enough: distances do not count either where a bound without them reaches this.
        progress: called with a stage, "bounds", and the part of it that is done.
    """
    if len(nets.source) == 0 or (per_tile < 2 and extent is None):
        return 0.0
    touching = TouchingNets.of_traffic(nets).affordable(2, WORK_MAX)
    count = touching.count_windows(per_tile, SETS_MAX)
    windows = _Windows(touching if count == 1 else touching.reordered(), count, per_tile)
    tiled = windows.tiled(windows.nets.rate, [[]] * count)
    if extent is None or tiled.bound >= enough:
        return tiled.bound
    progress("bounds", TILES)
    flows = Flows.between(windows.nets, per_tile, extent)
    return tiled.bound if flows is None else _with_distances(windows, tiled, flows, progress)


def _with_distances(windows: _Windows, found: _Tiled, flows: Flows, progress: Progress) -> float:
    """The best bound of some splits of the rates, the first of which leaves all to the tiles."""
    best, covered, lengths = found.bound, found.covered, list[Lengths]()
    for tried in range(SPLITS_MAX):
        split = flows.best(covered, lengths)
        if split.paid <= 0:
            break
        found, lengths = windows.tiled(windows.nets.rate - split.parts, found.rows), split.lengths
        before, best, covered = best, max(best, found.bound + split.paid), (covered + found.covered) / 2
        progress("bounds", TILES + (1 - TILES) * (tried + 1) / SPLITS_MAX)
        if before < best < (1 + SETTLED) * before:
            break
    return best


@dataclass(frozen=True, slots=True, eq=False)
class _Tiled:
    """The sum of the bounds of windows, how many tiles they count of each net, and their rows."""

    bound: float
    covered: Array
    rows: list[list[Rows]]


@dataclass(frozen=True, slots=True, eq=False)
class _Windows:
    """The nets, in an order of blocks of which windows are ranges."""

    nets: TouchingNets
    count: int
    per_tile: int

    def tiled(self, rate: Array, rows: list[list[Rows]]) -> _Tiled:
        """The programs of all windows with these rates [nets], each beginning with its rows."""
        bound, found, sets, shares, away = 0.0, list[list[Rows]](), list[Array](), list[Array](), list[Array]()
        for number, window in enumerate(self.nets.paying(rate).windows(self.count)):
            nets = window.affordable(self.per_tile, WORK_MAX)
            if nets.blocks <= self.per_tile or len(nets.rate) == 0:
                found.append([])
                continue
            own = tiling(nets, self.per_tile, rows[number])
            bound += own.bound
            found.append(own.rows)
            sets += [r.sets + number * self.nets.width(self.count) for r in own.rows]
            away += [np.full(len(r.sets), not r.of_host) for r in own.rows]
            shares.append(own.shares)
        return _Tiled(bound, self._covered(sets, shares, away), found)

    def _covered(self, sets: list[Array], shares: list[Array], away: list[Array]) -> Array:
        """Tiles of each net in a fractional tiling: beyond the first, or of the host's nets, those ``away`` from it."""
        share, nets = np.concatenate([np.zeros(0), *shares]), self.nets
        used = np.flatnonzero(share > 0)
        ends = sparse.csr_array((np.ones(len(nets.ends)), nets.ends, nets.ptr), shape=(len(nets.rate), nets.blocks))
        touched = (ends @ incidence(sets, nets.blocks)[used].T) > 0
        counted = share[used] * np.concatenate([np.zeros(0, bool), *away])[used]
        return np.where(nets.is_host, touched @ counted, np.maximum(touched @ share[used] - 1, 0.0))
