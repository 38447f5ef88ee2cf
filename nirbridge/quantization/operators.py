"""A chain of linear operators as the one operator that a chip's synapses are: dense, sparse or a convolution. Exact."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from nirbridge.arrays import Array, freeze
from nirbridge.network.apply import matrix
from nirbridge.network.compose import parts_of
from nirbridge.network.operators import Conv, Dense, Operator, Reshape, Sparse, SumPool
from nirbridge.quantization.model import IntegerOperator


def gained_operator(operator: Operator, gain: Array) -> IntegerOperator:
    """``gain * operator`` as one operator on row-major flat arrays; ``gain`` has shape ``()`` or the target's.

    Pools before and after a convolution become taps of it where the borders allow; all else becomes a matrix, dense
    where every entry is a synapse. Weights are float64.

    Raises:
        ModelError: a matrix of too many synapses (see ``network.apply.matrix``).
    """
    parts = [part for part in parts_of(operator) if not isinstance(part, Reshape)]
    if len(parts) == 1 and isinstance(parts[0], Dense):
        return _with_gain(Dense(freeze(parts[0].weight, np.float64)), gain)
    merged = _windows(parts) if len(parts) == len(parts_of(operator)) or _plain_ends(operator) else None
    return _with_gain(merged or _as_matrix(operator), gain)


def _plain_ends(operator: Operator) -> bool:
    """True if reshapes stand only at the ends of the chain, where row-major data does not change."""
    inner = list(parts_of(operator))
    while inner and isinstance(inner[0], Reshape):
        inner.pop(0)
    while inner and isinstance(inner[-1], Reshape):
        inner.pop()
    return not any(isinstance(part, Reshape) for part in inner)


def _windows(parts: Sequence[Operator]) -> Conv | None:
    """One convolution for convolutions and pools, where that is exact."""
    merged: Conv | None = None
    for part in parts:
        if not isinstance(part, Conv | SumPool):
            return None
        merged = _as_conv(part) if merged is None else _merged(merged, part)
        if merged is None:
            return None
    return merged


def _as_conv(part: Conv | SumPool) -> Conv:
    if isinstance(part, Conv):
        return replace(part, weight=freeze(part.weight, np.float64))
    channels = part.input_shape[0]
    weight = np.full((channels, 1, *part.kernel), part.factor)
    return Conv(freeze(weight), part.stride, part.padding, part.dilation, channels, part.input_shape)


def _merged(first: Conv, second: Conv | SumPool) -> Conv | None:
    """``second(first(x))`` where one of the two is a pool (a convolution of each channel with itself)."""
    second_conv = _as_conv(second)
    pool_first = first.groups == first.weight.shape[0] == first.input_shape[0]
    pool_last = second_conv.groups == second_conv.weight.shape[0] == second_conv.input_shape[0]
    if not (pool_first or pool_last) or not _borders_agree(first, second_conv):
        return None
    kernel = tuple(
        (kb - 1) * db * sa + (ka - 1) * da + 1
        for ka, da, sa, kb, db in zip(
            first.kernel, first.dilation, first.stride, second_conv.kernel, second_conv.dilation, strict=True
        )
    )
    weight = np.zeros((second_conv.weight.shape[0], (second_conv if pool_first else first).weight.shape[1], *kernel))
    for tap in np.ndindex(*second_conv.kernel):
        starts = [t * d * s for t, d, s in zip(tap, second_conv.dilation, first.stride, strict=True)]
        for inner in np.ndindex(*first.kernel):
            tap_out = tuple(b + r * d for b, r, d in zip(starts, inner, first.dilation, strict=True))
            weight[(..., *tap_out)] += _tap_product(first, second_conv, inner, tap, pool_first=pool_first)
    stride = tuple(a * b for a, b in zip(first.stride, second_conv.stride, strict=True))
    padding = tuple(_padding(first, second_conv, kernel, stride, axis) for axis in range(len(kernel)))
    if any(high < 0 for _, high in padding):
        return None
    groups = second_conv.groups if pool_first else first.groups
    merged_conv = Conv(freeze(weight), stride, padding, (1,) * len(kernel), groups, first.input_shape)
    return merged_conv if merged_conv.output_shape == second_conv.output_shape else None


def _tap_product(
    first: Conv, second_conv: Conv, inner: tuple[int, ...], tap: tuple[int, ...], *, pool_first: bool
) -> Array:
    """Weights ``[cout, cin of a group]`` of one tap of the first and one of the second."""
    a, b = first.weight[(..., *inner)], second_conv.weight[(..., *tap)]
    if not pool_first:
        return b * a  # [cout, 1] * [cout, cin of a group]
    fan_in = b.shape[1]
    start = np.arange(len(b)) // (len(b) // second_conv.groups) * fan_in
    return b * a[start[:, None] + np.arange(fan_in), 0]


def _borders_agree(first: Conv, second_conv: Conv) -> bool:
    """True if the zero padding of the second convolution equals outputs of the first one beyond its border."""
    for axis, (low, high) in enumerate(second_conv.padding):
        pad, s = first.padding[axis][0], first.stride[axis]
        reach = first.dilation[axis] * (first.kernel[axis] - 1)
        if low > 0 and -s - pad + reach >= 0:
            return False
        if high > 0 and first.output_shape[1 + axis] * s - pad < first.input_shape[1 + axis]:
            return False
    return True


def _padding(
    first: Conv, second_conv: Conv, kernel: tuple[int, ...], stride: tuple[int, ...], axis: int
) -> tuple[int, int]:
    low = second_conv.padding[axis][0] * first.stride[axis] + first.padding[axis][0]
    extent = (second_conv.output_shape[1 + axis] - 1) * stride[axis] + kernel[axis]
    high = extent - first.input_shape[1 + axis] - low
    return low, 0 if -stride[axis] < high < 0 else high


def _as_matrix(operator: Operator) -> Dense | Sparse:
    table = matrix(operator)
    rows, columns = math.prod(operator.output_shape), math.prod(operator.input_shape)
    if len(table.data) == rows * columns:
        return Dense(freeze(table.toarray(), np.float64))
    ends, places = freeze(table.indptr, np.int64), freeze(table.indices, np.int64)
    return Sparse(ends, places, freeze(table.data, np.float64), operator.input_shape, operator.output_shape)


def _with_gain(operator: IntegerOperator, gain: Array) -> IntegerOperator:
    if gain.ndim == 0:
        return with_weights(operator, weights_of(operator) * gain)
    if isinstance(operator, Dense):
        return Dense(freeze(operator.weight * gain.reshape(-1, 1)))
    if isinstance(operator, Conv):
        channels = gain.reshape(operator.weight.shape[0], -1)
        if not np.all(channels == channels[:, :1]):
            return _with_gain(_as_matrix(operator), gain)
        return replace(
            operator, weight=freeze(operator.weight * channels[:, :1].reshape(-1, *(1,) * (operator.weight.ndim - 1)))
        )
    rows = np.repeat(np.arange(len(operator.indptr) - 1), np.diff(operator.indptr))
    return replace(operator, data=freeze(operator.data * gain.reshape(-1)[rows]))


def weights_of(operator: IntegerOperator) -> Array:
    """The stored weights of an operator."""
    return operator.data if isinstance(operator, Sparse) else operator.weight


def with_weights(operator: IntegerOperator, weights: Array) -> IntegerOperator:
    """The operator with other weights of the same shape."""
    if isinstance(operator, Sparse):
        return replace(operator, data=freeze(weights))
    return replace(operator, weight=freeze(weights))
