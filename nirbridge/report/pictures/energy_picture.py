"""Energy and duration of a time step as stacked bars: kinds of event with the sources of their figures."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from nirbridge.chips.model import Chip
from nirbridge.mapping.cost import ENERGY_FIGURES, TIME_FIGURES, missing_figures
from nirbridge.mapping.model import MappedNetwork


@dataclass(frozen=True, slots=True)
class CostPart:
    """A kind of event: joules or seconds per time step, where the part begins and ends as a share of the bar."""

    kind: str
    value: float
    start: float
    stop: float
    is_approximate: bool
    source: str


@dataclass(frozen=True, slots=True)
class CostBar:
    """Energy (``unit`` J) or time (s) per time step; ``total`` None where the chip file has no figures of it.

    ``missing``: kinds of event that the total leaves out, since the chip file has no figure for them.
    """

    quantity: str
    unit: str
    total: float | None
    parts: tuple[CostPart, ...]
    missing: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class EnergyPicture:
    """The bar of energy and that of time."""

    bars: tuple[CostBar, CostBar]


def energy_picture(mapped: MappedNetwork) -> EnergyPicture:
    """The bars of a map."""
    costs, chip = mapped.costs, mapped.chip
    missing = missing_figures(chip)
    energy = _parts(chip, costs.energy_breakdown_j, ENERGY_FIGURES)
    time = _parts(chip, costs.time_breakdown_s, TIME_FIGURES)
    return EnergyPicture(
        (
            CostBar("energy", "J", costs.energy_per_step_j, energy, missing["energy"]),
            CostBar("time", "s", costs.time_per_step_s, time, missing["time"]),
        )
    )


def _parts(chip: Chip, values: Mapping[str, float], figures: Mapping[str, str]) -> tuple[CostPart, ...]:
    """Kinds with a value, in their order; those of 0 are left out."""
    total, start, parts = sum(values.values()), 0.0, []
    for kind, value in values.items():
        if value <= 0 or not total:
            continue
        key = figures.get(kind, "")
        stop = start + value / total
        parts.append(CostPart(kind, value, start, stop, key in chip.approximate, chip.sources.get(key, "")))
        start = stop
    return tuple(parts)
