"""A module of the dialect with its arrays: text, and the module that a text is. Needs xDSL."""

from __future__ import annotations

import io
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from xdsl.context import Context
from xdsl.dialect_interfaces.op_asm import OpAsmDialectInterface
from xdsl.dialects.builtin import AnyFloat, Builtin, DenseResourceAttr, FileLineColLoc, IntAttr, ModuleOp, StringAttr
from xdsl.ir import Dialect, Operation
from xdsl.parser import Parser
from xdsl.parser.generic_parser import ParserState
from xdsl.printer import Printer
from xdsl.utils.exceptions import ParseError, VerifyException
from xdsl.utils.lexer import Input
from xdsl.utils.mlir_lexer import MLIRLexer

from nirbridge.dialect.base import SpikeOp, StreamType, ValueType, parameters_of, place_of
from nirbridge.dialect.kinds import CLASSES, NAME, is_tensor
from nirbridge.dialect.neurons import NEURONS, NeuronBase
from nirbridge.dialect.structure import (
    END,
    STRUCTURE,
    CollectOp,
    DelayOp,
    InputOp,
    NetworkOp,
    OutputOp,
    PastOp,
    ResultOp,
    ScanOp,
)
from nirbridge.dialect.synapses import SYNAPSES, CurrentOp, RealOp, Synapse
from nirbridge.dialect.values import DTYPES, Resources, size_of
from nirbridge.errors import Diagnostic, FileError, ModelError, counted, quoted

OPERATIONS: tuple[type[Any], ...] = (NetworkOp, *STRUCTURE, *SYNAPSES, *NEURONS.values())
"""Every operation of the dialect."""


@dataclass(frozen=True, slots=True, eq=False)
class DialectModule:
    """A module with one network, and the arrays that its attributes name."""

    operation: ModuleOp
    resources: Resources

    @property
    def network(self) -> NetworkOp:
        """The network of the module."""
        (network,) = (op for op in self.operation.body.block.ops if isinstance(op, NetworkOp))
        return network

    @property
    def ops(self) -> list[Operation]:
        """The operations of the network's time step, without the terminator."""
        return [op for op in self.network.body.block.ops if not isinstance(op, END)]

    def text(self, *, pretty: bool = False) -> str:
        """The module with its arrays; always the same text for the same network.

        In MLIR's generic form, which stock tools read by the dialect's definition; ``pretty``: in that of the dialect.
        """
        stream = io.StringIO()
        Printer(stream=stream, print_generic_format=not pretty).print_op(self.operation)
        return stream.getvalue() + "\n" + self.resources.text()


def diagnose_module(module: DialectModule) -> Iterator[Diagnostic]:
    """Every fault of every operation; where each is sound, those of what they make together."""
    if faults := list(module.network.faults()):
        yield from faults
        return
    ops = module.ops
    faults = [_foreign(op) for op in ops if not isinstance(op, SpikeOp)]
    faults = faults or [fault for op in ops for fault in op.faults()]  # type: ignore[attr-defined]
    yield from faults or diagnose_flow(ops)


def _foreign(op: Operation) -> Diagnostic:
    return Diagnostic(f"dialect, {place_of(op)}", f"an operation {quoted(op.name)}", f"those of {NAME}", "remove it")


def check_module(module: DialectModule) -> None:
    """Raises ModelError with every fault that the operations state, or the one that xDSL finds."""
    try:
        ModelError.raise_all(diagnose_module(module))
        module.operation.verify()
    except VerifyException as error:
        raise ModelError.of("dialect", quoted(str(error), 300), "", "correct the module") from None


OPERATIONS_MAX = 2**26
"""Characters of the operations of a text; arrays come after them."""
LITERALS_MAX = 2**22
"""Values of all ``dense<...>`` of a text; xDSL makes a Python number of each, also where it repeats one."""


class _Lexer(MLIRLexer):
    """xDSL's lexer with a pattern of strings that never goes back; xDSL's own takes exponential time without an end."""

    _unescaped_characters_regex = re.compile(r'"(?:[^"\\\n\v\f]++|\\(?:["nt\\]|[0-9A-Fa-f]{2}))*+"')


class _Bits(Parser._TensorLiteralElement):
    """A number in hexadecimal: of a float its bits, as MLIR and xDSL print those without a short decimal form."""

    def to_type(self, parser: Any, type: Any) -> Any:
        """See xDSL, which takes the bits for the number."""
        if not isinstance(type, AnyFloat):
            return super().to_type(parser, type)
        return type.unpack(int(self.value).to_bytes(type.compile_time_size, "little"), 1)[0]  # type: ignore[arg-type]


