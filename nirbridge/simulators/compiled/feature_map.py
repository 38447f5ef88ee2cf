"""Maps in memory channels-last: ``[row, column, channel]``, channels filled up to a whole word of 8.

Spikes of a map, one bit each, between layers that take them so; for everybody else they become bytes when asked.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from nirbridge.arrays import Array

WORD = 8


class FeatureMapLayout:
    """How a shape ``(channels, *spatial)`` lies; one axis alone is one place of so many channels."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        self.shape, self.channels, self.spatial = shape, shape[0], shape[1:]
        self.width = -(-self.channels // WORD) * WORD
        self.places = math.prod(self.spatial)
        self.size = self.places * self.width

    def rows(self, values: Array, lead: int) -> Array:
        """``[*lead axes, *shape]`` as ``[*lead axes, size]``, zeros in the filling; shares memory where it can."""
        moved = _moved(values, lead)
        front = values.shape[:lead]
        if self.width == self.channels:
            return np.ascontiguousarray(moved).reshape(*front, self.size)
        if _strides(values.itemsize, (*moved.shape[:-1], self.width)) == moved.strides:
            return as_strided(moved, (*front, self.size), _strides(values.itemsize, (*front, self.size)))
        out = np.zeros((*front, *self.spatial, self.width), values.dtype)
        out[..., : self.channels] = moved
        return out.reshape(*front, self.size)

    def view(self, rows: Array) -> Array:
        """``[*lead axes, size]`` as ``[*lead axes, *shape]``."""
        lead = rows.ndim - 1
        full = rows.reshape(*rows.shape[:-1], *self.spatial, self.width)
        if self.width != self.channels:
            full = full[..., : self.channels]
        return full.transpose(*range(lead), full.ndim - 1, *range(lead, full.ndim - 1))

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


def _moved(values: Array, lead: int) -> Array:
    """The channels behind the other axes."""
    return values.transpose(*range(lead), *range(lead + 1, values.ndim), lead)


def _strides(item: int, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Of a contiguous array."""
    out = [item]
    for n in shape[:0:-1]:
        out.append(out[-1] * n)
    return tuple(out[::-1])


class PackedSpikes:
    """Stands for ``uint8[steps, batch, *shape]``; ``bits``: flat, in the order of ``layout``, lowest bit first."""

    dtype = np.dtype(np.uint8)

    def __init__(self, bits: Array, lead: tuple[int, int], layout: FeatureMapLayout) -> None:
        self.bits, self.lead, self.layout = bits, lead, layout
        self.shape = (*lead, *layout.shape)
        self.ndim = len(self.shape)
        self._bytes: Array | None = None

    def dense(self) -> Array:
        """The bytes, made once, as a view in the usual order of axes."""
        if self._bytes is None:
            rows = np.unpackbits(self.bits, bitorder="little").reshape(*self.lead, self.layout.size)
            self._bytes = self.layout.view(rows)
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
