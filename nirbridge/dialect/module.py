"""A module of the dialect with its arrays: text, and the module that a text is. Needs xDSL."""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from xdsl.context import Context
from xdsl.dialect_interfaces.op_asm import OpAsmDialectInterface
from xdsl.dialects.builtin import Builtin, DenseResourceAttr, ModuleOp
from xdsl.ir import Dialect, Operation
from xdsl.irdl import OptionalDef, VarOperandDef, VarResultDef
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

from nirbridge.dialect.base import NAME, SpikeOp
from nirbridge.dialect.neurons import NEURONS, NeuronBase
from nirbridge.dialect.structure import STRUCTURE, CollectOp, DelayOp, NetworkOp, OutputOp, ScanOp
from nirbridge.dialect.synapses import SYNAPSES, CurrentOp, RealOp, Synapse
from nirbridge.dialect.values import DTYPES, Resources, array_from_blob
from nirbridge.errors import Diagnostic, FileError, ModelError, quoted

OPERATIONS: tuple[type[Any], ...] = (*STRUCTURE, *SYNAPSES, *NEURONS.values())
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

    def text(self) -> str:
        """The module in MLIR's generic form, with its arrays; always the same text for the same network."""
        stream = io.StringIO()
        Printer(stream=stream, print_generic_format=True).print_op(self.operation)
        return stream.getvalue() + "\n" + self.resources.text()


def diagnose_module(module: DialectModule) -> Iterator[Diagnostic]:
    """Every fault of every operation; where each is sound, those of what they make together."""
    ops = list(module.operation.body.block.ops)
    faults = [fault for op in ops if isinstance(op, SpikeOp) for fault in op.faults()]
    faults += [_foreign(op) for op in ops if not isinstance(op, SpikeOp)]
    yield from faults or diagnose_flow(ops)


def _foreign(op: Operation) -> Diagnostic:
    return Diagnostic("dialect", f"an operation {quoted(op.name)}", f"those of {NAME}", "remove it")


def check_module(module: DialectModule) -> None:
    """Raises ModelError with every fault that the operations state, or the one that xDSL finds."""
    try:
        ModelError.raise_all(diagnose_module(module))
        module.operation.verify()
    except VerifyException as error:
        raise ModelError.of("dialect", quoted(str(error), 300), "", "correct the module") from None


def parse_module(text: str) -> DialectModule:
    """The module of a text in MLIR's generic form.

    Raises:
        FileError: no text of one network in this dialect.
        ModelError: operations that contradict each other.
    """
    interface = OpAsmDialectInterface()  # xDSL's own keeps the arrays of every text that it ever read
    context = Context()
    context.load_dialect(Dialect("builtin", list(Builtin.operations), list(Builtin.attributes), [interface]))
    context.load_dialect(Dialect(NAME, list(OPERATIONS)))
    try:
        operation = Parser(context, text).parse_module()
        resources = _resources(operation, interface)
        count = sum(isinstance(op, NetworkOp) for op in operation.body.block.ops)
    except Exception as error:  # of any type: xDSL's parser takes its input to be sound
        first = str(error).strip().splitlines()[-1:] or [type(error).__name__]
        raise FileError.of(
            "dialect", f"not a module: {quoted(first[0], 200)}", "", "give a text that nirbridge wrote"
        ) from None
    module = DialectModule(operation, resources)
    if count != 1:
        raise FileError.of("dialect", "a module without a network, or with several", "one spike.network", "cut it")
    check_module(module)
    return module


def _resources(operation: ModuleOp, interface: OpAsmDialectInterface) -> Resources:
    resources = Resources()
    for op in operation.walk():
        for attribute in _attributes(op):
            if isinstance(attribute, DenseResourceAttr):
                kind: Any = attribute.get_type()
                name = attribute.resource_handle.data
                blob = interface.lookup(name)
                if not blob:
                    raise KeyError(f"no bytes of the resource {name}")
                values = array_from_blob(blob, DTYPES[kind.get_element_type()]).reshape(kind.get_shape())
                if (known := resources.arrays.setdefault(name, values)) is not values and (
                    known.dtype != values.dtype or known.shape != values.shape
                ):
                    raise ValueError(f"the resource {name} has two types")
    return resources


