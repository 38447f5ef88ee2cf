"""snnTorch's neurons compared with the simulator: identical spikes, 100 time steps x batch 4, exact sums."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nirbridge.arrays import Array
from nirbridge.errors import ModelError
from nirbridge.importers.frameworks.snntorch import from_snntorch, neuron_specs
from nirbridge.importers.lowering.build import build_network
from nirbridge.importers.tracing.trace import trace_module
from nirbridge.network import from_nir, network_differences
from nirbridge.simulators.simulate import simulate
from tests.packages import package

torch = pytest.importorskip("torch", reason="torch is not installed")
snn = package("snntorch")
nn = torch.nn

STEPS, BATCH, INPUTS = 100, 4, 24
Make = Callable[[int], Any]
RESETS = tuple(itertools.product(("zero", "subtract", "none"), (True, False)))
EXACT = tuple(r for r in RESETS if r != ("subtract", False))


def uniform(n: int, low: float, high: float) -> Any:
    return torch.rand(n) * (high - low) + low


def of(kind: str, reset: str, late: bool) -> Make:
    common: dict[str, Any] = {
        "reset_mechanism": reset,
        "init_hidden": True,
        "threshold": 3.0 if reset == "none" else 1.5,
    }
    delay = {} if kind in ("Lapicque", "RSynaptic") else {"reset_delay": late}
    makers: dict[str, Make] = {
        "Leaky": lambda n: snn.Leaky(beta=uniform(n, 0.4, 0.95), **common, **delay),
        "Synaptic": lambda n: snn.Synaptic(alpha=uniform(n, 0.2, 0.6), beta=0.7, **common, **delay),
        "RLeaky": lambda n: snn.RLeaky(beta=0.7, linear_features=n, **common, **delay),
        "RLeaky_V": lambda n: snn.RLeaky(beta=0.7, V=uniform(n, -0.5, 0.5), all_to_all=False, **common, **delay),
        "RSynaptic": lambda n: snn.RSynaptic(alpha=0.4, beta=0.6, linear_features=n, **common),
        "Lapicque": lambda n: snn.Lapicque(beta=0.8, **{**common, "threshold": 0.25}),
    }
    return makers[kind]


def on_grid(module: Any) -> Any:
    for layer in module.modules():
        if isinstance(layer, nn.Linear | nn.Conv2d):
            size = layer.weight[0].numel()
            with torch.no_grad():
                layer.weight.copy_(torch.round(torch.randn_like(layer.weight) * (3 / size**0.5) * 1024) / 1024)
                if layer.bias is not None:
                    layer.bias.copy_(torch.round(torch.randn_like(layer.bias) * 100) / 1024)
    return module.eval()


def two_layers(make: Make, seed: int) -> Any:
    torch.manual_seed(seed)
    return on_grid(nn.Sequential(nn.Linear(INPUTS, 20), make(20), nn.Linear(20, 8), make(8)))


def both(module: Any, shape: tuple[int, ...], seed: int) -> tuple[Array, Array]:
    """(the framework's output, ours); with the first seed, the network must come back from the graph as it was."""
    inputs = (torch.rand((STEPS, BATCH, *shape), generator=torch.Generator().manual_seed(seed)) < 0.3).float()
    network = from_nir(from_snntorch(module, inputs[0, 0]))
    if seed == 0:
        built = build_network(trace_module(module, inputs[0, 0], neuron_specs()), neuron_specs(), 1e-4)
        assert network_differences(built, network) == ()
    found = simulate(network, inputs.numpy()).recording.arrays
    for layer in module.modules():
        if hasattr(layer, "reset_mem"):
            layer.reset_mem()
    with torch.no_grad():
        wanted = torch.stack([module(x) for x in inputs]).numpy()
    return wanted, next(iter(found.values()))


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("reset", EXACT, ids=str)
@pytest.mark.parametrize("kind", ["Leaky", "Synaptic", "RLeaky", "RLeaky_V"])
def test_every_reset(kind: str, reset: tuple[str, bool], seed: int) -> None:
    wanted, found = both(two_layers(of(kind, *reset), seed), (INPUTS,), seed)
    assert 0.005 < wanted.mean() < 0.95
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("reset", ["zero", "subtract", "none"])
@pytest.mark.parametrize("kind", ["Lapicque", "RSynaptic"])
def test_every_reset_of_neurons_that_reset_late(kind: str, reset: str, seed: int) -> None:
    wanted, found = both(two_layers(of(kind, reset, True), seed), (INPUTS,), seed)
    assert 0.005 < wanted.mean() < 0.99
    np.testing.assert_array_equal(found, wanted)


def test_an_accepted_early_subtraction_says_what_it_changes() -> None:
    net = two_layers(of("Leaky", "subtract", False), 0)
    graph = from_snntorch(net, torch.zeros(INPUTS), check=0, accept=["early-subtraction"])
    assert "the module spikes less there" in graph.metadata["nirbridge:notes"]


@pytest.mark.parametrize(
    "make",
    [
        lambda n: snn.Leaky(beta=0.0, init_hidden=True),
        lambda n: snn.Leaky(beta=torch.tensor([0.0, 0.5] * (n // 2)), init_hidden=True),
        lambda n: snn.Leaky(beta=1.5, learn_beta=True, reset_mechanism="zero", threshold=2.0, init_hidden=True),
        lambda n: snn.Leaky(beta=0.5, threshold=uniform(n, 0.5, 2), reset_mechanism="zero", init_hidden=True),
        lambda n: snn.Leaky(beta=0.5, graded_spikes_factor=0.75, init_hidden=True),
        lambda n: snn.Leaky(beta=0.5, spike_grad=snn.surrogate.fast_sigmoid(), init_hidden=True),
        lambda n: snn.Lapicque(R=2.0, C=4.0, time_step=1.0, threshold=0.5, init_hidden=True),
    ],
    ids=["beta 0", "beta 0 and 0.5", "clamped", "thresholds", "graded", "surrogate", "R and C"],
)
def test_parameters(make: Make) -> None:
    wanted, found = both(two_layers(make, 0), (INPUTS,), 1)
    assert wanted.mean() > 0.005
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("kind", ["RLeaky", "RSynaptic"])
def test_convolutional_recurrence(kind: str) -> None:
    torch.manual_seed(0)
    more: dict[str, Any] = {"alpha": 0.4} if kind == "RSynaptic" else {}
    neurons = getattr(snn, kind)(
        beta=0.5, conv2d_channels=3, kernel_size=3, reset_mechanism="zero", init_hidden=True, **more
    )
    module = on_grid(nn.Sequential(nn.Conv2d(2, 3, 3, padding=1), neurons))
    wanted, found = both(module, (2, 5, 6), 0)
    assert wanted.mean() > 0.005
    np.testing.assert_array_equal(found, wanted)


@settings(max_examples=15, deadline=None)
@given(st.data())
def test_random_models(data: st.DataObject) -> None:
    seed = data.draw(st.integers(0, 2**20))
    torch.manual_seed(seed)
    sizes = [INPUTS, *data.draw(st.lists(st.integers(1, 16), min_size=1, max_size=3))]
    layers: list[Any] = []
    for pre, post in itertools.pairwise(sizes):
        kind = data.draw(st.sampled_from(["Leaky", "Synaptic", "RLeaky", "RLeaky_V", "RSynaptic", "Lapicque"]))
        reset = data.draw(st.sampled_from([("zero", True), ("zero", False), ("none", True)]))
        layers += [nn.Linear(pre, post, bias=data.draw(st.booleans())), of(kind, *reset)(post)]
    wanted, found = both(on_grid(nn.Sequential(*layers)), (INPUTS,), seed)
    np.testing.assert_array_equal(found, wanted)


def refused(**options: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # snnTorch warns of inhibition itself
        return snn.Leaky(beta=0.9, init_hidden=True, **options)


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: refused(inhibition=True), "inhibition"),
        (lambda: refused(state_quant=lambda x: x), "state_quant"),
        (lambda: refused(spike_grad=torch.sigmoid), "spike_grad"),
        (lambda: snn.Leaky(beta=torch.rand(5), init_hidden=True), "forward fails"),
        (lambda: snn.Alpha(0.9, 0.8, init_hidden=True), "Alpha"),
        (lambda: snn.SLSTM(20, 20, init_hidden=True), "SLSTM"),
        (lambda: snn.DeltaLeaky(1.0, 0.9, init_hidden=True), "DeltaLeaky"),
    ],
)
def test_refusals_name_the_reason(make: Callable[[], Any], text: str) -> None:
    module = nn.Sequential(nn.Linear(INPUTS, 20), make())
    with pytest.raises(ModelError, match=text):
        from_snntorch(module, torch.zeros(INPUTS))


def test_every_neuron_class_of_the_package_is_known() -> None:
    bases = {"LIF", "SpikingNeuron", "GradedSpikes"}
    classes = {getattr(snn, n) for n in dir(snn) if isinstance(getattr(snn, n), type) and n not in bases}
    assert classes == set(neuron_specs())
