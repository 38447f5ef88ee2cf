"""from_torch compared with torch: supported layers, refusals, and the accuracy on digits."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nirbridge.errors import ModelError, UsageError
from nirbridge.importers.ann.from_torch import Conversion, convert_torch, from_torch
from nirbridge.importers.ann.replay import walk_populations
from nirbridge.network import from_nir, same_network
from nirbridge.network.compose import parts_of
from nirbridge.network.operators import Dense, Scale
from nirbridge.simulators.simulate import Probe, simulate
from tests.importers.ann.plain import read_ann

torch = pytest.importorskip("torch")
nn = torch.nn
F = nn.functional
EXAMPLES = Path(__file__).resolve().parents[3] / "examples"


def settled(module: Any, *shapes: tuple[int, ...]) -> tuple[Any, list[Any]]:
    """The module in eval mode, its batch normalizations with statistics of their own, and 64 samples."""
    generator = torch.Generator().manual_seed(5)
    data = [torch.rand(64, *shape, generator=generator) for shape in shapes]
    for layer in module.modules():
        if isinstance(layer, nn.BatchNorm1d | nn.BatchNorm2d):
            layer.running_mean.uniform_(-0.3, 0.3, generator=generator)
            layer.running_var.uniform_(0.5, 2.0, generator=generator)
            with torch.no_grad():
                layer.weight.uniform_(0.5, 1.5, generator=generator)
                layer.bias.uniform_(-0.2, 0.2, generator=generator)
    return module.eval(), data


def reference(module: Any, data: list[Any]) -> list[np.ndarray]:
    with torch.no_grad():
        found = module(*data)
    return [v.numpy() for v in (found if isinstance(found, tuple) else (found,))]


def estimates(conversion: Conversion, data: list[Any], steps: int) -> list[np.ndarray]:
    """Outputs of the converted network, after a round trip through NIR, in the ANN's units."""
    network = from_nir(conversion.graph)
    names = [p.name for p in conversion.network.inputs]
    fed = {n: np.broadcast_to(d.numpy(), (steps, *d.shape)) for n, d in zip(names, data, strict=True)}
    reads = [f"{p.name}_readout" for p in conversion.network.outputs]
    arrays = simulate(network, fed, record=[Probe(n, ("v",)) for n in reads]).recording.arrays
    return [arrays[n, "v"][-1] / steps for n in reads]


class Branches(nn.Module):
    """Two inputs, a residual sum, normalization behind a sum, two convolutions in a row, two outputs."""

    def __init__(self) -> None:
        super().__init__()
        self.left, self.right = nn.Conv2d(1, 4, 3, padding=1), nn.Conv2d(2, 4, 1)
        self.norm, self.inner = nn.BatchNorm2d(4), nn.Sequential(nn.Conv2d(4, 6, 3), nn.Conv2d(6, 4, 3, padding=2))
        self.head, self.other = nn.Linear(4, 3), nn.Linear(4, 2)

    def forward(self, x: Any, y: Any) -> tuple[Any, Any]:
        z = F.relu(self.norm(self.left(x) + self.right(y)))
        z = F.relu(z + self.inner(z))
        z = z.mean((2, 3))
        return self.head(z), self.other(F.relu(z - 0.1))


class PreActivation(nn.Module):
    """The stream of sums is not rectified: every block sees all those before it."""

    def __init__(self) -> None:
        super().__init__()
        self.norms = nn.ModuleList(nn.BatchNorm1d(6) for _ in range(3))
        self.layers = nn.ModuleList(nn.Linear(6, 6) for _ in range(3))
        self.head = nn.Linear(6, 4)

    def forward(self, x: Any) -> Any:
        for norm, layer in zip(self.norms, self.layers, strict=True):
            x = x + layer(torch.relu(norm(x)))
        return self.head(x)


