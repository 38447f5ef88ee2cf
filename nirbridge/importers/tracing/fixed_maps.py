"""Lowering of linear maps with fixed weights: paddings, resampling, shuffles, adaptive pools, sums over axes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np

from nirbridge._types import Shape
from nirbridge.arrays import Array, freeze
from nirbridge.importers.tracing.arguments import (
    CannotFollow,
    Find,
    FlowValue,
    Handler,
    LoweredOp,
    call_argument,
    constant_argument,
    input_of,
    per_axis,
)
from nirbridge.importers.tracing.recorder import TracedCall

_UNITS_MAX = 2**22
"""Numbers of the images of all unit vectors, up to which a resampling with weights is computed."""

_IMAGE_AXES = 3


# -- selections ----------------------------------------------------------------------------------------------------


def _picked(node: TracedCall, find: Find) -> LoweredOp:
    """A function that moves the values of one sample, and puts constants beside them."""
    import torch

    x = input_of(node, find)
    numbers = torch.arange(1.0, math.prod(x.shape) + 1, dtype=torch.float64).reshape(_alone(x))
    constants = _called(node, torch.zeros_like(numbers))
    positions = _called(node, numbers) - constants - 1
    if not np.array_equal(positions, np.round(positions)):
        raise CannotFollow("it computes with the values that it moves")
    arguments = {"indices": freeze(positions.reshape(positions.shape[len(x.lead) :]), np.int64)}
    if not np.any(constants):
        return LoweredOp("gather", arguments, (x,))
    return LoweredOp("pad", {**arguments, "constant": freeze(constants.reshape(constants.shape[len(x.lead) :]))}, (x,))


def _alone(x: FlowValue) -> Shape:
    """The shape of one sample with its leading axes."""
    return (*(1,) * len(x.lead), *x.shape)


def _called(node: TracedCall, x: Any) -> Array:
    return node.func(x, *node.args[1:], **dict(node.kwargs)).numpy()


def _pad(node: TracedCall, find: Find) -> LoweredOp:
    x = input_of(node, find)
    if len(call_argument(node, 1, "pad")) // 2 > len(x.shape):
        raise CannotFollow("a padding of the batch or of the time axis", "pad the values of each sample alone")
    return _picked(node, find)


def _interpolate(node: TracedCall, find: Find) -> LoweredOp:
    x = input_of(node, find)
    if len(x.lead) != 1:
        raise CannotFollow(f"a resampling of values of shape {x.whole}", "give it one batch axis, then channels")
    if call_argument(node, 3, "mode", "nearest") in ("nearest", "nearest-exact"):
        return _picked(node, find)
    return _weighted(node, x)


def _weighted(node: TracedCall, x: FlowValue) -> LoweredOp:
    """The matrix of a map that acts on every channel alike, from the images of unit vectors."""
    import torch

    channels, size = x.shape[0], math.prod(x.shape[1:])
    out = math.prod(node.shapes[0][len(x.lead) + 1 :])
    if size * out > _UNITS_MAX:
        limit = f"matrices of up to {_UNITS_MAX:,} weights are computed"
        raise CannotFollow(f"a resampling from {size:,} to {out:,} values; {limit}", "use mode='nearest'")
    units = torch.eye(size, dtype=torch.float64).reshape(size, 1, *x.shape[1:])
    images = _called(node, units).reshape(size, out)
    rows, columns = np.nonzero(images.T)
    offsets = np.arange(channels)[:, None]
    flat = (offsets * out + rows).reshape(-1), (offsets * size + columns).reshape(-1)
    return matrix_of(x, *flat, node.shapes[0][len(x.lead) :], np.tile(images.T[rows, columns], channels))


def matrix_of(
    x: FlowValue, rows: Array, columns: Array, shape: Shape, values: Any = 1.0, factor: Any = 1.0
) -> LoweredOp:
    """``values`` at (row, column) of a matrix on flat values, then a ``factor`` that broadcasts to ``shape``."""
    order = np.lexsort((columns, rows))
    data = np.broadcast_to(np.asarray(values, np.float64), rows.shape)[order]
    arguments = {
        "rows": freeze(rows[order], np.int64),
        "columns": freeze(columns[order], np.int64),
        "values": freeze(data, np.float32),
        "factor": freeze(factor, np.float64),
        "shape": shape,
    }
    return LoweredOp("matrix", arguments, (x,))


# -- sums ----------------------------------------------------------------------------------------------------------


def sum_over(x: FlowValue, axes: Sequence[int], *, mean: bool) -> LoweredOp:
    """The sum or the mean of values over some of their axes, which stay with size one in images and signals."""
    kept = tuple(1 if k in axes else n for k, n in enumerate(x.shape))
    rows = np.broadcast_to(np.arange(math.prod(kept)).reshape(kept), x.shape).reshape(-1)
    factor = math.prod(kept) / math.prod(x.shape) if mean else 1.0
    shape = kept if len(kept) <= _IMAGE_AXES else tuple(n for k, n in enumerate(kept) if k not in axes)
    return matrix_of(x, rows, np.arange(math.prod(x.shape)), shape, factor=factor)


def uneven_pool(x: FlowValue, sizes: Shape) -> LoweredOp:
    """The means over the windows of an adaptive pool, which overlap or differ in size."""
    spatial = x.shape[1:]
    windows = [_windows(n, size) for n, size in zip(spatial, sizes, strict=True)]
    pattern = windows[0]
    for along in windows[1:]:
        pattern = np.kron(pattern, along)
    rows, columns = np.nonzero(pattern)
    channels, counts = np.arange(x.shape[0])[:, None], pattern.sum(axis=1).reshape(sizes)
    rows, columns = (
        (channels * pattern.shape[0] + rows).reshape(-1),
        (channels * pattern.shape[1] + columns).reshape(-1),
    )
    return matrix_of(x, rows, columns, (x.shape[0], *sizes), factor=1.0 / counts)


def _windows(size: int, count: int) -> Array:
    """Window ``k`` of an axis as torch cuts it: from floor(k n / m) to ceil((k + 1) n / m)."""
    k, places = np.arange(count)[:, None], np.arange(size)
    return ((places >= k * size // count) & (places < -(-(k + 1) * size // count))).astype(np.int64)


# -- transposed convolutions ------------------------------------------------------------------------------------------


def _conv_transpose(node: TracedCall, find: Find) -> LoweredOp:
    x, axes = input_of(node, find), int(node.name[-2])
    if axes > 2 or len(x.shape) != axes + 1:
        raise CannotFollow(f"a transposed convolution of values of shape {x.shape}", "use channels and one or two axes")
    stride, padding, output_padding, dilation = (
        per_axis(call_argument(node, place, name, default), axes)
        for place, name, default in ((3, "stride", 1), (4, "padding", 0), (5, "output_padding", 0), (7, "dilation", 1))
    )
    arguments = {
        "weight": constant_argument(call_argument(node, 1, "weight"), "weight"),
        "bias": constant_argument(call_argument(node, 2, "bias"), "bias"),
        "stride": stride,
        "padding": padding,
        "output_padding": output_padding,
        "dilation": dilation,
        "groups": int(call_argument(node, 6, "groups", 1)),
    }
    return LoweredOp("conv_transpose", arguments, (x,))


MAP_HANDLERS: Mapping[str, Handler] = MappingProxyType(
    {
        **dict.fromkeys(("pad", "constant_pad_nd"), _pad),
        **dict.fromkeys(
            ("channel_shuffle", "pixel_shuffle", "pixel_unshuffle", "unfold", "diag_embed", "diagonal"), _picked
        ),
        **dict.fromkeys(("interpolate", "upsample"), _interpolate),
        **dict.fromkeys(("conv_transpose1d", "conv_transpose2d"), _conv_transpose),
    }
)
"""Function name -> its handler."""
