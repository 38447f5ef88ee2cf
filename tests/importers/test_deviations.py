"""Known deviations: refused with the name that accepts them; accepted, they behave as described."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

from nirbridge.errors import ModelError, UsageError
from nirbridge.network import from_nir
from nirbridge.simulators.simulate import simulate

torch = pytest.importorskip("torch", reason="torch is not installed")
with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # deprecations of what the frameworks import are not this project's
    snn = pytest.importorskip("snntorch", reason="snntorch is not installed")
    norse = pytest.importorskip("norse.torch", reason="norse is not installed")
    from snntorch import utils
from nirbridge.importers import from_norse, from_snntorch, from_torch  # noqa: E402

nn = torch.nn
pytestmark = pytest.mark.filterwarnings("ignore")  # what the frameworks warn of is not this project's


def agreement(graph: Any, module: Any, steps: int = 40) -> float:
    """Share of output cells in which the module, called step by step, and its import send the same."""
    fed = (np.random.default_rng(0).random((steps, 4, 6)) < 0.5).astype(np.float32)
    (found,) = simulate(from_nir(graph), fed, backend="reference").recording.arrays.values()
    with torch.no_grad():
        wanted = np.stack([module(torch.from_numpy(now)).float().numpy() for now in fed])
    assert wanted.any()
    return float((found == wanted).mean())


def heavy(module: Any) -> Any:
    torch.manual_seed(0)
    for parameter in module.parameters():
        if parameter.ndim == 2:
            parameter.data = torch.round(torch.randn_like(parameter) * 1.5 * 1024) / 1024
    return module.eval()


def early(kind: str = "Leaky", **options: Any) -> Any:
    neuron = getattr(snn, kind)(**{"beta": 0.9, "init_hidden": True, "reset_delay": False, **options})
    return heavy(nn.Sequential(nn.Linear(6, 8), neuron))


@pytest.mark.parametrize(
    ("kind", "options"), [("Leaky", {}), ("Synaptic", {"alpha": 0.5}), ("RLeaky", {"linear_features": 8})]
)
def test_an_early_subtraction(kind: str, options: Any) -> None:
    module = early(kind, **options)
    with pytest.raises(ModelError, match=r"'1': reset_delay=False with a subtraction.*--accept early-subtraction"):
        from_snntorch(module, torch.zeros(6))
    graph = from_snntorch(module, torch.zeros(6), accept=("early-subtraction",))
    assert "accepted as 'early-subtraction': the threshold is subtracted once" in graph.metadata["nirbridge:notes"]
    assert 0.5 < agreement(graph, module) < 0.999


@pytest.mark.parametrize("reset", ["zero", "none"])
def test_other_early_resets_are_exact(reset: str) -> None:
    module = early(reset_mechanism=reset)
    assert agreement(from_snntorch(module, torch.zeros(6)), module) == 1.0


class OneStep(nn.Module):
    """Starts its state anew in every call, in one of several ways."""

    def __init__(self, way: str) -> None:
        super().__init__()
        self.way, self.fc = way, nn.Linear(6, 8)
        self.lif = norse.LIFBoxCell() if way == "norse" else snn.Leaky(beta=0.9, init_hidden=way != "init_leaky")

    def forward(self, x: Any) -> Any:
        if self.way == "init_leaky":
            return self.lif(self.fc(x), self.lif.init_leaky())[0]
        if self.way == "norse":
            return self.lif(self.fc(x) * 8)[0]
        if self.way == "reset_mem":
            self.lif.reset_mem()
        else:
            utils.reset(self)
        return self.lif(self.fc(x))


@pytest.mark.parametrize("way", ["init_leaky", "reset_mem", "utils.reset", "norse"])
def test_states_that_every_call_starts_anew(way: str) -> None:
    module = heavy(OneStep(way))
    importer = from_norse if way == "norse" else from_snntorch
    before = list(snn.SpikingNeuron.instances)
    with pytest.raises(ModelError, match=r"'lif': forward resets its state.*--accept kept-states"):
        importer(module, torch.zeros(6))
    graph = importer(module, torch.zeros(6), accept=["kept-states"])
    assert [id(m) for m in snn.SpikingNeuron.instances] == [id(m) for m in before]
    assert "accepted as 'kept-states': states of neurons are kept" in graph.metadata["nirbridge:notes"]
    assert agreement(graph, module) < 0.95


@pytest.mark.parametrize("way", ["init_leaky", "utils.reset"])
def test_states_that_start_in_front_of_a_loop_are_no_deviation(way: str) -> None:
    class Looping(OneStep):
        def forward(self, x: Any) -> Any:
            mem, out = self.lif.init_leaky() if way == "init_leaky" else None, []
            if mem is None:
                utils.reset(self)
            for now in x:
                spk, mem = self.lif(self.fc(now), mem) if mem is not None else (self.lif(self.fc(now)), None)
                out.append(spk)
            return torch.stack(out)

    graph = from_snntorch(heavy(Looping(way)), torch.zeros(20, 2, 6))
    assert "anew" not in graph.metadata["nirbridge:notes"]


class Autocast(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc, self.lif = nn.Linear(6, 8), snn.Leaky(beta=0.9, init_hidden=True)

    def forward(self, x: Any) -> Any:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            current = self.fc(x)
        return self.lif(current.float())


def test_layers_that_round_to_16_bits() -> None:
    module = heavy(Autocast())
    module.fc.weight.data += torch.randn(8, 6) * 1e-3
    with pytest.raises(ModelError, match=r"'fc': 'linear' gives torch.bfloat16.*--accept full-precision"):
        from_snntorch(module, torch.zeros(6))
    graph = from_snntorch(module, torch.zeros(6), accept=("full-precision",))
    assert agreement(graph, module) > 0.9
    ann = nn.Sequential(Autocast().fc, nn.ReLU())
    ann.forward = lambda x: torch.relu(ann[0](x).bfloat16().float())
    with pytest.raises(ModelError, match="bfloat16"):
        from_torch(ann, torch.zeros(6), torch.rand(8, 6))


def test_several_deviations_are_all_in_one_error() -> None:
    module = heavy(OneStep("init_leaky"))
    module.lif = snn.Leaky(beta=0.9, reset_delay=False)
    with pytest.raises(ModelError) as caught:
        from_snntorch(module, torch.zeros(6))
    text = str(caught.value)
    assert "--accept early-subtraction" in text
    assert "--accept kept-states" in text
    with pytest.raises(ModelError) as caught:
        from_snntorch(module, torch.zeros(6), accept=("kept-states",))
    assert [p.subject for p in caught.value.problems] == ["module 'lif'"]
    from_snntorch(module, torch.zeros(6), accept=("kept-states", "early-subtraction"))


@pytest.mark.parametrize("accept", ["kept-states", ("late",), 3])
def test_unknown_deviations(accept: Any) -> None:
    with pytest.raises(UsageError, match=r"accept: .*early-subtraction, kept-states, full-precision"):
        from_snntorch(early(reset_mechanism="zero"), torch.zeros(6), accept=accept)


def test_a_neuron_that_has_no_form_is_refused_for_that_alone() -> None:
    with pytest.raises(ModelError) as caught:
        from_snntorch(nn.Sequential(nn.Linear(12, 8), snn.LeakyParallel(8, 5)), torch.zeros(2, 12))
    assert "a ReLU keeps its membrane above zero" in str(caught.value)
    assert "accept" not in str(caught.value)
