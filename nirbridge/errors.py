"""Every exception of nirbridge: one base, one form of message.

A message reads *subject: found, limit; hint*, for example
``population 'fc1', slice [0:900]: 5,120 input axons, a loihi1 core holds 4,096; split the source``.
Names from a user's file are shown with ``quoted``, so that a newline or an escape sequence in a name cannot
forge a message.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, Self, TypeVar

T = TypeVar("T")

_CHARACTERS = 8000
"""Most characters of a line: the log of a program is the longest part."""
_COMPARED = 100
"""Characters of a name that are compared with others: the work grows with their square."""


def quoted(name: object, limit: int = 80) -> str:
    """A name from a file, safe to print: quoted, escaped, at most ``limit`` characters."""
    text = str(name)
    if len(text) > limit:
        text = text[: limit - 1] + "…"
    text = printable(text).replace("\n", "\\n")
    return "'" + text.replace("\\'", "'").replace("'", "\\'") + "'"


def printable(text: str, limit: int = _CHARACTERS) -> str:
    """A text that may hold anything, safe to print: escaped but for its lines, at most ``limit`` characters."""
    if len(text) > limit:
        text = f"{text[:limit]}… ({len(text) - limit:,} more characters)"
    if not text.isprintable():
        text = "".join(c if c.isprintable() or c == "\n" else c.encode("unicode_escape").decode("ascii") for c in text)
    return text


def nearest(name: object, names: Iterable[object], most: int = 1) -> list[str]:
    """Up to ``most`` of ``names`` that are spelt similarly to ``name``, the nearest first."""
    import difflib

    known = sorted({str(each) for each in names})
    return difflib.get_close_matches(str(name)[:_COMPARED], known, n=most, cutoff=0.5)


def did_you_mean(name: object, names: Iterable[object]) -> str:
    """The hint that names the nearest of ``names``; empty where none is near."""
    near = nearest(name, names)
    return f"did you mean {quoted(near[0])}?" if near else ""


def type_text(value: object) -> str:
    """The type of a value with its article: ``an int``, ``a list``."""
    name = type(value).__name__
    return f"{'an' if name[0].lower() in 'aeio' or name == 'ndarray' else 'a'} {name}"


def counted(count: float, noun: str, plural: str = "") -> str:
    """A number with its noun: ``1 neuron``, ``2,000 neurons``, ``2 axes`` (with ``plural="axes"``)."""
    return f"{count:,} {noun if count == 1 else plural or noun + 's'}"


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """One problem, in the four parts that every message has.

    ``ids`` names the objects of the message (node, population, core …) for programs.
    """

    subject: str
    found: str
    limit: str = ""
    hint: str = ""
    ids: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))

    def __str__(self) -> str:
        text = f"{self.subject}: {self.found}"
        if self.limit:
            text += f", {self.limit}"
        if self.hint:
            text += f"; {self.hint}"
        return printable(text)


def without_option(problem: Diagnostic) -> Diagnostic:
    """The problem of an option of the command line in words, for a table that Python and the command line share."""
    option, rest = problem.subject.partition(" ")[::2]
    words = option[2:].replace("-", " ") if option.startswith("--") else option
    return replace(problem, subject=f"{words} {rest}".rstrip())


class NirbridgeError(Exception):
    """Base of every error that nirbridge raises on purpose; ``problems`` lists all of them.

    ``exit_code`` is the exit status of the command line: 1 for a model that does not allow the operation, 2 for wrong
    usage or unreadable input, 3 for a bug of nirbridge.
    """

    exit_code = 1

    def __init__(self, *problems: Diagnostic) -> None:
        self.problems: tuple[Diagnostic, ...] = tuple(problems)
        super().__init__("\n".join(str(p) for p in self.problems))

    @classmethod
    def of(cls, subject: str, found: str, limit: str = "", hint: str = "", **ids: Any) -> Self:
        """The error with one problem."""
        return cls(Diagnostic(subject, found, limit, hint, MappingProxyType(ids)))

    @classmethod
    def raise_all(cls, problems: Iterable[Diagnostic]) -> None:
        """Raise the error with every problem of ``problems``; do nothing where there is none."""
        listed = tuple(problems)
        if listed:
            raise cls(*listed)


class UsageError(NirbridgeError):
    """An invalid command, option or argument."""

    exit_code = 2


class ToolMissing(UsageError):
    """The tool that runs a program is not installed; the hint has the command that installs it."""


class FileError(NirbridgeError):
    """A file that cannot be read or written: corrupt, hostile, too large, of the wrong form."""

    exit_code = 2


class ChipError(NirbridgeError):
    """A chip description that is incomplete, contradictory or unknown."""

    exit_code = 2


class ModelError(NirbridgeError):
    """A readable model without exact semantics in nirbridge (unsupported node, remainder of a delay …)."""


class UnequalImport(NirbridgeError):
    """An import that differs from the module it was made from; the problem says where they differ first."""


class DoesNotFit(NirbridgeError):
    """No mapping onto this chip exists, or none was found; ``problems`` says which."""


class IllegalMapping(NirbridgeError):
    """A mapping that violates a limit of the chip or does not cover the network; every violation is listed."""


class NotConforming(NirbridgeError):
    """An object that does not keep to the Protocol of its kind of plugin; every fault is listed."""


class Bug(NirbridgeError):
    """An internal contradiction of nirbridge: please report it."""

    exit_code = 3


class ExportWarning(UserWarning):
    """A graph that is saved as NIR and holds more than plain NIR can express, which other tools drop; it says what."""


class ExporterFaultWarning(UserWarning):
    """A NIR file with a known fault of the framework that wrote it; the message names the fault and its repair."""


def instance_of(value: object, kind: type[T] | tuple[type[T], ...], subject: str, hint: str = "") -> T:
    """``value`` where it is of a type, or of one of several.

    Raises:
        UsageError: it is of another type; ``subject`` names the argument.
    """
    if isinstance(value, kind):
        return value
    kinds = kind if isinstance(kind, tuple) else (kind,)
    expected = " or ".join(each.__name__ for each in kinds)
    raise UsageError.of(subject, f"is of type {type(value).__name__}", f"expected {expected}", hint)
