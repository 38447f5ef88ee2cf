"""The report of each layer, against the integers: errors, ranges, shares, memory, one element at a time."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from nirbridge.chips import read_chip
from nirbridge.errors import ModelError
from nirbridge.quantization import QuantizedNetwork, quantize
from nirbridge.quantization.formats import grid_of
from nirbridge.quantization.operators import weights_of
from nirbridge.quantization.options import QuantizationOptions
from tests.quantization.nets import layer, lif


def made(**own: Any) -> tuple[Any, QuantizedNetwork]:
    rng = np.random.default_rng(1)
    given = {"a_mem": 0.9, "theta": np.array([1.0, 1.5, 2.25]), "bias": np.array([0.01, 0.0, -0.02])} | own
    through = None if "kind" in own else [0.05, 0.0, 0.02]
    net = layer(rng.normal(size=(3, 5)), lif(**given), bias=through)
    return net, quantize(net, read_chip("loihi2"), QuantizationOptions(weight_bits=6, clip={0: 0.8}))


@pytest.mark.parametrize("own", [{}, {"kind": "CubaLIF", "a_syn": 0.7}, {"a_mem": np.array([0.9, 0.5, 0.25])}])
def test_errors_of_decays_bias_and_threshold(own: dict[str, Any]) -> None:
    net, q = made(**own)
    n, real, said = q.populations[0].neuron, net.populations[0].neuron, q.report[0].decays
    scale = float(n.scale)
    assert said["scale"] == scale
    loss_v, loss_u = 1.0 - real.a_mem, 1.0 - real.a_syn
    assert said["v_decay_error"] == pytest.approx(np.max(np.abs(n.dv / 4096 - loss_v) / loss_v))
    assert said["u_decay_error"] == pytest.approx(np.max(np.abs((n.du + 1) / 4096 - loss_u) / loss_u))
    drive = np.array([0.01, 0.0, -0.02]) if "kind" in own else np.array([0.06, 0.0, 0.0])  # with the projection's
    assert said["bias_error"] == pytest.approx(np.max(np.abs(n.bias_mant * 2.0**n.bias_exp / scale - drive)), abs=1e-12)
    assert said["threshold_error"] == pytest.approx(np.max(np.abs(n.fires_above / scale - real.theta) / real.theta))
    assert 0 < said["v_decay_error"] < 1e-2


def test_a_loss_that_is_none_has_no_relative_error() -> None:
    _, q = made(a_mem=1.0, bias=0.0)
    assert q.report[0].decays["v_decay_error"] == 0.0
    _, q = made(kind="CubaLIF", a_syn=0.0)
    assert q.report[0].decays["u_decay_error"] == 0.0


def test_errors_and_shares_of_weights() -> None:
    net, q = made()
    (said,), p = q.report[0].weights, q.projections[0]
    real, whole, unit = net.projections[0].operator.weight, weights_of(p.operator), float(p.scale)
    assert said["range"] == [real.min(), real.max()]
    assert said["integers"] == [whole.min(), whole.max()]
    off = np.sqrt(np.mean(np.square(whole / unit - real))) / np.sqrt(np.mean(np.square(real)))
    assert said["error"] == pytest.approx(off)
    grid = grid_of(6, p.sign_mode)
    beyond = (real * unit > grid.high + grid.step / 2) | (real * unit < grid.low - grid.step / 2)
    assert said["clipped"] == pytest.approx(beyond.mean())
    assert 0 < said["clipped"] < 1
    assert (said["source"], said["index"], said["kind"], said["bits"]) == ("in", 0, "Dense", 6)
    assert (said["exponent"], said["sign_mode"], said["scale"]) == (p.weight_exp, p.sign_mode, unit)
    assert whole.tolist() == np.clip(np.round(real * unit / grid.step) * grid.step, grid.low, grid.high).tolist()


def test_one_weight_that_stays_is_enough_and_none_is_refused() -> None:
    """Weights that all become 0 are refused, also beside weights that are 0 already."""
    large = np.zeros((2, 4))
    large[0] = 1.0, 0.0, 0.0, 1e-6
    q = quantize(layer(large, lif(theta=4.0)), read_chip("loihi2"), QuantizationOptions(weight_bits=8))
    assert np.count_nonzero(weights_of(q.projections[0].operator)) == 1
    tiny = [[1e-9, 0.0], [0.0, 1e-9]]
    for weight in (tiny, np.full((2, 2), 1e-9)):
        with pytest.raises(ModelError, match="all weights become 0 at 8 bits"):
            quantize(
                layer(weight, lif(a_mem=0.9), loop=[[1.0, 0.5], [0.25, 1.0]]),
                read_chip("loihi2"),
                QuantizationOptions(weight_bits=8),
            )
    silent = quantize(layer(np.zeros((2, 2)), lif(a_mem=0.9)), read_chip("loihi2"), QuantizationOptions(weight_bits=8))
    assert not weights_of(silent.projections[0].operator).any()
