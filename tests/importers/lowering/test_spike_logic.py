"""Logic of spikes: every function against torch on every combination of values, then on chips, spike by spike."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import nirbridge as nb
from nirbridge.errors import ModelError
from nirbridge.importers import from_snntorch

torch = pytest.importorskip("torch", reason="the importer reads torch modules")
snn = pytest.importorskip("snntorch", reason="the neurons of the modules are snnTorch's")
utils = pytest.importorskip("snntorch.utils", reason="the neurons of the modules are snnTorch's")

STEPS = 40


def lif() -> Any:
    return snn.Leaky(beta=0.5, init_hidden=True, reset_mechanism="zero")


class Both(torch.nn.Module):
    """Two layers of spikes, a function of both, and a layer that hears it."""

    def __init__(self, function: Callable[[Any, Any], Any], shape: tuple[int, ...] = (6,)) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.function, self.shape = function, shape
        size = int(np.prod(shape))
        self.left, self.right, self.last = torch.nn.Linear(5, size), torch.nn.Linear(5, size), torch.nn.LazyLinear(3)
        self.a, self.b, self.out = lif(), lif(), lif()

    def forward(self, x: Any) -> Any:
        batch = x.shape[0]
        a = self.a(self.left(x) * 3).reshape(batch, *self.shape)
        b = self.b(self.right(x) * 3).reshape(batch, *self.shape)
        return self.out(self.last(self.function(a, b).float().reshape(batch, -1)) * 4)


FUNCTIONS: dict[str, tuple[Callable[[Any, Any], Any], int]] = {
    "a * b": (lambda a, b: a * b, 6),
    "(1 - a) * b": (lambda a, b: (1 - a) * b, 6),
    "a or b": (torch.logical_or, 6),
    "a xor b": (torch.logical_xor, 6),
    "a == b": (lambda a, b: a == b, 6),
    "a != b": (lambda a, b: a != b, 6),
    "a xor b of other sizes": (lambda a, b: torch.logical_xor(0.5 * a, b), 6),
    "a > b": (lambda a, b: a > b, 6),
    "a <= b": (lambda a, b: a <= b, 6),
    "maximum of graded": (lambda a, b: torch.maximum(0.5 * a, 0.5 * b), 6),
    "minimum of -1 and 0": (lambda a, b: torch.minimum(-a, -b), 6),
    "at least one of two": (lambda a, b: (a + b) >= 1, 6),
    "neither": (lambda a, b: (a + b) < 0.5, 6),
    "clamp": (lambda a, b: torch.clamp(a + b, max=1), 6),
    "relu of a difference": (lambda a, b: torch.relu(a - b), 6),
    "abs of a difference": (lambda a, b: torch.abs(a - b), 6),
    "thirds, far from the border": (lambda a, b: (a / 3 + b / 3) >= 0.5, 6),
    "spike > 0.5": (lambda a, b: (a > 0.5) + b, 0),
    "not a": (lambda a, b: ~a.bool() + b, 0),
    "square": (lambda a, b: a**2 + b, 0),
}
"""Function -> neurons that it takes; the first layers are flat."""


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_of_spikes_are_exact(name: str) -> None:
    function, size = FUNCTIONS[name]
    module = ready(Both(function), 1, 5)
    graph = from_snntorch(module, torch.rand(1, 5))  # its self-check compares with the module
    network = nb.load(graph)
    extra = [p for p in network.populations if p.neuron.kind == "Threshold"]
    assert sum(p.size for p in extra) == size
    assert ("without memory" in graph.metadata.get("nirbridge:notes", "")) == bool(size)
    rng = np.random.default_rng(0)
    x = torch.from_numpy(rng.random((STEPS, 2, 5))).float()
    utils.reset(module)
    with torch.no_grad():
        expected = np.stack([module(step).numpy() for step in x])
    found = nb.simulate(network, x.numpy())["output"]
    np.testing.assert_array_equal(found, expected)
    assert 0 < expected.sum() < expected.size


class Pooled(torch.nn.Module):
    def __init__(self, pool: Any, channels: int = 2) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.conv, self.a, self.pool = torch.nn.Conv2d(1, channels, 3), lif(), pool
        self.last, self.out = torch.nn.LazyLinear(4), lif()

    def forward(self, x: Any) -> Any:
        return self.out(self.last(self.pool(self.a(self.conv(x) * 3)).flatten(1)))


POOLS = {
    "2": lambda: torch.nn.MaxPool2d(2),
    "3, stride 2, padding 1": lambda: torch.nn.MaxPool2d(3, 2, 1),
    "dilated": lambda: torch.nn.MaxPool2d(2, 1, 0, dilation=2),
    "adaptive": lambda: torch.nn.AdaptiveMaxPool2d(1),
    "twice": lambda: torch.nn.Sequential(torch.nn.MaxPool2d(2), torch.nn.MaxPool2d(2, 1)),
}


@pytest.mark.parametrize("name", POOLS)
@pytest.mark.parametrize("chip", ["loihi1", "loihi2", "crossbar256"])
def test_maxima_of_spikes_run_on_every_chip(name: str, chip: str) -> None:
    """Imported exactly, mapped, and every spike of the integers is that of the mapped cores."""
    module = ready(Pooled(POOLS[name]()), 1, 1, 8, 8)
    network = nb.load(module, sample=torch.rand(1, 1, 8, 8))
    assert any(p.neuron.kind == "Threshold" for p in network.populations)
    found = nb.verify(network, chip=chip, steps=30)
    assert found.holds
    depth = nb.quantize(network, chip).latency["output"]
    assert depth == len(network.populations)  # one hop for each layer, the maxima among them


def ready(module: Any, *shape: int) -> Any:
    """The module after one run, which fixes its lazy layer; without states."""
    with torch.no_grad():
        module(torch.rand(shape))
    utils.reset(module)
    return module


def refused(module: Any, shape: tuple[int, ...]) -> str:
    with pytest.raises(ModelError) as caught:
        nb.load(ready(module, *shape), sample=torch.rand(shape))
    return str(caught.value)


def test_what_is_no_threshold_stays_refused() -> None:
    class Currents(Pooled):
        def forward(self, x: Any) -> Any:
            return self.out(self.last(self.a(self.pool(self.conv(x))).flatten(1)))

    assert "module 'pool': a maximum of currents is not linear" in refused(
        Currents(torch.nn.MaxPool2d(2)), (1, 1, 8, 8)
    )
    of_input = torch.nn.Sequential(torch.nn.MaxPool2d(2), torch.nn.Flatten(), torch.nn.Linear(16, 2), lif())
    assert "a maximum of the input 'input'" in refused(of_input, (1, 1, 8, 8))
    counts = Both(lambda a, b: (a + 2 * b + 4 * a) ** 3)
    assert "it is given values from 0 to 7, not two" in refused(counts, (1, 5))
    thirds = Both(lambda a, b: (a / 3 + b / 3) >= 2 / 3)
    assert "it is given values from 0 to 0.666667 in steps of 0.333333, not two" in refused(thirds, (1, 5))
    unlike = Both(lambda a, b: torch.maximum(a, 0.3 * b))
    assert "it is given values from 0 to 1 and 0 to 0.3, not two" in refused(unlike, (1, 5))
    assert "a product of two values" in refused(Both(lambda a, b: (a + b) * (a + b)), (1, 5))
    pooled = Both(lambda a, b: torch.max_pool2d(a + 2 * b + 4 * a, 2), (1, 4, 4))
    assert "from 0 to 7 is no threshold" in refused(pooled, (1, 5))


def test_each_switch_of_a_function_of_counts_is_a_population() -> None:
    network = nb.load(ready(Both(lambda a, b: (a + b + b == 2).float()), 1, 5), sample=torch.rand(1, 5))
    steps = [p for p in network.populations if "_step" in p.name]
    assert [float(p.neuron.theta) for p in steps] == [1.5, 2.5]
    assert sum("eq, step" in note and "of 4 possible values" in note for note in network.notes) == 2
