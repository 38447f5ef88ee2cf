"""One time step of a quantized network in plain int64: the exact meaning of every faster path.

The rule is that of ``program/rules.py``, evaluated. Arrays here are flat over neurons: ``[steps, batch, neurons]``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np

from nirbridge._types import Shape
from nirbridge.arrays import Array
from nirbridge.network.apply import apply
from nirbridge.program.evaluate import Evaluator
from nirbridge.program.rules import traced_step
from nirbridge.program.terms import Kind
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
    """The integer neuron by numpy: its rule, evaluated."""

    def __init__(self, population: FixedPopulation, reach: int) -> None:
        del reach  # numpy computes in int64
        types: Mapping[Kind, type] = {"int": np.int64, "count": np.int64, "bool": np.bool_}
        flat = partial(flat_values, shape=population.shape)
        self.step = Evaluator(traced_step(population.neuron), np, types, flat)

    def __call__(self, a_in: Array, state: FixedState, sent: Array, traces: Mapping[str, Array]) -> None:
        """See ``FixedNeurons``."""
        for t in range(len(a_in)):
            found = self.step({"drive": a_in[t], **{f"state.{name}": values for name, values in state.items()}})
            state |= {name: np.broadcast_to(values, a_in[t].shape) for name, values in found.state.items()}
            sent[t] = found.sent
            for name, trace in traces.items():
                trace[t] = state[name]


def flat_values(values: Array, shape: Shape) -> Array:
    """A coefficient of a population: one number, or ``[neurons]``."""
    return values if values.ndim == 0 else np.broadcast_to(values, shape).reshape(-1)


REFERENCE = FixedBackend("reference", ReferenceFixedAccumulate, ReferenceFixedNeurons)
"""The plain backend."""
