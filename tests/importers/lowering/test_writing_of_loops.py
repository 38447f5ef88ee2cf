"""Handwritten traces of loops and repeated calls, as dataflow graphs of one time step."""

from __future__ import annotations

from typing import Any

import pytest

from nirbridge.importers.neuron_specs import LoopSummary, ValueRef
from nirbridge.importers.tracing.recorder import TracedValue
from tests.importers.lowering.written import SEQUENCE, begun, flow, lif, names, texts
from tests.importers.tracing.tape import ROW, Tape

torch = pytest.importorskip("torch")


def looped(back: int = 1, iterations: int = 3, at: Any = None) -> Tape:
    """A loop in which a neuron hears what another sent ``back`` steps before."""
    tape = Tape()
    tape.start()
    x = tape.input((iterations, *ROW))
    sent: list[TracedValue] = []
    for k in range(iterations):
        now = tape.call("select", x, 0, k)
        heard = sent[k - back] if k >= back else torch.zeros(ROW)
        second = lif(tape, tape.call("add", now, heard, func=torch.add), "b")
        sent.append(lif(tape, now, "a"))
        tape.returns(last=second, static=tape.call("neg", x, shape=(iterations, *ROW)))
    return tape


def test_a_loop_is_one_step() -> None:
    tape = looped()
    found = flow(tape, SEQUENCE)
    assert texts(found) == []
    assert found.loop == LoopSummary(3, True, False, 3)
    assert [(c.name, c.kind) for c in found.calls] == [
        ("x", "input"), ("add", "add"), ("b", "neuron"), ("a", "neuron"), ("neg", "scale")
    ]  # fmt: skip
    assert found.calls[1].inputs == (ValueRef("x"), ValueRef("a", 0, True))
    assert found.notes == (
        "output 'last': the module returns its last time step, the import returns every time step",
        "forward loops over the time steps of its input: imported as one time step",
    )


def test_the_shortest_loop() -> None:
    found = flow(looped(iterations=2), SEQUENCE)
    assert (texts(found), found.loop.iterations) == ([], 2)
    assert found.notes[0] == "output 'last': the module returns its last time step, the import returns every time step"
    assert found.notes[1] == "forward loops over the time steps of its input: imported as one time step"


def steps(iterations: int = 3, **more: Any) -> tuple[Tape, list[TracedValue]]:
    """A loop with one neuron, and what it sent in each turn."""
    tape = Tape()
    tape.start()
    x = tape.input((iterations, *ROW))
    return tape, [lif(tape, tape.call("select", x, 0, k), **more) for k in range(iterations)]


def test_what_the_steps_of_a_loop_send_put_together() -> None:
    for axis, shape in ((0, (3, *ROW)), (1, (2, 3, 4)), (2, (2, 4, 3))):
        tape, sent = steps()
        tape.returns(s=tape.call("mul", tape.call("stack", tuple(sent), axis, shape=shape), 2.0, shape=shape))
        found = flow(tape, SEQUENCE)
        kind = "scale" if axis < 2 else "unknown"
        assert [(c.name, c.kind) for c in found.calls] == [("x", "input"), ("lif", "neuron"), ("mul", kind)]
        assert found.calls[2].inputs == (ValueRef("lif"),)
        assert found.notes == ("forward loops over the time steps of its input: imported as one time step",)


def test_what_the_steps_of_a_loop_send_summed() -> None:
    tape, sent = steps()
    total: Any = 0
    for spikes in sent:
        total = tape.call("add", total, spikes)
    tape.returns(s=tape.call("div", total, 3.0))
    found = flow(tape, SEQUENCE)
    assert (texts(found), names(found), found.outputs[0].ref) == ([], ["x", "lif"], ValueRef("lif"))
    assert found.notes[0].startswith("output 's' is averaged over time by the module")


