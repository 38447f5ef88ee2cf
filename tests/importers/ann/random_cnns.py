"""ReLU CNNs at random, in random orders and sizes: odd pools, padding, residuals, slopes of any sign."""

from __future__ import annotations

import random
from typing import Any

import torch
from torch import nn
from torch.nn import functional

ORDERS = ("cbap", "cabp", "cpba", "cpa", "cbpa", "pca", "cap", "car", "cbarp", "cp")
"""c: convolution, b: BatchNorm, a: activation, p: pool, r: residual block."""


def activation(r: random.Random) -> nn.Module:
    """One that is piecewise linear."""
    slope, is_inplace = r.choice((0.01, 0.2, -0.3, 1.5)), r.random() < 0.3
    kinds = [nn.ReLU(is_inplace), nn.ReLU(), nn.ReLU6(), nn.LeakyReLU(slope, is_inplace), nn.Hardtanh(-0.5, 0.7)]
    return r.choice([*kinds, nn.PReLU(), nn.Hardsigmoid()])


def pool(r: random.Random, size: int) -> nn.Module:
    """A maximum, more often than an average."""
    kernel = r.choice(((2, 2), (3, 3), (2, 3), (3, 1)))
    padding = r.choice((0, kernel[0] // 2)), r.choice((0, kernel[1] // 2))
    stride, is_ceil, counts = r.choice((kernel, (1, 1), (2, 2), (2, 1))), r.random() < 0.4, r.random() < 0.7
    adaptive = r.choice((1, 2, 3, (2, 3)))
    kinds = [nn.MaxPool2d(kernel, stride, padding, r.choice((1, 1, 2)) if size > 5 else 1, ceil_mode=is_ceil)] * 3
    kinds += [nn.AvgPool2d(kernel, stride, padding, is_ceil, counts), nn.AdaptiveMaxPool2d(adaptive)]
    return r.choice([*kinds, nn.AdaptiveAvgPool2d(adaptive)])


class Residual(nn.Module):
    """A block whose sum may stay as it is."""

    def __init__(self, channels: int, r: random.Random) -> None:
        super().__init__()
        norm = [nn.BatchNorm2d(channels)] if r.random() < 0.7 else []
        first, last = nn.Conv2d(channels, channels, 3, padding=1), nn.Conv2d(channels, channels, 1)
        self.body = nn.Sequential(first, *norm, activation(r), last)
        self.last = activation(r) if r.random() < 0.7 else nn.Identity()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """One block."""
        return self.last(x + self.body(x))


class RandomCNN(nn.Module):
    """Features, then a classifier; ``shape``: that of one input. ``end``: a softmax, or None."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        r = random.Random(seed)
        self.shape = (r.choice((1, 2, 3)), r.choice((6, 7, 9, 11)), r.choice((6, 8, 9)))
        layers: list[nn.Module] = []
        x = torch.zeros(1, *self.shape)
        for word in "".join(r.choice(ORDERS) for _ in range(r.randint(1, 3))):
            layer = self._layer(word, x, r)
            y = layer.eval()(x.clone()) if min(x.shape[2:]) > 2 else x[..., :0]
            if y.numel():
                layers.append(layer)
                x = y
        head = [nn.Flatten(), nn.Dropout(0.3), nn.Linear(x.numel(), 6), activation(r), nn.Linear(6, 4)]
        self.body = nn.Sequential(*layers, *head)
        self.end: Any = r.choice((None, None, functional.softmax, functional.log_softmax))
        self._settle(torch.Generator().manual_seed(seed))

    def _layer(self, word: str, x: torch.Tensor, r: random.Random) -> nn.Module:
        channels, size = x.shape[1], min(x.shape[2:])
        if word == "c":
            stride = r.choice((1, 1, 2)) if size > 4 else 1
            return nn.Conv2d(channels, r.choice((2, 4, 6)), r.choice((1, 2, 3)), stride, r.choice((0, 1)))
        if word == "b":
            return nn.BatchNorm2d(channels)
        if word == "a":
            return activation(r)
        return Residual(channels, r) if word == "r" else pool(r, size)

    def _settle(self, generator: torch.Generator) -> None:
        for layer in self.modules():
            if isinstance(layer, nn.BatchNorm2d) and layer.running_mean is not None and layer.running_var is not None:
                layer.running_mean.uniform_(-0.3, 0.3, generator=generator)
                layer.running_var.uniform_(0.5, 2.0, generator=generator)
                nn.init.uniform_(layer.weight, -0.5, 1.5, generator=generator)
        self.eval()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Values of four classes, or their softmax."""
        y = self.body(x)
        return y if self.end is None else self.end(y, dim=1)
