"""Operations of structure: the network, its ends, the scan over time, delays. Needs xDSL.

The region of ``spike.network`` is one time step of the network, in order. A stream holds all time steps: ``spike.scan``
gives them one after another, each a value, and every operation on values is carried out in each time step;
``spike.collect`` stacks its results. A cycle leads through ``spike.past``, the value of some time steps ago of one
that ``spike.connect`` names later, so that every operand stands before its use and stock MLIR checks that.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from xdsl.dialects.builtin import UnitAttr
from xdsl.dialects.ub import UnreachableOp
from xdsl.irdl import (
    attr_def,
    irdl_op_definition,
    operand_def,
    opt_attr_def,
    region_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import IsolatedFromAbove

from nirbridge.dialect.base import SpikeOp, StreamType, ValueType, has_values, shape
from nirbridge.errors import Diagnostic

END = UnreachableOp
"""The terminator that stock MLIR wants: IRDL defines none, and a network runs for ever."""


@irdl_op_definition
class NetworkOp(SpikeOp):
    """A network: dt in seconds, the numbers of its values, and its time step as a region.

    ``timing`` is ``unit`` for a chip's integers, ``chip`` for real numbers. ``provenance`` is bookkeeping: assumptions,
    notes, the file of the model, reports of quantization.
    """

    name = "spike.network"
    sym_name = attr_def()
    dt = attr_def()
    numbers = attr_def()
    timing = attr_def()
    chip = attr_def()
    provenance = attr_def()
    body = region_def("single_block")
    traits = traits_def(IsolatedFromAbove())

    def diagnose(self) -> Iterator[Diagnostic]:
        """Dt is positive; timing is that of real numbers, a chip that of integers; the terminator."""
        dt: Any = self.dt
        numbers: Any = self.numbers
        if not dt.value.data > 0:
            yield self.fault(f"dt is {dt.value.data} s", "above 0", "correct dt")
        absent = self.chip if numbers.data.startswith("float") else self.timing
        if not isinstance(absent, UnitAttr) or self.timing == self.chip:
            yield self.fault("timing or chip is absent, or of other numbers", "reals have timing, integers a chip")
        if self.body.block.args:
            yield self.fault("its region has arguments", "inputs are spike.input", "remove them")
        if not isinstance(self.body.block.last_op, END):
            yield self.fault("its region has no end", END.name, "add it")

    def print(self, printer: Printer) -> None:
        """``spike.network @name attributes {...} { operations }``; the terminator is implied."""
        printer.print_string(" ")
        printer.print_symbol_name(self.sym_name.data)  # type: ignore[attr-defined]
        printer.print_op_attributes(self.attributes, reserved_attr_names=("sym_name",), print_keyword=True)
        printer.print_string(" ")
        printer.print_region(self.body, print_block_terminators=False)

    @classmethod
    def parse(cls, parser: Parser) -> NetworkOp:
        """See ``print``."""
        name = parser.parse_symbol_name()
        given = parser.parse_optional_attr_dict_with_keyword(("sym_name",))
        body = parser.parse_region()
        if body.blocks and not isinstance(body.blocks[-1].last_op, END):
            body.blocks[-1].add_op(END.create())
        return cls.create(attributes={"sym_name": name, **(given.data if given else {})}, regions=[body])


@irdl_op_definition
class InputOp(SpikeOp):
    """An input. Of a chip's integers also ``value_max`` and ``unit``, the scale of ``FixedInput``, and the latency."""

    name = "spike.input"
    y = result_def(StreamType)
    named = attr_def(attr_name="name")
    value_max = opt_attr_def()
    unit = opt_attr_def()
    latency = opt_attr_def()
    assembly_format = "attr-dict `:` type($y)"


class Along(SpikeOp):
    """An operation between all time steps and one of them."""

    def diagnose(self) -> Iterator[Diagnostic]:
        """Both sides agree but for time."""
        x, y = self.operands[0].type, self.results[0].type
        if x.parameters != y.parameters:  # type: ignore[attr-defined]
            yield self.fault(f"takes {x} and gives {y}", "equal shapes and elements", "correct it")


@irdl_op_definition
class ScanOp(Along):
    """The time steps of a stream in order."""

    name = "spike.scan"
    x = operand_def(StreamType)
    y = result_def(ValueType)
    assembly_format = "$x attr-dict `:` type($x) `->` type($y)"


