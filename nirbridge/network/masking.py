"""Restriction of an operator to some of its sources or targets; the others have no synapses."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from nirbridge.arrays import Array, freeze
from nirbridge.network.apply import matrix
from nirbridge.network.compose import parts_of
from nirbridge.network.operators import Chain, Operator, Scale, Sparse, SumPool


def only_targets(operator: Operator, selected: Array) -> Operator:
    """``operator`` for the targets where ``selected`` (bool, the output's shape) holds; the others get 0.

    The input of a selected target is unchanged, bit for bit. The last part becomes sparse rows.

    Raises:
        ModelError: the last part has too many synapses to be listed (see ``network.apply.matrix``).
    """
    *before, last = parts_of(operator)
    return _chained([*before, *_cut(last, selected.reshape(-1), rows=True)])


def only_sources(operator: Operator, selected: Array) -> Operator:
    """``operator`` for the sources where ``selected`` (bool, the input's shape) holds.

    Such operators add up to the full one in exact arithmetic; in floating point the order of summation differs.
    The first part becomes sparse rows.

    Raises:
        ModelError: the first part has too many synapses to be listed.
    """
    first, *after = parts_of(operator)
    return _chained([*_cut(first, selected.reshape(-1), rows=False), *after])


def _chained(parts: list[Operator]) -> Operator:
    return parts[0] if len(parts) == 1 else Chain(tuple(parts))


def _cut(part: Operator, selected: Array, *, rows: bool) -> list[Operator]:
    if isinstance(part, SumPool) and part.factor != 1.0:
        # a pool adds up first and multiplies once, so its factor stays after the sum
        factor = Scale(freeze(np.broadcast_to(np.float64(part.factor), part.output_shape)))
        return [*_cut(replace(part, factor=1.0), selected, rows=rows), factor]
    table = matrix(part)
    height, columns = math.prod(part.output_shape), np.asarray(table.indices)
    row = np.repeat(np.arange(height), np.diff(table.indptr))
    keep = selected[row if rows else columns]
    counts = np.bincount(row[keep], minlength=height)
    return [
        Sparse(
            freeze(np.concatenate(([0], np.cumsum(counts))), np.int64),
            freeze(columns[keep], np.int64),
            freeze(np.asarray(table.data)[keep]),
            part.input_shape,
            part.output_shape,
        )
    ]
