"""One time step of a population as lines of Python: the canonical neuron, and the integer neuron of a chip."""

from __future__ import annotations

import numpy as np

from nirbridge.emitters.jax.module import ModuleWriter
from nirbridge.network.model import Population
from nirbridge.quantization.model import FixedPopulation

INPUT_SHIFT = 6


class RealNeuron:
    """The neuron of ``network.neurons`` with the input ``drive``; coefficients of 1 and 0 cost nothing."""

    def __init__(self, m: ModuleWriter, p: Population, identifier: str, states: dict[str, str], dtype: str) -> None:
        self.m, self.p, self.id, self.states, self.dtype = m, p, identifier, states, dtype

    def number(self, name: str, values: object) -> str:
        """The text of a coefficient."""
        return self.m.coefficient(f"{self.id}.{name}", values, self.p.shape, self.dtype)

    def times(self, name: str, values: object, text: str) -> str:
        """The text of a product with a coefficient."""
        return text if np.all(np.asarray(values) == 1.0) else f"{self.number(name, values)} * {text}"

    def lines(self) -> tuple[list[str], dict[str, str], dict[str, str]]:
        """The lines, the text of each variable, and of each next state; the identifier is what the population sends."""
        n, out = self.p.neuron, self._potential()
        if n.theta is None:
            out.append(f"{self.id} = u")
            return out, {"v": "u", "u": "u"}, self._next({"v": "u", "i": "i"})
        out += self._fired()
        out += [f"{self.id} = {self._sent()}", f"v = {self._after_reset()}"]
        if n.v_min is not None:
            out.append(f"v = jnp.maximum(v, {self.number('v_min', n.v_min)})")
        return out, {"s": self.id, "u": "u", "v": "v"}, self._next({"v": "v", "i": "i", "rest": "rest"})

    def _potential(self) -> list[str]:
        n = self.p.neuron
        out, i = [], "drive"
        if np.any(n.a_syn != 0):
            out.append(f"i = {self.states['i']} * {self.number('a_syn', n.a_syn)} + {self.times('g_syn', n.g_syn, i)}")
            i = "i"
        elif np.any(n.g_syn != 1):
            out.append(f"i = {self.times('g_syn', n.g_syn, i)}")
            i = "i"
        u = self.times("g_mem", n.g_mem, i)
        if np.any(n.a_mem != 0):
            u = f"{self.times('a_mem', n.a_mem, self.states['v'])} + {u}"
        if np.any(n.bias != 0):
            u = f"{u} + {self.number('bias', n.bias)}"
        return [*out, f"u = {u}"]

    def _fired(self) -> list[str]:
        n = self.p.neuron
        test = f"u {n.compare} {self.number('theta', n.theta)}"
        if "rest" not in self.states:
            return [f"fired = {test}"]
        rest = self.states["rest"]
        hold = self.m.coefficient(f"{self.id}.refractory", _int32(n.refractory_steps), self.p.shape, "int32")
        return [
            f"held = {rest} > 0",
            f"u = jnp.where(held, {self.number('v_reset', n.v_reset)}, u)",
            f"fired = ({test}) & ~held",
            f"rest = jnp.where(fired, {hold}, jnp.maximum({rest} - 1, 0))",
        ]

    def _sent(self) -> str:
        n = self.p.neuron
        if n.max_spikes == 1:
            return "jnp.where(fired, u.dtype.type(1), u.dtype.type(0))"  # IREE 3.13 compiles no i1 to a float
        return f"jnp.where(fired, jnp.minimum(jnp.floor(u / {self.number('theta', n.theta)}), {n.max_spikes}), 0)"

    def _after_reset(self) -> str:
        n = self.p.neuron
        if n.reset == "subtract":
            return f"u - {self.times('reset_amount', n.reset_amount, self.id)}"
        return f"jnp.where(fired, {self.number('v_reset', n.v_reset)}, u)" if n.reset == "to-value" else "u"

    def _next(self, values: dict[str, str]) -> dict[str, str]:
        return {name: text for name, text in values.items() if name in self.states}


class IntegerNeuron:
    """The neuron at the head of quantization/model.py with the input ``drive``, in int32 or int64."""

    def __init__(
        self, m: ModuleWriter, p: FixedPopulation, identifier: str, states: dict[str, str], dtype: str
    ) -> None:
        self.m, self.p, self.id, self.states, self.dtype = m, p, identifier, states, dtype

    def number(self, name: str, values: object) -> str:
        """The text of a coefficient."""
        return self.m.coefficient(f"{self.id}.{name}", values, self.p.shape, self.dtype)

    def lines(self) -> tuple[list[str], dict[str, str], dict[str, str]]:
        """See ``RealNeuron.lines``."""
        n, m = self.p.neuron, self.m
        decayed, last = m.helper("decayed"), (1 << (n.v_bits - 1)) - 1
        kept_u = f"{decayed}({self.states['u']}, {self.number('keep_u', 4095 - n.du)})"
        kept_v = f"{decayed}({self.states['v']}, {self.number('keep_v', 4096 - n.dv)})"
        bias = f" + {self.number('bias', n.bias)}" if np.any(n.bias != 0) else ""
        out = [
            f"u = {m.helper('wrapped')}({kept_u} + (drive << {INPUT_SHIFT}), {1 << (n.u_bits - 1)})",
            f"v = jnp.clip({kept_v} + u{bias}, {-last}, {last})",
        ]
        if n.fires_above is None:
            return [*out, f"{self.id} = v"], {"u": "u", "v": "v"}, {"u": "u", "v": "v"}
        out += self._fired()
        out += self._after_reset()
        return out, {"s": self.id, "u": "u", "v": "v"}, {name: name for name in self.states}

    def _fired(self) -> list[str]:
        n, rest = self.p.neuron, self.states.get("rest")
        held = [] if rest is None else [f"held = {rest} > 0", "v = jnp.where(held, 0, v)"]
        test = f"v > {self.number('fires_above', n.fires_above)}"
        out = [*held, f"fired = {test}" if rest is None else f"fired = ({test}) & ~held"]
        if n.max_spikes == 1:
            out.append(f"{self.id} = jnp.where(fired, v.dtype.type(1), v.dtype.type(0))")
        else:
            size = self.number("spike_size", np.maximum(n.spike_size, 1))
            out.append(f"{self.id} = jnp.where(fired, jnp.minimum(v // {size}, {n.max_spikes}), 0)")
            out.append(f"fired = {self.id} > 0")
        if rest is not None:
            hold = self.m.coefficient(f"{self.id}.refractory", _int32(n.refractory_steps), self.p.shape, "int32")
            out.append(f"rest = jnp.where(fired, {hold}, jnp.maximum({rest} - 1, 0))")
        return out

    def _after_reset(self) -> list[str]:
        n, out = self.p.neuron, []
        if n.reset == "zero":
            out.append("v = jnp.where(fired, 0, v)")
        elif n.reset == "subtract":
            out.append(f"v = v - {self.id} * {self.number('reset_amount', n.reset_amount)}")
        if n.v_min is not None:
            out.append(f"v = jnp.maximum(v, {self.number('v_min', n.v_min)})")
        return out


def _int32(steps: object) -> object:
    """Refractory time steps; no run has more than int32 holds."""
    return np.minimum(np.asarray(steps), 2**31 - 1)
