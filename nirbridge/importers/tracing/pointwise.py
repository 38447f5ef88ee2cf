"""Lowering of torch functions of one, two or more values: logic, comparisons, products, choices, joins.

Those of two values are exact where the values are provably those of spikes, which ``lowering.spike_logic`` decides.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import numpy as np

from nirbridge._types import Shape
from nirbridge.arrays import Array, freeze
from nirbridge.importers.tracing.arguments import (
    CannotFollow,
    Find,
    FlowValue,
    Handler,
    LoweredOp,
    advice_on,
    alike,
    broadcast,
    call_argument,
    constant_argument,
    input_of,
)
from nirbridge.importers.tracing.recorder import RING, TracedCall, TracedValue
from nirbridge.importers.tracing.structures import torch_tensor

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
    PRODUCT: (
        *("where", "addcmul", "mul", "mul_", "multiply", "__mul__", "__rmul__", "__imul__"),
        *("matmul", "bmm", "__matmul__", "__rmatmul__", "einsum"),
    ),
    ">": ("gt", "__gt__", "greater"),
    ">=": ("ge", "__ge__", "greater_equal"),
    "<": ("lt", "__lt__", "less"),
    "<=": ("le", "__le__", "less_equal"),
}
PAIRS: Mapping[str, str] = MappingProxyType({name: word for word, names in _MEANINGS.items() for name in names})
"""Functions of two values -> what they are over 0 and 1."""
NO_PRODUCT: Mapping[str, str] = MappingProxyType(
    {"reason": "a product of two values", "hint": "no spiking neuron multiplies; use a fixed factor"}
)
"""Texts of a refusal."""
PRODUCTS_MAX = 2**16
"""Most products of two spikes, a threshold neuron each, that one product of matrices becomes."""
PRODUCTS_HINT = "use fewer tokens or channels, or spike-driven attention, which masks and sums spikes"


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
    return LoweredOp("pair", {"function": node.name}, alike((find(a), find(b)), node.name))


def _prelu(node: TracedCall, find: Find) -> LoweredOp:
    """``relu(x) - slope * relu(-x)``, the slope of each channel."""
    x = find(node.args[0])
    slope = constant_argument(call_argument(node, 1, "weight"), "slope")
    if slope is None or slope.size == 1:
        return pointwise(node, find)
    factor = freeze(slope.reshape(-1, *(1,) * (len(x.shape) - 1)))
    negative = LoweredOp("scale", {"factor": np.asarray(-1.0)}, (x,), shape=x.shape)
    parts = [LoweredOp("relu", {}, (part,), shape=x.shape) for part in (x, negative)]
    scaled = LoweredOp("scale", {"factor": factor}, (parts[1],), shape=x.shape)
    return LoweredOp("add", {"signs": (1.0, -1.0)}, (parts[0], scaled))


_OF_ONE = (
    "bool", "int", "long", "short", "byte", "abs", "sign", "sgn", "square", "round", "floor", "ceil", "trunc", "pow",
    "__pow__", "relu6", "hardtanh", "leaky_relu", "exp", "exp2", "expm1", "log1p", "sqrt", "sin", "cos", "atan", "erf",
    "rrelu", "sigmoid", "tanh", "gelu", "elu", "celu", "selu", "silu", "mish", "softplus", "softsign", "logsigmoid",
    "hardsigmoid", "hardswish", "tanhshrink", "softshrink", "hardshrink", "heaviside", "nan_to_num", "threshold",
    "_threshold", "remainder", "__mod__", "fmod", "floor_divide", "__floordiv__",
)  # fmt: skip
LOGIC_HANDLERS: Mapping[str, Handler] = MappingProxyType(
    {
        **{name: pair for name, meaning in PAIRS.items() if meaning != PRODUCT},
        **dict.fromkeys(("logical_not", "logical_not_", "bitwise_not", "__invert__"), _not),
        **dict.fromkeys(_OF_ONE, pointwise),
        "prelu": _prelu,
    }
)
"""Function name -> its handler."""


# -- choices -------------------------------------------------------------------------------------------------------
# Lowering of choices between two values (``torch.where``, ``masked_fill``, ``x[mask] = y``) and of mixtures of them.
#
# A choice by fixed truth values is linear. By a value c, which is 0 or 1, it is ``c * a + (1 - c) * b``: linear in c
# where a and b are numbers, else products of spikes, which ``lowering.spike_logic`` decides.


_PRODUCT = MappingProxyType(
    {
        "function": "where",
        "reason": "a choice between values",
        "hint": "choose between spikes or numbers, by spikes; or multiply by fixed numbers",
    }
)


def _where(node: TracedCall, find: Find) -> LoweredOp:
    first, second = node.args[0] if node.args else node.kwargs.get("condition"), call_argument(node, 1, "input")
    if node.func is torch_tensor().where:
        condition, a = call_argument(node, 1, "condition"), first
    else:
        condition, a = first, node.kwargs.get("self") if second is None else second
    b = call_argument(node, 2, "other")
    if b is None:
        raise CannotFollow("positions that are computed from the input", "use fixed ones")
    return _chosen(node, find, condition, a, b)


def _masked_fill(node: TracedCall, find: Find) -> LoweredOp:
    return _chosen(node, find, call_argument(node, 1, "mask"), call_argument(node, 2, "value"), node.args[0])


def _set_item(node: TracedCall, find: Find) -> LoweredOp:
    """``x[mask] = y``, or fixed positions of x replaced."""
    buffer, index, value = node.args
    if isinstance(index, TracedValue):
        if isinstance(value, TracedValue):
            raise CannotFollow("as many values as the data select are written", "use torch.where(mask, a, b)")
        return _chosen(node, find, index, value, buffer)
    return written(node, find, buffer, index, value)


def _chosen(node: TracedCall, find: Find, condition: Any, a: Any, b: Any) -> LoweredOp:
    """``a`` where the condition holds, else ``b``."""
    traced = alike([find(v) for v in (condition, a, b) if isinstance(v, TracedValue)], "a choice")
    x, found = traced[0], iter(traced)
    given = next(found) if isinstance(condition, TracedValue) else None
    one, other = (next(found) if isinstance(v, TracedValue) else _number(v, x) for v in (a, b))
    if given is not None:
        return _by_value(given, one, other)
    mask = broadcast(condition, x, "condition").astype(bool)
    return _sum(_where_held(one, mask, x), _where_held(other, ~mask, x), is_choice=True)


def _number(value: Any, x: FlowValue | LoweredOp) -> Array:
    array = broadcast(value, x, "number").astype(np.float64)
    if not bool(np.all(np.isfinite(array))):
        raise CannotFollow("infinite numbers are put in", "use finite ones")
    return array


def _where_held(value: FlowValue | LoweredOp | Array, mask: Array, x: FlowValue | LoweredOp) -> LoweredOp | Array:
    """The value where the fixed truth values hold, 0 elsewhere."""
    if isinstance(value, FlowValue | LoweredOp):
        return scaled(value, np.broadcast_to(mask, x.shape).astype(np.float64))
    return value * mask


def _by_value(
    c: FlowValue | LoweredOp, a: FlowValue | LoweredOp | Array, b: FlowValue | LoweredOp | Array
) -> LoweredOp:
    """``c * a + (1 - c) * b`` where c is 0 or 1."""
    if isinstance(a, np.ndarray) and isinstance(b, np.ndarray):
        return _shifted(scaled(c, a - b), b)
    not_c = _shifted(scaled(c, np.float64(-1.0)), np.float64(1.0))
    parts = [
        _placed(LoweredOp("pair", dict(_PRODUCT), (which, value)), c) if isinstance(value, FlowValue | LoweredOp)
        else scaled(which, value) if np.any(value) else value
        for which, value in ((c, a), (not_c, b))
    ]  # fmt: skip
    return _sum(parts[0], parts[1], is_choice=True)


# -- arithmetic in several operations -----------------------------------------------------------------------------


def _placed(word: LoweredOp, x: FlowValue | LoweredOp) -> LoweredOp:
    """An operation whose result another one takes, of the shape of ``x``."""
    return LoweredOp(word.kind, word.arguments, word.inputs, x.lead, shape=x.shape)


def scaled(x: FlowValue | LoweredOp, factor: Any) -> LoweredOp:
    """The value times fixed numbers."""
    return _placed(LoweredOp("scale", {"factor": np.asarray(factor, np.float64)}, (x,)), x)


def _shifted(x: FlowValue | LoweredOp, constant: Any) -> LoweredOp:
    """The value and fixed numbers."""
    return _placed(LoweredOp("shift", {"constant": np.asarray(constant, np.float64), "sign": 1.0}, (x,)), x)


def _sum(a: LoweredOp | Array, b: LoweredOp | Array, *, is_choice: bool = False) -> LoweredOp:
    """The sum; ``is_choice``: one of both is 0 in every place."""
    if not isinstance(a, LoweredOp):
        assert isinstance(b, LoweredOp), "one of both is computed"
        return _shifted(b, a) if np.any(a) else b
    if not isinstance(b, LoweredOp):
        return _shifted(a, b) if np.any(b) else a
    return _placed(LoweredOp("add", {"signs": (1.0, 1.0), "is_choice": is_choice}, (a, b)), a)


# -- mixtures --------------------------------------------------------------------------------------------------------


def _lerp(node: TracedCall, find: Find) -> LoweredOp:
    a, b, weight = node.args[0], call_argument(node, 1, "end"), call_argument(node, 2, "weight")
    if not (isinstance(a, TracedValue) and isinstance(b, TracedValue)) or isinstance(weight, TracedValue):
        raise CannotFollow("a mixture of a value and a number, or by a value", "write it as a sum: w * a + b")
    x, y = alike((find(a), find(b)), "a mixture")
    share = broadcast(weight, x, "weight").astype(np.float64)
    return _sum(scaled(x, 1.0 - share), scaled(y, share))


def _add_product(node: TracedCall, find: Find) -> LoweredOp:
    """``addcmul``: a sum of a value and a product, of spikes or with fixed numbers."""
    first, second = call_argument(node, 1, "tensor1"), call_argument(node, 2, "tensor2")
    factor = np.float64(node.kwargs.get("value", 1))
    if not isinstance(first, TracedValue):
        first, second = second, first
    if not isinstance(node.args[0], TracedValue) or not isinstance(first, TracedValue):
        raise CannotFollow("a sum with a number", "write it as a + b * c")
    traced = [find(v) for v in (node.args[0], first, second) if isinstance(v, TracedValue)]
    x, y, *others = alike(traced, "a mixture")
    if others:
        product = LoweredOp("pair", {"function": "mul", **NO_PRODUCT}, (y, *others))
        return _sum(scaled(x, 1.0), scaled(_placed(product, x), factor))
    return _sum(scaled(x, 1.0), scaled(y, factor * broadcast(second, x, "factor")))


CHOICE_HANDLERS: Mapping[str, Handler] = MappingProxyType(
    {
        "where": _where,
        **dict.fromkeys(("masked_fill", "masked_fill_"), _masked_fill),
        "__setitem__": _set_item,
        **dict.fromkeys(("lerp", "lerp_"), _lerp),
        **dict.fromkeys(("addcmul", "addcmul_"), _add_product),
    }
)
"""Function name -> its handler."""


# -- joins ---------------------------------------------------------------------------------------------------------
# Lowering of functions that put several values together: ``cat``, ``stack``, writes into part of a value.


_STEPS = "join time steps with torch.stack, values by feature"


def _cat(node: TracedCall, find: Find) -> LoweredOp:
    parts, traced = _parts(node, find)
    rank = len(traced[0].whole)
    axis = {"hstack": min(1, rank - 1)}.get(node.name, int(_axis(node))) % rank
    if axis < len(traced[0].lead):
        raise CannotFollow("values are joined along the batch or time axis", _STEPS)
    if len(traced) < len(parts):
        return _with_constants(node, traced, parts, lambda tensors: _called(node, tensors))
    return LoweredOp("concat", {"axis": axis - len(traced[0].lead)}, tuple(traced))


def _stack(node: TracedCall, find: Find) -> LoweredOp:
    """Values side by side on an axis of its own, which may stand in front of the batch."""
    parts, traced = _parts(node, find)
    axis, lead = int(_axis(node)) % len(node.shapes[0]), traced[0].lead
    if len(traced) < len(parts):
        if axis < len(lead):
            raise CannotFollow("values and constants are stacked in front of the batch", "stack them after it")
        return _with_constants(node, traced, parts, lambda tensors: _called(node, tensors))
    order = [*range(len(lead)), *range(len(lead) + 1, len(node.shapes[0]))]
    order.insert(axis, len(lead))
    place, shape, count = max(axis - len(lead), 0), traced[0].shape, len(parts)
    if len(shape) == 1:  # vectors stay vectors, and so do the network's inputs
        joint = LoweredOp("concat", {"axis": 0}, tuple(traced), lead, shape=(count * shape[0],))
        rows = np.arange(count * shape[0]).reshape(count, *shape)
        word = LoweredOp("gather", {"indices": freeze(rows.T if place else rows, np.int64)}, (joint,), lead)
    else:
        one = (*shape[:place], 1, *shape[place:])
        inner = tuple(LoweredOp("reshape", {}, (t,), lead, shape=one) for t in traced)
        word = LoweredOp("concat", {"axis": place}, inner, lead)
    return replace(word, order=tuple(order)) if axis < len(lead) else word


def _axis(node: TracedCall) -> Any:
    return call_argument(node, 1, "dim", node.kwargs.get("axis", 0))


def _called(node: TracedCall, tensors: Sequence[Any]) -> Any:
    return node.func(list(tensors), *node.args[1:], **node.kwargs)


def _parts(node: TracedCall, find: Find) -> tuple[list[Any], list[FlowValue]]:
    parts = call_argument(node, 0, "tensors")
    if not isinstance(parts, tuple):
        raise CannotFollow("parts of one value are joined", "reshape it")
    return list(parts), _parts_alike([find(p) for p in parts if isinstance(p, TracedValue)])


def _parts_alike(traced: list[FlowValue]) -> list[FlowValue]:
    if any(t.lead != traced[0].lead for t in traced):
        raise CannotFollow("values are joined along the batch or time axis", _STEPS)
    return traced


def written(node: TracedCall, find: Find, buffer: Any, index: Any, value: Any) -> LoweredOp:
    """Fixed positions of a value, or of a constant, replaced by another value or by numbers."""
    if any(isinstance(part, TracedValue) for part in (index if isinstance(index, tuple) else (index,))):
        raise CannotFollow("positions that are computed from the input", "use fixed ones, or torch.where")
    parts = [buffer, value]
    traced = _parts_alike([find(p) for p in parts if isinstance(p, TracedValue)])

    def write(tensors: Sequence[Any]) -> Any:
        whole = tensors[0].clone()
        whole[index] = tensors[1]
        return whole

    return _with_constants(node, traced, parts, write)


def _with_constants(
    node: TracedCall, traced: list[FlowValue], parts: Sequence[Any], run: Callable[[Sequence[Any]], Any]
) -> LoweredOp:
    """Values and constants, put together by ``run``: the positions that numbered values come to."""
    import torch

    if any(t.order for t in traced):
        raise CannotFollow("values whose batch or time axis is not leading are put together", _STEPS)
    constants = [torch.as_tensor(p, dtype=torch.float64) for p in parts if not isinstance(p, TracedValue)]
    sizes = [math.prod(t.shape) for t in traced]
    starts = np.concatenate([[0], np.cumsum(sizes)])
    samples = [torch.from_numpy(_samples(t)) for t in traced]
    places = [
        torch.arange(n).reshape(t.shape).expand(t.whole) + int(start) + 1
        for t, n, start in zip(traced, sizes, starts[:-1], strict=True)
    ]
    zeros = [torch.zeros_like(c, dtype=torch.int64) for c in constants]
    lead, rank = traced[0].lead, len(traced[0].lead)
    place, sample = (_shared(run(_filled(parts, t, zeros)), rank) for t in (places, samples))
    nothing = [torch.zeros(t.whole, dtype=torch.float64) for t in traced]
    constant = _shared(run(_filled(parts, nothing, constants)), rank, is_same=True)
    whole = node.shapes[0]
    numbers: Any = _samples(whole[:rank])
    own = np.broadcast_to(numbers.reshape(whole[:rank] + (1,) * (len(whole) - rank)), whole)
    if not np.array_equal(np.where(place > 0, own, 0), sample) or not np.array_equal(place, _first(place, rank)):
        raise CannotFollow("it mixes samples or time steps", "treat every sample and time step alike")
    indices, values = freeze(_first(place, rank)[(0,) * rank] - 1, np.int64), constant[(0,) * rank]
    arguments = {"indices": indices, "constant": freeze(values)} if np.any(values) else {"indices": indices}
    return LoweredOp("pad" if len(arguments) > 1 else "gather", arguments, (_in_a_row(traced),), lead)


def _in_a_row(traced: Sequence[FlowValue]) -> FlowValue | LoweredOp:
    """The values as one vector."""
    lead, sizes = traced[0].lead, [math.prod(t.shape) for t in traced]
    flat = [
        t if t.shape == (n,) else LoweredOp("reshape", {}, (t,), lead, shape=(n,))
        for t, n in zip(traced, sizes, strict=True)
    ]
    return LoweredOp("concat", {"axis": 0}, tuple(flat), lead, shape=(sum(sizes),)) if len(flat) > 1 else flat[0]


def _samples(t: FlowValue | Shape) -> Array:
    """The number of the sample, in its place, of each value."""
    if not isinstance(t, FlowValue):
        return np.arange(1, math.prod(t) + 1).reshape(t)
    count = len(t.lead)
    numbers = _samples(t.whole[:count]).reshape(*t.whole[:count], *(1,) * len(t.shape))
    return np.broadcast_to(numbers, t.whole).copy()


def _filled(parts: Sequence[Any], traced: Sequence[Any], constants: Sequence[Any]) -> list[Any]:
    values, fixed = iter(traced), iter(constants)
    return [next(values) if isinstance(p, TracedValue) else next(fixed) for p in parts]


def _first(array: Array, rank: int) -> Array:
    """The first sample in the place of each."""
    return np.broadcast_to(array[(slice(0, 1),) * rank], array.shape)


def _shared(tensor: Any, rank: int, *, is_same: bool = False) -> Array:
    """As an array; ``is_same``: of which every sample must be the same."""
    array: Array = tensor.numpy()
    if is_same and not np.array_equal(array, _first(array, rank)):
        raise CannotFollow("constants that differ from sample to sample", "use the same ones for all")
    return array


JOIN_HANDLERS: Mapping[str, Handler] = MappingProxyType(
    {**dict.fromkeys(("cat", "concat", "concatenate", "hstack"), _cat), "stack": _stack, RING: _stack}
)
"""Function name -> its handler."""
