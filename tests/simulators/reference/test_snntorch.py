"""snnTorch 1.0.0 compared with the simulator: same weights, same inputs, 64 neurons x 2000 time steps."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from nirbridge.arrays import Array
from nirbridge.network.model import Network
from nirbridge.simulators.simulate import simulate
from nirbridge.simulators.types import Probe
from tests.packages import package
from tests.simulators.reference.frameworks import (
    NAME,
    NEURONS,
    PRE,
    cases,
    dense,
    grid_weights,
    network_of,
    ordered_currents,
    random_spikes,
    random_weights,
    run_snntorch,
    snntorch_feedback,
    snntorch_record,
    wired,
)

torch = pytest.importorskip("torch", reason="torch is not installed")
snn = package("snntorch")

LATE_SUBTRACTION_V = 2e-6  # th / b is rounded once, and its difference decays; voltages are near 1


def ours(network: Network, inputs: Array) -> tuple[Array, Array, Array]:
    """(spikes, voltages before the reset, voltages after it)."""
    arrays = simulate(network, inputs, record=[Probe(NAME, ("s", "u", "v"))], backend="reference").recording.arrays
    return arrays[NAME, "s"], arrays[NAME, "u"], arrays[NAME, "v"]


def per_neuron(low: float, high: float, seed: int) -> Any:
    values = np.random.default_rng(seed).uniform(low, high, NEURONS).astype(np.float32)
    return torch.from_numpy(values)


def is_lively(spikes: Array) -> bool:
    return spikes.shape == (2000, NEURONS) and 0.01 < spikes.mean() < 0.9


def driven(module: Any, weight: Array, seed: int) -> tuple[tuple[Array, Array], tuple[Array, Array, Array]]:
    """The module and our network on the same spikes through the same weights, sums in the documented order."""
    spikes = random_spikes(seed)
    theirs = run_snntorch(module, ordered_currents(spikes, weight))
    return theirs, ours(network_of(snntorch_record(module), dense(weight)), spikes)


@pytest.mark.parametrize("reset", cases(reset_mechanism=("zero", "none"), reset_delay=(True, False)), ids=str)
def test_leaky_is_the_same_to_the_bit_on_any_weights(reset: dict[str, Any]) -> None:
    module = snn.Leaky(beta=per_neuron(0.6, 0.97, 1), threshold=per_neuron(0.8, 2.5, 2), **reset)
    (s, mem), (k, u, v) = driven(module, random_weights((NEURONS, PRE), 0.08, 3), 4)
    assert is_lively(k)
    np.testing.assert_array_equal(k, s)
    np.testing.assert_array_equal(u if reset["reset_delay"] else v, mem)


def test_leaky_late_subtraction_is_an_early_one_of_threshold_over_beta() -> None:
    module = snn.Leaky(beta=per_neuron(0.6, 0.97, 1), threshold=per_neuron(0.8, 2.5, 2))  # the default reset
    (s, mem), (k, u, _) = driven(module, random_weights((NEURONS, PRE), 0.08, 3), 4)
    assert is_lively(k)
    np.testing.assert_array_equal(k, s)
    np.testing.assert_allclose(u, mem, rtol=0, atol=LATE_SUBTRACTION_V)


def test_leaky_early_subtraction_is_the_same_while_one_is_enough() -> None:
    module = snn.Leaky(beta=per_neuron(0.6, 0.97, 1), threshold=1.0, reset_mechanism="subtract", reset_delay=False)
    (s, mem), (k, _, v) = driven(module, random_weights((NEURONS, PRE), 0.04, 3), 4)
    assert is_lively(k)
    assert v.max() <= 1.0, "a residual over the threshold would be outside the form"
    np.testing.assert_array_equal(k, s)
    np.testing.assert_array_equal(v, mem)


def test_leaky_early_subtraction_has_no_form_where_a_residual_stays_over_the_threshold() -> None:
    module = snn.Leaky(beta=0.9, threshold=1.0, reset_mechanism="subtract", reset_delay=False)
    (s, _), (k, _, v) = driven(module, random_weights((NEURONS, PRE), 0.3, 3), 4)
    assert v.max() > 1.0
    assert (s != k).any(), "snnTorch tests the residual a second time; if it no longer does, the docs are out of date"


@pytest.mark.parametrize(
    "reset", cases(reset_mechanism=("zero", "subtract", "none"), reset_delay=(True, False)), ids=str
)
def test_leaky_behind_a_linear_layer_on_grid_weights(reset: dict[str, Any]) -> None:
    weight, spikes = grid_weights((NEURONS, PRE), 0.04, 5), random_spikes(6)
    module = snn.Leaky(beta=7 / 8, **reset)
    currents = torch.nn.functional.linear(torch.from_numpy(spikes).float(), torch.from_numpy(weight))
    s, _ = run_snntorch(module, currents.numpy())
    k, _, v = ours(network_of(snntorch_record(module), dense(weight)), spikes)
    assert is_lively(k)
    if reset == {"reset_mechanism": "subtract", "reset_delay": False}:
        assert v.max() <= 1.0
    np.testing.assert_array_equal(k, s)


@pytest.mark.parametrize(
    "reset", cases(reset_mechanism=("zero", "subtract", "none"), reset_delay=(True, False)), ids=str
)
def test_synaptic(reset: dict[str, Any]) -> None:
    """Same bits on any weights, but for the late subtraction, whose voltages round differently."""
    module = snn.Synaptic(alpha=per_neuron(0.3, 0.7, 1), beta=per_neuron(0.5, 0.9, 2), threshold=1.5, **reset)
    (s, mem), (k, u, v) = driven(module, random_weights((NEURONS, PRE), 0.04, 3), 4)
    assert is_lively(k)
    np.testing.assert_array_equal(k, s)
    if reset == {"reset_mechanism": "subtract", "reset_delay": True}:
        np.testing.assert_allclose(u, mem, rtol=0, atol=LATE_SUBTRACTION_V)
    elif reset["reset_delay"]:
        spoken = s == 1  # during the silent step after a late reset to zero our u is not defined
        np.testing.assert_array_equal(u[spoken], mem[spoken])
    else:
        assert reset["reset_mechanism"] != "subtract" or v.max() <= 1.5
        np.testing.assert_array_equal(v, mem)


def lapicque(beta: bool, reset: str) -> Any:
    if beta:
        return snn.Lapicque(beta=0.9, threshold=0.3, reset_mechanism=reset)
    threshold = 1.2 if reset == "none" else 0.3  # without a reset v stays high
    return snn.Lapicque(R=5.0, C=3.0, time_step=0.7, threshold=threshold, reset_mechanism=reset)


@pytest.mark.parametrize("reset", ["zero", "subtract", "none"])
def test_lapicque_from_beta_is_the_same_to_the_bit_on_any_weights(reset: str) -> None:
    """Its decay is 1 - dt / RC with RC = dt / ln(1 / beta), not beta."""
    module = lapicque(True, reset)
    (s, mem), (k, u, _) = driven(module, random_weights((NEURONS, PRE), 0.12, 3), 4)
    assert is_lively(k)
    np.testing.assert_array_equal(k, s)
    if reset == "none":
        np.testing.assert_array_equal(u, mem)


@pytest.mark.parametrize("reset", ["zero", "subtract", "none"])
def test_lapicque_from_r_and_c(reset: str) -> None:
    """The module multiplies the input by R, 1 / RC and dt one after the other; one gain rounds differently."""
    module = lapicque(False, reset)
    (s, mem), (k, u, _) = driven(module, random_weights((NEURONS, PRE), 0.12, 3), 4)
    assert is_lively(k)
    np.testing.assert_array_equal(k, s)
    if reset != "zero":
        np.testing.assert_allclose(u, mem, rtol=0, atol=LATE_SUBTRACTION_V)


@pytest.mark.parametrize(
    "reset", cases(reset_mechanism=("zero", "subtract", "none"), reset_delay=(True, False)), ids=str
)
@pytest.mark.parametrize("all_to_all", [True, False])
def test_rleaky(reset: dict[str, Any], all_to_all: bool) -> None:
    """The recurrent bias acts from the first step; b v + x + W S is added in another order, so spikes are compared."""
    if all_to_all:
        module = snn.RLeaky(beta=7 / 8, linear_features=NEURONS, threshold=2.0, **reset)
        with torch.no_grad():
            module.recurrent.weight.copy_(torch.from_numpy(grid_weights((NEURONS, NEURONS), 0.01, 7)))
            module.recurrent.bias.copy_(torch.from_numpy(grid_weights((NEURONS,), 0.05, 8)))
        weight = grid_weights((NEURONS, PRE), 0.06, 5)
    else:
        module = snn.RLeaky(beta=0.9, V=per_neuron(-0.4, 0.4, 9), all_to_all=False, threshold=2.0, **reset)
        weight = random_weights((NEURONS, PRE), 0.06, 5)
    spikes = random_spikes(6)
    s, _ = run_snntorch(module, ordered_currents(spikes, weight))
    network = network_of(snntorch_record(module), dense(weight), snntorch_feedback(module))
    k, _, v = ours(network, spikes)
    assert is_lively(k)
    if reset == {"reset_mechanism": "subtract", "reset_delay": False}:
        assert v.max() <= 2.0
    np.testing.assert_array_equal(k, s)


def test_leaky_on_currents_of_any_size() -> None:
    """Graded input through the identity: no sum at all, so nothing but the neuron is compared."""
    module = snn.Leaky(beta=0.9, threshold=1.0, reset_mechanism="zero")
    currents = np.random.default_rng(11).normal(0.1, 0.3, (2000, NEURONS)).astype(np.float32)
    s, mem = run_snntorch(module, currents)
    k, u, _ = ours(wired(snntorch_record(module)), currents)
    assert is_lively(k)
    np.testing.assert_array_equal(k, s)
    np.testing.assert_array_equal(u, mem)
