"""Values that are moved along the time axis: shifts, paddings and convolutions over time, as delays.

``FlowValue.at`` holds the time step of each index of the time axis. If these are all time steps from the first one on,
after some zeros, the value is a delayed one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from nirbridge.arrays import Array, freeze
from nirbridge.importers.tracing.arguments import (
    CannotFollow,
    Find,
    FlowValue,
    LoweredOp,
    call_argument,
    constant_argument,
    later,
)
from nirbridge.importers.tracing.recorder import RING, TracedCall, TracedValue, values_of
from nirbridge.importers.tracing.shape_ops import MOVES
from nirbridge.importers.tracing.structures import torch_tensor

MOVED = "its values are moved along time, and are no longer one for each time step"
PAD = "pad in front alone (right_padding = 0), or cut what comes after the input's last time step"
_MOVES = MOVES | {"pad", "constant_pad_nd", "cat", "concat", "concatenate", "stack", RING, "__setitem__", "zero_"}
_LEADS = ((), ("time",), ("batch",), ("time", "batch"), ("batch", "time"))
_ROUND = "round the positions before the import, as DCLS does for inference: P.round_(), SIG.zero_(), version 'max'"


def settled(x: FlowValue, at: Sequence[int], steps: int) -> FlowValue:
    """The value with the time steps ``at`` along its time axis, of ``steps`` in all; delayed, where it is just that."""
    if not at:
        return x
    late = next((k for k, step in enumerate(at) if step >= 0), steps)
    if late < steps == len(at) and tuple(at) == (*(-1,) * late, *range(steps - late)):
        return later(x, late)
    return replace(x, at=tuple(at))


def moved_text(x: FlowValue, steps: int) -> str:
    """What a value is of which the time steps are moved, in a message."""
    is_longer = len(x.at) != steps
    return f"{len(x.at)} time steps, where the input has {steps}" if is_longer else "values moved along time, no delay"


def keeps_time(word: LoweredOp) -> bool:
    """True if each value of an operation is one of the same index of the time axis."""
    moved = [x for x in word.values if x.at]
    leads = [x.lead if word.lead is None else word.lead for x in moved]
    is_kept = all(("time" in x.lead) == ("time" in lead) for x, lead in zip(moved, leads, strict=True))
    return not moved or (word.kind in ("same", "reshape", "gather") and is_kept)


def moved_in_time(node: TracedCall, output: int, find: Find, steps: int) -> LoweredOp | None:
    """A function that moves one value along time, or sums its time steps with fixed weights; None for any other.

    Raises:
        CannotFollow: a convolution over time that no delays express.
    """
    values = list(dict.fromkeys(values_of((node.args, dict(node.kwargs)))))
    found = {value: find(value) for value in values} if steps else {}
    first = next(iter(found.values()), None)
    if first is None or any((x.ref, x.shape) != (first.ref, first.shape) or x.summed for x in found.values()):
        return None
    if any(x.lead not in _LEADS or ("time" not in x.lead and not x.at) for x in found.values()):
        return None
    if node.name == "conv1d":
        return _convolution(node, first, steps)
    return _moved(node, output, found) if node.name in _MOVES else None


def _axes(x: FlowValue) -> list[Any]:
    """For each axis of a value: ``batch``, ``time``, or the number of the axis of values."""
    names = [*x.lead, *range(len(x.shape))]
    return [names[k] for k in x.order] if x.order else names


def _times(x: FlowValue) -> Sequence[int]:
    """The time step at each index of the time axis."""
    return x.at or range(x.arranged[x.lead.index("time")])


# -- moves ---------------------------------------------------------------------------------------------------------
# The function is run on numbers that say of which sample, time step and position each one is, and 0 for zeros; then on
# the same times -0.5, which maxima, sorting, relu and rounding do not only move.


def _moved(node: TracedCall, output: int, found: dict[TracedValue, FlowValue]) -> LoweredOp | None:
    first = max(found.values(), key=lambda x: len(x.lead))
    size, most = math.prod(first.shape), max(max(_times(x)) for x in found.values()) + 1
    codes = {value: _codes(x, size, most) for value, x in found.items()}
    try:
        once, half = (_result(node, output, {v: c * factor for v, c in codes.items()}) for factor in (1, -0.5))
    except (RuntimeError, TypeError, ValueError, IndexError, AttributeError):
        return None
    axes = _axes(first)
    if once.ndim == len(axes) - 1:
        axes = [axis for axis in axes if axis != "time"]
    elif once.ndim == len(axes) + 1 and "time" not in axes:
        axes.insert(int(call_argument(node, 1, "dim", 0)) % once.ndim, "time")
    at = _decoded(once, axes, size, most) if once.ndim == len(axes) and np.array_equal(half, -0.5 * once) else None
    if at is None:
        return None
    lead, numbers = [word for word in axes if isinstance(word, str)], [k for k in axes if not isinstance(k, str)]
    names = [*lead, *numbers]
    order = tuple(names.index(word) for word in axes)
    is_turned = order != tuple(range(len(order)))
    return LoweredOp("same", {}, (replace(first, at=()),), tuple(lead), order if is_turned else (), at=at)


def _codes(x: FlowValue, size: int, most: int) -> Array:
    batch, steps, places = (_along(x.whole, _axes(x), kind) for kind in ("batch", "time", "values"))
    steps = np.asarray(_times(x))[steps]
    return np.where(steps < 0, 0.0, 1.0 + (batch * most + steps) * size + places)


def _along(shape: Sequence[int], axes: Sequence[Any], kind: str) -> Array:
    """For each element its index along the batch or the time axis, or its position among the values."""
    mine = [not isinstance(axis, str) if kind == "values" else axis == kind for axis in axes]
    sizes = [n if own else 1 for n, own in zip(shape, mine, strict=True)]
    return np.broadcast_to(np.arange(math.prod(sizes)).reshape(sizes), tuple(shape))


def _decoded(codes: Array, axes: Sequence[Any], size: int, most: int) -> tuple[int, ...] | None:
    """The time step at each index of the time axis, -1 for zeros; None where anything else was moved."""
    batch, places = (_along(codes.shape, axes, kind) for kind in ("batch", "values"))
    steps = np.where(codes == 0, -1, (codes - 1) // size % most)
    wanted = np.where(codes == 0, 0.0, 1.0 + (batch * most + steps) * size + places)
    if not codes.size:
        return None
    whole = np.moveaxis(steps, axes.index("time"), 0) if "time" in axes else steps[None]
    rows = whole.reshape(len(whole), -1)
    if not np.array_equal(codes, wanted) or bool(np.any(rows != rows[:, :1])):
        return None
    return tuple(int(step) for step in rows[:, 0])


def _result(node: TracedCall, output: int, codes: dict[TracedValue, Array]) -> Array:
    import torch
    from torch.utils import _pytree as pytree

    def given(leaf: Any) -> Any:
        if isinstance(leaf, TracedValue):
            return torch.from_numpy(codes[leaf])
        return leaf.double() if isinstance(leaf, torch_tensor()) and leaf.is_floating_point() else leaf

    args, kwargs = pytree.tree_map(
        given, (node.args, dict(node.kwargs)), is_leaf=lambda leaf: isinstance(leaf, TracedValue)
    )
    run: Callable[..., Any] = _written if node.name == "__setitem__" else node.func
    with torch.no_grad():
        result = run(*args, **kwargs)
    return (result[output] if isinstance(result, tuple | list) else result).numpy()


def _written(buffer: Any, index: Any, item: Any) -> Any:
    whole = buffer.clone()
    whole[index] = item
    return whole


# -- convolutions --------------------------------------------------------------------------------------------------


def _convolution(node: TracedCall, x: FlowValue, steps: int) -> LoweredOp | None:
    """A convolution over time: one matrix for each of its delays."""
    weight, bias = (constant_argument(call_argument(node, k, name), name) for k, name in ((1, "weight"), (2, "bias")))
    stride, padding, dilation = (
        call_argument(node, k, name, default)
        for k, name, default in ((3, "stride", 1), (4, "padding", 0), (5, "dilation", 1))
    )
    stride, padding, dilation = (v[0] if isinstance(v, tuple) else v for v in (stride, padding, dilation))
    if weight is None or _axes(x)[-2:] != [0, "time"]:
        return None
    reach = (weight.shape[2] - 1) * dilation
    ends = {"valid": (0, 0), "same": (reach // 2, reach - reach // 2)}.get(padding) or (padding, padding)
    at = (*(-1,) * ends[0], *_times(x), *(-1,) * ends[1])
    begin = next((k for k, step in enumerate(at) if step >= 0), len(at))
    count = sum(step >= 0 for step in at)
    if stride != 1 or count < steps or at[begin : begin + count] != tuple(range(count)):
        raise CannotFollow("a convolution over parts of the time axis", f"{PAD}; use stride 1")
    late, shape = begin - reach, (len(weight),)
    taps = [k for k in range(weight.shape[2]) if np.any(weight[:, :, k])] or [0]
    parts: list[LoweredOp] = []
    for k in taps:
        matrix = {"weight": freeze(_block_diagonal(weight[:, :, k], x.shape[0])), "bias": None if parts else bias}
        operand = later(replace(x, at=(), order=()), reach - k * dilation + max(late, 0))
        parts.append(LoweredOp("linear", matrix, (operand,), x.lead, shape=shape))
    first = max(-late, 0)
    word = LoweredOp("add", {}, tuple(parts)) if len(parts) > 1 else parts[0]
    return replace(word, lead=x.lead, order=x.order, at=tuple(range(first, first + len(at) - reach)))


def _block_diagonal(matrix: Array, size: int) -> Array:
    """``[cout, cin // groups]`` as ``[cout, cin]``."""
    groups = size // matrix.shape[1]
    blocks = np.zeros((groups, len(matrix) // groups, groups, matrix.shape[1]), matrix.dtype)
    blocks[np.arange(groups), :, np.arange(groups)] = matrix.reshape(groups, -1, matrix.shape[1])
    return blocks.reshape(len(matrix), size)


def position_problem(node: TracedCall) -> tuple[str, str] | None:
    """(What was found, what to do) of DCLS whose positions are between time steps: after rounding each is one delay."""
    module, weight = node.module, call_argument(node, 1, "weight")
    if node.name != "conv1d" or not all(hasattr(module, name) for name in ("P", "kernel_count", "dilated_kernel_size")):
        return None
    most = int((weight != 0).sum(2).max())
    if most <= module.kernel_count:
        return None
    found = f"DCLS with positions between time steps: {most} weights along time per synapse, not {module.kernel_count}"
    return found, _ROUND
