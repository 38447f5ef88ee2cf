"""Terms: the value of every neuron of a population in one time step, as data.

A rule (rules.py) is a plain function over ``Tracing``; called with it, it yields terms. Products by 1, products by 0
and sums with 0 vanish; nothing else is reassociated or joined, so that all that print or evaluate terms round alike.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeVar

import numpy as np

from nirbridge.arrays import compact

Kind = Literal["bool", "real", "int", "count"]
"""Kinds of values: truth, real numbers, a chip's integers, and whole time steps that are left."""
Made = TypeVar("Made")
COMPARISONS = {"lt", "le", "gt", "ge"}
OPERATIONS = {"add": 2, "sub": 2, "mul": 2, "div": 2, "floordiv": 2, "shl": 2, "shr": 2, "and": 2, "min": 2, "max": 2}
OPERATIONS |= dict.fromkeys(COMPARISONS, 2) | {"neg": 1, "abs": 1, "floor": 1, "not": 1, "where": 3}
"""Operations and their numbers of arguments; ``and`` of integers is bit by bit."""
LEAVES = ("const", "param", "arg")


@dataclass(frozen=True, slots=True, eq=False)
class Function:
    """A computation that a rule uses several times: a name, what it says, its parameters (args), and its value."""

    name: str
    doc: str
    parameters: tuple[Term, ...]
    value: Term


@dataclass(frozen=True, slots=True, eq=False)
class Term:
    """One value per neuron.

    Attributes:
        op: ``const`` (a number), ``param`` (an array of shape ``()`` or the population's), ``arg`` (the input or the
            state, by name), ``call`` (of a ``Function``), one of ``OPERATIONS``, and of whole networks ``linear`` (an
            operator applied), ``past`` (what was there some time steps before) and ``real`` (whole numbers as reals).
        kind: what its values are.
        args: the terms that it is made from.
        value: the number, the array or the function.
        name: kept in printed programs; that of an arg or a param says which it is.
    """

    op: str
    kind: Kind
    args: tuple[Term, ...] = ()
    value: Any = None
    name: str = ""

    def __add__(self, other: Operand) -> Term:
        return _sum(self, other)

    def __radd__(self, other: Operand) -> Term:
        return _sum(as_term(other, self), self)

    def __sub__(self, other: Operand) -> Term:
        other = as_term(other, self)
        return self if is_number(other, 0) else _made("sub", self, other)

    def __mul__(self, other: Operand) -> Term:
        other = as_term(other, self)
        for a, b in ((self, other), (other, self)):
            if is_number(a, 1):
                return b
            if is_number(a, 0):
                return as_term(0, a)
        return _made("mul", self, other)

    def __truediv__(self, other: Operand) -> Term:
        return _made("div", self, other)

    def __floordiv__(self, other: Operand) -> Term:
        return _made("floordiv", self, other)

    def __lshift__(self, other: Operand) -> Term:
        return _made("shl", self, other)

    def __rshift__(self, other: Operand) -> Term:
        return _made("shr", self, other)

    def __and__(self, other: Operand) -> Term:
        return _made("and", self, other)

    def __lt__(self, other: Operand) -> Term:
        return _made("lt", self, other, kind="bool")

    def __le__(self, other: Operand) -> Term:
        return _made("le", self, other, kind="bool")

    def __gt__(self, other: Operand) -> Term:
        return _made("gt", self, other, kind="bool")

    def __ge__(self, other: Operand) -> Term:
        return _made("ge", self, other, kind="bool")

    def __neg__(self) -> Term:
        return _made("neg", self)

    def __invert__(self) -> Term:
        return _made("not", self)

    def __abs__(self) -> Term:
        return _made("abs", self)


Operand = Term | float


