"""Search by balanced fillings: fill with output axons of the previous result, repair, refill a few cores at a time."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby, product

import numpy as np

from nirbridge.arrays import Array, weighted_sum
from nirbridge.partitioner.cost.axis import Axis
from nirbridge.partitioner.cost.axons import Blocks
from nirbridge.partitioner.cost.connectivity import Explicit, Separable, synapses
from nirbridge.partitioner.cost.resources import run_words
from nirbridge.partitioner.cost.sizing import CostModel, IncomingProjection
from nirbridge.partitioner.model import Slice
from nirbridge.partitioner.search.clusters import Work
from nirbridge.partitioner.search.filling import (
    Content,
    Near,
    Stretch,
    StretchCosts,
    Way,
    core_slots,
    fill,
    share,
    share_of,
    ways_of,
)
from nirbridge.partitioner.search.interruption import interrupted
from nirbridge.partitioner.search.slicing import UNLIMITED, in_core_order, interval_boxes

LISTED_MAX = 300_000
"""Synapses of projections without a closed form, at most: their stretches are listed one by one."""
WEIGHTS = (0.05, 0.95)
"""Of neurons and of words, where ways are compared: a neuron takes one place in any of them."""
POWER = 4.0
"""How much more the scarcer resource counts in a filling."""
POWERS = (2.0, 4.0, 8.0)
"""The same where few cores are filled anew."""
PASSES = 3
"""Fillings, each with the output axons of those before."""
REPAIRS = 8
"""Rounds in which cores with too many output axons, and as many with few, are filled anew."""
FREED = (4, 16)
"""Cores that are filled anew at a time, beside the two that are least full: from, to before."""
NEAR_SHARE = 0.7
"""Largest discount on a stretch far from the first population of a core (``filling.Near``)."""
NOISE = 0.5
"""Spread of the order of stretches in these fillings (of the logarithm of words per neuron)."""


@dataclass(frozen=True, slots=True)
class BalanceBudget:
    """Work (``ways.COST_WORK``), at least ``of_neuron`` for each neuron, and how often few cores are filled anew."""

    work: int
    tries: int
    of_neuron: int = 0


def balanced(
    sizes: CostModel,
    cap: Array,
    groups: Mapping[str, int],
    enough: int,
    budget: BalanceBudget,
    seed: int,
    near: Near | None = None,
) -> Blocks | None:
    """Cores by balanced fillings; stops at ``enough`` cores. None: no filling is legal, or the work was spent.

    With columns that leave channels out where that saves words (*ragged*), without them where none is legal then.
    """
    forms = [edge.form for edges in sizes.incoming.values() for edge in edges]
    if sum(synapses(form) for form in forms if isinstance(form, Explicit)) > LISTED_MAX:
        return None
    left = ragged_columns(sizes)
    for columns in (left, {}) if left else ({},):
        costs = StretchCosts(sizes, cap, Work(max(budget.work, budget.of_neuron * sizes.network.neurons)))
        ways = with_ragged(costs, ways_of(costs, WEIGHTS, groups), columns)
        cores = _filled(costs, ways, near) if ways else None
        if cores is not None:
            cores = _improved(costs, ways, cores, enough, budget.tries, seed, near)
            return tuple(_block(sizes, content) for content in cores)
    return None


def nearer(
    sizes: CostModel, cap: Array, groups: Mapping[str, int], blocks: Blocks, budget: BalanceBudget, seed: int
) -> Blocks | None:
    """As many cores as ``balanced`` found, which populations near each other in the network share; None: not found.

    Such a preference costs cores, which more tries win back.
    """
    places = {name: place for place, name in enumerate(sizes.shapes)}
    found = balanced(sizes, cap, groups, len(blocks), budget, seed, Near(places, NEAR_SHARE))
    return found if found is not None and len(found) <= len(blocks) else None


def completed(
    costs: StretchCosts, ways: list[Way], cores: Sequence[Content], rest: Content, enough: int, tries: int, seed: int
) -> Blocks | None:
    """The cores and further ones with the rest, repaired and then few filled anew. None: nothing legal was found."""
    costs.charge(ways, _slots(costs, cores))
    more = fill(costs, _freed([rest], [0]), POWER)
    found = None if more is None else _repaired(costs, ways, [*cores, *more])
    if found is None:
        return None
    return tuple(_block(costs.sizes, content) for content in _improved(costs, ways, found, enough, tries, seed))


def _block(sizes: CostModel, content: Content) -> tuple[Slice, ...]:
    slices = [s for way, start, stop in content for s in way.slices(start, stop)]
    return in_core_order(slices, tuple(sizes.shapes))


def _filled(costs: StretchCosts, ways: list[Way], near: Near | None) -> list[Content] | None:
    """Fillings that charge the output axons of all those before; the last one is repaired."""
    slots = {name: np.zeros(shape, np.int64) for name, shape in costs.sizes.shapes.items()}
    cores: list[Content] | None = None
    for _ in range(PASSES):
        costs.charge(ways, slots)
        cores = fill(costs, [Stretch(way, 0, way.size) for way in ways], POWER, near)
        if cores is None:
            return None
        found = _slots(costs, cores)
        costs.charge(ways, found)
        if not _over(costs, cores):
            return cores
        slots = {name: np.maximum(slots[name], n) for name, n in found.items()}
    return None if cores is None else _repaired(costs, ways, cores, near)


def _slots(costs: StretchCosts, cores: Sequence[Content]) -> dict[str, Array]:
    """Output axons of each neuron, by population; none where they are not limited."""
    limited = costs.cap[5] < UNLIMITED
    return core_slots(costs.sizes, tuple(_block(costs.sizes, content) for content in cores) if limited else ())


def _output_axons(costs: StretchCosts, content: Content) -> int:
    return sum(costs.cost(*part)[5] for part in content)


def _over(costs: StretchCosts, cores: Sequence[Content]) -> list[int]:
    """The cores with more output axons than they may have, as they are charged."""
    return [i for i, content in enumerate(cores) if _output_axons(costs, content) > costs.cap[5]]


def _repaired(
    costs: StretchCosts, ways: list[Way], cores: list[Content], near: Near | None = None
) -> list[Content] | None:
    """Fill cores with too many output axons anew, with as many that have few; None: some are left."""
    for _ in range(REPAIRS):
        costs.charge(ways, _slots(costs, cores))
        over = _over(costs, cores)
        if not over:
            return cores
        by_use = sorted(range(len(cores)), key=lambda i: _output_axons(costs, cores[i]))
        freed = {*over, *by_use[: len(over)]}
        again = fill(costs, _freed(cores, freed), POWER, near)
        if again is None:
            return None
        cores = [*(c for i, c in enumerate(cores) if i not in freed), *again]
    return None


def _freed(cores: Sequence[Content], chosen: Collection[int]) -> list[Stretch]:
    """The stretches of some cores, those that touch joined."""
    parts = [part for i in chosen for part in cores[i]]
    found: list[Stretch] = []
    for way, start, stop in sorted(parts, key=lambda p: (p[0].population, p[0].first_channel, p[1])):
        if found and found[-1].way is way and found[-1].stop == start:
            found[-1].stop = stop
        else:
            found.append(Stretch(way, start, stop))
    return found


def _improved(
    costs: StretchCosts,
    ways: list[Way],
    cores: list[Content],
    enough: int,
    tries: int,
    seed: int,
    near: Near | None = None,
) -> list[Content]:
    """Fill few cores anew, some tries: kept where there are fewer cores, or the same number less evenly filled.

    What is left of a core then collects in one, until it is empty.
    """
    rng = np.random.default_rng(seed)
    total = np.sum([share(costs, content) for content in cores], axis=0)
    weights = (total / total.max()) ** POWER
    slots = _slots(costs, cores)
    for _ in range(tries):
        if len(cores) <= max(enough, 2) or costs.work.left <= 0:
            break
        try:
            costs.charge(ways, slots)
            found = _refilled(costs, cores, weights, rng, near)
            if found is None:
                continue
            other = _slots(costs, found)
            costs.charge(ways, other)
            if not _over(costs, found):
                cores, slots = found, other
        except KeyboardInterrupt as error:
            raise interrupted(error, tuple(_block(costs.sizes, content) for content in cores)) from error
    return cores


def _refilled(
    costs: StretchCosts, cores: Sequence[Content], weights: Array, rng: np.random.Generator, near: Near | None
) -> list[Content] | None:
    """The cores after the two least full ones and some others were filled anew; None: that is no better."""
    full = [float(weighted_sum(share(costs, content), weights)) for content in cores]
    most = int(rng.integers(*FREED))
    chosen = {*np.argsort(full, kind="stable")[:2].tolist(), *rng.integers(len(cores), size=most).tolist()}
    stretches = _freed(cores, chosen)
    for stretch in stretches:
        stretch.rank = NOISE * float(rng.normal())
    again = fill(costs, stretches, POWERS[int(rng.integers(len(POWERS)))], near)
    if again is None or len(again) > len(chosen):
        return None
    after = sum(float(weighted_sum(share(costs, content), weights)) ** 2 for content in again)
    if len(again) == len(chosen) and after < sum(full[i] ** 2 for i in chosen):
        return None
    return [*(c for i, c in enumerate(cores) if i not in chosen), *again]


# -- ragged --------------------------------------------------------------------------------------------------------
# Ways in which some columns of a convolution leave channels out, so that the lists of the others fill their words.
#
# A source of a 3 x 3 window has, in every row of a core, one list of 3 columns: with 13 channels 39 targets in 6 words,
# where 38 take 5. One channel less in every third column makes each of these lists shorter by one. The channels that
# are left out are placed elsewhere, column by column, where a source reaches 3 rows of them in one list.

LEFT_MAX = 16
"""Channels that a column may leave out, at most."""
GAIN = 0.005
"""Channels are left out where that saves at least this part of a population's words."""
WIDTH_MAX = 512
"""Columns that are changed one by one, at most; in wider maps columns at equal distances are alike."""
SWEEPS = 8
"""How often all columns are gone through."""


