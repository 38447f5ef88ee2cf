"""A lower bound on the links of the host's nets to tiles without a target, by rings of tiles around the host's tile.

A tree from the host has a node in each ring of tiles at equal distance from it, as far as its farthest target. So a net
takes a link for each tile with a target but the host's, and one more for each of these rings that has none of its
targets. A ring has few tiles, so not all blocks are near. Let z(b, r) be 1 where block b is in ring r, and e(g, r)
where ring r > 0 has no target of net g and a target is beyond. Then for each target b of g

    e(g, r) >= 1 - (z(b, 0) + ... + z(b, r - 1)) - sum of z(a, r) over all targets a of g:

either b is nearer, or some target is in the ring, or b is beyond it and none is in the ring. The least sum of e times
rates, with room for so many blocks in each ring, is a linear program. Its dual values give each block a price in each
ring, and the cheapest assignment of blocks to places is the bound, however good these values are.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import sparse

from nirbridge.arrays import Array
from nirbridge.mapping.traffic import Traffic, gather
from nirbridge.partitioner.cost.axons import HOST

ROWS_MAX = 100_000
"""Rows of the program; nets with most targets for their rate are left out beyond."""
MARGIN = 1e-9
"""Of all prices: what rounding may take."""


def empty_rings(nets: Traffic, per_tile: int, extent: tuple[int, int]) -> float:
    """The bound, on links beyond the tiles that have targets: it adds to any bound that counts those alone.

    Args:
        nets: the nets between blocks.
        per_tile: cores of a tile.
        extent: columns and rows of tiles of the mesh, which has the host at its first tile.
    """
    rings = _Rings.of_nets(nets, per_tile, extent)
    if rings.inner == 0 or len(rings.rate) == 0:
        return 0.0
    return rings.bound(rings.prices())


@dataclass(frozen=True, slots=True, eq=False)
class _Rings:
    """Pairs (``net``, ``block``) of the host's nets, numbered anew, and blocks that fit in each ring that may be empty.

    ``places`` counts those of ring 0, 1, ...; all blocks fit in these, and beyond them is as much room as needed.
    """

    net: Array
    block: Array
    rate: Array
    places: Array

    @classmethod
    def of_nets(cls, nets: Traffic, per_tile: int, extent: tuple[int, int]) -> _Rings:
        """Those that take fewest rows for their rate."""
        own, degrees = np.flatnonzero(nets.source == HOST), nets.degrees
        targets = len(np.unique(nets.targets[gather(nets.ptr, own)[0]]))
        room = per_tile * np.bincount(np.add.outer(np.arange(extent[0]), np.arange(extent[1])).ravel())
        places = room[: int(np.searchsorted(np.cumsum(room), targets)) + 1]
        own = own[np.argsort(degrees[own] / nets.rate[own], kind="stable")]
        own = np.sort(own[np.cumsum(degrees[own]) * max(len(places) - 1, 1) <= ROWS_MAX])
        entries, counts = gather(nets.ptr, own)
        block = np.unique(nets.targets[entries], return_inverse=True)[1].reshape(-1)
        return cls(np.repeat(np.arange(len(own)), counts), block, nets.rate[own], places)

    @property
    def blocks(self) -> int:
        """Number of blocks."""
        return int(self.block.max(initial=-1)) + 1

    @property
    def inner(self) -> int:
        """Number of rings that may be empty before a target: all but the host's tile and the room beyond."""
        return len(self.places) - 1

    def prices(self) -> Array:
        """How much of a net's rate each row [pairs, inner rings] has in the best solution: 0 where none is found."""
        from scipy.optimize import linprog

        rings, unit, rows = len(self.places), float(self.rate.max()), len(self.net) * self.inner
        places, of_block = sparse.eye_array(rings), sparse.eye_array(self.blocks)
        room, once = sparse.kron(np.ones((1, self.blocks)), places), sparse.kron(of_block, np.ones((1, rings)))
        where, empty = self._rows()
        result = linprog(
            np.concatenate((np.zeros(self.blocks * rings), np.repeat(self.rate / unit, self.inner))),
            A_ub=sparse.block_array([[-where, -empty], [room, None], [once, None]], format="csr"),
            b_ub=np.concatenate((np.full(rows, -1.0), self.places, np.ones(self.blocks))),
            method="highs-ipm",
        )
        if result.status != 0:
            return np.zeros((len(self.net), self.inner))
        return unit * np.maximum(-result.ineqlin.marginals[:rows], 0.0).reshape(len(self.net), self.inner)

    def _rows(self) -> tuple[sparse.csr_array, sparse.csr_array]:
        """How often z [rows, blocks and rings] and e [rows, nets and inner rings] are in each row."""
        rings, pairs, one = np.arange(len(self.places)), np.arange(len(self.net)), np.ones(len(self.net))
        of_block = sparse.csr_array((one, (pairs, self.block)), shape=(len(pairs), self.blocks))
        of_net = sparse.csr_array((one, (pairs, self.net)), shape=(len(pairs), len(self.rate)))
        targets = of_net @ sparse.csr_array((one, (self.net, self.block)), shape=(len(self.rate), self.blocks))
        nearer, here = (compare(rings, rings[1:, None]).astype(np.float64) for compare in (np.less, np.equal))
        where = sparse.csr_array(sparse.kron(of_block, nearer) + sparse.kron(targets, here))
        return where, sparse.csr_array(sparse.kron(of_net, sparse.eye_array(self.inner)))

    def bound(self, prices: Array) -> float:
        """The bound by some prices [pairs, inner rings], lowered where those of a net are above its rate."""
        from scipy.optimize import linear_sum_assignment

        total = np.zeros((len(self.rate), self.inner))
        np.add.at(total, self.net, prices)
        allowed = np.minimum(1.0, self.rate[:, None] / np.maximum(total, self.rate[:, None]))
        prices, total = prices * allowed[self.net], total * allowed
        # in each ring: what a block saves of the prices of rings beyond, as itself, and of this one, as any target
        saved = np.zeros((self.blocks, len(self.places) + 1))
        beyond = np.cumsum(prices[:, ::-1], axis=1)[:, ::-1]
        np.add.at(saved[:, :-2], self.block, beyond)
        np.add.at(saved[:, 1:-1], self.block, total[self.net])
        room = np.minimum([*self.places, self.blocks], self.blocks)
        gains = np.repeat(saved, room, axis=1)
        most = float(gains[linear_sum_assignment(gains, maximize=True)].sum())
        return max(float(total.sum()) * (1 - MARGIN) - most, 0.0)
