"""Selections of values, as matrices of zeros and ones, and their merging into the operators around them."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from nirbridge._types import Shape
from nirbridge.arrays import Array, freeze
from nirbridge.network.nir.raise_linear import merged_axes
from nirbridge.network.operators import Conv, Dense, Operator, Reshape, Scale, Sparse, SumPool


def selection_operator(rows: Array, columns: Array, source: Shape, target: Shape) -> Sparse:
    """Element ``columns[k]`` of the source goes to element ``rows[k]`` (ascending) of the target; 0 elsewhere."""
    counts = np.bincount(rows, minlength=math.prod(target))
    indptr = np.concatenate([[0], np.cumsum(counts)])
    return Sparse(
        freeze(indptr, np.int64), freeze(columns, np.int64), freeze(np.ones(len(rows), np.float32)), source, target
    )


def merge_selections(
    parts: tuple[Operator, ...], names: tuple[str, ...]
) -> tuple[tuple[Operator, ...], tuple[str, ...]]:
    """Selections merged into the weights that follow them (exact: weights are moved, or meet zeros only)."""
    merged: list[tuple[Operator, str]] = []
    for part, name in _scaled_last(parts, names):
        before = merged[-1][0] if merged else None
        joint = _merge(before, part) if isinstance(before, Sparse) else _without_reshape(before, part)
        if joint is None:
            merged.append((part, name))
        else:
            merged[-1] = (joint, name)
    if len(merged) == 1 and isinstance(merged[0][0], Sparse):
        merged[0] = (_as_conv(merged[0][0]) or merged[0][0], merged[0][1])
    return tuple(p for p, _ in merged), tuple(n for _, n in merged)


def _scaled_last(parts: tuple[Operator, ...], names: tuple[str, ...]) -> list[tuple[Operator, str]]:
    """The parts with scales between a matrix and a reshape moved after it, so that these two are neighbours."""
    found = list(zip(parts, names, strict=True))
    for k in range(2, len(found)):
        (matrix, _), (scale, _), (shape, _) = found[k - 2 : k + 1]
        if isinstance(matrix, Sparse) and isinstance(scale, Scale) and isinstance(shape, Reshape):
            factor = freeze(np.broadcast_to(scale.scale, shape.input_shape).reshape(shape.output_shape))
            found[k - 1], found[k] = (shape, found[k][1]), (Scale(factor), found[k - 1][1])
    return found


def _is_selection(part: Sparse) -> bool:
    return bool(np.all(part.data == 1)) and int(np.max(np.diff(part.indptr), initial=0)) <= 1


def _without_reshape(before: Operator | None, part: Operator) -> Sparse | None:
    """A matrix on flat values after a reshape, which moves none."""
    if isinstance(before, Reshape) and isinstance(part, Sparse):
        return replace(part, input_shape=before.input_shape)
    return None


def _merge(before: Sparse, part: Any) -> Operator | None:
    if isinstance(part, Reshape):
        return None if _is_image_flattened(before, part) else replace(before, output_shape=part.output_shape)
    if not _is_selection(before):
        return None
    rows = np.flatnonzero(np.diff(before.indptr))
    if isinstance(part, Sparse):
        return _merged_matrix(before, part)
    if isinstance(part, Conv | SumPool) and (margin := _margin(before)) is not None:
        padding = tuple((low + m, high + m) for (low, high), m in zip(part.padding, margin, strict=True))
        return replace(part, padding=padding, input_shape=before.input_shape)
    if isinstance(part, Dense) and len(before.input_shape) == 1:
        weight = np.zeros((part.weight.shape[0], *before.input_shape), part.weight.dtype)
        np.add.at(weight.T, before.indices, part.weight.T[rows])
        return Dense(freeze(weight))
    if isinstance(part, Conv) and part.groups == 1:
        return _merged_conv(before, part)
    return None


def _is_image_flattened(before: Sparse, part: Reshape) -> bool:
    """True if NIR has a node for the reshape, and could not write the matrix with fewer axes."""
    is_map = len(before.input_shape) == len(before.output_shape) in (2, 3) and len(part.output_shape) == 2
    return is_map and merged_axes(before.output_shape, part.output_shape) is not None


def _merged_matrix(before: Sparse, part: Sparse) -> Sparse | None:
    """A matrix on a selection; None where a row would meet one value several times."""
    origin = np.full(math.prod(before.output_shape), -1)
    origin[np.flatnonzero(np.diff(before.indptr))] = before.indices
    rows, columns = np.repeat(np.arange(len(part.indptr) - 1), np.diff(part.indptr)), origin[part.indices]
    order = np.lexsort((columns, rows))
    order = order[columns[order] >= 0]
    rows, columns = rows[order], columns[order]
    if bool(np.any((np.diff(rows) == 0) & (np.diff(columns) == 0))):
        return None
    joint = selection_operator(rows, columns, before.input_shape, part.output_shape)
    return replace(joint, data=freeze(part.data[order]))


def _margin(part: Sparse) -> Shape | None:
    """Zeros on both sides along each spatial axis, if that is all that the selection adds; else None."""
    grown = [after - before for before, after in zip(part.input_shape, part.output_shape, strict=False)]
    if len(part.input_shape) != len(part.output_shape) or grown[0] or any(n < 0 or n % 2 for n in grown):
        return None
    inside = tuple(slice(n // 2, n // 2 + size) for n, size in zip(grown, part.input_shape, strict=True))
    places = np.arange(math.prod(part.output_shape)).reshape(part.output_shape)[inside].reshape(-1)
    rows = np.flatnonzero(np.diff(part.indptr))
    stays = np.array_equal(rows, places) and np.array_equal(part.indices, np.arange(len(places)))
    return tuple(n // 2 for n in grown[1:]) if stays else None


def channel_map(part: Sparse) -> tuple[Array, Array] | None:
    """(target channels, source channels) of a selection of whole channels at the same positions, else None."""
    source, target = part.input_shape, part.output_shape
    if len(source) < 2 or source[1:] != target[1:] or not _is_selection(part):
        return None
    size = math.prod(source[1:])
    rows = np.flatnonzero(np.diff(part.indptr))
    if len(rows) % size:
        return None
    targets, origin = rows.reshape(-1, size), part.indices.reshape(-1, size)
    same = (targets % size == np.arange(size)).all() and (origin % size == np.arange(size)).all()
    aligned = (targets // size == targets[:, :1] // size).all() and (origin // size == origin[:, :1] // size).all()
    return (targets[:, 0] // size, origin[:, 0] // size) if same and aligned else None


def _merged_conv(before: Sparse, part: Conv) -> Conv | None:
    mapping = channel_map(before)
    if mapping is None:
        return None
    weight = np.zeros((part.weight.shape[0], before.input_shape[0], *part.kernel), part.weight.dtype)
    for target, source in zip(*mapping, strict=True):
        weight[:, source] += part.weight[:, target]
    return replace(part, weight=freeze(weight), input_shape=before.input_shape)


def _as_conv(part: Sparse) -> Conv | None:
    """A selection of channels as a convolution with a kernel of one pixel, which NIR can say."""
    mapping = channel_map(part)
    if mapping is None or len(part.input_shape) not in (2, 3):
        return None
    axes = len(part.input_shape) - 1
    weight = np.zeros((part.output_shape[0], part.input_shape[0], *(1,) * axes), np.float32)
    weight[mapping[0], mapping[1]] = 1
    return Conv(freeze(weight), (1,) * axes, ((0, 0),) * axes, (1,) * axes, 1, part.input_shape)
