"""Sums of weights, compiled (numba): dense layers by tiles, sparse ones by blocks of steps.

Sources send spikes, 0 or 1. All sums are integers modulo a power of two, so they may be taken in any order and in any
width that holds the result: 16 bits where the weights prove that no sum is larger.
"""

from __future__ import annotations

import numpy as np

from nirbridge.arrays import Array
from nirbridge.network.operators import Dense, Sparse
from nirbridge.simulators.compiled.kernels.jit import jitted

TILE = 512
"""Targets of a tile: its weights stay in the cache near a core while the steps go by."""
LANES = 32
"""Steps that a sparse layer adds up at once."""
CROWDED = 0.04
"""Share of spikes above which blocks of steps are faster than one spike after the other."""


@jitted
def _list_row(row, places, count):
    """Appends the places of the ones of a row; their number now."""
    for j in range(row.shape[0]):
        places[count] = j  # kept only if it sends: no branch that has to be guessed
        count += row[j]
    return count


@jitted
def _list_spikes(history, depth, delays, ends, places):
    """Which sources arrive in each row (step and element of the batch): ``places[ends[row]:ends[row + 1]]``."""
    batch, count, arriving = history.shape[1], np.int64(0), np.zeros(history.shape[2], np.int8)
    for row in range(ends.shape[0] - 1):
        t, b = row // batch, row % batch
        ends[row] = count
        if delays.shape[0] == 1:
            count = _list_row(history[depth + t - delays[0], b], places, count)
            continue
        for j in range(delays.shape[0]):
            arriving[j] = history[depth + t - delays[j], b, j]
        count = _list_row(arriving, places, count)
    ends[ends.shape[0] - 1] = count


@jitted
def _add_tiles(ends, places, tiles, room, out):
    """``tiles: [tile, source, target of the tile]``, ``out: [row, target]``; ``room`` is for the sums of one tile."""
    width = tiles.shape[2]
    for k in range(tiles.shape[0]):
        w, first = tiles[k], k * width
        for row in range(out.shape[0]):
            e, last = ends[row], ends[row + 1]
            if e == last:
                continue
            for n in range(width):
                room[n] = 0
            while e + 4 <= last:
                w0, w1, w2, w3 = w[places[e]], w[places[e + 1]], w[places[e + 2]], w[places[e + 3]]
                for n in range(width):
                    room[n] += (w0[n] + w1[n]) + (w2[n] + w3[n])
                e += 4
            while e < last:
                w0 = w[places[e]]
                for n in range(width):
                    room[n] += w0[n]
                e += 1
            target_sums = out[row]
            for n in range(min(width, out.shape[1] - first)):
                target_sums[first + n] += room[n]


@jitted
def _fill(history, depth, delays, first, here, block):
    """``block: [source, step]``: the spikes that arrive in some rows from ``first`` on, then zeros."""
    batch = history.shape[1]
    block[:] = 0
    for lane in range(here):
        t, b = (first + lane) // batch, (first + lane) % batch
        for j in range(history.shape[2]):
            block[j, lane] = history[depth + t - delays[j], b, j]


@jitted
def _sum_lanes(e, last, places, weights, block, room):
    """The synapses ``e`` to ``last`` of one target, each multiplied by the spikes of its source in all time steps."""
    lanes = room.shape[0]
    for lane in range(lanes):
        room[lane] = 0
    while e + 4 <= last:
        w0, w1, w2, w3 = weights[e], weights[e + 1], weights[e + 2], weights[e + 3]
        s0, s1, s2, s3 = block[places[e]], block[places[e + 1]], block[places[e + 2]], block[places[e + 3]]
        for lane in range(lanes):
            room[lane] += (w0 * s0[lane] + w1 * s1[lane]) + (w2 * s2[lane] + w3 * s3[lane])
        e += 4
    while e < last:
        w0, s0 = weights[e], block[places[e]]
        for lane in range(lanes):
            room[lane] += w0 * s0[lane]
        e += 1


