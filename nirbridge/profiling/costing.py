"""Energy and time of a map under measured rates: by kind of event, by layer, and in the worst case."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

from nirbridge.arrays import Array
from nirbridge.chips.model import Chip
from nirbridge.mapping.cost import costs
from nirbridge.mapping.model import MapCosts, MappedNetwork
from nirbridge.mapping.route import Routes, routes
from nirbridge.network.model import Network
from nirbridge.partitioner import axon_table
from nirbridge.partitioner.cost.axons import HOST, AxonTable
from nirbridge.partitioner.cost.connectivity import out_degrees
from nirbridge.partitioner.cost.sizing import CostModel, cost_model
from nirbridge.partitioner.model import Slice
from nirbridge.partitioner.ordering import in_orders, ordered_network

Rates = Mapping[str, Array]
ENERGY_FIGURES = MappingProxyType(
    {
        "synaptic operations": "synaptic_op_j",
        "neuron accesses": "neuron_access_j",
        "neuron updates": "neuron_update_j",
        "spikes": "spike_j",
        "axons out": "axon_out_j",
        "hops x": "hop_x_j",
        "hops y": "hop_y_j",
    }
)
"""Kinds of event that take energy, and the chip's figure of each."""
TIME_FIGURES = MappingProxyType(
    {
        "synaptic operations": "synaptic_op_s",
        "neuron updates": "neuron_update_s",
        "spikes": "spike_s",
        "axons out": "axon_out_s",
        "axons in": "axon_in_s",
    }
)
"""Kinds of event that take time in a core, and the chip's figure of each."""


@dataclass(frozen=True, slots=True, eq=False)
class Placed:
    """A map with everything that the costs of any rates need, computed once."""

    mapped: MappedNetwork
    sizes: CostModel
    neurons: Array
    """Neurons of each core."""

    def table(self, rates: Rates) -> AxonTable:
        """The axon table under these rates, by input and population name."""
        partition = self.mapped.partition
        ordered = in_orders(rates, partition.orders)
        return axon_table(self.sizes, tuple(b.slices for b in partition.blocks), ordered)

    def costs(self, rates: Rates, chip: Chip | None = None) -> MapCosts:
        """Costs of a time step under these rates, with the figures of ``chip`` (None: those of the map)."""
        mapped = self.mapped
        spikes = self.spikes(rates)
        paid = chip or mapped.chip
        options = {"chips": mapped.chips, "spikes_per_block": spikes}
        return costs(self.table(rates), mapped.cores, paid, self.neurons, **options)

    def spikes(self, rates: Rates) -> Array:
        """Spikes of a time step in each core, those without a target included."""
        partition, shapes = self.mapped.partition, self.sizes.shapes
        ordered = in_orders(rates, partition.orders)
        firing = {p.name for p in self.sizes.network.populations if p.neuron.fires}
        found = np.zeros(len(partition.blocks))
        for number, block in enumerate(partition.blocks):
            for piece in block.slices:
                if piece.population in firing:
                    rate = np.broadcast_to(ordered[piece.population], shapes[piece.population])
                    found[number] += float(rate[tuple(slice(a, b) for a, b in piece.box)].sum())
        return found


def placed(mapped: MappedNetwork) -> Placed:
    """A map, ready for ``Placed.costs``."""
    partition = mapped.partition
    network = ordered_network(mapped.stored_network, partition.orders)
    neurons = np.array([b.used["neurons"] for b in partition.blocks], np.int64)
    return Placed(mapped, cost_model(network, mapped.chip, partition.weight_bits), neurons)


def run_rates(network: Network, measured: Rates) -> dict[str, Array]:
    """Measured rates of every input and population of a mapped network.

    A readout never fires: 0, except where it sends its value to another population in every time step: 1.
    """
    drives = {p.source for p in network.projections if p.target in {q.name for q in network.populations}}
    rates: dict[str, Array] = {port.name: np.zeros(()) for port in network.inputs}
    for p in network.populations:
        rates[p.name] = np.asarray(1.0 if p.name in drives and not p.neuron.fires else 0.0)
    return rates | {name: rate for name, rate in measured.items() if name in rates}


def full_rates(network: Network) -> dict[str, Array]:
    """Rates of the worst case: every input and every neuron sends as often as it can in every time step."""
    rates: dict[str, Array] = {port.name: np.ones(()) for port in network.inputs}
    most = {p.name: np.asarray(p.neuron.max_spikes if p.neuron.fires else 1.0) for p in network.populations}
    rates.update(most)
    return rates


@dataclass(frozen=True, slots=True, eq=False)
class LayerCosts:
    """Events of one input or population in a time step, and its share of the energy in joules, by kind."""

    synaptic_ops: float
    energy_j: Mapping[str, float]
    busiest_core_s: float | None
    cores: int
    synapses: int
    words: int


