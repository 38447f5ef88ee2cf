"""One time step of a population as lines of Python: its rule (``program/rules.py``), printed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from nirbridge.emitters.jax.module import INDENT, ModuleWriter
from nirbridge.network.model import Population
from nirbridge.program.printing import ATOM, Printer, Text
from nirbridge.program.rewrites import in_halves
from nirbridge.program.rules import traced_step
from nirbridge.program.terms import Function, Term
from nirbridge.quantization.model import FixedPopulation

UNARY, PRODUCT, SUM, SHIFT, AND, COMPARISON = 13, 12, 11, 10, 9, 6
"""How tightly Python's operators bind."""


@dataclass(frozen=True, slots=True)
class JaxLanguage:
    """Expressions of ``jax.numpy``; ``leaf``: the text of a number, a coefficient or an arg."""

    leaf: Callable[[Term], str]
    dtype: str
    table: ClassVar[Mapping[str, tuple[str, int]]] = {
        "add": ("{} + {}", SUM), "sub": ("{} - {}", SUM), "mul": ("{} * {}", PRODUCT), "div": ("{} / {}", PRODUCT),
        "floordiv": ("{} // {}", PRODUCT), "neg": ("-{}", UNARY), "abs": ("jnp.abs({})", ATOM),
        "floor": ("jnp.floor({})", ATOM), "shl": ("{} << {}", SHIFT), "shr": ("{} >> {}", SHIFT),
        "min": ("jnp.minimum({}, {})", ATOM), "max": ("jnp.maximum({}, {})", ATOM), "and": ("{} & {}", AND),
        "not": ("~{}", UNARY), "where": ("jnp.where({}, {}, {})", ATOM),
        "lt": ("{} < {}", COMPARISON), "le": ("{} <= {}", COMPARISON), "gt": ("{} > {}", COMPARISON),
        "ge": ("{} >= {}", COMPARISON),
    }  # fmt: skip

    def special(self, term: Term, args: Sequence[Text]) -> tuple[str, int] | None:
        """See ``Language``: calls, and numbers of a type where no other part of an expression gives them one."""
        if term.op == "call":
            return f"{term.value.name}({', '.join(a.text for a in args)})", ATOM
        if term.op == "where" and all(a.op == "const" for a in term.args[1:]):
            return (
                f"jnp.where({args[0].text}, jnp.{self.dtype}({args[1].text}), jnp.{self.dtype}({args[2].text}))",
                ATOM,
            )
        return None

    def statement(self, name: str, text: str, term: Term, is_first: bool) -> str:
        """See ``Language``."""
        return f"{name} = {text}"


def number_text(term: Term) -> str:
    """The text of a const, or the name of an arg."""
    return repr(term.value) if term.op == "const" else term.name


def function_text(function: Function) -> str:
    """A function of a rule in Python."""
    printer = Printer(JaxLanguage(number_text, "int32"))
    (result,) = printer.write([function.value])
    names = ", ".join(p.name for p in function.parameters)
    lines = [f'"""{function.doc}"""', *printer.lines, f"return {result}"]
    return "\n".join([f"def {function.name}({names}):", *(INDENT + line for line in lines)])


def neuron_lines(
    m: ModuleWriter, p: Population | FixedPopulation, key: str, states: Mapping[str, str], dtype: str
) -> tuple[list[str], dict[str, str], dict[str, str]]:
    """The lines of a population with the input ``drive``, the text of each variable, and of each next state.

    ``key`` becomes what the population sends; ``states``: the texts of its state by name.
    """

    def leaf(term: Term) -> str:
        if term.op == "param":
            is_count = term.kind == "count"  # no run has more time steps than int32 holds
            values = np.minimum(term.value, 2**31 - 1) if is_count else term.value
            return m.coefficient(f"{key}.{term.name}", values, p.shape, "int32" if is_count else dtype)
        return states[term.name.removeprefix("state.")] if term.name.startswith("state.") else number_text(term)

    step = in_halves(traced_step(p.neuron))
    variables = {name: term for name, term in step.variables.items() if name != "s" or p.neuron.fires}
    following = {name: step.state[name] for name in states}
    printer = Printer(JaxLanguage(leaf, dtype))
    sent, *texts = printer.write([step.sent, *variables.values(), *following.values()])
    m.functions |= {f.name: function_text(f) for f in printer.functions.values()}
    named = dict(zip(variables, texts, strict=False))
    return [*printer.lines, f"{key} = {sent}"], named, dict(zip(following, texts[len(named) :], strict=True))
