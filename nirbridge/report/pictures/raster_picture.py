"""Events of recordings as points: rasters of several nodes on one time axis, and of the difference of two recordings.

Thinning: a node with more neurons than ``rows_max`` shows every k-th of them, k the least that fits; while a picture
still has more than ``POINTS_MAX`` points, k doubles, and then the time steps are joined in pairs, fours …, a point for
every group with an event. Each band says in ``remark`` what is shown of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from nirbridge.arrays import Array
from nirbridge.comparison.distances import is_counts
from nirbridge.errors import counted

ROWS_MAX = 128
POINTS_MAX = 20_000


@dataclass(frozen=True, slots=True, eq=False)
class RasterBand:
    """The events of one node: time step and neuron of each point (int64, numbered as in the simulation).

    ``neurons``: of the node; every ``stride``-th of them is shown. ``joined``: time steps for which one point stands.
    ``events``: all of the node, shown or not. ``first`` and ``stop``: the recorded time steps; ``every``: the distance
    from one recorded step to the next.
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

    @property
    def remark(self) -> str:
        """What is left out, in words; empty where everything is shown."""
        parts = [f"every {_nth(self.stride)} of {self.neurons:,} neurons"] if self.stride > 1 else []
        parts += [f"a mark for {counted(self.joined, 'time step')}"] if self.joined > 1 else []
        return ", ".join(parts)


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
    strides = [max(1, -(-node.values.shape[1] // rows_max)) for node in nodes]
    joined = 1
    bands = [_band(*each, joined) for each in zip(nodes, strides, strict=True)]
    while sum(len(band.steps) for band in bands) > points_max:
        if any(stride < node.values.shape[1] for node, stride in zip(nodes, strides, strict=True)) and joined == 1:
            strides = [min(2 * s, max(1, n.values.shape[1])) for n, s in zip(nodes, strides, strict=True)]
        else:
            joined *= 2
        bands = [_band(*each, joined) for each in zip(nodes, strides, strict=True)]
    first = min((band.first for band in bands), default=0)
    return RasterPicture(tuple(bands), first, max((band.stop for band in bands), default=1))


def differing_events(x: Array, y: Array) -> tuple[Array, Array, Array]:
    """Where two arrays of values have the same event, the first one has more of it, and the second one has.

    A graded value that differs counts for each array where it is not 0.
    """
    return (x != 0) & (x == y), _has_more(x, y), _has_more(y, x)


def _has_more(x: Array, y: Array) -> Array:
    return x > y if is_counts(x) and is_counts(y) else (x != 0) & (x != y)


def _band(node: NodeEvents, stride: int, joined: int) -> RasterBand:
    steps, neurons = node.values.shape
    row, column = np.nonzero(node.values[:, ::stride])
    if joined > 1:
        pairs = np.unique(np.stack((row // joined * joined, column)), axis=1)
        row, column = pairs[0], pairs[1]
    # of each stretch of ``every`` steps the last one is recorded
    begin = node.first - node.every + 1
    return RasterBand(
        node.node,
        neurons,
        stride,
        joined,
        int(np.count_nonzero(node.values)),
        begin,
        begin + max(1, steps * node.every),
        node.every,
        (node.first + row * node.every).astype(np.int64),
        (column * stride).astype(np.int64),
    )


def _nth(number: int) -> str:
    ending = {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th") if number % 100 not in (11, 12, 13) else "th"
    return f"{number:,}{ending}"
