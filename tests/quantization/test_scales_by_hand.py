# ruff: noqa: E501  (tables read better in one line)
"""Every term of a scale by hand: reach, limits, headroom, exact grids by brute force, and the binding one."""

from __future__ import annotations

import math
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from nirbridge.arrays import freeze
from nirbridge.chips import read_chip
from nirbridge.network.operators import Dense
from nirbridge.quantization import scales
from nirbridge.quantization.formats import bias_max, grid_of, signed_max, threshold_max
from nirbridge.quantization.overflow import OutputRange
from nirbridge.quantization.scales import (
    IncomingOperator,
    InputRange,
    PopulationScale,
    exponents,
    input_range,
    scale_for,
)
from nirbridge.quantization.weights import weight_range

NUMBERS: Any = read_chip("loihi2").numbers
A_IN, U, V = signed_max(NUMBERS.a_in_bits), signed_max(NUMBERS.u_bits), signed_max(NUMBERS.v_bits)
THETA, BIAS = threshold_max(NUMBERS), bias_max(NUMBERS)


def into(weights: Any, bits: int = 8, low: int = 0, high: int = 1) -> IncomingOperator:
    values = np.atleast_2d(np.asarray(weights, float))
    return IncomingOperator(0, Dense(freeze(values)), weight_range(values, bits), OutputRange(low, high))


def cell(**own: Any) -> Any:
    """A folded neuron; every array has one element unless given."""
    usual: dict[str, Any] = dict.fromkeys(("bias", "v_start", "i_start", "amount", "a_syn"), 0.0)
    usual |= {"a_mem": 0.5, "theta": 1.0, "reset": "to-value"} | own
    arrays = {k: None if v is None else np.asarray(v) for k, v in usual.items() if k != "reset"}
    return SimpleNamespace(**arrays, neuron=SimpleNamespace(reset=usual["reset"]))


@pytest.mark.parametrize(
    ("ways", "high", "low"),
    [
        ([([[0.5, -0.25], [0.125, -1.0]], 0, 1)], 0.5, 1.0),
        ([([[0.5, 0.25], [2.0, 1.0]], 0, 1)], 3.0, 0.0),
        ([([[-0.5, -0.25], [-2.0, -1.0]], 0, 1)], 0.0, 3.0),
        ([([[0.5, -0.25], [0.125, -1.0]], 0, 4)], 2.0, 4.0),
        ([([[0.5, -0.25], [0.125, -1.0]], -3, 3)], 3.375, 3.375),
        ([([[0.5, -0.25], [0.125, -1.0]], -1, 3)], 1.75, 3.125),
        ([([[0.5], [1.0]], 0, 1), ([[1.5], [-3.0]], 0, 2)], 3.5, 6.0),
        ([([[0.0], [0.0]], 0, 1)], 0.0, 0.0),
        ([], 0.0, 0.0),
    ],
)
def test_the_worst_input_is_that_of_the_worst_neuron(ways: Any, high: float, low: float) -> None:
    assert input_range([into(w, 8, a, b) for w, a, b in ways], 2) == InputRange(high, low, True)


THRESHOLD, WORST, OVER_TIME = (
    "the widest threshold",
    "the worst input of a step (a_in)",
    "the worst input over time (u)",
)
WIDE_BIAS, WIDE_V, WIDE_U, WIDE_RESET = (
    "the widest bias",
    "the widest membrane (v)",
    "the widest current (u)",
    "the widest reset",
)
RUN = "v over {} steps of the worst input"
PLAIN = [(THETA, THRESHOLD), (A_IN * 64 / 7, WORST), (U / 7, OVER_TIME), (V, WIDE_V)]


