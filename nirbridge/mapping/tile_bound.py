"""A lower bound on multicast hops from the ways to put blocks on tiles: a linear program over sets of blocks.

A net that touches t tiles takes a tree of at least t - 1 links, so a placement takes at least the rates of the nets
that touch each tile, added up over the tiles, less the rate of every net once. Tiles part the blocks into sets of at
most c. With a price per block such that no set costs more in prices than the rates of the nets that touch it, the
prices of all blocks bound that sum: the dual of a set partitioning. Sets without common nets follow from their parts,
so only sets that nets connect are looked at, all of them; the prices are scaled down until each set holds, so the bound
does not rest on the solver.
"""

from __future__ import annotations

import numpy as np
from scipy import sparse

from nirbridge.arrays import Array
from nirbridge.mapping.traffic import Traffic
from nirbridge.partitioner.cost.axons import HOST

SETS_MAX = 60_000
"""Sets of blocks that are looked at; above, there is no bound of this kind."""
WORK_MAX = 4_000_000
"""Pairs of blocks in the same nets, and sets with one block more, that are listed."""
ROWS_FIRST = 400
ROWS_MORE = 400
ROUNDS_MAX = 40
"""Sets whose rows the linear program has at first, and more in each round: those that its prices break most."""
TOLERANCE = 1e-7
ROUNDED_DOWN = 1 - 1e-12


def tile_bound(nets: Traffic, per_tile: int) -> float:
    """The bound; 0 where a tile holds one block, or there are too many sets."""
    if per_tile < 2 or len(nets.source) == 0:
        return 0.0
    if float((nets.degrees + 1.0) @ (nets.degrees + 1.0)) > WORK_MAX:
        return 0.0
    touches = _touches(nets)
    inside = _connected_sets(touches, nets.blocks, per_tile)
    if inside is None:
        return 0.0
    touched = sparse.csr_array(inside @ touches)
    cost = sparse.csr_array((np.ones(len(touched.data)), touched.indices, touched.indptr), touched.shape) @ nets.rate
    prices = _prices(inside, cost, nets.blocks)
    paid = inside @ prices
    holds = np.min(np.where(paid > 0, cost / np.maximum(paid, 1e-300), 1.0), initial=1.0)
    return float(ROUNDED_DOWN * holds * prices.sum() - nets.rate.sum() / ROUNDED_DOWN)


def _touches(nets: Traffic) -> sparse.csr_array:
    """[blocks, nets]: a one where a block is the source or a target of a net."""
    net = nets.entry_nets()
    on_chip = np.flatnonzero(nets.source != HOST)
    rows, columns = np.concatenate((nets.targets, nets.source[on_chip])), np.concatenate((net, on_chip))
    ones = np.ones(len(rows), np.int64)
    return sparse.csr_array((ones, (rows, columns)), shape=(nets.blocks, len(nets.source)))


def _connected_sets(touches: sparse.csr_array, blocks: int, most: int) -> sparse.csr_array | None:
    """[sets, blocks]: ones for the blocks of each set of up to ``most`` that nets connect; None: there are too many."""
    near = sparse.csr_array(touches @ touches.T)
    near.setdiag(0)
    near.eliminate_zeros()
    partners = np.diff(near.indptr)
    sets = np.arange(blocks, dtype=np.int64)[:, None]
    rows, count = [_indicator(sets, blocks)], blocks
    for _ in range(most - 1):
        if partners[sets].sum() > WORK_MAX:
            return None
        reached = sparse.coo_array(rows[-1] @ near)
        grown = np.concatenate((sets[reached.row], reached.col[:, None]), axis=1)
        grown = grown[(sets[reached.row] != reached.col[:, None]).all(axis=1)]
        sets = np.unique(np.sort(grown, axis=1), axis=0)
        count += len(sets)
        if count > SETS_MAX:
            return None
        rows.append(_indicator(sets, blocks))
    return sparse.csr_array(sparse.vstack(rows))


def _indicator(sets: Array, blocks: int) -> sparse.csr_array:
    count, size = sets.shape
    pointers = np.arange(count + 1, dtype=np.int64) * size
    return sparse.csr_array((np.ones(count * size), sets.ravel(), pointers), shape=(count, blocks))


def _prices(inside: sparse.csr_array, cost: Array, blocks: int) -> Array:
    """Prices of blocks, at least 0, whose sum is (nearly) the largest: rows are added while sets are broken."""
    from scipy.optimize import linprog

    size = np.diff(inside.indptr)
    used = np.zeros(len(cost), bool)
    used[:blocks] = True
    used[np.argsort(cost / size, kind="stable")[:ROWS_FIRST]] = True
    prices = np.zeros(blocks)
    for _ in range(ROUNDS_MAX):
        chosen = np.flatnonzero(used)
        result = linprog(-np.ones(blocks), A_ub=inside[chosen], b_ub=cost[chosen], method="highs")
        if result.status != 0:
            return prices
        prices = np.maximum(result.x, 0.0)
        excess = inside @ prices - cost
        broken = np.flatnonzero(excess > TOLERANCE * max(float(cost.max()), 1e-300))
        if len(broken) == 0:
            break
        used[broken[np.argsort(-excess[broken], kind="stable")[:ROWS_MORE]]] = True
    return prices
