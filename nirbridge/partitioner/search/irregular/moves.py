"""Neurons on cores with every limit kept up to date, and the moves that lower the number of destination cores.

A net is one source and its targets by one projection. Its destination cores are listed with the number of its targets
there; their total over all nets is what moves lower: it is the traffic, the input axons and the output axons at once.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from nirbridge.arrays import Array
from nirbridge.partitioner.search.irregular.jit import inlined, loop, uncounted

SIZE, AXONS, WORDS, OUT = range(4)
"""Rows of ``use`` and ``cap``: neurons, input axons, words, output axons."""
MANY = 255
UNLIMITED = 1 << 59


class Nets(NamedTuple):
    """Neuron v is a target of ``nets[start[v]:start[v + 1]]``.

    Per net: ``source`` (a neuron, or -1 for a host input), ``kind`` (row of ``table``, the words of n targets), and
    ``length``, its destination cores. ``count: [nets, cores or more]`` has the number of its targets in each core, up
    to ``MANY``, and ``bits: [nets, cores / 64, 2]`` a bit for each core where it has any, and one for each where it has
    a single one. Nets of as many targets and more, and all nets where ``count`` would be too large and has no rows,
    list their cores, from ``first[e]`` on, ``length[e]`` of them: ``listed[:, 0]``, with the numbers in column 1; for
    others ``first`` is -1.
    ``part`` is the core of each neuron (-1: none), ``slots`` its output axons, ``use: [4, cores]``. Output axons are
    counted where they are limited.
    """

    start: Array
    nets: Array
    source: Array
    kind: Array
    table: Array
    first: Array
    listed: Array
    length: Array
    part: Array
    slots: Array
    use: Array
    cap: Array
    counts: Array
    bits: Array


def copied(x: Nets) -> Nets:
    """The same state, which moves change on its own."""
    copies = {
        name: getattr(x, name).copy() for name in ("listed", "length", "part", "slots", "use", "cap", "counts", "bits")
    }
    return x._replace(**copies)


@uncounted
def place_all(x, part) -> None:
    """Every neuron into its core."""
    own, use = x.part, x.use
    for v in range(len(part)):
        own[v] = part[v]
        use[SIZE, part[v]] += 1
    for v in range(len(part)):
        _exchange(x, v, -1, part[v])


@uncounted
def move(x, v, to) -> bool:
    """Move a neuron; True where the cores that gain something are within their limits."""
    old, slots = x.part[v], x.slots[v]
    x.use[SIZE, old] -= 1
    x.use[SIZE, to] += 1
    x.use[OUT, old] -= slots
    x.use[OUT, to] += slots
    x.part[v] = to
    if to != old:
        _exchange(x, v, old, to)
    for row in range(4):
        if x.use[row, to] > x.cap[row]:
            return False
    return x.cap[OUT] >= UNLIMITED or _sources_fit(x, v, to)


@uncounted
def _exchange(x, v, old, to):
    """One target less in a core (-1: in none) and one more in another one, for all nets of a neuron."""
    nets, first, count, listed, length, kind = x.nets, x.first, x.counts, x.listed, x.length, x.kind
    source, part, slots, use, table, limited = x.source, x.part, x.slots, x.use, x.table, x.cap[OUT] < UNLIMITED
    bits, less, more, left, came = x.bits, 0, 0, 0, 0
    for k in range(x.start[v], x.start[v + 1]):
        e = nets[k]
        if first[e] < 0:
            before, after = moved_target(count, bits, length, e, old, to)
        else:
            before, after = _moved_in_list(first, count, bits, listed, length, e, old, to)
        less += table[kind[e], before] - table[kind[e], before - 1]
        more += table[kind[e], after + 1] - table[kind[e], after]
        left += before == 1
        came += after == 0
        step = (after == 0) - (before == 1)
        if limited and step != 0 and source[e] >= 0:
            slots[source[e]] += step
            use[OUT, part[source[e]]] += step
    use[WORDS, to] += more
    use[AXONS, to] += came
    if old >= 0:
        use[WORDS, old] -= less
        use[AXONS, old] -= left


@uncounted
def _moved_in_list(first, count, bits, listed, length, e, old, to):
    """As ``moved_target``, for a net that lists its cores."""
    before, after = np.int64(2), _number(first, count, listed, length, e, to)
    if old >= 0:
        before = _number(first, count, listed, length, e, old)
        _set_number(first, count, bits, listed, length, e, old, before - 1)
    _set_number(first, count, bits, listed, length, e, to, after + 1)
    return before, after


@uncounted
def _number(first, count, listed, length, e, core):
    """Targets of net e in a core."""
    if len(count) > 0 and (first[e] < 0 or count[e, core] < MANY):
        return np.int64(count[e, core])
    for k in range(first[e], first[e] + length[e]):
        if listed[k, 0] == core:
            return np.int64(listed[k, 1])
    return np.int64(0)


@uncounted
def _set_number(first, count, bits, listed, length, e, core, n):
    """Targets of net e in a core, 1 more or less than before; its list of cores or row of numbers, and ``length``."""
    was = n - 1
    if first[e] < 0:
        was = np.int64(count[e, core])
    else:
        k, end = first[e], first[e] + length[e]
        while k < end and listed[k, 0] != core:
            k += 1
        was = np.int64(listed[k, 1]) if k < end else np.int64(0)
        if n == 0:
            listed[k, 0], listed[k, 1] = listed[end - 1, 0], listed[end - 1, 1]
        else:
            listed[k, 0], listed[k, 1] = core, n
    length[e] += (was == 0) - (n == 0)
    if len(count) > 0:
        count[e, core] = min(n, MANY)
        place = np.uint64(core % 64)
        bits[e, core // 64, ANY] ^= np.uint64((was == 0) != (n == 0)) << place
        bits[e, core // 64, SINGLE] ^= np.uint64((was == 1) != (n == 1)) << place


@uncounted
def _sources_fit(x, v, to):
    """True where the sources of nets that are new in a core have room for the output axons."""
    nets, source, part, use, most = x.nets, x.source, x.part, x.use, x.cap[OUT]
    first, count, listed, length = x.first, x.counts, x.listed, x.length
    for k in range(x.start[v], x.start[v + 1]):
        e = nets[k]
        s = source[e]
        if s >= 0 and use[OUT, part[s]] > most:
            fits = _number(first, count, listed, length, e, to) != 1
            if not fits:
                return False
    return True


@inlined
def _near(x, v, sums, seen):
    """Per core the nets of v with other targets there, in ``sums``; the number of cores, listed in ``seen``."""
    if len(x.counts) > 0:
        return _near_by_rows(x, v, sums, seen)
    own, found = x.part[v], 0
    nets, first, length, listed = x.nets, x.first, x.length, x.listed
    for k in range(x.start[v], x.start[v + 1]):
        e = nets[k]
        for i in range(first[e], first[e] + length[e]):
            core = listed[i, 0]
            if core == own and listed[i, 1] == 1:
                continue
            if sums[core] == 0:
                seen[found] = core
                found += 1
            sums[core] += 1
    return found


@inlined
def _near_by_rows(x, v, sums, seen):
    found, own, nets = 0, x.part[v], x.nets[x.start[v] : x.start[v + 1]]
    add_bits(x.bits, nets, sums)
    sums[own] -= number_of(SINGLE, x.bits, nets, own)
    for core in range(x.use.shape[1]):
        seen[found] = core
        found += sums[core] > 0
    return found


@loop
def refine(x, order, active, least) -> int:
    """One pass: each active neuron to the core where most of its nets are already, if at least ``least`` more are.

    Returns the destination cores saved.
    """
    cores, part = x.use.shape[1], x.part
    sums, seen = np.zeros(-(-cores // 64) * 64, np.int32), np.empty(cores, np.int64)
    saved = 0
    for v in order:
        if not active[v]:
            continue
        active[v] = False
        found = _near(x, v, sums, seen)
        own = part[v]
        best, gain = _best(x, v, sums, seen, found, sums[own] + least - 1)
        gain -= sums[own]
        for k in range(found):
            sums[seen[k]] = 0
        if best < 0 or not words_fit(x, v, best):
            continue
        if not move(x, v, best):
            move(x, v, own)
            continue
        saved += gain
        _wake(x, v, active)
    return saved


@inlined
def words_fit(x, v, core) -> bool:
    """True where a core has room for the words of one more neuron."""
    nets, first, count, listed, length, kind, table = x.nets, x.first, x.counts, x.listed, x.length, x.kind, x.table
    left = x.cap[WORDS] - x.use[WORDS, core]
    for k in range(x.start[v], x.start[v + 1]):
        e = nets[k]
        row, n = kind[e], _number(first, count, listed, length, e, core)
        left -= table[row, n + 1] - table[row, n]
    return left >= 0


@inlined
def _best(x, v, sums, seen, found, floor):
    """The core with room of most nets of v, more than ``floor``, and how many; -1: none."""
    best, most, own, use, cap = -1, floor, x.part[v], x.use, x.cap
    nets, slots = x.start[v + 1] - x.start[v], x.slots[v]
    for k in range(found):
        core = seen[k]
        if core != own and (sums[core] > most or (best >= 0 and sums[core] == most and core < best)):
            room = use[SIZE, core] < cap[SIZE] and use[OUT, core] + slots <= cap[OUT]
            if room and use[AXONS, core] + nets - sums[core] <= cap[AXONS]:
                best, most = core, sums[core]
    return best, most


@inlined
def _wake(x, v, active):
    """Neurons that share a net with v are looked at again: sources of v, and v itself, through the sources' nets."""
    active[v] = True
    nets, source = x.nets, x.source
    for k in range(x.start[v], x.start[v + 1]):
        s = source[nets[k]]
        if s >= 0:
            active[s] = True


