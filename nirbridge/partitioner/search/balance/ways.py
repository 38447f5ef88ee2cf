"""Orders in which a filling takes the neurons of a population (axes, channel groups), and the costs of stretches."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from operator import le

import numpy as np

from nirbridge._types import Shape
from nirbridge.arrays import Array, weighted_sum
from nirbridge.partitioner.cost.sizing import CostModel, numbering_axes
from nirbridge.partitioner.cost.usage import count_sources
from nirbridge.partitioner.model import Slice
from nirbridge.partitioner.search.cores import Work
from nirbridge.partitioner.search.slicing import UNLIMITED, cuts
from nirbridge.partitioner.search.stretches import interval_boxes

GROUPS = (1, 2, 3, 4, 6, 8)
"""Numbers of channel groups that are tried, each filled on its own."""
SAMPLE_CORES = 3
"""Cores that are filled from the middle of a population to compare the ways in which its neurons may follow."""
CLEAR_GAIN = 0.9
"""Another way than whole rows is taken where a neuron costs at most this part of what it costs there."""
COST_WORK = 1_000
"""Work of one new cost of a stretch (a look-up is 1): about 0.1 microseconds each."""

Cost = tuple[int, ...]
"""A packing vector."""


@dataclass(frozen=True, slots=True, eq=False)
class Way:
    """Some channels of a population in an order of its axes, and the costs of its stretches that were computed.

    ``words``: the share of a core's words that a neuron takes where cuts cost nothing.
    """

    population: str
    axes: tuple[int, ...]
    lengths: Shape
    first_channel: int
    group: int
    words: float = 0.0
    costs: dict[tuple[int, int], Cost] = field(default_factory=dict)

    @property
    def size(self) -> int:
        """Number of neurons."""
        return math.prod(self.lengths)

    def grains(self) -> list[int]:
        """Neurons in a row, in a pixel, and 1: a cut at a multiple of a larger one is the cheaper."""
        return sorted({math.prod(self.lengths[i:]) for i in range(1, len(self.lengths) + 1)}, reverse=True)

    def slices(self, start: int, stop: int) -> list[Slice]:
        """The slices of places ``start`` to ``stop``."""
        found = []
        for box in interval_boxes(self.lengths, start, stop):
            by_axis = dict(zip(self.axes, box, strict=True))
            if len(self.axes) > 1:
                low, high = by_axis[0]
                by_axis[0] = (low + self.first_channel, high + self.first_channel)
            found.append(Slice(self.population, tuple(by_axis[axis] for axis in sorted(by_axis))))
        return found

    def joint_words(self, sizes: CostModel, slices: Sequence[Slice]) -> int | None:
        """Words of the slices where lists run on from one into the next; None: each slice has lists of its own."""
        del sizes, slices
        return None

    def in_order(self, values: Mapping[str, Array]) -> Array:
        """Values of the population's neurons in the order of this way."""
        own = values[self.population]
        if len(self.axes) > 1:
            channels = self.lengths[self.axes.index(0)]
            own = own[self.first_channel : self.first_channel + channels]
        return own.transpose(self.axes).ravel()


@dataclass(slots=True, eq=False)
class Stretch:
    """Places ``start`` to ``stop`` of a way that are left.

    A core begins with the stretch of most words per neuron, times e to the ``rank``.
    """

    way: Way
    start: int
    stop: int
    rank: float = 0.0


class StretchCosts:
    """Costs of stretches on a chip, with the output axons that ``charge`` states."""

    def __init__(self, sizes: CostModel, cap: Array, work: Work) -> None:
        self.sizes, self.work = sizes, work
        self.cap: Cost = tuple(int(c) for c in cap)
        self._charged: dict[int, Array] = {}

    def charge(self, ways: list[Way], slots: Mapping[str, Array]) -> None:
        """From now on neurons cost these output axons (by population, of its shape)."""
        if self.cap[5] < UNLIMITED:
            self._charged = {id(w): np.concatenate(([0], np.cumsum(w.in_order(slots)))) for w in ways}

    def cost(self, way: Way, start: int, stop: int) -> Cost:
        """The packing vector of places ``start`` to ``stop``."""
        own = way.costs.get((start, stop))
        if own is None:
            self.work.left -= COST_WORK
            own = way.costs[start, stop] = self._cost(way, way.slices(start, stop))
        self.work.left -= 1
        if id(way) not in self._charged:
            return own
        slots = self._charged[id(way)]
        return (*own[:5], int(slots[stop] - slots[start]))

    def _cost(self, way: Way, slices: list[Slice]) -> Cost:
        total = [0] * len(self.cap)
        for s in slices:
            for i, x in enumerate(self.sizes.cost(s.population, s.box)):
                total[i] += x
        words = way.joint_words(self.sizes, slices)
        total[2] = total[2] if words is None else words
        if len(slices) > 1 and total[1] > self.cap[1] // 2:
            # the slices share sources, which count only where axons are scarce
            total[1] = count_sources(self.sizes, slices)
        return tuple(total)

    def longest(self, stretch: Stretch, room: Cost, grain: int) -> int:
        """The last place up to which a stretch fits ``room``: a multiple of ``grain``, or its end."""
        low, high = stretch.start, min(stretch.stop, stretch.start + room[0])
        if high <= low:
            return low
        if high == stretch.stop and self._fits(stretch, high, room):
            return high
        a, b = low // grain, high // grain + 1
        while b - a > 1:
            middle = (a + b) // 2
            if self._fits(stretch, middle * grain, room):
                a = middle
            else:
                b = middle
        return max(a * grain, low)

    def _fits(self, stretch: Stretch, stop: int, room: Cost) -> bool:
        return all(map(le, self.cost(stretch.way, stretch.start, stop), room))


