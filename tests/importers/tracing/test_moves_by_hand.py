"""Reshapes, sums and slices: which axes remain batch and time, and every refusal in full."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from nirbridge.errors import ModelError
from nirbridge.importers.neuron_specs import (
    ImportedNeuron,
    NeuronSpec,
    Parameters,
    as_float64,
    neuron_spec_of,
    reader,
    refusals,
)
from nirbridge.importers.sample import SampleReading, lead_of, order_of
from nirbridge.importers.tracing.arguments import CannotFollow, FlowValue
from nirbridge.importers.tracing.graph_builder import lower_reduction
from nirbridge.importers.tracing.recorder import TracedCall, TracedValue
from nirbridge.importers.tracing.shape_ops import moved_input, picked_positions, reshape_lead, reshaped_in_place
from nirbridge.network.neurons import neuron

torch = pytest.importorskip("torch")
REF: Any = "x"
B, T, TB, BT = ("batch",), ("time",), ("time", "batch"), ("batch", "time")
M, MB = ("merged",), ("merged-batch-first",)


@pytest.mark.parametrize(
    ("shape", "lead", "new", "wanted"),
    [
        ((5, 2, 3), B, (5, 6), B),
        ((5, 6), B, (5, 2, 3), B),
        ((7, 5, 6), TB, (7, 5, 2, 3), TB),
        ((7, 5, 6), TB, (35, 6), M),
        ((5, 7, 6), BT, (35, 6), MB),
        ((35, 6), M, (7, 5, 6), TB),
        ((35, 6), MB, (5, 7, 6), BT),
        ((35, 6), M, (7, 5, 2, 3), TB),
        ((1, 5, 6), TB, (5, 6), B),
        ((5, 1, 6), BT, (5, 6), B),
        ((1, 6), B, (6,), ()),
        ((5, 6), B, (1, 5, 6), TB),
        ((5, 6), B, (1, 5, 2, 3), TB),
        ((6,), (), (2, 3), ()),
    ],
)
def test_reshapes_that_keep_batch_and_time(shape: Any, lead: Any, new: Any, wanted: Any) -> None:
    assert reshape_lead(shape, lead, new) == wanted


@pytest.mark.parametrize(
    ("shape", "lead", "new"),
    [
        ((5, 2, 3), B, (10, 3)),
        ((5, 2, 3), B, (30,)),
        ((5, 2, 3), B, (6, 5)),
        ((7, 5, 6), TB, (5, 7, 6)),
        ((7, 5, 6), TB, (7, 30)),
        ((35, 6), M, (8, 5, 6)),
        ((7, 6), T, (1, 7, 6)),
        ((5, 6), B, (2, 5, 3)),
    ],
)
def test_reshapes_that_mix_them_with_values(shape: Any, lead: Any, new: Any) -> None:
    with pytest.raises(CannotFollow) as caught:
        reshape_lead(shape, lead, new)
    assert caught.value.why == f"a reshape from {shape} to {new} mixes batch or time with values"
    assert caught.value.advice == "keep the batch axis"


@pytest.mark.parametrize(
    ("arranged", "lead", "order", "new", "wanted"),
    [
        ((5, 2, 3), ("batch",), (1, 0, 2), (2, 5, 3), (1, 0, 2)),
        ((5, 2, 6), ("batch",), (1, 0, 2), (2, 5, 2, 3), (1, 0, 2, 3)),
        ((5, 4, 3), ("batch",), (1, 0, 2), (2, 2, 5, 3), (1, 2, 0, 3)),
        ((5, 7, 2, 3), ("batch", "time"), (0, 2, 1, 3), (5, 2, 7, 3), (0, 2, 1, 3)),
        ((5, 7, 6), ("batch", "time"), (2, 0, 1), (2, 3, 5, 7), (2, 3, 0, 1)),
    ],
)
def test_reshapes_that_leave_batch_and_time(
    arranged: tuple[int, ...], lead: Any, order: tuple[int, ...], new: tuple[int, ...], wanted: tuple[int, ...]
) -> None:
    assert reshaped_in_place(arranged, lead, order, new) == wanted


@pytest.mark.parametrize("new", [(10, 3), (30,), (2, 15), (5, 2, 3)])
def test_reshapes_that_mix_batch_with_values(new: tuple[int, ...]) -> None:
    with pytest.raises(CannotFollow, match="mixes batch or time with values"):
        reshaped_in_place((5, 2, 3), ("batch",), (1, 0, 2), new)


def test_slices_of_values_alone() -> None:
    get = torch.Tensor.__getitem__
    found = picked_positions(get, ((slice(None), slice(1, 3)),), {}, 0, (5, 4, 2), B)
    np.testing.assert_array_equal(found, [[2, 3], [4, 5]])
    np.testing.assert_array_equal(picked_positions(torch.split, (2, 1), {}, 1, (5, 4), B), [2, 3])
    np.testing.assert_array_equal(picked_positions(torch.flip, ((1,),), {}, 0, (5, 3), B), [2, 1, 0])
    advice = "treat every sample and time step alike"
    cases = [
        (get, (slice(0, 4),), "it takes a part of the batch or of the time axis"),
        (torch.flip, ((0,),), "it mixes samples or time steps"),
        (torch.roll, (1,), "it mixes samples or time steps"),
    ]
    for func, args, why in cases:
        with pytest.raises(CannotFollow) as caught:
            picked_positions(func, args, {}, 0, (5, 4), B)
        assert (caught.value.why, caught.value.advice) == (why, advice)


def node(name: str, *args: Any, **kwargs: Any) -> TracedCall:
    return TracedCall(1, "call", name, "", None, args, kwargs, ())


def value(*shape: int) -> TracedValue:
    return TracedValue(TracedCall(0, "input", "input", "", None, (), {}, (shape,)))


@pytest.mark.parametrize(
    ("lead", "call", "kind", "arguments", "left"),
    [
        (TB, node("sum", None, 0), "summed", {}, B),
        (BT, node("mean", None, dim=1), "summed", {}, B),
        (BT, node("sum", None, axis=(1,)), "summed", {}, B),
        (B, node("mean", None, (2, 3)), "avg_pool", {"kernel": (4, 5), "stride": (4, 5), "factor": 1 / 20}, None),
        (
            B,
            node("sum", None, (-1, -2)),
            "avg_pool",
            {"kernel": (4, 5), "padding": ((0, 0), (0, 0)), "factor": 1.0},
            None,
        ),
        (TB, node("mean", None, -1, keepdim=True), "avg_pool", {"kernel": (5,), "stride": (5,), "factor": 1 / 5}, None),
    ],
)
def test_sums_that_have_a_meaning(lead: Any, call: TracedCall, kind: str, arguments: Any, left: Any) -> None:
    found = lower_reduction(call, FlowValue(REF, lead, (2, 3, 4, 5)))
    assert (found.kind, found.lead) == (kind, left)
    assert {k: found.arguments[k] for k in arguments} == arguments


@pytest.mark.parametrize(
    ("lead", "call"),
    [
        (TB, node("sum", None, 1)),
        (TB, node("sum", None, (0, 1))),
        (TB, node("sum", None, 0, keepdim=True)),
        (TB, node("sum", None, (0, 2))),
        (B, node("sum", None)),
    ],
)
def test_sums_that_have_none(lead: Any, call: TracedCall) -> None:
    with pytest.raises(CannotFollow) as caught:
        lower_reduction(call, FlowValue(REF, lead, (2, 3, 4, 5)))
    assert (caught.value.why, caught.value.advice) == (
        "a sum over the batch or time, and values",
        "sum values first, and time last",
    )


@pytest.mark.parametrize("word", ["sum", "mean"])
def test_chunks_of_steps_are_not_summed(word: str) -> None:
    with pytest.raises(CannotFollow, match=rf"^a {word} over chunks of time steps$"):
        lower_reduction(node(word, None, 1), FlowValue(REF, ("chunk", *TB), (2, 3, 4, 5)))


@pytest.mark.parametrize(
    ("call", "shape", "left", "factor"),
    [
        (node("sum", None, 1), (3, 4, 5), (1, 4, 5), 1.0),
        (node("mean", None, 1), (3, 4, 5), (1, 4, 5), 1 / 3),
        (node("mean", None, (1, 3)), (3, 4, 5), (1, 4, 1), 1 / 15),
        (node("mean", None, (3, 5)), (2, 2, 3, 2, 3), (2, 2, 1, 2, 1), 1 / 9),
        (node("sum", None, -1, keepdim=True), (3, 4, 5), (3, 4, 1), 1.0),
    ],
)
def test_sums_over_any_axes_of_values_are_a_matrix(call: Any, shape: Any, left: Any, factor: float) -> None:
    found = lower_reduction(call, FlowValue(REF, B, (2, *shape)))
    a = found.arguments
    assert (found.kind, a["shape"], float(a["factor"])) == ("matrix", left, factor)
    x = np.arange(np.prod(shape), dtype=np.float64).reshape(shape)
    total = np.zeros(int(np.prod(left)))
    np.add.at(total, a["rows"], x.reshape(-1)[a["columns"]] * a["values"])
    dims = call.args[1] if isinstance(call.args[1], tuple) else (call.args[1],)
    np.testing.assert_array_equal(total, x.sum(tuple(d - 1 if d > 0 else d for d in dims)).reshape(-1))


def test_positions_are_fixed() -> None:
    x = value(2, 3)
    assert moved_input(node("select", x, 1)) == moved_input(node("view_as", x, x)) == x
    assert moved_input(node("select", input=x, dim=0, index=1)) == x
    for call in (
        node("select", 1, x),
        node("select", x, x),
        node("select", x, (0, x)),
        node("f", x, a={"b": x}),
        node("f", x, input=x),
        node("f", input=x, index=x),
        node("f"),
    ):
        with pytest.raises(CannotFollow) as caught:
            moved_input(call)
        assert (caught.value.why, caught.value.advice) == (
            "positions that are computed from the input",
            "use fixed ones",
        )


# -- parameters of modules -------------------------------------------------------------------------------------------


class Neuron:
    """A stand-in for a framework's class."""

    def forward(self) -> int:
        return 1

    def extra_repr(self) -> str:
        return ""


