"""Sum pools that a chip's integers hold within their weights, taken out again: equal weights of a window, once."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from nirbridge._types import Shape
from nirbridge.arrays import Array, freeze
from nirbridge.network.operators import Conv, Dense, SumPool

WINDOW_MAX = 16
"""Longest side of a window that is looked for."""


def pool_apart(operator: Any, shape: Shape) -> tuple[SumPool, Dense | Conv] | None:
    """The pool of the largest window whose sums an operator takes, and what it makes of them; None: of none.

    The sums are the same: in integers, their order does not matter. ``shape``: of the source, ``[channels, y, x]``.
    """
    if len(shape) != 3:
        return None
    for side in range(min(*shape[1:], WINDOW_MAX), 1, -1):
        rest = None
        if shape[1] % side == 0 and shape[2] % side == 0:
            rest = _dense(operator, shape, side) if isinstance(operator, Dense) else _conv(operator, side)
        if rest is not None:
            none = ((0, 0), (0, 0))
            return SumPool((side, side), (side, side), none, shape), rest
    return None


def _dense(operator: Dense, shape: Shape, side: int) -> Dense | None:
    weight = _once(operator.weight.reshape(-1, *shape), side)
    return None if weight is None else Dense(freeze(weight.reshape(len(operator.weight), -1)))


def _conv(operator: Any, side: int) -> Conv | None:
    if not isinstance(operator, Conv) or len(operator.kernel) != 2 or operator.dilation != (1, 1):
        return None
    lengths = (*operator.kernel, *operator.stride, *(n for pair in operator.padding for n in pair))
    weight = _once(operator.weight, side) if not any(n % side for n in lengths) else None
    if weight is None:
        return None
    channels, *image = operator.input_shape
    padding = tuple((low // side, high // side) for low, high in operator.padding)
    stride, pooled = (tuple(n // side for n in x) for x in (operator.stride, image))
    return replace(operator, weight=freeze(weight), stride=stride, padding=padding, input_shape=(channels, *pooled))


def _once(weight: Array, side: int) -> Array | None:
    """One weight of each window of the last two axes; None where some differ."""
    *first, rows, columns = weight.shape
    windows = weight.reshape(*first, rows // side, side, columns // side, side)
    one = windows[..., :1, :, :1]
    return one[..., 0, :, 0] if bool((windows == one).all()) else None
