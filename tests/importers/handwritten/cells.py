"""Neurons written by hand that compute one time step, or are part of a loop, as courses and repositories have them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import nn

from tests.importers.handwritten.canonical import Cell, each_step
from tests.importers.handwritten.forms import HandWritten
from tests.importers.handwritten.surrogates import fast_sigmoid, sigmoid_from, straight_through
from tests.importers.tutorials.forms import quiet

with quiet():
    import snntorch as snn
    from norse.torch.functional import lif as norse_lif
    from spikingjelly.activation_based import neuron as jelly


class Two(nn.Module):
    """Two linear layers with neurons of a subclass, one time step per call."""

    def __init__(self, **options: Any) -> None:
        super().__init__()
        self.fc1, self.fc2 = nn.Linear(8, 12), nn.Linear(12, 5)
        self.lif1, self.lif2 = self.cell(12, **options), self.cell(5, **options)

    def cell(self, size: int, **options: Any) -> nn.Module:
        raise NotImplementedError

    def forward(self, x: Any) -> Any:
        return self.lif2(self.fc2(self.lif1(self.fc1(x))))


def two(kind: Any, **options: Any) -> Two:
    """``Two`` with neurons of a class."""

    class Net(Two):
        def cell(self, size: int, **options: Any) -> nn.Module:
            return kind(size, **options)

    return Net(**options)


def twice(cell: Any) -> Any:
    """The twin of ``two``: ``cell``, or the one that it makes of the module's."""

    def twin(net: Any, x: Any) -> Any:
        first, second = (cell, cell) if isinstance(cell, Cell) else (cell(net.lif1), cell(net.lif2))
        return second(each_step(net.fc2, first(each_step(net.fc1, x))))

    return twin


class Kept(nn.Module):
    """A membrane in an attribute, None before the first time step; ``reset_mem`` is not called by forward."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.size = size
        self.mem: Any = None

    def reset_mem(self) -> None:
        self.mem = None

    def start(self, x: Any) -> Any:
        if self.mem is None:
            self.mem = torch.zeros_like(x)
        return self.mem


class Plif(Kept):
    """A decay by a sigmoid; the potential moves towards its input."""

    def __init__(self, size: int) -> None:
        super().__init__(size)
        self.w = nn.Parameter(torch.tensor(0.3))

    def forward(self, x: Any) -> Any:
        mem = self.start(x)
        mem = mem + (x - mem) * self.w.sigmoid()
        spk = sigmoid_from(mem - 0.7)
        self.mem = (1.0 - spk) * mem
        return spk


class PlifChannels(nn.Module):
    """Decays per channel after a convolution, the membrane is an argument and comes back."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(2, 3, 3)
        self.w = nn.Parameter(torch.linspace(-1.0, 1.0, 3).view(3, 1, 1))

    def forward(self, x: Any, mem: Any = None) -> Any:
        mem = torch.zeros(x.shape[0], 3, 4, 4) if mem is None else mem
        mem = mem * torch.sigmoid(self.w) + self.conv(x)
        spk = torch.heaviside(mem - 1.0, torch.tensor(0.0))
        return spk, mem * (1.0 - spk)


class Course(nn.Module):
    """Integrate-and-fire over lists, fires at the threshold, too."""

    def __init__(self, at_threshold: float) -> None:
        super().__init__()
        self.fc, self.at_threshold = nn.Linear(8, 5, bias=False), at_threshold

    def forward(self, x: Any) -> Any:
        v, out = [torch.zeros(x.shape[1], 5)], []
        for t in range(x.shape[0]):
            potential = v[-1] + self.fc(x[t])
            spikes = torch.heaviside(potential - 1.0, torch.tensor(self.at_threshold))
            v.append(torch.where(spikes == 1.0, torch.zeros_like(potential), potential))
            out.append(spikes)
        return torch.stack(out)


