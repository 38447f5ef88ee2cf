"""One time step of a population, computed: the one interpreter of terms, on any array library (NumPy, torch, JAX)."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from nirbridge.program.rewrites import in_halves
from nirbridge.program.terms import Kind, Stepped, Term, fold

COMPUTED: Mapping[str, Callable[..., Any]] = {
    "add": operator.add, "sub": operator.sub, "mul": operator.mul, "div": operator.truediv, "neg": operator.neg,
    "floordiv": operator.floordiv, "shl": operator.lshift, "shr": operator.rshift, "and": operator.and_, "abs": abs,
    "not": operator.invert, "lt": operator.lt, "le": operator.le, "gt": operator.gt, "ge": operator.ge,
}  # fmt: skip
"""Operations that arrays have themselves."""


@dataclass(frozen=True, slots=True)
class SteppedArrays:
    """What one time step of a population gives: see ``Stepped``."""

    sent: Any
    variables: Mapping[str, Any]
    state: Mapping[str, Any]


def evaluate(step: Stepped, xp: Any, args: Mapping[str, Any], types: Mapping[Kind, Any]) -> SteppedArrays:
    """One time step.

    Args:
        step: the terms of the population.
        xp: the array library as a namespace: ``asarray``, ``where``, ``floor``.
        args: ``drive`` and ``state.u``, ``state.v``, ``state.i``, ``state.refractory`` as far as the step reads them:
            arrays ``[*batch, *shape]``.
        types: the type of each kind of values, with ``bool``.
    """
    step = in_halves(step)  # a current far beyond its register has a product of more than 64 bits
    variables, state = list(step.variables.values()), list(step.state.values())
    sent, *found = _computed([step.sent, *variables, *state], xp, args, types)
    named = dict(zip(step.variables, found, strict=False))
    return SteppedArrays(sent, named, dict(zip(step.state, found[len(named) :], strict=True)))


def _computed(terms: Sequence[Term], xp: Any, args: Mapping[str, Any], types: Mapping[Kind, Any]) -> list[Any]:
    def make(term: Term, given: list[Any]) -> Any:
        if term.op == "arg":
            return args[term.name]
        if term.op in ("const", "param"):
            return xp.asarray(term.value, dtype=types[term.kind])
        if term.op == "call":
            parameters = (p.name for p in term.value.parameters)
            return _computed([term.value.value], xp, dict(zip(parameters, given, strict=True)), types)[0]
        if term.op in ("min", "max"):
            a, b = given
            return xp.where(b < a if term.op == "min" else a < b, b, a)
        if term.op in ("where", "floor"):
            return getattr(xp, term.op)(*given)
        return COMPUTED[term.op](*given)

    return fold(terms, make)
