"""Prices of boxes, and the cheapest rectangles of each population at them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import partial

import numpy as np

from nirbridge._types import Box
from nirbridge.arrays import Array
from nirbridge.partitioner.cost.connectivity import Explicit
from nirbridge.partitioner.cost.sizing import CostModel
from nirbridge.partitioner.search.rectangles.boxes import Kinds, Plane, Range, Vectors, channel_sizes
from nirbridge.partitioner.search.rectangles.cuts import NESTED_MAX, NEVER, Rectangle, cheapest
from nirbridge.partitioner.search.slicing import UNLIMITED, largest_slices, vector

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
