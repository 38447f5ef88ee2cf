"""States passed to a neuron from iteration to iteration, from handwritten traces."""

from __future__ import annotations

from typing import Any

import pytest

from nirbridge.importers.tracing.recorder import TracedValue
from nirbridge.importers.tracing.time_loop import TimeLoop
from tests.importers.tracing.tape import ROW, Body, Tape, called, looped, state

torch = pytest.importorskip("torch")


def given(handed: Any) -> Body:
    """A neuron that is handed ``handed(tape, iteration, calls of the neuron before, calls of another neuron)``."""
    others: list[TracedValue] = []

    def body(tape: Tape, x: TracedValue, k: int, done: list[TracedValue]) -> TracedValue:
        others[k:] = [tape.neuron("other", x)]
        return tape.neuron("lif", x, *handed(tape, k, done, others))

    return body


ZERO = torch.zeros(ROW)
FINE: dict[str, Any] = {
    "its own, from zeros": lambda tape, k, done, others: (state(done[-1]) if k else ZERO,),
    "its own, from None": lambda tape, k, done, others: (state(done[-1]) if k else None,),
    "two of its own": lambda tape, k, done, others: (done[-1], state(done[-1])) if k else (ZERO, 0),
    "none, of a neuron that keeps it": lambda tape, k, done, others: (None,),
    "its own, from an argument": lambda tape, k, done, others: (state(done[-1]) if k else tape.input(),),
    "a copy of its own": lambda tape, k, done, others: (tape.call("detach", state(done[-1])) if k else ZERO,),
}
ROLE = "in place of its output 1"
WRONG: dict[str, tuple[int, str, Any]] = {
    "from ones": (
        0, f"values that are not zero {ROLE}",
        lambda tape, k, done, others: (state(done[-1]) if k else torch.ones(ROW),),
    ),
    "from a number": (
        0, f"values that are not zero {ROLE}", lambda tape, k, done, others: (state(done[-1]) if k else 0.5,),
    ),
    "another's": (
        1, f"the output 1 of module 'other' {ROLE}",
        lambda tape, k, done, others: (state(others[k - 1]) if k else ZERO,),
    ),
    "its spikes": (1, f"its spikes {ROLE}", lambda tape, k, done, others: (done[-1] if k else ZERO,)),
    "a copy of its spikes": (
        1, f"its spikes {ROLE}", lambda tape, k, done, others: (tape.call("clone", done[-1]) if k else ZERO,),
    ),
    "two, in another order": (
        1, "its output 1 in place of its spikes",
        lambda tape, k, done, others: (state(done[-1]), done[-1]) if k else (ZERO, 0),
    ),
    "the first for ever": (
        2, "its output 1 of an earlier time step", lambda tape, k, done, others: (state(done[0]) if k else ZERO,),
    ),
    "zeros in the last step": (
        2, f"zeros {ROLE}", lambda tape, k, done, others: (state(done[-1]) if k == 1 else ZERO,),
    ),
    "the second of two": (
        1, f"the output 1 of module 'other' {ROLE}",
        lambda tape, k, done, others: (done[-1], state(others[-1])) if k else (ZERO, ZERO),
    ),
    "computed": (
        1, f"a result of 'mul' {ROLE}",
        lambda tape, k, done, others: (tape.call("mul", state(done[-1]), 2) if k else ZERO,),
    ),
    "computed where the neuron is": (
        1, f"a result of 'mul' {ROLE}",
        lambda tape, k, done, others: (tape.call("mul", state(done[-1]), 2, path="lif") if k else ZERO,),
    ),
    "computed from an argument": (
        0, f"a result of 'relu' {ROLE}", lambda tape, k, done, others: (tape.call("relu", tape.input()),),
    ),
    "an argument in a later step": (
        1, f"the input 'x' {ROLE}", lambda tape, k, done, others: (tape.input() if k == 1 else ZERO,),
    ),
    "more than it returns": (
        1, "its output 1", lambda tape, k, done, others: ((state(done[-1]),) * 3 if k else (ZERO,) * 3),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", FINE)
def test_states_that_are_handed_on(name: str) -> None:
    assert looped(given(FINE[name]))[1].problems() == []


@pytest.mark.parametrize("name", WRONG)
def test_states_that_come_from_elsewhere(name: str) -> None:
    step, text, handed = WRONG[name]
    assert [str(p) for p in looped(given(handed))[1].problems()] == [
        f"module 'lif': the state passed to it in time step {step} is not the one that it returned before: {text}; "
        "pass its state on unchanged, starting at zero"
    ]


@pytest.mark.parametrize("reset", [(1,), (2,), (1, 3)])
def test_states_that_some_calls_of_forward_reset(reset: tuple[int, ...]) -> None:
    def handed(tape: Tape, k: int, done: list[TracedValue], others: Any) -> tuple[Any, ...]:
        return (ZERO if not k or k in reset else state(done[-1]),)

    (problem,) = called(given(handed), 4)[1].problems()
    assert "zeros, for some of its states or in some calls of forward only" in problem.found


def test_states_of_which_every_call_resets_one() -> None:
    (problem,) = called(given(lambda tape, k, done, others: (ZERO, state(done[-1]) if k else ZERO)))[1].problems()
    assert "in time step 1 is not the one that it returned before: zeros, for some of its states" in problem.found


def test_a_call_may_be_given_zeros_or_an_argument_every_time() -> None:
    for handed in (lambda tape, *_: (tape.input(name="mem"),), lambda *_: (ZERO,)):
        assert called(given(handed))[1].problems() == []
        assert [p.subject for p in looped(given(handed))[1].problems()] == ["module 'lif'"]


def test_states_that_are_set_anew_in_a_loop() -> None:
    for handed in (lambda tape, k, done, others: (), FINE["its own, from zeros"]):
        tape, _ = looped(given(handed))
        calls = [n.index for n in tape.recording.nodes if n.path == "lif"]
        for iteration in range(3):
            tape.recording.resets[:] = [calls[iteration]]
            found = [str(p) for p in TimeLoop(tape.recording).problems()]
            text = f"module 'lif': its state is reset in time step {iteration} of a loop; reset it before the loop"
            assert found == ([text] if iteration and handed is not FINE["its own, from zeros"] else [])
    tape, _ = called(given(lambda tape, k, done, others: ()))
    tape.recording.resets[:] = [n.index for n in tape.recording.nodes]
    assert TimeLoop(tape.recording, calls=3).problems() == []
