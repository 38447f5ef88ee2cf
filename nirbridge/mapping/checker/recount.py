"""Resource use of each block, counted from its synapses: the arithmetic of the checker."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from nirbridge._types import Shape
from nirbridge.arrays import Array
from nirbridge.chips.model import SynapseFormat
from nirbridge.mapping.storage.record import BlockRecord, SliceRecord
from nirbridge.mapping.synapses import AllToAllSynapses, SynapseList, expand_operator, synapses_into
from nirbridge.network.model import Network, Projection
from nirbridge.partitioner.cost.resources import Profiles, axon_list_words, delay_on_chip_steps, profile_ids

HOST = -1


@dataclass(frozen=True, slots=True, eq=False)
class PlacedNeurons:
    """The neurons of one population in one block: flat indices, numbers in the block, ascending, and which slice."""

    neurons: Array
    positions: Array
    slices: Array


@dataclass(frozen=True, slots=True, eq=False)
class NeuronLayout:
    """``placed[i]``: population -> its neurons in the i-th block; ``block_of``: population -> that i per neuron or -1.

    ``times``: population -> in how many boxes each neuron is.
    """

    placed: tuple[Mapping[str, PlacedNeurons], ...]
    block_of: Mapping[str, Array]
    times: Mapping[str, Array]


@dataclass(frozen=True, slots=True, eq=False)
class RecountedUse:
    """``used[i]`` of the i-th block; ``routes``: (i or HOST, port name or '', target i) -> neurons, synapses.

    ``synapses[k]``: those of the k-th projection that end in some block.
    """

    used: tuple[dict[str, int], ...]
    routes: Mapping[tuple[int, str, int], tuple[int, int]]
    synapses: tuple[int, ...]


def channels_last(axes: int) -> tuple[int, ...]:
    """The axes of a shape from the slowest to the fastest: (channel, row, column) -> row, column, channel."""
    return (*range(1, axes), 0) if axes > 1 else tuple(range(axes))


def box_neurons(s: SliceRecord, shape: Shape, order: Array | None = None) -> Array:
    """Flat (row-major) indices of the neurons of a legal slice, in the order in which they are numbered.

    ``order`` is that of the population: the slice counts places, and place k holds neuron ``order[k]``.
    """
    grid = np.arange(math.prod(shape), dtype=np.int64).reshape(shape)[tuple(slice(a, b) for a, b in s.box)]
    places = grid.transpose(s.order if s.order is not None else channels_last(len(shape))).ravel()
    return places if order is None else order[places]


def lay_out(
    blocks: tuple[BlockRecord, ...],
    shapes: Mapping[str, Shape],
    is_legal: Callable[[SliceRecord], bool],
    orders: Mapping[str, Sequence[int]] | None = None,
) -> NeuronLayout:
    """Number the neurons of every block; slices for which ``is_legal(slice)`` is false take no part.

    ``orders``: of populations whose slices count places in a permutation of their neurons.
    """
    arrays = legal_orders(orders or {}, shapes)
    block_of = {name: np.full(math.prod(shape), -1, dtype=np.int64) for name, shape in shapes.items()}
    times = {name: np.zeros(math.prod(shape), dtype=np.int64) for name, shape in shapes.items()}
    placed = []
    for i, block in enumerate(blocks):
        lists: dict[str, list[tuple[Array, Array]]] = {}
        start = 0
        for s in block.slices:
            if not is_legal(s):
                continue
            neurons = box_neurons(s, shapes[s.population], arrays.get(s.population))
            lists.setdefault(s.population, []).append((neurons, np.arange(start, start + len(neurons))))
            block_of[s.population][neurons] = i
            times[s.population][neurons] += 1
            start += len(neurons)
        placed.append({name: _one(parts) for name, parts in lists.items()})
    return NeuronLayout(tuple(placed), block_of, times)


def legal_orders(orders: Mapping[str, Sequence[int]], shapes: Mapping[str, Shape]) -> dict[str, Array]:
    """The orders as arrays, without those of another length than the population (a violation of its own)."""
    lengths = {name: math.prod(shape) for name, shape in shapes.items()}
    return {name: np.array(order, np.int64) for name, order in orders.items() if lengths.get(name) == len(order)}


def _one(parts: list[tuple[Array, Array]]) -> PlacedNeurons:
    slices = np.repeat(np.arange(len(parts)), [len(p[0]) for p in parts])
    return PlacedNeurons(np.concatenate([p[0] for p in parts]), np.concatenate([p[1] for p in parts]), slices)


def recount(network: Network, layout: NeuronLayout, fmt: SynapseFormat, weight_bits: Sequence[int]) -> RecountedUse:
    """Counts every block; ``weight_bits``, one per projection, have to be legal on the chip."""
    ready = [expand_operator(p.operator) for p in network.projections]
    profiles = {p.name: profile_ids(p.neuron, p.shape) for p in network.populations}
    sizes = {p.name: p.size for p in (*network.populations, *network.inputs)}
    synapses = [0] * len(ready)
    used: list[dict[str, int]] = []
    routes: dict[tuple[int, str, int], tuple[int, int]] = {}
    for i, placed in enumerate(layout.placed):
        sources = [p.source for p in network.projections if p.target in placed]
        fan_in = {name: np.zeros(size, np.int64) for name, size in sizes.items() if name in sources}
        words = 0
        for k, projection in enumerate(network.projections):
            mine = placed.get(projection.target)
            if mine is None:
                continue
            found = synapses_into(ready[k], mine.neurons)
            words += _words(found, mine, projection, fmt, weight_bits[k])
            synapses[k] += _add(fan_in[projection.source], found)
        decays, thresholds = _profiles(profiles, placed)
        routes |= _routes(fan_in, layout, i)
        used.append(
            {
                "neurons": sum(len(p.neurons) for p in placed.values()),
                "input_axons": sum(int(np.count_nonzero(f)) for f in fan_in.values()),
                "output_axons": 0,
                "synapse_words": words,
                "decay_profiles": decays,
                "threshold_profiles": thresholds,
            }
        )
    for (source, _, _), (neurons, _) in routes.items():
        if source != HOST:
            used[source]["output_axons"] += neurons
    return RecountedUse(tuple(used), routes, tuple(synapses))


def _add(into: Array, found: SynapseList | AllToAllSynapses) -> int:
    """Adds the synapses of each source to ``into``; how many there were."""
    if isinstance(found, AllToAllSynapses):
        into[found.sources] += len(found.rows)
        return len(found.rows) * len(found.sources)
    into += np.bincount(found.source, minlength=len(into))
    return len(found.source)


def _routes(
    fan_in: Mapping[str, Array], layout: NeuronLayout, target: int
) -> dict[tuple[int, str, int], tuple[int, int]]:
    """Routes into one block, by source; ``fan_in`` has the synapses from each source neuron."""
    routes: dict[tuple[int, str, int], tuple[int, int]] = {}
    for source, from_each in fan_in.items():
        sending = np.flatnonzero(from_each)
        if len(sending) == 0:
            continue
        if source not in layout.block_of:
            routes[HOST, source, target] = (len(sending), int(from_each.sum()))
            continue
        blocks = layout.block_of[source][sending]
        for block in np.unique(blocks[blocks >= 0]).tolist():
            here = sending[blocks == block]
            neurons, synapses = routes.get((block, "", target), (0, 0))
            routes[block, "", target] = (neurons + len(here), synapses + int(from_each[here].sum()))
    return routes


# -- words -------------------------------------------------------------------------------------------------------


def _words(
    found: SynapseList | AllToAllSynapses,
    placed: PlacedNeurons,
    projection: Projection,
    fmt: SynapseFormat,
    weight_bits: int,
) -> int:
    """Words of one projection's synapses in one block: a target list for each source neuron.

    The lists are stored whole, or all cut where a slice ends, whichever takes less: the sum over the slices, each on
    its own, is an upper bound that a search may count on.
    """
    delayed = delay_on_chip_steps(projection) > 0
    many = int(placed.slices[-1]) + 1
    if isinstance(found, AllToAllSynapses):
        at, sources = found.rows, len(found.sources)
        words = [
            axon_list_words(owner, placed.positions[at], fmt, weight_bits, delayed=delayed)[1].sum()
            for owner in (np.zeros_like(at), placed.slices[at])
        ]
        return sources * int(min(words))
    width = len(placed.positions)
    key = found.source * width + found.row
    order = np.argsort(key, kind="stable") if fmt.shared_kernels else None
    source, at = np.divmod(np.sort(key) if order is None else key[order], width)
    positions = placed.positions[at]
    totals = []
    for owner in (source,) if many == 1 else (source, source * many + placed.slices[at]):
        words = axon_list_words(owner, positions, fmt, weight_bits, delayed=delayed)[1]
        if order is not None:
            channel = _input_channel(source, projection.operator.input_shape)
            words = words[_copies(owner, channel, positions, found.tap[order])]
        totals.append(int(words.sum()))
    return min(totals)


def _copies(owner: Array, channel: Array, positions: Array, tap: Array) -> Array:
    """Which lists (by index, in the order of the owners) are stored, the first of those that are alike."""
    first = np.flatnonzero(np.concatenate(([True], owner[1:] != owner[:-1]))) if len(owner) else owner
    if len(first) == 0:
        return first
    alike = np.stack([channel[first], _signatures(first, positions, tap)], axis=1)
    return np.unique(alike, axis=0, return_index=True)[1]


def _input_channel(sources: Array, shape: Shape) -> Array:
    """The input channel of each source: the first of several axes; a flat input is one channel."""
    return sources // math.prod(shape[1:]) if len(shape) > 1 else np.zeros_like(sources)


def _signatures(first: Array, positions: Array, tap: Array) -> Array:
    """One int64 per list: equal where positions, less the first one, and taps are (chance of error 2**-64).

    ``first`` has the start of each list among the entries. The signature is the sum, modulo 2**64, of a product of two
    pseudo-random numbers per synapse, one for the tap, one for the distance from the first target.
    """
    distance = positions - np.repeat(positions[first], np.diff(np.append(first, len(positions))))
    draws = np.random.default_rng(0x5EED).integers(0, 2**64, size=int(distance.max()) + 1, dtype=np.uint64)
    return np.add.reduceat((draws[distance] | np.uint64(1)) * _mixed(tap), first).view(np.int64)


def _mixed(tap: Array) -> Array:
    x = (tap ^ (tap >> np.uint64(29))) * np.uint64(0x9FB21C651E98DF25)
    return x ^ (x >> np.uint64(32))


# -- profiles ----------------------------------------------------------------------------------------------------


def _profiles(profiles: Mapping[str, Profiles], placed: Mapping[str, PlacedNeurons]) -> tuple[int, int]:
    """Distinct decay and threshold profiles of a block, over all its populations."""
    decays: set[tuple[float, ...]] = set()
    thresholds: set[float] = set()
    for name, mine in placed.items():
        ids = profiles[name]
        decays.update(ids.decay_values[i] for i in _distinct(ids.decay, mine.neurons))
        if ids.threshold_values:
            thresholds.update(ids.threshold_values[i] for i in _distinct(ids.threshold, mine.neurons))
    return len(decays), len(thresholds)


def _distinct(ids: Array, neurons: Array) -> list[int]:
    if all(stride == 0 for stride in ids.strides):
        return [int(ids.flat[0])]
    return np.unique(ids.ravel()[neurons]).tolist()
