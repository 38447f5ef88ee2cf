"""One time step of a population in ONNX: the canonical neuron in float32, and the integer neuron in int64."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from nirbridge.arrays import Array
from nirbridge.emitters.onnx.graph import GraphBuilder
from nirbridge.network.model import Population
from nirbridge.quantization.model import FixedPopulation

INPUT_SHIFT = 6


@dataclass(frozen=True, slots=True)
class Stepped:
    """Tensors of one time step of a population: what it sends, its variables, and its next state by name."""

    sent: str
    variables: dict[str, str]
    state: dict[str, str]


class _RealStep:
    """The neuron of ``network.neurons`` in float32; coefficients of 1 and 0 cost nothing."""

    def __init__(self, g: GraphBuilder, p: Population) -> None:
        self.g, self.p = g, p

    def number(self, values: object) -> str:
        return self.g.flat(np.asarray(values), self.p.shape, "float32")

    def times(self, values: object, tensor: str) -> str:
        return tensor if np.all(np.asarray(values) == 1.0) else self.g.op("Mul", tensor, self.number(values))

    def potential(self, drive: str, state: dict[str, str]) -> tuple[str, str]:
        """(current, potential before the reset)."""
        n = self.p.neuron
        i = self.times(n.g_syn, drive)
        if np.any(n.a_syn != 0):
            i = self.g.op("Add", self.g.op("Mul", state["i"], self.number(n.a_syn)), i)
        u = self.times(n.g_mem, i)
        if np.any(n.a_mem != 0):
            u = self.g.op("Add", self.times(n.a_mem, state["v"]), u)
        return i, self.g.op("Add", u, self.number(n.bias)) if np.any(n.bias != 0) else u

    def spikes(self, u: str, fired: str) -> str:
        n = self.p.neuron
        if n.max_spikes == 1:
            return self.g.cast(fired, "float32")
        many = self.g.op("Floor", self.g.op("Div", u, self.number(n.theta)))
        most = self.g.op("Min", many, self.g.constant(n.max_spikes, "float32"))
        return self.g.op("Where", fired, most, self.g.constant(0, "float32"))

    def after_reset(self, u: str, fired: str, sent: str) -> str:
        n, v = self.p.neuron, u
        if n.reset == "subtract":
            v = self.g.op("Sub", u, self.times(n.reset_amount, sent))
        elif n.reset == "to-value":
            v = self.g.op("Where", fired, self.number(n.v_reset), u)
        return v if n.v_min is None else self.g.op("Max", v, self.number(n.v_min))


def real_step(g: GraphBuilder, p: Population, drive: str, state: dict[str, str]) -> Stepped:
    """One time step of a population in float32; ``drive``: ``[batch, neurons]``."""
    n, own = p.neuron, _RealStep(g, p)
    i, u = own.potential(drive, state)
    if n.theta is None:
        return Stepped(u, {"v": u, "u": u, "i": i}, {"v": u, "i": i})
    following = {"i": i}
    held = g.op("Greater", state["rest"], g.constant(0, "int64")) if "rest" in state else None
    u = u if held is None else g.op("Where", held, own.number(n.v_reset), u)
    fired = g.op("Greater" if n.compare == ">" else "GreaterOrEqual", u, own.number(n.theta))
    if held is not None:
        fired = g.op("And", fired, g.op("Not", held))
        waits = g.op("Max", g.op("Sub", state["rest"], g.constant(1, "int64")), g.constant(0, "int64"))
        following["rest"] = g.op("Where", fired, g.flat(n.refractory_steps, p.shape, "int64"), waits)
    sent = own.spikes(u, fired)
    v = own.after_reset(u, fired, sent)
    return Stepped(sent, {"s": sent, "v": v, "u": u, "i": i}, {**following, "v": v})


def integer_step(g: GraphBuilder, p: FixedPopulation, drive: str, state: dict[str, str]) -> Stepped:
    """The neuron at the head of quantization/model.py in int64."""
    n, own = p.neuron, _IntegerStep(g, p)
    u = own.current(drive, state["u"])
    v = own.potential(u, state["v"])
    if n.fires_above is None:
        return Stepped(v, {"u": u, "v": v}, {"u": u, "v": v})
    following = {"u": u}
    held = g.op("Greater", state["rest"], own.number(0)) if "rest" in state else None
    v = v if held is None else g.op("Where", held, own.number(0), v)
    fired = g.op("Greater", v, own.number(n.fires_above))
    fired = fired if held is None else g.op("And", fired, g.op("Not", held))
    spikes, fired = own.spikes(v, fired)
    if held is not None:
        waits = g.op("Max", g.op("Sub", state["rest"], own.number(1)), own.number(0))
        following["rest"] = g.op("Where", fired, own.number(n.refractory_steps), waits)
    v = own.after_reset(v, fired, spikes)
    return Stepped(spikes, {"s": spikes, "u": u, "v": v}, {**following, "v": v})


class _IntegerStep:
    """The parts of a time step of an integer neuron."""

    def __init__(self, g: GraphBuilder, p: FixedPopulation) -> None:
        self.g, self.p = g, p

    def number(self, values: object) -> str:
        return self.g.flat(np.asarray(values), self.p.shape, "int64")

    def kept(self, x: str, keep: object) -> str:
        """``sign(x) * ((|x| * keep) >> 12)`` of a state that fits its register."""
        size = self.g.op("Div", self.g.op("Mul", self.g.op("Abs", x), self.number(keep)), self.number(4096))
        return self.g.op("Mul", self.g.op("Sign", x), size)

    def kept_of_all(self, x: str, keep: Array) -> str:
        """The same in two halves of x: a current may lie far beyond its register."""
        if not keep.any():
            return self.kept(x, keep)
        g, one, factor = self.g, self.number(4096), self.number(keep)
        size = g.op("Abs", x)
        high = g.op("Div", size, one)
        low = g.op("Sub", size, g.op("Mul", high, one))
        left = g.op("Add", g.op("Mul", high, factor), g.op("Div", g.op("Mul", low, factor), one))
        return g.op("Mul", g.op("Sign", x), left)

    def current(self, drive: str, u: str) -> str:
        g, n = self.g, self.p.neuron
        half = 1 << (n.u_bits - 1)
        u = g.op("Add", self.kept_of_all(u, 4095 - n.du), g.op("Mul", drive, self.number(1 << INPUT_SHIFT)))
        u = g.op("Where", g.op("Greater", u, self.number(half)), g.op("Sub", u, self.number(2 * half)), u)
        return g.op("Where", g.op("LessOrEqual", u, self.number(-half)), g.op("Add", u, self.number(2 * half)), u)

    def potential(self, u: str, v: str) -> str:
        g, n = self.g, self.p.neuron
        last = (1 << (n.v_bits - 1)) - 1
        v = g.op("Add", g.op("Add", self.kept(v, 4096 - n.dv), u), self.number(n.bias))
        return g.op("Max", g.op("Min", v, self.number(last)), self.number(-last))

    def spikes(self, v: str, fired: str) -> tuple[str, str]:
        """(spikes of the time step, whether there are any)."""
        g, n = self.g, self.p.neuron
        if n.max_spikes == 1:
            return g.cast(fired, "int64"), fired
        size = self.number(np.maximum(n.spike_size, 1))
        whole = g.op("Div", g.op("Sub", v, g.op("Mod", v, size)), size)  # rounded down: ONNX cuts towards zero
        spikes = g.op("Where", fired, g.op("Min", whole, self.number(n.max_spikes)), self.number(0))
        return spikes, g.op("Greater", spikes, self.number(0))

    def after_reset(self, v: str, fired: str, spikes: str) -> str:
        g, n = self.g, self.p.neuron
        if n.reset == "zero":
            v = g.op("Where", fired, self.number(0), v)
        elif n.reset == "subtract":
            v = g.op("Sub", v, g.op("Mul", spikes, self.number(n.reset_amount)))
        return v if n.v_min is None else g.op("Max", v, self.number(n.v_min))
