"""Neurons of training rules, over whole sequences and with counts of spikes; layers with fake quantization."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")
pytest.importorskip("snntorch", reason="snntorch is not installed")
pytest.importorskip("spikingjelly", reason="spikingjelly is not installed")

from nirbridge.errors import ModelError  # noqa: E402
from nirbridge.network import from_nir  # noqa: E402
from nirbridge.simulators.simulate import simulate  # noqa: E402
from tests.importers.small_nets import imported, nn, notes_of_equal, on_grid, snn, spikes  # noqa: E402

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # deprecations of what the frameworks import are not this project's
    from spikingjelly.activation_based import layer, neuron, surrogate

pytestmark = pytest.mark.filterwarnings(
    "ignore::nirbridge.errors.ExportWarning", "ignore::DeprecationWarning", "ignore::UserWarning"
)
STEPS, BATCH, FEATURES = 12, 4, 6


class Two(nn.Module):
    """Layers and neurons in turn; of neurons that return states too, the spikes."""

    def __init__(self, one: Any, two: Any, width: int = 8) -> None:
        super().__init__()
        self.fc1, self.one, self.fc2, self.two = nn.Linear(FEATURES, width), one, nn.Linear(width, 4), two

    def forward(self, x: Any) -> Any:
        hidden = self.one(self.fc1(x))
        out = self.two(self.fc2(hidden[0] if isinstance(hidden, tuple) else hidden))
        return out[0] if isinstance(out, tuple) else out


class Looped(Two):
    def forward(self, x: Any) -> Any:
        return torch.stack([Two.forward(self, now) for now in x])


def _counting(most: int, **options: Any) -> Any:
    return neuron.ILIFNode(surrogate_function=surrogate.MultiLevelSpikeCount(most), **options)


def _parametric(weights: Any) -> Any:
    node = neuron.ParametricLIFNode(step_mode="m")
    node.w = nn.Parameter(weights)
    return node


class Linears(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.one = snn.LinearLeaky(beta=0.75, in_features=FEATURES, out_features=8)
        self.two = snn.LinearLeaky(beta=torch.tensor([0.5, 0.25, 0.75, 0.9]), in_features=8, out_features=4)

    def forward(self, x: Any) -> Any:
        return self.two(self.one(x)[0])[0]


SEQUENCE, STEP = (STEPS, BATCH, FEATURES), (BATCH, FEATURES)
EXACT: dict[str, tuple[str, Callable[[], Any], tuple[int, ...]]] = {
    "StateLeaky": (
        "snntorch",
        lambda: Two(snn.StateLeaky(0.75, 8), snn.StateLeaky(torch.tensor([0.5, 0.25, 0.75, 0.9]), 4)), SEQUENCE),
    "StateLeaky as a readout": (
        "snntorch", lambda: Two(snn.StateLeaky(0.75, 8), snn.StateLeaky(0.5, 4, output=False)), SEQUENCE),
    "LinearLeaky": ("snntorch", Linears, SEQUENCE),
    "OTTTLIFNode": ("spikingjelly", lambda: Two(neuron.OTTTLIFNode(), neuron.OTTTLIFNode(tau=3.0)), STEP),
    "OTTTSequential": (
        "spikingjelly",
        lambda: layer.OTTTSequential(nn.Linear(FEATURES, 8), neuron.OTTTLIFNode(), nn.Linear(8, 4)),
        STEP),
    "SLTTLIFNode": ("spikingjelly", lambda: Looped(neuron.SLTTLIFNode(), neuron.SLTTLIFNode(v_reset=None)), SEQUENCE),
    "ILIFNode of one spike": ("spikingjelly", lambda: Two(_counting(1), _counting(1, tau=2.0)), STEP),
    "ILIFNode of two spikes": (
        "spikingjelly", lambda: Two(_counting(2, step_mode="m"), _counting(2, v_threshold=0.5, step_mode="m")),
        SEQUENCE),
    "ParametricLIFNode per neuron": (
        "spikingjelly", lambda: Two(_parametric(torch.linspace(-2, 2, 8)), _parametric(torch.zeros(()))), SEQUENCE),
    "NonSpikingLIFNode, mean": (
        "spikingjelly", lambda: Two(neuron.LIFNode(step_mode="m"), neuron.NonSpikingLIFNode(decode="mean-mem")),
        SEQUENCE),
    "NonSpikingLIFNode, last": (
        "spikingjelly", lambda: Two(neuron.LIFNode(step_mode="m"), neuron.NonSpikingLIFNode(decode="last_mem")),
        SEQUENCE),
    "NonSpikingLIFNode, largest": (
        "spikingjelly",
        lambda: Two(neuron.LIFNode(step_mode="m"), neuron.NonSpikingLIFNode(decode="max-abs-mem")), SEQUENCE),
    "NonSpikingIFNode, largest": (
        "spikingjelly", lambda: Two(neuron.IFNode(step_mode="m"), neuron.NonSpikingIFNode(decode="max-mem")), SEQUENCE),
}  # fmt: skip


@pytest.mark.parametrize("name", EXACT)
def test_imports_are_equal(name: str) -> None:
    framework, make, shape = EXACT[name]
    notes_of_equal(imported(on_grid(make()), spikes(*shape), framework))


def test_a_truncated_kernel_is_refused() -> None:
    module = Two(snn.StateLeaky(0.75, 8), snn.StateLeaky(0.5, 4, kernel_truncation_steps=3))
    with pytest.raises(ModelError, match=r"'two'.*kernel_truncation_steps=3 forgets earlier time steps"):
        imported(on_grid(module), spikes(*SEQUENCE))


def test_associative_neurons_are_refused() -> None:
    with pytest.raises(ModelError, match="multiplies keys and values"):
        imported(snn.AssociativeLeaky.from_num_spiking_neurons(FEATURES, 9), spikes(*SEQUENCE))


def test_counts_above_two_differ_halfway_alone_and_are_imported_on_request() -> None:
    module = on_grid(Two(_counting(4), _counting(4)))
    with pytest.raises(ModelError, match=r"'one'.*2\.5 thresholds it sends 2 spikes, the import 3.*half-counts"):
        imported(module, spikes(*STEP), "spikingjelly")
    node = _counting(4)
    network = from_nir(imported(node, torch.rand(1, 10), "spikingjelly", accept=("half-counts",)))
    x = torch.tensor([[0.5, 0.75, 1.5, 2.25, 2.5, 2.75, 3.5, 4.5, 9.0, -3.0]])
    assert network.populations[0].neuron.max_spikes == 4
    ours = simulate(network, x[None].numpy(), backend="numpy").recording.arrays["output", "s"].reshape(-1).tolist()
    theirs = node(x).reshape(-1).tolist()
    assert theirs == [0, 1, 2, 2, 2, 3, 4, 4, 4, 0]
    assert [k for k, (a, b) in enumerate(zip(ours, theirs, strict=True)) if a != b] == [4]


# -- fake quantization ---------------------------------------------------------------------------------------------


def _prepared(*, has_run: bool, per_channel: bool = False, activation: Any = nn.Identity) -> Any:
    """A network as ``torch.ao`` prepares it for training, before or after its first run."""
    from torch.ao import quantization as q

    torch.manual_seed(1)
    conv = torch.ao.nn.intrinsic.ConvBn2d(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4))
    options = {"init_hidden": True, "threshold": 0.3}
    module = nn.Sequential(
        conv, snn.Leaky(0.9, **options), nn.Flatten(), nn.Linear(64, 4), snn.Leaky(0.8, **options)
    ).train()
    weight = q.default_per_channel_weight_fake_quant if per_channel else q.default_weight_fake_quant
    module.qconfig = q.QConfig(activation, weight)
    q.prepare_qat(module, inplace=True)
    if has_run:
        module(torch.rand(3, 1, 6, 6))
        for part in module:
            if isinstance(part, snn.Leaky):
                part.reset_mem()
    return module.eval()


@pytest.mark.parametrize("per_channel", [False, True])
@pytest.mark.parametrize("has_run", [False, True])
def test_fake_quantized_weights_are_those_of_the_network(has_run: bool, per_channel: bool) -> None:
    module = _prepared(has_run=has_run, per_channel=per_channel)
    if has_run:
        module.apply(torch.ao.quantization.disable_observer)
    notes_of_equal(imported(module, torch.rand(2, 1, 6, 6)))


def test_observers_that_change_the_grid_in_each_call_are_named() -> None:
    with pytest.raises(ModelError, match=r"observers are on.*'0.weight_fake_quant'.*disable_observer"):
        imported(_prepared(has_run=True), torch.rand(2, 1, 6, 6))


def test_fake_quantized_activations_are_refused() -> None:
    from torch.ao import quantization as q

    module = _prepared(has_run=True, activation=q.default_fake_quant).apply(q.disable_observer)
    with pytest.raises(ModelError, match=r"activation_post_process.*rounds values of each time step.*weights alone"):
        imported(module, torch.rand(2, 1, 6, 6))
