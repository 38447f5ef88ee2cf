"""Networks of neurons that are written by hand, as public code writes them, from its published structure."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

STEPS, BATCH, IN, HIDDEN, OUT = 20, 4, 6, 5, 3


class Step(torch.autograd.Function):
    """A surrogate of the user's own."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return (x > 0).float()

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        return grads[0]


spike = Step.apply


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


class ResetAfter(Net):
    def cell(self, state: Any, x: Any) -> tuple[Any, Any]:
        mem = state * 0.9 + x
        z = spike(mem - 1.0)
        return mem * (1 - z.detach()), z


class ResetBefore(Net):
    """STBP: the reset by the spike of the step before, ahead of the update."""

    def start(self, x: Any) -> Any:
        return x.new_zeros(len(x), HIDDEN), x.new_zeros(len(x), HIDDEN)

    def cell(self, state: Any, x: Any) -> tuple[Any, Any]:
        mem, z = state
        mem = mem * 0.2 * (1.0 - z) + x
        z = mem.gt(0.5).float()
        return (mem, z), z


class LateSubtraction(Net):
    """snnTorch's rule: the threshold of the step before is subtracted after the decay."""

    def cell(self, state: Any, x: Any) -> tuple[Any, Any]:
        reset = (state > 0.8).float()
        mem = 0.75 * state + x - reset * 0.8
        return mem, (mem > 0.8).float()


class StraightThrough(Net):
    """A hard forward with the gradient of a sigmoid; a synaptic current and a connection to itself."""

    def __init__(self) -> None:
        super().__init__()
        self.rec = dense(HIDDEN, HIDDEN, 0.5)

    def start(self, x: Any) -> Any:
        return (x.new_zeros(len(x), HIDDEN),) * 3

    def cell(self, state: Any, x: Any) -> tuple[Any, Any]:
        syn, mem, z = state
        syn = 0.8 * syn + x + self.rec(z)
        mem = 0.9 * mem + syn - z
        soft = torch.sigmoid(5 * (mem - 1))
        z = ((mem > 1).float() - soft).detach() + soft
        return (syn, mem, z), z


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


class Delayed(nn.Module):
    """SpyTorch: the current of the step before drives the membrane, which is compared one step later."""

    shape = (BATCH, STEPS, IN)

    def __init__(self) -> None:
        super().__init__()
        self.w1, self.w2 = nn.Parameter(torch.randn(IN, HIDDEN)), nn.Parameter(torch.randn(HIDDEN, OUT))

    def layer(self, current: Any, size: int) -> Any:
        syn, mem, out = (torch.zeros(len(current), size) for _ in range(3))
        record = []
        for t in range(current.shape[1]):
            out = spike(mem - 1.0)
            rst = out.detach()
            syn, mem = 0.7 * syn + current[:, t], (0.9 * mem + syn) * (1.0 - rst)
            record.append(out)
        return torch.stack(record, dim=1)

    def forward(self, x: Any) -> Any:
        hidden = self.layer(torch.einsum("abc,cd->abd", (x, self.w1)), HIDDEN)
        return self.layer(torch.einsum("abc,cd->abd", (hidden, self.w2)), OUT)


class Cell(nn.Module):
    """One time step per call, the state in an attribute."""

    def __init__(self) -> None:
        super().__init__()
        self.mem: Any = None

    def forward(self, x: Any) -> Any:
        mem = torch.zeros_like(x) if self.mem is None else self.mem
        mem = mem + (x - mem) / 2.0
        z = (mem >= 0.7).float()
        self.mem = mem - 0.7 * z
        return z


class Stepwise(nn.Module):
    shape = (BATCH, IN)

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(dense(IN, HIDDEN), Cell(), dense(HIDDEN, OUT), Cell())

    def forward(self, x: Any) -> Any:
        return self.layers(x)


