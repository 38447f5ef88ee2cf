"""A small network with two channels of 3 x 4 places, and events for it."""

from __future__ import annotations

from typing import Any

import nir
import numpy as np
import pytest

import nirbridge as nb
from tests.events.writers import random_events, table


@pytest.fixture(scope="session")
def tiny_events() -> tuple[Any, Any]:
    """The network, and 300 events in 2 ms."""
    weight = np.random.default_rng(3).normal(0, 0.6, (5, 24))
    one = np.ones(5)
    nodes = {
        "input": nir.Input({"input": np.array([2, 3, 4])}),
        "flat": nir.Flatten({"input": np.array([2, 3, 4])}, 0, -1),
        "fc": nir.Linear(weight),
        "lif": nir.LIF(tau=one * 2e-4, r=one * 2, v_leak=one * 0, v_threshold=one, v_reset=one * 0),
        "output": nir.Output({"output": np.array([5])}),
    }
    edges = [("input", "flat"), ("flat", "fc"), ("fc", "lif"), ("lif", "output")]
    network = nb.load(nir.NIRGraph(nodes, edges), dt=1e-4)
    return network, table(random_events(2, 300, 4, 3, 2000))
