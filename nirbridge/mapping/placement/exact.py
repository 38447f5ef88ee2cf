"""The exact cost of a placement: multicast hops per step and the load of the busiest link, in spikes per step."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from nirbridge.arrays import Array, weighted_sum
from nirbridge.mapping.mesh import HOST_TILE
from nirbridge.mapping.placement.board import PlacementBoard
from nirbridge.mapping.route import MulticastTrees, link_loads, multicast_trees, tree_hops
from nirbridge.mapping.traffic import Traffic, gather
from nirbridge.partitioner.cost.axons import HOST

LINK_WEIGHT = 1.0
"""Weight of the busiest link: its spikes count twice, once as hops and once more."""


@dataclass(frozen=True, slots=True, eq=False)
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
