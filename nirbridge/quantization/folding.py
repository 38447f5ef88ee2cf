"""A population in the form that integers take: one gain for all input, reset to 0, one constant drive.

With ``g = g_mem * g_syn`` folded into the weights, ``off`` the value that a spike resets to, and the steady current
``j = g_syn * (sum of the projections' biases) / (1 - a_syn)`` taken out of the current::

    c = g_mem * (i - j)            c' = a_syn * c + g * x
    w = v - off                    w' = a_mem * w + c' + (bias + g_mem * j - (1 - a_mem) * off)

which is the canonical neuron, exactly, in other coordinates.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from nirbridge.arrays import Array, compact
from nirbridge.errors import Problem, quoted
from nirbridge.network.model import Network, Population
from nirbridge.network.neurons import Neuron


@dataclass(frozen=True, slots=True, eq=False)
class Folded:
    """See the head of this file; ``v_start`` and ``i_start`` (w and c) are the state at the reference's first step."""

    population: Population
    gain: Array
    a_mem: Array
    a_syn: Array
    bias: Array
    theta: Array | None
    amount: Array
    offset: Array
    v_start: Array
    i_start: Array
    steady: Array

    @property
    def neuron(self) -> Neuron:
        """The neuron as it was."""
        return self.population.neuron


def fold(network: Network, population: Population, latency: int) -> Folded:
    """The population in the integers' coordinates, and its state when ``latency`` steps without spikes have gone by."""
    n = population.neuron
    drive = sum(
        (p.bias for p in network.projections if p.target == population.name and p.bias is not None), np.zeros(())
    )
    a_syn = np.minimum(n.a_syn, np.nextafter(1.0, 0.0))
    steady = n.g_syn * drive / (1.0 - a_syn)
    resets = n.reset == "to-value" or bool(np.any(n.refractory_steps > 0))
    offset = n.v_reset if n.fires and resets else np.zeros(())
    bias = n.bias + n.g_mem * steady - (1.0 - n.a_mem) * offset
    v, i = n.v_init - offset, n.g_mem * (n.i_init - steady)
    for _ in range(latency):
        i = n.a_syn * i
        v = n.a_mem * v + i + bias
    return Folded(
        population=population,
        gain=compact(n.g_mem * n.g_syn),
        a_mem=n.a_mem,
        a_syn=n.a_syn,
        bias=compact(bias),
        theta=None if n.theta is None else compact(n.theta - offset),
        amount=n.reset_amount,
        offset=compact(offset),
        v_start=compact(v),
        i_start=compact(np.where(n.a_syn == 0, 0.0, i)),
        steady=compact(steady),
    )


def neuron_problems(population: Population) -> Iterator[Problem]:
    """What no integers of this form can say, whatever the chip."""
    n, thing = population.neuron, f"population {quoted(population.name)}"
    for name, decay in (("membrane", n.a_mem), ("synaptic current", n.a_syn)):
        if bool(np.any((decay < 0) | (decay > 1))):
            found = f"its {name} is multiplied by {_outside(decay):g} a step"
            yield Problem(
                thing, found, "integers decay by a factor of 0 to 1", "make dt smaller than the time constant"
            )
    if bool(np.any((n.a_syn == 1.0) & n.has_synapse)):
        yield Problem(thing, "its synaptic current never decays", "the chip's loses 1/4096 a step or more")
    if n.max_spikes > 1 and bool(np.any(n.v_reset != 0)) and n.reset == "to-value":
        yield Problem(thing, "several spikes a step and a reset to another value than 0", "", "reset to 0 or subtract")
    if n.theta is not None and n.max_spikes > 1 and bool(np.any(n.theta <= 0)):
        yield Problem(thing, "several spikes a step with a threshold of 0 or less", "", "give a positive threshold")


def _outside(decay: Array) -> float:
    flat = decay.reshape(-1)
    return float(flat[int(np.argmax(np.abs(flat - 0.5)))])
