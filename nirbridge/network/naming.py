"""Order and uniqueness of names: natural order ('2' before '10') and fresh names."""

from __future__ import annotations

import re
from collections.abc import Container
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
