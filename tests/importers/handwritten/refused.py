"""Neurons written by hand that no canonical neuron computes: each must be refused, never approximated."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import nn

from tests.importers.handwritten.cells import Kept, two
from tests.importers.handwritten.forms import HandWritten
from tests.importers.handwritten.surrogates import fast_sigmoid


class Ternary(Kept):
    """Spikes of both signs."""

    def forward(self, x: Any) -> Any:
        mem = self.start(x) * 0.5 + x
        spk = (mem > 1.0).float() - (mem < -1.0).float()
        self.mem = mem - spk
        return spk


class Noisy(Kept):
    """Noise on the membrane, in eval mode too."""

    def forward(self, x: Any) -> Any:
        mem = self.start(x) * 0.5 + x + 0.25 * torch.randn_like(x)
        spk = (mem > 1.0).float()
        self.mem = mem * (1 - spk)
        return spk


class RandomStart(nn.Module):
    """sparch's LIF as published: potentials start at random."""

    def __init__(self) -> None:
        super().__init__()
        self.fc, self.alpha = nn.Linear(8, 5), nn.Parameter(torch.full((5,), 0.9))

    def forward(self, x: Any) -> Any:
        currents, states = self.fc(x), []
        ut = torch.rand(currents.shape[0], currents.shape[2])
        st = torch.rand(currents.shape[0], currents.shape[2])
        for t in range(currents.shape[1]):
            ut = self.alpha * (ut - st) + (1 - self.alpha) * currents[:, t]
            st = fast_sigmoid(ut - 0.25)
            states.append(st)
        return torch.stack(states, dim=1)


class Rounded(Kept):
    """Levels of a rounded, clamped membrane: halves go to the even number."""

    def forward(self, x: Any) -> Any:
        mem = self.start(x) * 0.5 + x
        spk = torch.round(torch.clamp(mem, 0, 4))
        self.mem = mem - spk
        return spk


class Together(Kept):
    """A spike of any neuron resets them all."""

    def forward(self, x: Any) -> Any:
        mem = self.start(x) * 0.5 + x
        spk = (mem > 1.5).float()
        self.mem = mem * (1 - spk.amax(dim=-1, keepdim=True))
        return spk


class AdLif(nn.Module):
    """sparch's adLIF: an adaptation current that follows the membrane."""

    def __init__(self) -> None:
        super().__init__()
        self.fc, self.alpha, self.beta, self.a, self.b = nn.Linear(8, 5), 0.75, 0.9, 0.5, 1.0

    def forward(self, x: Any) -> Any:
        currents, states = self.fc(x), []
        ut = wt = st = torch.zeros(currents.shape[0], currents.shape[2])
        for t in range(currents.shape[1]):
            wt = self.beta * wt + self.a * ut + self.b * st
            ut = self.alpha * (ut - st) + (1 - self.alpha) * (4.0 * currents[:, t] - wt)
            st = fast_sigmoid(ut - 0.5)
            states.append(st)
        return torch.stack(states, dim=1)


class AdaptiveThreshold(nn.Module):
    """The SRNN's neuron with its adaptation: every spike raises the threshold for a while."""

    def __init__(self) -> None:
        super().__init__()
        self.fc, self.alpha, self.ro = nn.Linear(8, 5), 0.75, 0.9

    def forward(self, x: Any) -> Any:
        mem = spike = torch.zeros(x.shape[0], 5)
        b, total = torch.full((x.shape[0], 5), 0.25), torch.zeros(x.shape[0], 5)
        for i in range(x.shape[1]):
            b = self.ro * b + (1 - self.ro) * spike
            threshold = 0.25 + 1.8 * b
            mem = mem * self.alpha + (1 - self.alpha) * self.fc(x[:, i]) - threshold * spike
            spike = fast_sigmoid(mem - threshold)
            total = total + spike
        return total


class Liquid(nn.Module):
    """A decay that is computed from input and membrane in every time step."""

    def __init__(self) -> None:
        super().__init__()
        self.fc, self.tau = nn.Linear(8, 5), nn.Linear(10, 5)

    def forward(self, x: Any, mem: Any = None) -> Any:
        mem = torch.zeros(x.shape[0], 5) if mem is None else mem
        current = self.fc(x)
        alpha = torch.sigmoid(self.tau(torch.cat((current, mem), dim=-1)))
        mem = mem * alpha + (1 - alpha) * current
        spk = (mem > 0.5).float()
        return spk, mem * (1 - spk)


class Quadratic(Kept):
    """A quadratic integrate-and-fire neuron."""

    def forward(self, x: Any) -> Any:
        v = self.start(x)
        v = v + 0.25 * v * (v - 0.5) + 0.5 * x
        spk = (v > 1.0).float()
        self.mem = torch.where(spk.bool(), torch.zeros_like(v), v.clamp(min=-1.0))
        return spk


class Partial(Kept):
    """A spike halves the membrane."""

    def forward(self, x: Any) -> Any:
        mem = self.start(x) * 0.75 + x
        spk = (mem >= 1.0).float()
        self.mem = mem - 0.5 * mem.detach() * spk
        return spk


class Bernoulli(Kept):
    """Spikes by chance, the likelier the higher the membrane."""

    def forward(self, x: Any) -> Any:
        mem = self.start(x) * 0.5 + x
        spk = torch.bernoulli(torch.sigmoid(4.0 * (mem - 1.0)))
        self.mem = mem * (1 - spk)
        return spk


def forms() -> Iterator[HandWritten]:
    yield HandWritten(
        "ternary spikes", lambda: two(Ternary), (8,), "step", found="its state is compared with two thresholds"
    )
    yield HandWritten("noise on the membrane", lambda: two(Noisy), (8,), "step")
    yield HandWritten("sparch, random start", RandomStart, (8,), "batch-time")
    rounds = "'round' of values, and no state with a threshold and a reset that NIR has"
    yield HandWritten("rounded levels", lambda: two(Rounded), (8,), "step", found=rounds)
    yield HandWritten("a reset of all together", lambda: two(Together), (8,), "step")
    yield HandWritten("sparch, adLIF", AdLif, (8,), "batch-time")
    adapts = "its threshold adapts to its spikes, and its reset or its update does so"
    yield HandWritten("SRNN with adaptation", AdaptiveThreshold, (8,), "batch-time", None, "sum", found=adapts)
    yield HandWritten("liquid time constants", Liquid, (8,), "states")
    yield HandWritten("quadratic integrate-and-fire", lambda: two(Quadratic), (8,), "step")
    halves = "a state 'mem' and a threshold were found; its reset multiplies the state by 0.5"
    yield HandWritten("a reset by half", lambda: two(Partial), (8,), "step", found=halves)
    yield HandWritten("spikes by chance", lambda: two(Bernoulli), (8,), "step")
