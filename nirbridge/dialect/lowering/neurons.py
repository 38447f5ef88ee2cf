"""One time step of a population as elementwise operations, in real numbers and in integers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from nirbridge.dialect.lowering.pointwise import Node, Pointwise

REST = "rest"
"""The state that counts the time steps until the end of a refractory time."""
INPUT_SHIFT = 6
Values = Mapping[str, Any]
"""The attributes of a neuron as arrays, numbers and words."""


def real_states(n: Values) -> dict[str, Any]:
    """The initial state of a population in real numbers; variables that nothing is kept of are left out."""
    found = {}
    if np.any(n["a_mem"] != 0):
        found["v"] = n["v_init"]
    if np.any(n["a_syn"] != 0):
        found["i"] = n["i_init"]
    if n["theta"] is not None and np.any(n["refractory_steps"] > 0):
        found[REST] = np.int64(0)
    return found


def fixed_states(n: Values) -> dict[str, Any]:
    """The initial state of a population in integers."""
    found = {"u": n["u_init"], "v": n["v_init"]}
    if n["fires_above"] is not None and np.any(n["refractory_steps"] > 0):
        found[REST] = np.int64(0)
    return found


class RealStep:
    """The canonical neuron; coefficients of 1 and 0 cost nothing, as in the reference."""

    def __init__(self, p: Pointwise, n: Values, element: str) -> None:
        self.p, self.n, self.element = p, n, element

    def step(self, drive: Node | None, state: Mapping[str, Node]) -> dict[str, Node]:
        """Variables by name, ``s`` among them."""
        p, n = self.p, self.n
        i, u = self._potential(drive or self._number(0.0), state)
        if n["theta"] is None:
            return {"s": u, "u": u, "v": u, "i": i}
        found = {"i": i}
        held = p.op("arith.cmpi sgt", state[REST], p.number(0, "i32"), element="i1") if REST in state else None
        if held is not None:
            u = p.op("arith.select", held, self._number(n["v_reset"]), u)
        order = "ogt" if n["compare"] == ">" else "oge"
        fired = p.op(f"arith.cmpf {order}", u, self._number(n["theta"]), element="i1")
        if held is not None:
            fired = p.op("arith.select", held, p.number(False, "i1"), fired)
            waits = p.op("arith.select", held, p.op("arith.subi", state[REST], p.number(1, "i32")), state[REST])
            found[REST] = p.op("arith.select", fired, p.number(n["refractory_steps"], "i32"), waits)
        sent = self._sent(u, fired)
        return {"s": sent, "u": u, "v": self._after(u, fired, sent), **found}

    def _number(self, values: object) -> Node:
        return self.p.number(values, self.element)

    def _times(self, values: Any, x: Node) -> Node:
        return x if np.all(np.asarray(values) == 1.0) else self.p.op("arith.mulf", x, self._number(values))

    def _potential(self, drive: Node, state: Mapping[str, Node]) -> tuple[Node, Node]:
        p, n = self.p, self.n
        i = self._times(n["g_syn"], drive)
        if "i" in state:
            i = p.op("arith.addf", p.op("arith.mulf", state["i"], self._number(n["a_syn"])), i)
        u = self._times(n["g_mem"], i)
        if "v" in state:
            u = p.op("arith.addf", self._times(n["a_mem"], state["v"]), u)
        return i, p.op("arith.addf", u, self._number(n["bias"])) if np.any(n["bias"] != 0) else u

    def _sent(self, u: Node, fired: Node) -> Node:
        p, n = self.p, self.n
        if n["max_spikes"] == 1:
            return p.op("arith.select", fired, self._number(1.0), self._number(0.0))
        many = p.op("math.floor", p.op("arith.divf", u, self._number(n["theta"])))
        most = self._number(float(n["max_spikes"]))
        over = p.op("arith.cmpf ogt", many, most, element="i1")
        return p.op("arith.select", fired, p.op("arith.select", over, most, many), self._number(0.0))

    def _after(self, u: Node, fired: Node, sent: Node) -> Node:
        p, n, v = self.p, self.n, u
        if n["reset"] == "subtract":
            v = p.op("arith.subf", u, self._times(n["reset_amount"], sent))
        elif n["reset"] == "to-value":
            v = p.op("arith.select", fired, self._number(n["v_reset"]), u)
        if n["v_min"] is None:
            return v
        floor = self._number(n["v_min"])
        return p.op("arith.select", p.op("arith.cmpf olt", v, floor, element="i1"), floor, v)


class FixedStep:
    """The neuron at the head of quantization/model.py; ``sign(x) * ((|x| * keep) >> 12)`` without a wider product."""

    def __init__(self, p: Pointwise, n: Values, element: str) -> None:
        self.p, self.n, self.element = p, n, element

    def step(self, drive: Node | None, state: Mapping[str, Node]) -> dict[str, Node]:
        """Variables by name, ``s`` among them."""
        p, n, number = self.p, self.n, self._number
        u = self._current(drive or number(0), state["u"])
        v = self._potential(u, state["v"])
        if n["fires_above"] is None:
            return {"s": v, "u": u, "v": v}
        found = {"u": u}
        held = p.op("arith.cmpi sgt", state[REST], number(0), element="i1") if REST in state else None
        v = v if held is None else p.op("arith.select", held, number(0), v)
        fired = p.op("arith.cmpi sgt", v, number(n["fires_above"]), element="i1")
        if held is not None:
            fired = p.op("arith.select", held, p.number(False, "i1"), fired)
        spikes = self._spikes(v, fired)
        if n["max_spikes"] > 1:
            fired = p.op("arith.cmpi sgt", spikes, number(0), element="i1")
        if held is not None:
            waits = p.op("arith.select", held, p.op("arith.subi", state[REST], number(1)), number(0))
            found[REST] = p.op("arith.select", fired, number(n["refractory_steps"]), waits)
        return {"s": spikes, "v": self._after(v, fired, spikes), **found}

    def _number(self, values: object) -> Node:
        return self.p.number(values, self.element)

    def _kept(self, x: Node, keep: Any) -> Node:
        """With ``|x| = 4096 h + l`` the product is ``h keep + (l keep >> 12)``, and no part of it exceeds |x|."""
        p, number = self.p, self._number
        if np.all(np.asarray(keep) == 0):
            return number(0)
        negative = p.op("arith.cmpi slt", x, number(0), element="i1")
        size = p.op("arith.select", negative, p.op("arith.subi", number(0), x), x)
        high, low = p.op("arith.shrsi", size, number(12)), p.op("arith.andi", size, number(4095))
        part = p.op("arith.shrsi", p.op("arith.muli", low, number(keep)), number(12))
        kept = p.op("arith.addi", p.op("arith.muli", high, number(keep)), part)
        return p.op("arith.select", negative, p.op("arith.subi", number(0), kept), kept)

    def _current(self, drive: Node, u: Node) -> Node:
        p, n, number = self.p, self.n, self._number
        half = 1 << (n["u_bits"] - 1)
        u = p.op("arith.addi", self._kept(u, 4095 - n["du"]), p.op("arith.shli", drive, number(INPUT_SHIFT)))
        over = p.op("arith.cmpi sgt", u, number(half), element="i1")
        u = p.op("arith.select", over, p.op("arith.subi", u, number(2 * half)), u)
        under = p.op("arith.cmpi sle", u, number(-half), element="i1")
        return p.op("arith.select", under, p.op("arith.addi", u, number(2 * half)), u)

    def _potential(self, u: Node, v: Node) -> Node:
        p, n, number = self.p, self.n, self._number
        last = (1 << (n["v_bits"] - 1)) - 1
        v = p.op("arith.addi", p.op("arith.addi", self._kept(v, 4096 - n["dv"]), u), number(n["bias"]))
        return p.op("arith.maxsi", p.op("arith.minsi", v, number(last)), number(-last))

    def _spikes(self, v: Node, fired: Node) -> Node:
        p, n, number = self.p, self.n, self._number
        if n["max_spikes"] == 1:
            return p.op("arith.select", fired, number(1), number(0))
        whole = p.op("arith.floordivsi", v, number(np.maximum(n["spike_size"], 1)))
        return p.op("arith.select", fired, p.op("arith.minsi", whole, number(n["max_spikes"])), number(0))

    def _after(self, v: Node, fired: Node, spikes: Node) -> Node:
        p, n, number = self.p, self.n, self._number
        if n["reset"] == "zero":
            v = p.op("arith.select", fired, number(0), v)
        elif n["reset"] == "subtract":
            v = p.op("arith.subi", v, p.op("arith.muli", spikes, number(n["reset_amount"])))
        return v if n["v_min"] is None else p.op("arith.maxsi", v, number(n["v_min"]))
