"""Delays of published models: spikingjelly's ``layer.Delay``, histories, convolutions over time, DCLS."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from nirbridge.errors import ModelError
from nirbridge.importers.neuron_specs import quietly
from nirbridge.network import Network, from_nir
from nirbridge.simulators.simulate import simulate
from tests.importers.small_nets import FEATURES, imported, nn, notes_of_equal, spikes, torch

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
