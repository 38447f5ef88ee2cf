"""The files ``model.h``, ``model.c`` and ``weights.h``. No name of the model enters them: identifiers are numbered."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from nirbridge.emitters.c.options import COptions
from nirbridge.emitters.c.plan import FLOAT, CPlan, Neurons, Parameter, Source, Summed, Synapses, has_own_sum, suffix
from nirbridge.emitters.c.synapses import BYTES, Table, float_text, sent_text, synapse_functions
from nirbridge.emitters.readme import filled
from nirbridge.program.printing import ATOM, Printer, Text, bracketed
from nirbridge.program.terms import LEAVES, Function, Term


def header(plan: CPlan, template: str, options: COptions, named: Mapping[str, str]) -> str:
    """The file ``model.h``: the struct of inputs, of outputs, and of the whole state; ``named``: further marks."""
    parts = {
        "%INPUTS%": _struct(_input_fields(plan)),
        "%OUTPUTS%": _struct(_output_fields(plan)),
        "%STATE%": _struct([*state_fields(plan), *trace_fields(plan)]),
    }
    for mark, text in parts.items():
        template = template.replace(mark, options.renamed(text))
    return filled(template, named)


def weights_header(found: list[Table], options: COptions) -> str:
    """The file ``weights.h``."""
    head = "/* Made by nirbridge: constant tables of @STEM@.c, which alone includes them. */\n"
    return options.linked(
        head
        + "#ifndef NB_WEIGHTS_H\n#define NB_WEIGHTS_H\n\n#include <stdint.h>\n\n"
        + "\n".join([t.text() for t in found] or ["/* none */\n"])
        + "\n#endif\n"
    )


def source_text(plan: CPlan, helpers: dict[str, str], options: COptions) -> str:
    """The file ``model.c``; ``helpers``: functions by name, of which it holds those that it calls."""
    functions: dict[str, str] = {}
    lines = [*_synapses(plan), *_neurons(plan, functions), *_reset(plan), *_step(plan)]
    body = "\n".join([*functions.values(), *lines]) + "\n"
    used = [text for name, text in helpers.items() if f"{name}(" in body]
    numbers = "in float32" if plan.is_real else "in integers"
    head = f"/* Made by nirbridge: one time step of the network, {numbers}. README.md names its parts. */\n"
    includes = '#include <stdbool.h>\n#include <stddef.h>\n\n#include "@STEM@.h"\n#include "@WEIGHTS@"\n'
    apart = [_APART] if "NB_APART" in body else []
    return options.linked("\n".join([head + includes, *([_ROUNDING] if plan.is_real else []), *apart, *used, body]))


_APART = """/* Of its own at -Os: in the loop over spikes it has too few registers. */
#if defined(__GNUC__) && defined(__OPTIMIZE_SIZE__)
#define NB_APART __attribute__((noinline))
#else
#define NB_APART
#endif
"""


_ROUNDING = """#include <float.h>
#include <math.h>

