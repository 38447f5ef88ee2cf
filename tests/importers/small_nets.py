"""Two layers with snnTorch's neurons, and whether an import of a module is equal to it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from nirbridge.importers import importer
from tests.packages import package

torch = pytest.importorskip("torch", reason="torch is not installed")
snn = package("snntorch")
nn = torch.nn
FEATURES = 6


class TwoLayers(nn.Module):
    """The parts that forwards of tests are made of."""

    def __init__(self) -> None:
        super().__init__()
        self.fc1, self.fc2 = nn.Linear(FEATURES, 8), nn.Linear(8, 4)
        self.lif1, self.lif2 = (snn.Leaky(beta=beta, init_hidden=True, reset_mechanism="zero") for beta in (0.75, 0.5))


def on_grid(module: Any, scale: float = 2.0) -> Any:
    """The module in eval mode with weights by chance on a grid, so that sums are exact, so large that neurons fire."""
    source = torch.Generator().manual_seed(7)
    for layer in module.modules():
        if isinstance(layer, nn.Linear):
            drawn = torch.randn(layer.weight.shape, generator=source) * scale / layer.weight.shape[1] ** 0.5
            layer.weight.data = torch.round(drawn * 1024) / 1024
            if layer.bias is not None:
                layer.bias.data.zero_()
    return module.eval()


def spikes(*shape: int) -> Any:
    return (torch.rand(shape, generator=torch.Generator().manual_seed(5)) < 0.4).float()


def imported(module: Any, sample: Any = None, framework: str = "snntorch", **options: Any) -> Any:
    """The graph, self-checked."""
    return importer(framework)(module, spikes(1, FEATURES) if sample is None else sample, check=2, **options)


def notes_of_equal(graph: Any) -> str:
    """The notes of an import that the self-check found equal, on neurons that fired."""
    check = json.loads(graph.metadata["nirbridge:self_check"])
    assert check["outcome"] == "identical", check
    assert " 0 of " not in check["text"], check
    return str(graph.metadata.get("nirbridge:notes", ""))