@dataclass(frozen=True, slots=True, eq=False)
class Window:
    """A projection of windows of all channels: what the words of a part of a row or column depend on.

    ``columns``, ``rows``: the axes, of which every input reaches a range; ``channels``: input channels.
    """

    edge: IncomingProjection
    columns: Axis
    rows: Axis
    channels: int


def windows_of(sizes: CostModel, name: str) -> tuple[Window, ...]:
    """The projections into a population, if all are such windows and have their own lists; else none."""
    if len(sizes.shapes[name]) != 3 or sizes.chip.synapses.words is None:
        return ()
    found = []
    for edge in sizes.incoming[name]:
        form = edge.form
        if not isinstance(form, Separable) or edge.shares:
            return ()
        channel, row, column = form.axes
        if not channel.full or row.full or column.full or not (row.contiguous and column.contiguous):
            return ()
        found.append(Window(edge, column, row, int(channel.touched.sum())))
    return tuple(found)


def reached(axis: Axis, counts: Array) -> Array:
    """Per input that reaches something, the sum of ``counts`` over the outputs that it reaches."""
    total = np.concatenate(([0], np.cumsum(counts)))
    inputs = np.flatnonzero(axis.touched)
    first, last = axis.outs[axis.indptr[inputs]], axis.outs[axis.indptr[inputs + 1] - 1]
    return total[last + 1] - total[first]


