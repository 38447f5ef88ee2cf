"""Delays of published models: spikingjelly's ``layer.Delay``, histories, convolutions over time, DCLS."""

from __future__ import annotations

import collections
from typing import Any

import numpy as np
import pytest

from nirbridge.errors import ModelError, UnequalImport
from nirbridge.importers.neuron_specs import quietly
from nirbridge.network import Network, from_nir
from nirbridge.simulators.simulate import simulate
from tests.importers.small_nets import FEATURES, imported, nn, notes_of_equal, snn, spikes, torch

with quietly():
    pytest.importorskip("spikingjelly.activation_based", reason="spikingjelly is not installed")
    from spikingjelly.activation_based import functional, layer, neuron
pytestmark = pytest.mark.filterwarnings("ignore")
STEPS = 20


def drawn(module: Any) -> Any:
    """The module in eval mode with parameters on a grid, biases among them, so large that neurons fire."""
    source = torch.Generator().manual_seed(0)
    for value in (p for p in module.parameters() if p.numel() > 1):
        value.data = torch.randint(-40, 60, value.shape, generator=source) / 32
    return module.eval()


def delays(network: Network) -> set[int]:
    return {int(p.max_delay_steps) for p in network.projections}


def equal_import(module: Any, framework: str = "spikingjelly", *, sample: Any = None) -> Network:
    """The import of a module that takes (time, batch, values), compared with a run of it besides the self-check."""
    x = spikes(STEPS, 2, FEATURES) if sample is None else sample
    graph = imported(module, x, framework)
    notes_of_equal(graph)
    network = from_nir(graph)
    functional.reset_net(module)
    with torch.no_grad():
        original = module(x).numpy()
    assert original.any()
    assert np.array_equal(simulate(network, x.numpy()).recording["output", "s"], original)
    return network


class Delayed(nn.Module):
    """Two layers and a delay at one of three places, called in a loop over time or all time steps at once."""

    def __init__(self, place: int, steps: int = 3, mode: str = "s") -> None:
        super().__init__()
        parts = [layer.Linear(FEATURES, 10), neuron.LIFNode(), layer.Linear(10, 4), neuron.LIFNode()]
        parts.insert(place, layer.Delay(steps))
        self.net = drawn(nn.Sequential(*parts))
        functional.set_step_mode(self, mode)
        self.mode = mode

    def forward(self, x: Any) -> Any:
        return self.net(x) if self.mode == "m" else torch.stack([self.net(now) for now in x])


@pytest.mark.parametrize("mode", ["s", "m"])
@pytest.mark.parametrize("place", [0, 1, 2, 4])
def test_a_delay_module_is_a_delay(place: int, mode: str) -> None:
    assert delays(equal_import(Delayed(place, mode=mode))) == {0, 3}


def test_a_delay_module_may_be_longer_than_the_trace() -> None:
    assert delays(equal_import(Delayed(2, 15))) == {0, 15}


def test_a_constant_in_front_of_a_delay_is_late_too() -> None:
    network = equal_import(Delayed(1))
    always = network.population("always")
    assert (always.size, bool(always.neuron.bias > always.neuron.theta)) == (1, True)


def test_a_delay_that_is_called_once_per_time_step() -> None:
    graph = imported(drawn(Delayed(2).net), spikes(2, FEATURES), "spikingjelly")
    notes_of_equal(graph)
    assert delays(from_nir(graph)) == {0, 3}


class Twice(nn.Module):
    """One queue for the values of two layers."""

    def __init__(self) -> None:
        super().__init__()
        self.fc, self.cell, self.late = layer.Linear(FEATURES, FEATURES), neuron.LIFNode(), layer.Delay(2)

    def forward(self, x: Any) -> Any:
        return torch.stack([self.late(self.cell(self.fc(self.late(now)))) for now in x])


def test_a_delay_called_twice_per_time_step_is_refused() -> None:
    with pytest.raises(ModelError, match="module 'late': a delay called 24 times in 12 time steps"):
        imported(drawn(Twice()), spikes(STEPS, 2, FEATURES), "spikingjelly")


# -- histories -----------------------------------------------------------------------------------------------------


class History(nn.Module):
    """Two layers of snnTorch in a loop over time; ``past`` has what the second one is given."""

    def __init__(self, steps: int = 4) -> None:
        super().__init__()
        self.steps = steps
        self.fc1, self.fc2, self.fc3 = nn.Linear(FEATURES, 10), nn.Linear(10, 4), nn.Linear(10, 4)
        self.lif1, self.lif2 = snn.Leaky(beta=0.75, threshold=0.5), snn.Leaky(beta=0.5, threshold=0.5)
        drawn(self)

    def forward(self, x: Any) -> Any:
        mem1, mem2, out = self.lif1.init_leaky(), self.lif2.init_leaky(), []
        self.begin(x)
        for t in range(x.shape[0]):
            spk, mem1 = self.lif1(self.fc1(self.seen(x, t)), mem1)
            spk, mem2 = self.lif2(self.past(spk, t), mem2)
            out.append(spk)
        return torch.stack(out)

    def begin(self, x: Any) -> None:
        self.history: Any = []

    def seen(self, x: Any, t: int) -> Any:
        return x[t]

    def past(self, spk: Any, t: int) -> Any:
        return self.fc2(spk)


