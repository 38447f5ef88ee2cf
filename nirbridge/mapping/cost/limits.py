"""The worst case of a time step: every neuron that can fire does, and every input sends."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from nirbridge.chips.model import Chip
from nirbridge.mapping.cost.model import StepCosts
from nirbridge.mapping.cost.price import price
from nirbridge.mapping.cost.recorded import EventCounter
from nirbridge.mapping.cost.time import busiest_link, receiving_parts, sending_parts, way_parts
from nirbridge.mapping.model import MappedNetwork


@dataclass(frozen=True, slots=True, eq=False)
class WorstCase:
    """A time step in which everything fires.

    ``costs`` of that step by the model (one time step): no step of recorded spikes costs more. ``time_limit_s``: a
    bound for any order of the messages, with waiting for links of unlimited room: the longest sending, then the longest
    way with all messages of the busiest link before it on each of its links, then the longest receiving, then the
    barrier. None where the chip has no figures of time.
    """

    costs: StepCosts
    time_limit_s: float | None


def worst_case(mapped: MappedNetwork, chip: Chip | None = None) -> WorstCase:
    """The worst case of a map; ``chip``: figures to price with, the map's own where None."""
    on = chip or mapped.chip
    events = EventCounter.of(mapped).every_neuron_fires()
    paid = price(events, on)
    if paid.time_s is None:
        return WorstCase(paid, None)
    sending = np.sum(list(sending_parts(events, on).values()), axis=0).max(initial=0.0)
    receiving = np.sum(list(receiving_parts(events, on).values()), axis=0).max(initial=0.0)
    m = events.messages
    links = (m.hops_x + m.hops_y + m.crossings_x + m.crossings_y).max(initial=0)
    ways = way_parts(m, on)
    way = np.sum([ways[kind] for kind in ways.keys() & {"hops x", "hops y", "chip crossings"}], axis=0).max(initial=0.0)
    queues = float(busiest_link(events, on)[0]) * links
    together = sending + max(way, queues) + receiving + (on.time.barrier(events.tiles) or 0.0)
    return WorstCase(paid, float(together))
