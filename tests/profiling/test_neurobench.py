"""NeuroBench's metrics from their definitions, and on the example of its documentation."""

from __future__ import annotations

from math import ceil
from pathlib import Path

import numpy as np
import pytest

import nirbridge as nb
from nirbridge.profiling.model import NEUROBENCH
from tests.profiling.nets import spikes, two_layers

EXAMPLE = [[1.3, 0, -3.2], [0, 1.2, -5.1], [-1.1, 2.7, 0]]
"""Weights of the example in NeuroBench's page on synaptic operations; its input is (0, 1.3, -1)."""


def test_the_example_of_neurobench() -> None:
    network = two_layers(EXAMPLE, np.zeros((2, 3)))
    inputs = np.array([[[0.0, 1.3, -1.0]]])
    found = nb.profile(network, "loihi1", inputs, placement_only=True).points[0].neurobench["reference"]
    assert found["Effective_MACs"] == 4
    assert found["Dense"] == 9 + 6
    assert found["Effective_ACs"] == 0  # no spike of a reaches a weight other than 0
    assert found["ConnectionSparsity"] == pytest.approx((3 + 6) / 15)
    assert found["ParameterCount"] == 15


def test_operations_and_sparsity_by_brute_force() -> None:
    rng = np.random.default_rng(3)
    first, second = (np.where(rng.random(s) < 0.3, 0, rng.normal(0.6, 0.8, s)) for s in ((6, 5), (3, 6)))
    network, inputs = two_layers(first, second), spikes(11, 4, 5)
    point = nb.profile(network, "loihi1", inputs, np.array([0, 1, 2, 0])).points[0]
    run = nb.simulate(network, inputs, record=["a:s,v", "b:s,v", "out:s"])
    found = point.neurobench["reference"]
    pairs = ((inputs, first), (run["a"], second))
    effective = sum(
        int((w[:, i] != 0).sum()) for x, w in pairs for step in x for sample in step for i in np.flatnonzero(sample)
    )
    assert found["Effective_ACs"] == effective / 4
    assert found["Dense"] == 11 * (30 + 18)
    zeros = int((run["a"] == 0).sum() + (run["b"] == 0).sum())
    assert found["ActivationSparsity"] == pytest.approx(zeros / (11 * 4 * 9))
    changes = sum(int((run[n, "v"][1:] != run[n, "v"][:-1]).sum()) + 4 * run[n, "v"][0, 0].size for n in ("a", "b"))
    assert found["MembraneUpdates"] == changes / 4
    right = (run["out"].sum(axis=0).argmax(axis=1) == [0, 1, 2, 0]).mean()
    assert found["ClassificationAccuracy"] == right == point["accuracy_reference"]
    assert found["Footprint"] == 4 * (48 + 9)
    assert point.neurobench["integers"]["Footprint"] == ceil((8 * 48 + 9 * 48) / 8)
    assert set(found) == {column.name for column in NEUROBENCH}


def test_weights_that_a_folded_pool_repeats_are_one_parameter() -> None:
    """An average pool before a convolution and one before a matrix, as in the digits CNN."""
    model = Path("examples/models/digits_cnn.nir")
    found = nb.profile(model, "loihi1", np.zeros((3, 1, *nb.load(model).inputs[0].shape))).points[0].neurobench
    own = 8 * 9 + 16 * 8 * 9 + 10 * 64
    assert [found[name]["ParameterCount"] for name in ("reference", "integers")] == [own, own]
    stored = 8 * 9 + 16 * 8 * 36 + 10 * 256
    states = 8 * 64 + 16 * 16 + 10
    assert found["integers"]["Footprint"] == ceil((8 * stored + 48 * states) / 8)
    assert found["reference"]["Footprint"] == 4 * (own + states)
