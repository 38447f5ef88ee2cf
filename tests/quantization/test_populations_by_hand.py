# ruff: noqa: E501  (tables read better in one line)
"""Quantization of a population, one rule at a time: bias, threshold, spikes, process, notes, refusals."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from nirbridge.arrays import freeze
from nirbridge.chips import read_chip
from nirbridge.errors import ModelError
from nirbridge.network.model import Population
from nirbridge.network.operators import Dense
from nirbridge.quantization import Calibration, FixedProjection, QuantizationOptions, quantize
from nirbridge.quantization import population as populations
from nirbridge.quantization.calibration import ObservedRange
from nirbridge.quantization.model import AccumulatorBounds
from nirbridge.quantization.overflow import OutputRange, input_bounds, output_ranges, prove, total_input_range
from nirbridge.quantization.scales import IncomingOperator, InputRange, PopulationScale
from nirbridge.quantization.weights import weight_range
from tests.quantization.cells import cell, ints
from tests.quantization.nets import layer, lif

LOIHI1, LOIHI2 = read_chip("loihi1"), read_chip("loihi2")
NUMBERS: Any = LOIHI2.numbers


@pytest.mark.parametrize(
    ("bias", "mant", "exponent"),
    [(0.0, 0, 0), (127.4, 127, 0), (-127.4, -127, 0), (127.6, 64, 1), ([-128.0, 3.0], [-64, 2], 1), ([254.0, -5.0], [127, -2], 1), (255.0, 64, 2), (-2040.0, -64, 5), (1000.0, 125, 3)],
)  # fmt: skip
def test_a_bias_has_the_least_exponent_that_holds_it(bias: Any, mant: Any, exponent: int) -> None:
    found, shift = populations._bias(np.asarray(bias), 1.0, replace(NUMBERS, bias_mant_bits=8))
    assert (found.tolist(), shift) == (mant, exponent)
    twice, same = populations._bias(np.asarray(bias) / 2, 2.0, replace(NUMBERS, bias_mant_bits=8))
    assert (twice.tolist(), same) == (mant, exponent)


EARLY = ["compares with >=: fires up to 63/64 of one unit of input early"]
OWN = ["compares with >=: a threshold off the chip's grid of 64, so a neuron program of its own"]
OFF = {"dv": ints(1)}


@pytest.mark.parametrize(
    ("theta", "compare", "own", "programmable", "found", "notes"),
    [
        (None, ">", {}, True, None, []),
        ([100.0, 95.9], ">", {}, True, [128, 64], []),
        (100.0, ">", OFF, False, 128, []),
        (100.0, ">=", {}, True, 64, []),
        (100.0, ">=", {}, False, 64, []),
        (100.0, ">=", OFF, True, 127, OWN),
        (100.0, ">=", OFF, False, 64, EARLY),
        (1e9, ">", {}, True, 131_071 * 64, []),
        ([1e9, 100.0], ">=", OFF, True, [131_071 * 64 - 1, 127], OWN),
    ],
)
def test_a_threshold_lies_on_the_grid_where_it_can(
    theta: Any, compare: str, own: Any, programmable: bool, found: Any, notes: Any
) -> None:
    f: Any = SimpleNamespace(
        theta=None if theta is None else np.asarray(theta) / 2, neuron=SimpleNamespace(compare=compare)
    )
    top, said = populations._threshold(
        f, cell(**own), PopulationScale(2.0, "", False), replace(NUMBERS, programmable=programmable)
    )
    assert (None if top is None else top.tolist(), said) == (found, notes)


@pytest.mark.parametrize(
    ("own", "is_on_grid"),
    [
        ({}, True), ({"dv": [0, 1]}, False), ({"du": [4095, 4094]}, False), ({"bias_mant": [64, 0]}, True), ({"bias_mant": [0, 32]}, False),
        ({"bias_mant": [0, 32], "bias_exp": 1}, True), ({"v_init": [64, 128]}, True), ({"v_init": [64, 1]}, False), ({"dv": [1, 1]}, False),
    ],
)  # fmt: skip
def test_v_is_a_multiple_of_64_without_memory_and_with_whole_constants(own: Any, is_on_grid: bool) -> None:
    assert populations._multiples_of_64(cell(**own)) is is_on_grid


@pytest.mark.parametrize(
    ("own", "process"),
    [
        ({}, "lif"), ({"dv": ints(4095)}, "lif"), ({"dv": ints(4096)}, "custom"), ({"du": [1, 2]}, "custom"), ({"dv": [1, 2]}, "custom"),
        ({"fires_above": None}, "lif"), ({"fires_above": None, "dv": ints(4096)}, "custom"), ({"fires_above": None, "du": [1, 2]}, "custom"), ({"fires_above": None, "reset": "none"}, "lif"),
        ({"reset": "subtract"}, "custom"), ({"max_spikes": 2}, "custom"), ({"refractory_steps": [0, 1]}, "custom"), ({"refractory_steps": [0, 0]}, "lif"),
        ({"fires_above": ints(641)}, "custom"), ({"fires_above": ints(0)}, "lif"), ({"fires_above": ints(-64)}, "custom"), ({"fires_above": [640, 640]}, "custom"),
    ],
)  # fmt: skip
def test_lavas_own_neuron_is_used_where_it_computes_the_same(own: Any, process: str) -> None:
    assert ("lif" if cell(**own).is_lava_lif else "custom") == process


def test_what_one_of_several_spikes_stands_for_is_passed_by_every_threshold() -> None:
    several = cell(max_spikes=3, spike_size=[640, 700])
    assert populations._spike_size(several, ints([699, 650])).tolist() == [640, 651]
    assert populations._spike_size(several, None).tolist() == [640, 700]
    assert populations._spike_size(cell(spike_size=[640, 700]), ints(0)).tolist() == [640, 700]


@pytest.mark.parametrize(
    ("a_mem", "dv_max", "said"), [(0.0, 4095, True), ([0.0, 0.5], 4095, True), (0.5, 4095, False), (0.0, 4096, False)]
)
def test_a_memory_that_a_chip_cannot_lose_is_noted(a_mem: Any, dv_max: int, said: bool) -> None:
    f: Any = SimpleNamespace(a_mem=np.asarray(a_mem))
    note = "has no memory of v: the chip's least memory, 1/4096 a step, stands for it"
    assert populations._decay_notes(f, replace(NUMBERS, dv_max=dv_max)) == ([note] if said else [])


@pytest.mark.parametrize(
    ("a_in", "u", "by"),
    [((0, 127), (0, 0), 1.0), ((-254, 127), (0, 0), 2.0), ((0, 0), (-3, 93), 3.0), ((-254, 0), (-93, 5), 3.0), ((0, 381), (31, 31), 3.0), ((0, 0), (0, 0), 0.0)],
)  # fmt: skip
def test_by_what_bounds_are_beyond_the_chip(a_in: Any, u: Any, by: float) -> None:
    numbers = replace(NUMBERS, a_in_bits=8, u_bits=6)
    assert populations._over(AccumulatorBounds(a_in, u, (0, 10**9), True), numbers) == by


@pytest.mark.parametrize(
    ("seen", "high", "low"),
    [(None, 4.0, 3.0), ((-1.0, 2.0), 3.0, 1.5), ((-2.0, 3.0), 4.0, 3.0), ((-2.5, 1.0), 1.5, 3.0), ((0.5, 1.0), 1.5, 0.0), ((-1.0, -0.5), 0.0, 1.5)],
)  # fmt: skip
def test_data_narrows_the_worst_case_only(seen: Any, high: float, low: float) -> None:
    population = Population("p", (2,), lif())
    known = {} if seen is None else {"p": ObservedRange(seen, (0, 0), (0, 0))}
    options = QuantizationOptions(calibration=Calibration(known, {}), margin=1.5)
    assert populations._seen(population, InputRange(4.0, 3.0, True), options) == InputRange(high, low, seen is None)
    assert populations._seen(population, InputRange(4.0, 3.0, True), QuantizationOptions()) == InputRange(
        4.0, 3.0, True
    )


# -- refusals --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("asked", "scale", "fits", "found"),
    [
        (None, 5.0, False, None),
        (5.0, 5.0, True, None),
        (4.0, 5.0, True, None),
        (5.0, 5.0, False, "at the requested scale of 5 its input may overflow"),
        (6.0, 5.0, True, "a scale of 6 was requested, the widest bias allows less"),
        (6.0, 5.0, False, "a scale of 6 was requested, the widest bias allows less"),
    ],
)
def test_a_requested_scale_that_is_too_large(asked: Any, scale: float, fits: bool, found: str | None) -> None:
    problems = populations._too_large(
        Population("p", (1,), lif()), PopulationScale(scale, "the widest bias", False), asked, fits
    )
    assert [str(p) for p in problems] == (
        [] if found is None else [f"population 'p': {found}; quantize without given scales"]
    )


def incoming(weights: Any, bits: int = 8) -> IncomingOperator:
    return IncomingOperator(
        0, Dense(freeze(np.asarray(weights, float))), weight_range(np.asarray(weights, float), bits), OutputRange(0, 1)
    )


def test_a_projection_without_a_weight_left_is_told_by_name() -> None:
    ways = [incoming([[0.5, 0.0]]), incoming([[0.5, 0.0]], 4), incoming([[0.0, 0.0]])]
    made = [FixedProjection(n, "p", Dense(ints([w])), 8) for n, w in (("a", [0, 2]), ("b", [0, 0]), ("c", [0, 0]))]
    found = populations._too_small(
        Population("p", (1,), lif()), ways, made, PopulationScale(1.0, "the widest bias", False)
    )
    assert [str(p) for p in found] == [
        "projection 'b' -> 'p': all weights become 0 at 4 bits, since the widest bias limits the scale; give more bits, calibrate with data, or split the fan-in"
    ]
    (calibrated,) = populations._too_small(
        Population("p", (1,), lif()), ways, made, PopulationScale(1.0, "the widest bias", False), is_calibrated=True
    )
    assert calibrated.hint == "give more bits, or split the fan-in"


def test_a_scale_shrinks_until_what_was_rounded_fits() -> None:
    """3,800 weights of 8.62 become 9 each, more than the real bounds said: the scale is cut by that and a little more."""
    weights = 1.0 + 1e-4 * np.random.default_rng(0).random((2, 3800))
    net = layer(weights, lif(a_mem=0.5, theta=30.0))
    q = quantize(net, LOIHI1, QuantizationOptions(weight_bits=8))
    last = 2 ** (LOIHI1.numbers.a_in_bits - 1) - 1  # type: ignore[union-attr]
    first = last * 64 / weights.sum(axis=1).max()
    said = q.report[0]
    assert (said.decays["limited_by"], said.decays["exact_weights"]) == ("the worst input of a step (a_in)", False)
    assert said.decays["scale"] == pytest.approx(first / (3800 * 9 / last) * 0.999, rel=1e-12)
    assert prove(q) == {"p": said.bounds}
    assert (said.bounds.a_in, said.bounds.proved) == ((0, 3800 * 8), True)
    for asked, what in (
        (first * 0.999, f"at the requested scale of {first * 0.999:g} its input may overflow"),
        (first * 1.001, f"a scale of {first * 1.001:g} was requested, the worst input of a step (a_in) allows less"),
    ):
        with pytest.raises(ModelError) as caught:
            quantize(net, LOIHI1, QuantizationOptions(weight_bits=8, scales={"p": asked}))
        assert str(caught.value) == f"population 'p': {what}; quantize without given scales"
    kept = quantize(net, LOIHI1, QuantizationOptions(weight_bits=8, scales={"p": first * 0.9})).report[0]
    assert (kept.decays["scale"], kept.bounds.proved) == (first * 0.9, True)


# -- bounds of inputs --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("sent", [OutputRange(0, 1), OutputRange(0, 3), OutputRange(-2, 2)])
@pytest.mark.parametrize("exponent", [0, 3])
def test_the_least_and_greatest_input_of_each_neuron(sent: OutputRange, exponent: int) -> None:
    weights = np.array([[2, -4, 6], [-2, -8, 0], [2, 4, 0]])
    p = FixedProjection("a", "p", Dense(ints(weights)), 8, weight_exp=exponent)
    low, high = input_bounds(p, sent)
    for k in range(3):
        totals = [
            sum(int(w) * s for w, s in zip(weights[k], given, strict=True)) << exponent
            for given in np.ndindex(*[sent.high - sent.low + 1] * 3)
            for given in [tuple(g + sent.low for g in given)]
        ]
        assert (int(low[k]), int(high[k])) == (min(totals), max(totals))
    twice = total_input_range([p, p], {"a": sent}, 3)
    assert [x.tolist() for x in twice] == [(2 * low).tolist(), (2 * high).tolist()]
    assert [x.tolist() for x in total_input_range([], {}, 2)] == [[0, 0], [0, 0]]


def test_what_every_source_sends() -> None:
    q = quantize(
        layer([[0.5, 0.25]], lif(a_mem=0.5, reset="subtract", max_spikes=3)),
        LOIHI2,
        QuantizationOptions(graded={"in": (1.0, 4)}),
    )
    assert output_ranges(q.populations, {"in": OutputRange(-7, 7)}) == {
        "in": OutputRange(-7, 7),
        "p": OutputRange(0, q.populations[0].neuron.max_spikes),
    }
    assert q.inputs[0].value_max == 7
    weights = q.projections[0].operator.weight  # type: ignore[union-attr]
    reach = int(np.abs(weights).sum()) * 7 << q.projections[0].weight_exp
    assert prove(q)["p"].a_in == (-reach, reach)
