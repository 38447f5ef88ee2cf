"""How many weights a kernel takes in any map, where a chip stores the like lists of a core once.

A source near the border of a map reaches fewer targets than one in the middle, and its list is like no list of that:
so more is stored than every weight once. Take the pixels of one output channel that a core holds, a set S. Lists of one
input channel that are stored once have the same weights of that output channel, so the core stores at least f(S)
weights: of all sources, the different sets of weights towards S, each with its size. A map divides the pixels into
sets; prices u of the pixels whose sum over any set S is at most f(S) prove that it stores at least the sum of all
prices. On a map of 4 x 4 that is 49 weights for a kernel of 3 x 3, and no fewer: one core with all pixels has as many.

Of a larger map a corner is taken, and the sources that reach nothing beyond it: their lists there are f of a part of S.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache
from itertools import product

import numpy as np

from nirbridge.arrays import Array, weighted_sum
from nirbridge.partitioner.cost.axis import Axis

PIXELS_MAX = 16
"""All sets of up to this number of pixels are enumerated."""
SOURCES_MAX, WEIGHTS_MAX = 64, 62
ROUNDS_MAX, ROWS_ADDED = 100, 20
SCALE = 10_080
"""Prices are multiples of 1 / SCALE, so that their sums are exact."""

Targets = tuple[tuple[int, int], ...]
"""What one source reaches: a number of a pixel, and one of the weight."""


def least_weights(axes: Sequence[Axis]) -> Fraction:
    """Weights that any map stores for each pair of an input and an output channel; 0: nothing is proved.

    ``axes``: the spatial axes of one convolution.
    """
    if not axes or any(axis.full for axis in axes):
        return Fraction(0)
    corner = [axis.n_out for axis in axes]
    while math.prod(corner) > PIXELS_MAX:
        corner[corner.index(max(corner))] -= 1
    by_axis = [_inside(axis, length) for axis, length in zip(axes, corner, strict=True)]
    sources: set[tuple[tuple[int, tuple[int, ...]], ...]] = set()
    for lists in product(*by_axis):
        sources.add(tuple(_joint(entries, corner) for entries in product(*lists)))
    taps = {tap: number for number, tap in enumerate(sorted({tap for own in sources for _, tap in own}))}
    if not sources or len(sources) > SOURCES_MAX or len(taps) > WEIGHTS_MAX:
        return Fraction(0)
    return _priced(math.prod(corner), tuple(sorted(tuple((p, taps[t]) for p, t in own) for own in sources)))


def _inside(axis: Axis, length: int) -> list[list[tuple[int, int]]]:
    """(output, tap) of every input that reaches outputs below ``length`` and no others."""
    reaching = np.flatnonzero(np.diff(axis.indptr))
    inside = reaching[axis.outs[axis.indptr[reaching + 1] - 1] < length]
    spans = [slice(*axis.indptr[i : i + 2].tolist()) for i in inside.tolist()]
    return [list(zip(axis.outs[own].tolist(), axis.taps[own].tolist(), strict=True)) for own in spans]


def _joint(entries: Sequence[tuple[int, int]], corner: Sequence[int]) -> tuple[int, tuple[int, ...]]:
    pixel = 0
    for (out, _), length in zip(entries, corner, strict=True):
        pixel = pixel * length + out
    return pixel, tuple(tap for _, tap in entries)


@lru_cache(maxsize=256)
def _priced(pixels: int, sources: tuple[Targets, ...]) -> Fraction:
    """The largest sum of prices found that no set of pixels exceeds; exact, whatever the linear program gave."""
    sets = np.arange(1, 1 << pixels, dtype=np.int64)
    stored = _stored(sets, sources)
    held = (sets[:, None] >> np.arange(pixels)) & 1
    prices = np.floor(_best_prices(held, stored) * SCALE + 1e-3).astype(np.int64)
    total = held @ prices
    over = np.flatnonzero(total > SCALE * stored)
    if len(over):
        least = min(Fraction(int(SCALE * stored[i]), int(total[i])) for i in over)
        prices = prices * least.numerator // least.denominator
    return Fraction(int(prices.sum()), SCALE)


def _stored(sets: Array, sources: Sequence[Targets]) -> Array:
    """Weights in the different lists of all sources towards each set of pixels."""
    weights = np.zeros((len(sets), len(sources)), np.int64)
    for column, own in enumerate(sources):
        for pixel, tap in own:
            weights[:, column] |= ((sets >> pixel) & 1) << tap
    weights.sort(axis=1)
    weights[:, 1:][weights[:, 1:] == weights[:, :-1]] = 0
    return np.bitwise_count(weights).sum(axis=1, dtype=np.int64)


def _best_prices(held: Array, stored: Array) -> Array:
    """Prices of pixels by a linear program over the sets that matter: those that earlier prices exceed most."""
    from scipy.optimize import linprog

    rows = sorted({*(1 << np.arange(held.shape[1])) - 1, len(held) - 1})
    found = np.zeros(held.shape[1])
    for _ in range(ROUNDS_MAX):
        result = linprog(-np.ones(held.shape[1]), A_ub=held[rows], b_ub=stored[rows], bounds=(0, None), method="highs")
        if result.status != 0:
            break
        found = np.maximum(result.x, 0)
        over = weighted_sum(held, found) - stored
        worst = np.argsort(-over, kind="stable")[:ROWS_ADDED]
        more = [int(i) for i in worst if over[i] > 1e-7]
        if not more:
            break
        rows += more
    return found
