"""Neurons written by hand whose code has what no other form here has: parameters are read, or a reason is said."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from tests.importers.handwritten.surrogates import fast_sigmoid

STEPS, BATCH, IN, HIDDEN, OUT = 20, 4, 6, 5, 3


def dense(inputs: int, outputs: int, gain: float = 3.0) -> nn.Linear:
    layer = nn.Linear(inputs, outputs)
    layer.weight.data *= gain
    return layer


class Net(nn.Module):
    """``cell(state, x)`` in a loop over time, batch first."""

    shape = (BATCH, STEPS, IN)

    def __init__(self) -> None:
        super().__init__()
        self.fc = dense(IN, HIDDEN)

    def cell(self, state: Any, x: Any) -> tuple[Any, Any]:
        raise NotImplementedError

    def start(self, x: Any) -> Any:
        return x.new_zeros(len(x), HIDDEN)

    def forward(self, x: Any) -> Any:
        state, out = self.start(x), []
        for t in range(x.shape[1]):
            state, z = self.cell(state, self.fc(x[:, t]))
            out.append(z)
        return torch.stack(out, 1)


class LateSubtraction(Net):
    """snnTorch's rule: the threshold of the step before is subtracted after the decay."""

    def cell(self, state: Any, x: Any) -> tuple[Any, Any]:
        reset = (state > 0.8).float()
        mem = 0.75 * state + x - reset * 0.8
        return mem, (mem > 0.8).float()


class Refractory(Net):
    def start(self, x: Any) -> Any:
        return x.new_zeros(len(x), HIDDEN), x.new_zeros(len(x), HIDDEN)

    def cell(self, state: Any, x: Any) -> tuple[Any, Any]:
        v, left = state
        active = (left <= 0).float()
        v = active * (0.9 * v + x)
        z = (v > 1.0).float()
        return (torch.where(z.bool(), torch.zeros_like(v), v), torch.clamp(left - 1, min=0) + 3 * z), z


class Parametric(Net):
    """PLIF: one decay per neuron, through a sigmoid; a rest and a reset that are not 0."""

    def __init__(self) -> None:
        super().__init__()
        self.w = nn.Parameter(torch.linspace(-1, 1, HIDDEN))

    def start(self, x: Any) -> Any:
        return x.new_zeros(len(x), HIDDEN) + 0.1

    def cell(self, state: Any, x: Any) -> tuple[Any, Any]:
        v = state + (x - (state - 0.1)) * torch.sigmoid(self.w)
        z = torch.where(v >= 0.8, 1.0, 0.0)
        return v.masked_fill(v >= 0.8, 0.1), z


class InPlace(Net):
    def cell(self, state: Any, x: Any) -> tuple[Any, Any]:
        state.mul_(0.75).add_(x)
        z = torch.heaviside(state - 0.5, torch.tensor(0.0))
        state[z.bool()] = 0.25
        return state, z


class Floor(Net):
    def cell(self, state: Any, x: Any) -> tuple[Any, Any]:
        v = torch.clamp(0.9 * state + x, min=-0.25)
        z = (v > 1).float()
        return v - z, z


class Readout(nn.Module):
    """A list of layers, and a leaky readout with a synaptic current, of which every time step is returned."""

    shape = (STEPS, BATCH, IN)

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([dense(IN, HIDDEN), dense(HIDDEN, HIDDEN)])
        self.last = dense(HIDDEN, OUT)

    def forward(self, x: Any) -> Any:
        mem = [torch.zeros(x.shape[1], HIDDEN) for _ in self.layers]
        syn, out, record = torch.zeros(x.shape[1], OUT), torch.zeros(x.shape[1], OUT), []
        for h in x:
            for k, layer in enumerate(self.layers):
                mem[k] = 0.8 * mem[k] + layer(h)
                h = (mem[k] > 0.6).float()
                mem[k] = mem[k] * (1 - h)
            syn = 0.7 * syn + self.last(h)
            out = 0.8 * out + 0.2 * syn
            record.append(out)
        return torch.stack(record)


class Constant(LateSubtraction):
    """Every time step has the same input, and spikes are averaged."""

    shape = (BATCH, IN)

    def forward(self, x: Any, steps: int = 10) -> Any:
        state, total = self.start(x), x.new_zeros(len(x), HIDDEN)
        for _ in range(steps):
            state, z = self.cell(state, self.fc(x))
            total = total + z
        return total / steps


class Lateral(Net):
    """Inhibition by the number of spikes of the step before, one value for all neurons."""

    def start(self, x: Any) -> Any:
        return x.new_zeros(len(x), HIDDEN), x.new_zeros(len(x), HIDDEN)

    def cell(self, state: Any, x: Any) -> tuple[Any, Any]:
        v, z = state
        v = 0.9 * v + x - 0.5 * z.sum(1, keepdim=True)
        z = fast_sigmoid(v - 1)
        return (v * (1 - z), z), z


EXACT = (LateSubtraction, Refractory, Parametric, InPlace, Floor, Readout, Constant, Lateral)


# -- neurons without form ------------------------------------------------------------------------------------------


class Joint(Net):
    def start(self, x: Any) -> Any:
        return x.new_zeros(len(x), HIDDEN), x.new_zeros(len(x), HIDDEN)

    def cell(self, state: Any, x: Any) -> tuple[Any, Any]:
        i, v = state
        i = 0.7 * i + x
        v = 0.9 * v + i
        z = (v > 1).float()
        return (i * (1 - z), v * (1 - z)), z


class Noisy(Net):
    def cell(self, state: Any, x: Any) -> tuple[Any, Any]:
        v = 0.9 * state + x + 0.1 * torch.randn(len(x), HIDDEN)
        z = (v > 1).float()
        return v - z, z


class Clipped(Net):
    def cell(self, state: Any, x: Any) -> tuple[Any, Any]:
        v = torch.clamp(0.9 * state + x, -1, 3)
        z = (v > 1).float()
        return v - z, z


class Moving(Net):
    """In its refractory time the state decays to a rest that is not its reset."""

    def start(self, x: Any) -> Any:
        return x.new_zeros(len(x), HIDDEN), x.new_zeros(len(x), HIDDEN)

    def cell(self, state: Any, x: Any) -> tuple[Any, Any]:
        v, left = state
        v = 0.9 * v + 0.02 + (left <= 0).float() * x
        z = v >= 1
        return (v.masked_fill(z, 0.0), (left - 1).masked_fill(z, 2.0)), z.float()


class Changing(Net):
    """Another decay from time step 60 on, which a trace of few time steps does not show."""

    def forward(self, x: Any) -> Any:
        v, out = self.start(x), []
        for t in range(x.shape[1]):
            v = (0.9 if t < 60 else 0.5) * v + self.fc(x[:, t])
            z = fast_sigmoid(v - 1)
            v = v * (1 - z)
            out.append(z)
        return torch.stack(out, 1)


WITHOUT_FORM = {
    Joint: "a state 'v' and a threshold were found; its synaptic current is reset by its own spikes",
    Noisy: "a state 'v' and a threshold were found; a number that differs from time step to time step is added",
    Clipped: "a state 'v' and a threshold were found; it depends on clamp of its state",
    Changing: "a state 'v' and a threshold were found; its reset or its update follows no rule",
    Moving: "a state 'v' and a threshold were found; its state moves while its input is lost after a spike",
}
