"""A population in the integers' coordinates: one gain for all input, reset to 0, one constant drive.

With ``g = g_mem * g_syn`` folded into the weights, ``off`` the value that a spike resets to, and the steady current
``j = g_syn * (sum of the projections' biases) / (1 - a_syn)`` taken out of the current::

    c = g_mem * (i - j)            c' = a_syn * c + g * x
    w = v - off                    w' = a_mem * w + c' + (bias + g_mem * j - (1 - a_mem) * off)

which is the canonical neuron, exactly, in other coordinates.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from nirbridge.arrays import Array, compact
from nirbridge.network.model import Network, Population
from nirbridge.network.neurons import Neuron


@dataclass(frozen=True, slots=True, eq=False)
class FoldedPopulation:
    """A population in the coordinates of the module docstring.

    ``v_start`` and ``i_start`` (w and c) are the state before the reference's first time step.
    """

    population: Population
    gain: Array
    a_mem: Array
    a_syn: Array
    bias: Array
    theta: Array | None
    amount: Array
    offset: Array
    v_min: Array | None
    v_start: Array
    i_start: Array
    steady: Array

    @property
    def neuron(self) -> Neuron:
        """The neuron before folding."""
        return self.population.neuron


def fold_population(network: Network, population: Population, latency: int) -> FoldedPopulation:
    """The population in the integers' coordinates, and its state after ``latency`` time steps without spikes."""
    n = population.neuron
    drive = sum(
        (p.bias for p in network.projections if p.target == population.name and p.bias is not None), np.zeros(())
    )
    a_syn = np.minimum(n.a_syn, np.nextafter(1.0, 0.0))
    steady = n.g_syn * drive / (1.0 - a_syn)
    resets = n.reset == "to-value" or bool(np.any(n.refractory_steps > 0))
    offset = n.v_reset if n.fires and resets else np.zeros(())
    bias = n.bias + n.g_mem * steady - (1.0 - n.a_mem) * offset
    v_min = None if n.v_min is None else compact(n.v_min - offset)
    v, i = n.v_init - offset, n.g_mem * (n.i_init - steady)
    for _ in range(latency):
        i = n.a_syn * i
        v = n.a_mem * v + i + bias
        v = v if v_min is None else np.maximum(v, v_min)
    return FoldedPopulation(
        population=population,
        gain=compact(n.g_mem * n.g_syn),
        a_mem=n.a_mem,
        a_syn=n.a_syn,
        bias=compact(bias),
        theta=None if n.theta is None else compact(n.theta - offset),
        amount=n.reset_amount,
        offset=compact(offset),
        v_min=v_min,
        v_start=compact(v),
        i_start=compact(np.where(n.a_syn == 0, 0.0, i)),
        steady=compact(steady),
    )
