"""Nets with a row of numbers for all cores, and one of bits: a target moved, and rows added up 64 cores at once."""

from __future__ import annotations

import numpy as np

from nirbridge.partitioner.search.irregular.jit import compiled

ADDED = 31
"""Rows of bits that are added at a time: as many as five binary digits count."""
SPREAD = np.array([sum((byte >> j & 1) << 8 * j for j in range(8)) for byte in range(256)], np.uint64)
"""Each byte with its bits as bytes."""


@compiled
def moved_target(count, bits, length, e, old, to) -> tuple[np.int64, np.int64]:
    """One target less of net e in core ``old`` (-1: in none), one more in ``to``: how many there were (2, if in none).

    Without branches on these numbers, which a processor cannot foresee: it would wait for each of them.
    """
    before, after = np.int64(2), np.int64(count[e, to])
    count[e, to] = after + 1
    bits[e, to // 64] |= np.uint64(1) << np.uint64(to % 64)
    if old >= 0:
        before = np.int64(count[e, old])
        count[e, old] = before - 1
        bits[e, old // 64] ^= np.uint64(before == 1) << np.uint64(old % 64)
    length[e] += (after == 0) - (before == 1)
    return before, after


@compiled
def add_bits(bits, rows, sums) -> None:
    """Add rows of bits to ``sums``, a bit of 64 cores at once: each of five numbers holds one binary digit of them."""
    zero, byte = np.uint64(0), np.uint64(255)
    for word in range(bits.shape[1]):
        for first in range(0, len(rows), ADDED):
            a, b, c, d, e = zero, zero, zero, zero, zero
            for k in range(first, min(first + ADDED, len(rows))):
                carry = bits[rows[k], word]
                a, carry = a ^ carry, a & carry
                b, carry = b ^ carry, b & carry
                c, carry = c ^ carry, c & carry
                d, carry = d ^ carry, d & carry
                e ^= carry
            for core in range(word * 64, word * 64 + 64, 8):
                low = SPREAD[a & byte] + (SPREAD[b & byte] << np.uint64(1)) + (SPREAD[c & byte] << np.uint64(2))
                low += (SPREAD[d & byte] << np.uint64(3)) + (SPREAD[e & byte] << np.uint64(4))
                for j in range(8):
                    sums[core + j] += np.int32((low >> np.uint64(8 * j)) & byte)
                a, b, c = a >> np.uint64(8), b >> np.uint64(8), c >> np.uint64(8)
                d, e = d >> np.uint64(8), e >> np.uint64(8)
