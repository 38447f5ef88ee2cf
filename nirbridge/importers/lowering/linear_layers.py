"""Linear calls of a flow as operators and constants: layers, pools, normalization, arithmetic, joins and slices."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from nirbridge._types import Shape
from nirbridge.arrays import Array, freeze
from nirbridge.errors import ModelError
from nirbridge.importers.dataflow import Operation
from nirbridge.importers.lowering.selections import selection_operator
from nirbridge.network.apply import apply
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
    terms = tuple(_scaled(t, factor, e.shape, call.name) for t in e.terms)
    constant = None if e.constant is None or spread is None else e.constant * spread
    return add_constant(Expression(e.shape, terms, constant), per_channel_values(shift, e.shape))


def _scaled(term: Term, factor: Array, shape: Shape, name: str) -> Term:
    last = term.parts[-1] if term.parts else None
    if isinstance(last, Dense | Conv):
        spread = factor.reshape(-1, *(1,) * (last.weight.ndim - 1))
        folded = replace(last, weight=freeze((last.weight * spread).astype(np.float32)))
        return replace(term, parts=(*term.parts[:-1], folded))
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
