"""Forms around neurons that are exact although no layer of NIR has their name: logic of spikes, fixed linear maps."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import nn

from benchmarks.equivalence_model import Model, quiet, step_by_step

with quiet():
    import snntorch as snn

IMAGE = ((1, 8, 8),)


def lif(**options: Any) -> Any:
    """A Leaky that keeps its state."""
    return snn.Leaky(**{"beta": 0.75, "init_hidden": True, **options})


class Both(nn.Module):
    """Two layers of spikes, a function of the two, and a layer that hears its values."""

    def __init__(self, function: Callable[[Any, Any], Any]) -> None:
        super().__init__()
        self.function = function
        self.left, self.right, self.head = nn.Linear(12, 16), nn.Linear(12, 16), nn.Linear(16, 6)
        self.a, self.b, self.out = lif(), lif(), lif()

    def forward(self, x: Any) -> Any:
        return self.out(self.head(self.function(self.a(self.left(x)), self.b(self.right(x))).float()))


class Between(nn.Module):
    """A layer of spikes, something in between, and a layer that hears it."""

    def __init__(self, between: Callable[[Any], Any], sizes: tuple[int, int] = (4, 4), *, flat: bool = True) -> None:
        super().__init__()
        self.between = between
        self.conv, self.a = nn.Conv2d(1, sizes[0], 3, padding=1), lif()
        self.head = nn.LazyLinear(6) if flat else nn.LazyConv2d(sizes[1], 3)
        self.out, self.flat = lif(), flat
        with torch.no_grad():
            self.heard(torch.zeros(1, sizes[0], 8, 8))

    def heard(self, spikes: Any) -> Any:
        values = self.between(spikes)
        return self.head(values.flatten(1) if self.flat else values)

    def forward(self, x: Any) -> Any:
        return self.out(self.heard(self.a(self.conv(x))))


class Onto(nn.Module):
    """Something between spikes and the very next neurons, without weights in between."""

    def __init__(self, between: Any, channels: int = 4) -> None:
        super().__init__()
        self.conv, self.a, self.between, self.b = nn.Conv2d(1, channels, 3, padding=1), lif(), between, lif()

    def forward(self, x: Any) -> Any:
        return self.b(2.0 * self.between(self.a(self.conv(x))))


class Joined(nn.Module):
    """Channels of two branches side by side in front of neurons."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.two = nn.Conv2d(1, 3, 3, padding=1), nn.Conv2d(1, 2, 3, padding=1)
        self.a, self.b, self.c = lif(), lif(), lif()

    def forward(self, x: Any) -> Any:
        return self.c(2.0 * torch.cat([self.a(self.one(x)), self.b(self.two(x))], 1))


def logic_models() -> Iterator[Model]:
    """Maxima, products and comparisons of spikes: threshold populations in the same time step."""

    def flat(name: str, function: Callable[[Any, Any], Any]) -> Model:
        return Model("snnTorch", name, lambda: Both(function), step_by_step, scale=0.8)

    def image(name: str, between: Callable[[Any], Any]) -> Model:
        return Model("snnTorch", name, lambda: Between(between), step_by_step, IMAGE, scale=0.8)

    yield image("MaxPool2d of spikes", nn.MaxPool2d(2))
    yield image("MaxPool2d of spikes: stride, padding, dilation", nn.MaxPool2d(3, 1, 1, dilation=2))
    yield image("AdaptiveMaxPool2d of spikes", nn.AdaptiveMaxPool2d(2))
    yield flat("product of spikes (and)", lambda a, b: a * b)
    yield flat("(1 - a) * b of spikes (IAND)", lambda a, b: (1 - a) * b)
    yield flat("torch.logical_or of spikes", torch.logical_or)
    yield flat("torch.maximum, torch.minimum of spikes", lambda a, b: torch.maximum(a, b) + torch.minimum(a, b))
    yield flat("comparison of a sum of spikes (a + b >= 1)", lambda a, b: (a + b) >= 1)
    yield flat("sum of spikes clipped at 1", lambda a, b: torch.clamp(a + b, max=1))
    yield flat("abs(a - b) of spikes (xor)", lambda a, b: torch.abs(a - b))


def linear_models() -> Iterator[Model]:
    """Linear maps with fixed weights, in front of layers and of neurons."""

    def row(name: str, make: Callable[[], Any]) -> Model:
        return Model("snnTorch", name, make, step_by_step, IMAGE, scale=0.8)

    yield row("channels joined in front of neurons", Joined)
    yield row("ZeroPad2d, uneven", lambda: Between(nn.ZeroPad2d((1, 0, 2, 1)), flat=False))
    yield row("Upsample, nearest, in front of neurons", lambda: Onto(nn.Upsample(scale_factor=2)))
    yield row("ConvTranspose2d in front of neurons", lambda: Onto(nn.ConvTranspose2d(4, 3, 3, 2, 1, 1)))
    yield row("ChannelShuffle in front of neurons", lambda: Onto(nn.ChannelShuffle(2)))
    yield row("PixelShuffle in front of neurons", lambda: Onto(nn.PixelShuffle(2)))
    yield row("AdaptiveAvgPool2d that enlarges", lambda: Onto(nn.AdaptiveAvgPool2d(11)))
    yield row("mean over channels (einops.reduce)", lambda: Between(lambda x: x.mean(1)))
