"""The dialect in IRDL, for other tools: stock ``mlir-opt --irdl-file`` parses and verifies modules with it.

Shapes and elements are linked between operands and results by constraints with one name; what IRDL cannot state (the
size of a weight, the range of a number) ``check_module`` checks.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from xdsl.irdl import OptionalDef, VarOperandDef, VarResultDef

from nirbridge.dialect.base import ELEMENTS_OF_VALUES
from nirbridge.dialect.kinds import CLASSES, NAME
from nirbridge.dialect.module import OPERATIONS
from nirbridge.dialect.neurons import NeuronBase
from nirbridge.dialect.structure import (
    CollectOp,
    ConnectOp,
    DelayOp,
    InputOp,
    NetworkOp,
    OutputOp,
    PastOp,
    ResultOp,
    ScanOp,
)
from nirbridge.dialect.synapses import CurrentOp, IdentityOp, RealOp, ReshapeOp, ScaleOp, ShiftOp, Synapse

NUMBERS = tuple(name for name in ELEMENTS_OF_VALUES if name != "i1")


def irdl_text() -> str:
    """The dialect in IRDL: types, classes of attributes, and every operation with its constraints."""
    parts = [_value("value"), _value("stream")]
    for each in CLASSES:
        body = Lines()
        listed = [f"{name}: {kind.irdl(body.emit)}" for name, kind in each.parameters.items()]
        parts.append(body.of(f"irdl.attribute @{each.name}", f"irdl.parameters({', '.join(listed)})"))
    parts += [_operation(kind) for kind in OPERATIONS]
    inner = "\n".join(parts)
    return f"module {{\n  irdl.dialect @{NAME} {{\n{inner}\n  }}\n}}\n"


@dataclass(slots=True)
class Lines:
    """Constraints of one definition, numbered; those with a name are stated once."""

    lines: list[str] = field(default_factory=list)
    names: dict[str, str] = field(default_factory=dict)

    def emit(self, operation: str) -> str:
        """Append an operation with one result."""
        name = f"%{len(self.lines)}"
        self.lines.append(f"      {name} = {operation}")
        return name

    def one_of(self, elements: Iterable[str]) -> str:
        """One of some types."""
        return self.emit(f"irdl.any_of({', '.join([self.emit(f'irdl.is {each}') for each in elements])})")

    def named(self, word: str) -> str:
        """A constraint of values by its word; the same word is the same value everywhere in the operation.

        ``value SHAPE ELEMENT`` (or ``stream``, or ``any`` of them): a type. A word with ``shape`` is any shape, one
        with ``number`` any element but spikes, ``element`` any.
        """
        if word not in self.names:
            self.names[word] = self._made(word)
        return self.names[word]

    def _made(self, word: str) -> str:
        kind, *parts = word.split()
        if parts:
            shape, element = (self.named(part) for part in parts)
            listed = (kind,) if kind != "any" else ("value", "stream")
            made = [self.emit(f"irdl.parametric @{NAME}::@{each}<{shape}, {element}>") for each in listed]
            return made[0] if len(made) == 1 else self.emit(f"irdl.any_of({', '.join(made)})")
        if word.startswith("shape"):
            return self.emit('irdl.base "#builtin.dense_array"')
        return self.one_of(NUMBERS if word.startswith("number") else ELEMENTS_OF_VALUES)

    def of(self, head: str, *last: str) -> str:
        """The definition."""
        inner = "\n".join([*self.lines, *(f"      {line}" for line in last)])
        return f"    {head} {{\n{inner}\n    }}"


def _value(name: str) -> str:
    body = Lines()
    shape, element = body.named("shape"), body.named("element")
    return body.of(f"irdl.type @{name}", f"irdl.parameters(shape: {shape}, element: {element})")


SAME, NUMBER = "any shape element", "any shape number"
VALUE = "value shape number"
_TYPES: Mapping[type[Any], tuple[str, str]] = {
    InputOp: ("", "stream shape element"),
    ScanOp: ("stream shape element", "value shape element"),
    CollectOp: ("value shape element", "stream shape element"),
    ResultOp: ("stream shape element", ""),
    DelayOp: ("value shape element", "value shape element"),
    PastOp: ("", "value shape element"),
    ConnectOp: ("value shape element", ""),
    OutputOp: (VALUE, VALUE),
    IdentityOp: (SAME, SAME),
    ReshapeOp: ("any shape element", "any shape1 element"),
    CurrentOp: (SAME, NUMBER),
    ScaleOp: (SAME, NUMBER),
    ShiftOp: (SAME, NUMBER),
    RealOp: ("value shape element", VALUE),
}
"""Constraints of operands and of results; equal words are equal attributes."""


def _types(kind: type[Any]) -> tuple[str, str]:
    if kind in _TYPES:
        return _TYPES[kind]
    return ("any shape element", "any shape1 number") if issubclass(kind, Synapse) else ("", "")


def _operation(kind: type[Any]) -> str:
    definition, body = kind.get_irdl_definition(), Lines()
    last = []
    for word, values, variadic, constraint in (
        ("operands", definition.operands, VarOperandDef, _types(kind)[0]),
        ("results", definition.results, VarResultDef, _types(kind)[1]),
    ):
        each = []
        for k, (name, value) in enumerate(values):
            chosen = constraint
            if issubclass(kind, NeuronBase):
                chosen = "value shape element" if word == "results" and k == 0 else VALUE
            each.append(f"{name}: {'variadic ' if isinstance(value, variadic) else ''}{body.named(chosen)}")
        last += [f"irdl.{word}({', '.join(each)})"] if each else []
    required = [name for name, value in definition.attributes.items() if not isinstance(value, OptionalDef)]
    listed = [f'"{name}" = {kind.kind_of(name).irdl(body.emit)}' for name in required]
    last += [f"irdl.attributes {{ {', '.join(listed)} }}"] if listed else []
    if kind is NetworkOp:
        last.append(f"irdl.regions(body: {body.emit('irdl.region()')})")
    return body.of(f"irdl.operation @{kind.name.removeprefix(NAME + '.')}", *last)
