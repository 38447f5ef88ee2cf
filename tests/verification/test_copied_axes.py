"""Axes along which a network copies itself: found if the parts are copies, and only then."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import nir
import numpy as np
import pytest

from nirbridge.network import from_nir
from nirbridge.network.model import Network
from nirbridge.verification.self_check import copied_axis

PARTS, SIZE = 3, 5


def network(*rows: Any, bias: Any = None, theta: Any = 0.5, shape: tuple[int, ...] = (PARTS, SIZE)) -> Network:
    """A layer and a LIF on inputs ``shape``, one row of ``rows`` of the layer for each part along the first axis."""
    size = len(rows) * rows[0].shape[0]
    weight = np.zeros((size, int(np.prod(shape))), np.float32)
    for k, part in enumerate(rows):
        weight[k * part.shape[0] : (k + 1) * part.shape[0], k * part.shape[1] : (k + 1) * part.shape[1]] = part
    ones = np.ones(size)
    nodes = {
        "input": nir.Input({"input": np.array(shape)}),
        "flat": nir.Flatten({"input": np.array(shape)}, 0, -1),
        "layer": nir.Affine(weight, np.zeros(size) if bias is None else bias),
        "lif": nir.LIF(ones * 5e-3, ones, ones * 0, ones * theta, v_reset=ones * 0),
        "output": nir.Output({"output": np.array([size])}),
    }
    return from_nir(nir.NIRGraph(nodes, list(pairwise(nodes)), metadata={"nirbridge:dt": 1e-3}, type_check=False))


def loud(seed: int) -> Any:
    """Positive weights with which every neuron fires in every time step."""
    return np.random.default_rng(seed).uniform(1, 2, (4, SIZE)).astype(np.float32)


def some(seed: int) -> Any:
    return np.random.default_rng(seed).normal(0, 1, (4, SIZE)).astype(np.float32)


@pytest.mark.parametrize("weights", [loud, some, lambda seed: 1e-3 * some(seed) + 0.05])
def test_copies_are_found_however_loud_they_are(weights: Any) -> None:
    assert copied_axis(network(*[weights(0)] * PARTS)) == (0, 0)


@pytest.mark.parametrize("weights", [loud, some])
def test_parts_with_different_weights_are_no_copies(weights: Any) -> None:
    assert copied_axis(network(*(weights(k) for k in range(PARTS)))) is None


def test_one_part_that_differs_in_one_weight_is_enough() -> None:
    other = loud(0)
    other[2, 3] += 0.25
    assert copied_axis(network(loud(0), other, loud(0))) is None


def test_parts_that_differ_in_their_bias_or_threshold_are_no_copies() -> None:
    bias = np.zeros(4 * PARTS)
    bias[5] = 0.25
    assert copied_axis(network(*[loud(0)] * PARTS, bias=bias)) is None
    theta = np.full(4 * PARTS, 0.5)
    theta[5] = 4.0
    assert copied_axis(network(*[some(0)] * PARTS, theta=theta)) is None


def test_grouped_convolutions_are_no_copies() -> None:
    source = np.random.default_rng(0)
    ones = np.ones((2, 3, 3))
    nodes = {
        "input": nir.Input({"input": np.array([2, 5, 5])}),
        "conv": nir.Conv2d((5, 5), source.uniform(1, 2, (2, 1, 3, 3)).astype(np.float32), 1, 0, 1, 2, np.zeros(2)),
        "lif": nir.LIF(ones * 5e-3, ones, ones * 0, ones * 0.5, v_reset=ones * 0),
        "output": nir.Output({"output": np.array([2, 3, 3])}),
    }
    graph = nir.NIRGraph(nodes, list(pairwise(nodes)), metadata={"nirbridge:dt": 1e-3}, type_check=False)
    assert copied_axis(from_nir(graph)) is None