MODELS: dict[str, tuple[Any, tuple[tuple[int, ...], ...]]] = {
    "mlp": (lambda: nn.Sequential(nn.Linear(5, 8), nn.ReLU(), nn.Linear(8, 3)), ((5,),)),
    "linear only": (lambda: nn.Sequential(nn.Linear(5, 4), nn.BatchNorm1d(4)), ((5,),)),
    "ends in relu": (lambda: nn.Sequential(nn.Linear(5, 4), nn.ReLU()), ((5,),)),
    "relu6": (lambda: nn.Sequential(nn.Linear(5, 8), nn.ReLU6(), nn.Linear(8, 3), nn.Hardtanh(0, 0.4)), ((5,),)),
    "conv1d": (
        lambda: nn.Sequential(
            nn.Conv1d(2, 4, 3, stride=2), nn.BatchNorm1d(4), nn.ReLU(), nn.Flatten(), nn.Linear(16, 3)
        ),
        ((2, 10),),
    ),
    "conv2d": (
        lambda: nn.Sequential(
            nn.Conv2d(2, 4, (3, 5), padding="same", bias=False),
            nn.BatchNorm2d(4),
            nn.ReLU(inplace=True),
            nn.AvgPool2d(2, padding=1),
            nn.Conv2d(4, 4, 3, groups=2, dilation=2, padding=2),
            nn.ReLU(),
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
            nn.Dropout(0.5),
            nn.Linear(4, 3),
        ),
        ((2, 6, 7),),
    ),
    "branches": (Branches, ((1, 6, 6), (2, 6, 6))),
    "pre-activation": (PreActivation, ((6,),)),
}


@pytest.mark.parametrize("name", MODELS)
def test_what_is_read_is_the_module_and_spikes_come_close_to_it(name: str) -> None:
    make, shapes = MODELS[name]
    torch.manual_seed(3)
    module, data = settled(make(), *shapes)
    wanted = reference(module, data)
    sample = tuple(d[:1] for d in data) if len(data) > 1 else data[0][:1]
    network = read_ann(module, sample, 1e-4)
    inputs = {p.name: d.numpy() for p, d in zip(network.inputs, data, strict=True)}
    for port, values in zip(network.outputs, wanted, strict=True):
        assert np.allclose(walk_populations(network, inputs)[port.name], values, atol=1e-4)
    conversion = convert_torch(module, sample, tuple(data), percentile="max")
    assert conversion.report.folding_error < 1e-4
    assert same_network(from_nir(conversion.graph), conversion.network)
    spread = max(float(v.std()) for v in wanted)
    few, many = (
        max(float(np.abs(e - w).max()) for e, w in zip(estimates(conversion, data, steps), wanted, strict=True))
        for steps in (32, 512)
    )
    assert many <= 0.03 * spread + 1e-5
    assert many <= max(few / 4, 1e-5)


@given(st.integers(0, 2**32 - 1), st.integers(1, 3), st.booleans(), st.sampled_from([90.0, "max", "least-error"]))
@settings(max_examples=10, deadline=None)
def test_random_networks_converge(seed: int, layers: int, per_channel: bool, choice: Any) -> None:
    torch.manual_seed(seed)
    blocks = [m for _ in range(layers) for m in (nn.Linear(4, 4), nn.BatchNorm1d(4), nn.ReLU())]
    module, data = settled(nn.Sequential(*blocks, nn.Linear(4, 2)), (4,))
    conversion = convert_torch(module, data[0][0], data[0], percentile=choice, per_channel=per_channel)
    clipped = walk_populations(read_ann(module, data[0][0], 1e-4), {"input": data[0].numpy()}, _clip(conversion))[
        "output"
    ]
    bound = sum(layer.bound_spikes for layer in conversion.report.layers)
    steps = 400
    off = np.abs(estimates(conversion, data, steps)[0] - clipped).max()
    heaviest = float(np.abs(module[-1].weight.detach().numpy()).sum(1).max())
    largest = max(float(layer.scale.max()) for layer in conversion.report.layers)
    assert off <= heaviest * largest * bound / steps + 1e-4


def _clip(conversion: Conversion) -> Any:
    scales = {layer.name: layer.scale for layer in conversion.report.layers}
    return lambda population, drive: np.clip(drive, 0, scales[population.name]).astype(np.float32)