class Tutorial2(nn.Module):
    """A function that looks at the old potential first; the reset subtracts the threshold."""

    def __init__(self) -> None:
        super().__init__()
        self.w = nn.Parameter(torch.tensor(0.625))

    def leaky(self, mem: Any, x: Any, beta: float = 0.5, threshold: float = 1.0) -> tuple[Any, Any]:
        spk = (mem > threshold).float()
        mem = beta * mem + self.w * x - spk * threshold
        return spk, mem

    def forward(self, x: Any) -> Any:
        mem, spk_out = torch.zeros(x.shape[1], 4), []
        for step in range(x.shape[0]):
            spk, mem = self.leaky(mem, x[step])
            spk_out.append(spk)
        return torch.stack(spk_out)


class LeakySurrogate(nn.Module):
    """The class of the tutorial on surrogates, with its states outside; the reset decays with the potential."""

    def __init__(self, beta: float = 0.5) -> None:
        super().__init__()
        self.fc, self.beta, self.threshold = nn.Linear(8, 5, bias=False), beta, 1.0

    def forward(self, x: Any, mem: Any = None) -> Any:
        mem = torch.zeros(x.shape[0], 5) if mem is None else mem
        spk = fast_sigmoid(mem - self.threshold)
        reset = (self.beta * spk * self.threshold).detach()
        return spk, self.beta * mem + self.fc(x) - reset


class Equations(nn.Module):
    """A neuron from equations: the reset is found from the membrane of the step before."""

    def __init__(self) -> None:
        super().__init__()
        self.fc1, self.fc2, self.beta = nn.Linear(8, 12), nn.Linear(12, 5), 0.5

    def lif(self, cur: Any, mem: Any) -> tuple[Any, Any]:
        reset = (mem - 1.0 > 0).float().detach()
        mem = self.beta * mem + cur - reset * 1.0
        return (mem > 1.0).float(), mem

    def forward(self, x: Any, states: Any = None) -> Any:
        mem1, mem2 = states or (torch.zeros(x.shape[0], 12), torch.zeros(x.shape[0], 5))
        spk, mem1 = self.lif(self.fc1(x), mem1)
        spk, mem2 = self.lif(self.fc2(spk), mem2)
        return spk, (mem1, mem2)


class NorseStep(nn.Module):
    """Norse's recurrent step as a function, with matrices of the module."""

    def __init__(self) -> None:
        super().__init__()
        self.inputs, self.back = nn.Linear(8, 6, bias=False), nn.Linear(6, 6, bias=False)
        self.p = norse_lif.LIFParameters(v_th=torch.as_tensor(0.53))

    def forward(self, x: Any, state: Any = None) -> Any:
        zeros = torch.zeros(x.shape[0], 6)
        state = norse_lif.LIFState(z=zeros, v=zeros, i=zeros) if state is None else state
        return norse_lif.lif_step(x, state, self.inputs.weight, self.back.weight, self.p, 0.001)


class NorseForward(nn.Module):
    """Norse's feed-forward step in a loop over time."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(8, 5, bias=False)
        self.p = norse_lif.LIFParameters(v_th=torch.as_tensor(0.37))

    def forward(self, x: Any) -> Any:
        zeros = torch.zeros(x.shape[1], 5)
        state, out = norse_lif.LIFFeedForwardState(v=zeros, i=zeros), []
        for now in x:
            z, state = norse_lif.lif_feed_forward_step(self.fc(now), state, self.p)
            out.append(z)
        return torch.stack(out)


class Amplified(snn.Leaky):
    """snnTorch's neuron after a gain."""

    def __init__(self) -> None:
        super().__init__(beta=0.75, reset_mechanism="zero")
        self.gain = nn.Parameter(torch.tensor(1.5))

    def forward(self, input_: Any, mem: Any = None) -> Any:  # type: ignore[override]
        return super().forward(self.gain * input_, mem)


class Masked(snn.Leaky):
    """snnTorch's neuron of which some never send their spikes."""

    def __init__(self) -> None:
        super().__init__(beta=0.75)
        self.register_buffer("mask", torch.tensor([1.0, 0.0, 1.0, 1.0, 1.0]))

    def forward(self, input_: Any, mem: Any = None) -> Any:  # type: ignore[override]
        spk, mem = super().forward(input_, mem)
        return spk * self.mask, mem


