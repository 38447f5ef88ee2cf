"""The quick half of the search: annealing of pairwise pulls, many moves of a block weighed at once.

A step takes one block, computes what each of up to ``WIDTH`` moves or swaps of it would change (in closed form) and
draws one of them, or none, with probability ~ exp(-change / temperature) (a heat bath, by Gumbel noise).
"""

from __future__ import annotations

import numpy as np

from nirbridge.arrays import Array, weighted_sum
from nirbridge.mapping.mesh import hops_from_host
from nirbridge.mapping.placement.board import PlacementBoard
from nirbridge.mapping.placement.starts import pull_lengths
from nirbridge.mapping.traffic import PairwisePulls, gather

WIDTH = 128


def step_work(board: PlacementBoard, pull: PairwisePulls) -> int:
    """Work of one step, in the units of the budget (about one array element read)."""
    sites = len(board.sites.cores)
    return 10_000 + 4 * sites + 8 * min(sites, WIDTH) * len(pull.others) // max(len(board.x), 1)


def anneal(
    board: PlacementBoard, pull: PairwisePulls, rng: np.random.Generator, steps: int, heat: float
) -> PlacementBoard:
    """The best position found, by pairwise cost, in ``steps`` steps from ``board``.

    ``heat`` scales the first temperature (1: the mean cost of a block on ``board``), which falls geometrically to a
    thousandth; 0 descends only.
    """
    now, best = board.copy(), board.copy()
    cost, table = block_costs(now, pull), pull.table()
    value = lowest = pairwise_cost(now, pull, cost)
    unit = value / max(len(board.movable), 1)
    if unit <= 0:
        return best
    for t in np.geomspace(heat * unit, 1e-3 * heat * unit, steps) if heat > 0 else np.zeros(steps):
        block = int(board.movable[rng.integers(len(board.movable))])
        sites, change = swap_changes(now, pull, cost, block, rng, table=table)
        choice = draw_change(change, float(t), rng)
        if choice < 0:
            continue
        _apply(now, pull, cost, block, int(sites[choice]))
        value += float(change[choice])
        if value < lowest - 1e-9 * unit:
            lowest, best = value, now.copy()
    return best


def draw_change(change: Array, temperature: float, rng: np.random.Generator) -> int:
    """Which change to make: a heat-bath draw against staying (change 0), or -1 to stay; at 0 the best below 0."""
    if len(change) == 0:
        return -1
    if temperature <= 0:
        best = int(np.argmin(change))
        return best if change[best] < 0 else -1
    noise = rng.gumbel(size=len(change) + 1)
    score = noise[1:] - change / temperature
    best = int(np.argmax(score))
    return best if score[best] > noise[0] else -1


def block_costs(board: PlacementBoard, pull: PairwisePulls) -> Array:
    """Weighted hops of each block to those that pull on it, the host left out: float64 [blocks]."""
    rows = np.repeat(np.arange(len(board.x)), np.diff(pull.ptr))
    length = np.abs(board.x[rows] - board.x[pull.others]) + np.abs(board.y[rows] - board.y[pull.others])
    return np.bincount(rows, pull.weights * length, len(board.x)).astype(np.float64)


def pairwise_cost(board: PlacementBoard, pull: PairwisePulls, cost: Array) -> float:
    """Pairwise cost of a position: every pair once, and the pulls to the host."""
    return float(cost.sum()) / 2 + float(weighted_sum(pull.host, hops_from_host(board.x, board.y)))


def swap_changes(
    board: PlacementBoard,
    pull: PairwisePulls,
    cost: Array,
    block: int,
    rng: np.random.Generator,
    width: int = WIDTH,
    table: Array | None = None,
) -> tuple[Array, Array]:
    """Candidate sites of ``block`` and the change in cost, swapping with a block already there; ``table``: of pulls."""
    length = pull_lengths(board, pull, block)
    sites = board.candidates(block, length, width, rng)
    here = int(board.site[block])
    change = length[sites] - length[here]
    taken = np.flatnonzero(board.block[sites] >= 0)
    partner = board.block[sites[taken]]
    if table is None or len(partner) < 2:  # numpy adds one column in another order than several
        entries, counts = gather(pull.ptr, partner)
        other, weight, row = pull.others[entries], pull.weights[entries], np.repeat(np.arange(len(partner)), counts)
        hops = np.abs(board.x[other] - board.x[block]) + np.abs(board.y[other] - board.y[block])
        back = np.bincount(row, weight * hops, len(partner)) - cost[partner]
        is_pair = other == block
        pair = np.bincount(row[is_pair], weight[is_pair], len(partner))
    else:  # the same sums in the same order, one row of all partners after the other
        hops = np.abs(board.x - board.x[block]) + np.abs(board.y - board.y[block])
        back = np.add.reduce(np.take(table, partner, axis=1) * hops[:, None], axis=0) - cost[partner]
        pair = table[block, partner]
    # both lengths took the other of the pair to stay where it was: they change places, and stay as far apart
    apart = np.abs(board.x[partner] - board.x[block]) + np.abs(board.y[partner] - board.y[block])
    host = pull.host[partner] * (board.sites.host_hops[here] - board.sites.host_hops[sites[taken]])
    change[taken] += back + 2 * pair * apart + host
    return sites, change


def _apply(board: PlacementBoard, pull: PairwisePulls, cost: Array, block: int, site: int) -> None:
    """Make the move and bring ``cost`` up to date."""
    moved = [block] + ([int(board.block[site])] if board.block[site] >= 0 else [])
    for b in moved:
        others, weights = pull.row(b)
        cost[others] -= weights * _lengths(board, b, others)
    board.swap(block, site)
    for b in moved:
        others, weights = pull.row(b)
        cost[others] += weights * _lengths(board, b, others)
    for b in moved:
        others, weights = pull.row(b)
        cost[b] = float(weighted_sum(weights, _lengths(board, b, others)))


def _lengths(board: PlacementBoard, block: int, others: Array) -> Array:
    return np.abs(board.x[others] - board.x[block]) + np.abs(board.y[others] - board.y[block])
