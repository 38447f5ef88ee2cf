"""Passes as text, ``eliminate-dead,replicate-source{name=fc1,ways=2}``: options, parsed and printed.

A pipeline is pass names with commas between, each with options in braces where it has any that differ from their
defaults. A value is a word, a string in double quotes with the escapes of JSON, or a list of these in brackets. The
type of the option decides how a word is read: ``name=2`` is text for an option that is text. ``none``, ``true`` and
``false`` are words of their own. docs/passes.md has examples.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import MISSING, dataclass, fields, is_dataclass
from types import MappingProxyType, NoneType, UnionType
from typing import Any, Literal, NoReturn, Union, get_args, get_origin, get_type_hints

from nirbridge.errors import Bug, Diagnostic, UsageError, did_you_mean, quoted
from nirbridge.passes.base import REPORT, Pass

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


# -- options -------------------------------------------------------------------------------------------------------
# Options of a pass: the fields of its dataclass with their types, and their values as words of a text.


_BARE = re.compile(r"[A-Za-z0-9_.:/*+-]+")
_UNREADABLE: Any = object()


@dataclass(frozen=True, slots=True)
class Word:
    """One word of a text, or a quoted string, which is never a number, ``none``, ``true`` or ``false``."""

    text: str
    quoted: bool = False


Value = Word | tuple[Word, ...]
"""A value in text: a word or a list of words."""


@dataclass(frozen=True, slots=True)
class Option:
    """A field of a pass: its name, the types it takes, and its default (``MISSING``: required)."""

    name: str
    types: tuple[Any, ...]
    default: Any


def options_of(cls: Any) -> Mapping[str, Option]:
    """The options of a class of passes, in the order of its fields. Raises Bug: the class is not a pass."""
    if not _is_pass(cls):
        subject = f"pass {quoted(getattr(cls, 'pass_name', cls))}"
        raise Bug.of(subject, "it is not a frozen dataclass with a __call__", "a pass is one", REPORT)
    return _options_of(cls)


@functools.cache
def _options_of(cls: type) -> Mapping[str, Option]:
    try:
        hints = get_type_hints(cls)
    except NameError as error:
        found = f"a type of its fields is unknown ({error})"
        raise Bug.of(f"pass {quoted(vars(cls).get('pass_name'))}", found, "", REPORT) from error
    defaults = {
        f.name: f.default if f.default_factory is MISSING else f.default_factory() for f in fields(cls) if f.init
    }
    return MappingProxyType({name: Option(name, _types(hints[name]), value) for name, value in defaults.items()})


def _is_pass(cls: Any) -> bool:
    if not isinstance(cls, type) or not is_dataclass(cls) or not isinstance(getattr(cls, "pass_name", None), str):
        return False
    frozen = vars(cls)["__dataclass_params__"].frozen if "__dataclass_params__" in vars(cls) else False
    return frozen and any("__call__" in vars(base) for base in cls.__mro__)


def check_options(instance: Any) -> None:
    """Called by ``__post_init__`` of a pass: every option is of its type. Raises UsageError with all that are not."""
    UsageError.raise_all(
        _wrong_type(type(instance), option, repr(getattr(instance, option.name)))
        for option in options_of(type(instance)).values()
        if not any(_fits(getattr(instance, option.name), kind) for kind in option.types)
    )


def option_error(instance: Any, name: str, limit: str) -> UsageError:
    """The error of a pass that refuses the value of one of its options."""
    return UsageError.of(_subject(type(instance), name), repr(getattr(instance, name)), limit, "correct it")


def instance_of(cls: type, given: Mapping[str, Value]) -> Any:
    """An instance of a class of passes with options from text.

    Raises:
        UsageError: unknown options, missing ones and values of another type, each of them; or values that the pass
            refuses.
    """
    options = options_of(cls)
    values = {name: read(value, options[name].types) for name, value in given.items() if name in options}
    problems = [_unknown(cls, name, options) for name in given if name not in options]
    problems += [_wrong_type(cls, options[n], shown(given[n])) for n, v in values.items() if v is _UNREADABLE]
    missing = [option for option in options.values() if option.default is MISSING and option.name not in given]
    problems += [_missing(cls, option, options) for option in missing]
    UsageError.raise_all(problems)
    return cls(**values)


def changed_options(instance: Any) -> Iterator[tuple[str, Value]]:
    """The options of a pass that differ from their defaults, as values in text.

    Raises:
        UsageError: a value that has no form in text.
    """
    for option in options_of(type(instance)).values():
        value = getattr(instance, option.name)
        if option.default is MISSING or value != option.default:
            yield option.name, _written(type(instance), option, value)


# -- types and values ------------------------------------------------------------------------------------------------


def _types(hint: Any) -> tuple[Any, ...]:
    """The members of a union, the narrowest reading of a word first."""
    members = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
    ranks = [NoneType, bool, int, float, Literal, str, tuple]
    return tuple(sorted(members, key=lambda m: ranks.index(_origin(m)) if _origin(m) in ranks else len(ranks)))


def _origin(kind: Any) -> Any:
    return get_origin(kind) or kind


def _elements(kind: Any) -> tuple[Any, ...]:
    """The types of the elements of ``tuple[T, ...]``; none for other tuples, which have no form in text."""
    inner = get_args(kind)
    return _types(inner[0]) if len(inner) == 2 and inner[1] is Ellipsis else ()


def read(value: Value, types: tuple[Any, ...]) -> Any:
    """The value that a text stands for, of the first type that has one; an unreadable one is a marker of this file."""
    for kind in types:
        converted = _read_list(value, kind) if isinstance(value, tuple) else _read_word(value, kind)
        if converted is not _UNREADABLE:
            return converted
    return _UNREADABLE


def _read_list(value: tuple[Word, ...], kind: Any) -> Any:
    if _origin(kind) is not tuple:
        return _UNREADABLE
    elements = tuple(read(word, _elements(kind)) for word in value)
    return _UNREADABLE if any(each is _UNREADABLE for each in elements) or not _elements(kind) else elements


def _read_word(word: Word, kind: Any) -> Any:
    if kind is str:
        return word.text
    if _origin(kind) is Literal:
        return next((v for v in get_args(kind) if v == word.text), _UNREADABLE)
    if kind not in _READERS or word.quoted:
        return _UNREADABLE
    pattern, convert = _READERS[kind]
    return convert(word.text) if re.fullmatch(pattern, word.text) else _UNREADABLE


_READERS: Mapping[Any, tuple[re.Pattern[str], Callable[[str], Any]]] = {
    NoneType: (re.compile("none"), lambda text: None),
    bool: (re.compile("true|false"), lambda text: text == "true"),
    int: (re.compile(r"[+-]?[0-9]{1,4000}"), int),
    float: (re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)(e[+-]?[0-9]+)?|[+-]?inf|nan", re.IGNORECASE), float),
}


def _fits(value: object, kind: Any) -> bool:
    origin = _origin(kind)
    if origin is Literal:
        return any(value == choice and type(value) is type(choice) for choice in get_args(kind))
    if origin is tuple:
        return isinstance(value, tuple) and all(any(_fits(v, e) for e in _elements(kind) or (object,)) for v in value)
    if kind in (int, float):
        return isinstance(value, int | kind) and not isinstance(value, bool)
    return isinstance(value, origin) if isinstance(origin, type) else True


def _written(cls: type, option: Option, value: Any) -> Value:
    """The value as text, with strings unquoted if they are read back unchanged, else quoted."""
    for quote in (False, True):
        words = _words(value, quote=quote)
        if words is not None and read(words, option.types) == value:
            return words
    found = f"its value {quoted(repr(value))} has no form in text"
    raise UsageError.of(_subject(cls, option.name), found, "", "give the pass itself in place of a text")


def _words(value: Any, *, quote: bool) -> Value | None:
    if isinstance(value, str):
        return Word(value, quote or not _BARE.fullmatch(value))
    if value is None or isinstance(value, bool):
        return Word(str(value).lower())
    if isinstance(value, int | float):
        return Word(repr(int(value) if isinstance(value, int) else float(value)))
    if not isinstance(value, tuple):
        return None
    inner = [_words(v, quote=quote) for v in value]
    return tuple(w for w in inner if isinstance(w, Word)) if all(isinstance(w, Word) for w in inner) else None


# -- in words --------------------------------------------------------------------------------------------------------


def shown(value: Value) -> str:
    """A value in a message."""
    if isinstance(value, tuple):
        return "[" + ", ".join(shown(word) for word in value) + "]"
    return quoted(value.text)


def _subject(cls: Any, option: str) -> str:
    return f"option {quoted(option)} of pass {quoted(cls.pass_name)}"


def _unknown(cls: Any, name: str, options: Mapping[str, Option]) -> Diagnostic:
    limit = f"options: {', '.join(options)}" if options else "the pass has no options"
    return Diagnostic(_subject(cls, name), "unknown", limit, did_you_mean(name, options))


def _missing(cls: Any, option: Option, options: Mapping[str, Option]) -> Diagnostic:
    required = ",".join(f"{o.name}=…" for o in options.values() if o.default is MISSING)
    limit = f"the pass needs {' or '.join(map(_described, option.types))}"
    return Diagnostic(_subject(cls, option.name), "missing", limit, f"write {cls.pass_name}{{{required}}}")


def _wrong_type(cls: Any, option: Option, value: str) -> Diagnostic:
    found = f"{value if len(value) <= 80 else value[:79] + '…'} is not {' or '.join(map(_described, option.types))}"
    return Diagnostic(_subject(cls, option.name), found, "", "correct it")


def _described(kind: Any) -> str:
    if _origin(kind) is Literal:
        return f"one of {', '.join(map(str, get_args(kind)))}"
    if _origin(kind) is tuple:
        return f"a list of {' or '.join(map(_described, _elements(kind)))}"
    words = {NoneType: "none", bool: "true or false", int: "an integer", float: "a number", str: "text"}
    return words.get(kind, getattr(kind, "__name__", str(kind)))