def test_the_written_network() -> None:
    torch.manual_seed(0)
    module, data = settled(MODELS["conv2d"][0](), (2, 6, 7))
    module.train()
    graph = from_torch(module, data[0][0], data[0], dt=1e-3, fair_start=False)
    assert module.training
    network = from_nir(graph)
    assert network.dt == 1e-3
    assert [p.neuron.kind for p in network.populations] == ["IF", "IF", "I"]
    for population in network.populations[:2]:
        neuron = population.neuron
        assert neuron.theta is not None
        assert (float(neuron.theta), float(neuron.g_mem), float(neuron.v_init)) == (1.0, 1.0, 0.5)
        assert (neuron.reset, float(neuron.reset_amount)) == ("subtract", 1.0)
        node = graph.nodes[population.name]
        assert node.metadata["nirbridge:activation_scale"].shape == population.shape
    assert not any(isinstance(part, Scale) for p in network.projections for part in parts_of(p.operator))
    assert graph.metadata["nirbridge:source"].startswith("torch ")


def test_an_identity_shortcut_is_scaled_to_its_target() -> None:
    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = nn.Linear(4, 4), nn.Linear(4, 4)

        def forward(self, x: Any) -> Any:
            x = torch.relu(self.first(x))
            return torch.relu(x + self.second(x))

    torch.manual_seed(1)
    module, data = settled(Block(), (4,))
    conversion = convert_torch(module, data[0][:1], data[0], per_channel=False)
    first, second = (float(layer.scale) for layer in conversion.report.layers)
    inner = {p.operator.__class__: p.operator for p in conversion.network.projections if p.source == "relu"}
    kinds = [type(p.operator) for p in conversion.network.projections]
    assert kinds.count(Dense) == 2
    shortcut = next(op for op in inner.values() if isinstance(op, Scale))
    assert np.allclose(shortcut.scale, first / second)


def test_a_fair_start_differs_only_behind_spikes_and_helps() -> None:
    torch.manual_seed(2)
    blocks = [m for _ in range(4) for m in (nn.Linear(16, 16), nn.ReLU())]
    module, data = settled(nn.Sequential(*blocks, nn.Linear(16, 4)), (16,))
    fair, half = (convert_torch(module, data[0][:1], data[0], fair_start=f, steps=16) for f in (True, False))
    starts = [p.neuron.v_init for p in fair.network.populations]
    assert float(starts[0]) == 0.5
    assert any(np.any(s != 0.5) for s in starts[1:-1])
    assert all(np.all(p.neuron.v_init == 0.5) for p in half.network.populations[:-1])
    wanted = reference(module, data)[0]
    errors = [float(np.mean((estimates(c, data, 16)[0] - wanted) ** 2)) for c in (fair, half)]
    assert errors[0] < errors[1]
    assert np.isclose(fair.report.output_error or 0, np.sqrt(errors[0]), rtol=1e-2)