class Queue(History):
    def begin(self, x: Any) -> None:
        self.history = collections.deque([torch.zeros(x.shape[1], 10)] * (self.steps + 1), maxlen=self.steps + 1)

    def past(self, spk: Any, t: int) -> Any:
        self.history.append(spk)
        return self.fc2(self.history[0]) + self.fc3(self.history[-2])


class Spikes(History):
    def past(self, spk: Any, t: int) -> Any:
        self.history.append(spk)
        return self.fc2(self.history[t - self.steps] if t >= self.steps else torch.zeros_like(spk))


class Skipped(Spikes):
    def past(self, spk: Any, t: int) -> Any:
        self.history.append(spk)
        current = self.fc3(spk)
        if t >= self.steps:
            current = current + nn.functional.linear(self.history[t - self.steps], self.fc2.weight)
        return current


class Pointer(History):
    """A ring with a pointer: the place that is read is written next."""

    def begin(self, x: Any) -> None:
        self.history = torch.zeros(self.steps, x.shape[1], 10)

    def past(self, spk: Any, t: int) -> Any:
        late = self.fc2(self.history[t % self.steps].clone())
        self.history[t % self.steps] = spk
        return late


class PerNeuron(History):
    """Axonal delays: each neuron has its own."""

    def past(self, spk: Any, t: int) -> Any:
        self.history = [spk, *(self.history or [torch.zeros_like(spk)] * self.steps)[: self.steps]]
        return self.fc2(torch.stack([self.history[k % (self.steps + 1)][:, k] for k in range(10)], dim=1))


class Inputs(History):
    def seen(self, x: Any, t: int) -> Any:
        return x[t] + (x[t - self.steps] if t >= self.steps else torch.zeros_like(x[0]))


HISTORIES = {
    Queue: {0, 1, 4},
    Spikes: {0, 4},
    Skipped: {0, 4},
    Pointer: {0, 4},
    PerNeuron: {0, 1, 2, 3, 4},
    Inputs: {0, 4},
}


@pytest.mark.parametrize("kind", HISTORIES, ids=lambda kind: kind.__name__)
def test_a_history_is_a_delay(kind: Any) -> None:
    assert delays(equal_import(kind(), "snntorch")) == HISTORIES[kind]


@pytest.mark.parametrize("kind", [Queue, Spikes, Skipped, Pointer], ids=lambda kind: kind.__name__)
def test_a_history_may_be_longer_than_the_trace(kind: Any) -> None:
    assert max(delays(equal_import(kind(14), "snntorch"))) == 14


class Recurrent(History):
    def forward(self, x: Any) -> Any:
        mem, out = self.lif1.init_leaky(), [torch.zeros(x.shape[1], 10)] * self.steps
        for now in x:
            spk, mem = self.lif1(self.fc1(now) + out[-self.steps] @ self.fc3.weight.T @ self.fc2.weight, mem)
            out.append(spk)
        return torch.stack(out[self.steps :])


def test_neurons_may_hear_themselves_several_time_steps_later() -> None:
    assert delays(equal_import(Recurrent(), "snntorch")) == {0, 4}


class Growing(Spikes):
    """All spikes so far: no delay, since their number grows."""

    def past(self, spk: Any, t: int) -> Any:
        self.history.append(spk)
        return self.fc2(sum(0.5**k * old for k, old in enumerate(reversed(self.history))))


class Burnt(History):
    def forward(self, x: Any) -> Any:
        return super().forward(x)[2:].permute(1, 0, 2).flatten(1)


class Listed(History):
    def forward(self, x: Any) -> Any:
        return torch.cat(list(super().forward(x))[2:], dim=1)


@pytest.mark.parametrize("kind", [Growing, Burnt, Listed], ids=lambda kind: kind.__name__)
def test_what_depends_on_the_number_of_time_steps_is_refused(kind: Any) -> None:
    with pytest.raises(ModelError) as error:
        imported(kind(), spikes(STEPS, 2, FEATURES))
    assert not isinstance(error.value, UnequalImport)


class Waiting(Queue):
    """A module of one time step: the queue is kept between calls."""

    def __init__(self) -> None:
        super().__init__()
        self.lif1, self.lif2 = (snn.Leaky(beta=beta, threshold=0.5, init_hidden=True) for beta in (0.75, 0.5))
        self.history = collections.deque(maxlen=self.steps)

    def forward(self, x: Any) -> Any:
        late = self.history[0] if len(self.history) == self.steps else torch.zeros(x.shape[0], 10)
        self.history.append(self.lif1(self.fc1(x)))
        return self.lif2(self.fc2(late))


def test_a_queue_that_is_kept_between_calls() -> None:
    graph = imported(drawn(Waiting()), spikes(2, FEATURES))
    assert "imported as connections delayed by up to 4 time steps" in notes_of_equal(graph)
    assert delays(from_nir(graph)) == {0, 4}
