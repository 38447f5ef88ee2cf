"""Order and uniqueness of names: natural order ('2' before '10'), fresh names, and sentences that share a subject."""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Sequence
from itertools import chain, count

_DIGITS = re.compile(r"([0-9]+)")

NaturalKey = tuple[tuple[tuple[int, int, str], ...], str]


def natural_key(name: str) -> NaturalKey:
    """Sort key with numbers by value: ``'2' < '10'``, ``'fc2' < 'fc10'``; equal keys only for equal names."""
    parts: list[tuple[int, int, str]] = []
    for piece in _DIGITS.split(name):
        if piece.isascii() and piece.isdigit():
            digits = piece.lstrip("0")
            parts.append((0, len(digits), digits))  # by length, then digits: no int of a hostile thousand digits
        elif piece:
            parts.append((1, 0, piece))
    return tuple(parts), name


def fresh_name(name: str, taken: Container[str]) -> str:
    """``name``, or ``name_2``, ``name_3`` … whichever is not in ``taken``."""
    candidates = chain([name], (f"{name}_{number}" for number in count(2)))
    return next(candidate for candidate in candidates if candidate not in taken)


_NAMES_SHOWN = 4
_SUBJECT = re.compile(r"(node|population) ('(?:[^'\\]|\\.)*')(?: \(\w+\))?: (.*)", re.DOTALL)


def folded(sentences: Iterable[str]) -> list[str]:
    """Sentences that say the same of several nodes or populations as one: ``in 2 nodes ('a', 'b'): ...``."""
    groups: dict[tuple[str, str], list[tuple[str, str]]] = {}
    for sentence in sentences:
        match = _SUBJECT.fullmatch(sentence)
        key = (match[1], match[3]) if match else ("", sentence)
        groups.setdefault(key, []).append((match[2] if match else "", sentence))
    return [
        members[0][1] if len(members) == 1 or not noun else f"in {len(members):,} {noun}s ({_listed(members)}): {text}"
        for (noun, text), members in groups.items()
    ]


def _listed(members: Sequence[tuple[str, str]]) -> str:
    names = sorted((name for name, _ in members), key=lambda name: natural_key(name[1:-1]))
    more = f" and {len(names) - _NAMES_SHOWN:,} more" if len(names) > _NAMES_SHOWN else ""
    return ", ".join(names[:_NAMES_SHOWN]) + more
