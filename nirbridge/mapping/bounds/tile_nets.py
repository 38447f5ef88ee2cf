"""Nets as the sets of blocks that they touch, cut into windows of blocks for bounds that look at sets of blocks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from math import comb

import numpy as np

from nirbridge.arrays import Array
from nirbridge.mapping.traffic import Traffic, alike, gather
from nirbridge.partitioner.cost.axons import HOST


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

    def with_host(self) -> TouchingNets:
        """The host as a block more, the last one, that its nets touch."""
        at = self.ptr[1:][self.is_host]
        ptr = self.ptr + np.concatenate(([0], np.cumsum(self.is_host)))
        return TouchingNets(self.blocks + 1, ptr, np.insert(self.ends, at, self.blocks), self.rate, self.is_host)

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
