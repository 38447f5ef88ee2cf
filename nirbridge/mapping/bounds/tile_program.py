"""A linear program over sets of blocks on tiles, whose value is a lower bound on multicast hops.

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

A solution may have sets in fractions, as no placement has. Few blocks are parted exactly, too (``least_parting``), and
the larger bound counts.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import comb

import numpy as np

from nirbridge.arrays import Array
from nirbridge.mapping.bounds.tile_nets import Coverage, TouchingNets, chunks, members, sums

ROWS_MORE = 8
"""Rows added in each round for each last block of a set, each size and each kind of tile."""
ROUNDS_MAX = 80
PIECE = 1 << 16
"""Sets that are looked at together: their prices stay in the cache."""
UNIT = 1000.0
"""The largest cost of a row as the solver sees it, whose tolerance is a number (1e-7)."""
TOLERANCE = 1e-9
ROUNDED_DOWN = 1 - 1e-12


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """Sets of blocks [rows, size] by their places in the order of such sets; on the host's tile, or on others."""

    places: Array
    sets: Array
    of_host: bool

    @property
    def size(self) -> int:
        """Blocks of each set."""
        return self.sets.shape[1]


def tiling(nets: TouchingNets, per_tile: int) -> float:
    """The bound on the links of some nets: the larger one of the program and of an exact parting."""
    tiles = _Tiles.of_nets(nets, per_tile)
    unit = max(float(cost.max()) for cost in tiles.cost) / UNIT
    if unit == 0.0:  # rates below any that counts
        return 0.0
    best, least = 0.0, -(-nets.blocks // per_tile)
    once = float(nets.rate[~nets.is_host].sum()) / ROUNDED_DOWN
    program, more = _Program(tiles, unit, least), tiles.first_rows()
    for _ in range(ROUNDS_MAX):
        for own in more:
            program.add(own)
        prices = program.solved()
        if prices is None:
            break
        more, scale, host_excess = tiles.broken(prices, TOLERANCE * UNIT * unit)
        paid = float(prices.of_block.sum()) + least * prices.of_tile
        best = max(best, ROUNDED_DOWN * scale * paid - host_excess / ROUNDED_DOWN - once)
        if not more:
            break
    if is_exact(nets.blocks, per_tile):
        best = max(best, ROUNDED_DOWN * least_parting(nets.blocks, tiles.cost, tiles.host_cost) - once)
    return best


@dataclass(frozen=True, slots=True, eq=False)
class _Prices:
    """p, q and m."""

    of_block: Array
    of_tile: float
    of_host: float


class _Program:
    """The program of the rows added so far.

    The solver goes on from its last prices. They change little then: from new ones in each round, rows are added ten
    times as often until none is broken.
    """

    def __init__(self, tiles: _Tiles, unit: float, least: int) -> None:
        from ortools.linear_solver import pywraplp

        self._tiles, self._unit = tiles, unit
        self._solver = solver = pywraplp.Solver.CreateSolver("GLOP")
        self._of_block = [solver.NumVar(0.0, solver.infinity(), "") for _ in range(tiles.blocks)]
        self._of_tile, self._of_host = (solver.NumVar(0.0, solver.infinity(), "") for _ in range(2))
        goal = solver.Objective()
        goal.SetMaximization()
        for price, weight in ((self._of_tile, least), (self._of_host, -1), *((p, 1) for p in self._of_block)):
            goal.SetCoefficient(price, float(weight))

    def add(self, rows: Rows) -> None:
        """Limits of the prices of more sets."""
        infinity = self._solver.infinity()
        for blocks, cost in zip(rows.sets.tolist(), (self._tiles.costs(rows) / self._unit).tolist(), strict=True):
            row = self._solver.Constraint(-infinity, cost)
            for block in blocks:
                row.SetCoefficient(self._of_block[block], 1.0)
            row.SetCoefficient(self._of_tile, 1.0)
            if rows.of_host:
                row.SetCoefficient(self._of_host, -1.0)

    def solved(self) -> _Prices | None:
        """The prices of the largest bound; None: the solver gives up."""
        if self._solver.Solve() != self._solver.OPTIMAL:
            return None
        variables = (*self._of_block, self._of_tile, self._of_host)
        found = self._unit * np.maximum([price.solution_value() for price in variables], 0.0)
        return _Prices(found[:-2], float(found[-2]), float(found[-1]))


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

    def first_rows(self) -> list[Rows]:
        """Those of the sets of one block."""
        single = np.arange(self.blocks)
        return [Rows(single, single[:, None], False), Rows(single, single[:, None], True)]

    def costs(self, rows: Rows) -> Array:
        """The most that the prices of each set may sum to."""
        return (self.host_cost if rows.of_host else self.cost)[rows.size - 1][rows.places].astype(np.float64)

    def broken(self, prices: _Prices, allowed: float) -> tuple[list[Rows], float, float]:
        """Rows that break most, the scale at which all sets hold but the host's, and the m that those need then."""
        found, scale, excess = list[Rows](), 1.0, 0.0
        for size, (cost, host_cost) in enumerate(zip(self.cost, self.host_cost, strict=True), start=1):
            of_any, of_host = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
            others = sums(prices.of_block, size - 1, self.blocks - 1) if size > 1 else np.zeros(1)
            for last, span in chunks(self.blocks, size):
                price = prices.of_block[last] + prices.of_tile
                over = _Over.of_sets(others, price, cost[span], allowed)
                of_any.append(over.worst + span.start)
                scale = min(scale, over.scale)
                if cost is host_cost:  # no net of the host saves anything
                    continue
                over = _Over.of_sets(others, price, host_cost[span], allowed + prices.of_host, is_scaled=False)
                of_host.append(over.worst + span.start)
                excess = max(excess, over.most)
            found.append(self._rows(np.concatenate(of_any), size, of_host=False))
            if self.host_cost is not self.cost:
                found.append(self._rows(np.concatenate(of_host), size, of_host=True))
        return [rows for rows in found if len(rows.sets)], scale, excess

    def _rows(self, places: Array, size: int, *, of_host: bool) -> Rows:
        return Rows(places, members(places, size, self.blocks), of_host)


@dataclass(frozen=True, slots=True, eq=False)
class _Over:
    """Violations of the limits on prices of sets: the largest (``most``) and the sets of the ``worst``.

    Multiplied by ``scale``, no price exceeds its limit.
    """

    most: float
    worst: Array
    scale: float

    @classmethod
    def of_sets(cls, others: Array, price: float, cost: Array, allowed: float, *, is_scaled: bool = True) -> _Over:
        """Of sets with the first of the prices ``others`` plus ``price``; the worst are more than ``allowed`` above."""
        most, scale, places, overs = 0.0, 1.0, [np.zeros(0, np.int64)], [np.zeros(0)]
        for start in range(0, len(cost), PIECE):
            own = cost[start : start + PIECE]
            paid = others[start : start + len(own)] + price
            over = paid - own
            above = float(over.max())
            most = max(most, above)
            if is_scaled and above > 0:
                at = np.flatnonzero(over > 0)
                scale = min(scale, float(np.min(own[at] / paid[at])))
            if above > allowed:
                at = np.flatnonzero(over > allowed)
                places.append(at + start)
                overs.append(over[at])
        found, over = np.concatenate(places), np.concatenate(overs)
        if len(found) > ROWS_MORE:
            found = np.sort(found[np.argpartition(-over, ROWS_MORE)[:ROWS_MORE]])
        return cls(most, found, scale)


# -- tile parting --------------------------------------------------------------------------------------------------
# The fewest links over all ways to part a few blocks into tiles, exactly, by dynamic programming over sets of blocks.
#
# The last block of a set S shares its tile with others of it, or with none. So the least cost of S is the least over
# the sets T of up to c blocks with that block, of the cost of a tile with T plus the least cost of S without T
# (Bellman's recursion for set partitioning). A set is a number whose bit b says whether it has block b; numbers below
# 2^d are the sets of the first d blocks, so their costs are an array of d axes with two places each, and all S of one T
# are a view of it.

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
        cost: per size of a set from 1 on, the cost of a tile of each set of that size, in the order of ``tile_nets``.
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
