"""rockpool 3.1.0: every supported module compared with the simulator, 3 seeds, 100 time steps, a batch of 4."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

from nirbridge.arrays import Array
from nirbridge.errors import ModelError
from nirbridge.importers.frameworks import rockpool as reader
from nirbridge.importers.neuron_specs import quietly
from nirbridge.network.nir.from_nir import from_nir
from nirbridge.simulators.simulate import simulate
from tests.importers.lowering.one_population import NEURONS, is_lively, measure, refusal
from tests.packages import package
from tests.simulators.reference.frameworks import grid_weights

torch = pytest.importorskip("torch", reason="torch is not installed")
modules = package("rockpool.nn.modules.torch")

Case = tuple[Callable[[], Any], float, dict[str, Any]]


def spread(low: float, high: float) -> Any:
    return torch.linspace(low, high, NEURONS)


def per_neuron() -> Any:
    return modules.LIFTorch(
        NEURONS, tau_mem=spread(5e-3, 3e-2), tau_syn=spread(5e-3, 3e-2)[:, None], threshold=spread(0.5, 2),
        bias=spread(-0.1, 0.1), dt=2e-3,
    )  # fmt: skip


def shifts() -> Any:
    return modules.LIFTorch(NEURONS, leak_mode="bitshifts", dash_mem=torch.tensor(3.0), dash_syn=torch.tensor(2.0))


def decays() -> Any:
    return modules.LIFTorch(NEURONS, leak_mode="decays", alpha=torch.tensor(0.9), beta=torch.tensor(0.7))


def recurrent() -> Any:
    weight = torch.from_numpy(grid_weights((NEURONS, NEURONS), 0.02, 1))
    return modules.LIFTorch(NEURONS, tau_mem=0.02, tau_syn=0.01, has_rec=True, w_rec=weight)


def few_spikes() -> Any:
    return modules.LIFTorch(NEURONS, max_spikes_per_dt=torch.tensor(2.0))


def run(module: Any, currents: Array) -> Array:
    module.reset_state()
    with torch.no_grad():
        return module(torch.from_numpy(currents).transpose(0, 1).contiguous())[0].transpose(0, 1).numpy()


CASES: dict[str, Case] = {
    "LIFTorch": (lambda: modules.LIFTorch(NEURONS, tau_mem=0.02, tau_syn=0.01), 0.05, {}),
    "LIFTorch, per neuron": (per_neuron, 0.1, {"dt": 2e-3}),
    "LIFTorch, decays": (decays, 0.1, {}),
    "LIFTorch, bitshifts": (shifts, 0.1, {}),
    "LIFTorch, recurrent": (recurrent, 0.02, {}),
    "LIFTorch, two spikes a step": (few_spikes, 0.1, {}),
    "LIFBitshiftTorch": (lambda: modules.LIFBitshiftTorch(NEURONS, tau_mem=0.02, tau_syn=0.01), 0.1, {}),
    "LIFNeuronTorch": (lambda: modules.LIFNeuronTorch(NEURONS, tau_mem=0.02, bias=0.05), 0.1, {}),
}


def both(case: Case) -> tuple[Array, Array]:
    make, scale, options = case
    return measure(make, reader.neuron_specs(), run, scale=scale, **options)


@pytest.mark.parametrize("name", CASES)
def test_every_output_spike_is_that_of_the_module(name: str) -> None:
    theirs, mine = both(CASES[name])
    assert is_lively(theirs)
    np.testing.assert_array_equal(mine, theirs)


def test_a_read_out_has_the_current_of_the_module() -> None:
    """B (i + x) is rounded once, B i + B x twice."""
    theirs, mine = both((lambda: modules.ExpSynTorch(NEURONS, tau=0.02), 0.1, {}))
    assert np.ptp(theirs) > 1
    np.testing.assert_allclose(mine, theirs, rtol=0, atol=1e-5)


refusal_of = partial(refusal, reader.neuron_specs())


def test_several_synapses_and_noise_are_refused() -> None:
    assert "2 synapses per neuron" in refusal_of(modules.LIFTorch((2 * NEURONS, NEURONS)))
    text = refusal_of(modules.LIFTorch(NEURONS, noise_std=0.1, dt=2e-3, threshold=torch.tensor(0.0)))
    assert len(text.splitlines()) == 3
    assert "noise_std is not 0" in text
    assert "dt = 0.002 s" in text
    assert "not above 0" in text
    assert "a rate, not spikes" in refusal_of(modules.RateTorch(NEURONS))


def test_hardware_parts_are_not_imported() -> None:
    reader.neuron_specs()
    assert "samna" not in sys.modules


# -- SynNet ----------------------------------------------------------------------------------------------------------


def synnet(output: str, **options: Any) -> Any:
    networks = pytest.importorskip("rockpool.nn.networks.synnet")
    torch.manual_seed(0)
    sizes = {"size_hidden_layers": [12, 8], "time_constants_per_layer": [2, 4]}
    with quietly():
        net = networks.SynNet(n_channels=8, n_classes=3, output=output, **sizes, **options)
    for layer in (net.seq[0], net.seq[2], net.seq[4]):
        layer.weight.data = torch.round(layer.weight.data * 8192) / 1024
    net.seq[4].weight.data.abs_()
    return net


def drive(steps: int = 20) -> Any:
    return (torch.rand((2, steps, 8), generator=torch.Generator().manual_seed(1)) < 0.4).float()


def of_import(graph: Any, x: Any) -> Array:
    network = from_nir(graph)
    return np.swapaxes(simulate(network, np.swapaxes(x.numpy(), 0, 1)).recording["output"], 0, 1)


@pytest.mark.parametrize("output", ["spikes", "vmem"])
def test_a_synnet_gives_spikes_or_potentials(output: str) -> None:
    net, x = synnet(output), drive()
    graph = reader.from_rockpool(net, x, check=2)
    assert json.loads(graph.metadata["nirbridge:self_check"])["outcome"] == "identical"
    wanted = net.evolve(x)[0].detach().numpy()
    assert np.ptp(wanted) >= 1
    np.testing.assert_allclose(of_import(graph, x), wanted, rtol=0, atol=1e-5)
    note = "seq.out_neurons: its potential is the output, exact while it stays below its threshold 32767"
    assert (note in graph.metadata["nirbridge:notes"]) == (output == "vmem")
    assert net.output == output
    assert type(net.seq.out_neurons) is modules.LIFTorch


def test_a_synnet_inside_another_module_gives_potentials() -> None:
    net, x = torch.nn.Sequential(synnet("vmem").to_torch()), drive()
    net[0]._record = True
    graph = reader.from_rockpool(net, x, check=2)
    assert json.loads(graph.metadata["nirbridge:self_check"])["outcome"] == "identical"
    assert "0.seq.out_neurons: its potential" in graph.metadata["nirbridge:notes"]


def test_a_potential_with_noise_is_refused() -> None:
    with pytest.raises(ModelError, match="noise_std is not 0"):
        reader.from_rockpool(synnet("vmem", neuron_kwargs={"noise_std": torch.tensor(0.1)}), drive())
