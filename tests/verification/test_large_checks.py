"""Imports too large for the default self-check: fewer time steps, sampled neurons, and how the outcome is stated."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("snntorch")
from torch import nn  # noqa: E402

import nirbridge as nb  # noqa: E402
from benchmarks.equivalence_model import quiet  # noqa: E402
from nirbridge.errors import UnequalImport  # noqa: E402
from nirbridge.importers import from_snntorch  # noqa: E402
from nirbridge.importers.frameworks.snntorch import neuron_specs  # noqa: E402
from nirbridge.network.apply import apply  # noqa: E402
from nirbridge.network.operators import Chain, Conv, Dense, Operator, Scale, Sparse, SumPool  # noqa: E402
from nirbridge.verification import self_check as checks  # noqa: E402
from nirbridge.verification.large import check as large  # noqa: E402
from nirbridge.verification.large import restricted as parts  # noqa: E402
from nirbridge.verification.large.restricted import TooManySynapses, restricted  # noqa: E402

with quiet():
    import snntorch as snn

pytestmark = pytest.mark.filterwarnings("ignore::nirbridge.errors.ExportWarning")
SAMPLE = torch.rand((1, 2, 8, 8), generator=torch.Generator().manual_seed(1))


def net() -> Any:
    """Two convolutions with a pool, and a layer that hears all; at most 64 neurons but in the first population."""
    torch.manual_seed(0)
    neuron = {"beta": 0.9, "init_hidden": True}
    module = nn.Sequential(
        nn.Conv2d(2, 3, 3, padding=1), snn.Leaky(**neuron), nn.AvgPool2d(2), nn.Conv2d(3, 4, 3, padding=1),
        snn.Leaky(**neuron), nn.Flatten(), nn.Linear(64, 5), snn.Leaky(**neuron))  # fmt: skip
    for weight in (p for p in module.parameters() if p.ndim > 1):
        weight.data = 4 * weight.data + weight.data.abs().mean()
    return module


@pytest.fixture(params=["reduced", "sampled"])
def kind(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Every module is too large for the default check, or for the reduced one also."""
    monkeypatch.setattr(checks, "AFFORDABLE", 100)
    if request.param == "sampled":
        monkeypatch.setattr(large, "REDUCED", 0)
    return request.param


def checked(module: Any, graph: Any) -> dict[str, Any]:
    return checks.self_check(module, SAMPLE, graph, neuron_specs(), None)


def test_a_right_import_is_equal_in_what_is_compared(kind: str) -> None:
    module = net()
    state = {name: value.clone() for name, value in module.state_dict().items()}
    found = json.loads(from_snntorch(module, SAMPLE).metadata["nirbridge:self_check"])
    assert found["outcome"] == kind
    if kind == "reduced":
        assert found["text"].startswith(
            "reduced: equal in 8 time steps, 1 sample; identical on 80 outputs (1 random input"
        )
        assert found["outputs"] == 2 * 8 * 5
    else:
        text = "sampled: equal in up to 64 neurons of each of 3 populations, 8 time steps, 1 sample ("
        assert found["text"].startswith(text)
        fired = int(found["text"].removeprefix(text).split(" ")[0])
        assert 60 < fired <= 64 + 64 + 5
        assert found["outputs"] == 8 * 5
    assert all(torch.equal(value, state[name]) for name, value in module.state_dict().items())


def _weight(graph: Any) -> None:
    graph.nodes["6"].weight[1] += 0.05


def _kernel(graph: Any) -> None:
    graph.nodes["3"].weight = graph.nodes["3"].weight[:, :, ::-1].copy()


def _swapped(graph: Any) -> None:
    graph.nodes["3"].weight[[0, 1]] = graph.nodes["3"].weight[[1, 0]]


def _bias(graph: Any) -> None:
    graph.nodes["0"].bias[2] += 1e-2


def _decay(graph: Any) -> None:
    graph.nodes["4"].tau *= 0.9
    graph.nodes["4"].metadata.pop("nirbridge:decay", None)


def _threshold(graph: Any) -> None:
    graph.nodes["7"].v_threshold *= 0.5


def _reset(graph: Any) -> None:
    for name in ("1", "4", "7"):
        graph.nodes[name].metadata["nirbridge:reset"] = "to-value"
    graph.metadata["nirbridge:reset"] = "to-value"


def _padding(graph: Any) -> None:
    """Each output of the second convolution hears the inputs one row above those that it should hear."""
    weight = np.zeros((4, 3, 3, 3), np.float32)
    weight[:, :, 1:] = graph.nodes["3"].weight[:, :, :-1]
    graph.nodes["3"].weight = weight


@pytest.mark.parametrize("change", [_weight, _kernel, _swapped, _bias, _decay, _threshold, _reset, _padding])
def test_a_wrong_import_is_refused_with_the_place(change: Callable[[Any], None], kind: str) -> None:
    module = net()
    graph = copy.deepcopy(from_snntorch(module, SAMPLE, check=0))
    change(graph)
    with pytest.raises(UnequalImport, match=r"self-check: .*time step \d+, sample 0, neuron \(.*the module gives"):
        checked(module, graph)


