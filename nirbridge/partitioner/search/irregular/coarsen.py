"""Graphs of neurons made smaller, by one node for neurons that share many synapses, and then cut in halves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from nirbridge.arrays import Array
from nirbridge.partitioner.search.irregular.jit import compiled, loop, uncounted

ROUNDS = 3
"""Rounds in which nodes join the cluster that they share most with."""


SAMPLE = 1_000
"""Clusters that are looked at for the pairs that they make."""


@dataclass(frozen=True, slots=True, eq=False)
class Graph:
    """Undirected: node i has neighbours ``index[start[i]:start[i + 1]]`` with ``weight``; ``size`` counts neurons."""

    start: Array
    index: Array
    weight: Array
    size: Array

    @property
    def nodes(self) -> int:
        """Number of nodes."""
        return len(self.size)


def graph_of(rows: Array, columns: Array, weights: Array, size: Array) -> Graph:
    """The graph of pairs: those of one pair, in either direction, are added, those of a node with itself left out."""
    apart = rows != columns
    if not apart.all():
        rows, columns, weights = rows[apart], columns[apart], weights[apart]
    start, index, weight = compiled(_undirected)(rows, columns, weights.astype(np.int32), len(size))
    return Graph(start, index, weight, size)


def clusters(graph: Graph, most: int, rng: np.random.Generator) -> Array:
    """The cluster of each node, numbers from 0; at most ``most`` neurons each."""
    label = np.arange(graph.nodes)
    order = rng.permutation(graph.nodes)
    compiled(_cluster)(graph.start, graph.index, graph.weight, graph.size, most, order, ROUNDS, label)
    used = np.zeros(graph.nodes, np.int64)
    used[label] = 1
    return (np.cumsum(used) - 1)[label]


def contracted(graph: Graph, cluster: Array) -> Graph:
    """The graph of clusters."""
    nodes = int(cluster.max()) + 1
    size = np.bincount(cluster, weights=graph.size, minlength=nodes).astype(np.int64)
    row = np.repeat(cluster, np.diff(graph.start))
    column = cluster[graph.index]
    apart = row != column
    joined: Any = sparse.csr_array((graph.weight[apart], (row[apart], column[apart])), shape=(nodes, nodes))
    joined.sum_duplicates()
    return Graph(joined.indptr.astype(np.int64), joined.indices.astype(np.int32), joined.data.astype(np.int32), size)


def scattered(graph: Graph, cluster: Array) -> float:
    """Pairs of clusters per pair of neighbours, of the first clusters: near 1 where clusters share next to nothing."""
    nodes = np.flatnonzero(cluster < SAMPLE)
    counts = graph.start[nodes + 1] - graph.start[nodes]
    entry = np.arange(counts.sum()) + np.repeat(graph.start[nodes] - (np.cumsum(counts) - counts), counts)
    own, other = np.repeat(cluster[nodes], counts), cluster[graph.index[entry]]
    apart = own != other
    return len(np.unique(own[apart] * graph.nodes + other[apart])) / max(len(entry), 1)


@loop
def _undirected(rows, columns, weights, n):
    """(start, index, weight) of the graph of these pairs, neighbours ascending: by counting, nothing is sorted."""
    incoming, back, back_weight = _by_number(columns, rows, weights, n)
    column = np.repeat(np.arange(n).astype(np.int32), np.diff(incoming))
    ahead, far, far_weight = _by_number(back, column, back_weight, n)
    row = np.repeat(np.arange(n).astype(np.int32), np.diff(ahead))
    incoming, back, back_weight = _by_number(far, row, far_weight, n)
    start, index, total = (
        np.zeros(n + 1, np.int64),
        np.empty(2 * len(rows), np.int32),
        np.empty(2 * len(rows), np.int32),
    )
    for v in range(n):
        i, j, end = ahead[v], incoming[v], start[v]
        while i < ahead[v + 1] or j < incoming[v + 1]:
            first = j == incoming[v + 1] or (i < ahead[v + 1] and far[i] <= back[j])
            u, more = (far[i], far_weight[i]) if first else (back[j], back_weight[j])
            i, j = i + first, j + (not first)
            if end > start[v] and index[end - 1] == u:
                total[end - 1] += more
            else:
                index[end], total[end] = u, more
                end += 1
        start[v + 1] = end
    return start, index[: start[n]].copy(), total[: start[n]].copy()


@loop
def _by_number(numbers, others, weights, n):
    """Pairs in the order of their numbers, those of one number as they came: where each begins, others, weights."""
    start = np.zeros(n + 1, np.int64)
    for number in numbers:
        start[number + 1] += 1
    start = np.cumsum(start)
    at, other, weight = start[:-1].copy(), np.empty(len(others), np.int32), np.empty(len(others), np.int32)
    for k in range(len(numbers)):
        place = at[numbers[k]]
        other[place], weight[place] = others[k], weights[k]
        at[numbers[k]] = place + 1
    return start, other, weight


@loop
def _cluster(start, index, weight, size, most, order, rounds, label):
    """Label propagation: each node takes the label of most weight around it that has room."""
    n = len(size)
    held = size.copy()
    sums = np.zeros(n, np.int64)
    seen = np.empty(n, np.int64)
    for _ in range(rounds):
        moved = 0
        for v in order:
            found = 0
            for k in range(start[v], start[v + 1]):
                other = label[index[k]]
                if sums[other] == 0:
                    seen[found] = other
                    found += 1
                sums[other] += weight[k]
            own = label[v]
            best, most_sum = own, sums[own]
            for k in range(found):
                other = seen[k]
                if sums[other] > most_sum and held[other] + size[v] <= most:
                    best, most_sum = other, sums[other]
            for k in range(found):
                sums[seen[k]] = 0
            if best != own:
                held[own] -= size[v]
                held[best] += size[v]
                label[v] = best
                moved += 1
        if moved * 20 < n:
            break


# -- bisect --------------------------------------------------------------------------------------------------------
# Recursive bisection of a small graph: halves grown from a node far out, refined by moves (Fiduccia-Mattheyses).

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
