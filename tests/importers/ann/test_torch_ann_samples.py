"""Number of calibration samples used by each stage."""

from __future__ import annotations

import numpy as np
import pytest

from nirbridge.importers.ann.replay import (
    CHECKED_FEWEST,
    FEWEST,
    MOST,
    SEEN_FEWEST,
    SEEN_WORK,
    checked_samples,
    measured_samples,
    operator_multiplications,
    scale_samples,
    select_samples,
)
from nirbridge.network.apply import matrix
from nirbridge.network.model import Network, Population, Port, Projection, Timing
from nirbridge.network.neurons import neuron
from nirbridge.network.operators import Chain, Conv, Dense, Operator, Reshape, SumPool

TIMING = Timing(1e-4, "euler", "subtract", ">", "per-second")


def network(pre: int, post: int) -> Network:
    """One dense layer whose weights take no memory."""
    weight = np.broadcast_to(np.float32(0.5), (post, pre))
    population = Population("r", (post,), neuron("IF", theta=1.0, reset="subtract"))
    return Network(
        1e-4,
        TIMING,
        (population,),
        (Projection("in", "r", Dense(weight)),),
        (Port("in", (pre,)),),
        (Port("out", (post,)),),
    )


def test_a_small_network_uses_every_sample_for_scales_and_comparison() -> None:
    small = network(100, 50)
    for found in (scale_samples(small, 5_000, searches=True), checked_samples(small, 5_000)):
        np.testing.assert_array_equal(found, np.arange(5_000))
    assert len(measured_samples(small, 5_000, 64)) == MOST


def test_a_large_network_uses_some_but_all_for_a_maximum() -> None:
    large = network(20_000, 10_000)  # 2e8 multiplications a sample
    seen = scale_samples(large, 1_000, searches=True)
    assert len(seen) == int(SEEN_WORK / (2e8 + 1))
    assert (seen[0], seen[-1]) == (0, 999)
    assert np.ptp(np.diff(seen)) <= 1
    np.testing.assert_array_equal(scale_samples(large, 1_000, searches=False), np.arange(1_000))
    assert len(scale_samples(network(200_000, 10_000), 1_000, searches=True)) == SEEN_FEWEST
    assert len(checked_samples(network(200_000, 10_000), 1_000)) == CHECKED_FEWEST
    assert len(measured_samples(large, 1_000, 64)) == FEWEST
    assert len(measured_samples(large, 1, 64)) == 1


def test_some() -> None:
    data = {"a": np.arange(10), "b": np.arange(20).reshape(10, 2)}
    found = select_samples(data, np.array([1, 4]))
    np.testing.assert_array_equal(found["a"], [1, 4])
    np.testing.assert_array_equal(found["b"], [[2, 3], [8, 9]])


ones = np.ones((2, 3, 3, 3), np.float32)
CONV = Conv(ones, (1, 1), ((0, 0), (0, 0)), (1, 1), 1, (3, 6, 6))


@pytest.mark.parametrize(
    "operator",
    [Dense(np.ones((4, 5), np.float32)), CONV, Chain((Reshape((108,), (3, 6, 6)), CONV))],
    ids=["dense", "conv", "chain"],
)
def test_multiplications_are_the_synapses(operator: Operator) -> None:
    moves = 3 * 6 * 6 if isinstance(operator, Chain) else 0  # a value moved counts as one
    assert operator_multiplications(operator) == matrix(operator).nnz + moves


def test_a_pool_costs_its_outputs() -> None:
    assert operator_multiplications(SumPool((2, 2), (2, 2), ((0, 0), (0, 0)), (3, 6, 6), 1.0)) == 27
