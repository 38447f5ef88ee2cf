"""A profile: for each point its figures, layers, events and memory, each with a basis; and its columns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from nirbridge._values import SavedValue, Value
from nirbridge.emitters.witness import Witness
from nirbridge.files.attributes import load_attribute

if TYPE_CHECKING:
    from matplotlib.axes import Axes  # pyright: ignore[reportMissingImports]

    from nirbridge.mapping.model import MappedNetwork


@dataclass(frozen=True, slots=True)
class Figure:
    """One figure: its value, its basis, and the least and greatest value where the sources give a range.

    ``source``: the figures of the chip file that it rests on, with their sources; in words for counted figures.
    ``missing``: kinds of event that it leaves out, since the chip file has no data for them.
    """

    value: float
    basis: Basis
    source: str = ""
    low: float | None = None
    high: float | None = None
    missing: tuple[str, ...] = ()


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
            row[f"{name}_missing"] = ", ".join(figure.missing) or None if figure else None
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
        """A record per point, with the columns ``nirbridge.profiling.model.COLUMNS``."""
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
        **{f"witness_{name}": value for name, value in witness.circuit.items()},
    }


# -- columns -------------------------------------------------------------------------------------------------------
# The columns of a profile: names that do not change, units and meanings. Scripts and sweeps rely on them.


Basis = Literal["measured", "published", "assumed"]
"""Where a figure is from: counted in a simulation of the data; counted events times figures that the chip file has a
source for; the same with a figure that the chip file marks as approximate, or with rates that were not measured."""


class Column(NamedTuple):
    """A column: its name, its unit ('' for counts and texts), and its meaning."""

    name: str
    unit: str
    meaning: str


POINT = (
    Column("model", "", "name of the model"),
    Column("chip", "", "name of the chip"),
    Column("chips", "", "chips of the board"),
    Column("weight_bits", "bits", "bits of a stored weight"),
    Column("objective", "", "objective of the mapping"),
    Column("effort", "", "effort of the mapping"),
    Column("method", "", "partitioner"),
    Column("seed", "", "seed of the mapping"),
    Column("samples", "", "samples of the data"),
    Column("steps", "time steps", "time steps of a sample"),
    Column("hardware_steps", "time steps", "time steps of an inference on the chip, with the latency of its hops"),
    Column("dt_s", "s", "length of a time step of the model"),
    Column("cores", "", "cores in use"),
    Column("cores_lower_bound", "", "proved lower bound on the cores"),
    Column("status", "", "status of the proof"),
    Column("neurons", "", "neurons on the chip"),
    Column("synapses", "", "synapses on the chip"),
    Column("rates", "", "where the spike rates are from"),
)
"""Columns that say which network was profiled, and on what."""
FIGURES = (
    Column("input_spikes_per_inference", "", "events of all inputs in an inference"),
    Column("spikes_per_inference", "", "spikes of all neurons in an inference"),
    Column("spikes_per_step", "", "spikes of all neurons in a time step"),
    Column("synaptic_ops_per_inference", "", "synaptic operations of an inference"),
    Column("synaptic_ops_per_step", "", "synaptic operations of a time step"),
    Column("energy_per_inference_j", "J", "energy of an inference"),
    Column("energy_per_step_j", "J", "energy of a time step"),
    Column("energy_per_synaptic_op_j", "J", "energy of an inference over its synaptic operations"),
    Column("time_per_inference_s", "s", "time of an inference"),
    Column("time_per_step_s", "s", "mean time of a time step"),
    Column("longest_step_s", "s", "longest time step of the data"),
    Column("guaranteed_step_s", "s", "time step in which every neuron and every input fires"),
    Column("inferences_per_s", "1/s", "sustained throughput: inferences one after the other, at their mean time"),
    Column("guaranteed_inferences_per_s", "1/s", "throughput that no input can fall below"),
    Column("power_w", "W", "energy over time"),
    Column("energy_delay_js", "J s", "energy-delay product of an inference"),
    Column("accuracy_reference", "", "accuracy of the model in real numbers"),
    Column("accuracy", "", "accuracy in the chip's integers"),
    Column("same_decisions", "", "share of samples that both decide alike"),
    Column("activation_sparsity", "", "share of neurons and time steps without a spike, in the chip's integers"),
    Column("memory_bytes", "B", "synaptic memory in use, in whole words"),
)
"""Figures of a point; each has a basis."""
RANGES = ("energy_per_inference_j", "energy_per_step_j", "time_per_inference_s", "time_per_step_s")
"""Figures with a range, in columns of their own that end in ``_low`` and ``_high``."""
NEUROBENCH = (
    Column("Footprint", "B", "bytes of parameters and states"),
    Column("ParameterCount", "", "weights and biases"),
    Column("ConnectionSparsity", "", "share of weights that are 0"),
    Column("ActivationSparsity", "", "share of activations that are 0"),
    Column("Effective_MACs", "", "multiply-accumulates of a sample: synapses that a value other than 0 and 1 reaches"),
    Column("Effective_ACs", "", "accumulates of a sample: synapses that a spike reaches, weights of 0 left out"),
    Column("Dense", "", "synaptic operations of a sample if every source sent in every time step"),
    Column("MembraneUpdates", "", "changes of membrane potentials in a sample"),
    Column("ClassificationAccuracy", "", "share of correct decisions"),
)
"""Metrics under the names that NeuroBench gives them (``profiling.neurobench`` has the definitions)."""
WITNESS = (
    Column("witness", "", "independent simulator that ran the same map"),
    Column("witness_spikes_equal", "", "whether its spikes are the same"),
    Column("witness_energy_per_inference_j", "J", "its energy of an inference"),
    Column("witness_time_per_inference_s", "s", "its time of an inference"),
    Column("witness_luts", "", "LUTs of a circuit, on an iCE40 logic cells"),
    Column("witness_flip_flops", "", "flip-flops of a circuit"),
    Column("witness_block_rams", "", "block RAMs of a circuit"),
    Column("witness_multipliers", "", "multipliers of a circuit"),
    Column("witness_clock_hz", "Hz", "highest clock of a circuit, routed"),
    Column("witness_cycles_per_inference", "", "clock cycles of an inference in a circuit"),
)
BASES = (
    Column("energy_basis", "", "basis of the energy: published or assumed"),
    Column("time_basis", "", "basis of the time: published or assumed"),
    Column("energy_missing", "", "kinds of event that the energy leaves out: the chip file has no data for them"),
    Column("time_missing", "", "kinds of event that the time leaves out"),
)


def _all() -> tuple[str, ...]:
    names = [c.name for c in (*POINT, *FIGURES, *BASES)]
    names += [f"{name}_{end}" for name in RANGES for end in ("low", "high")]
    return (*names, *(c.name for c in (*NEUROBENCH, *WITNESS)))


COLUMNS: tuple[str, ...] = _all()
"""Names of all columns of ``Profile.rows()``, in order; None where a point has no such value."""
