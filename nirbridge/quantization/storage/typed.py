"""Values from a file against the types that a dataclass declares: nothing else reaches the rest of the program."""

from __future__ import annotations

import math
import types
from collections.abc import Mapping
from dataclasses import is_dataclass
from functools import cache
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import numpy as np

WHOLE_MAX = 2**53
"""Whole numbers beyond are none that a network has."""


@cache
def hints_of(kind: type) -> Mapping[str, Any]:
    """The declared types of a dataclass by field."""
    return get_type_hints(kind)


def fits(value: Any, hint: Any) -> bool:
    """True if a value is of a declared type; numbers are finite and not too large, strings are no numbers."""
    origin, inner = get_origin(hint), get_args(hint)
    if hint is Any or hint is type(None):
        return hint is Any or value is None
    if origin in (Union, types.UnionType):
        return any(fits(value, one) for one in inner)
    if origin is Literal:
        return isinstance(value, str) and value in inner
    if origin is tuple:
        return isinstance(value, tuple) and _fits_each(value, inner)
    if isinstance(origin or hint, type) and issubclass(origin or hint, Mapping):
        return isinstance(value, Mapping)
    return _fits_plain(value, origin or hint)


def _fits_each(values: tuple[Any, ...], inner: tuple[Any, ...]) -> bool:
    if len(inner) == 2 and inner[1] is Ellipsis:
        return all(fits(value, inner[0]) for value in values)
    return len(values) == len(inner) and all(fits(v, one) for v, one in zip(values, inner, strict=True))


def _fits_plain(value: Any, hint: Any) -> bool:
    if isinstance(hint, type) and (hint in (bool, str, np.ndarray) or is_dataclass(hint)):
        return isinstance(value, hint)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    if hint is int:
        return isinstance(value, int) and abs(value) <= WHOLE_MAX
    return hint is float and (math.isfinite(value) if isinstance(value, float) else abs(value) <= WHOLE_MAX)
