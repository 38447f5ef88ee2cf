"""The bound of a run, neuron by neuron and time step by time step in plain numbers, and a population's inputs."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from nirbridge.arrays import freeze
from nirbridge.chips import read_chip
from nirbridge.quantization.model import FixedInput
from nirbridge.quantization.options import QuantizationOptions
from nirbridge.quantization.quantize import quantize
from nirbridge.simulators.fixed.simulate import simulate_fixed
from nirbridge.simulators.simulate import Recording
from nirbridge.verification.bounds import (
    SourceOutput,
    _applied,
    _delayed,
    input_output,
    layer_bounds,
    source_outputs,
    time_chunks,
)
from nirbridge.verification.verify import all_probes
from tests.quantization.nets import layer, lif
from tests.simulators.fixed.test_integer_kernels_by_brute_force import OPERATORS

WEIGHT = np.array([[0.7, -0.31, 0.4], [0.9, 0.22, -0.6]])
SPIKES = (np.random.default_rng(3).random((60, 3)) < 0.4).astype(np.uint8)


def by_hand(q: Any, neuron: Any, k: int, fixed: Recording, weight: np.ndarray = WEIGHT) -> dict[str, Any]:
    """What the module's text says, for neuron k of one layer behind a dense matrix; ``legal``: spikes of each step."""
    n, link = q.populations[0].neuron, q.projections[0]

    def count(w: float) -> int:
        fires = w > theta if neuron.compare == ">" else w >= theta
        return int(np.clip(np.floor(w / theta), 0, n.max_spikes)) if fires and n.max_spikes > 1 else int(fires)

    def own(values: Any) -> float:
        return float(np.broadcast_to(values, (2,))[k])

    size, weights = float(n.scale), np.asarray(link.operator.weight)[k] * 64 * 2.0**link.weight_exp
    keep_u, keep_v = (4095 - own(n.du)) / 4096, (4096 - own(n.dv)) / 4096
    cut_u, cut_v = (float(0 < x < 1) / size for x in (keep_u, keep_v))
    theta, amount = own(neuron.theta), own(neuron.reset_amount)
    u, v, s = (fixed.arrays["p", x][:, k].astype(float) for x in "uvs")
    a, b, bias = own(neuron.a_mem), own(neuron.a_syn), own(neuron.bias)
    c = w = 0.0
    far_c = far_w = 0.5 / size
    rest, out = 0, {"bound": 0.0, "seen": 0.0, "changed": 0, "legal": []}
    for t in range(len(u)):
        arrives = SPIKES[t - 1].astype(float) if t else np.zeros(3)
        before_u, before_v = (u[t - 1], v[t - 1]) if t else (0.0, 0.0)
        c = b * c + arrives @ weight[k]
        lost = arrives @ np.abs(weights / size - weight[k]) + (64 / size if link.weight_exp < 0 else 0)
        far_c = b * far_c + abs(keep_u - b) * abs(before_u) / size + cut_u + lost
        new = a * w + c + bias
        far = a * far_w + abs(keep_v - a) * abs(before_v) / size + cut_v + far_c + abs(own(n.bias) / size - bias)
        far += 1e-9 * (abs(new) + abs(w) + 1e-3)
        w, far_w = (0.0, 0.0) if rest else (new, far)
        own_spikes, several = 0 if rest else count(w), n.max_spikes > 1
        out["changed"] += abs(own_spikes - int(s[t]))
        near = far_w + abs(own(n.fires_above) / size - theta) + several / size
        out["legal"].append([
            (x, bool(rest) or count(w - off) <= x <= count(w + off))
            for x in range(n.max_spikes + 1)
            for off in [near + several * abs(own(n.spike_size) / size - theta) * max(x, own_spikes)]
        ])  # fmt: skip
        at_rest = rest > 0
        rest = rest - 1 if rest else int(own(n.refractory_steps)) if s[t] else 0
        if n.reset == "subtract":
            w, far_w = w - s[t] * amount, far_w + s[t] * abs(own(n.reset_amount) / size - amount)
        elif s[t] and n.reset == "zero":
            w = far_w = 0.0
        if at_rest:
            w = far_w = 0.0
        out["bound"], out["seen"] = max(out["bound"], far_w), max(out["seen"], abs(v[t] / size - w))
    return out


