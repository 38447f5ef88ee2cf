"""One time step of a population in ONNX: its rule (``program/rules.py``) as nodes, in float32 or int64."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from nirbridge.emitters.onnx.graph import GraphBuilder
from nirbridge.network.model import Population
from nirbridge.program.interval import first_values, fits, intervals
from nirbridge.program.rewrites import in_halves, inlined
from nirbridge.program.rules import traced_step
from nirbridge.program.terms import Stepped, Term, fold, is_truth
from nirbridge.quantization.model import FixedPopulation

NODES = {
    "add": "Add", "sub": "Sub", "mul": "Mul", "div": "Div", "neg": "Neg", "abs": "Abs", "floor": "Floor", "min": "Min",
    "max": "Max", "not": "Not", "where": "Where", "lt": "Less", "le": "LessOrEqual", "gt": "Greater",
    "ge": "GreaterOrEqual", "and": "And",
}  # fmt: skip
"""Operations that ONNX has; its ``Div`` of integers cuts towards zero."""
WIDTH = 64


@dataclass(frozen=True, slots=True)
class SteppedTensors:
    """Tensors of one time step of a population: what it sends, its variables, and its next state by name."""

    sent: str
    variables: dict[str, str]
    state: dict[str, str]


def real_step(g: GraphBuilder, p: Population, drive: str, state: Mapping[str, str]) -> SteppedTensors:
    """One time step of a population in float32; ``drive``: ``[batch, neurons]``."""
    return _written(g, p, inlined(traced_step(p.neuron)), {"drive": drive, **_args(state)}, lambda term: False)


def integer_step(
    g: GraphBuilder, p: FixedPopulation, drive: str, state: Mapping[str, str], a_in: tuple[int, int]
) -> SteppedTensors:
    """The same in int64; ``a_in``: the least and the greatest drive of any time step."""
    step, first = inlined(traced_step(p.neuron)), first_values(p.neuron, a_in)
    known = intervals(step, first)
    if not fits(known, WIDTH):
        known = intervals(step := in_halves(step), first)
    return _written(g, p, step, {"drive": drive, **_args(state)}, lambda term: known.get(id(term), (0, 0))[0] >= 0)


def _args(state: Mapping[str, str]) -> dict[str, str]:
    return {f"state.{name}": tensor for name, tensor in state.items()}


def _written(
    g: GraphBuilder,
    p: Population | FixedPopulation,
    step: Stepped,
    args: Mapping[str, str],
    is_positive: Callable[[Term], bool],
) -> SteppedTensors:
    types = {"real": "float32", "int": "int64", "count": "int64", "bool": "bool"}

    def make(term: Term, given: list[str]) -> str:
        if term.op == "arg":
            return args[term.name]
        if term.op in ("const", "param"):
            return g.flat(np.asarray(term.value), p.shape, types[term.kind])
        if is_truth(term):
            return g.cast(given[0], types[term.kind])
        return _of_integers(g, term, given, is_positive) or g.op(NODES[term.op], *given)

    variables = {name: term for name, term in step.variables.items() if name != "s" or p.neuron.fires}
    following = {name: term for name, term in step.state.items() if f"state.{name}" in args}
    sent, *tensors = fold([step.sent, *variables.values(), *following.values()], make)
    named = dict(zip(variables, tensors, strict=False))
    return SteppedTensors(sent, named, dict(zip(following, tensors[len(named) :], strict=True)))


def _of_integers(g: GraphBuilder, term: Term, given: list[str], is_positive: Callable[[Term], bool]) -> str | None:
    """Operations that ONNX has not: shifts, masks, and quotients that are rounded down."""
    if term.op in ("shl", "shr"):
        unit = g.constant(1 << int(term.args[1].value), "int64")
        if term.op == "shl":
            return g.op("Mul", given[0], unit)
        return g.op("Div", given[0] if is_positive(term.args[0]) else _multiple(g, given[0], unit), unit)
    if term.op == "floordiv":
        return g.op("Div", _multiple(g, *given), given[1])
    if term.op == "and" and term.kind != "bool":
        return g.op("Mod", given[0], g.constant(int(term.args[1].value) + 1, "int64"))
    return None


def _multiple(g: GraphBuilder, x: str, unit: str) -> str:
    """The next multiple of a unit below."""
    return g.op("Sub", x, g.op("Mod", x, unit))
