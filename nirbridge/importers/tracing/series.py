"""Tensors that a loop over time assembles: stacked, concatenated, or written into a buffer slice by slice."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from nirbridge.errors import Diagnostic
from nirbridge.importers.dataflow import place_label
from nirbridge.importers.tracing.arguments import CannotFollow, FlowValue, LoweredOp, call_argument
from nirbridge.importers.tracing.recorder import TracedCall, TracedValue
from nirbridge.importers.tracing.values import item_slice

_JOINS = frozenset({"cat", "concat", "concatenate"})
_ADVICE = "stack the time steps in front of the values, or right after the batch"


class ItemSeries(NamedTuple):
    """One value for each index along an axis of the whole; ``is_joined``: the values have that axis already."""

    items: tuple[Any, ...]
    axis: int
    is_joined: bool = False


def series_of(node: TracedCall) -> ItemSeries | None:
    """The parts that a call assembles along an axis, in order; None if it assembles none."""
    if node.name == "__setitem__":
        return _written(node)
    items: Any = node.args[0] if node.args else None
    if node.name not in _JOINS | {"stack"} or not isinstance(items, tuple):
        return None
    axis = int(call_argument(node, 1, "dim", node.kwargs.get("axis", 0))) % len(node.shapes[0])
    if node.name == "stack":
        return ItemSeries(items, axis)
    is_sliced = all(isinstance(i, TracedValue) and i.shape[axis] == 1 for i in items)
    return ItemSeries(items, axis, is_joined=True) if is_sliced else None


def without_lists(
    outputs: Sequence[tuple[str, Any]], iterations: int, is_series: Callable[[tuple[Any, ...]], bool]
) -> tuple[list[tuple[str, Any]], list[Diagnostic]]:
    """The outputs of forward, with lists of one output per time step reduced to the last; a problem for such lists."""
    outputs_left: list[tuple[str, Any]] = []
    waiting = list(outputs)
    lists = 0
    while waiting:
        items = tuple(value for _, value in waiting[:iterations])
        length = iterations if iterations > 1 and is_series(items) else 1
        outputs_left.append(waiting[length - 1])
        waiting = waiting[length:]
        lists += length > 1
    if not lists:
        return outputs_left, []
    found = f"it returns {'a list' if lists == 1 else f'{lists} lists'} with one output per time step"
    step = "return one tensor: torch.stack(outputs) instead of outputs"
    return outputs_left, [Diagnostic(place_label(""), found, "an output is one tensor", step)]


def _written(node: TracedCall) -> ItemSeries | None:
    """The slices written into a buffer along one axis."""
    item_at: dict[int, Any] = {}
    axes: set[int] = set()
    write: Any = node
    while isinstance(write, TracedCall) and write.name == "__setitem__":
        buffer, index, item = write.args[:3]
        place = item_slice(buffer, index)
        if place is None or place.is_kept:
            return None
        axes.add(place.axis)
        item_at.setdefault(place.index, item)
        write = buffer.node if isinstance(buffer, TracedValue) else None
    return ItemSeries(tuple(item_at[k] for k in sorted(item_at)), min(axes)) if len(axes) == 1 else None


def join_series(x: FlowValue, series: ItemSeries) -> LoweredOp:
    """The whole as one value, of which ``x`` is the last item.

    Raises:
        CannotFollow: the time axis would stand among values in a way that is not read.
    """
    count, axis = len(x.lead), series.axis
    if x.order:
        raise CannotFollow("values whose batch or time axis is not leading are put together", _ADVICE)
    if series.is_joined:
        if axis < count and x.lead[axis] == "time":
            return LoweredOp("same", {}, (x,), x.lead)
        if axis == count:
            return LoweredOp("reshape", {}, (x,), (*x.lead, "time"))
        raise CannotFollow("the time steps are concatenated along values", _ADVICE)
    if axis <= count:
        return LoweredOp("same", {}, (x,), (*x.lead[:axis], "time", *x.lead[axis:]))
    values = range(count + 1, len(x.whole) + 1)
    order = [*range(count), *values]
    order.insert(axis, count)
    return LoweredOp("same", {}, (x,), (*x.lead, "time"), tuple(order))
