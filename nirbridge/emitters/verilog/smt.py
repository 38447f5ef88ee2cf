"""The terms of a rule in SMT-LIB: numbers so wide that nothing overflows, whatever bounds say of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from nirbridge.emitters.verilog.operations import DECAY_BITS, decay_factor, horner
from nirbridge.program.interval import Interval
from nirbridge.program.terms import Term, fold, in_order

LOGIC = "(set-logic QF_BV)"
BINARY = {"add": "bvadd", "sub": "bvsub", "shl": "bvshl", "shr": "bvashr"}
COMPARED = {"lt": "bvslt", "le": "bvsle", "gt": "bvsgt", "ge": "bvsge"}
SMALLER = {"min": "bvsle", "max": "bvsge"}


def width_of(ends: Sequence[Term], bits: Mapping[str, int]) -> int:
    """Bits that no operation of the rule leaves, by those of its inputs alone."""
    counts = [int(t.args[1].value) for t in in_order(ends) if t.op == "min" and t.args[0].op == "floordiv"]
    spikes, widest = max(counts, default=0).bit_length(), list[int]()

    def make(term: Term, args: list[int]) -> int:
        if term.op == "arg":
            own = bits[term.name.removeprefix("state.")]
        elif term.op in ("const", "param"):
            own = max(int(np.max(np.abs(term.value), initial=0)), 1).bit_length() + 1
        elif term.op == "floordiv":
            own = max(args[0], args[1] + spikes) + 1
        elif term.op == "shl":
            own = args[0] + int(term.args[1].value)
        else:
            own = sum(args) if term.op == "mul" else max(args, default=0) + (term.op in ("add", "sub", "neg", "abs"))
        widest.append(own)
        return own

    fold(ends, make)
    return max(widest)


@dataclass(slots=True)
class SmtRule:
    """The terms of a rule as definitions of ``bits`` wide numbers.

    ``wires``: products that are computed elsewhere, by state and factor; ``ends``: the names of the requested terms;
    ``quotients``, ``sizes``: what terms of these names are made of; ``wrong``: the contrary of what ``lemmas`` proves.
    """

    bits: int
    wires: dict[tuple[str, int | str], str] = field(default_factory=dict)
    ends: list[str] = field(default_factory=list)
    text: list[str] = field(default_factory=list)
    quotients: dict[str, tuple[str, str]] = field(default_factory=dict)
    sizes: dict[str, str] = field(default_factory=dict)
    wrong: list[str] = field(default_factory=list)

    def lines(self, ends: Sequence[Term]) -> list[str]:
        """Definitions of all terms."""
        self.ends = fold(ends, self._defined)
        return self.text

    def given(self, bounds: Mapping[str, Interval]) -> Iterator[str]:
        """The inputs, which are within their bounds."""
        for name, own in bounds.items():
            yield f"(declare-const {name} (_ BitVec {self.bits}))"
            yield f"(assert {self.within(name, own)})"

    def within(self, name: str, bounds: Interval) -> str:
        """That a number is within bounds."""
        return f"(and (bvsle {self._number(bounds[0])} {name}) (bvsle {name} {self._number(bounds[1])}))"

    def lemmas(self) -> Iterator[str]:
        """That products by constants are the sums of shifts that stand for them."""
        yield LOGIC
        yield from (f"(declare-const {name} (_ BitVec {self.bits}))" for name in "xy")
        yield f"(assert (or false false {' '.join(dict.fromkeys(self.wrong))}))"

    def product(self, x: str, factor: int | str) -> str:
        """A state times a number or a coefficient."""
        return self._times(x, factor) if isinstance(factor, int) else f"(bvmul {x} {factor})"

    def _product(self, term: Term, a: str, b: str) -> str:
        if a in self.sizes:
            return self._of_size(self.sizes[a], term.args[1], b)
        for x, factor in ((a, term.args[1]), (b, term.args[0])):
            if factor.op in ("const", "param") and np.size(factor.value) == 1:
                return self._times(x, int(factor.value))
        return f"(bvmul {a} {b})"

    def _times(self, x: str, factor: int) -> str:
        """A product by a constant, as shifts and sums."""
        if (x, factor) in self.wires:
            return self.wires[x, factor]
        if factor < 1:
            return f"(bvneg {self._times(x, -factor)})" if factor else self._number(0)
        made, before = x, "x"
        for places, sign, value in horner(factor):
            form = f"(bvshl {{}} {self._number(places)})"
            form = f"({'bvadd' if sign > 0 else 'bvsub'} {form} {{}})" if sign else form
            product = f"(bvmul x {self._number(value)})"
            self.wrong.append(f"(distinct {form.format(before, 'x')} {product})")
            made = self.wires.get((x, value)) or self._named(form.format(made, x), f"times_{value}")
            before = product
        return made

    def _of_size(self, x: str, factor: Term, name: str) -> str:
        """The product of the size of x and a factor of 0 or more."""
        self.wrong.append("(distinct (bvmul (bvneg x) y) (bvneg (bvmul x y)))")
        product = self.wires.get((x, name)) or f"(bvmul {x} {name})"
        if np.size(factor.value) == 1:
            keep = int(factor.value)
            parts, places, is_loss = decay_factor(keep)
            form = f"(bvshl {{}} {self._number(DECAY_BITS - places)})"
            form = f"(bvsub (bvshl {{}} {self._number(DECAY_BITS)}) {form})" if is_loss else form
            given = [["x"] * is_loss + [f"(bvmul x {self._number(parts)})"], [x] * is_loss + [self._times(x, parts)]]
            self.wrong.append(f"(distinct {form.format(*given[0])} (bvmul x {self._number(keep)}))")
            product = form.format(*given[1])
        product = self._named(product, "product")
        return f"(ite (bvslt {x} {self._number(0)}) (bvneg {product}) {product})"

    def _named(self, text: str, name: str, sort: str = "") -> str:
        name = f"r{len(self.text)}.{name}"
        self.text.append(f"(define-fun {name} () {sort or f'(_ BitVec {self.bits})'} {text})")
        return name

    def _number(self, value: int) -> str:
        return f"(_ bv{value} {self.bits})" if value >= 0 else f"(bvneg (_ bv{-value} {self.bits}))"

    def _defined(self, term: Term, args: list[str]) -> str:
        if term.op == "arg":
            return term.name.removeprefix("state.")
        if term.op in ("const", "param"):
            low, high = int(np.min(term.value)), int(np.max(term.value))
            return term.name if low < high else self._number(low)
        if term.op == "floordiv":
            name = f"quotient{len(self.quotients)}"
            self.quotients[name] = args[0], args[1]
            return name
        made = self._named(self._expression(term, args), term.name or term.op, "Bool" if term.kind == "bool" else "")
        if term.op == "abs":
            self.sizes[made] = args[0]
        return made

    def _counted(self, a: str, size: str, most: int) -> str:
        """``min(a // size, most)`` of a size of 1 or more, without a division; anything where a is below 0."""
        name = f"any{len(self.text)}"
        self.text.append(f"(declare-const {name} (_ BitVec {self.bits}))")
        counted = self._number(0)
        for k in range(1, most + 1):
            counted = f"(ite (bvsge {a} (bvmul {self._number(k)} {size})) {self._number(k)} {counted})"
        return f"(ite (bvslt {a} {self._number(0)}) {name} {counted})"

    def _expression(self, term: Term, args: list[str]) -> str:
        a, b = args[0], args[-1]
        if term.op == "mul":
            return self._product(term, a, b)
        if term.op in BINARY or term.op in COMPARED:
            return f"({(BINARY | COMPARED)[term.op]} {a} {b})"
        if a in self.quotients:
            return self._counted(*self.quotients[a], int(term.args[1].value))
        if term.op in ("min", "max"):
            return f"(ite ({SMALLER[term.op]} {a} {b}) {a} {b})"
        if term.op in ("and", "not"):
            return f"({term.op} {' '.join(args)})"
        if term.op == "where":
            return f"(ite {' '.join(args)})"
        return f"(bvneg {a})" if term.op == "neg" else f"(ite (bvslt {a} {self._number(0)}) (bvneg {a}) {a})"
