"""Lowering of torch functions of each value by itself, and of two values: logic, comparisons, products.

They are exact where the values are provably those of spikes, which ``lowering.spike_logic`` decides.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import numpy as np

from nirbridge.importers.tracing.advice import advice_on
from nirbridge.importers.tracing.arguments import (
    CannotFollow,
    Find,
    FlowValue,
    Handler,
    LoweredOp,
    call_argument,
    input_of,
)
from nirbridge.importers.tracing.recorder import TracedCall, TracedValue

OR, AND, XOR, SAME, OTHER = "or", "and", "xor", "same", "other"
MAX, MIN, PRODUCT = "maximum", "minimum", "product"
_MEANINGS = {
    MAX: ("maximum", "max", "fmax"),
    MIN: ("minimum", "min", "fmin"),
    OR: ("logical_or", "logical_or_", "bitwise_or", "__or__", "__ror__", "__ior__"),
    AND: ("logical_and", "logical_and_", "bitwise_and", "__and__", "__rand__", "__iand__"),
    XOR: ("logical_xor", "logical_xor_", "bitwise_xor", "__xor__", "__rxor__", "__ixor__"),
    OTHER: ("ne", "__ne__", "not_equal"),
    SAME: ("eq", "__eq__"),
    PRODUCT: ("where", "addcmul", "mul", "mul_", "multiply", "__mul__", "__rmul__", "__imul__"),
    ">": ("gt", "__gt__", "greater"),
    ">=": ("ge", "__ge__", "greater_equal"),
    "<": ("lt", "__lt__", "less"),
    "<=": ("le", "__le__", "less_equal"),
}
PAIRS: Mapping[str, str] = MappingProxyType({name: word for word, names in _MEANINGS.items() for name in names})
"""Functions of two values -> what they are over 0 and 1."""


def of_each_value(node: TracedCall, x: FlowValue, function: Any, reason: str = "", hint: str = "") -> LoweredOp:
    """A function of each value by itself, applied by torch to the few values that spikes and their sums can have."""

    def of(points: Any) -> Any:
        import torch

        with torch.no_grad():
            return function(torch.from_numpy(np.asarray(points, np.float64))).to(torch.float64).numpy()

    return LoweredOp("pointwise", {"function": node.name, "of": of, "reason": reason, "hint": hint}, (x,))


def pointwise(node: TracedCall, find: Find, reason: str = "", hint: str = "") -> LoweredOp:
    """A function of one value and numbers."""
    place = next(k for k, a in enumerate(node.args) if isinstance(a, TracedValue))
    rest = (*node.args[:place], *node.args[place + 1 :], *node.kwargs.values())
    if any(isinstance(a, TracedValue) for a in rest):
        raise CannotFollow(f"{node.name} of several values")
    if any(math.prod(getattr(a, "shape", ())) != 1 for a in rest):
        raise CannotFollow(f"{node.name} with another number for each value", "use one number for all")

    def function(points: Any) -> Any:
        others = [_like(a, points) for a in node.args[place + 1 :]]
        named = {key: _like(a, points) for key, a in node.kwargs.items()}
        return node.func(*(_like(a, points) for a in node.args[:place]), points, *others, **named)

    return of_each_value(node, find(node.args[place]), function, reason, hint)


def _like(constant: Any, points: Any) -> Any:
    """A number in a tensor in the format of the points, which some functions ask for."""
    is_float = hasattr(constant, "is_floating_point") and constant.is_floating_point()
    return constant.reshape(()).to(points.dtype) if is_float else constant


def _not(node: TracedCall, find: Find) -> LoweredOp:
    return of_each_value(node, input_of(node, find), lambda points: points == 0)


def pair(node: TracedCall, find: Find) -> LoweredOp:
    """A function of two values; of one where the other is a number."""
    a, b = node.args[0], call_argument(node, 1, "other")
    if not (isinstance(a, TracedValue) and isinstance(b, TracedValue)):
        if b is None or (isinstance(b, int) and node.name in ("max", "min")):  # over all values, or along an axis
            raise CannotFollow(*advice_on(node.name))
        return pointwise(node, find)
    x, y = find(a), find(b)
    if x.shape != y.shape or x.lead != y.lead:
        raise CannotFollow(
            f"{node.name} of values of shape {x.shape} and {y.shape}", "use equal shapes: a.expand_as(b)"
        )
    return LoweredOp("pair", {"function": node.name}, (x, y))


_OF_ONE = (
    "bool", "int", "long", "short", "byte", "abs", "sign", "sgn", "square", "round", "floor", "ceil", "trunc", "pow",
    "__pow__", "relu6", "hardtanh", "leaky_relu", "exp", "exp2", "expm1", "log1p", "sqrt", "sin", "cos", "atan", "erf",
    "sigmoid", "tanh", "gelu", "elu", "celu", "selu", "silu", "mish", "softplus", "softsign", "logsigmoid",
    "hardsigmoid", "hardswish", "tanhshrink", "softshrink", "hardshrink", "heaviside", "nan_to_num", "threshold",
    "_threshold", "remainder", "__mod__", "fmod", "floor_divide", "__floordiv__",
)  # fmt: skip
LOGIC_HANDLERS: Mapping[str, Handler] = MappingProxyType(
    {
        **{name: pair for name, meaning in PAIRS.items() if meaning != PRODUCT},
        **dict.fromkeys(("logical_not", "logical_not_", "bitwise_not", "__invert__"), _not),
        **dict.fromkeys(_OF_ONE, pointwise),
    }
)
"""Function name -> its handler."""
