"""A linear program over sets of blocks on tiles and the nets that touch them: a lower bound on multicast hops.

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

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from math import comb

import numpy as np

from nirbridge.arrays import Array
from nirbridge.mapping.traffic import Traffic, alike, gather
from nirbridge.partitioner.cost.axons import HOST

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


# -- tile nets -----------------------------------------------------------------------------------------------------
# Nets as the sets of blocks that they touch, cut into windows of blocks for bounds that look at sets of blocks.


@dataclass(frozen=True, slots=True, eq=False)
class TouchingNets:
    """Nets as the blocks that they touch, ``ends[ptr[net]:ptr[net + 1]]`` ascending; those of the host are marked."""

    blocks: int
    ptr: Array
    ends: Array
    rate: Array
    is_host: Array

    @classmethod
    def of_traffic(cls, nets: Traffic) -> TouchingNets:
        """The nets over those blocks that some net touches, numbered anew."""
        net, is_host = nets.entry_nets(), nets.source == HOST
        net = np.concatenate((net, np.flatnonzero(~is_host)))
        used, block = np.unique(np.concatenate((nets.targets, nets.source[~is_host])), return_inverse=True)
        return _sorted(len(used), net, block.reshape(-1).astype(np.int64), nets.rate, is_host)

    @property
    def degrees(self) -> Array:
        """Number of blocks of each net."""
        return np.diff(self.ptr)

    def entry_nets(self) -> Array:
        """The net of each entry of ``ends``."""
        return np.repeat(np.arange(len(self.rate), dtype=np.int64), self.degrees)

    def some(self, nets: Array) -> TouchingNets:
        """The nets of these numbers."""
        entries, counts = gather(self.ptr, nets)
        ptr = np.concatenate(([0], np.cumsum(counts))).astype(np.int64)
        return TouchingNets(self.blocks, ptr, self.ends[entries], self.rate[nets], self.is_host[nets])

    def affordable(self, size: int, work: int) -> TouchingNets:
        """The nets that have fewest sets of ``size`` blocks for their rate, while there is ``work`` left for these."""
        sets = np.array([comb(degree, min(degree, size)) for degree in range(int(self.degrees.max(initial=0)) + 1)])
        cost = sets[self.degrees].astype(np.float64)
        order = np.argsort(-self.rate / cost, kind="stable")
        return self.some(np.sort(order[np.cumsum(cost[order]) <= work]))

    def count_windows(self, size: int, sets: int) -> int:
        """The fewest windows of blocks that have at most ``sets`` sets of up to ``size`` blocks together."""
        count = 1
        while count * count_sets(self.width(count), size) > sets and count < self.blocks:
            count += 1
        return count

    def windows(self, count: int) -> Iterator[TouchingNets]:
        """The nets in ``count`` windows of equally many blocks, but for the last ones.

        Each net is in the window of most of its ends, without its others.
        """
        width = self.width(count)
        window = self.ends // width
        share = np.bincount(self.entry_nets() * count + window, minlength=len(self.rate) * count)
        of_net = np.argmax(share.reshape(-1, count), axis=1)
        for i in range(count):
            yield self._within(i * width, min((i + 1) * width, self.blocks), np.flatnonzero(of_net == i))

    def width(self, count: int) -> int:
        """Blocks of a window."""
        return -(-self.blocks // count)

    def _within(self, first: int, stop: int, owned: Array) -> TouchingNets:
        """The nets ``owned``, without their blocks outside [first, stop); alike ones are added up."""
        nets = self.some(owned)
        inside = (nets.ends >= first) & (nets.ends < stop)
        net = nets.entry_nets()
        degrees = np.bincount(net[inside], minlength=len(nets.rate))
        degrees[~nets.is_host & (degrees < 2)] = 0
        inside &= degrees[net] > 0
        ptr, ends = np.concatenate(([0], np.cumsum(degrees))).astype(np.int64), nets.ends[inside] - first
        used = np.flatnonzero(degrees)
        same, of = alike(nets.is_host[used].astype(np.int64), ptr, ends, used)
        rate = nets.rate.copy()
        rate[used[same]] = np.bincount(of, nets.rate[used], len(same))
        return TouchingNets(max(stop - first, 0), ptr, ends, rate, nets.is_host).some(used[same])

    def reordered(self) -> TouchingNets:
        """Blocks numbered so that each next one has the largest share of its traffic with those before it."""
        net = self.entry_nets()
        by_block = np.argsort(self.ends, kind="stable")
        of = np.split(net[by_block], np.cumsum(np.bincount(self.ends, minlength=self.blocks))[:-1])
        pair = self.rate / np.maximum(self.degrees - 1, 1)
        total = np.maximum(np.bincount(self.ends, self.rate[net], self.blocks), 1e-300)
        place, shared = np.full(self.blocks, -1, np.int64), np.zeros(self.blocks)
        block = int(np.argmin(total))
        for i in range(self.blocks):
            place[block] = i
            entries, counts = gather(self.ptr, of[block])
            shared += np.bincount(self.ends[entries], np.repeat(pair[of[block]], counts), self.blocks)
            block = int(np.argmax(np.where(place < 0, shared / total, -1.0)))
        return _sorted(self.blocks, net, place[self.ends], self.rate, self.is_host)


def _sorted(blocks: int, net: Array, ends: Array, rate: Array, is_host: Array) -> TouchingNets:
    """Nets from pairs of a net and a block, in any order."""
    ptr = np.concatenate(([0], np.cumsum(np.bincount(net, minlength=len(rate))))).astype(np.int64)
    return TouchingNets(blocks, ptr, ends[np.lexsort((ends, net))], rate, is_host)


# -- tile sets -----------------------------------------------------------------------------------------------------
# All sets of a few blocks, and the summed rates of the nets that touch each of them.
#
# Sets of k blocks are in colexicographic order: by the last block, then by the set of the other k - 1 blocks. So the
# sets within the first d blocks come first, and the sets whose last block is d follow them, one for each set of k - 1
# of the first d blocks. The rate of a set with last block d is that of the others, plus that of d, less the rate of the
# nets of d that touch the others too: a sum of the same kind over fewer nets.

PRECISE_MAX = 30_000_000
"""Sets whose rates are kept with 8 bytes each; of more, those of each have 4, rounded down."""
STORED_DOWN = 1 - 2.0**-22
"""Factor of rates of 4 bytes, so that also the sum of two is no more than it was."""


def count_sets(blocks: int, most: int) -> int:
    """Number of sets of 1 to ``most`` of ``blocks`` blocks."""
    return sum(comb(blocks, size) for size in range(1, most + 1))


def chunks(blocks: int, size: int) -> Iterator[tuple[int, slice]]:
    """Each last block of a set of ``size`` blocks, and where the sets with it are."""
    for last in range(size - 1, blocks):
        yield last, slice(comb(last, size), comb(last + 1, size))


def sums(values: Array, size: int, blocks: int) -> Array:
    """Sum of ``values`` over each set of ``size`` of the first ``blocks`` blocks."""
    if size == 1:
        return values[:blocks].copy()
    others, out = sums(values, size - 1, blocks - 1), np.empty(comb(blocks, size))
    for last, span in chunks(blocks, size):
        np.add(others[: span.stop - span.start], values[last], out=out[span])
    return out


def members(places: Array, size: int, blocks: int) -> Array:
    """Blocks [places, size] of the sets at some places of the order, ascending."""
    found = np.empty((len(places), size), np.int64)
    for k in range(size, 0, -1):
        first = np.array([comb(last, k) for last in range(blocks + 1)], np.int64)
        found[:, k - 1] = np.searchsorted(first, places, side="right") - 1
        places = places - first[found[:, k - 1]]
    return found


def pairs_of_ends(ptr: Array) -> tuple[Array, Array]:
    """Places (low, high) of every two ends of each net, net by net; those of a net are ``ptr[net]:ptr[net + 1]``."""
    pairs = int((np.diff(ptr) * (np.diff(ptr) - 1) // 2).sum())
    dtype = np.int32 if max(pairs, int(ptr[-1])) < 2**31 else np.int64  # as long as memory takes
    end, first = np.arange(ptr[-1], dtype=dtype), np.repeat(ptr[:-1].astype(dtype), np.diff(ptr))
    place = end - first
    before = np.cumsum(place, dtype=dtype) - end  # each end comes with those before it
    return np.arange(pairs, dtype=dtype) - np.repeat(before, place), np.repeat(end, place)


class Coverage:
    """Nets as lists of blocks ``ends[ptr[net]:ptr[net + 1]]`` (ascending), each with a rate."""

    def __init__(self, blocks: int, ptr: Array, ends: Array, rate: Array) -> None:
        self.ptr, self.ends, self.rate = ptr, ends, rate
        degrees = np.diff(ptr)
        net = np.repeat(np.arange(len(rate), dtype=np.int64), degrees)
        by_block = np.argsort(ends, kind="stable")
        self._of = np.split(net[by_block], np.cumsum(np.bincount(ends, minlength=blocks))[:-1])
        self._first = ends[ptr[:-1]]
        self._low, self._high = np.tril_indices(blocks, -1)[::-1]

    @cached_property
    def _pairs(self) -> tuple[Array, Array]:
        """Where those of each net begin, and every two ends of each as the place of their blocks among all pairs."""
        degrees, (low, high) = np.diff(self.ptr), pairs_of_ends(self.ptr)
        ptr = np.concatenate(([0], np.cumsum(degrees * (degrees - 1) // 2))).astype(np.int64)
        return ptr, (self.ends * (self.ends - 1) // 2)[high] + self.ends[low]

    def rates(self, nets: Array, size: int, blocks: int) -> Array:
        """Rate of those of ``nets`` that touch each set of ``size`` of the first ``blocks`` blocks.

        More than ``PRECISE_MAX`` are rounded down.
        """
        single = self._added_up(self.ptr, self.ends, nets, len(self._of))
        return self._rates(nets, single, size, blocks, is_exact=False)

    def _rates(self, nets: Array, single: Array, size: int, blocks: int, *, is_exact: bool) -> Array:
        """``rates``; ``single``: those of each block."""
        if size == 1:
            return single[:blocks]
        pairs, count = self._added_up(*self._pairs, nets, comb(blocks, 2)), comb(blocks, size)
        if size == 2:
            return single[self._low[:count]] + single[self._high[:count]] - pairs[:count]
        others = self._rates(nets, single, size - 1, blocks - 1, is_exact=True)
        is_in = np.zeros(len(self.rate), bool)
        is_in[nets] = True
        dtype, factor = (np.float64, 1.0) if is_exact or count <= PRECISE_MAX else (np.float32, STORED_DOWN)
        out = np.empty(count, dtype)
        for last, span in chunks(blocks, size):
            found = others[: span.stop - span.start] + single[last]
            shared = self._of[last][is_in[self._of[last]]]
            shared = shared[self._first[shared] < last]
            if len(shared):
                with_last = pairs[comb(last, 2) : comb(last + 1, 2)]
                found -= self._rates(shared, with_last, size - 1, last, is_exact=True)
            out[span] = found if factor == 1.0 else factor * found
        return out

    def _added_up(self, ptr: Array, keys: Array, nets: Array, count: int) -> Array:
        entries, counts = gather(ptr, nets)
        return np.bincount(keys[entries], np.repeat(self.rate[nets], counts), count)