@loop
def gains_to(x, members, own, to) -> Array:
    """Per member of core ``own``, the destination cores that a move to another core saves."""
    gains = np.zeros(len(members), np.int64)
    start, nets, first, listed, length = x.start, x.nets, x.first, x.listed, x.length
    for m in range(len(members)):
        if len(x.counts) > 0:
            rows = nets[start[members[m]] : start[members[m] + 1]]
            gains[m] = number_of(ANY, x.bits, rows, to) - number_of(ANY, x.bits, rows, own)
            gains[m] += number_of(SINGLE, x.bits, rows, own)
            continue
        for e in nets[start[members[m]] : start[members[m] + 1]]:
            for i in range(first[e], first[e] + length[e]):  # once for both cores: their search is most of the time
                gains[m] += (listed[i, 0] == to) - (listed[i, 0] == own and listed[i, 1] > 1)
    return gains


@uncounted
def neighbours(x, joint) -> None:
    """``joint[a, b]``: nets of sources in core a with targets in core b."""
    for e in range(len(x.length)):
        if x.source[e] >= 0:
            a = x.part[x.source[e]]
            if len(x.counts) > 0:
                for core in range(len(joint)):
                    joint[a, core] += x.counts[e, core] > 0
            else:
                for k in range(x.first[e], x.first[e] + x.length[e]):
                    joint[a, x.listed[k, 0]] += 1


# -- bits ----------------------------------------------------------------------------------------------------------

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
