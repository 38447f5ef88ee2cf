"""Connectivity of an operator in closed form: no matrix where the operator is a convolution or dense.

Three forms cover every operator. ``Separable``: the targets of a source are a product over axes (convolutions, pools
and chains of them; one-to-one). ``AllToAll``: every source that reaches anything reaches every target (dense).
``Explicit``: index lists, for the rest, where it is small enough.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import reduce
from itertools import pairwise
from typing import cast

import numpy as np
from scipy import sparse

from nirbridge._types import Box, Shape
from nirbridge.arrays import Array, distinct, rows_ascend
from nirbridge.errors import ModelError
from nirbridge.network.operators import Chain, Conv, Dense, Identity, Operator, Reshape, Scale, Sparse, SumPool

PLACE_LEVEL = 2**20
"""Level of the numbers of the first axis: no chain has as many parts."""
EXPLICIT_SYNAPSES_MAX = 30_000_000
"""Above this an operator that has neither closed form is refused rather than listed."""


@dataclass(frozen=True, slots=True, eq=False)
class Axis:
    """The relation along one axis: input i reaches outputs ``outs[indptr[i]:indptr[i + 1]]`` (ascending).

    ``taps`` holds, beside each output, a number that is equal for equal kernel weights along this axis. With ``full``
    every input of ``touched`` reaches every output and the lists are empty. ``contiguous``: each list is a range.
    ``by_output[output_ptr[o]:output_ptr[o + 1]]`` are the places in ``outs`` that hold output o. ``matrix`` caches
    the same relation as a matrix.
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

    def within(self, start: int, stop: int) -> tuple[Array, Array]:
        """Places in ``outs`` whose outputs are in ``[start, stop)``, ascending, and the input of each."""
        places = np.sort(self.by_output[self.output_ptr[start] : self.output_ptr[stop]])
        return places, np.searchsorted(self.indptr, places, side="right") - 1

    def inputs_of(self, start: int, stop: int) -> tuple[Array, Array]:
        """The inputs that reach ``[start, stop)``, ascending, and how many outputs there each of them does."""
        if self.full:
            inputs = np.flatnonzero(self.touched)
            return inputs, np.full(len(inputs), stop - start, np.int64)
        return np.unique(self.within(start, stop)[1], return_counts=True)

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


@dataclass(frozen=True, slots=True, eq=False)
class Separable:
    """Targets of a source = product over ``axes`` (axis 0 is the channel where there are two or more)."""

    axes: tuple[Axis, ...]

    @property
    def source_shape(self) -> Shape:
        """Shape of the source."""
        return tuple(a.n_in for a in self.axes)

    @property
    def target_shape(self) -> Shape:
        """Shape of the target."""
        return tuple(a.n_out for a in self.axes)


@dataclass(frozen=True, slots=True, eq=False)
class AllToAll:
    """Every source of ``touched`` (bool, flat) reaches every target."""

    touched: Array
    target_shape: Shape


@dataclass(frozen=True, slots=True, eq=False)
class Explicit:
    """Index lists: target row ``t`` (flat, row-major) is reached by ``sources[indptr[t]:indptr[t + 1]]``."""

    indptr: Array
    sources: Array
    n_sources: int
    target_shape: Shape


Connectivity = Separable | AllToAll | Explicit


def connectivity(operator: Operator, subject: str = "operator") -> Connectivity:
    """The structure of an operator, in the cheapest exact form.

    Raises:
        ModelError: the operator has no closed form and more than ``EXPLICIT_SYNAPSES_MAX`` synapses.
    """
    parts = operator.parts if isinstance(operator, Chain) else (operator,)
    start: Connectivity = Separable(tuple(identity_axis(n) for n in operator.input_shape))
    state = (start, operator.input_shape)
    for level, part in enumerate(parts):
        state = _extend(state, part, subject, level)
    form, shape = state
    if form.target_shape == shape:
        return form
    if isinstance(form, AllToAll):
        return AllToAll(form.touched, shape)
    lists = explicit(form, subject)
    return Explicit(lists.indptr, lists.sources, lists.n_sources, shape)


