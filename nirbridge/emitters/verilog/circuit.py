"""The rule of a neuron as operations of a circuit: those that intervals decide are gone, each has a proved interval."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from nirbridge.program.interval import RULES, Interval
from nirbridge.program.terms import LEAVES, Kind, Stepped, Term, fold, in_order, is_truth
from nirbridge.quantization.formats import DECAY_ONE

DECAY_BITS = DECAY_ONE.bit_length() - 1
STATES = ("u", "v", "b", "refractory")
RESULT = {
    "add": "sum", "sub": "less", "min": "limited", "max": "floored", "where": "chosen", "mul": "product",
    "shl": "shifted", "gt": "above", "ge": "reached", "lt": "below", "le": "within", "not": "not", "and": "and",
}  # fmt: skip
"""Names of wires by operation, where the rule has none or that of a port: v_sum."""

SIDE = {"min": "upper", "max": "lower"}


@dataclass(slots=True)
class Circuit:
    """Makes the terms of a circuit from those of a rule.

    Beside the operations of terms there is ``bits``: truth values as one number, the highest first.

    Args:
        values: proved intervals of the rule's terms by ``id``.
        args: proved intervals of its inputs and states by name.
    """

    values: Mapping[int, Interval]
    args: Mapping[str, Interval]
    spans: dict[int, Interval] = field(default_factory=dict)
    removed: dict[str, None] = field(default_factory=dict)
    _limits: dict[int, int] = field(default_factory=dict)
    """The most that is needed of a quotient, by ``id``."""

    def remade(self, step: Stepped) -> Stepped:
        """The time step as a circuit; ``spans`` then has the intervals of all its terms, by ``id``."""
        for term in in_order(step.ends):
            if term.op == "min" and term.args[0].op == "floordiv":
                self._limits[id(term.args[0])] = int(term.args[1].value)
        return step.remade(lambda ends: fold(ends, self._made))

    def _made(self, term: Term, args: list[Term]) -> Term:
        span = self.values.get(id(term))
        if term.op in LEAVES:
            return self._leaf(term)
        if term.op == "call":  # of ``decayed``, the only function of the integer rules
            return self._decayed(args[0], args[1], span)
        if term.op == "floordiv":
            return self._quotient(args[0], args[1], min(self._limits[id(term)], span[1] if span else 1))
        decided = self._decided(term, args, span)
        if decided is not None:
            return decided
        if term.op == "mul" and args[0].op == "const":
            args = args[::-1]
        if term.op == "mul" and is_truth(args[0]):
            args = args[::-1]
        if term.op == "mul" and is_truth(args[1]):
            return self.node("where", [args[1].args[0], args[0], self.number(0)], "", span)
        return self.node(term.op, args, term.name, span, term.kind)

    def _decided(self, term: Term, args: list[Term], span: Interval | None) -> Term | None:
        """One of the arguments where intervals say that it always is the result."""
        if term.op == "where":
            condition, a, b = args
            if condition.op == "const":
                self._report(term, "wrap" if term.name == "u" else "choice")
                return a if condition.value else b
        elif term.op in ("min", "max"):
            for a, b in (args, args[::-1]):
                (low, high), (least, most) = self.spans[id(a)], self.spans[id(b)]
                if high <= least if term.op == "min" else low >= most:
                    is_floor = term.args[1].op == "param"
                    self._report(term, "floor" if is_floor else f"{SIDE[term.op]} saturation")
                    return a
        elif term.op == "and" and term.kind == "bool":
            others = [a for a in args if a.op != "const" or not a.value]
            return others[0] if len(others) == 1 else None
        return None

    def _report(self, term: Term, what: str) -> None:
        if term.name in STATES:
            self.removed[f"{what} of {term.name}"] = None

    def _leaf(self, term: Term) -> Term:
        if term.op == "arg":
            self.spans[id(term)] = self.args[term.name]
            return term
        values = np.asarray(term.value)
        low, high = int(values.min(initial=2**62)), int(values.max(initial=-(2**62)))
        made = Term(term.op, term.kind, (), term.value, term.name)
        if low >= high:  # one number for all neurons, or no neuron at all
            made = Term("const", term.kind, (), min(low, high), term.name)
            high = low = made.value
        self.spans[id(made)] = low, high
        return made

    def number(self, value: int, kind: Kind = "int") -> Term:
        """A constant."""
        made = Term("const", kind, (), value)
        self.spans[id(made)] = value, value
        return made

    def node(self, op: str, args: list[Term], name: str = "", span: Interval | None = None, kind: Kind = "int") -> Term:
        """An operation, or its value where it has one only."""
        if span is None:
            span = _hull(*(self.spans[id(a)] for a in args[-2:])) if op == "where" else RULES[op](*self._spans(args))
        if span[0] == span[1]:
            return self.number(span[0], kind)
        if not name or name in STATES:
            name = f"{name or args[0].name.removeprefix('state.')}_{RESULT[op]}"
        made = Term(op, kind, tuple(args), None, name)
        self.spans[id(made)] = span
        return made

    def _spans(self, args: list[Term]) -> list[Interval]:
        return [self.spans[id(a)] for a in args]

    def _decayed(self, x: Term, keep: Term, span: Interval | None) -> Term:
        """``sign(x) * ((|x| * keep) >> 12)`` as ``(x * keep + (4095 where x < 0)) >> 12``."""
        of = x.name.removeprefix("state.")
        negative = self.node("lt", [x, self.number(0)], f"{of}_negative", kind="bool")
        if negative.op == "const":
            up = self.number(DECAY_ONE - 1 if negative.value else 0)
        else:
            up = self.node("where", [negative, self.number(DECAY_ONE - 1), self.number(0)], f"{of}_up")
        product = self.node("mul", [x, keep], f"{of}_product")
        if up.op != "const" or up.value:
            product = self.node("add", [product, up], f"{of}_rounded")
        return self.node("shr", [product, self.number(DECAY_BITS)], f"{of}_kept", span)

    def _quotient(self, x: Term, size: Term, most: int) -> Term:
        """``min(x // size, 2 ** n - 1)`` of the least n that reaches ``most``, bit by bit, for x of 0 or more.

        For x below 0, where nothing reads it, it is 0.
        """
        found: list[Term] = []
        for k in reversed(range(most.bit_length())):
            less = self.node("sub", [x, self.node("shl", [size, self.number(k)])], f"less_{k}")
            bit = self.node("ge", [less, self.number(0)], f"bit_{k}", kind="bool")
            (low, high), top = self.spans[id(x)], self.spans[id(size)][1] << k
            span = min(low, 0), min(high, max(top - 1, self.spans[id(less)][1]))
            x = self.node("where", [bit, less, x], f"rest_{k}", span)
            found.append(bit)
        made = Term("bits", "int", tuple(found), None, "quotient") if found else self.number(0)
        self.spans[id(made)] = 0, (1 << len(found)) - 1
        return made


def _hull(a: Interval, b: Interval) -> Interval:
    return min(a[0], b[0]), max(a[1], b[1])