class Harmless(Neuron):
    def __init__(self) -> None:
        self.own = 1

    def extra_repr(self) -> str:
        return "mine"

    def of_its_own(self) -> None: ...


class Changed(Harmless):
    def forward(self) -> int:
        return 2


FORM = NeuronSpec(lambda module, shape, dt: None)  # type: ignore[arg-type, return-value]


def test_subclasses_keep_the_form_unless_they_change_what_the_neurons_do() -> None:
    forms: Any = {Neuron: FORM}
    assert neuron_spec_of(Neuron(), forms) is neuron_spec_of(Harmless(), forms) is FORM
    assert neuron_spec_of(object(), forms) is None
    refused = neuron_spec_of(Changed(), forms)
    assert refused is not None
    assert refused.is_refusal
    with pytest.raises(ModelError) as caught:
        refused.read(Changed(), (1,), 1e-3)
    assert str(caught.value) == (
        "Changed: its class defines forward of Neuron anew, only the framework's own classes are supported; use Neuron"
    )


@pytest.mark.parametrize(
    ("given", "shape", "wanted"),
    [(2.0, (3,), 2.0), ([2.0], (3,), 2.0), ([1, 2, 3], (3,), [1, 2, 3]), ([[[1, 2, 3]]], (3,), [1, 2, 3]),
     ([[1], [2]], (2, 2), [[1, 1], [2, 2]])],
)  # fmt: skip
def test_one_number_or_one_for_each_neuron(given: Any, shape: Any, wanted: Any) -> None:
    parameters = Parameters(Neuron(), shape)
    assert parameters.fitted("beta", torch.tensor(given)).tolist() == wanted
    assert parameters.problems == []


