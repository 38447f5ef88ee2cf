"""Small bars of a map: energy and duration of a time step, and the proof of its cores.

Every kind of event has the source of its figure; the proof has cores found, the lower bounds, and which decides.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from nirbridge.chips.model import Chip
from nirbridge.errors import counted
from nirbridge.mapping.cost import ENERGY_FIGURES, TIME_FIGURES, missing_figures
from nirbridge.mapping.model import MappedNetwork
from nirbridge.partitioner.model import Partition
from nirbridge.report.map_facts import one_line

KINDS = (
    *("synaptic operations", "neuron accesses", "neuron updates", "spikes", "axons out", "barrier", "hops x", "hops y"),
    *("sparse synaptic operations", "busiest link", "chip crossings", "convolution synaptic operations", "axons in"),
)
"""All kinds of event: the place of a kind is its colour in every picture; the first eight differ in it."""


@dataclass(frozen=True, slots=True)
class CostPart:
    """A kind of event: joules or seconds per time step, where the part begins and ends as a share of the bar.

    ``number``: its place in ``KINDS``.
    """

    kind: str
    number: int
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
        parts.append(
            CostPart(kind, KINDS.index(kind), value, start, stop, key in chip.approximate, chip.sources.get(key, ""))
        )
        start = stop
    return tuple(parts)


# -- proof picture -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ProofBar:
    """A bar of cores: those found, or a lower bound; ``decides`` marks the bound that sets the result."""

    kind: Literal["found", "bound", "sliced"]
    label: str
    cores: int
    decides: bool = False


@dataclass(frozen=True, slots=True)
class ProofPicture:
    """Bars from the top down, and the optimality gap in cores: found minus the bound that holds for any map."""

    bars: tuple[ProofBar, ...]
    status: str
    gap: int
    sentence: str


def proof_picture(value: MappedNetwork | Partition) -> ProofPicture:
    """The proof of a map or of a partition."""
    report = (value.partition if isinstance(value, MappedNetwork) else value).report
    bars = [ProofBar("found", "cores used", report.cores)]
    if report.cores_lower_bound_sliced > report.cores_lower_bound:
        bars.append(ProofBar("sliced", "bound: partitions searched", report.cores_lower_bound_sliced))
    bounds = sorted(report.bounds.items(), key=lambda bound: (-bound[1], bound[0] != report.binding, bound[0]))
    bars += [ProofBar("bound", f"bound: {_words(name)}", n, name == report.binding) for name, n in bounds]
    gap = report.cores - report.cores_lower_bound
    return ProofPicture(tuple(bars), report.status, gap, _sentence(report.status, report.cores, gap, report.binding))


def _sentence(status: str, cores: int, gap: int, binding: str) -> str:
    used = counted(cores, "core")
    if status == "optimal":
        return f"{used}: no map needs fewer (set by {_words(binding)})"
    limit = f"any map needs at least {cores - gap:,} (set by {_words(binding)})"
    if status == "optimal-sliced":
        return f"{used}, the fewest for rectangular slices, each stored by itself; {limit}"
    return f"{used}, at most {gap:,} above the optimum; {limit}"


def _words(name: str) -> str:
    return one_line(name).replace("_", " ")
