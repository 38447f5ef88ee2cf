"""Random rules of neurons, written as people write them, built from drawn choices; a third is no canonical neuron.

A rule is one time step ``(states, input) -> (states, spikes)``. Its parts are drawn one by one: how the membrane
decays, what the input is multiplied with, a synapse before it (in the same time step or one later), how and when a
spike resets, how the comparison is written, a refractory counter, a floor, a constant drive. The rule of a number is
always the same.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, cast

import torch
from torch import nn

from tests.importers.handwritten.breaks import BREAKS, Break
from tests.importers.handwritten.canonical import Cell, each_step
from tests.importers.handwritten.forms import HandWritten, Takes
from tests.importers.handwritten.surrogates import fast_sigmoid, sigmoid_from, straight_through

COUNT, EVERY = 300, 3
"""Rules in all; one in three of them is no canonical neuron."""
State = dict[str, Any]


@dataclass(frozen=True)
class Choices:
    """What a rule was drawn as; numbers on a grid where only then a comparison finds equal values."""

    decay: str
    factor: float
    gain: float
    synapse: str
    reset: str
    written: str
    when: str
    compare: str
    fires: str
    theta: float
    to: float
    refractory: int
    counter: str
    floor: float | None
    drive: float
    wiring: str
    takes: str
    is_detached: bool
    per_neuron: bool
    is_on_grid: bool
    broken: str = ""

    def __str__(self) -> str:
        return " ".join(str(value) for value in (self.decay, self.reset, self.written, self.when, self.fires))


def drawn(number: int) -> Choices:
    """The choices of a rule. Combinations whose meaning would depend on further choices are not drawn."""
    r = random.Random(number)
    grid = r.random() < 0.5
    synapse = r.choice(("", "", "", "first", "first", "later", "stored decayed"))
    reset = r.choice(("zero", "zero", "value", "subtract", "subtract", "none"))
    when = r.choice(("now", "now", "late", "old" if reset != "none" else "now"))
    refractory = r.choice((0, 0, 0, 1, 2, 3)) if reset in ("zero", "value") and when == "now" else 0
    decay = r.choice(("factor", "factor", "minus", "towards", "exp", "sigmoid", "none"))
    return Choices(
        decay=decay,
        factor=r.choice((0.5, 0.75) if grid else (0.53, 0.71, 0.87)),
        gain=r.choice((1.0, 1.0, 0.5, 2.0) if grid else (1.0, 1.3)),
        synapse=synapse,
        reset=reset,
        written=r.choice(("where", "product", "blend", "fill") if reset in ("zero", "value") else ("minus", "inplace")),
        when=when,
        compare=r.choice((">", ">=")),
        fires=r.choice(("operator", "method", "function", "heaviside", "ratio", "through", "where", "sign")),
        theta=r.choice((0.5, 1.0, 2.0) if grid else (0.83, 1.07)),
        to=r.choice((-0.25, 0.25) if grid else (-0.31, 0.17)),
        refractory=refractory,
        counter=r.choice(("down", "since")),
        floor=r.choice((None, None, None, -0.5)) if reset != "value" else None,
        drive=0.0 if synapse == "later" else r.choice((0.0, 0.0, 0.125 if grid else 0.07)),
        wiring=r.choice(("one", "two", "recurrent")),
        takes=r.choice(("step", "states", "time", "batch-time")),
        is_detached=r.random() < 0.5,
        per_neuron=r.random() < 0.4,
        is_on_grid=grid,
        broken=list(BREAKS)[1 + number // EVERY % (len(BREAKS) - 1)] if number % EVERY == 0 else "",
    )


# -- parts of a step -------------------------------------------------------------------------------------------------


def _fire(c: Choices) -> Callable[[Any], Any]:
    """Spikes of a membrane, in one of the ways to write a comparison."""
    strict, th = c.compare == ">", c.theta
    ways: dict[str, Callable[[Any], Any]] = {
        "operator": (lambda m: (m > th).float()) if strict else (lambda m: (m >= th).float()),
        "method": (lambda m: m.gt(th).to(m.dtype)) if strict else (lambda m: torch.ge(m, th).to(m.dtype)),
        "function": (lambda m: fast_sigmoid(m - th)) if strict else (lambda m: sigmoid_from(m - th)),
        "heaviside": lambda m: torch.heaviside(m - th, torch.tensor(0.0 if strict else 1.0)),
        "ratio": (lambda m: fast_sigmoid(m / th - 1.0)) if strict else (lambda m: sigmoid_from(m / th - 1.0)),
        "through": (lambda m: straight_through(m - th)) if strict else (lambda m: (m - th >= 0).float()),
        "where": lambda m: torch.where(m > th if strict else m >= th, torch.ones_like(m), torch.zeros_like(m)),
        "sign": (lambda m: torch.relu(torch.sign(m - th))) if strict else (lambda m: 1.0 - (m < th).float()),
    }
    return ways[c.fires]


def _leak(c: Choices, module: Any) -> Callable[[Any, Any], Any]:
    """The membrane after decay and input; ``module.b`` is the factor, or what it is computed from."""
    if c.decay == "towards":
        return lambda m, x: m + (x - m) * (1 - module.b)
    ways: dict[str, Callable[[Any], Any]] = {
        "factor": lambda m: module.b * m,
        "minus": lambda m: m - m * (1 - module.b),
        "exp": lambda m: m * torch.exp(-1.0 / module.tau),
        "sigmoid": lambda m: m * torch.sigmoid(module.w),
        "none": lambda m: m,
    }
    decayed = ways[c.decay]
    return lambda m, x: decayed(m) + (x if c.gain == 1.0 else c.gain * x)


def _reset(c: Choices) -> Callable[[Any, Any], Any]:
    """The membrane after spikes of it."""
    to = c.to if c.reset == "value" else 0.0
    ways: dict[str, Callable[[Any, Any], Any]] = {
        "where": lambda m, s: torch.where(s > 0.5, torch.full_like(m, to), m),
        "product": lambda m, s: m * (1.0 - s) + to * s if to else m * (1.0 - s),
        "blend": lambda m, s: m - s * (m - to) if to else m - s * m,
        "fill": lambda m, s: m.masked_fill(s.bool(), to),
        "minus": lambda m, s: m - c.theta * s,
        "inplace": lambda m, s: m.clone().sub_(s * c.theta),
    }
    reset = (lambda m, s: m) if c.reset == "none" else ways[c.written]
    return (lambda m, s: reset(m, s.detach())) if c.is_detached else reset


class Neurons(nn.Module):
    """One population of a rule: its parameters, and one time step of it."""

    def __init__(self, c: Choices, size: int) -> None:
        super().__init__()
        self.c, self.size = c, size
        spread = torch.linspace(0.9, 1.0, size) if not c.is_on_grid else torch.tensor([1.0, 0.5]).repeat(size)[:size]
        b = c.factor * (spread if c.per_neuron else torch.ones(()))
        self.b, self.tau = nn.Parameter(b), nn.Parameter(-1.0 / torch.log(b))
        self.w = nn.Parameter(torch.logit(b))
        self.fire, self.leak, self.reset = _fire(c), _leak(c, self), _reset(c)

    def start(self, x: Any) -> State:
        zeros = torch.zeros(x.shape[0], self.size)
        return {"mem": zeros, "syn": zeros, "spk": zeros, "count": zeros + (99.0 if self.c.counter == "since" else 0.0)}

    def step(self, x: Any, state: State) -> tuple[Any, State]:
        """One time step; what a rule is broken by stands in place of one of its parts."""
        broken: Break = BREAKS[self.c.broken]
        current, syn = self.current(x, state["syn"])
        current, mem, count = broken.current(current, state) + self.c.drive, state["mem"], state["count"]
        if self.c.when == "old":
            spk = self.fire(mem)
            mem = self.leak(self.reset(mem, spk), current)
        else:
            mem = self.reset(mem, state["spk"]) if self.c.when == "late" else mem
            mem, count = self.held(broken.membrane(self.leak(mem, current), state), count)
            spk = broken.spikes(self.fire, mem, state)
            count = self.counted(spk, count)
            mem = broken.reset(self.reset, mem, spk, x) if self.c.when == "now" else mem
        mem = mem if self.c.floor is None else torch.clamp(mem, min=self.c.floor)
        return spk, broken.after({"mem": mem, "syn": syn, "spk": spk, "count": count}, spk)

    def current(self, x: Any, syn: Any) -> tuple[Any, Any]:
        if not self.c.synapse:
            return x, syn
        if self.c.synapse == "stored decayed":
            return syn + x, 0.5 * (syn + x)
        new = 0.5 * syn + x
        return (new if self.c.synapse == "first" else syn), new

    def held(self, mem: Any, count: Any) -> tuple[Any, Any]:
        """The membrane at its reset value while the counter says so."""
        if not self.c.refractory:
            return mem, count
        is_held = count > 0 if self.c.counter == "down" else count < self.c.refractory
        count = (count - 1).clamp(min=0) if self.c.counter == "down" else count + 1
        return torch.where(is_held, torch.tensor(self.c.to if self.c.reset == "value" else 0.0), mem), count

    def counted(self, spk: Any, count: Any) -> Any:
        if not self.c.refractory:
            return count
        return torch.where(spk > 0, torch.tensor(float(self.c.refractory if self.c.counter == "down" else 0)), count)


class Net(nn.Module):
    """Layers of a rule's neurons, states in attributes, as arguments, or in a loop over time."""

    def __init__(self, c: Choices) -> None:
        super().__init__()
        self.c, sizes = c, (6, 8, 5) if c.wiring == "two" else (6, 8)
        self.fcs = nn.ModuleList([nn.Linear(a, b, bias=False) for a, b in pairwise(sizes)])
        self.cells = nn.ModuleList([Neurons(c, size) for size in sizes[1:]])
        self.rec = nn.Linear(8, 8, bias=False) if c.wiring == "recurrent" else None
        self.kept: Any = None

    def once(self, x: Any, states: Any) -> tuple[Any, Any]:
        states, after = states or [cell.start(x) for cell in self.cells], []  # type: ignore[operator]
        for fc, cell, state in zip(self.fcs, self.cells, states, strict=True):
            x = fc(x) if self.rec is None else fc(x) + self.rec(state["spk"])
            x, state = cell.step(x, state)  # type: ignore[operator]
            after.append(state)
        return x, after

    def forward(self, x: Any, states: Any = None) -> Any:
        if self.c.takes == "states":
            return self.once(x, states)
        if self.c.takes == "step":
            out, self.kept = self.once(x, self.kept)
            return out
        axis = 0 if self.c.takes == "time" else 1
        outs = []
        for now in x.unbind(axis):
            out, states = self.once(now, states)
            outs.append(out)
        return torch.stack(outs, axis)


