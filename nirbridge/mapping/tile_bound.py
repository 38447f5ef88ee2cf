"""A lower bound on multicast hops over all ways to put blocks on tiles: a linear program over sets of blocks.

A tree has a link for each of its tiles but the source's. So a net that touches t tiles takes at least t - 1 links, and
a net of the host at least one for each touched tile that is not the host's. Added up over tiles, a placement takes at
least the rates of the nets that touch each tile, on the host's tile without those of the host, less the rate of each
net between blocks once. Tiles part n blocks into sets S of at most c, at least ceil(n / c) of them. With a price p per
block, a price q per tile, and m, all at least 0, such that

    p(S) + q <= rate of the nets that touch S,  and  p(S) + q - m <= rate of the nets between blocks that touch S

for all sets, the sum of all p, plus ceil(n / c) times q, less m and the rates of the nets between blocks, is a bound:
the dual of a set partitioning. The program starts with the sets of one block; the sets that its prices break most are
added until none is. Every set is looked at in each round, and the prices are scaled down until every set holds, so that
the bound rests neither on the solver nor on the last round.

More blocks than ``SETS_MAX`` allows are cut into windows, with each net in the window of most of its ends: a net
touches no fewer tiles than some of its blocks do. Nets that take most work for their rate are left out beyond
``WORK_MAX``. Both only lower the bound.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import sparse

from nirbridge.arrays import Array
from nirbridge.mapping.tile_nets import TouchingNets
from nirbridge.mapping.tile_sets import Coverage, chunks, members, sums
from nirbridge.mapping.traffic import Traffic

SETS_MAX = 11_100_000
"""Sets of blocks that are looked at in each round: those of up to 4 of 128 blocks, of a chip of loihi1."""
WORK_MAX = 30_000_000
"""Sets of as many blocks as a tile holds, all of one net, over the nets of a window: the work of their rates."""
ROWS_MORE = 8
"""Rows added in each round for each last block of a set, each size and each kind of tile."""
ROUNDS_MAX = 80
UNIT = 1000.0
"""The largest cost of a row as the solver sees it, whose tolerance is a number (1e-7)."""
TOLERANCE = 1e-9
ROUNDED_DOWN = 1 - 1e-12


def tile_bound(nets: Traffic, per_tile: int) -> float:
    """The bound; 0 where a tile holds one block."""
    if per_tile < 2 or len(nets.source) == 0:
        return 0.0
    windows = TouchingNets.of_traffic(nets).affordable(2, WORK_MAX).windows(per_tile, SETS_MAX)
    return sum(_window_bound(window.affordable(per_tile, WORK_MAX), per_tile) for window in windows)


def _window_bound(nets: TouchingNets, per_tile: int) -> float:
    if nets.blocks <= per_tile or len(nets.rate) == 0:
        return 0.0
    tiles = _Tiles.of_nets(nets, per_tile)
    unit = max(float(cost.max()) for cost in tiles.cost) / UNIT
    rows, best, least = tiles.first_rows(), 0.0, -(-nets.blocks // per_tile)
    once = float(nets.rate[~nets.is_host].sum()) / ROUNDED_DOWN
    for _ in range(ROUNDS_MAX):
        prices = _solved(rows, tiles.blocks, unit, least)
        if prices is None:
            break
        more, scale, host_excess = tiles.broken(prices, TOLERANCE * UNIT * unit)
        paid = float(prices.of_block.sum()) + least * prices.of_tile
        best = max(best, ROUNDED_DOWN * scale * paid - host_excess / ROUNDED_DOWN - once)
        if not more:
            break
        rows += more
    return best


@dataclass(frozen=True, slots=True, eq=False)
class _Rows:
    """Sets of blocks [rows, size] and the most that the prices of each may sum to; on the host's tile, or on others."""

    sets: Array
    cost: Array
    of_host: bool


@dataclass(frozen=True, slots=True, eq=False)
class _Prices:
    """p, q and m."""

    of_block: Array
    of_tile: float
    of_host: float


