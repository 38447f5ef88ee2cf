"""Spike logic over 0/1 spikes: maxima, or, and, products; and the same over values that are not, which stay refused."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812

from tests.importers.tutorials.forms import Form, quiet

with quiet():
    import norse.torch as norse
    import sinabs.layers as sl
    import snntorch as snn
    from rockpool.nn.modules import LIFTorch
    from spikingjelly.activation_based import layer, neuron

IMAGE = (2, 3, 8, 8)


def _lif(**options: Any) -> Any:
    return snn.Leaky(**{"beta": 0.75, "init_hidden": True, "reset_mechanism": "zero", **options})


def _graded() -> Any:
    return _lif(graded_spikes_factor=0.5)


class Pooled(nn.Module):
    """``first`` after neurons (or after the convolution itself), then a classifier."""

    def __init__(self, pool: Any, flat: int, cell: Any = _lif, *, of_currents: bool = False) -> None:
        super().__init__()
        self.conv, self.lif1 = nn.Conv2d(3, 4, 3, padding=1), cell()
        self.pool, self.fc, self.lif2 = pool, nn.Linear(flat, 5), cell()
        self.of_currents = of_currents

    def forward(self, x: Any) -> Any:
        x = self.conv(x)
        x = self.lif1(self.pool(x)) if self.of_currents else self.pool(self.lif1(x))
        return self.lif2(self.fc(x.flatten(1)))


class Call(nn.Module):
    def __init__(self, function: Any) -> None:
        super().__init__()
        self.function = function

    def forward(self, *x: Any) -> Any:
        return self.function(*x)


class Two(nn.Module):
    """Two populations of equal shape, a function of both, then a third."""

    def __init__(self, function: Any, cell: Any = _lif, other: Any = None) -> None:
        super().__init__()
        self.fc1, self.lif1 = nn.Linear(6, 8), cell()
        self.fc2, self.lif2 = nn.Linear(6, 8), (other or cell)()
        self.function, self.fc3, self.lif3 = function, nn.Linear(8, 5), cell()

    def forward(self, x: Any) -> Any:
        return self.lif3(self.fc3(self.function(self.lif1(self.fc1(x)), self.lif2(self.fc2(x)))))


class Ended(Two):
    """What forward returns is the logic itself."""

    def forward(self, x: Any) -> Any:
        return self.function(self.lif1(self.fc1(x)), self.lif2(self.fc2(x)))


class Previous(nn.Module):
    """A loop that combines the spikes of this step and of the step before."""

    def __init__(self, function: Any) -> None:
        super().__init__()
        self.fc, self.lif, self.out = nn.Linear(6, 8), snn.Leaky(beta=0.75, reset_mechanism="zero"), nn.Linear(8, 5)
        self.last, self.function = snn.Leaky(beta=0.5, reset_mechanism="zero"), function

    def forward(self, x: Any) -> Any:
        mem, mem2, before, spikes = self.lif.init_leaky(), self.last.init_leaky(), torch.zeros(x.shape[1], 8), []
        for now in x:
            spk, mem = self.lif(self.fc(now), mem)
            end, mem2 = self.last(self.out(self.function(spk, before)), mem2)
            before = spk
            spikes.append(end)
        return torch.stack(spikes)


def pools() -> Iterator[tuple[str, Any, int, str]]:
    yield "MaxPool2d of spikes", lambda: nn.MaxPool2d(2), 64, "equal"
    yield "MaxPool2d of spikes, stride 1", lambda: nn.MaxPool2d(2, 1), 196, "equal"
    yield "MaxPool2d of spikes, padding", lambda: nn.MaxPool2d(3, 2, 1), 64, "equal"
    yield "MaxPool2d of spikes, dilation", lambda: nn.MaxPool2d(2, 2, dilation=2), 36, "equal"
    yield "MaxPool2d of spikes, ceil_mode", lambda: nn.MaxPool2d(3, 2, ceil_mode=True), 64, "equal"
    yield "MaxPool2d, no window at the end", lambda: nn.MaxPool2d(3, 3, 1, ceil_mode=True), 36, "equal"
    yield "F.max_pool2d", lambda: Call(lambda x: F.max_pool2d(x, 2)), 64, "equal"
    yield "AdaptiveMaxPool2d(1)", lambda: nn.AdaptiveMaxPool2d(1), 4, "equal"
    yield "AdaptiveMaxPool2d(4)", lambda: nn.AdaptiveMaxPool2d(4), 64, "equal"
    yield "amax over positions", lambda: Call(lambda x: x.amax(dim=(2, 3))), 4, "equal"
    yield "maximum over channels", lambda: Call(lambda x: x.amax(dim=1)), 64, "equal"
    yield "maximum over rows, kept", lambda: Call(lambda x: x.amax(dim=2, keepdim=True)), 32, "equal"
    yield "AdaptiveMaxPool2d, unequal windows", lambda: nn.AdaptiveMaxPool2d((3, 5)), 60, "equal"
    yield "any over channels", lambda: Call(lambda x: x.bool().any(dim=1).float()), 64, "equal"
    yield "MaxPool after MaxPool", lambda: nn.Sequential(nn.MaxPool2d(2), nn.MaxPool2d(2)), 16, "equal"
    yield (
        "MaxPool after a join of spikes",
        lambda: Call(lambda x: F.max_pool2d(torch.cat([x, x.flip(1)], 1), 2)),
        128,
        "equal",
    )
    yield "MaxPool after dropout in eval mode", lambda: nn.Sequential(nn.Dropout(0.5), nn.MaxPool2d(2)), 64, "equal"
    yield "MaxPool of a sum of spikes", lambda: Call(lambda x: F.max_pool2d(x + x.flip(1), 2)), 64, "equal"
    yield (
        "MaxPool of averaged spikes",
        lambda: nn.Sequential(nn.AvgPool2d(2), nn.MaxPool2d(2)),
        16,
        "equal",
    )
    yield "MaxPool of half spikes", lambda: Call(lambda x: F.max_pool2d(0.5 * x, 2)), 64, "equal"
    yield "MaxPool of negated spikes", lambda: Call(lambda x: F.max_pool2d(1 - x, 2)), 64, "equal"


def pairs() -> Iterator[tuple[str, Any, str]]:
    yield "a * b", lambda a, b: a * b, "equal"
    yield "a * (1 - b), IAND", lambda a, b: a * (1.0 - b), "equal"
    yield "(1 - a) * b", lambda a, b: (1.0 - a) * b, "equal"
    yield "a - a * b", lambda a, b: a - a * b, "equal"
    yield "a + b - a * b, or", lambda a, b: a + b - a * b, "equal"
    yield "torch.logical_or", lambda a, b: torch.logical_or(a, b).float(), "equal"
    yield "torch.logical_and", lambda a, b: torch.logical_and(a, b).float(), "equal"
    yield "torch.logical_xor", lambda a, b: torch.logical_xor(a, b).float(), "equal"
    yield "torch.logical_not", lambda a, b: torch.logical_not(a).float() + b, "equal"
    yield "a.bool() | b.bool()", lambda a, b: (a.bool() | b.bool()).float(), "equal"
    yield "a.bool() & b.bool()", lambda a, b: (a.bool() & b.bool()).float(), "equal"
    yield "~a.bool() & b.bool()", lambda a, b: (~a.bool() & b.bool()).to(a.dtype), "equal"
    yield "torch.maximum", torch.maximum, "equal"
    yield "torch.minimum", torch.minimum, "equal"
    yield "torch.max(a, b)", torch.max, "equal"
    yield "((a + b) >= 1).float()", lambda a, b: ((a + b) >= 1).float(), "equal"
    yield "((a + b) > 0).float()", lambda a, b: ((a + b) > 0).float(), "equal"
    yield "(a + b == 2).float()", lambda a, b: (a + b == 2).float(), "equal"
    yield "clamp(a + b, 0, 1)", lambda a, b: torch.clamp(a + b, 0, 1), "equal"
    yield "clamp(a + b, max=1)", lambda a, b: (a + b).clamp(max=1), "equal"
    yield "relu(a - b)", lambda a, b: torch.relu(a - b), "equal"
    yield "torch.where(a > 0, a, b)", lambda a, b: torch.where(a > 0, a, b), "equal"
    yield "abs(a - b), xor", lambda a, b: (a - b).abs(), "equal"
    yield "a ** 2 + b", lambda a, b: a**2 + b, "equal"
    yield "a * b * b.flip(1)", lambda a, b: a * b * b.flip(1), "equal"
    yield "(a + b) * a", lambda a, b: (a + b) * a, "equal"
    yield "(a + b) * (a + b.flip(1))", lambda a, b: (a + b) * (a + b.flip(1)), "values from 0 to 2 and 0 to 2, not two"
    yield "0.5 * a * (a.flip(1) + b + 1)", lambda a, b: 0.5 * a * (a.flip(1) + b + 1), "and 1 to 3, not two"
    yield "(a + 2 * b == 2).float()", lambda a, b: (a + 2 * b == 2).float(), "equal"
    yield "(a + b == a.flip(1) + b.flip(1))", lambda a, b: (a + b == a.flip(1) + b.flip(1)).float(), "equal"
    yield "(a + b != a.flip(1) + b.flip(1))", lambda a, b: (a + b != a.flip(1) + b.flip(1)).float(), "equal"
    yield "maximum of counts", lambda a, b: torch.maximum(a + b, a.flip(1) + b.flip(1)), "equal"
    yield "maximum of a maximum of counts", lambda a, b: torch.maximum(torch.maximum(a + b, a.flip(1)), 2 * b), "equal"
    yield "minimum of counts", lambda a, b: torch.minimum(a + b, a.flip(1) + b.flip(1)), "equal"
    yield "clamp(a + 2 * b, 1, 2)", lambda a, b: (a + 2 * b).clamp(1, 2), "equal"
    yield "(a + 2 * b) ** 2", lambda a, b: (a + 2 * b) ** 2, "equal"
    yield "(a + 2 * b == 2) and a.flip(1)", lambda a, b: (a + 2 * b == 2).float() * a.flip(1), "equal"
    yield "exp(a + 2 * b + 4 * a.flip(1))", lambda a, b: torch.exp(a + 2 * b + 4 * a.flip(1)), "from 0 to 7, not two"
    yield "0.5 * a * b", lambda a, b: 0.5 * a * b, "equal"
    yield "maximum of a and a weighted b", lambda a, b: torch.maximum(a, 0.3 * b), "values from 0 to 1 and 0 to 0.3"


def forms() -> Iterator[Form]:
    for name, pool, flat, wanted in pools():
        yield Form("snntorch", name, lambda pool=pool, flat=flat: Pooled(pool(), flat), IMAGE, wanted)
    for name, function, wanted in pairs():
        yield Form("snntorch", name, lambda f=function: Two(f), (2, 6), wanted)
    yield Form("snntorch", "a * b is the output", lambda: Ended(lambda a, b: a * b), (2, 6))
    yield Form("snntorch", "or with the previous time step", lambda: Previous(torch.maximum), (12, 2, 6))
    yield Form(
        "snntorch",
        "MaxPool2d of currents (tutorial 6)",
        lambda: Pooled(nn.MaxPool2d(2), 64, of_currents=True),
        IMAGE,
        "a maximum of currents",
    )
    yield Form(
        "snntorch",
        "a * b of currents",
        lambda: Two(lambda a, b: a * b, other=nn.Identity),
        (2, 6),
        "a product of two values",
    )
    yield Form("snntorch", "MaxPool2d of graded spikes", lambda: Pooled(nn.MaxPool2d(2), 64, _graded), IMAGE)
    yield Form(
        "norse",
        "F.max_pool2d of spikes",
        lambda: norse.SequentialState(
            nn.Conv2d(3, 4, 3, padding=1),
            norse.LIFBoxCell(),
            nn.MaxPool2d(2),
            nn.Flatten(),
            nn.Linear(64, 5),
            norse.LIFBoxCell(),
        ),
        IMAGE,
        scale=20.0,
    )
    yield Form(
        "spikingjelly",
        "layer.MaxPool2d of spikes",
        lambda: nn.Sequential(
            layer.Conv2d(3, 4, 3, padding=1),
            neuron.IFNode(),
            layer.MaxPool2d(2, 2),
            layer.Flatten(),
            layer.Linear(64, 5),
            neuron.IFNode(),
        ),
        IMAGE,
    )
    yield Form("sinabs", "MaxPool2d of single spikes", lambda: _sinabs(True), IMAGE)
    yield Form("sinabs", "MaxPool2d of several spikes", lambda: _sinabs(False), IMAGE, "a maximum of spike counts")
    yield Form("rockpool", "product of spikes, one at most", lambda: Rock(1), (2, 5, 6))
    yield Form("rockpool", "product of spikes, several", lambda: Rock(31), (2, 5, 6), "a product of two values")


def _sinabs(is_single: bool) -> Any:
    from sinabs.activation import SingleSpike

    more: Any = {"spike_fn": SingleSpike} if is_single else {}
    first, second = (sl.IAFSqueeze(batch_size=2, **more) for _ in range(2))
    return nn.Sequential(nn.Conv2d(3, 4, 3, padding=1), first, nn.MaxPool2d(2), nn.Flatten(), nn.Linear(64, 5), second)


class Rock(nn.Module):
    def __init__(self, most: int) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(6, 8), nn.Linear(6, 8)
        options: Any = {"tau_mem": 0.02, "tau_syn": 0.02, "max_spikes_per_dt": most}
        self.lif1, self.lif2 = LIFTorch((8,), **options), LIFTorch((8,), **options)

    def forward(self, x: Any) -> Any:
        return self.lif1(self.a(x))[0] * self.lif2(self.b(x))[0]