@jitted
def _add_blocks(history, depth, delays, ends, places, weights, block, room, out):
    """``out: [row, target]`` by blocks of rows (steps and elements of the batch)."""
    lanes = room.shape[0]
    for first in range(0, out.shape[0], lanes):
        here = min(lanes, out.shape[0] - first)
        _fill(history, depth, delays, first, here, block)
        for i in range(out.shape[1]):
            _sum_lanes(ends[i], ends[i + 1], places, weights, block, room)
            for lane in range(here):
                out[first + lane, i] += room[lane]


class TiledDense:
    """A dense operator, ``weight: [target, source]``, for spikes."""

    def __init__(self, weight: Array, delays: Array, kind: type) -> None:
        targets, sources = weight.shape
        width = min(TILE, -(-targets // 16) * 16)
        count = -(-targets // width)
        padded = np.zeros((sources, count * width), np.int16 if kind is np.int32 else np.int32)
        padded[:, :targets] = weight.T
        self.tiles = np.ascontiguousarray(padded.reshape(sources, count, width).transpose(1, 0, 2))
        self.sources, self.room = (
            sources,
            np.zeros(
                width, _holds(np.stack([np.maximum(weight, 0).sum(axis=1), np.minimum(weight, 0).sum(axis=1)]), kind)
            ),
        )
        self.delays = delays[:1] if np.all(delays == delays[0]) else delays

    def __call__(self, history: Array, depth: int, a_in: Array) -> None:
        """See ``FixedAccumulate``."""
        rows = a_in.shape[0] * a_in.shape[1]
        ends = np.empty(rows + 1, np.int64)
        places = np.empty(rows * self.sources + 1, np.int32)
        _list_spikes(history, depth, self.delays, ends, places)
        _add_tiles(ends, places, self.tiles, np.zeros_like(self.room), a_in.reshape(rows, -1))


class BlockSparse:
    """A sparse operator for many spikes in many steps."""

    def __init__(self, operator: Sparse, delays: Array, kind: type) -> None:
        self.lists = operator.indptr, operator.indices.astype(np.int32)
        self.weights = operator.data.astype(np.int16 if kind is np.int32 else np.int32)
        self.delays = delays
        rows = np.repeat(np.arange(len(operator.indptr) - 1), np.diff(operator.indptr))
        sums = np.zeros((2, len(operator.indptr) - 1), np.int64)
        np.add.at(sums[0], rows, np.maximum(operator.data, 0))
        np.add.at(sums[1], rows, np.minimum(operator.data, 0))
        self.kind = _holds(sums, kind)

    def pays(self, history: Array, depth: int, a_in: Array) -> bool:
        """True if there are enough time steps and spikes for this to be faster."""
        if a_in.shape[0] * a_in.shape[1] < LANES // 2:
            return False
        sent = history[depth - 1 : depth - 1 + len(a_in)]
        return bool(np.count_nonzero(sent) > CROWDED * sent.size)

    def __call__(self, history: Array, depth: int, a_in: Array) -> None:
        """See ``FixedAccumulate``."""
        block, room = np.zeros((history.shape[2], LANES), self.kind), np.zeros(LANES, self.kind)
        out = a_in.reshape(a_in.shape[0] * a_in.shape[1], -1)
        _add_blocks(history, depth, self.delays, *self.lists, self.weights, block, room, out)


def _holds(sums: Array, kind: type) -> type:
    """int16 where no target can get more; else the width of ``a_in``."""
    return np.int16 if kind is np.int32 and int(np.abs(sums).max(initial=0)) < 2**15 else kind


def fast_for_spikes(operator: object, delays: Array, kind: type) -> TiledDense | BlockSparse | None:
    """The kernel for spikes, of an operator whose weights already contain the exponent; None: there is none."""
    if isinstance(operator, Dense):
        return TiledDense(operator.weight, delays, kind)
    return BlockSparse(operator, delays, kind) if isinstance(operator, Sparse) else None
