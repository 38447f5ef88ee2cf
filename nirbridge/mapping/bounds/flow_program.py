"""The linear program of flows over nets, from ways between blocks and from the host (``distance_flows``).

A flow over a tree of ways sends as much from its root to every block. Where the trees of all blocks send y, every two
blocks get y. From the host each way has a flow of its own. The sum of the k smallest flows from the host is the largest
k t - sum of max(t - h(b), 0) over all t, so it is linear in more variables: t(r) and one for each ring and block.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import sparse

from nirbridge.arrays import Array

ROUNDED_DOWN = 1 - 1e-9


@dataclass(frozen=True, slots=True, eq=False)
class Ways:
    """Shortest ways between ``blocks``, each as the nets that it runs over.

    ``pairs, host``: lengths of the ways between all pairs, and of those from the host, added up; ``trees`` [blocks,
    nets]: how many pairs the ways from each block have over each net, a pair counted half at each of its blocks;
    ``from_host`` [blocks, nets]: 1 for each net of the way to each block, no rows without the host.
    """

    pairs: float
    host: float
    trees: sparse.csr_array
    from_host: sparse.csr_array

    @classmethod
    def of_trees(cls, way: Array, net: Array, parent: Array, nets: int, *, has_host: bool) -> Ways:
        """From lengths of all ways [from, to], and the block before the last of each and the net between both.

        ``has_host``: the last block is the host; its ways are apart.
        """
        blocks = len(way) - has_host
        trees = _loads(net[:blocks], parent[:blocks], nets, blocks)
        from_host = _on_way(net[-1], parent[-1], nets) if has_host else sparse.csr_array((0, nets))
        apart = float(way[-1].sum()) if has_host else 0.0
        return cls(float(way[:blocks, :blocks].sum()) / 2, apart, trees, from_host)

    def length(self, host: float) -> float:
        """The lengths of all ways, those from the host ``host`` times."""
        return self.pairs + host * self.host

    def use(self, host: float) -> Array:
        """How many of these ways each net is on [nets]."""
        return np.asarray(self.trees.sum(axis=0) + host * self.from_host.sum(axis=0)).ravel()


def _loads(net: Array, parent: Array, nets: int, blocks: int) -> sparse.csr_array:
    """Pairs of each tree over each net [trees, nets], halved: a block and all below ``blocks`` reached over it."""
    rows, count = np.arange(len(parent)), np.ones(parent.shape)
    count[:, blocks:] = 0
    depth, above = np.zeros(parent.shape, np.int64), parent
    while (above >= 0).any():
        depth += above >= 0
        above = np.where(above >= 0, parent[rows[:, None], above], -1)
    for place in np.argsort(-depth, axis=1, kind="stable").T:
        before = parent[rows, place]
        away = before >= 0
        count[rows[away], before[away]] += count[rows[away], place[away]]
    row, block = np.nonzero((parent >= 0) & (count > 0))
    entries = count[row, block] / 2, (row, net[row, block])
    return sparse.csr_array(entries, shape=(len(parent), nets))


def _on_way(net: Array, parent: Array, nets: int) -> sparse.csr_array:
    """1 for each net on the way from the root of a tree to each block but the last, which is the root."""
    block = np.arange(len(parent) - 1)
    at, rows, used = block, [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    while len(block):
        away = parent[at] >= 0
        block, at = block[away], at[away]
        rows.append(block)
        used.append(net[at])
        at = parent[at]
    row, over = np.concatenate(rows), np.concatenate(used)
    return sparse.csr_array((np.ones(len(row)), (row, over)), shape=(len(parent) - 1, nets))


def best_flows(found: Sequence[Ways], rate: Array, covered: Array, least: float, beyond: Array) -> tuple[Array, float]:
    """(parts of the rates [nets], the bound on their hops) of the flows over some ways of which a bound gains most.

    ``covered`` [nets]: links of each net that tiles give for the same rate; ``least``: W; ``beyond`` [rings]: k.
    """
    from scipy.optimize import linprog

    trees = sparse.csr_array(sparse.vstack([ways.trees for ways in found]))
    ways = sparse.csr_array(sparse.vstack([own.from_host for own in found]))
    count, unit = trees.indptr.size - 1, rate.max()
    blocks = count // len(found)
    of_block = sparse.csr_array(sparse.kron(np.ones((1, len(found))), sparse.eye_array(blocks)))
    table, limits, goal = _program(trees, ways, of_block, blocks, beyond)
    goal = np.concatenate(([-least], trees @ covered, ways @ covered, goal))
    result = linprog(goal, A_ub=table, b_ub=np.concatenate((rate / unit, limits)), method="highs-ipm")
    if result.status != 0:
        return np.zeros(len(rate)), 0.0
    flow = unit * np.maximum(result.x, 0.0)
    of_trees, of_ways = flow[1 : 1 + count], flow[1 + count : count + ways.indptr.size]
    parts = of_trees @ trees + of_ways @ ways
    # the solver's tolerance may leave a net with more than its rate
    scale = float(np.min(rate[parts > 0] / parts[parts > 0], initial=1.0))
    paid = least * float((of_block @ of_trees).min())
    if len(beyond):
        nearest = np.cumsum(np.sort(of_block @ of_ways))
        paid += float(nearest[beyond - 1].sum())
    return np.minimum(scale * parts, rate), ROUNDED_DOWN * scale * paid


def _program(
    trees: sparse.csr_array, ways: sparse.csr_array, of_block: sparse.csr_array, blocks: int, beyond: Array
) -> tuple[sparse.csr_array, Array, Array]:
    """(rows, the upper limits of all but the first ones, which are rates, costs of the last variables).

    Columns are y, a flow for each tree, and with the host one for each way, h [blocks], t [rings] and what is missing
    to t [rings, blocks].
    """
    rings, of_nets = len(beyond), sparse.csr_array(trees.T)
    one, each = np.ones((blocks, 1)), sparse.eye_array(blocks)
    none = sparse.csr_array((of_nets.indptr.size - 1, 1))
    if rings == 0:
        rows = sparse.block_array([[none, of_nets], [one, -of_block]])
        return sparse.csr_array(rows), np.zeros(blocks), np.zeros(0)
    less, each_ring = -sparse.kron(np.ones((rings, 1)), each), sparse.kron(sparse.eye_array(rings), one)
    table = [
        [none, of_nets, ways.T, None, None, None],
        [one, -of_block, None, None, None, None],
        [None, None, -of_block, each, None, None],
        [None, None, None, less, each_ring, -sparse.eye_array(rings * blocks)],
    ]
    goal = np.concatenate((np.zeros(blocks), -beyond.astype(np.float64), np.ones(rings * blocks)))
    return sparse.csr_array(sparse.block_array(table)), np.zeros((2 + rings) * blocks), goal
