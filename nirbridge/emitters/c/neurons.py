"""The C function of a population: one time step of its neurons, their rule (``program/rules.py``) printed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from nirbridge.emitters.c.plan import Neurons
from nirbridge.program.printing import ATOM, Printer, Text, bracketed
from nirbridge.program.terms import Function, Term, is_truth

FIRED = "m->fired"
"""Bytes of one time step, before they become bits."""
UNARY, PRODUCT, SUM, SHIFT, COMPARISON, EQUALITY, MASK, AND, CHOICE = 15, 14, 13, 12, 11, 10, 9, 5, 3
"""How tightly C's operators bind."""
Functions = MutableMapping[str, str]
"""Texts of the functions that the program has, by name."""


@dataclass(frozen=True, slots=True)
class CLanguage:
    """Expressions of C in one type; truth is 0 or 1 of that type.

    ``leaf``: the text of a number, a coefficient or an arg. ``is_positive``: whether a term is proved to be 0 or more.
    ``unit``: the power of 2 that the sums of a drive are in.
    """

    kind: str
    leaf: Callable[[Term], str]
    is_positive: Callable[[Term], bool]
    functions: Functions
    unit: int = 0
    table: ClassVar[Mapping[str, tuple[str, int]]] = {
        "add": ("{} + {}", SUM), "sub": ("{} - {}", SUM), "mul": ("{} * {}", PRODUCT), "neg": ("-{}", UNARY),
        "not": ("!{}", UNARY), "lt": ("{} < {}", COMPARISON), "le": ("{} <= {}", COMPARISON),
        "gt": ("{} > {}", COMPARISON), "ge": ("{} >= {}", COMPARISON),
    }  # fmt: skip

    def special(self, term: Term, args: Sequence[Text]) -> tuple[str, int] | None:
        """See ``Language``."""
        texts = ", ".join(a.text for a in args)
        bits = "32" if term.kind == "count" else self.kind[3:5]
        if term.op == "call":
            return f"{function_name(term.value, self)}({texts})", ATOM
        if term.op in ("min", "max") and all(a.binds == ATOM for a in args):
            a, b = (x.text for x in args)
            return f"{a} {'<' if term.op == 'min' else '>'} {b} ? {a} : {b}", CHOICE
        if term.op in ("min", "max", "abs"):
            return f"nb_{term.op}{bits}({texts})", ATOM
        if term.op == "where":
            condition, a, b = (bracketed(x, CHOICE + 1) for x in args)
            return (condition, args[0].binds) if is_truth(term) else (f"{condition} ? {a} : {b}", CHOICE)
        if term.op == "and":
            sides = [bracketed(a, AND if term.kind == "bool" else MASK) for a in args]
            return (" && " if term.kind == "bool" else " & ").join(sides), AND if term.kind == "bool" else MASK
        return self._whole(term, args)

    def _whole(self, term: Term, args: Sequence[Text]) -> tuple[str, int] | None:
        """Shifts and quotients: C leaves the shift of a negative number to the compiler, and cuts towards zero."""
        if term.op == "shl":
            if term.args[0].name == "drive":
                return self._sums(int(term.args[1].value)), PRODUCT
            return f"{bracketed(args[0], PRODUCT)} * {_literal(1 << int(term.args[1].value), self.kind)}", PRODUCT
        if term.op == "shr" and self.is_positive(term.args[0]):
            return f"{bracketed(args[0], SHIFT)} >> {term.args[1].value}", SHIFT
        if term.op == "shr":
            return f"nb_shifted{self.kind[3:5]}({args[0].text}, {term.args[1].value}u)", ATOM
        if term.op == "floordiv" and self.is_positive(term.args[0]):
            return f"{bracketed(args[0], PRODUCT)} / {bracketed(args[1], PRODUCT + 1)}", PRODUCT
        if term.op == "floordiv":
            return f"nb_quotient{self.kind[3:5]}({args[0].text}, {args[1].text})", ATOM
        return None

    def _sums(self, places: int = 0) -> str:
        """The drive, shifted."""
        places += self.unit
        return f"sums[i] * {_literal(1 << places, self.kind)}" if places else "sums[i]"

    def statement(self, name: str, text: str, term: Term, is_first: bool) -> str:
        """See ``Language``."""
        kind = "int32_t" if term.kind == "count" else self.kind
        return f"{kind} {name} = {text};" if is_first else f"{name} = {text};"


def function_name(function: Function, language: CLanguage) -> str:
    """The name of a function of a rule, whose text joins ``functions``; another text of the same name gets a number."""
    name, number = f"nb_{function.name}{'64' if language.kind == 'int64_t' else ''}", 1
    base = name
    while language.functions.setdefault(name, text := _function_text(function, language, name)) != text:
        number += 1
        name = f"{base}_{number}"
    return name