def _extend(state: tuple[Connectivity, Shape], part: Operator, subject: str, level: int) -> tuple[Connectivity, Shape]:
    """The structure after one more part; the shape is the part's own (a Reshape changes only the shape)."""
    form, shape = state[0], part.output_shape
    if isinstance(part, Identity | Scale | Reshape):
        return form, shape
    if isinstance(part, Dense):
        return AllToAll(_reaching(form), shape), shape
    if isinstance(form, AllToAll) and _every_output_has_inputs(part):
        return AllToAll(form.touched, shape), shape
    if isinstance(part, Sparse):
        rows = Explicit(part.indptr.astype(np.int64), part.indices.astype(np.int64), math.prod(part.input_shape), shape)
        if level == 0 and rows_ascend(rows.indptr, rows.sources):
            _guard(len(rows.sources), subject)
            return rows, shape  # every row is ascending, without a source twice
        return _product(rows, explicit(form, subject), subject), shape
    assert isinstance(part, Conv | SumPool), "a Chain holds no Chain"
    window = Separable(_window_axes(part, level))
    if isinstance(form, Separable) and form.target_shape == part.input_shape:
        axes = tuple(_compose(a, b) for a, b in zip(form.axes, window.axes, strict=True))
        return Separable(axes), shape
    return _product(explicit(window, subject), explicit(form, subject), subject), shape


def _every_output_has_inputs(part: Conv | SumPool | Sparse | Chain) -> bool:
    """False where rows are empty, or windows lie in the padding alone."""
    if isinstance(part, Sparse):
        return bool(np.all(np.diff(part.indptr) > 0))
    assert isinstance(part, Conv | SumPool), "a Chain holds no Chain"
    return all(axis.full or bool(np.all(_outputs_touched(axis))) for axis in _window_axes(part, 0))


def _reaching(form: Connectivity) -> Array:
    """Flat mask of the sources that reach at least one target."""
    if isinstance(form, AllToAll):
        return form.touched
    if isinstance(form, Separable):
        return reduce(np.multiply.outer, [a.touched for a in form.axes]).ravel()
    mask = np.zeros(form.n_sources, bool)
    mask[form.sources] = True
    return mask


def _window_axes(part: Conv | SumPool, level: int) -> tuple[Axis, ...]:
    """The axes of a window; ``level``, its place in a chain, tells its kernel from the others of the chain."""
    channels = _channel_axis(part)
    spatial = []
    for axis, (n_in, n_out) in enumerate(zip(part.input_shape[1:], part.output_shape[1:], strict=True)):
        taps, low = part.kernel[axis], part.padding[axis][0]
        out = np.repeat(np.arange(n_out), taps)
        tap = np.tile(np.arange(taps), n_out)
        source = out * part.stride[axis] - low + part.dilation[axis] * tap
        keep = (source >= 0) & (source < n_in)
        number = np.ones(len(tap), np.int64) if isinstance(part, SumPool) else _tap_numbers(tap, level)
        spatial.append(
            axis_from_matrix(
                sparse.csr_array((number[keep], (out[keep], source[keep])), shape=(n_out, n_in), dtype=np.int64)
            )
        )
    return (channels, *spatial)


