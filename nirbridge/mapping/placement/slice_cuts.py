"""Slices cut in parts before they move: a core full of one slice can exchange nothing, and of two only all of either.

The largest slices are cut in two, and their halves again, until there are as many as the search moves well. Neurons of
one channel have the more sources and targets in common the nearer they are, so slices are cut across the longest side
that adds few words, and across channels only where there is no other.
"""

from __future__ import annotations

import heapq
from collections.abc import Collection, Iterator
from dataclasses import dataclass

from nirbridge.arrays import Array
from nirbridge.partitioner.cost.axons import Blocks
from nirbridge.partitioner.cost.resources import limits
from nirbridge.partitioner.cost.sizing import CostModel, box_size
from nirbridge.partitioner.model import Slice

PARTS_OF_BLOCK = 6
"""Parts for each block on average, up to which slices are cut: hops are least at 5 to 8, and 8 take twice the time."""
WORDS_MORE = 1.1
"""A slice is not cut where its halves take more than this many times its words; nor is a half of it."""


@dataclass(frozen=True, slots=True, eq=False)
class Piece:
    """A slice of a block, whole or cut in two ``halves``."""

    whole: Slice
    halves: tuple[Piece, ...] = ()

    def leaves(self) -> Iterator[Slice]:
        """The parts that are not cut, in order."""
        if not self.halves:
            yield self.whole
        for half in self.halves:
            yield from half.leaves()

    def on_cores(self, sites: Iterator[int]) -> Iterator[tuple[int, Slice]]:
        """Slices with their sites, given those of the leaves; halves that stayed together are one slice again."""
        if not self.halves:
            yield next(sites), self.whole
            return
        found = [own for half in self.halves for own in half.on_cores(sites)]
        is_together = len(found) == len(self.halves) and len({site for site, _ in found}) == 1  # both halves are whole
        yield from [(found[0][0], self.whole)] if is_together else found


@dataclass(frozen=True, slots=True, eq=False)
class CutSlices:
    """The ``pieces`` of all blocks; ``slices``: their parts in order, ``block``: those of the parts."""

    pieces: list[Piece]
    slices: list[Slice]
    block: list[int]

    def on_cores(self, site: Array) -> dict[int, list[Slice]]:
        """The slices of each site, in their order here; those cut in parts that stayed together are whole again."""
        found, sites = dict[int, list[Slice]](), iter(site.tolist())
        for piece in self.pieces:
            for own, part in piece.on_cores(sites):
                found.setdefault(own, []).append(part)
        return found


def cut_slices(sizes: CostModel, blocks: Blocks, fixed: Collection[int], most: int) -> CutSlices:
    """The slices of all blocks; those that are alone on a core, and the largest, cut, but for ``fixed`` blocks.

    Slices that share their core are cut while there are fewer than ``most`` parts.
    """
    wholes = [(number, own) for number, block in enumerate(blocks) for own in block]
    alone = [number not in fixed and len(blocks[number]) == 1 for number, _ in wholes]
    halves: dict[int, tuple[int, int]] = {}
    found = [own for _, own in wholes]
    room = min(PARTS_OF_BLOCK * len(blocks), most) - len(wholes)
    # those alone first, then the largest; equal ones in their order
    queue = [(not alone[k], -box_size(own.box), k) for k, (number, own) in enumerate(wholes) if number not in fixed]
    heapq.heapify(queue)
    while queue and (room > 0 or not queue[0][0]):
        *_, k = heapq.heappop(queue)
        cut = _halves(sizes, found[k])
        if len(cut) < 2:
            continue
        halves[k] = (len(found), len(found) + 1)
        for half in cut:
            heapq.heappush(queue, (True, -box_size(half.box), len(found)))
            found.append(half)
        room -= 1

    def piece(k: int) -> Piece:
        return Piece(found[k], tuple(piece(half) for half in halves.get(k, ())))

    pieces = [piece(k) for k in range(len(wholes))]
    leaves = [list(own.leaves()) for own in pieces]
    block = [number for (number, _), own in zip(wholes, leaves, strict=True) for _ in own]
    return CutSlices(pieces, [part for own in leaves for part in own], block)


def _halves(sizes: CostModel, whole: Slice) -> tuple[Slice, ...]:
    """Two halves across the longest side but the channels, or the slice where no two take about its words.

    Two that take fewer words than the slice are no good either: halves that meet again have to fit.
    """
    cuts = [cut for axis in range(len(whole.box)) if len(cut := _cut(whole, axis)) > 1]
    room = limits(sizes.chip)["synapse_words"]
    if room is not None:
        least = sizes.cost(whole.population, whole.box).synapse_words
        words = [sum(sizes.cost(half.population, half.box).synapse_words for half in cut) for cut in cuts]
        cuts = [cut for cut, own in zip(cuts, words, strict=True) if least <= own <= min(room, int(WORDS_MORE * least))]
    return min(cuts, key=lambda cut: _nearness(whole, cut), default=(whole,))


def _nearness(whole: Slice, cut: tuple[Slice, ...]) -> int:
    """Less for a cut across a longer side; a cut of channels comes last."""
    axis = next(k for k, (own, half) in enumerate(zip(whole.box, cut[0].box, strict=True)) if own != half)
    low, high = whole.box[axis]
    return low - high if axis > 0 or len(whole.box) == 1 else 0


def _cut(whole: Slice, axis: int) -> tuple[Slice, ...]:
    """The halves along an axis; the slice where it is one wide."""
    low, high = whole.box[axis]
    before, after = whole.box[:axis], whole.box[axis + 1 :]
    if high - low < 2:
        return (whole,)
    ranges = ((low, (low + high) // 2), ((low + high) // 2, high))
    return tuple(Slice(whole.population, (*before, own, *after)) for own in ranges)
