"""Exact use of a core's resources by any set of neurons, synapse by synapse; used by every rival rule.

Nothing of the partitioner's search or of its closed forms is used. Synapses are listed from the operators
(``mapping.synapses``, the lists of the checker); the words of a list and the profiles are the encoding of the chip
(``partitioner.cost.resources``). Neurons are numbered through the network: populations in order, channels last within
one. A core numbers its neurons in that order.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from nirbridge.arrays import Array
from nirbridge.chips import Chip
from nirbridge.mapping.synapses import SynapseList, expand_operator, synapse_count, synapses_into
from nirbridge.network.model import Network, Projection
from nirbridge.partitioner.cost.resources import as_stored, axon_list_words, delay_on_chip_steps, limits, profile_ids

SYNAPSES_MAX = 20_000_000
"""Networks of more synapses are too large to be listed."""
UNLIMITED = 2**60
COUNTED = ("neurons", "input_axons", "synapse_words", "decay_profiles", "threshold_profiles")
"""What a set of neurons takes whatever the other cores hold; output axons depend on these."""


@dataclass(frozen=True, slots=True, eq=False)
class Incoming:
    """Synapses into neurons ``first`` to ``first + len(start) - 1``: the sources of each, numbers of neurons or hosts.

    ``channel`` is the input channel of a source (for chips that store like kernels once), ``tap`` its weight's number.
    """

    first: int
    start: Array
    source: Array
    tap: Array
    channel: Array
    delayed: bool
    shares: bool


class Accounts:
    """A network and a chip; numbers of neurons are 0 to ``neurons - 1``, those of host inputs follow."""

    def __init__(self, network: Network, chip: Chip) -> None:
        self.network, self.chip, self.bits = network, chip, chip.synapses.weight_bits_default
        self.cap = {name: UNLIMITED if most is None else most for name, most in limits(chip).items()}
        self.first: dict[str, int] = {}
        for point in (*network.populations, *network.inputs):
            self.first[point.name] = sum(p.size for p in self._points(len(self.first)))
        self.neurons = network.neurons
        self.points = sum(p.size for p in self._points(None))
        self.flat = {p.name: channels_last(p.shape) for p in (*network.populations, *network.inputs)}
        targets = {p.name for p in network.populations}
        self.incoming = [self._incoming(p) for p in network.projections if p.target in targets]
        self.population = np.repeat(np.arange(len(network.populations)), [p.size for p in network.populations])
        self.decay, self.threshold = self._profiles()

    def _points(self, most: int | None) -> tuple:
        return (*self.network.populations, *self.network.inputs)[:most]

    def _incoming(self, projection: Projection) -> Incoming:
        shape = projection.operator.output_shape
        flat = self.flat[projection.target]
        assert math.prod(shape) == len(flat)
        found = synapses_into(expand_operator(projection.operator), flat)
        if isinstance(found, SynapseList):
            row, source, tap = found.row, found.source, found.tap
        else:
            row = np.repeat(found.rows, len(found.sources))
            source, tap = np.tile(found.sources, len(found.rows)), np.arange(len(row), dtype=np.uint64)
        rank = np.empty(len(self.flat[projection.source]), np.int64)
        rank[self.flat[projection.source]] = np.arange(len(rank))
        inputs = projection.operator.input_shape
        per_channel = math.prod(inputs[1:]) if len(inputs) > 1 else len(rank)
        start = np.searchsorted(row, np.arange(len(flat) + 1))
        delayed, shares = delay_on_chip_steps(projection) > 0, self.chip.synapses.shared_kernels
        number = (self.first[projection.source] + rank[source]).astype(np.int32)
        channel = (source // per_channel).astype(np.int32) if shares else number[:0]
        return Incoming(
            self.first[projection.target], start, number, tap if shares else tap[:0], channel, delayed, shares
        )

    def _profiles(self) -> tuple[Array, Array]:
        """The decay and the threshold profile of each neuron, numbers; -1: a neuron that never fires."""
        decays: dict[object, int] = {}
        thresholds: dict[object, int] = {}
        columns: tuple[list[Array], list[Array]] = ([], [])
        for p in as_stored(self.network, self.chip).populations:
            ids, flat = profile_ids(p.neuron, p.shape), self.flat[p.name]
            own = np.array([decays.setdefault(v, len(decays)) for v in ids.decay_values])
            columns[0].append(own[np.ravel(ids.decay)[flat]])
            own = np.array([*(thresholds.setdefault(v, len(thresholds)) for v in ids.threshold_values), -1])
            columns[1].append(own[np.ravel(ids.threshold)[flat]])
        return np.concatenate(columns[0]), np.concatenate(columns[1])

    def synapses_of(self, edge: Incoming, members: Array) -> tuple[Array, Array, Array]:
        """Of one projection into ``members`` (ascending): index of each synapse, its source, its place in the core."""
        a, b = np.searchsorted(members, (edge.first, edge.first + len(edge.start) - 1))
        rows = members[a:b] - edge.first
        counts = edge.start[rows + 1] - edge.start[rows]
        place = np.repeat(np.arange(a, b), counts)
        index = np.arange(len(place)) + np.repeat(edge.start[rows] - (np.cumsum(counts) - counts), counts)
        return index, edge.source[index], place

    def sources(self, members: Array) -> Array:
        """Distinct sources of a set of neurons, ascending."""
        return np.unique(np.concatenate([self.synapses_of(e, members)[1] for e in self.incoming] or [members[:0]]))

    def words(self, members: Array) -> int:
        """Words of the synapses of a core that holds ``members`` (ascending), every source's list stored whole."""
        total = 0
        for edge in self.incoming:
            index, source, place = self.synapses_of(edge, members)
            order = np.argsort(source, kind="stable")
            index, source, place = index[order], source[order], place[order]
            fmt = self.chip.synapses
            words = axon_list_words(source, place, fmt, self.bits, delayed=edge.delayed)[1]
            total += int(words[stored_once(edge, index, source, place)].sum() if edge.shares else words.sum())
        return total

    def use(self, members: Array) -> dict[str, int]:
        """What a core that holds ``members`` (ascending) takes of ``COUNTED``."""
        thresholds = self.threshold[members]
        return {
            "neurons": len(members),
            "input_axons": len(self.sources(members)),
            "synapse_words": self.words(members),
            "decay_profiles": len(np.unique(self.decay[members])),
            "threshold_profiles": len(np.unique(thresholds[thresholds >= 0])),
        }

    def fits(self, members: Array) -> bool:
        """True if a core can hold ``members`` (ascending), output axons aside; cheap limits are asked first."""
        cap = self.cap
        return (
            len(members) <= cap["neurons"]
            and len(np.unique(self.decay[members])) <= cap["decay_profiles"]
            and len(np.unique(self.threshold[members])) - int((self.threshold[members] < 0).any())
            <= cap["threshold_profiles"]
            and len(self.sources(members)) <= cap["input_axons"]
            and (cap["synapse_words"] == UNLIMITED or self.words(members) <= cap["synapse_words"])
        )

    def output_axons(self, cores: list[Array]) -> Array:
        """Output axons of each core: pairs of a neuron of it and a core (its own too) with targets of it."""
        slots = np.zeros(self.points, np.int64)
        for members in cores:
            slots[self.sources(members)] += 1
        return np.array([int(slots[members].sum()) for members in cores])

    def is_legal(self, cores: list[Array]) -> bool:
        """True if the cores hold every neuron once and are within every limit, counted anew."""
        held = np.sort(np.concatenate(cores))
        whole = np.array_equal(held, np.arange(self.neurons))
        within = all(self.fits(np.sort(members)) for members in cores)
        return whole and within and bool(np.all(self.output_axons(cores) <= self.cap["output_axons"]))


