"""A population that hears itself one step later, in the compiled backend (the ``Loop`` of step.py)."""

from __future__ import annotations

from typing import Any

import numpy as np

from nirbridge.arrays import Array
from nirbridge.network.model import Population, Projection
from nirbridge.network.operators import Dense, Operator, Sparse
from nirbridge.simulators.arrays_api import Space
from nirbridge.simulators.event_neurons import EventNeurons
from nirbridge.simulators.kernels_dense import packed
from nirbridge.simulators.kernels_loop import loop_kernel
from nirbridge.simulators.kernels_sparse import by_source
from nirbridge.simulators.step import NeuronState, Ran

ONE_BLOCK_MAX = 512
"""Up to so many neurons the packed weights are one block."""


def can_loop(population: Population, own: Projection) -> bool:
    """True for neurons that send 0 or 1 through a dense or sparse matrix, one step later."""
    n, late = population.neuron, bool(np.any(own.target_delay_steps != 0))
    plain = n.fires and n.max_spikes == 1 and isinstance(own.operator, Dense | Sparse)
    return plain and not late and bool(np.all(own.delay_steps == 1))


class EventLoop:
    """See ``step.Loop``; for those that ``can_loop``."""

    def __init__(self, population: Population, own: Projection, space: Space) -> None:
        self.neurons, self.dtype = EventNeurons(population, space), np.dtype(space.float_name)
        self.block, self.own = _tables(own.operator, self.dtype)
        n = population.size
        self.bias = np.zeros(n, self.dtype) if own.bias is None else np.asarray(own.bias, self.dtype).reshape(-1)
        self.has_bias = own.bias is not None
        self.width = -(-n // self.block) * self.block if self.block else n

    def run(self, steps: int, currents: tuple[Any, Any], past: Any, state: NeuronState, wanted: frozenset[str]) -> Ran:
        """See ``step.Loop.run``."""
        it, c = self.neurons, self.neurons.usual
        batch = len(past)
        does = it.does(wanted)
        v, cur, held = (state[k].reshape(batch, it.size).copy() for k in ("v", "i", "refractory"))
        before, after = (self._rows(x, steps, batch) for x in currents)
        has = (currents[0] is not None, self.has_bias, currents[1] is not None)
        sent = np.empty((steps, batch, it.size), np.uint8)
        kept = tuple(np.empty((steps if k else 1, batch, it.size), self.dtype) for k in does[-3:])
        fresh, acc = np.zeros(-(-it.size // 8) * 8, np.uint8), np.empty(self.width, self.dtype)
        spikes = np.ascontiguousarray(past).reshape(batch, it.size).astype(np.uint8)
        loop_kernel(c.shared, self.block)(
            self.own, spikes, before, after, self.bias, has, fresh, acc, v, cur, held, c.steps, c.coef, does, sent, kept
        )
        shape = (steps, batch, *it.shape)
        traces = {name: x.reshape(shape) for name, x in zip("vui", kept, strict=True) if name in wanted}
        after_last = {"v": v, "i": cur, "refractory": held}
        return Ran(sent.reshape(shape), traces, {k: x.reshape(shape[1:]) for k, x in after_last.items()})

    def _rows(self, current: Any, steps: int, batch: int) -> Array:
        if current is None:
            return np.zeros((1, 1, 1), self.dtype)
        return np.ascontiguousarray(current, self.dtype).reshape(steps, batch, self.neurons.size)


def _tables(op: Operator, dtype: np.dtype[Any]) -> tuple[int, tuple[Array, Array, Array]]:
    """The block (0: sparse) and the three arrays that the kernel takes."""
    if isinstance(op, Sparse):
        return 0, by_source(op.indptr, op.indices, op.data, len(op.indptr) - 1, dtype)
    if not isinstance(op, Dense):
        raise TypeError("neither dense nor sparse")
    posts = len(op.weight)
    block = -(-posts // 16) * 16 if posts <= ONE_BLOCK_MAX else 256
    none = np.zeros(1, np.uint16)
    return block, (packed(np.asarray(op.weight, dtype), block, dtype), none, np.zeros(1, dtype))
