"""The random chains of convolutions, and the ratio of their hops to the bound."""

from __future__ import annotations

import math

import nir
import numpy as np
import pytest

from benchmarks.chains import CELLS_MOST, Row, chain, measure, networks
from nirbridge.errors import DoesNotFit


def test_chains_are_those_of_their_seed_and_in_their_limits() -> None:
    kinds = set()
    for seed in range(60):
        nodes = chain(seed).nodes
        convolutions = [node for node in nodes.values() if isinstance(node, nir.Conv2d)]
        shapes = [node.v_threshold.shape for node in nodes.values() if isinstance(node, nir.LIF)]
        assert 2 <= len(convolutions) <= 8
        assert all(math.prod(shape) <= CELLS_MOST for shape in shapes)
        assert list(nodes) == list(chain(seed).nodes)
        assert [np.shape(node.weight) for node in convolutions] == [
            np.shape(node.weight) for node in chain(seed).nodes.values() if isinstance(node, nir.Conv2d)
        ]
        kinds |= {type(node) for node in nodes.values()}
    assert {nir.SumPool2d, nir.Linear} <= kinds


def test_a_measured_chain() -> None:
    assert [name for name, _ in networks(range(2, 4))] == ["chain-2", "chain-3", "mixed-8", "mixed-16", "mixed-32"]
    row = measure("chain-2", chain(2))
    assert row is not None
    assert (row.name, row.blocks) == ("chain-2", 8)
    assert row.bound == pytest.approx(17.62)
    assert row.bound <= row.hops
    assert 1 <= row.ratio <= 1.5


def test_a_chain_that_does_not_fit_has_no_row(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise DoesNotFit.of("network", "129 blocks", "128 cores")

    monkeypatch.setattr("benchmarks.chains.map_network", refuse)
    assert measure("chain-2", chain(2)) is None


def test_ratios_without_hops_or_bounds() -> None:
    assert Row("a", 3, 0.0, 0.0, 1.0).ratio == 1.0
    assert Row("a", 3, 6.0, 4.0, 1.0).ratio == 1.5
    assert Row("a", 3, 6.0, 0.0, 1.0).ratio == float("inf")
