"""Modules that return membranes: those of readouts, of resets by subtraction, and refused ones."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("snntorch")
pytest.importorskip("spikingjelly")
from torch import nn  # noqa: E402

from benchmarks.equivalence_model import quiet  # noqa: E402
from nirbridge.errors import ModelError, UnequalImport  # noqa: E402
from nirbridge.importers import from_snntorch, importer  # noqa: E402
from nirbridge.importers.frameworks.snntorch import neuron_specs  # noqa: E402
from nirbridge.network import from_nir  # noqa: E402
from nirbridge.verification.self_check import self_check  # noqa: E402

with quiet():
    import snntorch as snn
    from spikingjelly.activation_based import neuron

pytestmark = pytest.mark.filterwarnings("ignore::nirbridge.errors.ExportWarning")
SEQUENCE = (15, 3, 8)


class Regression(nn.Module):
    """As snnTorch's tutorial of regression: the membranes of the last neurons are what is fitted."""

    def __init__(self, way: str = "stack", make: Any = lambda: snn.Leaky(beta=0.75)) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.way = way
        self.fc1, self.lif1 = nn.Linear(8, 12), make()
        self.fc2, self.lif2 = nn.Linear(12, 4), make()
        for weight in (self.fc1.weight, self.fc2.weight):
            weight.data *= 4

    def forward(self, x: Any) -> Any:
        one, two = self.lif1.init_leaky(), self.lif2.init_leaky()
        kept = []
        for now in x:
            spikes, one = self.lif1(self.fc1(now), one)
            _, two = self.lif2(self.fc2(spikes), two)
            kept.append(two)
        return self.end(torch.stack(kept))

    def end(self, membranes: Any) -> Any:
        if self.way == "max":
            return membranes.max(0)[0]
        return {"stack": membranes, "mean": membranes.mean(0), "last": membranes[-1]}[self.way]


@pytest.mark.parametrize("way", ["stack", "mean", "last"])
def test_membranes_that_spikes_set_to_zero_are_refused(way: str) -> None:
    with pytest.raises(ModelError, match="'lif2'.*its membrane potential, not its spikes.*return the spikes"):
        from_snntorch(
            Regression(way, lambda: snn.Leaky(beta=0.75, reset_mechanism="zero")), torch.zeros(SEQUENCE), check=0
        )


class Attribute(Regression):
    """The membrane is read from the module that keeps it."""

    def forward(self, x: Any) -> Any:
        kept = []
        for now in x:
            self.lif2(self.fc2(self.lif1(self.fc1(now))))
            kept.append(self.lif2.mem if hasattr(self.lif2, "mem") else self.lif2.v)
        return self.end(torch.stack(kept))


HIDDEN: dict[str, Any] = {"init_hidden": True}
LAPICQUE: dict[str, Any] = {"R": 1.0, "C": 4.0, "init_hidden": True}
SHOWN: dict[str, tuple[str, Any]] = {
    "Leaky": ("snntorch", lambda: Regression("stack")),
    "its mean": ("snntorch", lambda: Regression("mean")),
    "its last value": ("snntorch", lambda: Regression("last")),
    "its largest value": ("snntorch", lambda: Regression("max")),
    "mem of Leaky": ("snntorch", lambda: Attribute("stack", lambda: snn.Leaky(0.75, **HIDDEN))),
    "mem of Lapicque": ("snntorch", lambda: Attribute("max", lambda: snn.Lapicque(**LAPICQUE))),
    "v of IFNode": ("spikingjelly", lambda: Attribute("stack", lambda: neuron.IFNode(v_reset=None))),
    "v of LIFNode": ("spikingjelly", lambda: Attribute("last", lambda: neuron.LIFNode(tau=4.0, v_reset=None))),
}


@pytest.mark.parametrize("name", SHOWN)
def test_membranes_that_spikes_are_subtracted_from_have_a_readout(name: str) -> None:
    framework, make = SHOWN[name]
    module = make()
    graph = importer(framework)(module, torch.rand(SEQUENCE), check=2)
    outcome = json.loads(graph.metadata["nirbridge:self_check"])
    assert outcome["outcome"] == "identical"
    assert " 0 of " not in outcome["text"]
    assert "'lif2_membrane': the readout of the membrane of 'lif2'" in graph.metadata["nirbridge:notes"]
    network = from_nir(graph)
    assert (network.population("lif2").neuron.fires, network.population("lif2_membrane").neuron.fires) == (True, False)


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
