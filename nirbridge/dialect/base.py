"""Base class of the dialect's operations: an xDSL operation whose verifier yields diagnostics. Needs xDSL."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    ArrayAttr,
    DenseArrayBase,
    DictionaryAttr,
    FloatAttr,
    IntegerAttr,
    StringAttr,
    TensorType,
    UnitAttr,
)
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import IRDLOperation
from xdsl.utils.exceptions import VerifyException

from nirbridge._types import Shape
from nirbridge.dialect.values import DTYPES, shape_of, unescaped
from nirbridge.errors import Diagnostic, quoted

NAME = "spike"
"""The name of the dialect."""
_KINDS: tuple[tuple[type[Any], str, tuple[str, ...]], ...] = (
    (IntegerAttr, "an integer", ("index", "max_spikes", "u_bits", "v_bits", "groups", "exponent", "is_back")),
    (FloatAttr, "a number", ("dt", "factor")),
    (StringAttr, "a text", ("name", "variable", "kind", "reset", "compare", "numbers")),
    (ArrayAttr, "a list", ("nodes", "delay_nodes", "placement")),
    (DenseArrayBase, "integers", ("stride", "padding", "dilation", "kernel")),
    (DictionaryAttr, "a dictionary", ("timing", "facts")),
    (UnitAttr, "a mark without a value", ("fused", "events")),
)
"""What each attribute holds; all others hold the values of a tensor."""
_KIND_OF = {name: (kind, words) for kind, words, names in _KINDS for name in names}


class SpikeOp(IRDLOperation):
    """An operation whose faults are diagnostics; xDSL's verifier raises them all as one."""

    def diagnose(self) -> Iterator[Diagnostic]:
        """Every fault of an operation whose operands, results and attributes are of the right kinds."""
        yield from ()

    def faults(self) -> Iterator[Diagnostic]:
        """Every fault of this operation; where something is absent or of another kind, these faults alone."""
        definition = type(self).get_irdl_definition()
        try:
            definition.verify(self)
        except VerifyException as error:
            yield self.fault(quoted(str(error).strip().splitlines()[0], 200), "the dialect's definition", "correct it")
            return
        own = {name: value for name, value in self.attributes.items() if name in definition.attributes}
        kinds = [fault for name, value in own.items() for fault in self._of_kind(name, value)]
        yield from kinds or self.diagnose()

    def _of_kind(self, name: str, value: Attribute) -> Iterator[Diagnostic]:
        kind, words = _KIND_OF.get(name, (None, ""))
        if kind is None and not is_tensor(value):
            yield self.fault(f"{name} is no tensor", "a dense or dense_resource attribute")
        elif kind is None and value.get_type().get_element_type() not in DTYPES:  # type: ignore[attr-defined]
            yield self.fault(f"{name} has elements that no array has", f"one of {', '.join(map(str, DTYPES))}")
        elif kind is not None and not isinstance(value, kind):
            yield self.fault(f"{name} is not {words}", f"{name} is {words}", "correct it")
        elif kind is StringAttr or name in ("nodes", "delay_nodes"):
            yield from self._of_names(name, [value] if kind is StringAttr else value.data)  # type: ignore[attr-defined]

    def _of_names(self, name: str, values: Iterable[Any]) -> Iterator[Diagnostic]:
        for value in values:
            if not isinstance(value, StringAttr) or not is_escaped(value.data):
                yield self.fault(f"{name} holds no name", "a text, escaped as in URLs", "correct it")

    def verify_(self) -> None:
        """Raises xDSL's VerifyException with every fault."""
        if faults := [str(fault) for fault in self.faults()]:
            raise VerifyException("\n".join(faults))

    def fault(self, found: str, limit: str = "", hint: str = "") -> Diagnostic:
        """A diagnostic on this operation, named if it has a name."""
        named: Any = self.attributes.get("name") or self.attributes.get("sym_name")
        is_named = isinstance(named, StringAttr)
        return Diagnostic(f"{self.name} {quoted(named.data)}" if is_named else self.name, found, limit, hint)

    def attribute(self, name: str) -> Any:
        """An attribute that is there, or None."""
        return self.attributes.get(name)


def element(value: SSAValue) -> Any:
    """Element type of a tensor; None of anything else."""
    return value.type.get_element_type() if isinstance(value.type, TensorType) else None


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
        if attribute is not None and shape_of(attribute) not in shapes:
            expected = " or ".join(map(str, shapes))
            yield op.fault(f"{name} has shape {shape_of(attribute)}", f"expected {expected}", "reshape it")


def is_escaped(name: str) -> bool:
    """Whether a name is one that ``escaped`` may have written."""
    try:
        unescaped(name)
    except UnicodeDecodeError:
        return False
    return True


def is_tensor(attribute: Attribute) -> bool:
    """Whether an attribute holds the values of a tensor."""
    return hasattr(attribute, "get_type") and isinstance(attribute.get_type(), TensorType)  # type: ignore[attr-defined]