@pytest.mark.parametrize("own", [
    {"a_mem": 0.9}, {"a_mem": 0.5, "bias": [0.05, 0.11]}, {"a_mem": 1.0, "reset": "subtract", "reset_amount": 0.73},
    {"kind": "CubaLIF", "a_mem": 0.8, "a_syn": 0.6}, {"a_mem": 0.7, "refractory_steps": 2},
    {"a_mem": 0.77, "reset": "none", "theta": [1.0, 0.6]}, {"a_mem": 0.5, "theta": 0.5, "compare": ">="},
    {"a_mem": 0.5, "theta": 0.5}, {"a_mem": 0.9, "theta": 0.3, "max_spikes": 3, "reset": "subtract"},
    {"a_mem": 0.9, "theta": [0.3, 0.4], "max_spikes": 4, "reset": "none", "compare": ">="},
], ids=str)  # fmt: skip
@pytest.mark.parametrize("bits", [8, 3])
def test_the_bound_of_every_step(own: dict[str, Any], bits: int) -> None:
    """Weights of quarters meet thresholds of a half exactly."""
    cell, weight = lif(**dict(own)), np.round(4 * WEIGHT) / 4 if own.get("theta") == 0.5 else WEIGHT
    q = quantize(layer(weight, cell), read_chip("loihi2"), QuantizationOptions(weight_bits=bits))
    fixed = simulate_fixed(q, SPIKES, record=all_probes(q)).recording
    [found] = layer_bounds(q, {"in": SPIKES}, fixed)
    both = [by_hand(q, cell, k, fixed, weight) for k in range(2)]
    assert found.bound == pytest.approx(max(x["bound"] for x in both), rel=1e-9)
    assert found.seen == pytest.approx(max(x["seen"] for x in both), rel=1e-9, abs=1e-15)
    assert found.changed == sum(x["changed"] for x in both)
    assert found.spikes == int(fixed.arrays["p", "s"].sum(dtype=int)) > 0
    assert (found.population, found.unbounded, found.broken, found.holds) == ("p", 0, None, True)
    assert found.theta == float(np.min(cell.theta))  # type: ignore[arg-type]
    twice = {("p", x): np.stack([fixed.arrays["p", x]] * 2, axis=1) for x in "uvs"}
    [batch] = layer_bounds(q, {"in": np.stack([SPIKES] * 2, axis=1)}, Recording(twice, {"batch": 2}))
    assert (batch.bound, batch.seen, batch.changed) == (found.bound, found.seen, 2 * found.changed)


@pytest.mark.parametrize("most", [1, 3])
@pytest.mark.parametrize("neuron", [0, 1])
def test_spikes_that_are_not_near_the_threshold_are_told(most: int, neuron: int) -> None:
    """Without a reset a spike changes nothing else: each of some steps with every number of spikes."""
    own = {"a_mem": 0.9, "theta": 0.4, "reset": "none", "max_spikes": most}
    cell = lif(**own)
    q = quantize(layer(WEIGHT, cell), read_chip("loihi2"), QuantizationOptions(weight_bits=3))
    fixed = simulate_fixed(q, SPIKES, record=all_probes(q)).recording
    legal = by_hand(q, cell, neuron, fixed)["legal"]
    doubtful = [t for t, ways in enumerate(legal) if sum(fine for _, fine in ways) > 1]
    assert doubtful
    for step in (*doubtful[:4], 1, 30, 59):
        for spikes, fine in legal[step]:
            s = fixed.arrays["p", "s"].copy()
            s[step, neuron] = spikes
            [found] = layer_bounds(q, {"in": SPIKES}, Recording({**fixed.arrays, ("p", "s"): s}, fixed.meta))
            assert found.broken == (None if fine else (step, 0, neuron)), (step, spikes)


@pytest.mark.parametrize(("step", "neuron", "by"), [(0, 0, 1), (31, 1, 1), (31, 1, -1), (59, 0, 1)])
def test_the_first_value_beyond_its_bound_is_told(step: int, neuron: int, by: int) -> None:
    q = quantize(layer(WEIGHT, lif(a_mem=0.5, theta=50.0)), read_chip("loihi2"))
    fixed = simulate_fixed(q, SPIKES, record=all_probes(q)).recording
    [clean] = layer_bounds(q, {"in": SPIKES}, fixed)
    size = float(q.populations[0].neuron.scale)
    v = fixed.arrays["p", "v"].copy()
    v[step, neuron] += by * int(2.5 * clean.bound * size + 2)
    v[step:, 0] += int(2.5 * clean.bound * size + 2) * (step > 0 and neuron == 1)
    [found] = layer_bounds(q, {"in": SPIKES}, Recording({**fixed.arrays, ("p", "v"): v}, fixed.meta))
    assert found.broken == (step, 0, 0 if step == 31 else neuron)
    assert not found.holds


