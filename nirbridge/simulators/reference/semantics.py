"""One time step of a population: the canonical neuron on the Python array API, and the interface of backends.

**The exact meaning, bit for bit** (the project's semantics text, section 1, in every float type):

* Weights, biases and coefficients are cast to the run's float type once.
* A projection's current starts at 0; sources are added in ascending flat (row-major) index, each product rounded before
  it is added (no fused multiply-add). A chain is applied part by part, each part like this. A pool adds its window
  and multiplies by its factor afterwards, once. Then ``bias`` is added (not delayed).
* The currents of a target are added in the order of ``network.projections``: ``((c0 + c1) + c2) …``, c with its bias.
* ``i = a_syn * i + g_syn * x`` (products rounded, then added), ``u = (a_mem * v + g_mem * i) + bias``; then k and v.
* k: ``u > theta`` (or ``>=``); with ``max_spikes`` above 1 ``floor(u / theta)`` where u passes theta,
  at most ``max_spikes``. Subtraction takes off ``k * reset_amount``, the product rounded.
* A neuron in its refractory time has ``u = v = v_reset`` and sends nothing; its synaptic current goes on.
* A floor comes last: ``v = max(v, v_min)``, after the reset; k and the trace of u are those before it.
* An adaptation adds b to theta and, ``in_reset``, to reset_amount first; ``b = decay * b + jump * k`` comes last.
* Only the sign of a zero is open: a term that is 0 for all neurons may be left out.

**The seam.** A faster backend gives ``Backend``, nothing else: ``accumulate(projection)`` makes the ``Accumulate`` of a
projection, ``neurons(population)`` the ``NeuronStepper`` of a population. ``layer`` and ``loop`` may do both for a
population that they suit, in one go. The engine (engine.py) does the rest: inputs,
chunks of steps, delays, cycles, order of projections, biases, recording, state. Where no cycle is, both are called once
per chunk with all its steps and samples (layer by layer); within a cycle with one step. Arrays between parts are what
``NeuronStepper.run`` and ``Backend.take_input`` return (bytes for spikes are fine), ``[steps, batch, *shape]``. A
backend is named in ``nirbridge.simulators.backends``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from nirbridge.arrays import Array
from nirbridge.network.model import Population, Projection
from nirbridge.network.neurons import Neuron
from nirbridge.simulators.reference.array_namespace import ArrayNamespace

NeuronState = Mapping[str, Any]
"""``v``, ``i``, ``refractory`` and, of an adaptation, ``b`` of one population, each ``[batch, *shape]``."""


class BlankState(dict[str, Any]):
    """The initial state of a population: one object for all runs of a batch size, never modified."""


Accumulate = Callable[[Any], Any]
"""Sums of one projection's operator, bias and delay excluded, every item by itself:
``[items, *source shape] -> [items, *target shape]`` of the run's float type."""


class NeuronStepper(Protocol):
    """The neurons of one population."""

    def run(self, drive: Any, state: NeuronState, requested: frozenset[str]) -> LayerOutput:
        """Steps through ``drive: [steps, batch, *shape]``, the summed input current of each step."""
        ...


class Loop(Protocol):
    """A self-recurrent population with a delay of one time step: all time steps in one call."""

    def run(
        self, steps: int, currents: tuple[Any, Any], past: Any, state: NeuronState, requested: frozenset[str]
    ) -> LayerOutput:
        """Steps through ``currents``, those to be added before and after the own one.

        Each is ``[steps, batch, *shape]``, None where there is none; ``past: [batch, *shape]`` are the spikes of the
        population in the time step before. The loop adds the bias of its own projection.
        """
        ...


class Layer(Protocol):
    """A population outside of cycles with one incoming projection: sums, bias and neurons in one call."""

    def run(self, spikes: Any, state: NeuronState, requested: frozenset[str]) -> LayerOutput:
        """Steps through ``spikes: [steps, batch, *source shape]``, after its delay."""
        ...


@dataclass(frozen=True, slots=True)
class LayerOutput:
    """Output of a population, and its state after the last time step.

    ``sent: [steps, batch, *shape]`` (spikes; v of a readout), ``traces``: the requested ones of ``v``, ``u``, ``i``, of
    the same shape.
    """

    sent: Any
    traces: Mapping[str, Any]
    state: NeuronState


@dataclass(frozen=True, slots=True)
class Backend:
    """A backend: how to add up spikes and how to step neurons.

    ``layer`` serves a population in no cycle whose one incoming projection has no delay per target element, ``loop`` a
    self-recurrent one; where they return None, ``accumulate`` and ``neurons`` do it. ``choices``: the chosen kernels,
    for the recording's meta.
    """

    space: ArrayNamespace
    accumulate: Callable[[Projection], Accumulate]
    neurons: Callable[[Population], NeuronStepper]
    take_input: Callable[[Array], Any]
    loop: Callable[[Population, Projection], Loop | None] = lambda population, own: None
    layer: Callable[[Population, Projection], Layer | None] = lambda population, projection: None
    choices: Mapping[str, Any] = field(default_factory=dict)


