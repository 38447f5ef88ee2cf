"""Ends of forward that a network has no form for: functions of the host, and statistics beside the outputs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")
pytest.importorskip("snntorch", reason="snntorch is not installed")

import nirbridge as nb  # noqa: E402
from nirbridge.errors import ModelError, UnequalImport  # noqa: E402
from nirbridge.importers.lowering import described_graph  # noqa: E402
from nirbridge.network import from_nir  # noqa: E402
from tests.importers.small_nets import imported, nn, notes_of_equal, on_grid, snn, spikes  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore::nirbridge.errors.ExportWarning")
functional = nn.functional
STEPS, BATCH, FEATURES = 12, 4, 6


class Classifier(nn.Module):
    """A loop over time with neurons, a readout, and an end of its own."""

    def __init__(self, end: Callable[[Any, Any, Any], Any]) -> None:
        super().__init__()
        self.end, self.head, self.soft = end, nn.Linear(4, 3), nn.Softmax(dim=-1)
        self.fc1, self.fc2 = nn.Linear(FEATURES, 8), nn.Linear(8, 4)
        self.lif, self.readout = snn.Leaky(beta=0.75), snn.Leaky(beta=0.5, reset_mechanism="none")

    def forward(self, x: Any) -> Any:
        one, two = self.lif.init_leaky(), self.readout.init_leaky()
        hidden, membranes = [], []
        for t in range(x.shape[1]):
            fired, one = self.lif(self.fc1(x[:, t]), one)
            _, two = self.readout(self.fc2(fired), two)
            hidden.append(fired)
            membranes.append(two)
        return self.end(self, torch.stack(hidden, 1), torch.stack(membranes, 1))


def _sum_of_softmax(module: Any, hidden: Any, membranes: Any) -> Any:
    total = 0
    for now in membranes.unbind(1):
        total = total + module.soft(now)
    return total


def _softmax(values: Any) -> Any:
    return torch.softmax(torch.from_numpy(values), -1).numpy()


ENDS: dict[str, tuple[Callable[[Any, Any, Any], Any], str, Callable[[Any], Any]]] = {
    "softmax of a mean": (
        lambda m, s, v: functional.softmax(v.mean(1), dim=1), "softmax", lambda y: _softmax(y.mean(0))),
    "log_softmax of a sum": (
        lambda m, s, v: functional.log_softmax(v.sum(1), dim=-1), "log_softmax",
        lambda y: np.log(_softmax(y.sum(0)))),
    "Softmax of a layer after a mean": (
        lambda m, s, v: m.soft(m.head(s.mean(1)[:, :4])), "softmax", lambda y: _softmax(y.mean(0))),
    "softmax of the last time step": (
        lambda m, s, v: torch.softmax(v[:, -1], 1), "softmax", lambda y: _softmax(y[-1])),
    "sum of the softmax of each time step": (_sum_of_softmax, "softmax", lambda y: _softmax(y).sum(0)),
    "argmax": (lambda m, s, v: v.sum(1).argmax(-1), "argmax", lambda y: y.sum(0).argmax(-1)),
    "largest membrane": (lambda m, s, v: v.max(1)[0], "max", lambda y: y.max(0)),
    "amax": (lambda m, s, v: torch.amax(v, dim=1), "amax", lambda y: y.max(0)),
    "log_softmax of the largest membrane": (
        lambda m, s, v: torch.log_softmax(torch.max(v, 1)[0], 1), "max, log_softmax",
        lambda y: np.log(_softmax(y.max(0)))),
    "largest class of each sample": (lambda m, s, v: v.mean(1).max(1)[1], "max", lambda y: y.mean(0).argmax(-1)),
}  # fmt: skip


def _sequence() -> Any:
    return spikes(BATCH, STEPS, FEATURES)


def _outputs(graph: Any) -> Any:
    """The outputs of the import on the sequence, [time, batch, values]."""
    return nb.simulate(from_nir(graph), _sequence().numpy())["output"].astype(np.float64)


@pytest.mark.parametrize("name", ENDS)
def test_functions_at_the_end_are_left_to_the_host(name: str) -> None:
    end, function, host = ENDS[name]
    module = on_grid(Classifier(end))
    graph = imported(module, _sequence())
    assert f"forward ends with {function}, which is left to the host" in notes_of_equal(graph)
    np.testing.assert_allclose(host(_outputs(graph)), module(_sequence()).detach().numpy(), rtol=1e-5, atol=1e-5)


COUNTED: dict[str, Callable[[Any, Any, Any], Any]] = {
    "a layer after a sum": lambda m, s, v: m.head(s.sum(1)[:, :4]),
    "its largest class": lambda m, s, v: m.head(s.sum(1)[:, :4]).softmax(-1),
}


@pytest.mark.parametrize("name", COUNTED)
def test_a_bias_after_a_sum_over_time_is_added_by_the_host(name: str) -> None:
    module = on_grid(Classifier(COUNTED[name]))
    module.head.bias.data = torch.tensor([8.0, -4.0, 2.0])
    graph = imported(module, _sequence())
    assert "module 'head': its bias is left to the host, which adds it once" in notes_of_equal(graph)
    total = _outputs(graph).sum(0) + module.head.bias.detach().numpy()
    found = _softmax(total) if "class" in name else total
    np.testing.assert_allclose(found, module(_sequence()).detach().numpy(), rtol=1e-5, atol=1e-5)


class Spike(torch.autograd.Function):
    """A step with a surrogate gradient."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return (x > 0).float()

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:  # type: ignore[override]
        return grad