def too_many_synapses(network: Network) -> bool:
    """True where a network is too large to be listed synapse by synapse."""
    return sum(synapse_count(p.operator) for p in network.projections) > SYNAPSES_MAX


def channels_last(shape: tuple[int, ...]) -> Array:
    """Flat row-major index of each neuron of a shape, in the order of numbering: row, column, channel."""
    axes = (*range(1, len(shape)), 0) if len(shape) > 1 else (0,)
    return np.arange(math.prod(shape)).reshape(shape).transpose(axes).ravel()


def stored_once(edge: Incoming, index: Array, source: Array, place: Array) -> Array:
    """Which lists are stored: of those of one input channel alike up to a shift, with like taps, the first."""
    if not len(source):
        return np.zeros(0, np.int64)
    first = np.flatnonzero(np.concatenate(([True], source[1:] != source[:-1])))
    distance = place - np.repeat(place[first], np.diff(np.append(first, len(source))))
    draws = np.random.default_rng(1).integers(0, 2**64, size=int(distance.max()) + 1, dtype=np.uint64)
    tap = edge.tap[index]
    mark = np.add.reduceat((draws[distance] | np.uint64(1)) * (tap ^ (tap >> np.uint64(29))), first).view(np.int64)
    return np.unique(np.stack([edge.channel[index[first]], mark], axis=1), axis=0, return_index=True)[1]
