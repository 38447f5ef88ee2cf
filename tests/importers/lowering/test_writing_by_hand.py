"""Handwritten traces as dataflow graphs: names, notes, outputs, and every untraceable operation in full."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from nirbridge.importers.neuron_specs import LoopSummary, ValueRef
from nirbridge.importers.tracing.graph_builder import GraphBuilder
from nirbridge.importers.tracing.recorder import TracedValue
from tests.importers.lowering.written import FORMS, SEQUENCE, Block, Neuron, Roles, begun, flow, lif, names, texts
from tests.importers.tracing.tape import ROW, Tape

torch = pytest.importorskip("torch")

IN_FRONT = "move them in front of the values, for example with permute or movedim"


def test_names_are_those_of_modules_and_of_functions() -> None:
    tape, x = begun()
    leaf, block = Neuron(), Block()
    value: Any = x
    for name, path, module in (
        ("mul", "", None), ("mul", "a.fc", leaf), ("mul", "a.fc", leaf), ("mul", "a", block), ("__neg__", "", block),
        ("mul", "b", None), ("mul", "output", leaf), ("mul", "", leaf),
    ):  # fmt: skip
        value = tape.node("function", name, (value,) if "neg" in name else (value, 2.0), path=path, module=module)
    spikes = lif(tape, value, "")
    tape.returns(out=tape.node("function", "mul", (spikes, 2.0), path="lif (use 2)", module=Neuron()))
    found = flow(tape)
    assert names(found) == [
        "x", "mul", "a_fc", "a_fc_2", "a_mul", "neg", "b_mul", "output_2", "mul_2", "neuron", "lif"
    ]  # fmt: skip
    assert [c.path for c in found.calls][:5] == ["", "", "a.fc", "a.fc", "a"]
    assert [c.target for c in found.calls][2:5] == [leaf, leaf, block]
    assert [(o.name, o.ref) for o in found.outputs] == [("out", ValueRef("lif"))]
    assert (found.problems, found.notes, found.deviations, found.loop) == ((), (), (), LoopSummary())


def test_what_no_output_and_no_neuron_needs_is_left_out() -> None:
    tape, x = begun()
    used, unused = tape.call("mul", x, 2.0), tape.call("mul", x, 3.0)
    heard = tape.call("neg", unused)
    lif(tape, heard)
    tape.call("mul", unused, 4.0)
    tape.returns(a=used, b=3.0, c=used)
    found = flow(tape)
    assert names(found) == ["x", "mul", "mul_2", "neg", "lif"]
    assert [(o.name, o.ref.call) for o in found.outputs] == [("a", "mul"), ("c", "mul")]


def test_outputs_without_a_name_and_the_input_returned() -> None:
    tape, x = begun()
    tape.returns(**{"": lif(tape, x), "x": x, "copy": tape.call("clone", x)})
    assert [o.name for o in flow(tape).outputs] == ["output"]
    for outputs in ({"x": x}, {"a": 3.0}, {}):
        tape.returns(**outputs)
        found = flow(tape)
        nothing = "the module's forward: it returns nothing that depends on its input; return spikes or a readout"
        assert (texts(found), found.outputs) == ([nothing], ())


def test_a_neuron_has_the_shape_of_one_step_and_of_one_sample() -> None:
    tape, x = begun()
    s = lif(tape, x)
    tape.returns(s=s, again=lif(tape, s, "second"))
    first, second = flow(tape).calls[1:]
    assert (first.shape, first.inputs, dict(first.arguments)) == (
        (4,), (ValueRef("x"),), {"starts_at_zero": False}
    )  # fmt: skip
    assert (second.inputs, second.path) == ((ValueRef("lif"),), "second")


@pytest.mark.parametrize(("given", "starts"), [(torch.zeros(ROW), True), (None, False), (0.0, True)])
def test_first_states_that_forward_gives(given: Any, starts: bool) -> None:
    tape, x = begun()
    tape.returns(s=lif(tape, x, "lif", given))
    found = flow(tape)
    assert found.calls[1].arguments["starts_at_zero"] is starts
    assert [(d.name, d.subject) for d in found.deviations] == ([("kept-states", "module 'lif'")] if starts else [])


def test_only_states_that_forward_always_gives_are_a_deviation() -> None:
    tape, x = begun()
    for given in ((x,), (x, torch.zeros(ROW)), (torch.zeros(ROW), x)):
        tape, x = begun()
        tape.returns(s=lif(tape, x, "lif", *(x if isinstance(g, TracedValue) else g for g in given)))
        assert flow(tape).deviations == ()
    whole, sequence = Tape(), ("time", "batch")
    whole.start()
    y = whole.input((3, *ROW))
    whole.returns(s=lif(whole, y, "lif", torch.zeros(ROW), layout=sequence, shape=(3, *ROW)))
    assert flow(whole, SEQUENCE).deviations == ()
    tape.recording.nodes.clear()
    tape.recording.starts.clear()
    for _ in range(2):
        tape.start()
        tape.returns(s=lif(tape, tape.input(), "lif", torch.zeros(ROW)))
    assert [d.name for d in flow(tape, calls=2).deviations] == ["kept-states"]


def test_neurons_that_hear_nothing_of_the_input_or_have_no_form() -> None:
    text = "its input does not depend on the module's input; connect it"
    tape, x = begun()
    tape.returns(s=tape.node("neuron", "lif", (x,), path="lif", module=Block(), shapes=(ROW,)))
    assert texts(flow(tape)) == [f"module 'lif': {text}"]
    for given in (torch.zeros(ROW), None):
        tape, x = begun()
        lif(tape, given)
        tape.returns(s=lif(tape, x, "b"))
        assert texts(flow(tape)) == [f"module 'lif': {text}"]


# -- leading axes ----------------------------------------------------------------------------------------------------

LEADS: list[tuple[Roles, Any, str]] = [
    (("batch", "value"), None, ""),
    (("value", "value"), None, ""),
    (("batch", "time"), ("batch", "time"), ""),
    (("time", "batch"), ("time", "batch"), ""),
    (("merged", "value"), ("merged",), ""),
    (("time", "batch"), ("batch", "time"), "values with leading axes ('time', 'batch'); give it ('batch', 'time')"),
    (("batch", "value"), ("time", "batch"), "values with leading axes ('batch',); give it ('time', 'batch')"),
    (("value", "value"), ("time",), "values with leading axes none; give it ('time',)"),
    (("time", "batch"), None, "values with leading axes ('time', 'batch'); give it one time step of a batch"),
    (("merged", "value"), None, "values with leading axes ('merged',); give it one time step of a batch"),
    (
        ("value", "batch"),
        None,
        "values of shape (2, 4), where batch or time is not leading; give it one time step of a batch",
    ),
]


@pytest.mark.parametrize(("roles", "layout", "text"), LEADS)
def test_leading_axes_of_what_a_neuron_is_given(roles: Roles, layout: Any, text: str) -> None:
    tape, x = begun()
    tape.returns(s=lif(tape, x, layout=layout))
    found = flow(tape, roles)
    assert texts(found) == ([f"module 'lif': it is given {text}"] if text else [])
    assert found.loop.follows is (not text and "time" in roles)


def test_a_class_that_is_refused_is_given_anything() -> None:
    class Other(Neuron):
        def children(self) -> list[Any]:
            return [self]

    tape, x = begun()
    tape.returns(s=tape.node("neuron", "lif", (x,), path="lif", module=Other(), shapes=(ROW,)))
    assert texts(flow(tape, ("time", "batch"))) == []


def x_last(tape: Tape, x: TracedValue) -> TracedValue:
    """A value of every step: what two neurons after another send, without its time axis, as ``select`` leaves it."""
    return tape.call("neg", tape.call("select", tape.call("mul", x, 2.0, shape=(3, *ROW)), 0, 0))


def test_values_summed_over_time_and_of_the_last_step() -> None:
    tape = Tape()
    tape.start()
    x = tape.input((3, *ROW))
    spikes = lif(tape, x, layout=("time", "batch"), shape=(3, *ROW))
    total = tape.call("sum", spikes, 0)
    third = tape.call("div", total, 3.0)
    last = tape.call("select", spikes, 0, 2)
    kept = tape.call("mul", tape.call("view", last, 2, 4), 2.0)
    tape.returns(a=tape.call("view", third, 2, 4), b=kept)
    found = flow(tape, SEQUENCE)
    assert texts(found) == []
    assert names(found) == ["x", "lif", "mul"]
    assert [o.ref.call for o in found.outputs] == ["lif", "mul"]
    assert found.notes == (
        "output 'a' is averaged over time by the module; the import returns each time step, so average its spikes",
        "output 'b': the module returns its last time step, the import returns every time step",
    )
    lif(tape, third, "after")
    lif(tape, kept, "late")
    lif(tape, tape.call("add", x_last(tape, x), kept), "later")
    tape.returns(a=tape.call("add", total, tape.call("view", kept, 2, 4), path="m"))
    one = "give it one time step of a batch"
    assert texts(flow(tape, SEQUENCE)) == [
        f"module 'after': it is given values summed over time; {one}",
        f"module 'late': it is given values of the last time step only; {one}",
        f"module 'later': it is given values of the last time step only; {one}",
        "module 'm': add works on values summed over time; return the sum unchanged",
    ]


OVER_TIME: dict[str, tuple[Any, list[str], str]] = {
    "a factor": (lambda t, s: t.call("mul", t.call("sum", s, 0, shape=ROW), 2.0), ["mul"], "summed"),
    "a factor of a mean": (lambda t, s: t.call("mul", t.call("mean", s, 0, shape=ROW), 2.0), ["mul"], "averaged"),
    "the sample's length": (lambda t, s: t.call("div", t.call("sum", s, 0, shape=ROW), 5.0), [], "summed"),
    "another length": (lambda t, s: t.call("div", t.call("sum", s, 0, shape=ROW), 4.0), ["div"], "summed"),
    "a constant after a mean": (lambda t, s: t.call("add", t.call("mean", s, 0, shape=ROW), 1.0), ["add"], "averaged"),
}


@pytest.mark.parametrize("name", OVER_TIME)
def test_linear_functions_of_sums_and_means_over_time_are_those_of_each_time_step(name: str) -> None:
    make, written, words = OVER_TIME[name]
    tape = Tape()
    tape.start()
    spikes = lif(tape, tape.input((3, *ROW)), layout=("time", "batch"), shape=(3, *ROW))
    tape.returns(a=make(tape, spikes))
    found = GraphBuilder(tape.recording, FORMS, {"x": SEQUENCE}, steps=5).flow()
    assert texts(found) == []
    assert names(found) == ["x", "lif", *written]
    assert f"output 'a' is {words} over time" in found.notes[-1]


def test_a_constant_after_a_sum_over_time_counts_once_and_not_in_each_step() -> None:
    tape = Tape()
    tape.start()
    spikes = lif(tape, tape.input((3, *ROW)), layout=("time", "batch"), shape=(3, *ROW))
    tape.returns(a=tape.call("add", tape.call("sum", spikes, 0, shape=ROW), 1.0, path="m"))
    assert texts(flow(tape, SEQUENCE)) == ["module 'm': add works on values summed over time; return the sum unchanged"]


def test_functions_that_are_not_known_or_not_read() -> None:
    tape, x = begun()
    odd = tape.call("softmax", x, 1)
    product = tape.call("mul", odd, x)
    wrong = tape.call("conv2d", product, "what")
    tape.returns(y=wrong)
    found = flow(tape)
    assert [dict(c.arguments) for c in found.calls[1:]] == [
        {"function": "softmax", "reason": "", "hint": ""},
        {
            "function": "mul",
            "reason": "a product of two values",
            "hint": "no spiking neuron multiplies; use a fixed factor",
        },
        {
            "function": "conv2d",
            "reason": "a convolution of values of shape (4,); channels and 2 axes are supported",
            "hint": "add the missing axis, or use Conv2d",
        },
    ]
    assert [c.inputs for c in found.calls[1:]] == [
        (ValueRef("x"),),
        (ValueRef("softmax"), ValueRef("x")),
        (ValueRef("mul"),),
    ]


@pytest.mark.parametrize("error", [TypeError, IndexError, RuntimeError, ValueError, AttributeError])
def test_functions_that_are_called_in_a_way_that_is_not_read(error: type[Exception]) -> None:
    class Odd:
        ndim = 2

        def __float__(self) -> float:
            raise error("no")

    tape, x = begun()
    tape.returns(y=tape.call("add", x, 2.0, alpha=Odd()))
    arguments = flow(tape).calls[1].arguments
    assert arguments["reason"] == f"its arguments are not supported ({error.__name__})"


def test_values_whose_batch_is_not_in_front_only_move() -> None:
    tape, x = begun()
    tape.returns(y=tape.call("mul", x, 2.0))
    found = flow(tape, ("value", "batch"))
    assert (found.calls[1].kind, found.calls[1].arguments["reason"], found.calls[1].arguments["hint"]) == (
        "unknown", "values of shape (2, 4), where batch or time is not leading", IN_FRONT
    )  # fmt: skip
    cast = tape.call("to", x, torch.float64)
    tape.returns(y=tape.call("neg", tape.call("permute", cast, (1, 0), func=torch.permute)))
    assert names(flow(tape, ("value", "batch"))) == ["x", "neg"]


def test_several_outputs_of_a_function() -> None:
    tape, x = begun()
    halves = tape.node("function", "chunk", (x, 2, 1), shapes=((2, 2), (2, 2)), func=torch.chunk)
    first, second = halves, TracedValue(halves.node, 1)
    tape.returns(a=second)
    found = flow(tape)
    assert [(c.name, np.asarray(c.arguments["indices"]).tolist()) for c in found.calls[1:]] == [("chunk_2", [2, 3])]
    tape.returns(a=second, b=first)
    found = flow(tape)
    assert [c.name for c in found.calls[1:]] == ["chunk_2", "chunk"]
    assert [o.ref.call for o in found.outputs] == ["chunk_2", "chunk"]
    thirds = tape.node("function", "split", (x, 1, 1), shapes=((2, 1),) * 4, func=torch.split)
    tape.returns(**{name: TracedValue(thirds.node, k) for k, name in enumerate("abcd")})
    assert [o.ref.call for o in flow(tape).outputs] == ["split", "split_2", "split_3", "split_4"]
    pair = tape.node("function", "frexp", (x,), shapes=(ROW, ROW))
    tape.returns(a=pair)
    assert names(flow(tape)) == ["x", "frexp", "frexp_2"]


def test_means_over_positions_lose_these_axes() -> None:
    for kept in (False, True):
        tape = Tape()
        tape.start()
        x = tape.input((2, 3, 4, 5))
        shape = (2, 3, 1, 1) if kept else (2, 3)
        tape.returns(y=tape.call("mean", x, (2, 3), shape=shape, path="m", **({"keepdim": True} if kept else {})))
        found = flow(tape, ("batch", "value", "value", "value"))
        wanted = [("avg_pool", shape[1:], "m_mean")] + ([] if kept else [("reshape", (3,), "m_mean_2")])
        assert [(c.kind, c.shape, c.name) for c in found.calls[1:]] == wanted
        assert found.outputs[0].ref.call == wanted[-1][2]
        assert found.calls[-1].path == "m"


def test_each_of_two_means_has_a_name_of_its_own() -> None:
    tape = Tape()
    tape.start()
    x = tape.input((2, 3, 4, 5))
    means = [tape.call("mean", x, (2, 3), shape=(2, 3), path="m") for _ in range(2)]
    pooled = tape.call("avg_pool2d", x, 2, shape=(2, 3, 2, 2))
    tape.returns(a=means[0], b=means[1], c=pooled)
    found = flow(tape, ("batch", "value", "value", "value"))
    assert names(found) == ["x", "m_mean", "m_mean_3", "m_mean_2", "m_mean_2_2", "avg_pool2d"]


def test_reshapes_of_batch_and_time_alone_are_no_calls() -> None:
    tape = Tape()
    tape.start()
    x = tape.input((3, *ROW))
    spikes = lif(tape, tape.call("view", x, 6, 4, shape=(6, 4)), layout=("merged",), shape=(6, 4))
    again = lif(
        tape, tape.call("view", spikes, 3, 2, 4, shape=(3, *ROW)), "b", layout=("time", "batch"), shape=(3, *ROW)
    )
    tape.returns(s=tape.call("view", again, 3, 2, 2, 2, shape=(3, 2, 2, 2)))
    found = flow(tape, SEQUENCE)
    assert texts(found) == []
    assert [(c.name, c.shape) for c in found.calls] == [("x", (4,)), ("lif", (4,)), ("b", (4,)), ("view_3", (2, 2))]
