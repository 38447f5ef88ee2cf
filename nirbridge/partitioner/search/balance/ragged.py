"""Ways in which some columns of a convolution leave channels out, so that the lists of the others fill their words.

A source of a 3 x 3 window has, in every row of a core, one list of 3 columns: with 13 channels 39 targets in 6 words,
where 38 take 5. One channel less in every third column makes each of these lists shorter by one. The channels that are
left out are placed elsewhere, column by column, where a source reaches 3 rows of them in one list.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby, product

import numpy as np

from nirbridge.arrays import Array
from nirbridge.partitioner.cost.axis import Axis
from nirbridge.partitioner.cost.connectivity import Separable
from nirbridge.partitioner.cost.resources import run_words
from nirbridge.partitioner.cost.sizing import CostModel, IncomingProjection
from nirbridge.partitioner.model import Slice
from nirbridge.partitioner.search.balance.ways import StretchCosts, Way, share_of
from nirbridge.partitioner.search.stretches import interval_boxes

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
