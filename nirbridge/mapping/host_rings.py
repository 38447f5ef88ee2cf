"""A lower bound on the links of the host's nets, by rings of tiles around the host's tile.

A tree from the host has a node in each ring of tiles at equal distance from it, as far as its farthest target. So it
has at least as many links as there are links to that target, and at least one for each tile with a target but the
host's and one more for each of these rings that has none. A ring has few tiles, so not all blocks are near. Let z(b, r)
be 1 where block b is in ring r or nearer, f(g, r) where net g has a target in ring r > 0 or beyond, and e(g, r) where
it has one beyond, but none in the ring. Then for each target b of g

    f(g, r) >= 1 - z(b, r - 1)  and  e(g, r) >= 1 - z(b, r - 1) - sum of z(a, r) - z(a, r - 1) over all targets a of g.

A part of the rate of g pays for the sum of f, the rest for the sum of e, and for the tiles with targets in another
bound. Where it is known how many tiles that bound counts, the best parts are a linear program: the least rates times
the larger of the sum of e and the sum of f less these tiles, with room for a few blocks in each ring. Its dual values
give each block a price in each ring, and the cheapest assignment of blocks to places is the bound, however good these
values are.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import sparse

from nirbridge.arrays import Array
from nirbridge.mapping.tile_nets import TouchingNets

ROWS_MAX = 60_000
"""Rows of the program for e, and as many for f; nets with most targets for their rate are left out beyond."""
SURE = 1.25
"""Factor on the tiles that another bound counts: the way to a net's farthest target pays only where it is longer."""
MARGIN = 1e-9
"""Part of all prices that rounding may take."""


