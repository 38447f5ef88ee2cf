"""Tokens of MLIR text, as far as snn-mlir's modules need them; bounded, in time that grows with the text."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import NoReturn

from nirbridge._types import Shape
from nirbridge.errors import FileError, quoted

TOKENS_MAX = 1_000_000
"""Tokens of a module; the constants of a layer are one token each."""
_TOKEN = re.compile(
    r"""(?P<space>\s+|//[^\n]*)
    |(?P<dense>dense<[^<>]*>)
    |(?P<memref>memref<[^<>\n]{0,300}(?:<[^<>\n]{0,300}>[^<>\n]{0,300})?>)
    |(?P<map>affine_map<\([^()<>\n]{0,300}\)\s?->\s?\([^()<>\n]{0,300}\)>)
    |(?P<array>array<i64(?::[-\d,\ ]{0,300})?>)
    |(?P<string>"(?:[^"\\\n]|\\.)*")
    |(?P<arrow>->)
    |(?P<name>[%@\#^](?:[\w$.-]+|"(?:[^"\\\n]|\\.)*"))
    |(?P<number>[-+]?(?:0x[0-9a-fA-F]+|\d+(?:\.\d*(?:[eE][-+]?\d+)?)?))
    |(?P<word>[A-Za-z_][\w.$]*)
    |(?P<mark>[(){}\[\]<>,:=])""",
    re.VERBOSE | re.ASCII,
)
_MEMREF = re.compile(r"memref<((?:[1-9]\d{0,11}x)*)([a-z]\w*)>", re.ASCII)
_LONGEST_NUMBER = 400
AXES_MAX = 8
ELEMENTS_MAX = 25_000_000
"""Elements that all arrays of a module declare: a constant of one value takes no text, but memory where it is used."""


@dataclass(frozen=True, slots=True)
class Token:
    """A piece of text, its kind, and the number of its line."""

    kind: str
    text: str
    line: int


@dataclass(frozen=True, slots=True)
class Memory:
    """The type of an array: shape and element."""

    shape: Shape
    element: str


class Tokens:
    """The tokens of a text in order, and errors that name a line."""

    def __init__(self, text: str, subject: str) -> None:
        self.text, self.subject = text, subject
        self.next = 0
        self.elements = 0
        self.tokens: list[Token] = []
        start, line = 0, 1
        while start < len(text):
            match = _TOKEN.match(text, start)
            if match is None:
                self._fail_at(line, f"unreadable text {quoted(text[start : start + 20])}")
            if match.lastgroup != "space":
                self.tokens.append(Token(match.lastgroup or "", match[0], line))
                if len(self.tokens) > TOKENS_MAX:
                    self._fail_at(line, f"more than {TOKENS_MAX:,} words and numbers")
            line += match[0].count("\n")
            start = match.end()
        self.tokens.append(Token("end", "", line))

    def _fail_at(self, line: int, found: str, limit: str = "") -> NoReturn:
        hint = "give a module of snn-mlir, as nirbridge lower --until snn-mlir writes it"
        raise FileError.of(f"{self.subject}, line {line}", found, limit, hint)

    def fail(self, found: str, limit: str = "") -> NoReturn:
        """Raises FileError that names the line of the token before."""
        self._fail_at(self.tokens[max(0, self.next - 1)].line, found, limit)

    @property
    def peek(self) -> Token:
        """The next token; it stays."""
        return self.tokens[self.next]

    def take(self, kind: str = "") -> Token:
        """The next token, of a kind where one is given."""
        token = self.tokens[self.next]
        self.next = min(self.next + 1, len(self.tokens) - 1)
        if kind and token.kind != kind:
            self._fail_at(token.line, f"{quoted(token.text or 'the end')}", f"a {kind} is expected")
        return token

    def accept(self, text: str) -> bool:
        """Takes the next token if it is this text."""
        if self.peek.text == text and self.peek.kind in ("mark", "word", "arrow"):
            self.take()
            return True
        return False

    def expect(self, text: str) -> None:
        """Takes the next token, which has to be this text."""
        if not self.accept(text):
            token = self.peek
            self._fail_at(token.line, f"{quoted(token.text or 'the end')}", f"{quoted(text)} is expected")

    def memory(self) -> Memory:
        """An array type of known extents."""
        text = self.take("memref").text
        match = _MEMREF.fullmatch(text)
        if match is None:
            self.fail(f"the type {quoted(text)}", "arrays of known extents without a layout are read")
        shape = tuple(int(n) for n in match[1].split("x")[:-1])
        if len(shape) > AXES_MAX:
            self.fail(f"an array of {len(shape)} axes", f"up to {AXES_MAX} are read")
        return Memory(shape, match[2])

    def declared(self) -> Memory:
        """The type of an array that begins here; its elements count."""
        memory = self.memory()
        self.elements += math.prod(memory.shape)
        if self.elements > ELEMENTS_MAX:
            found = f"an array of shape {memory.shape}, with those before {self.elements:,} elements"
            self.fail(found, f"up to {ELEMENTS_MAX:,} elements are read")
        return memory

    def number(self) -> float:
        """A decimal number."""
        text = self.take("number").text
        if len(text) > _LONGEST_NUMBER or "x" in text:
            self.fail(f"the number {quoted(text)}", "decimal numbers are read")
        return float(text)

    def integers(self) -> tuple[int, ...]:
        """The integers of ``array<i64: 1, 2>``."""
        text = self.take("array").text.partition(":")[2].rstrip(">")
        numbers = [word.strip() for word in text.split(",") if word.strip()]
        if not all(re.fullmatch(r"-?\d{1,12}", word, re.ASCII) for word in numbers):
            self.fail(f"the list {quoted(text)}", "integers are read")
        return tuple(map(int, numbers))