/* Every operation is rounded to float, as the reference does it. */
#if defined(__FAST_MATH__) || defined(__ASSOCIATIVE_MATH__) || defined(__RECIPROCAL_MATH__) || (FLT_EVAL_METHOD != 0)
#error "reals need float arithmetic as it is written: no -ffast-math, no part of it; on 32-bit x86 -msse2 -mfpmath=sse"
#endif
#if defined(__GNUC__) && !defined(__clang__) /* gcc does not know the pragma of C; loops become no memset */
#pragma GCC optimize("fp-contract=off", "no-tree-loop-distribute-patterns")
#else
#pragma STDC FP_CONTRACT OFF
#endif
"""


_HEAD = re.compile(r" *(for|while|if) \(.*\)")


def braced(text: str) -> str:
    """C whose blocks are indented, with their braces; those of functions and structs are there."""
    lines: list[str] = []
    blocks: list[int] = []  # the indentation of each open block
    for line in text.split("\n"):
        depth = len(line) - len(line.lstrip())
        while line and blocks and depth <= blocks[-1]:
            lines.append(" " * blocks.pop() + "}")
        if is_head := _HEAD.fullmatch(line) is not None:
            blocks.append(depth)
        lines.append(f"{line} {{" if is_head else line)
    return "\n".join(lines)


def _synapses(plan: CPlan) -> Iterator[str]:
    for target in plan.targets:
        for s in target.into:
            if s.operator is not None:
                yield from synapse_functions(target, s)


def _neurons(plan: CPlan, functions: dict[str, str]) -> Iterator[str]:
    for n in plan.neurons:
        yield from neuron_function(n, functions)


def _struct(fields: list[str]) -> str:
    return "\n".join(f"    {field}" for field in fields or ["uint8_t none;"])


def input_type(source: Source) -> str:
    """The C type of one value of an input."""
    return "uint8_t" if source.is_binary else source.type


def _input_fields(plan: CPlan) -> list[str]:
    return [f"{input_type(s)} {s.id}[{s.size}];" for s in plan.inputs]


def _output_fields(plan: CPlan) -> list[str]:
    shown = [f"{n.out_type} {n.id}[{n.source.size}];" for n in plan.shown]
    return [*shown, *(f"{o.sums} {o.id}[{o.source.size}];" for o in plan.outputs)]


def state_fields(plan: CPlan) -> list[str]:
    """The fields of the state, the widest types first, so that no byte between them is lost."""
    arrays = (f"{kind} {name}{_sizes(sizes)};" for kind, name, sizes in state_arrays(plan))
    return ["uint32_t step;", "nb_outputs out;", *arrays]


def _sizes(sizes: tuple[int, ...]) -> str:
    return "".join(f"[{size}]" for size in sizes)


def state_arrays(plan: CPlan) -> list[tuple[str, str, tuple[int, ...]]]:
    """(type, name, sizes) of every array of the state, in order."""
    return sorted(_arrays(plan), key=lambda field: -BYTES[field[0]])


def _arrays(plan: CPlan) -> Iterator[tuple[str, str, tuple[int, ...]]]:
    for n in plan.neurons:
        yield from ((kind, f"{n.id}_{name}", (n.source.size,)) for name, kind in n.kept.items())
    for source in (*plan.inputs, *(target.source for target in plan.targets)):
        if source.slots:
            yield source.type, f"{source.id}_sent", (source.slots, source.words if source.is_binary else source.size)
    yield from ((s.kind, f"{s.id}_late", (s.late_slots, math.prod(s.late.shape)))
                for s in plan.synapses if s.late is not None)  # fmt: skip
    sums = {"sums": [(n.sums, n.source.size) for n in plan.neurons]}
    sums["part"] = [(s.kind, n.source.size) for n in plan.targets for s in n.into if has_own_sum(n, s) and s.operator]
    for name, sizes in sums.items():  # of each type as many as the largest population has neurons
        yield from ((kind, f"{name}{suffix(kind)}", (size,)) for kind, size in dict(sorted(sizes)).items())
    packed = [n.source.size for n in plan.neurons if n.source.is_binary and n.source.slots]
    if packed:
        yield "uint8_t", "fired", (max(packed),)


def trace_fields(plan: CPlan) -> list[str]:
    """Fields of a traced build: what every population sent, and variables that no time step reads."""
    fields = ["#ifdef NB_TRACE"]
    for n in plan.neurons:
        fields += [f"{n.kind} {n.id}_{name}[{n.source.size}];" for name in n.traced]
    return [*fields, "#endif"] if plan.neurons else []


def _reset(plan: CPlan) -> Iterator[str]:
    yield "void nb_reset(nb_model *m)"
    yield "{"
    yield "    uint8_t *const bytes = (uint8_t *)m;"
    yield ""
    yield "    for (uint32_t i = 0; i < (uint32_t)sizeof *m; ++i)"
    yield "        bytes[i] = 0;"
    for n in plan.neurons:
        for name in n.kept:
            parameter = n.parameters[f"{name}_init"]
            if parameter.one == 0:
                continue
            place = _place(f"{n.id}_{name}_init", parameter, f"i / {n.row}u")
            yield f"    for (uint32_t i = 0; i < {n.source.size}u; ++i)"
            yield f"        m->{n.id}_{name}[i] = {place};"
    yield "}"
    yield ""


def _step(plan: CPlan) -> Iterator[str]:
    yield "void nb_step(nb_model *m, const nb_inputs *in)"
    yield "{"
    taken = [line for source in plan.inputs for line in _taken(source)]
    yield from ["    if (in != NULL)", *taken] if taken else ["    (void)in;"]
    for target in plan.targets:
        sums = _sums_of(target)
        yield f"    nb_clear{suffix(target.sums)}({sums}, {target.source.size}u);"
        for s in target.into:
            yield from _added(target, s, sums)
        if isinstance(target, Neurons):
            yield f"    {target.id}_step(m, {sums});"
    yield "    m->step += 1u;"
    for source in plan.inputs:
        yield from _forgotten(source)
    yield "}"


def _sums_of(target: Summed) -> str:
    """Where sums are made: those of a population are needed for its time step alone."""
    if isinstance(target, Neurons):
        return f"m->sums{suffix(target.sums)}"
    return f"m->{target.id}_sent[0]" if target.source.slots else f"m->out.{target.id}"


def _added(target: Summed, s: Synapses, sums: str) -> Iterator[str]:
    """A projection added to sums; one with sums of its own as a whole, with what comes after its operator."""
    if not has_own_sum(target, s):
        yield f"    {s.id}_add(m, {sums});"
        return
    part, size = f"m->part{suffix(s.kind)}", target.source.size
    if s.operator is not None:
        yield f"    nb_clear{suffix(s.kind)}({part}, {size}u);"
        yield f"    {s.id}_add(m, {part});"
    value = f"{part}[i]" if s.factor == 1.0 else f"({part}[i] * {_literal(s.factor, s.kind)})"
    if s.late is not None:
        yield f"    for (uint32_t i = 0; i < {size}u; ++i)"
        yield f"        m->{s.id}_late[m->step & {s.late_slots - 1}u][i] = {value};"
        value = f"m->{s.id}_late[(m->step - {s.id}_later[i]) & {s.late_slots - 1}u][i]"
    yield f"    for (uint32_t i = 0; i < {size}u; ++i)"
    shift = max(0, -s.weight_exp)
    value = f"nb_shifted{suffix(s.kind)}({part}[i], {shift}u)" if shift else value
    if s.bias is not None:
        bias = _place(f"{s.id}_bias", s.bias, f"i / {size // len(s.bias.values)}u")
        value = bias if s.operator is None else f"{value} + {bias}"
    yield f"        {sums}[i] += {value if s.kind == target.sums else f'({target.sums}){value}'};"


def _place(table: str, parameter: Parameter, row: str) -> str:
    """A parameter of neuron ``i`` outside of the loop over rows."""
    if parameter.one is not None:
        return _literal(parameter.one, parameter.type)
    return f"{table}[{row if parameter.level == 'row' else 'i'}]"


def _taken(source: Source) -> Iterator[str]:
    if not source.slots:
        return
    slot = sent_text(source)
    if source.is_binary:
        yield f"        nb_pack({slot}, in->{source.id}, {source.size}u);"
    else:
        yield f"        for (uint32_t i = 0; i < {source.size}u; ++i)"
        yield f"            {slot}[i] = in->{source.id}[i];"


def _forgotten(source: Source) -> Iterator[str]:
    """The oldest values of an input make room for events."""
    if source.slots:
        yield f"    for (uint32_t i = 0; i < {source.words if source.is_binary else source.size}u; ++i)"
        yield f"        {sent_text(source)}[i] = 0;"


# -- neurons -------------------------------------------------------------------------------------------------------
# The C function of a population: one time step of its neurons, their rule (``program/rules.py``) printed.

FIRED = "m->fired"
"""Bytes of one time step, before they become bits."""
UNARY, SUM, INFIX, CHOICE = 15, 3, 2, 1
"""How tightly C's operators bind: those of two sides get parentheses in each other, but for sums and differences."""
SIGNS = {"add": "+", "sub": "-", "mul": "*", "div": "/", "lt": "<", "le": "<=", "gt": ">", "ge": ">=", "and": "&"}
Functions = MutableMapping[str, str]
"""Texts of the functions that the program has, by name."""


