"""The bound on the distance, neuron by neuron and spike by spike in plain floats, from its equation."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from nirbridge.arrays import freeze
from nirbridge.chips import read_chip
from nirbridge.network.model import Network
from nirbridge.network.operators import Dense
from nirbridge.quantization import FixedProjection, QuantizedNetwork, quantize, v_bounds
from nirbridge.quantization.options import QuantizationOptions
from nirbridge.simulators.fixed.simulate import simulate_fixed
from nirbridge.simulators.simulate import Probe
from tests.quantization.nets import layer, lif

SOURCES, TARGETS, STEPS = 5, 3, 9


def lost_per_spike(p: FixedProjection, real: np.ndarray, post: int, pre: int) -> float:
    """|integer weight - exact weight| in integers of v."""
    unit = 64.0 * 2.0**p.weight_exp
    return abs(int(p.operator.weight[post, pre]) - float(real[post, pre]) * float(p.scale)) * unit


def by_hand(net: Network, q: QuantizedNetwork, arrays: Any) -> np.ndarray:
    """``[steps, neurons]``; populations that start at once, of plain resets."""
    n, real = q.populations[0].neuron, net.populations[0].neuron
    scale = float(n.scale)
    found = np.zeros((STEPS, TARGETS))
    for k in range(TARGETS):
        a, b = (float(np.broadcast_to(x, (TARGETS,))[k]) for x in (real.a_mem, real.a_syn))
        big_a, big_b = (4096 - int(n.dv)) / 4096, (4095 - int(n.du)) / 4096
        bias = float(np.broadcast_to(real.bias, (TARGETS,))[k]) * scale
        own_bias = int(np.broadcast_to(n.bias_mant, (TARGETS,))[k]) * 2**n.bias_exp
        amount = abs(float(n.reset_amount) - float(real.reset_amount) * scale) if real.reset == "subtract" else 0.0
        e_u = e_v = 0.5
        for t in range(STEPS):
            u, v = (float(arrays["p", x][t - 1, k]) if t else 0.0 for x in "uv")
            arrived = 0.0
            for p, projection in zip(q.projections, net.projections, strict=False):
                weight, sent = projection.operator.weight, arrays[p.source, "s"]
                late = np.broadcast_to(p.delay_steps, (weight.shape[1],))
                for j in range(weight.shape[1]):
                    if t >= late[j]:
                        arrived += lost_per_spike(p, weight, k, j) * float(sent[t - late[j], j])
                arrived += 64.0 if p.weight_exp < 0 else 0.0
            e_u = b * e_u + abs(big_b - b) * abs(u) + (0 < big_b < 1) + arrived
            e_v = a * e_v + abs(big_a - a) * abs(v) + (0 < big_a < 1) + abs(own_bias - bias) + e_u
            if arrays["p", "s"][t, k]:
                e_v = 0.0 if real.reset == "to-value" else e_v + amount
            found[t, k] = e_v / scale
    return found


def run(net: Network, q: QuantizedNetwork, seed: int) -> Any:
    rng = np.random.default_rng(seed)
    values = (rng.random((STEPS, SOURCES)) < 0.5).astype(np.uint8)
    record = [Probe("*", ("s", "u", "v")), Probe("in", ("s",))]
    return simulate_fixed(q, values, record=record).recording.arrays


@pytest.mark.parametrize("delays", [1, [1, 2, 1, 3, 4]], ids=["one delay", "one each"])
@pytest.mark.parametrize(
    "own",
    [
        {"a_mem": 0.9},
        {"a_mem": 0.9, "reset": "subtract", "bias": 0.03},
        {"a_mem": 1.0, "bias": np.array([0.01, 0.0, -0.02])},
        {"kind": "CubaLIF", "a_mem": 0.7, "a_syn": 0.6},
        {"kind": "CubaLIF", "a_mem": 0.0, "a_syn": 0.6, "reset": "subtract"},
    ],
    ids=str,
)
def test_the_bound_is_the_equation(own: dict[str, Any], delays: Any) -> None:
    rng = np.random.default_rng(5)
    net = layer(
        rng.normal(0, 0.6, (TARGETS, SOURCES)), lif(theta=0.3, **own), loop=rng.normal(0, 0.4, (TARGETS, TARGETS))
    )
    first = replace(net.projections[0], delay_steps=freeze(np.asarray(delays, np.int64)))
    net = replace(net, projections=(first, *net.projections[1:]))
    q = quantize(net, read_chip("loihi2"), QuantizationOptions(weight_bits=5))
    arrays = run(net, q, 3)
    assert arrays["p", "s"].any()
    assert isinstance(q.projections[0].operator, Dense)
    assert v_bounds(q, arrays)["p"] == pytest.approx(by_hand(net, q, arrays), rel=1e-6, abs=1e-9)


def test_a_shift_to_the_right_loses_less_than_one_before_it() -> None:
    net = layer(np.full((TARGETS, SOURCES), 0.5), lif(a_mem=0.5, theta=3.0))
    q = quantize(net, read_chip("loihi2"), QuantizationOptions(weight_bits=8))
    p = q.projections[0]
    arrays = run(net, q, 3)
    halved = replace(q, projections=(replace(p, weight_exp=-1, scale=freeze(p.scale * 2.0 ** (p.weight_exp + 1))),))
    assert v_bounds(halved, arrays)["p"] == pytest.approx(by_hand(net, halved, arrays), rel=1e-6, abs=1e-9)
