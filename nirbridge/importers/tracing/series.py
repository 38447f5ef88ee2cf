"""Tensors that a loop over time assembles: stacked, concatenated, or written into a buffer slice by slice."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from nirbridge.errors import Diagnostic
from nirbridge.importers.dataflow import place_label
from nirbridge.importers.tracing.arguments import CannotFollow, FlowValue, LoweredOp, call_argument
from nirbridge.importers.tracing.recorder import TracedCall, TracedValue
from nirbridge.importers.tracing.values import WRITES as _WRITES
from nirbridge.importers.tracing.values import write_of

_JOINS = frozenset({"cat", "concat", "concatenate"})
_ADVICE = "stack the time steps in front of the values, or right after the batch"


class ItemSeries(NamedTuple):
    """One value for each index along an axis of the whole; ``is_joined``: the values have that axis already.

    ``chunks``: into how many rows of equal length the whole splits that axis (0: it does not).
    """

    items: tuple[Any, ...]
    axis: int
    is_joined: bool = False
    chunks: int = 0


Runs = Mapping[int, ItemSeries]
"""Parts that earlier calls have put together, by the index of the call."""


def series_of(node: TracedCall, runs: Runs) -> list[ItemSeries]:
    """The parts that a call assembles along an axis, in order: one by one, or as the parts of its parts."""
    if node.name in _WRITES:
        written = _written(node)
        return [written] if written else []
    items: Any = node.args[0] if node.args else None
    if node.name not in _JOINS | {"stack"} or not isinstance(items, tuple):
        return []
    axis = int(call_argument(node, 1, "dim", node.kwargs.get("axis", 0))) % len(node.shapes[0])
    if node.name == "stack":
        return [ItemSeries(items, axis), *_stacked_runs(items, axis, runs)]
    is_sliced = all(isinstance(i, TracedValue) and i.shape[axis] == 1 for i in items)
    one_by_one = [ItemSeries(items, axis, is_joined=True)] if is_sliced else []
    return [*one_by_one, *(run for run in _joined_runs(items, axis, runs) if run not in one_by_one)]


def _stacked_runs(items: tuple[Any, ...], axis: int, runs: Runs) -> Iterator[ItemSeries]:
    """Chunks of equal length before or after each other, on an axis of their own before that of their parts."""
    inner = [runs.get(i.node.index) if isinstance(i, TracedValue) else None for i in items]
    rows = [run for run in inner if run is not None and run.axis == axis and not run.chunks]
    if len(rows) == len(items) and len({(len(row.items), row.is_joined) for row in rows}) == 1:
        yield ItemSeries(tuple(i for row in rows for i in row.items), axis, rows[0].is_joined, len(rows))


def _joined_runs(items: tuple[Any, ...], axis: int, runs: Runs) -> Iterator[ItemSeries]:
    """Chunks, single parts, and tensors that are still empty, one after the other on one axis."""
    found: list[ItemSeries] = []
    for item in items:
        run = runs.get(item.node.index) if isinstance(item, TracedValue) else None
        if run is not None and run.axis == axis and not run.chunks:
            found.append(run)
        elif isinstance(item, TracedValue) and item.shape[axis] == 1:
            found.append(ItemSeries((item,), axis, is_joined=True))
        elif isinstance(item, TracedValue) or item.shape[axis]:
            return
    if len({run.is_joined for run in found}) == 1:
        yield ItemSeries(tuple(i for run in found for i in run.items), axis, found[0].is_joined)


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
    kinds: set[tuple[int, bool]] = set()
    write: Any = node
    while isinstance(write, TracedCall) and write.name in _WRITES:
        buffer, place, item = write_of(write)
        if place is None or not isinstance(item, TracedValue):
            return None
        kinds.add((place.axis, place.is_kept))
        item_at.setdefault(place.index, item)
        write = buffer.node if isinstance(buffer, TracedValue) else None
    if len(kinds) != 1:
        return None
    (axis, is_kept), items = kinds.pop(), tuple(item_at[k] for k in sorted(item_at))
    rank = len(node.shapes[0]) - (not is_kept)
    if any(len(item.shape) != rank or (is_kept and item.shape[axis] != 1) for item in items):
        return None  # one value for several places
    return ItemSeries(items, axis, is_kept)


def join_series(x: FlowValue, series: ItemSeries) -> LoweredOp:
    """The whole as one value, of which ``x`` is the last item.

    Raises:
        CannotFollow: the time axis would stand among values in a way that is not read.
    """
    count, axis = len(x.lead), series.axis
    if x.order:
        raise CannotFollow("values whose batch or time axis is not leading are put together", _ADVICE)
    if series.chunks and not series.is_joined and axis <= count:
        return LoweredOp("same", {}, (x,), (*x.lead[:axis], "chunk", "time", *x.lead[axis:]))
    if series.chunks:
        raise CannotFollow("chunks of time steps are put together among values", _ADVICE)
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
