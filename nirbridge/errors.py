"""Every exception of nirbridge: one base, one form of message.

A message says *thing: found, limit; next step*, for example
``population 'fc1', slice [0:900]: 5,120 input axons, a loihi1 core holds 4,096; split the source``.
Names from a user's file are shown with ``quoted``, so that a newline or an escape sequence in a name can not
forge a message.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Self, TypeVar

T = TypeVar("T")

_COMPARED = 100
"""Characters of a name that are compared with others: the work grows with their square."""


def quoted(name: object, limit: int = 80) -> str:
    """A name from a file, safe to print: quoted, escaped, at most ``limit`` characters."""
    text = str(name)
    if len(text) > limit:
        text = text[: limit - 1] + "…"
    if not text.isprintable():
        text = "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)
    return "'" + text.replace("\\'", "'").replace("'", "\\'") + "'"


def nearest(name: object, names: Iterable[object], most: int = 1) -> list[str]:
    """Up to ``most`` of ``names`` that are spelt nearly as ``name``, the nearest first; none where none is near."""
    import difflib

    known = sorted({str(each) for each in names})
    return difflib.get_close_matches(str(name)[:_COMPARED], known, n=most, cutoff=0.5)


def did_you_mean(name: object, names: Iterable[object]) -> str:
    """The hint that names the nearest of ``names``; empty where none is near."""
    near = nearest(name, names)
    return f"did you mean {quoted(near[0])}?" if near else ""


def counted(count: float, noun: str, plural: str = "") -> str:
    """A number with its noun: ``1 neuron``, ``2,000 neurons``, ``2 axes`` (with ``plural="axes"``)."""
    return f"{count:,} {noun if count == 1 else plural or noun + 's'}"


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """One thing that is wrong, in the four parts that every message has.

    ``ids`` keeps what the message speaks of (node, population, core …) for programs.
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
        return text


class NirbridgeError(Exception):
    """Base of every error that nirbridge raises on purpose; ``problems`` lists all that was found.

    ``exit_code`` is what the command line returns for it (contracts: 1 the model can not do what was asked,
    2 wrong usage or unreadable input, 3 a bug of ours).
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
    """A command, option or argument that makes no sense."""

    exit_code = 2


class FileError(NirbridgeError):
    """A file that can not be read or written: corrupt, hostile, too large, of the wrong form."""

    exit_code = 2


class ChipError(NirbridgeError):
    """A chip description that is incomplete, contradictory or unknown."""

    exit_code = 2


class ModelError(NirbridgeError):
    """A model that is readable but has no exact meaning here (unsupported node, remainder of a delay …)."""


class UnequalImport(NirbridgeError):
    """An import that does not compute the same as the module it was made of; the problem says where they differ."""


class DoesNotFit(NirbridgeError):
    """A model that no map onto this chip exists for, or none was found; the problems say which of the two."""


class IllegalMapping(NirbridgeError):
    """A mapping that breaks a limit of the chip or does not cover the network; every violation is listed."""


class NotConforming(NirbridgeError):
    """An object that does not keep to the Protocol of its kind of plugin; every fault is listed."""


class Bug(NirbridgeError):
    """An inner contradiction of nirbridge: please report it."""

    exit_code = 3


class ExportWarning(UserWarning):
    """A graph that an importer made means something else to other tools that read NIR; the message names them."""


class ExporterFaultWarning(UserWarning):
    """A NIR file shows a known fault of the framework that wrote it; the message says which, and what mends it."""


def instance_of(value: object, kind: type[T] | tuple[type[T], ...], subject: str, hint: str = "") -> T:
    """``value`` where it is of a type, or of one of several.

    Raises:
        UsageError: it is of another type; ``subject`` says what it is an argument of.
    """
    if isinstance(value, kind):
        return value
    kinds = kind if isinstance(kind, tuple) else (kind,)
    expected = " or ".join(each.__name__ for each in kinds)
    raise UsageError.of(subject, f"is of type {type(value).__name__}", f"expected {expected}", hint)
