"""Rounding bounds: the formula of ``rounding`` written once more, one number at a time."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from nirbridge.network.model import Network, Population, Port, Projection, Timing
from nirbridge.network.neurons import neuron
from nirbridge.network.operators import Chain, Conv, Dense, Identity, Reshape, Scale, Sparse
from nirbridge.verification.rounding import (
    COMPUTED,
    DOUBLE,
    OPERATIONS,
    SINGLE,
    ModuleConstants,
    _BoundUpdate,
    _drive,
    _gain_error,
    rounding_bounds,
)

UNIT = 2.0**-10
"""A coarse unit, so that every term of a bound counts."""
C = COMPUTED
STEPS, CELLS = 5, 3
TIMING = Timing(1e-4, "euler", "subtract", ">", "per-second")


def test_units_of_both_precisions() -> None:
    assert (DOUBLE, SINGLE, COMPUTED, OPERATIONS) == (1.1102230246251565e-16, 5.960464477539063e-08, 2.0**-22, 8)
    assert np.nextafter(1, 2) == 1 + 2 * DOUBLE
    assert np.nextafter(np.float32(1), np.float32(2)) == 1 + 2 * SINGLE


# -- one population ------------------------------------------------------------------------------------------------

LEAKY = {"a_mem": 0.75, "g_mem": 0.3, "bias": -0.4, "theta": 1.3, "v_init": -0.7, "i_init": -0.6, "v_reset": -0.2}
SYNAPTIC = {**LEAKY, "a_mem": -0.75, "g_mem": -0.3, "a_syn": -0.85, "g_syn": -1.7, "reset_amount": -1.9}
NUMBERS = [0.75, 0.3, 0.4, 1.3, 0.85, 1.7, 1.9, 0.2]
"""All coefficients of the two, up to their signs; those of the initial state do not matter."""
NOTHING: dict[str, Any] = {}
CASES: list[tuple[str, dict[str, Any], list[float], dict[str, float]]] = [
    ("all known", {**SYNAPTIC, "reset": "subtract"}, NUMBERS, NOTHING),
    ("a decay", {**SYNAPTIC, "reset": "subtract"}, [n for n in NUMBERS if n != 0.75], {"mem": C}),
    ("a decay of the current", {**SYNAPTIC, "reset": "subtract"}, [n for n in NUMBERS if n != 0.85], {"syn": C}),
    ("a gain", {**SYNAPTIC, "reset": "subtract"}, [n for n in NUMBERS if n != 0.3], {"gain": C * 0.3}),
    ("a gain of the input", {**SYNAPTIC, "reset": "subtract"}, [n for n in NUMBERS if n != 1.7], {"in": C * 1.7}),
    ("a bias", {**SYNAPTIC, "reset": "subtract"}, [n for n in NUMBERS if n != 0.4], {"bias": C * 0.4}),
    ("no amount, but the threshold", {**SYNAPTIC, "reset": "subtract"}, [n for n in NUMBERS if n != 1.9], NOTHING),
    ("an amount", {**SYNAPTIC, "reset": "subtract"}, [n for n in NUMBERS if n not in (1.9, 1.3)], {"amount": C}),
    ("no threshold, but the amount", {**SYNAPTIC, "reset": "subtract"}, [n for n in NUMBERS if n != 1.3], NOTHING),
    (
        "an amount of a decay that was computed",
        {**SYNAPTIC, "reset": "subtract"},
        [n for n in NUMBERS if n not in (0.75, 1.9)],
        {"mem": C, "amount": C},
    ),
    ("a reset to a known value", {**LEAKY, "reset": "to-value"}, NUMBERS, NOTHING),
    ("a reset to a value", {**LEAKY, "reset": "to-value"}, [n for n in NUMBERS if n != 0.2], {"reset": C}),
    ("no reset", {**LEAKY, "reset": "none"}, [n for n in NUMBERS if n not in (0.2, 1.3)], NOTHING),
    ("a readout", {**LEAKY, "theta": None, "v_reset": 0.0}, NUMBERS, NOTHING),
]


def recorded(fires: bool) -> dict[tuple[str, str], Any]:
    source = np.random.default_rng(1)
    found = {("p", name): source.normal(size=(STEPS, 1, CELLS)) for name in ("u", "v", "i")}
    return {**found, ("p", "s"): np.arange(STEPS * CELLS).reshape(STEPS, 1, CELLS) % 3} if fires else found


def expected(n: Any, values: Any, drive: Any, size: Any, errors: dict[str, float]) -> tuple[Any, Any]:
    """Bounds before and after the reset, for one neuron at a time."""
    e = {"mem": 0.0, "syn": 0.0, "gain": 0.0, "in": 0.0, "bias": 0.0, "amount": 0.0, "reset": 0.0, **errors}
    c = {name: abs(float(getattr(n, name))) for name in ("a_mem", "g_mem", "a_syn", "g_syn", "bias", "v_reset")}
    amount = abs(float(n.reset_amount))
    before, after = np.zeros(drive.shape), np.zeros(drive.shape)
    for k in range(CELLS):
        di = dv = 0.0
        i_old, v_old = abs(float(n.i_init)), abs(float(n.v_init))
        for t in range(STEPS):
            at = (t, 0, k)
            di = c["a_syn"] * di + e["syn"] * i_old + c["g_syn"] * drive[at] + e["in"] * size[at]
            di += 8 * UNIT * (c["a_syn"] * i_old + c["g_syn"] * size[at])
            i = abs(values["p", "i"][at])
            dv = c["a_mem"] * dv + e["mem"] * v_old + c["g_mem"] * di + e["gain"] * i + e["bias"]
            dv += 8 * UNIT * (v_old + c["g_mem"] * i + c["bias"] + c["v_reset"] + amount)
            before[at] = dv
            spikes = values["p", "s"][at] if n.fires else 0
            if spikes and n.reset == "to-value":
                dv = (4 * UNIT + e["reset"]) * c["v_reset"]
            elif n.reset == "subtract":
                dv += spikes * (4 * UNIT + e["amount"]) * amount
            after[at] = dv
            i_old, v_old = i, abs(values["p", "v"][at])
    return before, after


@pytest.mark.parametrize("case", CASES, ids=lambda case: case[0])
def test_the_recursion_of_one_population(case: Any) -> None:
    _, options, numbers, errors = case
    cell = neuron("CubaLIF", **options)
    values, source = recorded(cell.fires), np.random.default_rng(2)
    drive, size = source.random((2, STEPS, 1, CELLS))
    update = _BoundUpdate(Population("p", (CELLS,), cell), values, ModuleConstants([np.array(numbers)]), UNIT)
    found = update.run(drive, size)
    for ours, theirs in zip(found, expected(cell, values, drive, size, errors), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-13, atol=0)


def test_a_gain_that_is_one_minus_the_decay_is_off_by_an_absolute_amount() -> None:
    known, decay = ModuleConstants([np.array([0.25])]), np.array(0.5)
    assert _gain_error(np.array(0.25), decay, known) == 0.0
    for off, is_one_minus in ((0.0, True), (8.0, True), (8.5, False), (-8.0, True), (-8.5, False), (-1e5, False)):
        gain = 0.5 + off * C
        assert _gain_error(np.array(gain), decay, known) == (C if is_one_minus else C * gain), off
    both = _gain_error(np.array([0.5, -2.0]), decay, known)
    assert both.tolist() == [C, 2 * C]


# -- what reaches a population -------------------------------------------------------------------------------------


def one_input(operator: Any, post: int, **options: Any) -> Network:
    p = Projection("in", "out", operator, **options)
    return Network(1e-4, TIMING, (), (p,), (Port("in", (2,)),), (Port("out", (post,)),))


WEIGHT = np.array([[1.0, -2.0], [0.5, 4.0], [0.0, -1.0]])
INPUT = np.array([[1.0, 0.0], [1.0, -1.0], [0.0, 2.0]])
ROWS = Sparse(np.array([0, 2, 4, 5]), np.array([0, 1, 0, 1, 1]), WEIGHT[WEIGHT != 0], (2,), (3,))
OPERATORS: list[tuple[Any, Any, int, list[Any]]] = [
    (Dense(WEIGHT), WEIGHT, 2, [WEIGHT]),
    (ROWS, WEIGHT, 2, [ROWS.data]),
    (Scale(np.array([-3.0, 2.0])), np.diag([3.0, 2.0]), 1, [np.array([3.0, 2.0])]),
    (Chain((Scale(np.array([-3.0, 2.0])), Dense(WEIGHT))), WEIGHT * [3.0, 2.0], 3, [WEIGHT, np.array([3.0, 2.0])]),
    (Identity((2,)), np.eye(2), 1, []),
]


@pytest.mark.parametrize(("operator", "matrix", "terms", "tensors"), OPERATORS)
@pytest.mark.parametrize("bias", [None, -5.0])
def test_the_input_of_a_population(operator: Any, matrix: Any, terms: int, tensors: list[Any], bias: Any) -> None:
    post = len(matrix)
    options: dict[str, Any] = {"delay_steps": np.array(1)}
    if bias is not None:
        options["bias"] = np.array([*[0.0] * (post - 1), bias])
    network = one_input(operator, post, **options)
    late = np.concatenate([np.zeros((1, 2)), INPUT[:-1]])
    products = np.abs(late) @ np.abs(matrix).T
    names = [*tensors, *([options["bias"]] if bias is not None else [])]
    for missing in (None, *range(len(names))):  # each tensor in turn is not the module's own
        known = ModuleConstants([t for k, t in enumerate(names) if k != missing])
        error, size = _drive(network, "out", (post,), {("in", "s"): INPUT[:, None]}, {}, known, UNIT)
        own_bias = np.abs(options.get("bias", 0.0))
        sums = products + (5.0 if missing == len(tensors) else own_bias)  # a computed one may be a sum that cancels
        np.testing.assert_array_equal(size[:, 0], sums)
        relative = (terms + 2) * UNIT + (0.0 if missing is None else C)
        np.testing.assert_allclose(error[:, 0], sums * relative, rtol=1e-13)


def test_weights_of_convolutions_count_up_to_their_sign() -> None:
    kernel = np.array([[[-2.0, 3.0]]])
    conv = Conv(kernel, (1,), ((0, 0),), (1,), 1, (1, 2))
    network = one_input(Chain((Reshape((2,), (1, 2)), conv, Reshape((1, 1), (1,)))), 1)
    for tensors, extra in (([kernel], 0.0), ([], C)):
        error, size = _drive(network, "out", (1,), {("in", "s"): -INPUT[:, None]}, {}, ModuleConstants(tensors), UNIT)
        assert size.ravel().tolist() == [2.0, 5.0, 6.0]
        np.testing.assert_allclose(error.ravel(), size.ravel() * ((1 + 2 + 1 + 2) * UNIT + extra), rtol=1e-13)


def test_errors_of_readouts_are_handed_on_and_all_projections_of_a_target_add_up() -> None:
    readout = Population("m", (2,), neuron("LI", theta=None))
    spiking = Population("r", (3,), neuron("IF"))
    projections = (
        Projection("m", "out", Dense(WEIGHT)),
        Projection("r", "out", Dense(np.eye(3))),
        Projection("r", "m", Dense(np.ones((2, 3)))),
    )
    network = Network(1e-4, TIMING, (readout, spiking), projections, (), (Port("out", (3,)),))
    spikes = np.ones((3, 1, 3))
    values = {("r", "s"): spikes, ("m", "v"): -INPUT[:, None]}
    sent = {"m": np.array([[[1.0, 2.0]], [[0.0, 1.0]], [[4.0, 0.0]]])}
    known = ModuleConstants([WEIGHT, np.eye(3)])
    error, size = _drive(network, "out", (3,), values, sent, known, UNIT)
    membranes = np.abs(INPUT) @ np.abs(WEIGHT).T
    np.testing.assert_array_equal(size[:, 0], membranes + 1.0)
    handed = sent["m"][:, 0] @ np.abs(WEIGHT).T
    np.testing.assert_allclose(error[:, 0], handed + membranes * 4 * UNIT + 5 * UNIT, rtol=1e-13)


def test_bounds_of_a_network_go_from_population_to_population() -> None:
    """A spiking population, a readout that hears it, and an output of both: spikes carry no error, membranes do."""
    spiking = Population("r", (2,), neuron("LIF", a_mem=0.5, g_mem=0.5, theta=1.0, reset="subtract"))
    readout = Population("m", (2,), neuron("LI", a_mem=0.5, g_mem=0.25, theta=None))
    eye = Dense(np.eye(2))
    projections = (
        Projection("in", "r", Dense(WEIGHT[:2])),
        Projection("r", "m", eye),
        Projection("m", "out", eye),
        Projection("r", "spikes", eye),
    )
    ports = (Port("in", (2,)),), (Port("out", (2,)), Port("spikes", (2,)))
    network = Network(1e-4, TIMING, (spiking, readout), projections, *ports)
    source = np.random.default_rng(3)
    values: dict[tuple[str, str], Any] = {("in", "s"): INPUT[:, None], ("r", "s"): source.random((3, 1, 2)) < 0.5}
    values |= {(name, key): source.normal(size=(3, 1, 2)) for name in "rm" for key in "uvi"}
    known = ModuleConstants([WEIGHT[:2], np.array([0.5])])
    found = rounding_bounds(network, values, known, UNIT)

    def update(p: Population, drive: tuple[Any, Any]) -> tuple[Any, Any]:
        return _BoundUpdate(p, values, known, UNIT).run(*drive)

    def drive(target: str, sent: dict[str, Any]) -> tuple[Any, Any]:
        return _drive(network, target, (2,), values, sent, known, UNIT)

    first, second = update(spiking, drive("r", {})), update(readout, drive("m", {}))
    pairs = (
        (found.before_reset["r"], first[0]),
        (found.after_reset["r"], first[1]),
        (found.before_reset["m"], second[0]),
        (found.after_reset["m"], second[1]),
        (found.outputs["out"], second[1] + np.abs(values["m", "v"]) * 4 * UNIT),
        (found.outputs["spikes"], values["r", "s"] * 4 * UNIT),
    )
    for ours, theirs in pairs:
        np.testing.assert_allclose(ours, theirs, rtol=1e-13)
    assert not np.array_equal(first[0], first[1])
