"""Connectivity of an operator in closed form, and its target lists: no matrix where it is a convolution or dense.

Three forms cover every operator. ``Separable``: the targets of a source are a product over axes (convolutions, pools
and chains of them; one-to-one). ``AllToAll``: every source that reaches anything reaches every target (dense).
``Explicit``: index lists, for the rest, where it is small enough.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import reduce
from itertools import pairwise
from typing import Any

import numpy as np
from scipy import sparse

from nirbridge._types import Box, Shape
from nirbridge.arrays import Array, distinct, rows_ascend
from nirbridge.errors import ModelError
from nirbridge.network.operators import Chain, Conv, Dense, Identity, Operator, Reshape, Scale, Sparse, SumPool
from nirbridge.partitioner.cost.axis import (
    Axis,
    axis_from_matrix,
    axis_matrix,
    axis_rows,
    composed,
    full_axis,
    identity_axis,
    outputs_touched,
    tap_numbers,
)

EXPLICIT_SYNAPSES_MAX = 30_000_000
"""Above this an operator that has neither closed form is refused rather than listed."""


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
    if isinstance(operator, Dense):
        return AllToAll(np.ones(math.prod(operator.input_shape), bool), operator.output_shape)
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
        axes = tuple(composed(a, b) for a, b in zip(form.axes, window.axes, strict=True))
        return Separable(axes), shape
    return _product(explicit(window, subject), explicit(form, subject), subject), shape


def _every_output_has_inputs(part: Conv | SumPool | Sparse | Chain) -> bool:
    """False where rows are empty, or windows lie in the padding alone."""
    if isinstance(part, Sparse):
        return bool(np.all(np.diff(part.indptr) > 0))
    assert isinstance(part, Conv | SumPool), "a Chain holds no Chain"
    return all(axis.full or bool(np.all(outputs_touched(axis))) for axis in _window_axes(part, 0))


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
        number = np.ones(len(tap), np.int64) if isinstance(part, SumPool) else tap_numbers(tap, level)
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
    matrix = reduce(lambda a, b: sparse.kron(a, b, format="csr"), [_ones(axis_matrix(a)) for a in form.axes])
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
    index = np.zeros(1, np.int64)
    for (inputs, _), length in zip(by_axis, form.source_shape, strict=True):
        index = np.add.outer(length * index, inputs).ravel()
    return index, reduce(np.multiply.outer, [counts for _, counts in by_axis]).ravel()


def source_marks(form: Connectivity) -> Array:
    """A bool for each source, False: for ``mark_sources``."""
    if isinstance(form, Separable):
        return np.zeros(math.prod(form.source_shape), bool)
    return np.zeros(form.n_sources if isinstance(form, Explicit) else len(form.touched), bool)


def mark_sources(form: Connectivity, box: Box, flat: Callable[[Box], Array], marks: Array) -> None:
    """Set the marks of the sources with a target in ``box``; ``flat`` as in ``sources_of``."""
    if isinstance(form, Separable):
        inputs = [a.inputs_of(lo, hi)[0] for a, (lo, hi) in zip(form.axes, box, strict=True)]
        if all(len(x) and x[-1] - x[0] + 1 == len(x) for x in inputs):  # a box of sources, as of most convolutions
            marks.reshape(form.source_shape)[tuple(slice(x[0], x[-1] + 1) for x in inputs)] = True
            return
    marks[sources_of(form, box, flat)[0]] = True


def run_lengths(outs: Array) -> tuple[int, ...]:
    """Lengths of the maximal runs of consecutive numbers in an ascending array."""
    cuts = np.flatnonzero(np.diff(outs) != 1) + 1
    return tuple(b - a for a, b in pairwise([0, *cuts.tolist(), len(outs)]))


# -- patterns ------------------------------------------------------------------------------------------------------
# Distinct target lists of the inputs along one axis, and how many inputs have each in a range of outputs.
#
# Most inputs of a convolution have the same list, shifted. Lists are therefore classified once for the whole axis; for
# a range, those inside it are counted, and only the few that its ends truncate are examined.


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


# -- listing -------------------------------------------------------------------------------------------------------
# Neurons of a box in the order of numbering, and every synapse into them.


def numbering_axes(shape: Shape) -> tuple[int, ...]:
    """Axes from the slowest to the fastest in the numbering of a slice: channels (axis 0) last."""
    return (*range(1, len(shape)), 0) if shape else ()


def flat_indices(shape: Shape, box: Box) -> Array:
    """Row-major flat indices of the neurons of a box, in the order in which a slice numbers them."""
    grids = np.ravel_multi_index(np.ix_(*[np.arange(a, b) for a, b in box]), shape)
    return np.transpose(grids, numbering_axes(shape)).ravel()


def input_channels(form: Separable, sources: Array) -> Array:
    """The input channel of each source (numbered channels last); a flat input is one channel."""
    return sources % form.axes[0].n_in if len(form.axes) > 1 else np.zeros_like(sources)


def box_lists(form: Separable | Explicit, box: Box, rows: Array) -> tuple[Array, Array, Array]:
    """(source, position in the box, tap) of every synapse into a box of targets ``rows``, in any order.

    A source is an opaque number here, the same in every box of one form; of several axes, channels last. Taps of
    index lists are 0.
    """
    if isinstance(form, Explicit):
        lengths = form.indptr[rows + 1] - form.indptr[rows]
        offset = np.arange(int(lengths.sum())) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        source = form.sources[np.repeat(form.indptr[rows], lengths) + offset]
        return source, np.repeat(np.arange(len(rows)), lengths), np.zeros(len(source), np.int64)
    flat = len(form.axes) == 1  # one channel: its only axis is a place
    source, position, tap = np.zeros(1, np.int64), np.zeros(1, np.int64), np.ones(1, np.int64)
    for a in numbering_axes(form.target_shape):
        own: Any = axis_rows(form.axes[a], *box[a], a + flat)
        outs = np.repeat(np.arange(own.shape[0]), np.diff(own.indptr))
        source = (source[:, None] * own.shape[1] + own.indices).reshape(-1)
        position = (position[:, None] * own.shape[0] + outs).reshape(-1)
        tap = (tap[:, None] * own.data).reshape(-1)
    return source, position, tap