@pytest.mark.parametrize(
    ("own", "steps", "limits"),
    [
        ({}, None, PLAIN),
        ({"theta": [0.5, -4.0]}, None, [(THETA / 4, THRESHOLD), *PLAIN[1:3], (V / 4, WIDE_V)]),
        ({"theta": None}, None, PLAIN[1:3]),
        ({"a_syn": [0.5, 0.75]}, None, [*PLAIN[:2], (U / 28, OVER_TIME), PLAIN[3]]),
        ({"a_syn": 1.0}, None, [*PLAIN[:2], (U / (7 * 4096), OVER_TIME), PLAIN[3]]),
        ({"bias": [1.0, -2.0]}, None, [*PLAIN[:3], (BIAS / 2, WIDE_BIAS), PLAIN[3]]),
        ({"v_start": [3.0, -9.0]}, None, [*PLAIN[:3], (V / 9, WIDE_V)]),
        ({"v_start": [0.5, 0.25]}, None, PLAIN),
        ({"i_start": [3.0, -9.0]}, None, [*PLAIN, (U / 9, WIDE_U)]),
        ({"amount": 5.0}, None, PLAIN),
        ({"amount": [5.0, -6.0], "reset": "subtract"}, None, [*PLAIN[:3], (V / (1 + 5), WIDE_V), (V / 6, WIDE_RESET)]),
        ({"amount": 0.0, "reset": "subtract", "a_syn": 0.75, "bias": [-2.0, 1.0]}, None, [*PLAIN[:2], (U / 28, OVER_TIME), (BIAS / 2, WIDE_BIAS), (V / (1 + 20 + 2), WIDE_V)]),
        ({"reset": "subtract", "theta": None}, None, PLAIN[1:3]),
        ({"a_mem": 1.0, "a_syn": 0.5}, 10, [*PLAIN[:2], (U / 14, OVER_TIME), PLAIN[3], (V / 140, RUN.format(10))]),
        ({"a_mem": 1.0}, 10, [*PLAIN, (V / 70, RUN.format(10))]),
        ({"a_mem": [0.5, 0.875], "v_start": -0.5}, 100, [*PLAIN, (V / (56 + 0.5), RUN.format(100))]),
        ({"a_mem": [0.5, 0.875], "bias": 1.0}, 3, [*PLAIN[:3], (BIAS, WIDE_BIAS), PLAIN[3], (V / (8 * 3), RUN.format(3))]),
    ],
)  # fmt: skip
def test_each_limit_of_a_scale(own: Any, steps: int | None, limits: Any) -> None:
    found = scales._limits(cell(**own), InputRange(5.0, 7.0, True), NUMBERS, steps)
    assert [why for _, why in found] == [why for _, why in limits]
    assert [value for value, _ in found] == pytest.approx([value for value, _ in limits], rel=1e-12)


def test_what_a_chip_offers_limits_the_scale() -> None:
    found = dict(
        map(
            reversed,
            scales._limits(
                cell(), InputRange(7.0, 5.0, True), replace(NUMBERS, vth_bits=4, a_in_bits=5, u_bits=6, v_bits=7), None
            ),
        )
    )  # type: ignore[arg-type]
    assert found == {THRESHOLD: 15 * 64, WORST: 15 * 64 / 7, OVER_TIME: 31 / 7, WIDE_V: 63}


def test_a_scale_that_is_asked_for_is_taken_up_to_the_limit() -> None:
    one, reach = [into([[0.5]])], InputRange(0.5, 0.0, True)
    free = cell(theta=1000.0, v_start=900.0)
    limit = THETA / 1000
    for asked in (1e-3, limit):
        assert scale_for(free, one, reach, NUMBERS, None, asked) == PopulationScale(asked, "the requested scale", False)
    assert scale_for(free, one, reach, NUMBERS, None, limit * 1.001) == PopulationScale(limit, THRESHOLD, False)
    alone = cell(theta=None)
    assert scale_for(alone, [into([[0.0]])], InputRange(0, 0, True), NUMBERS, None, 1e30) == PopulationScale(
        1e30, "the requested scale", False
    )


def test_a_population_that_nothing_reaches_has_the_finest_power_of_two() -> None:
    nothing = InputRange(0.0, 0.0, True)
    for ways in ([], [into([[0.0, 0.0]])]):
        assert scale_for(cell(theta=None), ways, nothing, NUMBERS, None) == PopulationScale(64.0, "", True)
        made = scale_for(cell(theta=3.0), ways, nothing, NUMBERS, None)
        assert (made.limited_by, made.exact) == (min((THETA / 3, THRESHOLD), (V / 3, WIDE_V))[1], True)
        assert made.value <= THETA / 3 < 2 * made.value
        assert math.log2(made.value) % 1 == 0
    assert [scales._without_weights(x) for x in (0.3, 0.5, 1.0, 7.9, 8.0, math.inf)] == [0.25, 0.5, 1.0, 4.0, 8.0, 64.0]


def test_what_limits_a_scale_is_told() -> None:
    rough, small = [[0.3, -0.7123]], [[0.003, -0.007123]]
    reach = InputRange(0.3, 0.7123, True)
    unit = weight_range(np.array(rough), 8).unit
    plain = scale_for(cell(theta=100.0), [into(rough)], reach, NUMBERS, None)
    assert (plain.limited_by, plain.exact) == ("the range of the weights", False)
    assert plain.value == pytest.approx(64 / unit, rel=1e-12)
    limited = scale_for(cell(theta=1e3), [into(rough)], reach, NUMBERS, None)
    assert limited == PopulationScale(THETA / 1e3, THRESHOLD, False)
    loops = [into(rough), into(small)]
    wide = replace(NUMBERS, weight_exp_max=3)
    capped = scale_for(cell(theta=10.0), loops, reach, wide, None)
    top = 64 * 2.0**3 / unit
    assert (capped.limited_by, capped.exact) == ("the largest exponent of weights", False)
    assert top / 2 < capped.value <= top
    whole = scale_for(cell(theta=100.0), [into(rough)], reach, replace(NUMBERS, weight_exp_max=0), None)
    assert (whole.value, whole.limited_by) == (plain.value, "the range of the weights")
    exact = scale_for(cell(theta=1e4), [into([[0.25, -0.5]])], reach, NUMBERS, None)
    assert (exact.limited_by, exact.exact) == ("weights on a grid", True)
    assert [exponents(s, loops) for s in (64 / unit, 65 / unit, 128 / unit, 1e-9)] == [[0, 0], [1, 0], [1, 0], [0, 0]]


