"""Nets with a row of numbers for all cores, and one of bits: a target moved, and rows added up 64 cores at once."""

from __future__ import annotations

import numpy as np

from nirbridge.partitioner.search.irregular.jit import inlined, uncounted

ADDED = 31
"""Rows of bits that are added at a time: as many as five binary digits count."""
SPREAD = np.array([sum((byte >> j & 1) << 8 * j for j in range(8)) for byte in range(256)], np.uint64)
"""Each byte with its bits as bytes."""
ANY, SINGLE = range(2)
"""Kinds of bits of a core: of nets with targets there, and with a single one."""


@uncounted
def moved_target(count, bits, length, e, old, to) -> tuple[np.int64, np.int64]:
    """One target less of net e in core ``old`` (-1: in none), one more in ``to``: how many there were (2, if in none).

    Without branches on these numbers, which a processor cannot foresee: it would wait for each of them.
    """
    before, after = np.int64(2), np.int64(count[e, to])
    count[e, to] = after + 1
    bits[e, to // 64, ANY] |= np.uint64(1) << np.uint64(to % 64)
    bits[e, to // 64, SINGLE] ^= np.uint64(after <= 1) << np.uint64(to % 64)
    if old >= 0:
        before = np.int64(count[e, old])
        count[e, old] = before - 1
        bits[e, old // 64, ANY] ^= np.uint64(before == 1) << np.uint64(old % 64)
        bits[e, old // 64, SINGLE] ^= np.uint64(before <= 2) << np.uint64(old % 64)
    length[e] += (after == 0) - (before == 1)
    return before, after


@inlined
def number_of(kind, bits, rows, core) -> np.int64:
    """How many of some rows have targets in a core (``ANY``), or a single one (``SINGLE``)."""
    word, place, total = core // 64, np.uint64(core % 64), np.uint64(0)
    for k in range(len(rows)):
        total += bits[rows[k], word, kind] >> place & np.uint64(1)
    return np.int64(total)


@uncounted
def add_bits(bits, rows, sums) -> None:
    """Add rows of bits to ``sums``, a bit of 64 cores at once: each of five numbers holds one binary digit of them."""
    zero, byte = np.uint64(0), np.uint64(255)
    for word in range(bits.shape[1]):
        for first in range(0, len(rows), ADDED):
            a, b, c, d, e = zero, zero, zero, zero, zero
            for k in range(first, min(first + ADDED, len(rows))):
                carry = bits[rows[k], word, ANY]
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
