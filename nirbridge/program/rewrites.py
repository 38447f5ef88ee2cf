"""Rewrites of terms that change no value: each has a name, and the target that wants it asks for it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Protocol, Self, TypeVar

import numpy as np

from nirbridge.program.terms import LEAVES, Change, Function, Term, as_term, fold, in_order


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


def lowest_terms(step: Remade) -> Remade:
    """``(x * k) >> n`` in functions as ``(x * (k >> z)) >> (n - z)``, where all k are multiples of ``2 ** z``.

    So a decay of 7/8 needs three bits more than its state, and not twelve.
    """

    def rule(term: Term) -> Term:
        if term.op != "call":
            return term
        for k, (p, a) in enumerate(zip(term.value.parameters, term.args, strict=True)):
            shift = _only_shift(term.value, p)
            if a.op == "param" and shift is not None and (fewer := min(_zeros(a.value), shift.args[1].value)) > 0:
                args = (*term.args[:k], replace(a, value=a.value >> fewer), *term.args[k + 1 :])
                left = as_term(int(shift.args[1].value) - fewer, shift)
                made = {id(shift): replace(shift, args=(shift.args[0], left))}
                (body,) = fold([term.value.value], lambda t, own: _with(t, own, t.value), made)
                return replace(term, args=args, value=replace(term.value, value=body))
        return term

    return rewritten(step, rule)


def _only_shift(function: Function, p: Term) -> Term | None:
    """The shift down of the product that alone reads a parameter; None where something else reads one of them."""
    terms = list(in_order([function.value]))
    products = [t for t in terms if any(a is p for a in t.args)]
    shifts = [t for t in terms for a in t.args if products and a is products[0]]
    if len(products) == len(shifts) == 1 and products[0].op == "mul" and shifts[0].op == "shr":
        return shifts[0]
    return None


def _zeros(values: Any) -> int:
    """The power of 2 of which all whole numbers are multiples; 0 where all are 0."""
    bits = int(np.bitwise_or.reduce(np.asarray(values), axis=None))
    return (bits & -bits).bit_length() - 1 if bits else 0


def decided(step: Remade, values: Mapping[int, tuple[int, int]]) -> Remade:
    """One branch of choices, minima and maxima that are always the same one, by the least and greatest of each term.

    So a wrap or a saturation vanishes where no input reaches it.
    """

    def make(term: Term, args: list[Term]) -> Term:
        if (chosen := _always(term, values)) is None:
            return _with(term, args, term.value)
        only = args[chosen]
        return only if only.name or only.op in LEAVES else replace(only, name=term.name)

    return step.remade(lambda ends: fold(ends, make))


def _always(term: Term, values: Mapping[int, tuple[int, int]]) -> int | None:
    """Which argument a choice always is; None where that depends on the values."""
    known = [values.get(id(a)) for a in term.args]
    if term.op == "where" and known[0] in ((0, 0), (1, 1)):
        return 1 if known[0] == (1, 1) else 2
    if term.op not in ("min", "max") or None in known:
        return None
    (a_low, a_high), (b_low, b_high) = (x for x in known if x is not None)
    if a_high <= b_low:
        return 0 if term.op == "min" else 1
    if b_high <= a_low:
        return 1 if term.op == "min" else 0
    return None


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
