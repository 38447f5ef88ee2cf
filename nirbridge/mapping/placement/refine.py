"""The exact half of the search: moves and swaps weighed by the multicast trees they change.

The objective is ``multicast hops per step + LINK_WEIGHT * load of the busiest link`` (both in spikes per step).
A step proposes the sites that pairwise pulls like best and some at random, recomputes the trees of every net that the
moved blocks touch (all proposals in one go), and takes one by a heat bath; the link term decides on that one.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from nirbridge.arrays import Array, weighted_sum
from nirbridge.mapping.mesh import HOST_TILE
from nirbridge.mapping.placement.anneal import draw_change
from nirbridge.mapping.placement.board import PlacementBoard
from nirbridge.mapping.placement.starts import pull_lengths
from nirbridge.mapping.route import MulticastTrees, link_loads, multicast_trees, tree_hops
from nirbridge.mapping.traffic import PairwisePulls, Traffic, gather
from nirbridge.partitioner.cost.axons import HOST

LINK_WEIGHT = 1.0
"""Weight of the busiest link: its spikes count twice, once as hops and once more."""
WIDTH = 16
STEP_WORK = 8000
"""Work of a search step that evaluates nothing, in entries."""


@dataclass(slots=True, eq=False)
class ExactCost:
    """A position with its exact cost: ``hops`` per net, ``loads`` per link (see ``link_loads``)."""

    board: PlacementBoard
    nets: Traffic
    hops: Array
    loads: Array

    @property
    def value(self) -> float:
        """The objective."""
        return float(weighted_sum(self.nets.rate, self.hops)) + LINK_WEIGHT * float(self.loads.max(initial=0.0))


def exact_cost(board: PlacementBoard, nets: Traffic) -> ExactCost:
    """The exact cost of a position, computed anew."""
    paths = net_trees(board, nets, np.arange(len(nets.source)))
    return ExactCost(board, nets, tree_hops(paths), link_loads(paths, nets.rate, *board.extent))


def net_trees(board: PlacementBoard, nets: Traffic, which: Array) -> MulticastTrees:
    """Trees of the nets ``which`` as the board stands."""
    entries, counts = gather(nets.ptr, which)
    source, targets = nets.source[which], nets.targets[entries]
    group = np.repeat(np.arange(len(which), dtype=np.int64), counts)
    x, y = _source_tiles(board, source)
    return multicast_trees(x, y, group, board.x[targets], board.y[targets])


def _source_tiles(board: PlacementBoard, source: Array) -> tuple[Array, Array]:
    if len(board.x) == 0:
        return source.copy(), source.copy()
    is_host = source == HOST
    return np.where(is_host, HOST_TILE[0], board.x[source]), np.where(is_host, HOST_TILE[1], board.y[source])


@dataclass(frozen=True, slots=True, eq=False)
class MoveProposals:
    """Nets that each proposal changes (``of`` names the proposal of each ``net``), and their hops afterwards."""

    change: Array
    of: Array
    net: Array
    hops: Array
    work: int


def propose_moves(state: ExactCost, block: int, sites: Array) -> MoveProposals:
    """Change in hops of moving ``block`` to each of ``sites``; a block there takes its place."""
    board, nets = state.board, state.nets
    partner = board.block[sites]
    of, net = _touched(nets, block, partner)
    entries, counts = gather(nets.ptr, net)
    group = np.repeat(np.arange(len(net), dtype=np.int64), counts)
    targets, of_entry = nets.targets[entries], of[group]
    source = nets.source[net]
    move = (block, partner, board.sites.x[sites], int(board.x[block]))
    x, y = _source_tiles(board, source)
    x = _moved(x, source, of, move)
    target_x = _moved(board.x[targets], targets, of_entry, move)
    move = (block, partner, board.sites.y[sites], int(board.y[block]))
    y = _moved(y, source, of, move)
    target_y = _moved(board.y[targets], targets, of_entry, move)
    after = tree_hops(multicast_trees(x, y, group, target_x, target_y))
    change = np.bincount(of, nets.rate[net] * (after - state.hops[net]), len(sites))
    return MoveProposals(change, of, net, after, len(entries))


def _touched(nets: Traffic, block: int, partner: Array) -> tuple[Array, Array]:
    """Pairs (proposal, net) of every net with ``block`` or the proposal's partner, each once."""
    block_nets = nets.nets[nets.net_ptr[block] : nets.net_ptr[block + 1]]
    has_block = np.zeros(len(nets.source), bool)
    has_block[block_nets] = True
    swaps = np.flatnonzero(partner >= 0)
    entries, counts = gather(nets.net_ptr, partner[swaps])
    of, net = np.repeat(swaps, counts), nets.nets[entries]
    fresh = ~has_block[net]
    all_of = np.concatenate((np.repeat(np.arange(len(partner)), len(block_nets)), of[fresh]))
    return all_of, np.concatenate((np.tile(block_nets, len(partner)), net[fresh]))