class Passed(nn.Module):
    """One time step per call, the state an argument."""

    shape = (BATCH, IN)

    def __init__(self) -> None:
        super().__init__()
        self.fc = dense(IN, HIDDEN)

    def forward(self, x: Any, mem: Any = None) -> Any:
        mem = torch.zeros(len(x), HIDDEN) if mem is None else mem
        mem = 0.9 * mem + self.fc(x)
        z = (mem > 1.0).float()
        return z, mem - z


class Layered(nn.Module):
    """TET and MS-ResNet: each layer loops over time by itself, around layers without time."""

    shape = (BATCH, STEPS // 2, 2, 4, 4)

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm, self.fc = nn.Conv2d(2, 3, 3, padding=1), nn.BatchNorm2d(3), dense(48, OUT)
        self.conv.weight.data *= 3

    def fire(self, x: Any) -> Any:
        mem: Any = 0
        out = torch.zeros_like(x)
        for t in range(x.shape[1]):
            mem = mem * 0.5 + x[:, t, ...]
            z = spike(mem - 1.0)
            mem, out[:, t] = (1 - z) * mem, z
        return out

    def forward(self, x: Any) -> Any:
        y = self.norm(self.conv(x.flatten(0, 1)))
        return self.fire(self.fc(self.fire(y.view(*x.shape[:2], *y.shape[1:])).flatten(2)))


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


class Constant(ResetBefore):
    """STBP on images: every time step has the same input, and spikes are averaged."""

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
        z = spike(v - 1)
        return (v * (1 - z), z), z


class Counting(Net):
    def cell(self, state: Any, x: Any) -> tuple[Any, Any]:
        v = 0.9 * state + x
        z = torch.clamp(torch.floor(v), 0, 4)
        return v - z, z


EXACT: tuple[type[Any], ...] = (
    Counting,
    *(ResetAfter, ResetBefore, LateSubtraction, StraightThrough, Refractory, Parametric, InPlace, Floor),
    *(Delayed, Stepwise, Passed, Layered, Readout, Constant, Lateral),
)


# -- neurons without form ------------------------------------------------------------------------------------------


class Halving(Net):
    def cell(self, state: Any, x: Any) -> tuple[Any, Any]:
        v = 0.9 * state + x
        z = (v > 1).float()
        return v * (1 - 0.5 * z), z


class Ternary(Net):
    def cell(self, state: Any, x: Any) -> tuple[Any, Any]:
        v = 0.9 * state + x
        z = (v > 1).float() - (v < -1).float()
        return v - z, z


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


class Rounding(Net):
    def cell(self, state: Any, x: Any) -> tuple[Any, Any]:
        v = 0.9 * state + x
        z = torch.clamp(torch.round(v), 0, 4)
        return v - z, z


class Adaptive(Net):
    def start(self, x: Any) -> Any:
        return (x.new_zeros(len(x), HIDDEN),) * 3

    def cell(self, state: Any, x: Any) -> tuple[Any, Any]:
        v, b, z = state
        b = 0.95 * b + 0.05 * z
        threshold = 1 + 1.8 * b
        v = 0.9 * v + x - threshold * z
        z = spike(v - threshold)
        return (v, b, z), z


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
            z = spike(v - 1)
            v = v * (1 - z)
            out.append(z)
        return torch.stack(out, 1)


WITHOUT_FORM = {
    Halving: "a state 'v' and a threshold were found; its reset multiplies the state by 0.5",
    Ternary: "a state 'v' and a threshold were found; its state is compared with two thresholds",
    Joint: "a state 'v' and a threshold were found; its synaptic current is reset by its own spikes",
    Noisy: "a state 'v' and a threshold were found; a number that differs from time step to time step is added",
    Clipped: "a state 'v' and a threshold were found; it depends on clamp of its state",
    Rounding: "'round' of values, and no state with a threshold and a reset that NIR has",
    Adaptive: "and a threshold were found; its threshold adapts to its spikes, and its reset or its update does so",
    Changing: "a state 'v' and a threshold were found; its reset or its update follows no rule",
    Moving: "a state 'v' and a threshold were found; its state moves while its input is lost after a spike",
}
