"""A row of the equivalence page: a model, its runs time step by time step, and its weights."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from nirbridge.arrays import Array

STEPS, BATCH, SEEDS = 100, 4, (0, 1, 2)
GRID = 1024
READOUT = "a readout sends no spikes; potentials are compared, which the two round differently"
_WEIGHTS = frozenset({"weight", "input_weights", "recurrent_weights", "w_rec"})

Run = Callable[[Any, tuple[Any, ...]], Any]
"""(module, inputs [steps, batch, *shape] each) -> what it sends, [steps, batch, *shape], or a tuple or dict of such."""


@dataclass(frozen=True, slots=True)
class Model:
    """One model: a framework's module with the meaning that its own run shows.

    ``kind``: ``spikes`` or ``potential`` (a readout: values are compared, not events). ``is_exact``: its form is one
    that the project's semantics call exact; where it is not, ``reason`` says why. ``is_refused``: it has no form, and
    the importer is to say so. ``accept``: known deviations that its import takes, without which it is refused.
    ``scale`` and ``density`` set how much the model fires; they decide nothing. ``sample``: the input its import is
    given (None: zeros of one sample in one time step). ``is_filled``: ``make`` gives it weights, all in its own way.
    """

    framework: str
    name: str
    make: Callable[[], Any]
    run: Run
    shapes: tuple[tuple[int, ...], ...] = ((12,),)
    scale: float = 2.0
    density: float = 0.3
    kind: str = "spikes"
    is_exact: bool = True
    is_refused: bool = False
    reason: str = ""
    dt: float | None = 1e-4
    accept: tuple[str, ...] = ()
    sample: Callable[[], Any] | None = None
    is_filled: bool = False


@contextmanager
def quiet() -> Any:
    """What the frameworks warn of is no concern of this page; their nets are too small for more than one thread."""
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        torch.set_num_threads(threads)


def fill(module: Any, scale: float, seed: int, *, grid: bool) -> None:
    """Random weights, float32; on a grid of 2^-10 they make every sum exact in any order."""
    import torch

    rng = np.random.default_rng(seed)
    for name, parameter in torch.nn.Module.named_parameters(module):
        is_weight = name.split(".")[-1] in _WEIGHTS and parameter.ndim > 1 and bool((parameter != 0).any())
        is_bias = name.endswith("bias") and parameter.ndim == 1
        spread = scale * 2.45 / np.sqrt(parameter[0].numel()) if is_weight else 0.05
        if is_weight or (is_bias and _is_layers(module, name)):
            values = rng.normal(0.1 * spread, spread, tuple(parameter.shape))
            values = np.round(values * GRID) / GRID if grid else values
            parameter.data = torch.from_numpy(values.astype(np.float32))


def _is_layers(module: Any, name: str) -> bool:
    """True for the bias of a layer that has weights, false for that of a neuron or a normalization."""
    import torch

    owner = torch.nn.Module.get_submodule(module, name.rpartition(".")[0])
    return isinstance(owner, torch.nn.Linear | torch.nn.Conv1d | torch.nn.Conv2d)


def spikes(model: Model, seed: int) -> tuple[Array, ...]:
    """Input spikes, one array for each input of the model, float32 0 or 1."""
    rng = np.random.default_rng(1000 + seed)
    return tuple((rng.random((STEPS, BATCH, *shape)) < model.density).astype(np.float32) for shape in model.shapes)


def step_by_step(module: Any, inputs: tuple[Any, ...]) -> Any:
    """A module that keeps its own state, called once a step."""
    return _stacked([module(*now) for now in zip(*inputs, strict=True)])


def with_states(module: Any, inputs: tuple[Any, ...]) -> Any:
    """A module that returns (output, state) and takes its state back."""
    state, out = None, []
    for now in zip(*inputs, strict=True):
        y, state = module(*now, state)
        out.append(y)
    return _stacked(out)


def whole(module: Any, inputs: tuple[Any, ...]) -> Any:
    """A module with a time axis in front."""
    return module(*inputs)


def first_of_whole(module: Any, inputs: tuple[Any, ...]) -> Any:
    """The same, where states come with the output."""
    return module(*inputs)[0]


def _stacked(found: list[Any]) -> Any:
    import torch

    if isinstance(found[0], dict):
        return {key: torch.stack([f[key] for f in found]) for key in found[0]}
    if isinstance(found[0], tuple):
        return tuple(torch.stack([f[k] for f in found]) for k in range(len(found[0])))
    return torch.stack(found)