def _attributes(op: Operation) -> Iterator[Any]:
    yield from op.attributes.values()


# -- flow ----------------------------------------------------------------------------------------------------------
# What the operations of a module make together: every value is used, every projection ends. Needs xDSL.

LINKS = (Synapse, RealOp, DelayOp, ScanOp, CollectOp)
"""Operations with one operand and one result, of which a projection is made."""


def diagnose_flow(ops: Sequence[Any]) -> Iterator[Diagnostic]:
    """Results that nothing uses, currents without one target, cycles without a neuron, names that two nodes have."""
    for op in ops:
        if isinstance(op, LINKS) and not isinstance(op, ScanOp):  # an input may have no use
            yield from _of_uses(op)
    if left := _on_cycles([op for op in ops if isinstance(op, LINKS)]):
        yield left[0].fault("it is on a cycle without a neuron", "neurons are between projections", "remove it")
    names = Counter(_name(op) for op in ops if isinstance(op, NeuronBase))
    for op in ops:
        if isinstance(op, NeuronBase) and names[_name(op)] > 1:
            yield op.fault("another population has this name", "names are unique", "rename it")


def _name(op: Any) -> str:
    return op.attributes["name"].data


def _of_uses(op: Any) -> Iterator[Diagnostic]:
    users = [use.operation for use in op.results[0].uses]
    if not users:
        yield op.fault("nothing uses its result", "a projection ends in a current and its target", "remove it")
    elif isinstance(op, CurrentOp) and not (len(users) == 1 and isinstance(users[0], NeuronBase | OutputOp)):
        is_before = len(users) == 1 and isinstance(users[0], ScanOp)  # moved out of the loop over time
        if not is_before:
            yield op.fault("its result has another use", "one neuron or output", "correct it")


def _on_cycles(links: Sequence[Any]) -> list[Any]:
    """Those of which each takes the result of another one, without end."""
    members = set(links)
    waiting = {op for op in links if op.operands[0].owner in members}
    ready = [op for op in links if op not in waiting]
    while ready:
        for use in ready.pop().results[0].uses:
            if use.operation in waiting:
                waiting.discard(use.operation)
                ready.append(use.operation)
    return [op for op in links if op in waiting]


# -- definition ----------------------------------------------------------------------------------------------------
# For other tools: ``mlir-opt --irdl-file`` parses and verifies modules with it.


def irdl_text() -> str:
    """The dialect in IRDL: every operation with its operands, results and required attributes."""
    body = "\n".join(_operation(kind) for kind in OPERATIONS)
    return f"module {{\n  irdl.dialect @{NAME} {{\n{body}\n  }}\n}}\n"


def _operation(kind: type[Any]) -> str:
    definition = kind.get_irdl_definition()
    lines, count = [], 0

    def fresh(operation: str) -> str:
        nonlocal count
        count += 1
        lines.append(f"      %{count} = {operation}")
        return f"%{count}"

    for word, values, variadic in (
        ("operands", definition.operands, VarOperandDef),
        ("results", definition.results, VarResultDef),
    ):
        each = [f"{name}: {'variadic ' if isinstance(v, variadic) else ''}{fresh('irdl.any')}" for name, v in values]
        if each:
            lines.append(f"      irdl.{word}({', '.join(each)})")
    required = [name for name, value in definition.attributes.items() if not isinstance(value, OptionalDef)]
    each = [f'"{name}" = {fresh("irdl.any")}' for name in required]
    if each:
        lines.append(f"      irdl.attributes {{ {', '.join(each)} }}")
    inner = "\n".join(lines)
    return f"    irdl.operation @{kind.name.removeprefix(NAME + '.')} {{\n{inner}\n    }}"
