"""Compiled lists of events (numba, extra ``fast``): 64 bytes of spikes at a time."""

from __future__ import annotations

import numpy as np

from nirbridge.simulators.kernels_update import compiled
from nirbridge.simulators.kernels_vector import bits_set, lowest_bit, sending

ROOM = 8
"""Numbers behind the last event that a list must have room for: they are written in groups."""


@compiled
def _bits(x, at, stop):
    """One bit per byte of ``x[at:stop]``, at most 64."""
    left = stop - at
    if at + 64 <= x.shape[0]:
        word = sending(x, at)
        return word & ((np.uint64(1) << np.uint64(left)) - np.uint64(1)) if left < 64 else word
    word = np.uint64(0)
    for k in range(min(left, 64)):
        if x[at + k]:
            word |= np.uint64(1) << np.uint64(k)
    return word


@compiled
def list_row(x, start, stop, idx, count) -> int:
    """Writes the sources ``p - start`` of ``x[start:stop]`` that send behind ``idx[:count]``; their new number."""
    for at in range(start, stop, 64):
        word, base = _bits(x, at, stop), at - start
        after = count + bits_set(word)
        while count < after:
            for k in range(8):
                idx[count + k] = base + lowest_bit(word)
                word &= word - np.uint64(1)
            count += 8
        count = after
    return count


@compiled
def list_spikes(x, n, indptr, idx) -> None:
    """Sources that sent, row by row of n bytes of the flat ``x``, ascending.

    ``indptr: int64[rows + 1]`` and ``idx: uint32[events + ROOM]`` are filled.
    """
    count = 0
    for r in range(indptr.shape[0] - 1):
        indptr[r] = count
        count = list_row(x, r * n, r * n + n, idx, count)
    indptr[indptr.shape[0] - 1] = count
