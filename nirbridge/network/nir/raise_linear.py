"""Raising of a projection to a chain of NIR nodes: operators, bias, delays, and metadata for the rest."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import accumulate
from operator import mul
from typing import Any

import numpy as np

from nirbridge._types import Shape
from nirbridge.arrays import Array
from nirbridge.errors import ModelError, NirbridgeError, counted, quoted
from nirbridge.files.npy import MAX_BYTES
from nirbridge.network.apply import apply
from nirbridge.network.compose import parts_of
from nirbridge.network.model import Projection
from nirbridge.network.nir.delays import is_mixing
from nirbridge.network.nir.raise_sparse import image_map_nodes, is_image_map
from nirbridge.network.nir.timing import PREFIX
from nirbridge.network.operators import Conv, Dense, Operator, Reshape, Scale, Sparse, SumPool

DENSE_BYTES_MAX = MAX_BYTES
"""Larger matrices could not be read again with the default of ``--max-bytes``."""
_BIAS_AGREES = 1e-6


@dataclass(frozen=True, slots=True, eq=False)
class RaisedNode:
    """A NIR node and its preferred name (None: any)."""

    node: Any
    name: str | None = None


def raise_projection(p: Projection, source_shape: Shape, dt: float, *, implicit_back: bool) -> list[RaisedNode]:
    """The chain of NIR nodes of a projection, empty for a plain edge.

    ``implicit_back``: the graph's cycles alone imply that this is a back edge, so its one time step is not written.

    Raises:
        ModelError: an operator that no chain of NIR nodes can express.
    """
    subject = f"projection {quoted(p.source)} -> {quoted(p.target)}"
    parts = parts_of(p.operator)
    names = p.nodes if len(p.nodes) == len(parts) else (None,) * len(parts)
    bias_at, bias = plain_bias(parts, p.bias)
    chain = list(_leading_delay(p, source_shape, dt, implicit_back=implicit_back))
    for k, (part, name) in enumerate(zip(parts, names, strict=True)):
        nodes = _nodes(part, bias if k == bias_at else None, subject)
        chain += [RaisedNode(node, name if j == 0 else None) for j, node in enumerate(nodes)]
    chain += _trailing_delay(p, parts, dt)
    if p.bias is not None and not _is_exact(parts, bias_at, bias, p.bias):
        if not chain:
            chain.append(spacer(p.operator.output_shape))
        chain[-1].node.metadata[PREFIX + "bias"] = np.array(p.bias)
    return chain


def spacer(shape: Shape) -> RaisedNode:
    """A node that changes nothing, for a second plain edge between the same two nodes (NIR allows one)."""
    import nir

    return RaisedNode(nir.Scale(np.ones(shape)))


def _weights(values: Array) -> Array:
    """A writable copy; a broadcast view (weights of a shape alone) stays one."""
    return values if any(s == 0 for s in values.strides) and values.size > 1 else np.array(values)


# -- delays ------------------------------------------------------------------------------------------------------


def _leading_delay(p: Projection, shape: Shape, dt: float, *, implicit_back: bool) -> Iterator[RaisedNode]:
    import nir

    steps = p.delay_steps - (1 if p.is_back and implicit_back else 0)
    marked = p.is_back and not implicit_back
    if not marked and not bool(np.any(steps)):
        return
    node = nir.Delay(np.array(np.broadcast_to(steps * dt, shape)))
    if marked:
        node.metadata[PREFIX + "is_back"] = 1
    yield RaisedNode(node)


def _trailing_delay(p: Projection, parts: Sequence[Operator], dt: float) -> list[RaisedNode]:
    import nir

    steps = p.target_delay_steps
    if not bool(np.any(steps)):
        return []
    node = nir.Delay(np.array(np.broadcast_to(steps * dt, p.operator.output_shape)))
    if bool(np.all(steps == steps.flat[0])) or not any(is_mixing(part) for part in parts):
        node.metadata[PREFIX + "side"] = "target"  # else it would be counted to the source
    return [RaisedNode(node)]


# -- operators ---------------------------------------------------------------------------------------------------


def _nodes(part: Operator, bias: Array | None, subject: str) -> list[Any]:
    import nir

    if isinstance(part, Scale):
        return [nir.Scale(_weights(part.scale))]
    if isinstance(part, Dense):
        return [_matrix(_weights(part.weight), bias)]
    if isinstance(part, Sparse):
        return _sparse(part, bias, subject)
    if isinstance(part, Reshape):
        return _flattens(part, subject)
    if isinstance(part, Conv):
        return [_conv(part, bias, subject)]
    return [_pool(part, subject)] if isinstance(part, SumPool) else []


def _matrix(weight: Array, bias: Array | None) -> Any:
    import nir

    return nir.Linear(weight) if bias is None else nir.Affine(weight, np.array(bias))


def _cannot(subject: str, found: str, hint: str) -> NirbridgeError:
    return ModelError.of(subject, found, "NIR has no node for it", hint)


def block_weight(part: Sparse) -> Array | None:
    """The weight ``[*lead, post, pre]`` if the pattern is whole blocks along the leading axes, else None."""
    lead = part.input_shape[:-1]
    if not lead or part.output_shape[:-1] != lead:
        return None
    pre, post, blocks = part.input_shape[-1], part.output_shape[-1], math.prod(lead)
    if part.data.size != blocks * post * pre or bool(np.any(np.diff(part.indptr) != pre)):
        return None
    columns = part.indices.reshape(blocks, post, pre)
    in_block = np.arange(blocks)[:, None, None] * pre + np.arange(pre)
    return part.data.reshape(*lead, post, pre) if bool(np.all(columns == in_block)) else None


def _sparse(part: Sparse, bias: Array | None, subject: str) -> list[Any]:
    blocks = block_weight(part)
    if blocks is not None:
        return [_matrix(np.array(blocks), bias)]
    group = image_map_nodes(part, bias) if is_image_map(part) else []
    if group:
        return group
    if len(part.output_shape) != 1:
        raise _cannot(subject, f"a sparse matrix onto neurons of shape {part.output_shape}", "flatten the neurons")
    rows, columns = part.output_shape[0], math.prod(part.input_shape)
    size = rows * columns * part.data.dtype.itemsize
    if size > DENSE_BYTES_MAX:
        found = f"a sparse [{rows:,}, {columns:,}] matrix"
        limit = f"NIR has dense ones only: {size:,} bytes, at most {DENSE_BYTES_MAX:,} are written"
        raise ModelError.of(subject, found, limit, "save the network as a .net.npz file")
    weight = np.zeros((rows, columns), part.data.dtype)
    weight[np.repeat(np.arange(rows), np.diff(part.indptr)), part.indices] = part.data
    node = _matrix(weight, bias)
    node.metadata |= {PREFIX + "indptr": np.array(part.indptr), PREFIX + "indices": np.array(part.indices)}
    return [*_flattens(Reshape(part.input_shape, (columns,)), subject), node]


def _conv(part: Conv, bias: Array | None, subject: str) -> Any:
    import nir

    axes = len(part.kernel)
    if axes not in (1, 2):
        raise _cannot(subject, f"a convolution along {counted(axes, 'axis', 'axes')}", "use one or two")
    constants = np.zeros(part.weight.shape[0]) if bias is None else bias.reshape(len(bias), -1)[:, 0].copy()
    padding = _padding(part, subject)
    spatial = part.input_shape[1:]
    if axes == 1:
        numbers = (part.stride[0], padding if isinstance(padding, str) else padding[0], part.dilation[0])
        return nir.Conv1d(spatial[0], _weights(part.weight), *numbers, part.groups, constants)
    conv: Any = nir.Conv2d  # its annotations know pairs only as literal pairs
    return conv(spatial, _weights(part.weight), part.stride, padding, part.dilation, part.groups, constants)


def _padding(part: Conv | SumPool, subject: str) -> Any:
    if all(low == high for low, high in part.padding):
        return tuple(low for low, _ in part.padding)
    totals = [d * (k - 1) for d, k in zip(part.dilation, part.kernel, strict=True)]
    same = tuple((t // 2, t - t // 2) for t in totals)
    if isinstance(part, Conv) and part.padding == same and max(part.stride) == 1:
        return "same"
    raise _cannot(subject, f"a window with padding {part.padding}", "pad both sides alike")


def _pool(part: SumPool, subject: str) -> Any:
    import nir

    if len(part.kernel) != 2:
        raise _cannot(subject, f"a pooling along {counted(len(part.kernel), 'axis', 'axes')}", "use two")
    averages = part.factor == 1.0 / math.prod(part.kernel) and part.factor != 1.0
    kind = nir.AvgPool2d if averages else nir.SumPool2d
    node = kind(
        kernel_size=np.array(part.kernel), stride=np.array(part.stride), padding=np.array(_padding(part, subject))
    )
    if not averages and part.factor != 1.0:
        node.metadata[PREFIX + "factor"] = part.factor
    return node


def _flattens(part: Reshape, subject: str) -> list[Any]:
    """Flatten nodes that merge neighbouring axes one group after another."""
    import nir

    groups = merged_axes(part.input_shape, part.output_shape)
    if groups is None:
        found = f"a reshape from {part.input_shape} to {part.output_shape}"
        raise _cannot(subject, found, "only neighbouring axes can be merged (Flatten)")
    nodes, shape = [], list(part.input_shape)
    for axis, count in enumerate(groups):
        if count > 1:
            nodes.append(nir.Flatten({"input": np.array(shape)}, axis, axis + count - 1))
            shape[axis : axis + count] = [math.prod(shape[axis : axis + count])]
    return nodes


def merged_axes(before: Shape, after: Shape) -> tuple[int, ...] | None:
    """Number of neighbouring axes of ``before`` merged into each axis of ``after``, or None if impossible."""
    groups: list[int] = []
    merged = 0
    for k, size in enumerate(after):
        left = len(after) - k - 1  # every later axis needs one axis of its own
        count = next((c for c, n in enumerate(accumulate(before[merged:], mul), 1) if n == size), 0)
        if not count:
            return None
        while merged + count < len(before) - left and before[merged + count] == 1:
            count += 1
        merged += count
        groups.append(count)
    return tuple(groups) if merged == len(before) else None


# -- biases ------------------------------------------------------------------------------------------------------


def plain_bias(parts: Sequence[Operator], bias: Array | None) -> tuple[int, Array | None]:
    """(k, values): the bias of part k (its output shape) that arrives as ``bias``, or (-1, None) if none does.

    The bias is placed at the last part that can have one in NIR; only pools, scales and reshapes follow it.
    """
    place = max((k for k, part in enumerate(parts) if isinstance(part, Dense | Conv | Sparse)), default=-1)
    if bias is None or place < 0:
        return -1, None
    part, rest = parts[place], parts[place + 1 :]
    is_matrix = isinstance(part, Sparse) and block_weight(part) is None
    is_map = isinstance(part, Sparse) and is_matrix and is_image_map(part)
    if is_matrix and len(part.output_shape) != 1 and not is_map:
        return -1, None
    unit = _push(rest, np.ones(part.output_shape))
    if isinstance(part, Conv) or is_map:
        values = _per_channel(bias, unit, part.output_shape)
    elif bias.size == math.prod(part.output_shape):
        safe = np.where(unit == 0, 1.0, unit)
        values = np.where(unit == 0, 0.0, bias / safe).reshape(part.output_shape)
    else:
        return -1, None
    arrives = _push(rest, values)
    close = np.abs(arrives - bias) <= _BIAS_AGREES * np.abs(arrives) + 1e-12
    return (place, values) if bool(np.all(close)) and bool(np.any(values)) else (-1, None)


def _push(parts: Sequence[Operator], values: Array) -> Array:
    return reduce(lambda value, part: apply(part, value), parts, values)


def _per_channel(bias: Array, unit: Array, shape: Shape) -> Array:
    """One value per channel of ``shape``, read where the channel arrives strongest."""
    arrived, gain = bias.reshape(shape[0], -1), unit.reshape(shape[0], -1)
    where = np.argmax(np.abs(gain), axis=1)
    rows = np.arange(shape[0])
    strongest = gain[rows, where]
    values = np.where(strongest == 0, 0.0, arrived[rows, where] / np.where(strongest == 0, 1.0, strongest))
    return np.broadcast_to(values.reshape(-1, *(1,) * (len(shape) - 1)), shape)


def _is_exact(parts: Sequence[Operator], place: int, values: Array | None, bias: Array) -> bool:
    if values is None:
        return False
    arrives = np.asarray(_push(parts[place + 1 :], values), np.float64)
    return arrives.tobytes() == np.asarray(bias, np.float64).tobytes()
