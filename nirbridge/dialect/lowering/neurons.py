"""One time step of a population as elementwise operations: its rule (``program/rules.py``) in arith and math."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

from nirbridge.dialect.lowering.pointwise import Node, Pointwise
from nirbridge.network.neurons import Neuron
from nirbridge.program.rewrites import in_halves, inlined, rewritten
from nirbridge.program.rules import RULES, first_value, traced
from nirbridge.program.terms import Stepped, Term, as_term, fold, in_order
from nirbridge.quantization.model import FixedNeuron

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
