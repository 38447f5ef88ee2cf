"""Linear calls of a flow as operators and constants: layers, pools, normalization, arithmetic, joins and slices."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

import numpy as np

from nirbridge._types import Shape
from nirbridge.arrays import Array, freeze
from nirbridge.errors import ModelError
from nirbridge.importers.neuron_specs import Operation
from nirbridge.network.apply import apply
from nirbridge.network.compose import one_value
from nirbridge.network.nir.raise_linear import merged_axes
from nirbridge.network.operators import Conv, Dense, Operator, Reshape, Scale, Sparse, SumPool

_TERMS_MAX = 10_000


@dataclass(frozen=True, slots=True, eq=False)
class Term:
    """A path of operators from a source (a population or an input port), ``delay`` steps late."""

    source: str
    delay: int
    shape: Shape
    parts: tuple[Operator, ...] = ()
    names: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Expression:
    """A value as a sum of terms and a constant (of the value's shape, float64; None: 0)."""

    shape: Shape
    terms: tuple[Term, ...]
    constant: Array | None = None


def apply_operator(e: Expression, operator: Operator, name: str, bias: Array | None = None) -> Expression:
    """The expression after one more operator and its bias."""
    terms = tuple(replace(t, parts=(*t.parts, operator), names=(*t.names, name)) for t in e.terms)
    constant = None if e.constant is None else apply(operator, e.constant)
    return add_constant(Expression(operator.output_shape, terms, constant), bias)


def add_constant(e: Expression, constant: Array | None) -> Expression:
    """The expression and a constant that broadcasts to its shape."""
    if constant is None:
        return e
    total = np.asarray(constant, np.float64) if e.constant is None else e.constant + constant
    return replace(e, constant=np.broadcast_to(total, e.shape))


def later(e: Expression, steps: int) -> Expression:
    """The value, with terms that arrive ``steps`` time steps later."""
    return replace(e, terms=tuple(replace(term, delay=term.delay + steps) for term in e.terms)) if steps else e


def sum_expressions(parts: Sequence[Expression]) -> Expression:
    """The sum of values of one shape."""
    total = parts[0]
    for e in parts[1:]:
        total = add_constant(replace(total, terms=(*total.terms, *e.terms)), e.constant)
    return total


def limit_terms(call: Operation, e: Expression) -> Expression:
    """The expression, unless too many paths meet in it.

    Raises:
        ModelError: more than 10,000 paths.
    """
    if len(e.terms) > _TERMS_MAX:
        found = f"{len(e.terms):,} paths without a neuron meet here"
        raise ModelError.of(call.subject, found, f"at most {_TERMS_MAX:,} are followed", "put neurons in between")
    return e


def _linear(call: Operation, e: Expression) -> Expression:
    weight = np.asarray(call.arguments["weight"], np.float32)
    bias = call.arguments["bias"]
    operator = _blocks(weight, e.shape) if len(e.shape) > 1 else None
    return apply_operator(e, operator or Dense(freeze(weight)), call.name, bias)


def _blocks(weight: Array, shape: Shape) -> Sparse:
    """The matrix on the last axis, once for each position of the others."""
    post, pre = weight.shape
    count = math.prod(shape[:-1])
    columns = np.arange(count)[:, None, None] * pre + np.arange(pre)
    indices = np.broadcast_to(columns, (count, post, pre)).reshape(-1)
    data = np.broadcast_to(weight, (count, post, pre)).reshape(-1)
    indptr = np.arange(count * post + 1) * pre
    return Sparse(
        freeze(indptr, np.int64), freeze(indices, np.int64), freeze(data, np.float32), shape, (*shape[:-1], post)
    )


def _conv(call: Operation, e: Expression) -> Expression:
    a = call.arguments
    weight = freeze(a["weight"], np.float32)
    operator = Conv(weight, a["stride"], a["padding"], a["dilation"], a["groups"], e.shape)
    return apply_operator(e, operator, call.name, per_channel_values(a["bias"], operator.output_shape))


def per_channel_values(values: Array | None, shape: Shape) -> Array | None:
    """One value per channel, for all positions."""
    if values is None:
        return None
    spread = np.asarray(values, np.float64).reshape(-1, *(1,) * (len(shape) - 1))
    return np.broadcast_to(spread, shape)


def _avg_pool(call: Operation, e: Expression) -> Expression:
    a = call.arguments
    kernel, padding = tuple(a["kernel"]), tuple(a["padding"])
    if len(kernel) == 2:
        return apply_operator(e, SumPool(kernel, tuple(a["stride"]), padding, e.shape, float(a["factor"])), call.name)
    weight = freeze(np.full((e.shape[0], 1, *kernel), a["factor"], np.float32))  # NIR pools along two axes only
    return apply_operator(e, Conv(weight, tuple(a["stride"]), padding, (1,), e.shape[0], e.shape), call.name)


def _batch_norm(call: Operation, e: Expression) -> Expression:
    """``(x - mean) / sqrt(variance + epsilon) * weight + bias``, in the weights in front of it where there are some."""
    a = call.arguments
    factor = 1.0 / np.sqrt(a["variance"].astype(np.float64) + a["epsilon"])
    factor = factor if a["weight"] is None else factor * a["weight"]
    shift = -a["mean"] * factor + (0.0 if a["bias"] is None else a["bias"])
    spread = per_channel_values(factor, e.shape)
    folded: dict[Operator, Operator] = {}  # terms of a sum of spikes share their weights
    terms = tuple(_scaled(t, factor, e.shape, call.name, folded) for t in e.terms)
    constant = None if e.constant is None or spread is None else e.constant * spread
    return add_constant(Expression(e.shape, terms, constant), per_channel_values(shift, e.shape))


def _scaled(term: Term, factor: Array, shape: Shape, name: str, folded: dict[Operator, Operator]) -> Term:
    last = term.parts[-1] if term.parts else None
    if isinstance(last, Dense | Conv):
        if last not in folded:
            spread = factor.reshape(-1, *(1,) * (last.weight.ndim - 1))
            folded[last] = replace(last, weight=freeze((last.weight * spread).astype(np.float32)))
        return replace(term, parts=(*term.parts[:-1], folded[last]))
    scale = Scale(freeze(np.ascontiguousarray(per_channel_values(factor, shape)), np.float64))
    return replace(term, parts=(*term.parts, scale), names=(*term.names, name))


def _shift(call: Operation, e: Expression) -> Expression:
    sign = float(call.arguments["sign"])
    scaled = e if sign == 1.0 else scale_expression(e, sign, call.name)
    return add_constant(scaled, np.broadcast_to(np.asarray(call.arguments["constant"], np.float64), e.shape))


def scale_expression(e: Expression, factor: Array | float, name: str) -> Expression:
    """The expression times a factor that broadcasts to its shape."""
    return apply_operator(e, Scale(freeze(np.broadcast_to(np.asarray(factor, np.float64), e.shape))), name)


def _reshape(call: Operation, e: Expression) -> Expression:
    return apply_operator(e, Reshape(e.shape, call.shape), call.name)


def _gather(call: Operation, e: Expression) -> Expression:
    indices = np.asarray(call.arguments["indices"]).reshape(-1)
    if np.array_equal(indices, np.arange(math.prod(e.shape))):
        return _reshape(call, e)
    rows = np.flatnonzero(indices >= 0)
    return apply_operator(e, selection_operator(rows, indices[rows], e.shape, call.shape), call.name)


def _pad(call: Operation, e: Expression) -> Expression:
    return add_constant(_gather(call, e), call.arguments["constant"])


def concatenate(call: Operation, parts: tuple[Expression, ...]) -> Expression:
    """Values side by side along an axis: each is put into its range of the whole."""
    axis, start = int(call.arguments["axis"]), 0
    terms: list[Term] = []
    constant = np.zeros(call.shape)
    positions = np.arange(math.prod(call.shape)).reshape(call.shape)
    for e in parts:
        where = tuple(slice(start, start + e.shape[axis]) if k == axis else slice(None) for k in range(len(e.shape)))
        rows = positions[where].reshape(-1)
        operator = selection_operator(rows, np.arange(len(rows)), e.shape, call.shape)
        terms += apply_operator(replace(e, constant=None), operator, call.name).terms
        if e.constant is not None:
            constant[where] = e.constant
        start += e.shape[axis]
    return Expression(call.shape, tuple(terms), constant if bool(np.any(constant)) else None)


LAYERS: Mapping[str, Callable[[Operation, Expression], Expression]] = {
    "linear": _linear,
    "conv": _conv,
    "avg_pool": _avg_pool,
    "batch_norm": _batch_norm,
    "scale": lambda call, e: scale_expression(e, call.arguments["factor"], call.name),
    "shift": _shift,
    "reshape": _reshape,
    "gather": _gather,
    "pad": _pad,
}
"""Kind of an operation with one input -> its effect on an expression."""


# -- selections ----------------------------------------------------------------------------------------------------
# Selections of values, as matrices of zeros and ones, and their merging into the operators around them.


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
        return _matrix_product(before, part)
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


def _matrix_product(before: Sparse, part: Sparse) -> Sparse | None:
    """Two matrices as one; None where values would be rounded, met several times, or be more than in either."""
    counts = np.diff(before.indptr)[part.indices]
    is_exact = bool(np.all(before.data == 1)) or bool(np.all(part.data == 1))
    if not is_exact or int(counts.sum()) > max(len(before.indices), len(part.indices)):
        return None
    entries = np.repeat(np.arange(len(part.indices)), counts)
    inner = np.arange(len(entries)) + np.repeat(before.indptr[part.indices] - np.cumsum(counts) + counts, counts)
    rows, columns = np.repeat(np.arange(len(part.indptr) - 1), np.diff(part.indptr))[entries], before.indices[inner]
    order = np.lexsort((columns, rows))
    rows, columns = rows[order], columns[order]
    if bool(np.any((np.diff(rows) == 0) & (np.diff(columns) == 0))):
        return None
    joint = selection_operator(rows, columns, before.input_shape, part.output_shape)
    return replace(joint, data=freeze((part.data[entries] * before.data[inner])[order]))


def merge_matrices(steps: Sequence[tuple[Operator, str]]) -> list[tuple[Operator, str]]:
    """The parts with neighbouring matrices as one; a factor between two comes after them."""
    merged: list[tuple[Operator, str]] = []
    for part, name in steps:
        scale = merged[-1] if merged and isinstance(merged[-1][0], Scale) else None
        before = merged[-2 if scale else -1][0] if len(merged) > bool(scale) else None
        number = one_value(scale[0].scale) if scale and isinstance(scale[0], Scale) else 1.0
        joint = None
        if isinstance(part, Sparse) and isinstance(before, Sparse) and number is not None:
            joint = _matrix_product(before, part)
        if joint is None:
            merged.append((part, name))
            continue
        del merged[-2 if scale else -1 :]
        merged.append((joint, name))
        if scale:
            merged.append((Scale(freeze(np.broadcast_to(np.float64(number), joint.output_shape))), scale[1]))
    return merged


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


# -- fixed maps ----------------------------------------------------------------------------------------------------
# Linear maps with fixed weights that are no layer of NIR, as selections, sparse matrices and convolutions.


def _matrix(call: Operation, e: Expression) -> Expression:
    a = call.arguments
    found = matrix_sums(call, e)
    return found if bool(np.all(a["factor"] == 1)) else scale_expression(found, a["factor"], call.name)


def matrix_sums(call: Operation, e: Expression) -> Expression:
    """The sums of a ``matrix`` call without the factor after them."""
    a = call.arguments
    counts = np.bincount(a["rows"], minlength=math.prod(a["shape"]))
    indptr = freeze(np.concatenate([[0], np.cumsum(counts)]), np.int64)
    return apply_operator(e, Sparse(indptr, a["columns"], a["values"], e.shape, a["shape"]), call.name)


def padded(e: Expression, margins: list[tuple[int, int]], name: str) -> Expression:
    """The values with zeros before and after them along each spatial axis."""
    spread = _spread(e.shape, (1,) * len(margins), margins)
    return e if spread is None else apply_operator(e, spread, name)


def _conv_transpose(call: Operation, e: Expression) -> Expression:
    """Zeros between the values, then a convolution with the opposite weights."""
    a = call.arguments
    weight = _opposite(np.asarray(a["weight"], np.float32), a["groups"])
    lows, highs = _margins(a, weight.shape[2:])
    padding = tuple(min(low, high) if min(low, high) > 0 else 0 for low, high in zip(lows, highs, strict=True))
    rest = [(low - p, high - p) for low, high, p in zip(lows, highs, padding, strict=True)]
    spread = _spread(e.shape, a["stride"], rest)
    if spread is not None:
        e = apply_operator(e, spread, call.name)
    ones = (1,) * len(padding)
    operator = Conv(freeze(weight), ones, tuple((p, p) for p in padding), a["dilation"], a["groups"], e.shape)
    return apply_operator(e, operator, call.name, per_channel_values(a["bias"], operator.output_shape))


def _opposite(weight: Array, groups: int) -> Array:
    """``[cin, cout // groups, *kernel]`` as ``[cout, cin // groups, *kernel]``, its kernels turned around."""
    cin, own, *kernel = weight.shape
    parts = weight.reshape(groups, cin // groups, own, *kernel).swapaxes(1, 2)
    turned = np.flip(parts, axis=tuple(range(3, parts.ndim)))
    return np.ascontiguousarray(turned.reshape(groups * own, cin // groups, *kernel))


def _margins(a: Mapping[str, tuple[int, ...]], kernel: Shape) -> tuple[list[int], list[int]]:
    """Zeros before and after the values along each axis; below 0: values that are cut off."""
    lows = [d * (k - 1) - p for d, k, p in zip(a["dilation"], kernel, a["padding"], strict=True)]
    return lows, [low + more for low, more in zip(lows, a["output_padding"], strict=True)]


def _spread(shape: Shape, stride: Shape, margins: list[tuple[int, int]]) -> Sparse | None:
    """The values ``stride`` apart, with margins of zeros or without some at the edges; None where nothing changes."""
    if all(s == 1 for s in stride) and not any(map(any, margins)):
        return None
    positions = np.arange(math.prod(shape)).reshape(shape)
    for axis, (s, (low, high)) in enumerate(zip(stride, margins, strict=True), 1):
        count = positions.shape[axis]
        spread_shape = [n if k != axis else (count - 1) * s + 1 for k, n in enumerate(positions.shape)]
        spread = np.full(spread_shape, -1)
        spread[(slice(None),) * axis + (slice(None, None, s),)] = positions
        widths = [(max(low, 0), max(high, 0)) if k == axis else (0, 0) for k in range(positions.ndim)]
        padded = np.pad(spread, widths, constant_values=-1)
        end = padded.shape[axis] + min(high, 0)
        positions = padded[(slice(None),) * axis + (slice(max(-low, 0), end),)]
    rows = np.flatnonzero(positions.reshape(-1) >= 0)
    return selection_operator(rows, positions.reshape(-1)[rows], shape, positions.shape)


ALL_LAYERS: Mapping[str, Callable[[Operation, Expression], Expression]] = MappingProxyType(
    {**LAYERS, "matrix": _matrix, "conv_transpose": _conv_transpose}
)
"""Kind of an operation with one input -> its effect on an expression."""