@irdl_op_definition
class CollectOp(Along):
    """The values of all time steps as one stream."""

    name = "spike.collect"
    x = operand_def(ValueType)
    y = result_def(StreamType)
    assembly_format = "$x attr-dict `:` type($x) `->` type($y)"


@irdl_op_definition
class ResultOp(SpikeOp):
    """An output of the network, or a recorded variable of a node, over all time steps."""

    name = "spike.result"
    x = operand_def(StreamType)
    named = attr_def(attr_name="name")
    variable = attr_def()
    assembly_format = "$x attr-dict `:` type($x)"


class Delayed(SpikeOp):
    """Values some time steps ago, 0 before the first: one delay for all elements or one for each; 0 is the present."""

    y = result_def(ValueType)
    steps = attr_def()

    @property
    def late(self) -> Any:
        """The value that is delayed."""
        return self.operands[0]

    def diagnose(self) -> Iterator[Diagnostic]:
        """Faults of shapes and of the delays."""
        yield from has_values(self, ["steps"], [(), shape(self.results[0])])


@irdl_op_definition
class DelayOp(Delayed):
    """A value of an earlier operation, some time steps ago."""

    name = "spike.delay"
    x = operand_def(ValueType)
    assembly_format = "$x attr-dict `:` type($x) `->` type($y)"

    def diagnose(self) -> Iterator[Diagnostic]:
        """See ``Delayed``; one type."""
        if self.x.type != self.y.type:
            yield self.fault(f"takes {self.x.type} and gives {self.y.type}", "one type", "correct it")
        yield from super().diagnose()


@irdl_op_definition
class PastOp(Delayed):
    """A value some time steps ago; ``spike.connect`` says of which."""

    name = "spike.past"
    assembly_format = "attr-dict `:` type($y)"

    @property
    def late(self) -> Any:
        """The value that is delayed."""
        return self.connections()[0].now

    def connections(self) -> list[Any]:
        """The operations that connect it."""
        return [u.operation for u in self.y.uses if isinstance(u.operation, ConnectOp) and u.index == 0]

    def diagnose(self) -> Iterator[Diagnostic]:
        """See ``Delayed``; one connection."""
        if (count := len(self.connections())) != 1:
            yield self.fault(f"{count} operations connect it", "one spike.connect", "connect it once")
        yield from super().diagnose()


@irdl_op_definition
class ConnectOp(SpikeOp):
    """``past`` is the value ``now``, some time steps ago."""

    name = "spike.connect"
    past = operand_def(ValueType)
    now = operand_def(ValueType)
    assembly_format = "$past `,` $now attr-dict `:` type($past) `,` type($now)"

    def diagnose(self) -> Iterator[Diagnostic]:
        """A past of the same type."""
        if not isinstance(self.past.owner, PastOp):
            yield self.fault("its first operand is no spike.past", "the past, then the value", "exchange them")
        elif self.past.type != self.now.type:
            yield self.fault(f"connects {self.past.type} with {self.now.type}", "one type", "correct it")


@irdl_op_definition
class OutputOp(SpikeOp):
    """An output of a time step: its currents, added in order; 0 without any."""

    name = "spike.output"
    args = var_operand_def(ValueType)
    y = result_def(ValueType)
    named = attr_def(attr_name="name")
    fused = opt_attr_def()
    latency = opt_attr_def()
    assembly_format = "$args attr-dict `:` functional-type($args, $y)"

    def diagnose(self) -> Iterator[Diagnostic]:
        """Every current has the output's type."""
        for value in self.operands:
            if value.type != self.y.type:
                yield self.fault(f"a current of type {value.type}", f"the output has {self.y.type}", "reshape it")


def user_of(value: Any) -> Any:
    """The operation that uses a value first; in place of a connection the operation of the past that it connects."""
    (use, *_) = (use for use in value.uses if not (isinstance(use.operation, ConnectOp) and use.index == 0))
    return use.operation.past.owner if isinstance(use.operation, ConnectOp) else use.operation


STRUCTURE = (InputOp, ScanOp, CollectOp, ResultOp, DelayOp, PastOp, ConnectOp, OutputOp)
"""Operations of structure."""
