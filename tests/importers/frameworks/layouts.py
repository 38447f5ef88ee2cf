"""Modules that loop over time, in every layout of their input: a generator for ``test_sample_axes``."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import nn

from nirbridge.errors import ModelError
from nirbridge.importers import from_norse, from_snntorch
from nirbridge.network import from_nir
from nirbridge.simulators.simulate import simulate

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # deprecations of what the frameworks import are not this project's
    import norse.torch as norse
    import snntorch as snn

STEPS, BATCH = 15, 3
Slices = Callable[[Any], Any]

SLICES: dict[str, dict[str, Slices]] = {
    "time first": {
        "x[t]": lambda x: [x[t] for t in range(x.size(0))],
        "for now in x": list,
        "unbind": lambda x: x.unbind(0),
        "select": lambda x: [torch.select(x, dim=0, index=t) for t in range(len(x))],
        "split": lambda x: [now.squeeze(0) for now in x.split(1)],
        "x[t, ...]": lambda x: [x[t, ...] for t in range(len(x))],
        "swapped": lambda x: [x.transpose(0, 1)[:, t] for t in range(len(x))],
    },
    "batch first": {
        "x[:, t]": lambda x: [x[:, t] for t in range(x.size(1))],
        "x[:, t, ...]": lambda x: [x[:, t, ...] for t in range(x.shape[1])],
        "x[:, t:t + 1]": lambda x: [x[:, t : t + 1].squeeze(1) for t in range(x.shape[1])],
        "unbind": lambda x: torch.unbind(x, dim=1),
        "select": lambda x: [x.select(1, t) for t in range(x.shape[1])],
        "split": lambda x: [now.squeeze(1) for now in torch.split(x, 1, dim=1)],
        "chunk": lambda x: [now.squeeze(1) for now in x.chunk(x.size(1), dim=1)],
        "narrow": lambda x: [x.narrow(1, t, 1).squeeze(1) for t in range(x.shape[1])],
        "permute": lambda x: list(x.permute(1, 0, *range(2, x.ndim))),
        "transpose": lambda x: [x.transpose(0, 1)[t] for t in range(x.shape[1])],
        "movedim": lambda x: x.movedim(1, 0).unbind(),
    },
    "time last": {
        "x[..., t]": lambda x: [x[..., t] for t in range(x.shape[-1])],
        "unbind": lambda x: x.unbind(-1),
        "movedim": lambda x: list(x.movedim(-1, 0)),
        "permute": lambda x: [now.movedim(0, 0) for now in x.permute(x.ndim - 1, *range(x.ndim - 1))],
        "select": lambda x: [x.select(-1, t) for t in range(x.shape[-1])],
    },
    "time third": {"x[:, :, t]": lambda x: [x[:, :, t] for t in range(x.shape[2])]},
}
"""Layout -> way to take the steps out of a sequence -> the steps."""

PLACES = {"time first": 0, "batch first": 1, "time last": -1, "time third": 2}
"""Where a sequence of the layout has its time axis; the batch is the first of the others."""

ENDS: dict[str, tuple[Callable[[list[Any]], Any], int | str]] = {
    "stack": (torch.stack, 0),
    "stack, batch first": (lambda out: torch.stack(out, dim=1), 1),
    "stack, last": (lambda out: torch.stack(out, dim=-1), -1),
    "joined": (lambda out: torch.cat([now.unsqueeze(1) for now in out], dim=1), 1),
    "sum": (sum, "sum"),
    "last": (lambda out: out[-1], "last"),
}
"""Way to return the spikes -> (function of the steps' spikes, where time is, or what is left of it)."""


class Layers(nn.Module):
    """Two layers with neurons between them; ``front``: what is done to one step's values."""

    def __init__(self, front: Any, width: int, cell: str) -> None:
        super().__init__()
        self.first: Any
        self.second: Any
        self.front, self.head, self.cell = front, nn.Linear(width, 5), cell
        if cell == "snntorch":
            self.first, self.second = snn.Leaky(beta=0.75), snn.Leaky(beta=0.5, reset_mechanism="zero")
        else:
            self.first, self.second = norse.LIFCell(), norse.LIFBoxCell()
        layers: list[Any] = list(self.modules())
        for layer in layers:
            if isinstance(layer, nn.Linear | nn.Conv2d | nn.Conv1d):
                size = layer.weight[0].numel()
                spread = (3 if cell == "snntorch" else 24) / size**0.5
                layer.weight.data = torch.round(torch.randn_like(layer.weight) * spread * 1024) / 1024
                bias: Any = layer.bias
                bias.data = torch.round(torch.rand_like(bias) * 400) / 1024

    def start(self) -> tuple[Any, Any]:
        return (self.first.init_leaky(), self.second.init_leaky()) if self.cell == "snntorch" else (None, None)

    def step(self, now: Any, states: tuple[Any, Any]) -> tuple[Any, tuple[Any, Any]]:
        spikes, first = self.first(self.front(now), states[0])
        spikes, second = self.second(self.head(spikes.flatten(1)), states[1])
        return spikes, (first, second)


def fronts(shape: tuple[int, ...]) -> Iterator[tuple[str, nn.Module, int]]:
    """(Name, first layers, their width) for steps of a shape."""
    if len(shape) == 1:
        yield "linear", nn.Linear(shape[0], 7), 7
    else:
        flat = int(np.prod(shape))
        yield "flat linear", nn.Sequential(nn.Flatten(), nn.Linear(flat, 7)), 7
    if len(shape) == 3:
        yield "conv2d", nn.Conv2d(shape[0], 2, 3, padding=1), 2 * shape[1] * shape[2]
    if len(shape) == 2:
        yield "conv1d", nn.Conv1d(shape[0], 2, 3, padding=1), 2 * shape[1]


@dataclass(frozen=True)
class Case:
    """A module, the layout of its sequences, and how it returns its spikes."""

    name: str
    layout: str
    shape: tuple[int, ...]
    slices: Slices
    end: str
    front: str
    cell: str = "snntorch"

    def module(self) -> nn.Module:
        torch.manual_seed(len(self.name))
        front, width = next((layer, width) for name, layer, width in fronts(self.shape) if name == self.front)
        slices, join = self.slices, ENDS[self.end][0]

        class Looping(Layers):
            def forward(self, x: Any) -> Any:
                states, out = self.start(), []
                for now in slices(x):
                    spikes, states = self.step(now, states)
                    out.append(spikes)
                return join(out)

        return Looping(front, width, self.cell).eval()

    def given(self, steps: int, batch: int) -> tuple[int, ...]:
        """The shape of a sequence as the module takes it."""
        return laid_out((batch, *self.shape), steps, PLACES[self.layout])


def laid_out(shape: tuple[int, ...], steps: int, place: int) -> tuple[int, ...]:
    """A shape with a time axis put in."""
    at = place % (len(shape) + 1)
    return (*shape[:at], steps, *shape[at:])


def cases() -> Iterator[Case]:
    """Every layout and way to slice, with some of the other choices in turn."""
    ends, cells = list(ENDS), ("snntorch", "norse")
    iteration = 0
    for shape in ((6,), (2, 4), (2, 4, 4)):
        for layout, ways in SLICES.items():
            for way, slices in ways.items():
                if layout == "time third" and len(shape) < 2:
                    continue
                for front, _, _ in fronts(shape):
                    iteration += 1
                    end, cell = ends[iteration % len(ends)], cells[iteration // 2 % 2]
                    name = f"{layout}, {way}, {front} {shape}, {end}, {cell}"
                    yield Case(name, layout, shape, slices, end, front, cell)


def samples(case: Case) -> dict[str, tuple[int, ...]]:
    """Shapes that a user could give as sample: whole sequences of every layout, with or without a batch, and steps."""
    found = {f"natural, batch {n}": case.given(60, n) for n in (1, 4)}
    found |= {
        f"{layout}, batch {n}": laid_out((n, *case.shape), 20, place)
        for layout, place in PLACES.items()
        for n in (1, 4)
        if layout != "time third" or len(case.shape) > 1
    }
    found |= {f"{layout}, no batch": laid_out(case.shape, 20, min(place, 1)) for layout, place in PLACES.items()}
    return found | {"one step": case.shape, "one step, batch 1": (1, *case.shape), "steps": (4, *case.shape)}


def outcome(case: Case, sample: tuple[int, ...], **options: Any) -> str:
    """``equal``, ``refused: …``, or in words what differs between the module and what was imported."""
    importer = from_snntorch if case.cell == "snntorch" else from_norse
    module = case.module()
    try:
        network = from_nir(importer(module, torch.zeros(sample), **options))
    except ModelError as error:
        return f"refused: {error}"
    if network.inputs[0].shape != case.shape and np.prod(network.inputs[0].shape) != np.prod(case.shape):
        return f"reads one step as {network.inputs[0].shape}"
    rng = np.random.default_rng(1)
    fed = (rng.random((STEPS, BATCH, *case.shape)) < 0.4).astype(np.float32)
    shaped = fed.reshape(STEPS, BATCH, *network.inputs[0].shape)
    found = next(iter(simulate(network, shaped, backend="reference").recording.arrays.values()))
    moved = torch.from_numpy(fed)
    moved = moved if case.layout == "time first" else moved.movedim(0, PLACES[case.layout])
    with torch.no_grad():
        wanted: Any = module(moved)
    left = ENDS[case.end][1]
    if left == "sum":
        found = found.sum(0)
    elif left == "last":
        found = found[-1]
    else:
        wanted = wanted.movedim(left, 0)
    if found.shape != tuple(wanted.shape):
        return f"gives {found.shape} for {tuple(wanted.shape)}"
    assert wanted.any()
    assert not wanted.all()
    return "equal" if np.array_equal(found, wanted.numpy()) else f"differs in {(found != wanted.numpy()).mean():.1%}"
