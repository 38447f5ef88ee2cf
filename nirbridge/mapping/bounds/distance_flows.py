"""A bound on the hops of nets by distances: flows over nets between every two blocks, and from the host to blocks.

The tree of a net has at least as many links as lie between any two of its ends, of which the host's tile is one if the
net is the host's. Send a flow y between every two of n blocks and h(b) from the host to each block b, over nets that
share blocks, such that the flows over each net sum to at most a part f of its rate. Then the hops of these parts, f
times the links of each tree, are at least y times the distances of all pairs, and these are at least W in any placement
(``distances.least_distances``), and h(b) times the distance of b from the host's tile. For every r, at least some
number k(r) of blocks are r links or more away from it (``distances.beyond_rings``): that sum is no less than the k(r)
smallest h, added up over r. Both sums are a bound on the hops of the parts.

The rest of the rates pays for tiles (``tile_program``), which lose f times the tiles that a net touches beyond the
first. Where these are known, the flows for which the sum of all is largest are a linear program (``flow_program``). Its
dual asks for lengths of nets, their tiles and more, of the least rates times lengths where shortest ways are as long as
the best placement has them. Those are searched first, each length changed by how much of the rate the ways use, as in
methods of multiplicative weights (Garg, Koenemann 2007, doi:10.1137/S0097539704446232). Then the program is solved for
the ways of the last steps. Its flows give the bound, however good the lengths are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy import sparse

from nirbridge.arrays import Array, weighted_sum
from nirbridge.mapping.bounds.distances import beyond_rings, least_distances
from nirbridge.mapping.bounds.flow_program import Ways, best_flows
from nirbridge.mapping.bounds.tile_nets import TouchingNets
from nirbridge.mapping.bounds.tile_sets import pairs_of_ends

PAIRS_MAX, WORK_MAX, BLOCKS_MAX = 10_000_000, 110_000_000, 1_300
"""Pairs of blocks of all nets, blocks times the different ones of these, and blocks: beyond, no flows are searched."""
TINY = 1e-9
"""Nets whose rate is at most this part of the largest rate carry no flow."""
HOST_MAX = 30_000
"""Blocks times rings of tiles around the host's tile that they need: beyond, no flows go from the host."""
ITERATIONS, KEPT, ENTRIES_MAX = 60, 12, 1_500_000
"""Iterations of a search for lengths (half of them in each of several, and of those only the last third from lengths
that were found before), how many of the last ones give ways to the program, and the most entries that their trees may
have together; two give theirs in any case."""
SCALINGS, CLOSE = 3, 0.02
"""Times that lengths are scaled in an iteration, at most, and how close to the least sum the ways then are."""
SHORT, LONG, AVERAGED = 0.3, 3.0, 0.3
"""Least and most factor of a length in the first iteration, and the share of each in the mean use of nets."""
FIRST, LEAST = 0.3, 1e-9
"""First length beyond the tiles, and the least of any: in links."""
OF_HOST = (0.0, 3.0, 6.0)
"""The ways from the host count as many times as much as those of all pairs, in one search each."""


@dataclass(frozen=True, slots=True, eq=False)
class Lengths:
    """Those of nets beyond their tiles [nets], the mean use of nets by ways that are shortest then, and some ways."""

    more: Array
    use: Array
    ways: list[Ways]


@dataclass(frozen=True, slots=True, eq=False)
class Split:
    """Parts of the rates [nets] that flows take, the bound on the hops of these, and the lengths of each search."""

    parts: Array
    paid: float
    lengths: list[Lengths]


