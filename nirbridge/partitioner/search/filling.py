"""Balanced filling: each core takes stretches of several populations that together leave the least waste; repairs.

A core begins with the population of most words per neuron, and takes stretches of others (a beam over combinations).
A combination is rated by the neurons and words that it uses up, each weighted by how scarce it is in what is left,
where the words of a stretch count as its neurons take without cuts: dear cuts are waste. So populations of many words
per neuron and of few are used up together. Where ``Near`` says so, those far from the first count less: their spikes
would have to cross the chip.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from operator import le

import numpy as np

from nirbridge._types import Shape
from nirbridge.arrays import Array, weighted_sum
from nirbridge.partitioner.cost.axons import Blocks, block_sources, count_sources
from nirbridge.partitioner.cost.sizing import CostModel, numbering_axes
from nirbridge.partitioner.model import Slice
from nirbridge.partitioner.search.clusters import Work
from nirbridge.partitioner.search.slicing import UNLIMITED, cuts, in_core_order, interval_boxes

# -- ways ----------------------------------------------------------------------------------------------------------
# Orders in which a filling takes the neurons of a population (axes, channel groups), and the costs of stretches.


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


# -- filling -------------------------------------------------------------------------------------------------------


BEAM = 4
"""Combinations that are extended; four times as many of one stretch."""
DEPTH = 6
"""Stretches in a core that are chosen together, and those that fill the rest of it, at most."""
FEW = 12
"""Up to this number of stretches a combination may end at any neuron; else at whole pixels, but for the rest."""
CUT_LOSS = 0.5
"""Words that a stretch takes beyond what its neurons need count so much more: a cut costs the next stretch too."""
BACK = (1, 2, 3)
"""How many rows or pixels less than fit are tried for the first stretch of a core."""
PARTS = (2, 3, 4, 6, 8, 16, 32)
"""Parts of the most that fits, tried for the first stretch of a core."""
FAR = 8
"""Populations between two stretches from which on they are far from each other."""

Part = tuple[Way, int, int]
"""Places of a way, from the first to before the second number."""
Content = tuple[Part, ...]
"""What a core holds."""


@dataclass(frozen=True, slots=True)
class Near:
    """Discount on a stretch by its distance from the first population of the core, in the order of the network.

    ``places``: positions of populations in that order. Within one place of the first population the discount is 0, from
    ``FAR`` places further on it is ``share``, and it is linear in between.
    """

    places: Mapping[str, int]
    share: float

    def worth(self, first: Stretch, stretch: Stretch) -> float:
        """The weight of a stretch, at most 1."""
        between = abs(self.places[first.way.population] - self.places[stretch.way.population]) - 1
        return 1.0 - self.share * min(max(between, 0), FAR) / FAR


@dataclass(frozen=True, slots=True, eq=False)
class _Choice:
    parts: tuple[tuple[Stretch, int], ...]
    cost: Cost
    score: float


@dataclass(frozen=True, slots=True, eq=False)
class _Rating:
    """Rating of stretches. ``weights``: of neurons and words, by their scarcity."""

    costs: StretchCosts
    weights: Array
    near: Near | None

    def gain(self, choice: _Choice, stretch: Stretch, stop: int, cost: Cost) -> float:
        """The gain of adding a stretch up to ``stop``, of this cost, to a core with this choice."""
        n, cap = stop - stretch.start, self.costs.cap
        words = n * stretch.way.words
        waste = cost[2] / cap[2] - words
        gain = n * float(self.weights[0]) / cap[0] + float(self.weights[1]) * (words - CUT_LOSS * max(waste, 0.0))
        if self.near is None or not choice.parts:
            return gain
        return gain * self.near.worth(choice.parts[0][0], stretch)


def share(costs: StretchCosts, content: Content) -> Array:
    """The shares of a core, in neurons and in words, that a content takes where cuts cost nothing."""
    neurons = sum(stop - start for _, start, stop in content)
    return np.array([neurons / costs.cap[0], sum((stop - start) * way.words for way, start, stop in content)])


def fill(
    costs: StretchCosts, stretches: Sequence[Stretch], power: float, near: Near | None = None
) -> list[Content] | None:
    """Cores that hold the stretches (which are used up); None: a neuron fits no core, or the work is spent.

    ``power``: how much more the scarcer of neurons and words counts.
    """
    rest = [s for s in stretches if s.start < s.stop]
    left = np.sum([share(costs, ((s.way, s.start, s.stop),)) for s in rest], axis=0)
    cores: list[Content] = []
    while rest:
        choice = _best_choice(_Rating(costs, (left / left.max()) ** power, near), rest)
        if choice is None or costs.work.left <= 0:
            return None
        content = tuple((s.way, s.start, stop) for s, stop in choice.parts)
        for stretch, stop in choice.parts:
            stretch.start = stop
        cores.append(content)
        left = np.maximum(left - share(costs, content), 1e-9)
        rest = [s for s in rest if s.start < s.stop]
    return cores


def _best_choice(rating: _Rating, rest: Sequence[Stretch]) -> _Choice | None:
    first = max(rest, key=lambda s: s.way.words * math.exp(s.rank))
    others = [s for s in rest if s is not first and s.way.group == first.way.group]
    whole = len(rest) > FEW
    best = empty = _Choice((), (0,) * len(rating.costs.cap), 0.0)
    choices = _extended(rating, empty, [first], whole=whole) or _extended(rating, empty, [first], whole=False)
    width = 4 * BEAM
    for _ in range(DEPTH):
        if not choices:
            break
        choices = sorted(choices, key=lambda c: -c.score)
        best = choices[0] if not best.parts or choices[0].score > best.score else best
        distinct = list({c.cost: c for c in reversed(choices)}.values())[::-1][:width]
        choices = [longer for c in distinct for longer in _extended(rating, c, others, whole=whole)]
        width = BEAM
    for _ in range(DEPTH):
        # what is left of the core is too little for whole pixels
        longer = [*_lengthened(rating, best), *_extended(rating, best, others, whole=False)]
        if not longer:
            break
        best = max(longer, key=lambda c: c.score)
    return best if best.parts else None


def _lengthened(rating: _Rating, choice: _Choice) -> list[_Choice]:
    """The choice with one of its stretches as long as fits."""
    costs, found = rating.costs, []
    for i, (stretch, stop) in enumerate(choice.parts):
        own = costs.cost(stretch.way, stretch.start, stop)
        room = tuple(most - x + y for most, x, y in zip(costs.cap, choice.cost, own, strict=True))
        end = costs.longest(stretch, room, 1)
        if end > stop:
            more = costs.cost(stretch.way, stretch.start, end)
            cost = tuple(x - y + z for x, y, z in zip(choice.cost, own, more, strict=True))
            parts = (*choice.parts[:i], (stretch, end), *choice.parts[i + 1 :])
            score = choice.score - rating.gain(choice, stretch, stop, own) + rating.gain(choice, stretch, end, more)
            found.append(_Choice(parts, cost, score))
    return found


def _extended(rating: _Rating, choice: _Choice, rest: Sequence[Stretch], *, whole: bool) -> list[_Choice]:
    """The choice with one more stretch, for each that fits and each place where it may end."""
    costs = rating.costs
    room = tuple(most - x for most, x in zip(costs.cap, choice.cost, strict=True))
    taken = {id(s) for s, _ in choice.parts}
    found = []
    for stretch in rest if room[0] > 0 else ():
        if id(stretch) in taken:
            continue
        for stop in _stops(costs, stretch, room, many=not choice.parts, whole=whole):
            more = costs.cost(stretch.way, stretch.start, stop)
            cost = tuple(a + b for a, b in zip(choice.cost, more, strict=True))
            score = choice.score + rating.gain(choice, stretch, stop, more)
            found.append(_Choice((*choice.parts, (stretch, stop)), cost, score))
    return found


def _stops(costs: StretchCosts, stretch: Stretch, room: Cost, *, many: bool, whole: bool) -> list[int]:
    """Candidate ends of a stretch in a core with ``room``: at whole rows and whole pixels, or anywhere."""
    stops: set[int] = set()
    grains = stretch.way.grains()
    for grain in grains[: max(len(grains) - 1, 1)] if whole else grains[-1:]:
        end = costs.longest(stretch, room, grain)
        if end > stretch.start:
            stops.add(end)
            if many:
                stops |= {(end // grain - back) * grain for back in BACK}
                stops |= {(stretch.start + (end - stretch.start) // part) // grain * grain for part in PARTS}
    return sorted(s for s in stops if s > stretch.start)


# -- swaps ---------------------------------------------------------------------------------------------------------
# Repair of cores with too many output axons: slices of equal cost change places.
#
# The pattern search chooses how many slices of each cost a core holds, not which ones. Slices of equal cost can differ
# in output axons: of every two rows that a strided convolution reads, one has targets in more rows than the other.


ROUNDS = 8
"""Rounds of swaps, each with the output axons after the one before: a slice that moves adds some to its sources."""


def core_slots(sizes: CostModel, blocks: Blocks) -> dict[str, Array]:
    """Output axons of each neuron, by population: the cores with targets of it."""
    slots = {name: np.zeros(shape, np.int64) for name, shape in sizes.shapes.items()}
    for block in blocks:
        for name, index in block_sources(sizes, block).items():
            if name in slots:
                slots[name].reshape(-1)[index] += 1
    return slots


def swapped(sizes: CostModel, cap: Array, blocks: Blocks) -> Blocks | None:
    """The blocks after swaps that bring every core within its output axons; None: none were found."""
    limit = int(cap[5])
    cores = [list(block) for block in blocks]
    for _ in range(ROUNDS if limit < UNLIMITED else 0):
        slots = core_slots(sizes, blocks)
        sums = [[_own(slots, piece) for piece in core] for core in cores]
        over = [i for i, own in enumerate(sums) if sum(own) > limit]
        if not over:
            return blocks
        alike = _alike(sizes, cores)
        for core in sorted(over, key=lambda i: (-sum(sums[i]), i)):
            while sum(sums[core]) > limit:
                swap = _best_swap(core, sums, alike, limit)
                if swap is None:
                    return None
                (a, i), (b, j) = swap
                cores[a][i], cores[b][j] = cores[b][j], cores[a][i]
                sums[a][i], sums[b][j] = sums[b][j], sums[a][i]
        blocks = tuple(in_core_order(core, tuple(sizes.shapes)) for core in cores)
        cores = [list(block) for block in blocks]
    return None


def _own(slots: dict[str, Array], piece: Slice) -> int:
    return int(slots[piece.population][tuple(slice(a, b) for a, b in piece.box)].sum())


Place = tuple[int, int]
"""A core and the number of a slice there."""


def _alike(sizes: CostModel, cores: Sequence[Sequence[Slice]]) -> list[list[Place]]:
    """The places of slices of one population and of equal cost."""
    places: dict[object, list[Place]] = defaultdict(list)
    for core, pieces in enumerate(cores):
        for i, piece in enumerate(pieces):
            places[piece.population, sizes.cost(piece.population, piece.box)].append((core, i))
    return list(places.values())


def _best_swap(core: int, sums: list[list[int]], alike: list[list[Place]], limit: int) -> tuple[Place, Place] | None:
    """The swap that brings the core just below its limit, or else the one that takes most from it."""
    excess = sum(sums[core]) - limit
    room = [limit - sum(own) for own in sums]
    found: list[tuple[tuple[bool, int], Place, Place]] = []
    for places in alike:
        for here in (p for p in places if p[0] == core):
            for there in places:
                less = sums[core][here[1]] - sums[there[0]][there[1]]
                if there[0] != core and 0 < less <= room[there[0]]:
                    found.append(((less < excess, less if less >= excess else -less), here, there))
    return min(found)[1:] if found else None