def ways_of(costs: StretchCosts, weights: tuple[float, float], groups: Mapping[str, int]) -> list[Way]:
    """For each population the way of least cost; ``weights``: of neurons and of words. Empty: a neuron fits no core."""
    found: list[Way] = []
    for name in costs.sizes.shapes:
        best: tuple[float, list[Way]] | None = None
        for ways in _candidates(costs.sizes, name, groups.get(name, 0)):
            share = share_of(costs, ways[len(ways) // 2])
            # whole rows, the first candidate, leave least to cut
            if share is not None and (best is None or float(weighted_sum(share, weights)) < best[0] * CLEAR_GAIN):
                words = _words(costs, name, None, float(share[1]))
                best = float(weighted_sum(share, weights)), [_with_words(w, words) for w in ways]
        if best is None:
            return []
        found += best[1]
    return found


def way_of(costs: StretchCosts, name: str, axes: tuple[int, ...], channels: tuple[int, int]) -> Way | None:
    """Some channels of a population in an order of its axes; None: a neuron fits no core."""
    low, high = channels
    lengths = tuple(high - low if axis == 0 and len(axes) > 1 else costs.sizes.shapes[name][axis] for axis in axes)
    way = Way(name, axes, lengths, low, 0)
    share = share_of(costs, way)
    if share is None:
        return None
    return replace(way, words=_words(costs, name, channels if len(axes) > 1 else None, float(share[1])))


def _with_words(way: Way, words: float) -> Way:
    return replace(way, words=words)


def _words(costs: StretchCosts, name: str, channels: tuple[int, int] | None, sampled: float) -> float:
    """Share of a core's words per neuron: in whole rows; where kernels are stored once, as it was sampled."""
    if costs.sizes.chip.synapses.shared_kernels or costs.cap[2] >= UNLIMITED:
        return sampled
    box = [(0, n) for n in costs.sizes.shapes[name]]
    cost = costs.sizes.cost(name, (channels or box[0], *box[1:]))
    return min(cost.synapse_words / cost.neurons / costs.cap[2], sampled)


def _candidates(sizes: CostModel, name: str, group: int) -> list[list[Way]]:
    """The ways in which the neurons of a population may follow; whole rows come first."""
    shape = sizes.shapes[name]
    if len(shape) == 1:
        return [[Way(name, (0,), shape, 0, group)]]
    *spatial, _ = numbering_axes(shape)
    orders = dict.fromkeys(((*spatial, 0), (*reversed(spatial), 0)))
    found = []
    for parts, axes in product(GROUPS, orders):
        if parts <= shape[0]:
            ranges = cuts(shape[0], parts)
            lengths = [tuple(b - a if x == 0 else shape[x] for x in axes) for a, b in ranges]
            found.append([Way(name, axes, n, a, group) for n, (a, _) in zip(lengths, ranges, strict=True)])
    axes = (0, *spatial)
    return [*found, [Way(name, axes, tuple(shape[x] for x in axes), 0, group)]]


def share_of(costs: StretchCosts, way: Way) -> Array | None:
    """Shares of a core, in neurons and in words, of a neuron in full cores from a middle row on; None: it fits none."""
    grain = way.grains()[0]
    stretch = Stretch(way, (way.size // grain // 2) * grain, way.size)
    first, taken = stretch.start, np.zeros(2)
    for _ in range(SAMPLE_CORES):
        if stretch.start >= stretch.stop:
            break
        stop = max(costs.longest(stretch, costs.cap, g) for g in way.grains())
        if stop == stretch.start:
            return None
        cost = costs.cost(way, stretch.start, stop)
        taken += cost[0] / costs.cap[0], cost[2] / costs.cap[2]
        stretch.start = stop
    return taken / (stretch.start - first)
