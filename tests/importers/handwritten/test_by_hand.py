"""Neurons written by hand: what the import says of them, its parameters, and what it may not do."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
import torch

import nirbridge as nb
from nirbridge.importers import from_torch
from nirbridge.pipeline import import_module
from tests.importers.handwritten import cells, papers, rare


def _built(kind: Any) -> tuple[Any, Any]:
    torch.manual_seed(1)
    return kind(), torch.zeros(kind.shape)


@pytest.mark.parametrize("kind", rare.EXACT, ids=lambda kind: kind.__name__)
def test_a_neuron_with_a_form_is_imported_exactly(kind: Any) -> None:
    module, sample = _built(kind)
    outcome = json.loads(from_torch(module, sample).metadata["nirbridge:self_check"])
    assert outcome["outcome"] == "identical"
    assert outcome["outputs"] >= 24


@pytest.mark.parametrize("kind", rare.WITHOUT_FORM, ids=lambda kind: kind.__name__)
def test_a_neuron_without_form_is_refused_with_what_was_found(kind: Any) -> None:
    with pytest.raises(nb.errors.ModelError) as caught:
        nb.load(*_built(kind)[:1], sample=_built(kind)[1])
    assert rare.WITHOUT_FORM[kind] in str(caught.value)
    assert "convert" not in str(caught.value)


def test_parameters_are_those_of_the_code() -> None:
    late = nb.load(_built(rare.LateSubtraction)[0], sample=torch.zeros(rare.LateSubtraction.shape))
    neuron = late.populations[0].neuron
    assert late.populations[0].name == "mem"
    assert (neuron.reset, float(neuron.theta), float(neuron.a_mem)) == ("subtract", 0.8, 0.75)
    assert np.isclose(float(neuron.reset_amount), 0.8 / 0.75)
    plif = nb.load(_built(rare.Parametric)[0], sample=torch.zeros(rare.Parametric.shape)).populations[0].neuron
    shares = torch.sigmoid(torch.linspace(-1, 1, rare.HIDDEN)).double().numpy()
    np.testing.assert_allclose(plif.a_mem, 1 - shares, rtol=1e-12)
    assert (plif.compare, float(plif.v_reset), plif.reset) == (">=", 0.1, "to-value")
    held = nb.load(_built(rare.Refractory)[0], sample=torch.zeros(rare.Refractory.shape)).populations[0].neuron
    assert int(held.refractory_steps) == 3
    floor = nb.load(_built(rare.Floor)[0], sample=torch.zeros(rare.Floor.shape)).populations[0].neuron
    assert floor.v_min is not None
    assert float(floor.v_min) == -0.25


def test_a_late_current_is_a_delay() -> None:
    form = next(form for form in papers.forms() if form.name == "SpyTorch, hidden layer")
    network = nb.load(form.module(), sample=form.sample())
    assert [int(p.max_delay_steps) for p in network.projections if p.target == "mem"] == [2]
    assert [int(p.neuron.refractory_steps) for p in network.populations] == [1]


@pytest.mark.parametrize("every", [3, 6, 13, 20, 29])
def test_a_state_that_a_later_call_clears_is_refused(every: int) -> None:
    class Clearing(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc, self.v, self.t = rare.dense(2, 2), None, 0

        def forward(self, x: Any) -> Any:
            self.v = torch.zeros(2) if self.v is None or (self.t and self.t % every == 0) else self.v
            self.t += 1
            self.v = 0.5 * self.v + self.fc(x)
            z = (self.v > 1).float()
            self.v = self.v * (1 - z)
            return z

    with pytest.raises(nb.errors.ModelError):
        nb.load(Clearing(), sample=torch.zeros(2, 2))


@pytest.mark.parametrize("kind", ["slow", "once", "word"])
def test_a_threshold_that_changes_with_time_is_refused(kind: str) -> None:
    class Changing(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc = rare.dense(2, 2)

        def forward(self, x: Any) -> Any:
            v, out = torch.zeros(len(x), 2), []
            for t in range(x.shape[1]):
                v = 0.5 * v + self.fc(x[:, t])
                bound = {"slow": 1 + t / 1024, "once": 1.03125 if t == 7 else 1.0}.get(kind, 1.0)
                z = (v >= bound).float() if kind == "word" and t % 2 else (v > bound).float()
                v = v * (1 - z)
                out.append(z)
            return torch.stack(out, 1)

    with pytest.raises(nb.errors.ModelError, match="its threshold is another one in some time steps"):
        nb.load(Changing(), sample=torch.zeros(2, 20, 2))


def test_such_an_import_is_always_compared() -> None:
    module, sample = _built(rare.InPlace)
    with pytest.raises(nb.errors.UsageError, match="the import is always compared"):
        nb.load(module, sample=sample, check=0)


@pytest.mark.parametrize("of", [lambda x: x.to_sparse(), lambda x: x.to("meta")], ids=["sparse", "meta"])
def test_a_sample_without_values_of_its_own_is_refused(of: Any) -> None:
    module, sample = _built(rare.InPlace)
    with pytest.raises(nb.errors.NirbridgeError):
        nb.load(module, sample=of(sample))


def test_a_module_is_left_as_it_is() -> None:
    module = cells.two(cells.Plif)
    nb.load(module, sample=torch.zeros(3, 8))
    assert module.lif1.mem is None
    assert all(parameter.requires_grad for parameter in module.parameters())


@pytest.mark.filterwarnings("ignore")
def test_a_subclass_of_a_neuron_that_overrides_methods_is_read_as_it_computes() -> None:
    neuron = pytest.importorskip("spikingjelly.activation_based.neuron")

    class Slower(neuron.LIFNode):
        def neuronal_charge(self, x: Any) -> None:
            self.v = self.v * 0.75 + x

    torch.manual_seed(2)
    module = torch.nn.Sequential(rare.dense(6, 5), Slower())
    outcome = json.loads(import_module("spikingjelly", module, torch.zeros(4, 6)).metadata["nirbridge:self_check"])
    assert outcome["outcome"] == "identical"
    assert outcome["outputs"] > 500