class Refused(nn.Module):
    """One of everything that has no rate."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.pool, self.gelu, self.norm = nn.Conv2d(1, 2, 3), nn.MaxPool2d(2), nn.GELU(), nn.LayerNorm(3)
        self.leaky, self.head, self.squash = nn.LeakyReLU(), nn.Linear(18, 3), nn.Sigmoid()

    def forward(self, x: Any) -> Any:
        x = self.leaky(self.norm(self.gelu(self.pool(self.squash(self.conv(x))))))
        return self.head(F.softmax(x.flatten(1), dim=1))


def test_everything_that_has_no_rate_is_named_in_one_error() -> None:
    with pytest.raises(ModelError) as caught:
        from_torch(Refused(), torch.zeros(1, 1, 8, 8), torch.zeros(4, 1, 8, 8))
    text = [str(p) for p in caught.value.problems]
    expected = {
        "'squash'": "ReLU",
        "'gelu'": "ReLU",
        "'norm'": "BatchNorm",
        "forward": "leave it out",
    }
    assert len(text) == len(expected)
    for (place, advice), line in zip(expected.items(), text, strict=True):
        assert place in line
        assert advice in line


@pytest.mark.parametrize(
    ("options", "found"),
    [
        ({"percentile": 0}, "percentile"),
        ({"percentile": "most"}, "percentile"),
        ({"steps": 0}, "steps"),
        ({"dt": -1.0}, "dt"),
        ({"readout": "v"}, "readout"),
    ],
)
def test_options_that_make_no_sense(options: dict[str, Any], found: str) -> None:
    with pytest.raises(UsageError, match=found):
        from_torch(nn.Linear(2, 2), torch.zeros(1, 2), torch.zeros(3, 2), **options)


@pytest.mark.parametrize(
    ("data", "found"),
    [
        (np.zeros((0, 2)), "no samples"),
        (np.zeros((4, 3)), "shape"),
        (np.full((4, 2), np.nan), "not finite"),
        ([np.zeros((4, 2)), np.zeros(4)], "2 arrays"),
        ({"x": np.zeros((4, 2)), "labels": np.zeros(4)}, "'labels'"),
    ],
)
def test_calibration_data_that_make_no_sense(data: Any, found: str) -> None:
    with pytest.raises(UsageError, match=found):
        from_torch(nn.Linear(2, 2), torch.zeros(1, 2), data)


def test_a_module_that_is_random_is_refused() -> None:
    class Noisy(nn.Module):
        def forward(self, x: Any) -> Any:
            return F.relu(x + torch.rand(4))

    with pytest.raises(ModelError):
        from_torch(Noisy(), torch.zeros(1, 4), torch.rand(8, 4))


def test_the_report_says_it_all() -> None:
    torch.manual_seed(0)
    module, data = settled(MODELS["mlp"][0](), (5,))
    text = str(convert_torch(module, data[0][:1], {"anything": data[0]}).report)
    assert "converted for 64 steps on 64 samples" in text
    assert "decisions: " in text


# -- trained networks ------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def digits_ann() -> Any:
    sys.path.insert(0, str(EXAMPLES))
    try:
        import train_digits_ann  # pyright: ignore[reportMissingImports]
    finally:
        sys.path.remove(str(EXAMPLES))
    return train_digits_ann


@pytest.mark.parametrize("model", ["cnn", "residual"])
def test_digits_keep_their_accuracy(digits_ann: Any, model: str) -> None:
    """Less than half a point lost at 16 steps and none at 64, on 597 images that were never trained on."""
    net, stated = digits_ann.load(EXAMPLES / "models" / f"digits_ann_{model}.npz")
    images, _, test_images, labels = digits_ann.images_as_tensors()
    original = digits_ann.accuracy(net)
    assert abs(original - stated) < 1e-6
    assert original > 0.97
    conversion = convert_torch(net, images[:1], images)
    for steps, lost in ((16, 0.005), (64, 0.0)):
        found = estimates(conversion, [test_images], steps)[0].argmax(1)
        assert float(np.mean(found == labels.numpy())) >= original - lost


def test_the_training_script_trains(digits_ann: Any, tmp_path: Path) -> None:
    path, measured = digits_ann.train_and_save("cnn", tmp_path, epochs=2)
    net, stated = digits_ann.load(path)
    assert stated == measured == digits_ann.accuracy(net)
    assert measured > 0.6


def test_outputs_as_spikes() -> None:
    """Counts on one scale order as the ANN's outputs do; the file says what a spike of a population stands for."""
    net, (data,) = settled(nn.Sequential(nn.Linear(6, 12), nn.ReLU(), nn.Linear(12, 4)), (6,))
    graph = from_torch(net, data[:1], data, readout="spikes")
    assert "nirbridge:activation_scale" in graph.nodes["1"].metadata
    fed = np.broadcast_to(data.numpy(), (256, *data.shape))
    counts = simulate(from_nir(graph), fed).recording.arrays["output", "s"].sum(0)
    (wanted,) = reference(net, [data])
    sure = np.diff(np.sort(wanted), axis=1)[:, -1] > 0.05 * np.ptp(wanted)
    positive = wanted.max(1) > 0
    assert (sure & positive).sum() > 10
    np.testing.assert_array_equal(counts.argmax(1)[sure & positive], wanted.argmax(1)[sure & positive])