@dataclass(frozen=True, slots=True)
class CLanguage:
    """Expressions of C in one type, and their conditions.

    ``leaf``: the text of a number, a coefficient or an arg. ``is_positive``: whether a term is proved to be 0 or more.
    ``unit``: the power of 2 that the sums of a drive, ``sums``, are in.
    """

    kind: str
    leaf: Callable[[Term], str]
    is_positive: Callable[[Term], bool]
    functions: Functions
    unit: int = 0
    sums: str = ""
    table: ClassVar[Mapping[str, tuple[str, int]]] = {"neg": ("-{}", UNARY), "not": ("!{}", UNARY)}

    def special(self, term: Term, args: Sequence[Text]) -> tuple[str, int] | None:
        """See ``Language``."""
        texts = ", ".join(a.text for a in args)
        bits = "32" if term.kind == "count" else suffix(self.kind)
        if term.op == "call":
            return f"{function_name(term.value, self)}({texts})", ATOM
        if term.op in ("min", "max") and all(a.name or a.op in LEAVES for a in term.args):
            a, b = (x.text for x in args)
            return f"({a} {'<' if term.op == 'min' else '>'} {b}) ? {a} : {b}", CHOICE
        if term.op in ("min", "max", "abs"):
            return f"nb_{term.op}{bits}({texts})", ATOM
        if term.op == "floor":
            return f"nb_floor({texts})", ATOM
        if term.op == "where":
            condition, a, b = (bracketed(x, UNARY) for x in args)
            return f"{condition} ? {a} : {b}", CHOICE
        if term.op in SIGNS:
            return _infix("&&" if term.op == "and" and term.kind == "bool" else SIGNS[term.op], args)
        return self._whole(term, args)

    def _whole(self, term: Term, args: Sequence[Text]) -> tuple[str, int] | None:
        """Shifts and quotients: C leaves the shift of a negative number to the compiler, and cuts towards zero."""
        if term.op == "shl":
            unit = self.unit if term.args[0].name == "drive" else 0
            size = Text(_literal(1 << (int(term.args[1].value) + unit), self.kind))
            return _infix("*", (Text(self.sums) if unit else args[0], size))
        if term.op == "shr" and self.is_positive(term.args[0]):
            return _infix(">>", args)
        if term.op == "shr":
            return f"nb_shifted{suffix(self.kind)}({args[0].text}, {term.args[1].value}u)", ATOM
        if term.op == "floordiv" and self.is_positive(term.args[0]):
            return _infix("/", args)
        if term.op == "floordiv":
            return f"nb_quotient{suffix(self.kind)}({args[0].text}, {args[1].text})", ATOM
        return None

    def statement(self, name: str, text: str, term: Term, is_first: bool) -> str:
        """See ``Language``."""
        kind = {"count": "int32_t", "bool": "bool"}.get(term.kind, self.kind)
        return f"{kind} {name} = {text};" if is_first else f"{name} = {text};"


