"""Order of the elements of a population in memory, and spikes of feature maps as single bits.

Feature maps lie channels-last, ``[row, column, channel]``, with channels padded to a whole word of 8. Their spikes pass
between layers as bits; they are unpacked to bytes for every other reader.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from nirbridge._types import Shape
from nirbridge.arrays import Array

WORD = 8


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
        self._bytes: Array | None = None

    def dense(self) -> Array:
        """The bytes, made once, as a view in the usual order of axes."""
        if self._bytes is None:
            self._bytes = self.layout.view(np.unpackbits(self.bits, bitorder="little"), self.lead)
        return self._bytes

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        """For NumPy's functions."""
        return np.array(self.dense(), dtype=dtype, copy=copy)

    def __getitem__(self, key: Any) -> Any:
        """A part, as bytes."""
        return self.dense()[key]

    def __len__(self) -> int:
        """Steps."""
        return self.shape[0]

    def reshape(self, *shape: Any) -> Array:
        """As bytes."""
        return self.dense().reshape(*shape)
