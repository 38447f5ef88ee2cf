"""Activations and maxima as rectifiers: the pieces of functions, random CNNs within their proved bounds, classics."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from nirbridge.errors import ModelError
from nirbridge.importers.ann.from_torch import Conversion, convert_torch
from nirbridge.importers.ann.rectifiers import UNBOUNDED, pieces_of
from nirbridge.importers.ann.replay import walk_populations
from nirbridge.network import from_nir, same_network
from nirbridge.simulators.simulate import Probe, simulate

torch = pytest.importorskip("torch")

from benchmarks.converting import CLASSICS, settled  # noqa: E402
from tests.importers.ann.plain import read_ann  # noqa: E402
from tests.importers.ann.random_cnns import RandomCNN  # noqa: E402

nn, F = torch.nn, torch.nn.functional
STEPS = 64


def of(function: Any) -> Any:
    return lambda x: function(torch.from_numpy(x)).numpy()


@pytest.mark.parametrize(
    ("function", "pieces", "constant"),
    [
        (F.relu6, [(1.0, 1.0, 0.0, 6.0)], 0.0),
        (lambda x: F.hardtanh(x, 0, 0.4), [(1.0, 1.0, 0.0, 0.4)], 0.0),
        (lambda x: F.hardtanh(x, -0.5, 0.7), [(1.0, 1.0, -0.5, 1.2)], -0.5),
        (lambda x: F.leaky_relu(x, 0.01), [(-0.01, -1.0, 0.0, UNBOUNDED), (1.0, 1.0, 0.0, UNBOUNDED)], 0.0),
        (lambda x: F.leaky_relu(x, -0.3), [(0.3, -1.0, 0.0, UNBOUNDED), (1.0, 1.0, 0.0, UNBOUNDED)], 0.0),
        (torch.abs, [(1.0, -1.0, 0.0, UNBOUNDED), (1.0, 1.0, 0.0, UNBOUNDED)], 0.0),
        (lambda x: x.clamp(max=0.5), [(-1.0, -1.0, 0.5, UNBOUNDED)], 0.5),
        (lambda x: x.clamp(-3, 1000), [(1.0, 1.0, -3.0, 1003.0)], -3.0),
    ],
)
def test_pieces_of_a_piecewise_linear_function(function: Any, pieces: list[tuple[float, ...]], constant: float) -> None:
    found = pieces_of(of(function))
    assert found is not None
    assert [(p.slope, p.sign, p.start, p.length) for p in found[0]] == pieces
    assert found[1] == constant


CURVES = {
    "gelu": F.gelu,
    "silu": F.silu,
    "elu": F.elu,
    "softplus": F.softplus,
    "sigmoid": torch.sigmoid,
    "tanh": torch.tanh,
    "hardswish": F.hardswish,
    "threshold": lambda x: F.threshold(x, 0.5, 0.0),
    "hardshrink": F.hardshrink,
    "floor": torch.floor,
    "sign": torch.sign,
    "step": lambda x: (x > 0.5).double(),
    "square": torch.square,
    "exp": torch.exp,
    "sin": torch.sin,
    "a jump far out": lambda x: x.relu() + (x > 5000),
    "random": lambda x: F.rrelu(x, training=True),
}


@pytest.mark.parametrize("name", CURVES)
def test_functions_of_another_form_have_no_pieces(name: str) -> None:
    assert pieces_of(of(CURVES[name])) is None


def spikes_and_outputs(conversion: Conversion, x: np.ndarray) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Spikes of each population after ``STEPS`` time steps, and the estimate of the output, by way of NIR."""
    network = from_nir(conversion.graph)
    assert same_network(network, conversion.network)
    names = [layer.name for layer in conversion.report.layers]
    readout = f"{conversion.network.outputs[0].name}_readout"
    record = [Probe(readout, ("v",)), *(Probe(name, ("s",)) for name in names)]
    arrays = simulate(network, np.broadcast_to(x, (STEPS, *x.shape)), record=record).recording.arrays
    return {name: arrays[name, "s"].sum(0) for name in names}, arrays[readout, "v"][-1] / STEPS