@dataclass(frozen=True, slots=True)
class Tracing:
    """What a rule computes with: it yields terms.

    ``kind``: of potentials, currents and coefficients. ``is_open``: coefficients are args, and none vanishes by its
    value, for programs in which values may change.
    """

    kind: Kind
    is_open: bool = False

    def param(self, name: str, values: object, kind: Kind | None = None) -> Term:
        """A coefficient of the neurons: one number, or one for each."""
        return Term("arg" if self.is_open else "param", kind or self.kind, (), compact(np.asarray(values)), name)

    def where(self, condition: Term, a: Operand, b: Operand) -> Term:
        """``a`` where the condition holds, else ``b``."""
        like = a if isinstance(a, Term) else b if isinstance(b, Term) else Term("const", self.kind)
        a, b = as_term(a, like), as_term(b, like)
        return Term("where", like.kind, (condition, a, b))

    def minimum(self, a: Term, b: Operand) -> Term:
        """The smaller of both."""
        return _made("min", a, b)

    def maximum(self, a: Term, b: Operand) -> Term:
        """The larger of both."""
        return _made("max", a, b)

    def floor(self, a: Term) -> Term:
        """The next whole number below."""
        return _made("floor", a)

    def let(self, name: str, a: Term) -> Term:
        """The term with a name for printed programs; a leaf or a term that has one keeps its own."""
        return a if a.name or a.op in LEAVES else replace(a, name=name)

    def call(self, name: str, function: Callable[..., Term], *args: Term) -> Term:
        """``function`` as a function of printed programs; its parameters have the names of the Python function's."""
        names = function.__code__.co_varnames[1 : 1 + len(args)]
        parameters = tuple(Term("arg", a.kind, (), None, n) for n, a in zip(names, args, strict=True))
        body = function(self, *parameters)
        doc = (function.__doc__ or "").partition("\n")[0]
        return Term("call", body.kind, args, Function(name, doc, parameters, body))


def as_term(value: Operand, like: Term) -> Term:
    """A number as a term of another one's kind."""
    return value if isinstance(value, Term) else Term("const", like.kind, (), value)


def is_number(term: Term, value: float) -> bool:
    """True for a leaf that is this number for every neuron."""
    return term.op in ("const", "param") and bool(np.all(np.asarray(term.value) == value))


def is_truth(term: Term) -> bool:
    """True for 1 where a condition holds and else 0."""
    return (
        term.op == "where"
        and [a.op for a in term.args[1:]] == ["const"] * 2
        and [a.value for a in term.args[1:]] == [1, 0]
    )


def _sum(a: Term, b: Operand) -> Term:
    b = as_term(b, a)
    if is_number(a, 0):
        return b
    return a if is_number(b, 0) else _made("add", a, b)


def _made(op: str, a: Term, *others: Operand, kind: Kind | None = None) -> Term:
    return Term(op, kind or a.kind, (a, *(as_term(b, a) for b in others)))


def in_order(terms: Sequence[Term], known: Container[int] = ()) -> Iterator[Term]:
    """Every term that others are made from, once, after its arguments; bodies of functions are left out.

    ``known``: ids of terms that are left out with all that they alone are made from.
    """
    seen: set[int] = set()
    stack = [(term, False) for term in reversed(terms)]
    while stack:
        term, is_ready = stack.pop()
        if id(term) in seen or id(term) in known:
            continue
        if is_ready:
            seen.add(id(term))
            yield term
        else:
            stack.append((term, True))
            stack.extend((a, False) for a in reversed(term.args))


def fold(
    terms: Sequence[Term], make: Callable[[Term, list[Made]], Made], made: dict[int, Made] | None = None
) -> list[Made]:
    """``make(term, what its arguments have become)`` of every term once; what the given ones have become.

    ``made``: what terms have become before, by ``id``; the others are added.
    """
    made = {} if made is None else made
    for term in in_order(terms, made):
        made[id(term)] = make(term, [made[id(a)] for a in term.args])
    return [made[id(term)] for term in terms]


@dataclass(frozen=True, slots=True)
class Stepped:
    """One time step of a population.

    ``sent``: what its targets get; ``variables``: those that can be recorded (``s``, ``u``, ``v``, ``i``), ``state``:
    the next state, both by name.
    """

    sent: Term
    variables: Mapping[str, Term]
    state: Mapping[str, Term]

    @property
    def ends(self) -> list[Term]:
        """Every term of it that a program may need, once."""
        return list({id(t): t for t in (self.sent, *self.variables.values(), *self.state.values())}.values())

    def remade(self, change: Change) -> Stepped:
        """The time step with other terms in place of ``ends``."""
        return self.replaced(dict(zip(map(id, self.ends), change(self.ends), strict=True)))

    def replaced(self, new: Mapping[int, Term]) -> Stepped:
        """The time step with ``new`` terms in place of its own, by ``id``."""
        variables = {name: new[id(t)] for name, t in self.variables.items()}
        return Stepped(new[id(self.sent)], variables, {name: new[id(t)] for name, t in self.state.items()})


Change = Callable[[list[Term]], list[Term]]
"""Other terms for some, each for each."""
