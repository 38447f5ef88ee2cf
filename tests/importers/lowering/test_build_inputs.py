"""Models that split axes of their input before a convolution: equal to the original, or refused by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from nirbridge.errors import ModelError, UsageError
from nirbridge.importers import from_snntorch
from nirbridge.importers.ann.from_torch import convert_torch
from nirbridge.network.compose import parts_of
from nirbridge.network.equality import same_network
from nirbridge.network.nir.from_nir import from_nir
from nirbridge.network.operators import Conv
from nirbridge.simulators.simulate import simulate
from tests.packages import package

torch = pytest.importorskip("torch", reason="torch is not installed")
snn = package("snntorch")
nn = torch.nn
pytestmark = pytest.mark.filterwarnings("ignore")  # what the framework warns of is not this project's
Front = Callable[[Any], Any]
STEPS, BATCH = 100, 4


class Net(nn.Module):
    """A convolution behind ``front``, and a read-out of spikes that may also hear ``side`` of the input."""

    def __init__(self, front: Front, side: Front | None = None) -> None:
        super().__init__()
        self.front, self.side = front, side
        self.conv, self.fc, self.direct = nn.Conv2d(1, 3, 3), nn.Linear(48, 5), nn.Linear(36, 5)
        self.lif1, self.lif2 = (snn.Leaky(beta=b, init_hidden=True) for b in (0.75, 0.5))

    def forward(self, x: Any) -> Any:
        total = self.fc(self.lif1(self.conv(self.front(x))).flatten(1))
        return self.lif2(total if self.side is None else total + self.direct(self.side(x)))


def filled(net: Any, gain: float = 1.0) -> Any:
    """Weights on a grid, on which float32 sums are exact."""
    torch.manual_seed(3)
    with torch.no_grad():
        for p in (p for layer in (net.conv, net.fc, net.direct) for p in layer.parameters()):
            p.copy_(torch.round(torch.randn(p.shape) * gain * 64) / 128)
    return net


def same_spikes(net: Any, shape: tuple[int, ...], given: tuple[int, ...]) -> Any:
    """The network, after it gave the module's spikes."""
    graph = from_snntorch(filled(net), torch.zeros(2, *shape))
    data = (np.random.default_rng(1).random((STEPS, BATCH, *shape)) < 0.4).astype(np.float32)
    with torch.no_grad():
        wanted = np.stack([net(torch.from_numpy(x)).numpy() for x in data])
    network = from_nir(graph)
    assert [p.shape for p in network.inputs] == [given]
    (found,) = simulate(network, data.reshape(STEPS, BATCH, *given)).recording.arrays.values()
    assert 0.05 < wanted.mean() < 0.95
    np.testing.assert_array_equal(found, wanted)
    says = f"samples of shape {shape} are given as {given}" in graph.metadata.get("nirbridge:notes", "")
    assert says == (shape != given)
    return network


@pytest.mark.parametrize(
    ("front", "shape"),
    [
        (lambda x: x.unsqueeze(1), (6, 6)),
        (lambda x: x[:, None], (6, 6)),
        (lambda x: x.view(-1, 1, 6, 6), (36,)),
        (nn.Unflatten(1, (1, 6, 6)), (36,)),
        (lambda x: x.view(-1, 6, 6).unsqueeze(1), (36,)),
        (lambda x: x.reshape(-1, 1, 6, 6), (4, 9)),
        (lambda x: (x * 0.5).unsqueeze(1) * 2.5 - 0.25, (6, 6)),
        (lambda x: (x * torch.arange(36.0).view(6, 6) / 32).unsqueeze(1), (6, 6)),
    ],
)
def test_a_split_input_is_given_in_the_shape_of_the_first_layer(front: Front, shape: tuple[int, ...]) -> None:
    network = same_spikes(Net(front), shape, (1, 6, 6))
    assert any(isinstance(part, Conv) for p in network.projections for part in parts_of(p.operator))


@pytest.mark.parametrize("side", [lambda x: x, lambda x: x * 2], ids=["linear", "scaled"])
def test_layers_that_see_the_shape_of_the_module_flatten(side: Front) -> None:
    same_spikes(Net(lambda x: x.view(-1, 1, 6, 6), side), (36,), (1, 6, 6))


def test_an_input_that_nothing_splits_stays() -> None:
    same_spikes(Net(lambda x: x, lambda x: x.flatten(1)), (1, 6, 6), (1, 6, 6))


