"""Lowering of linear functions that have no layer of their own: their matrix, computed from the images of unit vectors.

``einsum`` with fixed weights, ``cumsum``, ``unfold`` with overlaps, ``Conv3d``, averages whose last window is cut. The
matrix is compared with the function itself on random values of several samples, so a function that is not linear, or
mixes samples, is never taken for one that is.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import partial
from types import MappingProxyType
from typing import Any

import numpy as np

from nirbridge.arrays import Array, freeze
from nirbridge.importers.tracing.arguments import CannotFollow, Find, FlowValue, Handler, LoweredOp
from nirbridge.importers.tracing.fixed_maps import matrix_of
from nirbridge.importers.tracing.recorder import TracedCall, TracedValue, values_of

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
        ("einsum", "tensordot", "bmm", "cumsum", "diff", "tril", "triu", "avg_pool3d", "adaptive_avg_pool3d",
         "conv_transpose3d", "fold"),
        computed_map,
    )
)  # fmt: skip
"""Function name -> its handler."""