def _channel_axis(part: Conv | SumPool) -> Axis:
    if isinstance(part, SumPool):
        return identity_axis(part.input_shape[0])
    cin, cout, groups = part.input_shape[0], part.weight.shape[0], part.groups
    if groups == 1:
        return full_axis(cin, cout)
    block = np.ones((cout // groups, cin // groups), np.int64)
    return axis_from_matrix(sparse.csr_array(sparse.block_diag([block] * groups, format="csr", dtype=np.int64)))


def _tap_numbers(tap: Array, level: int) -> Array:
    """A fixed odd 61-bit number per tap and level: sums over chains of different taps then differ.

    Without the level, tap 0 of a kernel after tap 2 of another would be taken for tap 2 after tap 0.
    """
    mixed = (tap.astype(np.uint64) + np.uint64(1 + (level << 32))) * np.uint64(0x9E3779B97F4A7C15)
    mixed ^= mixed >> np.uint64(29)
    mixed *= np.uint64(0xBF58476D1CE4E5B9)
    return (mixed >> np.uint64(3)).astype(np.int64) | 1


def _compose(first: Axis, second: Axis) -> Axis:
    if first.full or second.full:
        touched = _reaching_axis(first, second)
        if second.full or bool(np.all(_outputs_touched(second))):
            return full_axis(first.n_in, second.n_out, touched)
    return axis_from_matrix(sparse.csr_array(_axis_matrix(second) @ _axis_matrix(first)))


def _reaching_axis(first: Axis, second: Axis) -> Array:
    if first.full:
        return first.touched if second.touched.any() else np.zeros(first.n_in, bool)
    hits = second.touched[first.outs].astype(np.int64)
    total = np.concatenate(([0], np.cumsum(hits)))
    return total[first.indptr[1:]] > total[first.indptr[:-1]]


def _outputs_touched(axis: Axis) -> Array:
    mask = np.zeros(axis.n_out, bool)
    mask[axis.outs] = True
    return mask


def _axis_matrix(axis: Axis) -> sparse.csr_array:
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
    rows = sparse.csr_array(_axis_matrix(axis)[start:stop])
    taps = rows.data if place else np.repeat(np.arange(start, stop), np.diff(rows.indptr))
    return sparse.csr_array((_tap_numbers(taps, PLACE_LEVEL + place), rows.indices, rows.indptr), shape=rows.shape)


def explicit(form: Connectivity, subject: str) -> Explicit:
    """The same structure as index lists.

    Raises:
        ModelError: more than ``EXPLICIT_SYNAPSES_MAX`` synapses.
    """
    if isinstance(form, Explicit):
        return form
    total = synapses(form)
    _guard(total, subject)
    if isinstance(form, AllToAll):
        sources, n_targets = np.flatnonzero(form.touched), math.prod(form.target_shape)
        indptr = np.arange(n_targets + 1, dtype=np.int64) * len(sources)
        return Explicit(indptr, np.tile(sources, n_targets), len(form.touched), form.target_shape)
    matrix = reduce(lambda a, b: sparse.kron(a, b, format="csr"), [_ones(_axis_matrix(a)) for a in form.axes])
    rows = sparse.csr_array(matrix)
    rows.sort_indices()
    return Explicit(
        rows.indptr.astype(np.int64), rows.indices.astype(np.int64), math.prod(form.source_shape), form.target_shape
    )


def _ones(matrix: sparse.csr_array) -> sparse.csr_array:
    matrix = matrix.tocsr()
    return sparse.csr_array((np.ones(len(matrix.indices), np.int8), matrix.indices, matrix.indptr), shape=matrix.shape)


def _product(second: Explicit, first: Explicit, subject: str) -> Explicit:
    a, b = _explicit_matrix(second), _explicit_matrix(first)
    degree = np.diff(b.indptr)
    _guard(int(degree[a.indices].sum()), subject)
    c = sparse.csr_array(a @ b).sorted_indices()
    return Explicit(c.indptr.astype(np.int64), c.indices.astype(np.int64), first.n_sources, second.target_shape)


def _explicit_matrix(lists: Explicit) -> sparse.csr_array:
    shape = (len(lists.indptr) - 1, lists.n_sources)
    return sparse.csr_array((np.ones(len(lists.sources), np.int64), lists.sources, lists.indptr), shape=shape)


def _guard(total: int, subject: str) -> None:
    if total > EXPLICIT_SYNAPSES_MAX:
        raise ModelError.of(
            subject,
            f"{total:,} synapses without a closed form",
            f"at most {EXPLICIT_SYNAPSES_MAX:,} are listed one by one",
            "keep the neurons in the shape of the convolution (put the Flatten after them)",
        )


def synapses(form: Connectivity) -> int:
    """Number of synapses (pairs of source and target)."""
    if isinstance(form, AllToAll):
        return int(form.touched.sum()) * math.prod(form.target_shape)
    if isinstance(form, Explicit):
        return len(form.sources)
    return math.prod(int(a.touched.sum()) * a.n_out if a.full else len(a.outs) for a in form.axes)


def out_degrees(form: Connectivity) -> Array:
    """Number of targets of each source: int64, flat."""
    if isinstance(form, AllToAll):
        return np.where(form.touched, math.prod(form.target_shape), 0).astype(np.int64)
    if isinstance(form, Explicit):
        return np.bincount(form.sources, minlength=form.n_sources).astype(np.int64)
    return reduce(np.multiply.outer, [a.counts(0, a.n_out) for a in form.axes]).ravel()


def sources_of(form: Connectivity, box: Box, flat: Callable[[Box], Array]) -> tuple[Array, Array]:
    """The sources with a target in ``box`` (flat indices, ascending) and how many targets each has there.

    ``flat`` gives the row-major flat indices of a box of the target.
    """
    if isinstance(form, AllToAll):
        index = np.flatnonzero(form.touched)
        return index, np.full(len(index), math.prod(b - a for a, b in box), np.int64)
    if isinstance(form, Explicit):
        rows = flat(box)
        many = form.indptr[rows + 1] - form.indptr[rows]
        entries = np.arange(many.sum()) + np.repeat(form.indptr[rows] - np.cumsum(many) + many, many)
        return distinct(form.sources[entries], form.n_sources)
    by_axis = [a.inputs_of(lo, hi) for a, (lo, hi) in zip(form.axes, box, strict=True)]
    index = np.ravel_multi_index(np.ix_(*[inputs for inputs, _ in by_axis]), form.source_shape).ravel()
    return index, reduce(np.multiply.outer, [counts for _, counts in by_axis]).ravel()


def run_lengths(outs: Array) -> tuple[int, ...]:
    """Lengths of the maximal runs of consecutive numbers in an ascending array."""
    cuts = np.flatnonzero(np.diff(outs) != 1) + 1
    return tuple(b - a for a, b in pairwise([0, *cuts.tolist(), len(outs)]))
