"""Elementwise computations: a graph of scalar operations, written as one loop over the elements or as one for each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any

import numpy as np

from nirbridge._types import Shape
from nirbridge.dialect.lowering.function import Body, Extent, FunctionText, Tensor
from nirbridge.network.neurons import Neuron
from nirbridge.program.rewrites import in_halves, inlined, rewritten
from nirbridge.program.rules import RULES, first_value, traced
from nirbridge.program.terms import Stepped, Term, as_term, fold, in_order
from nirbridge.quantization.model import FixedNeuron


@dataclass(frozen=True, slots=True, eq=False)
class Node:
    """A value per element: an operation on others, an element of a tensor, or a constant.

    ``text`` is the operation's name, or the constant; a tensor without leading axes has one element per neuron.
    """

    element: str
    text: str = ""
    args: tuple[Node, ...] = ()
    tensor: Tensor | None = None


class Pointwise:
    """Elementwise operations on tensors ``[*lead, *shape]``.

    ``fused``: all operations up to ``finish`` become one loop; else each becomes one, which is the form before fusion.
    """

    def __init__(self, f: FunctionText, lead: tuple[Extent, ...], shape: Shape, fused: bool = True) -> None:
        self.f, self.lead, self.shape, self.fused = f, lead, shape, fused

    def of(self, tensor: Tensor) -> Node:
        """The elements of a tensor."""
        return Node(tensor.element, tensor=tensor)

    def number(self, values: Any, element: str) -> Node:
        """A coefficient: one number, or one per neuron."""
        array = np.asarray(values)
        if array.size and bool((array == array.flat[0]).all()):
            return Node(element, self.f.scalar(array.flat[0], element))
        return Node(element, tensor=self.f.array(np.broadcast_to(array, self.shape), element))

    def op(self, name: str, *args: Node, element: str = "") -> Node:
        """An operation of arith or math; ``element`` where its result has another type than its operands."""
        node = Node(element or args[-1].element, name, args)
        return node if self.fused else self.of(self._loop([node])[0])

    def finish(self, nodes: Sequence[Node], into: Mapping[int, Tensor] | None = None) -> list[Tensor]:
        """The values as tensors; ``into`` are tensors, by position, that a value may overwrite."""
        whole = [k for k, n in enumerate(nodes) if n.tensor is None or not n.tensor.lead]
        places = [(into or {}).get(k) for k in whole]
        loop = dict(zip(whole, self._loop([nodes[k] for k in whole], places), strict=True)) if whole else {}
        return [loop.get(k) or node.tensor for k, node in enumerate(nodes)]  # type: ignore[misc]

    def _loop(self, nodes: Sequence[Node], into: Sequence[Tensor | None] = ()) -> list[Tensor]:
        """One ``linalg.generic`` that computes ``nodes``."""
        f, names, lines = self.f, {}, []  # type: ignore[var-annotated]
        places = into or [None] * len(nodes)
        leaves: dict[str, Tensor] = {}
        order = _ordered(nodes)
        for node in order:
            if node.tensor is not None:
                leaves.setdefault(node.tensor.name, node.tensor)
        arguments = {name: f.fresh() for name in leaves}
        for node in order:
            if node.tensor is not None:
                names[id(node)] = arguments[node.tensor.name]
            elif not node.args:
                names[id(node)] = node.text
            else:
                names[id(node)] = f.fresh()
                lines.append(f"{names[id(node)]} = {_written(node, [names[id(a)] for a in node.args])}")
        pairs = zip(nodes, places, strict=True)
        outs = [place or f.empty(node.element, self.lead, self.shape) for node, place in pairs]
        axes = len(self.lead) + len(self.shape)
        maps = [_map(axes, len(self.lead) if not t.lead else 0) for t in leaves.values()] + [_map(axes, 0)] * len(outs)
        arguments_all = [*arguments.values(), *(f.fresh() for _ in outs)]
        body = Body(arguments_all, lines, [names[id(node)] for node in nodes])
        return f.generic(maps, ["parallel"] * axes, list(leaves.values()), outs, body)


def _ordered(nodes: Sequence[Node]) -> list[Node]:
    """Every node after its operands."""
    order: dict[int, Node] = {}
    stack = [(node, False) for node in reversed(nodes)]
    while stack:
        node, done = stack.pop()
        if done:
            order.setdefault(id(node), node)
        elif id(node) not in order:
            stack.append((node, True))
            stack.extend((a, False) for a in reversed(node.args))
    return list(order.values())


def _map(axes: int, skipped: int) -> str:
    names = [f"d{k}" for k in range(axes)]
    return f"({', '.join(names)}) -> ({', '.join(names[skipped:])})"


def _written(node: Node, args: Sequence[str]) -> str:
    taken = node.args[-1].element
    if node.text in _CASTS:
        return f"{node.text} {args[0]} : {taken} to {node.element}"
    comma = "," if node.text.startswith(("arith.cmpf", "arith.cmpi")) else ""
    return f"{node.text}{comma} {', '.join(args)} : {taken}"


_CASTS = {"arith.sitofp", "arith.extf", "arith.truncf", "arith.extui", "arith.extsi", "arith.trunci"}


# -- neurons -------------------------------------------------------------------------------------------------------
# One time step of a population as elementwise operations: its rule (program/rules.py) in arith and math.

Values = Mapping[str, Any]
"""The attributes of a neuron as arrays, numbers and words."""
OF_REALS = {
    "add": "addf", "sub": "subf", "mul": "mulf", "div": "divf", "floor": "math.floor", "lt": "cmpf olt",
    "le": "cmpf ole", "gt": "cmpf ogt", "ge": "cmpf oge", "where": "select",
}  # fmt: skip
OF_INTEGERS = {
    "add": "addi", "sub": "subi", "mul": "muli", "floordiv": "floordivsi", "shl": "shli", "shr": "shrsi",
    "and": "andi", "min": "minsi", "max": "maxsi", "lt": "cmpi slt", "le": "cmpi sle", "gt": "cmpi sgt",
    "ge": "cmpi sge", "where": "select",
}  # fmt: skip
"""Operations of ``arith``, or with their dialect."""


def kept_states(n: Values, element: str) -> dict[str, tuple[str, Any]]:
    """The types and first values of the state that a time step reads; ``element``: the type of potentials."""
    step, types = _traced(n, element)
    read = {term.name for term in in_order(step.ends)}
    kept = {name: types[term.kind] for name, term in step.state.items() if f"state.{name}" in read}
    return {name: (kind, first_value(SimpleNamespace(**n), name)) for name, kind in kept.items()}


def _traced(n: Values, element: str) -> tuple[Stepped, dict[str, str]]:
    """The rule of a neuron, and the types of each kind of its values."""
    is_real = element.startswith("f")
    rule, kind = RULES[Neuron if is_real else FixedNeuron]
    types = {"real": element, "int": element, "count": "i32" if is_real else element, "bool": "i1"}
    return traced(rule, SimpleNamespace(**n), kind), types


def lowered_step(
    p: Pointwise, n: Values, element: str, drive: Node | None, state: Mapping[str, Node]
) -> dict[str, Node]:
    """The variables and the next state by name."""
    step, types = _traced(n, element)
    step = rewritten(in_halves(inlined(step)), _as_choice)
    args = {"drive": drive or p.number(0, element)} | {f"state.{name}": node for name, node in state.items()}

    def make(term: Term, given: list[Node]) -> Node:
        if term.op == "arg":
            return args[term.name]
        if term.op in ("const", "param"):
            return p.number(term.value, types[term.kind])
        return _operation(p, term, given, types[term.kind])

    found = {**step.variables, **{name: term for name, term in step.state.items() if name in state}}
    return dict(zip(found, fold(list(found.values()), make), strict=True))


def _as_choice(term: Term) -> Term:
    """``a and not b`` as a choice, which compilers of truth values turned around may lack."""
    if term.op != "and" or term.args[1].op != "not":
        return term
    return replace(term, op="where", args=(term.args[1].args[0], as_term(False, term), term.args[0]))


def _operation(p: Pointwise, term: Term, given: list[Node], element: str) -> Node:
    taken = term.args[-1].kind
    if term.op == "not":
        return p.op("arith.xori", given[0], p.number(True, "i1"))
    zero = p.number(0, element)
    if term.op == "neg":
        return p.op("arith.subi", zero, given[0])
    if term.op == "abs":
        is_negative = p.op("arith.cmpi slt", given[0], zero, element="i1")
        return p.op("arith.select", is_negative, p.op("arith.subi", zero, given[0]), given[0])
    if taken == "real" and term.op in ("min", "max"):
        is_other = p.op(f"arith.cmpf {'ogt' if term.op == 'min' else 'olt'}", *given, element="i1")
        return p.op("arith.select", is_other, given[1], given[0])
    word = (OF_REALS if taken == "real" else OF_INTEGERS)[term.op]
    return p.op(word if "." in word else f"arith.{word}", *given, element=element)
