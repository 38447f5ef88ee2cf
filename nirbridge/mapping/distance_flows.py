"""A bound on the hops of nets by the distances between blocks: flows over nets between every two blocks.

The tree of a net has at least as many links as lie between any two of its ends. Send a flow y between every two of n
blocks, over nets that share blocks, such that the flows over each net sum to at most a part f of its rate. Then the
hops of these parts, f times the links of each tree, are at least y times the distances of all pairs, and those are at
least W in any placement (``distances.least_distances``): y W is a bound on them.

The rest of the rates pays for tiles (``tile_program``), which lose f times the tiles that a net touches beyond
the first. Where these are known, the flows for which the sum of both is largest are a linear program. Its dual asks for
lengths of nets, their tiles and more, of the least rates times lengths where shortest ways between all pairs sum to
W. Those are searched first, each length changed by how much of the rate the ways use, as in methods of multiplicative
weights (Garg, Koenemann 2007, doi:10.1137/S0097539704446232). Then the program is solved for the trees of ways of the
last steps. Its flows give the bound, however good the lengths are.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import sparse

from nirbridge.arrays import Array, weighted_sum
from nirbridge.mapping.distances import least_distances
from nirbridge.mapping.tile_nets import TouchingNets
from nirbridge.mapping.tile_sets import pairs_of_ends

PAIRS_MAX, WORK_MAX, BLOCKS_MAX = 10_000_000, 110_000_000, 1_300
"""Pairs of blocks of all nets, blocks times the different ones of these, and blocks: beyond, no flows are searched."""
TINY = 1e-9
"""Nets whose rate is at most this part of the largest rate carry no flow."""
ITERATIONS, KEPT = 60, 12
"""Iterations of the search for lengths, and how many of the last ones give trees to the program."""
SCALINGS, CLOSE = 3, 0.02
"""Times that lengths are scaled in an iteration, at most, and how close to W the ways then are."""
SHORT, LONG, AVERAGED = 0.3, 3.0, 0.3
"""Least and most factor of a length in the first iteration, and the share of each in the mean use of nets."""
FIRST, LEAST = 0.3, 1e-9
"""First length beyond the tiles, and the least of any: in links."""
ROUNDED_DOWN = 1 - 1e-9


@dataclass(frozen=True, slots=True, eq=False)
class Flows:
    """Flows between all pairs of ``blocks``.

    ``rate`` [nets]: of those that carry flows, ``numbers`` [nets] theirs among all nets, of which there are ``count``.
    ``pair, net``: every two blocks of each net, as a number below ``blocks`` squared, ascending, and the net.
    ``least``: W.
    """

    rate: Array
    numbers: Array
    count: int
    blocks: int
    pair: Array
    net: Array
    least: float

    @classmethod
    def between(cls, nets: TouchingNets, per_tile: int, extent: tuple[int, int]) -> Flows | None:
        """Flows over the largest set of blocks that nets connect; None: too much work, or a tile holds the set."""
        from scipy.sparse.csgraph import connected_components

        numbers = np.flatnonzero(~nets.is_host & (nets.rate > TINY * nets.rate.max(initial=0.0)))
        inner = nets.some(numbers)
        if len(numbers) == 0 or int((inner.degrees * (inner.degrees - 1) // 2).sum()) > PAIRS_MAX:
            return None
        low, high = (inner.ends[places] for places in pairs_of_ends(inner.ptr))
        graph = sparse.csr_array((np.ones(len(low)), (low, high)), shape=(inner.blocks, inner.blocks))
        part = connected_components(graph, directed=False)[1]
        is_linked = part == np.bincount(part).argmax()
        count = int(is_linked.sum())
        if not per_tile < count <= BLOCKS_MAX or count * graph.nnz > WORK_MAX:
            return None
        number = np.cumsum(is_linked) - 1  # in the largest part
        net = np.flatnonzero(is_linked[inner.ends[inner.ptr[:-1]]])
        own = inner.some(net)
        low, high = (number[own.ends[places]] for places in pairs_of_ends(own.ptr))
        pair, of_net = low * count + high, np.repeat(np.arange(len(net)), own.degrees * (own.degrees - 1) // 2)
        order = np.argsort(pair, kind="stable")
        least = least_distances(count, per_tile, extent)
        return cls(own.rate, numbers[net], len(nets.rate), count, pair[order], of_net[order], least)

    def best(self, covered: Array) -> tuple[Array, float]:
        """(parts of the rates [nets], the bound on their hops), where tiles give as many links of each net [nets]."""
        parts, paid = np.zeros(self.count), 0.0
        trees = self._trees(covered[self.numbers])
        if trees is not None:
            parts[self.numbers], paid = self._split(covered[self.numbers], trees)
        return parts, paid

    def _trees(self, covered: Array) -> sparse.csr_array | None:
        """The use of nets by a flow of 1 over each tree of shortest ways [trees, nets]; None: tiles are far enough."""
        rate, more = self.rate / self.rate.max(), np.full(len(covered), FIRST)
        trees, mean = list[sparse.csr_array](), np.zeros(len(covered))
        short = self.least - self._ways(covered)[0]
        if short <= 0:
            return None
        for iteration in range(ITERATIONS):
            total, use = self._ways(covered + more)
            for _ in range(SCALINGS):
                if abs(total / self.least - 1) < CLOSE:
                    break
                more = more * max(short / max(total - self.least + short, LEAST), 0.1)
                total, use = self._ways(covered + more)
            trees = [*trees, use][-KEPT:]
            now = np.asarray(use.sum(axis=0)).ravel()
            mean = now if iteration == 0 else (1 - AVERAGED) * mean + AVERAGED * now
            price = mean / rate
            usual = weighted_sum(price * more, rate) / weighted_sum(more, rate)
            change = np.clip(price / usual, SHORT, LONG) ** (0.5 / (1 + 0.03 * iteration))
            more = np.maximum(more * change, LEAST)
        return sparse.csr_array(sparse.vstack(trees))

    def _ways(self, length: Array) -> tuple[float, sparse.csr_array]:
        """The sum of shortest ways between all pairs, and how many pairs the ways from each block have in each net.

        A pair is counted half at each of its blocks.
        """
        from scipy.sparse.csgraph import shortest_path

        length, size = np.maximum(length, LEAST), self.blocks
        shortest = self._shortest(length)
        pair, net = self.pair[shortest], self.net[shortest]
        nets = np.full(size * size, -1)
        nets[pair] = net
        nets = nets.reshape(size, size)
        graph = sparse.csr_array((length[net], (pair // size, pair % size)), shape=(size, size))
        found = shortest_path(graph, directed=False, return_predecessors=True)
        way, before = (np.asarray(own) for own in found)
        parent, block = np.maximum(before, -1), np.arange(size)
        over = np.where(parent >= 0, nets[np.minimum(parent, block), np.maximum(parent, block)], -1)
        return float(way.sum()) / 2, _loads(over, parent, len(length))

    def _shortest(self, length: Array) -> Array:
        """The place of the shortest net of each pair of blocks that share one."""
        lengths = length[self.net]
        starts = np.flatnonzero(np.diff(self.pair, prepend=-1))
        least = np.repeat(np.minimum.reduceat(lengths, starts), np.diff(starts, append=len(lengths)))
        places = np.flatnonzero(lengths == least)
        return places[np.flatnonzero(np.diff(self.pair[places], prepend=-1))]

    def _split(self, covered: Array, trees: sparse.csr_array) -> tuple[Array, float]:
        """The flows of these trees of which a bound gains most, as ``best`` gives them."""
        from scipy.optimize import linprog

        rate, count, kept = self.rate, self.blocks, len(trees.indptr) // self.blocks
        of_block = sparse.kron(np.ones((1, kept)), sparse.eye_array(count))
        rows = sparse.block_array([[np.ones((count, 1)), -of_block], [None, trees.T]], format="csr")
        goal = np.append(-self.least, trees @ covered)
        result = linprog(goal, A_ub=rows, b_ub=np.append(np.zeros(count), rate / rate.max()), method="highs-ipm")
        if result.status != 0:
            return np.zeros(len(rate)), 0.0
        flow = rate.max() * np.maximum(result.x[1:], 0.0)
        parts, least = flow @ trees, float((of_block @ flow).min())
        # the solver's tolerance may leave a net with more than its rate
        scale = float(np.min(rate[parts > 0] / parts[parts > 0], initial=1.0))
        return np.minimum(scale * parts, rate), ROUNDED_DOWN * scale * least * self.least


def _loads(net: Array, parent: Array, nets: int) -> sparse.csr_array:
    """Pairs of each tree over each net [blocks, nets], halved: a block and all that are reached over it."""
    rows, count = np.arange(len(parent)), np.ones(parent.shape)
    depth, above = np.zeros(parent.shape, np.int64), parent
    while (above >= 0).any():
        depth += above >= 0
        above = np.where(above >= 0, parent[rows[:, None], above], -1)
    for place in np.argsort(-depth, axis=1, kind="stable").T:
        before = parent[rows, place]
        away = before >= 0
        count[rows[away], before[away]] += count[rows[away], place[away]]
    row, block = np.nonzero(parent >= 0)
    entries = count[row, block] / 2, (row, net[row, block])
    return sparse.csr_array(entries, shape=(len(parent), nets))
