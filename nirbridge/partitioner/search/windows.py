"""The fewest sources of any n neurons of a convolution, in closed form; for every set of neurons, not only boxes.

Along one axis, ``g(m)`` is the fewest inputs that reach any m outputs, by dynamic programming over the outputs in
order. For a set of neurons in rows and columns let c(v) be the number of rows that hold at least v of its neurons. An
input row that reaches one of these rows has at least g(v) inputs of the set, so the set has at least

    sum over v of (g_columns(v) - g_columns(v - 1)) * g_rows(c(v))

sources, and the c(v) do not increase and add up to the neurons: the least such sum is found by dynamic programming. On
an infinite plane this is the discrete form of ``(sqrt(n) + k - 1)**2`` for a kernel of k x k. Stride, dilation, padding
and the border are those of the operator, since ``g`` is taken from its connectivity.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache, reduce
from itertools import pairwise, product

import numpy as np
from scipy import sparse
from scipy.sparse.csgraph import connected_components

from nirbridge.arrays import Array, weighted_sum
from nirbridge.partitioner.cost.axis import Axis
from nirbridge.partitioner.cost.connectivity import Explicit, Separable

AXIS_MAX = 300
"""Outputs of one connected part of an axis up to which its table is exact."""
OUTPUTS_MAX = 4_096
"""Longer axes are taken by degrees."""
LARGE = 2**50


def axis_sizes(axis: Axis) -> Array:
    """Number of inputs that reach each output: int64 [n_out]."""
    if axis.full:
        return np.full(axis.n_out, int(axis.touched.sum()), np.int64)
    return np.diff(axis.output_ptr).astype(np.int64)


def least_inputs(axis: Axis, outs: Array, most: int) -> Array:
    """``g``: the fewest inputs that reach any m of the outputs ``outs``, m from 0 to ``min(len(outs), most)``."""
    most = min(len(outs), most)
    sizes = axis_sizes(axis)[outs]
    if axis.full:
        return np.concatenate(([0], np.full(most, int(axis.touched.sum()), np.int64)))
    if len(outs) > OUTPUTS_MAX:
        return least_by_degrees(sizes, np.diff(axis.indptr), most)
    inputs = [np.sort(_inputs(axis, int(o))) for o in outs]
    parts = _parts(inputs, axis.n_in)
    alone = np.sort(sizes[[p[0] for p in parts if len(p) == 1]])[:most]
    table = np.concatenate(([0], np.cumsum(alone)))
    for part in parts:
        if len(part) > 1:
            own = _part_table([inputs[i] for i in part], most)
            table = least_sum(table, own, most)
    return _rising(table)


def _inputs(axis: Axis, out: int) -> Array:
    places = axis.by_output[axis.output_ptr[out] : axis.output_ptr[out + 1]]
    return np.searchsorted(axis.indptr, places, side="right") - 1


def _parts(inputs: list[Array], n_in: int) -> list[list[int]]:
    """Outputs that share no input with those of other parts (as with a dilation, or a pool)."""
    row = np.repeat(np.arange(len(inputs)), [len(i) for i in inputs])
    column = np.concatenate([*inputs, np.zeros(0, np.int64)]).astype(np.int64)
    size = len(inputs) + n_in
    graph = sparse.coo_array((np.ones(len(row)), (row, len(inputs) + column)), shape=(size, size))
    label = connected_components(graph, directed=False)[1][: len(inputs)]
    order = np.argsort(label, kind="stable")
    ends = np.flatnonzero(np.diff(label[order])) + 1
    return [part.tolist() for part in np.split(order, ends)]


def _part_table(inputs: list[Array], most: int) -> Array:
    """The table of one part: exact where its outputs reach ranges of its inputs, in order; else by degrees."""
    used = np.unique(np.concatenate(inputs))
    ranks = [np.searchsorted(used, i) for i in inputs]
    ends = sorted((int(r[0]), int(r[-1])) for r in ranks)
    ranges = all(int(r[-1] - r[0]) + 1 == len(r) for r in ranks)
    if not ranges or len(inputs) > AXIS_MAX or any(a[1] > b[1] for a, b in pairwise(ends)):
        degrees = np.bincount(np.concatenate(ranks), minlength=len(used))
        return least_by_degrees(np.array([len(i) for i in inputs]), degrees, most)
    first, last = np.array(ends).T
    # a new output adds the inputs beyond those of the output chosen before it
    added = last[:, None] - np.maximum(last[None, :], first[:, None] - 1)
    added[np.triu_indices(len(ends))] = LARGE
    table, least = [0], last - first + 1
    for _ in range(min(len(ends), most)):
        table.append(int(least.min()))
        least = np.minimum(least[None, :] + added, LARGE).min(axis=1)
    return np.array(table, np.int64)


def least_by_degrees(fan_in: Array, degrees: Array, most: int) -> Array:
    """The fewest sources of any n neurons, from their fan-ins and the sources' numbers of targets alone.

    n neurons have at least the sum of the n smallest fan-ins as synapses, and a source has at most min(n, its degree)
    of these; and each neuron has all its own sources.
    """
    fan_in, degrees = np.sort(fan_in)[:most], np.sort(degrees)
    n = np.arange(1, len(fan_in) + 1)
    synapses = np.cumsum(fan_in)
    wide = len(degrees) - np.searchsorted(degrees, n)  # sources that may reach all n
    of_most = np.concatenate(([0], np.cumsum(degrees[::-1])))
    rest = synapses - wide * n
    beyond = np.searchsorted(of_most, of_most[wide] + rest)
    least = np.maximum(np.where(rest <= 0, -(-synapses // n), beyond), fan_in)
    return _rising(np.concatenate(([0], least)))


def least_sum(a: Array, b: Array, most: int) -> Array:
    """Least ``a[i] + b[n - i]`` for every n up to ``most``: neurons shared by two parts without common sources."""
    length = min(len(a) + len(b) - 1, most + 1)
    found = np.full(length, LARGE, np.int64)
    for i, value in enumerate(a[:length]):
        stop = min(length, i + len(b))
        np.minimum(found[i:stop], value + b[: stop - i], out=found[i:stop])
    return found


def least_of_grid(rows: Array, columns: Array, most: int) -> Array:
    """Fewest inputs of any n outputs of a plane, n from 0 to ``most``, from the tables of its two axes."""
    return _grid_table(rows.tobytes(), columns.tobytes(), most).copy()


@lru_cache(maxsize=256)
def _grid_table(rows_bytes: bytes, columns_bytes: bytes, most: int) -> Array:
    rows, columns = np.frombuffer(rows_bytes, np.int64), np.frombuffer(columns_bytes, np.int64)
    most = min(most, (len(rows) - 1) * (len(columns) - 1))
    # above[c, n]: least for n neurons so far, where at least c rows may hold one neuron more
    above = np.full((min(len(rows) - 1, most) + 1, most + 1), LARGE, np.int64)
    above[:, 0] = 0
    table = above[0].copy()
    for v, step in enumerate(np.diff(columns).tolist(), start=1):
        longest = min(len(rows) - 1, most // v)  # v columns of c rows hold at least c * v neurons
        least = np.full((longest + 1, most + 1), LARGE, np.int64)
        for c in range(1, longest + 1):
            least[c, c:] = above[c, : most + 1 - c] + int(rows[c]) * step
        above = np.minimum.accumulate(least[::-1], axis=0)[::-1]
        np.minimum(table, above[0], out=table)
        if longest == 0:
            break
    return _rising(table)


def _rising(table: Array) -> Array:
    """A set of n neurons has no fewer sources than any part of it: a bound for fewer neurons holds for n too."""
    return np.maximum.accumulate(table)


def least_sources(form: Separable, support: tuple[Array, ...], most: int) -> Array:
    """Fewest sources of any n neurons of ``support`` (outputs per axis), n from 0 to at most ``most``."""
    if len(form.axes) == 1:
        return least_inputs(form.axes[0], support[0], most)
    outs = support[0]
    length, step = _steps(least_inputs(form.axes[0], outs, len(outs)))
    total = min(most, math.prod(len(s) for s in support))
    if not step:
        return np.zeros(total + 1, np.int64)
    # of the inputs of j channels, at least ``step`` are new after every ``length`` channels
    pixels = -(-np.arange(total + 1) // length)
    highest = int(pixels[-1])
    tables = [least_inputs(a, s, highest) for a, s in zip(form.axes[1:], support[1:], strict=True)]
    plane = tables[0] if len(tables) == 1 else reduce(lambda a, b: least_of_grid(a, b, highest), tables)
    table = _power(plane, -(-len(outs) // length), highest)
    return step * table[pixels]


def _steps(table: Array) -> tuple[int, int]:
    """Most outputs between two rises of a table, and its least rise; (1, 0): its first output needs no input."""
    rises = np.flatnonzero(np.diff(table) > 0)
    if len(rises) == 0 or rises[0] > 0:
        return 1, 0
    return int(np.diff(np.append(rises, len(table) - 1)).max()), int(np.diff(table)[rises].min())


def _power(table: Array, times: int, most: int) -> Array:
    """``least_sum`` of ``times`` copies of a table."""
    result, factor = np.zeros(1, np.int64), table[: most + 1]
    while times:
        if times & 1:
            result = least_sum(result, factor, most)
        times >>= 1
        if times:
            factor = least_sum(factor, factor, most)
    return _rising(result)


def least_listed(form: Explicit, neurons: Array, most: int) -> Array:
    """Fewest sources of any n of ``neurons`` (flat), by degrees."""
    mask = np.zeros(len(form.indptr) - 1, bool)
    mask[neurons] = True
    targets = np.repeat(mask, np.diff(form.indptr))
    degrees = np.bincount(form.sources[targets], minlength=form.n_sources)
    return least_by_degrees(np.diff(form.indptr)[neurons], degrees[degrees > 0], most)


# -- copies --------------------------------------------------------------------------------------------------------
# How many weights a kernel takes in any map, where a chip stores the like lists of a core once.
#
# A source near the border of a map reaches fewer targets than one in the middle, and its list is like no list of that:
# so more is stored than every weight once. Take the pixels of one output channel that a core holds, a set S. Lists of
# one input channel that are stored once have the same weights of that output channel, so the core stores at least f(S)
# weights: of all sources, the different sets of weights towards S, each with its size. A map divides the pixels into
# sets; prices u of the pixels whose sum over any set S is at most f(S) prove that it stores at least the sum of all
# prices. On a map of 4 x 4 that is 49 weights for a kernel of 3 x 3, and no fewer: one core with all pixels has as
# many.
#
# Of a larger map a corner is taken, and the sources that reach nothing beyond it: their lists there are f of a part of
# S.

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
