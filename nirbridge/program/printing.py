"""Terms as statements of a language of expressions: C, Python, Verilog. A language is a table and a few functions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Protocol

from nirbridge.program.terms import LEAVES, Function, Term, fold, in_order

TAKEN = {
    "w", "x", "n", "t", "state", "new", "values", "now", "past", "inputs", "batch", "sent", "weights", "self",
    "np", "jnp", "lax", "torch",
}  # fmt: skip
"""Names that programs have themselves: a term of that name gets a number."""
ATOM = 100
"""The precedence of what needs no parentheses."""


@dataclass(frozen=True, slots=True)
class Text:
    """An expression, how tightly its last operation binds, and the named terms that it mentions."""

    text: str
    binds: int = ATOM
    mentions: frozenset[int] = frozenset()


class Language(Protocol):
    """What a language says about terms."""

    table: ClassVar[Mapping[str, tuple[str, int]]]
    """By operation: the form of its expression, and how tightly it binds. ``{0}`` may bind as tightly, the others must
    bind more."""

    @property
    def leaf(self) -> Callable[[Term], str]:
        """The text of a number, a coefficient, or an arg."""
        ...

    def special(self, term: Term, args: Sequence[Text]) -> tuple[str, int] | None:
        """The expression and how it binds where the table does not say it; else None."""
        ...

    def statement(self, name: str, text: str, term: Term, is_first: bool) -> str:
        """``name = text``; ``is_first``: no statement before has given the name a value."""
        ...


@dataclass(slots=True)
class Printer:
    """Statements of one time step: every named term is one, all others are parts of expressions.

    A name takes another value where its old one is not needed any more, else a number is added to it.
    ``functions``: those that the statements call; ``made``: expressions of terms that stand before, by ``id``.
    """

    language: Language
    lines: list[str] = field(default_factory=list)
    functions: dict[str, Function] = field(default_factory=dict)
    made: dict[int, Text] = field(default_factory=dict)
    _bound: dict[str, int] = field(default_factory=dict)

    def write(self, ends: Sequence[Term]) -> list[str]:
        """Appends the statements of some terms; their expressions."""
        left = _mentions(ends, self.made)
        return [made.text for made in fold(ends, lambda term, args: self._made(term, args, left), self.made)]

    def _made(self, term: Term, args: list[Text], left: Counter[int]) -> Text:
        mentions = frozenset[int]().union(*(a.mentions for a in args))
        if term.op in LEAVES:
            return Text(self.language.leaf(term))
        text, binds = self._expression(term, args)
        if not term.name:
            return Text(text, binds, mentions)
        left.subtract(mentions)
        name, number = term.name, 1
        while name in TAKEN or left[self._bound.get(name, 0)] > 0:
            number += 1
            name = f"{term.name}{number}"
        self.lines.append(self.language.statement(name, text, term, name not in self._bound))
        self._bound[name] = id(term)
        return Text(name, ATOM, frozenset((id(term),)))

    def _expression(self, term: Term, args: list[Text]) -> tuple[str, int]:
        if term.op == "call":
            self.functions[term.value.name] = term.value
        special = self.language.special(term, args)
        if special is not None:
            return special
        form, binds = self.language.table[term.op]
        if binds == ATOM:
            return form.format(*(a.text for a in args)), ATOM
        first, *others = args
        return form.format(bracketed(first, binds), *(bracketed(a, binds + 1) for a in others)), binds


def bracketed(a: Text, binds: int) -> str:
    """The expression, in parentheses where it binds less tightly."""
    return a.text if a.binds >= binds else f"({a.text})"


def _mentions(ends: Sequence[Term], made: Mapping[int, Text]) -> Counter[int]:
    """How many statements and results mention each named term."""
    left: Counter[int] = Counter({0: 0})
    own: dict[int, frozenset[int]] = {}
    for term in in_order(ends, made):
        inside = frozenset[int]().union(*(own.get(id(a), frozenset()) for a in term.args))
        if term.name and term.op not in LEAVES:
            left.update(inside)
            inside = frozenset((id(term),))
        own[id(term)] = inside
    for end in ends:
        left.update(own.get(id(end), ()))
    return left


# -- Python --------------------------------------------------------------------------------------------------------
# Expressions of Python on the arrays of a library.

UNARY, PRODUCT, SUM, SHIFT, AND, COMPARISON = 13, 12, 11, 10, 9, 6
"""How tightly Python's operators bind."""


def array_table(xp: str) -> Mapping[str, tuple[str, int]]:
    """The table of a ``Language``; ``xp``: the name of the library."""
    infix = {
        "add": ("+", SUM), "sub": ("-", SUM), "mul": ("*", PRODUCT), "div": ("/", PRODUCT), "floordiv": ("//", PRODUCT),
        "shl": ("<<", SHIFT), "shr": (">>", SHIFT), "and": ("&", AND), "lt": ("<", COMPARISON),
        "le": ("<=", COMPARISON), "gt": (">", COMPARISON), "ge": (">=", COMPARISON),
    }  # fmt: skip
    named = {"abs": f"{xp}.abs({{}})", "floor": f"{xp}.floor({{}})", "min": f"{xp}.minimum({{}}, {{}})",
             "max": f"{xp}.maximum({{}}, {{}})", "where": f"{xp}.where({{}}, {{}}, {{}})"}  # fmt: skip
    table = {op: (f"{{}} {sign} {{}}", binds) for op, (sign, binds) in infix.items()}
    table |= {op: (form, ATOM) for op, form in named.items()}
    return {**table, "neg": ("-{}", UNARY), "not": ("~{}", UNARY)}


@dataclass(frozen=True, slots=True)
class ArrayLanguage:
    """Expressions of NumPy; of other libraries by another ``table``. ``leaf``: of a number, a coefficient or an arg."""

    leaf: Callable[[Term], str]
    table: ClassVar[Mapping[str, tuple[str, int]]] = array_table("np")

    def special(self, term: Term, args: Sequence[Text]) -> tuple[str, int] | None:
        """See ``Language``: calls."""
        return (f"{term.value.name}({', '.join(a.text for a in args)})", ATOM) if term.op == "call" else None

    def statement(self, name: str, text: str, term: Term, is_first: bool) -> str:
        """See ``Language``."""
        return f"{name} = {text}"


def number_text(term: Term) -> str:
    """The text of a const, or the name of an arg."""
    return repr(term.value) if term.op == "const" else term.name


def function_text(function: Function, language: Language) -> str:
    """A function of a rule in Python."""
    printer = Printer(language)
    (result,) = printer.write([function.value])
    names = ", ".join(p.name for p in function.parameters)
    lines = [f'"""{function.doc}"""', *printer.lines, f"return {result}"]
    return "\n".join([f"def {function.name}({names}):", *(f"    {line}" for line in lines)])
