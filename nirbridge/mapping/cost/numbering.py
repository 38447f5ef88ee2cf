"""Neurons in the order in which the cores of a map compute them, and the destination cores of each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

from nirbridge._types import Shape
from nirbridge.arrays import Array
from nirbridge.chips.model import SYNAPSE_KINDS, SynapseKind
from nirbridge.mapping.model import MappedNetwork
from nirbridge.partitioner.cost.axons import axon_entries
from nirbridge.partitioner.cost.connectivity import flat_indices
from nirbridge.partitioner.cost.sizing import CostModel, cost_model
from nirbridge.partitioner.ordering import ordered_network


@dataclass(frozen=True, slots=True, eq=False)
class Numbering:
    """All sources as columns: neurons block by block in the order of numbering, then the elements of host inputs.

    ``columns``: by name, the column of every element (flat, in the order of the model); ``shapes`` by name. ``sends``:
    False for a population that neither fires nor drives another. ``block`` [neurons]. ``first`` [blocks]: the first
    column of each block. ``rank`` [sources]: the place of a neuron in its core, from 1 (0 for host inputs).
    ``can_fire`` [sources].
    """

    columns: Mapping[str, Array]
    shapes: Mapping[str, Shape]
    populations: tuple[str, ...]
    sends: Mapping[str, bool]
    neurons: int
    sources: int
    block: Array
    first: Array
    rank: Array
    can_fire: Array

    @property
    def per_block(self) -> Array:
        """Neurons of every block."""
        return np.diff(np.append(self.first, self.neurons))

    def block_of_sources(self, source: Array) -> Array:
        """The block of each column; -1 for host inputs."""
        return np.append(self.block, -1)[np.minimum(source, self.neurons)]

    def sums(self, marks: Array) -> Array:
        """Marked neurons of every block, int64 [steps, blocks]; ``marks`` bool [steps, neurons]."""
        done = np.concatenate((np.zeros((len(marks), 1), np.int64), np.cumsum(marks, axis=1, dtype=np.int64)), axis=1)
        return done[:, np.append(self.first[1:], self.neurons)] - done[:, self.first]


@dataclass(frozen=True, slots=True, eq=False)
class Fanout:
    """Destination cores of every source, by source, then block.

    Those of source s are the entries ``ptr[s]`` to ``ptr[s + 1]``: ``block``, and its ``synapses`` there by kind.
    """

    ptr: Array
    source: Array
    block: Array
    synapses: Mapping[SynapseKind, Array]

    @property
    def cores_of_source(self) -> Array:
        """Destination cores of each source."""
        return np.diff(self.ptr)


def numbering_of(mapped: MappedNetwork) -> Numbering:
    """The numbering of a map."""
    network = mapped.network
    shapes = {p.name: p.shape for p in (*network.inputs, *network.populations)}
    columns = {p.name: np.full(p.size, -1, np.int64) for p in network.populations}
    block, first = [], []
    count = 0
    for number, part in enumerate(mapped.partition.blocks):
        first.append(count)
        for piece in part.slices:
            places = flat_indices(shapes[piece.population], piece.box)
            columns[piece.population][places] = count + np.arange(len(places))
            count += len(places)
        block.append(np.full(count - first[-1], number, np.int64))
    for name, order in mapped.partition.orders.items():
        in_order = np.empty_like(columns[name])
        in_order[np.asarray(order)] = columns[name]
        columns[name] = in_order
    neurons, names = count, tuple(p.name for p in network.populations)
    driving = {p.source for p in network.projections if p.target in names}  # an output is read by the host
    for port in network.inputs:
        columns[port.name] = count + np.arange(port.size)
        count += port.size
    fires = {p.name: p.neuron.fires for p in network.populations}
    can_fire = np.ones(count, bool)
    for name, own in fires.items():
        can_fire[columns[name]] = own or name in driving
    blocks = np.concatenate(block) if block else np.zeros(0, np.int64)
    starts = np.array(first, np.int64)
    rank = np.concatenate((np.arange(neurons) - starts[blocks] + 1, np.zeros(count - neurons, np.int64)))
    sends = {name: fires.get(name, False) or name in driving for name in columns}
    return Numbering(MappingProxyType(columns), shapes, names, sends, neurons, count, blocks, starts, rank, can_fire)


def cost_model_of(mapped: MappedNetwork) -> CostModel:
    """The cost model that a map was made with: stored synapses, in the orders of its partition."""
    ordered = ordered_network(mapped.stored_network, mapped.partition.orders)
    return cost_model(ordered, mapped.chip, mapped.partition.weight_bits)


def fanout_of(mapped: MappedNetwork, numbering: Numbering) -> Fanout:
    """The destination cores of every source of a map."""
    source, block = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    synapses: dict[SynapseKind, list[Array]] = {kind: [np.zeros(0, np.int64)] for kind in SYNAPSE_KINDS}
    orders = mapped.partition.orders
    for entry in axon_entries(cost_model_of(mapped), tuple(b.slices for b in mapped.partition.blocks)):
        columns = numbering.columns[entry.name]
        if entry.name in orders:
            columns = columns[np.asarray(orders[entry.name])]  # entries count places in the order
        source.append(columns[entry.neuron])
        block.append(entry.block)
        for kind in SYNAPSE_KINDS:
            synapses[kind].append(entry.by_kind.get(kind, np.zeros(len(entry.block), np.int64)))
    flat = np.concatenate(source)
    order = np.argsort(flat, kind="stable")
    counts = np.bincount(flat, minlength=numbering.sources)
    return Fanout(
        np.concatenate(([0], np.cumsum(counts))),
        flat[order],
        np.concatenate(block)[order],
        MappingProxyType({kind: np.concatenate(parts)[order] for kind, parts in synapses.items()}),
    )