# -- the canonical neuron of a rule --------------------------------------------------------------------------------


def cell_of(c: Choices, neurons: Any) -> Cell:
    """What a rule that is not broken computes."""
    b = {"none": 1.0, "exp": torch.exp(-1.0 / neurons.tau), "sigmoid": neurons.w.sigmoid()}.get(c.decay, neurons.b)
    g = 1 - neurons.b if c.decay == "towards" else c.gain
    kind = {"zero": "to-value", "value": "to-value"}.get(c.reset, c.reset)
    delay = (c.when == "old") + (c.synapse == "later")
    return Cell(
        a_mem=b,
        g_mem=g,
        bias=g * c.drive,
        theta=c.theta,
        a_syn=0.5 if c.synapse else 0.0,
        reset=kind,
        v_reset=c.to if c.reset == "value" else 0.0,
        compare=c.compare,
        refractory=c.refractory,
        v_min=c.floor,
        delay=delay,
    )


def twin(net: Any, x: Any) -> Any:
    """Spikes of the last layer by the canonical neuron."""
    for fc, neurons in zip(net.fcs, net.cells, strict=True):
        x = cell_of(net.c, neurons)(each_step(fc, x), net.rec)
    return x


@dataclass(frozen=True)
class Rule(HandWritten):
    """A form that was drawn; ``twin`` is None for one that was broken."""

    choices: Choices = field(kw_only=True)


def rule(number: int) -> Rule:
    """The rule of a number below ``COUNT``."""
    c = drawn(number)
    if c.broken:
        c = BREAKS[c.broken].choices(c)
    gain = 1 - c.factor if c.decay == "towards" else min(c.gain, 1.0)
    scale = (4.0 if c.wiring == "two" else 3.0) * max(c.theta, 1.0) / gain
    name, takes = f"{number}: {c.broken or c}", cast(Takes, c.takes)
    return Rule(name, lambda: Net(c), (6,), takes, None if c.broken else twin, scale=scale, choices=c)
