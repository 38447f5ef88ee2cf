"""Measurements on data and the selected fraction of a range, by hand and by brute force; scale look-up."""

from __future__ import annotations

from dataclasses import astuple as vars_of

import numpy as np
import pytest

from nirbridge.chips import read_chip
from nirbridge.errors import UsageError
from nirbridge.network.operators import Identity, Sparse
from nirbridge.quantization import Calibration, quantize
from nirbridge.quantization.calibration import ITEMS, _ends, _spread, calibration_of, clip_shares
from nirbridge.quantization.qat import factor_of, scales_of
from tests.quantization.nets import layer, lif

LOIHI2 = read_chip("loihi2")


def test_calibration_by_hand() -> None:
    net = layer([[0.5, 0.25]], lif(kind="CubaLIF", a_mem=0.5, a_syn=0.5, g_mem=2.0, v_reset=0.125), bias=[0.25])
    i, u, s = (
        np.array([1.0, 3.0, -2.0]).reshape(3, 1, 1),
        np.array([0.5, 2.0, -4.0]).reshape(3, 1, 1),
        np.arange(6.0).reshape(3, 1, 2),
    )
    made = calibration_of(net, {("p", "i"): i, ("p", "u"): u, ("in", "s"): s}, "said")
    c = 2.0 * (i.reshape(-1) - 0.5)
    x = [c[0], c[1] - 0.5 * c[0], c[2] - 0.5 * c[1]]
    seen = made.seen["p"]
    assert (seen.x, *list(vars_of(seen))[1:]) == ((min(x), max(x)), (c.min(), c.max()), (-4.125, 1.875))
    assert made.samples["in"].tolist() == s.reshape(3, 2).tolist()
    assert list(made.samples) == ["in"]
    assert _ends(np.array([1.0, 2.0])) == (0.0, 2.0)
    assert _ends(np.array([-1.0, -2.0])) == (-2.0, 0.0)
    many = _spread(np.arange(2.0 * ITEMS + 1).reshape(-1, 1, 1))
    assert (len(many), many[0, 0], many[-1, 0], many[1, 0]) == (ITEMS, 0.0, 2.0 * ITEMS, 2.0)
    for missing in (("p", "i"), ("p", "u"), ("in", "s")):
        given = {k: a for k, a in {("p", "i"): i, ("p", "u"): u, ("in", "s"): s}.items() if k != missing}
        with pytest.raises(UsageError, match=f"^calibration of '{missing[0]}': {missing[1]} was not recorded$"):
            calibration_of(net, given)


def test_shares_of_ranges_by_brute_force() -> None:
    weights = np.array([[0.9, 0.1, -0.2, 0.15], [0.3, -0.4, 0.05, 0.2]])
    net = layer(weights, lif(a_mem=0.5), loop=np.zeros((2, 2)))
    assert clip_shares(net, {0: 4, 1: 4}, "range") == {0: 1.0, 1: 1.0}
    assert clip_shares(net, {0: 4, 1: 4}, "percentile", percentile=50.0)[0] == pytest.approx(
        np.percentile(np.abs(weights), 50.0) / 0.9
    )
    assert clip_shares(net, {0: 4}, "percentile", percentile=0.0)[0] == pytest.approx(0.05 / 0.9)
    assert clip_shares(layer([[1.0, 1e-9]], lif()), {0: 4}, "percentile", percentile=0.0) == {0: 1e-3}
    assert clip_shares(layer(np.arange(1.0, 2002.0)[None], lif()), {0: 8}, "percentile")[0] == pytest.approx(
        1999 / 2001
    )
    with pytest.raises(UsageError) as caught:
        clip_shares(net, {}, "other")
    assert str(caught.value) == "method 'other': unknown, there are range, percentile, error; choose one"


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("sampled", [False, True])
def test_the_share_with_the_least_error_by_brute_force(sign: int, sampled: bool) -> None:
    rng = np.random.default_rng(3)
    weights = sign * np.array([[0.9, 0.1, -0.2, 0.15], [0.3, -0.4, 0.05, 0.2]])
    sample = (rng.random((40, 4)) < 0.4).astype(np.uint8)
    sample[:, 0] = 0
    net = layer(weights, lif(a_mem=0.5), loop=np.zeros((2, 2)))
    data = Calibration({}, {"in": sample}) if sampled else Calibration({}, {})
    errors = {}
    for k in range(41):
        kept = round(1 - 0.02 * k, 2)
        low, high = weights.min() * kept, weights.max() * kept
        unit = max(high / 192, low / -256)
        whole = np.clip(np.rint(weights / unit / 64) * 64, -256, 192)
        off = whole * unit - weights
        errors[kept] = np.mean((sample @ off.T if sampled else off) ** 2)
    best = min(errors, key=errors.__getitem__)
    assert clip_shares(net, {0: 3, 1: 3}, "error", data) == {0: best, 1: 1.0}
    assert best < 1.0
    if not sampled:
        assert clip_shares(net, {0: 3}, "error") == {0: best}


def test_factors_of_a_projection_are_found_by_its_ends() -> None:
    q = quantize(layer([[0.5, 0.25]], lif(a_mem=0.5), loop=[[0.125]]), LOIHI2)
    assert [factor_of(q, p.source, "p") for p in q.projections] == [
        (float(p.scale), p.weight_bits, p.sign_mode) for p in q.projections
    ]
    assert scales_of(q) == {"p": float(q.populations[0].neuron.scale)}
    with pytest.raises(KeyError, match="in -> out"):
        factor_of(q, "in", "out")
    assert isinstance(q.reads[0].operator, Identity)
    assert not isinstance(q.projections[0].operator, Sparse)
