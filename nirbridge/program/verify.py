"""What a step program has to keep: numbers of arguments, kinds, delays within what is remembered, states that exist."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from nirbridge.errors import ModelError, quoted
from nirbridge.program.step import Past, StepProgram
from nirbridge.program.terms import COMPARISONS, OPERATIONS, Term, in_order

OTHERS = {"const": (0,), "param": (0,), "arg": (0,), "linear": (1,), "past": (0, 1), "real": (1,)}
"""Numbers of arguments of what is no operation of elements."""


def check_program(program: StepProgram) -> None:
    """Raises ModelError for a program that breaks a rule, with the first fault."""
    for term, found, limit in _faults(program):
        subject = f"step program, {term.op} {quoted(term.name)}" if term.name else f"step program, {term.op}"
        raise ModelError.of(subject, found, limit, "make it by step_program or a rewrite")


def _faults(program: StepProgram) -> Iterator[tuple[Term, str, str]]:
    for term in in_order(program.ends):
        yield from ((term, *fault) for fault in _of_term(term))
        if term.op == "arg" and term.value is None and term is not program.inputs.get(term.name):
            yield term, "an arg of no input", "an arg is an input or a state"
        if term.op == "arg" and term.value is not None and term.value not in program.initial:
            yield term, f"a state {quoted('.'.join(term.value))} without a first value", "every state has one"
        if term.op == "past":
            yield from ((term, *fault) for fault in _of_past(term, program))


def _of_term(term: Term) -> Iterator[tuple[str, str]]:
    kinds = [a.kind for a in term.args]
    if term.op == "call":
        body = term.value
        wanted: Sequence[str] = [p.kind for p in body.parameters]
        yield from (fault for inner in in_order([body.value]) for fault in _of_term(inner))
        if kinds != wanted or term.kind != body.value.kind:
            yield f"arguments of {kinds}", f"it takes {wanted} and gives {body.value.kind}"
    elif term.op in OPERATIONS:
        if len(kinds) != OPERATIONS[term.op]:
            yield f"{len(kinds)} arguments", f"it takes {OPERATIONS[term.op]}"
        elif kinds != (wanted := _wanted(term)):
            yield f"arguments of {kinds}", f"it takes {wanted}"
    elif len(kinds) not in OTHERS.get(term.op, ()):
        yield f"{len(kinds)} arguments", f"the operations are {', '.join((*OPERATIONS, *OTHERS))}"
    elif kinds and kinds != ["int" if term.op == "real" else term.kind]:
        yield f"an argument of {kinds[0]}", f"it gives {term.kind}"


def _wanted(term: Term) -> list[str]:
    if term.op in COMPARISONS:
        return [term.args[0].kind] * 2 if term.kind == "bool" else []
    return ["bool", term.kind, term.kind] if term.op == "where" else [term.kind] * OPERATIONS[term.op]


def _of_past(term: Term, program: StepProgram) -> Iterator[tuple[str, str]]:
    past: Past = term.value
    history = program.histories.get(past.key)
    if history is None:
        yield f"the past of {quoted(past.key[0])}", "nothing remembers it"
        return
    longest, least = int(np.max(past.delays)), int(np.min(past.delays))
    if not 0 <= least <= longest <= history.depth:
        yield f"delays of {least} to {longest} time steps", f"{history.depth} are remembered"
    if least == 0 and not term.args:
        yield "a delay of 0", "this time step's value is an argument then"
    if np.ndim(past.delays) and np.shape(past.delays) != history.shape:
        yield f"delays of shape {np.shape(past.delays)}", f"the values have {history.shape}"
