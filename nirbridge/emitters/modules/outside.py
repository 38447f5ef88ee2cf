"""Neurons rewritten into ones that more classes hold: the same spikes in exact arithmetic, another record.

With ``u[t] = a v[t-1] + g x[t] + bias``: a gain moves in front of the neuron; a potential measured from its first value
``c`` starts at 0 (``bias`` gains ``(a - 1) c``, and thresholds and reset lose ``c``); a bias moves in front
where no current of its own is filtered; a reset by subtraction of ``A`` is a feedback of ``-a A`` one time step later.
Among numbers of 32 bits, ``u >= theta`` is ``u > theta'`` with ``theta'`` the number before ``theta``.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from nirbridge.arrays import Array, compact
from nirbridge.emitters.modules.plan import Outside
from nirbridge.network.model import Population
from nirbridge.network.neurons import Compare, Neuron

ZERO, ONE = compact(np.zeros(())), compact(np.ones(()))


@dataclass(frozen=True, slots=True, eq=False)
class Rewritten:
    """A neuron with the arithmetic that was moved in front of it, and a sentence on each move."""

    neuron: Neuron
    outside: Outside = field(default_factory=Outside)
    notes: tuple[str, ...] = ()

    def unit_gain(self) -> Rewritten:
        """Both gains are 1; the current starts where it did, in its new unit."""
        n = self.neuron
        gain = np.asarray(n.g_mem * n.g_syn)
        if np.all(n.g_mem == 1) and np.all(n.g_syn == 1):
            return self
        moved = replace(n, g_mem=ONE, g_syn=ONE, i_init=compact(np.asarray(n.i_init * n.g_mem)))
        outside = replace(self.outside, gain=None if np.all(gain == 1) else gain)
        return self._noted(moved, outside, "its gain is a factor on its input")

    def from_rest(self) -> Rewritten:
        """The potential starts at 0: it is measured from its first value."""
        n, c = self.neuron, self.neuron.v_init
        if not np.any(c):
            return self
        moved = replace(
            n,
            bias=compact(np.asarray(n.bias + (n.a_mem - 1) * c)),
            theta=None if n.theta is None else compact(np.asarray(n.theta - c)),
            v_reset=compact(np.asarray(n.v_reset - c)),
            v_init=ZERO,
        )
        return self._noted(moved, self.outside, "its potential is measured from its first value")

    def without_bias(self) -> Rewritten:
        """No bias; it is added to the input (of neurons whose input goes to the membrane at once)."""
        n = self.neuron
        if not np.any(n.bias) or np.any(n.a_syn):
            return self
        total = n.bias if self.outside.offset is None else self.outside.offset + n.bias
        outside = replace(self.outside, offset=np.asarray(total))
        return self._noted(replace(n, bias=ZERO), outside, "its bias is added to its input")

    def without_subtraction(self) -> Rewritten:
        """No reset; what it takes off is an input one time step later (same condition)."""
        n = self.neuron
        if n.reset != "subtract" or np.any(n.a_syn) or n.max_spikes != 1 or np.any(n.refractory_steps):
            return self
        outside = replace(self.outside, back=np.asarray(n.a_mem * n.reset_amount))
        moved = replace(n, reset="none", reset_amount=n.theta if n.theta is not None else ZERO)
        return self._noted(moved, outside, "its reset is a connection onto itself, one time step later")

    def comparing(self, compare: Compare) -> Rewritten:
        """Spikes by ``>`` or by ``>=``, the same ones among numbers of 32 bits."""
        n = self.neuron
        if n.theta is None or n.compare == compare:
            return self
        towards = np.float32(-np.inf if compare == ">" else np.inf)
        theta = np.nextafter(n.theta.astype(np.float32), towards).astype(np.float64)
        text = (
            f"its threshold is a float32 {'below' if compare == '>' else 'above'}, since it spikes at {compare!r} only"
        )
        return self._noted(replace(n, theta=compact(theta), compare=compare), self.outside, text)

    def _noted(self, neuron: Neuron, outside: Outside, text: str) -> Rewritten:
        return Rewritten(neuron, outside, (*self.notes, text))


def rewritten(population: Population) -> Rewritten:
    """A population's neuron, nothing moved so far."""
    return Rewritten(population.neuron)


def as_float32(values: Array) -> Array:
    """Values in the precision of a framework's parameters, as float64."""
    return compact(np.asarray(values, np.float32).astype(np.float64))