def test_parameters_that_do_not_fit_are_listed() -> None:
    parameters = Parameters(Neuron(), (3,))
    for given in ([1.0, np.nan], [[1.0, 2.0], [3.0, 4.0]], [1.0, 2.0]):
        assert parameters.fitted("beta", given).tolist() == 0.0
    parameters.check_square("w", np.zeros((3, 3)))
    parameters.check_square("w", np.zeros((3, 2)))
    Parameters(Neuron(), (2, 1), problems=parameters.problems).check_square("w", np.zeros((2, 2)))
    assert [str(p) for p in parameters.problems] == [
        "Neuron: beta is not finite, parameters are finite numbers; correct it",
        "Neuron: beta has shape (2, 2), its neurons have shape (3,); give one value, or one per neuron",
        "Neuron: beta has shape (2,), its neurons have shape (3,); give one value, or one per neuron",
        "Neuron: w has shape (3, 2), its neurons have shape (3,); use one axis of neurons",
        "Neuron: w has shape (2, 2), its neurons have shape (2, 1); use one axis of neurons",
    ]
    assert as_float64(torch.ones(2)).dtype == np.float64


def test_a_reader_raises_every_fault_at_once() -> None:
    def read(parameters: Parameters, faults: int) -> ImportedNeuron:
        for k in range(faults):
            parameters.fault(f"fault {k}")
        return ImportedNeuron(neuron("IF"))

    assert reader(lambda p: read(p, 0))(Neuron(), (3,), 1e-3).neuron.kind == "IF"
    with pytest.raises(ModelError) as caught:
        reader(lambda p: read(p, 2))(Neuron(), (3,), 1e-3)
    assert [str(p) for p in caught.value.problems] == ["Neuron: fault 0", "Neuron: fault 1"]