def _words(sizes: CostModel, window: Window, targets: Array) -> int:
    """Words of lists of one stretch of targets each, from every input channel."""
    words = run_words(targets, sizes.chip.synapses, sizes.weight_bits, delayed=window.edge.delayed)
    return int(words.sum()) * window.channels


def row_words(sizes: CostModel, windows: Sequence[Window], pieces: Sequence[Slice]) -> int:
    """Words of slices in one row that follow each other, as one stretch."""
    channels = np.zeros(sizes.shapes[pieces[0].population][2], np.int64)
    for piece in pieces:
        channels[slice(*piece.box[2])] += piece.box[0][1] - piece.box[0][0]
    row = pieces[0].box[1][0]
    return sum(
        int(w.rows.output_ptr[row + 1] - w.rows.output_ptr[row]) * _words(sizes, w, reached(w.columns, channels))
        for w in windows
    )


def whole_words(sizes: CostModel, windows: Sequence[Window], channels: int, left: Array) -> int:
    """Words of a population whose columns leave ``left`` of their channels out, in whole rows and whole columns."""
    total = 0
    for window in windows:
        total += len(window.rows.outs) * _words(sizes, window, reached(window.columns, channels - left))
        rows, inputs = np.ones(window.rows.n_out, np.int64), np.diff(window.columns.output_ptr)
        for out in np.unique(left[left > 0]).tolist():
            total += int(inputs[left == out].sum()) * _words(sizes, window, reached(window.rows, rows * out))
    return total


def left_out(sizes: CostModel, name: str) -> Array | None:
    """How many channels each column leaves out; None where that saves too little."""
    windows = windows_of(sizes, name)
    if not windows:
        return None
    channels, _, width = sizes.shapes[name]
    nothing = np.zeros(width, np.int64)
    best, fewest = nothing, int(whole_words(sizes, windows, channels, nothing) * (1 - GAIN))
    periods = sorted({int(reached(w.columns, nothing + 1).max(initial=1)) for w in windows})
    for period, left in product(periods, range(1, min(channels, LEFT_MAX) + 1)):
        for first in range(min(period, width) if period > 1 else 0):
            by_column = np.where((np.arange(width) - first) % period == 0, left, 0)
            words = whole_words(sizes, windows, channels, by_column)
            if words < fewest:
                best, fewest = by_column, words
    if best is nothing:
        return None
    return _changed(sizes, windows, channels, best) if width <= WIDTH_MAX else best


