"""Functions that move values about (reshapes, permutations, slices), and other linear maps with fixed weights."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import numpy as np

from nirbridge._types import Shape
from nirbridge.arrays import Array, freeze
from nirbridge.importers.sample import WAY_OUT
from nirbridge.importers.tracing.arguments import (
    IN_FRONT,
    CannotFollow,
    Find,
    FlowValue,
    Handler,
    Lead,
    LoweredOp,
    call_argument,
    constant_argument,
    input_of,
    later,
    per_axis,
)
from nirbridge.importers.tracing.recorder import TracedCall, TracedValue, values_of
from nirbridge.importers.tracing.structures import torch_tensor
from nirbridge.importers.tracing.time_loop import STATIC, TimeLoop
from nirbridge.importers.tracing.values import AxisSlice, slice_of

_RESHAPES = frozenset(
    {"flatten", "view", "reshape", "unsqueeze", "squeeze", "unflatten", "view_as", "reshape_as", "ravel"}
)
_PERMUTES = frozenset({"permute", "transpose", "t", "T", "mT", "movedim", "moveaxis", "swapaxes", "swapdims"})
_PICKS = frozenset({
    "__getitem__", "select", "narrow", "unbind", "chunk", "split", "tensor_split", "index_select", "flip", "roll",
    "rot90", "fliplr", "flipud", "expand", "expand_as", "repeat", "repeat_interleave", "tile", "take_along_dim",
})  # fmt: skip
_LIKE = frozenset({"view_as", "reshape_as", "expand_as"})
"""Functions that look at the shape of their second argument only."""
_REPEATS = frozenset({"expand", "expand_as", "repeat", "repeat_interleave", "tile"})
MOVES = _RESHAPES | _PERMUTES | _PICKS


def lower_move(node: TracedCall, value: TracedValue, x: FlowValue, iterations: TimeLoop) -> LoweredOp:
    """The word for output ``value.output`` of a function that moves values.

    Raises:
        CannotFollow: it mixes samples or time steps, or takes one of them.
    """
    shape = node.shapes[value.output]
    args, kwargs = node.args[1:], dict(node.kwargs)
    if node.name in _RESHAPES and x.order:
        return LoweredOp("reshape", {}, (x,), x.lead, reshaped_in_place(x.arranged, x.lead, x.order, shape))
    if node.name in _RESHAPES:
        return LoweredOp("reshape", {}, (x,), reshape_lead(x.whole, x.lead, shape))
    if node.name in _PERMUTES:
        order = permutation(node.func, args, kwargs, len(x.whole))
        return _arranged(x, x.lead, [x.order[k] for k in order] if x.order else order, x.arranged)
    step = _step(value, x, iterations) or _every_step(node.name, shape, x)
    if step is not None:
        return step
    if node.name == "expand_as":
        args, kwargs = (shape,), {}
    func = torch_tensor().expand if node.name == "expand_as" else node.func
    if x.order:
        return _picked_in_place(func, args, kwargs, value, x)
    indices = picked_positions(func, args, kwargs, value.output, x.whole, x.lead)
    return LoweredOp("gather", {"indices": indices}, (x,))


def _picked_in_place(
    func: Any, args: Sequence[Any], kwargs: dict[str, Any], value: TracedValue, x: FlowValue
) -> LoweredOp:
    """A selection among the values of which batch or time is not leading.

    Raises:
        CannotFollow: it takes some of several axes, or mixes batch or time with values.
    """
    import torch

    taken, order = slice_of(value), list(x.order)
    positions = torch.arange(math.prod(x.whole)).reshape(x.arranged).permute(order)
    out = func(positions, *args, **kwargs)
    out = out[value.output] if isinstance(out, tuple | list) else out
    if taken is not None and not taken.is_kept:
        axis = order.pop(taken.axis)
        order = [k - (k > axis) for k in order]
    if out.ndim != len(order):
        raise CannotFollow("it selects some values, and batch or time is not leading", IN_FRONT)
    arranged = out.permute([order.index(k) for k in range(len(order))])
    indices = _same_positions(arranged, x.arranged, len(x.lead))
    if not is_in_front(x.lead, order):
        return LoweredOp("gather", {"indices": indices}, (x,), x.lead, tuple(order))
    lead = tuple(x.lead[k] for k in order[: len(x.lead)])
    values = indices.transpose([k - len(x.lead) for k in order[len(x.lead) :]])
    return LoweredOp("gather", {"indices": freeze(values, np.int64)}, (x,), lead)


def _step(value: TracedValue, x: FlowValue, iterations: TimeLoop) -> LoweredOp | None:
    """A slice of the time axis: the time step of this iteration."""
    taken = slice_of(value)
    if taken is None:
        return None
    axis = x.order[taken.axis] if x.order else taken.axis
    lag = iterations.lags.get((value.node.index, value.output), 0)
    moves = lag or (taken.index == iterations.last and value.node.index in iterations.stepped)
    moves = iterations.iterations > 1 and bool(moves)
    if axis >= len(x.lead):
        if x.arranged[axis] == 1 and iterations.age(taken.parent) == STATIC:
            iterations.only_parts.add(value.node.index)
        if moves and not _is_repeated(taken):
            raise CannotFollow("it takes a slice that moves with the loop, along an axis of values", WAY_OUT)
        return None
    if x.lead[axis] != "time":
        raise CannotFollow("it takes one sample out of the batch", f"treat every sample alike, or {WAY_OUT}")
    size = x.arranged[axis]
    is_last = taken.index == size - 1 and iterations.age(taken.parent) != STATIC
    if not (moves or size == 1 or is_last or (iterations.iterations > 1 and iterations.ages[value.node.index] >= 0)):
        found = f"it takes time step {taken.index} of a sequence, not one after the other"
        raise CannotFollow(found, f"loop over all time steps, or {WAY_OUT}")
    iterations.follows_time |= moves
    iterations.time_steps = max(iterations.time_steps, size if moves else 0)
    return _without_step(later(x, lag), taken, axis, is_last=is_last and not moves and size > 1)


def _without_step(x: FlowValue, taken: AxisSlice, axis: int, *, is_last: bool) -> LoweredOp:
    """The value of one time step: its time axis is gone, or has size one."""
    if taken.is_kept:
        return LoweredOp("same", {}, (x,), x.lead, x.order, is_last)
    lead = (*x.lead[:axis], *x.lead[axis + 1 :])
    if not x.order:
        return LoweredOp("same", {}, (x,), lead, (), is_last)
    order = [k - (k > axis) for k in x.order if k != axis]
    shape = (*x.arranged[:axis], *x.arranged[axis + 1 :])
    return replace(_arranged(x, lead, order, shape), is_last=is_last)


def _arranged(x: FlowValue, lead: Lead, order: Sequence[int], shape: Shape) -> LoweredOp:
    """The value with its axes in another order; ``shape``: with batch and time in front."""
    if not is_in_front(lead, order):
        return LoweredOp("same", {}, (x,), lead, tuple(order))
    words, indices = permute_lead(shape, lead, order)
    return LoweredOp("same" if indices is None else "gather", {"indices": indices}, (x,), words)


def _is_repeated(taken: AxisSlice) -> bool:
    """True if all slices along the axis are equal, because it was made by repeating one."""
    node = taken.parent.node
    source = node.args[0] if node.args else None
    if node.name not in _REPEATS or not isinstance(source, TracedValue):
        return False
    axis = taken.axis - len(taken.parent.shape) + len(source.shape)
    return axis < 0 or source.shape[axis] == 1


def _every_step(name: str, shape: Shape, x: FlowValue) -> LoweredOp | None:
    """One value for all steps: a time axis of one that is repeated, or a new axis in front."""
    if name not in _REPEATS or x.order:
        return None
    if "time" not in x.lead and shape[1:] == x.whole:
        return LoweredOp("same", {}, (x,), ("time", *x.lead))
    ones = [k for k, word in enumerate(x.lead) if word == "time" and x.whole[k] == 1]
    is_longer = any(shape == (*x.whole[:k], shape[k], *x.whole[k + 1 :]) for k in ones if len(shape) == len(x.whole))
    return LoweredOp("same", {}, (x,), x.lead) if is_longer else None


def moved_input(node: TracedCall) -> TracedValue:
    """The value that is moved.

    Raises:
        CannotFollow: a constant is moved by a value.
    """
    value = call_argument(node, 0, "input")
    count = len(list(values_of((node.args, dict(node.kwargs)))))
    if not isinstance(value, TracedValue) or (node.name not in _LIKE and count > 1):
        raise CannotFollow("positions that are computed from the input", "use fixed ones")
    return value


# --- leading axes after a rearrangement ----------------------------------------------------------------------------


def reshape_lead(shape: Shape, lead: Lead, new: Shape) -> Lead:
    """The leading axes after a reshape from ``shape`` to ``new``.

    Raises:
        CannotFollow: it mixes batch or time with the values.
    """
    axes, features = shape[: len(lead)], math.prod(shape[len(lead) :])
    merged = "merged" if lead[:1] == ("time",) else "merged-batch-first"
    if new[: len(lead)] == axes:
        return lead
    options: list[tuple[Shape, Lead]] = [((), ())]
    ones = [k for k, word in enumerate(lead) if word == "time" and axes[k] == 1]
    options = [((*axes[:k], *axes[k + 1 :]), (*lead[:k], *lead[k + 1 :])) for k in ones] or options
    if len(lead) == 2:
        options.append(((axes[0] * axes[1],), (merged,)))
    if lead in (("merged",), ("merged-batch-first",)):
        words = ("time", "batch") if lead == ("merged",) else ("batch", "time")
        options = [((a, axes[0] // a), words) for a in range(1, axes[0] + 1) if axes[0] % a == 0]
    if axes and axes[0] == 1:
        options.append((axes[1:], lead[1:]))
    for sizes, words in options:
        if (
            new[: len(sizes)] == sizes
            and math.prod(new[len(sizes) :]) == features
            and math.prod(axes) == math.prod(sizes)
        ):
            return words
    if new[:1] == (1,) and new[1 : 1 + len(axes)] == axes and "time" not in lead:
        return ("time", *lead)
    raise CannotFollow(f"a reshape from {shape} to {new} mixes batch or time with values", "keep the batch axis")


def permutation(func: Any, args: Sequence[Any], kwargs: dict[str, Any], rank: int) -> tuple[int, ...]:
    """The order of axes that a transposing function gives."""
    import torch

    primes = (2, 3, 5, 7, 11, 13, 17, 19)[:rank]
    small = torch.empty(primes, device="meta")
    out: Any = func(small, *args, **kwargs)
    return tuple(primes.index(n) for n in out.shape)


def is_in_front(lead: Lead, order: Sequence[int]) -> bool:
    """True if an order of axes has batch and time before the values."""
    return set(order[: len(lead)]) == set(range(len(lead)))


def reshaped_in_place(arranged: Shape, lead: Lead, order: Sequence[int], new: Shape) -> tuple[int, ...]:
    """The order of axes after a reshape of a value whose batch or time stands among its values.

    An axis is still there if one of the new axes has its size and its stride.

    Raises:
        CannotFollow: it mixes batch or time with the values.
    """
    old = tuple(arranged[k] for k in order)
    axis_at: dict[int, int] = {}
    for place, axis in enumerate(order):
        extent = (old[place], math.prod(old[place + 1 :]))
        fitting = [k for k, n in enumerate(new) if (n, math.prod(new[k + 1 :])) == extent and k not in axis_at]
        if axis < len(lead) and not fitting:
            raise CannotFollow(f"a reshape from {old} to {new} mixes batch or time with values", "move them in front")
        axis_at |= {fitting[0]: axis} if axis < len(lead) else {}
    values = iter(range(len(lead), len(new)))
    return tuple(axis_at[k] if k in axis_at else next(values) for k in range(len(new)))


def permute_lead(shape: Shape, lead: Lead, order: Sequence[int]) -> tuple[Lead, Array | None]:
    """(Leading axes, gather of the values or None where they stay) after a permutation with the former in front."""
    front = tuple(order[: len(lead)])
    rest = [k - len(lead) for k in order[len(lead) :]]
    words = tuple(lead[k] for k in front)
    if rest == sorted(rest):
        return words, None
    features = shape[len(lead) :]
    positions = np.arange(math.prod(features)).reshape(features).transpose(rest)
    return words, freeze(positions, np.int64)


def picked_positions(
    func: Any, args: Sequence[Any], kwargs: dict[str, Any], output: int, shape: Shape, lead: Lead
) -> Array:
    """The positions of the values that a slicing function leaves, batch and time left alone.

    Raises:
        CannotFollow: it slices batch or time.
    """
    import torch

    positions = torch.arange(math.prod(shape)).reshape(shape)
    out = func(positions, *args, **kwargs)
    return _same_positions(out[output] if isinstance(out, tuple | list) else out, shape, len(lead))


def _same_positions(out: Any, shape: Shape, n: int) -> Array:
    """The positions of values, of positions in all samples and time steps; ``n``: how many axes are no values.

    Raises:
        CannotFollow: it slices batch or time.
    """
    import torch

    features = math.prod(shape[n:])
    if tuple(out.shape[:n]) != shape[:n]:
        raise CannotFollow("it takes a part of the batch or of the time axis", "treat every sample and time step alike")
    first = out[(0,) * n]
    starts = torch.arange(math.prod(shape[:n])).reshape(*shape[:n], *(1,) * first.ndim) * features
    if not bool((out == first + starts).all()):
        raise CannotFollow("it mixes samples or time steps", "treat every sample and time step alike")
    return freeze(first.numpy(), np.int64)


# -- fixed maps ----------------------------------------------------------------------------------------------------
# Lowering of linear maps with fixed weights: paddings, resampling, shuffles, adaptive pools, sums over axes.


_UNITS_MAX = 2**22
"""Numbers of the images of all unit vectors, up to which a resampling with weights is computed."""


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
    x: FlowValue | LoweredOp, rows: Array, columns: Array, shape: Shape, values: Any = 1.0, factor: Any = 1.0
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
    """The sum or the mean of values over some of their axes, which stay with size one."""
    kept = tuple(1 if k in axes else n for k, n in enumerate(x.shape))
    rows = np.broadcast_to(np.arange(math.prod(kept)).reshape(kept), x.shape).reshape(-1)
    factor = math.prod(kept) / math.prod(x.shape) if mean else 1.0
    return matrix_of(x, rows, np.arange(math.prod(x.shape)), kept, factor=factor)


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