class _Parser(Parser):
    """xDSL's parser, which notes the place of every operation, and makes no larger arrays than a text may have."""

    given, line, counted, newline = 0, 1, 0, -1
    _builtin_integer_type_regex = re.compile(r"^[su]?i(1|8|16|32|64)$")  # wider ones would take memory

    def __init__(self, context: Context, text: str) -> None:
        super().__init__(context, "")
        self._parser_state = ParserState(_Lexer(Input(text, "dialect")))

    def parse_operation(self) -> Operation:
        text, start = self.lexer.input.content, self._current_token.span.start
        self.line += text.count("\n", self.counted, start)
        self.newline = max(self.newline, text.rfind("\n", self.counted, start))
        self.counted = start
        location = FileLineColLoc(StringAttr(""), IntAttr(self.line), IntAttr(start - self.newline))
        op = super().parse_operation()
        op.location = location
        return op

    def _parse_tensor_literal_element(self) -> Any:
        element = super()._parse_tensor_literal_element()
        is_hexadecimal = element.span.text[:2] in ("0x", "0X")
        return _Bits(element.is_negative, element.value, element.span) if is_hexadecimal else element

    def _parse_dense_literal_type(self) -> Any:
        kind = super()._parse_dense_literal_type()
        if any(n < 0 for n in kind.get_shape()):
            self.raise_error("values have a shape without unknown extents")
        self.given += size_of(kind.get_shape())
        if self.given > LITERALS_MAX:
            self.raise_error(f"more than {LITERALS_MAX:,} values as dense<...>, beside resources")
        return kind

    def _parse_alias_def(self) -> None:
        self.raise_error("aliases are not read")


def parse_module(text: str) -> DialectModule:
    """The module of a text in MLIR's generic form, or in the dialect's own.

    Raises:
        FileError: no text of one network in this dialect.
        ModelError: operations that contradict each other.
    """
    interface = OpAsmDialectInterface()  # xDSL's own keeps the arrays of every text that it ever read
    context = Context()
    context.load_dialect(Dialect("builtin", list(Builtin.operations), list(Builtin.attributes), [interface]))
    context.load_dialect(Dialect(NAME, list(OPERATIONS), [ValueType, StreamType, *(each.type for each in CLASSES)]))
    context.load_dialect(Dialect(END.dialect_name(), [END]))
    length = text.find("{-#")
    if (len(text) if length < 0 else length) > OPERATIONS_MAX:
        limit, hint = f"at most {OPERATIONS_MAX:,}", "give a .net.npz file"
        raise FileError.of("dialect", "more characters of operations than are read", limit, hint)
    parser: _Parser | None = None
    try:
        parser = _Parser(context, text)
        operation = parser.parse_module()
        resources = _resources(text, operation, interface)
    except FileError:
        raise
    except Exception as error:  # of any type: xDSL's parser takes its input to be sound
        raise _unreadable(text, error, 0 if parser is None else parser.pos) from None
    listed = list(operation.body.block.ops)
    if len(listed) != 1 or not isinstance(listed[0], NetworkOp):
        place = f"dialect, {place_of(listed[-1])}" if listed else "dialect"
        raise FileError.of(place, counted(len(listed), "operation"), "one spike.network alone", "give that")
    module = DialectModule(operation, resources)
    check_module(module)
    return module


def _unreadable(text: str, error: Exception, at: int) -> FileError:
    """The error of a text that xDSL does not parse, with its place."""
    words = str(error) if isinstance(error, VerifyException) else "text that the parser of xDSL fails at"
    if isinstance(error, ParseError):
        words, at = re.sub("^ in ", "an operation is expected in ", error.msg), error.span.start
        if (undefined := re.match(r"values used but not defined: \[(%[\w.$-]+)", words)) is not None:
            at = max(text.find(undefined[1]), 0)
    words = "it ends early" if text[at:].lstrip()[:3] in ("", "{-#") else words
    limit = "a module of the dialect, generic or in its own form"
    return FileError.of(f"dialect, {_place(text, at)}", quoted(words, 200), limit, "correct it there")


def _place(text: str, at: int) -> str:
    return f"line {text.count(chr(10), 0, at) + 1}, column {at - text.rfind(chr(10), 0, at)}"


