"""Sums of currents in programs: how large they get in a chip's integers, and sparse operators as matrices."""

from __future__ import annotations

import math

import numpy as np

from nirbridge.arrays import Array
from nirbridge.network.apply import matrix
from nirbridge.network.operators import Conv, Sparse, SumPool
from nirbridge.quantization.model import QuantizedNetwork
from nirbridge.quantization.operators import weights_of
from nirbridge.quantization.overflow import operator_bounds, sent_ranges

MATRIX_MAX = 2**20
"""Sparse operators with fewer elements than this as a matrix are one: a product is quicker than adding up places."""


def sums_of_currents(quantized: QuantizedNetwork) -> dict[str, int]:
    """The largest number that the sums of a current can meet before its shift, by its name in the step program."""
    ranges, found = sent_ranges(quantized), {}
    for k, p in enumerate(quantized.projections):
        low, high = operator_bounds(p.operator, ranges[p.source])
        ends = (-int(low.min(initial=0)), int(high.max(initial=0)), -ranges[p.source].low, ranges[p.source].high)
        found[f"c{k}"] = max(*ends, int(np.abs(weights_of(p.operator)).max(initial=0)))
    return found


def synapses(part: Sparse | Conv | SumPool) -> Sparse:
    """The operator as a list of its synapses."""
    if isinstance(part, Sparse):
        return part
    rows = matrix(part)
    return Sparse(rows.indptr, rows.indices, rows.data, part.input_shape, part.output_shape)


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
