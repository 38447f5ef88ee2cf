"""Values of a loop that are reassembled, and axes of an input that are only copied, rule by rule."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from nirbridge.importers.neuron_specs import DataflowGraph, GraphOutput, Operation, ValueRef, graph_multiplications
from nirbridge.importers.tracing.arguments import CannotFollow, FlowValue
from nirbridge.importers.tracing.recorder import TracedValue
from nirbridge.importers.tracing.time_loop import ItemSeries, join_series, series_of
from nirbridge.importers.tracing.trace import copied_axes
from tests.importers.tracing.tape import ROW, Tape

torch = pytest.importorskip("torch")

B, T, TB, BT = ("batch",), ("time",), ("time", "batch"), ("batch", "time")
X: Any = ValueRef("x")
ADVICE = "stack the time steps in front of the values, or right after the batch"


# -- what a value is put together from -------------------------------------------------------------------------------


def items(tape: Tape, shape: tuple[int, ...] = ROW, count: int = 3) -> tuple[TracedValue, ...]:
    return tuple(tape.input(shape) for _ in range(count))


def test_stacks_and_joins_along_any_axis() -> None:
    tape = Tape()
    flat, rows, columns = items(tape), items(tape, (1, 2, 4)), items(tape, (2, 1, 4))
    whole = (3, *ROW)
    cases: list[tuple[TracedValue, Any]] = [
        (tape.call("stack", flat, shape=whole), ItemSeries(flat, 0, is_joined=False)),
        (tape.call("stack", flat, 1, shape=(2, 3, 4)), ItemSeries(flat, 1)),
        (tape.call("stack", flat, -1, shape=(2, 4, 3)), ItemSeries(flat, 2)),
        (tape.call("stack", flat, shape=(2, 3, 4), dim=1), ItemSeries(flat, 1)),
        (tape.call("stack", flat, shape=(2, 3, 4), axis=-2), ItemSeries(flat, 1)),
        (tape.call("cat", rows, shape=whole), ItemSeries(rows, 0, is_joined=True)),
        (tape.call("concat", columns, 1, shape=(2, 3, 4)), ItemSeries(columns, 1, is_joined=True)),
        (tape.call("concatenate", columns, shape=(2, 3, 4), dim=-2), ItemSeries(columns, 1, is_joined=True)),
        (tape.call("cat", rows, 1, shape=(1, 6, 4)), None),
        (tape.call("cat", (*rows, flat[0]), shape=(5, 2, 4)), None),
        (tape.call("cat", (*rows, torch.zeros(1, 2, 4)), shape=(4, 2, 4)), None),
        (tape.call("add", flat, shape=whole), None),
        (tape.call("f", rows, shape=whole), None),
        (tape.call("stack", flat[0], shape=whole), None),
        (tape.call("stack", tensors=flat, shape=whole), None),
    ]
    for value, wanted in cases:
        assert series_of(value.node, {}) == ([] if wanted is None else [wanted])


def written(tape: Tape, *writes: tuple[Any, Any]) -> TracedValue:
    """A buffer of three rows after writes of (place, item)."""
    buffer: Any = torch.zeros(3, *ROW)
    for place, item in writes:
        buffer = tape.call("__setitem__", buffer, place, item, shape=(3, *ROW))
    assert isinstance(buffer, TracedValue)
    return buffer


def test_buffers_that_are_written_slice_by_slice() -> None:
    tape = Tape()
    a, b, c, d = items(tape, count=4)
    everything = slice(None)
    cases: list[tuple[TracedValue, Any]] = [
        (written(tape, (0, a), (1, b), (2, c)), ItemSeries((a, b, c), 0)),
        (written(tape, (2, a), (0, b)), ItemSeries((b, a), 0)),
        (written(tape, (0, a), (1, b), (0, d)), ItemSeries((d, b), 0)),
        (written(tape, ((everything, 0), a), ((everything, 1), b)), ItemSeries((a, b), 1)),
        (written(tape, (0, a), ((everything, 1), b)), None),
        (written(tape, (0, a), (slice(1, 2), b)), None),
        (written(tape, (slice(0, 2), a)), None),
        (written(tape, (0, a), (everything, b)), None),
    ]
    for value, wanted in cases:
        assert series_of(value.node, {}) == ([] if wanted is None else [wanted])
    onto = tape.call("__setitem__", tape.call("relu", a, shape=(3, *ROW)), 1, b, shape=(3, *ROW))
    assert series_of(onto.node, {}) == [ItemSeries((b,), 0)]


@pytest.mark.parametrize(
    ("lead", "whole", "series", "wanted"),
    [
        (B, ROW, ItemSeries((), 0), (TB, ())),
        (B, ROW, ItemSeries((), 1), (BT, ())),
        (B, ROW, ItemSeries((), 2), (BT, (0, 2, 1))),
        (B, (2, 4, 5), ItemSeries((), 2), (BT, (0, 2, 1, 3))),
        (B, (2, 4, 5), ItemSeries((), 3), (BT, (0, 2, 3, 1))),
        ((), (4,), ItemSeries((), 0), (T, ())),
        ((), (4,), ItemSeries((), 1), (T, (1, 0))),
        (BT, (2, 1, 4), ItemSeries((), 1, is_joined=True), (BT, ())),
        (TB, (1, 2, 4), ItemSeries((), 0, is_joined=True), (TB, ())),
        (B, (2, 1, 4), ItemSeries((), 1, is_joined=True), (BT, ())),
    ],
)
def test_where_time_is_after_steps_are_put_together(lead: Any, whole: Any, series: ItemSeries, wanted: Any) -> None:
    x = FlowValue(X, lead, whole)
    word = join_series(x, series)
    assert ((word.lead, word.order), word.inputs, dict(word.arguments)) == (wanted, (x,), {})
    assert word.kind == ("reshape" if series.is_joined and len(lead) == series.axis else "same")


@pytest.mark.parametrize(
    ("lead", "order", "series", "why"),
    [
        (B, (1, 0), ItemSeries((), 0), "values whose batch or time axis is not leading are put together"),
        (BT, (), ItemSeries((), 0, is_joined=True), "the time steps are concatenated along values"),
        (B, (), ItemSeries((), 0, is_joined=True), "the time steps are concatenated along values"),
        (B, (), ItemSeries((), 2, is_joined=True), "the time steps are concatenated along values"),
    ],
)
def test_steps_that_are_put_together_among_values(lead: Any, order: Any, series: ItemSeries, why: str) -> None:
    with pytest.raises(CannotFollow) as caught:
        join_series(FlowValue(X, lead, (2, 1, 4), order=order), series)
    assert (caught.value.why, caught.value.advice) == (why, ADVICE)


# -- axes that only copy the network ---------------------------------------------------------------------------------


def call(name: str, kind: str, inputs: Any, shape: Any, **arguments: Any) -> Operation:
    refs = tuple(ValueRef(i) if isinstance(i, str) else i for i in inputs)
    return Operation(name, name, kind, None, refs, arguments, shape)


def source(*shape: int) -> Operation:
    return call("x", "input", (), shape)


def axes(*calls: Operation, returned: tuple[str, ...] = ()) -> list[int]:
    """Sizes of the axes that are said to be copied, of a flow that returns its last call."""
    outputs = tuple(GraphOutput(name, ValueRef(name)) for name in returned or (calls[-1].name,))
    problems = copied_axes(DataflowGraph(calls, outputs), {"x": (9, 9)})
    return [int(p.found.split("size ")[1].split(",")[0]) for p in problems]


FC = call("fc", "linear", ("x",), (3, 5, 2))
X345 = source(3, 5, 4)


def after(kind: str, shape: Any, **arguments: Any) -> list[int]:
    """A linear layer on the last of the axes (3, 5, 4), and a call and a ReLU behind it."""
    behind = call("y", kind, ("fc",), shape, **arguments)
    return axes(X345, FC, behind, call("end", "relu", ("y",), shape))


def test_the_problem_in_full() -> None:
    (problem,) = copied_axes(DataflowGraph((X345, FC), (GraphOutput("y", ValueRef("fc")),)), {"x": (9, 3, 5, 4)})
    assert str(problem) == (
        "input 'x': no layer mixes its axis of size 3, so all neurons would be duplicated along it, the sample of "
        "shape (9, 3, 5, 4) was read as time steps of (3, 5, 4); say which axes of the sample are batch and time: "
        "batched=…, time_axis=… (--batched, --time-axis)"
    )
    (other,) = copied_axes(DataflowGraph((X345, FC), (GraphOutput("y", ValueRef("fc")),)), {})
    assert other.limit == "the sample of shape (3, 5, 4) was read as time steps of (3, 5, 4)"


def test_axes_that_are_there_at_the_end_and_that_no_layer_mixed() -> None:
    assert axes(X345, FC) == [3]
    assert axes(source(1, 5, 4), call("fc", "linear", ("x",), (1, 5, 2))) == [5]
    assert axes(source(2, 4), call("fc", "linear", ("x",), (2, 2))) == [2]
    assert axes(source(4), call("fc", "linear", ("x",), (2,))) == []
    assert axes(source(4), call("fc", "linear", ("x",), (2,)), returned=("x",)) == []
    assert axes(X345, call("y", "relu", ("x",), (3, 5, 4))) == []
    assert axes(X345, FC, returned=("x",)) == [3]
    assert axes(X345, call("y", "linear", ("z",), (3, 5, 2))) == []
    assert axes(X345, FC, call("y", "reshape", ("fc",), (30,)), returned=("y", "fc")) == []
    assert axes(X345, FC, call("k", "linear", ("z",), (7,)), returned=("k", "fc")) == [3]
    assert axes(X345, FC, call("k", "linear", ("z",), (7,)), returned=("k",)) == []


@pytest.mark.parametrize(
    ("kind", "shape", "arguments", "wanted"),
    [
        ("relu", (3, 5, 2), {}, [3]),
        ("relu", (4, 5, 2), {}, [5]),
        ("relu", (), {}, []),
        ("add", (4, 6, 2), {}, []),
        ("neuron", (3, 5, 2), {}, [3]),
        ("neuron", (3, 5, 7), {}, [3]),
        ("neuron", (3, 5), {}, []),
        ("avg_pool", (3, 2, 2), {}, [3]),
        ("max_pool", (3, 5, 2), {}, [3]),
        ("avg_pool", (3, 2), {}, []),
        ("batch_norm", (3, 5, 2), {}, [5]),
        ("unknown", (3, 5, 2), {}, []),
        ("conv", (3, 5, 2), {}, []),
        ("linear", (3, 5, 7), {}, [3]),
        ("reshape", (3, 10), {}, [3]),
        ("reshape", (15, 2), {}, []),
        ("reshape", (1, 3, 10), {}, [3]),
        ("reshape", (3, 5, 2, 1), {}, [3]),
        ("reshape", (5, 3, 2), {}, []),
        ("reshape", (10, 3), {}, []),
        ("concat", (3, 5, 4), {"axis": 2}, [3]),
        ("concat", (6, 5, 2), {"axis": 0}, [5]),
        ("scale", (3, 5, 2), {"factor": 2.0}, [3]),
        ("scale", (3, 5, 2), {"factor": np.arange(3.0).reshape(3, 1, 1)}, [5]),
        ("scale", (3, 5, 2), {"factor": np.arange(15.0).reshape(3, 5, 1)}, []),
        ("shift", (3, 5, 2), {"constant": np.arange(2.0)}, [3]),
        ("shift", (3, 5, 2), {"constant": np.array([[0.0], [0], [0], [0], [1]])}, [3]),
        ("gather", (3, 5, 2), {"indices": np.arange(30)}, [3]),
        ("gather", (3, 2, 5), {"indices": np.arange(30).reshape(3, 5, 2).transpose(0, 2, 1)}, [3]),
        ("gather", (5, 3, 2), {"indices": np.arange(30).reshape(3, 5, 2).transpose(1, 0, 2)}, [3]),
        ("gather", (3, 5, 2), {"indices": np.arange(30).reshape(3, 5, 2)[::-1]}, [5]),
        ("gather", (2, 5, 2), {"indices": np.arange(30).reshape(3, 5, 2)[:2]}, [5]),
        ("gather", (3, 5, 1), {"indices": np.arange(30).reshape(3, 5, 2)[..., :1]}, [3]),
    ],
)
def test_where_axes_are_behind_each_call(kind: str, shape: Any, arguments: Any, wanted: list[int]) -> None:
    assert after(kind, shape, **arguments) == wanted


def test_pools_keep_the_channels_in_place() -> None:
    pool = call("y", "avg_pool", ("fc",), (3, 2, 2))
    assert axes(X345, FC, pool, call("z", "batch_norm", ("y",), (3, 2, 2))) == []
    one = call("fc", "linear", ("x",), (1, 5, 2))
    assert axes(source(1, 5, 4), one, call("y", "avg_pool", ("fc",), (1, 5, 2))) == []


def test_calls_of_two_inputs_keep_an_axis_that_is_the_same_in_both() -> None:
    turned = call("t", "gather", ("fc",), (5, 3, 2), indices=np.arange(30).reshape(3, 5, 2).transpose(1, 0, 2))
    assert axes(X345, FC, turned, call("y", "add", ("fc", "t"), (3, 5, 2))) == []
    assert axes(X345, FC, call("y", "add", ("fc", "fc"), (3, 5, 2))) == [3]
    assert axes(X345, FC, call("y", "add", ("fc", ValueRef("t", 0, True)), (3, 5, 2))) == [3]
    late = ValueRef("t", 0, previous=True)
    assert axes(X345, FC, turned, call("y", "add", ("fc", late), (3, 5, 2))) == [3]
    assert axes(X345, FC, call("y", "reshape", ("fc",), (30,)), call("z", "relu", ("y",), (30,))) == []


def test_each_input_is_looked_at() -> None:
    other = Operation("z", "z", "input", None, (), {}, (6, 4))
    layers = (FC, call("fz", "linear", ("z",), (6, 2)))
    flow = DataflowGraph((X345, other, *layers), (GraphOutput("a", ValueRef("fc")), GraphOutput("b", ValueRef("fz"))))
    assert [p.subject for p in copied_axes(flow, {})] == ["input 'x'", "input 'z'"]


def test_multiplications_of_layers() -> None:
    kernel, matrix = np.zeros((4, 3, 2, 2)), np.zeros((5, 7))
    calls = (
        call("c", "conv", ("x",), (4, 6, 9), weight=kernel),
        call("l", "linear", ("c",), (11, 5), weight=matrix),
        call("f", "linear", ("c",), (5,), weight=matrix),
        call("r", "relu", ("c",), (5,), weight=matrix),
    )
    assert graph_multiplications(DataflowGraph(calls, ())) == 48 * 54 + 35 * 11 + 35
    assert graph_multiplications(DataflowGraph((), ())) == 0


def test_what_is_not_told_of_a_flow() -> None:
    assert (ValueRef("x").output, ValueRef("x").previous) == (0, False)
    assert call("x", "relu", (), ()).arguments == Operation("x", "", "relu", None, ()).arguments == {}
    loop = DataflowGraph((), ()).loop
    assert (loop.iterations, loop.follows, loop.has_only_part) == (1, False, False)
    assert (source(2).subject, Operation("x", "", "relu", None, ()).subject) == ("module 'x'", "the module's forward")
