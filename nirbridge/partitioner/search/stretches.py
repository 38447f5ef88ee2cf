"""Stretches of a population in an order of its axes, as boxes."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from nirbridge._types import Box, Shape
from nirbridge.partitioner.model import Slice

WIDTH_CHOICES = 12
"""Up to this width a strip may be cut anywhere into any pieces; wider ones into pieces of chosen widths."""

WIDTHS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256)
"""Widths of pieces in wide maps."""
FINE_WIDTHS = (*range(1, 9), 10, 12, 14, *range(16, 33, 4), *range(40, 65, 8), 80, 96, 128, 192, 256)
"""The same in fine layouts: a core holds few pixels of layers with many words, so all small widths are offered."""


def interval_boxes(lengths: Shape, start: int, stop: int) -> Iterator[Box]:
    """The boxes, in order, of places ``start`` to ``stop`` of a row-major grid of ``lengths``."""
    if len(lengths) == 1:
        yield ((start, stop),)
        return
    inner = math.prod(lengths[1:])
    (first, head), (last, tail) = divmod(start, inner), divmod(stop, inner)
    if first == last:
        yield from (((first, first + 1), *rest) for rest in interval_boxes(lengths[1:], head, tail))
        return
    if head:
        yield from (((first, first + 1), *rest) for rest in interval_boxes(lengths[1:], head, inner))
        first += 1
    if first < last:
        yield ((first, last), *tuple((0, n) for n in lengths[1:]))
    if tail:
        yield from (((last, last + 1), *rest) for rest in interval_boxes(lengths[1:], 0, tail))


@dataclass(slots=True, eq=False)
class Queue:
    """The neurons of one population that are left: the first ``stop`` places of its order of axes."""

    population: str
    axes: tuple[int, ...]
    lengths: Shape
    group: int
    words: float
    stop: int

    def slices(self, count: int) -> tuple[Slice, ...]:
        """The slices of the last ``count`` neurons."""
        found = []
        for box in interval_boxes(self.lengths, self.stop - count, self.stop) if count else ():
            by_axis = dict(zip(self.axes, box, strict=True))
            found.append(Slice(self.population, tuple(by_axis[axis] for axis in sorted(by_axis))))
        return tuple(found)


@dataclass(frozen=True, slots=True)
class Ends:
    """Where pieces of a row may end: at multiples of a segment; or anywhere in a narrow map, else after ``widths``."""

    segments: int | None
    widths: tuple[int, ...]

    def after(self, start: int, width: int) -> list[int]:
        """The ends of pieces that begin at ``start``."""
        if self.segments is not None:
            step = -(-width // self.segments)
            return [] if start % step else [*range(start + step, width, step), width]
        if width <= WIDTH_CHOICES:
            return list(range(start + 1, width + 1))
        return sorted(start + w for w in {*self.widths, width - start} if w <= width - start)
