"""Order of the elements of a population in memory, spikes of feature maps as single bits, and lists of their sources.

Feature maps lie channels-last, ``[row, column, channel]``, with channels padded to a whole word of 8. Their spikes pass
between layers as bits; they are unpacked to bytes for every other reader.
"""

from __future__ import annotations

import math
from functools import cached_property
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from nirbridge._types import Shape
from nirbridge.arrays import Array
from nirbridge.network.operators import SumPool
from nirbridge.simulators.compiled.events import side_by_side
from nirbridge.simulators.compiled.kernels.conv_events import BITS, LAST, PAIRS, POOLED, USUAL
from nirbridge.simulators.compiled.kernels.events import ROOM

WORD = 8
_NO_WORDS = np.empty(0, np.uint64)


class FlatLayout:
    """Elements of a shape in the usual order of memory."""

    def __init__(self, shape: Shape) -> None:
        self.shape, self.size = shape, math.prod(shape)

    def rows(self, values: Array, lead: int) -> Array:
        """``[*lead axes, *shape]`` as ``[*lead axes, size]``."""
        return np.ascontiguousarray(values).reshape(*values.shape[:lead], self.size)

    def view(self, values: Array, lead: Shape) -> Array:
        """Rows, flat or not, as ``[*lead, *shape]``."""
        return values.reshape(*lead, *self.shape)

    def one(self, values: Array, _filling: float = 0.0) -> Array:
        """A value per element, ``[size]``, or one for all."""
        return np.ascontiguousarray(values).reshape(-1)


class FeatureMapLayout:
    """Elements of a shape ``(channels, *spatial)`` channels-last, channels padded to a multiple of ``word``.

    One axis alone is one position with that many channels.
    """

    def __init__(self, shape: Shape, word: int = WORD) -> None:
        self.shape, self.channels, self.spatial = shape, shape[0], shape[1:]
        self.width = -(-self.channels // word) * word
        self.places = math.prod(self.spatial)
        self.size = self.places * self.width

    def rows(self, values: Array, lead: int) -> Array:
        """``[*lead axes, *shape]`` as ``[*lead axes, size]``, zeros in the filling; shares memory where it can."""
        moved = values.transpose(*range(lead), *range(lead + 1, values.ndim), lead)
        front = values.shape[:lead]
        if self.width == self.channels:
            return np.ascontiguousarray(moved).reshape(*front, self.size)
        if _strides(values.itemsize, (*moved.shape[:-1], self.width)) == moved.strides:
            return as_strided(moved, (*front, self.size), _strides(values.itemsize, (*front, self.size)))
        out = np.zeros((*front, *self.spatial, self.width), values.dtype)
        out[..., : self.channels] = moved
        return out.reshape(*front, self.size)

    def view(self, values: Array, lead: Shape) -> Array:
        """Rows, flat or not, as ``[*lead, *shape]``."""
        full, axes = values.reshape(*lead, *self.spatial, self.width), len(lead)
        if self.width != self.channels:
            full = full[..., : self.channels]
        return full.transpose(*range(axes), full.ndim - 1, *range(axes, full.ndim - 1))

    def one(self, values: Array, filling: float = 0.0) -> Array:
        """A value per element, ``[size]``, or one for all where there is no filling."""
        if values.ndim == 0 and self.width == self.channels:
            return values.reshape(1)
        out = np.full((self.places, self.width), filling, values.dtype)
        full = np.broadcast_to(values, self.shape)
        out[:, : self.channels] = full.reshape(self.channels, self.places).T
        return out.reshape(-1)

    def names(self) -> Array:
        """For each place in memory the flat index in the usual order, 0 in the filling: ``[size]``."""
        return self.one(np.arange(math.prod(self.shape)).reshape(self.shape))


def _strides(item: int, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Of a contiguous array."""
    out = [item]
    for n in shape[:0:-1]:
        out.append(out[-1] * n)
    return tuple(out[::-1])


class PackedSpikes:
    """Stands for ``uint8[steps, batch, *shape]``; ``bits``: flat, in the order of ``layout``, lowest bit first."""

    dtype = np.dtype(np.uint8)

    def __init__(self, bits: Array, lead: tuple[int, int], layout: FlatLayout | FeatureMapLayout) -> None:
        self.bits, self.lead, self.layout = bits, lead, layout
        self.shape = (*lead, *layout.shape)
        self.ndim = len(self.shape)

    @cached_property
    def dense(self) -> Array:
        """The bytes, as a view in the usual order of axes."""
        return self.layout.view(np.unpackbits(self.bits, bitorder="little"), self.lead)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        """For NumPy's functions."""
        return np.array(self.dense, dtype=dtype, copy=copy)

    def __getitem__(self, key: Any) -> Any:
        """A part, as bytes."""
        return self.dense[key]

    def __len__(self) -> int:
        """Steps."""
        return self.shape[0]

    def reshape(self, *shape: Any) -> Array:
        """As bytes."""
        return self.dense.reshape(*shape)


class EventSource:
    """Spikes of a shape, pooled or not, and the scratch memory to list them.

    ``layout`` is that of the sources after the pool, ``shape`` their shape.
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
                lies, bits, size = PAIRS if self.pooled else BITS, spikes.bits, self.before.size // WORD
                return (lies, bits, _words(bits), size, spikes.lead[1] * size, per, self.pool, self.factor), False
            spikes = spikes.dense
        in_place = None if self.pooled else side_by_side(spikes)
        if in_place is not None:
            flat, pitch = in_place
            return (USUAL, flat, _NO_WORDS, self.size, pitch, per, self.pool, self.factor), True
        flat, size = self.before.rows(spikes, 2).reshape(-1), self.before.size
        if not _words(flat).flags.aligned:
            flat = flat.copy()
        lies, pitch = POOLED if self.pooled else LAST, spikes.shape[1] * size
        return (lies, flat, _words(flat), size, pitch, per, self.pool, self.factor), False

    def most(self, spikes: int, items: int) -> int:
        """Upper bound on the sources after the pool, for this number of spikes: windows may overlap."""
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
    """Height and width before and after, kernel, stride and leading padding; one axis is a map of height 1."""
    is_line = len(pool.kernel) == 1
    before, after = pool.input_shape[1:], pool.output_shape[1:]
    sides = tuple(lo for lo, _ in pool.padding)
    pairs = (before, after, pool.kernel, pool.stride, sides)
    first = (1, 1, 1, 1, 0)
    return tuple(n for pair, f in zip(pairs, first, strict=True) for n in ((f, *pair) if is_line else pair))