def test_a_slice_that_keeps_the_time_axis_is_one_step() -> None:
    for iterations in (1, 2, 3):
        tape = Tape()
        tape.start()
        x = tape.input((iterations, *ROW))
        for k in range(iterations):
            one = tape.call("narrow", x, 0, k, 1, shape=(1, *ROW))
            tape.returns(s=lif(tape, one, shape=(1, *ROW)))
        found = flow(tape, SEQUENCE)
        text = "module 'lif': it is given values with leading axes ('time', 'batch'); give it one time step of a batch"
        assert texts(found) == ([text] if iterations == 1 else [])
        assert found.calls[-1].shape == (4,)
    tape = Tape()
    tape.start()
    x = tape.input((3, *ROW))
    for _ in range(3):
        tape.returns(s=lif(tape, x, shape=(3, *ROW)))
    assert texts(flow(tape, SEQUENCE)) == [text]


def test_states_that_start_anew_in_a_loop_are_a_problem_alone() -> None:
    tape = Tape()
    tape.start()
    x = tape.input((3, *ROW))
    for k in range(3):
        tape.returns(s=lif(tape, tape.call("select", x, 0, k), "lif", torch.zeros(ROW)))
    found = flow(tape, SEQUENCE)
    assert (len(found.problems), found.deviations) == (1, ())


def test_values_of_more_than_one_step_before() -> None:
    found = flow(looped(back=2), SEQUENCE)
    assert texts(found) == []
    assert found.calls[1].inputs == (ValueRef("x"), ValueRef("a", 0, 2))


def test_calls_in_a_row_are_one_step() -> None:
    tape = Tape()
    sent: Any = torch.zeros(ROW)
    for _ in range(3):
        tape.start()
        x = tape.input()
        heard = tape.call("add", x, sent, func=torch.add)
        sent = lif(tape, heard)
        tape.returns(s=sent)
    tape.recording.handed = ("prev", "more")
    found = flow(tape, calls=3)
    assert texts(found) == []
    assert found.notes == (
        "forward keeps values between calls: imported as connections delayed by one time step",
        "forward's arguments 'prev', 'more': its outputs of the previous time step",
    )
    assert [(c.name, c.kind) for c in found.calls] == [("x", "input"), ("add", "add"), ("lif", "neuron")]
    assert found.calls[1].inputs == (ValueRef("x"), ValueRef("lif", 0, True))
    tape.recording.handed = ()
    assert len(flow(tape, calls=3).notes) == 1


def test_an_input_of_the_call_before() -> None:
    tape = Tape()
    before: Any = torch.zeros(ROW)
    for _ in range(3):
        tape.start()
        x = tape.input()
        tape.returns(s=lif(tape, before))
        before = x
    found = flow(tape, calls=3)
    assert texts(found) == []
    assert [(c.name, c.inputs) for c in found.calls] == [("x", ()), ("lif", (ValueRef("x", 0, 1),))]


def test_problems_and_notes_are_said_once() -> None:
    tape, x = begun()
    for path in ("a", "a", "b"):
        tape.recording.halves.append((path, "__mul__", "torch.float16"))
    tape.returns(s=lif(tape, x))
    found = flow(tape)
    assert [(d.subject, d.found) for d in found.deviations] == [
        ("module 'a'", "'mul' gives torch.float16"),
        ("module 'b'", "'mul' gives torch.float16"),
    ]
    quiet = [lif(tape, torch.zeros(ROW), "q") for _ in range(1)]
    assert len(texts(flow(tape))) == len(quiet)
    tape.recording.problems += list(flow(tape).problems)
    assert len(texts(flow(tape))) == 1


def test_calls_with_whole_sequences_keep_their_time_axis() -> None:
    tape = Tape()
    whole = (3, *ROW)
    sent: Any = torch.zeros(whole)
    for _ in range(3):
        tape.start()
        heard = tape.call("add", tape.input(whole), sent, func=torch.add, shape=whole)
        sent = lif(tape, heard, layout=("time", "batch"), shape=whole)
        tape.returns(s=sent)
    found = flow(tape, SEQUENCE, calls=3)
    assert (texts(found), found.calls[1].kind) == ([], "add")


def test_leading_axes_of_what_is_not_known() -> None:
    tape = Tape()
    tape.start()
    x = tape.input((3, *ROW))
    tape.returns(s=lif(tape, tape.call("fft", x, shape=(3,))))
    assert texts(flow(tape, SEQUENCE)) == [
        "module 'lif': it is given values with leading axes ('time',); give it one time step of a batch"
    ]
