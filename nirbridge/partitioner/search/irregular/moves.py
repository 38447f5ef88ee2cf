"""Neurons on cores with every limit kept up to date, and the moves that lower the number of destination cores.

A net is one source and its targets by one projection. Its destination cores are listed with the number of its targets
there; their total over all nets is what moves lower: it is the traffic, the input axons and the output axons at once.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from nirbridge.arrays import Array
from nirbridge.partitioner.search.irregular.jit import compiled

SIZE, AXONS, WORDS, OUT = range(4)
"""Rows of ``use`` and ``cap``: neurons, input axons, words, output axons."""


class Nets(NamedTuple):
    """Neuron v is a target of ``nets[start[v]:start[v + 1]]``.

    Per net: ``source`` (a neuron, or -1 for a host input), ``kind`` (row of ``table``, the words of n targets). The
    destination cores of net e are ``held[first[e]:first[e] + length[e], 0]``, with the number of its targets in
    column 1. ``part`` is the core of each neuron (-1: none), ``slots`` its output axons, ``use: [4, cores]``.
    """

    start: Array
    nets: Array
    source: Array
    kind: Array
    table: Array
    first: Array
    held: Array
    length: Array
    part: Array
    slots: Array
    use: Array
    cap: Array


@compiled
def place_all(x, part) -> None:
    """Every neuron into its core."""
    for v in range(len(part)):
        x.part[v] = part[v]
        x.use[SIZE, part[v]] += 1
    for v in range(len(part)):
        for k in range(x.start[v], x.start[v + 1]):
            _add(x, x.nets[k], part[v])


@compiled
def _add(x, e, core):
    """One more target of net e in a core; True where it is the first one."""
    begin = x.first[e]
    end = begin + x.length[e]
    row = x.kind[e]
    for k in range(begin, end):
        if x.held[k, 0] == core:
            n = x.held[k, 1]
            x.held[k, 1] = n + 1
            x.use[WORDS, core] += x.table[row, n + 1] - x.table[row, n]
            return False
    x.held[end, 0] = core
    x.held[end, 1] = 1
    x.length[e] += 1
    x.use[WORDS, core] += x.table[row, 1]
    _pay(x, e, core, 1)
    return True


@compiled
def _drop(x, e, core):
    """One target of net e in a core less."""
    begin = x.first[e]
    k = begin
    while x.held[k, 0] != core:
        k += 1
    row, n = x.kind[e], x.held[k, 1]
    x.use[WORDS, core] -= x.table[row, n] - x.table[row, n - 1]
    x.held[k, 1] = n - 1
    if n == 1:
        last = begin + x.length[e] - 1
        x.held[k, 0] = x.held[last, 0]
        x.held[k, 1] = x.held[last, 1]
        x.length[e] -= 1
        _pay(x, e, core, -1)


@compiled
def _pay(x, e, core, step):
    x.use[AXONS, core] += step
    s = x.source[e]
    if s >= 0:
        x.slots[s] += step
        x.use[OUT, x.part[s]] += step


@compiled
def move(x, v, to) -> bool:
    """Move a neuron; True where the cores that gain something are within their limits."""
    old = x.part[v]
    for k in range(x.start[v], x.start[v + 1]):
        _drop(x, x.nets[k], old)
    x.use[SIZE, old] -= 1
    x.use[SIZE, to] += 1
    x.use[OUT, old] -= x.slots[v]
    x.use[OUT, to] += x.slots[v]
    x.part[v] = to
    fits = True
    for k in range(x.start[v], x.start[v + 1]):
        e = x.nets[k]
        if _add(x, e, to) and x.source[e] >= 0 and x.use[OUT, x.part[x.source[e]]] > x.cap[OUT]:
            fits = False
    for row in range(4):
        if x.use[row, to] > x.cap[row]:
            fits = False
    return fits


@compiled
def _near(x, v, sums, seen):
    """Per core the nets of v with other targets there, in ``sums``; the number of cores, listed in ``seen``."""
    own, found = x.part[v], 0
    for k in range(x.start[v], x.start[v + 1]):
        e = x.nets[k]
        for i in range(x.first[e], x.first[e] + x.length[e]):
            core = x.held[i, 0]
            if core == own and x.held[i, 1] == 1:
                continue
            if sums[core] == 0:
                seen[found] = core
                found += 1
            sums[core] += 1
    return found


@compiled
def refine(x, order, active, least) -> int:
    """One pass: each active neuron to the core where most of its nets are already, if at least ``least`` more are.

    Returns the destination cores saved.
    """
    cores = x.use.shape[1]
    sums, seen = np.zeros(cores, np.int64), np.empty(cores, np.int64)
    saved = 0
    for v in order:
        if not active[v]:
            continue
        active[v] = False
        found = _near(x, v, sums, seen)
        own = x.part[v]
        best, gain = _best(x, v, sums, seen, found, sums[own] + least - 1)
        gain -= sums[own]
        for k in range(found):
            sums[seen[k]] = 0
        if best < 0:
            continue
        if not move(x, v, best):
            move(x, v, own)
            continue
        saved += gain
        _wake(x, v, active)
    return saved


@compiled
def _best(x, v, sums, seen, found, floor):
    """The core with room of most nets of v, more than ``floor``, and how many; -1: none."""
    best, most = -1, floor
    nets = x.start[v + 1] - x.start[v]
    for k in range(found):
        core = seen[k]
        if core != x.part[v] and (sums[core] > most or (best >= 0 and sums[core] == most and core < best)):
            room = x.use[SIZE, core] < x.cap[SIZE] and x.use[OUT, core] + x.slots[v] <= x.cap[OUT]
            if room and x.use[AXONS, core] + nets - sums[core] <= x.cap[AXONS]:
                best, most = core, sums[core]
    return best, most


@compiled
def _wake(x, v, active):
    """Neurons that share a net with v are looked at again: sources of v, and v itself, through the sources' nets."""
    active[v] = True
    for k in range(x.start[v], x.start[v + 1]):
        s = x.source[x.nets[k]]
        if s >= 0:
            active[s] = True


@compiled
def gains_to(x, members, own, to) -> Array:
    """Per member of core ``own``, the destination cores that a move to another core saves."""
    gains = np.zeros(len(members), np.int64)
    for m in range(len(members)):
        v = members[m]
        for k in range(x.start[v], x.start[v + 1]):
            e = x.nets[k]
            for i in range(x.first[e], x.first[e] + x.length[e]):
                if x.held[i, 0] == to:
                    gains[m] += 1
                elif x.held[i, 0] == own and x.held[i, 1] > 1:
                    gains[m] -= 1
    return gains


@compiled
def neighbours(x, joint) -> None:
    """``joint[a, b]``: nets of sources in core a with targets in core b."""
    for e in range(len(x.length)):
        if x.source[e] >= 0:
            a = x.part[x.source[e]]
            for i in range(x.first[e], x.first[e] + x.length[e]):
                joint[a, x.held[i, 0]] += 1
