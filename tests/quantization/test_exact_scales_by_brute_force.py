"""Scales that make every weight an integer: the largest one, compared with trying them all."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from nirbridge.quantization import scales
from tests.quantization.test_scales_by_hand import cell, into


@pytest.mark.parametrize(
    ("own", "unit", "parts"),
    [
        ({"theta": 1.0, "a_mem": 1.0}, 0.5, 1),
        ({"theta": 1.25, "a_mem": 1.0}, 0.5, 2),
        ({"theta": 1.0, "bias": [0.5, 0.75], "a_mem": 1.0}, 0.5, 2),
        ({"theta": 1.0, "v_start": [1 / 3], "a_mem": 1.0}, 0.5, 3),
        ({"theta": None, "amount": 0.1, "a_mem": 1.0}, 0.5, 5),
        ({"theta": 0.5, "v_start": [1 / 3], "bias": 0.25, "a_mem": 1.0}, 0.5, 6),
        ({"theta": 1.25, "a_mem": [1.0, 0.5]}, 0.5, 1),
        ({"theta": 1.25, "a_mem": 1.0, "a_syn": [0.0, 0.5]}, 0.5, 1),
        ({"theta": 1.0 + 1e-10, "a_mem": 1.0}, 0.5, 1),
        ({"theta": math.pi, "a_mem": 1.0}, 0.5, 1),
    ],
)
def test_constants_of_a_neuron_without_decay_are_whole(own: Any, unit: float, parts: int) -> None:
    f = cell(**own)
    assert scales._parts(f, unit, 6) == parts
    if parts > 1:
        assert scales._parts(f, unit, parts) == parts
        assert scales._parts(f, unit, parts - 1) == 1


@pytest.mark.parametrize("limit", [math.inf, 5e4, 3000.0, 300.0, 100.0])
@pytest.mark.parametrize(
    ("weights", "bits"),
    [
        ([[0.5, -0.25]], 8),
        ([[3.0, 1.0, -2.0]], 5),
        ([[0.3, 0.7]], 6),
        ([[0.5]], 1),
        ([[-5.0, -10.0]], 4),
        ([[1.0, -0.99]], 8),
    ],
)
@pytest.mark.parametrize("theta", [1.0, 0.75])
def test_an_exact_scale_is_the_largest_with_which_all_is_whole(
    weights: Any, bits: int, limit: float, theta: float
) -> None:
    one, f = into(weights, bits), cell(theta=theta, a_mem=1.0)
    grid, values = one.range.grid, np.asarray(weights).reshape(-1)
    q = next(
        (
            q
            for q in (float(np.abs(values).min()) / k for k in range(1, 101))
            if np.allclose(values / q, np.rint(values / q), atol=1e-9)
        ),
        None,
    )
    found = scales._exact(f, [one], limit)
    if q is None or np.abs(values).max() / q > 256 // grid.step:
        assert found is None
        return
    allowed = [
        t
        for t in range(1, 4000)
        if t * grid.step / q * 64 <= limit * (1 + 1e-9)
        and all(grid.low - 1e-6 <= w / q * t * grid.step <= grid.high + 1e-6 for w in values)
    ]
    if not allowed:
        assert found is None
        return
    parts = scales._parts(f, q / grid.step, allowed[-1])
    assert found == pytest.approx(allowed[-1] // parts * parts * grid.step / q * 64, rel=1e-9)


def test_several_projections_share_the_coarsest_grid() -> None:
    fine, coarse = into([[0.5, -0.25]], 8), into([[0.75, -1.0]], 4)
    found = scales._exact(cell(), [fine, coarse], math.inf)
    assert found is not None
    for one in (fine, coarse):
        whole = one.operator.weight * found / 64 / 32  # type: ignore[union-attr]
        assert whole.tolist() == np.rint(whole).tolist()
    assert scales._exact(cell(), [fine, into([[math.pi, -1.0]], 4)], math.inf) is None
