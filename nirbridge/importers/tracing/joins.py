"""Lowering of functions that put several values together: ``cat``, ``stack``, writes into part of a value."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import numpy as np

from nirbridge._types import Shape
from nirbridge.arrays import Array, freeze
from nirbridge.importers.tracing.arguments import CannotFollow, Find, FlowValue, Handler, LoweredOp, call_argument
from nirbridge.importers.tracing.recorder import TracedCall, TracedValue

_STEPS = "join time steps with torch.stack, values by feature"


def _cat(node: TracedCall, find: Find) -> LoweredOp:
    parts, traced = _parts(node, find)
    rank = len(traced[0].whole)
    axis = {"hstack": min(1, rank - 1)}.get(node.name, int(_axis(node))) % rank
    if axis < len(traced[0].lead):
        raise CannotFollow("values are joined along the batch or time axis", _STEPS)
    if len(traced) < len(parts):
        return _with_constants(node, traced, parts, lambda tensors: _called(node, tensors))
    return LoweredOp("concat", {"axis": axis - len(traced[0].lead)}, tuple(traced))


def _stack(node: TracedCall, find: Find) -> LoweredOp:
    """Values side by side on an axis of its own, which may stand in front of the batch."""
    parts, traced = _parts(node, find)
    axis, lead = int(_axis(node)) % len(node.shapes[0]), traced[0].lead
    if len(traced) < len(parts):
        if axis < len(lead):
            raise CannotFollow("values and constants are stacked in front of the batch", "stack them after it")
        return _with_constants(node, traced, parts, lambda tensors: _called(node, tensors))
    order = [*range(len(lead)), *range(len(lead) + 1, len(node.shapes[0]))]
    order.insert(axis, len(lead))
    place, shape, count = max(axis - len(lead), 0), traced[0].shape, len(parts)
    if len(shape) == 1:  # vectors stay vectors, and so do the network's inputs
        joint = LoweredOp("concat", {"axis": 0}, tuple(traced), lead, shape=(count * shape[0],))
        rows = np.arange(count * shape[0]).reshape(count, *shape)
        word = LoweredOp("gather", {"indices": freeze(rows.T if place else rows, np.int64)}, (joint,), lead)
    else:
        one = (*shape[:place], 1, *shape[place:])
        inner = tuple(LoweredOp("reshape", {}, (t,), lead, shape=one) for t in traced)
        word = LoweredOp("concat", {"axis": place}, inner, lead)
    return replace(word, order=tuple(order)) if axis < len(lead) else word


def _axis(node: TracedCall) -> Any:
    return call_argument(node, 1, "dim", node.kwargs.get("axis", 0))


def _called(node: TracedCall, tensors: Sequence[Any]) -> Any:
    return node.func(list(tensors), *node.args[1:], **node.kwargs)


def _parts(node: TracedCall, find: Find) -> tuple[list[Any], list[FlowValue]]:
    parts = call_argument(node, 0, "tensors")
    if not isinstance(parts, tuple):
        raise CannotFollow("parts of one value are joined", "reshape it")
    return list(parts), _alike([find(p) for p in parts if isinstance(p, TracedValue)])


def _alike(traced: list[FlowValue]) -> list[FlowValue]:
    if any(t.lead != traced[0].lead for t in traced):
        raise CannotFollow("values are joined along the batch or time axis", _STEPS)
    return traced


def written(node: TracedCall, find: Find, buffer: Any, index: Any, value: Any) -> LoweredOp:
    """Fixed positions of a value, or of a constant, replaced by another value or by numbers."""
    if any(isinstance(part, TracedValue) for part in (index if isinstance(index, tuple) else (index,))):
        raise CannotFollow("positions that are computed from the input", "use fixed ones, or torch.where")
    parts = [buffer, value]
    traced = _alike([find(p) for p in parts if isinstance(p, TracedValue)])

    def write(tensors: Sequence[Any]) -> Any:
        whole = tensors[0].clone()
        whole[index] = tensors[1]
        return whole

    return _with_constants(node, traced, parts, write)


def _with_constants(
    node: TracedCall, traced: list[FlowValue], parts: Sequence[Any], run: Callable[[Sequence[Any]], Any]
) -> LoweredOp:
    """Values and constants, put together by ``run``: the positions that numbered values come to."""
    import torch

    if any(t.order for t in traced):
        raise CannotFollow("values whose batch or time axis is not leading are put together", _STEPS)
    constants = [torch.as_tensor(p, dtype=torch.float64) for p in parts if not isinstance(p, TracedValue)]
    sizes = [math.prod(t.shape) for t in traced]
    starts = np.concatenate([[0], np.cumsum(sizes)])
    samples = [torch.from_numpy(_samples(t)) for t in traced]
    places = [
        torch.arange(n).reshape(t.shape).expand(t.whole) + int(start) + 1
        for t, n, start in zip(traced, sizes, starts[:-1], strict=True)
    ]
    zeros = [torch.zeros_like(c, dtype=torch.int64) for c in constants]
    lead, rank = traced[0].lead, len(traced[0].lead)
    place, sample = (_shared(run(_filled(parts, t, zeros)), rank) for t in (places, samples))
    nothing = [torch.zeros(t.whole, dtype=torch.float64) for t in traced]
    constant = _shared(run(_filled(parts, nothing, constants)), rank, is_same=True)
    whole = node.shapes[0]
    numbers: Any = _samples(whole[:rank])
    own = np.broadcast_to(numbers.reshape(whole[:rank] + (1,) * (len(whole) - rank)), whole)
    if not np.array_equal(np.where(place > 0, own, 0), sample) or not np.array_equal(place, _first(place, rank)):
        raise CannotFollow("it mixes samples or time steps", "treat every sample and time step alike")
    indices, values = freeze(_first(place, rank)[(0,) * rank] - 1, np.int64), constant[(0,) * rank]
    arguments = {"indices": indices, "constant": freeze(values)} if np.any(values) else {"indices": indices}
    return LoweredOp("pad" if len(arguments) > 1 else "gather", arguments, (_in_a_row(traced),), lead)


def _in_a_row(traced: Sequence[FlowValue]) -> FlowValue | LoweredOp:
    """The values as one vector."""
    lead, sizes = traced[0].lead, [math.prod(t.shape) for t in traced]
    flat = [
        t if t.shape == (n,) else LoweredOp("reshape", {}, (t,), lead, shape=(n,))
        for t, n in zip(traced, sizes, strict=True)
    ]
    return LoweredOp("concat", {"axis": 0}, tuple(flat), lead, shape=(sum(sizes),)) if len(flat) > 1 else flat[0]


def _samples(t: FlowValue | Shape) -> Array:
    """The number of the sample, in its place, of each value."""
    if not isinstance(t, FlowValue):
        return np.arange(1, math.prod(t) + 1).reshape(t)
    count = len(t.lead)
    numbers = _samples(t.whole[:count]).reshape(*t.whole[:count], *(1,) * len(t.shape))
    return np.broadcast_to(numbers, t.whole).copy()


def _filled(parts: Sequence[Any], traced: Sequence[Any], constants: Sequence[Any]) -> list[Any]:
    values, fixed = iter(traced), iter(constants)
    return [next(values) if isinstance(p, TracedValue) else next(fixed) for p in parts]


def _first(array: Array, rank: int) -> Array:
    """The first sample in the place of each."""
    return np.broadcast_to(array[(slice(0, 1),) * rank], array.shape)


def _shared(tensor: Any, rank: int, *, is_same: bool = False) -> Array:
    """As an array; ``is_same``: of which every sample must be the same."""
    array: Array = tensor.numpy()
    if is_same and not np.array_equal(array, _first(array, rank)):
        raise CannotFollow("constants that differ from sample to sample", "use the same ones for all")
    return array


JOIN_HANDLERS: Mapping[str, Handler] = MappingProxyType(
    {**dict.fromkeys(("cat", "concat", "concatenate", "hstack"), _cat), "stack": _stack}
)
"""Function name -> its handler."""