@dataclass(frozen=True, slots=True, eq=False)
class Flows:
    """Flows between all pairs of ``blocks``, or of all but the last, which is the host.

    ``rate`` [nets]: of those that carry flows, ``numbers`` [nets] theirs among all nets, of which there are ``count``.
    ``pair, net``: every two blocks of each net, as a number below ``blocks`` squared, ascending, and the net.
    ``least``: W. ``beyond`` [rings]: k, none without the host.
    """

    rate: Array
    numbers: Array
    count: int
    blocks: int
    pair: Array
    net: Array
    least: float
    beyond: Array

    @classmethod
    def between(cls, nets: TouchingNets, per_tile: int, extent: tuple[int, int]) -> Flows | None:
        """Flows over the largest set of blocks that nets connect, and from the host where its nets reach them.

        None: too much work, or a tile holds the set.
        """
        from scipy.sparse.csgraph import connected_components

        with_host = nets.blocks * len(beyond_rings(nets.blocks, per_tile, extent)) <= HOST_MAX
        carry = (nets.rate > TINY * nets.rate.max(initial=0.0)) & (with_host | ~nets.is_host)
        numbers = np.flatnonzero(carry)
        inner = nets.with_host().some(numbers)
        if len(numbers) == 0 or int((inner.degrees * (inner.degrees - 1) // 2).sum()) > PAIRS_MAX:
            return None
        low, high = (inner.ends[places] for places in pairs_of_ends(inner.ptr))
        graph = sparse.csr_array((np.ones(len(low)), (low, high)), shape=(inner.blocks, inner.blocks))
        part = connected_components(graph, directed=False)[1]
        is_linked = part == np.bincount(part).argmax()
        size, has_host = int(is_linked.sum()), bool(is_linked[-1])
        inside = size - has_host
        if not per_tile < inside <= BLOCKS_MAX or size * graph.nnz > WORK_MAX:
            return None
        number = np.cumsum(is_linked) - 1  # in the largest part
        net = np.flatnonzero(is_linked[inner.ends[inner.ptr[:-1]]])
        own = inner.some(net)
        low, high = (number[own.ends[places]] for places in pairs_of_ends(own.ptr))
        pair, of_net = low * size + high, np.repeat(np.arange(len(net)), own.degrees * (own.degrees - 1) // 2)
        order = np.argsort(pair, kind="stable")
        beyond = beyond_rings(inside, per_tile, extent) if has_host else np.zeros(0, np.int64)
        least = least_distances(inside, per_tile, extent)
        return cls(own.rate, numbers[net], len(nets.rate), size, pair[order], of_net[order], least, beyond)

    @property
    def has_host(self) -> bool:
        """True where flows go from the host."""
        return len(self.beyond) > 0

    def best(self, covered: Array, before: Sequence[Lengths] = ()) -> Split:
        """Flows where tiles give as many links of each net [nets]; ``before``: lengths for other tiles."""
        parts, paid = np.zeros(self.count), 0.0
        own, found, ways = covered[self.numbers], list[Lengths](), list[Ways]()
        searches = OF_HOST if self.has_host else OF_HOST[:1]
        for number, host in enumerate(searches):
            start = before[number] if before else None
            found.append(self._found(own, host * self.least / max(float(self.beyond.sum()), 1.0), start))
            entries = max((some.trees.nnz for some in found[-1].ways), default=1)
            ways += found[-1].ways[-max(ENTRIES_MAX // (len(searches) * entries), 2) :]
        if ways:
            parts[self.numbers], paid = best_flows(ways, self.rate, own, self.least, self.beyond)
        return Split(parts, paid, found)

    def _found(self, covered: Array, host: float, start: Lengths | None) -> Lengths:
        """Ways between all pairs and, ``host`` times as much, from the host; none: tiles are far enough."""
        rate, count = self.rate / self.rate.max(), ITERATIONS // 2 if self.has_host else ITERATIONS
        start = start or Lengths(np.full(len(covered), FIRST), np.zeros(0), [])
        more, mean, found = start.more, start.use, list[Ways]()
        least = self.least + host * float(self.beyond.sum())
        short = least - self._ways(covered).length(host)
        if short <= 0:
            return replace(start, ways=found)
        for iteration in range(2 * count // 3 if len(mean) else 0, count):
            ways = self._ways(covered + more)
            for _ in range(SCALINGS):
                if abs(ways.length(host) / least - 1) < CLOSE:
                    break
                more = more * max(short / max(ways.length(host) - least + short, LEAST), 0.1)
                ways = self._ways(covered + more)
            found = [*found, ways][-KEPT:]
            mean = (1 - AVERAGED) * mean + AVERAGED * ways.use(host) if len(mean) else ways.use(host)
            more = _changed(more, mean, rate, iteration)
        return Lengths(more, mean, found)

    def _ways(self, length: Array) -> Ways:
        """Shortest ways between all pairs, and from the host."""
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
        return Ways.of_trees(way, over, parent, len(length), has_host=self.has_host)

    def _shortest(self, length: Array) -> Array:
        """The place of the shortest net of each pair of blocks that share one."""
        lengths = length[self.net]
        starts = np.flatnonzero(np.diff(self.pair, prepend=-1))
        least = np.repeat(np.minimum.reduceat(lengths, starts), np.diff(starts, append=len(lengths)))
        places = np.flatnonzero(lengths == least)
        return places[np.flatnonzero(np.diff(self.pair[places], prepend=-1))]


def _changed(more: Array, use: Array, rate: Array, iteration: int) -> Array:
    """Longer lengths of the nets that ways use more than others, for their rate; ever less changed."""
    price = use / rate
    usual = weighted_sum(price * more, rate) / weighted_sum(more, rate)
    change = np.clip(price / usual, SHORT, LONG) ** (0.5 / (1 + 0.03 * iteration))
    return np.maximum(more * change, LEAST)