def test_classes_without_a_form_say_why() -> None:
    package = SimpleNamespace(A=Neuron, B=3)
    found = refusals(package, [("it is odd", "use another", ("A", "B", "C"))])
    assert list(found) == [Neuron]
    with pytest.raises(ModelError, match=r"^Neuron: it is odd, NIR has no equivalent; use another$"):
        found[Neuron].read(Neuron(), (1,), 1e-3)


# -- readings of a sample --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("reading", "shape", "fed", "roles"),
    [
        (SampleReading(own=((0, "batch"),)), (9, 5), (2, 5), ("batch", "value")),
        (SampleReading(own=((0, "batch"),), batch=None), (9, 5), (9, 5), ("batch", "value")),
        (SampleReading(own=((1, "time"), (0, "batch"))), (9, 7, 5), (2, 12, 5), ("batch", "time", "value")),
        (SampleReading(own=((1, "time"), (0, "batch")), steps=None), (9, 7, 5), (2, 7, 5), ("batch", "time", "value")),
        (
            SampleReading(own=((0, "time"),), added=((0, "batch"),), takes_steps=True),
            (7, 5),
            (2, 5),
            ("batch", "value"),
        ),
        (SampleReading(added=((0, "batch"), (-1, "time"))), (5,), (2, 5, 12), ("batch", "value", "time")),
        (SampleReading(own=((0, "merged"),)), (14, 5), (24, 5), ("merged", "value")),
        (SampleReading(own=((0, "merged"),), steps=None), (14, 5), (14, 5), ("merged", "value")),
    ],
)
def test_what_forward_is_given(reading: SampleReading, shape: Any, fed: Any, roles: Any) -> None:
    assert reading.fed(shape) == (fed, roles)
    assert reading.lead(shape) == lead_of(roles) == tuple(r for r in roles if r != "value")


def test_orders_and_places_of_axes() -> None:
    assert order_of(("batch", "time", "value")) == ()
    assert order_of(("batch", "value", "time")) == (0, 2, 1)
    assert order_of(("value", "time")) == (1, 0)
    both = SampleReading(own=((1, "time"), (0, "batch")))
    assert (both.fits((3, 4)), both.fits((3,)), SampleReading(own=((0, "time"), (-1, "batch"))).fits((3,))) == (
        True,
        False,
        False,
    )
    assert both.time_place == ("sample", 1)
    assert SampleReading(added=((0, "batch"), (1, "time"))).time_place == ("added", 1)
    assert SampleReading(own=((0, "batch"),)).time_place is None
    assert SampleReading(own=((0, "time"),), takes_steps=True).time_place is None
    assert both.note("x", (3, 4, 5)) == (
        "input 'x': the sample of shape (3, 4, 5) was read as [batch, time, 5], one time step as (5,)"
    )
    sizes = [(r.steps, r.batch) for r in both.variants([(9, 7, 5)])]
    assert sizes == [(12, 2), (12, None), (None, 2), (None, None)]
    assert [(r.steps, r.batch) for r in both.variants([(2, 1, 5)])] == [(12, 2)]
    added = SampleReading(added=((0, "time"),))
    assert [r.steps for r in added.variants([(5,)])] == [12, 300]
