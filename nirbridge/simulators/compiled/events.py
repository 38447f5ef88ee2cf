"""Spikes of sources between the parts of a projection, and their lists of events."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from nirbridge.arrays import Array
from nirbridge.simulators.compiled.kernels.events import ROOM, list_spikes
from nirbridge.simulators.compiled.kernels.jit import list_values, value_of

_NO_VALUES = {np.dtype(name): np.zeros(1, name) for name in ("float32", "float64")}


class Signal:
    """The spikes or values sent: ``[items, *shape]``.

    Bytes are spikes, each 0 or 1, or (``counts``) whole numbers that ``factor`` still multiplies; other types are
    values as they are.
    """

    __slots__ = ("_events", "counts", "factor", "is_unit", "values")

    def __init__(self, values: Array, counts: bool = False, factor: float = 1.0) -> None:
        self.values, self.counts, self.factor = values, counts, factor
        self.is_unit = not counts and values.dtype == np.uint8
        """True for spikes of 0 or 1."""
        self._events = -1

    @property
    def is_whole(self) -> bool:
        """True where every value is a whole number of at most 255."""
        return self.values.dtype == np.uint8 and self.factor == 1.0

    def most(self) -> int:
        """The largest value of whole ones."""
        return int(self.values.max(initial=0)) if self.counts else 1

    def events(self) -> int:
        """Number of sources that send, over all items."""
        if self._events < 0:
            as_bool = self.values.view(np.bool_) if self.is_unit else self.values  # bool is quicker
            self._events = int(np.count_nonzero(as_bool))
        return self._events

    def real(self, dtype: np.dtype[Any]) -> Array:
        """The values in a float type."""
        values = self.values.astype(dtype, copy=False)
        return values * dtype.type(self.factor) if self.factor != 1.0 else values


def events_of(signal: Signal, dtype: np.dtype[Any]) -> tuple[Array, Array, Array, bool]:
    """``indptr, idx, val`` by item, sources ascending, and whether ``val`` counts (False: every event is a 1)."""
    x = np.ascontiguousarray(signal.values)
    items = len(x)
    n = x.size // items if items else math.prod(x.shape[1:])
    indptr = np.empty(items + 1, np.int64)
    idx = np.empty(signal.events() + ROOM, np.uint32)
    if not signal.is_unit and x.dtype != np.uint8:
        val = np.empty(len(idx), dtype)
        list_values(x.reshape(items, n), indptr, idx, val)
        return indptr, idx, val, True
    flat = x.reshape(-1)
    list_spikes(flat, n, indptr, idx)
    if not signal.counts:
        return indptr, idx, _NO_VALUES[dtype], False
    val = np.empty(len(idx), dtype)
    value_of(flat, n, indptr, idx, val)
    return indptr, idx, val * dtype.type(signal.factor), True


def take_input(values: Array, float_name: str) -> Array:
    """Inputs as the kernels want them: bytes where every value is 0 or 1, else the float type."""
    values = np.asarray(values)
    if values.dtype == np.bool_:
        return np.ascontiguousarray(values).view(np.uint8)
    if values.dtype == np.uint8 and (values.size == 0 or int(values.max()) <= 1):
        return np.ascontiguousarray(values)
    if bool(np.all((values == 0) | (values == 1))):
        return values.astype(np.uint8, order="C")
    return np.ascontiguousarray(values, float_name)
