"""Pipelines of passes as text, ``eliminate-dead,replicate-source{name=fc1,ways=2}``: parsed and printed.

A pipeline is pass names with commas between, each with options in braces where it has any that differ from their
defaults. A value is a word, a string in double quotes with the escapes of JSON, or a list of these in brackets. The
type of the option decides how a word is read: ``name=2`` is text for an option that is text. ``none``, ``true`` and
``false`` are words of their own. docs/passes.md has examples.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, NoReturn

from nirbridge.errors import UsageError, quoted
from nirbridge.passes.base import Pass
from nirbridge.passes.options import Value, Word, changed_options, instance_of

EXAMPLE = "eliminate-dead,replicate-source{name=fc1,ways=2}"
_TOKEN = re.compile(
    r'(?P<mark>[,{}\[\]=])|(?P<string>"(?:[^"\\]|\\.)*")|(?P<word>[^\s,{}\[\]="]+)|(?P<open>")', re.DOTALL
)


def parse_passes(text: str, find: Callable[[str], type[Pass]]) -> tuple[Pass, ...]:
    """The passes of a text, in order; ``find`` gives the class of a name.

    Raises:
        UsageError: text that is not of this form, options that a pass does not take; errors of ``find`` for a name.
    """
    reader = _Reader(text, _tokens(text))
    named: list[tuple[str, dict[str, Value]]] = []
    while reader.left:
        if named:
            reader.mark(",")
        named.append((reader.word("a pass"), _options(reader)))
    return tuple(instance_of(find(name), options) for name, options in named)


def format_passes(pipeline: Iterable[Pass]) -> str:
    """The text of passes, which ``parse_passes`` reads back as equal passes.

    Raises:
        UsageError: an option whose value has no form in text.
    """
    return ",".join(_pass_text(p) for p in pipeline)


def _pass_text(rewrite: Pass) -> str:
    options = ",".join(f"{name}={_value_text(value)}" for name, value in changed_options(rewrite))
    return f"{rewrite.pass_name}{{{options}}}" if options else rewrite.pass_name


def _value_text(value: Value) -> str:
    if isinstance(value, tuple):
        return f"[{','.join(map(_value_text, value))}]"
    return json.dumps(value.text, ensure_ascii=not value.text.isprintable()) if value.quoted else value.text


def _tokens(text: str) -> list[re.Match[str]]:
    tokens = list(_TOKEN.finditer(text))  # white space between tokens is skipped
    unended = next((token for token in tokens if token.lastgroup == "open"), None)
    if unended is not None:
        _refuse(text, unended.start(), 'a string that does not end with "')
    return tokens


def _options(reader: _Reader) -> dict[str, Value]:
    values: dict[str, Value] = {}
    if not reader.take("{"):
        return values
    while not reader.take("}"):
        if values:
            reader.mark(",")
        place = reader.place
        name = reader.word("an option")
        if name in values:
            _refuse(reader.text, place, f"option {quoted(name)} a second time")
        reader.mark("=")
        values[name] = reader.value()
    return values


@dataclass(slots=True)
class _Reader:
    """The tokens of a text that are left to read."""

    text: str
    tokens: list[re.Match[str]]
    position: int = 0

    @property
    def left(self) -> bool:
        """Whether any token is left."""
        return self.position < len(self.tokens)

    @property
    def place(self) -> int:
        """Where the next token begins, or the text ends."""
        return self.tokens[self.position].start() if self.left else len(self.text)

    def take(self, mark: str) -> bool:
        """Step over ``mark`` if it comes next."""
        if self.left and self.tokens[self.position].group() == mark:
            self.position += 1
            return True
        return False

    def mark(self, mark: str) -> None:
        """Step over ``mark``, which has to come next."""
        if not self.take(mark):
            self.fail(f"'{mark}'")

    def word(self, expected: str) -> str:
        """The word that comes next."""
        if not self.left or self.tokens[self.position].lastgroup != "word":
            self.fail(expected)
        self.position += 1
        return self.tokens[self.position - 1].group()

    def value(self) -> Value:
        """The word, string or list that comes next."""
        if not self.take("["):
            return self.scalar()
        words: list[Word] = []
        while not self.take("]"):
            if words:
                self.mark(",")
            words.append(self.scalar())
        return tuple(words)

    def scalar(self) -> Word:
        """The word or string that comes next."""
        if not self.left or self.tokens[self.position].lastgroup != "string":
            return Word(self.word("a value"))
        token = self.tokens[self.position]
        self.position += 1
        try:
            return Word(json.loads(token.group(), strict=False), quoted=True)
        except ValueError:
            _refuse(self.text, token.start(), "a string with an escape that JSON does not have")

    def fail(self, expected: str) -> NoReturn:
        """Raises UsageError: ``expected`` does not come next."""
        found = quoted(self.tokens[self.position].group()) if self.left else "the end"
        shell = self.left and self.tokens[self.position].group() == "=" and "{" not in self.text
        hint = "put the text into single quotes, since a shell expands braces" if shell else ""
        _refuse(self.text, self.place, f"{found} where {expected} is expected", hint)


def _refuse(text: str, place: int, found: str, hint: str = "") -> NoReturn:
    ids: dict[str, Any] = {"character": place + 1}
    subject = f"passes {quoted(text)}"
    raise UsageError.of(subject, f"character {place + 1:,} is {found}", f"as in {EXAMPLE}", hint, **ids)
