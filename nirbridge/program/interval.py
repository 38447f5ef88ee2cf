"""The least and the greatest value of every term of integers: widths for targets, and the proof that none overflows.

Over all neurons of a population and all inputs within their bounds, in exact arithmetic. A branch of ``where`` counts
under its condition: where ``u > half`` chooses ``u - 2 * half``, u is above half there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import product

import numpy as np

from nirbridge.program.rewrites import in_halves
from nirbridge.program.rules import first_value, traced_step
from nirbridge.program.terms import Stepped, Term, in_order
from nirbridge.quantization.model import FixedNeuron

Interval = tuple[int, int]
"""(least, greatest); of truth values 0 and 1."""
Bounds = Mapping[str, Interval]
"""Intervals of args by name."""
WIDEST = 1 << 80
"""A state that leaves this has no bound."""
EVERY = (-WIDEST, WIDEST)
EXACT_STEPS = 4
"""Time steps by which states grow exactly; from there on to the next power of two."""


def intervals(step: Stepped, args: Bounds) -> dict[int, Interval]:
    """The values of every term of a time step but those of time steps left, by ``id``.

    Args:
        step: the terms of a population.
        args: of ``drive`` in any time step, and of the first state. States grow until no time step leaves them.
    """
    bounds = settled(step, args)
    found = _Intervals(bounds)
    for term in in_order(step.ends):
        if term.name or term in step.ends:  # a statement of its own: computed whatever a later condition says
            found.at(term, {})
    return found.seen


def first_values(n: FixedNeuron, drive: Interval) -> dict[str, Interval]:
    """The args of the first time step of integer neurons, and the drive of all."""
    starts = {f"state.{name}": first_value(n, name) for name in traced_step(n).state}
    return {"drive": drive, **{name: (int(np.min(x)), int(np.max(x))) for name, x in starts.items()}}


def fits(values: Mapping[int, Interval], bits: int) -> bool:
    """True where no value of any time step, on the way to another one included, leaves signed integers of ``bits``."""
    last = (1 << (bits - 1)) - 1
    return all(-last <= low and high <= last for low, high in values.values())


def fit_of_neurons(n: FixedNeuron, drive: Interval, bits: int) -> bool:
    """True where integers of ``bits`` hold every value of every time step of neurons, decays taken in halves."""
    return fits(intervals(in_halves(traced_step(n)), first_values(n, drive)), bits)


def settled(step: Stepped, args: Bounds) -> dict[str, Interval]:
    """Intervals of the args that no time step leaves."""
    bounds, is_stable, turn = dict(args), False, 0
    below: dict[int, frozenset[int]] = {}
    while not is_stable:
        found, is_stable, turn = _Intervals(bounds, below), True, turn + 1
        for name, term in step.state.items():
            old = bounds[f"state.{name}"]
            new = _hull(found.at(term, {}), old)
            if new != old and max(map(abs, old)) < WIDEST:
                is_stable = False
                bounds[f"state.{name}"] = new if turn <= EXACT_STEPS else _wider(new)
    return bounds


def _wider(bounds: Interval) -> Interval:
    """The next powers of two away from 0, and 0 on the side of it where there are no values."""
    low, high = bounds
    return -_power(-low), _power(high)


def _power(bound: int) -> int:
    return 1 << (bound - 1).bit_length() if bound > 0 else 0


def _met(a: Interval, b: Interval) -> Interval | None:
    low, high = max(a[0], b[0]), min(a[1], b[1])
    return (low, high) if low <= high else None


def _hull(a: Interval | None, b: Interval) -> Interval:
    return b if a is None else (min(a[0], b[0]), max(a[1], b[1]))


Assumed = Mapping[int, Interval]
"""What conditions say about terms, by ``id``; values of the parameters of a function."""


@dataclass(slots=True)
class _Intervals:
    """Intervals of terms; ``seen``: the union over all conditions under which a term was looked at."""

    args: Bounds
    below: dict[int, frozenset[int]] = field(default_factory=dict)
    seen: dict[int, Interval] = field(default_factory=dict)
    known: dict[tuple[int, frozenset[tuple[int, Interval]]], Interval | None] = field(default_factory=dict)

    def at(self, term: Term, assumed: Assumed) -> Interval | None:
        """The interval of a term under assumptions; None where these cannot hold."""
        below = _below(term, self.below)
        inside = {key: x for key, x in assumed.items() if key in below}
        key = id(term), frozenset(inside.items())
        if key not in self.known:
            self.known[key] = self._own(term, inside)
        own = self.known[key]
        if own is not None and id(term) in assumed:
            own = _met(own, assumed[id(term)])
        if own is not None and term.kind != "count":
            self.seen[id(term)] = _hull(self.seen.get(id(term)), own)
        return own

    def _own(self, term: Term, assumed: Assumed) -> Interval | None:
        if term.op in ("const", "param"):
            values = np.asarray(term.value)
            return (int(values.min()), int(values.max())) if values.size else None
        if term.op == "arg":
            return self.args.get(term.name, EVERY)  # a parameter of a function is assumed
        if term.op == "where":
            return self._where(term, assumed)
        found = [self.at(a, assumed) for a in term.args]
        if any(x is None for x in found):
            return None
        given = [x for x in found if x is not None]
        if term.op == "call":
            return self.at(term.value.value, {id(p): x for p, x in zip(term.value.parameters, given, strict=True)})
        return RULES[term.op](*given)

    def _where(self, term: Term, assumed: Assumed) -> Interval | None:
        condition, *branches = term.args
        truth = self.at(condition, assumed)
        if truth is None:
            return None
        total: Interval | None = None
        for branch, is_true in zip(branches, (True, False), strict=True):
            if truth[0] <= int(is_true) <= truth[1]:
                narrower = self._under(condition, is_true, assumed)
                found = None if narrower is None else self.at(branch, narrower)
                total = total if found is None else _hull(total, found)
        return total

    def _under(self, condition: Term, is_true: bool, assumed: Assumed) -> Assumed | None:
        """The assumptions where a condition holds or not; None where it cannot."""
        more: dict[int, Interval] = dict(assumed)
        for a, b, least in _at_least(condition, is_true):
            x, y = self.at(a, assumed), self.at(b, assumed)
            if x is None or y is None or x[1] < y[0] + least:
                return None
            # a >= b + least
            for side, known in ((a, (max(x[0], y[0] + least), x[1])), (b, (y[0], min(y[1], x[1] - least)))):
                if side.op not in ("const", "param"):
                    more[id(side)] = _met(more.get(id(side), known), known) or known
        return more


def _below(term: Term, known: dict[int, frozenset[int]]) -> frozenset[int]:
    """The terms that a term is made from: no assumption about another one concerns it."""
    if id(term) not in known:
        for t in in_order([term]):
            known[id(t)] = frozenset(map(id, t.args)).union(*(known[id(a)] for a in t.args))
    return known[id(term)]


def _at_least(condition: Term, is_true: bool) -> Iterator[tuple[Term, Term, int]]:
    """``a >= b + least`` of integers, as far as a condition says it."""
    if condition.op == "not":
        yield from _at_least(condition.args[0], not is_true)
    elif condition.op == "and" and is_true:
        for part in condition.args:
            yield from _at_least(part, True)
    elif condition.op in ("gt", "ge", "lt", "le"):
        a, b = condition.args if condition.op in ("gt", "ge") else reversed(condition.args)
        strict = int(condition.op in ("gt", "lt"))
        yield (a, b, strict) if is_true else (b, a, 1 - strict)


def _corners(f: Callable[[int, int], int]) -> Callable[[Interval, Interval], Interval]:
    def rule(a: Interval, b: Interval) -> Interval:
        found = [f(x, y) for x, y in product(a, b)]
        return min(found), max(found)

    return rule


def _compared(f: Callable[[Interval, Interval], tuple[bool, bool]]) -> Callable[[Interval, Interval], Interval]:
    """Of (always, ever)."""
    return lambda a, b: (int(f(a, b)[0]), int(f(a, b)[1]))


def _both(a: Interval, b: Interval) -> Interval:
    """``and``, of truth values, and of whole numbers with a mask of 0 or more."""
    return (min(a[0], b[0]) if a[1] <= 1 and b[1] <= 1 else 0, b[1] if a[0] < 0 else min(a[1], b[1]))


def _floordiv(a: Interval, b: Interval) -> Interval:
    divisors = [y for y in {*b, -1, 1} if b[0] <= y <= b[1] and y]
    found = [x // y for x in a for y in divisors]
    return min(found), max(found)


RULES: Mapping[str, Callable[..., Interval]] = {
    "add": lambda a, b: (a[0] + b[0], a[1] + b[1]),
    "sub": lambda a, b: (a[0] - b[1], a[1] - b[0]),
    "mul": _corners(lambda x, y: x * y),
    "floordiv": _floordiv,
    "shl": _corners(lambda x, y: x << y),
    "shr": _corners(lambda x, y: x >> y),
    "and": _both,
    "min": lambda a, b: (min(a[0], b[0]), min(a[1], b[1])),
    "max": lambda a, b: (max(a[0], b[0]), max(a[1], b[1])),
    "neg": lambda a: (-a[1], -a[0]),
    "abs": lambda a: (0 if a[0] <= 0 <= a[1] else min(map(abs, a)), max(map(abs, a))),
    "floor": lambda a: a,
    "not": lambda a: (1 - a[1], 1 - a[0]),
    "gt": _compared(lambda a, b: (a[0] > b[1], a[1] > b[0])),
    "ge": _compared(lambda a, b: (a[0] >= b[1], a[1] >= b[0])),
    "lt": _compared(lambda a, b: (a[1] < b[0], a[0] < b[1])),
    "le": _compared(lambda a, b: (a[1] <= b[0], a[0] <= b[1])),
}
"""The interval of each operation from those of its arguments."""
