"""Data flow of user code: traced networks give the module's spikes; every untraceable operation is named."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest

from nirbridge.arrays import Array
from nirbridge.errors import ModelError, UsageError
from nirbridge.importers.frameworks.snntorch import from_snntorch
from nirbridge.network import from_nir
from nirbridge.simulators.simulate import simulate
from tests.packages import package

torch = pytest.importorskip("torch", reason="torch is not installed")
snn = package("snntorch")
nn = torch.nn

from benchmarks.equivalence_structures import (  # noqa: E402
    Branches,
    Buffers,
    Handmade,
    Loop,
    Membrane,
    Net,
    Residual,
    ResidualCurrent,
    TwoAndTwo,
)

STEPS, BATCH, ZERO = 100, 4, {"reset_mechanism": "zero"}


def lif(**options: Any) -> Any:
    return snn.Leaky(**{"beta": 0.75, "init_hidden": True, "reset_mechanism": "zero", **options})


def on_grid(module: Any) -> Any:
    """Weights on a grid of 2^-10, where float32 sums are exact in any order."""
    for layer in module.modules():
        if isinstance(layer, nn.Linear | nn.Conv1d | nn.Conv2d):
            size = layer.weight[0].numel()
            with torch.no_grad():
                layer.weight.copy_(torch.round(torch.randn_like(layer.weight) * (3 / size**0.5) * 1024) / 1024)
                if layer.bias is not None:
                    layer.bias.copy_(torch.round(torch.randn_like(layer.bias) * 100) / 1024)
    return module.eval()


class SharedLayer(Net):
    """fc2 twice: two projections of the same weights."""

    def forward(self, x: Any) -> Any:
        first = self.lif1(self.fc1(x))
        return self.lif3(self.head(self.lif2(self.fc2(self.fc2(first)))))


class Functional(Net):
    def forward(self, x: Any) -> Any:
        x = torch.nn.functional.linear(x, self.fc1.weight, self.fc1.bias)
        x = torch.nn.functional.dropout(self.lif1(x), 0.5, self.training)
        return self.lif3(x @ self.head.weight.T)


class Conv(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(2, 4, (3, 2), padding=1, stride=(1, 2), bias=True), lif(), nn.AvgPool2d(2), nn.Dropout(0.5),
            nn.Conv2d(4, 4, 3, padding="same", groups=2, dilation=1), lif(threshold=0.5),
        )  # fmt: skip
        self.side = nn.Conv2d(4, 3, 1)
        self.lif = lif()
        self.head = nn.Sequential(nn.Flatten(), nn.Linear(28, 6), lif())

    def forward(self, x: Any) -> Any:
        x = self.body(x)
        x = torch.cat([self.lif(self.side(x)), x], dim=1)
        return self.head(x)


def stepped(module: Any, inputs: Any) -> Array:
    """What the module itself gives step by step, its hidden states zero at first."""
    module = copy.deepcopy(module)
    out = []
    with torch.no_grad():
        for now in inputs:
            found = module(*now) if isinstance(now, tuple) else module(now)
            out.append(found[0] if isinstance(found, tuple) else found)
    return torch.stack(out).numpy()


def spikes(shape: tuple[int, ...], seed: int, rate: float = 0.3) -> Any:
    source = torch.Generator().manual_seed(seed)
    return (torch.rand((STEPS, BATCH, *shape), generator=source) < rate).float()


def ours(graph: Any, inputs: Any) -> dict[str, Array]:
    network = from_nir(graph)
    arrays = simulate(network, inputs).recording.arrays
    return {node: array for (node, _), array in arrays.items()}


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    "kind", [Residual, ResidualCurrent, Branches, SharedLayer, Functional], ids=lambda k: k.__name__
)
def test_step_by_step(kind: Any, seed: int) -> None:
    torch.manual_seed(seed)
    module, inputs = on_grid(kind(**ZERO)), spikes((12,), seed)
    wanted = stepped(module, inputs)
    assert wanted.mean() > 0.005
    np.testing.assert_array_equal(ours(from_snntorch(module, inputs[0, 0]), inputs.numpy())["output"], wanted)


@pytest.mark.parametrize("seed", range(3))
def test_convolutions(seed: int) -> None:
    torch.manual_seed(seed)
    module, inputs = on_grid(Conv()), spikes((2, 4, 6), seed)
    wanted = stepped(module, inputs)
    assert wanted.mean() > 0.005
    np.testing.assert_array_equal(ours(from_snntorch(module, inputs[0]), inputs.numpy())["output"], wanted)


def test_several_inputs_and_outputs() -> None:
    torch.manual_seed(0)
    module, left, right = on_grid(TwoAndTwo(**ZERO)), spikes((12,), 1), spikes((16,), 2)
    graph = from_snntorch(module, (left[0], right[0]))
    found = ours(graph, {"left": left.numpy(), "right": right.numpy()})
    running = copy.deepcopy(module)
    with torch.no_grad():
        wanted = [running(a, b) for a, b in zip(left, right, strict=True)]
    for name in ("slow", "fast"):
        np.testing.assert_array_equal(found[f"output_{name}"], torch.stack([w[name] for w in wanted]).numpy())


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("kind", [Loop, Handmade, Buffers], ids=lambda k: k.__name__)
def test_a_loop_over_time_is_one_step(kind: Any, seed: int) -> None:
    torch.manual_seed(seed)
    module, inputs = on_grid(kind(**ZERO)), spikes((12,), seed)
    with torch.no_grad():
        wanted = module(inputs)
    wanted = (wanted[0] if isinstance(wanted, tuple) else wanted).numpy()
    assert wanted.mean() > 0.005
    np.testing.assert_array_equal(ours(from_snntorch(module, inputs[0]), inputs.numpy())["output"], wanted)


def test_a_sum_over_time_is_said() -> None:
    class Counts(Loop):
        def forward(self, x: Any) -> Any:
            return super().forward(x)[0].sum(0)

    graph = from_snntorch(on_grid(Counts()), torch.zeros(12))
    assert "summed over time" in graph.metadata["nirbridge:notes"]


def test_states_as_arguments_are_no_inputs() -> None:
    class States(Loop):
        def forward(self, x: Any, mem1: Any = None, mem2: Any = None) -> Any:
            spk, mem1 = self.lif1(self.fc1(x), mem1)
            spk, mem2 = self.lif2(self.head(spk), mem2)
            return spk, mem1, mem2

    torch.manual_seed(0)
    module, inputs = on_grid(States()), spikes((12,), 0)
    network = from_nir(from_snntorch(module, (inputs[0], torch.zeros(BATCH, 16), torch.zeros(BATCH, 6))))
    assert [p.shape for p in network.inputs] == [(12,)]
    mem1, mem2, wanted = torch.zeros(BATCH, 16), torch.zeros(BATCH, 6), []
    with torch.no_grad():
        for now in inputs:
            spk, mem1, mem2 = module(now, mem1, mem2)
            wanted.append(spk)
    found = ours(from_snntorch(module, (inputs[0], mem1, mem2)), inputs.numpy())
    np.testing.assert_array_equal(found["output"], torch.stack(wanted).numpy())


def test_a_membrane_without_reset_is_a_read_out() -> None:
    torch.manual_seed(0)
    module, inputs = on_grid(Membrane()), spikes((12,), 0)
    graph = from_snntorch(module, inputs[0])
    with torch.no_grad():
        wanted = module(inputs).numpy()
    np.testing.assert_array_equal(ours(graph, inputs.numpy())["output"], wanted)


def test_every_place_is_named() -> None:
    class Bad(Net):
        def __init__(self) -> None:
            super().__init__()
            self.pool, self.gate, self.alpha = nn.MaxPool1d(2), nn.Sigmoid(), snn.Alpha(0.9, 0.8, init_hidden=True)

        def forward(self, x: Any) -> Any:
            if x.sum() > 3:
                x = x + 1
            first = self.lif1(self.fc1(x))
            again = self.lif1(self.fc2(first))
            return self.alpha(self.gate(torch.relu(self.fc2(first))) * again)

    with pytest.raises(ModelError) as caught:
        from_snntorch(Bad(), torch.zeros(12))
    text = str(caught.value)
    for word in ("reads the value of a tensor", "'lif1'", "'alpha'", "sigmoid", "ReLU", "product of two values"):
        assert word in text


@pytest.mark.parametrize("way", ["numpy", "random", "batch"])
def test_what_goes_around_the_tracer_is_noticed(way: str) -> None:
    class Around(Net):
        def forward(self, x: Any) -> Any:
            if way == "batch":
                return self.lif1(self.fc1(x[0]))
            other = torch.from_numpy(x.numpy() * 2) if way == "numpy" else torch.rand(12)
            return self.lif1(self.fc1(x + other))

    with pytest.raises(ModelError):
        from_snntorch(Around(), torch.zeros(2, 12), batched=True)


def test_the_module_is_left_as_it_is() -> None:
    torch.manual_seed(0)
    module = Loop()
    module.drop = nn.Dropout()
    calls: list[int] = []
    module.fc1.register_forward_hook(lambda *_: calls.append(1))
    module.train()
    module(torch.rand(3, 2, 12))
    before, sample = {k: v.clone() for k, v in module.state_dict().items()}, torch.rand(12)
    hidden, hooks, state = module.lif1.mem, dict(module.fc1._forward_hooks), torch.random.get_rng_state()
    graph = from_snntorch(module, sample)
    assert module.training
    assert module.drop.training
    assert module.lif1.mem is hidden
    assert module.fc1._forward_hooks == hooks
    assert torch.equal(torch.random.get_rng_state(), state)
    assert "forward" not in vars(module.fc1)
    for key, value in module.state_dict().items():
        assert torch.equal(value, before[key])
    assert "'drop'" in graph.metadata["nirbridge:notes"]


@pytest.mark.parametrize("sample", [torch.zeros(12), torch.zeros(1, 12), np.zeros((4, 12)), torch.zeros(3, 1, 12)])
def test_samples_with_and_without_a_batch(sample: Any) -> None:
    if sample.ndim < 3:
        assert from_nir(from_snntorch(Residual(), sample)).inputs[0].shape == (12,)


def test_what_is_no_module_is_refused() -> None:
    with pytest.raises(UsageError, match="torch.nn.Module"):
        from_snntorch(3, torch.zeros(3))
    with pytest.raises(ModelError, match="forward fails"):
        from_snntorch(nn.Sequential(nn.Linear(20, 5), lif()), torch.zeros(7))