def _solved(rows: list[_Rows], blocks: int, unit: float, least: int) -> _Prices | None:
    """The prices of the largest bound where only these rows hold, for ``least`` tiles; None: the solver gives up."""
    from scipy.optimize import linprog

    host, tile = blocks, blocks + 1
    sets = [np.pad(r.sets, ((0, 0), (0, int(r.of_host))), constant_values=host) for r in rows]
    sets = [np.pad(own, ((0, 0), (0, 1)), constant_values=tile) for own in sets]
    pointers = np.concatenate([np.full(len(s), s.shape[1]) for s in sets]).cumsum()
    places = np.concatenate([s.ravel() for s in sets])
    signs = np.where(places == host, -1.0, 1.0)
    matrix = sparse.csr_array((signs, places, np.append(0, pointers)), shape=(len(pointers), blocks + 2))
    goal = np.append(np.full(blocks, -1.0), (1.0, -least))
    result = linprog(goal, A_ub=matrix, b_ub=np.concatenate([r.cost for r in rows]) / unit, method="highs")
    if result.status != 0:
        return None
    found = unit * np.maximum(result.x, 0.0)
    return _Prices(found[:blocks], float(found[tile]), float(found[host]))


@dataclass(frozen=True, slots=True, eq=False)
class _Tiles:
    """Per size of a set, the rates of the nets that touch each: ``cost`` all, ``host_cost`` those between blocks."""

    blocks: int
    cost: list[Array]
    host_cost: list[Array]

    @classmethod
    def of_nets(cls, nets: TouchingNets, per_tile: int) -> _Tiles:
        """The sets of up to ``per_tile`` blocks."""
        coverage = Coverage(nets.blocks, nets.ptr, nets.ends, nets.rate)
        host, inner = np.flatnonzero(nets.is_host), np.flatnonzero(~nets.is_host)
        sizes = range(1, per_tile + 1)
        host_cost = [coverage.rates(inner, size, nets.blocks) for size in sizes]
        if len(host) == 0:
            return cls(nets.blocks, host_cost, host_cost)
        cost = [coverage.rates(host, size, nets.blocks) + on for size, on in zip(sizes, host_cost, strict=True)]
        return cls(nets.blocks, cost, host_cost)

    def first_rows(self) -> list[_Rows]:
        """Those of the sets of one block."""
        single = np.arange(self.blocks)[:, None]
        return [_Rows(single, self.cost[0], False), _Rows(single, self.host_cost[0], True)]

    def broken(self, prices: _Prices, allowed: float) -> tuple[list[_Rows], float, float]:
        """Rows that break most, the scale at which all sets hold but the host's, and the m that those need then."""
        found, scale, excess = [], 1.0, 0.0
        for size, (cost, host_cost) in enumerate(zip(self.cost, self.host_cost, strict=True), start=1):
            others = sums(prices.of_block, size - 1, self.blocks - 1) if size > 1 else np.zeros(1)
            for last, span in chunks(self.blocks, size):
                paid = others[: span.stop - span.start] + (prices.of_block[last] + prices.of_tile)
                over, over_host = paid - cost[span], paid - host_cost[span]
                found += self._worst(over, cost, span, size, allowed)
                found += self._worst(over_host - prices.of_host, host_cost, span, size, allowed, of_host=True)
                excess = max(excess, float(over_host.max()))
                at = np.flatnonzero(over > 0)
                scale = min(scale, float(np.min(cost[span][at] / paid[at], initial=1.0)))
        return found, scale, excess

    def _worst(
        self, over: Array, cost: Array, span: slice, size: int, allowed: float, *, of_host: bool = False
    ) -> list[_Rows]:
        at = np.flatnonzero(over > allowed)
        if len(at) == 0 or (of_host and self.host_cost is self.cost):
            return []
        if len(at) > ROWS_MORE:
            at = at[np.argsort(-over[at], kind="stable")[:ROWS_MORE]]
        at = at + span.start
        return [_Rows(members(at, size, self.blocks), cost[at], of_host)]
