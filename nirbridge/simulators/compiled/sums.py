"""The ordered sums of an operator in the compiled backend, part by part; each part has a kernel or the reference's."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Literal

import numpy as np

from nirbridge.arrays import Array
from nirbridge.network.apply import matrix
from nirbridge.network.operators import Chain, Conv, Dense, Operator, Reshape, Sparse, SumPool
from nirbridge.simulators.compiled.dense_layer import DenseStage
from nirbridge.simulators.compiled.events import Signal, events_of
from nirbridge.simulators.compiled.kernels.conv import conv_tables, convolve, is_plain
from nirbridge.simulators.compiled.kernels.events import by_source, count_kernel, sparse_kernel
from nirbridge.simulators.compiled.kernels.simd import aligned_zeros
from nirbridge.simulators.reference.array_namespace import ArrayNamespace
from nirbridge.simulators.reference.sums import accumulate

Method = Literal["auto", "event", "dense"]
Stage = Callable[[Signal], Signal]
SYNAPSES_MAX = 2_000_000
"""Convolutions with groups or dilation become sparse matrices up to this many synapses, else the reference runs."""
_COUNTS_MAX = 255


class EventAccumulate:
    """The ordered sums of an operator, part by part (see ``semantics.Accumulate``)."""

    def __init__(self, operator: Operator, space: ArrayNamespace, method: Method, log: list[dict[str, Any]]) -> None:
        parts = operator.parts if isinstance(operator, Chain) else (operator,)
        self.dtype = np.dtype(space.float_name)
        self.stages = [_stage(part, space, method, log) for part in parts]
        self.shape = operator.output_shape

    def __call__(self, spikes: Any) -> Any:
        """``[items, *source shape] -> [items, *target shape]`` of the run's float type."""
        signal = Signal(spikes)
        for stage in self.stages:
            signal = stage(signal)
        return signal.real(self.dtype)


def _stage(op: Operator, space: ArrayNamespace, method: Method, log: list[dict[str, Any]]) -> Stage:
    entry: dict[str, Any] = {"operator": type(op).__name__, "kernel": "event"}
    log.append(entry)
    if isinstance(op, Reshape):
        entry["kernel"] = "none"
        return lambda s: Signal(s.values.reshape(len(s.values), *op.output_shape), s.counts, s.factor)
    if isinstance(op, Dense):
        return DenseStage(op, space, method, entry)
    if isinstance(op, Conv) and is_plain(op):
        return ConvStage(op, space)
    if isinstance(op, Sparse):
        return SparseStage(op, op.indptr, op.indices, op.data, space)
    if isinstance(op, Conv) and math.prod(op.output_shape) * math.prod(op.weight.shape[1:]) <= SYNAPSES_MAX:
        entry["kernel"] = "event, as a sparse matrix"
        rows = matrix(op, SYNAPSES_MAX)
        return SparseStage(op, rows.indptr, rows.indices, rows.data, space)
    if isinstance(op, SumPool) and is_partition(op):
        return PoolStage(op, space)
    entry["kernel"] = "reference" if isinstance(op, Conv | SumPool) else "elementwise"
    return _by_reference(op, space)


def _by_reference(op: Operator, space: ArrayNamespace) -> Stage:
    add_up, dtype = accumulate(op, space), np.dtype(space.float_name)
    return lambda s: Signal(add_up(s.real(dtype)))


class SparseStage:
    """A sparse matrix, stored by source."""

    def __init__(self, op: Operator, indptr: Array, indices: Array, data: Array, space: ArrayNamespace) -> None:
        self.dtype, self.shape = np.dtype(space.float_name), op.output_shape
        self.tables = by_source(indptr, indices, data, math.prod(op.input_shape), self.dtype)

    def __call__(self, signal: Signal) -> Signal:
        """The part's ordered sums."""
        items = len(signal.values)
        indptr, idx, val, valued = events_of(signal, self.dtype)
        out = np.empty((items, math.prod(self.shape)), self.dtype)
        sparse_kernel(valued)(indptr, idx, val, *self.tables, out)
        return Signal(out.reshape(items, *self.shape))


class ConvStage:
    """A plain convolution; its result is channels-last in memory (a view in the usual order of axes)."""

    def __init__(self, op: Conv, space: ArrayNamespace) -> None:
        self.dtype, self.shape = np.dtype(space.float_name), op.output_shape
        self.plan = conv_tables(op, self.dtype)

    def __call__(self, signal: Signal) -> Signal:
        """The part's ordered sums."""
        p, items = self.plan, len(signal.values)
        indptr, idx, val, valued = events_of(signal, self.dtype)
        out = np.empty((items, *p.shape[2:]), self.dtype)
        acc = aligned_zeros((p.sums,), self.dtype)
        convolve(indptr, idx, val, valued, p.reach, p.weights, p.runs, acc, p.shape, out)
        maps = out.reshape(items, *self.shape[1:], p.channels)[..., : self.shape[0]]
        return Signal(np.moveaxis(maps, -1, 1))


def is_partition(op: SumPool) -> bool:
    """True for a pool whose windows do not overlap and have at most 255 elements."""
    apart = all(k <= s for k, s in zip(op.kernel, op.stride, strict=True))
    return apart and math.prod(op.kernel) <= _COUNTS_MAX


class PoolStage:
    """A pool without overlap: whole counts per window, the factor applied where the counts are used."""

    def __init__(self, op: SumPool, space: ArrayNamespace) -> None:
        self.shape, self.dtype = op.output_shape, np.dtype(space.float_name)
        self.factor = float(self.dtype.type(op.factor))
        self.fallback = _by_reference(op, space)
        self.window = _windows(op)

    def __call__(self, signal: Signal) -> Signal:
        """The part's ordered sums."""
        if not signal.is_unit:
            return self.fallback(signal)
        items = len(signal.values)
        indptr, idx, _, _ = events_of(signal, self.dtype)
        out = np.zeros((items, math.prod(self.shape)), np.uint8)
        count_kernel(indptr, idx, None, self.window, out)
        return Signal(out.reshape(items, *self.shape), True, self.factor)


def _windows(op: SumPool) -> Array:
    """For each source the window that it is in, -1 for none."""
    grid = np.indices(op.input_shape)
    index, inside = grid[0], np.ones(op.input_shape, bool)
    for axis, n in enumerate(op.output_shape[1:]):
        place = grid[axis + 1] + op.padding[axis][0]
        window = place // op.stride[axis]
        inside &= (place % op.stride[axis] < op.kernel[axis]) & (window < n)
        index = index * n + window
    return np.where(inside, index, -1).reshape(-1).astype(np.int64)