class ByHand(nn.Module):
    """As sparch writes it: a layer of neurons, then a readout whose softmax is summed over time; rates beside it."""

    def __init__(self) -> None:
        super().__init__()
        self.fc1, self.fc2 = nn.Linear(FEATURES, 8, bias=False), nn.Linear(8, 4, bias=False)
        self.alpha, self.beta = nn.Parameter(torch.linspace(0.5, 0.75, 8)), nn.Parameter(torch.tensor(0.75))

    def forward(self, x: Any) -> Any:
        drive, fired = self.fc1(x), []
        u = spk = torch.zeros(len(x), 8)
        for t in range(x.shape[1]):
            u = self.alpha * (u - spk) + (1 - self.alpha) * drive[:, t]
            spk = Spike.apply(u - 0.5)
            fired.append(spk)
        hidden = torch.stack(fired, 1)
        read, out, u = self.fc2(hidden), 0, torch.zeros(len(x), 4)
        for t in range(x.shape[1]):
            u = self.beta * u + (1 - self.beta) * read[:, t]
            out = out + functional.softmax(u, dim=1)
        return out, hidden.mean(dim=(0, 1))


def test_a_readout_by_hand_whose_softmax_is_summed() -> None:
    module = on_grid(ByHand(), scale=4.0)
    graph = imported(module, _sequence(), "torch")
    notes = notes_of_equal(graph)
    assert "output '0': forward ends with softmax" in notes
    assert "output '1' is a statistic of all samples or values: left out" in notes
    np.testing.assert_allclose(_softmax(_outputs(graph)).sum(0), module(_sequence())[0].detach().numpy(), atol=1e-5)


STATISTICS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "a rate": lambda m, s, v: (v, s.mean()),
    "rates of all neurons": lambda m, s, v: (v, s.mean(dim=(0, 1))),
    "spikes of each sample": lambda m, s, v: (v, s.sum(dim=(1, 2))),
    "regularisers": lambda m, s, v: {"out": v, "more": {"rate": s.mean(), "quadratic": (s.sum((1, 2)) ** 2).mean()}},
    "values of one output, and a rate": lambda m, s, v: (v, s.mean(2)),
    "the decision and its probability": lambda m, s, v: (v.sum(1), v.sum(1).argmax(1), v.sum(1).softmax(1)),
}


@pytest.mark.parametrize("name", STATISTICS)
def test_statistics_beside_the_outputs_are_left_out_and_named(name: str) -> None:
    graph = imported(on_grid(Classifier(STATISTICS[name])), _sequence())
    assert "left out, the host computes it" in notes_of_equal(graph)
    (port,) = from_nir(graph).outputs
    assert port.shape == (4,)


ALONE: dict[str, tuple[Callable[[Any, Any, Any], Any], str]] = {
    "a statistic": (lambda m, s, v: s.mean(), "a mean over the batch or time"),
    "softmax in front of neurons": (
        lambda m, s, v: m.lif(torch.softmax(s[:, -1], 1), torch.zeros(BATCH, 8))[0], "softmax"),
    "probabilities as gates": (lambda m, s, v: v[:, -1] + v[:, -1].softmax(1), "softmax"),
    "a value of a layer of its own": (
        lambda m, s, v: (v, functional.linear(s, torch.ones(1, 8)).squeeze(-1)), r"a reshape from \(1,\) to \(\)"),
    "a product of probabilities": (
        lambda m, s, v: v[:, -1].softmax(1) * v[:, 0].softmax(1), "softmax: its outputs depend on all others"),
}  # fmt: skip


@pytest.mark.parametrize("name", ALONE)
def test_other_functions_are_refused(name: str) -> None:
    end, reason = ALONE[name]
    with pytest.raises(ModelError, match=reason):
        imported(on_grid(Classifier(end)), _sequence())


@pytest.mark.parametrize("name", ENDS)
def test_values_before_the_end_are_compared(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    written = described_graph.to_graph

    def wrong(network: Any, source: str) -> Any:
        graph = written(network, source)
        graph.nodes["fc1"].weight[1] += 0.5
        return graph

    monkeypatch.setattr(described_graph, "to_graph", wrong)
    with pytest.raises(UnequalImport):
        imported(on_grid(Classifier(ENDS[name][0])), _sequence())
