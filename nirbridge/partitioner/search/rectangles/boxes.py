"""Packing vectors of all boxes of some channels of a feature map that fit a core, by height and width."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

import numpy as np

from nirbridge._types import Box
from nirbridge.arrays import Array
from nirbridge.partitioner.cost.sizing import CostModel, box_size
from nirbridge.partitioner.search.slicing import UNLIMITED

Range = tuple[int, int]
Vectors = dict[tuple[int, int], Array]
"""(height, width) -> int64 [rows, columns, resources]: the packing vector of the box that begins there.

``UNLIMITED`` neurons where it does not fit; sizes of which no box fits are left out.
"""
Kinds = dict[tuple[str, int, int], tuple[Array, list[int]]]
COSTS_MAX = 20_000
"""Boxes whose costs are computed, at most: fewer where ranges along an axis are alike, which is usual."""


class Plane:
    """Some channels of a population of two or three axes; a population of two axes is one row of positions.

    ``kinds`` keeps the kinds of ranges (``_kinds``) for all planes of a network.
    """

    def __init__(self, sizes: CostModel, name: str, channels: Range, kinds: Kinds) -> None:
        self.sizes, self.name, self.channels, self.kinds = sizes, name, channels, kinds
        *_, self.width = shape = sizes.shapes[name]
        self.height = shape[1] if len(shape) == 3 else 1
        self.count_words = True
        self.counted = 0

    def box(self, row: int, column: int, height: int, width: int) -> Box:
        """The box of this height and width that begins there."""
        rows = ((row, row + height),) if len(self.sizes.shapes[self.name]) == 3 else ()
        return (self.channels, *rows, (column, column + width))

    def vectors(self, slots: Array | None, cap: Array) -> Vectors:
        """The vectors of all boxes, none where they are too many to be counted.

        ``slots`` are the output axons of each neuron, if they are charged.
        """
        found: Vectors = {}
        self.count_words = bool(cap[2] < UNLIMITED)
        charged = None if slots is None else self._charges(slots)
        widest = self.width
        for height in range(1, self.height + 1):
            fitting = 0
            for width in range(1, widest + 1):
                boxes = self._of_size(height, width, charged, cap)
                if self.counted > COSTS_MAX:
                    return {}
                if boxes is None:
                    break
                found[height, width], fitting = boxes, width
            # a higher box is no narrower one's part
            widest = fitting
            if not widest:
                break
        return found

    def _of_size(self, height: int, width: int, charged: Array | None, cap: Array) -> Array | None:
        rows, columns = self._kinds(1, self.height, height), self._kinds(2, self.width, width)
        self.counted += len(rows[1]) * len(columns[1])
        table = np.array([[self._cost(self.box(r, c, height, width)) for c in columns[1]] for r in rows[1]], np.int64)
        vectors = table[rows[0]][:, columns[0]]
        if charged is not None:
            of_rows = charged[height:] - charged[: len(vectors)]
            vectors[..., 5] = of_rows[:, width:] - of_rows[:, : vectors.shape[1]]
        over = np.any(vectors > cap, axis=-1)
        if over.all():
            return None
        vectors[over, 0] = UNLIMITED
        return vectors

    def _cost(self, box: Box) -> tuple[int, ...]:
        if self.count_words or self.sizes.count_decays or self.sizes.count_thresholds:
            return (*self.sizes.cost(self.name, box), 0)
        return (box_size(box), self.sizes.axons(self.name, box), 0, 0, 0, 0)

    def _kinds(self, axis: int, length: int, size: int) -> tuple[Array, list[int]]:
        """Of each range of ``size`` along an axis its kind, and the start of one range of each kind."""
        if len(self.sizes.shapes[self.name]) == 2:
            if axis == 1:
                return np.zeros(1, np.int64), [0]
            axis = 1
        key = (self.sizes.like[self.name], axis, size)
        if key not in self.kinds:
            first: dict[object, int] = {}
            ranges = [self.sizes.range_kind(self.name, axis, (a, a + size)) for a in range(length - size + 1)]
            starts = [start for start, kind in enumerate(ranges) if first.setdefault(kind, start) == start]
            numbers = {start: number for number, start in enumerate(starts)}
            self.kinds[key] = np.array([numbers[first[kind]] for kind in ranges], np.int64), starts
        return self.kinds[key]

    def _charges(self, slots: Array) -> Array:
        """Output axons of the neurons above and to the left of each corner: int64 [height + 1, width + 1]."""
        plane = slots[slice(*self.channels)].sum(axis=0).reshape(self.height, self.width)
        total = np.zeros((self.height + 1, self.width + 1), np.int64)
        total[1:, 1:] = plane.cumsum(axis=0).cumsum(axis=1)
        return total


def channel_sizes(channels: int) -> Iterator[int]:
    """Numbers of channels of a box that are tried: those of 1, 2, 3 ... parts, ever coarser; down to 1."""
    last = 0
    for parts in count(1):
        size = -(-channels // parts)
        if size != last and (parts <= 4 or size * 3 <= last * 2 or size == 1):
            yield size
            last = size
        if size == 1:
            return
