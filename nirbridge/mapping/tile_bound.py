"""A lower bound on multicast hops over all ways to put blocks on tiles: a linear program over sets of blocks.

A tree has a link for each of its tiles but the source's. So a net that touches t tiles takes at least t - 1 links, and
a net of the host at least one for each touched tile that is not the host's. Added up over tiles, a placement takes at
least the rates of the nets that touch each tile, on the host's tile without those of the host, less the rate of each
net between blocks once. Tiles part the blocks into sets S of at most c. With a price p per block, and m >= 0, such that

    p(S) <= rate of the nets that touch S,  and  p(S) - m <= rate of the nets between blocks that touch S

for all sets, the sum of all prices, less m and the rates of the nets between blocks, is a bound: the dual of a set
partitioning. The program starts with the sets of one block; the sets that its prices break most are added until none
is. Every set is looked at in each round, and the prices are scaled down until every set holds, so that the bound rests
neither on the solver nor on the last round.

More blocks than ``SETS_MAX`` allows are cut into windows, with each net in the window of most of its ends. Nets that
take most work for their rate are left out beyond ``WORK_MAX``. Both only lower the bound.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import comb

import numpy as np
from scipy import sparse

from nirbridge.arrays import Array
from nirbridge.mapping.tile_sets import Coverage, chunks, count_sets, members, sums
from nirbridge.mapping.traffic import Traffic, alike, gather
from nirbridge.partitioner.cost.axons import HOST

SETS_MAX = 11_100_000
"""Sets of blocks that are looked at in one window: those of up to 4 of 128 blocks, of a chip of loihi1."""
WORK_MAX = 30_000_000
"""Sets of blocks of the same net that are looked at, over all nets."""
ROWS_MORE = 4
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
    return sum(_window_bound(window, per_tile) for window in _windows(_ends(nets), per_tile))


@dataclass(frozen=True, slots=True, eq=False)
class _Nets:
    """Nets as the blocks that they touch, ``ends[ptr[net]:ptr[net + 1]]`` ascending; those of the host are marked."""

    blocks: int
    ptr: Array
    ends: Array
    rate: Array
    is_host: Array

    def within(self, first: int, stop: int, owned: Array) -> _Nets:
        """The nets ``owned``, without their blocks outside [first, stop); alike ones are added up."""
        entries, counts = gather(self.ptr, owned)
        net, ends = np.repeat(owned, counts), self.ends[entries]
        inside = (ends >= first) & (ends < stop)
        degrees = np.bincount(net[inside], minlength=len(self.rate))
        degrees[~self.is_host & (degrees < 2)] = 0
        inside &= degrees[net] > 0
        ptr, ends = np.concatenate(([0], np.cumsum(degrees))).astype(np.int64), ends[inside] - first
        used = np.flatnonzero(degrees)
        same, of = alike(self.is_host[used].astype(np.int64), ptr, ends, used)
        kept = used[same]
        entries, counts = gather(ptr, kept)
        rate = np.bincount(of, self.rate[used], len(kept))
        ptr = np.concatenate(([0], np.cumsum(counts))).astype(np.int64)
        return _Nets(stop - first, ptr, ends[entries], rate, self.is_host[kept])


def _ends(nets: Traffic) -> _Nets:
    """The nets over those blocks that some net touches."""
    net, is_host = nets.entry_nets(), nets.source == HOST
    net = np.concatenate((net, np.flatnonzero(~is_host)))
    used, block = np.unique(np.concatenate((nets.targets, nets.source[~is_host])), return_inverse=True)
    order = np.lexsort((block, net))
    ptr = np.concatenate(([0], np.cumsum(np.bincount(net, minlength=len(nets.source))))).astype(np.int64)
    return _Nets(len(used), ptr, block[order].astype(np.int64), nets.rate, is_host)


def _windows(nets: _Nets, per_tile: int) -> list[_Nets]:
    """The nets in windows of neighbouring blocks whose sets are few enough, each net in one of them."""
    count = 1
    while count_sets(-(-nets.blocks // count), per_tile) > SETS_MAX:
        count += 1
    width = -(-nets.blocks // count)
    net = np.repeat(np.arange(len(nets.rate)), np.diff(nets.ptr))
    ends = np.bincount(net * count + nets.ends // width, minlength=len(nets.rate) * count).reshape(-1, count)
    window = np.argmax(ends, axis=1)
    bounds = [(i * width, min((i + 1) * width, nets.blocks)) for i in range(count)]
    inside = [nets.within(first, stop, np.flatnonzero(window == i)) for i, (first, stop) in enumerate(bounds)]
    return [_affordable(window, per_tile) for window in inside]


def _affordable(nets: _Nets, per_tile: int) -> _Nets:
    """The nets that take least work for their rate, while there is work left."""
    degrees = np.diff(nets.ptr)
    work = np.array([comb(int(degree), min(int(degree), max(per_tile, 2))) for degree in degrees], np.float64)
    order = np.argsort(work / nets.rate, kind="stable")
    kept = np.sort(order[np.cumsum(work[order]) <= WORK_MAX])
    return nets if len(kept) == len(work) else nets.within(0, nets.blocks, kept)


def _window_bound(nets: _Nets, per_tile: int) -> float:
    if nets.blocks <= per_tile or len(nets.rate) == 0:
        return 0.0
    tiles = _Tiles.of_nets(nets, per_tile)
    unit = max(float(cost.max()) for cost in tiles.cost) / UNIT
    rows, best = tiles.first_rows(), 0.0
    once = float(nets.rate[~nets.is_host].sum()) / ROUNDED_DOWN
    for _ in range(ROUNDS_MAX):
        solved = _prices(rows, tiles.blocks, unit)
        if solved is None:
            break
        more, scale, host_excess = tiles.broken(*solved, TOLERANCE * UNIT * unit)
        best = max(best, ROUNDED_DOWN * scale * float(solved[0].sum()) - host_excess / ROUNDED_DOWN - once)
        if not more:
            break
        rows += more
    return best


@dataclass(frozen=True, slots=True, eq=False)
class _Rows:
    """Sets of blocks [rows, size] and what each may cost in prices; on the host's tile, or on others."""

    sets: Array
    cost: Array
    of_host: bool


