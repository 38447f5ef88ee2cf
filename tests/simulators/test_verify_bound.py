from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nirbridge.arrays import Array, freeze
from nirbridge.chips import read_chip
from nirbridge.errors import ModelError
from nirbridge.network import Network
from nirbridge.passes import Retime
from nirbridge.quantization.model import QuantizedNetwork
from nirbridge.quantization.options import QuantizationOptions
from nirbridge.quantization.quantize import quantize
from nirbridge.simulators.fixed.simulate import simulate_fixed
from nirbridge.simulators.simulate import Probe, Recording, simulate
from nirbridge.testing import networks
from nirbridge.verification.bounds import LayerBound, layer_bounds
from nirbridge.verification.verify import all_probes
from tests.cases import cases
from tests.quantization.nets import layer, lif
from tests.simulators.mapped.test_mapped import at_rest, skip_network, spikes

SEEDS = st.integers(0, 2**16)


def in_integers(network: Network, **options: Any) -> QuantizedNetwork:
    chip = read_chip("loihi2")
    retimed = Retime(delay_steps_max=chip.core.delay_steps, graded_spikes=chip.neuron.graded_spikes).retimed(network)
    return quantize(retimed, chip, QuantizationOptions(**options))


def recorded(q: QuantizedNetwork, inputs: dict[str, Array]) -> Recording:
    return simulate_fixed(q, inputs, record=all_probes(q)).recording


def first_difference(q: QuantizedNetwork, fixed: Recording, real: Recording) -> int:
    """The first hardware step in which a population sends something else than the real retimed network."""
    wrong = [
        np.flatnonzero((fixed.arrays[p.name, "s"] != real.arrays[p.name, "s"]).reshape(len(a), -1).any(axis=1))
        for p in q.populations
        if p.neuron.fires
        for a in [fixed.arrays[p.name, "s"]]
    ]
    return min((int(w[0]) for w in wrong if len(w)), default=len(next(iter(fixed.arrays.values()))))


def cut(recording: Recording, steps: int) -> Recording:
    return Recording({key: array[:steps] for key, array in recording.arrays.items()}, recording.meta)


@given(networks(), SEEDS, st.sampled_from([8, 6, 3]), st.sampled_from([None, 2]))
@settings(max_examples=cases(40, 120))
def test_membranes_stay_within_the_bound_until_a_spike_differs(
    network: Network, seed: int, bits: int, batch: int | None
) -> None:
    """Against the simulator of reals, which shares nothing with the bound."""
    try:
        q = in_integers(at_rest(network, seed) if seed % 2 else network, weight_bits=bits)
    except ModelError:
        return
    assert q.network is not None
    inputs = spikes(q, 25, seed, batch)
    fixed = recorded(q, inputs)
    assert all(x.holds for x in layer_bounds(q, inputs, fixed))
    real = simulate(q.network, inputs, record=[Probe("*", ("s", "v"))], dtype="float64").recording
    until = first_difference(q, fixed, real)
    if until <= max(q.latency.values()):
        return
    for p, found in zip(q.populations, layer_bounds(q, inputs, cut(fixed, until)), strict=True):
        late = q.latency[p.name]
        v = fixed.arrays[p.name, "v"][late:until] / p.neuron.scale + p.neuron.v_offset
        off = np.abs(v - real.arrays[p.name, "v"][late:until])
        if not found.unbounded:
            assert off.max(initial=0.0) <= found.bound * (1 + 1e-9) + 1e-9, p.name


def test_the_bound_of_an_integrator_is_the_error_of_its_weights() -> None:
    """No leak, no truncation: n spikes, n times what the weight is off, and half a unit of the start."""
    q = in_integers(layer([[0.7, -0.31]], lif(kind="I", theta=None)), weight_bits=4)
    values = np.ones((21, 2), np.uint8)
    [found] = layer_bounds(q, {"in": values}, recorded(q, {"in": values}))
    scale, p = float(q.populations[0].neuron.scale), q.projections[0]
    off = np.abs(np.asarray(p.operator.weight) * 64 * 2**p.weight_exp / scale - [[0.7, -0.31]])  # type: ignore[union-attr]
    assert off.sum() > 1e-3
    assert found.bound == pytest.approx(20 * off.sum() + 0.5 / scale, rel=1e-6)
    assert found.theta is None
    assert found.seen <= found.bound


def test_a_network_with_everything_is_within_its_bound() -> None:
    q = in_integers(skip_network())
    inputs = spikes(q, 60)
    found = layer_bounds(q, inputs, recorded(q, inputs))
    assert [x.population for x in found] == [p.name for p in q.populations]
    assert all(x.holds and x.bound >= x.seen for x in found)
    assert sum(x.spikes for x in found) > 100


