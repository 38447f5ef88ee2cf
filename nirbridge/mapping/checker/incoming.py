"""The synapses of one projection into one block: their sources, how many each has, and the words they take.

They are listed one by one, once for all blocks whose synapses are the same up to a translation (see *alike*
below for the proof): a block further on in the middle of a feature map takes the sources of the first one, shifted.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Container, Hashable, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from nirbridge._types import Shape
from nirbridge.arrays import Array
from nirbridge.chips.model import SynapseFormat
from nirbridge.mapping.storage.record import SliceRecord
from nirbridge.mapping.synapses import AllToAllSynapses, ExpandedOperator, SynapseList, expand_operator, synapses_into
from nirbridge.network.model import Projection
from nirbridge.network.operators import Chain, Conv, Identity, Operator, Scale, Sparse, SumPool
from nirbridge.partitioner.cost.resources import axon_list_words, delay_on_chip_steps, fills_gaps


def channels_last(axes: int) -> tuple[int, ...]:
    """The axes of a shape from the slowest to the fastest: (channel, row, column) -> row, column, channel."""
    return (*range(1, axes), 0) if axes > 1 else tuple(range(axes))


def box_neurons(s: SliceRecord, shape: Shape, order: Array | None = None) -> Array:
    """Flat (row-major) indices of the neurons of a legal slice, in the order in which they are numbered.

    ``order`` is that of the population: the slice counts places, and place k holds neuron ``order[k]``.
    """
    places = np.zeros((1,) * len(shape), np.int64)
    for axis, (start, stop) in enumerate(s.box):
        line = np.arange(start, stop, dtype=np.int64) * math.prod(shape[axis + 1 :])
        places = places + line.reshape((-1,) + (1,) * (len(shape) - axis - 1))
    places = places.transpose(s.order if s.order is not None else channels_last(len(shape))).ravel()
    return places if order is None else order[places]


@dataclass(frozen=True, slots=True, eq=False)
class PlacedNeurons:
    """The neurons of one population, of ``shape``, in one block: slices, each with the number of its first neuron.

    ``order``: the population's, where its slices count places in a permutation of its neurons.
    """

    shape: Shape
    pieces: tuple[tuple[SliceRecord, int], ...]
    order: Array | None = None

    @property
    def count(self) -> int:
        """How many there are."""
        return sum(math.prod(b - a for a, b in s.box) for s, _ in self.pieces)

    def neurons(self) -> Array:
        """Flat indices, slice by slice, as they are numbered."""
        return np.concatenate([box_neurons(s, self.shape, self.order) for s, _ in self.pieces])

    def positions(self) -> tuple[Array, Array]:
        """The number in the block of each of ``neurons``, ascending, and which slice it is in."""
        sizes = [math.prod(b - a for a, b in s.box) for s, _ in self.pieces]
        numbers = [np.arange(start, start + n) for (_, start), n in zip(self.pieces, sizes, strict=True)]
        return np.concatenate(numbers), np.repeat(np.arange(len(sizes)), sizes)


class SynapsesByClass:
    """Counts of the synapses into blocks; what was counted is kept by class of equal blocks."""

    def __init__(
        self,
        projections: Sequence[Projection],
        fmt: SynapseFormat,
        weight_bits: Sequence[int],
        ordered: Container[str] = (),
    ) -> None:
        self._projections, self._fmt, self._bits = projections, fmt, weight_bits
        # an order of source or target takes the windows apart: their synapses are listed like any others
        self._fills = [fills_gaps(p.operator) or p.source in ordered or p.target in ordered for p in projections]
        self._ready: list[ExpandedOperator | None] = [None] * len(projections)
        shared: dict[object, int] = {}
        self._windows: list[Windows | None] = [
            windows_of(p.operator, shared, weights_matter=fmt.shared_kernels) for p in projections
        ]
        self._known: dict[object, tuple[Array, Array, int]] = {}
        self.projections_of: dict[str, list[int]] = {}
        for k, projection in enumerate(projections):
            self.projections_of.setdefault(projection.target, []).append(k)

    def count(self, k: int, placed: PlacedNeurons) -> tuple[Array, Array, int]:
        """Of the k-th projection into these neurons: sources (ascending), synapses of each, and words."""
        windows = self._windows[k]
        if windows is None or placed.order is not None:
            return self._listed(k, placed)
        kind, base = windows.kind(placed.pieces)
        key = (kind, delay_on_chip_steps(self._projections[k]) > 0, self._bits[k])
        if key not in self._known:
            sources, from_each, words = self._listed(k, placed)
            self._known[key] = sources - base, from_each, words
        sources, from_each, words = self._known[key]
        return sources + base, from_each, words

    def _listed(self, k: int, placed: PlacedNeurons) -> tuple[Array, Array, int]:
        projection = self._projections[k]
        ready = self._ready[k] = self._ready[k] or expand_operator(projection.operator)
        found = synapses_into(ready, placed.neurons())
        count = partial(axon_list_words, fmt=self._fmt, weight_bits=self._bits[k], filled=self._fills[k])
        words = _words(found, *placed.positions(), projection, self._fmt, count)
        if isinstance(found, AllToAllSynapses):
            sources = found.sources if len(found.rows) else found.sources[:0]
            return sources, np.full(len(sources), len(found.rows)), words
        from_each = np.bincount(found.source)
        sources = np.flatnonzero(from_each)
        return sources, from_each[sources], words


def _words(
    found: SynapseList | AllToAllSynapses,
    positions: Array,
    slices: Array,
    projection: Projection,
    fmt: SynapseFormat,
    count: Callable[..., tuple[Array, Array]],
) -> int:
    """Words of one projection's synapses in one block: a target list for each source neuron.

    The lists are stored whole, or all cut where a slice ends, whichever takes less: the sum over the slices, each on
    its own, is an upper bound that a search may count on.
    """
    delayed = delay_on_chip_steps(projection) > 0
    many = int(slices[-1]) + 1
    if isinstance(found, AllToAllSynapses):
        at, sources = found.rows, len(found.sources)
        owners = (slices[at],) if many == 1 else (np.zeros_like(at), slices[at])
        words = [count(owner, positions[at], delayed=delayed)[1].sum() for owner in owners]
        return sources * int(min(words))
    width = len(positions)
    key = found.source * width + found.row
    # an entry of a sparse matrix equals only itself, so no list is a copy of another
    may_share = fmt.shared_kernels and not isinstance(projection.operator, Sparse)
    order = np.argsort(key) if may_share else None
    source, at = np.divmod(np.sort(key) if order is None else key[order], width)
    positions = positions[at]
    totals = []
    for owner in (source,) if many == 1 else (source, source * many + slices[at]):
        words = count(owner, positions, delayed=delayed)[1]
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
    of_channel = _mixed(channel[first].astype(np.uint64) + np.uint64(0xA5A5)).view(np.int64)
    return np.unique(_signatures(first, positions, tap) ^ of_channel, return_index=True)[1]


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


# -- alike ---------------------------------------------------------------------------------------------------------
# Which blocks have the same synapses up to a translation, proved from the definition of their windows.
#
# A convolution or pool, or a chain of them, connects a box of targets axis by axis: a synapse, with its kernel element,
# is one path along every axis. A path along an axis runs from an output of the range through the kernels to an input
# inside the picture. Two ranges are alike where their lists of paths, outputs and inputs counted from the first ones,
# are equal element by element; what the picture's border cuts off is missing from the list, so a range at a border is
# like one in the middle only where the border cuts nothing. Two boxes whose ranges are alike on every axis then have
# the same synapses, their sources shifted by one flat offset; so have several slices where all of them are shifted
# alike, targets and sources. Nothing else is taken for alike: all other operators are listed.
#
# Along the channels, outputs of one convolution are alike where they see the same groups, counted from the first: the
# weights of another output channel are other weights, and in the same way different from each other. In a chain the
# weights along several paths are added, and channels are alike only where they are the same.

Window = Conv | SumPool


@dataclass(frozen=True, slots=True, eq=False)
class Windows:
    """The windows of one projection, first to last (none: one to one), with ``form``, all that their synapses obey.

    ``numbers`` tells contents apart by exact comparison, and is shared by all projections; ``ranges`` is a cache.
    """

    parts: tuple[Window, ...]
    input_shape: Shape
    form: Hashable
    numbers: dict[object, int]
    ranges: dict[tuple[int, int, int], tuple[int, int]] = field(default_factory=dict)

    def kind(self, pieces: Sequence[tuple[SliceRecord, int]]) -> tuple[Hashable, int]:
        """A key that is equal for slices with equal synapses up to a shift of the sources, and that shift's origin.

        ``pieces`` are the slices of the target population in a block, each with the number of its first neuron.
        """
        key: list[Hashable] = [self.form]
        corner = [start for start, _ in pieces[0][0].box]
        origin: list[int] = []
        for s, number in pieces:
            found = [self._range(axis, *span) for axis, span in enumerate(s.box)]
            first = [base for _, base in found]
            origin = origin or first
            # every slice lies as far from the first one, among the targets and among the sources
            away = tuple(start - c for (start, _), c in zip(s.box, corner, strict=True))
            sources_away = tuple(a - b for a, b in zip(first, origin, strict=True))
            lengths = tuple(stop - start for start, stop in s.box)
            kinds = tuple(kind for kind, _ in found)
            key.append((number - pieces[0][1], s.order, lengths, kinds, away, sources_away))
        strides = [math.prod(self.input_shape[axis + 1 :]) for axis in range(len(self.input_shape))]
        return tuple(key), sum(n * stride for n, stride in zip(origin, strides, strict=True))

    def _range(self, axis: int, start: int, stop: int) -> tuple[int, int]:
        """A number that is equal for ranges that are alike, and the first input of the range."""
        key = (axis, start, stop)
        if key not in self.ranges:
            content, first = self._content(axis, start, stop)
            self.ranges[key] = self.numbers.setdefault(content, len(self.numbers)), first
        return self.ranges[key]

    def _content(self, axis: int, start: int, stop: int) -> tuple[object, int]:
        if self.parts and axis > 0:
            return _paths(self.parts, axis - 1, start, stop)
        if len(self.parts) > 1:
            return (start, stop), 0
        part = self.parts[0] if self.parts else None
        if part is None or isinstance(part, SumPool):
            return "one to one", start
        group = np.arange(start, stop) // (part.weight.shape[0] // part.groups)
        return (group - group[0]).tobytes(), int(group[0]) * part.weight.shape[1]


def _paths(parts: tuple[Window, ...], axis: int, start: int, stop: int) -> tuple[object, int]:
    """Every path into the outputs ``[start, stop)`` of one spatial axis: output, kernel elements, input; all exact."""
    place = np.arange(start, stop, dtype=np.int64)
    output, elements = place - start, []
    for part in reversed(parts):
        reached = place[:, None] * part.stride[axis] - part.padding[axis][0]
        reached = reached + np.arange(part.kernel[axis]) * part.dilation[axis]
        path, element = np.nonzero((reached >= 0) & (reached < part.input_shape[axis + 1]))
        output, elements = output[path], [*(e[path] for e in elements), element]
        place = reached[path, element]
    first = int(place.min()) if len(place) else 0
    return (output.tobytes(), *(e.tobytes() for e in elements), (place - first).tobytes()), first


def windows_of(operator: Operator, numbers: dict[object, int], *, weights_matter: bool) -> Windows | None:
    """The windows of an operator; None where it has other parts, which are listed block by block.

    ``weights_matter``: equal weights are stored once. A Scale is then one of the other parts, for its weights differ
    from place to place; else it is one to one.
    """
    parts = operator.parts if isinstance(operator, Chain) else (operator,)
    plain = (Identity,) if weights_matter else (Identity, Scale)
    if not all(isinstance(part, (Conv, SumPool, *plain)) for part in parts):
        return None
    windows = tuple(part for part in parts if isinstance(part, (Conv, SumPool)))
    return Windows(windows, operator.input_shape, (operator.input_shape, *map(_form, windows)), numbers)


def _form(part: Window) -> Hashable:
    own = (part.weight.shape, part.groups) if isinstance(part, Conv) else "pool"
    return own, part.kernel, part.stride, part.padding, part.dilation, part.input_shape
