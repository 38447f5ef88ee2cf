"""As ``kernels_conv_lists`` for sources of one bit each, lowest bit first (numba, extra ``fast``)."""

from __future__ import annotations

from typing import Any

import numpy as np

from nirbridge.simulators.compiled.kernels.conv_events import join, take_bits
from nirbridge.simulators.compiled.kernels.jit import borrowing
from nirbridge.simulators.compiled.kernels.simd_runs import lowest_bit

_ONE, _EIGHT, _BITS = np.uint64(1), np.uint64(8), np.uint64(64)


@borrowing
def list_bits(words, first, n, per, room, heap, counts, fills, factor, idx, val) -> Any:
    """Sources of one step: words ``first`` to ``first + n``, ``per`` times 8 channels a place; all are uint64."""
    for w in range(n):
        bits = words[first + w]
        if bits:
            take_bits(bits, _BITS * w, per, room, heap, counts, fills)
    return join(room, heap, counts, fills, factor, idx, val)


@borrowing
def _left(per) -> Any:
    """The bits of a word that are in left columns, ``per`` bytes a place."""
    if per == 1:
        return np.uint64(0x00FF00FF00FF00FF)
    return np.uint64(0x0000FFFF0000FFFF) if per == 2 else np.uint64(0x00000000FFFFFFFF)


@borrowing
def _take_windows(top, low, name, column, left, width, room, heap, counts, fills) -> None:
    """The windows of 2 by 2 in two words of rows one above the other; ``name``: that of the row's first window."""
    both = top | low
    some = (both | (both >> width)) & left
    while some:
        bit = lowest_bit(some)
        place = bit // width
        c = bit - place * width
        at = c * room + np.uint64(fills[c])
        heap[at] = name + ((column + place) >> _ONE) * width + c
        right = bit + width
        count = ((top >> bit) & _ONE) + ((low >> bit) & _ONE)
        counts[at] = count + ((top >> right) & _ONE) + ((low >> right) & _ONE)
        fills[c] += 1
        some &= some - _ONE


@borrowing
def list_pairs(words, first, pool, per, room, heap, counts, fills, factor, idx, val) -> Any:
    """Windows of 2 by 2 side by side with at least one spike; rows are whole words, ``per`` is 1, 2 or 4.

    ``pool``: as ``list_pooled`` takes it. ``idx`` names windows.
    """
    width, left = _EIGHT * per, _left(per)
    columns, places = np.uint64(pool[3]), _EIGHT // per
    pitch = np.uint64(pool[1]) // places
    for y in range(np.uint64(pool[2])):
        top, name = first + np.uint64(2) * y * pitch, y * columns * width
        for w in range(pitch):
            a, b = words[top + w], words[top + pitch + w]
            if a | b:
                _take_windows(a, b, name, w * places, left, width, room, heap, counts, fills)
    return join(room, heap, counts, fills, factor, idx, val)
