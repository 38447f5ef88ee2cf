"""One time step of a network as programs with a loop over time need it: states, and how much of the past is kept."""

from __future__ import annotations

import math

import numpy as np

from nirbridge.arrays import Array
from nirbridge.network.operators import Sparse
from nirbridge.quantization.model import FixedProjection, QuantizedNetwork
from nirbridge.quantization.operators import weights_of
from nirbridge.quantization.overflow import OutputRange, operator_bounds, output_ranges

MATRIX_MAX = 2**20
"""Sparse operators with fewer elements than this as a matrix are one: a product is quicker than adding up places."""


def sent_ranges(quantized: QuantizedNetwork) -> dict[str, OutputRange]:
    """The least and the greatest integer that each input and population sends; of a readout those of its v."""
    inputs = {p.name: OutputRange(-p.value_max if p.graded else 0, p.value_max) for p in quantized.inputs}
    return output_ranges(quantized.populations, inputs)


def largest_sum(p: FixedProjection, sent: OutputRange) -> int:
    """The largest number that a sum of the projection can meet, before its shift."""
    low, high = operator_bounds(p.operator, sent)
    sums = (-int(low.min(initial=0)), int(high.max(initial=0)), -sent.low, sent.high)
    return max(*sums, int(np.abs(weights_of(p.operator)).max(initial=0)))


def sparse_rows(part: Sparse) -> Array:
    """The target of every synapse."""
    return np.repeat(np.arange(len(part.indptr) - 1), np.diff(part.indptr))


def sparse_table(part: Sparse) -> Array | None:
    """A sparse operator as a matrix ``[pre, post]``; None where it has more than ``MATRIX_MAX`` elements."""
    pre, post = math.prod(part.input_shape), math.prod(part.output_shape)
    if pre * post > MATRIX_MAX:
        return None
    table = np.zeros((pre, post), np.asarray(part.data).dtype)
    np.add.at(table, (part.indices, sparse_rows(part)), part.data)
    return table
