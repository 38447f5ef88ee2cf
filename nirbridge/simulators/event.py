"""The fast backend: compiled event-driven kernels behind the seam of step.py (numba, extra ``fast``).

Same bits as the reference. What it has no kernel for is added up by the reference, part by part; ``choices`` says so.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Literal

import numpy as np

from nirbridge.arrays import Array
from nirbridge.network.apply import matrix
from nirbridge.network.model import Population, Projection
from nirbridge.network.operators import Chain, Conv, Dense, Operator, Reshape, Sparse, SumPool
from nirbridge.simulators.arrays_api import Space
from nirbridge.simulators.event_conv import make_conv_layer
from nirbridge.simulators.event_dense import DenseStage, make_dense_layer
from nirbridge.simulators.event_loop import EventLoop, can_loop
from nirbridge.simulators.event_neurons import EventNeurons
from nirbridge.simulators.events import Signal, events_of, take_input
from nirbridge.simulators.kernels_conv import convolve, is_plain, plan_conv
from nirbridge.simulators.kernels_dense import aligned
from nirbridge.simulators.kernels_sparse import by_source, count_kernel, sparse_kernel
from nirbridge.simulators.step import Layer, Parts
from nirbridge.simulators.sums import accumulate

Method = Literal["auto", "event", "dense"]
LayerMaker = Callable[[Population, Projection, Space, Method, list[dict[str, Any]]], Layer | None]
"""Makes a layer of a population and its one projection and logs what it chose; None where it does not suit them."""
LAYERS: tuple[LayerMaker, ...] = (make_conv_layer, make_dense_layer)
"""Asked one after the other."""
SYNAPSES_MAX = 2_000_000
"""Convolutions with groups or dilation become sparse matrices up to so many synapses, else they are the reference's."""
_COUNTS_MAX = 255


def compiled_parts(space: Space, method: Method) -> Parts:
    """The compiled backend on numpy.

    ``method``: ``event`` never uses BLAS, ``dense`` uses it for every dense matrix (sums in no fixed order), ``auto``
    where it is exact and predicted to be quicker.
    """
    choices: dict[str, Any] = {}

    def note(projection: Projection, log: list[dict[str, Any]]) -> None:
        choices[f"{len(choices)}: {projection.source} -> {projection.target}"] = log

    def add_up(projection: Projection) -> Summed:
        log: list[dict[str, Any]] = []
        note(projection, log)
        return Summed(projection.operator, space, method, log)

    def loop(population: Population, own: Projection) -> EventLoop | None:
        if method == "dense" or not can_loop(population, own):
            return None
        note(own, [{"operator": type(own.operator).__name__, "kernel": "event, all steps in one call"}])
        return EventLoop(population, own, space)

    def layer(population: Population, projection: Projection) -> Layer | None:
        log: list[dict[str, Any]] = []
        for make in LAYERS:
            made = make(population, projection, space, method, log)
            if made is not None:
                note(projection, log)
                return made
        return None

    return Parts(
        space=space,
        accumulate=add_up,
        neurons=lambda population: EventNeurons(population, space),
        loop=loop,
        layer=layer,
        take_input=lambda values: take_input(values, space.float_name),
        choices=choices,
    )


class Summed:
    """The ordered sums of an operator, part by part (see ``step.Accumulate``)."""

    def __init__(self, operator: Operator, space: Space, method: Method, log: list[dict[str, Any]]) -> None:
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


Stage = Callable[[Signal], Signal]


def _stage(op: Operator, space: Space, method: Method, log: list[dict[str, Any]]) -> Stage:
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


def _by_reference(op: Operator, space: Space) -> Stage:
    add_up, dtype = accumulate(op, space), np.dtype(space.float_name)
    return lambda s: Signal(add_up(s.real(dtype)))


class SparseStage:
    """A sparse matrix, stored by source."""

    def __init__(self, op: Operator, indptr: Array, indices: Array, data: Array, space: Space) -> None:
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
    """A plain convolution; what comes out lies channels-last in memory (a view in the usual order of axes)."""

    def __init__(self, op: Conv, space: Space) -> None:
        self.dtype, self.shape = np.dtype(space.float_name), op.output_shape
        self.plan = plan_conv(op, self.dtype)

    def __call__(self, signal: Signal) -> Signal:
        """The part's ordered sums."""
        p, items = self.plan, len(signal.values)
        indptr, idx, val, valued = events_of(signal, self.dtype)
        out = np.empty((items, *p.shape[2:]), self.dtype)
        acc = aligned((p.sums,), self.dtype)
        convolve(indptr, idx, val, valued, p.reach, p.weights, p.runs, acc, p.shape, out)
        maps = out.reshape(items, *self.shape[1:], p.channels)[..., : self.shape[0]]
        return Signal(np.moveaxis(maps, -1, 1))


def is_partition(op: SumPool) -> bool:
    """True for a pool whose windows do not overlap and have at most 255 elements."""
    apart = all(k <= s for k, s in zip(op.kernel, op.stride, strict=True))
    return apart and math.prod(op.kernel) <= _COUNTS_MAX


class PoolStage:
    """A pool without overlap: whole counts per window, the factor kept apart until somebody multiplies."""

    def __init__(self, op: SumPool, space: Space) -> None:
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
    at, inside = grid[0], np.ones(op.input_shape, bool)
    for axis, n in enumerate(op.output_shape[1:]):
        place = grid[axis + 1] + op.padding[axis][0]
        window = place // op.stride[axis]
        inside &= (place % op.stride[axis] < op.kernel[axis]) & (window < n)
        at = at * n + window
    return np.where(inside, at, -1).reshape(-1).astype(np.int64)
