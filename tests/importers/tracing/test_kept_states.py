"""Loops over time in forward around neurons that keep their state, as in most SpikingJelly networks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from nirbridge.importers import from_snntorch, from_spikingjelly
from nirbridge.network import from_nir
from nirbridge.simulators.simulate import simulate
from tests.packages import package

torch = pytest.importorskip("torch", reason="torch is not installed")
snn = package("snntorch")
jelly = package("spikingjelly.activation_based.neuron")

nn = torch.nn
pytestmark = pytest.mark.filterwarnings("ignore")  # what the frameworks warn of is not this project's
STEPS, BATCH = 9, 2
NEURONS = {
    "spikingjelly LIF": (from_spikingjelly, lambda: jelly.LIFNode(tau=2.0)),
    "spikingjelly IF": (from_spikingjelly, lambda: jelly.IFNode()),
    "snntorch": (from_snntorch, lambda: snn.Leaky(beta=0.75, init_hidden=True)),
}


class Loop(nn.Module):
    """Runs its network for each time step; ``axis``: that of time; ``way``: how the outputs are put together."""

    def __init__(self, neuron: Any, axis: int, way: str) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.net = nn.Sequential(nn.Linear(6, 12), neuron(), nn.Linear(12, 4), neuron())
        with torch.no_grad():
            for layer in (self.net[0], self.net[2]):
                layer.weight.copy_(torch.round(layer.weight * 512 + 40) / 128)
                layer.bias.zero_()
        self.axis, self.way = axis, way

    def forward(self, x: Any) -> Any:
        iterations = [self.net(one) for one in x.unbind(self.axis)]
        return torch.stack(iterations) if self.way == "stack" else sum(iterations) / len(iterations)


@pytest.mark.parametrize("way", ["stack", "mean"])
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("name", NEURONS)
def test_a_loop_around_neurons_that_keep_their_state(name: str, axis: int, way: str) -> None:
    importer, neuron = NEURONS[name]
    shape = (STEPS, BATCH, 6) if axis == 0 else (BATCH, STEPS, 6)
    network = from_nir(importer(Loop(neuron, axis, way), torch.zeros(shape)))
    data = (np.random.default_rng(3).random((STEPS, BATCH, 6)) < 0.5).astype(np.float32)
    fresh = Loop(neuron, 0, "stack")
    with torch.no_grad():
        wanted = fresh(torch.from_numpy(data)).numpy()
    assert [port.shape for port in network.inputs] == [(6,)]
    (found,) = simulate(network, data).recording.arrays.values()
    assert 0.05 < wanted.mean() < 0.95
    np.testing.assert_array_equal(found, wanted)
