"""The network neuron by neuron: sources, lists and profiles, for the search over arbitrary sets of neurons.

Neurons are numbered through the network, populations in order and channels last within one; host inputs follow.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce

import numpy as np
from scipy import sparse

from nirbridge.arrays import Array
from nirbridge.partitioner.cost.axis import axis_rows
from nirbridge.partitioner.cost.connectivity import Separable, explicit, synapses
from nirbridge.partitioner.cost.resources import (
    axon_list_words,
    least_list_words,
    profile_ids,
    run_words,
    shared_list_words,
)
from nirbridge.partitioner.cost.sizing import CostModel, IncomingProjection, flat_indices
from nirbridge.partitioner.model import Slice


@dataclass(frozen=True, slots=True, eq=False)
class Lists:
    """Rows of numbers: row ``i`` is ``values[start[i]:start[i + 1]]``."""

    start: Array
    values: Array

    def row(self, i: int) -> Array:
        """One row."""
        return self.values[self.start[i] : self.start[i + 1]]

    def places(self, rows: Array) -> tuple[Array, Array]:
        """Index of every value of the rows, and which of the rows (0 to ``len(rows) - 1``) it belongs to."""
        counts = self.start[rows + 1] - self.start[rows]
        owner = np.repeat(np.arange(len(rows)), counts)
        return np.arange(len(owner)) + np.repeat(self.start[rows] - (np.cumsum(counts) - counts), counts), owner


@dataclass(frozen=True, slots=True, eq=False)
class NeuronEdge:
    """One projection: ``lists`` has a row of sources for each neuron of the network (empty where it is no target).

    Where like kernels are stored once, ``taps`` has the number of each entry's weight, ``channel`` its input channel.
    ``fills``: gaps of lists may be filled with zeros.
    """

    lists: Lists
    delayed: bool
    taps: Array | None
    channel: Array | None
    fills: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class NeuronLists:
    """All projections neuron by neuron; ``feeds`` and ``fed`` are each neuron's distinct targets and sources.

    ``fan_in`` counts the distinct sources.

    ``decay`` and ``threshold`` number the profiles (-1: it never fires); ``points`` counts neurons and host inputs.
    """

    sizes: CostModel
    points: int
    first: dict[str, int]
    edges: tuple[NeuronEdge, ...]
    fed: Lists
    feeds: Lists
    fan_in: Array
    decay: Array
    threshold: Array

    @property
    def neurons(self) -> int:
        """Neurons of the network."""
        return len(self.decay)

    def words(self, members: Array) -> int:
        """Words of a core that holds ``members`` (ascending), every source's list stored whole."""
        fmt, bits = self.sizes.chip.synapses, self.sizes.weight_bits
        total = 0
        for edge in self.edges:
            index, place = edge.lists.places(members)
            if len(index):
                source = edge.lists.values[index]
                order = np.argsort(source, kind="stable")
                source, place, index = source[order], place[order], index[order]
                if edge.taps is None or edge.channel is None:
                    words = axon_list_words(source, place, fmt, bits, delayed=edge.delayed, filled=edge.fills)[1]
                    total += int(words.sum())
                    continue
                taps, channel = edge.taps[index], edge.channel[index]
                total += shared_list_words(source, place, taps, channel, fmt, bits, delayed=edge.delayed)
        return total

    def word_tables(self, longest: int) -> list[tuple[Array, Array]]:
        """Per projection the least and the most words of a list of 0 to ``longest`` targets, wherever these lie."""
        fmt, bits = self.sizes.chip.synapses, self.sizes.weight_bits
        counts = np.arange(longest + 1)
        tables = []
        for edge in self.edges:
            least = least_list_words(counts, fmt, bits, delayed=edge.delayed)
            most = counts * int(least[1]) if longest else least
            if fmt.index_bits is not None:
                most = np.minimum(most, run_words(counts, fmt, bits, delayed=edge.delayed, sparse=True))
            tables.append((least if edge.taps is None else np.zeros_like(least), most))
        return tables


def total_synapses(sizes: CostModel) -> int:
    """Synapses of all projections onto the chip."""
    return sum(synapses(e.form) for edges in sizes.incoming.values() for e in edges)


