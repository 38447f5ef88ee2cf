"""Step programs as text that reads back: a line for each term, arrays by their digest.

    %4 int "v" = max %3 %2
    %9 int = past {"Past": {"delays": {"@": "1f0c…"}, "key": ["in", "past"]}}

Arrays stand beside the text, by digest. ``read_program`` builds the same terms: the text of what it reads is the same.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np

from nirbridge.arrays import Array, freeze
from nirbridge.errors import ModelError
from nirbridge.files.json_text import parse_json
from nirbridge.network import operators
from nirbridge.program.step import History, Past, StepProgram
from nirbridge.program.terms import Function, Stepped, Term, in_order
from nirbridge.program.verify import check_program

RECORDS = {name: getattr(operators, name) for name in ("Identity", "Scale", "Dense", "Sparse", "Conv", "SumPool")}
RECORDS |= {"Reshape": operators.Reshape, "Chain": operators.Chain, "Past": Past}
LINE = re.compile(r'%(\d+) (\w+)( "\w[\w.]*"|) = (\w+)(.*)')
TERMS = re.compile(r"(?:(?:^|(?<=\s))%\d+\s*)*$")
VALUE_BYTES_MAX = 2**20


def program_text(program: StepProgram) -> tuple[str, dict[str, Array]]:
    """The text of a program, and its arrays by digest."""
    arrays: dict[str, Array] = {}
    return "".join(f"{line}\n" for line in _lines(program, arrays)), arrays


def _lines(program: StepProgram, arrays: dict[str, Array]) -> Iterator[str]:
    yield f"program {program.kind}"
    terms = list(in_order(program.ends))
    numbers: dict[int, int] = {}
    blocks: dict[str, int] = {}
    for function in {id(t.value): t.value for t in terms if t.op == "call"}.values():
        block = "\n".join(_of_function(function, arrays))
        numbers[id(function)] = blocks.setdefault(block, len(blocks))
    yield from (f"function {k} {block}" for block, k in blocks.items())
    at = {id(t): k for k, t in enumerate(terms)}
    yield from (_line(t, at, numbers, arrays) for t in terms)
    for word, found in (("input", program.inputs), ("output", program.outputs)):
        yield from (f"{word} {_json(name, arrays)} %{at[id(t)]}" for name, t in found.items())
    for name, step in program.populations.items():
        yield f"population {_json(name, arrays)} %{at[id(step.sent)]}"
        for word, own_terms in (("variable", step.variables), ("state", step.state)):
            yield from (f"  {word} {_json(v, arrays)} %{at[id(t)]}" for v, t in own_terms.items())
    for key, h in program.histories.items():
        yield f"history {_json([key, h.depth, h.shape], arrays)} %{at[id(h.term)]}"
    yield from (f"initial {_json([key, values], arrays)}" for key, values in program.initial.items())


def _of_function(function: Function, arrays: dict[str, Array]) -> Iterator[str]:
    terms = list(in_order([*function.parameters, function.value]))
    at = {id(t): k for k, t in enumerate(terms)}
    names = " ".join(f"%{at[id(p)]}" for p in function.parameters)
    yield f"{_json([function.name, function.doc], arrays)} {names}".rstrip()
    yield from (f"  {_line(t, at, {}, arrays)}" for t in terms)
    yield f"  return %{at[id(function.value)]}"


def _line(term: Term, at: Mapping[int, int], functions: Mapping[int, int], arrays: dict[str, Array]) -> str:
    value = functions[id(term.value)] if term.op == "call" else term.value
    name = f" {json.dumps(term.name)}" if re.fullmatch(r"\w[\w.]*", term.name, re.ASCII) else ""
    parts = [f"%{at[id(term)]} {term.kind}{name} = {term.op}"]
    if term.name and not name:
        value = {"name": term.name, "value": value}
    parts += [] if value is None else [_json(value, arrays)]
    return " ".join([*parts, *(f"%{at[id(a)]}" for a in term.args)])


def _json(value: Any, arrays: dict[str, Array]) -> str:
    return json.dumps(_plain(value, arrays), sort_keys=True)


def _plain(value: Any, arrays: dict[str, Array]) -> Any:
    if isinstance(value, np.ndarray | np.generic):
        array = np.asarray(value)
        digest = hashlib.sha256(f"{array.dtype.str} {array.shape} ".encode() + array.tobytes()).hexdigest()[:32]
        arrays[digest] = freeze(array)
        return {"@": digest}
    if is_dataclass(value):
        held = {f.name: _plain(getattr(value, f.name), arrays) for f in fields(value) if f.init}
        return {type(value).__name__: held}
    if isinstance(value, dict):
        return {key: _plain(x, arrays) for key, x in value.items()}
    return [_plain(x, arrays) for x in value] if isinstance(value, tuple | list) else value


def read_program(text: str, arrays: Mapping[str, Array]) -> StepProgram:
    """The program of a text.

    Raises:
        FileError: a value that is no JSON, or too large.
        ModelError: a line that no program has, an unknown array, a broken rule.
    """
    number, line = 0, ""
    reader = _Reader(arrays)
    try:
        for number, line in enumerate(text.splitlines(), 1):  # noqa: B007
            reader.take(line)
        program = reader.program()
    except (KeyError, IndexError, ValueError, TypeError, AttributeError) as error:
        found = f"line {number}, {line.strip()[:60]!r}"
        raise ModelError.of("text of a step program", found, f"{type(error).__name__}", "write it anew") from error
    check_program(program)
    return program


def _value_first(text: str) -> tuple[Any, str]:
    """A value at the beginning of a text, None where there is none, and the terms after it."""
    at = TERMS.search(text)
    assert at is not None, "it matches the empty end of every text"
    value, rest = text[: at.start()].strip(), at[0].strip()
    return (parse_json(value, "text of a step program", bytes_max=VALUE_BYTES_MAX) if value else None), rest


class _Reader:
    def __init__(self, arrays: Mapping[str, Array]) -> None:
        self.arrays, self.kind = arrays, ""
        self.terms: list[Term] = []
        self.inner: list[Term] = []
        self.functions: list[Function] = []
        self.open: tuple[str, str, list[int]] | None = None
        self.found: dict[str, dict[Any, Any]] = {"input": {}, "output": {}, "history": {}, "initial": {}}
        self.populations: dict[str, Stepped] = {}
        self.variables: dict[str, Term] = {}
        self.state: dict[str, Term] = {}

    def take(self, line: str) -> None:
        """One more line."""
        word, _, rest = line.strip().partition(" ")
        if word.startswith("%"):
            (self.inner if self.open else self.terms).append(self._term(line.strip()))
        elif word == "program":
            self.kind = rest
        elif word == "function":
            (name, doc), at = _value_first(rest.partition(" ")[2])
            self.open, self.inner = (name, doc, [int(x) for x in re.findall(r"%(\d+)", at)]), []
        elif word == "return" and self.open:
            name, doc, own = self.open
            value = self.inner[int(rest[1:])]
            self.functions.append(Function(name, doc, tuple(self.inner[k] for k in own), value))
            self.open = None
        else:
            self._part(word, rest)

    def _part(self, word: str, rest: str) -> None:
        value, at = _value_first(rest)
        value = self._value(value)
        term = self.terms[int(at[1:])] if at else None
        if word == "population":
            self.variables, self.state = {}, {}
            self.populations[value] = Stepped(self.terms[int(at[1:])], self.variables, self.state)
        elif word in ("variable", "state"):
            (self.variables if word == "variable" else self.state)[value] = self.terms[int(at[1:])]
        elif word == "history":
            key, depth, shape = value
            self.found[word][key] = term, depth, shape
        elif word == "initial":
            self.found[word][value[0]] = value[1]
        else:
            self.found[word][value] = term

    def _term(self, line: str) -> Term:
        match = LINE.fullmatch(line)
        if match is None:
            raise ValueError(line)
        _, kind, name, op, rest = match.groups()
        value, rest = _value_first(rest.strip())
        name = name.strip().strip('"')
        if isinstance(value, dict) and set(value) == {"name", "value"}:
            name, value = value["name"], value["value"]
        held: Any = value
        value = self.functions[held] if op == "call" else self._value(value)
        before = self.inner if self.open else self.terms
        args = tuple(before[int(k)] for k in re.findall(r"%(\d+)", rest))
        return Term(op, kind, args, value, name)  # type: ignore[arg-type]

    def _value(self, value: Any) -> Any:
        if isinstance(value, dict):
            ((name, held),) = value.items()
            if name == "@":
                return self.arrays[held]
            return RECORDS[name](**{key: self._value(x) for key, x in held.items()})
        return tuple(self._value(x) for x in value) if isinstance(value, list) else value

    def program(self) -> StepProgram:
        """All of it."""
        histories = {key: History(*parts) for key, parts in self.found["history"].items()}
        inputs, outputs, initial = (self.found[word] for word in ("input", "output", "initial"))
        return StepProgram(inputs, self.populations, outputs, histories, initial, self.kind)  # type: ignore[arg-type]
