"""Sums of weighted spikes in the order that semantics.py fixes, on any array library.

From 0, sources in ascending row-major index, each product rounded before it is added. BLAS keeps no such order, so
``@`` is never used on dense arrays. On numpy a dense or sparse operator is a product with a scipy matrix in compressed
rows, which adds the entries of a row one after the other; elsewhere sources are added one by one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import reduce
from itertools import product
from typing import Any

import numpy as np

from nirbridge.arrays import Array
from nirbridge.network.operators import Chain, Conv, Dense, Identity, Operator, Reshape, Scale, Sparse, SumPool
from nirbridge.simulators.reference.array_namespace import ArrayNamespace
from nirbridge.simulators.reference.semantics import Accumulate

SPARSE_SPIKES = 0.1
"""Share of spiking sources up to which a sparse operator is applied to those alone (the bits are the same)."""


def accumulate(operator: Operator, space: ArrayNamespace) -> Accumulate:
    """The ordered sums of one operator: ``[items, *input shape] -> [items, *output shape]``."""
    if isinstance(operator, Chain):
        return chained([accumulate(part, space) for part in operator.parts])
    if isinstance(operator, Identity):
        return lambda spikes: spikes + 0  # -0.0 becomes 0.0, as in a sum that starts at 0
    if isinstance(operator, Reshape):
        return lambda spikes: space.xp.reshape(spikes, (spikes.shape[0], *operator.output_shape)) + 0
    if isinstance(operator, Scale):
        scale = space.array(operator.scale)
        return lambda spikes: spikes * scale + 0
    if isinstance(operator, Dense):
        return _NumpyDenseSums(operator, space) if space.is_numpy else _OrderedDenseSums(operator, space)
    if isinstance(operator, Sparse):
        return _NumpySparseSums(operator, space) if space.is_numpy else _OrderedSparseSums(operator, space)
    return _WindowSums(operator, space)


def chained(parts: Sequence[Accumulate]) -> Accumulate:
    """The sums of the parts of a chain, one after the other."""
    return lambda spikes: reduce(lambda values, part: part(values), parts, spikes)


def _sending(spikes: Array) -> Any:
    """``[items, sources]`` as a scipy matrix of the senders, in ascending order within an item."""
    from scipy.sparse import csr_array

    nonzero = np.flatnonzero(spikes != 0)
    items, sources = np.divmod(nonzero, spikes.shape[1])
    ends = np.concatenate(([0], np.cumsum(np.bincount(items, minlength=len(spikes)))))
    return csr_array((spikes.reshape(-1)[nonzero], sources, ends), shape=spikes.shape)


class _NumpyDenseSums:
    """Senders times ``weight.T``: one row of weights is added per sender."""

    def __init__(self, operator: Dense, space: ArrayNamespace) -> None:
        self.weight = np.ascontiguousarray(space.array(operator.weight).T)

    def __call__(self, spikes: Array) -> Array:
        return _sending(np.ascontiguousarray(spikes)) @ self.weight


class _NumpySparseSums:
    def __init__(self, operator: Sparse, space: ArrayNamespace) -> None:
        from scipy.sparse import csr_array

        shape = (math.prod(operator.output_shape), math.prod(operator.input_shape))
        rows = csr_array((space.array(operator.data), operator.indices, operator.indptr), shape=shape)
        self.rows, self.columns, self.shape = rows, csr_array(rows.T.tocsr()), operator.output_shape

    def __call__(self, spikes: Array) -> Array:
        flat = np.ascontiguousarray(spikes).reshape(len(spikes), -1)
        if np.count_nonzero(flat) <= SPARSE_SPIKES * flat.size:
            out = (_sending(flat) @ self.columns).toarray()
        else:
            out = np.ascontiguousarray((self.rows @ np.ascontiguousarray(flat.T)).T)
        return out.reshape(len(flat), *self.shape)


class _OrderedDenseSums:
    """One source after the other; sources without spikes are skipped."""

    def __init__(self, operator: Dense, space: ArrayNamespace) -> None:
        self.space, self.weight = space, space.array(np.ascontiguousarray(operator.weight.T))

    def __call__(self, spikes: Any) -> Any:
        xp = self.space.xp
        out = self.space.full((spikes.shape[0], self.weight.shape[1]), 0.0)
        sends = self.space.numpy(xp.any(spikes != 0, axis=0))
        for source in map(int, np.flatnonzero(sends)):
            out = out + xp.expand_dims(spikes[:, source], axis=1) * self.weight[source, :]
        return out


class _OrderedSparseSums:
    """The first source of every target, then the second of every target …; short rows end in a weight of 0."""

    def __init__(self, operator: Sparse, space: ArrayNamespace) -> None:
        lengths = np.diff(operator.indptr)
        grid = (int(lengths.max(initial=0)), len(lengths))
        at = np.asarray(operator.indptr[:-1]) + np.arange(grid[0])[:, None]
        there = np.arange(grid[0])[:, None] < lengths
        sources, weights = np.zeros(grid, np.int64), np.zeros(grid)
        sources[there], weights[there] = operator.indices[at[there]], operator.data[at[there]]
        self.space, self.shape = space, operator.output_shape
        self.sources, self.weights = space.integers(sources), space.array(weights)

    def __call__(self, spikes: Any) -> Any:
        xp, items = self.space.xp, spikes.shape[0]
        flat = xp.reshape(spikes, (items, -1))
        out = self.space.full((items, self.sources.shape[1]), 0.0)
        for k in range(self.sources.shape[0]):
            out = out + xp.take(flat, self.sources[k, :], axis=1) * self.weights[k, :]
        return xp.reshape(out, (items, *self.shape))


class _WindowSums:
    """Convolutions and pools, tap by tap: input channel, then row, then column ascend, and so do the sources."""

    def __init__(self, operator: Conv | SumPool, space: ArrayNamespace) -> None:
        self.operator, self.space = operator, space
        self.groups = operator.groups if isinstance(operator, Conv) else operator.input_shape[0]
        self.own = operator.weight.shape[1] if isinstance(operator, Conv) else 1
        self.kernels = operator.output_shape[0] // self.groups
        self.weight = self._weights(operator) if isinstance(operator, Conv) else None
        self.factor = None if isinstance(operator, Conv) else float(space.coefficient(np.asarray(operator.factor)))

    def _weights(self, operator: Conv) -> Any:
        axes = len(operator.kernel)
        by_tap = np.moveaxis(operator.weight.reshape(self.groups, self.kernels, self.own, -1), (2, 3), (0, 1))
        return self.space.array(by_tap.reshape(*by_tap.shape, *(1,) * axes))

    def __call__(self, spikes: Any) -> Any:
        op, xp, items = self.operator, self.space.xp, spikes.shape[0]
        padded = xp.reshape(self._padded(spikes), (items, self.groups, self.own, *self._padded_shape()))
        out = self.space.full((items, self.groups, self.kernels, *op.output_shape[1:]), 0.0)
        taps = list(product(*(range(n) for n in op.kernel)))
        for channel in range(self.own):
            for number, tap in enumerate(taps):
                window = xp.expand_dims(padded[(slice(None), slice(None), channel, *self._span(tap))], axis=2)
                out = out + (window if self.weight is None else window * self.weight[channel, number, ...])
        if self.factor is not None and self.factor != 1.0:
            out = out * self.factor
        return xp.reshape(out, (items, *op.output_shape))

    def _padded_shape(self) -> tuple[int, ...]:
        op = self.operator
        return tuple(n + lo + hi for n, (lo, hi) in zip(op.input_shape[1:], op.padding, strict=True))

    def _padded(self, spikes: Any) -> Any:
        xp = self.space.xp
        for axis, (lo, hi) in enumerate(self.operator.padding, 2):
            sides = [spikes]
            for count, last in ((lo, False), (hi, True)):
                if count:
                    shape = (*spikes.shape[:axis], count, *spikes.shape[axis + 1 :])
                    sides.insert(len(sides) if last else 0, self.space.full(shape, 0.0))
            spikes = xp.concat(sides, axis=axis) if len(sides) > 1 else spikes
        return spikes

    def _span(self, tap: tuple[int, ...]) -> tuple[slice, ...]:
        op = self.operator
        steps = zip(tap, op.dilation, op.stride, op.output_shape[1:], strict=True)
        return tuple(slice(t * d, t * d + (n - 1) * s + 1, s) for t, d, s, n in steps)
