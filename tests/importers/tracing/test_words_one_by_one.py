"""Each torch function: the operation for its arguments, value by value, and every refusal in full."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from nirbridge.importers.tracing.arguments import (
    CannotFollow,
    FlowValue,
    broadcast,
    call_argument,
    constant_argument,
    input_of,
    per_axis,
)
from nirbridge.importers.tracing.ops import OP_HANDLERS
from nirbridge.importers.tracing.recorder import TracedCall, TracedValue

torch = pytest.importorskip("torch")

REF: Any = "x"
BATCH = ("batch",)


def value(shape: tuple[int, ...]) -> TracedValue:
    """A tensor of the flow, batch included."""
    return TracedValue(TracedCall(0, "input", "input", "", None, (), {}, (shape,)))


def traced(v: TracedValue) -> FlowValue:
    return FlowValue(REF, BATCH, v.shape)


def node(name: str, *args: Any, **kwargs: Any) -> TracedCall:
    return TracedCall(1, "call", name, "", None, args, kwargs, ())


def word(name: str, *args: Any, **kwargs: Any) -> Any:
    return OP_HANDLERS[name](node(name, *args, **kwargs), traced)


FLAT, LINE, IMAGE, CUBE = value((2, 6)), value((2, 3, 9)), value((2, 3, 6, 8)), value((2, 3, 4, 5, 6))
W2, W1, W3 = np.zeros((4, 3, 3, 5)), np.zeros((4, 3, 3)), np.zeros((4, 3, 2, 2, 2))
NO_MATRIX, ADDMM = "a product with something that is not a matrix", "addmm with factors, or of a fixed input"
LINEAR = "use torch.nn.Linear"
NONE = ((0, 0), (0, 0))
MEAN, VARIANCE = np.zeros(3), np.ones(3)
POOL = {"kernel": (2, 2), "stride": (2, 2), "padding": ((0, 0), (0, 0)), "factor": 0.25}


@pytest.mark.parametrize(
    ("name", "args", "kwargs", "kind", "arguments"),
    [
        ("conv2d", (IMAGE, W2), {}, "conv", {"stride": (1, 1), "padding": NONE, "dilation": (1, 1), "groups": 1}),
        (
            "conv2d", (IMAGE, W2, None, (1, 2), (3, 4), (2, 1), 3), {}, "conv",
            {"stride": (1, 2), "padding": ((3, 3), (4, 4)), "dilation": (2, 1), "groups": 3, "bias": None},
        ),
        ("conv2d", (IMAGE, W2), {"padding": "same", "dilation": (2, 1)}, "conv", {"padding": ((2, 2), (2, 2))}),
        ("conv2d", (IMAGE, np.zeros((4, 3, 2, 4))), {"padding": "same"}, "conv", {"padding": ((0, 1), (1, 2))}),
        ("conv2d", (IMAGE, W2), {"padding": "valid"}, "conv", {"padding": ((0, 0), (0, 0))}),
        ("conv1d", (LINE, W1, None, 2, 1), {}, "conv", {"stride": (2,), "padding": ((1, 1),), "dilation": (1,)}),
        ("avg_pool2d", (IMAGE, 2), {}, "avg_pool", POOL),
        ("avg_pool2d", (IMAGE, 2, ()), {}, "avg_pool", POOL),
        (
            "avg_pool2d", (IMAGE, (2, 4), (1, 3), 1), {}, "avg_pool",
            {"kernel": (2, 4), "stride": (1, 3), "padding": ((1, 1), (1, 1)), "factor": 0.125},
        ),
        ("avg_pool2d", (IMAGE, 2, None, 0, False, True, 5), {}, "avg_pool", {**POOL, "factor": 0.2}),
        ("avg_pool2d", (IMAGE, 2, None, 0, False, False), {}, "avg_pool", POOL),
        ("avg_pool2d", (IMAGE, 2, None, 1, False, True), {}, "avg_pool", {**POOL, "padding": ((1, 1), (1, 1))}),
        ("avg_pool2d", (IMAGE, 2, None, 0, True), {}, "avg_pool", POOL),
        ("lp_pool2d", (IMAGE, 1, 2), {}, "avg_pool", {**POOL, "factor": 1.0}),
        ("lp_pool2d", (IMAGE, 1, 2, (3, 1)), {}, "avg_pool", {**POOL, "stride": (3, 1), "factor": 1.0}),
        (
            "adaptive_avg_pool2d", (IMAGE, (3, None)), {}, "avg_pool",
            {"kernel": (2, 1), "stride": (2, 1), "padding": ((0, 0), (0, 0)), "factor": 0.5},
        ),
        ("adaptive_avg_pool2d", (IMAGE, 2), {}, "avg_pool", {"kernel": (3, 4), "stride": (3, 4), "factor": 1 / 12}),
        ("adaptive_avg_pool1d", (LINE, 3), {}, "avg_pool", {"kernel": (3,), "factor": 1 / 3}),
        (
            "max_pool2d", (IMAGE, 3, 2, 1, 2), {}, "max_pool",
            {"kernel": (3, 3), "stride": (2, 2), "padding": ((1, 1), (1, 1)), "dilation": (2, 2)},
        ),
        ("max_pool2d", (IMAGE, 3), {}, "max_pool", {"stride": (3, 3), "padding": ((0, 0), (0, 0)), "dilation": (1, 1)}),
        ("batch_norm", (IMAGE, MEAN, VARIANCE), {}, "batch_norm", {"weight": None, "bias": None, "epsilon": 1e-5}),
        ("batch_norm", (IMAGE, MEAN, VARIANCE, None, None, False, 0.1, 0.5), {}, "batch_norm", {"epsilon": 0.5}),
        ("dropout", (FLAT, 0.5, False), {}, "same", {}),
        ("dropout", (FLAT, 0.0, True), {}, "same", {}),
        ("dropout", (FLAT, 0.0), {}, "same", {}),
        ("to", (FLAT, torch.float64), {}, "same", {}),
        ("to", (FLAT,), {"dtype": torch.float32}, "same", {}),
        ("to", (FLAT, "cpu"), {}, "same", {}),
        ("relu", (FLAT,), {}, "relu", {}),
        ("clamp", (FLAT, 0), {}, "relu", {}),
        ("clamp", (FLAT,), {"min": 0.0}, "relu", {}),
        ("clamp_min", (FLAT, 0), {"max": 3}, "relu", {}),
        ("add", (FLAT, FLAT), {}, "add", {"signs": (1.0, 1.0)}),
        ("add", (FLAT, FLAT), {"alpha": 3}, "add", {"signs": (1.0, 3.0)}),
        ("sub", (FLAT, FLAT), {"alpha": 2}, "add", {"signs": (1.0, -2.0)}),
        ("rsub", (FLAT, FLAT), {}, "add", {"signs": (1.0, -1.0)}),
        ("add", (FLAT, 2.0), {"alpha": 3}, "shift", {"constant": 6.0, "sign": 1.0}),
        ("sub", (FLAT, 2.0), {}, "shift", {"constant": -2.0, "sign": 1.0}),
        ("sub", (2.0, FLAT), {}, "shift", {"constant": 2.0, "sign": -1.0}),
        ("sub", (2.0, FLAT), {"alpha": 3}, "shift", {"constant": 2.0, "sign": -3.0}),
        ("rsub", (FLAT, 2.0), {}, "shift", {"constant": 2.0, "sign": -1.0}),
        ("mul", (FLAT, 4.0), {}, "scale", {"factor": 4.0}),
        ("mul", (4.0, FLAT), {}, "scale", {"factor": 4.0}),
        ("div", (FLAT, 4.0), {}, "scale", {"factor": 0.25}),
        ("neg", (FLAT,), {}, "scale", {"factor": -1.0}),
        ("cat", ((FLAT, FLAT), 1), {}, "concat", {"axis": 0}),
        ("cat", ((IMAGE, IMAGE), -1), {}, "concat", {"axis": 2}),
        ("cat", ((IMAGE, IMAGE),), {"dim": 2}, "concat", {"axis": 1}),
    ],
)  # fmt: skip
def test_what_a_function_means(name: str, args: Any, kwargs: Any, kind: str, arguments: Mapping[str, Any]) -> None:
    found = word(name, *args, **kwargs)
    assert found.kind == kind
    assert {k: found.arguments[k] for k in arguments} == arguments
    flat = args[0] if name == "cat" else args
    assert sorted(t.whole for t in found.inputs) == sorted(v.shape for v in flat if isinstance(v, TracedValue))


def test_weights_of_products_are_laid_out_as_rows_of_outputs() -> None:
    weight, bias = np.arange(12.0).reshape(6, 2), np.array([1.0, 2.0])
    for found in (word("matmul", FLAT, weight), word("addmm", bias, FLAT, weight), word("linear", FLAT, weight.T)):
        assert found.kind == "linear"
        np.testing.assert_array_equal(found.arguments["weight"], weight.T)
    np.testing.assert_array_equal(word("addmm", bias, FLAT, weight).arguments["bias"], bias)
    assert word("matmul", FLAT, weight).arguments["bias"] is None
    assert word("rsub", FLAT, value((2, 6))).inputs[0].whole == (2, 6)


@pytest.mark.parametrize(
    ("name", "args", "kwargs", "why", "advice"),
    [
        ("linear", (FLAT, FLAT), {}, "its weight is computed from the input", "use a fixed one"),
        ("linear", (FLAT, None, FLAT), {}, "its bias is computed from the input", "use a fixed one"),
        (
            "linear", (np.zeros(3), FLAT), {},
            "its input is fixed and its parameters are computed", "use a layer with fixed weights",
        ),
        ("matmul", (FLAT, np.zeros(6)), {}, NO_MATRIX, LINEAR),
        ("matmul", (FLAT, np.zeros((2, 6, 6))), {}, NO_MATRIX, LINEAR),
        ("matmul", (FLAT, None), {}, NO_MATRIX, LINEAR),
        ("addmm", (0, np.zeros(3), FLAT), {}, ADDMM, LINEAR),
        ("addmm", (0, FLAT, np.zeros((6, 2))), {"beta": 1}, ADDMM, LINEAR),
        (
            "conv2d", (LINE, W2), {}, "a convolution of values of shape (3, 9); channels and 2 axes are supported",
            "add the missing axis, or use Conv2d",
        ),
        (
            "conv1d", (FLAT, W1), {}, "a convolution of values of shape (6,); channels and 1 axis are supported",
            "add the missing axis, or use Conv2d",
        ),
        (
            "conv3d", (CUBE, W3), {}, "a convolution of values of shape (3, 4, 5, 6); one and two axes are supported",
            "add the missing axis, or use Conv2d",
        ),
        ("avg_pool2d", (LINE, 2), {}, "a pool of values of shape (3, 9)", "it works on channels and 2 axes"),
        ("max_pool1d", (IMAGE, 2), {}, "a pool of values of shape (3, 6, 8)", "it works on channels and 1 axis"),
        (
            "avg_pool2d", (IMAGE, 3, 2, (0, 1)), {"count_include_pad": False},
            "an average that leaves the padding out (count_include_pad=False)", "count it in",
        ),
        (
            "avg_pool2d", (IMAGE, 2, 3, 0, True), {},
            "a pool with ceil_mode, whose last window is cut", "use ceil_mode=False",
        ),
        (
            "avg_pool2d", (IMAGE, 3, 2, (0, 1), True), {},
            "a pool with ceil_mode, whose last window is cut", "use ceil_mode=False",
        ),
        (
            "lp_pool2d", (IMAGE, 1, 2, 3, True), {},
            "a pool with ceil_mode, whose last window is cut", "use ceil_mode=False",
        ),
        ("lp_pool2d", (IMAGE, 2, 2), {}, "a power-average pool", "use norm_type 1 (a sum), or an average pool"),
        *(
            ("batch_norm", (IMAGE, *args), {},
             "a BatchNorm without running statistics uses those of the batch", "train with statistics")
            for args in ((None, np.ones(3)), (np.zeros(3), None), (np.zeros(3), np.ones(3), None, None, True))
        ),
        ("dropout", (FLAT,), {}, "a dropout that is always on", "pass training=self.training"),
        ("dropout", (FLAT, 0.25, True), {}, "a dropout that is always on", "pass training=self.training"),
        ("to", (FLAT, torch.float16), {}, "a change of the number format to torch.float16", "compute in float32"),
        (
            "add", (FLAT, IMAGE), {}, "a sum of values of shape (6,) and (3, 6, 8)",
            "use equal shapes: a.expand_as(b)",
        ),
        ("add", (FLAT, None), {}, "arithmetic with None as constant", ""),
        ("mul", (FLAT, IMAGE), {}, "mul of values of shape (6,) and (3, 6, 8)", "use equal shapes: a.expand_as(b)"),
        ("gt", (FLAT, np.ones(6)), {}, "gt with another number for each value", "use one number for all"),
        ("div", (2.0, FLAT), {}, "a division by a value", "no spiking neuron divides; use a fixed factor"),
        ("div", (FLAT, FLAT), {}, "a division by a value", "no spiking neuron divides; use a fixed factor"),
        (
            "div", (FLAT, 2.0), {"rounding_mode": "floor"},
            "a division by a value", "no spiking neuron divides; use a fixed factor",
        ),
        ("mul", (value((2, 1)), np.ones(6)), {}, "a factor of shape (6,) on values of shape (1,)", "use equal shapes"),
        (
            "mul", (FLAT, np.array([[1.0], [2.0]])), {},
            "a factor of shape (2, 1)", "use the same one for every sample and time step",
        ),
        (
            "cat", ((FLAT, FLAT),), {},
            "values are joined along the batch or time axis", "join time steps with torch.stack, values by feature",
        ),
    ],
)  # fmt: skip
def test_what_a_function_cannot_mean(name: str, args: Any, kwargs: Any, why: str, advice: str) -> None:
    with pytest.raises(CannotFollow) as caught:
        word(name, *args, **kwargs)
    assert (caught.value.why, caught.value.advice, str(caught.value)) == (why, advice, why)


@pytest.mark.parametrize(("name", "args", "kwargs", "why"), [
    ("to", (FLAT,), {"dtype": torch.int64}, "a change of the number format to torch.int64"),
    *(("clamp", (FLAT, *limits), {}, "values are clipped, and not at a minimum of 0")
      for limits in ((1,), (-1,), (0, 1), (None, 0))),
])  # fmt: skip
def test_what_only_few_values_can_mean_has_its_refusal_with_it(name: str, args: Any, kwargs: Any, why: str) -> None:
    found = word(name, *args, **kwargs)
    assert (found.kind, found.arguments["function"], found.arguments["reason"]) == ("pointwise", name, why)
    assert found.arguments["hint"]


def test_a_product_of_values_is_a_pair() -> None:
    found = word("mul", FLAT, FLAT)
    assert (found.kind, len(found.inputs), found.arguments["reason"]) == ("pair", 2, "a product of two values")


def test_values_with_other_leading_axes_are_not_added_or_joined() -> None:
    steps = value((2, 6))

    def find(v: TracedValue) -> FlowValue:
        return FlowValue(REF, ("time",) if v is steps else BATCH, v.shape)

    with pytest.raises(CannotFollow, match=r"^a sum of values of shape \(6,\) and \(6,\)$"):
        OP_HANDLERS["add"](node("add", FLAT, steps), find)
    with pytest.raises(CannotFollow, match=r"^values are joined along the batch or time axis$"):
        OP_HANDLERS["cat"](node("cat", (FLAT, FLAT, steps), 1), find)


def test_arguments_by_place_by_name_and_left_out() -> None:
    called = node("f", 1, 2, c=3)
    assert [call_argument(called, k, n) for k, n in enumerate("abcd")] == [1, 2, 3, None]
    assert call_argument(called, 3, "d", 7) == 7
    assert input_of(node("f", input=FLAT), traced).whole == (2, 6)


def test_a_number_for_each_axis() -> None:
    assert (per_axis(3, 2), per_axis((3,), 2), per_axis((3, 4), 2), per_axis([5], 1)) == ((3, 3), (3, 3), (3, 4), (5,))


def test_constants_are_read_only_views_and_meet_the_values_of_one_sample() -> None:
    tensor = torch.arange(6.0)
    found = constant_argument(tensor, "weight")
    assert found is not None
    assert not found.flags.writeable
    assert constant_argument(None, "weight") is None
    x = traced(value((2, 3, 6)))
    assert broadcast(np.ones((1, 1, 6)), x, "c").shape == (1, 6)
    assert broadcast(np.full((2, 3, 6), 4.0), x, "c").shape == (3, 6)
    assert broadcast(2.0, x, "c").shape == ()
    one_differs = np.full((2, 3, 6), 4.0)
    one_differs[1, 2, 5] = 5.0
    with pytest.raises(CannotFollow, match=r"^a c of shape \(2, 3, 6\)$"):
        broadcast(one_differs, x, "c")


def test_the_shape_with_batch_and_time_in_front() -> None:
    assert FlowValue(REF, BATCH, (4, 2, 3), order=(1, 0, 2)).arranged == (2, 4, 3)
    assert FlowValue(REF, BATCH, (4, 2, 3), order=(1, 2, 0)).shape == (4, 2)
    assert FlowValue(REF, BATCH, (4, 2, 3)).shape == (2, 3)
