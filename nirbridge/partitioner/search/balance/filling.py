"""Balanced filling: each core takes stretches of several populations that together leave the least waste.

A core begins with the population of most words per neuron, and takes stretches of others (a beam over combinations).
A combination is rated by the neurons and words that it uses up, each weighted by how scarce it is in what is left,
where the words of a stretch count as its neurons take without cuts: dear cuts are waste. So populations of many words
per neuron and of few are used up together. Where ``Near`` says so, those far from the first count less: their spikes
would have to cross the chip.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from nirbridge.arrays import Array
from nirbridge.partitioner.search.balance.ways import Cost, Stretch, StretchCosts, Way

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