class SubclassOfLeaky(nn.Module):
    def __init__(self, kind: Any = Amplified) -> None:
        super().__init__()
        self.fc, self.lif = nn.Linear(8, 5), kind()

    def forward(self, x: Any) -> Any:
        mem, out = self.lif.init_leaky(), []
        for now in x:
            spk, mem = self.lif(self.fc(now), mem)
            out.append(spk)
        return torch.stack(out)


class Biased(jelly.LIFNode):
    """spikingjelly's neuron with a current per neuron."""

    def __init__(self, size: int) -> None:
        super().__init__(tau=2.0, decay_input=False)
        self.current = nn.Parameter(torch.linspace(0, 0.5, size))

    def forward(self, x: Any) -> Any:
        return super().forward(x + self.current)


class StraightThrough(Kept):
    def forward(self, x: Any) -> Any:
        mem = 0.5 * self.start(x) + x
        spk = straight_through(mem - 1.0)
        self.mem = mem * (1.0 - spk)
        return spk


class Where(Kept):
    """A reset to a value of its own, and a start from there."""

    def start(self, x: Any) -> Any:
        return torch.full_like(x, -0.25) if self.mem is None else self.mem

    def forward(self, x: Any) -> Any:
        mem = self.start(x) * 0.5 + x
        fired = torch.gt(mem, 1.0)
        self.mem = torch.where(fired, torch.tensor(-0.25), mem)
        return fired.float()


class MaskedFill(Kept):
    """The mask of the step before resets the membrane, before it decays."""

    def __init__(self, size: int) -> None:
        super().__init__(size)
        self.fired: Any = None

    def forward(self, x: Any) -> Any:
        mem = self.start(x)
        if self.fired is not None:
            mem = mem.masked_fill(self.fired, 0.0)
        self.mem = mem.mul(0.5).add(x)
        self.fired = self.mem.ge(1.0)
        return self.fired.to(x.dtype)


class Clamped(Kept):
    """A trained decay per neuron, clamped to [0, 1], and a threshold per neuron as a ratio."""

    def __init__(self, size: int) -> None:
        super().__init__(size)
        self.beta = nn.Parameter(torch.linspace(-0.25, 1.25, size))
        self.thr = nn.Parameter(torch.tensor([0.5, 1.0, 2.0]).repeat(size)[:size].clone())

    def forward(self, x: Any) -> Any:
        mem = self.beta.clamp(0, 1) * self.start(x) + x
        spk = fast_sigmoid(mem / self.thr - 1.0)
        self.mem = mem - spk.detach() * self.thr
        return spk


class Recurrent(nn.Module):
    """Spikes of the step before, through a matrix, in attributes."""

    def __init__(self) -> None:
        super().__init__()
        self.fc, self.rec = nn.Linear(8, 6), nn.Linear(6, 6, bias=False)
        self.mem: Any = None
        self.spk: Any = None

    def forward(self, x: Any) -> Any:
        if self.mem is None:
            self.mem, self.spk = torch.zeros(x.shape[0], 6), torch.zeros(x.shape[0], 6)
        self.mem = self.mem * 0.5 * (1 - self.spk) + self.fc(x) + self.rec(self.spk)
        self.spk = (self.mem > 1.0).float()
        return self.spk


class Lists(nn.Module):
    """Currents and membranes of all layers in lists; soft resets."""

    def __init__(self) -> None:
        super().__init__()
        self.sizes = (12, 6, 5)
        self.layers = nn.ModuleList([nn.Linear(8, 12), nn.Linear(12, 6), nn.Linear(6, 5)])

    def forward(self, x: Any) -> Any:
        syns = [torch.zeros(x.shape[0], size) for size in self.sizes]
        mems = [torch.zeros_like(syn) for syn in syns]
        outputs = []
        for t in range(x.shape[1]):
            spk = x[:, t]
            for k, layer in enumerate(self.layers):
                syns[k] = 0.5 * syns[k] + layer(spk)
                mems[k] = 0.75 * mems[k] + syns[k]
                spk = (mems[k] >= 2.0).float()
                mems[k] = mems[k] - 2.0 * spk
            outputs.append(spk)
        return torch.stack(outputs, dim=1)


