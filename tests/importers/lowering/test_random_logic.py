"""Random expressions of spikes: an import is exact (its self-check says so) or refused, never unequal.

2,000 such expressions found comparisons of values of unlike sizes (``b != 0.5 * b``), which are truth values only.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

from nirbridge.errors import ModelError
from nirbridge.importers import from_snntorch

torch = pytest.importorskip("torch", reason="the importer reads torch modules")
snn = pytest.importorskip("snntorch", reason="the neurons of the modules are snnTorch's")

OF_ONE: tuple[Callable[[Any], Any], ...] = (
    lambda x: 1 - x, lambda x: 0.5 * x, lambda x: -x, torch.relu, torch.abs, lambda x: x > 0.5, lambda x: x >= 1,
    lambda x: torch.clamp(x, max=1), lambda x: x**2, lambda x: x.bool(), torch.sign, torch.logical_not,
    lambda x: x + 1, lambda x: x == 1, lambda x: torch.floor(x / 2), lambda x: x.flip(1),
)  # fmt: skip
OF_TWO: tuple[Callable[[Any, Any], Any], ...] = (
    lambda a, b: a + b, lambda a, b: a - b, lambda a, b: a * b, torch.maximum, torch.minimum, torch.logical_or,
    torch.logical_and, torch.logical_xor, lambda a, b: a > b, lambda a, b: a <= b, lambda a, b: a != b,
    lambda a, b: a == b,
)  # fmt: skip


def expression(source: random.Random, depth: int) -> Callable[[list[Any]], Any]:
    """A function of the spikes of three layers."""
    if depth == 0 or source.random() < 0.15:
        place = source.randrange(3)
        return lambda spikes: spikes[place]
    if source.random() < 0.4:
        one, inner = source.choice(OF_ONE), expression(source, depth - 1)
        return lambda spikes: one(inner(spikes)).float()
    two, left, right = source.choice(OF_TWO), expression(source, depth - 1), expression(source, depth - 1)
    return lambda spikes: two(left(spikes), right(spikes)).float()


class Random(torch.nn.Module):
    def __init__(self, source: random.Random) -> None:
        super().__init__()
        self.expression = expression(source, source.choice([2, 3, 4]))
        self.layers = torch.nn.ModuleList([torch.nn.Linear(6, 5) for _ in range(3)])
        self.cells = torch.nn.ModuleList([snn.Leaky(beta=0.5, init_hidden=True) for _ in range(3)])
        self.head, self.out = torch.nn.Linear(5, 4), snn.Leaky(beta=0.5, init_hidden=True)
        with torch.no_grad():
            for p in self.parameters():
                p.copy_(torch.round(p * 1024) / 1024)

    def forward(self, x: Any) -> Any:
        spikes = [cell(layer(x) * 2) for layer, cell in zip(self.layers, self.cells, strict=True)]
        return self.out(self.head(self.expression(spikes)) * 2)


@pytest.mark.parametrize("seed", range(3))
def test_an_expression_of_spikes_is_exact_or_refused(seed: int) -> None:
    source, exact = random.Random(seed), 0
    torch.manual_seed(seed)
    for _ in range(16):
        with suppress(ModelError):  # refused; UnequalImport, from the self-check, is another error
            from_snntorch(Random(source), torch.rand(2, 6))
            exact += 1
    assert exact >= 8
