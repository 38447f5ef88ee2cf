"""Initial states that cancel the latency: the neuron is run backwards, so that idle time steps lead to its own state.

A population of latency L runs L time steps before anything reaches it. Constant drives (the neuron's bias, the
projections' biases) and an initial state that is not 0 act in them too, so that it would enter its time step 0 in
another state.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from nirbridge.arrays import Array, compact
from nirbridge.network import Neuron, Population
from nirbridge.network.neurons import floored

LARGEST_START = 64.0
"""Largest initial state in multiples of the threshold (of a readout: of its input in one time step): the integers of a
chip hold little more. A decay of 1/2 gets there in about six time steps."""


@dataclass(frozen=True, slots=True, eq=False)
class InitialState:
    """Values before the first hardware step; arrays of shape ``()`` or the population's."""

    v: Array
    i: Array


def is_quiet(population: Population, drive: Array | None, *, feeds_neurons: bool) -> bool:
    """True if the population, left alone with its constant drive, keeps its state exactly and sends nothing."""
    n = population.neuron
    state = _forwards(n, drive, InitialState(n.v_init, n.i_init), 1, feeds_neurons=feeds_neurons)
    if state is None or (n.adaptation is not None and bool(np.any(n.adaptation.init))):
        return False
    same_i = bool(np.all((n.a_syn == 0) | (state.i == n.i_init)))
    return same_i and bool(np.all((n.a_mem == 0) | (state.v == n.v_init)))


def initial_state_before(
    population: Population, drive: Array | None, steps: int, *, feeds_neurons: bool
) -> Neuron | None:
    """The neuron with the start from which ``steps`` steps without spikes lead to its own start; None: there is none.

    There is none where the neuron would fire or meet its floor in these steps, or (a readout that is read early) send
    another value than 0, or where the start is beyond ``LARGEST_START``. The steps are solved backwards in float64::

        i[t-1] = (i[t] - g_syn * x) / a_syn,    v[t-1] = (v[t] - g_mem * i[t] - bias) / a_mem

    A state without memory (a decay of 0) is left as it is: nothing depends on it.

    Args:
        population: whose neuron.
        drive: the sum of the biases of all projections into it (its shape), None: there are none.
        steps: its latency.
        feeds_neurons: whether its values before its first time step reach anything (``heard_early``).
    """
    n = population.neuron
    if steps == 0 or is_quiet(population, drive, feeds_neurons=feeds_neurons):
        return n
    if n.adaptation is not None and bool(np.any(n.adaptation.init)):  # its threshold would move on the way
        return None
    with np.errstate(all="ignore"):
        start = _backwards(n, drive, steps)
        reached = _forwards(n, drive, start, steps, feeds_neurons=feeds_neurons)
        free = _forwards(n, drive, start, steps, feeds_neurons=feeds_neurons, has_floor=False)
        if reached is None or free is None or not _within(n, drive, start):
            return None
        if bool(np.any(reached.v != free.v)):  # the floor was met on the way
            return None
    return replace(n, v_init=compact(start.v), i_init=compact(start.i))


def _drive(n: Neuron, drive: Array | None) -> Any:
    """Input current of the constant biases of the projections, per time step."""
    return np.float64(0.0) if drive is None else n.g_syn * drive


def _backwards(n: Neuron, drive: Array | None, steps: int) -> InitialState:
    x = _drive(n, drive)
    i, v = n.i_init + 0.0 * x, n.v_init + 0.0 * x
    remembers = n.a_syn != 0
    for _ in range(steps):
        arriving = np.where(remembers, i, x)
        v = np.where(n.a_mem != 0, (v - n.g_mem * arriving - n.bias) / np.where(n.a_mem != 0, n.a_mem, 1.0), v)
        i = np.where(remembers, (i - x) / np.where(remembers, n.a_syn, 1.0), i)
    return InitialState(v, i)


def _forwards(
    n: Neuron, drive: Array | None, start: InitialState, steps: int, *, feeds_neurons: bool, has_floor: bool = True
) -> InitialState | None:
    """The state ``steps`` steps later; None where anything would be sent on the way."""
    x = _drive(n, drive)
    i, v = start.i, start.v
    for _ in range(steps):
        i = n.a_syn * i + x
        v = n.a_mem * v + n.g_mem * i + n.bias
        if n.theta is None:
            sent = v != 0 if feeds_neurons else np.False_
        else:
            sent = v > n.theta if n.compare == ">" else v >= n.theta
        if bool(np.any(sent)) or not bool(np.all(np.isfinite(v))):
            return None
        v = floored(n, v) if has_floor else v
    return InitialState(np.asarray(v), np.asarray(i))


def _within(n: Neuron, drive: Array | None, start: InitialState) -> bool:
    once = np.abs(n.g_mem * _drive(n, drive) + n.bias)
    reach = np.maximum(np.maximum(once, np.abs(n.v_init)), 0.0 if n.theta is None else np.abs(n.theta))
    flow = np.maximum(np.abs(_drive(n, drive)), np.abs(n.i_init))
    return bool(np.all(np.abs(start.v) <= LARGEST_START * reach) and np.all(np.abs(start.i) <= LARGEST_START * flow))
