"""The operations of a module of snn-mlir, in order, from its text. Only their form is judged here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from nirbridge.arrays import Array
from nirbridge.dialect.snn_mlir.constants import constant
from nirbridge.dialect.snn_mlir.grammar import FUNCTION, NEURONS, POOLS, SYNAPSES
from nirbridge.dialect.snn_mlir.parts import SUM, Op, PartParser
from nirbridge.dialect.snn_mlir.tokens import Memory, Tokens
from nirbridge.errors import ModelError, quoted

COPY = "memref.copy"
ALLOCATIONS = ("memref.alloca", "memref.alloc")
RESHAPES = ("memref.collapse_shape", "memref.expand_shape")


@dataclass(frozen=True, slots=True)
class Module:
    """Constants by symbol, arguments of the function by name, its attributes and operations."""

    constants: Mapping[str, Array]
    arguments: Mapping[str, Memory]
    attributes: Mapping[str, Any]
    operations: tuple[Op, ...]


def parse_syntax(text: str, subject: str) -> Module:
    """The module of a text.

    Raises:
        FileError: no module of one function, or a faulty one.
        ModelError: operations that snn-mlir's float modules do not have.
    """
    return _Parser(Tokens(text, subject)).module()


class _Parser(PartParser):
    def module(self) -> Module:
        t = self.t
        while t.peek.text.startswith("#"):
            name = t.take("name").text
            t.expect("=")
            self.maps[name] = t.take("map").text
        t.expect("module")
        if t.accept("attributes"):
            self.dictionary()
        t.expect("{")
        constants: dict[str, Array] = {}
        function = None
        while not t.accept("}"):
            if t.peek.text == "memref.global":
                symbol, values = self.constant()
                constants[self.new(symbol, constants)] = values
            elif function is None and t.peek.text == "func.func":
                function = self.function()
            else:
                t.take()
                t.fail(f"{quoted(t.tokens[t.next - 1].text or 'the end')}", "constants and one function are read")
        t.take("end")
        if function is None:
            t.fail("no function", f"a module has the function {FUNCTION}")
        return Module(constants, *function)

    def constant(self) -> tuple[str, Array]:
        t = self.t
        t.expect("memref.global")
        if t.peek.kind == "string":
            t.take()
        t.expect("constant")
        symbol = t.take("name").text
        t.expect(":")
        kind = self.real(t.declared())
        t.expect("=")
        literal = t.take("dense").text
        try:
            return symbol, constant(literal, kind.shape, kind.element)
        except ValueError as error:
            t.fail(f"constant {quoted(symbol)}: {error}")

    def function(self) -> tuple[dict[str, Memory], dict[str, Any], tuple[Op, ...]]:
        t = self.t
        t.expect("func.func")
        name = t.take("name").text
        if name != f"@{FUNCTION}":
            t.fail(f"a function {quoted(name)}", f"a module has the function {FUNCTION}")
        t.expect("(")
        arguments: dict[str, Memory] = {}
        while not t.accept(")"):
            argument = self.new(t.take("name").text, arguments)
            t.expect(":")
            arguments[argument] = self.real(t.declared())
            if t.peek.text != ")":
                t.expect(",")
        attributes = self.dictionary() if t.accept("attributes") else {}
        t.expect("{")
        operations: list[Op] = []
        while not t.accept("return"):
            operations.append(self.operation())
        t.expect("}")
        return arguments, attributes, tuple(operations)

    def operation(self) -> Op:
        t = self.t
        line = t.peek.line
        result = ""
        if t.peek.text.startswith("%"):
            result = t.take("name").text
            t.expect("=")
        token = t.take()
        name = token.text
        if name == "memref.get_global" or name in (*ALLOCATIONS, *RESHAPES):
            return self.array(name, result, line)
        if token.kind != "word":
            t.fail(f"{quoted(name or 'the end')}", "an operation is expected")
        if result or name not in (*NEURONS, *SYNAPSES, *POOLS, SUM, COPY):
            hint = "snn-mlir's float modules are read"
            subject = f"{t.subject}, line {line}"
            raise ModelError.of(subject, f"an operation {quoted(name or 'the end')}", "it is not known here", hint)
        if name == COPY:
            return self.copy(line)
        return self.sum(line) if name == SUM else self.layer(name, line)

    def array(self, name: str, result: str, line: int) -> Op:
        """An operation whose result is an array."""
        t = self.t
        if not result:
            t.fail(f"{name} without a result")
        reads: tuple[str, ...] = ()
        if name in ALLOCATIONS:
            t.expect("(")
            t.expect(")")
        elif name == "memref.get_global":
            reads = (t.take("name").text,)
        else:
            reads = (t.take("name").text,)
            self.value()
            if t.accept("output_shape"):
                self.value()
        t.expect(":")
        types = [self.real(t.declared() if name in ALLOCATIONS else t.memory())]
        if name in RESHAPES:
            t.expect("into")
            types.append(self.real(t.memory()))
        return Op(name, line, reads, writes=result, types=tuple(types))

    def copy(self, line: int) -> Op:
        t = self.t
        source = t.take("name").text
        t.expect(",")
        target = t.take("name").text
        t.expect(":")
        types = [self.real(t.memory())]
        t.expect("to")
        types.append(self.real(t.memory()))
        return Op(COPY, line, (source,), writes=target, types=tuple(types))

    def layer(self, name: str, line: int) -> Op:
        """``snn.x ins(…) bias(… : type) state(…) out(…) {…} : types -> type``; types without that of the bias."""
        t = self.t
        t.expect("ins")
        reads = self.names()
        bias, bias_type, states = "", [], ()
        if t.accept("bias"):
            t.expect("(")
            bias = t.take("name").text
            t.expect(":")
            bias_type = [self.real(t.memory())]
            t.expect(")")
        if t.accept("state"):
            states = self.names()
        t.expect("out")
        written = self.names()
        attributes = self.dictionary() if t.peek.text == "{" else {}
        t.expect(":")
        types = self.types()
        t.expect("->")
        types = (*types, self.real(t.memory()), *bias_type)
        counts = (1 if name in (*NEURONS, *POOLS) else 2, self._states(name), 1)
        if (len(reads), len(states), len(written)) != counts or len(types) != sum(counts) + len(bias_type):
            t.fail(f"{name} with {len(reads)} inputs, {len(states)} states, {len(types)} types", f"{counts[:2]}")
        if bias and name not in SYNAPSES:
            t.fail(f"{name} with a bias", "matrices and convolutions have one")
        return Op(name, line, reads, states, written[0], bias, types, attributes)

    @staticmethod
    def _states(name: str) -> int:
        return 0 if name not in NEURONS else 2 if "cur_decay_float" in NEURONS[name] else 1