class Inside(nn.Module):
    """Splits an axis of neurons."""

    def __init__(self, *, flattens: bool) -> None:
        super().__init__()
        self.flat = nn.Flatten() if flattens else nn.Identity()
        self.fc, self.split, self.conv = nn.Linear(12, 36), nn.Unflatten(1, (1, 6, 6)), nn.Conv2d(1, 3, 3)
        self.lif1, self.lif2 = (snn.Leaky(beta=0.5, init_hidden=True) for _ in range(2))

    def forward(self, x: Any) -> Any:
        return self.lif2(self.flat(self.conv(self.split(self.lif1(self.fc(x))))))


def test_neurons_whose_axis_is_split_are_images_of_one_position() -> None:
    graph = from_snntorch(Inside(flattens=False), torch.zeros(1, 12))
    network = from_nir(graph)
    assert [p.shape for p in network.inputs] == [(12, 1, 1)]
    assert [p.shape for p in network.populations] == [(36, 1, 1), (3, 4, 4)]
    assert "samples of shape (12,) are given as (12, 1, 1)" in graph.metadata["nirbridge:notes"]
    assert "populations 'lif1': their neurons have axes of size 1" in graph.metadata["nirbridge:notes"]
    network = from_nir(from_snntorch(Inside(flattens=True), torch.zeros(1, 12)))
    assert [p.shape for p in network.populations] == [(36,), (48,)]


class Twice(nn.Module):
    """Splits an axis of neurons into an image, and into a signal."""

    def __init__(self) -> None:
        super().__init__()
        self.fc, self.image, self.signal = nn.Linear(12, 36), nn.Conv2d(1, 3, 3), nn.Conv1d(4, 2, 3)
        self.lif1, self.lif2, self.lif3 = (snn.Leaky(beta=0.5, threshold=0.25, init_hidden=True) for _ in range(3))

    def forward(self, x: Any) -> Any:
        spk = self.lif1(self.fc(x))
        return self.lif2(self.image(spk.view(-1, 1, 6, 6))), self.lif3(self.signal(spk.view(-1, 4, 9)))


def test_neurons_that_are_split_into_an_image_and_a_signal_are_images() -> None:
    torch.manual_seed(0)
    net = Twice()
    network = from_nir(from_snntorch(net, torch.zeros(1, 12)))
    assert {p.name: p.shape for p in network.populations} == {"lif1": (36, 1, 1), "lif2": (3, 4, 4), "lif3": (2, 7)}
    data = 16 * np.random.default_rng(1).random((STEPS, BATCH, 12)).astype(np.float32)
    with torch.no_grad():
        wanted = [[y.numpy() for y in net(torch.from_numpy(x))] for x in data]
    found = simulate(network, data.reshape(STEPS, BATCH, 12, 1, 1)).recording.arrays
    for k, port in enumerate(network.outputs):
        spikes = np.stack([step[k] for step in wanted])
        assert 0.02 < spikes.mean() < 0.95
        np.testing.assert_array_equal(found[port.name, "s"], spikes)


def test_spikes_that_are_returned_with_split_axes_are_refused_by_place() -> None:
    class Returned(Twice):
        def forward(self, x: Any) -> Any:
            return self.lif1(self.fc(x)).view(-1, 2, 3, 2, 3)

    with pytest.raises(ModelError, match=r"\(36,\) to \(2, 3, 2, 3\) after 'lif1'.*flatten before"):
        from_snntorch(Returned(), torch.zeros(1, 12))


def ann() -> Any:
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Unflatten(1, (1, 6, 6)), nn.Conv2d(1, 3, 3), nn.ReLU(), nn.Flatten(), nn.Linear(48, 4)
    ).eval()


def test_a_converted_network_takes_samples_in_the_shape_of_its_first_layer() -> None:
    data = torch.rand(64, 36)
    found = convert_torch(ann(), data[:1], data, steps=32)
    assert [p.shape for p in found.network.inputs] == [(1, 6, 6)]
    assert (found.report.decisions or 0.0) > 0.8


def test_batches_of_calibration_are_one_array() -> None:
    data = torch.rand(64, 36)
    whole = convert_torch(ann(), data[:1], data, steps=32)
    parts = convert_torch(ann(), data[:1], list(data.split(24)), steps=32)
    assert str(whole.report) == str(parts.report)
    assert same_network(whole.network, parts.network)


def test_a_loader_of_calibration_is_told_of_cat() -> None:
    data = torch.rand(64, 36)
    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(data, torch.zeros(64)), batch_size=16)
    for given in (loader, [(data, torch.zeros(64))] * 2):
        with pytest.raises(UsageError, match=r"torch\.cat"):
            convert_torch(ann(), data[:1], given, steps=32)
