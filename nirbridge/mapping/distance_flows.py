"""Rates of nets that pay for the distances between blocks: flows over nets, as much as raises a bound most.

A tree has a link for each link between any two of its ends, at least. Send a flow of y between every two of n blocks,
each over a chain of nets in which neighbours share a block, such that the flows over a net sum to no more than a part f
of its rate. Then f times the links of the nets, added up, is at least y times the distances of all pairs, and these are
at least ``distances.least_distances`` in any placement, here W. So y W bounds what these parts of the rates take.

The links that sets of blocks on tiles prove (``tile_program``) lose f times the tiles that each net touches beyond the
first. The best flows for such numbers of tiles are those of a linear program with a variable for each tree of shortest
ways from a block to all others: of the last lengths of a search for those at which the ways sum to W for the least sum
of rates times lengths, which is the dual (Garg, Koenemann 2007, doi:10.1137/S0097539704446232, has the kind).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import sparse

from nirbridge.arrays import Array, weighted_sum
from nirbridge.mapping.tile_nets import TouchingNets

STEPS, KEPT = 60, 12
"""Steps of the search for lengths, and how many of the last ones give trees."""
SCALINGS, CLOSE = 3, 0.02
"""Tries to scale lengths in a step, and how close the ways then sum to W."""
SHORT, LONG, AVERAGED = 0.3, 3.0, 0.3
"""Least and most change of a length in a step, and the share of its flows in the mean of those before."""
FIRST, LEAST = 0.3, 1e-9
"""First length beyond the tiles, and the least of any: in links."""
ROUNDED_DOWN = 1 - 1e-9


@dataclass(frozen=True, slots=True, eq=False)
class Flows:
    """Flows between all pairs of ``blocks``, which ``nets`` of the host aside connect; W is ``least``."""

    nets: TouchingNets
    inner: Array
    blocks: Array
    least: float

    def best(self, covered: Array) -> tuple[Array, float]:
        """(parts of the rates [nets], bound on what they take), for as many tiles of each net beyond the first."""
        parts, paid = np.zeros(len(self.nets.rate)), 0.0
        trees = self._trees(covered[self.inner])
        if trees is not None:
            parts[self.inner], paid = self._split(covered[self.inner], trees)
        return parts, paid

    def _trees(self, covered: Array) -> sparse.csr_array | None:
        """What each tree of shortest ways takes of the nets for a flow of 1 [trees, nets]; None: tiles are enough."""
        rate, more, kept, mean = self.nets.rate[self.inner], np.full(len(covered), FIRST), [], np.zeros(len(covered))
        short = self.least - self._ways(covered)[0]
        if short <= 0:
            return None
        for step in range(STEPS):
            total, use = self._ways(covered + more)
            for _ in range(SCALINGS):
                if abs(total / self.least - 1) < CLOSE:
                    break
                more = more * max(short / max(total - self.least + short, LEAST), 0.1)
                total, use = self._ways(covered + more)
            kept = [*kept, use][-KEPT:]
            now = np.asarray(use.sum(axis=0)).ravel()
            mean = now if step == 0 else (1 - AVERAGED) * mean + AVERAGED * now
            price = mean / rate
            usual = weighted_sum(price * more, rate) / weighted_sum(more, rate)
            change = np.clip(price / usual, SHORT, LONG) ** (0.5 / (1 + 0.03 * step))
            more = np.maximum(more * change, LEAST)
        return sparse.csr_array(sparse.vstack(kept))

    def _ways(self, length: Array) -> tuple[float, sparse.csr_array]:
        """The sum of shortest ways between all pairs, and how many pairs the ways from each block have in each net.

        A pair is counted half at each of its blocks.
        """
        from scipy.sparse.csgraph import dijkstra

        blocks, nets = self.nets.blocks, self.nets.some(self.inner)
        half = np.repeat(np.maximum(length, LEAST) / 2, nets.degrees)
        size = blocks + len(length)
        graph = sparse.csr_array((half, (nets.ends, blocks + nets.entry_nets())), shape=(size, size))
        found = dijkstra(graph, directed=False, indices=self.blocks, return_predecessors=True)
        way, before = (np.asarray(own) for own in found)
        way, net, row = way[:, self.blocks], before[:, self.blocks], np.arange(len(self.blocks))[:, None]
        last = np.full(size, -1)
        last[self.blocks] = np.arange(len(self.blocks))
        parent = np.where(net >= 0, last[np.maximum(before[row, np.maximum(net, 0)], 0)], -1)
        return float(way.sum()) / 2, _loads(way, net - blocks, parent, len(length))

    def _split(self, covered: Array, trees: sparse.csr_array) -> tuple[Array, float]:
        """The flows of these trees of which a bound gains most, as ``best`` gives them."""
        from scipy.optimize import linprog

        rate, count, kept = self.nets.rate[self.inner], len(self.blocks), len(trees.indptr) // len(self.blocks)
        of_block = sparse.kron(np.ones((1, kept)), sparse.eye_array(count))
        rows = sparse.block_array([[np.ones((count, 1)), -of_block], [None, trees.T]], format="csr")
        goal = np.append(-self.least, trees @ covered)
        result = linprog(goal, A_ub=rows, b_ub=np.append(np.zeros(count), rate), method="highs-ipm")
        if result.status != 0:
            return np.zeros(len(rate)), 0.0
        flow = np.maximum(result.x[1:], 0.0)
        parts, least = flow @ trees, float((of_block @ flow).min())
        # the solver's tolerance may leave a net with more than its rate
        scale = float(np.min(rate[parts > 0] / parts[parts > 0], initial=1.0))
        return np.minimum(scale * parts, rate), ROUNDED_DOWN * scale * least * self.least


def _loads(way: Array, net: Array, parent: Array, nets: int) -> sparse.csr_array:
    """Pairs of each tree over each net [blocks, nets], halved: a block and all that are reached over it."""
    rows, count = np.arange(len(way)), np.ones(way.shape)
    for place in np.argsort(-way, axis=1, kind="stable").T:
        before = parent[rows, place]
        away = before >= 0
        count[rows[away], before[away]] += count[rows[away], place[away]]
    row, block = np.nonzero(parent >= 0)
    entries = count[row, block] / 2, (row, net[row, block])
    return sparse.csr_array(entries, shape=(len(way), nets))
