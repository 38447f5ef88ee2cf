"""Distinct target lists of the inputs along one axis, and how many inputs have each in a range of outputs.

Most inputs of a convolution have the same list, shifted. Lists are therefore classified once for the whole axis; for a
range, those inside it are counted, and only the few that its ends truncate are examined.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from nirbridge.arrays import Array
from nirbridge.partitioner.cost.axis import Axis
from nirbridge.partitioner.cost.connectivity import run_lengths

Patterns = tuple[tuple[tuple[int, ...], int, int], ...]
"""Along one axis: run lengths of the targets, how many inputs have them, and how many distinct taps among these."""
Key = tuple[tuple[int, ...], bytes]
"""Run lengths of a list, and its outputs (from the first on) and taps."""


@dataclass(frozen=True, slots=True, eq=False)
class AxisLists:
    """The lists of an axis whose inputs reach ranges in ascending order, by input that reaches anything.

    ``start, stop``: places in ``Axis.outs``; ``first, last``: outputs, both ascending; ``kind``: index into ``keys``.
    """

    start: Array
    stop: Array
    first: Array
    last: Array
    kind: Array
    keys: tuple[Key, ...]


def axis_lists(axis: Axis) -> AxisLists | None:
    """The lists of an axis; None where inputs do not reach ranges in ascending order (or all reach all)."""
    inputs = np.flatnonzero(np.diff(axis.indptr) > 0)
    if axis.full or len(inputs) == 0:
        return None
    start, stop = axis.indptr[inputs], axis.indptr[inputs + 1]
    first, last = axis.outs[start], axis.outs[stop - 1]
    if bool(np.any(np.diff(first) < 0) or np.any(np.diff(last) < 0)):
        return None
    kind, heads = _kinds(axis, start, stop, first)
    keys = tuple(_key(axis, slice(start[i], stop[i])) for i in heads)
    return AxisLists(start, stop, first, last, kind, keys)


def _kinds(axis: Axis, start: Array, stop: Array, first: Array) -> tuple[Array, Array]:
    """Per list a number that is equal for lists alike up to a shift, and the first list of each number."""
    length = stop - start
    owner = np.repeat(np.arange(len(start)), length)
    shifted = axis.outs - first[owner]
    mixed = (shifted.astype(np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    mixed ^= axis.taps.astype(np.uint64) * np.uint64(0xD6E8FEB86659FD93)
    mixed = (mixed ^ (mixed >> np.uint64(31))) * np.uint64(0xBF58476D1CE4E5B9)
    _, heads, kind = np.unique(np.add.reduceat(mixed, start), return_index=True, return_inverse=True)
    # a sum of mixed numbers can be the same for lists that differ: unlikely, so it is enough to notice it
    place = np.arange(len(owner)) - start[owner] + start[heads[kind]][owner]
    alike = bool(np.all(length == length[heads[kind]]))
    if not (alike and np.array_equal(shifted[place], shifted) and np.array_equal(axis.taps[place], axis.taps)):
        return np.arange(len(start)), np.arange(len(start))
    return kind.reshape(-1), heads


def _key(axis: Axis, places: slice | Array) -> Key:
    outs = axis.outs[places]
    runs = (len(outs),) if axis.contiguous else run_lengths(outs)
    return runs, (outs - outs[0]).tobytes() + axis.taps[places].tobytes()


def range_patterns(axis: Axis, lists: AxisLists | None, lo: int, hi: int) -> Patterns:
    """The patterns of the inputs that reach outputs ``[lo, hi)``; ``lists`` are ``axis_lists(axis)``."""
    if axis.full:
        inputs = int(axis.touched.sum())
        return (((hi - lo,), inputs, inputs),) if inputs else ()
    by_runs: dict[tuple[int, ...], tuple[int, set[bytes]]] = {}
    for (runs, taps), count in _one_by_one(axis, lo, hi) if lists is None else _counted(axis, lists, lo, hi):
        before, distinct = by_runs.get(runs, (0, set()))
        distinct.add(taps)
        by_runs[runs] = (before + count, distinct)
    return tuple((runs, n, len(distinct)) for runs, (n, distinct) in sorted(by_runs.items()))


def _one_by_one(axis: Axis, lo: int, hi: int) -> Iterator[tuple[Key, int]]:
    places, owner = axis.within(lo, hi)
    if len(owner) == 0:
        return
    heads = np.concatenate(([0], np.flatnonzero(np.diff(owner)) + 1, [len(owner)]))
    for a, b in pairwise(heads.tolist()):
        yield _key(axis, places[a:b]), 1


def _counted(axis: Axis, lists: AxisLists, lo: int, hi: int) -> Iterator[tuple[Key, int]]:
    begin, end = int(np.searchsorted(lists.last, lo)), int(np.searchsorted(lists.first, hi))
    inner, outer = int(np.searchsorted(lists.first, lo)), int(np.searchsorted(lists.last, hi))
    if inner >= outer:
        inner = outer = end
    counts = np.bincount(lists.kind[inner:outer], minlength=0)
    for kind in np.flatnonzero(counts).tolist():
        yield lists.keys[kind], int(counts[kind])
    for index in (*range(begin, min(inner, end)), *range(outer, end)):
        start, stop = int(lists.start[index]), int(lists.stop[index])
        a, b = np.searchsorted(axis.outs[start:stop], (lo, hi)).tolist()
        if a < b:  # an axis with gaps may reach past a range without reaching into it
            yield _key(axis, slice(start + a, start + b)), 1
