"""Modules that return membranes: refused of neurons that fire, compared of readouts."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("snntorch")
from torch import nn  # noqa: E402

from benchmarks.equivalence_model import quiet  # noqa: E402
from nirbridge.errors import ModelError, UnequalImport  # noqa: E402
from nirbridge.importers import from_snntorch  # noqa: E402
from nirbridge.importers.frameworks.snntorch import neuron_specs  # noqa: E402
from nirbridge.verification.self_check import self_check  # noqa: E402

with quiet():
    import snntorch as snn

pytestmark = pytest.mark.filterwarnings("ignore::nirbridge.errors.ExportWarning")
SEQUENCE = (15, 3, 8)


class Regression(nn.Module):
    """As snnTorch's tutorial of regression: the membranes of the last neurons are what is fitted."""

    def __init__(self, way: str = "stack", reset: str = "subtract") -> None:
        super().__init__()
        torch.manual_seed(0)
        self.way = way
        self.fc1, self.lif1 = nn.Linear(8, 12), snn.Leaky(beta=0.75, reset_mechanism=reset)
        self.fc2, self.lif2 = nn.Linear(12, 4), snn.Leaky(beta=0.75, reset_mechanism=reset)
        for weight in (self.fc1.weight, self.fc2.weight):
            weight.data *= 4

    def forward(self, x: Any) -> Any:
        one, two = self.lif1.init_leaky(), self.lif2.init_leaky()
        kept = []
        for now in x:
            spikes, one = self.lif1(self.fc1(now), one)
            _, two = self.lif2(self.fc2(spikes), two)
            kept.append(two)
        membranes = torch.stack(kept)
        return {"stack": membranes, "mean": membranes.mean(0), "last": membranes[-1]}[self.way]


@pytest.mark.parametrize("way", ["stack", "mean", "last"])
@pytest.mark.parametrize("reset", ["subtract", "zero"])
def test_membranes_of_firing_neurons_are_refused(way: str, reset: str) -> None:
    with pytest.raises(ModelError, match="'lif2'.*its membrane potential, not its spikes.*return the spikes"):
        from_snntorch(Regression(way, reset), torch.zeros(SEQUENCE), check=0)


@pytest.mark.parametrize("way", ["stack", "mean", "last"])
def test_returned_membranes_of_readouts_are_compared(way: str) -> None:
    module = Regression(way)
    module.lif2 = snn.Leaky(beta=0.75, reset_mechanism="none")
    graph = from_snntorch(module, torch.zeros(SEQUENCE))
    assert json.loads(graph.metadata["nirbridge:self_check"])["outcome"] == "identical"
    assert "population 'lif2': a readout, its output is the membrane potential" in graph.metadata["nirbridge:notes"]
    wrong = copy.deepcopy(graph)
    wrong.nodes["fc2"].bias[1] += 1e-3
    with pytest.raises(UnequalImport, match=r"neuron \(1,\).*: the module gives"):
        self_check(module, torch.zeros(SEQUENCE), wrong, neuron_specs(), None)
