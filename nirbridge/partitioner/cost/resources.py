"""Resource use of a core: the cost vector that the search and the checker share.

A run of m targets takes ``r(m) = ceil((m * bits + run_header_bits) / word_bits)`` words, ``bits`` the weight, the
delay where the projection has delays, and the index of a sparse run. A contiguous stretch of n targets is cut into
runs so that the words are least (``chips.model.SynapseFormat`` has the rule of the chip).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import overload

import numpy as np

from nirbridge._types import Box
from nirbridge.arrays import Array, freeze
from nirbridge.chips.model import Chip, SynapseFormat
from nirbridge.network import Network, Neuron, Population, Projection
from nirbridge.network.operators import Chain, Dense, Operator, Sparse
from nirbridge.partitioner.model import RESOURCES
from nirbridge.quantization.decays import decay_of
from nirbridge.quantization.formats import DECAY_ONE

# -- words -------------------------------------------------------------------------------------------------------


def synapse_bits(fmt: SynapseFormat, weight_bits: int, *, delayed: bool, sparse: bool = False) -> int:
    """Bits of one synapse within a run. Raises ValueError for a sparse run on a chip that has none."""
    if sparse and fmt.index_bits is None:
        raise ValueError("the chip has no sparse runs (index_bits is None)")
    return weight_bits + (fmt.delay_bits if delayed else 0) + ((fmt.index_bits or 0) if sparse else 0)


@overload
def run_words(n_targets: int, fmt: SynapseFormat, weight_bits: int, *, delayed: bool, sparse: bool = False) -> int: ...
@overload
def run_words(
    n_targets: Array, fmt: SynapseFormat, weight_bits: int, *, delayed: bool, sparse: bool = False
) -> Array: ...
def run_words(
    n_targets: int | Array, fmt: SynapseFormat, weight_bits: int, *, delayed: bool, sparse: bool = False
) -> int | Array:
    """Fewest words of a list of ``n_targets`` targets cut into runs of one kind; an array gives an int64 array.

    Dense runs (``sparse=False``) cover a contiguous stretch, sparse runs any targets. Exact for every n: a table
    up to the largest requested n, continued periodically (see ``_RunTable``). A chip that does not limit its words
    (``fmt.words`` None) is computed in the same way: the figure is then information.
    """
    bits = synapse_bits(fmt, weight_bits, delayed=delayed, sparse=sparse)
    table = _run_table(bits, fmt.word_bits, fmt.run_header_bits, fmt.run_targets_max, fmt.run_free)
    return table.words(n_targets) if isinstance(n_targets, np.ndarray) else table.words_of(n_targets)


def least_list_words(n_targets: Array, fmt: SynapseFormat, weight_bits: int, *, delayed: bool = False) -> Array:
    """Fewest words of lists of ``n_targets`` targets, wherever these lie in however many cores.

    Runs of any length, also on a chip that fills every run but the last of a list: a list that is cut, between cores or
    where a slice ends, may take fewer words than one whose runs are full.
    """
    return run_words(n_targets, replace(fmt, run_free=True), weight_bits, delayed=delayed)


def axon_list_words(
    axon_ids: Array, positions: Array, fmt: SynapseFormat, weight_bits: int, *, delayed: bool, filled: bool = False
) -> tuple[Array, Array]:
    """Words of the target lists of many axons: the distinct axon ids, ascending, and the words of each (int64).

    The least of: every maximal contiguous stretch in dense runs; the whole list in sparse runs (where there are any);
    where gaps may be ``filled`` with zeros, everything from the first target to the last in dense runs.
    ``axon_ids`` and ``positions`` have one entry per synapse, sorted by axon, then position (both ascending, pairs
    distinct). The total of a core is the sum of the second array.
    """
    if len(axon_ids) == 0:
        return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
    axon_ids, positions = np.asarray(axon_ids), np.asarray(positions)
    new_axon = np.concatenate(([True], axon_ids[1:] != axon_ids[:-1]))
    new_stretch = new_axon.copy()
    new_stretch[1:] |= positions[1:] != positions[:-1] + 1
    stretch_starts = np.flatnonzero(new_stretch)
    lengths = np.diff(np.append(stretch_starts, len(axon_ids)))
    of_stretch = run_words(lengths, fmt, weight_bits, delayed=delayed)
    words = np.add.reduceat(of_stretch, np.flatnonzero(new_axon[stretch_starts]))
    axon_starts = np.flatnonzero(new_axon)
    if fmt.index_bits is not None:
        targets = np.diff(np.append(axon_starts, len(axon_ids)))
        words = np.minimum(words, run_words(targets, fmt, weight_bits, delayed=delayed, sparse=True))
    if filled:
        span = positions[np.append(axon_starts[1:], len(positions)) - 1] - positions[axon_starts] + 1
        words = np.minimum(words, run_words(span, fmt, weight_bits, delayed=delayed))
    return axon_ids[axon_starts].astype(np.int64), words


def words_in_order(
    indptr: Array, indices: Array, shape: tuple[int, ...], fmt: SynapseFormat, weight_bits: int, **how: bool
) -> int:
    """Words of lists in one core that holds all targets in the order of their population, channels last.

    Target ``t`` (flat, of ``shape``) has the sources ``indices[indptr[t]:indptr[t + 1]]``; ``how``: ``delayed`` and
    ``filled`` as of ``axon_list_words``.
    """
    place = np.empty(len(indptr) - 1, np.int64)
    place[np.moveaxis(np.arange(len(place)).reshape(shape or (1,)), 0, -1).ravel()] = np.arange(len(place))
    at = np.repeat(place, np.diff(indptr))
    order = np.lexsort((at, indices))
    return int(axon_list_words(np.asarray(indices)[order], at[order], fmt, weight_bits, **how)[1].sum())


def fills_gaps(operator: Operator) -> bool:
    """True where lists may be filled with zeros: weights are stored one by one (windows store whole kernels)."""
    parts = operator.parts if isinstance(operator, Chain) else (operator,)
    return any(isinstance(part, Dense | Sparse) for part in parts)


def delay_on_chip_steps(projection: Projection) -> int:
    """The longest delay that the synapses of a projection have to store, in time steps.

    A spike takes one time step from core to core, which is the delay of a back edge. So a back edge stores one time
    step less than its delay, and a feed-forward projection without a Delay node stores none. A projection with a
    result above 0 is ``delayed`` in the functions above.
    """
    return max(projection.max_delay_steps - (1 if projection.is_back else 0), 0)


class _RunTable:
    """Words of n targets for one run rule, by dynamic programming from below.

    ``W(n) = min over run lengths m of W(n - m) + r(m)``. Only the longest run of each word count matters, since r
    does not fall. With m* the length of fewest words per target, any m* other runs hold a subset whose total
    length is a multiple of m*; runs of m* cover that at no more words. So fewer than m* other runs are needed, and
    ``W(n) = W(n - m*) + r(m*)`` for every n > (m* - 1) * run_targets_max: the table ends there.
    """

    def __init__(self, bits: int, word_bits: int, header_bits: int, longest: int | None, free: bool) -> None:
        self._bits, self._word_bits, self._header_bits = bits, word_bits, header_bits
        self._longest, self._free = longest, free
        self._table = np.zeros(1, dtype=np.int64)
        self._known: dict[int, int] = {}
        if longest is not None and free:
            lengths = np.arange(1, longest + 1, dtype=np.int64)
            costs = self._run(lengths)
            is_longest = np.append(costs[1:] != costs[:-1], True)
            self._lengths, self._costs = lengths[is_longest], costs[is_longest]
            best = int(np.argmin(self._costs / self._lengths))
            self._period, self._period_words = int(self._lengths[best]), int(self._costs[best])
            self._end = max((self._period - 1) * longest, longest)

    def words(self, n: Array) -> Array:
        """W(n), element by element, int64."""
        n = np.asarray(n, dtype=np.int64)
        if self._longest is None:
            return np.where(n > 0, self._run(n), 0)
        if not self._free:
            full, rest = np.divmod(n, self._longest)
            return full * self._run(np.int64(self._longest)) + np.where(rest > 0, self._run(rest), 0)
        self._grow(min(int(n.max(initial=0)), self._end))
        periods = np.maximum(-((self._end - n) // self._period), 0)
        return self._table[n - periods * self._period] + periods * self._period_words

    def words_of(self, n: int) -> int:
        """W(n) of one n, cached: the search asks for few lengths, very often."""
        if n not in self._known:
            self._known[n] = int(self.words(np.array([n]))[0])
        return self._known[n]

    def _run(self, m: Array | np.int64) -> Array:
        return np.asarray(-((-(m * self._bits + self._header_bits)) // self._word_bits))

    def _grow(self, n_max: int) -> None:
        size = len(self._table)
        if n_max < size:
            return
        # Doubling keeps the number of copies small when n grows in steps.
        table = np.zeros(min(max(n_max, 2 * size), max(self._end, n_max)) + 1, dtype=np.int64)
        table[:size] = self._table
        for n in range(size, len(table)):
            table[n] = (table[np.maximum(n - self._lengths, 0)] + self._costs).min()
        self._table = table


_run_table = lru_cache(maxsize=256)(_RunTable)


def shared_list_words(
    axon_ids: Array,
    positions: Array,
    taps: Array,
    channels: Array,
    fmt: SynapseFormat,
    weight_bits: int,
    *,
    delayed: bool,
) -> int:
    """Words of target lists where those of one input channel that are alike are stored once.

    Alike are lists whose positions, less the first one, and ``taps`` (int64) are equal, but for a chance of 2**-64.
    ``channels`` has the input channel of each entry; all are sorted as in ``axon_list_words``.
    """
    if len(axon_ids) == 0:
        return 0
    words = axon_list_words(axon_ids, positions, fmt, weight_bits, delayed=delayed)[1]
    first = np.flatnonzero(np.concatenate(([True], axon_ids[1:] != axon_ids[:-1])))
    distance = positions - np.repeat(positions[first], np.diff(np.append(first, len(positions))))
    draws = np.random.default_rng(0x5EED).integers(0, 2**64, size=int(distance.max()) + 1, dtype=np.uint64)
    mixed = taps.view(np.uint64) ^ (taps.view(np.uint64) >> np.uint64(29))
    mark = np.add.reduceat((draws[distance] | np.uint64(1)) * (mixed * np.uint64(0x9FB21C651E98DF25)), first)
    alike = np.stack([channels[first], mark.view(np.int64)], axis=1)
    return int(words[np.unique(alike, axis=0, return_index=True)[1]].sum())


# -- limits ------------------------------------------------------------------------------------------------------


def limits(chip: Chip) -> Mapping[str, int | None]:
    """Limit of one core for each of ``RESOURCES``; None: not limited."""
    core = chip.core
    return {
        "neurons": core.neurons,
        "input_axons": core.input_axons,
        "output_axons": core.output_axons,
        "synapse_words": chip.synapses.words,
        "decay_profiles": core.decay_profiles,
        "threshold_profiles": core.threshold_profiles,
    }


def exceeded(used: Mapping[str, int], limit: Mapping[str, int | None]) -> tuple[tuple[str, int, int], ...]:
    """(resource, used, limit) of each resource that is over its limit, in the order of ``RESOURCES``."""
    limited = [(name, used.get(name, 0), limit.get(name)) for name in RESOURCES]
    return tuple((name, use, most) for name, use, most in limited if most is not None and use > most)


# -- profiles ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class Profiles:
    """Profile required by each neuron of a population.

    ``decay`` and ``threshold`` (int64) have the population's shape and index ``decay_values`` (synaptic decay, membrane
    decay, refractory steps) and ``threshold_values``; a population that never fires has no thresholds and
    ``threshold`` is all -1. Values are comparable between populations, indices are not.
    """

    decay: Array
    threshold: Array
    decay_values: tuple[tuple[float, ...], ...]
    threshold_values: tuple[float, ...]


def as_stored(network: Network, chip: Chip) -> Network:
    """The network with the decays that the chip stores, as factors: those that are stored alike are one profile.

    The network itself where the chip has no ``[numbers]``, or does not limit its profiles of decays.
    """
    numbers = chip.numbers
    if numbers is None or chip.core.decay_profiles is None:
        return network
    populations = []
    for p in network.populations:
        du = np.clip(decay_of(np.asarray(p.neuron.a_syn), DECAY_ONE) - 1, 0, numbers.du_max)
        dv = decay_of(np.asarray(p.neuron.a_mem), numbers.dv_max)
        stored = replace(p.neuron, a_syn=freeze(1 - (du + 1) / DECAY_ONE), a_mem=freeze(1 - dv / DECAY_ONE))
        populations.append(replace(p, neuron=stored))
    return replace(network, populations=tuple(populations))


@lru_cache(maxsize=256)
def profile_ids(neuron: Neuron, shape: tuple[int, ...]) -> Profiles:
    """The profiles of a population of ``shape``: distinct float64 values, first by value ascending."""
    columns = [np.asarray(a, dtype=np.float64) for a in (neuron.a_syn, neuron.a_mem, neuron.refractory_steps)]
    decay, decay_values = _distinct(columns, shape)
    if neuron.theta is None:
        return Profiles(decay, np.broadcast_to(np.int64(-1), shape), decay_values, ())
    threshold, theta = _distinct([np.asarray(neuron.theta, dtype=np.float64)], shape)
    return Profiles(decay, threshold, decay_values, tuple(t[0] for t in theta))


def distinct_profiles(network: Network) -> tuple[int, int]:
    """Distinct decay and threshold profiles of the network: where they fit one core they limit nothing."""
    decays: set[tuple[float, ...]] = set()
    thresholds: set[float] = set()
    for population in network.populations:
        ids = profile_ids(population.neuron, population.shape)
        decays.update(ids.decay_values)
        thresholds.update(ids.threshold_values)
    return len(decays), len(thresholds)


def profile_counts(populations: Mapping[str, Population], slices: Iterable[tuple[str, Box]]) -> tuple[int, int]:
    """Distinct decay and threshold profiles of the neurons of slices; ``populations`` by name."""
    decays: set[tuple[float, ...]] = set()
    thresholds: set[float] = set()
    for name, box in slices:
        ids = profile_ids(populations[name].neuron, populations[name].shape)
        decays.update(ids.decay_values[i] for i in numbers_in(ids.decay, box))
        if ids.threshold_values:
            thresholds.update(ids.threshold_values[i] for i in numbers_in(ids.threshold, box))
    return len(decays), len(thresholds)


def numbers_in(profiles: Array, box: Box) -> list[int]:
    """The distinct numbers of profiles in a box, ascending."""
    own = profiles[tuple(slice(a, b) for a, b in box)]
    return np.unique(own if any(profiles.strides) else own.ravel()[:1]).tolist()


def _distinct(columns: list[Array], shape: tuple[int, ...]) -> tuple[Array, tuple[tuple[float, ...], ...]]:
    if all(c.ndim == 0 for c in columns):
        return np.broadcast_to(np.int64(0), shape), (tuple(float(c) for c in columns),)
    flat = np.stack([np.broadcast_to(c, shape).ravel() for c in columns], axis=1)
    values, index = np.unique(flat, axis=0, return_inverse=True)
    return index.reshape(shape).astype(np.int64), tuple(tuple(float(x) for x in row) for row in values)
