"""A mapped network: blocks on cores of a mesh, and its costs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal

from nirbridge._values import ReportedValue, SavedValue
from nirbridge.chips.model import Chip, CoreId
from nirbridge.files.attributes import load_attribute
from nirbridge.mapping.neuron_cores import neuron_cores
from nirbridge.network.model import Network, with_operators
from nirbridge.network.operators import Operator
from nirbridge.partitioner.cost.axons import AxonTable
from nirbridge.partitioner.model import Partition
from nirbridge.quantization.model import QuantizedNetwork

if TYPE_CHECKING:
    from matplotlib.axes import Axes  # pyright: ignore[reportMissingImports]


@dataclass(frozen=True, slots=True)
class MapCosts:
    """Traffic, energy and time of one time step, from the chip's figures and the assumed or given rates.

    ``unicast_spikes_per_step``: sum over source neurons of rate x number of destination cores other than its own.
    ``multicast_hops_per_step``: rate x links in the union of the X-Y paths to all destinations; no placement of these
    blocks has less than ``traffic_lower_bound`` of them. Link loads are spikes per step over one directed link between
    neighbouring tiles, their mean over the links that carry any. ``energy_per_step_j`` and ``time_per_step_s`` are None
    where the chip has no figures; the breakdowns (by kind of event) sum to them. Host inputs enter at tile (0, 0) of
    the first chip.
    """

    unicast_spikes_per_step: float
    multicast_hops_per_step: float
    max_link_load_spikes_per_step: float
    mean_link_load_spikes_per_step: float
    energy_per_step_j: float | None
    time_per_step_s: float | None
    energy_breakdown_j: Mapping[str, float]
    time_breakdown_s: Mapping[str, float]
    traffic_lower_bound: float


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True, repr=False)
class MappedNetwork(SavedValue, ReportedValue):
    """A network on a chip, self-contained. ``cores[b]`` is where block b (its position in the partition) sits.

    ``splits``: populations of the model and the number of copies that replaced them, in order of replacement.
    ``latency``: the time step at which each input, population and output is at its time step 0, if the network was
    retimed so that its delays hold the hops (``passes.Retime``); None: the delays are those of the model.
    ``placement_only``: the chip cannot run it, or only a placement was requested; nothing quantizes, runs or emits it.
    ``early_spikes``: populations whose spikes before their first time step are kept (``--keep-early-spikes``).
    ``model``: the network that was mapped, before relays, retiming and copies; None: not known.
    ``stored``: the synapses that the cores hold of the projections, by index, whose zeros are left out; all others hold
    every synapse of their operator (``mapping.zeros``).
    ``quantized``: the integers that its cores hold, where they were chosen otherwise than by default (with data, with
    other widths); not in map files. None: see ``mapping.integers.integers_of``.

    Example:
        >>> mapped = nb.map("model.nir", "loihi2")
        >>> mapped.partition.report.cores, mapped.partition.report.status
        (1, 'optimal')
    """

    network: Network
    chip: Chip
    chips: int
    partition: Partition
    cores: tuple[CoreId, ...]
    axons: AxonTable
    costs: MapCosts
    objective: str
    rates: str
    splits: tuple[tuple[str, int], ...] = ()
    latency: Mapping[str, int] | None = None
    placement_only: bool = False
    early_spikes: tuple[str, ...] = ()
    model: Network | None = None
    quantized: QuantizedNetwork | None = None
    stored: Mapping[int, Operator] = field(default_factory=lambda: MappingProxyType({}))

    @property
    def stored_network(self) -> Network:
        """The network with the synapses that the cores hold, without weights where zeros are left out."""
        return with_operators(self.network, self.stored)

    def where(self, population: str, index: int | tuple[int, ...]) -> tuple[CoreId, ...]:
        """The core of a neuron: one, or one for each copy where its population was split. Raises UsageError."""
        shapes = [(p.name, p.shape) for p in self.network.populations]
        placed = zip(self.partition.blocks, self.cores, strict=True)
        slices = [(s.population, s.box, core) for block, core in placed for s in block.slices]
        return neuron_cores(population, index, shapes, self.splits, slices, self.partition.orders)

    def plot_floorplan(
        self, *, color: Literal["population", "resource"] = "population", ax: Axes | None = None
    ) -> Axes:
        """Draw the chips with their cores, as ``nirbridge.plot_floorplan``. Raises UsageError."""
        return load_attribute("nirbridge.api.pictures:plot_floorplan")(self, color=color, ax=ax)

    def plot_traffic(self, *, show: Literal["links", "matrix"] = "links", ax: Axes | None = None) -> Axes:
        """Draw the load of every link, as ``nirbridge.plot_traffic``. Raises UsageError."""
        return load_attribute("nirbridge.api.pictures:plot_traffic")(self, show=show, ax=ax)


Model = Network | QuantizedNetwork | MappedNetwork
"""Input of simulators and emitters: a network in real numbers, in the integers of a chip, or mapped to its cores."""
