"""Few cores where input axons are scarce: rectangles of any sizes, packed, and rests filled neuron by neuron.

The sources of a window overlap those of its neighbours, so few sources per neuron need boxes as square as the limits
allow, and larger ones at padded borders: where a core holds the sources of 4 neighbouring positions of a 3 x 3
convolution, it holds those of 6 at an edge and of 9 at a corner. Grids of equal boxes and stretches of rows miss these.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from nirbridge.arrays import Array
from nirbridge.partitioner.cost.axons import Blocks
from nirbridge.partitioner.cost.sizing import CostModel
from nirbridge.partitioner.cost.usage import resource_use
from nirbridge.partitioner.model import Slice
from nirbridge.partitioner.search.packing import PackingItems, first_fit, in_core_order, packing_orders
from nirbridge.partitioner.search.rectangles.prices import Cutter, is_spatial, prices_of
from nirbridge.partitioner.search.rectangles.rests import Filling, rests_of
from nirbridge.partitioner.search.rectangles.rooms import in_rooms
from nirbridge.partitioner.search.slicing import UNLIMITED, NoTiling, Tilings, tile_all, vector

AXONS_FULLEST = 0.25
"""Share of the cores in which input axons have to be the fullest resource for this search to be tried."""
WORK_MAX = 6_000_000
"""Work (``Cutter.work``) after which no other price is tried."""


def axons_bind(sizes: CostModel, cap: Array, blocks: Blocks | None) -> bool:
    """True if input axons are the fullest resource of many of the cores so far, and windows may share them."""
    if cap[1] >= UNLIMITED or not any(is_spatial(sizes, name) for name in sizes.shapes):
        return False
    if blocks is None:
        return True
    names = ("neurons", "input_axons", "synapse_words")
    use = np.array([[used[name] for name in names] for used in resource_use(sizes, blocks)])
    return float(((use / cap[:3]).argmax(axis=1) == 1).mean()) >= AXONS_FULLEST


def tiled(sizes: CostModel, cap: Array, groups: Mapping[str, int], enough: int) -> Blocks | None:
    """The best packing over several prices of rectangles; stops at ``enough`` cores. None: no tiling is legal."""
    rests, cutter = rests_of(sizes), Cutter()
    best: Blocks | None = None
    tried: list[Tilings] = []
    slots: Mapping[str, Array] = {}
    for price in prices_of(sizes, cap, rests):
        cutter.price = price
        try:
            tilings, slots = tile_all(sizes, cap, cutter.cut)
        except NoTiling:
            continue
        tried.append(tilings)
        best = _fewer(best, _packed(sizes, cap, tilings, slots, groups, rests))
        if best is not None and (len(best) <= enough or cutter.work > WORK_MAX):
            return best
    if tried:
        contents = in_rooms(sizes, cap, tried, slots, groups, rests, cutter)
        best = _fewer(best, None if contents is None else _in_order(sizes, contents))
    return best


def _fewer(best: Blocks | None, other: Blocks | None) -> Blocks | None:
    """The blocks of fewer cores, the first of equals."""
    return other if best is None or (other is not None and len(other) < len(best)) else best


def _in_order(sizes: CostModel, contents: list[list[Slice]]) -> Blocks:
    return tuple(in_core_order(core, tuple(sizes.shapes)) for core in contents)


def _packed(
    sizes: CostModel,
    cap: Array,
    tilings: Tilings,
    slots: Mapping[str, Array],
    groups: Mapping[str, int],
    rests: Mapping[str, int],
) -> Blocks | None:
    """The boxes of other populations first-fit, then the rests; None: a neuron of these fits no core."""
    slices = tuple(Slice(name, box) for name, boxes in tilings.items() if name not in rests for box in boxes)
    vectors = [vector(sizes, s.population, s.box, slots[s.population]) for s in slices]
    table = np.array(vectors, np.int64).reshape(-1, len(cap))
    pieces = PackingItems(slices, table, tuple(groups.get(s.population, 0) for s in slices))
    best: list[list[Slice]] | None = None
    for order in packing_orders(pieces, cap):
        filling = Filling(sizes, cap, slots, groups)
        for core in first_fit(pieces, cap, order):
            filling.open([slices[i] for i in core], table[core].sum(axis=0))
        if filling.fill(rests) and (best is None or len(filling.contents) < len(best)):
            best = filling.contents
    return None if best is None else _in_order(sizes, best)
