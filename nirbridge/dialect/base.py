"""What every operation of the dialect is: an xDSL operation whose verifier speaks in diagnostics. Needs xDSL."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from xdsl.dialects.builtin import DYNAMIC_INDEX, TensorType
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import IRDLOperation
from xdsl.utils.exceptions import VerifyException

from nirbridge._types import Shape
from nirbridge.dialect.values import shape_of
from nirbridge.errors import Diagnostic, quoted

NAME = "spike"
"""The name of the dialect."""


class SpikeOp(IRDLOperation):
    """An operation whose faults are diagnostics; xDSL's verifier raises them all as one."""

    def diagnose(self) -> Iterator[Diagnostic]:
        """Every fault of this operation; those of operations inside it are their own."""
        yield from ()

    def verify_(self) -> None:
        """Raises xDSL's VerifyException with every fault."""
        if faults := [str(fault) for fault in self.diagnose()]:
            raise VerifyException("\n".join(faults))

    def fault(self, found: str, limit: str = "", hint: str = "") -> Diagnostic:
        """A diagnostic on this operation, named if it has a name."""
        named: Any = self.attributes.get("name") or self.attributes.get("sym_name")
        return Diagnostic(
            f"{self.name} {quoted(named.data)}" if hasattr(named, "data") else self.name, found, limit, hint
        )

    def attribute(self, name: str) -> Any:
        """An attribute that is there, or None."""
        return self.attributes.get(name)


def element(value: SSAValue) -> Any:
    """Element type of a tensor; None of anything else."""
    return value.type.get_element_type() if isinstance(value.type, TensorType) else None


def is_batch(value: SSAValue) -> bool:
    """Whether a value is a tensor whose first axes are leading ones, of any extent."""
    return isinstance(value.type, TensorType) and len(value.type.get_shape()) >= 1


def shape(value: SSAValue, leading: int = 1) -> Shape:
    """Shape of a tensor without its leading axes; empty of anything else."""
    return tuple(value.type.get_shape()[leading:]) if isinstance(value.type, TensorType) else ()


def leading_axes(value: SSAValue) -> int:
    """Axes of unknown extent at the front of a tensor: the batch, and time before it outside of a scan."""
    extents = value.type.get_shape() if isinstance(value.type, TensorType) else ()
    count = 0
    while count < len(extents) and extents[count] == DYNAMIC_INDEX:
        count += 1
    return count


def has_values(op: SpikeOp, names: Iterable[str], shapes: Sequence[Shape]) -> Iterator[Diagnostic]:
    """Attributes that hold tensors of one of some shapes; absent ones are left to the operation's definition."""
    for name in names:
        attribute = op.attribute(name)
        if attribute is not None and not is_tensor(attribute):
            yield op.fault(f"{name} is no tensor", "a dense or dense_resource attribute")
        elif attribute is not None and shape_of(attribute) not in shapes:
            expected = " or ".join(map(str, shapes))
            yield op.fault(f"{name} has shape {shape_of(attribute)}", f"expected {expected}", "reshape it")


def is_tensor(attribute: Attribute) -> bool:
    """Whether an attribute holds the values of a tensor."""
    return hasattr(attribute, "get_type") and isinstance(attribute.get_type(), TensorType)  # type: ignore[attr-defined]
