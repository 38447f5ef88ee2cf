"""A profile: for each point (chip, bits, objective) its figures, layers, events and memory, each with a basis."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from nirbridge._values import SavedValue, Value
from nirbridge.emitters.witness import Witness
from nirbridge.files.attributes import load_attribute
from nirbridge.profiling.columns import COLUMNS, FIGURES, NEUROBENCH, RANGES, Basis

if TYPE_CHECKING:
    from matplotlib.axes import Axes  # pyright: ignore[reportMissingImports]

    from nirbridge.mapping.model import MappedNetwork


@dataclass(frozen=True, slots=True)
class Figure:
    """One figure: its value, its basis, and the least and greatest value where the sources give a range.

    ``source``: the figures of the chip file that it rests on, with their sources; in words for counted figures.
    """

    value: float
    basis: Basis
    source: str = ""
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True, slots=True)
class LayerProfile:
    """One population, or one input, on average over the samples; ``energy_j`` per inference, by kind of event.

    ``spikes`` are those that it sends, ``synaptic_ops`` those that it receives; the messages and hops of its spikes are
    part of its energy. The energies of all layers add up to that of the point. ``busiest_core_s``: work of the busiest
    of its cores in a time step, on average.
    """

    name: str
    kind: str
    neurons: int
    cores: int
    spikes: float
    synaptic_ops: float
    sparsity: float | None
    energy_j: Mapping[str, float]
    busiest_core_s: float | None
    synapses: int
    memory_bytes: float

    @property
    def total_energy_j(self) -> float:
        """Joules of an inference."""
        return sum(self.energy_j.values())


@dataclass(frozen=True, slots=True)
class EventProfile:
    """One kind of event: how often it happens in an inference, and its energy and time, None without a figure.

    ``time_s`` is its share of the time of an inference: events that other work hides take none.
    """

    kind: str
    count: float | None
    energy_j: float | None
    time_s: float | None
    energy_source: str
    time_source: str
    is_approximate: bool


@dataclass(frozen=True, slots=True)
class MemoryProfile:
    """One resource of the cores: what is used in all, most in one core, the limit of a core, and bytes."""

    resource: str
    used: int
    most: int
    limit: int | None
    used_bytes: float | None
    reserved_bytes: float | None


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ProfilePoint(Value):
    """One network on one chip, with one width and one objective.

    ``about``: the columns that say what was profiled. ``figures``: by column. ``neurobench``: by metric, of the
    reference and of the integers. ``witness``: None where no other simulator was asked. ``mapped``: the map.
    """

    about: Mapping[str, Any]
    figures: Mapping[str, Figure]
    layers: tuple[LayerProfile, ...]
    events: tuple[EventProfile, ...]
    memory: tuple[MemoryProfile, ...]
    neurobench: Mapping[str, Mapping[str, float]]
    notes: tuple[str, ...] = ()
    witness: Witness | None = None
    mapped: MappedNetwork | None = None

    def __getitem__(self, name: str) -> float | None:
        """The value of a figure by its column; None where the point has none."""
        figure = self.figures.get(name)
        return None if figure is None else figure.value

    def row(self) -> dict[str, Any]:
        """All of ``COLUMNS``, None where there is no value."""
        row: dict[str, Any] = dict.fromkeys(COLUMNS)
        row |= {name: value for name, value in self.about.items() if name in row}
        row |= {column.name: self[column.name] for column in FIGURES}
        for name in RANGES:
            figure = self.figures.get(name)
            row |= {f"{name}_low": figure and figure.low, f"{name}_high": figure and figure.high}
        for name in ("energy", "time"):
            figure = self.figures.get(f"{name}_per_inference_j" if name == "energy" else f"{name}_per_inference_s")
            row[f"{name}_basis"] = figure and figure.basis
        metrics = self.neurobench.get("integers") or self.neurobench.get("reference") or {}
        row |= {column.name: metrics.get(column.name) for column in NEUROBENCH}
        return row | _witness_cells(self.witness)


@dataclass(frozen=True, slots=True)
class FailedPoint:
    """A point that could not be profiled, and the error in words."""

    chip: str
    weight_bits: int | None
    objective: str
    reason: str


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Profile(SavedValue):
    """What a network costs on chips, measured on data: ``points`` in the order of chips, bits and objectives.

    ``failed``: points that could not be profiled while others could. Saved as ``.json``, ``.csv`` or ``.parquet``.

    Example:
        >>> profile = nb.profile("model.nir", "loihi1", np.ones((25, 8, 64)))
        >>> profile.points[0]["spikes_per_inference"] > 0
        True
    """

    model: str
    data: str
    points: tuple[ProfilePoint, ...]
    failed: tuple[FailedPoint, ...] = ()
    meta: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))

    def rows(self) -> list[dict[str, Any]]:
        """A record per point, with the columns ``nirbridge.profiling.columns.COLUMNS``."""
        return [point.row() for point in self.points]

    def document(self) -> dict[str, Any]:
        """Everything as plain JSON."""
        return load_attribute("nirbridge.report.profile_document:profile_document")(self)

    def plot(self, *, ax: Axes | None = None) -> Axes:
        """Draw energy by layer and kind of event, as ``nirbridge.plot_profile``. Raises UsageError."""
        return load_attribute("nirbridge.api.pictures:plot_profile")(self, ax=ax)


def _witness_cells(witness: Witness | None) -> dict[str, Any]:
    if witness is None:
        return {}
    return {
        "witness": f"{witness.name} {witness.version}".strip(),
        "witness_spikes_equal": witness.spikes_equal,
        "witness_energy_per_inference_j": witness.energy_j,
        "witness_time_per_inference_s": witness.time_s,
    }
