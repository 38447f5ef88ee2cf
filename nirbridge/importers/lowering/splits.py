"""Reshapes that split an axis, for which NIR has no node: with what stands behind them they are one matrix."""

from __future__ import annotations

from typing import Any

import numpy as np

from nirbridge.arrays import freeze
from nirbridge.network.apply import apply
from nirbridge.network.compose import compose
from nirbridge.network.operators import Dense, Operator, Reshape

_WEIGHTS_MAX = 4_000_000
"""Most weights that such a matrix is written with."""


def without_splits(parts: tuple[Operator, ...], names: tuple[str, ...]) -> tuple[tuple[Operator, ...], tuple[str, ...]]:
    """Parts in which what lies between a split of one axis and the next flat value is a matrix, where that is small."""
    start = next((k for k, part in enumerate(parts) if _splits(part)), None)
    if start is None or len(parts[start].input_shape) != 1:
        return parts, names
    stop = next((k for k in range(start, len(parts)) if len(parts[k].output_shape) == 1), None)
    if stop is None or parts[start].input_shape[0] * parts[stop].output_shape[0] > _WEIGHTS_MAX:
        return parts, names
    joint, _ = compose(parts[start : stop + 1], names[start : stop + 1], parts[start].input_shape)
    columns: Any = apply(joint, np.eye(parts[start].input_shape[0], dtype=np.float32))
    dense = Dense(freeze(np.ascontiguousarray(columns.T), np.float32))
    rest = without_splits(parts[stop + 1 :], names[stop + 1 :])
    return (*parts[:start], dense, *rest[0]), (*names[:start], names[stop], *rest[1])


def _splits(part: Operator) -> bool:
    return isinstance(part, Reshape) and len(part.output_shape) > len(part.input_shape)
