"""The backend where numba is not installed: NumPy and scipy alone, the same bits as the reference.

Neurons are stepped in place; convolutions and pools are products of the spikes with sparse matrices, which add the
sources of a target in order. Everything else uses the reference.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from nirbridge.arrays import Array
from nirbridge.network.apply import matrix
from nirbridge.network.compose import parts_of
from nirbridge.network.model import Population
from nirbridge.network.operators import Conv, Operator, Sparse, SumPool
from nirbridge.simulators.reference.array_namespace import ArrayNamespace
from nirbridge.simulators.reference.semantics import (
    Accumulate,
    Backend,
    LayerOutput,
    NeuronState,
    ReferenceNeurons,
    is_value,
)
from nirbridge.simulators.reference.sums import accumulate, chained

SYNAPSES_MAX = 2_000_000
"""Largest number of synapses at which a convolution or pool becomes a sparse matrix."""


def numpy_backend(space: ArrayNamespace) -> Backend:
    """The backend on numpy."""
    return Backend(
        space=space,
        accumulate=lambda projection: chained([_part(part, space) for part in parts_of(projection.operator)]),
        neurons=lambda population: NumpyNeurons(population, space),
        take_input=space.array,
    )


def _part(op: Operator, space: ArrayNamespace) -> Accumulate:
    if not isinstance(op, Conv | SumPool):
        return accumulate(op, space)
    taps = math.prod(op.weight.shape[1:]) if isinstance(op, Conv) else math.prod(op.kernel)
    if math.prod(op.output_shape) * taps > SYNAPSES_MAX:
        return accumulate(op, space)
    plain = op if isinstance(op, Conv) else replace(op, factor=1.0)
    rows = matrix(plain, SYNAPSES_MAX)
    sparse = Sparse(rows.indptr, rows.indices, rows.data, op.input_shape, op.output_shape)
    sums = accumulate(sparse, space)
    if isinstance(op, Conv) or op.factor == 1.0:
        return sums
    factor = float(space.coefficient(np.asarray(op.factor)))
    return lambda spikes: sums(spikes) * factor


class NumpyNeurons(ReferenceNeurons):
    """The reference's neurons; those that send 0 or 1 and have no refractory time are stepped in place."""

    def __init__(self, population: Population, space: ArrayNamespace) -> None:
        super().__init__(population, space)
        self.has_synapse, self.has_plain_input = not is_value(self.a_syn, 0.0), is_value(self.g_syn, 1.0)
        self.forgets, self.has_gain = is_value(self.a_mem, 0.0), not is_value(self.g_mem, 1.0)
        self.decays = not self.forgets and not is_value(self.a_mem, 1.0)
        self.has_bias = not is_value(self.bias, 0.0)

    def run(self, drive: Any, state: NeuronState, requested: frozenset[str]) -> LayerOutput:
        """See ``Neurons.run``."""
        if self.theta is None or self.holds or self.kind.max_spikes > 1:
            return super().run(drive, state, requested)
        traces: dict[str, Array] = {name: np.empty_like(drive) for name in ("v", "u", "i") if name in requested}
        before = [name for name in traces if name != "v"]
        v, i = np.array(state["v"]), np.array(state["i"])
        fired, scratch = np.empty(drive.shape, np.bool_), np.empty_like(v)
        compare = np.greater if self.kind.compare == ">" else np.greater_equal
        for t in range(len(drive)):
            i = self._integrate(drive[t], v, i, scratch)
            spikes = compare(v, self.theta, out=fired[t])
            for name in before:
                traces[name][t] = i if name == "i" else v
            self._settle(v, spikes)
            if "v" in traces:
                traces["v"][t] = v
        sent = fired.astype(drive.dtype)
        return LayerOutput(sent, traces, {"v": v, "i": np.array(i), "refractory": state["refractory"]})

    def _integrate(self, x: Array, v: Array, i: Array, scratch: Array) -> Array:
        """The new synaptic current; ``v`` becomes the potential before the reset."""
        gained = x if self.has_plain_input else np.multiply(x, self.g_syn)
        if self.has_synapse:
            i *= self.a_syn
            i += gained
        else:
            i = gained
        current = np.multiply(i, self.g_mem, out=scratch) if self.has_gain else i
        if self.decays:
            v *= self.a_mem
        if self.forgets:
            v[...] = current
        else:
            v += current
        if self.has_bias:
            v += self.bias
        return i

    def _settle(self, v: Array, spikes: Array) -> None:
        if self.kind.reset == "to-value":
            np.copyto(v, self.v_reset, where=spikes)
        elif self.kind.reset == "subtract":
            np.subtract(v, self.amount, out=v, where=spikes)
        floored = self._floored(v)
        if floored is not v:
            v[...] = floored
