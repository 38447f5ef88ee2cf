"""One time step of a population, computed: the one interpreter of terms, on any array library (NumPy, torch, JAX)."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from nirbridge.program.rewrites import in_halves
from nirbridge.program.terms import Kind, Stepped, Term, in_order

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


class Evaluator:
    """The time steps of a population on an array library.

    Args:
        step: the terms of the population.
        xp: the array library as a namespace: ``asarray``, ``where``, ``floor``.
        types: the type of each kind of values, with ``bool``.
        prepared: what becomes of the array of a coefficient, to move it to a device or to flatten it.
    """

    def __init__(
        self,
        step: Stepped,
        xp: Any,
        types: Mapping[Kind, Any],
        prepared: Callable[[Any], Any] = lambda values: values,
    ) -> None:
        self.step = step = in_halves(step)  # a current far beyond its register has a product of more than 64 bits
        self.xp, self.types, self.prepared = xp, types, prepared
        self.ends = [step.sent, *step.variables.values(), *step.state.values()]
        self.terms = list(in_order(self.ends))
        self.leaves = self._leaves(self.terms)

    def __call__(self, args: Mapping[str, Any]) -> SteppedArrays:
        """One time step.

        ``args``: ``drive`` and ``state.u``, ``state.v``, ``state.i``, ``state.refractory`` as far as the step reads
        them: arrays ``[*batch, *shape]``.
        """
        sent, *found = self._computed(self.terms, self.ends, {**self.leaves}, args)
        named = dict(zip(self.step.variables, found, strict=False))
        return SteppedArrays(sent, named, dict(zip(self.step.state, found[len(named) :], strict=True)))

    def _leaves(self, terms: Sequence[Term]) -> dict[int, Any]:
        made: dict[int, Any] = {}
        for term in terms:
            if term.op in ("const", "param"):
                made[id(term)] = self.prepared(self.xp.asarray(term.value, dtype=self.types[term.kind]))
            elif term.op == "call":
                made |= self._leaves(list(in_order([term.value.value])))
        return made

    def _computed(
        self, terms: Sequence[Term], ends: Sequence[Term], made: dict[int, Any], args: Mapping[str, Any]
    ) -> list[Any]:
        for term in terms:
            if id(term) not in made:
                made[id(term)] = args[term.name] if term.op == "arg" else self._made(term, made)
        return [made[id(term)] for term in ends]

    def _made(self, term: Term, made: dict[int, Any]) -> Any:
        given = [made[id(a)] for a in term.args]
        if term.op == "call":
            args, body = dict(zip((p.name for p in term.value.parameters), given, strict=True)), term.value.value
            return self._computed(list(in_order([body])), [body], made, args)[0]
        if term.op in ("min", "max"):
            a, b = given
            return self.xp.where(b < a if term.op == "min" else a < b, b, a)
        if term.op in ("where", "floor"):
            return getattr(self.xp, term.op)(*given)
        return COMPUTED[term.op](*given)
