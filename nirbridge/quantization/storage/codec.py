"""A quantized network as a JSON record and a table of arrays, and back (docs/reference/quantized-file.md).

Values from a file against the types that a dataclass declares: nothing else reaches the rest of the program.
"""

from __future__ import annotations

import math
import types
from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from functools import cache
from types import MappingProxyType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import numpy as np

from nirbridge.arrays import Array, freeze
from nirbridge.network.operators import Chain, Conv, Dense, Identity, Operator, Reshape, Scale, Sparse, SumPool
from nirbridge.quantization.model import FixedNeuron, QuantizedNetwork

OPERATORS = {kind.__name__: kind for kind in (Identity, Scale, Dense, Sparse, Conv, SumPool, Reshape)}
_ARRAY = "array"
STORED = tuple(f.name for f in fields(QuantizedNetwork) if f.name not in ("network", "early"))
"""The fields of a quantized network that its file holds."""


class QuantizedEncoder:
    """Collects the arrays of a record; equal ones are stored once."""

    def __init__(self) -> None:
        self.arrays: dict[str, Array] = {}
        self._names: dict[tuple[str, tuple[int, ...], bytes], str] = {}

    def plain(self, value: Any) -> Any:
        """A value as JSON: arrays become ``{"array": name}``, tuples lists, mappings and dataclasses objects.

        An operator also names its kind; it comes last among the fields of a projection, which numbers the arrays.
        """
        if isinstance(value, np.ndarray):
            key = (value.dtype.str, value.shape, np.ascontiguousarray(value).tobytes())
            name = self._names.setdefault(key, f"a{len(self._names)}")
            self.arrays[name] = np.ascontiguousarray(value).reshape(value.shape)
            return {_ARRAY: name}
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
            # files of networks without a floor stay as they were before there was one
            return kind | {k: self.plain(v) for k, v in stored.items() if v is not None or k != "v_min"}
        return value


def quantized_to_dict(q: QuantizedNetwork) -> tuple[dict[str, Any], dict[str, Array]]:
    """(JSON record, arrays by name) of a quantized network; ``network`` and ``early`` are left out."""
    encoder = QuantizedEncoder()
    return {name: encoder.plain(getattr(q, name)) for name in STORED}, encoder.arrays


class QuantizedDecoder:
    """Builds values from a record; raises KeyError, TypeError or ValueError where it is not one."""

    def __init__(self, arrays: Mapping[str, Array]) -> None:
        self.arrays = arrays

    def value(self, value: Any, hint: Any) -> Any:
        """A field of a declared type: dataclasses and operators built, arrays looked up, lists as tuples."""
        members = get_args(hint)
        if Dense in members:
            return self.operator(value)
        if is_dataclass(hint):
            return self.parts(hint, value)
        if isinstance(value, list):
            return tuple(self.value(v, members[0] if members else Any) for v in value)
        if isinstance(value, dict) and get_origin(hint) is Mapping:
            return MappingProxyType(dict(value))
        return freeze(self.arrays[value[_ARRAY]]) if isinstance(value, dict) and set(value) == {_ARRAY} else value

    def parts(self, kind: Any, record: Mapping[str, Any], **more: Any) -> Any:
        """A dataclass from its fields, all of them and no others."""
        hints = hints_of(kind)
        more = {"v_min": None, **more} if kind is FixedNeuron and "v_min" not in record else more
        if not isinstance(record, Mapping) or set(record) | set(more) != set(hints):
            raise ValueError(f"{kind.__name__} has other fields")
        values = {**{k: self.value(v, hints[k]) for k, v in record.items() if k not in more}, **more}
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


def quantized_from_dict(record: Mapping[str, Any], arrays: Mapping[str, Array]) -> QuantizedNetwork:
    """The quantized network of a record. Raises KeyError, TypeError, ValueError for anything else."""
    notes = tuple(map(str, record["notes"]))
    stored = {name: record[name] for name in STORED}
    quantized = QuantizedDecoder(arrays).parts(QuantizedNetwork, stored, notes=notes, network=None, early=())
    if not all(fits(step, int) and step >= 0 for step in quantized.latency.values()):
        raise ValueError("latency counts steps")
    return replace(quantized, dt=float(quantized.dt))


WHOLE_MAX = 2**53
"""Largest magnitude of a whole number in a file."""


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
    if origin is tuple:
        return isinstance(value, tuple) and _fits_each(value, inner)
    if isinstance(origin or hint, type) and issubclass(origin or hint, Mapping):
        return isinstance(value, Mapping)
    return _fits_plain(value, origin or hint)


def _fits_each(values: tuple[Any, ...], inner: tuple[Any, ...]) -> bool:
    if len(inner) == 2 and inner[1] is Ellipsis:
        return all(fits(value, inner[0]) for value in values)
    return len(values) == len(inner) and all(fits(v, hint) for v, hint in zip(values, inner, strict=True))


def _fits_plain(value: Any, hint: Any) -> bool:
    if isinstance(hint, type) and (hint in (bool, str, np.ndarray) or is_dataclass(hint)):
        return isinstance(value, hint)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    if hint is int:
        return isinstance(value, int) and abs(value) <= WHOLE_MAX
    return hint is float and (math.isfinite(value) if isinstance(value, float) else abs(value) <= WHOLE_MAX)
