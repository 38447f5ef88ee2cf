"""Linear layers with fixed weights that no layer of NIR names: joins, paddings, upsampling, transposed convolutions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812

from tests.importers.tutorials.forms import Form, quiet

with quiet():
    import snntorch as snn


def _lif(**options: Any) -> Any:
    return snn.Leaky(**{"beta": 0.75, "init_hidden": True, "reset_mechanism": "zero", **options})


class Image(nn.Module):
    """Neurons, ``front`` between them and the next ones, and a classifier."""

    def __init__(self, front: Any, flat: int) -> None:
        super().__init__()
        self.stem, self.lif1 = nn.Conv2d(4, 4, 3, padding=1), _lif()
        self.front, self.lif2 = front, _lif()
        self.head, self.lif3 = nn.Linear(flat, 5), _lif()

    def forward(self, x: Any) -> Any:
        return self.lif3(self.head(self.lif2(self.front(self.lif1(self.stem(x)))).flatten(1)))


class Apply(nn.Module):
    """A function as a module, with layers of its own."""

    def __init__(self, function: Any, *layers: Any) -> None:
        super().__init__()
        self.function, self.layers = function, nn.ModuleList(layers)

    def forward(self, x: Any) -> Any:
        return self.function(x, *self.layers)


def _conv(channels: int = 4, out: int = 4, **options: Any) -> nn.Conv2d:
    return nn.Conv2d(channels, out, 3, **{"padding": 1, **options})


def _joined(x: Any, left: Any, right: Any) -> Any:
    return torch.cat([left(x), right(x)], dim=1)


def _shuffled(x: Any, groups: int = 2) -> Any:
    n, c, h, w = x.shape
    return x.view(n, groups, c // groups, h, w).transpose(1, 2).reshape(n, c, h, w)


def _reduced(x: Any) -> Any:
    """``einops.reduce(x, "b c (h 2) (w 2) -> b c h w", "mean")`` as it calls torch."""
    n, c, h, w = x.shape
    return x.reshape(n, c, h // 2, 2, w // 2, 2).mean(dim=(3, 5))


class Signal(nn.Module):
    """The same along one axis."""

    def __init__(self, front: Any, flat: int) -> None:
        super().__init__()
        self.stem, self.lif1 = nn.Conv1d(3, 4, 3, padding=1), _lif()
        self.front, self.lif2 = front, _lif()
        self.head, self.lif3 = nn.Linear(flat, 5), _lif()

    def forward(self, x: Any) -> Any:
        return self.lif3(self.head(self.lif2(self.front(self.lif1(self.stem(x)))).flatten(1)))


def joins() -> Iterator[tuple[str, Any, int]]:
    yield "channels joined in front of neurons", Apply(_joined, _conv(out=2), _conv(out=3)), 180
    yield (
        "channels joined: a convolution and the spikes",
        Apply(lambda x, f: torch.cat([f(x), x], 1), _conv(out=2)),
        216,
    )
    yield "channels joined: a convolution with groups", Apply(_joined, _conv(groups=2), _conv(out=2)), 216
    yield "channels joined: a pool and a convolution", Apply(_joined, nn.AvgPool2d(2), _conv(out=2, stride=2)), 54
    yield (
        "channels joined, normalized",
        Apply(lambda x, a, b, n: n(_joined(x, a, b)), _conv(out=2), _conv(out=2), nn.BatchNorm2d(4)),
        144,
    )
    yield "rows joined", Apply(lambda x, f: torch.cat([f(x), f(x)[:, :, :2]], dim=2), _conv(out=2)), 96
    yield "channel shuffle, neurons", Apply(_shuffled), 144
    yield "channel shuffle, convolution with groups", Apply(lambda x, f: f(_shuffled(x)), _conv(groups=2)), 144
    yield "channel shuffle after a convolution with groups", Apply(lambda x, f: _shuffled(f(x)), _conv(groups=2)), 144
    yield "nn.ChannelShuffle", Apply(lambda x, f, s: f(s(x)), _conv(groups=2), nn.ChannelShuffle(2)), 144
    yield "every second pixel", Apply(lambda x: x[:, :, ::2, ::2]), 36
    yield "a crop", Apply(lambda x: x[:, :, 1:-1, 1:-2]), 48
    yield "flipped image", Apply(lambda x, f: f(x.flip(3)), _conv()), 144


def pads() -> Iterator[tuple[str, Any, int]]:
    yield "F.pad, convolution", Apply(lambda x, f: f(F.pad(x, (1, 1, 1, 1))), _conv(padding=0)), 144
    yield (
        "nn.ZeroPad2d, one side, stride",
        Apply(lambda x, p, f: f(p(x)), nn.ZeroPad2d((0, 1, 0, 1)), _conv(padding=0, stride=2)),
        36,
    )
    yield "nn.ZeroPad2d, uneven", Apply(lambda x, p, f: f(p(x)), nn.ZeroPad2d((2, 1, 0, 3)), _conv(padding=0)), 196
    yield "nn.ConstantPad2d of 0", Apply(lambda x, p, f: f(p(x)), nn.ConstantPad2d(1, 0.0), _conv(padding=0)), 144
    yield "padding in front of neurons", Apply(lambda x: F.pad(x, (1, 1, 1, 1))), 256
    yield "padding in front of neurons, one side", Apply(lambda x, f: F.pad(f(x), (0, 1, 0, 1)), _conv()), 196
    yield "padding of channels", Apply(lambda x, f: f(x) + F.pad(x[:, :2], (0, 0, 0, 0, 1, 1)), _conv()), 144
    yield "negative padding", Apply(lambda x: F.pad(x, (-1, -1, -1, -1))), 64
    yield "padding, pool", Apply(lambda x: F.avg_pool2d(F.pad(x, (1, 1, 1, 1)), 2)), 64
    yield (
        "padding with another constant",
        Apply(lambda x, f: f(F.pad(x, (1, 1, 1, 1), value=1.0)), _conv(padding=0)),
        144,
    )


def enlargements() -> Iterator[tuple[str, Any, int]]:
    yield "nn.Upsample, nearest", nn.Sequential(nn.Upsample(scale_factor=2), _conv()), 576
    yield "F.interpolate, nearest, to a size", Apply(lambda x, f: f(F.interpolate(x, size=(8, 9))), _conv(out=2)), 144
    yield "nn.Upsample in front of neurons", nn.Upsample(scale_factor=2), 576
    yield (
        "nn.UpsamplingNearest2d after a convolution",
        nn.Sequential(_conv(out=2), nn.UpsamplingNearest2d(scale_factor=2)),
        288,
    )
    yield "nn.Upsample, bilinear", nn.Sequential(nn.Upsample(scale_factor=2, mode="bilinear"), _conv(out=2)), 288
    yield (
        "repeat_interleave, twice",
        Apply(lambda x, f: f(x.repeat_interleave(2, 2).repeat_interleave(2, 3)), _conv(out=2)),
        288,
    )
    yield "nn.PixelShuffle", nn.Sequential(_conv(out=8), nn.PixelShuffle(2)), 288
    yield "nn.PixelUnshuffle", nn.Sequential(nn.PixelUnshuffle(2), nn.Conv2d(16, 3, 1)), 27
    yield "nn.ConvTranspose2d", nn.ConvTranspose2d(4, 3, 3, stride=2, padding=1, output_padding=1), 432
    yield "nn.ConvTranspose2d, kernel 2, stride 2", nn.ConvTranspose2d(4, 2, 2, stride=2), 288
    yield "nn.ConvTranspose2d, stride 1", nn.ConvTranspose2d(4, 2, 3, padding=1), 72
    yield (
        "nn.ConvTranspose2d, groups, dilation",
        nn.ConvTranspose2d(4, 4, 2, stride=2, groups=2, dilation=2),
        4 * 13 * 13,
    )
    yield "nn.AdaptiveAvgPool2d that enlarges", nn.AdaptiveAvgPool2d((9, 8)), 288
    yield "nn.AdaptiveAvgPool2d with unequal windows", nn.AdaptiveAvgPool2d((4, 5)), 80
    yield (
        "nn.AdaptiveAvgPool2d of unequal windows, flat",
        nn.Sequential(nn.AdaptiveAvgPool2d(4), nn.Flatten(), nn.Linear(64, 20)),
        20,
    )
    yield "nn.Upsample, flat", nn.Sequential(nn.Upsample(scale_factor=2), nn.Flatten(), nn.Linear(576, 20)), 20


def reductions() -> Iterator[tuple[str, Any, int]]:
    yield "mean of blocks (einops.reduce)", Apply(_reduced), 36
    yield "mean over positions", Apply(lambda x, f: f(x.mean(dim=(2, 3))), nn.Linear(4, 8)), 8
    yield "mean over channels", Apply(lambda x, f: f(x.mean(dim=1).flatten(1)), nn.Linear(36, 8)), 8
    yield "mean over rows", Apply(lambda x: x.mean(dim=2).flatten(1)), 24
    yield "sum over channels, kept", Apply(lambda x, f: f(x.sum(dim=1, keepdim=True)), nn.Conv2d(1, 2, 3)), 32
    yield "mean over columns, image neurons", Apply(lambda x: x.mean(dim=3, keepdim=True)), 24


def forms() -> Iterator[Form]:
    for make in (joins, pads, enlargements, reductions):
        for name, _, flat in make():

            def build(make: Any = make, name: str = name, flat: int = flat) -> nn.Module:
                return Image(next(front for n, front, _ in make() if n == name), flat)

            yield Form("snntorch", name, build, (2, 4, 6, 6))
    for name, front, flat in (
        ("Conv1d: channels joined", lambda: Apply(_joined, nn.Conv1d(4, 2, 3, padding=1), nn.Conv1d(4, 3, 1)), 40),
        (
            "Conv1d: padding of one side (causal)",
            lambda: Apply(lambda x, f: f(F.pad(x, (2, 0))), nn.Conv1d(4, 4, 3)),
            32,
        ),
        ("Conv1d: nn.Upsample", lambda: nn.Sequential(nn.Upsample(scale_factor=2), nn.Conv1d(4, 2, 3, padding=1)), 32),
        ("Conv1d: nn.ConvTranspose1d", lambda: nn.ConvTranspose1d(4, 2, 4, stride=2, padding=1), 32),
        ("Conv1d: pool that enlarges", lambda: nn.AdaptiveAvgPool1d(12), 48),
    ):
        yield Form("snntorch", name, lambda front=front, flat=flat: Signal(front(), flat), (2, 3, 8))
