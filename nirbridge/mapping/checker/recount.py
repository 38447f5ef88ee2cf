"""Resource use of each block, counted from its synapses: the arithmetic of the checker."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from nirbridge._types import Shape
from nirbridge.arrays import Array
from nirbridge.chips.model import SynapseFormat
from nirbridge.mapping.checker.incoming import PlacedNeurons, SynapsesByClass, box_neurons
from nirbridge.mapping.storage.record import BlockRecord, SliceRecord
from nirbridge.network.model import Network
from nirbridge.partitioner.cost.resources import Profiles, profile_ids

HOST = -1


@dataclass(frozen=True, slots=True, eq=False)
class NeuronLayout:
    """``placed[i]``: population -> its neurons in the i-th block; ``block_of``: population -> that i per neuron or -1.

    ``times``: population -> in how many boxes each neuron is. ``ordered``: populations in an order of the map's.
    """

    placed: tuple[Mapping[str, PlacedNeurons], ...]
    block_of: Mapping[str, Array]
    times: Mapping[str, Array]
    ordered: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, eq=False)
class RecountedUse:
    """``used[i]`` of the i-th block; ``routes``: (i or HOST, port name or '', target i) -> neurons, synapses.

    ``synapses[k]``: those of the k-th projection that end in some block.
    """

    used: tuple[dict[str, int], ...]
    routes: Mapping[tuple[int, str, int], tuple[int, int]]
    synapses: tuple[int, ...]


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
    block_of = {name: np.full(math.prod(shape), -1, dtype=np.int32) for name, shape in shapes.items()}
    times = {name: np.zeros(math.prod(shape), dtype=np.int32) for name, shape in shapes.items()}
    placed = []
    for i, block in enumerate(blocks):
        pieces: dict[str, list[tuple[SliceRecord, int]]] = {}
        start = 0
        for s in block.slices:
            if not is_legal(s):
                continue
            neurons = box_neurons(s, shapes[s.population], arrays.get(s.population))
            pieces.setdefault(s.population, []).append((s, start))
            block_of[s.population][neurons] = i
            times[s.population][neurons] += 1
            start += len(neurons)
        placed.append({name: PlacedNeurons(shapes[name], tuple(own), arrays.get(name)) for name, own in pieces.items()})
    return NeuronLayout(tuple(placed), block_of, times, frozenset(arrays))


def legal_orders(orders: Mapping[str, Sequence[int]], shapes: Mapping[str, Shape]) -> dict[str, Array]:
    """The orders as arrays, without those of another length than the population (a violation of its own)."""
    lengths = {name: math.prod(shape) for name, shape in shapes.items()}
    return {name: np.array(order, np.int64) for name, order in orders.items() if lengths.get(name) == len(order)}


def recount(network: Network, layout: NeuronLayout, fmt: SynapseFormat, weight_bits: Sequence[int]) -> RecountedUse:
    """Counts every block; ``weight_bits``, one per projection, have to be legal on the chip."""
    into = SynapsesByClass(network.projections, fmt, weight_bits, layout.ordered)
    profiles = {p.name: profile_ids(p.neuron, p.shape) for p in network.populations}
    synapses = [0] * len(network.projections)
    used: list[dict[str, int]] = []
    routes: dict[tuple[int, str, int], tuple[int, int]] = {}
    for i, placed in enumerate(layout.placed):
        found: dict[str, list[tuple[Array, Array]]] = {}
        words = 0
        for k in (k for name in placed for k in into.projections_of.get(name, ())):
            projection = network.projections[k]
            sources, from_each, taken = into.count(k, placed[projection.target])
            found.setdefault(projection.source, []).append((sources, from_each))
            synapses[k] += int(from_each.sum())
            words += taken
        by_source = {name: _joined(parts) for name, parts in found.items()}
        routes |= _routes(by_source, layout, i)
        inputs = sum(len(sources) for sources, _ in by_source.values())
        used.append(_use(placed, inputs, words, profiles))
    for (source, _, _), (neurons, _) in routes.items():
        if source != HOST:
            used[source]["output_axons"] += neurons
    return RecountedUse(tuple(used), routes, tuple(synapses))


def _use(
    placed: Mapping[str, PlacedNeurons], inputs: int, words: int, profiles: Mapping[str, Profiles]
) -> dict[str, int]:
    decays, thresholds = _profiles(profiles, placed)
    return {
        "neurons": sum(p.count for p in placed.values()),
        "input_axons": inputs,
        "output_axons": 0,
        "synapse_words": words,
        "decay_profiles": decays,
        "threshold_profiles": thresholds,
    }


def _joined(parts: list[tuple[Array, Array]]) -> tuple[Array, Array]:
    """Sources, ascending, and the synapses of each, over several projections of one source."""
    if len(parts) == 1:
        return parts[0]
    sources, index = np.unique(np.concatenate([p[0] for p in parts]), return_inverse=True)
    return sources, _sums(index, np.concatenate([p[1] for p in parts]))


def _routes(
    by_source: Mapping[str, tuple[Array, Array]], layout: NeuronLayout, target: int
) -> dict[tuple[int, str, int], tuple[int, int]]:
    """Routes into one block, by source; ``by_source`` has the sending neurons and the synapses from each."""
    routes: dict[tuple[int, str, int], tuple[int, int]] = {}
    for source, (sending, synapses) in by_source.items():
        if len(sending) == 0:
            continue
        if source not in layout.block_of:
            routes[HOST, source, target] = (len(sending), int(synapses.sum()))
            continue
        block, index = np.unique(layout.block_of[source][sending], return_inverse=True)
        neurons, total = np.bincount(index).tolist(), _sums(index, synapses).tolist()
        for b, n, m in zip(block.tolist(), neurons, total, strict=True):
            if b >= 0:
                before = routes.get((b, "", target), (0, 0))
                routes[b, "", target] = (before[0] + n, before[1] + m)
    return routes


def _sums(index: Array, counts: Array) -> Array:
    """Sums of integers by index, exact below 2**53."""
    return np.bincount(index, weights=counts).astype(np.int64)


# -- profiles ----------------------------------------------------------------------------------------------------


def _profiles(profiles: Mapping[str, Profiles], placed: Mapping[str, PlacedNeurons]) -> tuple[int, int]:
    """Distinct decay and threshold profiles of a block, over all its populations."""
    decays: set[tuple[float, ...]] = set()
    thresholds: set[float] = set()
    for name, mine in placed.items():
        ids = profiles[name]
        decays.update(ids.decay_values[i] for i in _distinct(ids.decay, mine))
        if ids.threshold_values:
            thresholds.update(ids.threshold_values[i] for i in _distinct(ids.threshold, mine))
    return len(decays), len(thresholds)


def _distinct(ids: Array, placed: PlacedNeurons) -> list[int]:
    if all(stride == 0 for stride in ids.strides):
        return [int(ids.flat[0])]
    return np.unique(ids.ravel()[placed.neurons()]).tolist()
