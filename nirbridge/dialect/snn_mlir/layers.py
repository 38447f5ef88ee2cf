"""Matrices, convolutions and pools of snn-mlir's operations."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NoReturn

from nirbridge.arrays import Array
from nirbridge.dialect.snn_mlir.grammar import SYNAPSES
from nirbridge.dialect.snn_mlir.parts import Op
from nirbridge.errors import quoted
from nirbridge.network.operators import Conv, Dense, SumPool

Fail = Callable[..., NoReturn]
"""Raises the error of a line: what was found, and the limit."""
_EXTENT_MAX = 2**31
_IGNORED = ("w_scale",)
"""Attributes of modules in integers, 0 in others."""


def synapse(op: Op, weight: Array, fail: Fail) -> Dense | Conv:
    """The operator of ``snn.linear``, ``snn.conv1d`` or ``snn.conv2d``; its shapes are those of the operation."""
    axes, (taken, given) = SYNAPSES[op.name], (op.types[0].shape, op.types[2].shape)
    _check_attributes(op, ("stride", "padding") if axes else (), fail)
    if weight.ndim != (axes + 2 if axes else 2) or len(taken) != axes + 1:
        fail(f"{op.name} of an array with {len(taken)} axes, weights with {weight.ndim}", "other axes")
    if not axes:
        part: Dense | Conv = Dense(weight)
    else:
        stride, sides = (_extents(op, key, axes, least, fail) for key, least in (("stride", 1), ("padding", 0)))
        padding = tuple((n, n) for n in sides)
        if taken[0] != weight.shape[1]:
            fail(f"{op.name} of {taken[0]:,} channels", f"its weights have {weight.shape[1]:,}")
        part = Conv(weight, stride, padding, (1,) * axes, 1, taken)
    _check_shapes(op, part, taken, given, fail)
    return part


def pool(op: Op, fail: Fail) -> SumPool:
    """The operator of ``snn.sumpool2d`` or ``snn.avgpool2d``."""
    taken, given = op.types[0].shape, op.types[1].shape
    _check_attributes(op, ("kernel", "stride", "padding"), fail)
    if len(taken) != 3:
        fail(f"{op.name} of an array with {len(taken)} axes", "channels, height and width")
    kernel, stride = (_extents(op, key, 2, 1, fail) for key in ("kernel", "stride"))
    padding = tuple((n, n) for n in _extents(op, "padding", 2, 0, fail))
    factor = 1.0 if op.name == "snn.sumpool2d" else 1.0 / math.prod(kernel)
    part = SumPool(kernel, stride, padding, taken, factor)
    _check_shapes(op, part, taken, given, fail)
    return part


def _extents(op: Op, key: str, axes: int, least: int, fail: Fail) -> tuple[int, ...]:
    """The integers of an attribute, one per axis; strides default to 1, padding to 0."""
    if key == "kernel" and key not in op.attributes:
        fail(f"{op.name} without a kernel")
    value = op.attributes.get(key, (least,) * axes)
    found = (int(value),) if isinstance(value, float) and value.is_integer() else value
    if not isinstance(found, tuple) or len(found) != axes or not all(least <= n < _EXTENT_MAX for n in found):
        fail(f"{key} of {op.name} is {quoted(value)}", f"{axes} whole numbers of at least {least}")
    return found


def _check_attributes(op: Op, known: tuple[str, ...], fail: Fail) -> None:
    for key, value in op.attributes.items():
        if key not in known and not (key in _IGNORED and value == 0):
            fail(f"{op.name} with {quoted(key)}", f"it has {', '.join(known) or 'no attributes'}")


def _check_shapes(op: Op, part: Any, taken: tuple[int, ...], given: tuple[int, ...], fail: Fail) -> None:
    if (part.input_shape, part.output_shape) != (taken, given):
        found = f"{op.name} from {taken} to {given}"
        fail(found, f"its numbers give {part.input_shape} to {part.output_shape}")
