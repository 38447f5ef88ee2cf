"""Thresholds that adapt in Sinabs (ALIF) and Norse (LSNN): spike for spike the framework's own forward."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from nirbridge.arrays import Array
from nirbridge.errors import ModelError
from nirbridge.importers.frameworks.norse import from_norse
from nirbridge.importers.frameworks.sinabs import from_sinabs
from nirbridge.network.equality import same_network
from nirbridge.network.model import Network
from nirbridge.network.nir.from_nir import from_nir
from nirbridge.network.nir.to_nir import to_nir
from nirbridge.simulators.simulate import simulate
from nirbridge.simulators.types import Probe

torch = pytest.importorskip("torch", reason="the importers read torch modules")

STEPS = 150


def spikes_of(network: Network, x: Array) -> Array:
    """Spikes of the one population, ``[steps, neurons]``."""
    (population,) = network.populations
    recording = simulate(network, x[:, None], record=[Probe("*", ("s",))], dtype="float64").recording
    return recording.arrays[population.name, "s"][:, 0]


def without_adaptation(network: Network) -> Network:
    populations = tuple(replace(p, neuron=replace(p.neuron, adaptation=None)) for p in network.populations)
    return replace(network, populations=populations)


def sinabs_layers() -> dict[str, Any]:
    sl = pytest.importorskip("sinabs.layers", reason="the importer of Sinabs is tried")
    act = pytest.importorskip("sinabs.activation", reason="the importer of Sinabs is tried")
    linear = torch.nn.Linear(4, 4)
    return {
        "plain": sl.ALIF(tau_mem=10.0, tau_adapt=20.0, norm_input=False),
        "normed": sl.ALIF(tau_mem=6.0, tau_adapt=12.0, adapt_scale=0.7, spike_threshold=torch.tensor(0.2)),
        "several": sl.ALIF(tau_mem=8.0, tau_adapt=9.0, spike_fn=act.MultiSpike, norm_input=False, adapt_scale=2.5),
        "fixed amount": sl.ALIF(8.0, 9.0, norm_input=False, reset_fn=act.MembraneSubtract(subtract_value=0.5)),
        "to a value": sl.ALIF(8.0, 9.0, norm_input=False, reset_fn=act.MembraneReset()),
        "synapse": sl.ALIF(8.0, 9.0, tau_syn=5.0, norm_input=False),
        "normed synapse": sl.ALIF(4.0, 9.0, tau_syn=5.0, spike_threshold=torch.tensor(0.1), adapt_scale=0.5),
        "floor": sl.ALIF(8.0, 9.0, norm_input=False, min_v_mem=-0.25),
        "each": sl.ALIF(*map(torch.tensor, ([3.0, 5.0, 8.0, 20.0], [2.0, 4.0, 30.0, 8.0])), norm_input=False),
        "decays": sl.ALIF(tau_mem=8.0, tau_adapt=9.0, train_alphas=True, norm_input=False),
        "recurrent": sl.ALIFRecurrent(tau_mem=8.0, tau_adapt=9.0, rec_connect=linear, norm_input=False),
    }


SINABS = ("plain", "normed", "several", "fixed amount", "to a value", "synapse", "normed synapse", "floor", "each")


@pytest.mark.parametrize("name", [*SINABS, "decays", "recurrent"])
def test_alif_of_sinabs_fires_as_imported(name: str) -> None:
    torch.manual_seed(0)
    layer = sinabs_layers()[name]
    x = torch.rand(1, STEPS, 4) * 1.5 - 0.2
    network = from_nir(from_sinabs(layer, x))
    layer.reset_states()
    with torch.no_grad():
        expected = layer(x)[0].numpy()
    np.testing.assert_array_equal(spikes_of(network, x[0].numpy()), expected)
    assert (spikes_of(without_adaptation(network), x[0].numpy()) != expected).sum() > 20
    assert same_network(from_nir(to_nir(network)), network)


def norse_cells() -> dict[str, Any]:
    norse = pytest.importorskip("norse.torch", reason="the importer of Norse is tried")
    p = norse.LSNNParameters(
        tau_adapt_inv=torch.tensor(30.0),
        tau_mem_inv=torch.tensor(200.0),
        beta=torch.tensor(0.4),
        v_th=torch.tensor(0.4),
    )
    other = p._replace(v_leak=torch.tensor(0.1), v_reset=torch.tensor(-0.2), tau_adapt_inv=torch.tensor(100.0))
    return {
        "cell": norse.LSNN(p),
        "as it is": norse.LSNN(norse.LSNNParameters(v_th=torch.tensor(0.3), beta=torch.tensor(0.02))),
        "leak": norse.LSNN(other),
        "after a bias": norse.SequentialState(torch.nn.Linear(4, 4), norse.LSNN(other)),
        "lifted": norse.SequentialState(norse.Lift(norse.LSNNCell(p))),
        "recurrent": norse.LSNNRecurrent(4, 4, other),
    }


@pytest.mark.parametrize("name", ["cell", "as it is", "leak", "after a bias", "lifted", "recurrent"])
def test_lsnn_of_norse_fires_as_imported(name: str) -> None:
    torch.manual_seed(0)
    module = norse_cells()[name]
    x = torch.rand(STEPS, 1, 4) * 0.8
    network = from_nir(from_norse(module, x))
    with torch.no_grad():
        found = module(x)
        while isinstance(found, tuple):
            found = found[0]
        expected = found[:, 0].numpy()
    np.testing.assert_array_equal(spikes_of(network, x[:, 0].numpy()), expected)
    assert (spikes_of(without_adaptation(network), x[:, 0].numpy()) != expected).sum() > 20
    assert {int(np.max(p.delay_steps)) for p in network.projections if p.source == "input"} == {1}
    assert same_network(from_nir(to_nir(network)), network)


def test_an_adaptation_that_is_none_of_a_threshold_is_refused_by_name() -> None:
    norse = pytest.importorskip("norse.torch", reason="the importer of Norse is tried")
    with pytest.raises(ModelError, match="made with adjoint"):
        from_norse(norse.LSNN(adjoint=True), torch.rand(5, 1, 4))
    rockpool = pytest.importorskip("rockpool.nn.modules", reason="the importer of Rockpool is tried")
    from nirbridge.importers.frameworks.rockpool import from_rockpool

    with pytest.raises(ModelError, match=r"a current from its own spikes \(iahp"):
        from_rockpool(rockpool.aLIFTorch((4, 4)), torch.rand(1, 5, 4))
