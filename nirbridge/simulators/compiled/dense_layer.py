"""Dense matrices of the compiled backend: sums alone, layers with their neurons, and self-recurrent populations."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from nirbridge.arrays import Array
from nirbridge.network.model import Population, Projection
from nirbridge.network.operators import Chain, Dense, Identity, Operator, Reshape, Sparse
from nirbridge.simulators.compiled.events import Signal, events_of
from nirbridge.simulators.compiled.feature_map import FlatLayout
from nirbridge.simulators.compiled.kernels.events import by_source
from nirbridge.simulators.compiled.kernels.layer import dense_layer, dense_sums, run_loop
from nirbridge.simulators.compiled.kernels.simd import block_of, lanes_of, pack_weights
from nirbridge.simulators.compiled.neurons import EventNeurons, NeuronBuffers
from nirbridge.simulators.reference.array_namespace import ArrayNamespace
from nirbridge.simulators.reference.semantics import LayerOutput, NeuronState
from nirbridge.simulators.threads import is_first_part

WORTH = 0.75
"""A product must be predicted to take this share of the time of the events: its sums are written and read again."""

EVENTS = 2**17
"""Events that stay in a cache of 1 MiB together with a block of weights."""


class DenseStage:
    """A dense matrix, event by event or as one product."""

    def __init__(self, op: Dense, space: ArrayNamespace, method: str, entry: dict[str, Any]) -> None:
        self.posts, self.pre = op.weight.shape
        self.dtype, self.method, self.entry = np.dtype(space.float_name), method, entry
        weight = np.asarray(op.weight, self.dtype)
        self.block = block_of(self.posts, self.dtype)
        self.vectors = self.block // lanes_of(self.dtype)
        self.packed = pack_weights(weight, self.block, self.dtype).reshape(-1)
        self.bound = exact_bound(weight) if method == "auto" else math.inf
        self.weight = weight.T if self.bound >= 1 and method != "event" else None
        self.padded = self.packed.size // self.pre
        self.costs = -1, 0.0, 0.0, 0.0  # items, then costs: of the product, without events, per event

    def __call__(self, signal: Signal) -> Signal:
        """The part's ordered sums."""
        if self.by_product(signal):
            return Signal(signal.real(self.dtype) @ self.weight)
        indptr, idx, val, valued = events_of(signal, self.dtype)
        out = np.empty((signal.items, self.posts), self.dtype)
        dense_sums(indptr, idx, val, int(valued), self.packed, self.pre, self.vectors, out)
        return Signal(out)

    def by_product(self, signal: Signal) -> bool:
        """True where one product is requested, or exact and predicted to be quicker; the choice is logged."""
        is_product = self.weight is not None and self._by_product(signal, signal.items)
        if is_first_part():
            self.entry["kernel"] = "product" if is_product else "event"
        return is_product

    def _by_product(self, signal: Signal, items: int) -> bool:
        if self.method == "dense":
            return True
        if not signal.is_whole or signal.most() > self.bound:
            return False
        costs = self.costs
        if costs[0] != items:
            quick = product_ns(items, self.pre, self.posts) / WORTH
            self.costs = costs = items, quick, *event_coefficients(items, self.pre, self.padded)
        _, quick, fixed, each = costs
        return quick < fixed + signal.values.size * each and quick < fixed + signal.events() * each


