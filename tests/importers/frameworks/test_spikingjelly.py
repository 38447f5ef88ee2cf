"""spikingjelly 2.0.0: every supported neuron compared with the simulator, 3 seeds, 100 time steps, batch of 4."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

import nirbridge as nb
from nirbridge.arrays import Array
from nirbridge.errors import ModelError
from nirbridge.importers.frameworks import spikingjelly as reader
from nirbridge.network import from_nir
from nirbridge.simulators.simulate import simulate
from tests.importers.lowering.one_population import NEURONS, is_lively, measure, refusal
from tests.simulators.reference.frameworks import grid_weights

torch = pytest.importorskip("torch", reason="torch is not installed")
with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # deprecations of what spikingjelly imports are not this project's
    jelly = pytest.importorskip("spikingjelly.activation_based", reason="spikingjelly is not installed")
    from spikingjelly.activation_based import functional, layer, surrogate  # type: ignore[import-not-found]
    from spikingjelly.activation_based import neuron as nodes  # type: ignore[import-not-found]

Case = tuple[Callable[[], Any], float, dict[str, Any]]


def thresholds(count: int) -> tuple[Any, Any]:
    return torch.linspace(0.5, 1, count), torch.linspace(-0.1, 0.2, count)


def linear_container(step_mode: str = "s") -> Any:
    module = layer.LinearRecurrentContainer(nodes.LIFNode(), NEURONS, NEURONS, step_mode=step_mode)
    module.rc.weight.data = torch.from_numpy(grid_weights((NEURONS, 2 * NEURONS), 0.1, 2))
    module.rc.bias.data = torch.from_numpy(grid_weights((NEURONS,), 0.1, 3))
    return module


class Above(surrogate.SurrogateFunctionBase):  # type: ignore[misc]
    """A spike above the threshold only."""

    @staticmethod
    def spiking_function(x: Any) -> Any:
        return (x > 0).to(x)


def cuba_per_neuron() -> Any:
    decays = torch.linspace(0.2, 0.6, NEURONS), torch.linspace(0.5, 0.9, NEURONS)
    return nodes.CUBALIFNode(*map(torch.nn.Parameter, decays))


def run(module: Any, currents: Array) -> Array:
    functional.reset_net(module)
    x = torch.from_numpy(currents)
    with torch.no_grad():
        return (module(x) if module.step_mode == "m" else torch.stack([module(step) for step in x])).numpy()


CASES: dict[str, Case] = {
    "IFNode": (lambda: nodes.IFNode(), 0.1, {}),
    "IFNode, soft": (lambda: nodes.IFNode(v_reset=None), 0.1, {}),
    "IFNode, several steps": (lambda: nodes.IFNode(v_reset=-0.25, step_mode="m"), 0.1, {}),
    "SimpleIFNode": (lambda: nodes.SimpleIFNode(v_reset=-0.25), 0.1, {}),
    "IFNode, own surrogate": (lambda: nodes.IFNode(surrogate_function=Above()), 0.1, {}),
    "LIFNode, own surrogate, soft": (lambda: nodes.LIFNode(v_reset=None, surrogate_function=Above()), 0.4, {}),
    "CUBALIFNode, decays per neuron": (cuba_per_neuron, 0.1, {}),
    "HalfThresholdIFNode": (lambda: nodes.HalfThresholdIFNode(1.0), 0.1, {}),
    "ActivationAwareIFNode": (lambda: nodes.ActivationAwareIFNode(*thresholds(NEURONS)), 0.1, {}),
    "ActivationAwareIFNode, channels": (
        lambda: nodes.ActivationAwareIFNode(*thresholds(2), channel_dim=1), 0.1, {"shape": (2, 2, 4)}),
    "LIFNode": (lambda: nodes.LIFNode(), 0.4, {}),
    "LIFNode, tau 3, soft": (lambda: nodes.LIFNode(3.0, v_reset=None), 0.4, {}),
    "LIFNode, tau 3, input as it is": (
        lambda: nodes.LIFNode(3.0, decay_input=False, v_reset=-0.1, step_mode="m"), 0.2, {}),
    "SimpleLIFNode": (lambda: nodes.SimpleLIFNode(3.0, True, v_reset=0.1), 0.4, {}),
    "ParametricLIFNode": (lambda: nodes.ParametricLIFNode(3.0, v_reset=0.1), 0.4, {}),
    "ParametricLIFNode, soft": (
        lambda: nodes.ParametricLIFNode(5.0, decay_input=False, v_reset=None), 0.1, {}),
    "CUBALIFNode": (lambda: nodes.CUBALIFNode(), 0.1, {}),
    "CUBALIFNode, soft": (lambda: nodes.CUBALIFNode(0.3, 0.7, v_reset=None), 0.05, {}),
    "CUBALIFNode, reset to a value": (lambda: nodes.CUBALIFNode(0.3, 0.7, v_reset=0.2), 0.05, {}),
    "ElementWiseRecurrentContainer": (
        lambda: layer.ElementWiseRecurrentContainer(nodes.LIFNode(v_reset=None), lambda y, x: x + y), 0.3, {}),
    "LinearRecurrentContainer": (linear_container, 0.5, {"width": NEURONS}),
    "LinearRecurrentContainer, several steps": (lambda: linear_container("m"), 0.5, {"width": NEURONS}),
}  # fmt: skip


def both(case: Case) -> tuple[Array, Array]:
    make, scale, options = case
    return measure(make, reader.neuron_specs(), run, scale=scale, **options)


@pytest.mark.parametrize("name", CASES)
def test_every_output_spike_is_that_of_the_module(name: str) -> None:
    theirs, mine = both(CASES[name])
    assert is_lively(theirs)
    np.testing.assert_array_equal(mine, theirs)


@pytest.mark.parametrize("name", reader._STEPS)
def test_surrogates_that_are_accepted_are_steps_at_zero(name: str) -> None:
    below, above = torch.tensor([-2.0, -1e-30]), torch.tensor([0.0, 1e-30, 3.0])
    with torch.no_grad():
        function = getattr(surrogate, name)()
        assert not function(below).any()
        assert torch.equal(function(above), torch.ones(3))


def test_every_neuron_of_the_package_is_read_or_refused() -> None:
    """Base classes and records are not neurons; readouts without spikes are recognised by what they compute."""
    not_neurons = {
        "NonSpikingIFNode",
        "NonSpikingLIFNode",
        "BaseNode",
        "SimpleBaseNode",
        "NonSpikingBaseNode",
        "NoisyNonSpikingBaseNode",
    }
    names = {n for n in dir(nodes) if n.endswith(("Node", "PSN", "FlexSN")) and n not in not_neurons}
    known = {cls.__name__ for cls in reader.neuron_specs()}
    assert names <= known


refusal_of = partial(refusal, reader.neuron_specs())


def test_a_surrogate_of_the_user_says_itself_how_it_compares() -> None:
    """On whole numbers a potential often is the threshold."""
    network = from_nir(reader.from_spikingjelly(nodes.IFNode(surrogate_function=Above()), torch.zeros(1, 3)))
    assert network.populations[0].neuron.compare == ">"
    assert simulate(network, np.ones((3, 3), np.float32)).recording.arrays["output", "s"].sum(0).tolist() == [1, 1, 1]

    class Ramp(Above):
        @staticmethod
        def spiking_function(x: Any) -> Any:
            return x.clamp(0, 1)

    assert "surrogate_function is Ramp" in refusal_of(nodes.IFNode(surrogate_function=Ramp()))


class Potential(torch.nn.Module):
    """A last neuron that never fires, and is read for its membrane; ``several`` steps in a loop of forward."""

    def __init__(self, node: Any, several: bool) -> None:
        super().__init__()
        self.first, self.last, self.several = nodes.IFNode(), node, several

    def forward(self, x: Any) -> Any:
        if not self.several:
            self.last(self.first(x))
            return self.last.v
        functional.reset_net(self)
        out = []
        for now in x:
            self.last(self.first(now))
            out.append(self.last.v)
        return torch.stack(out)


@pytest.mark.parametrize("several", [False, True])
@pytest.mark.parametrize("options", [{"v_reset": None}, {"v_reset": 0.25}], ids=str)
def test_a_membrane_that_is_read_after_each_call_is_an_output(options: dict[str, Any], several: bool) -> None:
    module = Potential(nodes.LIFNode(4.0, v_threshold=reader.NEVER, **options), several)
    x = np.random.default_rng(0).integers(0, 3, (20, 2, 5)).astype(np.float32) / 4
    graph = reader.from_spikingjelly(module, torch.zeros(*((6, 1, 5) if several else (1, 5))))
    network = from_nir(graph)
    assert network.population("last").neuron.theta is None
    functional.reset_net(module)
    with torch.no_grad():
        wanted = module(torch.from_numpy(x)) if several else torch.stack([module(now) for now in torch.from_numpy(x)])
    assert wanted.any()
    (found,) = simulate(network, x).recording.arrays.values()
    np.testing.assert_allclose(found, wanted.numpy(), rtol=0, atol=1e-6)


def test_a_membrane_that_other_neurons_take_is_refused() -> None:
    class Onward(Potential):
        def forward(self, x: Any) -> Any:
            self.first(x)
            return self.last(self.first.v)

    with pytest.raises(ModelError, match="it works on a state of 'first', not on its spikes"):
        reader.from_spikingjelly(Onward(nodes.IFNode(), several=False), torch.zeros(1, 5))


def test_refusals_say_the_reason() -> None:
    assert "QIFNode: a membrane that is not linear" in refusal_of(nodes.QIFNode())
    assert "spiking = False" in refusal_of(nodes.IFNode(surrogate_function=surrogate.Sigmoid(spiking=False)))
    assert "PoissonPass" in refusal_of(nodes.IFNode(surrogate_function=surrogate.PoissonPass()))
    assert "use MaxPool2d over spikes" in refusal_of(layer.MaxPool3d(2))


def test_containers_are_read_around_one_neuron_and_with_a_sum_only() -> None:
    held = layer.LinearRecurrentContainer(torch.nn.Linear(4, NEURONS), NEURONS, NEURONS)
    assert "it holds a Linear" in refusal_of(held)
    product = layer.ElementWiseRecurrentContainer(nodes.IFNode(), lambda y, x: y * x)
    assert "is not the sum" in refusal_of(product)


@pytest.mark.parametrize("shape", [(3, 1, 1), (1, 3, 1, 1), (1, 1, 1)])
def test_a_plif_may_have_a_decay_for_each_channel(shape: tuple[int, ...]) -> None:
    node = nodes.ParametricLIFNode(v_reset=0.1)
    node.w = torch.nn.Parameter(torch.linspace(-1, 1, math.prod(shape)).reshape(shape))
    module = torch.nn.Sequential(layer.Conv2d(2, 3, 3, padding=1), node)
    network = nb.load(module, sample=torch.rand(1, 2, 5, 5), dt=1e-3)
    expected = 1.0 - np.broadcast_to(node.w.sigmoid().detach().double().numpy().reshape(-1, 1, 1), (3, 5, 5))
    assert np.array_equal(np.broadcast_to(network.populations[0].neuron.a_mem, (3, 5, 5)), expected)


def test_decays_of_another_shape_than_the_neurons_are_refused() -> None:
    node = nodes.ParametricLIFNode()
    node.w = torch.nn.Parameter(torch.zeros(2, 3, 5, 5))
    module = torch.nn.Sequential(layer.Conv2d(2, 3, 3, padding=1), node)
    with pytest.raises(ModelError, match=r"w has shape \(2, 3, 5, 5\), its neurons have shape \(3, 5, 5\)"):
        nb.load(module, sample=torch.rand(2, 2, 5, 5), dt=1e-3)
