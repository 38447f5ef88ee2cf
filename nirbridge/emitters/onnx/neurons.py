"""One time step of a population in ONNX: the canonical neuron in float32, and the integer neuron in int64."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

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
    n = p.neuron

    def number(values: object) -> str:
        return g.flat(np.asarray(values), p.shape, "int64")

    half, last = 1 << (n.u_bits - 1), (1 << (n.v_bits - 1)) - 1
    u = g.op("Add", _kept(g, state["u"], 4095 - n.du, number), g.op("Mul", drive, number(1 << INPUT_SHIFT)))
    u = g.op("Where", g.op("Greater", u, number(half)), g.op("Sub", u, number(2 * half)), u)
    u = g.op("Where", g.op("LessOrEqual", u, number(-half)), g.op("Add", u, number(2 * half)), u)
    v = g.op("Add", g.op("Add", _kept(g, state["v"], 4096 - n.dv, number), u), number(n.bias))
    v = g.op("Max", g.op("Min", v, number(last)), number(-last))
    if n.fires_above is None:
        return Stepped(v, {"u": u, "v": v}, {"u": u, "v": v})
    following = {"u": u}
    held = g.op("Greater", state["rest"], number(0)) if "rest" in state else None
    v = v if held is None else g.op("Where", held, number(0), v)
    fired = g.op("Greater", v, number(n.fires_above))
    fired = fired if held is None else g.op("And", fired, g.op("Not", held))
    spikes = g.cast(fired, "int64")
    if n.max_spikes > 1:
        size = number(np.maximum(n.spike_size, 1))
        whole = g.op("Div", g.op("Sub", v, g.op("Mod", v, size)), size)  # rounded down: ONNX cuts towards zero
        spikes = g.op("Where", fired, g.op("Min", whole, number(n.max_spikes)), number(0))
        fired = g.op("Greater", spikes, number(0))
    if held is not None:
        waits = g.op("Max", g.op("Sub", state["rest"], number(1)), number(0))
        following["rest"] = g.op("Where", fired, number(n.refractory_steps), waits)
    if n.reset == "zero":
        v = g.op("Where", fired, number(0), v)
    elif n.reset == "subtract":
        v = g.op("Sub", v, g.op("Mul", spikes, number(n.reset_amount)))
    v = v if n.v_min is None else g.op("Max", v, number(n.v_min))
    return Stepped(spikes, {"s": spikes, "u": u, "v": v}, {**following, "v": v})


def _kept(g: GraphBuilder, x: str, keep: object, number: object) -> str:
    """``sign(x) * ((|x| * keep) >> 12)``."""
    assert callable(number)
    size = g.op("Div", g.op("Mul", g.op("Abs", x), number(keep)), number(4096))
    return g.op("Mul", g.op("Sign", x), size)
