"""The price of counted events: energy, and time by the schedule of every message."""

from __future__ import annotations

from functools import reduce
from types import MappingProxyType

import numpy as np

from nirbridge.arrays import Array
from nirbridge.chips.model import SYNAPSE_KINDS, Chip
from nirbridge.mapping.cost.figures import ENERGY_FIGURES, figure, has_energies, has_figure, has_times, own_kind
from nirbridge.mapping.cost.model import StepCosts, StepEvents
from nirbridge.mapping.cost.time import step_times


def price(events: StepEvents, chip: Chip) -> StepCosts:
    """Energy and time of every time step, with the figures of ``chip``.

    Energy is the sum of all events, each times its figure (J. A. Boyle et al., SANA-FE, IEEE TCAD 2025); leakage is not
    in it. For time see ``mapping.cost.time``. ``at_end(chip, "low")`` and ``"high"`` give the ends of ranges.
    """
    energy = energy_parts(events, chip) if has_energies(chip) else {}
    time = step_times(events, chip) if has_times(chip) else {}
    return StepCosts(_sum(energy), _sum(time), MappingProxyType(energy), MappingProxyType(time))


def energy_parts(events: StepEvents, chip: Chip) -> dict[str, Array]:
    """Joules by kind of event, float64 [steps] each; kinds without a figure are left out."""
    counts = energy_counts(events, chip)
    figures = {kind: figure(chip, key) for kind, key in ENERGY_FIGURES.items()}
    return {kind: counts[kind] * joules for kind, joules in figures.items() if joules is not None}


def energy_counts(events: StepEvents, chip: Chip) -> dict[str, Array]:
    """Events of all cores by kind of ``ENERGY_FIGURES``, [steps] each, counted as the chip has figures for them."""
    counts = {kind: np.zeros(events.steps) for kind in ENERGY_FIGURES}
    for synapse in SYNAPSE_KINDS:
        counts[own_kind(chip, ENERGY_FIGURES, synapse)] += events.synaptic_ops[synapse].sum(axis=1)
    counts["neuron accesses"] += events.neuron_accesses.sum(axis=1)
    counts["neuron updates"] += events.neuron_updates.sum(axis=1)
    counts["spikes"] += events.spikes.sum(axis=1)
    counts["axons out"] += events.axons_out.sum(axis=1)
    crossings = has_figure(chip, ENERGY_FIGURES, "chip crossings")
    counts["hops x"] += events.hops_x + (0 if crossings else events.crossings_x)
    counts["hops y"] += events.hops_y + (0 if crossings else events.crossings_y)
    counts["chip crossings"] += (events.crossings_x + events.crossings_y) if crossings else 0
    return counts


def _sum(parts: dict[str, Array]) -> Array | None:
    """Kind by kind, so that a step has the same sum whatever steps it is priced with."""
    return reduce(np.add, parts.values()) if parts else None
