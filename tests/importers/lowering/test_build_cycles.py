"""Delayed projections that close a cycle are back edges, whatever the number of populations in the cycle."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from nirbridge.arrays import freeze
from nirbridge.importers.lowering.analysis import mark_back_edges
from nirbridge.network import Projection, from_nir
from nirbridge.network.operators import Identity
from tests.packages import package

Edge = tuple[str, str, int]


def back_edges(edges: Sequence[Edge]) -> list[tuple[str, str]]:
    wires = [Projection(a, b, Identity((2,)), delay_steps=freeze(np.int64(delay))) for a, b, delay in edges]
    return [(p.source, p.target) for p in mark_back_edges(wires) if p.is_back]


@pytest.mark.parametrize(
    ("edges", "wanted"),
    [
        ([("a", "a", 1)], [("a", "a")]),
        ([("a", "b", 0), ("b", "a", 1)], [("b", "a")]),
        ([("a", "b", 0), ("b", "c", 0), ("c", "a", 1)], [("c", "a")]),
        ([("a", "b", 1), ("b", "a", 1)], [("a", "b"), ("b", "a")]),
        ([("in", "a", 1), ("a", "b", 1), ("b", "out", 1)], []),
        # a detour that ends, before the one that leads back; and a late edge beside the cycle
        ([("a", "x", 0), ("a", "b", 0), ("x", "y", 0), ("b", "a", 2), ("b", "x", 1)], [("b", "a")]),
        # a cycle elsewhere on the way must neither loop for ever nor count
        ([("a", "b", 1), ("b", "c", 0), ("c", "b", 1)], [("c", "b")]),
    ],
)
def test_late_edges_of_a_cycle_are_back_edges(edges: list[Edge], wanted: list[tuple[str, str]]) -> None:
    assert back_edges(edges) == wanted


def test_a_layer_that_hears_the_one_above_one_step_late() -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed")
    snn = package("snntorch")
    from nirbridge.importers import from_snntorch

    class TopDown(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.up, self.top, self.down = (torch.nn.Linear(4, 4, bias=False) for _ in range(3))
            self.low, self.high = snn.Leaky(beta=0.75), snn.Leaky(beta=0.5)

        def forward(self, x: Any) -> Any:
            low, high, back, out = self.low.init_leaky(), self.high.init_leaky(), torch.zeros(x.size(1), 4), []
            for now in x:
                spk, low = self.low(self.up(now) + self.down(back), low)
                back, high = self.high(self.top(spk), high)
                out.append(back)
            return torch.stack(out)

    network = from_nir(from_snntorch(TopDown(), torch.zeros(9, 2, 4), check=0))
    assert {(p.source, p.target): (p.is_back, p.max_delay_steps) for p in network.projections} == {
        ("input", "low"): (False, 0),
        ("high", "low"): (True, 1),
        ("low", "high"): (False, 0),
        ("high", "output"): (False, 0),
    }
