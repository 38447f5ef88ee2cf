"""Lowering of torch functions: layers with weights, pools, activations, arithmetic."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from string import ascii_lowercase
from types import MappingProxyType
from typing import Any

import numpy as np

from nirbridge._types import Shape
from nirbridge.arrays import Array, freeze
from nirbridge.errors import counted
from nirbridge.importers.tracing.arguments import (
    CannotFollow,
    Find,
    FlowValue,
    Handler,
    LoweredOp,
    alike,
    broadcast,
    call_argument,
    constant_argument,
    input_of,
    later,
    per_axis,
)
from nirbridge.importers.tracing.pointwise import (
    CHOICE_HANDLERS,
    JOIN_HANDLERS,
    LOGIC_HANDLERS,
    NO_PRODUCT,
    PRODUCTS_HINT,
    PRODUCTS_MAX,
    of_each_value,
    pair,
    pointwise,
)
from nirbridge.importers.tracing.recorder import TracedCall, TracedValue, values_of
from nirbridge.importers.tracing.shape_ops import MAP_HANDLERS, matrix_of, uneven_pool
from nirbridge.importers.tracing.values import COPIES

# -- computed maps -------------------------------------------------------------------------------------------------
# Lowering of linear functions that have no layer of their own: their matrix, computed from the images of unit vectors.
#
# ``einsum`` with fixed weights, ``cumsum``, ``unfold`` with overlaps, ``Conv3d``, averages whose last window is cut.
# The matrix is compared with the function itself on random values of several samples, so a function that is not linear,
# or mixes samples, is never taken for one that is.

_WEIGHTS_MAX, _UNITS_MAX = 2**22, 4096
"""Numbers of such a matrix, and columns of it, up to which it is computed."""
_SEED = 20_261_122


def computed_map(node: TracedCall, find: Find) -> LoweredOp:
    """The matrix and the constant of a function of one value.

    Raises:
        CannotFollow: the function is not linear, mixes samples, or is too large.
    """
    import torch

    values = list(values_of((node.args, dict(node.kwargs))))
    if len(values) != 1 or node.func is None:
        raise CannotFollow("a product of two values, or an unsupported call", "use torch.nn.Linear or a convolution")
    x = find(values[0])
    rank, size = len(x.lead), math.prod(x.shape)
    out = node.shapes[0][rank:]
    if x.order or node.shapes[0][:rank] != x.whole[:rank] or not rank:
        raise CannotFollow("it mixes samples or time steps with values", "treat every sample and time step alike")
    if size > _UNITS_MAX or size * math.prod(out) > _WEIGHTS_MAX:
        text = f"a matrix of {size:,} columns and {math.prod(out):,} rows"
        raise CannotFollow(f"{text}; {_UNITS_MAX:,} columns and {_WEIGHTS_MAX:,} numbers are computed")
    ones = (1,) * (rank - 1)
    constant = _result(node, torch.zeros((1, *ones, *x.shape))).reshape(out)
    images = _result(node, torch.eye(size).reshape(size, *ones, *x.shape)).reshape(size, -1) - constant.reshape(-1)
    source = torch.Generator().manual_seed(_SEED)
    probe = torch.randint(-8, 8, x.whole, generator=source).float()
    wanted = probe.numpy().reshape(-1, size).astype(np.float64) @ images + constant.reshape(-1)
    largest = max(1.0, float(np.abs(wanted).max(initial=0.0)))
    if not np.allclose(_result(node, probe).reshape(wanted.shape), wanted, rtol=1e-4, atol=1e-5 * largest):
        raise CannotFollow("it is not linear, or mixes samples", "use torch.nn.Linear or a convolution")
    return _as_layer(x, images, constant)


def _as_layer(x: FlowValue, images: Array, constant: Array) -> LoweredOp:
    bias = freeze(constant) if np.any(constant) else None
    if len(x.shape) == constant.ndim == 1:
        return LoweredOp("linear", {"weight": freeze(images.T, np.float32), "bias": bias}, (x,))
    rows, columns = np.nonzero(images.T)
    word = matrix_of(x, rows, columns, constant.shape, images.T[rows, columns])
    if bias is None:
        return word
    inner = LoweredOp("matrix", word.arguments, (x,), x.lead, shape=constant.shape)
    return LoweredOp("shift", {"constant": bias, "sign": 1.0}, (inner,))


def _result(node: TracedCall, x: Any) -> Array:
    import torch
    from torch.utils import _pytree as pytree

    args, kwargs = pytree.tree_map_only(
        TracedValue, lambda _: x, (node.args, dict(node.kwargs)), is_leaf=lambda a: isinstance(a, TracedValue)
    )
    with torch.no_grad():
        result = node.func(*args, **kwargs)
    return np.asarray(result.detach().to(torch.float64).numpy())


def or_computed(handler: Handler) -> Handler:
    """The handler, and where it does not know the call, its matrix."""
    return partial(_either, handler)


def _either(handler: Handler, node: TracedCall, find: Find) -> LoweredOp:
    try:
        return handler(node, find)
    except CannotFollow as reason:
        try:
            return computed_map(node, find)
        except (CannotFollow, RuntimeError, TypeError, ValueError):
            raise reason from None


COMPUTED_HANDLERS: Mapping[str, Handler] = MappingProxyType(
    dict.fromkeys(
        ("tensordot", "cumsum", "diff", "tril", "triu", "avg_pool3d", "adaptive_avg_pool3d",
         "conv_transpose3d", "fold"),
        computed_map,
    )
)  # fmt: skip
"""Function name -> its handler."""


def _linear(node: TracedCall, find: Find) -> LoweredOp:
    x = input_of(node, find)
    weight, bias = (
        constant_argument(call_argument(node, 1, "weight"), "weight"),
        constant_argument(call_argument(node, 2, "bias"), "bias"),
    )
    return LoweredOp("linear", {"weight": weight, "bias": bias}, (x,))


def _matmul(node: TracedCall, find: Find) -> LoweredOp:
    x = input_of(node, find)
    if isinstance(other := call_argument(node, 1, "other", node.kwargs.get("mat2")), TracedValue):
        return _matrix_product(node, x, find(other))
    weight = constant_argument(node.args[1], "second factor")
    if weight is None or weight.ndim != 2:
        raise CannotFollow("a product with something that is not a matrix", "use torch.nn.Linear")
    return LoweredOp("linear", {"weight": weight.T, "bias": None}, (x,))


def _matrix_product(node: TracedCall, x: FlowValue, y: FlowValue) -> LoweredOp:
    """``x @ y``; the first axes of both are the same."""
    if len(x.shape) < 2 or len(x.whole) != len(y.whole) or x.shape[:-2] != y.shape[:-2]:
        raise CannotFollow(f"a product of matrices of shape {x.shape} and {y.shape}", "use equal first axes")
    first = ascii_lowercase[: len(x.shape) - 2]
    return _summed_products(node, x, y, (first + "yz", first + "zx", first + "yx"))


def _summed_products(node: TracedCall, x: FlowValue, y: FlowValue, axes: tuple[str, str, str]) -> LoweredOp:
    """Products of two values, summed; ``axes``: a letter for each axis of x, of y and of the result."""
    sizes = dict(zip(axes[0] + axes[1], x.shape + y.shape, strict=True))
    every = axes[2] + "".join(letter for letter in sizes if letter not in axes[2])
    shape, out = tuple(sizes[letter] for letter in every), tuple(sizes[letter] for letter in axes[2])
    if x.lead != y.lead or any(len(set(letters)) < len(letters) for letters in axes):
        raise CannotFollow("a product of values, of samples or time steps that differ", "use torch.matmul")
    if math.prod(shape) > PRODUCTS_MAX:
        found = f"a product of matrices of spikes is {math.prod(shape):,} threshold neurons"
        raise CannotFollow(f"{found}; at most {PRODUCTS_MAX:,} are built", PRODUCTS_HINT)
    parts = tuple(_along(value, letters, every, shape) for value, letters in zip((x, y), axes[:2], strict=True))
    product = LoweredOp("pair", {"function": node.name, **NO_PRODUCT}, parts, x.lead, shape=shape)
    rows = np.arange(math.prod(shape)) // max(1, math.prod(shape[len(out) :]))
    return matrix_of(product, rows, np.arange(math.prod(shape)), out)


def _along(x: FlowValue, axes: str, every: str, shape: Shape) -> LoweredOp:
    """The values repeated along the axes that they do not have."""
    places = np.arange(math.prod(x.shape)).reshape(x.shape).transpose([axes.index(k) for k in every if k in axes])
    places = places.reshape([n if k in axes else 1 for k, n in zip(every, shape, strict=True)])
    indices = freeze(np.broadcast_to(places, shape), np.int64)
    return LoweredOp("gather", {"indices": indices}, (x,), x.lead, shape=shape)


def _einsum(node: TracedCall, find: Find) -> LoweredOp:
    """Of two values products of them, summed; of one its matrix."""
    equation, *values = node.args
    values = list(values[0]) if len(values) == 1 and isinstance(values[0], tuple) else values
    if len(values) != 2 or not all(isinstance(value, TracedValue) for value in values):
        return computed_map(node, find)
    x, y = map(find, values)
    terms, _, out = equation.replace(" ", "").partition("->")
    letters, n = [*terms.split(","), out], len(x.lead)
    if not out or "." in equation or len({text[:n] for text in letters}) > 1:
        raise CannotFollow(f"einsum {equation!r} of two values", "name batch and time first, in all three terms")
    return _summed_products(node, x, y, (letters[0][n:], letters[1][n:], letters[2][n:]))


def _addmm(node: TracedCall, find: Find) -> LoweredOp:
    if not isinstance(node.args[1], TracedValue) or node.kwargs:
        raise CannotFollow("addmm with factors, or of a fixed input", "use torch.nn.Linear")
    weight, bias = constant_argument(node.args[2], "weight"), constant_argument(node.args[0], "bias")
    return LoweredOp("linear", {"weight": None if weight is None else weight.T, "bias": bias}, (find(node.args[1]),))


def _conv(node: TracedCall, find: Find) -> LoweredOp:
    x, axes = input_of(node, find), int(node.name[4])
    if axes > 2 or len(x.shape) != axes + 1:
        some = f"channels and {counted(axes, 'axis', 'axes')}" if axes <= 2 else "one and two axes"
        limit = f"{some} are supported"
        raise CannotFollow(
            f"a convolution of values of shape {x.shape}; {limit}", "add the missing axis, or use Conv2d"
        )
    weight, bias = (
        constant_argument(call_argument(node, 1, "weight"), "weight"),
        constant_argument(call_argument(node, 2, "bias"), "bias"),
    )
    stride, dilation = (
        per_axis(call_argument(node, 3, "stride", 1), axes),
        per_axis(call_argument(node, 5, "dilation", 1), axes),
    )
    kernel = () if weight is None else weight.shape[2:]
    arguments = {
        "weight": weight,
        "bias": bias,
        "stride": stride,
        "padding": _padding(call_argument(node, 4, "padding", 0), kernel, dilation),
        "dilation": dilation,
        "groups": int(call_argument(node, 6, "groups", 1)),
    }
    return LoweredOp("conv", arguments, (x,))


def _padding(padding: Any, kernel: Shape, dilation: tuple[int, ...]) -> tuple[tuple[int, int], ...]:
    if padding == "valid":
        return ((0, 0),) * len(kernel)
    if padding == "same":
        totals = [d * (k - 1) for k, d in zip(kernel, dilation, strict=True)]
        return tuple((t // 2, t - t // 2) for t in totals)
    return tuple((p, p) for p in per_axis(padding, len(kernel)))


def _axes(node: TracedCall) -> int:
    """How many axes a pool has, from its name."""
    return int(node.name.removesuffix("_with_indices")[-2])


def _pool(
    node: TracedCall,
    find: Find,
    kernel: Any,
    stride: Any,
    padding: Any,
    factor: float | None = None,
    ceil: bool = False,
) -> LoweredOp:
    x, axes = input_of(node, find), _axes(node)
    if len(x.shape) != axes + 1:
        raise CannotFollow(
            f"a pool of values of shape {x.shape}", f"it works on channels and {counted(axes, 'axis', 'axes')}"
        )
    kernel = per_axis(kernel, axes)
    stride = per_axis(stride, axes) if stride is not None and stride != () else kernel
    padding = tuple((p, p) for p in per_axis(padding, axes))
    for n, k, s, (p, _) in zip(x.shape[1:], kernel, stride, padding, strict=True):
        if ceil and (n + 2 * p - k) % s:
            raise CannotFollow("a pool with ceil_mode, whose last window is cut", "use ceil_mode=False")
    factor = 1.0 / math.prod(kernel) if factor is None else factor
    return LoweredOp("avg_pool", {"kernel": kernel, "stride": stride, "padding": padding, "factor": factor}, (x,))


def _avg_pool(node: TracedCall, find: Find) -> LoweredOp:
    kernel, stride, padding = (
        call_argument(node, 1, "kernel_size"),
        call_argument(node, 2, "stride"),
        call_argument(node, 3, "padding", 0),
    )
    counts, divisor = call_argument(node, 5, "count_include_pad", True), call_argument(node, 6, "divisor_override")
    if not counts and any(per_axis(padding, _axes(node))):
        raise CannotFollow("an average that leaves the padding out (count_include_pad=False)", "count it in")
    factor = 1.0 / divisor if divisor else None
    return _pool(node, find, kernel, stride, padding, factor, ceil=call_argument(node, 4, "ceil_mode", False))


def _sum_pool(node: TracedCall, find: Find) -> LoweredOp:
    if float(call_argument(node, 1, "norm_type")) != 1.0:
        raise CannotFollow("a power-average pool", "use norm_type 1 (a sum), or an average pool")
    kernel, stride = call_argument(node, 2, "kernel_size"), call_argument(node, 3, "stride")
    return _pool(node, find, kernel, stride, 0, 1.0, ceil=call_argument(node, 4, "ceil_mode", False))


def _adaptive(node: TracedCall, find: Find) -> LoweredOp:
    x, axes, size = input_of(node, find), _axes(node), call_argument(node, 1, "output_size")
    spatial = x.shape[-axes:]
    sizes = [size] * axes if isinstance(size, int) or size is None else list(size)
    sizes = [n if w is None else int(w) for w, n in zip(sizes, spatial, strict=True)]
    if any(n % w for n, w in zip(spatial, sizes, strict=True)):
        return uneven_pool(x, tuple(sizes))
    kernel = tuple(n // w for n, w in zip(spatial, sizes, strict=True))
    return _pool(node, find, kernel, kernel, 0)


def _max_pool(node: TracedCall, find: Find) -> LoweredOp:
    kernel, stride = call_argument(node, 1, "kernel_size"), call_argument(node, 2, "stride")
    word = _pool(node, find, kernel, stride, call_argument(node, 3, "padding", 0))
    a = word.arguments
    dilation = per_axis(call_argument(node, 4, "dilation", 1), len(a["kernel"]))
    more = [0] * len(dilation)
    if call_argument(node, 5, "ceil_mode", False):  # windows over the end, where nothing is
        sizes = zip(word.inputs[0].shape[1:], node.shapes[0][-len(dilation) :], a["kernel"], dilation, strict=True)
        ends = [(count - 1) * s - n + d * (k - 1) + 1 for (n, count, k, d), s in zip(sizes, a["stride"], strict=True)]
        more = [max(0, end - 2 * p) for end, (p, _) in zip(ends, a["padding"], strict=True)]
    padded = tuple((p, p + extra) for (p, _), extra in zip(a["padding"], more, strict=True))
    arguments = {"kernel": a["kernel"], "stride": a["stride"], "padding": padded, "dilation": dilation}
    return LoweredOp("max_pool", arguments, word.inputs)


def _max_pool_3d(node: TracedCall, find: Find) -> LoweredOp:
    """A pool of whole sequences, of which it takes the batch for channels: along the last two axes alone."""
    kernel = call_argument(node, 1, "kernel_size")
    others = [call_argument(node, k, word) for k, word in enumerate(("stride", "padding", "dilation"), 2)]
    given = [value or default for value, default in zip(others, (kernel, 0, 1), strict=True)]
    windows = [per_axis(value, 3) for value in (kernel, *given)]
    if [first for first, *_ in windows] != [1, 1, 0, 1]:
        raise CannotFollow("a maximum along three axes", "pool the last two axes of spikes")
    args = (node.args[0], *(rest for _, *rest in windows), call_argument(node, 5, "ceil_mode", False))
    return _max_pool(replace(node, name="max_pool2d", args=args, kwargs={}), find)


def _adaptive_max(node: TracedCall, find: Find) -> LoweredOp:
    word = _adaptive(node, find)
    return LoweredOp("max_pool", {**word.arguments, "dilation": (1,) * _axes(node)}, word.inputs)


def _batch_norm(node: TracedCall, find: Find) -> LoweredOp:
    x = input_of(node, find)
    mean, variance = call_argument(node, 1, "running_mean"), call_argument(node, 2, "running_var")
    if mean is None or variance is None or call_argument(node, 5, "training", False):
        raise CannotFollow("a BatchNorm without running statistics uses those of the batch", "train with statistics")
    arguments = {
        "mean": constant_argument(mean, "mean"),
        "variance": constant_argument(variance, "variance"),
        "weight": constant_argument(call_argument(node, 3, "weight"), "weight"),
        "bias": constant_argument(call_argument(node, 4, "bias"), "bias"),
        "epsilon": float(call_argument(node, 7, "eps", 1e-5)),
    }
    return LoweredOp("batch_norm", arguments, (x,))


def _dropout(node: TracedCall, find: Find) -> LoweredOp:
    if call_argument(node, 2, "training", True) and float(call_argument(node, 1, "p", 0.5)) > 0:
        raise CannotFollow("a dropout that is always on", "pass training=self.training")
    return _unary(node, find, "same")


def _unary(node: TracedCall, find: Find, kind: str, **arguments: Any) -> LoweredOp:
    return LoweredOp(kind, arguments, (input_of(node, find),))


def _cast(node: TracedCall, find: Find) -> LoweredOp:
    """A change of number format: harmless between floats of 32 bits and more."""
    import torch

    x = input_of(node, find)
    types = [a for a in (*node.args[1:], *node.kwargs.values()) if isinstance(a, torch.dtype)]
    if all(t in (torch.float32, torch.float64) for t in types):
        return LoweredOp("same", {}, (x,))
    whole = types[0] is torch.bool or not types[0].is_floating_point
    reason, hint = f"a change of the number format to {types[0]}", "compute in float32"
    if not whole:
        raise CannotFollow(reason, hint)
    return of_each_value(node, x, lambda tensor: tensor.to(types[0]), reason, hint)


def _clamp(node: TracedCall, find: Find) -> LoweredOp:
    low, high = (
        call_argument(node, 1, "min"),
        call_argument(node, 2, "max") if not node.name.startswith("clamp_min") else None,
    )
    if isinstance(low, int | float) and low == 0 and high is None:
        return _unary(node, find, "relu")
    reason, hint = "values are clipped, and not at a minimum of 0", "use relu, or let a neuron do it"
    return pointwise(node, find, reason, hint)


def _combine(node: TracedCall, find: Find, sign: int, *, reverse: bool = False) -> LoweredOp:
    a, b = (node.args[1], node.args[0]) if reverse else (node.args[0], call_argument(node, 1, "other"))
    factor = float(node.kwargs.get("alpha", 1))
    if isinstance(a, TracedValue) and isinstance(b, TracedValue):
        return LoweredOp("add", {"signs": (1.0, sign * factor)}, alike((find(a), find(b)), "a sum"))
    if isinstance(a, TracedValue):
        x = find(a)
        return LoweredOp("shift", {"constant": sign * factor * broadcast(b, x, "constant"), "sign": 1.0}, (x,))
    x = find(b)
    return LoweredOp("shift", {"constant": broadcast(a, x, "constant"), "sign": sign * factor}, (x,))


def _mul(node: TracedCall, find: Find) -> LoweredOp:
    a, b = node.args[0], call_argument(node, 1, "other")
    if isinstance(a, TracedValue) and isinstance(b, TracedValue):
        word = pair(node, find)
        return replace(word, arguments={**word.arguments, **NO_PRODUCT})
    x, other = (find(a), b) if isinstance(a, TracedValue) else (find(b), a)
    return LoweredOp("scale", {"factor": broadcast(other, x, "factor")}, (x,))


def _div(node: TracedCall, find: Find) -> LoweredOp:
    if (
        not isinstance(node.args[0], TracedValue)
        or isinstance(call_argument(node, 1, "other"), TracedValue)
        or node.kwargs
    ):
        raise CannotFollow("a division by a value", "no spiking neuron divides; use a fixed factor")
    x = find(node.args[0])
    divisor = broadcast(call_argument(node, 1, "other"), x, "divisor").astype(np.float64)
    return LoweredOp("scale", {"factor": freeze(1.0 / divisor)}, (x,))


def _delay(node: TracedCall, find: Find) -> LoweredOp:
    """A module that delays by a number of time steps, in single-step or in multi-step mode."""
    x, (steps, mode) = input_of(node, find), node.args[1:]
    if x.lead[:1] != ("time",) if mode == "m" else "time" in x.lead:
        found = f"a delay in step mode {mode!r} of values with leading axes {x.lead or 'none'}"
        raise CannotFollow(found, "set the step mode in which forward calls it: functional.set_step_mode(net, 'm')")
    return LoweredOp("same", {}, (later(x, steps),))


_POOLS = ("max_pool1d", "max_pool2d", "max_pool1d_with_indices", "max_pool2d_with_indices")
_POOLS_3D = ("max_pool3d", "max_pool3d_with_indices")
_ADAPTIVE_POOLS = tuple(f"adaptive_{name}" for name in _POOLS)
MAX_POOLS = (*_POOLS, *_POOLS_3D, *_ADAPTIVE_POOLS)
"""Functions that give maxima and, perhaps, their positions."""

OP_HANDLERS: Mapping[str, Handler] = {
    "linear": _linear,
    **dict.fromkeys(("matmul", "mm", "bmm", "__matmul__", "__rmatmul__"), or_computed(_matmul)),
    "addmm": _addmm,
    "einsum": _einsum,
    **dict.fromkeys(("conv1d", "conv2d", "conv3d"), or_computed(_conv)),
    **dict.fromkeys(("avg_pool1d", "avg_pool2d"), or_computed(_avg_pool)),
    **dict.fromkeys(("lp_pool1d", "lp_pool2d"), _sum_pool),
    **dict.fromkeys(("adaptive_avg_pool1d", "adaptive_avg_pool2d"), _adaptive),
    **dict.fromkeys(_POOLS, _max_pool),
    **dict.fromkeys(_POOLS_3D, _max_pool_3d),
    **dict.fromkeys(_ADAPTIVE_POOLS, _adaptive_max),
    "batch_norm": _batch_norm,
    "delay": _delay,
    **dict.fromkeys(
        ("dropout", "dropout1d", "dropout2d", "dropout3d", "feature_dropout", "alpha_dropout", "dropout_"), _dropout
    ),
    **dict.fromkeys(("relu", "relu_"), partial(_unary, kind="relu")),
    **dict.fromkeys(("clamp", "clamp_", "clip", "clip_", "clamp_min", "clamp_min_"), _clamp),
    **dict.fromkeys(("to", "type", "double", "type_as"), _cast),
    **dict.fromkeys(("add", "add_", "__add__", "__radd__", "__iadd__"), partial(_combine, sign=1)),
    **dict.fromkeys(("sub", "sub_", "subtract", "__sub__", "__isub__"), partial(_combine, sign=-1)),
    **dict.fromkeys(("rsub", "__rsub__"), partial(_combine, sign=-1, reverse=True)),
    **dict.fromkeys(("mul", "mul_", "multiply", "__mul__", "__rmul__", "__imul__"), _mul),
    **dict.fromkeys(("div", "div_", "divide", "true_divide", "__truediv__", "__itruediv__"), _div),
    **dict.fromkeys(("neg", "neg_", "negative", "__neg__"), partial(_unary, kind="scale", factor=np.asarray(-1.0))),
    **dict.fromkeys(COPIES, partial(_unary, kind="same")),
    **LOGIC_HANDLERS,
    **MAP_HANDLERS,
    **CHOICE_HANDLERS,
    **JOIN_HANDLERS,
    **COMPUTED_HANDLERS,
}
"""Function name -> its handler. Rearrangements are in ``shape_ops``."""
