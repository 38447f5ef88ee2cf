"""The text of a function under construction: operations, constants that stand before them, tensors by name."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from xdsl.dialects.builtin import DenseResourceAttr
from xdsl.printer import Printer

from nirbridge._types import Shape
from nirbridge.arrays import Array
from nirbridge.dialect.values import Resources, is_uniform

DTYPES = {"f32": np.float32, "f64": np.float64, "i32": np.int32, "i64": np.int64, "i1": np.bool_}
"""The array type of each element type."""


@dataclass(frozen=True, slots=True)
class Extent:
    """An extent: a number, or the name of an index that is known at run time."""

    size: int | None
    name: str = ""

    def __str__(self) -> str:
        return self.name if self.size is None else str(self.size)


@dataclass(frozen=True, slots=True)
class Tensor:
    """A tensor by name: its element type, its leading extents, and its other ones."""

    name: str
    element: str
    lead: tuple[Extent, ...]
    shape: Shape

    @property
    def type(self) -> str:
        """Its type as MLIR writes it."""
        return type_text(self.element, self.lead, self.shape)

    @property
    def axes(self) -> int:
        """All axes."""
        return len(self.lead) + len(self.shape)


def type_text(element: str, lead: Sequence[Extent], shape: Sequence[int]) -> str:
    """The type of a tensor."""
    extents = ["?" if e.size is None else str(e.size) for e in lead] + [str(n) for n in shape]
    return f"tensor<{'x'.join((*extents, element))}>"


class FunctionText:
    """Lines of one function; a value is named by a number and stands for one operation."""

    def __init__(self, resources: Resources) -> None:
        self.resources = resources
        self.head: list[str] = []
        self.lines: list[str] = []
        self.indent = 2
        self._count = 0
        self._constants: dict[str, str] = {}

    def fresh(self) -> str:
        """A name that no value has."""
        self._count += 1
        return f"%{self._count}"

    def line(self, text: str) -> None:
        """Append a line as it is."""
        self.lines.append("  " * self.indent + text)

    def op(self, text: str) -> str:
        """Append an operation with one result, whose name is returned."""
        name = self.fresh()
        self.line(f"{name} = {text}")
        return name

    def block(self, head: str, argument: str, body: Sequence[str], tail: str) -> None:
        """Append an operation with one region of one block."""
        self.line(head)
        if argument:
            self.line(argument)
        self.indent += 1
        for text in body:
            self.line(text)
        self.indent -= 1
        self.line(tail)

    def constant(self, text: str) -> str:
        """The name of ``arith.constant text``, which stands at the head of the function once."""
        if text not in self._constants:
            self._constants[text] = name = self.fresh()
            self.head.append(f"    {name} = arith.constant {text}")
        return self._constants[text]

    def index(self, value: int) -> str:
        """A constant index."""
        return self.constant(f"{value} : index")

    def scalar(self, value: Any, element: str) -> str:
        """A constant number."""
        return self.constant(number_text(value, element) + (f" : {element}" if element != "i1" else ""))

    def array(self, values: Array, element: str) -> Tensor:
        """A constant tensor of an element type."""
        array, kind = np.asarray(values), np.dtype(DTYPES[element])
        if array.size and is_uniform(array):
            array = np.broadcast_to(np.asarray(array.flat[0], kind), array.shape)
        else:
            self.resources.check_size(array.size * kind.itemsize)
            array = np.asarray(array, kind)
        attribute: Any = self.resources.attribute(array)
        stream = io.StringIO()
        Printer(stream=stream).print_attribute(attribute)
        assert isinstance(attribute, DenseResourceAttr) or len(stream.getvalue()) < 10_000
        return Tensor(self.constant(stream.getvalue()), element, (), array.shape)

    def empty(self, element: str, lead: Sequence[Extent], shape: Sequence[int]) -> Tensor:
        """A tensor of any content."""
        dynamic = ", ".join(e.name for e in lead if e.size is None)
        name = self.op(f"tensor.empty({dynamic}) : {type_text(element, lead, shape)}")
        return Tensor(name, element, tuple(lead), tuple(shape))

    def filled(self, element: str, lead: Sequence[Extent], shape: Sequence[int], value: int = 0) -> Tensor:
        """A tensor of one number."""
        empty = self.empty(element, lead, shape)
        number = self.scalar(value, element)
        name = self.op(f"linalg.fill ins({number} : {element}) outs({empty.name} : {empty.type}) -> {empty.type}")
        return Tensor(name, element, tuple(lead), tuple(shape))

    def generic(
        self, maps: Sequence[str], iterators: Sequence[str], ins: Sequence[Tensor], outs: Sequence[Tensor], body: Body
    ) -> list[Tensor]:
        """A ``linalg.generic``; ``body`` has one line per operation, and the values that it yields."""
        count = len(outs)
        name = self.fresh()
        listed = ", ".join(f"affine_map<{m}>" for m in maps)
        kinds = ", ".join(f'"{kind}"' for kind in iterators)
        taken = f" ins({_typed(ins)})" if ins else ""
        head = f"{name}{f':{count}' if count > 1 else ''} = linalg.generic "
        head += f"{{indexing_maps = [{listed}], iterator_types = [{kinds}]}}{taken} outs({_typed(outs)}) {{"
        args = ", ".join(f"{a}: {t.element}" for a, t in zip(body.arguments, (*ins, *outs), strict=True))
        yielded = f"linalg.yield {', '.join(body.results)} : {', '.join(t.element for t in outs)}"
        types = ", ".join(t.type for t in outs)
        self.block(head, f"^bb0({args}):", [*body.lines, yielded], f"}} -> {f'({types})' if count > 1 else types}")
        names = [f"{name}#{k}" for k in range(count)] if count > 1 else [name]
        return [Tensor(n, t.element, t.lead, t.shape) for n, t in zip(names, outs, strict=True)]

    def flat(self, x: Tensor) -> Tensor:
        """The tensor with one axis after its one leading one."""
        size = int(np.prod(x.shape, dtype=np.int64))
        if len(x.shape) == 1:
            return x
        if not x.shape:
            return self.unflat(x, (1,))
        groups = f"[[0], [{', '.join(str(k) for k in range(1, x.axes))}]]"
        into = type_text(x.element, x.lead, (size,))
        return Tensor(
            self.op(f"tensor.collapse_shape {x.name} {groups} : {x.type} into {into}"), x.element, x.lead, (size,)
        )

    def unflat(self, x: Tensor, shape: Shape) -> Tensor:
        """A tensor with at most one axis after its leading one in another shape."""
        if x.shape == shape:
            return x
        into = type_text(x.element, x.lead, shape)
        if not shape:
            name = self.op(f"tensor.collapse_shape {x.name} [[0, 1]] : {x.type} into {into}")
            return Tensor(name, x.element, x.lead, shape)
        inner = ", ".join(str(k) for k in range(1, len(shape) + 1))
        groups = f"[[0], [{inner}]]" if x.shape else f"[[0, {inner}]]"
        return self._expanded(x, groups, x.lead, shape)

    def merged(self, x: Tensor, lead: Extent) -> Tensor:
        """Time and batch as one leading axis."""
        rest = "".join(f", [{k}]" for k in range(2, x.axes))
        into = type_text(x.element, (lead,), x.shape)
        name = self.op(f"tensor.collapse_shape {x.name} [[0, 1]{rest}] : {x.type} into {into}")
        return Tensor(name, x.element, (lead,), x.shape)

    def rows(self, x: Tensor, first: str, count: Extent) -> Tensor:
        """Some places along the first axis."""
        offsets, extents = ", ".join([first, *["0"] * len(x.shape)]), ", ".join([str(count), *map(str, x.shape)])
        into, ones = type_text(x.element, (count,), x.shape), ", ".join(["1"] * x.axes)
        name = self.op(f"tensor.extract_slice {x.name}[{offsets}] [{extents}] [{ones}] : {x.type} to {into}")
        return Tensor(name, x.element, (count,), x.shape)

    def _expanded(self, x: Tensor, groups: str, lead: tuple[Extent, ...], shape: Shape) -> Tensor:
        into = type_text(x.element, lead, shape)
        extents = ", ".join([*map(str, lead), *map(str, shape)])
        name = self.op(f"tensor.expand_shape {x.name} {groups} output_shape [{extents}] : {x.type} into {into}")
        return Tensor(name, x.element, lead, shape)

    def slice(self, x: Tensor, lead: tuple[Extent, ...], offset: str, axis: int) -> Tensor:
        """One place along an axis of a tensor, without that axis."""
        extents = [*map(str, x.lead), *map(str, x.shape)]
        offsets = ["0"] * x.axes
        offsets[axis], extents[axis] = offset, "1"
        shape = x.shape if axis < len(x.lead) else x.shape[1:]
        into = type_text(x.element, lead, shape)
        ones = ", ".join(["1"] * x.axes)
        where = f"[{', '.join(offsets)}] [{', '.join(extents)}] [{ones}]"
        return Tensor(self.op(f"tensor.extract_slice {x.name}{where} : {x.type} to {into}"), x.element, lead, shape)

    def inserted(self, x: Tensor, into: Tensor, offsets: Sequence[object], extents: Sequence[object]) -> Tensor:
        """``into`` with a part of it replaced."""
        ones = ", ".join(["1"] * into.axes)
        where = f"[{', '.join(map(str, offsets))}] [{', '.join(map(str, extents))}] [{ones}]"
        name = self.op(f"tensor.insert_slice {x.name} into {into.name}{where} : {x.type} into {into.type}")
        return Tensor(name, into.element, into.lead, into.shape)


@dataclass(frozen=True, slots=True)
class Body:
    """The region of a ``linalg.generic``: names of its arguments, operations, names of its results."""

    arguments: Sequence[str]
    lines: Sequence[str]
    results: Sequence[str]


def _typed(tensors: Sequence[Tensor]) -> str:
    return f"{', '.join(t.name for t in tensors)} : {', '.join(t.type for t in tensors)}"


def number_text(value: Any, element: str) -> str:
    """A number as MLIR reads it, bit for bit."""
    if element == "i1":
        return "true" if value else "false"
    if element.startswith("i"):
        return str(int(value))
    text = repr(float(DTYPES[element](value)))
    mantissa, e, exponent = text.partition("e")
    return text if "." in mantissa else f"{mantissa}.0{e}{exponent}"