def test_graded_inputs_are_within_the_bound_of_their_rounding() -> None:
    q = in_integers(layer([[0.5, -1.0]], lif(a_mem=0.9)), graded={"in": (1.0, 5)})
    values = np.random.default_rng(0).uniform(-1, 1, (50, 2))
    [found] = layer_bounds(q, {"in": values}, recorded(q, {"in": values}))
    assert found.holds
    assert found.seen > 1e-4


def test_a_floor_above_rest_is_within_the_bound_to_the_last_digit() -> None:
    """After a spike the membrane lies on the floor, as far from the real one as the floors are apart."""
    floors = np.random.default_rng(0).uniform(0.01, 0.4, 300)
    q = in_integers(layer([[0.9]] * 300, lif(a_mem=0.5, v_min=freeze(floors), refractory_steps=2)))
    values = np.ones((12, 1), np.uint8)
    [found] = layer_bounds(q, {"in": values}, recorded(q, {"in": values}))
    assert found.holds
    assert found.spikes >= 300


def changed(recording: Recording, key: tuple[str, str], at: tuple[int, ...], value: int) -> Recording:
    array = recording.arrays[key].copy()
    array[at] = value
    return Recording({**recording.arrays, key: array}, recording.meta)


def test_what_is_further_off_is_found_where_it_is() -> None:
    q = in_integers(skip_network())
    inputs = spikes(q, 40)
    fixed = recorded(q, inputs)
    n = q.population("c").neuron
    late, v = q.latency["c"], fixed.arrays["c", "v"]

    def of_c(found: tuple[LayerBound, ...]) -> LayerBound:
        return next(x for x in found if x.population == "c")

    bound = of_c(layer_bounds(q, inputs, fixed)).bound
    far = int(v[late + 9, 3] + (2 * bound + 0.01) * float(n.scale))
    broken = of_c(layer_bounds(q, inputs, changed(fixed, ("c", "v"), (late + 9, 3), far)))
    assert not broken.holds
    assert broken.broken == (late + 9, 0, 3)
    silent = np.argwhere(v[late:] < -float(n.scale))[0] if (v[late:] < -float(n.scale)).any() else np.array([0, 0])
    at = (late + int(silent[0]), int(silent[1]))
    extra = changed(fixed, ("c", "s"), at, 1 - int(fixed.arrays["c", "s"][at]))
    assert not of_c(layer_bounds(q, inputs, extra)).holds


def test_other_weights_than_those_that_ran_are_found() -> None:
    q = in_integers(layer([[0.4, 0.3]], lif(a_mem=0.5)))
    p = q.projections[0]
    operator = replace(p.operator, weight=freeze(np.asarray(p.operator.weight) + 8))  # type: ignore[union-attr]
    other = replace(q, projections=(replace(p, operator=operator),))
    values = np.ones((20, 2), np.uint8)
    assert layer_bounds(q, {"in": values}, recorded(q, {"in": values}))[0].holds
    assert not layer_bounds(q, {"in": values}, recorded(other, {"in": values}))[0].holds


def test_a_membrane_held_at_its_last_value_has_no_bound() -> None:
    q = in_integers(layer([[-1.0, 0.9]], lif(a_mem=1.0)))
    values = np.zeros((400, 2), np.uint8)
    values[:, 0] = 1
    [found] = layer_bounds(q, {"in": values}, recorded(q, {"in": values}))
    assert found.unbounded > 0
    assert found.holds


def test_a_membrane_held_at_its_last_value_above_has_no_bound() -> None:
    """More comes in than a spike takes off: before the reset v is at its last value, behind it not."""
    q = in_integers(layer([[1.0, -0.7]], lif(a_mem=1.0, theta=0.4, reset="subtract", reset_amount=0.3)))
    values = np.tile(np.array([[1, 0]], np.uint8), (1500, 1))
    fixed = recorded(q, {"in": values})
    [found] = layer_bounds(q, {"in": values}, fixed)
    assert fixed.arrays["p", "v"].max() < 2**23 - 1
    assert found.unbounded > 0
    assert found.holds


def test_whatever_passes_the_threshold_sends_a_spike() -> None:
    """With several spikes a step, at every threshold and scale, the integers send one where the real neuron does."""
    rng = np.random.default_rng(0)
    for compare in (">", ">="):
        cell = lif(a_mem=0.5, theta=rng.uniform(0.3, 1.2, 40), max_spikes=3, reset="subtract", compare=compare)
        q = in_integers(layer(rng.normal(0, 1, (40, 6)), cell))
        n = q.populations[0].neuron
        assert n.fires_above is not None
        assert np.all(n.spike_size <= n.fires_above + 1)
        inputs = spikes(q, 60)
        assert all(x.holds for x in layer_bounds(q, inputs, recorded(q, inputs)))
