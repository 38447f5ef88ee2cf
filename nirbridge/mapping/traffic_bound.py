"""A proved lower bound on the multicast hops of a set of blocks, over every placement of them on a mesh.

Facts about one spike of a net with k targets on other cores, in any placement (c cores to a tile):

1. *Tiles.* The source's tile holds at most c - 1 of the targets, every other tile at most c: the tree has a link for
   each other tile, so at least ``ceil((k - (c - 1)) / c)`` (from the host, whose tile holds c: ``ceil((k - c) / c)``).
2. *Companions.* m targets outside the source's tile need at least ``m / min(k, c)`` links: at least 1 where m > 0, and
   at least m / c tiles.
3. *Distance.* The tree is no shorter than the way to its farthest target, so not than the mean over its k targets.

(2) and (3) are sums over pairs of blocks, w(a, b) times what their tiles cost. Each pair is charged to its source, to
its target or half to each (the best of the three is taken), and one block pays least when its heaviest
partners sit nearest: c - 1 on its tile, then as many as the mesh has cores at 1, 2, … links from its most central tile.
Pairs with the host are charged to the host.

4. *Connection.* n blocks that nets connect lie on at least ``ceil(n / c)`` tiles, and nets that reach t tiles each with
   a tree of at least t - 1 links connect no more: so nets of one spike each need ``ceil(n / c) - 1`` links together.
   With rates, the nets of rate x or more for every x from 0 up, added up (an integral over x).
5. *Sets.* A net on t tiles needs t - 1 links, from the host t where none of them is the host's, and tiles part the
   blocks into sets of at most c (``tile_bound``).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from operator import add

import numpy as np

from nirbridge.arrays import Array, weighted_sum
from nirbridge.chips.boards import board_tiles
from nirbridge.chips.model import Chip
from nirbridge.mapping.tile_program import TouchingNets, tiling
from nirbridge.mapping.traffic import Traffic, distinct_pairs, traffic
from nirbridge.partitioner.cost.axons import HOST, AxonTable

SHARES = ((0.5, 0.5), (1.0, 0.0), (0.0, 1.0))
"""Shares in which a pair is charged to its source and its target."""
ROUNDED_DOWN = 1 - 1e-12


def traffic_lower_bound(
    axons: AxonTable,
    blocks: int,
    chip: Chip,
    *,
    chips: int = 1,
    nets: Traffic | None = None,
    quick: bool = False,
) -> float:
    """Lower bound on the multicast hops per time step of any placement of these blocks on ``chips`` chips.

    It bounds ``MapCosts.multicast_hops_per_step`` for the given blocks, not over other partitions; it holds with any
    dead cores or pins. ``nets``: those of the table, where they are known. ``quick``: with a hundredth of the work.
    """
    nets = traffic(axons, blocks) if nets is None else nets
    if len(nets.source) == 0:
        return 0.0
    per_tile = chip.mesh.cores_per_tile
    small = nets.degrees <= per_tile
    on_source_tile = np.where(nets.source == HOST, per_tile, per_tile - 1)
    by_tiles = nets.rate * -(-np.maximum(nets.degrees - on_source_tile, 0) // per_tile)
    pairs = _BlockPairs.of_nets(nets)
    ranks = _ranks(chip, chips, nets.blocks)
    weight = nets.rate / np.minimum(nets.degrees, per_tile)
    far = _Charges.of_nets(nets, pairs, np.where(small, weight, 0.0))
    near = _Charges.of_nets(nets, pairs, np.where(small, 0.0, weight))
    by_group = max(float(by_tiles.sum()), _pair_bound(pairs, far, near, ranks))
    if not small.all():
        small_pay = _pair_bound(pairs, far, near.times(0.0), ranks)
        by_group = max(by_group, small_pay + float(by_tiles[~small].sum()))
    # a bound has to hold in floats too: sums of many rates may be off in the last digits
    others = ROUNDED_DOWN * max(by_group, _connection_bound(nets, per_tile))
    return max(others, tile_bound(nets, per_tile, QUICK if quick else TIGHT))


def _connection_bound(nets: Traffic, per_tile: int) -> float:
    """Fact 4, by joining blocks net by net, the nets of highest rate first."""
    parent = list(range(nets.blocks + 1))  # the last is the host, which takes no core
    size = [1] * nets.blocks + [0]
    links, bound, open_ends = 0, 0.0, len(np.unique(np.append(nets.targets, nets.source))) - 1

    def root(block: int) -> int:
        while parent[block] != block:
            parent[block] = block = parent[parent[block]]
        return block

    order = np.argsort(-nets.rate, kind="stable")
    rates = np.append(nets.rate[order], 0.0)
    for i, g in enumerate(order.tolist()):
        if open_ends == 0:
            return bound + float(rates[i]) * links
        a = root(int(nets.source[g]) % len(parent))
        for target in nets.targets[nets.ptr[g] : nets.ptr[g + 1]].tolist():
            b = root(target)
            if a != b:
                joined = -(-(size[a] + size[b]) // per_tile)
                links += joined - max(-(-size[a] // per_tile), 1) - max(-(-size[b] // per_tile), 1) + 1
                parent[b], size[a], open_ends = a, size[a] + size[b], open_ends - 1
        bound += float(rates[i] - rates[i + 1]) * links
    return bound


@dataclass(frozen=True, slots=True, eq=False)
class _BlockPairs:
    """Pairs of blocks (payer, partner), sorted by payer; ``starts``: where each payer's begin.

    ``of`` lists the entries of the nets whose source is no host; for each of them, ``as_source`` is the pair that its
    source pays and ``as_target`` the one that its target pays.
    """

    of: Array
    as_source: Array
    as_target: Array
    count: int
    starts: Array

    @classmethod
    def of_nets(cls, nets: Traffic) -> _BlockPairs:
        source = nets.source[nets.entry_nets()]
        of = np.flatnonzero(source != HOST)
        a, b, base = source[of], nets.targets[of], nets.blocks
        keys, index = distinct_pairs(np.concatenate((a * base + b, b * base + a)), base)
        starts = np.flatnonzero(np.diff(keys // base, prepend=-1))
        return cls(of, index[: len(of)], index[len(of) :], len(keys), starts)

    def by_payer(self, charge: Array) -> list[Array]:
        """Per paying block, its charge for each of its partners."""
        return np.split(charge, self.starts[1:]) if self.count else []


@dataclass(frozen=True, slots=True, eq=False)
class _Charges:
    """Weights of nets added up over pairs: ``by_source`` [pairs] where the source of a net pays all, ``by_target``.

    ``host`` [blocks]: those of the pairs with the host.
    """

    by_source: Array
    by_target: Array
    host: Array

    @classmethod
    def of_nets(cls, nets: Traffic, pairs: _BlockPairs, weight: Array) -> _Charges:
        """The charges of one weight per net."""
        entries = np.repeat(weight, nets.degrees)
        paired, is_host = entries[pairs.of], np.repeat(nets.source == HOST, nets.degrees)
        by_source, by_target = (np.bincount(at, paired, pairs.count) for at in (pairs.as_source, pairs.as_target))
        return cls(by_source, by_target, np.bincount(nets.targets[is_host], entries[is_host], nets.blocks))

    def times(self, factor: float) -> _Charges:
        """All of them times a factor."""
        return _Charges(factor * self.by_source, factor * self.by_target, factor * self.host)

    def shared(self, shares: tuple[float, float]) -> Array:
        """Charges of the pairs [pairs]."""
        return shares[0] * self.by_source + shares[1] * self.by_target


def _ranks(chip: Chip, chips: int, blocks: int) -> tuple[Array, Array]:
    """Hops to a block's nearest, second nearest … partner at best, and the same for the host."""
    (width, height), per_tile = board_tiles(chip, chips), chip.mesh.cores_per_tile
    middle = _hops_by_rank(width, height, per_tile, ((width - 1) // 2, (height - 1) // 2), blocks)
    return middle[1:], _hops_by_rank(width, height, per_tile, (0, 0), blocks)


def _pair_bound(pairs: _BlockPairs, far: _Charges, near: _Charges, ranks: tuple[Array, Array]) -> float:
    """Facts 3 (of nets in ``far``) and 2 (of those in ``near``) together, the best of all shares."""
    best = 0.0
    for shares in SHARES:
        rows = (pairs.by_payer(charges.shared(shares)) for charges in (far, near))
        # one after the other: from Python 3.12 on `sum` rounds otherwise
        least = (_least(far_row, near_row, ranks[0]) for far_row, near_row in zip(*rows, strict=True))
        pays = reduce(add, least, 0.0)
        best = max(best, pays + _least(far.host, near.host, ranks[1]))
    return best


def _least(far: Array, near: Array, hops: Array) -> float:
    """Least cost of one block's pairs: ``far`` times hops plus ``near`` where hops > 0, ``hops`` ascending by rank.

    The first link and the rest are bounded apart: a sum of least values is never above the least sum.
    """
    both = np.sort(far + near)[::-1]
    at_rank = hops[: len(both)]
    first_link = both[at_rank > 0].sum()
    rest = weighted_sum(np.sort(far)[::-1], np.maximum(at_rank - 1, 0))
    return float(first_link + rest)


def _hops_by_rank(width: int, height: int, per_tile: int, tile: tuple[int, int], ranks: int) -> Array:
    """Links to the nearest, second nearest … core of a full mesh from ``tile`` (its own cores first).

    From the most central tile no tile has more cores within any distance. Beyond the mesh: its diameter.
    """
    reach = min(ranks + 1, width)  # no more columns than that can matter
    x = np.abs(np.arange(max(0, tile[0] - reach), min(width, tile[0] + reach + 1)) - tile[0])
    y = np.abs(np.arange(height) - tile[1])
    near = np.sort((x[:, None] + y[None, :]).ravel())[: ranks // per_tile + 2]
    return np.repeat(near, per_tile)


# -- tile bound ----------------------------------------------------------------------------------------------------
# A lower bound on multicast hops over all placements: by the tiles that nets touch.
#
# ``tile_program`` counts a link for each tile of a net but one, wherever the tiles are. More blocks than the work
# allows are cut into windows, with each net in the window of most of its ends: a net touches no fewer tiles than some
# of its blocks do. Nets that take most work for their rate are left out. Both only lower the bound.


@dataclass(frozen=True, slots=True)
class TileWork:
    """What a bound may look at.

    ``sets``: sets of blocks in each round; ``of_nets``: sets of as many blocks as a tile holds, all of one net, over
    the nets of a window, and pairs of blocks of one net, over all nets.
    """

    sets: int
    of_nets: int


QUICK = TileWork(1_000_000, 4_000_000)
TIGHT = TileWork(110_000_000, 200_000_000)
"""Sets of up to 4 of 227 blocks, of 57 tiles of loihi1."""


def tile_bound(nets: Traffic, per_tile: int, work: TileWork = TIGHT) -> float:
    """The bound; 0 for tiles of one core, since the number of targets says as much."""
    if len(nets.source) == 0 or per_tile < 2:
        return 0.0
    touching = TouchingNets.of_traffic(nets).affordable(2, work.of_nets)
    count, bound = touching.count_windows(per_tile, work.sets), 0.0
    for window in (touching if count == 1 else touching.reordered()).windows(count):
        own = window.affordable(per_tile, work.of_nets)
        if own.blocks > per_tile and len(own.rate):
            bound += tiling(own, per_tile)
    return bound