@dataclass(frozen=True, slots=True, eq=False)
class Rings:
    """Targets of the host's nets, and how many blocks fit in each ring.

    ``numbers`` [nets]: those of the nets among all, of which there are ``count``; ``net, block`` [pairs]: targets,
    numbered anew; ``rate`` [nets]; ``places`` [rings]: all blocks fit in these rings, and more beyond.
    """

    numbers: Array
    count: int
    net: Array
    block: Array
    rate: Array
    places: Array

    @classmethod
    def around(cls, nets: TouchingNets, per_tile: int, extent: tuple[int, int]) -> Rings | None:
        """The rings of a mesh of these columns and rows of tiles.

        None: all targets fit on the host's tile, or no net is within ``ROWS_MAX``.
        """
        own, degrees = np.flatnonzero(nets.is_host), nets.degrees
        room = per_tile * np.bincount(np.add.outer(np.arange(extent[0]), np.arange(extent[1])).ravel())
        targets = len(np.unique(nets.some(own).ends))
        places = room[: int(np.searchsorted(np.cumsum(room), targets)) + 1]
        own = own[np.argsort(-nets.rate[own] / degrees[own], kind="stable")]
        own = np.sort(own[np.cumsum(degrees[own]) * (len(places) - 1) <= ROWS_MAX])
        if len(places) == 1 or len(own) == 0:
            return None
        some = nets.some(own)
        block = np.unique(some.ends, return_inverse=True)[1].reshape(-1)
        return cls(own, len(nets.rate), some.entry_nets(), block, some.rate, places)

    @property
    def blocks(self) -> int:
        """Number of blocks."""
        return int(self.block.max()) + 1

    @property
    def outer(self) -> int:
        """Number of rings but the first, which is the host's tile."""
        return len(self.places) - 1

    def best(self, covered: Array | None) -> tuple[Array, float]:
        """(parts of the rates [nets], the bound), where another bound counts ``covered`` tiles of each net [nets].

        The bound is on the links of these parts, and on those of the rest of the rates beyond the tiles with targets.
        ``covered`` None: all parts are 0.
        """
        parts = np.zeros(self.count)
        far, empty = self._prices(None if covered is None else covered[self.numbers])
        taken = np.minimum(self._by_net(far).max(axis=1), self.rate)
        far, empty = self._within(far, taken), self._within(empty, self.rate - taken)
        parts[self.numbers] = taken
        return parts, self.bound(far, empty)

    def _prices(self, covered: Array | None) -> tuple[Array, Array]:
        """How much of a net's rate each row [pairs, outer rings] of f and of e has in the best solution."""
        from scipy.optimize import linprog

        rows, unit, z = len(self.net) * self.outer, float(self.rate.max()), self.blocks * len(self.places)
        table, limits = self._program(covered)
        limit, others = np.concatenate(limits), (2 if covered is None else 3) * len(self.rate) * self.outer
        goal = np.concatenate((np.zeros(z + others), self.rate / unit))
        most = np.concatenate((np.ones(z), np.full(len(goal) - z, np.inf)))
        bounds = np.stack((np.zeros(len(goal)), most), axis=1)
        matrix = sparse.csr_array(sparse.block_array(table))
        result = linprog(goal, A_ub=matrix, b_ub=limit, bounds=bounds, method="highs-ipm")
        prices = -result.ineqlin.marginals if result.status == 0 else np.zeros(len(limit))
        prices = unit * np.maximum(prices[: rows if covered is None else 2 * rows], 0.0)
        empty, *far = prices.reshape(-1, len(self.net), self.outer)
        return far[0] if far else np.zeros_like(empty), empty

    def _program(self, covered: Array | None) -> tuple[list[list[sparse.csr_array | None]], list[Array]]:
        """Blocks of rows and their upper limits.

        Columns are z [blocks, rings], targets in a ring [nets, outer rings], e and f alike, and the larger of both sums
        [nets]; without ``covered`` there is no f.
        """
        rows, rings = len(self.net) * self.outer, len(self.places)
        nets, blocks, outer = (sparse.eye_array(size) for size in (len(self.rate), self.blocks, self.outer))
        step = sparse.csr_array(sparse.eye_array(rings) - sparse.eye_array(rings, k=-1))
        one, pairs = np.ones(len(self.net)), np.arange(len(self.net))
        of_block = sparse.csr_array((one, (pairs, self.block)), shape=(len(pairs), self.blocks))
        of_net = sparse.kron(sparse.csr_array((one, (pairs, self.net)), shape=(len(pairs), len(self.rate))), outer)
        targets = sparse.csr_array((one, (self.net, self.block)), shape=(len(self.rate), self.blocks))
        nearer = sparse.kron(of_block, sparse.eye_array(self.outer, rings))
        total = sparse.kron(nets, np.ones((1, self.outer)))
        is_far = covered is not None
        none = np.zeros(len(self.rate) * self.outer)
        table = [
            ([-nearer, -of_net, -of_net, None, None], np.full(rows, -1.0)),
            ([-nearer, None, None, -of_net, None], np.full(rows, -1.0) if is_far else None),
            ([-sparse.kron(targets, step[1:]), sparse.kron(nets, outer), None, None, None], none),
            ([None, None, total, None, -nets], np.zeros(len(self.rate))),
            ([None, None, None, total, -nets], SURE * covered if is_far else None),
            ([sparse.kron(np.ones((1, self.blocks)), step), None, None, None, None], self.places),
            ([-sparse.kron(blocks, step), None, None, None, None], np.zeros(self.blocks * rings)),
        ]
        kept = [(row if is_far else [*row[:3], row[4]], limit) for row, limit in table if limit is not None]
        return [row for row, _ in kept], [limit for _, limit in kept]

    def _by_net(self, prices: Array) -> Array:
        """Prices of all targets of each net [nets, outer rings]."""
        total = np.zeros((len(self.rate), self.outer))
        np.add.at(total, self.net, prices)
        return total

    def _within(self, prices: Array, most: Array) -> Array:
        """Prices lowered so that those of each net and ring are at most ``most`` [nets] together."""
        total = self._by_net(prices)
        return prices * np.divide(most[:, None], total, out=np.ones_like(total), where=total > most[:, None])[self.net]

    def bound(self, far: Array, empty: Array) -> float:
        """The bound by some prices [pairs, outer rings] of the rows of f and of e, which are within the rates."""
        from scipy.optimize import linear_sum_assignment

        # in each ring: the prices that a block saves: of rings beyond, as itself, and of this one, as any target
        saved = np.zeros((self.blocks, len(self.places) + 1))
        beyond = np.cumsum((far + empty)[:, ::-1], axis=1)[:, ::-1]
        np.add.at(saved[:, :-2], self.block, beyond)
        np.add.at(saved[:, 1:-1], self.block, self._by_net(empty)[self.net])
        room = np.minimum([*self.places, self.blocks], self.blocks)
        gains = np.repeat(saved, room, axis=1)
        most = float(gains[linear_sum_assignment(gains, maximize=True)].sum())
        return max(float((far + empty).sum()) * (1 - MARGIN) - most, 0.0)
