"""Quantized networks against the reference: equal where possible, else within a proved distance, or refused."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from examples import digits
from nirbridge.arrays import freeze
from nirbridge.chips import read_chip
from nirbridge.errors import ModelError, UsageError
from nirbridge.network.model import Timing
from nirbridge.network.nir.from_nir import from_nir
from nirbridge.passes import Retime
from nirbridge.quantization import QuantizationOptions, prove, quantize
from nirbridge.quantization.operators import weights_of
from nirbridge.quantization.storage.file import check_quantized
from nirbridge.simulators.fixed.simulate import simulate_fixed
from nirbridge.simulators.simulate import Probe, simulate
from nirbridge.testing import nir_graphs
from tests.cases import cases
from tests.quantization.nets import layer, lif

SEEDS = st.integers(0, 2**32 - 1)


def spikes_of(network: Any, q: Any, values: Any) -> tuple[Any, Any]:
    wanted = [Probe("p", ("s",))]
    real = simulate(network, values, record=wanted, dtype="float64").recording.arrays["p", "s"]
    return real, simulate_fixed(q, values, record=wanted).recording.arrays["p", "s"]


@settings(max_examples=cases(20, 60))
@example(164)  # a threshold and a bias of quarters of the weight
@given(SEEDS)
def test_networks_of_whole_numbers_fire_exactly_alike(seed: int) -> None:
    """No decay, weights, biases and thresholds on one grid: ties and all, in every kind of reset."""
    rng = np.random.default_rng(seed)
    grid = float(rng.choice([1.0, 0.25, 3.0]))
    posts, pres = rng.integers(1, 6, 2)
    compare, reset = str(rng.choice([">", ">="])), str(rng.choice(["to-value", "subtract", "none"]))
    cell = lif(
        kind="IF",
        theta=grid * rng.integers(1, 8, posts if rng.random() < 0.3 else ()),
        reset=reset,
        compare=compare,
        max_spikes=int(rng.choice([1, 4])),
        refractory_steps=rng.integers(0, 3),
        bias=grid * rng.integers(-1, 2),
    )
    loop = grid * rng.integers(-2, 3, (posts, posts)) if rng.random() < 0.5 else None
    weight = grid * rng.integers(-4, 5, (posts, pres))
    net = layer(weight, cell, loop=loop)
    assume(np.any(weight))
    q = quantize(net, read_chip("loihi2"))
    check_quantized(q)
    real, fixed = spikes_of(net, q, rng.integers(0, 2, (30, int(pres))))
    np.testing.assert_array_equal(fixed, real)


@settings(max_examples=cases(20, 60))
@given(SEEDS)
def test_membranes_stay_within_the_proved_distance(seed: int) -> None:
    """A read-out of random reals: the distance obeys a recursion of rounding errors, worked out here.

    u loses at most 1 unit a step to truncation, its decay is off by at most 1/8192 of its size (and half a part of
    4096 more at the ends), weights by half a grid step for each spike, the bias by half its unit; v the same.
    """
    rng = np.random.default_rng(seed)
    posts, pres, steps = int(rng.integers(1, 5)), int(rng.integers(1, 9)), 40
    synapse = rng.random() < 0.5
    cell = lif(
        kind="CubaLI" if synapse else "LI",
        theta=None,
        a_mem=rng.uniform(0, 1),
        a_syn=rng.uniform(0, 0.99) if synapse else 0.0,
        g_mem=rng.uniform(0.1, 2, posts),
        bias=rng.normal(0, 0.1),
        v_init=rng.normal(),
    )
    net = layer(rng.normal(0, 1, (posts, pres)), cell, bias=rng.normal(0, 0.1, posts))
    bits = int(rng.choice([8, 6, 4]))
    q = quantize(net, read_chip("loihi2"), QuantizationOptions(weight_bits=bits, run_steps=steps))
    values = rng.integers(0, 2, (steps, pres))
    real = simulate(net, values, record=[Probe("p", ("v", "i"))], dtype="float64").recording.arrays
    fixed = simulate_fixed(q, values, record=[Probe("p", ("v", "u"))]).recording.arrays["p", "v"]
    n, p = q.populations[0].neuron, q.projections[0]
    scale = float(n.scale)
    steady = cell.g_syn * net.projections[0].bias / (1 - cell.a_syn)
    current = np.abs(cell.g_mem * (real["p", "i"] - steady)) * scale
    step = 2 ** (8 - bits + (p.sign_mode == "mixed")) * 2**p.weight_exp * 64
    error_u, error_v = 0.5, 0.5
    off_u = abs((int(n.du) + 1) / 4096 - (1 - float(cell.a_syn)))
    off_v = abs(int(n.dv) / 4096 - (1 - float(cell.a_mem)))
    active = np.concatenate([[0], values.sum(1)[:-1]])
    for t in range(steps):
        before_u = current[t - 1].max() if t else float(np.abs(cell.g_mem * steady).max()) * scale
        before_v = np.abs(real["p", "v"][t - 1] if t else cell.v_init).max() * scale
        error_u = error_u + off_u * before_u + 1 + active[t] * (step / 2 * 1.001)
        error_v = error_v + off_v * before_v + 1 + error_u + 0.5 * 2**n.bias_exp
        assert np.abs(fixed[t] - real["p", "v"][t] * scale).max() <= error_v * (1 + 1e-9), t


@settings(max_examples=cases(20, 60))
@given(SEEDS)
def test_no_input_breaks_the_bounds_and_the_worst_one_meets_them(seed: int) -> None:
    rng = np.random.default_rng(seed)
    posts, pres = int(rng.integers(1, 6)), int(rng.integers(1, 300))
    synapse = rng.random() < 0.5
    cell = lif(
        kind="CubaLIF" if synapse else "LIF",
        theta=rng.uniform(0.5, 4),
        a_mem=rng.uniform(0, 1),
        a_syn=rng.uniform(0, 0.999) if synapse else 0.0,
        bias=rng.normal(0, 0.1),
        reset=str(rng.choice(["to-value", "subtract"])),
    )
    net = layer(rng.normal(0, 1, (posts, pres)), cell)
    q = quantize(net, read_chip("loihi2"))
    bounds = prove(q)["p"]
    assert bounds == q.report[0].bounds
    assert max(map(abs, bounds.a_in)) <= 2**15 - 1
    assert max(map(abs, bounds.u)) <= 2**23 - 1
    weights = weights_of(q.projections[0].operator) << q.projections[0].weight_exp
    sums = np.stack([np.where(weights > 0, weights, 0).sum(1), np.where(weights < 0, weights, 0).sum(1)])
    assert (sums[1].min(), sums[0].max()) == bounds.a_in
    up, down = weights[sums[0].argmax()] > 0, weights[sums[1].argmin()] < 0
    for spikes in (up, down):
        values = np.tile(spikes, (300, 1))
        values[::7] = rng.integers(0, 2, pres)
        got = simulate_fixed(q, values, record=[Probe("p", ("u", "v"))]).recording.arrays
        for name, (low, high) in (("u", bounds.u), ("v", bounds.v)):
            assert low <= got["p", name].min()
            assert got["p", name].max() <= high
        last = np.abs(got["p", "v"]).max(axis=1) >= 2**23 - 1
        assert not last[: bounds.v_steps or 300].any()
    if not synapse:
        assert got["p", "u"].min() == 64 * bounds.a_in[0]


@settings(max_examples=cases(12, 25))
@given(nir_graphs(), SEEDS)
def test_any_network_is_exact_in_its_own_integers_or_refused(graph: Any, seed: int) -> None:
    chip = read_chip("loihi2")
    try:
        net = from_nir(graph)
        q = quantize(Retime(delay_steps_max=chip.core.delay_steps).retimed(net), chip)
    except ModelError:
        return
    check_quantized(q)
    for layer_report in q.report:
        assert layer_report.bounds.proved
        assert max(map(abs, layer_report.bounds.a_in)) < 2**15
    rng = np.random.default_rng(seed)
    values = {p.name: rng.integers(0, 2, (8, *p.shape)) for p in q.inputs}
    a = simulate_fixed(q, values, record=[Probe("*", ("s", "v", "u"))], backend="reference")
    b = simulate_fixed(q, values, record=[Probe("*", ("s", "v", "u"))], backend="fast")
    for key, array in a.recording.arrays.items():
        np.testing.assert_array_equal(array, b.recording.arrays[key])
        bounds = next((r.bounds for r in q.report if r.population == key[0]), None)
        if bounds is not None and key[1] in "uv":
            low, high = getattr(bounds, key[1])
            assert low <= array.min(), key
            assert array.max() <= high, key


def test_every_population_that_the_chip_can_not_do_is_named() -> None:
    from nirbridge.network.model import Network, Population, Projection
    from nirbridge.network.operators import Identity
    from tests.quantization.nets import one

    cells = {
        "soft": lif(reset="subtract"),
        "free": lif(reset="none"),
        "many": lif(max_spikes=3),
        "long": lif(refractory_steps=100),
        "steep": lif(a_mem=-0.5),
        "ever": lif(kind="CubaLIF", a_syn=1.0),
        "good": lif(a_mem=0.5),
    }
    base = layer([[1.0]], cells["good"])
    populations = tuple(Population(name, (1,), cell) for name, cell in cells.items())
    links = tuple(Projection("in", name, Identity((1,)), delay_steps=one()) for name in cells)
    net = Network(
        1.0, base.timing, populations, (*links, Projection("good", "out", Identity((1,)))), base.inputs, base.outputs
    )
    with pytest.raises(ModelError) as error:
        quantize(net, read_chip("loihi1"))
    said = str(error.value)
    for name in ("soft", "free", "many", "long", "steep", "ever"):
        assert f"population '{name}'" in said
    assert "'good'" not in said
    assert "choose a chip that can (crossbar256, halapoint, loihi2), or train with a reset to a value" in said


def test_other_refusals() -> None:
    net = layer([[1.0]], lif())
    early = replace(net, projections=tuple(replace(p, delay_steps=freeze(np.int64(0))) for p in net.projections))
    with pytest.raises(ModelError, match="a delay of 0 time steps, every hop on a chip takes a time step; retime"):
        quantize(early, read_chip("loihi1"))
    with pytest.raises(ModelError, match="weights of 7 bits"):
        quantize(net, read_chip("loihi1"), QuantizationOptions(weight_bits=7))
    with pytest.raises(ModelError, match="weight_bits of 'q'"):
        quantize(net, read_chip("loihi1"), QuantizationOptions(weight_bits={"q": 8}))
    with pytest.raises(ModelError, match=r"graded values.*turn values into spikes first \(simulators.encoders"):
        quantize(net, read_chip("loihi1"), QuantizationOptions(graded={"in": (1.0, 8)}))
    with pytest.raises(UsageError, match="no number formats"):
        quantize(net, read_chip(Path(__file__).parents[2] / "examples" / "chips" / "my_chip.toml"))


def test_decays_that_a_chip_does_not_have_are_refused() -> None:
    chip = read_chip("loihi2")
    assert chip.numbers is not None
    slow = replace(chip, numbers=replace(chip.numbers, du_max=255, dv_max=1023))
    cell = lif(kind="CubaLIF", a_syn=0.9375, a_mem=0.75, theta=1.0)
    assert int(quantize(layer([[1.0]], cell), slow).populations[0].neuron.du) == 255
    with pytest.raises(ModelError) as error:
        quantize(layer([[1.0]], replace(cell, a_syn=freeze(np.float64(0.9)), a_mem=freeze(np.float64(0.7)))), slow)
    said = str(error.value)
    assert "its current is multiplied by 0.9 per time step, the decays of chip 'loihi2' keep 0.9375 or more" in said
    assert "its membrane is multiplied by 0.7 per time step, the decays of chip 'loihi2' keep 0.750244 or more" in said


def test_a_float32_tau_of_one_step_is_no_negative_decay() -> None:
    """tau = dt in float32 is 2.2e-8 short of dt: a decay of -2.2e-8 if it were not rounded, which no chip has."""
    import nir

    tau, ones = np.full(2, 0.01, np.float32), np.ones(2)
    graph = nir.NIRGraph.from_list(
        nir.Input(np.array([2])), nir.Linear(np.eye(2)), nir.LIF(tau, ones, 0 * ones, ones), nir.Output(np.array([2]))
    )
    assert 1 - 0.01 / float(tau[0]) < 0
    network = Retime().retimed(from_nir(graph, Timing(dt=0.01)))
    assert quantize(network, read_chip("loihi2")).populations[0].neuron.dv == 4096
    graph.nodes["lif"].tau = 0.999 * tau
    with pytest.raises(ModelError, match="decay"):
        quantize(Retime().retimed(from_nir(graph, Timing(dt=0.01))), read_chip("loihi2"))


def test_one_bit_with_both_signs_has_no_weight_that_excites() -> None:
    chip, cell, options = read_chip("loihi1"), lif(theta=0.4), QuantizationOptions(weight_bits=1)
    with pytest.raises(ModelError, match="1 bit with both signs holds -256 and 0; give 2 bits or more"):
        quantize(layer([[0.5, -0.5]], cell), chip, options)
    assert weights_of(quantize(layer([[0.5, 0.0]], cell), chip, options).projections[0].operator).max() > 0


def test_graded_inputs_are_rounded_to_their_integers() -> None:
    net = layer([[0.5, -1.0]], lif(kind="I", theta=None))
    q = quantize(net, read_chip("loihi2"), QuantizationOptions(graded={"in": (1.0, 8)}))
    values = np.array([[1.0, 0.0], [0.5, 0.25], [0.0, -1.0], [0, 0]])
    v = simulate_fixed(q, values).recording.arrays["out", "v"][:, 0]
    np.testing.assert_allclose(v[1:], np.cumsum(values @ [0.5, -1.0])[:-1], atol=0.02)


def test_a_reset_to_another_value_and_its_refractory_time() -> None:
    cell = lif(a_mem=0.75, theta=1.0, v_reset=-0.5, v_init=-0.5, bias=0.05, refractory_steps=2)
    net = layer([[0.75]], cell)
    q = quantize(net, read_chip("loihi2"))
    values = (np.random.default_rng(0).random((60, 1)) < 0.6).astype(int)
    wanted = [Probe("p", ("s", "v"))]
    real = simulate(net, values, record=wanted, dtype="float64").recording.arrays
    fixed = simulate_fixed(q, values, record=wanted).recording.arrays
    np.testing.assert_array_equal(real["p", "s"], fixed["p", "s"])
    n = q.populations[0].neuron
    np.testing.assert_allclose(fixed["p", "v"] / n.scale + n.v_offset, real["p", "v"], atol=2e-3)


@pytest.mark.parametrize("name", ["digits_mlp", "digits_cnn"])
def test_digits_keep_their_accuracy(name: str, root: Path) -> None:
    """Under 1 point lost at 8 bits, under 3 at 4 bits, on the whole test set; measured 0.0 and 0.8 to 1.0."""
    from nirbridge.pipeline import load_network

    spikes, labels = digits.test_spikes()
    net = load_network(root / "examples" / "models" / f"{name}.nir")
    port, out = net.inputs[0], net.outputs[0].name
    values = spikes.reshape(*spikes.shape[:2], *port.shape)
    real = simulate(net, values).recording.arrays[out, "s"].sum(0).argmax(-1)
    chip = read_chip("loihi1")
    retimed = Retime(delay_steps_max=chip.core.delay_steps).retimed(net)
    late = retimed.latency[out]
    longer = np.concatenate([values, np.zeros((late, *values.shape[1:]), values.dtype)])
    for bits, points in ((8, 0.01), (4, 0.03)):
        q = quantize(retimed, chip, QuantizationOptions(weight_bits=bits))
        got = simulate_fixed(q, longer).recording.arrays[out, "s"][late:].sum(0, dtype=int).argmax(-1)
        assert (real == labels).mean() - (got == labels).mean() < points
