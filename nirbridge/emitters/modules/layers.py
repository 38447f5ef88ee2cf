"""Parts of operators as layers of torch: texts with ``{}`` for the value ``[batch, …]``, and members with weights."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from nirbridge._types import Shape
from nirbridge.arrays import Array
from nirbridge.emitters.modules.plan import LayerCall, PlannedMember
from nirbridge.network.operators import Conv, Dense, Identity, Operator, Reshape, Scale, Sparse, SumPool


@dataclass(frozen=True, slots=True, eq=False)
class Layer:
    """A part as text, with its member (None without weights); ``takes_bias``: its bias is among its tensors."""

    path: str
    member: PlannedMember | None = None
    takes_bias: bool = False

    @property
    def id(self) -> str:
        """The member's identifier."""
        return self.member.id if self.member else ""


COLUMNS_MAX, NUMBERS_MAX = 4096, 2**22
"""Of a sparse matrix that importers read from a product (``importers.tracing.ops``)."""


def layer_of(
    part: Operator, name: Callable[[], str], bias: Array | None, comment: str, *, is_traced: bool = False
) -> Layer:
    """A part of an operator.

    Args:
        part: no chain.
        name: gives an identifier.
        bias: a constant after the part that its layer may take over.
        comment: stands beside the layer.
        is_traced: an importer will follow its calls, so that sparse matrices are products that importers read.
    """
    if isinstance(part, Identity):
        return Layer("{}")
    if isinstance(part, Reshape):
        return Layer(_reshaped(part.output_shape))
    if isinstance(part, SumPool):
        return Layer(_pooled(part))
    if isinstance(part, Sparse):
        return _sparse(part, name(), comment, is_traced)
    make: Any = {Dense: _linear, Conv: _convolution, Scale: _scale}[type(part)]
    return make(part, name(), bias, comment)


def _reshaped(shape: Shape) -> str:
    return "{}.flatten(1)" if len(shape) == 1 else f"{{}}.reshape(-1, {_listed(shape)})"


def _listed(values: Shape) -> str:
    return ", ".join(map(str, values))


def _number(values: tuple[int, ...]) -> str:
    """One number where all axes share it."""
    return str(values[0]) if len(set(values)) == 1 else str(values)


def _pooled(part: SumPool) -> str:
    axes = len(part.kernel)
    value, padding = "{}", part.padding
    if any(low != high for low, high in padding):
        value, padding = _padded(value, padding), ((0, 0),) * axes
    options = [value, _number(part.kernel), _number(part.stride)]
    size = math.prod(part.kernel)
    if any(low for low, _ in padding):
        options.append(_number(tuple(low for low, _ in padding)))
    if part.factor == 1.0 / size:
        return f"F.avg_pool{axes}d({', '.join(options)})"
    if axes == 1:
        return f"(F.avg_pool1d({', '.join(options)}) * {size * part.factor!r})"
    pooled = f"F.avg_pool2d({', '.join(options)}, divisor_override=1)"
    return pooled if part.factor == 1.0 else f"({pooled} * {part.factor!r})"


def _padded(value: str, padding: tuple[tuple[int, int], ...]) -> str:
    """Zeros around the spatial axes; torch counts from the last axis."""
    return f"F.pad({value}, ({_listed(tuple(n for pair in reversed(padding) for n in pair))}))"


def _linear(part: Dense, name: str, bias: Array | None, comment: str) -> Layer:
    post, pre = part.weight.shape
    tensors = {"weight": part.weight} | ({} if bias is None else {"bias": bias})
    text = f"nn.Linear({pre}, {post}{', bias=False' if bias is None else ''})"
    return Layer(f"self.{name}({{}})", PlannedMember(name, LayerCall(text, tensors), comment), bias is not None)


def _convolution(part: Conv, name: str, bias: Array | None, comment: str) -> Layer:
    axes, value = len(part.kernel), "{}"
    per_channel = None if bias is None else _per_channel(bias)
    arguments = [str(part.input_shape[0]), str(part.weight.shape[0]), _number(part.kernel)]
    lows = tuple(low for low, _ in part.padding)
    if any(low != high for low, high in part.padding):
        value = _padded(value, part.padding)
    elif any(lows):
        arguments.append(f"padding={_number(lows)}")
    for option, values in (("stride", part.stride), ("dilation", part.dilation)):
        arguments += [f"{option}={_number(values)}"] if any(v != 1 for v in values) else []
    arguments += [f"groups={part.groups}"] if part.groups != 1 else []
    arguments += ["bias=False"] if per_channel is None else []
    tensors = {"weight": part.weight} | ({} if per_channel is None else {"bias": per_channel})
    call = LayerCall(f"nn.Conv{axes}d({', '.join(arguments)})", tensors)
    return Layer(f"self.{name}({value})", PlannedMember(name, call, comment), per_channel is not None)


def _per_channel(bias: Array) -> Array | None:
    """One number per channel, where all positions of a channel share it."""
    rows = bias.reshape(bias.shape[0], -1)
    return rows[:, 0] if bool(np.all(rows == rows[:, :1])) else None


def _scale(part: Scale, name: str, bias: Array | None, comment: str) -> Layer:
    tensors = {"": np.ascontiguousarray(part.scale)}
    call = LayerCall(f"torch.ones({_listed(part.scale.shape)})", tensors)
    return Layer(f"({{}} * self.{name})", PlannedMember(name, call, comment, "parameter"))


def _sparse(part: Sparse, name: str, comment: str, is_traced: bool) -> Layer:
    sizes = math.prod(part.input_shape), math.prod(part.output_shape)
    if is_traced and _is_selection(part):
        call = LayerCall(f"Select({part.output_shape})", {"sources": _table(part)[0][0]})
    elif is_traced and sizes[0] <= COLUMNS_MAX and sizes[0] * sizes[1] <= NUMBERS_MAX:
        call = _product(part)
    else:
        sources, weights = _table(part)
        call = LayerCall(f"Sparse({sources.shape})", {"sources": sources, "weight": weights})
    return Layer(f"self.{name}({{}})", PlannedMember(name, call, comment))


def _is_selection(part: Sparse) -> bool:
    return bool(np.all(part.data == 1)) and int(np.diff(part.indptr).max(initial=0)) <= 1


def _product(part: Sparse) -> LayerCall:
    """One entry after the other."""
    rows = np.repeat(np.arange(len(part.indptr) - 1), np.diff(part.indptr))
    tensors = {"sources": np.asarray(part.indices), "targets": rows, "weight": part.data}
    return LayerCall(f"Matrix({part.input_shape}, {part.output_shape}, {len(rows)})", tensors)


def _table(part: Sparse) -> tuple[Array, Array]:
    """Each target's sources, and their weights; short rows end in a source that is always 0."""
    lengths = np.diff(part.indptr)
    width = int(max(1, lengths.max(initial=0)))
    there = np.arange(width)[:, None] < lengths
    sources = np.full(there.shape, math.prod(part.input_shape), np.int64)
    weights = np.zeros(there.shape, part.data.dtype)
    at = (np.asarray(part.indptr[:-1]) + np.arange(width)[:, None])[there]
    sources[there], weights[there] = part.indices[at], part.data[at]
    shape = (width, *part.output_shape)
    return sources.reshape(shape), weights.reshape(shape)
