"""Windows and values of single nodes: each number on both sides of its limit, each message in full."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from nirbridge.errors import Diagnostic, ModelError
from nirbridge.network.nir.delays import delay_steps
from nirbridge.network.nir.fields import array_problems, value_problems
from nirbridge.network.nir.windows import Window, value_text, whole_numbers, window_of


def node(kind: str, **fields: Any) -> Any:
    return type(kind, (), fields)()


def conv(axes: int = 2, **own: Any) -> Any:
    weight = np.ones((4, 1, 3, 2)[: axes + 2])
    usual: dict[str, Any] = {"weight": weight, "stride": 1, "padding": 0, "dilation": 1, "groups": 1}
    return node(f"Conv{axes}d", **usual | own)


def pool(**own: Any) -> Any:
    return node("SumPool2d", **{"kernel_size": (2, 3), "stride": 2, "padding": (0, 1)} | own)


def told(made: Any) -> list[str]:
    with pytest.raises(ModelError) as caught:
        window_of("c", made)
    return str(caught.value).splitlines()


def test_windows_that_are_right() -> None:
    assert window_of("c", conv()) == Window((3, 2), (1, 1), ((0, 0), (0, 0)), (1, 1), 1)
    assert window_of("c", conv(1, padding="valid", groups=4)) == Window((3,), (1,), ((0, 0),), (1,), 4)
    assert window_of("c", conv(padding=(1, 2), dilation=(2, 3))) == Window((3, 2), (1, 1), ((1, 1), (2, 2)), (2, 3), 1)
    assert window_of("p", pool()) == Window((2, 3), (2, 2), ((0, 0), (1, 1)), (1, 1), 1)


@pytest.mark.parametrize(
    ("dilation", "padding"),
    [((1, 1), ((1, 1), (0, 1))), ((2, 3), ((2, 2), (1, 2))), ((1, 2), ((1, 1), (1, 1)))],
)
def test_same_puts_the_odd_element_behind(dilation: tuple[int, ...], padding: tuple[tuple[int, int], ...]) -> None:
    made = window_of("c", conv(padding="same", dilation=dilation))
    assert made.padding == padding
    assert made.slide((7, 8)) == (7, 8)


def test_a_window_slides_as_often_as_it_fits() -> None:
    for size in range(1, 9):
        for kernel, stride, low, high, apart in np.ndindex(3, 3, 2, 3, 2):
            k, s, d = kernel + 1, stride + 1, apart + 1
            starts = range(-low, size + high - d * (k - 1), s)
            found = Window((k,), (s,), ((low, high),), (d,)).slide((size,))[0]
            assert max(found, 0) == len(starts)


TORCH = "none of them 0; store the weight as torch does"
DIVIDE = "groups must divide them; correct groups or the weight"
ABOVE_0 = "it must be above 0 s; give a time constant in seconds"
WHOLE = "it must be 1 or 2 whole numbers; correct"
REFUSED: list[tuple[Any, list[str]]] = [
    (
        conv(weight=np.ones((4, 1, 3))),
        [f"weight has shape (4, 1, 3), it must be [out, in/groups, kernel, kernel], {TORCH}"],
    ),
    (
        conv(1, weight=np.ones((4, 0, 3))),
        [f"weight has shape (4, 0, 3), it must be [out, in/groups, kernel], {TORCH}"],
    ),
    (conv(stride=0), ["stride is 0, it must be from 1 to 2,147,483,647; correct stride"]),
    (conv(stride=(1, 2**31)), ["stride is (1, 2147483648), it must be from 1 to 2,147,483,647; correct stride"]),
    (conv(stride=(1, 1, 1)), [f"stride is (1, 1, 1), {WHOLE} stride"]),
    (conv(dilation=1.0, padding="same"), [f"dilation is 1.0, {WHOLE} dilation"]),
    (conv(dilation=(0, 1)), ["dilation is (0, 1), it must be from 1 to 2,147,483,647; correct dilation"]),
    (conv(groups=0), ["groups is 0, it must be from 1 to 2,147,483,647; correct groups"]),
    (conv(groups=(1, 1)), ["groups is (1, 1), it must be one whole number; correct groups"]),
    (conv(groups=3), [f"groups is 3, the weight has 4 output channels, {DIVIDE}"]),
    (conv(padding=-1), ["padding is -1, it must be from 0 to 2,147,483,647; correct padding"]),
    (conv(padding=[[0, 0]]), [f"padding is [[0, 0]], {WHOLE} padding"]),
    (conv(padding="full"), ["padding is 'full', it must be 'same', 'valid' or whole numbers; correct padding"]),
    (
        conv(padding="same", stride=(1, 2)),
        ["padding is 'same' with stride (1, 2), 'same' needs stride 1; give the padding as numbers"],
    ),
    (
        conv(stride="1", dilation=-1, groups=3, padding="same"),
        [
            f"stride is '1', {WHOLE} stride",
            "dilation is -1, it must be from 1 to 2,147,483,647; correct dilation",
            f"groups is 3, the weight has 4 output channels, {DIVIDE}",
        ],
    ),
    (pool(kernel_size=(0, 1)), ["kernel_size is (0, 1), it must be from 1 to 2,147,483,647; correct kernel_size"]),
    (pool(stride=0), ["stride is 0, it must be from 1 to 2,147,483,647; correct stride"]),
    (pool(padding=(0, -1)), ["padding is (0, -1), it must be from 0 to 2,147,483,647; correct padding"]),
    (
        pool(kernel_size=0.5, stride=0, padding=-1),
        [
            f"kernel_size is 0.5, {WHOLE} kernel_size",
            "stride is 0, it must be from 1 to 2,147,483,647; correct stride",
            "padding is -1, it must be from 0 to 2,147,483,647; correct padding",
        ],
    ),
]  # fmt: skip


@pytest.mark.parametrize(("made", "wanted"), REFUSED)
def test_every_wrong_number_of_a_window_is_told(made: Any, wanted: list[str]) -> None:
    assert told(made) == [f"node 'c' ({type(made).__name__}): {line}" for line in wanted]


@pytest.mark.parametrize("value", [0, 2**31 - 1, np.uint8(3), [5]])
def test_whole_numbers_within_their_limits(value: Any) -> None:
    problems: list[Diagnostic] = []
    number = int(np.asarray(value).reshape(-1)[0])
    assert whole_numbers("t", "f", value, 3, 0, problems) == (number,) * 3
    assert problems == []


def test_values_are_shown_in_one_short_line() -> None:
    assert value_text(np.arange(8)) == "[0, 1, 2, 3, 4, 5, 6, 7]"
    assert value_text(np.arange(9)) == "an array of shape (9,)"
    assert value_text("x" * 58) == "'" + "x" * 58 + "'"
    assert value_text("x" * 59) == "'" + "x" * 58 + "…"
    assert value_text(np.float64(0.5)) == "0.5"


DIVIDES = "delays are whole time steps; give a --dt that divides it, or change the delay"
VALUES: list[tuple[str, Any, list[str]]] = [
    ("tau", [1e-3, 1e-9], []),
    ("tau", [1.0, 0.0], [f"tau[1] is 0, {ABOVE_0}"]),
    ("tau_syn", [[1.0, 1.0], [1.0, -2.0]], [f"tau_syn[1, 1] is -2, {ABOVE_0}"]),
    ("tau_mem", 0.0, [f"tau_mem is 0, {ABOVE_0}"]),
    ("tau", [], []),
    ("delay", [0.0, 1.0], []),
    ("delay", [0.0, 1.0, -0.5], ["delay[2] is -0.5, it must be 0 s or more; give a delay in s"]),
    ("delay", [], []),
    ("r", [0.0, -1.0], []),
    ("r", [[0.0], [np.nan]], ["r[1, 0] is NaN or infinite, every parameter must be finite; repair or retrain it"]),
    ("r", np.inf, ["r is NaN or infinite, every parameter must be finite; repair or retrain it"]),
    ("r", [np.inf, -np.inf], ["r[0] is NaN or infinite, every parameter must be finite; repair or retrain it"]),
    ("r", [1e308, 1e308], []),
    ("r", [True], ["r holds bool values, they must be real numbers; store them as floats"]),
    ("r", [1j], ["r holds complex128 values, they must be real numbers; store them as floats"]),
]  # fmt: skip


@pytest.mark.parametrize(("field", "values", "wanted"), VALUES)
def test_values_of_one_parameter(field: str, values: Any, wanted: list[str]) -> None:
    found = list(array_problems("t", field, np.asarray(values), "n"))
    assert [str(p) for p in found] == [f"t: {line}" for line in wanted]
    assert [dict(p.ids) for p in found] == [{"node": "n", "field": field}] * len(wanted)


def test_every_wrong_parameter_of_a_node_is_told() -> None:
    bad = node("CubaLI", tau_syn=np.array([0.0]), tau_mem=np.array([1.0]), r=np.array([np.nan]), v_leak=None)
    assert [p.ids["field"] for p in value_problems("n", bad)] == ["tau_syn", "r"]
    assert [p.ids["field"] for p in value_problems("n", node("Affine", weight=np.eye(1), bias=np.nan))] == ["bias"]


@pytest.mark.parametrize(
    ("seconds", "dt", "wanted"),
    [
        ([0.0, 0.002], 1e-3, [0, 2]),
        ([0.003, 0.003], 1e-3, 3),
        ([[7.0]], 1.0, 7),
        ([1.0000009, 2.0], 1.0, [1, 2]),
        ([float(2**31 - 1)], 1.0, 2**31 - 1),
        ([0.0, 1e5 + 0.09], 1.0, [0, 100_000]),  # a remainder of 9e-7 of it, below a tenth of a step
    ],
)
def test_delays_are_whole_steps(seconds: Any, dt: float, wanted: Any) -> None:
    found = delay_steps("d", node("Delay", delay=np.array(seconds)), (2,), dt)
    assert found.dtype == np.int64
    assert found.tolist() == wanted


@pytest.mark.parametrize(
    ("seconds", "message"),
    [
        ([1.0, 1.000002], f"a delay of 1 s is 1 steps of dt = 1 s, {DIVIDES}"),
        ([0.25, 0.5], f"a delay of 0.5 s is 0.5 steps of dt = 1 s, {DIVIDES}"),
        ([0.0, 1e6 + 0.125], f"a delay of 1e+06 s is 1e+06 steps of dt = 1 s, {DIVIDES}"),
        ([0.0, -1.0], "a delay of -1 s is -1 steps, from 0 to 2,147,483,647; correct it, or dt"),
        ([0.0, 2.0**31], "a delay of 2.14748e+09 s is 2.14748e+09 steps, from 0 to 2,147,483,647; correct it, or dt"),
    ],
)  # fmt: skip
def test_other_delays_are_refused_with_the_worst_of_them(seconds: list[float], message: str) -> None:
    with pytest.raises(ModelError) as caught:
        delay_steps("d", node("Delay", delay=np.array(seconds)), (2,), 1.0)
    assert str(caught.value) == f"node 'd' (Delay): {message}"
    assert caught.value.problems[0].ids["node"] == "d"
