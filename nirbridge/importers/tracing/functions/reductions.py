"""Lowering of functions of several values of one tensor: sums, means, maxima, minima and truths over axes."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

from nirbridge.importers.tracing.advice import advice_on
from nirbridge.importers.tracing.arguments import IN_FRONT, CannotFollow, FlowValue, LoweredOp, call_argument
from nirbridge.importers.tracing.fixed_maps import sum_over
from nirbridge.importers.tracing.pointwise import of_each_value
from nirbridge.importers.tracing.recorder import TracedCall

_MAXIMA = frozenset({"amax", "any", "max"})
_MINIMA = frozenset({"amin", "all", "min", "prod"})
_TRUTHS = frozenset({"any", "all", "count_nonzero"})
"""Maxima, minima and truths over axes, which are exact over spikes."""


def is_reduction(node: TracedCall) -> bool:
    """True for sums, means, maxima and minima over axes of one value."""
    if node.name in ("max", "min"):
        return len(node.shapes) > 1  # values and their positions; over all values, or of two, there is one result
    return node.name in {"sum", "mean", *_MAXIMA, *_MINIMA, *_TRUTHS}


def keeps_axes(node: TracedCall) -> bool:
    """True where the axes of a reduction stay, with size one."""
    return node.name != "count_nonzero" and bool(call_argument(node, 2, "keepdim", False))


def lower_reduction(node: TracedCall, x: FlowValue, output: int = 0) -> LoweredOp:
    """A sum or mean: over time (a readout), or over axes of values; maxima and minima over axes of values.

    Raises:
        CannotFollow: any other, as the positions of maxima, and all that is over the batch.
    """
    if output:
        raise CannotFollow(f"the position of a {node.name} is requested", "leave argmax out of forward")
    if x.order:
        return _turned_back(node, x)
    return _of_truths(node, _reduced(node, x, _dims(node, len(x.whole))))


def _turned_back(node: TracedCall, x: FlowValue) -> LoweredOp:
    """The same of a value whose batch or time is not leading, as ``torch.stack((a, b)).amax(0)``."""
    dims = tuple(sorted(x.order[k] for k in _dims(node, len(x.whole))))
    rest = [place for place in x.order if place not in dims]
    if rest != sorted(rest) or any(k < len(x.lead) for k in dims) or keeps_axes(node):
        raise CannotFollow(f"values of shape {x.whole}, where batch or time is not leading", IN_FRONT)
    return _of_truths(node, _reduced(node, replace(x, whole=x.arranged, order=()), dims))


def _of_truths(node: TracedCall, word: LoweredOp) -> LoweredOp:
    """Of what is not 0, where the function asks for that; the least where it asks for that."""
    if node.name in _MAXIMA | _MINIMA:
        is_least = node.name in _MINIMA
        word = replace(word, arguments={**word.arguments, "is_least": is_least, "function": node.name})
    if node.name not in _TRUTHS:
        return word
    x = next(word.values)
    truth = of_each_value(node, x, lambda points: points != 0)
    return replace(word, inputs=(replace(truth, lead=x.lead, shape=x.shape),))


def _reduced(node: TracedCall, x: FlowValue, dims: tuple[int, ...]) -> LoweredOp:
    is_choice = node.name in _MAXIMA | _MINIMA
    over = [k for k in dims if k < len(x.lead)]
    if over and "chunk" in x.lead:
        raise CannotFollow(f"a {node.name} over chunks of time steps", "return every time step, and sum the outputs")
    is_over_time = len(dims) == len(over) == 1 and x.lead[over[0]] == "time"
    if is_over_time and not keeps_axes(node) and not is_choice and node.name not in _TRUTHS:
        lead = tuple(word for k, word in enumerate(x.lead) if k != over[0])
        return LoweredOp("summed", {"steps": x.whole[over[0]], "is_mean": node.name == "mean"}, (x,), lead)
    spatial = tuple(range(len(x.lead) + 1, len(x.whole)))
    if dims == spatial and len(spatial) in (1, 2):
        return _over_positions(node, x)
    if over and node.name in ("max", "min", "amax", "amin"):
        raise CannotFollow(*advice_on(node.name))
    if over:
        raise CannotFollow(f"a {node.name} over the batch or time, and values", "sum values first, and time last")
    summed = sum_over(x, [k - len(x.lead) for k in dims], mean=node.name == "mean")
    return replace(summed, kind="max_pool") if is_choice else summed


def _over_positions(node: TracedCall, x: FlowValue) -> LoweredOp:
    kernel = x.shape[1:]
    padding = ((0, 0),) * len(kernel)
    if node.name in _MAXIMA | _MINIMA:
        arguments = {"kernel": kernel, "stride": kernel, "padding": padding, "dilation": (1,) * len(kernel)}
        return LoweredOp("max_pool", arguments, (x,))
    factor = 1.0 / math.prod(kernel) if node.name == "mean" else 1.0
    return LoweredOp("avg_pool", {"kernel": kernel, "stride": kernel, "padding": padding, "factor": factor}, (x,))


def _dims(node: TracedCall, rank: int) -> tuple[int, ...]:
    dims: Any = call_argument(node, 1, "dim", node.kwargs.get("axis"))
    if dims is None:
        return tuple(range(rank))
    dims = dims if isinstance(dims, tuple) else (dims,)
    return tuple(sorted(int(d) % rank for d in dims))
