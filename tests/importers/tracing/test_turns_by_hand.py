"""Iterations of a loop, and consecutive calls: equality of time steps, from handwritten traces."""

from __future__ import annotations

import pytest

from nirbridge.importers.tracing.recorder import TracedValue
from nirbridge.importers.tracing.time_loop import TimeLoop
from tests.importers.tracing.bodies import OTHERS, STEPS, fc, fed, lif, pair
from tests.importers.tracing.tape import ROW, Tape, called, looped, state

torch = pytest.importorskip("torch")

ONCE = "use a separate module for each use within a time step, and make all time steps alike"
OWN = "use a separate module for each use, or pass each its own state, initially zeros"
ONE_INPUT = "a neuron has one state, so it has one input per time step"


@pytest.mark.parametrize("name", STEPS)
def test_turns_that_are_one_step(name: str) -> None:
    assert looped(STEPS[name])[1].problems() == []


@pytest.mark.parametrize("name", OTHERS)
def test_turns_that_are_not(name: str) -> None:
    body = OTHERS[name]
    found = [str(p) for p in looped(body)[1].problems()]
    shared = "with inputs that are not computed alike in every time step, its state is kept in the module"
    (text,) = found
    assert text.partition(": ")[0] in ("module 'lif'", "module 'b'")
    assert text.partition(": ")[2] == f"called 3 times, {shared}, so all calls share one state; {OWN}"


def test_what_is_alike_and_what_is_not() -> None:
    tape, iterations = looped(fed(lambda tape, x, k, done: x), iterations=4)
    s = [TracedValue(node) for node in iterations.calls["lif"]]
    x = TracedValue(tape.recording.nodes[0])
    part, same = tape.call("select", s[0], 1, 2), tape.call("select", s[0], 1, 3)
    several, one = tape.call("__getitem__", x, (2, 3)), tape.call("__getitem__", x, 3)
    named, function = tape.input(name="f"), tape.call("f")
    first, second = pair(tape, x, 0), pair(tape, x, 1)
    iterations = TimeLoop(tape.recording)
    cases = [
        (s[2], 2, s[3], True),
        (s[1], 2, s[2], True),
        (s[0], 2, s[1], True),
        (s[0], 1, s[1], False),
        (s[1], 2, s[3], False),
        (part, 2, same, True),
        (part, 1, same, False),
        (several, 2, one, False),
        (one, 2, several, False),
        (named, 0, function, False),
        (first, 0, second, False),
        (first, 0, first, True),
        (x, 0, 3, False),
        (torch.relu, 0, torch.relu, True),
    ]
    for a, iteration, b, wanted in cases * 2:  # what was compared before is known
        assert iterations.alike(a, iteration, b) is wanted, (a, iteration, b)


CALLED = ("spikes of before", "a layer on spikes of before", "nothing added in the first step", "two neurons")
KEPT = (
    "only inputs and neuron outputs of a fixed number of time steps ago are traced, initially zero",
    "feed back only spikes of earlier time steps, initially zero",
)


@pytest.mark.parametrize("name", CALLED)
def test_calls_in_a_row_that_are_one_step(name: str) -> None:
    assert called(STEPS[name])[1].problems() == []


@pytest.mark.parametrize("name", ["spikes of before, from ones", "another layer in one step", "early, then late"])
def test_calls_in_a_row_that_are_not(name: str) -> None:
    (problem,) = called(OTHERS[name])[1].problems()
    text = "its input depends on a value that forward keeps between calls"
    assert (problem.found, problem.limit, problem.hint) == (text, *KEPT)


def test_an_input_of_the_call_before_and_another_one_are_told_apart() -> None:
    inputs: list[TracedValue] = []

    def before(tape: Tape, x: TracedValue, k: int, done: list[TracedValue]) -> TracedValue:
        inputs[k:] = [x]
        return lif(tape, inputs[max(k - 1, 0)])

    def other(tape: Tape, x: TracedValue, k: int, done: list[TracedValue]) -> TracedValue:
        return lif(tape, tape.input(name="y") if k == 1 else x)

    for body in (before, other):
        assert [p.subject for p in called(body)[1].problems()] == ["module 'lif'"]


def test_outputs_that_are_not_the_same_in_every_call() -> None:
    tape = Tape()
    spikes: list[TracedValue] = []
    for k in range(3):
        tape.start()
        spikes.append(lif(tape, tape.input()))
        own, kept = fc(tape, spikes[k]), fc(tape, spikes[min(k, 1)])
        middle = fc(tape, spikes[k if k != 1 else 0])
        named = {"a": own, "b": kept, "": spikes[0], "middle": middle, "constant": 3.0, "counter": k}
        tape.returns(**named, **({"late": own} if k else {}))
    found = [str(p) for p in TimeLoop(tape.recording, calls=3).problems()]
    text = "depends on a value that forward keeps between calls"
    assert found == [
        f"the module's forward: its output {name} {text}, {KEPT[0]}; {KEPT[1]}"
        for name in ("'b'", "'output'", "'middle'", "'counter'", "'late'")
    ]


def test_a_neuron_that_is_called_in_some_turns_only() -> None:
    def body(tape: Tape, x: TracedValue, k: int, done: list[TracedValue]) -> TracedValue:
        if k != 1:
            lif(tape, x, "b")
        return lif(tape, x, "a")

    limit = f"each neuron is called once per time step; {ONCE}"
    assert [str(p) for p in looped(body)[1].problems()] == [
        f"module 'b': called 2 times, others are called 3 times, {limit}"
    ]
    assert [str(p) for p in called(body)[1].problems()] == [
        f"module 'b': called 2 times in 3 calls of forward, {limit}"
    ]


def test_a_neuron_with_states_of_its_own_and_two_inputs() -> None:
    def body(tape: Tape, x: TracedValue, k: int, done: list[TracedValue]) -> TracedValue:
        return tape.neuron("lif", fc(tape, x) if k == 1 else x, state(done[-1]) if k else torch.zeros(ROW))

    (problem,) = looped(body)[1].problems()
    assert (problem.limit, problem.hint) == (ONE_INPUT, ONCE)

    def none_first(tape: Tape, x: TracedValue, k: int, done: list[TracedValue]) -> TracedValue:
        return tape.neuron("lif", fc(tape, x) if k == 1 else x, *([state(done[-1])] if k else []))

    assert [p.limit for p in looped(none_first)[1].problems()] == [ONE_INPUT]


def test_outputs_of_a_loop_are_those_of_its_last_call() -> None:
    tape, _ = looped(fed(lambda tape, x, k, done: x))
    tape.recording.returned[:] = [[("output", 1.0)], [("output", 2.0)]]
    assert TimeLoop(tape.recording).problems() == []
