"""A lower bound on multicast hops over all placements: by the tiles that nets touch.

``tile_program`` counts a link for each tile of a net but one, wherever the tiles are. More blocks than the work allows
are cut into windows, with each net in the window of most of its ends: a net touches no fewer tiles than some of its
blocks do. Nets that take most work for their rate are left out. Both only lower the bound.
"""

from __future__ import annotations

from dataclasses import dataclass

from nirbridge.mapping.bounds.tile_nets import TouchingNets
from nirbridge.mapping.bounds.tile_program import tiling
from nirbridge.mapping.traffic import Traffic


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
