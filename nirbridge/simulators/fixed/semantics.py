"""One time step of a quantized network in plain int64: the exact meaning of every faster path.

The rule is at the head of quantization/model.py. Arrays here are flat over neurons: ``[steps, batch, neurons]``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from nirbridge.arrays import Array
from nirbridge.network.apply import apply
from nirbridge.quantization.decays import dec
from nirbridge.quantization.formats import INPUT_SHIFT
from nirbridge.quantization.model import FixedPopulation, FixedProjection

FixedState = dict[str, Array]
"""``u``, ``v`` (int64) and ``refractory`` of a population, each ``[batch, neurons]``; changed in place."""


FixedAccumulate = Callable[[Array, int, Array], None]
"""``(history, depth, a_in)``: adds the input of one projection to ``a_in: [steps, batch, targets]``;
``history[depth + t]`` is the output of its source at time step t."""
FixedNeurons = Callable[[Array, FixedState, Array, Mapping[str, Array]], None]
"""``(a_in, state, sent, traces)``: steps the neurons of one population through ``a_in``; fills ``sent`` (v of a
readout) and the requested ``traces``, ``u`` and ``v``."""


@dataclass(frozen=True, slots=True)
class FixedBackend:
    """An integer backend.

    ``adds`` takes a projection, the type of ``a_in`` and whether the source sends only 0 and 1; ``steps`` takes a
    population and the proved bound of the magnitude of its ``a_in``.
    """

    name: str
    adds: Callable[[FixedProjection, type, bool], FixedAccumulate]
    steps: Callable[[FixedPopulation, int], FixedNeurons]


class ReferenceFixedAccumulate:
    """A projection by numpy's integer arithmetic."""

    def __init__(self, projection: FixedProjection, kind: type, spikes: bool) -> None:
        del kind, spikes  # numpy adds up in int64
        self.operator, self.exponent = projection.operator, projection.weight_exp
        shape = projection.operator.input_shape
        self.delays = np.broadcast_to(projection.delay_steps.reshape(-1), (int(np.prod(shape)),))

    def __call__(self, history: Array, depth: int, a_in: Array) -> None:
        """See ``FixedAccumulate``."""
        sources = np.arange(len(self.delays))
        for t in range(len(a_in)):
            arriving = history[depth + t - self.delays, :, sources].T.astype(np.int64)
            summed = apply(self.operator, arriving.reshape(-1, *self.operator.input_shape)).reshape(len(arriving), -1)
            a_in[t] += summed << self.exponent if self.exponent >= 0 else summed >> -self.exponent


class ReferenceFixedNeurons:
    """The integer neuron by numpy."""

    def __init__(self, population: FixedPopulation, reach: int) -> None:
        del reach  # numpy computes in int64
        self.neuron, self.size = population.neuron, population.size
        n = population.neuron
        flat = {"du": n.du, "dv": n.dv, "bias": n.bias, "amount": n.reset_amount, "size": n.spike_size}
        flat |= {
            "hold": n.refractory_steps,
            "v_min": np.full((), -(1 << 62)) if n.v_min is None else n.v_min,
            "above": np.zeros((), np.int64) if n.fires_above is None else n.fires_above,
        }
        self.flat = {k: np.broadcast_to(x, population.shape).reshape(-1) for k, x in flat.items()}

    def __call__(self, a_in: Array, state: FixedState, sent: Array, traces: Mapping[str, Array]) -> None:
        """See ``FixedNeurons``."""
        for t in range(len(a_in)):
            state["u"], state["v"], state["refractory"], sent[t] = self._step(a_in[t], **state)
            for name, trace in traces.items():
                trace[t] = state[name]

    def _step(self, a_in: Array, u: Array, v: Array, refractory: Array) -> tuple[Array, Array, Array, Array]:
        n, f, last = self.neuron, self.flat, (1 << (self.neuron.v_bits - 1)) - 1
        u = self._wrapped(dec(u, f["du"] + 1) + (a_in << INPUT_SHIFT))
        v = np.clip(dec(v, f["dv"]) + u + f["bias"], -last, last)
        if n.fires_above is None:
            return u, v, refractory, v
        held = refractory > 0
        v = np.where(held, 0, v)
        fired = (v > f["above"]) & ~held
        many = np.minimum(n.max_spikes, v // np.maximum(f["size"], 1)) if n.max_spikes > 1 else 1
        spikes = np.where(fired, many, 0)
        refractory = np.where(spikes > 0, f["hold"], np.maximum(refractory - 1, 0))
        if n.reset == "subtract":
            v = v - spikes * f["amount"]
        elif n.reset == "zero":
            v = np.where(spikes > 0, 0, v)
        return u, np.maximum(v, f["v_min"]), refractory, spikes

    def _wrapped(self, u: Array) -> Array:
        half = 1 << (self.neuron.u_bits - 1)
        u = np.where(u > half, u - 2 * half, u)
        return np.where(u <= -half, u + 2 * half, u)


REFERENCE = FixedBackend("reference", ReferenceFixedAccumulate, ReferenceFixedNeurons)
"""The plain backend."""
