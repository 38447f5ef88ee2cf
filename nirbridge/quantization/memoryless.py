"""Resets of neurons without memory: on a chip that lacks them they count as a reset to 0, which changes no spike."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from nirbridge.arrays import freeze
from nirbridge.chips.model import Chip
from nirbridge.network.model import Network, Population
from nirbridge.quantization.formats import formats_of
from nirbridge.quantization.legality import is_memoryless


def with_known_resets(network: Network, chip: Chip) -> Network:
    """The network in which populations that forget v in every time step reset to a value where the chip knows no other.

    What such a neuron carries over is multiplied by 0, so its spikes are the same after any reset; only the v recorded
    at a spike differs. Other populations are left as they are.
    """
    changed = tuple(_reset_to_value(p) if _needs_it(p, chip) else p for p in network.populations)
    return network if changed == network.populations else replace(network, populations=changed)


def _needs_it(population: Population, chip: Chip) -> bool:
    known = {"to-value", *(["subtract"] if chip.neuron.soft_reset else [])}
    known |= {"none"} if formats_of(chip).programmable else set()
    return population.neuron.fires and population.neuron.reset not in known and is_memoryless(population)


def _reset_to_value(population: Population) -> Population:
    n = population.neuron
    value = n.v_reset if bool(np.any(n.refractory_steps > 0)) else freeze(np.float64(0.0))
    return replace(population, neuron=replace(n, reset="to-value", v_reset=value))