def _prices(rows: list[_Rows], blocks: int, unit: float) -> tuple[Array, float] | None:
    """Prices of blocks and m, all at least 0, of the largest sum of prices less m; None where the solver gives up."""
    from scipy.optimize import linprog

    sets = [np.pad(r.sets, ((0, 0), (0, int(r.of_host))), constant_values=blocks) for r in rows]
    pointers = np.concatenate([np.full(len(s), s.shape[1]) for s in sets]).cumsum()
    places = np.concatenate([s.ravel() for s in sets])
    signs = np.where(places == blocks, -1.0, 1.0)
    matrix = sparse.csr_array((signs, places, np.append(0, pointers)), shape=(len(pointers), blocks + 1))
    goal = np.append(np.full(blocks, -1.0), 1.0)
    result = linprog(goal, A_ub=matrix, b_ub=np.concatenate([r.cost for r in rows]) / unit, method="highs")
    if result.status != 0:
        return None
    found = unit * np.maximum(result.x, 0.0)
    return found[:-1], float(found[-1])


@dataclass(frozen=True, slots=True, eq=False)
class _Tiles:
    """Per size of a set, the rates of the nets that touch each: ``cost`` all, ``host_cost`` those between blocks."""

    blocks: int
    cost: list[Array]
    host_cost: list[Array]

    @classmethod
    def of_nets(cls, nets: _Nets, per_tile: int) -> _Tiles:
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

    def broken(self, prices: Array, m: float, allowed: float) -> tuple[list[_Rows], float, float]:
        """Rows that break most, the scale at which all sets hold but the host's, and the m that those need then."""
        found, scale, excess = [], 1.0, 0.0
        for size, (cost, host_cost) in enumerate(zip(self.cost, self.host_cost, strict=True), start=1):
            others = sums(prices, size - 1, self.blocks - 1) if size > 1 else np.zeros(1)
            for last, span in chunks(self.blocks, size):
                paid = others[: span.stop - span.start] + prices[last]
                over, over_host = paid - cost[span], paid - host_cost[span]
                found += self._worst(over, cost, span, size, allowed)
                found += self._worst(over_host - m, host_cost, span, size, allowed, of_host=True)
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
