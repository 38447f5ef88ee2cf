"""The random chains of convolutions, and the ratio of their hops to the bound."""

from __future__ import annotations

import math
from dataclasses import asdict

import nir
import numpy as np
import pytest

from benchmarks.chains import CELLS_MOST, HEADS, Row, chain, measure, networks, summary
from benchmarks.mapping_page import chains_of
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
    assert [name for name, _ in networks(range(2, 4))] == [
        "chain-2",
        "chain-3",
        "mixed-8",
        "mixed-16",
        "mixed-32",
        "mixed-64",
    ]
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


def test_a_chain_that_needs_fewer_chips_has_no_row() -> None:
    assert measure("chain-2", chain(2), chips=2) is None


def test_the_page_has_a_row_for_each_run() -> None:
    rows = [asdict(Row("chain-3", 8, 6.0, 4.0, 1.0)), asdict(Row("chain-4", 20, 9.0, 5.0, 2.4))]
    run = {"seeds": "3 to 4", "chips": 1, "method": "packed", "rows": rows}
    assert summary(run) == ("3 to 4", "1", "packed", "2", "8 to 20", "1.65", "1.80 (chain-4)", "1", "3")
    assert len(summary(run)) == len(HEADS)
    assert chains_of([run]).endswith("| 3 to 4 | 1 | packed | 2 | 8 to 20 | 1.65 | 1.80 (chain-4) | 1 | 3 |\n")
    assert chains_of([]) == ""
