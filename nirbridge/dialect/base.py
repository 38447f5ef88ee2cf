"""Types of the dialect, and the base class of its operations, whose verifier yields diagnostics. Needs xDSL."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from xdsl.dialects.builtin import DenseArrayBase, FileLineColLoc, IntegerType, StringAttr, f32, f64, i1, i64
from xdsl.ir import Attribute, Operation, SSAValue, TypeAttribute
from xdsl.irdl import IRDLOperation, OptionalDef, irdl_attr_definition
from xdsl.utils.exceptions import VerifyException

from nirbridge._types import Shape
from nirbridge.dialect.kinds import CLASSES, OF_OPERATIONS, VALUES, Kind, Parametrized
from nirbridge.dialect.values import ELEMENTS, integers, shape_of
from nirbridge.errors import Diagnostic, quoted

ELEMENTS_OF_VALUES: Mapping[str, Any] = {"i1": i1, **{str(e): e for e in (IntegerType(32), i64, f32, f64)}}
"""Elements of values: spikes, and numbers."""


class SpikeType(Parametrized, TypeAttribute):
    """Values of a shape, for every sample of a batch."""

    shape: DenseArrayBase[IntegerType]
    element: Attribute

    def verify(self) -> None:
        """Raises VerifyException for a shape or an element that no values have."""
        if self.shape.elt_type != i64 or any(n < 0 for n in self.shape.get_values()):
            raise VerifyException("a shape is array<i64: ...> of extents of 0 or more")
        if self.element not in ELEMENTS_OF_VALUES.values():
            raise VerifyException(f"elements are {', '.join(ELEMENTS_OF_VALUES)}")


@irdl_attr_definition
class ValueType(SpikeType):
    """Values of one time step; lowered, a tensor ``[batch, *shape]``."""

    name = "spike.value"


@irdl_attr_definition
class StreamType(SpikeType):
    """Values of all time steps; lowered, a tensor ``[time, batch, *shape]``."""

    name = "spike.stream"


def place_of(op: Operation) -> str:
    """Line and column of an operation, where it was read from a text; else nothing."""
    at = op.location
    return f"line {at.line.data}, column {at.column.data}" if isinstance(at, FileLineColLoc) else ""


class SpikeOp(IRDLOperation):
    """An operation whose faults are diagnostics; xDSL's verifier raises them all as one."""

    def diagnose(self) -> Iterator[Diagnostic]:
        """Every fault of an operation whose operands, results and attributes are of the right kinds."""
        yield from ()

    @classmethod
    def kind_of(cls, name: str) -> Kind:
        """The kind of an attribute."""
        return OF_OPERATIONS.get(name, VALUES)

    def faults(self) -> Iterator[Diagnostic]:
        """Every fault of this operation; where something is absent or of another kind, these faults alone."""
        definition = type(self).get_irdl_definition()
        required = [name for name, kind in definition.attributes.items() if not isinstance(kind, OptionalDef)]
        if missing := [name for name in required if name not in self.attributes]:
            yield from (self.fault(f"it has no {name}", self.kind_of(name).noun, f"add {name}") for name in missing)
            return
        try:
            definition.verify(self)
        except VerifyException as error:
            yield self.fault(quoted(str(error).strip().splitlines()[0], 200), "the dialect's definition", "correct it")
            return
        known = definition.attributes
        faults = [
            self.fault(f"an attribute {quoted(name)}", f"it has {', '.join(known) or 'none'}", "remove it")
            for name in self.attributes
            if name not in known
        ]
        faults += [
            self.fault(f"{name} is {quoted(str(value), 60)}", f"expected {kind.noun}", "correct it")
            for name, value in self.attributes.items()
            if name in known and not (kind := self.kind_of(name)).accepts(value)
        ]
        faults += [
            self.fault(f"{name} of {attribute.name} is {quoted(str(value), 60)}", f"expected {kind.noun}", "correct it")
            for attribute in self.attributes.values()
            for name, kind, value in parameters_of(attribute)
            if not kind.accepts(value)
        ]
        yield from faults or self.diagnose()

    def verify_(self) -> None:
        """Raises xDSL's VerifyException with every fault."""
        if faults := [str(fault) for fault in self.faults()]:
            raise VerifyException("\n".join(faults))

    def fault(self, found: str, limit: str = "", hint: str = "") -> Diagnostic:
        """A diagnostic on this operation, named if it has a name."""
        named: Any = self.attributes.get("name") or self.attributes.get("sym_name")
        is_named = isinstance(named, StringAttr)
        subject = f"{self.name} {quoted(named.data)}" if is_named else self.name
        place = place_of(self)
        return Diagnostic(f"{place}, {subject}" if place else subject, found, limit, hint)

    def attribute(self, name: str) -> Any:
        """An attribute that is there, or None."""
        return self.attributes.get(name)


def parameters_of(attribute: Attribute) -> Iterator[tuple[str, Kind, Attribute]]:
    """Name, kind and value of each parameter of an attribute of the dialect's classes; none of others."""
    for known in CLASSES:
        if isinstance(attribute, known.type):
            yield from ((name, kind, getattr(attribute, name)) for name, kind in known.parameters.items())


def element(value: SSAValue) -> Any:
    """The element that a value is computed in: its own, and for spikes the numbers of the network."""
    kind = value.type.element  # type: ignore[attr-defined]
    if kind != i1:
        return kind
    network: Any = value.owner.parent_op()  # type: ignore[union-attr]
    return ELEMENTS[network.numbers.data]


def shape(value: SSAValue) -> Shape:
    """The shape of a value, without batch and time."""
    return tuple(value.type.shape.get_values())  # type: ignore[attr-defined]


def leading_axes(value: SSAValue) -> int:
    """Axes in front of the shape, lowered: the batch, and time before it in a stream."""
    return 2 if isinstance(value.type, StreamType) else 1


def value_type(element: Any, shape: Shape) -> ValueType:
    """The type of values of one time step."""
    return ValueType(integers(shape), element)  # pyright: ignore[reportCallIssue]


def stream_type(element: Any, shape: Shape) -> StreamType:
    """The type of values of all time steps."""
    return StreamType(integers(shape), element)  # pyright: ignore[reportCallIssue]


def has_values(op: SpikeOp, names: Iterable[str], shapes: Sequence[Shape]) -> Iterator[Diagnostic]:
    """Attributes that hold tensors of one of some shapes, by name or given; absent ones are left to the definition."""
    for name in names:
        attribute = names[name] if isinstance(names, Mapping) else op.attribute(name)
        if attribute is not None and shape_of(attribute) not in shapes:
            expected = " or ".join(map(str, shapes))
            yield op.fault(f"{name} has shape {shape_of(attribute)}", f"expected {expected}", "reshape it")
