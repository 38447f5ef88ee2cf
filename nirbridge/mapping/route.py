"""X-Y routes on one mesh of all chips: multicast trees as unions of X-Y paths, their hops, and the load of every link.

A spike first travels along x in the row of its source, then along y in the column of each target. The union of the
paths of one source is therefore one span of its row (from the leftmost to the rightmost of source and targets) and,
in each target column, one span that includes the source's row. Counting spans counts the links of the union exactly,
so no path is ever walked.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from nirbridge.arrays import Array
from nirbridge.chips.model import Chip, CoreId
from nirbridge.partitioner.cost.axons import HOST, AxonTable

DIRECTIONS = ("+x", "-x", "+y", "-y")
"""The last axis of a link load array: the direction in which a link leaves its tile."""


@dataclass(frozen=True, slots=True, eq=False)
class MulticastTrees:
    """One tree per group: its span along x in the row of the source, and one branch per column with targets.

    All int64. Per group: ``source_x, source_y, x_min, x_max``. Per branch, sorted by group and column:
    ``branch_group, branch_x, y_min, y_max``. Spans hold the source's own column or row.
    """

    source_x: Array
    source_y: Array
    x_min: Array
    x_max: Array
    branch_group: Array
    branch_x: Array
    y_min: Array
    y_max: Array


def multicast_trees(source_x: Array, source_y: Array, group: Array, target_x: Array, target_y: Array) -> MulticastTrees:
    """The multicast trees of sources [groups] and targets [entries]; ``group`` [entries] is the group of each."""
    row_bits = int(target_y.max(initial=0)).bit_length()
    column_bits = int(target_x.max(initial=0)).bit_length()
    # group, column and row packed in one number: one plain sort orders the branches and finds the ends of each
    keys = np.sort((((group << column_bits) | target_x) << row_bits) | target_y)
    branch = keys >> row_bits
    is_first = np.ones(len(keys), bool)
    is_first[1:] = branch[1:] != branch[:-1]
    first = np.flatnonzero(is_first)
    last = np.append(first[1:], len(keys))[: len(first)] - 1
    branch = branch[first]
    branch_group, branch_x = branch >> column_bits, branch & ((1 << column_bits) - 1)
    row_mask, own_row = (1 << row_bits) - 1, source_y[branch_group]
    x_min, x_max = source_x.copy(), source_x.copy()
    group_first = np.ones(len(first), bool)
    group_first[1:] = branch_group[1:] != branch_group[:-1]
    group_last = np.append(group_first[1:], True)[: len(first)]
    left, right = branch_group[group_first], branch_group[group_last]
    x_min[left] = np.minimum(x_min[left], branch_x[group_first])
    x_max[right] = np.maximum(x_max[right], branch_x[group_last])
    return MulticastTrees(
        source_x,
        source_y,
        x_min,
        x_max,
        branch_group,
        branch_x,
        np.minimum(keys[first] & row_mask, own_row),
        np.maximum(keys[last] & row_mask, own_row),
    )


def tree_hops(paths: MulticastTrees) -> Array:
    """Links of each tree: int64 [groups]."""
    along_y = np.bincount(paths.branch_group, paths.y_max - paths.y_min, minlength=len(paths.source_x))
    return paths.x_max - paths.x_min + along_y.astype(np.int64)


def link_loads(paths: MulticastTrees, rates: Array, width: int, height: int) -> Array:
    """Load of every directed link: float64 [height, width, 4], ``rates`` [groups] summed over the trees that use it.

    Entry ``[y, x, d]`` is the link that leaves tile (x, y) in ``DIRECTIONS[d]``. Links without traffic are exactly 0.
    """
    loads = np.zeros((height, width, 4))
    row, rates = paths.source_y, np.asarray(rates, dtype=np.float64)
    x, low, high = paths.source_x, paths.x_min, paths.x_max
    loads[:, :, 0] = _spans(row, x, high, rates, (height, width))
    loads[:, :, 1] = _spans(row, low + 1, x + 1, rates, (height, width))
    column, y, rate = paths.branch_x, paths.source_y[paths.branch_group], rates[paths.branch_group]
    loads[:, :, 2] = _spans(column, y, paths.y_max, rate, (width, height)).T
    loads[:, :, 3] = _spans(column, paths.y_min + 1, y + 1, rate, (width, height)).T
    return loads


def _spans(line: Array, start: Array, stop: Array, rate: Array, shape: tuple[int, int]) -> Array:
    """Sum of ``rate`` over the spans [start, stop) of each line: float64 ``shape`` = (lines, length)."""
    used = np.flatnonzero(stop > start)
    step = shape[1] + 1
    up, down, rate = line[used] * step + start[used], line[used] * step + stop[used], rate[used]
    size = shape[0] * step
    change = np.bincount(up, rate, size) - np.bincount(down, rate, size)
    count = np.bincount(up, minlength=size) - np.bincount(down, minlength=size)
    total = np.cumsum(change.reshape(shape[0], step), axis=1)
    # a remainder where every span has ended is rounding, not traffic
    total[np.cumsum(count.reshape(shape[0], step), axis=1) == 0] = 0.0
    return total[:, :-1]


@dataclass(frozen=True, slots=True, eq=False)
class Routes:
    """The routes of an axon table on cores.

    ``multicast`` has one tree per group of the table. ``entry_group`` [entries] is the group of each entry, with
    ``hops_x`` and ``hops_y`` [entries] of its own X-Y path (unicast), ``crossings_x`` and ``crossings_y`` of them
    between chips. A target on the source's tile takes no link.
    """

    multicast: MulticastTrees
    entry_group: Array
    hops_x: Array
    hops_y: Array
    crossings_x: Array
    crossings_y: Array
    unicast: MulticastTrees


def routes(axons: AxonTable, cores: Sequence[CoreId], chip: Chip) -> Routes:
    """Routes of every group: as one multicast tree, and as one path per destination core (unicast).

    ``cores[b]`` is the core of block b. Host inputs enter at ``HOST_TILE``; their links and hops count as any other.
    """
    x, y = tiles_of(cores, chip)
    is_host = axons.source_block == HOST
    source_x = np.where(is_host, HOST_TILE[0], x[axons.source_block])
    source_y = np.where(is_host, HOST_TILE[1], y[axons.source_block])
    group = np.repeat(np.arange(len(source_x), dtype=np.int64), np.diff(axons.target_ptr))
    target_x, target_y = x[axons.targets], y[axons.targets]
    width, height = chip.mesh.width_tiles, chip.mesh.height_tiles
    return Routes(
        multicast_trees(source_x, source_y, group, target_x, target_y),
        group,
        np.abs(target_x - source_x[group]),
        np.abs(target_y - source_y[group]),
        np.abs(target_x // width - source_x[group] // width),
        np.abs(target_y // height - source_y[group] // height),
        _single_paths(source_x[group], source_y[group], target_x, target_y),
    )


def _single_paths(source_x: Array, source_y: Array, target_x: Array, target_y: Array) -> MulticastTrees:
    """Trees of one target each [entries]: along the row of the source, then along the column of the target."""
    return MulticastTrees(
        source_x,
        source_y,
        np.minimum(source_x, target_x),
        np.maximum(source_x, target_x),
        np.arange(len(source_x), dtype=np.int64),
        target_x,
        np.minimum(source_y, target_y),
        np.maximum(source_y, target_y),
    )


# -- mesh ----------------------------------------------------------------------------------------------------------
# Cores as points of one mesh of the tiles of all chips: a chip begins at its place on the board times its size.


HOST_TILE = (0, 0)
"""Where host inputs enter the mesh: column and row of the first tile of the first chip."""


def tiles_of(cores: Sequence[CoreId], chip: Chip) -> tuple[Array, Array]:
    """Global tile column and row of each core: two int64 arrays [cores]."""
    width, height, places = chip.mesh.width_tiles, chip.mesh.height_tiles, chip.board.places
    if places is None:  # a chain along x
        x = [core.chip * width + core.x for core in cores]
        return np.array(x, dtype=np.int64), np.array([core.y for core in cores], dtype=np.int64)
    x = [places[core.chip][0] * width + core.x for core in cores]
    y = [places[core.chip][1] * height + core.y for core in cores]
    return np.array(x, dtype=np.int64), np.array(y, dtype=np.int64)


def hops_from_host(x: Array, y: Array) -> Array:
    """Links from where host inputs enter to the tiles (x, y)."""
    return np.abs(x - HOST_TILE[0]) + np.abs(y - HOST_TILE[1])


def route_hops(a: CoreId, b: CoreId, chip: Chip) -> int:
    """Links of the X-Y path between two cores: 0 within a tile."""
    (x0, x1), (y0, y1) = tiles_of((a, b), chip)
    return int(abs(x0 - x1) + abs(y0 - y1))
