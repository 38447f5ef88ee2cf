"""Spikes of sources between the parts of a projection, and their lists of events."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from nirbridge.arrays import Array
from nirbridge.simulators.compiled.kernels.events import ROOM, list_spikes
from nirbridge.simulators.compiled.kernels.jit import list_values, value_of

_NO_VALUES = {np.dtype(name): np.zeros(1, name) for name in ("float32", "float64")}


class Signal:
    """The spikes or values sent: ``[items, *shape]``, or ``[steps, batch, *shape]`` where ``lead`` is 2.

    Bytes are spikes, each 0 or 1, or (``counts``) whole numbers that ``factor`` still multiplies; other types are
    values as they are.
    """

    __slots__ = ("_events", "counts", "factor", "is_unit", "lead", "values")

    def __init__(self, values: Array, counts: bool = False, factor: float = 1.0, lead: int = 1) -> None:
        self.values, self.counts, self.factor, self.lead = values, counts, factor, lead
        self.is_unit = not counts and values.dtype == np.uint8
        """True for spikes of 0 or 1."""
        self._events = -1

    @property
    def items(self) -> int:
        """Time steps times samples."""
        return math.prod(self.values.shape[: self.lead])

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
    items, n = signal.items, math.prod(signal.values.shape[signal.lead :])
    indptr = np.empty(items + 1, np.int64)
    idx = np.empty(signal.events() + ROOM, np.uint32)
    in_place = side_by_side(signal.values) if signal.is_unit and signal.lead == 2 else None
    if in_place is not None:
        list_spikes(in_place[0], (signal.values.shape[1], n, in_place[1]), indptr, idx)
        return indptr, idx, _NO_VALUES[dtype], False
    x = np.ascontiguousarray(signal.values)
    if not signal.is_unit and x.dtype != np.uint8:
        val = np.empty(len(idx), dtype)
        list_values(x.reshape(items, n), indptr, idx, val)
        return indptr, idx, val, True
    flat = x.reshape(-1)
    list_spikes(flat, (1, n, n), indptr, idx)
    if not signal.counts:
        return indptr, idx, _NO_VALUES[dtype], False
    val = np.empty(len(idx), dtype)
    value_of(flat, n, indptr, idx, val)
    return indptr, idx, val * dtype.type(signal.factor), True


def side_by_side(values: Array) -> tuple[Array, int] | None:
    """Bytes ``[steps, batch, *shape]`` in place: those from the first to the last, and the distance of two time steps.

    None where the bytes of a time step do not follow one another. Between the time steps may be other samples, which
    another thread takes.
    """
    if not len(values) or not values[0].flags.c_contiguous or values.strides[0] < 0:
        return None
    if values.flags.c_contiguous:
        return values.reshape(-1), values[0].size
    pitch = values.strides[0]
    return as_strided(values, ((len(values) - 1) * pitch + values[0].size,), (1,)), pitch


def take_input(values: Array, float_name: str) -> Array:
    """Inputs as the kernels want them: bytes where every value is 0 or 1, else the float type.

    Bytes of some samples stay where they are, see ``side_by_side``.
    """
    values = np.asarray(values)
    is_bool = values.dtype == np.bool_
    if is_bool or (values.dtype == np.uint8 and (values.size == 0 or int(values.max()) <= 1)):
        in_place = values.ndim > 1 and side_by_side(values) is not None
        return (values if in_place else np.ascontiguousarray(values)).view(np.uint8)
    if bool(np.all((values == 0) | (values == 1))):
        return values.astype(np.uint8, order="C")
    return np.ascontiguousarray(values, float_name)