class DenseLayer:
    """A population after one dense matrix (see ``semantics.Layer``)."""

    def __init__(
        self, stage: DenseStage, population: Population, projection: Projection, space: ArrayNamespace
    ) -> None:
        self.stage, self.shape, self.dtype = stage, population.shape, stage.dtype
        bias = np.zeros(0) if projection.bias is None else np.broadcast_to(projection.bias, population.shape)
        self.bias = np.ascontiguousarray(bias, self.dtype).reshape(-1)
        self.neurons = EventNeurons(population, space)
        self.cells = NeuronBuffers(population, self.dtype, FlatLayout(population.shape), stage.padded)

    def run(self, spikes: Any, state: NeuronState, requested: frozenset[str]) -> LayerOutput:
        """See ``semantics.Layer.run``."""
        steps, batch = spikes.shape[:2]
        signal = Signal(spikes.reshape(steps, batch, self.stage.pre), lead=2)
        shape = (steps, batch, *self.shape)
        if self.stage.by_product(signal):
            return self.neurons.run(self._product(signal).reshape(shape), state, requested)
        return self.through(events_of(signal, self.dtype), (steps, batch), state, requested)

    def through(
        self,
        events: tuple[Array, Array, Array, bool],
        lead: tuple[int, int],
        state: NeuronState,
        requested: frozenset[str],
    ) -> LayerOutput:
        """The layer from lists of events on (see ``events_of``), of ``lead`` steps and samples."""
        (indptr, idx, val, valued), stage, c = events, self.stage, self.cells
        flags, opened = c.flags(requested), c.opened(state)
        places = lead[1], c.layout.size, stage.pre, stage.vectors, lead[1] * self._stretch(lead[0], int(indptr[-1]))
        sent, trace_rows = c.outputs(*lead, flags)
        dense_layer(
            indptr, idx, val, int(valued), stage.packed, places, self.bias, *opened, c.steps, c.coefficients,
            c.coef_offsets, flags,
            sent, trace_rows,
        )  # fmt: skip
        return c.output(lead, sent, trace_rows, c.closed(state, opened), requested)

    def _stretch(self, steps: int, events: int) -> int:
        """Time steps whose events stay in the cache while every block of weights passes.

        The weights of a block that are more are better read once.
        """
        stays = self.stage.pre * self.stage.block < EVENTS
        return max(1, steps * EVENTS // max(1, events)) if stays and events > EVENTS else max(1, steps)

    def _product(self, signal: Signal) -> Array:
        drive = signal.real(self.dtype).reshape(signal.items, self.stage.pre) @ self.stage.weight
        return drive + self.bias if len(self.bias) else drive


def make_dense_layer(
    population: Population, projection: Projection, space: ArrayNamespace, method: str, log: list[dict[str, Any]]
) -> DenseLayer | None:
    """The layer after a dense matrix; None where anything but reshaping comes before or after the matrix."""
    op: Operator = projection.operator
    parts = op.parts if isinstance(op, Chain) else (op,)
    dense = [part for part in parts if isinstance(part, Dense)]
    if len(dense) != 1 or not all(isinstance(part, Dense | Reshape | Identity) for part in parts):
        return None
    log += [{"operator": type(part).__name__, "kernel": "none"} for part in parts]
    entry = log[[part is dense[0] for part in parts].index(True)]
    return DenseLayer(DenseStage(dense[0], space, method, entry), population, projection, space)


def is_self_recurrent(population: Population, projection: Projection) -> bool:
    """True for neurons that send 0 or 1 through a dense or sparse matrix, one step later."""
    n, late = population.neuron, bool(np.any(projection.target_delay_steps != 0))
    plain = n.fires and n.max_spikes == 1 and isinstance(projection.operator, Dense | Sparse)
    return plain and not late and bool(np.all(projection.delay_steps == 1))


class SelfRecurrentLayer:
    """See ``semantics.Loop``; for those that ``is_self_recurrent``."""

    def __init__(self, population: Population, own: Projection, space: ArrayNamespace) -> None:
        self.dtype = np.dtype(space.float_name)
        self.own, self.vectors = _tables(own.operator, self.dtype)
        block = max(1, self.vectors) * lanes_of(self.dtype)
        width = -(-population.size // block) * block
        self.cells = NeuronBuffers(population, self.dtype, FlatLayout(population.shape), width)
        self.nothing = np.zeros(0, self.dtype)
        self.bias = self.nothing
        if own.bias is not None:
            self.bias = np.ascontiguousarray(np.broadcast_to(own.bias, population.shape), self.dtype).reshape(-1)

    def run(
        self, steps: int, currents: tuple[Any, Any], past: Any, state: NeuronState, requested: frozenset[str]
    ) -> LayerOutput:
        """See ``semantics.Loop.run``."""
        c, batch = self.cells, len(past)
        flags, opened = c.flags(requested), c.opened(state)
        sent, trace_rows = c.outputs(steps, batch, flags)
        before, after = (self.nothing if x is None else np.ascontiguousarray(x).reshape(-1) for x in currents)
        shape = batch, c.layout.size, self.vectors, c.width
        spikes = np.ascontiguousarray(past, np.uint8).reshape(-1)
        run_loop(
            self.own, shape, spikes, before, after, self.bias, *opened, c.coefficients, c.coef_offsets, c.steps, flags,
            sent, trace_rows
        )  # fmt: skip
        return c.output((steps, batch), sent, trace_rows, c.closed(state, opened), requested)


def _tables(op: Operator, dtype: np.dtype[Any]) -> tuple[tuple[Array, Array, Array, Array], int]:
    """The matrix as the kernel takes it, and the vectors per block (0: sparse)."""
    if isinstance(op, Sparse):
        return (np.zeros(0, dtype), *by_source(op.indptr, op.indices, op.data, len(op.indptr) - 1, dtype)), 0
    if not isinstance(op, Dense):
        raise TypeError("neither dense nor sparse")
    block = block_of(len(op.weight), dtype)
    weights = pack_weights(np.asarray(op.weight, dtype), block, dtype).reshape(-1)
    return (weights, np.zeros(1, np.int64), np.zeros(1, np.uint16), np.zeros(1, dtype)), block // lanes_of(dtype)


# -- cost model ----------------------------------------------------------------------------------------------------
# Which way to multiply spikes with a dense matrix: event by event, or one product over all items (BLAS).
#
# BLAS keeps no order of sums, so it is only used where every sum is exact in any order: weights on a grid of a power of
# two and sums that the float type holds, or where the caller asks for it. Coefficients in nanoseconds were fitted to 64
# measured points (8 shapes, 2 item counts, 4 densities) on one core of a 2024 server; only their ratios matter. At 58
# of the 64 the quicker way was chosen, and all of them together took 0.5 % longer than the best choice would have.

_BITS = {"float32": 24, "float64": 53}
_FINEST = 40


def event_coefficients(items: int, pre: int, post: int) -> tuple[float, float]:
    """Predicted time of the event-driven product without events, and per event; ``post`` is padded to whole blocks."""
    return items * (34 + 0.24 * pre + 0.40 * post), 0.75 + 0.0276 * post


def product_ns(items: int, pre: int, post: int) -> float:
    """Predicted time of casting the spikes and of one BLAS product."""
    return items * (8 + 0.244 * pre + 0.0190 * pre * post)


def exact_bound(weight: Array) -> float:
    """The largest integer input for which every sum over ``weight: [post, pre]`` is exact in its type, in any order.

    0 where the weights are on no grid of a power of two (down to 2**-40) that leaves room.
    """
    bits = _BITS[str(weight.dtype)]
    wide = np.abs(weight.astype(np.float64))
    largest = float(wide.max(initial=0.0))
    if largest == 0.0:
        return float(2**bits)
    if not np.isfinite(largest):
        return 0.0
    grid = _grid(wide, max(bits - int(np.frexp(largest)[1]), 0))
    if grid is None:
        return 0.0
    return float(np.floor(2.0 ** (bits - grid) / float(wide.sum(axis=1).max())))


def _grid(values: Array, most: int) -> int | None:
    """The smallest k from 0 for which all values are multiples of 2**-k, None beyond ``most`` or the finest grid.

    ``most`` leaves the values below 2**53 when they are multiplied by 2**most.
    """
    finest = min(most, _FINEST)
    scaled = values * 2.0**finest
    integers = scaled.astype(np.int64)
    if not np.array_equal(integers, scaled):
        return None
    bits = int(np.bitwise_or.reduce(integers, axis=None))
    return max(finest - ((bits & -bits).bit_length() - 1), 0)
