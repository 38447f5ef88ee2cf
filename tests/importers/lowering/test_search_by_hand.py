"""The search for the axes of a sample: ranking of dataflow graphs, and readings that need not be tried."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from nirbridge.errors import Diagnostic
from nirbridge.importers.module_checks import Deviation
from nirbridge.importers.neuron_specs import DataflowGraph, LoopSummary, Operation, ValueRef
from nirbridge.importers.sample import SampleReading
from nirbridge.importers.tracing import memory, trace

torch = pytest.importorskip("torch")

STEP, SEQUENCE = SampleReading(own=((0, "batch"),)), SampleReading(own=((1, "time"), (0, "batch")))
KEPT, OTHER = Deviation("kept-states", "x", "y"), Deviation("full-precision", "x", "y")
PROBLEM = Diagnostic("x", "y")


def call(name: str, kind: str, source: str = "", shape: Any = (4,)) -> Operation:
    return Operation(name, name, kind, None, (ValueRef(source),) if source else (), {}, shape)


X, MATRIX, POINT = call("x", "input"), call("m", "input", shape=(3, 4)), call("p", "input", shape=())


@pytest.mark.parametrize(
    ("flow", "reading", "score"),
    [
        (DataflowGraph((X, call("a", "linear", "x")), ()), STEP, (0, 0)),
        (DataflowGraph((MATRIX, call("a", "linear", "m"), call("b", "relu", "m")), ()), STEP, (0, 1)),
        (DataflowGraph((POINT, call("a", "linear", "p")), ()), STEP, (1000, 1)),
        (DataflowGraph((POINT, call("a", "linear", "p"), call("b", "linear", "p")), ()), STEP, (2000, 2)),
        (DataflowGraph((POINT, call("a", "relu", "p")), ()), STEP, (0, 0)),
        (DataflowGraph((X, call("a", "linear", "none")), ()), STEP, (0, 1)),
        (
            DataflowGraph((X, call("a", "unknown", "x"), call("b", "unknown", "a")), (), problems=(PROBLEM,)),
            STEP,
            (3, 0),
        ),
        (DataflowGraph((X,), (), deviations=(KEPT, OTHER)), STEP, (1, 2)),
        (DataflowGraph((X,), (), problems=(PROBLEM,)), SEQUENCE, (1, 2)),
        (DataflowGraph((X,), (), problems=(PROBLEM,), loop=LoopSummary(2)), SEQUENCE, (1, 0)),
        (DataflowGraph((X,), ()), SEQUENCE, (0, 0)),
    ],
)
def test_flows_are_weighed_by_what_is_not_followed(
    flow: DataflowGraph, reading: SampleReading, score: tuple[int, int]
) -> None:
    assert trace.badness(flow, reading) == score


def search(**known: Any) -> Any:
    found = trace._ReadingSearch(None, {}, {}, are_axes_given=False)
    for name, value in known.items():
        setattr(found, name, value)
    return found


def test_readings_that_need_not_be_tried() -> None:
    best = [(score, None, None) for score in ((0, 0), (0, 1), (1, 0))]
    assert [search(best=b).is_settled(STEP) for b in best] == [True, False, False]
    assert (search().is_settled(STEP), search().is_settled(SEQUENCE)) == (False, False)
    assert [search(is_one_step=True).is_settled(r) for r in (STEP, SEQUENCE)] == [False, True]
    assert [search(time_place=("sample", k)).is_settled(SEQUENCE) for k in (0, 1)] == [True, False]
    assert search(time_place=("sample", 1)).is_settled(STEP) is True


def test_layers_that_forward_never_calls() -> None:
    nn = torch.nn
    module = nn.ModuleDict({c: nn.Linear(1, 1) for c in "abcdefg"} | {"block": nn.Sequential(nn.ReLU())})

    def note(*reached: str, neurons: tuple[str, ...] = ()) -> tuple[str, ...]:
        calls = tuple(call(path, "neuron") for path in neurons)
        return trace.with_unreached(DataflowGraph(calls, ()), SimpleNamespace(reached=list(reached)), module).notes  # type: ignore[arg-type]

    text = "never called by forward, so not imported: "
    assert note(*"abcdefg", "block.0") == ()
    assert note(*"abcdef", "block", "block.0") == (f"{text}'g'",)
    assert note(*"abcdefg", "block") == (f"{text}'block.0'",)
    assert note(*"abcdefg", "block", neurons=("block",)) == ()
    assert note(*"cdefg", "block", neurons=("block",)) == (f"{text}'a', 'b'",)
    assert note(*"fg", "block.0") == (f"{text}'a', 'b', 'c', 'd', 'e'",)
    assert note("g", "block.0") == (f"{text}'a', 'b', 'c', 'd', 'e' and 1 more",)


# -- memory ----------------------------------------------------------------------------------------------------------


def test_a_budget_is_kept_to_the_byte() -> None:
    for most, fits in ((800, True), (799, False)):
        budget, tensor = memory.MemoryBudget(most), torch.zeros(200)
        if fits:
            budget.add(tensor)
            assert (budget.held, budget.peak) == (800, 800)
            continue
        with pytest.raises(memory.TooLarge) as caught:
            budget.add(tensor)
        assert str(caught.value) == (
            "the module's forward: its values take 800 bytes or more at one time, at most 799 bytes are held "
            "while it is recorded; give one sample of one time step, or set NIRBRIDGE_RECORDING_BYTES=1598: "
            "the import then takes more memory"
        )


def test_what_lives_on_stays_counted_and_room_is_three_times_the_largest() -> None:
    budget = memory.MemoryBudget(2000)
    budget.add(torch.zeros(100), lives_on=True)
    assert budget.held == 400
    budget.check_room((3, torch.zeros(2), torch.zeros(133)))
    with pytest.raises(memory.TooLarge, match="its values take 2,008 bytes"):
        budget.check_room((torch.zeros(134), torch.zeros(2)))
    budget.check_room(())
    assert budget.counted("text") == "text"
    small, large = torch.zeros(2**14 - 1), torch.zeros(2**14)
    roomy = memory.MemoryBudget(10**6)
    assert roomy.counted(small) is small
    assert roomy.held == 0
    assert roomy.counted(large) is large
    assert roomy.held == 2**16


@pytest.mark.parametrize(
    ("text", "most"),
    [("", 180 * 2**20 + 2 * 4 * 8), ("5", 5), ("9" * 18, int("9" * 18)), ("9" * 19, 0), ("²", 0), ("-1", 0)],
)
def test_the_budget_of_a_module_and_of_the_user(monkeypatch: pytest.MonkeyPatch, text: str, most: int) -> None:
    monkeypatch.setenv(memory.VARIABLE, text)
    module = torch.nn.Linear(3, 2)
    if most:
        assert memory.budget_of(module).most == most
        return
    with pytest.raises(memory.UsageError) as caught:
        memory.budget_of(module)
    assert str(caught.value) == (
        f"{memory.VARIABLE}: '{text}', a whole number of bytes is needed; for example 4000000000"
    )


def test_which_tensors_are_those_that_were_noted() -> None:
    a, b = torch.zeros(1), torch.zeros(1)
    before = memory.noted({"x": a, "y": b})
    for now, wanted in (
        ({"x": a, "y": b}, set()),
        ({"x": a, "y": a}, {"y"}),
        ({"x": a}, {"y"}),
        ({"x": b, "y": b, "z": a}, {"x", "z"}),
    ):
        assert memory.changed_tensors(before, now) == wanted
    assert memory.changed_tensors({}, {}) == set()
    a.detach().add_(1)
    assert memory.changed_tensors(before, {"x": a, "y": b}) == {"x"}


def test_bytes_of_tensors_with_repeated_axes() -> None:
    x = torch.zeros(3, 4)
    sizes = [(x, 48), (x[:1].expand(5, 4), 16), (torch.zeros(1).expand(7, 9), 4), (torch.zeros(0, 3), 0), (x[0, 0], 4)]
    assert [memory._stored_bytes(t) for t, _ in sizes] == [n for _, n in sizes]
    rows = torch.arange(3.0).reshape(3, 1).expand(3, 5)
    assert memory._core(rows).shape == (3, 1)
    assert memory._core(x).shape == (3, 4)
    assert memory._core(torch.zeros(2**14)).shape == (1,)
    assert memory._core(torch.zeros(2**14 - 1)).shape == (2**14 - 1,)
    odd = torch.zeros(2**14)
    odd[-1] = 1
    assert memory._core(odd).shape == (2**14,)
    assert np.isfinite(float(odd.sum()))
