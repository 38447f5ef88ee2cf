"""Forms of spiking neurons written by hand: a module, how it takes its input, and the spikes that it must give."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import nn

import nirbridge as nb
from nirbridge.errors import NirbridgeError, UnequalImport
from tests.importers.tutorials.forms import quiet

STEPS, BATCH = 25, 3
Takes = Literal["step", "states", "time", "batch-time"]
Twin = Callable[[Any, Any], Any]
MAY_BE_REFUSED = {
    "BindsNET-like, the membrane leaks while inputs are masked": "parameters that stand nowhere in the code",
}
"""Forms that may be refused, and for what; none is taken as written."""


@dataclass(frozen=True)
class HandWritten:
    """``make`` builds the module; ``shape``: of one sample in one time step.

    ``takes``: ``step``, one time step, states are kept in attributes; ``states``, one time step and the states of the
    step before (None at first), which come back beside the output; ``time`` and ``batch-time``, a whole sequence.
    ``twin``: the module's spikes ``[time, batch, ...]`` by the canonical neuron; None where it has no such form.
    ``over``: the module returns the sum or mean over time. ``found``: what a refusal says.
    """

    name: str
    make: Callable[[], nn.Module]
    shape: tuple[int, ...]
    takes: Takes
    twin: Twin | None = None
    over: Literal["", "sum", "mean"] = ""
    scale: float = 3.0
    found: str = ""

    def __str__(self) -> str:
        return self.name

    def module(self) -> Any:
        """The module in eval mode, before its first run."""
        with quiet():
            torch.manual_seed(3)
            return fill(self.make().eval(), self.scale)

    def sample(self) -> Any:
        """An input as the module takes it."""
        x = self.inputs(5)
        return {"time": x, "batch-time": x.transpose(0, 1)}.get(self.takes, x[0])

    def inputs(self, seed: int) -> Any:
        """Spikes ``[time, batch, *shape]``."""
        return (torch.rand((STEPS, BATCH, *self.shape), generator=torch.Generator().manual_seed(seed)) < 0.4).float()

    def run(self, module: Any, x: Any) -> Any:
        """Output of a fresh copy on ``[time, batch, *shape]``, in the same order, or reduced over time."""
        module = copy.deepcopy(module)
        with torch.no_grad(), quiet():
            if self.takes == "time":
                return module(x)
            if self.takes == "batch-time":
                out = module(x.transpose(0, 1))
                return out if self.over else out.transpose(0, 1)
            return torch.stack(list(_steps(module, x, keeps_states=self.takes == "states")))

    def reduced(self, spikes: Any) -> Any:
        """Outputs of every time step as the module returns them."""
        return {"sum": spikes.sum, "mean": lambda _: spikes.sum(0) / len(spikes)}.get(self.over, lambda _: spikes)(0)


def _steps(module: Any, x: Any, *, keeps_states: bool) -> Iterator[Any]:
    states = None
    for now in x:
        if keeps_states:
            out, states = module(now, states)
        else:
            out = module(now)
        yield out


def matrix(rows: int, columns: int, scale: float) -> Any:
    """Random weights on a coarse grid: potentials often are exactly at a threshold of the grid."""
    return torch.round(torch.randn(rows, columns) * scale / max(rows, columns) ** 0.5 * 8) / 8


def fill(module: Any, scale: float) -> Any:
    """Weights of layers on a coarse grid, so large that neurons fire; batch norms of powers of two."""
    source = torch.Generator().manual_seed(7)
    for layer in nn.Module.modules(module):
        if isinstance(layer, nn.Linear | nn.Conv2d):
            drawn = torch.randn(layer.weight.shape, generator=source) * scale / layer.weight[0].numel() ** 0.5
            layer.weight.data = torch.round(drawn * 8) / 8
            if layer.bias is not None:
                layer.bias.data = torch.round(torch.rand(layer.bias.shape, generator=source) * 2) / 8
        elif isinstance(layer, nn.BatchNorm2d):
            layer.eps, count = 0.0, layer.num_features
            layer.running_mean, layer.running_var = torch.full((count,), 0.125), torch.full((count,), 0.25)
    return module


def outcome(form: Any) -> str:
    """``equal``, ``refused: …`` or ``wrong: …``: an import, compared with the module on two inputs."""
    module = form.module()
    try:
        with quiet():
            network = nb.load(module, sample=form.sample())
    except UnequalImport as error:
        return f"wrong: {error}"
    except NirbridgeError as error:
        return f"refused: {error}"
    for seed in (11, 12):
        x = form.inputs(seed)
        given = x.numpy().reshape(*x.shape[:2], *network.inputs[0].shape)
        recorded = next(iter(nb.simulate(network, given, axes="time,sample").arrays.values()))
        mine = form.reduced(torch.tensor(recorded).float())
        theirs = form.run(module, x)
        if mine.shape != theirs.shape or not torch.equal(mine, theirs):
            return f"wrong: the network differs from the module on input {seed}"
    return "equal"
