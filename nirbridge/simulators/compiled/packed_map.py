"""Spikes of a map, one bit each, between layers that take them so; for everybody else they become bytes when asked."""

from __future__ import annotations

from typing import Any

import numpy as np

from nirbridge.arrays import Array
from nirbridge.simulators.compiled.feature_map import Layout


class Packed:
    """Stands for ``uint8[steps, batch, *shape]``; ``bits``: flat, in the order of ``layout``, lowest bit first."""

    dtype = np.dtype(np.uint8)

    def __init__(self, bits: Array, lead: tuple[int, int], layout: Layout) -> None:
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
