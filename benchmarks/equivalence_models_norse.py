"""Models of Norse for the equivalence page."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import nn

from benchmarks.equivalence_model import READOUT, Model, first_of_whole, quiet, whole, with_states

with quiet():
    import norse.torch as norse

IMAGE = ((1, 8, 8),)
_CHAIN = norse.SequentialState
_READS: dict[str, Any] = {"kind": "potential", "is_exact": False, "reason": READOUT}


class Residual(nn.Module):
    """Spikes of the first layer are added to the input of the third."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.third = nn.Linear(12, 12), nn.Linear(12, 12), nn.Linear(12, 12)
        self.lif1, self.lif2, self.lif3 = norse.LIFCell(), norse.LIFCell(), norse.LIFCell()

    def forward(self, x: Any, states: Any = None) -> Any:
        a, b, c = states or (None, None, None)
        early, a = self.lif1(self.first(x), a)
        late, b = self.lif2(self.second(early), b)
        out, c = self.lif3(self.third(late) + early, c)
        return out, (a, b, c)


class Loop(nn.Module):
    """A loop over time in forward, with a recurrent cell."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.lif = nn.Linear(12, 8), norse.LIFCell()
        self.second, self.cell = nn.Linear(8, 6), norse.LIFRecurrentCell(6, 6)

    def forward(self, x: Any) -> Any:
        before, state, out = None, None, []
        for now in x:
            spikes, before = self.lif(self.first(now), before)
            spikes, state = self.cell(self.second(spikes), state)
            out.append(spikes)
        return torch.stack(out)


def _row(name: str, make: Any, run: Any = with_states, **options: Any) -> Model:
    return Model("Norse", name, make, run, dt=None, **options)


def _two(cells: Any, **options: Any) -> Callable[[], Any]:
    return lambda: _CHAIN(nn.Linear(12, 16), cells(**options), nn.Linear(16, 6), cells(**options))


def cell_models() -> Iterator[Model]:
    """Cells alone."""
    number = torch.as_tensor
    spread = norse.LIFParameters(
        tau_mem_inv=torch.linspace(60, 300, 16), tau_syn_inv=torch.linspace(100, 400, 16),
        v_th=torch.linspace(0.2, 1, 16), v_leak=torch.linspace(-0.2, 0.1, 16),
        v_reset=torch.linspace(-0.3, 0.1, 16))  # fmt: skip
    box = norse.LIFBoxParameters(v_leak=number(0.1), reset_method=norse.reset_subtract)
    waits = norse.LIFRefracParameters(rho_reset=number(3.0))
    yield _row("LIFCell", _two(norse.LIFCell))
    yield _row("LIFCell, dt = 0.5 ms", _two(norse.LIFCell, dt=5e-4))
    yield _row("LIFCell, parameters per neuron", lambda: _CHAIN(nn.Linear(12, 16), norse.LIFCell(spread)))
    yield _row("LIFBoxCell", _two(norse.LIFBoxCell), scale=6.0)
    yield _row("LIFBoxCell, reset_subtract, v_leak", _two(norse.LIFBoxCell, p=box), scale=6.0)
    yield _row("IAFCell, v_reset = 0.25", _two(norse.IAFCell, p=norse.IAFParameters(v_reset=number(0.25))), scale=0.5)
    yield _row("LIFRefracCell, 3 steps", _two(norse.LIFRefracCell, p=waits))
    yield _row("LIFRecurrentCell", lambda: _CHAIN(
        nn.Linear(12, 8), norse.LIFRecurrentCell(8, 16), nn.Linear(16, 6), norse.LIFCell()))  # fmt: skip
    adapts = norse.LSNNParameters(tau_adapt_inv=number(30.0), beta=number(0.4), v_th=number(0.2))
    yield _row("LSNNCell, LSNNRecurrentCell", lambda: _CHAIN(
        nn.Linear(12, 16), norse.LSNNCell(adapts), nn.Linear(16, 6), norse.LSNNRecurrentCell(6, 6, adapts)),
        scale=3.0)  # fmt: skip
    yield _row("LICell as readout", lambda: _CHAIN(
        nn.Linear(12, 16), norse.LIFCell(), nn.Linear(16, 6), norse.LICell()), **_READS)  # fmt: skip
    yield _row("LIBoxCell as readout", lambda: _CHAIN(
        nn.Linear(12, 16), norse.LIFBoxCell(), nn.Linear(16, 6), norse.LIBoxCell()), **_READS,
        scale=6.0)  # fmt: skip


def structure_models() -> Iterator[Model]:
    """Sequences, lifted layers, user code."""
    yield _row("Conv2d, LIFCell, AvgPool2d", lambda: _CHAIN(
        nn.Conv2d(1, 3, 3), norse.LIFCell(), nn.AvgPool2d(2), nn.Flatten(), nn.Linear(27, 5), norse.LIFCell()),
        shapes=IMAGE)  # fmt: skip
    yield _row("Conv2d, LIFCell, MaxPool2d of spikes", lambda: _CHAIN(
        nn.Conv2d(1, 3, 3), norse.LIFCell(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(27, 5), norse.LIFCell()),
        shapes=IMAGE)  # fmt: skip
    yield _row("Lift(Conv2d), LIF, LIFRecurrent on sequences", lambda: _CHAIN(
        norse.Lift(nn.Conv2d(1, 3, 3)), norse.LIF(), nn.Flatten(2), norse.LIFRecurrent(108, 6)), first_of_whole,
        shapes=IMAGE)  # fmt: skip
    yield _row("Lift of a cell", lambda: _CHAIN(
        norse.Lift(nn.Linear(12, 16)), norse.Lift(norse.LIFBoxCell()), norse.Lift(nn.Linear(16, 6)), norse.IAF()),
        first_of_whole, scale=4.0)  # fmt: skip
    yield _row("Lift of a SequentialState", lambda: norse.Lift(_two(norse.LIFCell)()), first_of_whole)
    yield _row("residual", Residual)
    yield _row("loop over time in forward", Loop, whole)


def refused_models() -> Iterator[Model]:
    """What has no form."""

    def row(name: str, cell: Callable[[], Any]) -> Model:
        return _row(name, lambda: _CHAIN(nn.Linear(12, 8), cell()), is_exact=False, is_refused=True)

    yield row("LIFAdExCell", norse.LIFAdExCell)
    yield row("IzhikevichCell", lambda: norse.IzhikevichCell(norse.functional.izhikevich.tonic_spiking))
