"""Arrays of a module and the projections that they hold, followed from operation to operation."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NoReturn

import numpy as np

from nirbridge._types import Shape
from nirbridge.arrays import Array, freeze
from nirbridge.dialect.snn_mlir.grammar import COPY, SYNAPSES, Module
from nirbridge.dialect.snn_mlir.tokens import Memory, Op
from nirbridge.errors import FileError, quoted
from nirbridge.network.operators import Conv, Dense, Operator, Reshape, SumPool

HINT = "give a module of snn-mlir, as nirbridge lower --until snn-mlir writes it"


@dataclass(frozen=True, slots=True)
class Term:
    """What a source puts out, after linear parts, and a bias; ``is_back``: of the time step before."""

    source: str
    parts: tuple[Operator, ...] = ()
    names: tuple[str, ...] = ()
    bias: Array | None = None
    is_back: bool = False


Signal = tuple[Term, ...]


PARTS_MAX = 1000
"""Linear operations in a row, and projections into one population: sums of sums double with each."""


class ArrayReader:
    """The content of each array after the operations so far; ``op`` is the one at hand."""

    def __init__(self, module: Module, subject: str) -> None:
        self.module, self.subject = module, subject
        self.types: dict[str, Memory] = dict(module.arguments)
        self.constants: dict[str, Array] = {}
        self.signals: dict[str, Signal] = {}
        self.states: set[str] = set()
        self.copies = {op.writes: op.reads[0] for op in module.operations if op.name == COPY}
        self.finished: set[str] = set()
        self.given: list[str] = []
        self.element = ""
        self.op = Op("", 0)

    def fail(self, found: str, limit: str = "") -> NoReturn:
        """Raises FileError that names the line of the operation."""
        raise FileError.of(f"{self.subject}, line {self.op.line}", found, limit, HINT)

    def define(self, name: str, kind: Memory) -> None:
        """A new array."""
        if name in self.types:
            self.fail(f"{quoted(name)} is defined twice")
        self.types[name] = kind

    def constant(self, op: Op) -> None:
        """A constant under a name of the function."""
        values = self.module.constants.get(op.reads[0])
        if values is None or values.shape != op.types[0].shape:
            self.fail(f"no constant {quoted(op.reads[0])} of shape {op.types[0].shape}")
        self.define(op.writes, op.types[0])
        self.constants[op.writes] = values

    def typed(self, name: str, kind: Memory) -> None:
        """Raises FileError for a name without an array, or one of another type."""
        if name not in self.types:
            self.fail(f"no array {quoted(name)}")
        if self.types[name] != kind:
            self.fail(f"{quoted(name)} is of shape {self.types[name].shape}, here of {kind.shape}", "one type")
        self.element = self.element or kind.element
        if kind.element != self.element:
            self.fail(f"arrays of {self.element} and {kind.element}", "one number format")

    def read(self, name: str, kind: Memory) -> Signal:
        """The content of an array; an argument that was not written is an input, or has spikes of the step before."""
        self.typed(name, kind)
        if name in self.finished:
            self.fail(f"{quoted(name)} is read after it is overwritten")
        if name in self.signals:
            return self.signals[name]
        if name in self.copies and name in self.module.arguments:
            return (Term(name, is_back=True),)
        if name not in self.module.arguments or name in self.states:
            self.fail(f"{quoted(name)} is read before it is written")
        self.given.append(name)
        self.signals[name] = (Term(name),)
        return self.signals[name]

    def write(self, signal: Signal) -> None:
        """The array that an operation writes, once; its type is the last but that of a bias."""
        op = self.op
        self.typed(op.writes, op.types[-2] if op.bias else op.types[-1])
        if op.writes in self.signals or op.writes in self.constants or op.writes in (*self.copies, *self.states):
            self.fail(f"{quoted(op.writes)} is written twice")
        self.signals[op.writes] = signal

    def added(self, op: Op) -> Signal:
        """The projections of several arrays, in their order."""
        terms: list[Term] = []
        for name, kind in zip(op.reads, op.types, strict=False):
            terms += self.read(name, kind)
            if len(terms) > PARTS_MAX:
                self.fail(f"a sum of more than {PARTS_MAX:,} projections")
        return tuple(terms)

    def then(self, signal: Signal, part: Operator, name: str) -> Signal:
        """A signal after a linear part."""
        if len(signal) != 1:
            self.fail("a sum of several projections in front of another operation than neurons")
        (term,) = signal
        if len(term.parts) >= PARTS_MAX:
            self.fail(f"more than {PARTS_MAX:,} operations in a row without neurons")
        if term.bias is not None:
            self.fail("a bias in front of another operation than neurons")
        return (replace(term, parts=(*term.parts, part), names=(*term.names, name)),)

    def reshaped(self, op: Op) -> Signal:
        """The same elements in another shape."""
        old, new = (kind.shape for kind in op.types)
        self.typed(op.reads[0], op.types[0])
        if np.prod(old, dtype=object) != np.prod(new, dtype=object):
            self.fail(f"an array of shape {old} as one of shape {new}")
        signal = self.read(op.reads[0], op.types[0])
        biases = [term.bias for term in signal]
        bare = tuple(replace(term, bias=None) for term in signal)
        shaped = self.then(bare, Reshape(old, new), "")
        return (replace(shaped[0], bias=None if biases[0] is None else biases[0].reshape(new)),)

    def product(self, op: Op) -> Signal:
        """A matrix or a convolution, and its bias."""
        signal = self.read(op.reads[0], op.types[0])
        for name, kind in ((op.reads[1], op.types[1]), *(((op.bias, op.types[-1]),) if op.bias else ())):
            self.typed(name, kind)
            if name not in self.constants:
                self.fail(f"{quoted(name)} is no constant", "weights and biases are")
        part = synapse(op, self.constants[op.reads[1]], self.fail)
        (term,) = self.then(signal, part, op.reads[1].removeprefix("%").removeprefix("w_"))
        return (replace(term, bias=self._bias(op, part.output_shape)),)

    def _bias(self, op: Op, shape: Shape) -> Array | None:
        """A bias of the shape of the output, one value for a channel; None for zeros, as of a NIR file."""
        if not op.bias:
            return None
        values = self.constants[op.bias]
        if values.shape != shape[:1]:
            self.fail(f"a bias of shape {values.shape}", f"one value for each of {shape[0]:,} outputs or channels")
        if not values.any():
            return None
        column = values.astype(np.float64).reshape(-1, *[1] * (len(shape) - 1))
        return freeze(np.broadcast_to(column, shape))


# -- layers --------------------------------------------------------------------------------------------------------
# Matrices, convolutions and pools of snn-mlir's operations.

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