class Refractory(nn.Module):
    """As BindsNET's LIFNodes: a resting potential, a counter that masks inputs, a floor, states as buffers."""

    def __init__(self, size: int, rest: float = -64.0, reset: float = -64.0) -> None:
        super().__init__()
        self.rest, self.reset, self.refrac = rest, reset, 3
        self.register_buffer("v", torch.full((1, size), rest))
        self.register_buffer("refrac_count", torch.zeros(1, size))

    def forward(self, x: Any) -> Any:
        self.v = 0.5 * (self.v - self.rest) + self.rest
        x = x.masked_fill(self.refrac_count > 0, 0.0)
        self.refrac_count = self.refrac_count - 1
        self.v = self.v + x
        s = self.v >= -63.0
        self.refrac_count = self.refrac_count.masked_fill(s, self.refrac)
        self.v = self.v.masked_fill(s, self.reset)
        return s.float()


class Raised(Kept):
    """A threshold that each spike raises, from a value of its own, and a reset to zero."""

    def __init__(self, size: int) -> None:
        super().__init__(size)
        self.b: Any = None

    def forward(self, x: Any) -> Any:
        b = torch.full_like(x, 0.25) if self.b is None else self.b
        mem = 0.5 * self.start(x) + x
        spk = (mem >= 1.0 + b).float()
        self.b, self.mem = 0.75 * b + 0.5 * spk, mem * (1 - spk)
        return spk


class Several(Kept):
    """Several spikes in a time step, at most four."""

    def forward(self, x: Any) -> Any:
        mem = self.start(x) + x
        spk = torch.floor(mem / 0.5).clamp(0, 4)
        self.mem = mem - spk * 0.5
        return spk


class NoReset(Kept):
    def forward(self, x: Any) -> Any:
        self.mem = self.start(x) * 0.75 + x
        return torch.relu(torch.sign(self.mem - 1.5))


class Floor(Kept):
    """A membrane that never falls below zero, and a constant drive."""

    def forward(self, x: Any) -> Any:
        mem = torch.relu(self.start(x) * 0.5 + x + 0.125)
        spk = sigmoid_from(mem - 1.0)
        self.mem = mem - spk
        return spk


def _plif(lif: Any) -> Cell:
    return Cell(a_mem=1 - lif.w.sigmoid(), g_mem=lif.w.sigmoid(), theta=0.7, compare=">=")


def _clamped(lif: Any) -> Cell:
    return Cell(a_mem=lif.beta.clamp(0, 1), theta=lif.thr, reset="subtract")


def _lists(net: Any, x: Any) -> Any:
    for layer in net.layers:
        x = Cell(a_mem=0.75, a_syn=0.5, theta=2.0, compare=">=", reset="subtract")(each_step(layer, x))
    return x


def _norse(theta: float) -> Cell:
    return Cell(a_mem=0.9, g_mem=0.1, a_syn=0.8, theta=theta)


def _refractory(lif: Any) -> Cell:
    """The membrane falls back to rest while inputs are masked; held, it starts from where that leads."""
    after = lif.rest + (lif.reset - lif.rest) * 0.5**lif.refrac
    masked = {"v_reset": after, "v_init": lif.rest, "refractory": lif.refrac}
    return Cell(a_mem=0.5, bias=-32.0, theta=-63.0, compare=">=", **masked)


