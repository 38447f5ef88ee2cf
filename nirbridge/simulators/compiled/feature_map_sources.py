"""The sources of a layer behind a map as its kernels take them (``kernels_conv_layer``)."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from nirbridge.arrays import Array
from nirbridge.network.operators import SumPool
from nirbridge.simulators.compiled.feature_map import WORD, FeatureMapLayout, PackedSpikes
from nirbridge.simulators.compiled.kernels.conv_events import BITS, LAST, PAIRS, POOLED, USUAL
from nirbridge.simulators.compiled.kernels.events import ROOM


class EventSource:
    """Spikes of a shape, pooled or not, and the scratch memory to list them.

    ``layout`` is that of the sources behind the pool, ``shape`` their shape.
    """

    def __init__(self, before: tuple[int, ...], pool: SumPool | None, shape: tuple[int, ...], dtype: Any) -> None:
        self.before, self.layout, self.dtype = FeatureMapLayout(before), FeatureMapLayout(shape), dtype
        self.size, self.pooled = math.prod(before), pool is not None
        self.pool = (0,) * 10 if pool is None else _geometry(pool)
        sides = () if pool is None else zip(pool.kernel, pool.stride, strict=True)
        self.windows = math.prod(-(-k // s) for k, s in sides)
        self.factor = dtype.type(1.0 if pool is None else pool.factor)
        has_whole_words = self.before.size % (WORD * WORD) == 0
        self.takes_bits = has_whole_words and (pool is None or _is_pairs(self.pool, self.before.width // WORD))

    def of(self, spikes: Array | PackedSpikes) -> tuple[tuple[Any, ...], bool]:
        """The sources for ``spikes: uint8[steps, batch, *shape]``, and whether they lie in the usual order."""
        per = np.uint64(self.before.width // WORD)
        if isinstance(spikes, PackedSpikes):
            if self.takes_bits:
                lies, bits = PAIRS if self.pooled else BITS, spikes.bits
                return (lies, bits, _words(bits), self.before.size // WORD, per, self.pool, self.factor), False
            spikes = spikes.dense()
        is_usual = not self.pooled and spikes.flags.c_contiguous
        flat = (spikes if is_usual else self.before.rows(spikes, 2)).reshape(-1)
        if not _words(flat).flags.aligned:
            flat = flat.copy()
        lies, size = (USUAL, self.size) if is_usual else (POOLED if self.pooled else LAST, self.before.size)
        return (lies, flat, _words(flat), size, per, self.pool, self.factor), is_usual

    def most(self, spikes: int, items: int) -> int:
        """The most sources there can be behind the pool for so many spikes of all items: windows may overlap."""
        return min(spikes * self.windows, items * self.layout.size)

    def room(self) -> tuple[Array, Array]:
        """Memory for the sources of a step: ``idx, val``."""
        return np.empty(self.layout.size + ROOM, np.uint32), np.empty(self.layout.size, self.dtype)

    def scratch(self) -> tuple[Any, ...]:
        """Memory to list them in order."""
        size, room = self.layout.size, self.layout.places
        line = np.empty(self.before.size // WORD if self.pooled else 1, np.uint64)
        fills = np.zeros(self.layout.width, np.int64)
        return np.uint64(room), line, np.empty(size, np.uint32), np.empty(size, np.uint8), fills


def _words(flat: Array) -> Array:
    return flat[: flat.size // WORD * WORD].view(np.uint64)


def _is_pairs(pool: tuple[int, ...], per: int) -> bool:
    """True for windows of 2 by 2 side by side, none of which goes over the edge, and rows of whole words."""
    fits = 2 * pool[2] <= pool[0] and 2 * pool[3] == pool[1]
    return pool[4:] == (2, 2, 2, 2, 0, 0) and fits and per in (1, 2, 4) and pool[1] * per % WORD == 0


def _geometry(pool: SumPool) -> tuple[int, ...]:
    """Height and width before, behind, kernel, stride and padding before; one axis is a map of height 1."""
    is_line = len(pool.kernel) == 1
    before, behind = pool.input_shape[1:], pool.output_shape[1:]
    sides = tuple(lo for lo, _ in pool.padding)
    pairs = (before, behind, pool.kernel, pool.stride, sides)
    first = (1, 1, 1, 1, 0)
    return tuple(n for pair, f in zip(pairs, first, strict=True) for n in ((f, *pair) if is_line else pair))
