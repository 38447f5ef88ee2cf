"""Cost of a map: events per core, energy and time, at expected rates (``costs``) and of recorded spikes.

``events_of`` counts recorded spikes on the cores of a map, ``price`` gives energy and time of counted events, and
``step_costs`` does both in pieces. ``worst_case`` bounds the time of a step.
"""

from nirbridge.mapping.cost.expected import WorstCase, core_events, costs, worst_case
from nirbridge.mapping.cost.model import (
    ENERGY_FIGURES,
    TIME_FIGURES,
    Messages,
    StepCosts,
    StepEvents,
    at_end,
    missing_figures,
)
from nirbridge.mapping.cost.recorded import EventCounter, events_of, step_costs
from nirbridge.mapping.cost.time import price

__all__ = [
    "ENERGY_FIGURES",
    "TIME_FIGURES",
    "EventCounter",
    "Messages",
    "StepCosts",
    "StepEvents",
    "WorstCase",
    "at_end",
    "core_events",
    "costs",
    "events_of",
    "missing_figures",
    "price",
    "step_costs",
    "worst_case",
]
