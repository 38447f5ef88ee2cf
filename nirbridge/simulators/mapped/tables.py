"""The contents of each core of a map: its neurons, its input axons with their synapse lists, and the routes to it.

Everything is built from the map and from the operators as sparse matrices; the fixed simulator uses none of it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np

from nirbridge.arrays import Array
from nirbridge.errors import Diagnostic, IllegalMapping, counted, quoted
from nirbridge.mapping.checker.incoming import box_neurons
from nirbridge.mapping.checker.recount import legal_orders
from nirbridge.mapping.storage.consistency import network_mismatches
from nirbridge.mapping.storage.record import BlockRecord, MapRecord, SliceRecord
from nirbridge.network.apply import matrix
from nirbridge.quantization.model import FixedProjection, QuantizedNetwork

_AGAIN = "map the model again"
_SYNAPSES_MAX = 200_000_000


@dataclass(frozen=True, slots=True, eq=False)
class CoreSlice:
    """Neurons of one population on a core: flat indices; they are slots ``start`` to ``stop`` of the core."""

    population: str
    neurons: Array
    start: int
    stop: int


@dataclass(frozen=True, slots=True, eq=False)
class SynapseMemory:
    """The synapse lists of one projection on a core, by input axon.

    Axon a has entries ``first[a]`` to ``first[a + 1]``: ``slot`` of the target, ``weight``, ``delay`` in time steps.
    ``weight_exp`` shifts the sum of a time step.
    """

    first: Array
    slot: Array
    weight: Array
    delay: Array
    weight_exp: int


@dataclass(frozen=True, slots=True, eq=False)
class LoadedCore:
    """One block of the map, on its core. ``axons``: (source name, flat neuron or element) of each input axon."""

    block: int
    pieces: tuple[CoreSlice, ...]
    slots: int
    axons: tuple[tuple[str, Array], ...]
    memories: tuple[SynapseMemory, ...]


@dataclass(frozen=True, slots=True, eq=False)
class LoadedRoute:
    """Spikes from a block, or an input (``source_input``), to core ``target``: source slot -> input axon there.

    ``source`` and ``target`` are positions among the cores.
    """

    source: int | None
    source_input: str | None
    target: int
    slots: Array
    axons: Array


@dataclass(frozen=True, slots=True, eq=False)
class LoadedBoard:
    """All cores and routes of a map; ``longest_delay`` sets the length of the ring buffers."""

    cores: tuple[LoadedCore, ...]
    routes: tuple[LoadedRoute, ...]
    longest_delay: int


def load_board(quantized: QuantizedNetwork, record: MapRecord) -> LoadedBoard:
    """Load a quantized network onto the cores of its map.

    Raises:
        IllegalMapping: another network's map, neurons on no core or on several, spikes that have no route or more axons
            than the route says; every problem is listed.
    """
    IllegalMapping.raise_all([*network_mismatches(quantized, record), *_odd_blocks(quantized, record)])
    shapes = {p.name: p.shape for p in quantized.populations}
    orders = legal_orders(record.orders, shapes)
    pieces = tuple(_pieces(block, shapes, orders) for block in record.blocks)
    IllegalMapping.raise_all(_uncovered(quantized, pieces))
    matrices = [matrix(p.operator, _SYNAPSES_MAX) for p in quantized.projections]
    cores = tuple(
        _core(block, slices, quantized, matrices) for block, slices in zip(record.blocks, pieces, strict=True)
    )
    routes = tuple(_routes(cores, quantized))
    IllegalMapping.raise_all(_missing_routes(cores, routes, record))
    longest = max((int(m.delay.max(initial=1)) for core in cores for m in core.memories), default=1)
    return LoadedBoard(cores, routes, longest)


# -- is it this network's map, and whole? -----------------------------------------------------------------------------


def _problem(subject: str, found: str, limit: str = "", /, **ids: object) -> Diagnostic:
    return Diagnostic(subject, found, limit, _AGAIN, MappingProxyType(ids))


def _odd_blocks(quantized: QuantizedNetwork, record: MapRecord) -> Iterator[Diagnostic]:
    shapes = {p.name: p.shape for p in quantized.populations}
    ids = [block.id for block in record.blocks]
    for block in record.blocks:
        if ids.count(block.id) > 1:
            yield _problem(f"block {block.id}", "its id belongs to another block too", block=block.id)
        for s in block.slices:
            if not _is_box(s, shapes):
                box = list(map(list, s.box))
                found = f"slice of {quoted(s.population)}, {box}, is not a rectangular slice of a population"
                yield _problem(f"block {block.id}", found, block=block.id)


def _is_box(s: SliceRecord, shapes: Mapping[str, tuple[int, ...]]) -> bool:
    shape = shapes.get(s.population)
    if shape is None or len(s.box) != len(shape):
        return False
    ordered = s.order is None or sorted(s.order) == list(range(len(shape)))
    return ordered and all(0 <= a < b <= n for (a, b), n in zip(s.box, shape, strict=True))


def _uncovered(quantized: QuantizedNetwork, pieces: tuple[tuple[CoreSlice, ...], ...]) -> Iterator[Diagnostic]:
    for p in quantized.populations:
        held = [piece.neurons for slices in pieces for piece in slices if piece.population == p.name]
        times = np.bincount(np.concatenate([np.empty(0, np.int64), *held]), minlength=p.size)
        for bad, found in ((times == 0, "are on no core"), (times > 1, "are on more than one core, or twice on one")):
            if bad.any():
                first = int(np.argmax(bad))
                text = f"{int(bad.sum()):,} of {counted(p.size, 'neuron')} {found} (the first: neuron {first})"
                yield _problem(f"population {quoted(p.name)}", text, population=p.name)


def _missing_routes(
    cores: tuple[LoadedCore, ...], routes: tuple[LoadedRoute, ...], record: MapRecord
) -> Iterator[Diagnostic]:
    listed = {(r.source_block, r.source_input, r.target_block): r.neurons for r in record.routes}
    for route in routes:
        source = None if route.source is None else cores[route.source].block
        target = cores[route.target].block
        neurons = listed.get((source, route.source_input, target), 0)
        needed = len(np.unique(route.slots))
        if neurons < needed:
            sender = f"input {quoted(route.source_input)}" if source is None else f"block {source}"
            found = f"spikes of {counted(needed, 'neuron')} go there, the map has " + (
                f"axons for {neurons:,}" if neurons else "no route"
            )
            yield _problem(f"{sender} to block {target}", found, source=source, target=target)


# -- what a core holds -------------------------------------------------------------------------------------------------


def _pieces(
    block: BlockRecord, shapes: Mapping[str, tuple[int, ...]], orders: Mapping[str, Array]
) -> tuple[CoreSlice, ...]:
    slices, start = [], 0
    for s in block.slices:
        neurons = box_neurons(s, shapes[s.population], orders.get(s.population))
        slices.append(CoreSlice(s.population, neurons, start, start + len(neurons)))
        start += len(neurons)
    return tuple(slices)


def _core(
    block: BlockRecord, pieces: tuple[CoreSlice, ...], quantized: QuantizedNetwork, matrices: Sequence[Any]
) -> LoadedCore:
    lists = [
        (projection, piece, _synapses_into(table, piece.neurons))
        for projection, table in zip(quantized.projections, matrices, strict=True)
        for piece in pieces
        if piece.population == projection.target
    ]
    reached: dict[str, list[Array]] = {}
    for projection, _, (_, source, _) in lists:
        reached.setdefault(projection.source, []).append(source)
    axons = tuple((name, np.unique(np.concatenate(parts))) for name, parts in reached.items())
    starts = np.cumsum([0, *(len(neurons) for _, neurons in axons)])
    axon_ranges = {name: (start, neurons) for start, (name, neurons) in zip(starts.tolist(), axons, strict=False)}
    memories = []
    for projection, piece, (target, source, weights) in lists:
        start, neurons = axon_ranges[projection.source]
        axon = start + np.searchsorted(neurons, source)
        delay = _delays(projection, source, piece.neurons[target])
        order = np.argsort(axon, kind="stable")
        first = np.concatenate(([0], np.cumsum(np.bincount(axon, minlength=int(starts[-1])))))
        slots, weight = piece.start + target[order], weights[order].astype(np.int64)
        memories.append(SynapseMemory(first, slots, weight, delay[order], projection.weight_exp))
    return LoadedCore(block.id, pieces, sum(len(piece.neurons) for piece in pieces), axons, tuple(memories))


def _synapses_into(table: Any, neurons: Array) -> tuple[Array, Array, Array]:
    """(position among ``neurons``, flat source, weight) of every synapse into them whose weight is not 0.

    The one kernel that several pools become has weights of 0 where no pool looks.
    """
    rows = table[neurons].tocoo()
    stored = rows.data != 0
    return rows.row[stored], rows.col[stored], rows.data[stored]


def _delays(projection: FixedProjection, source: Array, target: Array) -> Array:
    # an operator may see its source flat, so delays are flattened first
    sizes = math.prod(projection.operator.input_shape), math.prod(projection.operator.output_shape)
    source_delay = np.broadcast_to(projection.delay_steps.ravel(), sizes[:1])
    target_delay = np.broadcast_to(projection.target_delay_steps.ravel(), sizes[1:])
    return source_delay[source] + target_delay[target]


def _routes(cores: tuple[LoadedCore, ...], quantized: QuantizedNetwork) -> Iterator[LoadedRoute]:
    """One for each sender of each core: which of the sender's slots is which input axon."""
    owner = {p.name: np.empty((2, p.size), np.int64) for p in quantized.populations}
    for number, core in enumerate(cores):
        for piece in core.pieces:
            owner[piece.population][0, piece.neurons] = number
            owner[piece.population][1, piece.neurons] = np.arange(piece.start, piece.stop)
    for target, core in enumerate(cores):
        senders: dict[int, list[tuple[Array, Array]]] = {}
        start = 0
        for name, neurons in core.axons:
            axons = np.arange(start, start + len(neurons))
            start += len(neurons)
            if name not in owner:
                yield LoadedRoute(None, name, target, neurons, axons)
                continue
            cores_of, slots_of = owner[name][:, neurons]
            for number in np.unique(cores_of).tolist():
                senders.setdefault(number, []).append((slots_of[cores_of == number], axons[cores_of == number]))
        for number, parts in senders.items():
            slots, axons = (np.concatenate(column) for column in zip(*parts, strict=True))
            yield LoadedRoute(number, None, target, slots, axons)


def concatenated_ranges(first: Array, count: Array) -> tuple[Array, Array]:
    """Stretches ``first[k] … first[k] + count[k] - 1`` one after the other: (k, value) of each entry."""
    row = np.repeat(np.arange(len(first)), count)
    before = np.cumsum(count) - count
    return row, np.arange(len(row)) - before[row] + first[row]
