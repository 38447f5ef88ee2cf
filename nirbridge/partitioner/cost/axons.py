"""The axon table of a partition: source neurons grouped by sets of target blocks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from nirbridge.arrays import Array, freeze
from nirbridge.partitioner.cost.sizing import CostModel
from nirbridge.partitioner.model import Slice

HOST = -1


@dataclass(frozen=True, slots=True, eq=False)
class AxonTable:
    """Source neurons grouped by (source population or port, source block, set of target blocks).

    Per group g: ``source_name[g]`` indexes ``names``; ``source_block[g]`` is a block id or ``HOST``; ``neurons[g]``
    distinct source neurons; ``spikes_per_step[g]`` their summed rate. Its target blocks, ascending, are
    ``targets[target_ptr[g]:target_ptr[g + 1]]`` (the own block included where it has targets there), with, per entry,
    ``synapses`` (all synapses of the group's neurons in that block) and ``synaptic_ops_per_step`` (each synapse times
    the rate of its source). Every group has at least one target. Groups are in a fixed order.
    """

    names: tuple[str, ...]
    source_name: Array
    source_block: Array
    neurons: Array
    spikes_per_step: Array
    target_ptr: Array
    targets: Array
    synapses: Array
    synaptic_ops_per_step: Array


Blocks = Sequence[tuple[Slice, ...]]
Rates = Mapping[str, Array]


@dataclass(frozen=True, slots=True, eq=False)
class AxonEntries:
    """One entry per (source neuron or host element, block with targets of it), by source population or port.

    ``neuron`` flat index, ``block`` target block, ``synapses`` targets there; sorted by neuron, then block. ``owner``
    is the block of every neuron of the population (``HOST`` throughout for a port).
    """

    name: str
    neuron: Array
    block: Array
    synapses: Array
    owner: Array


def axon_entries(sizes: CostModel, blocks: Blocks) -> tuple[AxonEntries, ...]:
    """The entries of every source, input ports first, each in network order."""
    network = sizes.network
    by_source: dict[str, list[tuple[Array, Array, Array]]] = {}
    for number, slices in enumerate(blocks):
        for piece in slices:
            for edge in sizes.incoming[piece.population]:
                index, count = sizes.sources(piece.population, edge, piece.box)
                by_source.setdefault(edge.source, []).append((index, np.full(len(index), number), count))
    lengths = [(p.name, p.size) for p in network.inputs] + [(p.name, p.size) for p in network.populations]
    owners = owner_blocks(sizes, blocks)
    result = []
    for name, size in lengths:
        if name in by_source:
            neuron, block, count = (np.concatenate(column) for column in zip(*by_source[name], strict=True))
            key, inverse = np.unique(neuron * len(blocks) + block, return_inverse=True)
            synapses = np.bincount(inverse, weights=count).astype(np.int64)
            neuron, block = np.divmod(key, len(blocks))
            owner = owners.get(name, np.full(size, HOST, np.int64))
            result.append(AxonEntries(name, neuron, block, synapses, owner))
    return tuple(result)


def owner_blocks(sizes: CostModel, blocks: Blocks) -> dict[str, Array]:
    """The block of every neuron, flat, by population; -1 where no slice holds it."""
    owners = {name: np.full(shape, HOST, np.int64) for name, shape in sizes.shapes.items()}
    for number, slices in enumerate(blocks):
        for piece in slices:
            owners[piece.population][tuple(slice(a, b) for a, b in piece.box)] = number
    return {name: owner.ravel() for name, owner in owners.items()}


def axon_table(sizes: CostModel, blocks: Blocks, rates: Rates) -> AxonTable:
    """The table of a partition. ``rates``: spikes per time step by population or port name, scalar or of its shape."""
    names = tuple(p.name for p in (*sizes.network.inputs, *sizes.network.populations))
    columns: dict[str, list[Array]] = {key: [] for key in ("name", "source", "neurons", "spikes", "length")}
    flat: dict[str, list[Array]] = {key: [] for key in ("targets", "synapses", "ops")}
    for entry in axon_entries(sizes, blocks):
        rate = np.broadcast_to(np.asarray(rates[entry.name], float).ravel(), entry.owner.shape)
        group = _group(entry)
        count = int(group.max()) + 1 if len(group) else 0
        first = np.unique(group[entry.neuron], return_index=True)
        members = np.unique(entry.neuron)
        of_member = group[members]
        columns["name"].append(np.full(count, names.index(entry.name)))
        columns["neurons"].append(np.bincount(of_member, minlength=count))
        columns["spikes"].append(np.bincount(of_member, weights=rate[members], minlength=count))
        columns["source"].append(entry.owner[entry.neuron[first[1]]])
        key, inverse = np.unique(group[entry.neuron] * len(blocks) + entry.block, return_inverse=True)
        columns["length"].append(np.bincount(key // len(blocks), minlength=count))
        flat["targets"].append(key % len(blocks))
        flat["synapses"].append(np.bincount(inverse, weights=entry.synapses).astype(np.int64))
        flat["ops"].append(np.bincount(inverse, weights=entry.synapses * rate[entry.neuron]))

    def join(parts: list[Array], dtype: type) -> Array:
        return freeze(np.concatenate(parts) if parts else np.zeros(0), dtype)

    return AxonTable(
        names,
        join(columns["name"], np.int64),
        join(columns["source"], np.int64),
        join(columns["neurons"], np.int64),
        join(columns["spikes"], np.float64),
        freeze(np.concatenate(([0], np.cumsum(join(columns["length"], np.int64)))).astype(np.int64)),
        join(flat["targets"], np.int64),
        join(flat["synapses"], np.int64),
        join(flat["ops"], np.float64),
    )


def _group(entry: AxonEntries) -> Array:
    """Per neuron of the source (flat) the number of its group; -1 for neurons without targets."""
    marks = np.random.default_rng(0).integers(1, 2**62, size=int(entry.block.max(initial=0)) + 1, dtype=np.uint64)
    code = np.zeros(len(entry.owner), np.uint64)
    np.add.at(code, entry.neuron, marks[entry.block])
    group = np.full(len(entry.owner), -1, np.int64)
    members = np.unique(entry.neuron)
    keys = np.stack((entry.owner[members].astype(np.uint64), code[members]))
    _, inverse = np.unique(keys, axis=1, return_inverse=True)
    # groups are numbered in the order of their first neuron, so that the table does not depend on the marks
    inverse = inverse.ravel()
    _, first = np.unique(inverse, return_index=True)
    rank = np.empty(len(first), np.int64)
    rank[np.argsort(first)] = np.arange(len(first))
    group[members] = rank[inverse]
    return group
