"""Converted digits networks with MaxPool, and the tools beside which they are measured."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")

from benchmarks.converting import NETWORKS, STEPS, TOOLS, accuracy, data, folded, of_nirbridge, trained


@pytest.fixture(scope="module", params=NETWORKS)
def network(request: pytest.FixtureRequest) -> Any:
    return trained(NETWORKS[request.param], 5, 6)


def test_digits_with_maxima_lose_less_than_a_point(network: Any) -> None:
    images, _, test, labels = data()
    outputs, _ = of_nirbridge(network, images, test)
    wanted = accuracy(network(test).detach().numpy(), labels.numpy())
    assert wanted > 0.9
    assert accuracy(outputs[-1], labels.numpy()) >= wanted - 0.01


def test_folding_keeps_the_function(network: Any) -> None:
    _, _, test, _ = data()
    difference = (folded(network)(test) - network(test)).detach().abs().max()
    assert float(difference) < 1e-3


@pytest.mark.parametrize("tool", TOOLS)
def test_every_tool_converts(tool: str) -> None:
    for package in ("sinabs", "spikingjelly"):
        if tool.startswith(package):
            pytest.importorskip(package)
    net = trained(next(iter(NETWORKS.values())), 0, 4)
    images, _, test, labels = data()
    outputs, neurons = TOOLS[tool](net, images, test[:200])
    assert outputs.shape == (max(STEPS), 200, 10)
    assert neurons >= 288
    assert accuracy(outputs[-1], labels[:200].numpy()) > 0.7
    assert np.all(np.isfinite(outputs))
