"""Evaluation of linear operators: ``apply`` to arrays, ``matrix`` as a sparse matrix where it is small."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import reduce
from typing import TYPE_CHECKING, Any

import numpy as np

from nirbridge.arrays import Array
from nirbridge.errors import ModelError
from nirbridge.network.compose import part_weights, parts_of
from nirbridge.network.operators import Chain, Conv, Dense, Identity, Operator, Part, Reshape, Scale, Sparse, SumPool

if TYPE_CHECKING:
    from scipy.sparse import csr_array

MATRIX_SYNAPSES_MAX = 5_000_000


def apply(operator: Operator, x: Array) -> Array:
    """``y = operator(x)`` for ``x: [..., *input_shape]``, y of the numpy result type of x and the weights.

    Bool and integer x are allowed. Convolutions and pools go tap by tap, no matrix is built.

    Raises:
        ModelError: the trailing shape of x is not the operator's input shape.
    """
    x = np.asarray(x)
    axes = len(operator.input_shape)
    if x.ndim < axes or x.shape[x.ndim - axes :] != operator.input_shape:
        found = f"an array of shape {x.shape}"
        raise ModelError.of("operator", found, f"it takes [..., {operator.input_shape}]", "reshape the array")
    batch = x.shape[: x.ndim - axes]
    y = x.reshape(-1, *operator.input_shape)
    for part in parts_of(operator):
        y = _APPLY[type(part)](part, y)
    return y.reshape((*batch, *operator.output_shape))


def _apply_sparse(operator: Sparse, x: Array) -> Array:
    flat = x.reshape(len(x), -1)
    out = np.zeros((len(x), len(operator.indptr) - 1), np.result_type(x, operator.data))
    rows = np.repeat(np.arange(out.shape[1]), np.diff(operator.indptr))
    for row, values in enumerate(flat):
        np.add.at(out[row], rows, values[operator.indices] * operator.data)
    return out.reshape(-1, *operator.output_shape)


def _padded(operator: Conv | SumPool, x: Array) -> Array:
    return np.pad(x, ((0, 0), (0, 0), *operator.padding)) if any(map(any, operator.padding)) else x


def _tap(operator: Conv | SumPool, x: Array, tap: tuple[int, ...]) -> Array:
    """Input of kernel element ``tap`` at every output position; ``x: [batch, channels, *padded spatial]``."""
    steps = zip(tap, operator.dilation, operator.stride, operator.output_shape[1:], strict=True)
    return x[(..., *(slice(t * d, t * d + (n - 1) * s + 1, s) for t, d, s, n in steps))]


def _apply_conv(operator: Conv, x: Array) -> Array:
    groups, spatial = operator.groups, operator.output_shape[1:]
    padded = _padded(operator, x)
    weight = operator.weight.reshape(groups, operator.weight.shape[0] // groups, *operator.weight.shape[1:])
    out = np.zeros((len(x), groups, weight.shape[1], math.prod(spatial)), np.result_type(x, weight))
    for tap in np.ndindex(*operator.kernel):
        taps = _tap(operator, padded, tap).reshape(len(x), groups, weight.shape[2], -1)
        out += weight[(..., *tap)] @ taps
    return out.reshape(-1, *operator.output_shape)


def _apply_pool(operator: SumPool, x: Array) -> Array:
    padded = _padded(operator, x)
    out = np.zeros((len(x), *operator.output_shape), np.result_type(x, np.float32))
    for tap in np.ndindex(*operator.kernel):
        out += _tap(operator, padded, tap)
    return out * np.asarray(operator.factor, out.dtype) if operator.factor != 1.0 else out


#: Each kind of operator but a Chain, on ``x: [batch, *input_shape]``.
_APPLY: Mapping[type[Operator], Callable[[Any, Array], Array]] = {
    Identity: lambda operator, x: x,
    Reshape: lambda operator, x: x.reshape(-1, *operator.output_shape),
    Scale: lambda operator, x: x * operator.scale,
    Dense: lambda operator, x: x @ operator.weight.T,
    Sparse: _apply_sparse,
    Conv: _apply_conv,
    SumPool: _apply_pool,
}


def matrix(operator: Operator, limit: int = MATRIX_SYNAPSES_MAX) -> csr_array:
    """The operator as ``scipy.sparse.csr_array [post, pre]`` on flat (row-major) indices, column indices ascending.

    Every synapse of the structure is stored, also those whose weight is 0 (or adds up to 0 along a chain).

    Raises:
        ModelError: more than ``limit`` synapses, in the whole or in a part of a chain.
    """
    if not isinstance(operator, Chain):
        weights = part_weights(operator)
        dtype = np.dtype(np.float64) if weights is None else weights.dtype
        return _values_on(*_entries(operator, limit), _shape(operator), dtype)
    parts = [matrix(part, limit) for part in operator.parts]
    pattern = reduce(lambda a, b: _product_within(b, a, limit), map(_ones, parts))
    values = reduce(lambda a, b: b @ a, parts)
    return _spread(values, pattern, _shape(operator)[1])


def _shape(operator: Operator) -> tuple[int, int]:
    return math.prod(operator.output_shape), math.prod(operator.input_shape)


def _values_on(rows: Array, columns: Array, data: Array, shape: tuple[int, int], dtype: Any) -> csr_array:
    from scipy import sparse

    order = np.lexsort((columns, rows))
    indptr = np.concatenate(([0], np.cumsum(np.bincount(rows, minlength=shape[0]))))
    return sparse.csr_array((data[order].astype(dtype), columns[order], indptr), shape=shape)


def _entries(operator: Part, limit: int) -> tuple[Array, Array, Array]:
    """(row, column, value) of every synapse of an operator that is no Chain."""
    _guard(synapse_bound(operator), limit)
    if isinstance(operator, Identity | Reshape | Scale):
        n = math.prod(operator.input_shape)
        scale = operator.scale.reshape(-1) if isinstance(operator, Scale) else np.ones(n)
        return np.arange(n), np.arange(n), scale
    if isinstance(operator, Dense):
        rows, columns = np.indices(operator.weight.shape)
        return rows.ravel(), columns.ravel(), operator.weight.ravel()
    if isinstance(operator, Sparse):
        rows = np.repeat(np.arange(len(operator.indptr) - 1), np.diff(operator.indptr))
        return rows, operator.indices, operator.data
    return _window_entries(operator)


def synapse_bound(operator: Operator) -> int:
    """Synapses of one operator, at the most; those of a convolution at the borders counted in full."""
    return operator.data.size if isinstance(operator, Sparse) else math.prod(operator.output_shape) * fan_in(operator)


def fan_in(part: Operator) -> int:
    """Largest number of synapses of one target; those at the borders of a convolution counted in full."""
    if isinstance(part, Sparse):
        return int(np.diff(part.indptr).max(initial=0))
    return math.prod(part.weight.shape[1:] if isinstance(part, Dense | Conv) else getattr(part, "kernel", ()))


def _guard(synapses: int, limit: int) -> None:
    if synapses > limit:
        found = f"up to {synapses:,} synapses"
        raise ModelError.of("operator", found, f"at most {limit:,} are listed as a matrix", "use apply instead")


def _window_entries(operator: Conv | SumPool) -> tuple[Array, Array, Array]:
    """Axes of the index grids: output channel, input channel of the group, output position …, tap …."""
    cin, spatial = operator.input_shape[0], len(operator.kernel)
    if isinstance(operator, Conv):
        cout, per_group = operator.weight.shape[:2]
        values = operator.weight.reshape(cout, per_group, *(1,) * spatial, *operator.kernel)
        start = np.arange(cout) // (cout // operator.groups) * per_group
    else:
        cout, per_group = cin, 1
        values = np.full((1,) * (2 + 2 * spatial), operator.factor)
        start = np.arange(cin)
    grid = (cout, per_group, *operator.output_shape[1:], *operator.kernel)
    row = _along(np.arange(cout), 0, len(grid))
    column = _along(start, 0, len(grid)) + _along(np.arange(per_group), 1, len(grid))
    inside = np.ones((1,) * len(grid), bool)
    for axis in range(spatial):
        n_in, n_out = operator.input_shape[1 + axis], operator.output_shape[1 + axis]
        out = _along(np.arange(n_out), 2 + axis, len(grid))
        tap = _along(np.arange(operator.kernel[axis]), 2 + spatial + axis, len(grid))
        position = out * operator.stride[axis] - operator.padding[axis][0] + tap * operator.dilation[axis]
        inside = inside & (position >= 0) & (position < n_in)
        row, column = row * n_out + out, column * n_in + position
    keep = np.broadcast_to(inside, grid)
    rows, columns, weights = (np.broadcast_to(a, grid)[keep] for a in (row, column, values))
    return rows, columns, weights


def _along(values: Array, axis: int, axes: int) -> Array:
    return values.reshape([len(values) if a == axis else 1 for a in range(axes)])


def _ones(values: csr_array) -> csr_array:
    from scipy import sparse

    ones = np.ones(len(values.indices), np.float64)
    return sparse.csr_array((ones, values.indices, values.indptr), shape=values.shape)  # its zeros too


def _product_within(second: csr_array, first: csr_array, limit: int) -> csr_array:
    from scipy import sparse

    _guard(int(np.diff(first.indptr)[second.indices].sum()), 100 * limit)
    product = sparse.csr_array(second @ first)
    _guard(len(product.indices), limit)
    return product


def _spread(values: csr_array, pattern: csr_array, width: int) -> csr_array:
    """The values on the full pattern: zero where the product of the values has dropped an entry."""
    from scipy import sparse

    pattern.sort_indices()
    values.sum_duplicates()
    keys = _flat_keys(pattern, width)
    data = np.zeros(len(keys), values.dtype)
    data[np.searchsorted(keys, _flat_keys(values, width))] = values.data
    shape = (len(pattern.indptr) - 1, width)
    return sparse.csr_array((data, pattern.indices, pattern.indptr), shape=shape)


def _flat_keys(rows: csr_array, width: int) -> Array:
    """Row * width + column of every stored entry; ascending where the columns are."""
    return np.repeat(np.arange(len(rows.indptr) - 1), np.diff(rows.indptr)) * width + rows.indices
