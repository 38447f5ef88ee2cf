"""Balanced filling: each core takes stretches of several populations that together leave the least waste.

A core begins with the population of most words per neuron, and takes stretches of others (a beam over combinations).
A combination is rated by the neurons and words that it uses up, each weighted by how scarce it is in what is left,
where the words of a stretch count as its neurons take without cuts: dear cuts are waste. So populations of many words
per neuron and of few are used up together.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
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

Part = tuple[Way, int, int]
"""Places of a way, from the first to before the second number."""
Content = tuple[Part, ...]
"""What a core holds."""


@dataclass(frozen=True, slots=True, eq=False)
class _Choice:
    parts: tuple[tuple[Stretch, int], ...]
    cost: Cost
    score: float


def share(costs: StretchCosts, content: Content) -> Array:
    """The shares of a core, in neurons and in words, that a content takes where cuts cost nothing."""
    neurons = sum(stop - start for _, start, stop in content)
    return np.array([neurons / costs.cap[0], sum((stop - start) * way.words for way, start, stop in content)])


def fill(costs: StretchCosts, stretches: Sequence[Stretch], power: float) -> list[Content] | None:
    """Cores that hold the stretches (which are used up); None: a neuron fits no core, or the work is spent.

    ``power``: how much more the scarcer of neurons and words counts.
    """
    rest = [s for s in stretches if s.start < s.stop]
    left = np.sum([share(costs, ((s.way, s.start, s.stop),)) for s in rest], axis=0)
    cores: list[Content] = []
    while rest:
        choice = _best_choice(costs, rest, (left / left.max()) ** power)
        if choice is None or costs.work.left <= 0:
            return None
        content = tuple((s.way, s.start, stop) for s, stop in choice.parts)
        for stretch, stop in choice.parts:
            stretch.start = stop
        cores.append(content)
        left = np.maximum(left - share(costs, content), 1e-9)
        rest = [s for s in rest if s.start < s.stop]
    return cores


def _best_choice(costs: StretchCosts, rest: Sequence[Stretch], weights: Array) -> _Choice | None:
    first = max(rest, key=lambda s: s.way.words * math.exp(s.rank))
    others = [s for s in rest if s is not first and s.way.group == first.way.group]
    whole = len(rest) > FEW
    best = empty = _Choice((), (0,) * len(costs.cap), 0.0)
    choices = _extended(costs, empty, [first], weights, whole=whole) or _extended(
        costs, empty, [first], weights, whole=False
    )
    width = 4 * BEAM
    for _ in range(DEPTH):
        if not choices:
            break
        choices = sorted(choices, key=lambda c: -c.score)
        best = choices[0] if not best.parts or choices[0].score > best.score else best
        distinct = list({c.cost: c for c in reversed(choices)}.values())[::-1][:width]
        choices = [longer for c in distinct for longer in _extended(costs, c, others, weights, whole=whole)]
        width = BEAM
    for _ in range(DEPTH):
        # what is left of the core is too little for whole pixels
        longer = [*_lengthened(costs, best, weights), *_extended(costs, best, others, weights, whole=False)]
        if not longer:
            break
        best = max(longer, key=lambda c: c.score)
    return best if best.parts else None


def _lengthened(costs: StretchCosts, choice: _Choice, weights: Array) -> list[_Choice]:
    """The choice with one of its stretches as long as fits."""
    found = []
    for i, (stretch, stop) in enumerate(choice.parts):
        own = costs.cost(stretch.way, stretch.start, stop)
        room = tuple(most - x + y for most, x, y in zip(costs.cap, choice.cost, own, strict=True))
        end = costs.longest(stretch, room, 1)
        if end > stop:
            more = costs.cost(stretch.way, stretch.start, end)
            cost = tuple(x - y + z for x, y, z in zip(choice.cost, own, more, strict=True))
            parts = (*choice.parts[:i], (stretch, end), *choice.parts[i + 1 :])
            found.append(
                _Choice(
                    parts,
                    cost,
                    choice.score
                    - _gain(costs, stretch, stop, own, weights)
                    + _gain(costs, stretch, end, more, weights),
                )
            )
    return found


def _gain(costs: StretchCosts, stretch: Stretch, stop: int, cost: Cost, weights: Array) -> float:
    """What a core gains by a stretch up to ``stop`` of this cost."""
    n = stop - stretch.start
    words = n * stretch.way.words
    waste = cost[2] / costs.cap[2] - words
    return n * float(weights[0]) / costs.cap[0] + float(weights[1]) * (words - CUT_LOSS * max(waste, 0.0))


def _extended(
    costs: StretchCosts, choice: _Choice, rest: Sequence[Stretch], weights: Array, *, whole: bool
) -> list[_Choice]:
    """The choice with one more stretch, for each that fits and each place where it may end."""
    room = tuple(most - x for most, x in zip(costs.cap, choice.cost, strict=True))
    taken = {id(s) for s, _ in choice.parts}
    found = []
    for stretch in rest if room[0] > 0 else ():
        if id(stretch) in taken:
            continue
        for stop in _stops(costs, stretch, room, many=not choice.parts, whole=whole):
            more = costs.cost(stretch.way, stretch.start, stop)
            cost = tuple(a + b for a, b in zip(choice.cost, more, strict=True))
            score = choice.score + _gain(costs, stretch, stop, more, weights)
            found.append(_Choice((*choice.parts, (stretch, stop)), cost, score))
    return found


def _stops(costs: StretchCosts, stretch: Stretch, room: Cost, *, many: bool, whole: bool) -> list[int]:
    """Where a stretch may end in a core with ``room``: with whole rows and whole pixels, or anywhere."""
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
