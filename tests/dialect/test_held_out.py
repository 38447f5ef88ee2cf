"""Random networks through every stage: the bits of the reference, and of the fixed-point simulator in integers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings

from nirbridge.network.model import Network
from nirbridge.testing import networks
from tests.dialect.whole import differences, fixed_run, odd_network, real_run
from tests.emitters.held_out import dyadic_network, fixed_network
from tests.tools import needs

FOUND = [2, 35, 102]
"""Networks that failed once: a delay after an operator that is batched over time."""
FOUND_ODD = [9, 23]
"""Cycles whose delay comes after the operator, which neither the dialect nor the simulator took."""
FOUND_FIXED = [26]
"""A current that leaves 32 bits."""


def equal(run: Callable[..., Any], make: Callable[[int], Any], seeds: Sequence[int]) -> None:
    needs("mlir")
    active = False
    for seed in seeds:
        found, expected = run(make(seed), seed, 40)
        assert not differences(found, expected), (seed, differences(found, expected))
        active |= any(array.any() for array in found.values())
    assert active


@pytest.mark.parametrize(
    "seeds", [FOUND[:1], pytest.param([*FOUND, *range(300, 380)], marks=pytest.mark.slow)], ids=str
)
def test_real_numbers(seeds: Sequence[int]) -> None:
    equal(real_run, dyadic_network, seeds)


@pytest.mark.parametrize(
    "seeds", [FOUND_ODD[1:], pytest.param([*FOUND_ODD, *range(300, 360)], marks=pytest.mark.slow)], ids=str
)
def test_delays_after_operators_on_cycles(seeds: Sequence[int]) -> None:
    equal(real_run, odd_network, seeds)


@pytest.mark.parametrize("seeds", [FOUND_FIXED, pytest.param(range(300, 350), marks=pytest.mark.slow)], ids=str)
def test_integers(seeds: Sequence[int]) -> None:
    equal(fixed_run, fixed_network, seeds)


@pytest.mark.slow
@settings(max_examples=60, deadline=None, database=None, derandomize=True, phases=[Phase.generate],
          suppress_health_check=list(HealthCheck))  # fmt: skip
@given(networks())
def test_networks_of_files_whose_sums_are_not_exact(network: Network) -> None:
    needs("mlir")
    found, expected = real_run(network, len(network.projections), 20)
    assert not differences(found, expected)
