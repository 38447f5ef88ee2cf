"""Operations of structure: the facts of a network, its ends, the scan over time, delays. Needs xDSL.

A tensor ``[time, batch, *shape]`` holds all time steps. ``spike.scan`` gives them one after another, each a tensor
``[batch, *shape]``: every operation on such tensors is carried out in each time step, and ``spike.collect`` stacks
its results. The operations between the two are the body of the loop over time; a cycle among them leads through a
``spike.delay``, so that the body of a module is a graph and needs no order.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from xdsl.dialects.builtin import TensorType
from xdsl.irdl import attr_def, irdl_op_definition, operand_def, opt_attr_def, result_def, var_operand_def

from nirbridge.dialect.base import SpikeOp, element, has_values, leading_axes, shape
from nirbridge.errors import Diagnostic, quoted

NUMBERS = ("float32", "float64", "int32", "int64")
"""Types of the tensors of a module."""


@irdl_op_definition
class NetworkOp(SpikeOp):
    """The facts of a network: dt in seconds, timing, the numbers of its tensors, assumptions and notes."""

    name = "spike.network"
    dt = attr_def()
    timing = attr_def()
    numbers = attr_def()
    facts = attr_def()

    def diagnose(self) -> Iterator[Diagnostic]:
        """Dt is positive, the numbers are of a type that tensors have."""
        dt: Any = self.dt
        numbers: Any = self.numbers
        if numbers.data not in NUMBERS:
            yield self.fault(f"numbers of type {quoted(numbers.data)}", f"one of {', '.join(NUMBERS)}", "correct it")
        if not dt.value.data > 0:
            yield self.fault(f"dt is {dt.value.data} s", "above 0", "correct dt")


@irdl_op_definition
class InputOp(SpikeOp):
    """An input ``[time, batch, *shape]``."""

    name = "spike.input"
    y = result_def(TensorType)
    named = attr_def(attr_name="name")

    def diagnose(self) -> Iterator[Diagnostic]:
        """It has time and batch."""
        if leading_axes(self.y) != 2:
            yield self.fault(f"gives {self.y.type}", "time and batch lead", "add them")


class Along(SpikeOp):
    """An operation between all time steps and one of them."""

    x = operand_def(TensorType)
    y = result_def(TensorType)

    def diagnose(self) -> Iterator[Diagnostic]:
        """Both sides agree but for time."""
        taken, given = (2, 1) if self.name == "spike.scan" else (1, 2)
        same = element(self.x) == element(self.y) and shape(self.x, taken) == shape(self.y, given)
        if not same or (leading_axes(self.x), leading_axes(self.y)) != (taken, given):
            yield self.fault(
                f"takes {self.x.type} and gives {self.y.type}", "one of them has time as well", "correct it"
            )


@irdl_op_definition
class ScanOp(Along):
    """The time steps of a tensor in order, each as ``[batch, *shape]``."""

    name = "spike.scan"


@irdl_op_definition
class CollectOp(Along):
    """The values of all time steps as one tensor ``[time, batch, *shape]``."""

    name = "spike.collect"


@irdl_op_definition
class ResultOp(SpikeOp):
    """An output of the network, or a recorded variable of a node, over all time steps."""

    name = "spike.result"
    x = operand_def(TensorType)
    named = attr_def(attr_name="name")
    variable = attr_def()

    def diagnose(self) -> Iterator[Diagnostic]:
        """It has time and batch."""
        if leading_axes(self.x) != 2:
            yield self.fault(f"takes {self.x.type}", "time and batch lead", "collect it")


@irdl_op_definition
class DelayOp(SpikeOp):
    """Values some time steps ago, 0 before the first: one delay for all elements or one for each; 0 is the present."""

    name = "spike.delay"
    x = operand_def(TensorType)
    y = result_def(TensorType)
    steps = attr_def()

    def diagnose(self) -> Iterator[Diagnostic]:
        """Faults of shapes and of the delays."""
        if self.x.type != self.y.type or leading_axes(self.x) < 1:
            yield self.fault(f"takes {self.x.type} and gives {self.y.type}", "one type", "correct it")
        yield from has_values(self, ["steps"], [(), shape(self.x, leading_axes(self.x))])


@irdl_op_definition
class OutputOp(SpikeOp):
    """An output of a time step: its currents, added in order; 0 without any."""

    name = "spike.output"
    args = var_operand_def()
    y = result_def(TensorType)
    named = attr_def(attr_name="name")
    fused = opt_attr_def()

    def diagnose(self) -> Iterator[Diagnostic]:
        """Every current has the output's type."""
        for value in self.operands:
            if value.type != self.y.type:
                yield self.fault(f"a current of type {value.type}", f"the output has {self.y.type}", "reshape it")


STRUCTURE = (NetworkOp, InputOp, ScanOp, CollectOp, ResultOp, DelayOp, OutputOp)
"""Operations of structure."""