def _function_text(function: Function, language: CLanguage, name: str) -> str:
    own = CLanguage(language.kind, lambda t: _number(t, language.kind), language.is_positive, language.functions)
    printer = Printer(own)
    (result,) = printer.write([function.value])
    parameters = ", ".join(f"{language.kind} {p.name}" for p in function.parameters)
    lines = [*(f"const {line}" for line in printer.lines), "", f"return {result};"]
    body = "\n".join(f"    {line}" if line else "" for line in lines)
    return f"/* {function.doc.replace('`', '')} */\nstatic {language.kind} {name}({parameters})\n{{\n{body}\n}}\n"


def neuron_function(n: Neurons, functions: Functions) -> Iterator[str]:
    """``NAME_step(m, sums)``: sums to currents, potentials and spikes; ``functions`` gets those that it calls."""
    yield f"/* {n.id}: {n.population.size} {'neurons' if n.population.neuron.fires else 'read-outs'} */"
    yield f"static void {n.id}_step(nb_model *m, const {n.kind} *sums)"
    yield "{"
    lines = list(_neuron(n, functions))
    if n.rows > 1:
        yield f"    for (uint32_t row = 0; row < {n.rows}u; ++row) {{"
        for name, parameter in n.parameters.items():
            if parameter.level == "row" and name not in ("u_init", "v_init"):
                yield f"        const {n.kind} {name} = {n.id}_{name}[row];"
        yield f"        for (uint32_t i = row * {n.row}u; i < (row + 1u) * {n.row}u; ++i) {{"
        yield from ("            " + line for line in lines)
        yield "        }"
        yield "    }"
    else:
        yield f"    for (uint32_t i = 0; i < {n.row}u; ++i) {{"
        yield from ("        " + line for line in lines)
        yield "    }"
    if n.source.is_binary and n.source.slots:
        yield f"    nb_pack(m->{n.id}_sent[m->step & {n.source.slots - 1}u], {FIRED}, {n.source.size}u);"
    yield "}"
    yield ""


def _neuron(n: Neurons, functions: Functions) -> Iterator[str]:
    def leaf(term: Term) -> str:
        if term.op == "param" and term.name in n.parameters:
            parameter = n.parameters[term.name]
            if parameter.one is not None:
                return _literal(parameter.one, n.kind)
            return term.name if parameter.level == "row" else f"{n.id}_{term.name}[i]"
        if term.name == "drive":
            return "sums[i]" if n.exponent == 0 else f"(sums[i] * {_literal(1 << n.exponent, n.kind)})"
        return f"m->{n.id}_{term.name.removeprefix('state.')}[i]" if term.op == "arg" else _number(term, n.kind)

    def is_positive(term: Term) -> bool:
        return n.values.get(id(term), (-1, 0))[0] >= 0

    printer = Printer(CLanguage(n.kind, leaf, is_positive, functions, n.exponent))
    state = {name: term for name, term in n.step.state.items() if name != "u" or n.keeps_current}
    sent, u, *following = printer.write([n.step.sent, n.step.variables["u"], *state.values()])
    yield from printer.lines
    for name, text in zip(state, following, strict=True):
        cast = f"({n.refractory_type})" if name == "refractory" else ""
        yield f"m->{n.id}_{name}[i] = {cast}{text};"
    yield from _send(n, sent)
    if not n.keeps_current:
        yield f"NB_TRACED(m->{n.id}_u[i] = {u};)"


def _send(n: Neurons, what: str) -> Iterator[str]:
    source = n.source
    if source.is_binary and source.slots:
        yield f"{FIRED}[i] = (uint8_t){what};"
    if source.slots and not source.is_binary:
        cast = "" if source.type == n.kind else f"({source.type})"
        yield f"m->{n.id}_sent[m->step & {source.slots - 1}u][i] = {cast}{what};"
    if n.is_shown:
        cast = "" if n.out_type == n.kind else f"({n.out_type})"
        yield f"m->out.{n.id}[i] = {cast}{what};"
    if not (source.slots or n.is_shown):
        yield f"(void){what};"
    yield f"NB_TRACED(m->{n.id}_s[i] = {what};)"


def _number(term: Term, kind: str) -> str:
    if term.op == "const":
        return _literal(int(term.value), "int32_t" if term.kind == "count" else kind)
    return term.name


def _literal(value: int, kind: str) -> str:
    """A constant of a type of 32 or 64 bits."""
    return f"INT64_C({value})" if kind == "int64_t" else str(value)
