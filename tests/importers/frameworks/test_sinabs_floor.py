"""The floor of the membrane in Sinabs (``min_v_mem``): its order among leak, input, spike and reset, measured."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from nirbridge.errors import ModelError
from nirbridge.importers.frameworks.sinabs import from_sinabs
from nirbridge.network.equality import same_network
from nirbridge.network.model import Network
from nirbridge.network.nir.from_nir import from_nir
from nirbridge.network.nir.to_nir import to_nir
from nirbridge.simulators.simulate import simulate
from nirbridge.simulators.types import Probe

torch = pytest.importorskip("torch", reason="the importer reads torch modules")
sl = pytest.importorskip("sinabs.layers", reason="the importer of Sinabs is tried")
activation = pytest.importorskip("sinabs.activation", reason="the importer of Sinabs is tried")

STEPS = 60


def network_of(layer: Any) -> Network:
    return from_nir(from_sinabs(layer, torch.rand(1, STEPS, 4)))


def by_hand(x: np.ndarray, floor: float) -> tuple[list[int], list[float]]:
    """An IAF of threshold 1 that fires once: input, spike, subtraction, and the floor at the end."""
    v, spikes, potentials = 0.0, [], []
    for value in x:
        v += value
        spikes.append(int(v >= 1))
        v = max(v - spikes[-1], floor)
        potentials.append(v)
    return spikes, potentials


def test_the_floor_comes_after_the_input_and_the_reset() -> None:
    """-1.5 is cut to -0.5 before the next input; an input to 3 and a floor of 2.5 leave 2.5 after the subtraction."""
    for floor, x in ((-0.5, [-1.5, 1.25, 0.5, -0.25, -4.0, 1.5]), (2.5, [3.0, 0.0, -9.0])):
        layer = sl.IAF(min_v_mem=floor, spike_fn=activation.SingleSpike, record_states=True)
        spikes = layer(torch.tensor(x)[None, :, None])[0, :, 0]
        expected = by_hand(np.array(x), floor)
        assert spikes.int().tolist() == expected[0]
        assert layer.recordings["v_mem"].reshape(-1).tolist() == expected[1]


LAYERS = [
    lambda: sl.IAF(min_v_mem=-1.0),
    lambda: sl.IAF(min_v_mem=-0.25, spike_fn=activation.SingleSpike),
    lambda: sl.LIF(tau_mem=7.0, min_v_mem=-0.5, reset_fn=activation.MembraneReset(), norm_input=False),
    lambda: sl.LIF(
        tau_mem=7.0, min_v_mem=-0.5, norm_input=False, reset_fn=activation.MembraneReset(reset_value=-0.125)
    ),
    lambda: sl.LIF(tau_mem=4.0, tau_syn=3.0, min_v_mem=-0.125, spike_threshold=0.5),
    lambda: sl.IAF(min_v_mem=0.0, reset_fn=activation.MembraneSubtract(subtract_value=2.0)),
]


@pytest.mark.parametrize("make", LAYERS)
@pytest.mark.parametrize("backend", ["reference", "fast"])
def test_spikes_are_those_of_sinabs(make: Any, backend: str) -> None:
    """Multiples of 1/8, mostly negative, so that the floor decides; without it many spikes differ."""
    layer = make()
    x = torch.from_numpy(np.random.default_rng(3).integers(-16, 16, (1, STEPS, 4)) / 8).float()
    network = network_of(layer)
    with torch.no_grad():
        expected = layer(x)[0].numpy()
    recording = simulate(network, x[0].numpy()[:, None], record=[Probe("*", ("s", "v"))], backend=backend)
    population = network.populations[0]
    found = recording.recording.arrays[population.name, "s"]
    np.testing.assert_array_equal(found[:, 0], expected)
    free = simulate(without_floor(network), x[0].numpy()[:, None], record=[Probe("*", ("s",))]).recording
    assert (free.arrays[population.name, "s"][:, 0] != expected).sum() > 3


def without_floor(network: Network) -> Network:
    populations = tuple(replace(p, neuron=replace(p.neuron, v_min=None)) for p in network.populations)
    return replace(network, populations=populations)


def test_a_floor_goes_through_nir_and_back() -> None:
    network = network_of(torch.nn.Sequential(sl.IAF(min_v_mem=-1.0), sl.LIF(tau_mem=5.0, min_v_mem=-0.5)))
    graph = to_nir(network)
    floors = [node.metadata.get("nirbridge:v_min") for node in graph.nodes.values()]
    assert sorted(float(floor) for floor in floors if floor is not None) == [-1.0, -0.5]
    assert same_network(from_nir(graph), network)


def test_a_layer_without_spikes_sends_before_its_floor_and_is_refused() -> None:
    with pytest.raises(ModelError, match="sends the potential before the floor"):
        from_sinabs(sl.ExpLeak(tau_mem=5.0, min_v_mem=-1.0), torch.rand(1, STEPS, 4))