def _infix(sign: str, args: Sequence[Text]) -> tuple[str, int]:
    binds = SUM if sign in ("+", "-") else INFIX
    first, second = bracketed(args[0], SUM if binds == SUM else UNARY), bracketed(args[1], UNARY)
    return f"{first} {sign} {second}", binds


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
    yield f"static void {n.id}_step(nb_model *m, const {n.sums} *sums)"
    yield "{"
    lines = list(_neuron(n, functions))
    if n.rows > 1:
        yield f"    for (uint32_t row = 0; row < {n.rows}u; ++row)"
        for name, parameter in n.parameters.items():
            if parameter.level == "row" and not name.endswith("_init"):
                yield f"        const {parameter.type} {name} = {n.id}_{name}[row];"
        yield f"        for (uint32_t i = row * {n.row}u; i < ((row + 1u) * {n.row}u); ++i)"
        yield from ("            " + line for line in lines)
    else:
        yield f"    for (uint32_t i = 0; i < {n.row}u; ++i)"
        yield from ("        " + line for line in lines)
    if n.source.is_binary and n.source.slots:
        yield f"    nb_pack({sent_text(n.source)}, {FIRED}, {n.source.size}u);"
    yield "}"
    yield ""


def _neuron(n: Neurons, functions: Functions) -> Iterator[str]:
    sums = "sums[i]" if n.sums == n.kind else f"({n.kind})sums[i]"

    def leaf(term: Term) -> str:
        if term.op == "param" and term.name in n.parameters:
            parameter = n.parameters[term.name]
            if parameter.one is not None:
                return _literal(parameter.one, parameter.type)
            return term.name if parameter.level == "row" else f"{n.id}_{term.name}[i]"
        if term.name == "drive":
            return sums if n.exponent == 0 else f"({sums} * {_literal(1 << n.exponent, n.kind)})"
        return f"m->{n.id}_{term.name.removeprefix('state.')}[i]" if term.op == "arg" else _number(term, n.kind)

    def is_positive(term: Term) -> bool:
        return n.values.get(id(term), (-1, 0))[0] >= 0

    printer = Printer(CLanguage(n.kind, leaf, is_positive, functions, n.exponent, sums))
    ends = [n.step.sent, *(n.step.state[name] for name in n.kept), *(n.step.variables[name] for name in n.traced)]
    sent, *found = printer.write(ends)
    body = [*printer.lines]
    for (name, kind), text in zip(n.kept.items(), found, strict=False):
        cast = f"({kind})" if n.step.state[name].kind == "count" else ""
        body.append(f"m->{n.id}_{name}[i] = {cast}{text};")
    body += _send(n, sent)
    yield from body
    read = re.findall(r"\w+", " ".join(line.partition(" = ")[2] or line for line in body))
    for name, text in zip(n.traced, found[len(n.kept) :], strict=True):
        if text.isidentifier() and text not in read:
            yield f"(void){text};"
        yield f"NB_TRACED(m->{n.id}_{name}[i] = {text};)"


def _send(n: Neurons, what: str) -> Iterator[str]:
    source = n.source
    if source.is_binary and source.slots:
        yield f"{FIRED}[i] = (uint8_t){what};"
    if source.slots and not source.is_binary:
        cast = "" if source.type == n.kind else f"({source.type})"
        yield f"{sent_text(source)}[i] = {cast}{what};"
    if n.is_shown:
        cast = "" if n.out_type == n.kind else f"({n.out_type})"
        yield f"m->out.{n.id}[i] = {cast}{what};"
    if not (source.slots or n.is_shown):
        yield f"(void){what};" if n.kept else f"(void)m, (void){what};"


def _number(term: Term, kind: str) -> str:
    if term.op == "const":
        return _literal(term.value, "int32_t" if term.kind == "count" else kind)
    return term.name


def _literal(value: float, kind: str) -> str:
    """A constant of a type of 32 or 64 bits."""
    if kind == FLOAT:
        return float_text(value)
    return f"INT64_C({int(value)})" if kind == "int64_t" else str(int(value))