def layer_costs(ready: Placed, rates: Rates) -> dict[str, LayerCosts]:
    """By name of input and population; the energies of all add up to that of the time step.

    Synaptic operations count for their target, messages and hops for their source.
    """
    mapped, sizes = ready.mapped, ready.sizes
    network, chip, table = sizes.network, mapped.chip, ready.table(rates)
    paths = routes(table, mapped.cores, chip)
    sent = _sent_by_source(table, paths)
    work = _work(ready, table, paths, rates)
    ordered = in_orders(rates, mapped.partition.orders)
    found: dict[str, LayerCosts] = {}
    for number, name in enumerate(table.names):
        population = next((p for p in network.populations if p.name == name), None)
        counts = {kind: float(values[number]) for kind, values in sent.items()}
        blocks = _blocks_of(mapped, name)
        ops, synapses, words = 0.0, 0, 0
        if population is not None:
            fires = float(np.broadcast_to(ordered[name], population.shape).sum()) if population.neuron.fires else 0.0
            ops, synapses = _received(sizes, name, ordered)
            words = sum(sizes.cost(name, s.box).synapse_words for b in blocks for s in _slices(mapped, b, name))
            counts |= {"synaptic operations": ops, "neuron accesses": population.size}
            counts |= {"neuron updates": population.size, "spikes": fires}
        busiest = max((float(work[b]) for b in blocks), default=0.0) if work is not None and blocks else None
        found[name] = LayerCosts(ops, _energies(counts, chip), busiest, len(blocks), synapses, words)
    return found


def _energies(counts: Mapping[str, float], chip: Chip) -> dict[str, float]:
    figures = {kind: getattr(chip.energy, field) for kind, field in ENERGY_FIGURES.items()}
    return {kind: counts[kind] * f for kind, f in figures.items() if f is not None and counts.get(kind)}


def _sent_by_source(table: AxonTable, paths: Routes) -> dict[str, Array]:
    """Messages and hops of a time step by source, in the order of ``table.names``."""
    entry, size = paths.entry_group, len(table.names)
    messages = np.asarray(table.spikes_per_step, np.float64)[entry]
    source = np.asarray(table.source_name)[entry]
    leaving = messages * (np.asarray(table.source_block)[entry] != HOST)
    return {
        "axons out": np.bincount(source, leaving, size),
        "hops x": np.bincount(source, messages * paths.hops_x, size),
        "hops y": np.bincount(source, messages * paths.hops_y, size),
    }


def _work(ready: Placed, table: AxonTable, paths: Routes, rates: Rates) -> Array | None:
    """Seconds that each core works in a time step; None where the chip has no figures."""
    events = _core_events(ready, table, paths, rates)
    figures = {kind: getattr(ready.mapped.chip.time, field) for kind, field in TIME_FIGURES.items()}
    work = [events[kind] * figure for kind, figure in figures.items() if figure is not None]
    return np.sum(work, axis=0) if work else None


def _core_events(ready: Placed, table: AxonTable, paths: Routes, rates: Rates) -> dict[str, Array]:
    """Events of each core in a time step, by kind."""
    blocks, group = len(ready.neurons), paths.entry_group
    messages = np.asarray(table.spikes_per_step, np.float64)[group]
    source = np.asarray(table.source_block)[group]
    sent = source != HOST
    neurons = ready.neurons.astype(np.float64)
    return {
        "synaptic operations": np.bincount(table.targets, table.synaptic_ops_per_step, blocks),
        "neuron accesses": neurons,
        "neuron updates": neurons,
        "spikes": ready.spikes(rates),
        "axons out": np.bincount(source[sent], messages[sent], blocks),
        "axons in": np.bincount(table.targets, messages, blocks),
    }


def _received(sizes: CostModel, name: str, rates: Rates) -> tuple[float, int]:
    """Synaptic operations of a time step into a population, and its synapses."""
    ops, synapses = 0.0, 0
    for edge in sizes.incoming[name]:
        degrees = out_degrees(edge.form)
        synapses += int(degrees.sum())
        ops += float(degrees @ np.broadcast_to(np.asarray(rates[edge.source], float).ravel(), degrees.shape))
    return ops, synapses


def _blocks_of(mapped: MappedNetwork, name: str) -> list[int]:
    blocks = mapped.partition.blocks
    return [number for number, block in enumerate(blocks) if any(s.population == name for s in block.slices)]


def _slices(mapped: MappedNetwork, block: int, name: str) -> list[Slice]:
    return [s for s in mapped.partition.blocks[block].slices if s.population == name]


def events_per_step(ready: Placed, rates: Rates) -> dict[str, float]:
    """Events of a time step over all cores and links, by kind."""
    table = ready.table(rates)
    paths = routes(table, ready.mapped.cores, ready.mapped.chip)
    events = _core_events(ready, table, paths, rates)
    messages = np.asarray(table.spikes_per_step, np.float64)[paths.entry_group]
    hops = {"hops x": float(messages @ paths.hops_x), "hops y": float(messages @ paths.hops_y)}
    return {kind: float(math.fsum(values)) for kind, values in events.items()} | hops
