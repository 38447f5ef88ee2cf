"""Slices cut in parts before they move: a core full of one slice can exchange nothing, and of two only all of either.

The largest slices are cut in two, and their halves again, until there are as many as the search moves well. Neurons of
one channel have the more sources and targets in common the nearer they are, so slices are cut across the longest side
that adds few words, and across channels only where there is no other.
"""

from __future__ import annotations

import heapq
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass

from nirbridge.arrays import Array
from nirbridge.partitioner.cost.axons import Blocks
from nirbridge.partitioner.cost.resources import limits
from nirbridge.partitioner.cost.sizing import CostModel, box_size
from nirbridge.partitioner.model import Slice

PARTS_OF_BLOCK = 6
"""Parts for each block on average, up to which slices are cut: hops are least at 5 to 8, and 8 take twice the time."""
FULL = 0.95
"""Only slices alone on their core are cut where cores use more of their words: parts find no room (decision 0037)."""
WORDS_MORE = 1.1
"""A slice is not cut where its halves take more than this many times its words; nor is a half of it."""


@dataclass(frozen=True, slots=True, eq=False)
class SliceTree:
    """A slice of a block, whole or cut in two ``halves``."""

    whole: Slice
    halves: tuple[SliceTree, ...] = ()

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
    """The ``trees`` of all blocks; ``slices``: their parts in order, ``block``: those of the parts."""

    trees: list[SliceTree]
    slices: list[Slice]
    block: list[int]

    def on_cores(self, site: Array) -> dict[int, list[Slice]]:
        """The slices of each site, in their order here; those cut in parts that stayed together are whole again."""
        found, sites = dict[int, list[Slice]](), iter(site.tolist())
        for tree in self.trees:
            for own, part in tree.on_cores(sites):
                found.setdefault(own, []).append(part)
        return found


def cut_slices(sizes: CostModel, blocks: Blocks, fixed: Collection[int], most: int) -> CutSlices:
    """The slices of all blocks; those that are alone on a core, and the largest, cut, but for ``fixed`` blocks.

    Slices that share their core are cut while there are fewer than ``most`` parts.
    """
    wholes = [(number, own) for number, block in enumerate(blocks) for own in block]
    found, of_block = [own for _, own in wholes], [number for number, _ in wholes]
    words = [_words(sizes, block) for block in blocks]
    limit = limits(sizes.chip)["synapse_words"]
    halves: dict[int, tuple[int, int]] = {}
    parts = _most_parts(words, limit, most) - len(wholes)
    # those alone first, then the largest; equal ones in their order
    queue = [(len(blocks[b]) > 1, -box_size(own.box), k) for k, (b, own) in enumerate(wholes) if b not in fixed]
    heapq.heapify(queue)
    while queue and (parts > 0 or not queue[0][0]):
        *_, k = heapq.heappop(queue)
        own, least = words[of_block[k]], _words(sizes, (found[k],))
        cut = _halves(sizes, found[k], least, None if limit is None else limit - own + least)
        if len(cut) < 2:
            continue
        words[of_block[k]] += _words(sizes, cut) - least
        halves[k] = (len(found), len(found) + 1)
        for half in cut:
            heapq.heappush(queue, (True, -box_size(half.box), len(found)))
            found.append(half)
            of_block.append(of_block[k])
        parts -= 1

    def tree(k: int) -> SliceTree:
        return SliceTree(found[k], tuple(tree(half) for half in halves.get(k, ())))

    trees = [tree(k) for k in range(len(wholes))]
    leaves = [list(own.leaves()) for own in trees]
    block = [number for (number, _), own in zip(wholes, leaves, strict=True) for _ in own]
    return CutSlices(trees, [part for own in leaves for part in own], block)


def _most_parts(words: list[int], limit: int | None, most: int) -> int:
    """Parts up to which slices that share their core are cut, given the words of each block and the most of a core."""
    is_full = limit is not None and sum(words) > FULL * limit * len(words)
    return 0 if is_full else min(PARTS_OF_BLOCK * len(words), most)


def _words(sizes: CostModel, slices: Iterable[Slice]) -> int:
    """Words of slices, each stored by itself."""
    return sum(sizes.cost(s.population, s.box).synapse_words for s in slices)


def _halves(sizes: CostModel, whole: Slice, least: int, room: int | None) -> tuple[Slice, ...]:
    """Two halves across the longest side but the channels, or the slice where no two take about its ``least`` words.

    Two that take fewer are no good either: halves that meet again have to fit. ``room``: the most words that they may
    take, so that their core is not too full for any exchange; None: words are not limited.
    """
    cuts = [cut for axis in range(len(whole.box)) if len(cut := _cut(whole, axis)) > 1]
    if room is not None:
        cuts = [cut for cut in cuts if least <= _words(sizes, cut) <= min(room, int(WORDS_MORE * least))]
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
