"""Axes of an input that no layer mixes: read as values, they would become that many copies of the network.

A batch or a time axis that is taken for values shows in this way: every layer with weights works along other axes, and
the outputs still have it. A ``torch.nn.Linear`` shared by values that are flattened later is no such case.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from nirbridge._types import Shape
from nirbridge.errors import Diagnostic, quoted
from nirbridge.importers.dataflow import DataflowGraph, Operation
from nirbridge.importers.deviations import KEPT_STATES
from nirbridge.importers.sample.axes import WAY_OUT, SampleReading
from nirbridge.importers.tracing.time_loop import FORWARD

_MIXED = -1
"""The axis is no longer there: its values were joined."""


def copied_axes(flow: DataflowGraph, sample_shapes: Mapping[str, Shape]) -> list[Diagnostic]:
    """A problem for each input with an axis that only copies the network."""
    return [
        Diagnostic(
            f"input {quoted(call.name)}",
            f"no layer mixes its axis of size {call.shape[axis]}, so all neurons would be duplicated along it",
            f"the sample of shape {sample_shapes.get(call.name, call.shape)} was read as time steps of {call.shape}",
            WAY_OUT,
        )
        for call in flow.inputs
        for axis in [k for k, n in enumerate(call.shape) if n > 1 and _copies(flow, call, k)][:1]
    ]


def has_idle_one(flow: DataflowGraph) -> bool:
    """True if an axis of size one may be a batch that was read as values.

    Layers with weights leave it alone, or forward takes the only row of a matrix.
    """
    if flow.loop.has_only_part and any(len(call.shape) == 2 and call.shape[0] == 1 for call in flow.inputs):
        return True
    ones = ((call, axis) for call in flow.inputs for axis, size in enumerate(call.shape) if size == 1)
    return any(_passed(flow, call, axis)[0] for call, axis in ones)


_ABSURD = 1000
"""A layer without an axis to work on weighs more than any number of problems that can be named."""


def badness(flow: DataflowGraph, reading: SampleReading) -> tuple[int, int]:
    """(Operations that cannot be traced, layers on more axes than they are made for): low for a likely reading."""
    shapes = {c.name: c.shape for c in flow.calls}
    unknown = sum(c.kind == "unknown" for c in flow.calls)
    odd = sum(c.kind == "linear" and len(shapes.get(c.inputs[0].call, ())) != 1 for c in flow.calls)
    odd += sum(c.kind == "matrix" for c in flow.calls)  # a sum over other axes than all positions is rare
    absurd = sum(c.kind == "linear" and shapes.get(c.inputs[0].call) == () for c in flow.calls)
    if any(p.limit == FORWARD for p in flow.problems):
        return 1, odd
    first = len(flow.problems) + unknown + _ABSURD * absurd + sum(d.name == KEPT_STATES for d in flow.deviations)
    if not any(c.kind == "neuron" for c in flow.calls):
        first += has_idle_one(flow)
    is_unlikely = bool(flow.problems) and reading.has_time and flow.loop.iterations == 1
    return first, odd + len(flow.deviations) + 2 * is_unlikely


def _copies(flow: DataflowGraph, source: Operation, axis: int) -> bool:
    passes_weights, ends = _passed(flow, source, axis)
    return passes_weights and bool(ends) and _MIXED not in ends


def _passed(flow: DataflowGraph, source: Operation, axis: int) -> tuple[bool, list[int]]:
    """(Whether a layer with weights works along other axes, where the axis is in each output that it reaches)."""
    places = {source.name: axis}
    passes_weights = False
    shapes = {call.name: call.shape for call in flow.calls}
    for call in flow.calls:
        before = {places[ref.call] for ref in call.inputs if ref.call in places and not ref.previous}
        if not before:
            continue
        place = _MIXED if len(before) > 1 else _after(call, before.pop(), shapes)
        places[call.name] = place
        passes_weights |= call.kind == "linear" and place != _MIXED
    return passes_weights, [places[o.ref.call] for o in flow.outputs if o.ref.call in places]


def _after(call: Operation, place: int, shapes: Mapping[str, Shape]) -> int:
    """Where the axis is after the call."""
    if place == _MIXED or call.kind not in _AFTER:
        return _MIXED
    return _AFTER[call.kind](call, place, shapes[call.inputs[0].call])


def _same(call: Operation, place: int, shape: Shape) -> int:
    return place if place < len(call.shape) and call.shape[place] == shape[place] else _MIXED


def _linear(call: Operation, place: int, shape: Shape) -> int:
    return place if place < len(shape) - 1 else _MIXED


def _neuron(call: Operation, place: int, shape: Shape) -> int:
    if call.shape == shape:
        return place
    return _linear(call, place, shape) if len(call.shape) == len(shape) else _MIXED


def _pool(call: Operation, place: int, shape: Shape) -> int:
    if "rows" in call.arguments:
        return _matrix(call, place, shape)
    return 0 if place == 0 and len(call.shape) == len(shape) else _MIXED


def _factor(name: str) -> Callable[[Operation, int, Shape], int]:
    """Arithmetic with a constant: one that differs along the axis tells its values apart."""

    def after(call: Operation, place: int, shape: Shape) -> int:
        values = np.broadcast_to(np.asarray(call.arguments[name]), call.shape)
        return place if bool(np.all(values == values.take([0], axis=place))) else _MIXED

    return after


def _reshape(call: Operation, place: int, shape: Shape) -> int:
    stride = math.prod(shape[place + 1 :])
    fitting = (k for k, n in enumerate(call.shape) if (n, math.prod(call.shape[k + 1 :])) == (shape[place], stride))
    return next(fitting, _MIXED)


def _gather(call: Operation, place: int, shape: Shape) -> int:
    indices: Any = np.asarray(call.arguments["indices"]).reshape(call.shape)
    positions = indices // math.prod(shape[place + 1 :]) % shape[place]
    for k, n in enumerate(call.shape):
        expected = np.arange(n).reshape(-1, *(1,) * (len(call.shape) - k - 1))
        if n == shape[place] and bool(np.all((positions == expected) | (indices < 0))):
            return k
    return _MIXED


def _matrix(call: Operation, place: int, shape: Shape) -> int:
    """An axis along which every value stays at its place."""
    n, stride = shape[place], math.prod(shape[place + 1 :])
    positions: Any = call.arguments["columns"] // stride % n
    axes = ((k, math.prod(call.shape[k + 1 :])) for k, size in enumerate(call.shape) if size == n)
    return next((k for k, step in axes if np.array_equal(call.arguments["rows"] // step % n, positions)), _MIXED)


_AFTER: Mapping[str, Callable[[Operation, int, Shape], int]] = {
    "linear": _linear,
    "neuron": _neuron,
    "avg_pool": _pool,
    "max_pool": _pool,
    "reshape": _reshape,
    "gather": _gather,
    "pad": _gather,
    "matrix": _matrix,
    "concat": lambda call, place, shape: place if place != call.arguments["axis"] else _MIXED,
    "scale": _factor("factor"),
    "shift": _factor("constant"),
    "add": _same,
    "relu": _same,
    "batch_norm": lambda call, place, shape: place or _MIXED,
}
