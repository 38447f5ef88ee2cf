"""Values as a JSON record and a table of arrays, and back, by the types that their dataclasses declare.

Values from a file are held to these types: nothing else reaches the rest of the program.
"""

from __future__ import annotations

import hashlib
import math
import types
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from types import MappingProxyType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import numpy as np

from nirbridge.arrays import Array, freeze, stored_part
from nirbridge.errors import ModelError, quoted
from nirbridge.network.neurons import EXTRAS
from nirbridge.network.operators import Chain, Conv, Dense, Identity, Operator, Reshape, Scale, Sparse, SumPool

OPERATORS = {kind.__name__: kind for kind in (Identity, Scale, Dense, Sparse, Conv, SumPool, Reshape)}
_ARRAY, _SHAPE = "array", "shape"
_NOUNS = {int: "a whole number", float: "a finite number", str: "a text", bool: "true or false", list: "a list",
          Mapping: "an object"}  # fmt: skip
WHOLE_MAX = 2**53
"""Largest magnitude of a whole number in a file."""


class ValueEncoder:
    """Collects the arrays of a record; equal ones are stored once.

    ``repeats``: of an axis that repeats one value in memory, that value alone is stored.
    """

    def __init__(self, *, repeats: bool = False) -> None:
        self.arrays: dict[str, Array] = {}
        self._repeats = repeats
        self._names: dict[tuple[str, tuple[int, ...], bytes], str] = {}

    def plain(self, value: Any) -> Any:
        """A value as JSON: arrays become ``{"array": name}``, tuples lists, mappings and dataclasses objects.

        An operator also names its kind; it comes last among the fields of a projection, which numbers the arrays.
        """
        if isinstance(value, np.ndarray):
            return self._array(value)
        if isinstance(value, np.generic):
            return value.item()
        if isinstance(value, Mapping):
            return {str(k): self.plain(v) for k, v in value.items()}
        if isinstance(value, list | tuple):
            return [self.plain(v) for v in value]
        if is_dataclass(value):
            kind = {"kind": type(value).__name__} if isinstance(value, Operator) else {}
            names = sorted((f.name for f in fields(value)), key=lambda name: name == "operator")
            stored = {name: getattr(value, name) for name in names}
            return kind | {k: self.plain(v) for k, v in stored.items() if v is not None or k not in EXTRAS}
        return value

    def _array(self, value: Array) -> dict[str, Any]:
        stored = stored_part(value) if self._repeats else value
        whole = np.ascontiguousarray(stored, stored.dtype.newbyteorder("=")).reshape(stored.shape)
        key = (whole.dtype.str, whole.shape, hashlib.sha256(np.ascontiguousarray(whole).data).digest())
        name = self._names.setdefault(key, f"a{len(self._names)}")
        self.arrays[name] = whole
        return {_ARRAY: name} if stored.shape == value.shape else {_ARRAY: name, _SHAPE: list(value.shape)}


