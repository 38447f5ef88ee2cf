"""A proved lower bound on the multicast hops of a set of blocks, over every placement of them on a mesh.

Facts about one spike of a net with k targets on other cores, in any placement (c cores to a tile):

1. *Tiles.* The source's tile holds at most c - 1 of the targets, every other tile at most c: the tree has a link for
   each other tile, so at least ``ceil((k - (c - 1)) / c)`` (from the host, whose tile holds c: ``ceil((k - c) / c)``).
2. *Companions.* m targets outside the source's tile need at least ``m / min(k, c)`` links: at least 1 where m > 0, and
   at least m / c tiles.
3. *Distance.* The tree is no shorter than the way to its farthest target, so not than the mean over its k targets.

(2) and (3) are sums over pairs of blocks, w(a, b) times what their tiles cost. Each pair is charged to its source, to
its target or half to each (the best of the three is taken), and what one block pays is least when its heaviest
partners sit nearest: c - 1 on its tile, then as many as the mesh has cores at 1, 2, … links from its most central tile.
Pairs with the host are charged to the host.

4. *Connection.* n blocks that nets connect lie on at least ``ceil(n / c)`` tiles, and nets that reach t tiles each with
   a tree of at least t - 1 links connect no more: so nets of one spike each need ``ceil(n / c) - 1`` links together.
   With rates, the nets of rate x or more for every x from 0 up, added up (an integral over x).
"""

from __future__ import annotations

import numpy as np

from nirbridge.arrays import Array
from nirbridge.chips.model import Chip
from nirbridge.mapping.mesh import columns
from nirbridge.mapping.traffic import Traffic, traffic
from nirbridge.partitioner.axons import HOST, AxonTable

SHARES = ((0.5, 0.5), (1.0, 0.0), (0.0, 1.0))
"""How a pair is charged to its source and target."""


def traffic_lower_bound(axons: AxonTable, blocks: int, chip: Chip, *, chips: int = 1) -> float:
    """No placement of these blocks on ``chips`` chips has fewer multicast hops per step (spikes per step times links).

    It bounds ``Costs.multicast_hops_per_step`` for the given blocks, not over other partitions; it holds with any
    dead cores or pins. It is usually well below the best placement: it weighs each block on its own.
    """
    nets = traffic(axons, blocks)
    if len(nets.source) == 0:
        return 0.0
    per_tile = chip.mesh.cores_per_tile
    small = nets.degrees <= per_tile
    by_tiles = nets.rate * _tiles_needed(nets, per_tile)
    nothing = np.zeros(len(small), bool)
    all_pay = max(_pair_bound(nets, chip, chips, small, ~small, shares) for shares in SHARES)
    small_pay = max(_pair_bound(nets, chip, chips, small, nothing, shares) for shares in SHARES)
    by_group = max(float(by_tiles.sum()), all_pay, small_pay + float(by_tiles[~small].sum()))
    return max(by_group, _connection_bound(nets, per_tile))


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
        for target in nets.targets[nets.ptr[g] : nets.ptr[g + 1]].tolist():
            a, b = root(int(nets.source[g]) % len(parent)), root(target)
            if a != b:
                joined = -(-(size[a] + size[b]) // per_tile)
                links += joined - max(-(-size[a] // per_tile), 1) - max(-(-size[b] // per_tile), 1) + 1
                parent[b], size[a], open_ends = a, size[a] + size[b], open_ends - 1
        bound += float(rates[i] - rates[i + 1]) * links
    return bound


def _tiles_needed(nets: Traffic, per_tile: int) -> Array:
    at_home = np.where(nets.source == HOST, per_tile, per_tile - 1)
    return -(-np.maximum(nets.degrees - at_home, 0) // per_tile)


def _pair_bound(
    nets: Traffic, chip: Chip, chips: int, by_distance: Array, by_tile: Array, shares: tuple[float, float]
) -> float:
    """Facts 3 (nets ``by_distance``) and 2 (nets ``by_tile``) together, a pair charged to its ends by shares."""
    width, height, per_tile = columns(chip, chips), chip.mesh.height_tiles, chip.mesh.cores_per_tile
    middle = _hops_by_rank(width, height, per_tile, ((width - 1) // 2, (height - 1) // 2), nets.blocks)[1:]
    corner = _hops_by_rank(width, height, per_tile, (0, 0), nets.blocks)
    net, degrees = nets.entry_nets(), nets.degrees
    weight = nets.rate[net] / np.minimum(degrees[net], per_tile)
    far, near = weight * by_distance[net], weight * by_tile[net]
    source, is_host = nets.source[net], nets.source[net] == HOST
    pairs = source[~is_host], nets.targets[~is_host]
    rows = (_charged(*pairs, w[~is_host], shares) for w in (far, near))
    pays = sum(_least(far_row, near_row, middle) for far_row, near_row in zip(*rows, strict=True))
    host = [np.bincount(nets.targets[is_host], w[is_host], nets.blocks) for w in (far, near)]
    return pays + _least(host[0], host[1], corner)


def _charged(source: Array, target: Array, weight: Array, shares: tuple[float, float]) -> list[Array]:
    """Per block, what it is charged for each of its partners: in the same order whatever the weights."""
    base = int(max(source.max(initial=0), target.max(initial=0))) + 1
    keys, index = np.unique(np.concatenate((source * base + target, target * base + source)), return_inverse=True)
    charge = np.concatenate((shares[0] * weight, shares[1] * weight))
    total = np.bincount(index.reshape(-1), charge, len(keys))
    first = np.flatnonzero(np.diff(keys // base, prepend=-1))
    last = np.append(first[1:], len(keys))[: len(first)]
    return [total[s:e] for s, e in zip(first, last, strict=True)]


def _least(far: Array, near: Array, hops: Array) -> float:
    """Least cost of one block's pairs: ``far`` times hops plus ``near`` where hops > 0, ``hops`` ascending by rank.

    The first link and the rest are bounded apart: a sum of least values is never above the least sum.
    """
    both = np.sort(far + near)[::-1]
    at_rank = hops[: len(both)]
    first_link = both[at_rank > 0].sum()
    rest = np.sort(far)[::-1] @ np.maximum(at_rank - 1, 0)
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
