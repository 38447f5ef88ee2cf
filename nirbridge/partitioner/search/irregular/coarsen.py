"""Graphs of neurons made smaller: neurons that share many synapses become one node."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from nirbridge.arrays import Array
from nirbridge.partitioner.search.irregular.jit import compiled, loop

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
