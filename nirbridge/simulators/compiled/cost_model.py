"""Which way to multiply spikes with a dense matrix: event by event, or one product over all items (BLAS).

BLAS keeps no order of sums, so it is only used where every sum is exact in any order: weights on a grid of a power of
two and sums that the float type holds, or where the caller asks for it. Coefficients in nanoseconds were fitted to 64
measured points (8 shapes, 2 item counts, 4 densities) on one core of a 2024 server; only their ratios matter. At 58 of
the 64 the quicker way was chosen, and all of them together took 0.5 % longer than the best choice would have.
"""

from __future__ import annotations

import numpy as np

from nirbridge.arrays import Array

_BITS = {"float32": 24, "float64": 53}
_FINEST = 40


def event_coefficients(items: int, pre: int, post: int) -> tuple[float, float]:
    """Predicted time of the event-driven product without events, and per event; ``post`` is padded to whole blocks."""
    return items * (34 + 0.24 * pre + 0.40 * post), 0.75 + 0.0276 * post


def product_ns(items: int, pre: int, post: int) -> float:
    """Predicted time of casting the spikes and of one BLAS product."""
    return items * (8 + 0.244 * pre + 0.0190 * pre * post)


def exact_bound(weight: Array) -> float:
    """The largest integer input for which every sum over ``weight: [post, pre]`` is exact in its type, in any order.

    0 where the weights are on no grid of a power of two (down to 2**-40) that leaves room.
    """
    bits = _BITS[str(weight.dtype)]
    wide = np.abs(weight.astype(np.float64))
    largest = float(wide.max(initial=0.0))
    if largest == 0.0:
        return float(2**bits)
    if not np.isfinite(largest):
        return 0.0
    grid = _grid(wide, max(bits - int(np.frexp(largest)[1]), 0))
    if grid is None:
        return 0.0
    return float(np.floor(2.0 ** (bits - grid) / float(wide.sum(axis=1).max())))


def _grid(values: Array, most: int) -> int | None:
    """The smallest k from 0 for which all values are multiples of 2**-k, None beyond ``most`` or the finest grid.

    ``most`` leaves the values below 2**53 when they are multiplied by 2**most.
    """
    finest = min(most, _FINEST)
    scaled = values * 2.0**finest
    integers = scaled.astype(np.int64)
    if not np.array_equal(integers, scaled):
        return None
    bits = int(np.bitwise_or.reduce(integers, axis=None))
    return max(finest - ((bits & -bits).bit_length() - 1), 0)
