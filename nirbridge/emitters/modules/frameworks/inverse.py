"""Parameters of a framework's neurons, from the coefficients that the framework computes of them."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from nirbridge.arrays import Array, compact

_TRIES = 4
"""Neighbours of the quotient that are tried on either side; the product of one moves by half an ulp at least."""


def factor_of(product: float, factor: float) -> float:
    """The number whose product with ``factor`` in float64 is ``product``, or else is nearest to it.

    Not every number is such a product: products of neighbours differ by up to two ulp.
    """
    return min(_around(product / factor), key=lambda x: abs(factor * x - product))


def single_factors_of(product: Array, factor: float) -> tuple[Array, Array]:
    """(factors, products): float32 numbers whose products with ``factor`` in float32 are nearest to ``product``."""
    known, target = np.float32(factor), np.asarray(product, np.float64)
    best = (target / np.float64(known)).astype(np.float32)
    error = np.abs((known * best).astype(np.float64) - target)
    for toward in (-np.inf, np.inf):
        tried = (target / np.float64(known)).astype(np.float32)
        for _ in range(_TRIES):
            tried = np.nextafter(tried, np.float32(toward))
            off = np.abs((known * tried).astype(np.float64) - target)
            best, error = np.where(off < error, tried, best), np.minimum(off, error)
    return best, np.asarray(known * best, np.float64)


def time_constant_of(decay: float, share: float) -> float:
    """The tau, in time steps, of ``1 - 1/tau = decay``, and of ``1/tau = share`` where one of these is; else near."""
    if share == 0.0:
        return math.inf
    taus = [tau for tau in _around(1.0 / share) if 1.0 - 1.0 / tau == decay]
    return next((tau for tau in taus if 1.0 / tau == share), taus[0] if taus else 1.0 / share)


def _around(x: float) -> Iterator[float]:
    """A number and its neighbours, the nearest first."""
    yield x
    below = above = x
    for _ in range(_TRIES):
        below, above = math.nextafter(below, -math.inf), math.nextafter(above, math.inf)
        yield below
        yield above


def same_single(a: Array | float, b: Array | float) -> bool:
    """True if both are the same numbers in float32, in which the reference and the frameworks compute."""
    return bool(np.all(np.asarray(a, np.float32) == np.asarray(b, np.float32)))


def is_all(array: Array, value: float) -> bool:
    """True if every element is this number."""
    return bool(np.all(array == value))


def unless(array: Array, value: float) -> Array | None:
    """The array; None where every element is this number in float32."""
    return None if same_single(array, value) else compact(array)