@pytest.mark.parametrize("seed", range(40))
def test_random_cnns_stay_within_their_bounds(seed: int) -> None:
    """Every spike count is within its proved bound of the clipped activation times ``STEPS``; nothing is refused."""
    torch.manual_seed(seed)
    module = RandomCNN(seed)
    x = torch.rand(24, *module.shape) - (0.5 if seed % 3 == 0 else 0.0)
    with torch.no_grad():
        wanted = module.body(x).numpy()
    conversion = convert_torch(module, x[:1], x, steps=STEPS)
    layers = {layer.name: layer for layer in conversion.report.layers}
    clipped: dict[str, np.ndarray] = {}

    def clip(population: Any, drive: np.ndarray) -> np.ndarray:
        clipped[population.name] = np.clip(drive, 0, layers[population.name].scale).astype(np.float32)
        return clipped[population.name]

    walk_populations(read_ann(module, x[:1], 1e-4), {"input": x.numpy()}, clip)
    counts, found = spikes_and_outputs(conversion, x.numpy())
    for name, layer in layers.items():
        off = np.abs(counts[name] - STEPS * clipped[name] / layer.scale).max()
        assert off <= layer.bound_spikes * (1 + 1e-4) + 0.01, name
    assert np.sqrt(np.mean((found - wanted) ** 2)) < 0.05 * wanted.std() + 1e-3


HOST = {
    "softmax": F.softmax,
    "log_softmax": F.log_softmax,
    "method": lambda y, dim: y.softmax(dim),
    "named": lambda y, dim: torch.softmax(input=y, dim=dim),
    "sigmoid": lambda y, dim: torch.sigmoid(y),
}


@pytest.mark.parametrize("name", HOST)
def test_a_softmax_at_the_end_is_left_to_the_host(name: str) -> None:
    function = HOST[name]

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net = nn.Sequential(nn.Linear(5, 8), nn.ReLU(), nn.Linear(8, 3))

        def forward(self, x: Any) -> Any:
            y = self.net(x)
            return y, function(y, dim=1)

    torch.manual_seed(0)
    net, x = Net().eval(), torch.rand(50, 5)
    conversion = convert_torch(net, x[:1], x)
    assert any("is left to the host" in note for note in conversion.network.notes)
    with torch.no_grad():
        values, shares = (v.numpy() for v in net(x))
    _, found = spikes_and_outputs(conversion, x.numpy())
    assert np.abs(found - values).max() < 0.05 * values.std() + 0.01
    again = function(torch.from_numpy(found), dim=1).numpy()
    assert np.abs(again - shares).max() < 0.02


def test_a_softmax_inside_is_refused() -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b = nn.Linear(5, 8), nn.Linear(8, 3)

        def forward(self, x: Any) -> Any:
            return self.b(self.a(x).softmax(1))

    with pytest.raises(ModelError, match="softmax"):
        convert_torch(Net(), torch.rand(1, 5), torch.rand(9, 5))


def test_values_that_are_returned_twice() -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b, self.rest = nn.Linear(5, 4), nn.Linear(5, 3), nn.Dropout(0.5)

        def forward(self, x: Any) -> Any:
            y, z = self.a(x), self.b(x)
            return {"y": y, "again": (y, self.rest(y)), "x": x, "shares": z.softmax(1), "z": z}

    conversion = convert_torch(Net(), torch.rand(1, 5), torch.rand(9, 5))
    assert [port.shape for port in conversion.network.outputs] == [(4,), (3,)]
    assert conversion.report.folding_error < 1e-5


@pytest.mark.parametrize("name", CLASSICS)
def test_the_classics_convert(name: str) -> None:
    """The whole structure of torchvision's, an eighth of the channels, images of 64 x 64."""
    torch.manual_seed(0)
    module, x = settled(CLASSICS[name](0.125)), torch.rand(6, 3, 64, 64)
    with torch.no_grad():
        wanted = module(x).numpy()
    conversion = convert_torch(module, x[:1], x)
    assert conversion.report.folding_error < 1e-5 * conversion.report.output_size
    _, found = spikes_and_outputs(conversion, x.numpy()[:2])
    assert np.sqrt(np.mean((found - wanted[:2]) ** 2)) < 0.05 * wanted.std()