class ValueDecoder:
    """Builds values from a record; raises KeyError, TypeError or ValueError where it is not one.

    ``repeats_max``: bytes that arrays may have in all whose values are repeated along an axis; no memory is taken.
    ``used``: names of the arrays that the record has named so far.
    """

    def __init__(self, arrays: Mapping[str, Array], *, repeats_max: int = 0) -> None:
        self.arrays = arrays
        self.used: set[str] = set()
        self._left = repeats_max

    def value(self, value: Any, hint: Any) -> Any:
        """A field of a declared type: dataclasses and operators built, arrays looked up, lists as tuples."""
        members = get_args(hint)
        if Dense in members:
            return self.operator(value)
        records = [hint] if is_dataclass(hint) else [m for m in members if is_dataclass(m) and isinstance(value, dict)]
        if records:
            return self.parts(records[0], value)
        if isinstance(value, list):
            return tuple(self.value(v, members[0] if members else Any) for v in value)
        if isinstance(value, dict) and get_origin(hint) is Mapping:
            return MappingProxyType(dict(value))
        names_array = isinstance(value, dict) and set(value) in ({_ARRAY}, {_ARRAY, _SHAPE})
        return self._array(**value) if names_array else value

    def _array(self, array: str, shape: Any = None) -> Array:
        """An array of the archive, uncopied where it is read-only; with ``shape``, its values repeated."""
        stored = self.arrays[array]
        self.used.add(array)
        kept = stored if stored.flags.c_contiguous and not stored.flags.writeable else freeze(stored)
        if shape is None:
            return kept
        sizes = tuple(shape)
        if not all(fits(size, int) and size >= 0 for size in sizes):
            raise ValueError(f"array {array!r} is repeated to no shape")
        self._left -= math.prod(sizes) * kept.itemsize
        if self._left < 0:
            hint = "raise --max-bytes, or cut it"
            raise ModelError.of(f"array {quoted(array)}", "declares more bytes than are read", "", hint)
        return np.broadcast_to(kept, sizes)

    def parts(self, kind: Any, record: Mapping[str, Any], **more: Any) -> Any:
        """A dataclass from its fields, all of them and no others."""
        hints = hints_of(kind)
        given = record if isinstance(record, Mapping) else {}
        more = {**{name: None for name in EXTRAS if name in hints and name not in given}, **more}
        if others := sorted((set(given) | set(more)) ^ set(hints)):
            raise ValueError(f"{kind.__name__} has other fields: {others[0]!r} is missing or unknown")
        values = {**{k: self.value(v, hints[k]) for k, v in given.items() if k not in more}, **more}
        wrong = [name for name, hint in hints.items() if not fits(values[name], hint)]
        if wrong:
            raise ValueError(f"{kind.__name__}.{wrong[0]} is of another type")
        return kind(**values)

    def operator(self, record: Mapping[str, Any]) -> Operator:
        """An operator."""
        rest = {k: v for k, v in record.items() if k != "kind"}
        if record["kind"] != "Chain":
            return self.parts(OPERATORS[record["kind"]], rest)
        parts = tuple(self.operator(part) for part in rest["parts"])
        if any(isinstance(part, Chain) for part in parts) or len(parts) < 2:
            raise ValueError("a chain of chains")
        return Chain(parts)


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
        return any(fits(value, member) for member in inner)
    if origin is Literal:
        return isinstance(value, str) and value in inner
    if origin is list:
        return isinstance(value, list) and all(fits(each, inner[0]) for each in value)
    if origin is tuple:
        return isinstance(value, tuple) and _fits_each(value, inner)
    if isinstance(origin or hint, type) and issubclass(origin or hint, Mapping):
        return isinstance(value, Mapping)
    return fits_plain(value, origin or hint)


def check_fields(record: Any, hints: Mapping[str, Any], subject: str) -> None:
    """Raise ModelError for a field of a JSON object that is of another type than its hint; other fields may be there.

    A field may be absent where its hint allows None.
    """
    given = record if isinstance(record, Mapping) else {}
    for name, hint in hints.items():
        if not fits(given.get(name), hint):
            found = "is of another type" if name in given else "is missing"
            raise ModelError.of(f"{subject}, {name}", found, f"expected {_words(hint)}")


def _words(hint: Any) -> str:
    """A declared type in a message."""
    members = [_NOUNS.get(get_origin(each) or each, "") for each in (get_args(hint) or (hint,))]
    return (
        " or ".join(dict.fromkeys(filter(None, members)))
        if get_origin(hint) in (Union, types.UnionType)
        else (_NOUNS.get(get_origin(hint) or hint, "another one"))
    )


def _fits_each(values: tuple[Any, ...], inner: tuple[Any, ...]) -> bool:
    if len(inner) == 2 and inner[1] is Ellipsis:
        return all(fits(value, inner[0]) for value in values)
    return len(values) == len(inner) and all(fits(v, hint) for v, hint in zip(values, inner, strict=True))


def fits_plain(value: Any, hint: Any) -> bool:
    """``fits`` of a type that is not made of others."""
    if isinstance(hint, type) and (hint in (bool, str, np.ndarray) or is_dataclass(hint)):
        return isinstance(value, hint)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    if hint is int:
        return isinstance(value, int) and abs(value) <= WHOLE_MAX
    return hint is float and (math.isfinite(value) if isinstance(value, float) else abs(value) <= WHOLE_MAX)
