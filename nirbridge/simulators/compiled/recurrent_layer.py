"""Self-recurrent populations with a delay of one time step, in the compiled backend."""

from __future__ import annotations

from typing import Any

import numpy as np

from nirbridge.arrays import Array
from nirbridge.network.model import Population, Projection
from nirbridge.network.operators import Dense, Operator, Sparse
from nirbridge.simulators.compiled.feature_map import FlatLayout
from nirbridge.simulators.compiled.kernels.memory import pack_weights
from nirbridge.simulators.compiled.kernels.recurrent import run_loop
from nirbridge.simulators.compiled.kernels.simd import block_of, lanes_of
from nirbridge.simulators.compiled.kernels.sparse import by_source
from nirbridge.simulators.compiled.neurons import NeuronBuffers
from nirbridge.simulators.reference.array_namespace import ArrayNamespace
from nirbridge.simulators.reference.semantics import LayerOutput, NeuronState


def is_self_recurrent(population: Population, own: Projection) -> bool:
    """True for neurons that send 0 or 1 through a dense or sparse matrix, one step later."""
    n, late = population.neuron, bool(np.any(own.target_delay_steps != 0))
    plain = n.fires and n.max_spikes == 1 and isinstance(own.operator, Dense | Sparse)
    return plain and not late and bool(np.all(own.delay_steps == 1))


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
    """What the kernel takes of the matrix, and the vectors per block (0: sparse)."""
    if isinstance(op, Sparse):
        return (np.zeros(0, dtype), *by_source(op.indptr, op.indices, op.data, len(op.indptr) - 1, dtype)), 0
    if not isinstance(op, Dense):
        raise TypeError("neither dense nor sparse")
    block = block_of(len(op.weight), dtype)
    weights = pack_weights(np.asarray(op.weight, dtype), block, dtype).reshape(-1)
    return (weights, np.zeros(1, np.int64), np.zeros(1, np.uint16), np.zeros(1, dtype)), block // lanes_of(dtype)
