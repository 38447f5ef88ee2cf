"""Linear maps with fixed weights that are no layer of NIR, as selections, sparse matrices and convolutions."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from types import MappingProxyType

import numpy as np

from nirbridge._types import Shape
from nirbridge.arrays import Array, freeze
from nirbridge.importers.dataflow import Operation
from nirbridge.importers.lowering.linear_layers import (
    LAYERS,
    Expression,
    apply_operator,
    per_channel_values,
    scale_expression,
)
from nirbridge.importers.lowering.selections import selection_operator
from nirbridge.network.operators import Conv, Sparse


def _matrix(call: Operation, e: Expression) -> Expression:
    a = call.arguments
    found = matrix_sums(call, e)
    return found if bool(np.all(a["factor"] == 1)) else scale_expression(found, a["factor"], call.name)


def matrix_sums(call: Operation, e: Expression) -> Expression:
    """The sums of a ``matrix`` call without the factor after them."""
    a = call.arguments
    counts = np.bincount(a["rows"], minlength=math.prod(a["shape"]))
    indptr = freeze(np.concatenate([[0], np.cumsum(counts)]), np.int64)
    return apply_operator(e, Sparse(indptr, a["columns"], a["values"], e.shape, a["shape"]), call.name)


def padded(e: Expression, margins: list[tuple[int, int]], name: str) -> Expression:
    """The values with zeros before and after them along each spatial axis."""
    spread = _spread(e.shape, (1,) * len(margins), margins)
    return e if spread is None else apply_operator(e, spread, name)


def _conv_transpose(call: Operation, e: Expression) -> Expression:
    """Zeros between the values, then a convolution with the opposite weights."""
    a = call.arguments
    weight = _opposite(np.asarray(a["weight"], np.float32), a["groups"])
    lows, highs = _margins(a, weight.shape[2:])
    padding = tuple(min(low, high) if min(low, high) > 0 else 0 for low, high in zip(lows, highs, strict=True))
    rest = [(low - p, high - p) for low, high, p in zip(lows, highs, padding, strict=True)]
    spread = _spread(e.shape, a["stride"], rest)
    if spread is not None:
        e = apply_operator(e, spread, call.name)
    ones = (1,) * len(padding)
    operator = Conv(freeze(weight), ones, tuple((p, p) for p in padding), a["dilation"], a["groups"], e.shape)
    return apply_operator(e, operator, call.name, per_channel_values(a["bias"], operator.output_shape))


def _opposite(weight: Array, groups: int) -> Array:
    """``[cin, cout // groups, *kernel]`` as ``[cout, cin // groups, *kernel]``, its kernels turned around."""
    cin, own, *kernel = weight.shape
    parts = weight.reshape(groups, cin // groups, own, *kernel).swapaxes(1, 2)
    turned = np.flip(parts, axis=tuple(range(3, parts.ndim)))
    return np.ascontiguousarray(turned.reshape(groups * own, cin // groups, *kernel))


def _margins(a: Mapping[str, tuple[int, ...]], kernel: Shape) -> tuple[list[int], list[int]]:
    """Zeros before and after the values along each axis; below 0: values that are cut off."""
    lows = [d * (k - 1) - p for d, k, p in zip(a["dilation"], kernel, a["padding"], strict=True)]
    return lows, [low + more for low, more in zip(lows, a["output_padding"], strict=True)]


def _spread(shape: Shape, stride: Shape, margins: list[tuple[int, int]]) -> Sparse | None:
    """The values ``stride`` apart, with margins of zeros or without some at the edges; None where nothing changes."""
    if all(s == 1 for s in stride) and not any(map(any, margins)):
        return None
    positions = np.arange(math.prod(shape)).reshape(shape)
    for axis, (s, (low, high)) in enumerate(zip(stride, margins, strict=True), 1):
        count = positions.shape[axis]
        spread_shape = [n if k != axis else (count - 1) * s + 1 for k, n in enumerate(positions.shape)]
        spread = np.full(spread_shape, -1)
        spread[(slice(None),) * axis + (slice(None, None, s),)] = positions
        widths = [(max(low, 0), max(high, 0)) if k == axis else (0, 0) for k in range(positions.ndim)]
        padded = np.pad(spread, widths, constant_values=-1)
        end = padded.shape[axis] + min(high, 0)
        positions = padded[(slice(None),) * axis + (slice(max(-low, 0), end),)]
    rows = np.flatnonzero(positions.reshape(-1) >= 0)
    return selection_operator(rows, positions.reshape(-1)[rows], shape, positions.shape)


ALL_LAYERS: Mapping[str, Callable[[Operation, Expression], Expression]] = MappingProxyType(
    {**LAYERS, "matrix": _matrix, "conv_transpose": _conv_transpose}
)
"""Kind of an operation with one input -> its effect on an expression."""