def neuron_lists(sizes: CostModel) -> NeuronLists:
    """The lists of a network. Raises ModelError where a projection has too many synapses to be listed."""
    network = sizes.network
    first, points, numbers = {}, 0, {}
    for point in (*network.populations, *network.inputs):
        first[point.name] = points
        # the number of each flat index: channels last within a population
        rank = np.empty(point.size, np.int64)
        rank[flat_indices(point.shape, tuple((0, n) for n in point.shape))] = np.arange(point.size)
        numbers[point.name] = points + rank
        points += point.size
    edges = []
    for name, shape in sizes.shapes.items():
        for edge in sizes.incoming[name]:
            edges.append(_neuron_edge(edge, numbers[name], numbers[edge.source], network.neurons))
        assert math.prod(shape) == len(numbers[name])
    pairs = [
        np.zeros(0, np.int64),
        *(np.repeat(np.arange(network.neurons), np.diff(e.lists.start)) * points + e.lists.values for e in edges),
    ]
    target, source = np.divmod(np.unique(np.concatenate(pairs)), points)
    decay, threshold = _profiles(sizes, numbers)
    fed, feeds = _lists(target, source, network.neurons), _lists(source, target, points)
    return NeuronLists(sizes, points, first, tuple(edges), fed, feeds, np.diff(fed.start), decay, threshold)


def _neuron_edge(edge: IncomingProjection, targets: Array, sources: Array, neurons: int) -> NeuronEdge:
    """One projection; ``targets`` and ``sources`` are the numbers of the flat indices of both sides."""
    form = explicit(edge.form, f"projection from {edge.source!r}")
    target, source = np.repeat(targets, np.diff(form.indptr)), sources[form.sources]
    lists = _lists(target, source, neurons)
    if not edge.shares or not isinstance(edge.form, Separable):
        return NeuronEdge(lists, edge.delayed, None, None, edge.fills)
    flat = len(edge.form.axes) == 1  # one channel: its only axis is a place
    tapped = [axis_rows(axis, 0, axis.n_out, place) for place, axis in enumerate(edge.form.axes, start=int(flat))]
    rows = sparse.coo_array(reduce(lambda a, b: sparse.kron(a, b, format="csr"), tapped))
    order = np.lexsort((sources[rows.col], targets[rows.row]))
    channel = rows.col[order] // math.prod(edge.form.source_shape[0 if flat else 1 :])
    return NeuronEdge(lists, edge.delayed, rows.data[order].astype(np.int64), channel.astype(np.int64))


def _lists(row: Array, value: Array, rows: int) -> Lists:
    order = np.lexsort((value, row))
    start = np.concatenate(([0], np.cumsum(np.bincount(row, minlength=rows))))
    return Lists(start, value[order])


def _profiles(sizes: CostModel, numbers: dict[str, Array]) -> tuple[Array, Array]:
    decay = np.zeros(sizes.network.neurons, np.int64)
    threshold = np.full(sizes.network.neurons, -1, np.int64)
    decays: dict[object, int] = {}
    thresholds: dict[object, int] = {}
    for population in sizes.network.populations:
        ids, place = profile_ids(population.neuron, population.shape), numbers[population.name]
        known = np.array([decays.setdefault(v, len(decays)) for v in ids.decay_values])
        decay[place] = known[ids.decay.ravel()]
        if ids.threshold_values:
            known = np.array([thresholds.setdefault(v, len(thresholds)) for v in ids.threshold_values])
            threshold[place] = known[ids.threshold.ravel()]
    return decay, threshold


def slices_of(lists: NeuronLists, members: Array) -> tuple[Slice, ...]:
    """Neurons (ascending) as slices: ranges of flat populations; else stretches of channels, or of whole pixels."""
    found: list[Slice] = []
    for name, shape in lists.sizes.shapes.items():
        first = lists.first[name]
        a, b = np.searchsorted(members, (first, first + math.prod(shape)))
        own = members[a:b] - first
        lengths = (*shape[1:], shape[0]) if len(shape) > 1 else shape
        for part in np.split(own, np.flatnonzero(np.diff(own) != 1) + 1) if len(own) else ():
            found += _stretch(name, lengths, int(part[0]), int(part[-1]) + 1)
    return tuple(found)


def _stretch(name: str, lengths: Sequence[int], start: int, stop: int) -> list[Slice]:
    """Places ``start`` to ``stop`` of a population as boxes within one row, which keep the order of numbering."""
    if len(lengths) == 1:
        return [Slice(name, ((start, stop),))]
    channels, width = lengths[-1], lengths[-2]
    found = []
    while start < stop:
        pixel, channel = divmod(start, channels)
        place = [int(x) for x in np.unravel_index(pixel, lengths[:-1])]
        if channel or stop - start < channels:
            end, columns = min(stop - pixel * channels, channels), 1
        else:
            end, columns = channels, min((stop - start) // channels, width - place[-1])
        spatial = [(x, x + 1) for x in place[:-1]] + [(place[-1], place[-1] + columns)]
        found.append(Slice(name, ((channel, end), *spatial)))
        start = (pixel + columns - 1) * channels + end
    return found
