"""The rule of a neuron as operations of a circuit: those that intervals decide are gone, each has a proved interval."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
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
    "neg": "negated", "shr": "shifted", "bits": "bits",
}  # fmt: skip
"""Names of wires by operation, where the rule has none or that of a port: v_sum."""

NEUTRAL = {"add": 0, "sub": 0, "mul": 1, "and": 1, "shl": 0, "shr": 0}
"""Arguments that change nothing."""
COMPARED = ("lt", "le", "gt", "ge")
SIDE = {"min": "upper", "max": "lower"}


@dataclass(slots=True)
class Operations:
    """Makes the terms of a circuit from those of a rule.

    Beside the operations of terms there are ``sign``: whether a number is below 0; ``bits``: truth values as one
    number, the highest first; ``any``: whether one of the lowest n bits is set; ``up`` of x and a truth value c:
    ``x + c``; ``carry`` of x, y and c: ``2 * (x + y) + 1 + c``, and ``borrow``: ``2 * (x - y) - c``, which are one sum
    each: the lowest place is only there for its carry.

    Args:
        values: proved intervals of the rule's terms by ``id``.
        args: proved intervals of its inputs and states by name.
    """

    values: Mapping[int, Interval]
    args: Mapping[str, Interval]
    spans: dict[int, Interval] = field(default_factory=dict)
    removed: dict[str, None] = field(default_factory=dict)
    products: list[tuple[Term, Term, int | str]] = field(default_factory=list)
    """Of states, each with the state and the factor, a number or a coefficient's name."""
    _limits: dict[int, int] = field(default_factory=dict)
    """The most that is needed of a quotient, by ``id``."""
    _known: dict[int, Term] = field(default_factory=dict)
    _rests: dict[int, Term] = field(default_factory=dict)
    """What is left of a number after a quotient, by the quotient's ``id``."""

    def remade(self, step: Stepped) -> Stepped:
        """The time step as a circuit; ``spans`` then has the intervals of all its terms, by ``id``."""
        for term in in_order(step.ends):
            if term.op == "min" and term.args[0].op == "floordiv":
                self._limits[id(term.args[0])] = int(term.args[1].value)
        return step.remade(lambda ends: fold(ends, self._made, self._known))

    def _made(self, term: Term, args: list[Term]) -> Term:
        span = self.values.get(id(term))
        if term.op in LEAVES:
            return self._leaf(term)
        if term.op == "call":  # of ``decayed``, the only function of the integer rules
            return self._decayed(args[0], args[1], self.values[id(term)])
        if term.op == "floordiv":
            return self._quotient(args[0], args[1], min(self._limits[id(term)], span[1] if span else 1))
        decided = self._decided(term, args, span) or self._rest(term, args[0], span)
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
            if args[0].op == "const" and term.name == "u":
                self._report(term, "wrap")
        elif term.op in ("min", "max"):
            for a, b in (args, args[::-1]):
                (low, high), (least, most) = self.spans[id(a)], self.spans[id(b)]
                if high <= least if term.op == "min" else low >= most:
                    is_floor = term.args[1].op == "param"
                    self._report(term, "floor" if is_floor else f"{SIDE[term.op]} saturation")
                    return a
        return None

    def _rest(self, term: Term, x: Term, span: Interval | None) -> Term | None:
        """``v - size * min(v // size, most)`` as what the quotient leaves, where that is so."""
        if term.op != "sub" or term.args[1].op != "mul" or term.args[1].args[1].op != "where":
            return None
        amount, spikes = term.args[1].args
        made, least = self._known[id(spikes)], spikes.args[1]
        if made.op != "where" or id(made.args[1]) not in self._rests or amount.op not in LEAVES:
            return None
        v, size = least.args[0].args
        is_rest = self._known[id(v)] is x and size.op in LEAVES and np.array_equal(amount.value, size.value)
        return (
            self.node("where", [made.args[0], self._rests[id(made.args[1])], x], term.name, span) if is_rest else None
        )

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
        """An operation, what it is made of where a circuit has none, or its value where it has one only."""
        if span is None:
            span = _hull(*(self.spans[id(a)] for a in args[-2:])) if op == "where" else RULES[op](*self._spans(args))
        if span[0] == span[1]:
            return self.number(span[0], kind)
        if op == "where" and args[0].op == "const":
            return args[1] if args[0].value else args[2]
        if op in NEUTRAL:
            others = [a for a in args if a.op != "const" or a.value != NEUTRAL[op]]
            if len(others) == 1 and (op in ("add", "mul", "and") or others[0] is args[0]):
                return others[0]
        if not name or name in STATES:
            name = f"{name or args[0].name.removeprefix('state.')}_{RESULT[op]}"
        return self._parts(op, args, name, span) or self.made(op, args, name, span, kind)

    def made(self, op: str, args: list[Term], name: str, span: Interval, kind: Kind = "int") -> Term:
        """An operation of the circuit."""
        term = Term(op, kind, tuple(args), None, name)
        self.spans[id(term)] = span
        if op == "mul" and args[0].op == "arg" and args[1].op == "param":
            self.products.append((term, args[0], args[1].name))
        return term

    def _parts(self, op: str, args: list[Term], name: str, span: Interval) -> Term | None:
        """What an operation is made of, where it is none of the circuit's own."""
        if op in COMPARED:
            return self._compared(op, args, name)
        if op in ("min", "max"):
            is_first = self.node("lt" if op == "min" else "gt", args, f"{name}_is_first", None, "bool")
            return self.node("where", [is_first, *args], name, span)
        if op == "mul" and args[1].op == "const":
            return self._times(args[0], args[1].value, name)
        if op == "add" and args[0].op == "up":
            whole, cut = args[0].args
            twice = self.made("carry", [whole, args[1], cut], f"{name}_twice", (2 * span[0] - 1, 2 * span[1] + 1))
            return self.made("shr", [twice, self.number(1)], name, span)
        return None

    def _spans(self, args: list[Term]) -> list[Interval]:
        return [self.spans[id(a)] for a in args]

    def _compared(self, op: str, args: list[Term], name: str) -> Term:
        """A comparison as the sign of a difference: a sum, where comparisons of signed numbers take more."""
        a, b = args if op in ("lt", "ge") else reversed(args)
        if op == "gt" and a.op == "const" and a.value == 0 <= self.spans[id(b)][0]:
            return self.made("any", [b, self.number(signed_bits(self.spans[id(b)]))], name, (0, 1), "bool")
        if b.op != "const" or b.value:
            a = self.node("sub", [a, b], f"{name}_margin")
        if op in ("lt", "gt"):
            return self.made("sign", [a], name, (0, 1), "bool")
        return self.made("not", [self.made("sign", [a], f"{name}_not", (0, 1), "bool")], name, (0, 1), "bool")

    def _decayed(self, x: Term, keep: Term, span: Interval) -> Term:
        """``sign(x) * ((|x| * keep) >> 12)``: x * keep / 4096, or x less what is lost, whichever takes fewer sums.

        Rounded down at first; ``cut`` says where that is not towards 0.
        """
        of, places, is_loss = x.name.removeprefix("state."), DECAY_BITS, False
        if keep.op == "const":
            factor, places, is_loss = decay_factor(int(keep.value))
            keep = self.number(factor)
        product = self.node("mul", [x, keep], f"{of}_product")
        whole = self.node("shr", [product, self.number(places)], f"{of}_whole")
        rest = self.made("any", [product, self.number(places)], f"{of}_rest", (0, 1), "bool")
        side = self.node("ge" if is_loss else "lt", [x, self.number(0)], f"{of}_side", kind="bool")
        cut = self.node("and", [side, rest], f"{of}_cut", kind="bool")
        if is_loss:
            twice = self.made("borrow", [x, whole, cut], f"{of}_twice", (2 * span[0], 2 * span[1] + 1))
            return self.made("shr", [twice, self.number(1)], f"{of}_kept", span)
        return self.made("up", [whole, cut], f"{of}_kept", span) if cut.op != "const" else whole

    def _times(self, x: Term, factor: int, name: str) -> Term:
        """The product of x and a number, from its highest digit on, so that no sum is wider than what it adds up."""
        if factor < 0:
            return self.node("neg", [self._times(x, -factor, "")], name)
        made, of = x, x.name.removeprefix("state.")
        for places, sign, value in horner(factor):
            made = self.node("shl", [made, self.number(places)], f"{of}_times_{value}" if not sign else "")
            if sign:
                made = self.node("add" if sign > 0 else "sub", [made, x], f"{of}_times_{value}")
                if x.op == "arg":
                    self.products.append((made, x, value))
        return made

    def _quotient(self, x: Term, size: Term, most: int) -> Term:
        """``min(x // size, 2 ** n - 1)`` of the least n that reaches ``most``, bit by bit, for x of 0 or more.

        For x below 0, where nothing reads it, it is 0.
        """
        found: list[Term] = []
        for k in reversed(range(most.bit_length())):
            less = self.node("sub", [x, self.node("shl", [size, self.number(k)])], f"less_{k}")
            bit = self.node("ge", [less, self.number(0)], f"bit_{k}", (0, 1), "bool")
            (low, high), top = self.spans[id(x)], self.spans[id(size)][1] << k
            span = min(low, 0), min(high, max(top - 1, self.spans[id(less)][1]))
            x = self.node("where", [bit, less, x], f"rest_{k}", span)
            found.append(bit)
        made = self.made("bits", found, "quotient", (0, (1 << len(found)) - 1)) if found else self.number(0)
        self._rests[id(made)] = x
        return made


