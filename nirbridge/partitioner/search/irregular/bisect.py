"""Recursive bisection of a small graph: halves grown from a node far out, refined by moves (Fiduccia-Mattheyses)."""

from __future__ import annotations

import numpy as np

from nirbridge.arrays import Array
from nirbridge.partitioner.search.irregular.coarsen import Graph
from nirbridge.partitioner.search.irregular.jit import compiled, loop, uncounted

STARTS, PASSES = 4, 6
"""Halves that are grown for every cut, and passes of moves over each."""
WORK = 40_000_000
"""Neighbours looked at in all of these together, about: fewer starts and passes where a graph has many."""


def bisected(graph: Graph, parts: int, rng: np.random.Generator) -> Array:
    """The part of each node, 0 to ``parts - 1``: neighbours in number are neighbours in the graph; near-equal sizes."""
    part = np.zeros(graph.nodes, np.int64)
    rounds = WORK / (len(graph.index) * np.log2(parts) + 1)
    count_of_starts, passes = int(min(STARTS, max(rounds // 2, 1))), int(min(PASSES, max(rounds // 2, 1)))
    waiting = [(0, parts)]
    while waiting:
        first, count = waiting.pop()
        if count == 1:
            continue
        nodes = np.flatnonzero(part == first)
        left = count // 2
        target = graph.size[nodes].sum() * left / count
        if len(nodes) > 1:
            starts = nodes[rng.integers(len(nodes), size=count_of_starts)]
            side = np.full(graph.nodes, -1, np.int8)
            cut = compiled(_bisect)
            best = cut(graph.start, graph.index, graph.weight, graph.size, nodes, starts, target, passes, side)
            part[nodes[best == 1]] = first + left
        waiting += [(first, left), (first + left, count - left)]
    return part


@loop
def _bisect(start, index, weight, size, nodes, starts, target, passes, side):
    """0 or 1 for each of ``nodes``: the cut of least weight over all starts."""
    slack = max(0.02 * target, 1.0 * size[nodes].max())
    best = np.zeros(len(nodes), np.int8)
    least = -1
    heap = np.empty(len(side), np.int64)
    place = np.full(len(side), -1, np.int64)
    gain = np.zeros(len(side), np.int64)
    log = np.empty(len(nodes), np.int64)
    for s in range(len(starts)):
        for v in nodes:
            side[v] = 1
        far = _farthest(start, index, side, starts[s], heap)
        held = _grow(start, index, weight, size, nodes, far, target, side, heap, place, gain)
        for _ in range(passes):
            better, held = _refine(start, index, weight, size, nodes, target, slack, held, side, heap, place, gain, log)
            if not better:
                break
        cut = _cut(start, index, weight, nodes, side)
        if least < 0 or cut < least:
            least = cut
            for k in range(len(nodes)):
                best[k] = side[nodes[k]]
    for v in nodes:
        side[v] = -1
    return best


@uncounted
def _cut(start, index, weight, nodes, side):
    total = 0
    for v in nodes:
        for k in range(start[v], start[v + 1]):
            if side[v] == 0 and side[index[k]] == 1:
                total += weight[k]
    return total


@uncounted
def _farthest(start, index, side, first, queue):
    """The last node of a breadth-first walk; marks of the walk are taken back."""
    queue[0] = first
    side[first] = 2
    head, tail = 0, 1
    while head < tail:
        v = queue[head]
        head += 1
        for k in range(start[v], start[v + 1]):
            u = index[k]
            if side[u] == 1:
                side[u] = 2
                queue[tail] = u
                tail += 1
    for k in range(tail):
        side[queue[k]] = 1
    return queue[tail - 1]


@uncounted
def _grow(start, index, weight, size, nodes, first, target, side, heap, place, gain):
    """Side 0 grows from a node by the neighbour of most weight to it, up to ``target``; its size."""
    held, count, at = 0.0, 0, 0
    count = _push(heap, place, gain, count, first, 1)
    while held < target:
        while count == 0 and at < len(nodes):  # a component is used up
            if side[nodes[at]] == 1:
                count = _push(heap, place, gain, count, nodes[at], 1)
            at += 1
        if count == 0:
            break
        v = heap[0]
        count = _pop(heap, place, gain, count)
        side[v] = 0
        held += size[v]
        for k in range(start[v], start[v + 1]):
            u = index[k]
            if side[u] == 1:
                if place[u] < 0:
                    count = _push(heap, place, gain, count, u, weight[k])
                else:
                    gain[u] += weight[k]
                    _up(heap, place, gain, place[u])
    for k in range(count):
        place[heap[k]] = -1
    return held


@uncounted
def _refine(start, index, weight, size, nodes, target, slack, held, side, heap, place, gain, log):
    """One pass of moves, each node at most once, back to the best state on the way; (is it better, size of side 0)."""
    count, made, kept, total, best, size_kept = 0, 0, 0, 0, 0, held
    off = abs(held - target)
    for v in nodes:
        count = _push(heap, place, gain, count, v, _gain(start, index, weight, side, v))
    while count > 0 and made - kept < 200 + len(nodes) // 20:
        v = heap[0]
        count = _pop(heap, place, gain, count)
        after = held - size[v] if side[v] == 0 else held + size[v]
        if abs(after - target) > slack and abs(after - target) >= abs(held - target):
            continue
        held = after
        side[v] = 1 - side[v]
        total += gain[v]
        log[made] = v
        made += 1
        _update(start, index, weight, side, heap, place, gain, count, v)
        if total > best or (total == best and abs(held - target) < off):
            best, kept, size_kept, off = total, made, held, abs(held - target)
    for k in range(made - 1, kept - 1, -1):
        side[log[k]] = 1 - side[log[k]]
    for k in range(count):
        place[heap[k]] = -1
    return best > 0, size_kept


@uncounted
def _gain(start, index, weight, side, v):
    """Weight to the other side less that to its own."""
    total = 0
    for k in range(start[v], start[v + 1]):
        s = side[index[k]]
        if s >= 0:
            total += -weight[k] if s == side[v] else weight[k]
    return total


@uncounted
def _update(start, index, weight, side, heap, place, gain, count, v):
    for k in range(start[v], start[v + 1]):
        u = index[k]
        if side[u] >= 0 and place[u] >= 0:
            gain[u] += 2 * weight[k] if side[u] != side[v] else -2 * weight[k]
            _up(heap, place, gain, place[u])
            _down(heap, place, gain, count, place[u])


@uncounted
def _push(heap, place, gain, count, v, value):
    gain[v] = value
    heap[count] = v
    place[v] = count
    _up(heap, place, gain, count)
    return count + 1


@uncounted
def _pop(heap, place, gain, count):
    """Without the first node; the number of nodes that are left."""
    place[heap[0]] = -1
    count -= 1
    if count > 0:
        heap[0] = heap[count]
        place[heap[0]] = 0
        _down(heap, place, gain, count, 0)
    return count


@uncounted
def _up(heap, place, gain, at):
    v = heap[at]
    while at > 0:
        above = (at - 1) // 2
        if gain[heap[above]] >= gain[v]:
            break
        heap[at] = heap[above]
        place[heap[at]] = at
        at = above
    heap[at] = v
    place[v] = at


@uncounted
def _down(heap, place, gain, count, at):
    v = heap[at]
    while 2 * at + 1 < count:
        below = 2 * at + 1
        if below + 1 < count and gain[heap[below + 1]] > gain[heap[below]]:
            below += 1
        if gain[heap[below]] <= gain[v]:
            break
        heap[at] = heap[below]
        place[heap[at]] = at
        at = below
    heap[at] = v
    place[v] = at