def forms() -> Iterator[HandWritten]:
    def row(name: str, make: Any, takes: Any, twin: Any, shape: tuple[int, ...] = (8,)) -> HandWritten:
        return HandWritten(name, make, shape, takes, twin)

    late = Cell(a_mem=0.5, reset="subtract", amount=2.0)
    fc = lambda cell: lambda net, x: cell(each_step(net.fc, x))  # noqa: E731
    yield row("PLIF", lambda: two(Plif), "step", twice(_plif))
    channels = lambda net, x: Cell(a_mem=net.w.sigmoid())(each_step(net.conv, x))  # noqa: E731
    yield row("PLIF per channel, the membrane an argument", PlifChannels, "states", channels, (2, 6, 6))
    yield row("a course's IF, above the threshold", lambda: Course(0.0), "time", fc(Cell()))
    yield row("a course's IF, from the threshold", lambda: Course(1.0), "time", fc(Cell(compare=">=")))
    second = lambda net, x: Cell(a_mem=0.5, reset="subtract", amount=2.0, delay=1)(net.w * x)  # noqa: E731
    yield row("snnTorch's tutorial 2, spikes of the old membrane", Tutorial2, "time", second, (4,))
    surrogate = Cell(a_mem=0.5, reset="subtract", delay=1)
    yield row("snnTorch's tutorial on surrogates", LeakySurrogate, "states", fc(surrogate))
    yield row("neuron from equations, late soft reset", Equations, "states", _chain(late))
    norse = lambda net, x: _norse(0.53)(each_step(net.inputs, x), net.back)  # noqa: E731
    yield row("norse lif_step", NorseStep, "states", norse)
    yield row("norse lif_feed_forward_step", NorseForward, "time", fc(_norse(0.37)))
    gain = lambda net, x: Cell(a_mem=0.75)(net.lif.gain * each_step(net.fc, x))  # noqa: E731
    yield row("a subclass of snntorch.Leaky", SubclassOfLeaky, "time", gain)
    late_mask = Cell(a_mem=0.75, reset="subtract", amount=1.0 / 0.75)
    masked = lambda net, x: net.lif.mask * late_mask(each_step(net.fc, x))  # noqa: E731
    yield row("a subclass of snntorch.Leaky, masked spikes", lambda: SubclassOfLeaky(Masked), "time", masked)
    biased = lambda lif: Cell(a_mem=0.5, bias=lif.current, compare=">=")  # noqa: E731
    yield row("a subclass of spikingjelly's LIFNode", lambda: two(Biased), "step", twice(biased))
    yield row("straight-through gradient", lambda: two(StraightThrough), "step", twice(Cell(a_mem=0.5)))
    where = Cell(a_mem=0.5, v_reset=-0.25, v_init=-0.25)
    yield row("torch.where, a reset to a value", lambda: two(Where), "step", twice(where))
    yield row("masked_fill before the decay", lambda: two(MaskedFill), "step", twice(Cell(a_mem=0.5, compare=">=")))
    yield row("clamped decays, thresholds as ratios", lambda: two(Clamped), "step", twice(_clamped))
    recurrent = lambda net, x: Cell(a_mem=0.5)(each_step(net.fc, x), net.rec)  # noqa: E731
    yield row("a recurrent matrix by hand", Recurrent, "step", recurrent)
    yield row("synapses and membranes in lists", Lists, "batch-time", _lists)
    yield row("BindsNET-like, refractory counter", lambda: two(Refractory), "step", twice(_refractory))
    leaks = "BindsNET-like, the membrane leaks while inputs are masked"
    yield row(leaks, lambda: two(Refractory, reset=-66.0), "step", twice(_refractory))
    raised = Cell(a_mem=0.5, compare=">=", b_decay=0.75, b_jump=0.5, b_init=0.25)
    yield row("a threshold that spikes raise", lambda: two(Raised), "step", twice(raised))
    several = Cell(theta=0.5, reset="subtract", compare=">=", max_spikes=4)
    yield row("several spikes in a time step", lambda: two(Several), "step", twice(several))
    yield row("no reset", lambda: two(NoReset), "step", twice(Cell(a_mem=0.75, theta=1.5, reset="none")))
    floor = Cell(a_mem=0.5, bias=0.125, reset="subtract", compare=">=", v_min=0.0)
    yield row("a floor at zero", lambda: two(Floor), "step", twice(floor))


def _chain(cell: Cell) -> Any:
    return lambda net, x: cell(each_step(net.fc2, cell(each_step(net.fc1, x))))
