"""Models of rockpool (torch backend) for the equivalence page."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from benchmarks.equivalence_model import READOUT, Model, quiet

with quiet():
    import rockpool.nn.combinators as rc
    import rockpool.nn.modules.torch as rt


def run(module: Any, inputs: tuple[Any, ...]) -> Any:
    """A module on ``[batch, time, features]`` from rest."""
    module.reset_state()
    return module(inputs[0].transpose(0, 1).contiguous())[0].transpose(0, 1)


def _row(name: str, make: Any, **options: Any) -> Model:
    return Model("rockpool", name, make, run, dt=None, **{"density": 0.2, "scale": 0.3, **options})


def _two(first: Any, second: Any) -> Any:
    return rc.Sequential(rt.LinearTorch((12, 16)), first, rt.LinearTorch((16, 6)), second)


def _own_values() -> Any:
    return rt.LIFTorch(16, tau_mem=torch.linspace(0.01, 0.03, 16), threshold=torch.linspace(0.5, 2, 16),
                       tau_syn=torch.linspace(0.005, 0.02, 16).reshape(16, 1),
                       bias=torch.full((16,), 0.015625))  # fmt: skip


def _recurrent() -> Any:
    return rt.LIFTorch(16, has_rec=True, w_rec=torch.eye(16).roll(1, 0) * 0.125)


def _residual() -> Any:
    inner = rc.Residual(rt.LinearTorch((16, 16)), rt.LIFTorch(16))
    return rc.Sequential(rt.LinearTorch((12, 16)), rt.LIFTorch(16), inner, rt.LinearTorch((16, 6)), rt.LIFTorch(6))


class Product(torch.nn.Module):
    """Spikes of two layers, both at once (and)."""

    def __init__(self) -> None:
        super().__init__()
        self.left, self.right = torch.nn.Linear(12, 16, bias=False), torch.nn.Linear(12, 16, bias=False)
        self.a, self.b = rt.LIFTorch(16, max_spikes_per_dt=1), rt.LIFTorch(16, max_spikes_per_dt=1)

    def forward(self, x: Any) -> Any:
        return self.a(self.left(x))[0] * self.b(self.right(x))[0]


def run_product(module: Any, inputs: tuple[Any, ...]) -> Any:
    """``Product`` from rest."""
    module.a.reset_state()
    module.b.reset_state()
    return module(inputs[0].transpose(0, 1).contiguous()).transpose(0, 1)


def models() -> Iterator[Model]:
    """Those that have a form."""
    yield _row("LIFTorch", lambda: _two(rt.LIFTorch(16), rt.LIFTorch(6)))
    yield _row("LIFTorch, at most one spike per time step", lambda: _two(
        rt.LIFTorch(16, max_spikes_per_dt=1), rt.LIFTorch(6, max_spikes_per_dt=1)))  # fmt: skip
    yield _row("LIFTorch, time constants, thresholds, bias per neuron", lambda: _two(_own_values(), rt.LIFTorch(6)))
    yield _row("LIFTorch, recurrent", lambda: _two(_recurrent(), rt.LIFTorch(6)), scale=0.05)
    yield _row("LIFBitshiftTorch, LIFNeuronTorch", lambda: _two(rt.LIFBitshiftTorch(16), rt.LIFNeuronTorch(6)))
    yield _row("Residual", _residual, scale=0.05)
    yield Model("rockpool", "product of spikes, one at most", Product, run_product, dt=None, density=0.2, scale=0.3)
    yield _row(
        "ExpSynTorch as readout",
        lambda: _two(rt.LIFTorch(16), rt.ExpSynTorch(6)),
        kind="potential",
        is_exact=False,
        reason=READOUT,
    )


def refused_models() -> Iterator[Model]:
    """What has no form."""
    yield _row("LIFTorch with noise", lambda: _two(rt.LIFTorch(16, noise_std=0.1), rt.LIFTorch(6)), is_exact=False,
               is_refused=True)  # fmt: skip
