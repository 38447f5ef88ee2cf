"""Lists of the sources that send in a time step, from channels-last spikes, one byte or one bit each (numba).

Sources that lie channels-last (``[row, column, channel]``, channels padded to whole words of 8 bytes) are named by
their position there. The order of a sum is that of the usual layout, channel by channel: each source is put on
the heap of its channel, and the heaps are then joined. Empty words are skipped.

``heap: uint32[channels * room]``, ``counts: uint8`` of that size; ``fills: int64[channels]`` is 0 before and after.
``idx`` and ``val`` are filled, ``val`` with counts times ``factor``; the number of sources is returned.
No function makes a view of an array: each would cost as much as a few sources.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from nirbridge.simulators.compiled.kernels.jit import borrowing
from nirbridge.simulators.compiled.kernels.simd_runs import lowest_bit, sending

USUAL, LAST, BITS, POOLED, PAIRS = range(5)
"""How the sources of a layer lie: in the usual order; channels-last, in bytes or in bits; so and to be pooled."""
_ONE, _EIGHT, _BITS = np.uint64(1), np.uint64(8), np.uint64(64)


@borrowing
def _take_word(word, name, channel, room, heap, counts, fills) -> None:
    """Every byte of a word that is not 0: source ``name`` and the seven after it, from ``channel`` on."""
    while word:
        byte = lowest_bit(word) >> np.uint64(3)
        shift = byte << np.uint64(3)
        c = channel + byte
        at = c * room + np.uint64(fills[c])
        heap[at] = name + byte
        counts[at] = (word >> shift) & np.uint64(255)
        fills[c] += 1
        word &= ~(np.uint64(255) << shift)


@borrowing
def join_heaps(room, heap, counts, fills, factor, idx, val) -> Any:
    """The heaps one after the other."""
    n = np.uint64(0)
    for c in range(fills.shape[0]):
        if fills[c]:
            first = np.uint64(c) * room
            for e in range(first, first + np.uint64(fills[c])):
                idx[n] = heap[e]
                val[n] = factor * counts[e]
                n += _ONE
            fills[c] = 0
    return np.int64(n)


@borrowing
def take_bits(bits, name, per, room, heap, counts, fills) -> None:
    """Every bit that is set: source ``name`` (that of the first) and those after it, each of which sent one spike."""
    width = _EIGHT * per
    while bits:
        source = name + lowest_bit(bits)
        c = source % width
        at = c * room + np.uint64(fills[c])
        heap[at] = source
        counts[at] = 1
        fills[c] += 1
        bits &= bits - _ONE


@borrowing
def list_last(words, first, n, per, room, heap, counts, fills, factor, idx, val) -> Any:
    """Sources of one step: words ``first`` to ``first + n``, ``per`` of them for each place; all are uint64."""
    w = np.uint64(0)
    while w + _EIGHT <= n:
        bits = sending(words, first + w)
        if bits:
            take_bits(bits, _EIGHT * w, per, room, heap, counts, fills)
        w += _EIGHT
    while w < n:
        if words[first + w]:
            _take_word(words[first + w], _EIGHT * w, _EIGHT * (w % per), room, heap, counts, fills)
        w += _ONE
    return join_heaps(room, heap, counts, fills, factor, idx, val)


@borrowing
def _sum_rows(words, first, pitch, rows, line) -> Any:
    """``line[:pitch]`` becomes the sum of ``rows`` rows of words from ``first`` on; bytes never carry.

    Returns 0 where all of it is 0.
    """
    some = np.uint64(0)
    if rows == 2:
        for j in range(pitch):
            total = words[first + j] + words[first + pitch + j]
            line[j] = total
            some |= total
        return some
    for j in range(pitch):
        line[j] = 0
    for row in range(np.uint64(rows)):
        for j in range(pitch):
            line[j] += words[first + row * pitch + j]
    for j in range(pitch):
        some |= line[j]
    return some


@borrowing
def _take_pairs(columns, name, per, room, line, heap, counts, fills) -> None:
    """A row of windows of two columns side by side."""
    at = np.uint64(0)
    for _ in range(columns):
        for k in range(per):
            word = line[at + k] + line[at + per + k]
            if word:
                _take_word(word, _EIGHT * (name + k), _EIGHT * k, room, heap, counts, fills)
        at, name = at + per + per, name + per


@borrowing
def _take_windows(pool, name, per, room, line, heap, counts, fills) -> None:
    """A row of any windows."""
    for x in range(pool[3]):
        begin = x * pool[7] - pool[9]
        left = max(begin, 0)
        right = max(min(begin + pool[5], pool[1]), left)
        for k in range(per):
            word = np.uint64(0)
            for column in range(np.uint64(left), np.uint64(right)):
                word += line[column * per + k]
            if word:
                _take_word(word, _EIGHT * (name + k), _EIGHT * k, room, heap, counts, fills)
        name += per


@borrowing
def list_pooled(words, first, pool, per, room, line, heap, counts, fills, factor, idx, val) -> Any:
    """Windows with at least one spike; at most 255 elements each: bytes are added eight at a time, none carries.

    ``pool``: height and width before, after, kernel, stride, padding before (rows, then columns);
    ``line: uint64[width before * per]`` is scratch. ``idx`` names windows.
    """
    height, width, columns = pool[0], pool[1], pool[3]
    pitch = np.uint64(width) * per
    pairs = pool[5] == 2 and pool[7] == 2 and pool[9] == 0 and 2 * columns <= width
    for y in range(pool[2]):
        start = y * pool[6] - pool[8]
        top, rows = max(start, 0), min(start + pool[4], height) - max(start, 0)
        if not _sum_rows(words, first + np.uint64(top) * pitch, pitch, max(rows, 0), line):
            continue
        name = np.uint64(y * columns) * per
        if pairs:
            _take_pairs(columns, name, per, room, line, heap, counts, fills)
        else:
            _take_windows(pool, name, per, room, line, heap, counts, fills)
    return join_heaps(room, heap, counts, fills, factor, idx, val)


@borrowing
def list_bits(words, first, n, per, room, heap, counts, fills, factor, idx, val) -> Any:
    """Sources of one step: words ``first`` to ``first + n``, ``per`` times 8 channels a place; all are uint64."""
    for w in range(n):
        bits = words[first + w]
        if bits:
            take_bits(bits, _BITS * w, per, room, heap, counts, fills)
    return join_heaps(room, heap, counts, fills, factor, idx, val)


@borrowing
def _left(per) -> Any:
    """The bits of a word that are in left columns, ``per`` bytes a place."""
    if per == 1:
        return np.uint64(0x00FF00FF00FF00FF)
    return np.uint64(0x0000FFFF0000FFFF) if per == 2 else np.uint64(0x00000000FFFFFFFF)


@borrowing
def _take_blocks(top, low, name, column, left, width, room, heap, counts, fills) -> None:
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
                _take_blocks(a, b, name, w * places, left, width, room, heap, counts, fills)
    return join_heaps(room, heap, counts, fills, factor, idx, val)