@pytest.mark.parametrize(("value", "unbounded"), [(2**23 - 2, 0), (2**23 - 1, 1), (-(2**23) + 1, 1)])
def test_the_last_value_of_v_has_no_bound(value: int, unbounded: int) -> None:
    """From there on, as nothing resets it."""
    q = quantize(layer(WEIGHT, lif(kind="I", theta=None)), read_chip("loihi2"))
    fixed = simulate_fixed(q, SPIKES, record=all_probes(q)).recording
    v = fixed.arrays["p", "v"].copy()
    v[50, 1] = value
    [found] = layer_bounds(q, {"in": SPIKES}, Recording({**fixed.arrays, ("p", "v"): v}, fixed.meta))
    assert found.unbounded == 10 * unbounded
    assert (found.broken is None) is bool(unbounded)
    assert (found.theta, found.spikes, found.changed) == (None, 0, 0)


def test_a_population_that_nothing_reaches_has_its_bias_alone() -> None:
    made = layer(WEIGHT, lif(a_mem=0.5, bias=[0.3, 0.7], theta=1.0))
    alone = replace(made, projections=made.projections[1:], inputs=())
    q = quantize(alone, read_chip("loihi2"))
    fixed = simulate_fixed(q, {}, steps=20, record=all_probes(q)).recording
    [found] = layer_bounds(q, {}, fixed)
    assert (found.spikes, found.changed, found.holds) == (int(fixed.arrays["p", "s"].sum(dtype=int)), 0, True)
    assert found.spikes > 0
    assert 0 < found.seen <= found.bound < 0.01


# -- what reaches a population -----------------------------------------------------------------------------------------


def test_inputs_are_sent_as_integers_of_their_scale() -> None:
    given = np.array([[[0.6, -1.3]], [[1.0, 0.0]], [[2.0, 2.0]]])
    spikes = input_output(FixedInput("in", (2,)), given, 2)
    assert spikes.integers is spikes.real
    assert (spikes.real.tolist(), spikes.unit, spikes.is_rounded) == (given[:2].tolist(), 1.0, False)
    graded = input_output(FixedInput("in", (2,), 5, 0.5), given, 5)
    assert graded.real.tolist() == [*given.tolist(), [[0, 0]], [[0, 0]]]
    assert graded.integers.tolist() == [[[1, -3]], [[2, 0]], [[4, 4]], [[0, 0]], [[0, 0]]]
    assert (graded.unit, graded.is_rounded) == (0.5, True)


def test_sources_are_inputs_and_what_fires() -> None:
    cells = [SimpleNamespace(name=n, neuron=SimpleNamespace(fires=n == "p")) for n in "pr"]
    q: Any = SimpleNamespace(inputs=(FixedInput("in", (2,)),), populations=cells)
    spikes = {("p", "s"): np.ones((3, 1, 2))}
    found = source_outputs(q, {"in": np.zeros((3, 1, 2))}, spikes, 3)
    assert set(found) == {"in", "p"}
    assert isinstance(found["p"], SourceOutput)
    assert found["p"].integers is found["p"].real is spikes["p", "s"]
    assert found["p"].unit == 1.0


@pytest.mark.parametrize("delays", [np.array(0), np.array(2), np.array([0, 1, 3]), np.array([4, 2, 2])])
def test_what_was_sent_arrives_later(delays: np.ndarray) -> None:
    sent = np.arange(1.0, 37).reshape(6, 2, 3)
    late = np.broadcast_to(delays, (3,))
    for start in range(6):
        for stop in range(start + 1, 7):
            found = _delayed(sent, delays, start, stop)
            for t in range(start, stop):
                for k, d in enumerate(late):
                    assert found[t - start, :, k].tolist() == (sent[t - d, :, k].tolist() if t >= d else [0, 0])


@pytest.mark.parametrize("operator", OPERATORS, ids=lambda x: type(x).__name__)
def test_operators_with_other_weights(operator: Any) -> None:
    from nirbridge.network.apply import matrix
    from nirbridge.quantization.operators import weights_of, with_weights

    x = np.random.default_rng(0).normal(size=(4, 2, *operator.input_shape))
    weights = weights_of(operator) * 0.5 + 1
    found = _applied(operator, weights, operator.output_shape)(x)
    rows = matrix(with_weights(operator, freeze(weights))).toarray()
    assert found.shape == (4, 2, *operator.output_shape)
    np.testing.assert_allclose(found.reshape(8, -1), x.reshape(8, -1) @ rows.T, rtol=1e-12)


def test_stretches_take_so_many_bytes() -> None:
    assert time_chunks(10, 3, 8 * 3 * 4) == [(0, 4), (4, 8), (8, 10)]
    assert time_chunks(10, 3, 8 * 3 * 4 - 1) == [(0, 3), (3, 6), (6, 9), (9, 10)]
    assert time_chunks(10, 0) == [(0, 10)]
    assert time_chunks(2**21, 4)[0] == (0, 2**20)