def _hull(a: Interval, b: Interval) -> Interval:
    return min(a[0], b[0]), max(a[1], b[1])


def signed_bits(span: Interval) -> int:
    """The width of signed numbers that hold an interval."""
    low, high = span
    return max((-low - 1).bit_length() if low < 0 else 0, max(0, high).bit_length()) + 1


def decay_factor(keep: int) -> tuple[int, int, bool]:
    """(factor, places, is_loss): ``keep / 4096`` is ``factor / 2 ** places``, or 1 less that if it has fewer digits."""
    zeros = (keep & -keep).bit_length() - 1
    factor, places = keep >> zeros, DECAY_BITS - zeros
    lost = (1 << places) - factor
    is_loss = len(digits(lost)) <= len(digits(factor))
    return lost if is_loss else factor, places, is_loss


def horner(factor: int) -> Iterator[tuple[int, int, int]]:
    """(places, sign, value) of a number of 1 or more: from 1 on shifts, and one more, one less or neither (at last)."""
    (_, place), *others = digits(factor)
    value = 1
    for sign, lower in others:
        value = (value << (place - lower)) + sign
        yield place - lower, sign, value
        place = lower
    if place:
        yield place, 0, value << place


def digits(value: int) -> list[tuple[int, int]]:
    """(sign, place) of the fewest powers of two that add up to a number, the highest first."""
    found, place = [], 0
    while value:
        if value & 1:
            sign = 2 - (value & 3)  # 1 or -1: a run of ones is a power minus another one
            value -= sign
            found.append((sign, place))
        value, place = value >> 1, place + 1
    return found[::-1]
