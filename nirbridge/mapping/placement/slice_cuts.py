"""Slices that are alone on their core, cut in two before slices move: a core full of one can exchange nothing."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from nirbridge.arrays import Array
from nirbridge.partitioner.cost.axons import Blocks
from nirbridge.partitioner.cost.resources import limits
from nirbridge.partitioner.cost.sizing import CostModel
from nirbridge.partitioner.model import Slice

WORDS_MORE = 1.1
"""A slice is not cut where its halves take more than this many times its words."""


@dataclass(frozen=True, slots=True, eq=False)
class CutSlices:
    """Slices in the order of their blocks; ``halves``: the first half of each slice that was cut, and that slice."""

    slices: list[Slice]
    block: list[int]
    halves: dict[int, Slice]

    def on_cores(self, site: Array) -> dict[int, list[Slice]]:
        """The slices of each site, in their order here; halves that stayed together are one slice again."""
        found: dict[int, list[Slice]] = {}
        second = {first + 1 for first in self.halves if site[first] == site[first + 1]}
        for k, (piece, own) in enumerate(zip(self.slices, site.tolist(), strict=True)):
            if k not in second:
                whole = self.halves.get(k, piece) if k + 1 in second else piece
                found.setdefault(own, []).append(whole)
        return found


def cut_slices(sizes: CostModel, blocks: Blocks, fixed: Collection[int]) -> CutSlices:
    """The slices of all blocks; those that are alone on a core in halves, but for ``fixed`` blocks."""
    slices, block, halves = list[Slice](), list[int](), dict[int, Slice]()
    for number, own in enumerate(blocks):
        whole, *others = own
        parts = own if others or number in fixed else _halves(sizes, whole)
        if len(parts) > len(own):
            halves[len(slices)] = whole
        slices += parts
        block += [number] * len(parts)
    return CutSlices(slices, block, halves)


def _halves(sizes: CostModel, whole: Slice) -> tuple[Slice, ...]:
    """Two halves of the fewest words, or the slice where these are too many."""
    room = limits(sizes.chip)["synapse_words"]
    if room is None:
        sides = [high - low for low, high in whole.box]
        return _cut(whole, sides.index(max(sides)))
    cuts = [cut for axis in range(len(whole.box)) if len(cut := _cut(whole, axis)) > 1]
    words = [sum(sizes.cost(half.population, half.box).synapse_words for half in cut) for cut in cuts]
    most = min(room, int(WORDS_MORE * sizes.cost(whole.population, whole.box).synapse_words))
    if not cuts or min(words) > most:
        return (whole,)
    return cuts[words.index(min(words))]


def _cut(whole: Slice, axis: int) -> tuple[Slice, ...]:
    """The halves along an axis; the slice where it is one wide."""
    low, high = whole.box[axis]
    before, after = whole.box[:axis], whole.box[axis + 1 :]
    if high - low < 2:
        return (whole,)
    ranges = ((low, (low + high) // 2), ((low + high) // 2, high))
    return tuple(Slice(whole.population, (*before, own, *after)) for own in ranges)
