"""Rewrites of terms that change no value: each has a name, and the target that wants it asks for it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Protocol, Self, TypeVar

from nirbridge.program.terms import Change, Function, Term, as_term, fold


class _Remade(Protocol):
    def remade(self, change: Change) -> Self: ...


Remade = TypeVar("Remade", bound=_Remade)
"""A time step of a population or of a whole network."""


def in_halves(step: Remade) -> Remade:
    """Products that are shifted down, in two halves: ``(x * k) >> n`` is ``(x >> n) * k + (((x & m) * k) >> n)``.

    For x and k of 0 or more, with ``m = 2 ** n - 1``: then no part is wider than x where ``k <= 2 ** n``, so that a
    state of 24 bits needs 32 and not 36.
    """

    def rule(term: Term) -> Term:
        if term.op == "shr" and term.args[0].op == "mul" and term.args[0].args[0].op == "abs":
            product, places = term.args
            size, factor = product.args
            size = replace(size, name="size")
            low = size & as_term((1 << int(places.value)) - 1, size)
            return replace((size >> places) * factor + ((low * factor) >> places), name=term.name)
        return term

    return rewritten(step, rule)


def inlined(step: Remade) -> Remade:
    """The bodies of functions in place of their calls."""

    def make(term: Term, args: list[Term]) -> Term:
        if term.op != "call":
            return _with(term, args, term.value)
        given = {id(p): a for p, a in zip(term.value.parameters, args, strict=True)}
        (body,) = fold([term.value.value], lambda t, own: given.get(id(t)) or make(t, own))
        return replace(body, name=term.name or body.name) if body.args else body

    return step.remade(lambda ends: fold(ends, make))


def rewritten(step: Remade, rule: Callable[[Term], Term]) -> Remade:
    """The time step, of a population or a network, with ``rule`` applied to each term, those in functions included."""
    functions: dict[int, Function] = {}

    def make(term: Term, args: list[Term]) -> Term:
        value = term.value
        if term.op == "call":
            if id(value) not in functions:
                functions[id(value)] = replace(value, value=fold([value.value], make)[0])
            value = functions[id(value)]
        return rule(_with(term, args, value))

    return step.remade(lambda ends: fold(ends, make))


def _with(term: Term, args: list[Term], value: Any) -> Term:
    """The term with other arguments; itself where they are the same."""
    if value is term.value and all(a is b for a, b in zip(args, term.args, strict=True)):
        return term
    return replace(term, args=tuple(args), value=value)
