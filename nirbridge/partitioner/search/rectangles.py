"""Prices of boxes, and the cheapest rectangles of each population at them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from itertools import count

import numpy as np

from nirbridge._types import Box
from nirbridge.arrays import Array
from nirbridge.partitioner.cost.connectivity import Explicit
from nirbridge.partitioner.cost.sizing import CostModel, box_size
from nirbridge.partitioner.search.slicing import UNLIMITED, largest_slices, vector

# -- cuts ----------------------------------------------------------------------------------------------------------
# The cheapest tiling of a plane into rectangles, by cuts from edge to edge of what earlier cuts left.

NEVER = 2**60
"""Price of a box that may not be used."""
NESTED_MAX = 600
"""Positions of a plane up to which cuts are nested to any depth; larger ones are cut into bands, these into boxes."""

Prices = Mapping[tuple[int, int], Array]
"""(height, width) -> int64 [rows, columns]: the price of the box that begins there."""
Rectangle = tuple[int, int, int, int]
"""Row, column, height, width."""


def cheapest(prices: Prices, height: int, width: int) -> tuple[int, list[Rectangle]] | None:
    """Least sum of prices of rectangles that tile a plane, and these; None: no tiling has a price.

    Exact over tilings by nested cuts, or, in a large plane, over bands of rows or of columns.
    """
    if height * width <= NESTED_MAX:
        found = _nested(prices, height, width)
        return found if found[0] < NEVER else None
    total, boxes = _banded(prices, height, width)
    turned = {(w, h): a.T for (h, w), a in prices.items()}
    other, columns = _banded(turned, width, height)
    if other < total:
        total, boxes = other, [(r, c, h, w) for c, r, w, h in columns]
    return (total, boxes) if total < NEVER else None


def _nested(prices: Prices, height: int, width: int) -> tuple[int, list[Rectangle]]:
    least: dict[tuple[int, int], Array] = {}
    cut: dict[tuple[int, int], Array] = {}
    for h in range(1, height + 1):
        for w in range(1, width + 1):
            least[h, w], cut[h, w] = _best_cut(prices, least, h, w, (height, width))
    boxes = list(_cut_up(cut, (0, 0, height, width))) if least[height, width][0, 0] < NEVER else []
    return int(least[height, width][0, 0]), boxes


def _best_cut(
    prices: Prices, least: Mapping[tuple[int, int], Array], h: int, w: int, plane: tuple[int, int]
) -> tuple[Array, Array]:
    """Least price of every part of this size, and where it is cut: 0 not at all, k after row k, -k after column k."""
    rows, columns = plane[0] - h + 1, plane[1] - w + 1
    best = prices[h, w].copy() if (h, w) in prices else np.full((rows, columns), NEVER)
    cut = np.zeros((rows, columns), np.int16)
    for k in range(1, h):
        both = least[k, w][:rows] + least[h - k, w][k:]
        better = both < best
        best[better], cut[better] = both[better], k
    for k in range(1, w):
        both = least[h, k][:, :columns] + least[h, w - k][:, k:]
        better = both < best
        best[better], cut[better] = both[better], -k
    return best, cut


def _cut_up(cut: Mapping[tuple[int, int], Array], part: Rectangle) -> Iterator[Rectangle]:
    parts = [part]
    while parts:
        r, c, h, w = parts.pop()
        k = int(cut[h, w][r, c])
        if k > 0:
            parts += [(r + k, c, h - k, w), (r, c, k, w)]
        elif k < 0:
            parts += [(r, c - k, h, w + k), (r, c, h, -k)]
        else:
            yield r, c, h, w


def _banded(prices: Prices, height: int, width: int) -> tuple[int, list[Rectangle]]:
    """Bands of whole rows, each cut into boxes of its height."""
    bands = {h: _columns(prices, h, height, width) for h in sorted({h for h, _ in prices})}
    least, last = np.full(height + 1, NEVER), np.zeros(height + 1, np.int64)
    least[0] = 0
    for row in range(1, height + 1):
        for h, (totals, _) in bands.items():
            if h <= row and least[row - h] + totals[row - h] < least[row]:
                least[row], last[row] = least[row - h] + totals[row - h], h
    boxes: list[Rectangle] = []
    row = height if least[height] < NEVER else 0
    while row:
        h = int(last[row])
        row, column = row - h, width
        while column:
            w = int(bands[h][1][row, column])
            column -= w
            boxes.append((row, column, h, w))
    return int(least[height]), boxes[::-1]


def _columns(prices: Prices, h: int, height: int, width: int) -> tuple[Array, Array]:
    """Of each band of ``h`` rows the least price, and the width of the last box up to each column."""
    rows = height - h + 1
    least, last = np.full((rows, width + 1), NEVER), np.zeros((rows, width + 1), np.int64)
    least[:, 0] = 0
    widths = sorted(w for size, w in prices if size == h)
    for column in range(1, width + 1):
        for w in widths:
            if w > column:
                break
            total = least[:, column - w] + prices[h, w][:, column - w]
            better = total < least[:, column]
            least[better, column], last[better, column] = total[better], w
    return least[:, width], last


POSITIONS_MAX = 16_384
"""Positions of a feature map up to which its rectangles are priced."""
CORE = 1 << 20
"""Price of a core."""
COST_WORK = 60
"""Work of the cost of one box."""

Price = Callable[[Array, Array], Array]
"""Prices of boxes (int64) from their packing vectors and the limits of a core."""
Tiling = tuple[int, list[Rectangle]] | None
"""Price and rectangles of some channels; None: no rectangles fit."""


def prices_of(sizes: CostModel, cap: Array, rests: Mapping[str, int]) -> list[Price]:
    """The prices that are tried; ``rests`` are populations that can fill what boxes leave of a core."""
    found: list[Price] = [fewest, shares]
    whole = [vector(sizes, n, tuple((0, k) for k in sizes.shapes[n]), None) for n in rests]
    if whole:
        largest = max(whole, key=lambda v: float((v / cap).max()))
        found.insert(0, partial(beside, rest=largest / largest[0]))
    return found


def fewest(vectors: Array, cap: Array) -> Array:
    """A core for each box; of equally many boxes those of fewest resources."""
    return CORE + np.rint(_share(vectors, cap).sum(axis=-1) * (CORE >> 12)).astype(np.int64)


def shares(vectors: Array, cap: Array) -> Array:
    """The share of a core's fullest resource, and a little for each box."""
    return np.rint(_share(vectors, cap).max(axis=-1) * CORE).astype(np.int64) + (CORE >> 7)