def test_sampled_neurons_are_named_by_their_place_in_the_population(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checks, "AFFORDABLE", 100)
    monkeypatch.setattr(large, "REDUCED", 0)
    module = net()
    graph = copy.deepcopy(from_snntorch(module, SAMPLE, check=0))
    graph.nodes["0"].weight[2] += 0.5  # the last of three channels
    with pytest.raises(UnequalImport, match=r"population '1', time step 0, sample 0, neuron \(2, \d, \d\)"):
        checked(module, graph)


class Recurrent(nn.Module):
    """Spikes of the previous time step come back; forward takes whole sequences."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(2)
        self.layer, self.back = nn.Linear(6, 70), nn.Linear(70, 70)
        self.lif = snn.Leaky(beta=0.8)

    def forward(self, x: Any) -> Any:
        mem, spikes, out = self.lif.init_leaky(), torch.zeros(x.shape[1], 70), []
        for values in x:
            spikes, mem = self.lif(3 * self.layer(values) + self.back(spikes), mem)
            out.append(spikes)
        return torch.stack(out)


def test_recurrence_and_whole_sequences(kind: str) -> None:
    module, sample = Recurrent(), torch.rand((12, 2, 6), generator=torch.Generator().manual_seed(1))
    graph = from_snntorch(module, sample)
    assert json.loads(graph.metadata["nirbridge:self_check"])["outcome"] == kind
    back = next(name for name, node in graph.nodes.items() if getattr(node, "weight", np.zeros(0)).shape == (70, 70))
    graph.nodes[back].weight[:] = graph.nodes[back].weight.T.copy()
    with pytest.raises(UnequalImport):
        checks.self_check(module, sample, graph, neuron_specs(), None)


def test_a_module_beyond_every_limit_is_skipped_with_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    for module, name in ((checks, "AFFORDABLE"), (large, "REDUCED"), (large, "SAMPLED")):
        monkeypatch.setattr(module, name, 0)
    found = json.loads(from_snntorch(net(), SAMPLE).metadata["nirbridge:self_check"])
    assert found["outcome"] == "skipped"
    assert "force it with check=1 (--check 1)" in found["text"]


def test_the_import_tells_a_check_that_is_not_the_whole_one(kind: str) -> None:
    network = nb.load(net(), sample=SAMPLE)
    (note,) = [note for note in network.notes if "self-check" in note]
    assert note.startswith(f"import: self-check: {kind}: equal in ")
    assert note in " ".join(network.summary().split())
    assert f"self-check: {kind}" in repr(network)


def test_the_whole_check_needs_no_note_and_the_file_keeps_the_others(kind: str, tmp_path: Any) -> None:
    graph = from_snntorch(net(), SAMPLE)
    nb.save(graph, tmp_path / "of_graph.nir")
    nb.save(nb.load(graph), tmp_path / "of_network.nir")
    notes = [nb.load(tmp_path / name).notes for name in ("of_graph.nir", "of_network.nir")]
    assert notes[0] == notes[1] == nb.load(graph).notes
    assert sum(f"self-check: {kind}" in note for note in notes[0]) == 1
    whole = from_snntorch(net(), SAMPLE, check=1)
    assert not any("self-check" in note for note in nb.load(whole).notes)


# -- operators of some of the neurons --------------------------------------------------------------------------------


def operators() -> list[Operator]:
    source = np.random.default_rng(0)
    conv = Conv(source.standard_normal((4, 1, 3, 2)), (2, 1), ((1, 0), (0, 1)), (1, 2), 2, (2, 7, 6))
    pool = SumPool((2, 2), (2, 2), ((0, 0), (1, 0)), conv.output_shape, 0.25)
    size = int(np.prod(pool.output_shape))
    dense = Dense(source.standard_normal((5, size)))
    rows = [np.array([0, 3]), np.array([], int), np.array([1])]
    indptr = np.cumsum([0, *(len(row) for row in rows)])
    sparse = Sparse(indptr, np.concatenate(rows), source.standard_normal(3), (4,), (3,))
    return [conv, pool, dense, sparse, Scale(source.standard_normal((3, 2))), Chain((conv, pool))]


@pytest.mark.parametrize("operator", operators(), ids=lambda o: type(o).__name__)
def test_some_outputs_of_an_operator_are_those_of_the_whole_one(operator: Operator) -> None:
    x = np.random.default_rng(1).standard_normal((3, *operator.input_shape))
    whole = apply(operator, x).reshape(3, -1)
    for rows in (np.arange(whole.shape[1]), np.arange(whole.shape[1])[::3], np.array([whole.shape[1] - 1])):
        part, columns = restricted(operator, rows)
        np.testing.assert_allclose(apply(part, x.reshape(3, -1)[:, columns]), whole[:, rows], rtol=1e-12)


def test_too_many_synapses_are_not_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parts, "MOST_SYNAPSES", 11)
    dense = Dense(np.ones((4, 3)))
    assert restricted(dense, np.arange(3))[1].tolist() == [0, 1, 2]
    with pytest.raises(TooManySynapses):
        restricted(dense, np.arange(4))
