"""Comparison of runs and calls, from handwritten traces: equality, and every refusal."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from nirbridge.importers.tracing.consistency import (
    arguments_left,
    data_dependence,
    failed_again,
    handed_over,
    is_steady,
    kept_between,
    reset_in,
    state_arguments,
)
from nirbridge.importers.tracing.recorder import TracedValue
from tests.importers.tracing.tape import ROW, Tape, state

torch = pytest.importorskip("torch")

DATA = "compute with torch functions only; no numpy, no random numbers"
KEPT = "keep nothing between calls except neuron states and the spikes of the previous time step"
FORWARD = "the module's forward"


class Several(SimpleNamespace):
    """A module whose forward has arguments of every kind."""

    def forward(self, x: Any, y: Any, /, mem: Any = None, beta: float = 0.5, *rest: Any, **more: Any) -> None: ...


class Named(SimpleNamespace):
    def forward(
        self, x: Any, *, state: Any = None, is_quick: bool = True, mode: str = "all", gain: Any = "z"
    ) -> None: ...


def test_arguments_that_may_be_handed_on() -> None:
    assert [state_arguments(Several(), k) for k in (0, 2, 3, 4)] == [("mem",), ("mem",), (), ()]
    assert state_arguments(Named(), 1) == ("state",)
    fixed = SimpleNamespace(forward=lambda x=None, /, *, y=None: x)
    assert state_arguments(fixed, 0) == ("y",)
    unknown = SimpleNamespace(forward=3)
    assert state_arguments(unknown, 0) == ()


def test_notes_on_arguments_that_stay_as_they_are() -> None:
    assert arguments_left(Several(), 2, ()) == [
        "forward's argument 'mem' is None in every time step",
        "forward's argument 'beta' is 0.5 in every time step",
    ]
    assert arguments_left(Several(), 2, ("mem",)) == ["forward's argument 'beta' is 0.5 in every time step"]
    assert arguments_left(Named(), 1, ("state",)) == []
    assert arguments_left(Named(), 0, ("state",)) == []
    long = SimpleNamespace(forward=lambda x, a=tuple(range(20)): x)
    assert arguments_left(long, 1, ()) == [f"forward's argument 'a' is {str(tuple(range(20)))[:40]} in every time step"]


def test_the_hint_on_what_was_handed_back() -> None:
    assert str(handed_over(("a", "b"))) == (
        f"{FORWARD}: its arguments 'a', 'b' were given its outputs of the previous time step, since they are None by "
        "default; if they are not states, import a wrapper module that omits them"
    )
    tape = Tape()
    tape.recording.failure = "ValueError: no"
    assert str(failed_again(tape.recording)) == (
        f"{FORWARD}: it cannot be called a second time: ValueError: no, a network runs one time step at a time; {KEPT}"
    )


# -- two runs on different numbers -----------------------------------------------------------------------------------


def run(change: str = "") -> Tape:
    """One run of a forward; ``change``: what is otherwise in it."""
    tape = Tape()
    tape.start()
    x = tape.input()
    y = tape.call(
        "mul", x, {"constant": 3.0, "value": x}.get(change, 2.0), path="m", alpha=1 if change != "option" else 2
    )
    z = tape.call("add" if change != "name" else "sub", y, (x, 1), path="" if change != "path" else "n")
    if change == "one more":
        tape.call("relu", z)
    if change == "shape":
        z = tape.call("relu", y, shape=(2, 3))
    more = {"d": z} if change == "one more output" else {}
    tape.returns(a=z, b=y if change != "output" else x, c=1.0 if change != "number" else 2.0, **more)
    return tape


def depends(change: str) -> list[str]:
    return [str(p) for p in data_dependence(run().recording, run(change).recording)]


def test_runs_that_agree() -> None:
    assert depends("") == []


@pytest.mark.parametrize(
    ("change", "place", "found"),
    [
        ("constant", "module 'm'", "an argument of 'mul'"),
        ("value", "module 'm'", "an argument of 'mul'"),
        ("option", "module 'm'", "an argument of 'mul'"),
        ("name", FORWARD, "an argument of 'add'"),
        ("path", FORWARD, "an argument of 'add'"),
    ],
)
def test_runs_that_compute_other_things(change: str, place: str, found: str) -> None:
    text = "depends on data in a way that cannot be traced, or on chance"
    assert depends(change) == [f"{place}: {found} {text}; {DATA}"]
    assert len(data_dependence(run(change).recording, run().recording)) == 1


def test_runs_of_other_lengths_and_other_outputs() -> None:
    for change in ("one more", "one more output"):
        found = [depends(change), [str(p) for p in data_dependence(run(change).recording, run().recording)]]
        assert found == [[f"{FORWARD}: it computes different operations on different data; {DATA}"]] * 2
    for change, name in (("output", "b"), ("number", "c")):
        text = f"its output '{name}' depends on data in a way that cannot be traced"
        assert depends(change) == [f"{FORWARD}: {text}; {DATA}"]


def test_numbers_of_other_types_are_other_constants() -> None:
    for a, b, wanted in ((1, 1, True), (1, 1.0, False), (True, 1, False), ((1, 2), (1, 2), True), ((1, 2), (1,), False),
                         ({"k": 1}, {"k": 1}, True), ({"k": 1}, {"j": 1}, False),
                         ({"k": 1, "j": 2}, {"k": 1, "j": 3}, False),
                         ((1, 2, 3), (1, 5, 3), False), ((1,), 1, False), (1, (1,), False), ({"k": 1}, 1, False),
                         (1, {"k": 1}, False), (None, None, True)):  # fmt: skip
        first, second = Tape(), Tape()
        for tape, given in ((first, a), (second, b)):
            tape.call("f", tape.input(), given)
        assert (data_dependence(first.recording, second.recording) == []) is wanted, (a, b)


# -- calls in a row --------------------------------------------------------------------------------------------------


def calls(change: str = "", count: int = 3, at: int = 2) -> Tape:
    """Calls of a forward with a layer and a neuron; ``change``: what is otherwise in call ``at``."""
    tape = Tape()
    before: Any = None
    first: Any = None
    for k in range(count):
        tape.start()
        odd = change if k == at else ""
        x = tape.input(name="x" if odd != "input" else "y")
        fc = tape.call("linear" if odd != "name" else "mul", x, 1.0 if odd != "constant" else 2.0, path="fc")
        given: list[Any] = [torch.zeros(ROW) if before is None else before]
        given = {"ones": [torch.ones(ROW)], "zeros": [torch.zeros(ROW)], "none": [None], "argument": [x],
                 "two": [given[0], torch.ones(ROW)], "copy": [tape.call("detach", given[0])] if odd == "copy" else [],
                 "computed": [fc]}.get(odd, given)  # fmt: skip
        source = {"kept current": first, "other input": x}.get(odd, fc)
        if odd == "one more":
            tape.call("relu", x)
        lif = tape.neuron("lif", source if source is not None else fc, *given)
        if odd == "another neuron":
            lif = tape.neuron("lif2", fc)
        before, first = state(lif), first or fc
        outputs = {"s": lif if odd != "other output" else state(lif), "fc": fc if odd != "kept output" else first}
        tape.returns(**outputs, **({"extra": fc} if odd == "more outputs" else {}))
    return tape


STEADY = ("", "none")
STEADY_ALWAYS = ("zeros", "argument")
"""Steady if every later call is like this: a state that is reset in some calls only is none that a network has."""
UNSTEADY = (
    "name", "constant", "ones", "two", "computed", "kept current", "other input", "one more", "another neuron",
    "input", "other output", "kept output", "more outputs", "copy",
)  # fmt: skip


@pytest.mark.parametrize(("count", "at"), [(3, 1), (3, 2), (2, 1)])
def test_calls_that_are_the_first_one_over_again(count: int, at: int) -> None:
    assert [is_steady(calls(change, count, at).recording) for change in STEADY] == [True] * len(STEADY)
    assert [is_steady(calls(change, count, at).recording) for change in STEADY_ALWAYS] == [count == 2] * 2


@pytest.mark.parametrize(("count", "at"), [(3, 1), (3, 2), (2, 1)])
@pytest.mark.parametrize("change", UNSTEADY)
def test_calls_that_are_not(change: str, count: int, at: int) -> None:
    assert is_steady(calls(change, count, at).recording) is False


def test_states_of_another_neuron_and_computed_ones_are_not_steady() -> None:
    for source, wanted in (("lif", True), ("other", False), ("", False)):
        tape = Tape()
        kept: dict[str, TracedValue] = {}
        for k in range(3):
            tape.start()
            x = tape.input()
            computed = tape.call("mul", x, 2.0, path="lif")
            given = (state(kept[source]) if k else torch.zeros(ROW)) if source else computed
            kept = {name: tape.neuron(name, x, given if name == "lif" else None) for name in ("other", "lif")}
            tape.returns(s=kept["lif"])
        assert is_steady(tape.recording) is wanted
    assert is_steady(calls(count=1).recording) is True


LIMIT = "with a loop over time or a time axis in forward, every call starts a new sequence"
ANEW = "create such values in forward, from zeros"


def test_places_of_what_was_kept_from_the_call_before() -> None:
    tape = calls("kept current", at=1)
    assert [str(p) for p in kept_between(tape.recording)] == [
        f"module 'lif': an argument of 'lif' was kept from the previous call of forward, {LIMIT}; {ANEW}"
    ]
    assert [str(p) for p in kept_between(calls().recording)] == [
        f"{FORWARD}: its second call differs from the first, every time step must compute the same; {KEPT}"
    ]
    several = calls()
    first = TracedValue(several.recording.nodes[1])
    for path in ("a", "b", "a"):
        several.call("__add__", first, first, path=path)
    several.call("relu", TracedValue(several.recording.nodes[several.recording.starts[1]]), path="c")
    several.call("relu", TracedValue(several.recording.nodes[0]), path="d")
    assert [p.subject for p in kept_between(several.recording)] == ["module 'a'", "module 'b'", "module 'd'"]
    assert kept_between(several.recording)[0].found == "an argument of 'add' was kept from the previous call of forward"


@pytest.mark.parametrize(
    ("resets", "wanted"),
    [((), ([], [])), ((0,), ([], [])), ((1, 2), (["lif"], [])), ((1,), ([], ["lif"])), ((2,), ([], ["lif"]))],
)
def test_neurons_whose_state_is_set_anew(resets: tuple[int, ...], wanted: Any) -> None:
    tape = Tape()
    neurons: list[int] = []
    others: list[TracedValue] = []
    for _ in range(3):
        tape.start()
        neurons.append(tape.neuron("lif", tape.input()).node.index)
        others += [tape.neuron("given", tape.input(), torch.zeros(ROW)), tape.call("relu", tape.input())]
    tape.recording.resets[:] = [*(neurons[k] for k in resets), *(other.node.index for other in others)]
    every, some = reset_in(tape.recording)
    assert (every, [p.subject.removeprefix("module ").strip("'") for p in some]) == wanted
    for problem in some:
        assert str(problem) == (
            "module 'lif': its state is reset in some calls of forward and not in others; reset it outside of forward"
        )
    tape.recording.starts[2:] = []
    assert reset_in(tape.recording)[0] == (["lif"] if resets == (1, 2) else [])
    tape.recording.starts[1:] = []
    assert reset_in(tape.recording) == ([], [])
