"""Arrays of a module and the projections that they hold, followed from operation to operation."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NoReturn

import numpy as np

from nirbridge._types import Shape
from nirbridge.arrays import Array, freeze
from nirbridge.dialect.snn_mlir.layers import synapse
from nirbridge.dialect.snn_mlir.parts import Op
from nirbridge.dialect.snn_mlir.syntax import COPY, Module
from nirbridge.dialect.snn_mlir.tokens import Memory
from nirbridge.errors import FileError, quoted
from nirbridge.network.operators import Operator, Reshape

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