def _changed(sizes: CostModel, windows: Sequence[Window], channels: int, left: Array) -> Array:
    """The channels left out after columns were changed one by one, as long as that saves words."""
    fewest, most = whole_words(sizes, windows, channels, left), min(channels, LEFT_MAX)
    for _ in range(SWEEPS):
        before = fewest
        for column, out in product(range(len(left)), range(most + 1)):
            other = left.copy()
            other[column] = out
            words = whole_words(sizes, windows, channels, other)
            if words < fewest:
                left, fewest = other, words
        if fewest == before:
            break
    return left


@dataclass(frozen=True, slots=True, eq=False)
class LeavingWay(Way):
    """All rows of a population, one after the other, without the channels that columns leave out.

    Places are numbered as if nothing was left out: some of them hold no neuron.
    """

    left: tuple[int, ...] = ()
    windows: tuple[Window, ...] = ()

    def slices(self, start: int, stop: int) -> list[Slice]:
        """The slices of places ``start`` to ``stop``: columns side by side that leave as many channels out are one."""
        found = []
        for rows, columns, (low, high) in interval_boxes(self.lengths, start, stop):
            for row in range(*rows):
                for out, alike in groupby(range(*columns), key=lambda c: self.left[c]):
                    first, *more = alike
                    end = min(high, self.lengths[2] - out)
                    if low < end:
                        box = ((low, end), (row, row + 1), (first, first + 1 + len(more)))
                        found.append(Slice(self.population, box))
        return found

    def joint_words(self, sizes: CostModel, slices: Sequence[Slice]) -> int:
        """Words of the slices, each row one stretch."""
        rows = groupby(slices, key=lambda s: s.box[1])
        return sum(row_words(sizes, self.windows, list(pieces)) for _, pieces in rows)

    def in_order(self, values: Mapping[str, Array]) -> Array:
        """Values of the neurons in the order of this way; 0 for places without one."""
        own = values[self.population].transpose(self.axes)
        stays = np.arange(self.lengths[2]) < self.lengths[2] - np.array(self.left)[:, None]
        return np.where(stays, own, 0).ravel()


@dataclass(frozen=True, slots=True, eq=False)
class ColumnWay(Way):
    """The channels that some columns leave out, column by column.

    A core numbers its slices row by row, so each of these has lists of its own: others may lie between them.
    """

    columns: tuple[int, ...] = ()

    def slices(self, start: int, stop: int) -> list[Slice]:
        """The slices of places ``start`` to ``stop``."""
        found = []
        for places, rows, (low, high) in interval_boxes(self.lengths, start, stop):
            channels = (low + self.first_channel, high + self.first_channel)
            for column in self.columns[slice(*places)]:
                found.append(Slice(self.population, (channels, rows, (column, column + 1))))
        return found

    def in_order(self, values: Mapping[str, Array]) -> Array:
        """Values of the neurons in the order of this way."""
        own = values[self.population][self.first_channel :, :, list(self.columns)]
        return own.transpose(self.axes).ravel()


def ragged_columns(sizes: CostModel) -> dict[str, Array]:
    """How many channels each column leaves out, by population, where that saves words."""
    of_kind = {name: left_out(sizes, name) for name in sizes.shapes if sizes.like[name] == name}
    return {name: left for name in sizes.shapes if (left := of_kind[sizes.like[name]]) is not None}


def with_ragged(costs: StretchCosts, ways: Sequence[Way], left: Mapping[str, Array]) -> list[Way]:
    """The ways, but ragged ones for the populations of ``left``."""
    found: list[Way] = []
    for name, own in groupby(ways, key=lambda w: w.population):
        plain = list(own)
        found += (_ragged(costs, name, left[name], plain[0].group) if name in left else []) or plain
    return found


def _ragged(costs: StretchCosts, name: str, left: Array, group: int) -> list[Way]:
    """The way of the columns and those of the channels that they leave out; empty: a neuron fits no core."""
    channels, height, width = costs.sizes.shapes[name]
    lengths, windows = (height, width, channels), windows_of(costs.sizes, name)
    ways: list[Way] = [LeavingWay(name, (1, 2, 0), lengths, 0, group, left=tuple(left.tolist()), windows=windows)]
    for out in np.unique(left[left > 0]).tolist():
        columns = tuple(np.flatnonzero(left == out).tolist())
        ways.append(ColumnWay(name, (2, 1, 0), (len(columns), height, out), channels - out, group, columns=columns))
    found = []
    for way in ways:
        sampled = share_of(costs, way)
        if sampled is None:
            return []
        words = costs.cost(way, 0, way.size)[2] / way.size / costs.cap[2]
        found.append(replace(way, words=min(words, float(sampled[1]))))
    return found
