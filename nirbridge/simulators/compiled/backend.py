"""The fast backend: compiled event-driven kernels (numba).

Same bits as the reference, which computes the sums of operators without a kernel; ``choices`` lists them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from nirbridge.network.compose import parts_of
from nirbridge.network.model import Population, Projection
from nirbridge.network.operators import Conv, Dense, Reshape, SumPool
from nirbridge.simulators.compiled.dense_layer import (
    DenseLayer,
    DenseStage,
    SelfRecurrentLayer,
    is_self_recurrent,
    make_dense_layer,
)
from nirbridge.simulators.compiled.events import take_input
from nirbridge.simulators.compiled.feature_map import EventSource, FeatureMapLayout
from nirbridge.simulators.compiled.kernels.conv import conv_tables, is_plain
from nirbridge.simulators.compiled.kernels.conv_events import BITS, PAIRS
from nirbridge.simulators.compiled.kernels.conv_layer import conv_layer as run_conv
from nirbridge.simulators.compiled.kernels.conv_layer import list_steps
from nirbridge.simulators.compiled.kernels.simd import aligned_zeros
from nirbridge.simulators.compiled.neurons import EventNeurons, NeuronBuffers, aligned_empty
from nirbridge.simulators.compiled.sums import EventAccumulate, Method
from nirbridge.simulators.reference.array_namespace import ArrayNamespace
from nirbridge.simulators.reference.semantics import Backend, Layer, LayerOutput, NeuronState

# -- conv layer ----------------------------------------------------------------------------------------------------
# Compiled layers of a population after a convolution, or after a pool or feature map and a dense matrix.
#
# See ``semantics.Layer``. Spikes of a feature map pass between layers channels-last; the engine gets a view
# of that memory in the usual order of axes.


def make_conv_layer(
    population: Population, projection: Projection, space: ArrayNamespace, method: Method, log: list[dict[str, Any]]
) -> Layer | None:
    """The layer of a population after [a pool and] a plain convolution, or after a flattened map and a dense matrix.

    None for anything else.
    """
    parts = parts_of(projection.operator)
    pool = parts[0] if isinstance(parts[0], SumPool) else None
    if pool is not None and not can_pool(pool):
        return None
    rest = parts if pool is None else parts[1:]
    slow = FallbackLayer(population, projection, space, method)
    entries = [{"operator": type(part).__name__, "kernel": "event"} for part in parts]
    if len(rest) == 1 and isinstance(rest[0], Conv) and is_plain(rest[0]):
        log += entries
        return ConvLayer(population, projection, pool, rest[0], space, slow)
    if method == "dense" or len(rest) != 2 or not isinstance(rest[0], Reshape) or not isinstance(rest[1], Dense):
        return None
    entries[-2]["kernel"] = "none"
    if pool is None:
        if len(rest[0].input_shape) not in (2, 3):
            return None
        usual = make_dense_layer(population, projection, space, method, log)
        return None if usual is None else DenseAfterMap(population, projection, pool, rest[1], space, usual)
    log += entries
    return DenseAfterMap(population, projection, pool, rest[1], space, slow)


def can_pool(pool: SumPool) -> bool:
    """True for pools over one or two axes with windows of at most 255 elements."""
    return len(pool.kernel) <= 2 and math.prod(pool.kernel) <= 255


class FallbackLayer:
    """Sums and neurons one after the other, where the layer has no kernel (graded sources, say)."""

    def __init__(self, population: Population, projection: Projection, space: ArrayNamespace, method: Method) -> None:
        self.of = population, projection, space, method
        self.made: tuple[Any, Any, Any] | None = None

    def run(self, spikes: Any, state: NeuronState, requested: frozenset[str]) -> LayerOutput:
        """See ``semantics.Layer``."""
        population, projection, space, method = self.of
        if self.made is None:
            bias = None if projection.bias is None else space.array(projection.bias)
            sums = EventAccumulate(projection.operator, space, method, [])
            self.made = sums, bias, EventNeurons(population, space)
        sums, bias, neurons = self.made
        lead = spikes.shape[:2]
        current = sums(spikes.reshape(lead[0] * lead[1], *spikes.shape[2:])).reshape(*lead, *population.shape)
        return neurons.run(current if bias is None else current + bias, state, requested)


class ConvLayer:
    """See ``semantics.Layer``."""

    def __init__(
        self,
        population: Population,
        projection: Projection,
        pool: SumPool | None,
        op: Conv,
        space: ArrayNamespace,
        slow: FallbackLayer,
    ) -> None:
        self.dtype, self.slow = np.dtype(space.float_name), slow
        layout = FeatureMapLayout(population.shape)
        self.cells = NeuronBuffers(population, self.dtype, layout)
        bias = None if projection.bias is None else np.broadcast_to(projection.bias, population.shape)
        self.bias = np.zeros(0, self.dtype) if bias is None else layout.one(bias).astype(self.dtype)
        self.source = EventSource(projection.operator.input_shape, pool, op.input_shape, self.dtype)
        self.plan = conv_tables(op, self.dtype)
        self.last = np.ascontiguousarray(self.plan.reach[self.source.layout.names()])

    def run(self, spikes: Any, state: NeuronState, requested: frozenset[str]) -> LayerOutput:
        """See ``semantics.Layer.run``."""
        if spikes.dtype != np.uint8:
            return self.slow.run(spikes, state, requested)
        p, c, lead = self.plan, self.cells, spikes.shape[:2]
        flags, buffers, (source, is_plain_order) = c.flags(requested), c.opened(state), self.source.of(spikes)
        packs = c.packs(flags, requested)
        sent, trace_rows = c.outputs(lead[0], lead[1], flags, packs)
        x, u = aligned_empty(2 * c.width, self.dtype).reshape(2, c.width)
        memory = (*self.source.room(), aligned_zeros((p.sums,), self.dtype), x, u)
        run_conv(
            lead, source, self.source.scratch(), memory, p.weights, p.reach if is_plain_order else self.last, p.runs,
            p.shape, self.bias, buffers, c.is_shared, c.steps, c.coefficients, c.coef_offsets, flags, packs, sent,
            trace_rows,
        )  # fmt: skip
        return c.output(lead, sent, trace_rows, c.closed(state, buffers), requested, packs)


class DenseAfterMap:
    """A dense matrix after a map of spikes, pooled or not (see ``semantics.Layer``)."""

    def __init__(
        self,
        population: Population,
        projection: Projection,
        pool: SumPool | None,
        op: Dense,
        space: ArrayNamespace,
        slow: Layer,
    ) -> None:
        before = projection.operator.input_shape
        pooled = before if pool is None else pool.output_shape
        self.dtype, self.slow, self.pool = np.dtype(space.float_name), slow, pool
        self.source = EventSource(before, pool, pooled, self.dtype)
        weight = op.weight[:, self.source.layout.names()]  # nothing is sent from the filling
        stage = DenseStage(Dense(weight), space, "event", {})
        self.layer = DenseLayer(stage, population, projection, space)

    def run(self, spikes: Any, state: NeuronState, requested: frozenset[str]) -> LayerOutput:
        """See ``semantics.Layer.run``."""
        if spikes.dtype != np.uint8:
            return self.slow.run(spikes, state, requested)
        source, is_plain_order = self.source.of(spikes)
        if is_plain_order:
            return self.slow.run(spikes, state, requested)
        items = spikes.shape[0] * spikes.shape[1]
        capacity = self.source.most(_spikes(source), items)
        indptr, idx = np.empty(items + 1, np.int64), np.empty(capacity + 1, np.uint32)
        val = np.empty(capacity + 1, self.dtype)
        list_steps(source, self.source.scratch(), spikes.shape[1], indptr, idx, val)
        events = indptr, idx, val, self.pool is not None
        return self.layer.through(events, spikes.shape[:2], state, requested)


def _spikes(source: tuple[Any, ...]) -> int:
    """Number of spikes in a source of ``EventSource.of``."""
    if source[0] in (BITS, PAIRS):
        return int(np.bitwise_count(source[2]).sum())
    return int(np.count_nonzero(source[1].view(np.bool_)))


LayerMaker = Callable[[Population, Projection, ArrayNamespace, Method, list[dict[str, Any]]], Layer | None]
"""Makes a layer of a population and its one projection and logs what it chose; None where it does not suit them."""
LAYERS: tuple[LayerMaker, ...] = (make_conv_layer, make_dense_layer)
"""Tried in this order."""


def compiled_backend(space: ArrayNamespace, method: Method) -> Backend:
    """The compiled backend on numpy.

    ``method``: ``event`` never uses BLAS, ``dense`` uses it for every dense matrix (sums in no fixed order), ``auto``
    where it is exact and predicted to be quicker.
    """
    choices: dict[str, Any] = {}

    def note(projection: Projection, log: list[dict[str, Any]]) -> None:
        choices[f"{len(choices)}: {projection.source} -> {projection.target}"] = log

    def add_up(projection: Projection) -> EventAccumulate:
        log: list[dict[str, Any]] = []
        note(projection, log)
        return EventAccumulate(projection.operator, space, method, log)

    def loop(population: Population, projection: Projection) -> SelfRecurrentLayer | None:
        if method == "dense" or not is_self_recurrent(population, projection):
            return None
        note(projection, [{"operator": type(projection.operator).__name__, "kernel": "event, all steps in one call"}])
        return SelfRecurrentLayer(population, projection, space)

    def layer(population: Population, projection: Projection) -> Layer | None:
        log: list[dict[str, Any]] = []
        for make in LAYERS:
            candidate = make(population, projection, space, method, log)
            if candidate is not None:
                note(projection, log)
                return candidate
        return None

    return Backend(
        space=space,
        accumulate=add_up,
        neurons=lambda population: EventNeurons(population, space),
        loop=loop,
        layer=layer,
        take_input=lambda values: take_input(values, space.float_name),
        choices=choices,
    )