class ReferenceNeurons:
    """The canonical neuron on any array library; coefficients that all neurons share are plain numbers."""

    def __init__(self, population: Population, space: ArrayNamespace) -> None:
        n: Neuron = population.neuron
        self.space, self.shape, self.kind = space, population.shape, n
        self.a_mem, self.g_mem, self.bias = (
            space.coefficient(n.a_mem),
            space.coefficient(n.g_mem),
            space.coefficient(n.bias),
        )
        self.a_syn, self.g_syn = space.coefficient(n.a_syn), space.coefficient(n.g_syn)
        self.theta = None if n.theta is None else space.coefficient(n.theta)
        self.v_reset, self.amount = space.array(n.v_reset), space.coefficient(n.reset_amount)
        self.v_min = None if n.v_min is None else space.array(n.v_min)
        self.adapts = n.adaptation
        if self.adapts is not None:
            self.b_decay, self.b_jump = map(space.coefficient, (self.adapts.decay, self.adapts.jump))
        self.none, self.most = space.array(np.zeros(())), space.array(np.asarray(n.max_spikes))
        self.holds = bool(np.any(n.refractory_steps > 0))
        self.hold_steps = space.integers(n.refractory_steps)

    def run(self, drive: Any, state: NeuronState, requested: frozenset[str]) -> LayerOutput:
        """See ``NeuronStepper.run``."""
        xp, now = self.space.xp, dict(state)
        sent: list[Any] = []
        traces: dict[str, list[Any]] = {name: [] for name in ("v", "u", "i") if name in requested}
        for t in range(drive.shape[0]):
            out, potential = self._step(drive[t, ...], now)
            sent.append(out)
            for name, values in traces.items():
                values.append(potential if name == "u" else now[name])
        return LayerOutput(xp.stack(sent), {name: xp.stack(values) for name, values in traces.items()}, now)

    def _step(self, x: Any, now: dict[str, Any]) -> tuple[Any, Any]:
        """The output and the potential before the reset; ``now`` is updated."""
        xp, v = self.space.xp, now["v"]
        i = _times(self.g_syn, x)
        if not is_value(self.a_syn, 0.0):
            i = now["i"] * self.a_syn + i
        u = _times(self.g_mem, i)
        if not is_value(self.a_mem, 0.0):
            u = _times(self.a_mem, v) + u
        if not is_value(self.bias, 0.0):
            u = u + self.bias
        now["i"] = i
        if self.theta is None:
            now["v"] = u
            return u, u
        held = now["refractory"] > 0 if self.holds else None
        if held is not None:
            u = xp.where(held, self.v_reset, u)
        theta = self.theta if self.adapts is None else self.theta + now["b"]
        fired = u > theta if self.kind.compare == ">" else u >= theta
        if held is not None:
            fired = xp.logical_and(fired, xp.logical_not(held))
            waits = xp.where(held, now["refractory"] - 1, now["refractory"])
            now["refractory"] = xp.where(fired, self.hold_steps, waits)
        sent = self._sent(u, fired, theta)
        v = self._reset(u, fired, sent, now)
        if self.adapts is not None:
            now["b"] = _times(self.b_decay, now["b"]) + _times(self.b_jump, sent)
        now["v"] = self._floored(v)
        return sent, u

    def _floored(self, v: Any) -> Any:
        return v if self.v_min is None else self.space.xp.where(v < self.v_min, self.v_min, v)

    def _sent(self, u: Any, fired: Any, theta: Any) -> Any:
        xp = self.space.xp
        if self.kind.max_spikes == 1:
            return xp.astype(fired, self.space.dtype)
        many = xp.floor(u / theta)
        return xp.where(fired, xp.where(many > self.most, self.most, many), self.none)

    def _reset(self, u: Any, fired: Any, sent: Any, now: NeuronState) -> Any:
        if self.kind.reset == "none":
            return u
        if self.kind.reset == "subtract":
            amount = self.amount + now["b"] if self.adapts is not None and self.adapts.in_reset else self.amount
            return u - _times(amount, sent)
        return self.space.xp.where(fired, self.v_reset, u)


def is_value(coefficient: Any, value: float) -> bool:
    """True for a coefficient that all neurons share and that is this number."""
    return isinstance(coefficient, float) and coefficient == value


def _times(coefficient: Any, values: Any) -> Any:
    return values if is_value(coefficient, 1.0) else values * coefficient