def _moved(coordinate: Array, blocks: Array, of: Array, move: tuple[int, Array, Array, int]) -> Array:
    """Coordinate of each of ``blocks`` under its proposal: the block at the site, the partner where it was."""
    block, partner, site, here = move
    coordinate = np.where(blocks == block, site[of], coordinate)
    return np.where((blocks == partner[of]) & (blocks >= 0), here, coordinate)


def refine(
    state: ExactCost, pull: PairwisePulls, rng: np.random.Generator, budget: int, *, heat: float, width: int = WIDTH
) -> ExactCost:
    """The best position found from ``state`` within ``budget`` entries of trees (``state`` is unchanged).

    ``width`` proposals per search step; ``heat`` scales the first temperature (1: the mean cost of a block), which
    falls to 0 at two thirds of the budget.
    """
    state = ExactCost(state.board.copy(), state.nets, state.hops.copy(), state.loads)
    best, lowest, spent = state.board.copy(), state.value, 0
    unit, value = lowest / max(len(state.board.movable), 1), lowest
    order, turn = rng.permutation(state.board.movable), 0
    while spent < budget and len(order):
        t = heat * unit * max(0.0, 1.0 - 1.5 * spent / budget) ** 2
        block, turn = int(order[turn]), turn + 1
        if turn == len(order):
            order, turn = rng.permutation(order), 0
        sites = state.board.candidates(block, pull_lengths(state.board, pull, block), width, rng)
        step = propose_moves(state, block, sites)
        spent += STEP_WORK + step.work
        chosen = draw_change(step.change - _link_hope(state), t, rng)
        if chosen < 0:
            continue
        paid = max(float(step.change[chosen]), 0.0) + t * rng.exponential() if t > 0 else 0.0
        value = _take(state, step, block, int(sites[chosen]), chosen, paid, value)
        if value < lowest - 1e-9 * unit:
            best, lowest = state.board.copy(), value
    return exact_cost(best, state.nets)


def _link_hope(state: ExactCost) -> float:
    """Largest possible fall of the link term: a move that costs more hops than this never pays."""
    return 0.0 if len(state.loads) == 0 else 0.05 * LINK_WEIGHT * float(state.loads.max(initial=0.0))


def _take(
    state: ExactCost, step: MoveProposals, block: int, site: int, chosen: int, slack: float, value: float
) -> float:
    """Make the chosen proposal if the whole objective rises by no more than ``slack``; the objective afterwards."""
    changed = step.of == chosen
    net, board = step.net[changed], state.board
    here, rate, extent = int(board.site[block]), state.nets.rate[net], board.extent
    before = link_loads(net_trees(board, state.nets, net), rate, *extent)
    board.swap(block, site)
    after = link_loads(net_trees(board, state.nets, net), rate, *extent)
    loads = state.loads - before + after
    rise = float(loads.max(initial=0.0)) - float(state.loads.max(initial=0.0))
    change = float(step.change[chosen]) + LINK_WEIGHT * rise
    if change > slack or (change >= 0 and slack == 0):
        board.swap(block, here)
        return value
    state.loads = loads
    state.hops[net] = step.hops[changed]
    return value + change
