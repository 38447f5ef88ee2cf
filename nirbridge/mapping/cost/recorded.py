"""Events of recorded spikes: every spike of every time step, counted on the cores of a map."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np
from scipy import sparse

from nirbridge._types import Shape
from nirbridge.arrays import Array
from nirbridge.chips.boards import board_tiles
from nirbridge.chips.model import SYNAPSE_KINDS, Chip, CoreId, SynapseKind
from nirbridge.errors import UsageError, counted, quoted
from nirbridge.mapping.cost.model import Messages, StepCosts, StepEvents, joined_costs
from nirbridge.mapping.cost.time import price
from nirbridge.mapping.model import MappedNetwork
from nirbridge.mapping.route import HOST_TILE, tiles_of
from nirbridge.partitioner.cost.axons import axon_entries
from nirbridge.partitioner.cost.connectivity import flat_indices
from nirbridge.partitioner.cost.sizing import CostModel, cost_model
from nirbridge.partitioner.ordering import ordered_network

MESSAGES_AT_ONCE = 1_000_000
"""Messages that are scheduled in one go: a bound of memory (about 150 bytes each)."""


def events_of(
    mapped: MappedNetwork, spikes: Mapping[str, Array], updated: Mapping[str, Array] | None = None
) -> StepEvents:
    """The events of recorded spikes on the cores of a map, exact: no rates.

    Args:
        mapped: a map; its own populations count (copies and relays, ``mapped.network``).
        spikes: by input and population of ``mapped.network``: arrays [steps, ..., *shape] in the order of the model; an
            entry other than 0 is one message to each destination core. Axes between the first and those of the shape
            are taken as further time steps. Populations that never fire may be left out.
        updated: by population: True where a neuron was updated and not only accessed; one without an entry is updated
            in every time step.

    Raises:
        UsageError: a name that the network does not have, a missing array, one of another shape.
    """
    return EventCounter.of(mapped).events(spikes, updated)


def step_costs(
    mapped: MappedNetwork,
    spikes: Mapping[str, Array],
    updated: Mapping[str, Array] | None = None,
    chip: Chip | None = None,
) -> StepCosts:
    """Energy and time of every time step of recorded spikes, in pieces that fit in memory; see ``events_of``.

    ``chip``: figures to price with, the map's own where None (``figures.at_end`` gives the ends of ranges).
    """
    counter = EventCounter.of(mapped)
    return joined_costs([price(events, chip or mapped.chip) for events in counter.pieces(spikes, updated)])


@dataclass(frozen=True, slots=True, eq=False)
class EventCounter:
    """A map prepared for counting. Build it with ``EventCounter.of``; it may be used for any number of recordings.

    ``fanout``: the destination cores of every source, neurons first (in the order of the cores), then host inputs;
    ``pair`` [entries] is the path of each entry in ``paths``, of which there are ``pairs``.
    """

    mapped: MappedNetwork
    numbering: Numbering
    fanout: Fanout
    pair: Array
    pairs: int
    paths: Paths
    tiles: int

    @classmethod
    def of(cls, mapped: MappedNetwork) -> EventCounter:
        """The counter of a map."""
        numbering = numbering_of(mapped)
        fanout = fanout_of(mapped, numbering)
        blocks = len(mapped.cores)
        source = numbering.block_of_sources(fanout.source)
        keys, pair = np.unique((source + 1) * blocks + fanout.block, return_inverse=True)
        paths = paths_between(keys // max(blocks, 1) - 1, keys % max(blocks, 1), mapped.cores, mapped.chip)
        tiles = len({core[:3] for core in mapped.cores})
        return cls(mapped, numbering, fanout, pair.ravel(), len(keys), paths, tiles)

    def events(self, spikes: Mapping[str, Array], updated: Mapping[str, Array] | None = None) -> StepEvents:
        """The events of recorded spikes; see ``events_of``."""
        return self._count(self._fired(spikes), self._updated(updated))

    def pieces(self, spikes: Mapping[str, Array], updated: Mapping[str, Array] | None = None) -> Iterator[StepEvents]:
        """The events in pieces of consecutive time steps, each of at most about ``MESSAGES_AT_ONCE`` messages."""
        fired, active = self._fired(spikes), self._updated(updated)
        total = np.cumsum(fired @ self.fanout.cores_of_source)
        begin = 0
        if not len(fired):
            yield self._count(fired, active)
        while begin < len(fired):
            before = total[begin - 1] if begin else 0
            end = max(begin + 1, int(np.searchsorted(total, before + MESSAGES_AT_ONCE, side="right")))
            yield self._count(fired[begin:end], None if active is None else active[begin:end])
            begin = end

    def every_neuron_fires(self) -> StepEvents:
        """The events of one time step in which every neuron that can fire and every input sends: no step has more."""
        return self._count(self.numbering.can_fire[None, :], None)

    def _fired(self, spikes: Mapping[str, Array]) -> Array:
        """Marks [steps, sources]: neurons in the order of the cores, then host inputs."""
        known = self.numbering.columns
        unknown = [name for name in spikes if name not in known]
        if unknown:
            limit = f"the map has {', '.join(map(quoted, known))}"
            raise UsageError.of(f"spikes of {quoted(unknown[0])}", "no such input or population", limit)
        missing = [name for name in known if name not in spikes and self.numbering.sends[name]]
        if missing:
            raise UsageError.of(f"spikes of {quoted(missing[0])}", "missing", "", "record its spikes, 's'")
        flat = {name: self._rows(name, "spikes", values) for name, values in spikes.items()}
        steps = {len(values) for values in flat.values()}
        if len(steps) > 1:
            raise UsageError.of("spikes", f"of {', '.join(map(str, sorted(steps)))} time steps", "all have as many")
        fired = np.zeros((max(steps, default=0), self.numbering.sources), bool)
        for name, values in flat.items():
            fired[:, known[name]] = values != 0
        return fired

    def _updated(self, updated: Mapping[str, Array] | None) -> Array | None:
        """Marks [steps, neurons], in the order of the cores; None: every neuron in every time step."""
        if not updated:
            return None
        names = self.numbering.populations
        unknown = [name for name in updated if name not in names]
        if unknown:
            limit = f"the map has {', '.join(map(quoted, names))}"
            raise UsageError.of(f"updates of {quoted(unknown[0])}", "no such population", limit)
        flat = {name: self._rows(name, "updates", values) for name, values in updated.items()}
        active = np.ones((max(map(len, flat.values())), self.numbering.neurons), bool)
        for name, values in flat.items():
            active[:, self.numbering.columns[name]] = values != 0
        return active

    def _rows(self, name: str, what: str, values: Array) -> Array:
        """An array [steps, ..., *shape] as [time steps, neurons]."""
        values, shape = np.asarray(values), self.numbering.shapes[name]
        if values.ndim <= len(shape) or values.shape[values.ndim - len(shape) :] != shape:
            limit = f"{quoted(name)} has shape {shape}"
            raise UsageError.of(f"{what} of {quoted(name)}", f"shape {values.shape}", limit, "give [steps, *shape]")
        return values.reshape(-1, len(self.numbering.columns[name]))

    def _count(self, fired: Array, active: Array | None) -> StepEvents:
        if active is not None and len(active) != len(fired):
            found = f"{counted(len(active), 'time step')} of updates, {len(fired):,} of spikes"
            raise UsageError.of("updates", found, "both have as many")
        shape = (len(fired), len(self.mapped.cores))
        entry, messages = self._messages(fired, active)
        steps_and_pairs = (messages.step, self.pair[entry])
        ones = np.ones(len(entry), np.int64)
        counts = sparse.csr_array(sparse.coo_array((ones, steps_and_pairs), shape=(shape[0], self.pairs)))
        own = messages.source >= 0
        accesses = np.broadcast_to(self.numbering.per_block, shape)
        return StepEvents(
            MappingProxyType({k: _summed(messages.step, messages.target, n, shape) for k, n in messages.ops.items()}),
            accesses,
            accesses if active is None else self.numbering.sums(active),
            self.numbering.sums(fired[:, : self.numbering.neurons]),
            _summed(messages.step[own], messages.source[own], None, shape),
            _summed(messages.step, messages.target, None, shape),
            counts @ self.paths.hops_x,
            counts @ self.paths.hops_y,
            counts @ self.paths.crossings_x,
            counts @ self.paths.crossings_y,
            most_over_a_link(counts, self.paths.along_x),
            most_over_a_link(counts, self.paths.along_y),
            most_over_a_link(counts, self.paths.between),
            self.tiles,
            messages,
        )

    def _messages(self, fired: Array, active: Array | None) -> tuple[Array, Messages]:
        """The entry of the fan-out of every message, and the messages, by time step, source and target."""
        step, source = np.nonzero(fired)
        first, length = self.fanout.ptr[source], self.fanout.cores_of_source[source]
        spike = np.repeat(np.arange(len(step)), length)
        place = np.arange(len(spike)) - np.repeat(np.cumsum(length) - length, length)
        entry = first[spike] + place
        block = self.numbering.block_of_sources(source)
        work = self._work(step, source, block, length, active)
        pair = self.pair[entry]
        return entry, Messages(
            step[spike],
            block[spike],
            self.fanout.block[entry],
            work[0][spike],
            work[1][spike],
            work[2][spike],
            np.where(block[spike] < 0, 0, work[3][spike] + place + 1),
            self.paths.hops_x[pair],
            self.paths.hops_y[pair],
            self.paths.crossings_x[pair],
            self.paths.crossings_y[pair],
            MappingProxyType({kind: self.fanout.synapses[kind][entry] for kind in SYNAPSE_KINDS}),
        )

    def _work(
        self, step: Array, source: Array, block: Array, length: Array, active: Array | None
    ) -> tuple[Array, Array, Array, Array]:
        """Per spike: neurons accessed, updated, and spikes of its core up to it, and messages before its own."""
        blocks = len(self.mapped.cores)
        core = step * (blocks + 1) + np.where(
            block < 0, blocks, block
        )  # ascending, as host inputs are the last columns
        begin = np.searchsorted(core, core)
        sent = np.concatenate(([0], np.cumsum(length)[:-1])) if len(length) else length
        accesses = self.numbering.rank[source]
        updates = accesses
        if active is not None:
            done = np.concatenate((np.zeros((len(active), 1), np.int64), np.cumsum(active, axis=1)), axis=1)
            own = np.minimum(source, self.numbering.neurons - 1)
            updates = done[step, own + 1] - done[step, self.numbering.first[np.maximum(block, 0)]]
        on_chip = block >= 0
        spikes = np.arange(len(step)) - begin + 1
        before = sent - sent[begin] if len(sent) else sent
        return tuple(np.where(on_chip, a, 0) for a in (accesses, updates, spikes, before))  # type: ignore[return-value]


def _summed(step: Array, block: Array, weights: Array | None, shape: tuple[int, int]) -> Array:
    """Messages, or their weights, by time step and block: int64 ``shape``."""
    total = np.bincount(step * shape[1] + block, weights, shape[0] * shape[1])
    return total.astype(np.int64).reshape(shape)


# -- paths ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class Paths:
    """X-Y paths of pairs (source block or host, target block), int64 [pairs] each.

    ``hops_x``, ``hops_y``: links within chips; ``crossings_x``, ``crossings_y``: links between chips. ``along_x`` and
    ``along_y`` [pairs, links]: 1 where a path takes a link along x or along y, between chips too; ``between``: 1 where
    it takes a link between chips.
    """

    hops_x: Array
    hops_y: Array
    crossings_x: Array
    crossings_y: Array
    along_x: sparse.csr_array
    along_y: sparse.csr_array
    between: sparse.csr_array


def paths_between(source: Array, target: Array, cores: Sequence[CoreId], chip: Chip) -> Paths:
    """The paths from ``source`` [pairs] (-1: the host, which enters at ``HOST_TILE``) to ``target`` [pairs]."""
    x, y = (np.append(a, host) for a, host in zip(tiles_of(cores, chip), HOST_TILE, strict=True))
    x0, y0, x1, y1 = x[source], y[source], x[target], y[target]
    width, height = chip.mesh.width_tiles, chip.mesh.height_tiles
    crossings_x, crossings_y = np.abs(x1 // width - x0 // width), np.abs(y1 // height - y0 // height)
    columns, rows = board_tiles(chip, 1 + max((core.chip for core in cores), default=0))
    along_x, along_y = _links(x0, x1, y0, (rows, columns)), _links(y0, y1, x1, (columns, rows))
    cut = (_crossings(along_x, columns, width), _crossings(along_y, rows, height))
    return Paths(
        np.abs(x1 - x0) - crossings_x,
        np.abs(y1 - y0) - crossings_y,
        crossings_x,
        crossings_y,
        along_x,
        along_y,
        sparse.csr_array(sparse.hstack(cut)),
    )


def _links(start: Array, stop: Array, line: Array, shape: tuple[int, int]) -> sparse.csr_array:
    """[paths, links]: 1 for every link from ``start`` to ``stop`` on a line; ``shape``: lines and their length.

    Link ``(line * length + i) * 2 + d`` leaves place i upwards (d = 0) or downwards (d = 1).
    """
    lines, length = shape
    count = np.abs(stop - start)
    path = np.repeat(np.arange(len(start)), count)
    within = np.arange(len(path)) - np.repeat(np.cumsum(count) - count, count)
    down = (stop < start)[path]
    place = start[path] + np.where(down, -within, within)
    link = (line[path] * length + place) * 2 + down
    ones = np.ones(len(path), np.int64)
    return sparse.csr_array((ones, (path, link)), shape=(len(start), lines * length * 2))


def _crossings(along: sparse.csr_array, length: int, size: int) -> sparse.csr_array:
    """The links of ``along`` that lead from one chip to the next; ``size``: tiles of a chip along the lines."""
    shape = along.shape
    assert shape is not None, "a matrix has a shape"
    link = np.arange(shape[1])
    place, down = link // 2 % length, link % 2
    leaves = np.where(down == 1, place % size == 0, place % size == size - 1)
    kept = along.copy()
    kept.data = np.where(leaves[kept.indices], kept.data, 0)
    return kept


def most_over_a_link(counts: sparse.csr_array, along: sparse.csr_array) -> Array:
    """The most messages over one link in each time step, float64 [steps]; ``counts`` [steps, pairs]."""
    loads: Any = counts @ along
    if not loads.nnz:
        return np.zeros(loads.shape[0])
    return np.asarray(loads.max(axis=1).todense(), dtype=np.float64).ravel()


# -- numbering -----------------------------------------------------------------------------------------------------
# Neurons in the order in which the cores of a map compute them, and the destination cores of each.


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
