"""The relation of inputs and outputs along one axis, as lists, with numbers that are equal for equal kernel weights."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import cast

import numpy as np
from scipy import sparse

from nirbridge.arrays import Array, freeze

PLACE_LEVEL = 2**20
"""Level of the numbers of the first axis: no chain has as many parts."""
KNOWN_MAX = 128
"""Outputs of an axis up to which inputs are cached by their range: a search needs the same ones many times."""


@dataclass(frozen=True, slots=True, eq=False)
class Axis:
    """The relation along one axis: input i reaches outputs ``outs[indptr[i]:indptr[i + 1]]`` (ascending).

    ``taps`` holds, beside each output, a number that is equal for equal kernel weights along this axis. With ``full``
    every input of ``touched`` reaches every output and the lists are empty. ``contiguous``: each list is a range.
    ``by_output[output_ptr[o]:output_ptr[o + 1]]`` are the places in ``outs`` that hold output o. ``matrix`` caches
    the same relation as a matrix, ``known`` inputs by their range of outputs.
    """

    n_in: int
    n_out: int
    full: bool
    touched: Array
    indptr: Array
    outs: Array
    taps: Array
    contiguous: bool
    by_output: Array
    output_ptr: Array
    matrix: list[sparse.csr_array] = field(default_factory=list)
    known: dict[tuple[int, int], tuple[Array, Array]] = field(default_factory=dict)

    def within(self, start: int, stop: int) -> tuple[Array, Array]:
        """Places in ``outs`` whose outputs are in ``[start, stop)``, ascending, and the input of each."""
        places = np.sort(self.by_output[self.output_ptr[start] : self.output_ptr[stop]])
        return places, np.searchsorted(self.indptr, places, side="right") - 1

    def inputs_of(self, start: int, stop: int) -> tuple[Array, Array]:
        """The inputs that reach ``[start, stop)``, ascending, and how many outputs there each of them does."""
        if self.full:
            inputs = np.flatnonzero(self.touched)
            return inputs, np.full(len(inputs), stop - start, np.int64)
        found = self.known.get((start, stop))
        if found is None:
            inputs, counts = np.unique(self.within(start, stop)[1], return_counts=True)
            found = freeze(inputs), freeze(counts)
            if self.n_out <= KNOWN_MAX:
                self.known[start, stop] = found
        return found

    def counts(self, start: int, stop: int) -> Array:
        """Per input, how many outputs of ``[start, stop)`` it reaches: int64 [n_in]."""
        if self.full:
            return np.where(self.touched, stop - start, 0).astype(np.int64)
        inside = np.concatenate(([0], np.cumsum((self.outs >= start) & (self.outs < stop))))
        return inside[self.indptr[1:]] - inside[self.indptr[:-1]]


def full_axis(n_in: int, n_out: int, touched: Array | None = None) -> Axis:
    """Every input (of ``touched``) reaches every output."""
    none = np.zeros(0, np.int64)
    mask = np.ones(n_in, bool) if touched is None else touched
    return Axis(n_in, n_out, True, mask, np.zeros(n_in + 1, np.int64), none, none, True, none, np.zeros(1, np.int64))


def _listed_axis(n_in: int, n_out: int, indptr: Array, outs: Array, taps: Array, *, contiguous: bool) -> Axis:
    by_output = np.argsort(outs, kind="stable")
    output_ptr = np.concatenate(([0], np.cumsum(np.bincount(outs, minlength=n_out))))
    return Axis(n_in, n_out, False, np.diff(indptr) > 0, indptr, outs, taps, contiguous, by_output, output_ptr)


def axis_from_matrix(matrix: sparse.csr_array) -> Axis:
    """The relation whose ``matrix: [out, in]`` holds the tap numbers (structure counts, zeros too)."""
    columns = matrix.tocsc()
    columns.sort_indices()
    indptr, outs = columns.indptr.astype(np.int64), columns.indices.astype(np.int64)
    degree = np.diff(indptr)
    used = degree > 0
    span = np.zeros(len(degree), np.int64)
    span[used] = outs[indptr[1:][used] - 1] - outs[indptr[:-1][used]] + 1
    n_out, n_in = cast(tuple[int, int], matrix.shape)
    return _listed_axis(n_in, n_out, indptr, outs, columns.data, contiguous=bool(np.all(span == degree)))


def identity_axis(n: int) -> Axis:
    """Input i reaches output i."""
    index = np.arange(n, dtype=np.int64)
    return _listed_axis(n, n, np.arange(n + 1), index, np.ones(n, np.int64), contiguous=True)


def tap_numbers(tap: Array, level: int) -> Array:
    """A fixed odd 61-bit number per tap and level: sums over chains of different taps then differ.

    Without the level, tap 0 of a kernel after tap 2 of another would be taken for tap 2 after tap 0.
    """
    mixed = (tap.astype(np.uint64) + np.uint64(1 + (level << 32))) * np.uint64(0x9E3779B97F4A7C15)
    mixed ^= mixed >> np.uint64(29)
    mixed *= np.uint64(0xBF58476D1CE4E5B9)
    return (mixed >> np.uint64(3)).astype(np.int64) | 1


def composed(first: Axis, second: Axis) -> Axis:
    """The relation of the inputs of ``first`` with the outputs of ``second``, which takes the outputs of ``first``."""
    if first.full or second.full:
        touched = _reaching_axis(first, second)
        if second.full or bool(np.all(outputs_touched(second))):
            return full_axis(first.n_in, second.n_out, touched)
    return axis_from_matrix(sparse.csr_array(axis_matrix(second) @ axis_matrix(first)))


def _reaching_axis(first: Axis, second: Axis) -> Array:
    if first.full:
        return first.touched if second.touched.any() else np.zeros(first.n_in, bool)
    hits = second.touched[first.outs].astype(np.int64)
    total = np.concatenate(([0], np.cumsum(hits)))
    return total[first.indptr[1:]] > total[first.indptr[:-1]]


def outputs_touched(axis: Axis) -> Array:
    """True for each output of a list that an input reaches: bool [n_out]."""
    mask = np.zeros(axis.n_out, bool)
    mask[axis.outs] = True
    return mask


def axis_matrix(axis: Axis) -> sparse.csr_array:
    """[out, in] with the tap numbers (ones where full), made once."""
    if not axis.matrix:
        axis.matrix.append(_made_matrix(axis))
    return axis.matrix[0]


def _made_matrix(axis: Axis) -> sparse.csr_array:
    if axis.full:
        return sparse.csr_array(np.outer(np.ones(axis.n_out, np.int64), axis.touched.astype(np.int64)))
    return sparse.csc_array((axis.taps, axis.outs, axis.indptr), shape=(axis.n_out, axis.n_in)).tocsr()


def axis_rows(axis: Axis, start: int, stop: int, place: int) -> sparse.csr_array:
    """[stop - start, n_in]: a number for every output of the range and an input that reaches it.

    Products of the numbers over all axes are equal for equal kernel weights. ``place`` is that of the axis: weights of
    different output channels (place 0) are different, and row 0, column 1 of a kernel is not row 1, column 0.
    """
    rows = sparse.csr_array(axis_matrix(axis)[start:stop])
    taps = rows.data if place else np.repeat(np.arange(start, stop), np.diff(rows.indptr))
    return sparse.csr_array((tap_numbers(taps, PLACE_LEVEL + place), rows.indices, rows.indptr), shape=rows.shape)