def beside(vectors: Array, cap: Array, rest: Array) -> Array:
    """A core, less the share of it that neurons of another population can still use (``rest``: per neuron of it)."""
    need = np.maximum(rest, 1e-9)
    room = np.floor(np.maximum(cap - vectors, 0) / need).min(axis=-1)
    return CORE - np.rint(room / np.floor(cap / need).min() * CORE).astype(np.int64) + (CORE >> 12)


def _share(vectors: Array, cap: Array) -> Array:
    """Shares of a core; boxes that do not fit, which have no price, count as 2 cores."""
    return np.minimum(vectors / np.maximum(cap, 1), 2)


def is_spatial(sizes: CostModel, name: str) -> bool:
    """True for a population of channels and positions whose projections have a closed form."""
    edges = sizes.incoming[name]
    return len(sizes.shapes[name]) in (2, 3) and not any(isinstance(e.form, Explicit) for e in edges)


class Cutter:
    """Cuts populations into the cheapest rectangles; keeps the packing vectors of boxes from one price to the next.

    ``work``: that of all tilings so far, about a microsecond each.
    """

    def __init__(self) -> None:
        self.price: Price = fewest
        self.work = 0
        self._vectors: dict[object, Vectors] = {}
        self._kinds: Kinds = {}

    def cut(self, sizes: CostModel, name: str, slots: Array | None, cap: Array) -> tuple[Box, ...]:
        """The cheapest rectangles of a population, for the best number of channels in a box (``slicing.Cut``).

        Raises:
            NoTiling: not even single neurons fit.
        """
        shape = sizes.shapes[name]
        if not is_spatial(sizes, name) or math.prod(shape[1:]) > POSITIONS_MAX:
            return largest_slices(sizes, name, slots, cap)
        charged = None if slots is None or cap[5] >= UNLIMITED else slots
        best: tuple[int, tuple[Box, ...]] | None = None
        for size in channel_sizes(shape[0]):
            found = self._of_channels(sizes, name, size, charged, cap)
            if found is not None and (best is None or found[0] < best[0]):
                best = found
        return largest_slices(sizes, name, slots, cap) if best is None else best[1]

    def _of_channels(
        self, sizes: CostModel, name: str, size: int, slots: Array | None, cap: Array
    ) -> tuple[int, tuple[Box, ...]] | None:
        """The cheapest rectangles of ``size`` channels, and of the channels that are left; None: there are none."""
        total, boxes = 0, []
        channels = sizes.shapes[name][0]
        tilings: dict[object, Tiling] = {}
        for start in range(0, channels, size):
            own = (start, min(start + size, channels))
            plane = Plane(sizes, name, own, self._kinds)
            kind = own if slots is not None else sizes.range_kind(name, 0, own)
            if kind not in tilings:
                tilings[kind] = self._tiling(plane, own, slots, cap)
            tiling = tilings[kind]
            if tiling is None:
                return None
            total += tiling[0]
            boxes += [plane.box(*rectangle) for rectangle in tiling[1]]
        return total, tuple(boxes)

    def _tiling(self, plane: Plane, channels: Range, slots: Array | None, cap: Array) -> Tiling:
        key = (plane.sizes.like[plane.name], channels)
        vectors = self._vectors.get(key) if slots is None else None
        if vectors is None:
            vectors = plane.vectors(slots, cap)
            self.work += COST_WORK * plane.counted
            if slots is None:
                self._vectors[key] = vectors
        prices = {k: np.where(v[..., 0] < UNLIMITED, self.price(v, cap), NEVER) for k, v in vectors.items()}
        rows, columns = plane.height, plane.width
        self.work += (rows * columns if rows * columns <= NESTED_MAX else len(prices)) * (rows + columns)
        return cheapest(prices, rows, columns)


# -- boxes ---------------------------------------------------------------------------------------------------------
# Packing vectors of all boxes of some channels of a feature map that fit a core, by height and width.

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
