# ruff: noqa: E501  (tables read better in one line)
"""Rounding errors of a population's parameters, one neuron at a time, and of initial states."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from nirbridge.arrays import freeze
from nirbridge.network import neuron
from nirbridge.network.operators import Dense
from nirbridge.quantization import FixedPopulation, FixedProjection
from nirbridge.quantization.error_bounds import initial_offsets, rounding_loss, weight_loss
from tests.quantization.test_one_wrong_element import cell, whole

DU, DV = (4095, 2047, 0, 100), (0, 4096, 2048, 1)
A_SYN, A_MEM = (0.0, 0.4, 0.999, 0.97), (1.0, 0.0, 0.49, 0.9999)


def made() -> tuple[Any, FixedPopulation]:
    arrays: dict[str, Any] = {
        "du": DU, "dv": DV, "bias_mant": (3, -2, 0, 7), "reset_amount": (640, 641, 0, 5), "v_init": (10, -10, 0, 3),
        "u_init": (0, 4, -9, 1),
    }  # fmt: skip
    n = cell(**{k: whole(v) for k, v in arrays.items()}, bias_exp=1, scale=freeze(np.float64(64.0)))
    real = neuron(
        "CubaLIF", a_mem=np.array(A_MEM), g_mem=np.array([2.0, -0.5, 1.0, 1.0]), i_init=np.array([1.0, -2, 0, 3])
    )
    folded = SimpleNamespace(
        a_syn=np.array(A_SYN), a_mem=np.array(A_MEM), bias=np.array([0.1, -0.07, 0.0, 0.25]), offset=np.array([0.5, -1, 0, 2]),
        amount=np.array([10.0, 10.0, 0.0, 0.1]), steady=np.array([-0.5, 0.25, 0.0, -1.0]), neuron=real,
        v_start=np.array([0.15, -0.2, 0.0, 0.05]), i_start=np.array([0.0, 0.0, -0.15, 0.015]),
    )  # fmt: skip
    return folded, FixedPopulation("p", (4,), n, "custom")


def test_what_each_neuron_loses() -> None:
    folded, p = made()
    found = rounding_loss(folded, p)
    for k in range(4):
        kept_u, kept_v = (4095 - DU[k]) / 4096, (4096 - DV[k]) / 4096
        n, f = folded.neuron, folded
        current = n.g_mem[k] * (abs(n.i_init[k]) + abs(f.steady[k]))
        wanted = {
            "keeps_u": A_SYN[k], "keeps_v": A_MEM[k], "u_decay": abs(kept_u - A_SYN[k]), "v_decay": abs(kept_v - A_MEM[k]),
            "cut_u": float(0 < kept_u < 1), "cut_v": float(0 < kept_v < 1),
            "bias": abs(int(p.neuron.bias_mant[k]) * 2 - f.bias[k] * 64), "amount": abs(int(p.neuron.reset_amount[k]) - f.amount[k] * 64),
            "far": (abs(f.offset[k]) + abs(current) + abs(f.bias[k])) * 64,
        }  # fmt: skip
        for name, value in wanted.items():
            assert getattr(found, name)[k] == pytest.approx(value, rel=1e-12, abs=1e-15), (name, k)


def test_one_number_for_all_is_one_for_each() -> None:
    folded, p = made()
    one = replace(p, shape=(2, 3), neuron=cell(du=whole(5), dv=whole(7), bias_mant=whole(1), reset_amount=whole(64)))
    for name in ("a_syn", "a_mem", "bias", "offset", "amount", "steady"):
        setattr(folded, name, np.asarray(0.5))
    folded.neuron = neuron("CubaLIF", a_mem=0.5)
    found = rounding_loss(folded, replace(one, neuron=replace(one.neuron, scale=freeze(np.float64(2.0)))))
    assert found.bias.tolist() == [3.0] * 6
    assert found.u_decay.tolist() == [4090 / 4096 - 0.5] * 6
    assert found.far.shape == (6,)


def test_starts_are_off_by_half_a_unit_or_by_more() -> None:
    folded, p = made()
    u, v = initial_offsets(p, folded)
    assert u.tolist() == pytest.approx([0.5, 4.0, 0.6, 0.5])
    assert v.tolist() == pytest.approx([0.5, 2.8, 0.5, 0.5])


@pytest.mark.parametrize("exponent", [0, 2, -1])
def test_what_weights_lose_counts_in_units_of_v(exponent: int) -> None:
    exact = Dense(freeze([[0.5, -0.26]]))
    p = FixedProjection("a", "p", Dense(whole([[16, -8]])), 8, weight_exp=exponent, scale=freeze(np.float64(31.0)))
    found = weight_loss(p, exact, 0.25)
    unit = 64 * 2.0**exponent
    assert np.allclose(found.errors.weight, [[0.5 * unit, abs(-8 + 0.26 * 31) * unit]])  # type: ignore[union-attr]
    assert np.allclose(found.sizes.weight, [[15.5 * unit, 8.06 * unit]])  # type: ignore[union-attr]
    assert (found.worth, found.projection) == (0.25, p)
