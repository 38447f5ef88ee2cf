"""Choices, maxima and minima over axes, functions of few values, joins with constants, and computed matrices."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch.nn import functional as F  # noqa: N812

from tests.importers.tutorials.forms import EQUAL, Form
from tests.importers.tutorials.logic_forms import IMAGE, Call, Pooled, Two

PAIRS = {
    "where(a > 0, a, b)": lambda a, b: torch.where(a > 0, a, b),
    "where with numbers": lambda a, b: torch.where(a > 0, 1.0, 0.0) + b,
    "where with other numbers": lambda a, b: torch.where(a > 0, 0.5, -0.5) + b,
    "where with tensors": lambda a, b: torch.where(a.bool(), torch.ones_like(a), torch.zeros_like(a)) * b,
    "where with a number and spikes": lambda a, b: torch.where(a > 0, 1.0, b),
    "where with spikes and silence": lambda a, b: torch.where(a > 0, b, torch.zeros_like(b)),
    "where with both": lambda a, b: torch.where(a > 0, b, 1 - b),
    "where with -1 and 1": lambda a, b: torch.where(a > 0, 2 * b - 1, b),
    "where, then a maximum": lambda a, b: torch.maximum(torch.where(a > 0, b, b.flip(1)), a),
    "a.where": lambda a, b: a.where(b > 0, torch.tensor(0.0)),
    "where, fixed": lambda a, b: torch.where(torch.arange(8) % 2 == 0, a, b),
    "where, fixed, then or": lambda a, b: torch.logical_or(torch.where(torch.arange(8) > 3, a, b), a).float(),
    "masked_fill": lambda a, b: a.masked_fill(b.bool(), 1.0),
    "masked_fill, fixed": lambda a, b: a.masked_fill(torch.arange(8) % 2 == 0, 0.0) + b,
    "a[b > 0] = 0": lambda a, b: _set(a, b > 0, 0.0),
    "a[:, 2:5] = b": lambda a, b: _set(a, (slice(None), slice(2, 5)), b[:, :3]),
    "zeros[:, 2:5] = a": lambda a, b: _set(torch.zeros_like(a), (slice(None), slice(2, 5)), a[:, :3]) + b,
    "stack, largest": lambda a, b: torch.stack((a, b)).max(0)[0],
    "stack, any": lambda a, b: torch.stack((a, b), 1).any(1).float(),
    "stack, mean": lambda a, b: torch.stack((a, b), -1).mean(-1),
    "product of stacked": lambda a, b: torch.stack((a, b), 1).prod(1),
    "product of -1 and 1": lambda a, b: (2 * a - 1) * (2 * b - 1),
    "(a + b) % 2": lambda a, b: (a + b) % 2,
    "(a + b) // 2": lambda a, b: (a + b) // 2,
    "heaviside": lambda a, b: torch.heaviside(a + b - 1.5, torch.tensor(0.0)),
    "addcmul": lambda a, b: torch.addcmul(a, a, b),
    "einsum": lambda a, b: torch.einsum("bi,ij->bj", a, torch.eye(8) * 0.5) + b,
    "relu of a minimum of -a and -b": lambda a, b: torch.relu(torch.minimum(-a, -b)) + a,
    "any of -a": lambda a, b: (-a).view(-1, 2, 4).any(1).float().repeat(1, 2) + b,
}
MAPS = {
    "MaxPool after relu": (lambda x: F.max_pool2d(F.relu(x), 2), 64),
    "MaxPool after clamp": (lambda x: F.max_pool2d(x.clamp(min=0), 2), 64),
    "MaxPool after a padding of 1": (lambda x: F.max_pool2d(F.pad(x, (1, 1, 1, 1), value=1.0), 2), 100),
    "MaxPool after a join with zeros": (lambda x: F.max_pool2d(torch.cat([x, torch.zeros_like(x)], 1), 2), 128),
    "MaxPool with positions": (lambda x: F.max_pool2d(x, 2, return_indices=True)[0], 64),
    "majority of a window": (lambda x: (F.avg_pool2d(x, 2) >= 0.5).float(), 64),
    "at least two channels": (lambda x: (x.sum(1) > 1.5).float(), 64),
    "a third of the channels, rounded": (lambda x: (x[:, :3].mean(1) >= 1 / 3).float(), 64),
    "exp": (lambda x: torch.exp(x) - 1, 256),
    "tanh": (lambda x: torch.tanh(x) * 2, 256),
    "x.max(1).values": (lambda x: x.max(1).values, 64),
    "x.max(-1, True)[0]": (lambda x: x.max(-1, True)[0], 32),
    "x.min(1)[0]": (lambda x: x.min(1)[0], 64),
    "amin over positions": (lambda x: x.amin((2, 3)), 4),
    "all": (lambda x: x.bool().all(1).float(), 64),
    "any of half spikes": (lambda x: (0.5 * x).any(1).float(), 64),
    "count_nonzero": (lambda x: torch.count_nonzero(x, dim=1).float(), 64),
    "unfold, largest": (lambda x: F.unfold(x, 2, stride=2).view(x.shape[0], 4, 4, 16).amax(2), 64),
    "cumsum": (lambda x: x.cumsum(1), 256),
    "positions of maxima": (lambda x: x.max(1)[1].float(), 64),
    "minimum of averages": (lambda x: F.avg_pool2d(x, 2).amin(1), 16),
    "where of averages": (lambda x: torch.where(x > 0, x.cumsum(1), 0.0), 256),
    "values of one sample in another": (lambda x: torch.stack((x, x.flip(0)), 1).amax(1), 256),
}
REFUSED = {
    "relu of a minimum of -a and -b": "a ReLU is not a spiking neuron",  # always 0
    "a third of the channels, rounded": "ge: a comparison that is no neuron",
    "positions of maxima": "the position of a max is requested",
    "values of one sample in another": "it takes a part of the batch|mixes samples",
}


def _set(x: torch.Tensor, index: object, value: object) -> torch.Tensor:
    x = x.clone()
    x[index] = value  # type: ignore[index, assignment]
    return x


def forms() -> Iterator[Form]:
    for name, function in PAIRS.items():
        yield Form("snntorch", name, lambda f=function: Two(f), (2, 6), REFUSED.get(name, EQUAL))
    for name, (function, flat) in MAPS.items():
        wanted = REFUSED.get(name, EQUAL)
        yield Form("snntorch", name, lambda f=function, n=flat: Pooled(Call(f), n), IMAGE, wanted)
