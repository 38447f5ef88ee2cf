"""Differences of two documents, name by name."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from nirbridge.errors import quoted


@dataclass(frozen=True, slots=True)
class Difference:
    """One difference: the dotted name, and the value on either side (None: absent)."""

    name: str
    a: Any
    b: Any

    def __str__(self) -> str:
        return f"{_printable(self.name)}: {_text(self.a)} / {_text(self.b)}"


def flat(document: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Every value of a document that is not a container, with its dotted name; parts of lists go by their own names."""
    if isinstance(document, Mapping):
        for key in document:
            yield from flat(document[key], f"{prefix}.{key}" if prefix else str(key))
    elif isinstance(document, list | tuple) and any(isinstance(each, Mapping) for each in document):
        counts = Counter[str]()
        for position, part in enumerate(document):
            name = _name(part, position)
            counts[name] += 1
            repeated = f" ({counts[name]})" if counts[name] > 1 else ""
            yield from flat(part, f"{prefix} {quoted(name)}{repeated}")
    else:
        yield prefix, list(document) if isinstance(document, tuple) else document


def flat_differences(a: Mapping[str, Any], b: Mapping[str, Any]) -> Iterator[Difference]:
    """Names that only one side has, or whose values differ, in the order of the first."""
    for name in dict.fromkeys((*a, *b)):
        x, y = a.get(name), b.get(name)
        if name not in a or name not in b or not _same(x, y):
            yield Difference(name, x, y)


def _name(each: Any, position: int) -> str:
    if isinstance(each, Mapping):
        if "name" in each:
            return str(each["name"])
        if "source" in each and "target" in each:
            return f"{each['source']} -> {each['target']}"
    return str(position)


def _same(x: Any, y: Any) -> bool:
    if hasattr(x, "tobytes") and hasattr(y, "tobytes"):
        return x.dtype == y.dtype and x.shape == y.shape and x.tobytes() == y.tobytes()
    return type(x) is type(y) and x == y


def _text(value: Any) -> str:
    if value is None:
        return "none"
    if isinstance(value, float):
        return f"{value:.9g}"
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    return _printable(str(value))


def _printable(text: str, limit: int = 400) -> str:
    """Text that may hold names from a file, on one line."""
    shown = text if len(text) <= limit else f"{text[:limit]} and {len(text) - limit:,} characters more"
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in shown)