def test_one_projection_with_weights_is_not_searched() -> None:
    rough, none = into([[0.3, -0.71]]), into([[0.0, 0.0]])
    assert scales._least_rounding(5.0, [rough]) == 5.0
    assert scales._least_rounding(5.0, [rough, none]) == 5.0
    assert scales._least_rounding(5.0, []) == 5.0
    two = [rough, into([[0.11, -0.43]], 4)]
    samples = [scales._sample(one) for one in two]
    tried = [5000.0 * 2.0 ** (-k / 32) for k in range(32)]
    errors = [sum(s.error(t) for s in samples) for t in tried]
    assert scales._least_rounding(5000.0, two) == tried[errors.index(min(errors))]
    assert errors.index(min(errors)) > 0
    assert scales._least_rounding(5000.0, [none, *two]) == tried[errors.index(min(errors))]
    assert scales._least_rounding(1e-6, two) == 1e-6, "of equal ones (all round everything away) the largest"


@pytest.mark.parametrize("scale", [40.0, 500.0, 3000.0, 64 * 300.0])
def test_an_error_of_rounding_is_weighed_by_how_many_synapses_have_it(scale: float) -> None:
    one = into([[0.3, -0.71, 0.0, 0.05], [0.2, 0.4, -0.1, 0.9]], 6, -3, 3)
    sample = scales._sample(one)
    (exponent,) = exponents(scale, [one])
    factor, grid = scale / 64 / 2**exponent, one.range.grid
    lost = 0.0
    for w in one.operator.weight.reshape(-1):  # type: ignore[union-attr]
        whole = min(max(round(w * factor / grid.step) * grid.step, grid.low), grid.high)
        lost += (whole / factor - w) ** 2
    all_gone = all(round(w * factor / grid.step) == 0 for w in (one.range.low, one.range.high))
    assert sample.error(scale) == (math.inf if all_gone else pytest.approx(9 * lost, rel=1e-9))


def test_a_projection_that_would_vanish_has_no_end_of_error() -> None:
    sample = scales._sample(into([[0.3, -0.001]], 4))
    step, top = grid_of(4, "mixed").step, 0.3
    least = step / 2 / top * 64
    assert sample.error(least * 0.99) == math.inf
    assert sample.error(least * 1.01) < 1.0
    assert scales._sample(into([[0.3]], 8, -1, 5)).count == 1.0
    assert scales._sample(into([[0.3]], 8, -5, 5)).count == 25.0
    assert scales._sample(into([[0.3]], 8, 0, 5)).count == 1.0


# -- room --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("own", "reach", "size"),
    [
        ({"theta": [2.0, -3.0], "a_mem": 0.0}, InputRange(0.5, 0.25, True), 3.0),
        ({"theta": 3.0, "a_mem": 0.0}, InputRange(5.0, 9.0, True), 9.0),
        ({"theta": 3.0, "a_mem": 0.0, "bias": [1.0, -2.0]}, InputRange(9.0, 5.0, True), 11.0),
        ({"theta": 3.0, "a_mem": [0.0, 0.5], "bias": 1.0}, InputRange(9.0, 5.0, True), 20.0),
        ({"theta": 3.0, "a_mem": 0.0, "a_syn": [0.0, 0.5]}, InputRange(9.0, 5.0, True), 18.0),
        ({"theta": 3.0, "a_mem": 1.0}, InputRange(9.0, 5.0, True), 96.0),
        ({"theta": None, "a_mem": 1.0}, InputRange(9.0, 5.0, True), 256 * 0.75),
        ({"theta": [0.0], "a_mem": 1.0}, InputRange(9.0, 5.0, True), 32 * 0.75),
        ({"theta": None, "a_mem": 0.0}, InputRange(0.5, 0.25, True), 0.75),
    ],
)
def test_room_of_the_membrane(own: Any, reach: InputRange, size: float) -> None:
    ways = [into([[0.5, -0.25]]), into([[0.25, -0.75]])]
    assert scales._roomy(cell(**own), ways, reach, 1000) == pytest.approx(1000 / size, rel=1e-9)


@pytest.mark.parametrize(
    ("a_mem", "steps", "depth"),
    [(1.0, 7, 21.0), (0.5, 7, 6.0), (0.5, 1, 3.0), ([0.5, 1.0], 7, 21.0), ([0.5, 0.75], 9, 12.0), (0.0, 9, 3.0)],
)
def test_how_far_v_gets(a_mem: Any, steps: int, depth: float) -> None:
    assert scales._depth(cell(a_mem=a_mem), 3.0, steps) == depth
    assert scales._depth(cell(a_mem=a_mem, v_start=[0.5, -2.0]), 3.0, steps) == depth + 2.0
