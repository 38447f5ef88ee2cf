"""All sets of a few blocks, and the summed rates of the nets that touch each of them.

Sets of k blocks are in colexicographic order: by the last block, then by the set of the other k - 1 blocks. So the sets
within the first d blocks come first, and the sets whose last block is d follow them, one for each set of k - 1 of the
first d blocks. The rate of a set with last block d is that of the others, plus that of d, less the rate of the nets of
d that touch the others too: a sum of the same kind over fewer nets.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from math import comb

import numpy as np

from nirbridge.arrays import Array
from nirbridge.mapping.traffic import gather

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
