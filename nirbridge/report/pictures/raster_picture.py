"""Events of recordings as cells: rasters of several nodes on one time axis, and of the difference of two recordings.

Binning: a node with more neurons than ``rows_max`` has cells of several neurons; while a picture still has more than
``points_max`` cells with an event, those of the node with the most of them become larger along neurons and time.
No event is left out: a cell has the number of its events, and ``remark`` says what a cell of a band is.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from nirbridge.arrays import Array
from nirbridge.comparison.distances import is_counts
from nirbridge.errors import counted

ROWS_MAX, COLUMNS_MAX = 96, 192
"""Cells of a binned node along neurons and along time: each is large enough to be seen."""
POINTS_MAX = 20_000
_LONG = 3
"""Columns per row of a node whose cells were joined, where it has as many."""


@dataclass(frozen=True, slots=True, eq=False)
class RasterBand:
    """The events of one node: first time step, first neuron and events of each cell that has an event (int64).

    A cell is ``stride`` neurons by ``joined`` recorded time steps; 1 by 1: a mark for each event. ``neurons`` and
    ``events``: of the node. ``first`` and ``stop``: the recorded time steps; ``every``: the distance from one recorded
    step to the next.
    """

    node: str
    neurons: int
    stride: int
    joined: int
    events: int
    first: int
    stop: int
    every: int
    steps: Array
    neuron: Array
    counts: Array

    @property
    def is_binned(self) -> bool:
        """True if a cell can hold several events."""
        return self.stride > 1 or self.joined > 1

    @property
    def rows(self) -> int:
        """Cells from the first neuron to the last one."""
        return max(1, -(-self.neurons // self.stride))

    @property
    def most(self) -> int:
        """Events of the fullest cell."""
        return int(self.counts.max(initial=1))

    @property
    def remark(self) -> str:
        """What a cell is, in words; empty where it is one neuron in one time step."""
        if not self.is_binned:
            return ""
        steps = counted(self.joined, "time step" if self.every == 1 else "recorded time step")
        return f"a cell: {counted(self.stride, 'neuron')} × {steps}, fullest: {counted(self.most, 'event')}"


@dataclass(frozen=True, slots=True)
class RasterPicture:
    """Bands from the top down on one time axis, ``first <= step < stop``."""

    bands: tuple[RasterBand, ...]
    first: int
    stop: int


@dataclass(frozen=True, slots=True, eq=False)
class NodeEvents:
    """Values of a node, not 0 where it has an event: ``[recorded steps, neurons]``, and which steps these are."""

    node: str
    values: Array
    first: int = 0
    every: int = 1


def raster_picture(
    nodes: Sequence[NodeEvents], *, rows_max: int = ROWS_MAX, points_max: int = POINTS_MAX
) -> RasterPicture:
    """The events of the nodes; the first one is at the top."""
    bands = [_band(node, max(1, -(-node.values.shape[1] // rows_max)), 1) for node in nodes]
    while (cells := sum(len(band.steps) for band in bands)) > points_max:
        k = max(range(len(bands)), key=lambda k: len(bands[k].steps))
        here = len(bands[k].steps)
        if here == 1:  # no band has more
            break
        room = max(points_max - cells + here, points_max // len(bands), 1)
        bands[k] = _coarser(nodes[k], bands[k], min(room / here, 0.9))
    first = min((band.first for band in bands), default=0)
    return RasterPicture(tuple(bands), first, max((band.stop for band in bands), default=1))


def differing_events(x: Array, y: Array) -> tuple[Array, Array, Array]:
    """Where two arrays of values have the same event, the first one has more of it, and the second one has.

    A graded value that differs counts for each array where it is not 0.
    """
    return (x != 0) & (x == y), _has_more(x, y), _has_more(y, x)


def _has_more(x: Array, y: Array) -> Array:
    return x > y if is_counts(x) and is_counts(y) else (x != 0) & (x != y)


def _coarser(node: NodeEvents, band: RasterBand, share: float) -> RasterBand:
    """The band with about this share of its cells, ``_LONG`` times as many along time as along neurons."""
    columns = -(-max(1, len(node.values)) // band.joined)
    area = band.rows * columns * share
    rows = min(band.rows, max(1.0, math.sqrt(area / _LONG), area / columns))
    stride, joined = -(-band.neurons // max(1, int(rows))), -(-len(node.values) // max(1, int(area / rows)))
    return _band(node, max(stride, band.stride), max(joined, band.joined))


def _band(node: NodeEvents, stride: int, joined: int) -> RasterBand:
    steps, neurons = node.values.shape
    if stride * joined > 1:
        joined = max(joined, -(-steps // COLUMNS_MAX))
    row, column = np.nonzero(node.values)
    rows = max(1, -(-neurons // stride))
    cells, counts = np.unique((row // joined) * rows + column // stride, return_counts=True)
    # of each stretch of ``every`` steps the last one is recorded
    begin = node.first - node.every + 1
    return RasterBand(
        node.node,
        neurons,
        stride,
        joined,
        len(row),
        begin,
        begin + max(1, steps * node.every),
        node.every,
        (node.first + cells // rows * joined * node.every).astype(np.int64),
        (cells % rows * stride).astype(np.int64),
        counts.astype(np.int64),
    )
