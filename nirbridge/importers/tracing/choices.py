"""Lowering of choices between two values (``torch.where``, ``masked_fill``, ``x[mask] = y``) and of mixtures of them.

A choice by fixed truth values is linear. By a value c, which is 0 or 1, it is ``c * a + (1 - c) * b``: linear in c
where a and b are numbers, else products of spikes, which ``lowering.spike_logic`` decides.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import numpy as np

from nirbridge.arrays import Array
from nirbridge.importers.tracing.arguments import (
    CannotFollow,
    Find,
    FlowValue,
    Handler,
    LoweredOp,
    broadcast,
    call_argument,
)
from nirbridge.importers.tracing.joins import written
from nirbridge.importers.tracing.recorder import TracedCall, TracedValue
from nirbridge.importers.tracing.structures import torch_tensor

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
    traced = [find(value) for value in (condition, a, b) if isinstance(value, TracedValue)]
    x = traced[0]
    if any(t.whole != node.shapes[0] or t.lead != x.lead for t in traced):
        shapes = " and ".join(str(t.whole) for t in traced)
        raise CannotFollow(f"a choice between values of shape {shapes}", "use equal shapes: a.expand_as(b)")
    one, other = (find(v) if isinstance(v, TracedValue) else _number(v, x) for v in (a, b))
    if isinstance(condition, TracedValue):
        return _by_value(find(condition), one, other)
    mask = broadcast(condition, x, "condition").astype(bool)
    return _sum(_where_held(one, mask, x), _where_held(other, ~mask, x), is_choice=True)


def _number(value: Any, x: FlowValue) -> Array:
    array = broadcast(value, x, "number").astype(np.float64)
    if not bool(np.all(np.isfinite(array))):
        raise CannotFollow("infinite numbers are put in", "use finite ones")
    return array


def _where_held(value: FlowValue | Array, mask: Array, x: FlowValue) -> LoweredOp | Array:
    """The value where the fixed truth values hold, 0 elsewhere."""
    if isinstance(value, FlowValue):
        return scaled(value, np.broadcast_to(mask, x.shape).astype(np.float64))
    return value * mask


def _by_value(c: FlowValue, a: FlowValue | Array, b: FlowValue | Array) -> LoweredOp:
    """``c * a + (1 - c) * b`` where c is 0 or 1."""
    if not isinstance(a, FlowValue) and not isinstance(b, FlowValue):
        return _shifted(scaled(c, a - b), b)
    not_c = _shifted(scaled(c, np.float64(-1.0)), np.float64(1.0))
    parts = [
        _placed(LoweredOp("pair", dict(_PRODUCT), (which, value)), c) if isinstance(value, FlowValue)
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
    x, y = _alike(find(a), find(b))
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
    x, y = _alike(find(node.args[0]), find(first))
    if isinstance(second, TracedValue):
        texts = {"reason": "a product of two values", "hint": "no spiking neuron multiplies; use a fixed factor"}
        product = LoweredOp("pair", {"function": "mul", **texts}, _alike(y, find(second)))
        return _sum(scaled(x, 1.0), scaled(_placed(product, x), factor))
    return _sum(scaled(x, 1.0), scaled(y, factor * broadcast(second, x, "factor")))


def _alike(x: FlowValue, y: FlowValue) -> tuple[FlowValue, FlowValue]:
    if x.shape != y.shape or x.lead != y.lead:
        raise CannotFollow(f"a mixture of values of shape {x.shape} and {y.shape}", "use equal shapes: a.expand_as(b)")
    return x, y


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