def _resources(text: str, operation: ModuleOp, interface: OpAsmDialectInterface) -> Resources:
    resources = Resources()
    for op in operation.walk():
        for attribute in _attributes(op):
            if isinstance(attribute, DenseResourceAttr) and is_tensor(attribute):
                kind: Any = attribute.get_type()
                name = attribute.resource_handle.data
                if not (blob := interface.lookup(name)):
                    hint = "add it to dialect_resources at the end, or correct the name"
                    raise FileError.of(f"dialect, {place_of(op)}", f"no resource {quoted(name)}", "", hint)
                if not resources.add(name, blob, DTYPES[kind.get_element_type()], kind.get_shape()):
                    at = re.search(rf"\b{re.escape(name)}\s*:\s*\"|\Z", text[text.rfind("{-#") :]).start()  # type: ignore[union-attr]
                    found = f"the bytes of resource {quoted(name)} are no {kind}"
                    limit = f"{place_of(op)} has this type"
                    place = _place(text, text.rfind("{-#") + at)
                    raise FileError.of(f"dialect, {place}", found, limit, "correct one of them")
    return resources


def _attributes(op: Operation) -> Iterator[Any]:
    for attribute in op.attributes.values():
        yield attribute
        yield from (value for _, _, value in parameters_of(attribute))


# -- flow ----------------------------------------------------------------------------------------------------------
# What the operations of a network make together: values stand before their use, every projection ends.

LINKS = (Synapse, RealOp, DelayOp, PastOp, OutputOp, CollectOp)
"""Operations with one result, which another one uses."""
NAMED = (InputOp, NeuronBase, OutputOp, ResultOp)
"""Operations with names."""


def diagnose_flow(ops: Sequence[Any]) -> Iterator[Diagnostic]:
    """Values used before they are made, results without use, currents without one target; names and indices."""
    places = {op: k for k, op in enumerate(ops)}
    for k, op in enumerate(ops):
        if any(places.get(value.owner, k) >= k for value in op.operands):
            yield op.fault("it uses a value that comes later", "a cycle leads through spike.past", "delay it")
        if isinstance(op, LINKS):
            yield from _of_uses(op)
    yield from _of_names(ops)
    yield from _of_indices([op for op in ops if isinstance(op, NeuronBase | CurrentOp)])


def _of_names(ops: Sequence[Any]) -> Iterator[Diagnostic]:
    """Two nodes, or results, with one name; results of no node."""
    named = [op for op in ops if isinstance(op, NAMED)]
    counts = Counter(map(_key, named))
    nodes = {_name(op) for op in named if not isinstance(op, ResultOp)}
    for op in named:
        if counts[_key(op)] > 1:
            yield op.fault("another one has this name", "names are unique", "rename it")
        if _name(op) not in nodes:
            yield op.fault("no node has its name", "a result is of a node", "rename it")


def _key(op: Any) -> tuple[Any, ...]:
    return isinstance(op, ResultOp), _name(op), op.attribute("variable")


def _of_indices(ops: Sequence[Any]) -> Iterator[Diagnostic]:
    """Indices that are not 0, 1, 2 and so on, each once."""
    counts, taken = Counter(map(_order, ops)), set()
    for op in ops:
        key = (_order(op), op.index.value.data)
        if key in taken or not 0 <= key[1] < counts[key[0]]:
            yield op.fault(f"its index is {key[1]}", "indices are 0, 1, 2, …, each once", "number them in order")
        taken.add(key)


def _order(op: Any) -> tuple[bool, bool]:
    """What the index of an operation counts: neurons, projections in integers, or all others."""
    return isinstance(op, NeuronBase), op.attribute("grid") is None


def _name(op: Any) -> str:
    return op.attributes["name"].data


def _of_uses(op: Any) -> Iterator[Diagnostic]:
    users = [use.operation for use in op.results[0].uses]
    if not users:
        limit = "a projection ends in a current and its target, an output in spike.collect and spike.result"
        yield op.fault("nothing uses its result", limit, "remove it, or use its result")
    elif isinstance(op, CurrentOp) and not (len(users) == 1 and isinstance(users[0], NeuronBase | OutputOp)):
        is_before = len(users) == 1 and isinstance(users[0], ScanOp)  # moved out of the loop over time
        if not is_before:
            yield op.fault("its result has another use", "one neuron or output", "correct it")
