"""Lowering of a linear NIR node to one step of a path: an operator, a bias, a delay. Shapes exclude batch and time."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from nirbridge._types import Shape
from nirbridge.arrays import Array, freeze, stored_part
from nirbridge.errors import ModelError
from nirbridge.network.nir.delays import delay_steps
from nirbridge.network.nir.fields import full_shape, kind_of, label
from nirbridge.network.nir.shapes import NodeShapes
from nirbridge.network.nir.timing import PREFIX, Metadata
from nirbridge.network.nir.windows import window_of
from nirbridge.network.operators import Conv, Dense, Identity, Operator, Reshape, Scale, Sparse, SumPool

BLOCK_WEIGHTS_MAX = 100_000_000
"""Of a shape that takes no memory itself; weights from files are bounded by the bytes that were read."""
"""A weight with leading axes becomes index lists; above this many weights it is refused."""


def lower_linear(name: str, node: Any, shapes: NodeShapes, metadata: Metadata, dt: float) -> LinearStep:
    """The step of the linear node called ``name``; arrays are copied and frozen.

    Raises:
        ModelError: a delay that is not a whole number of time steps, a block-diagonal weight too large, bad metadata.
    """
    kind = kind_of(node)
    stored = _stored_bias(name, node, shapes.output_shape, metadata)
    if kind == "Delay":
        delay = delay_steps(name, node, shapes.output_shape, dt)
        return LinearStep(
            name,
            kind,
            Identity(shapes.output_shape),
            None,
            stored,
            delay,
            at_target=_text(metadata.get(PREFIX + "side")) == "target",
            is_back=_stored_number(name, node, "is_back", metadata, 0.0) != 0,
        )
    operator = _operator(name, node, shapes, metadata)
    return LinearStep(name, kind, operator, _bias(node, shapes.output_shape), stored)


def _text(value: Any) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def real_copy(value: Any) -> Array:
    """A frozen copy in float32 or float64 (as stored; other number types widen without loss); itself if it is such."""
    array = np.asarray(value)
    if array.base is None and not array.flags.writeable and array.dtype in (np.float32, np.float64):
        return array
    narrow = array.dtype.kind == "f" and array.dtype.itemsize <= 4
    core = stored_part(array)
    return freeze(np.broadcast_to(core.astype(np.float32 if narrow else np.float64, copy=False), array.shape))


def _operator(name: str, node: Any, shapes: NodeShapes, metadata: Metadata) -> Operator:
    kind = kind_of(node)
    if kind == "Scale":
        return Scale(real_copy(full_shape(np.asarray(node.scale), shapes.output_shape)))
    if kind == "Flatten":
        return Reshape(shapes.input_shape, shapes.output_shape)
    if kind in ("Linear", "Affine"):
        return _matrix(name, node, shapes, metadata)
    window = window_of(name, node)
    if kind in ("SumPool2d", "AvgPool2d"):
        factor = 1.0 if kind == "SumPool2d" else 1.0 / math.prod(window.kernel)
        factor = _stored_number(name, node, "factor", metadata, factor)
        return SumPool(window.kernel, window.stride, window.padding, shapes.input_shape, factor)
    weight = real_copy(node.weight)
    return Conv(weight, window.stride, window.padding, window.dilation, window.groups, shapes.input_shape)


def _matrix(name: str, node: Any, shapes: NodeShapes, metadata: Metadata) -> Operator:
    weight = np.asarray(node.weight)
    if weight.ndim > 2:
        return _block_diagonal(name, node, shapes)
    if PREFIX + "indptr" in metadata:
        return _stored_sparse(name, node, shapes, metadata)
    return Dense(real_copy(weight))


def _block_diagonal(name: str, node: Any, shapes: NodeShapes) -> Sparse:
    """``weight: [*lead, post, pre]``: each index of the leading axes has a matrix of its own."""
    weight = np.asarray(node.weight)
    if weight.size > BLOCK_WEIGHTS_MAX and stored_part(weight).size < weight.size:  # of a shape without values
        found = f"a weight of shape {weight.shape} holds {weight.size:,} synapses in blocks"
        limit = f"at most {BLOCK_WEIGHTS_MAX:,} are listed one by one"
        raise ModelError.of(label(name, node), found, limit, "use one Linear node per block", node=name)
    post, pre = weight.shape[-2:]
    blocks = math.prod(weight.shape[:-2])
    indptr = np.arange(blocks * post + 1, dtype=np.int64) * pre
    columns = np.arange(blocks, dtype=np.int64)[:, None, None] * pre + np.arange(pre)
    indices = np.broadcast_to(columns, (blocks, post, pre)).reshape(-1)
    return Sparse(
        freeze(indptr), freeze(indices), real_copy(weight.reshape(-1)), shapes.input_shape, shapes.output_shape
    )


def _stored_sparse(name: str, node: Any, shapes: NodeShapes, metadata: Metadata) -> Sparse:
    """The stored pattern of a sparse matrix whose values stand in the plain dense weight."""
    indptr = np.asarray(metadata[PREFIX + "indptr"])
    indices = np.asarray(metadata.get(PREFIX + "indices", ()))
    weight = np.asarray(node.weight)
    post, pre = weight.shape
    if not is_pattern(indptr, indices, post, pre):
        found = f"metadata {PREFIX}indptr and {PREFIX}indices are not the pattern of a [{post}, {pre}] matrix"
        raise ModelError.of(label(name, node), found, "", "remove them, or correct them", node=name)
    indptr, indices = indptr.astype(np.int64), indices.astype(np.int64)
    values = real_copy(weight[np.repeat(np.arange(post), np.diff(indptr)), indices])
    return Sparse(freeze(indptr), freeze(indices), values, shapes.input_shape, shapes.output_shape)


def is_pattern(indptr: Array, indices: Array, rows: int, columns: int) -> bool:
    """True for compressed rows with ascending columns."""
    if indptr.dtype.kind not in "iu" or indptr.shape != (rows + 1,) or indices.ndim != 1:
        return False
    if indptr[0] != 0 or indptr[-1] != len(indices) or bool(np.any(indptr[1:] < indptr[:-1])):
        return False
    if not len(indices):
        return True
    if indices.dtype.kind not in "iu" or not 0 <= int(indices.min()) <= int(indices.max()) < columns:
        return False
    row = np.repeat(np.arange(rows), np.diff(indptr.astype(np.int64)))
    return bool(np.all(np.diff(row * columns + indices.astype(np.int64)) > 0))


def _stored_number(name: str, node: Any, key: str, metadata: Metadata, default: float) -> float:
    """One finite number stored under ``nirbridge:key``."""
    value = np.asarray(metadata.get(PREFIX + key, default))
    if value.size != 1 or value.dtype.kind not in "iufb" or not bool(np.all(np.isfinite(value))):
        raise ModelError.of(label(name, node), f"metadata {PREFIX}{key} is not a finite number", "", "correct it")
    return float(value.item())


def _bias(node: Any, shape: Shape) -> Array | None:
    bias = getattr(node, "bias", None)
    if bias is None or not np.any(bias):
        return None
    values = np.asarray(bias, dtype=np.float64)
    if kind_of(node) in ("Conv1d", "Conv2d"):
        values = values.reshape(-1, *(1,) * (len(shape) - 1))
    return freeze(np.broadcast_to(values, shape))


def _stored_bias(name: str, node: Any, shape: Shape, metadata: Metadata) -> Array | None:
    value = metadata.get(PREFIX + "bias")
    if value is None:
        return None
    array = np.asarray(value)
    if array.size not in (1, math.prod(shape)) or array.dtype.kind not in "iuf" or not bool(np.all(np.isfinite(array))):
        found = f"metadata {PREFIX}bias has shape {array.shape}"
        raise ModelError.of(label(name, node), found, f"finite numbers of shape {shape}", "correct the metadata")
    flat = array.astype(np.float64)
    return freeze(np.broadcast_to(flat.reshape(()), shape) if flat.size == 1 else flat.reshape(shape))


# -- linear step ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class LinearStep:
    """One linear node on a path. ``bias``: float64, output shape, or None where it is 0 everywhere.

    ``stored_bias`` is the exact bias of the whole path so far, where ``to_nir`` stored one. ``delay``: int64 steps,
    shape ``()`` or the node's. ``at_target`` and ``is_back`` are hints that ``to_nir`` leaves on a Delay.
    """

    name: str
    kind: str
    operator: Operator
    bias: Array | None = None
    stored_bias: Array | None = None
    delay: Array | None = None
    at_target: bool = False
    is_back: bool = False
