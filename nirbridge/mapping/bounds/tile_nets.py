"""Nets as the sets of blocks that they touch, cut into windows of blocks for bounds that look at sets of blocks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import comb

import numpy as np

from nirbridge.arrays import Array
from nirbridge.mapping.bounds.tile_sets import count_sets
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
