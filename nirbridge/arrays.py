"""Read-only arrays, in one place."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
Value = TypeVar("Value")
SPARSE = 8
"""Numbers are sorted, not counted, where they may be this many times as many as there are."""
KEPT = 4
"""Values of a cache that ``kept`` fills: batch sizes, say, of a run and of its threads."""


def freeze(values: npt.ArrayLike, dtype: npt.DTypeLike | None = None) -> Array:
    """A read-only copy of ``values``.

    Axes that repeat one value in memory (stride 0, as ``np.broadcast_to`` makes them) stay so: a uniform
    parameter or the weights of a shape without values cost one element, whatever their shape.
    """
    array = np.asarray(values, dtype=dtype)
    if 0 in array.strides and any(s == 0 and n > 1 for s, n in zip(array.strides, array.shape, strict=True)):
        return np.broadcast_to(stored_part(array).copy(), array.shape)
    frozen = array.copy()
    frozen.flags.writeable = False
    return frozen


def stored_part(array: Array) -> Array:
    """The part of an array that memory holds: one element along each axis that repeats it (stride 0)."""
    if not array.ndim:
        return array
    return array[tuple(slice(0, 1) if s == 0 else slice(None) for s in array.strides)]


def rows_ascend(starts: Array, numbers: Array) -> bool:
    """True where ``numbers[starts[i]:starts[i + 1]]`` ascend in every row i, none of them twice."""
    begins = np.zeros(len(numbers) + 1, bool)
    begins[starts] = True
    return bool(begins[np.flatnonzero(numbers[1:] <= numbers[:-1]) + 1].all())


def distinct(numbers: Array, limit: int) -> tuple[Array, Array]:
    """The distinct ones of whole numbers from 0 to ``limit - 1``, ascending, and how often each occurs."""
    if limit > SPARSE * len(numbers):
        return np.unique(numbers, return_counts=True)
    counts = np.bincount(numbers, minlength=limit)
    found = np.flatnonzero(counts)
    return found, counts[found]


def weighted_sum(values: npt.ArrayLike, weights: npt.ArrayLike) -> Any:
    """The sum of ``values * weights`` over the last axis, the same to the last bit on every processor.

    ``@`` adds numbers with a fraction in an order that BLAS chooses for the processor: equal costs then differ in the
    last digit, and a search that takes the least of them ends elsewhere.
    """
    return np.multiply(values, weights, dtype=np.float64).sum(axis=-1)


def kept(cache: dict[int, Value], key: int, make: Callable[[], Value]) -> Value:
    """The value of a key, of a cache of the last few; two threads may both make it."""
    value = cache.get(key)
    if value is None:
        value = make()
        if len(cache) >= KEPT:
            cache.clear()
        cache[key] = value
    return value


def all_finite(array: Array) -> bool:
    """True if every element is finite; quick for single numbers, which most parameters of neurons are."""
    if array.dtype.kind in "iub":
        return True
    core = stored_part(array) if 0 in array.strides else array
    if core.size == 1 and core.dtype.kind == "f":
        return math.isfinite(core.item())
    with np.errstate(over="ignore", invalid="ignore"):  # a finite sum needs no array of flags
        return bool(np.isfinite(core.sum())) or bool(np.isfinite(core).all())


def compact(values: npt.ArrayLike, dtype: npt.DTypeLike | None = None) -> Array:
    """``freeze``, and where all values are equal one value of shape ``()``."""
    array = np.asarray(values, dtype=dtype)
    if array.size and array.ndim and bool(np.all(array == array.flat[0])):
        array = np.asarray(array.flat[0])
    return freeze(array)


def same_array(a: Array | None, b: Array | None) -> bool:
    """True if shapes, dtypes and every bit of the values agree (so ``0.0`` is not ``-0.0``)."""
    if a is None or b is None:
        return a is b
    same_form = a.shape == b.shape and a.dtype == b.dtype
    return same_form and np.ascontiguousarray(a).tobytes() == np.ascontiguousarray(b).tobytes()
