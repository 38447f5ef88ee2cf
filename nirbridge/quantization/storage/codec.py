"""A quantized network as a JSON record and a table of arrays, and back (docs/reference/quantized-file.md).

Values from a file against the types that a dataclass declares: nothing else reaches the rest of the program.
"""

from __future__ import annotations

import math
import types
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from types import MappingProxyType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import numpy as np

from nirbridge.arrays import Array, freeze
from nirbridge.network.model import Port, Projection
from nirbridge.network.operators import Chain, Conv, Dense, Identity, Operator, Reshape, Scale, Sparse, SumPool
from nirbridge.quantization.model import (
    AccumulatorBounds,
    FixedInput,
    FixedNeuron,
    FixedPopulation,
    FixedProjection,
    LayerReport,
    QuantizedNetwork,
    VBound,
)

OPERATORS = {kind.__name__: kind for kind in (Identity, Scale, Dense, Sparse, Conv, SumPool, Reshape)}
_ARRAY = "array"


class QuantizedEncoder:
    """Collects the arrays of a record; equal ones are stored once."""

    def __init__(self) -> None:
        self.arrays: dict[str, Array] = {}
        self._known: dict[tuple[str, tuple[int, ...], bytes], str] = {}

    def plain(self, value: Any) -> Any:
        """A field as JSON: arrays become ``{"array": name}``, tuples and mappings lists and objects."""
        if isinstance(value, np.ndarray):
            key = (value.dtype.str, value.shape, np.ascontiguousarray(value).tobytes())
            name = self._known.setdefault(key, f"a{len(self._known)}")
            self.arrays[name] = np.ascontiguousarray(value).reshape(value.shape)
            return {_ARRAY: name}
        if isinstance(value, np.generic):
            return value.item()
        if isinstance(value, Mapping):
            return {str(k): self.plain(v) for k, v in value.items()}
        if isinstance(value, list | tuple):
            return [self.plain(v) for v in value]
        return value

    def parts(self, subject: Any) -> dict[str, Any]:
        """Every field of a dataclass."""
        return {f.name: self.plain(getattr(subject, f.name)) for f in fields(subject)}

    def operator(self, operator: Operator) -> dict[str, Any]:
        """An operator: its kind and fields."""
        if isinstance(operator, Chain):
            return {"kind": "Chain", "parts": [self.operator(part) for part in operator.parts]}
        return {"kind": type(operator).__name__, **self.parts(operator)}


def quantized_to_dict(q: QuantizedNetwork) -> tuple[dict[str, Any], dict[str, Array]]:
    """(JSON record, arrays by name) of a quantized network; ``network`` is left out."""
    w = QuantizedEncoder()
    record = {
        "chip": q.chip,
        "dt": q.dt,
        "populations": [
            {"name": p.name, "shape": list(p.shape), "process": p.process, "neuron": w.parts(p.neuron)}
            for p in q.populations
        ],
        "projections": [{**_wired(w, p), "operator": w.operator(p.operator)} for p in q.projections],
        "inputs": [w.parts(p) for p in q.inputs],
        "outputs": [w.parts(p) for p in q.outputs],
        "reads": [{**_wired(w, p), "operator": w.operator(p.operator)} for p in q.reads],
        "latency": dict(q.latency),
        "formats": w.plain(q.formats),
        "report": [_layer(w, layer) for layer in q.report],
        "notes": list(q.notes),
    }
    return record, w.arrays


def _layer(w: QuantizedEncoder, layer: LayerReport) -> dict[str, Any]:
    return {**w.parts(layer), "bounds": w.parts(layer.bounds), "v_bound": w.parts(layer.v_bound)}


def _wired(w: QuantizedEncoder, projection: FixedProjection | Projection) -> dict[str, Any]:
    return {f.name: w.plain(getattr(projection, f.name)) for f in fields(projection) if f.name != "operator"}


class QuantizedDecoder:
    """Builds values from a record; raises KeyError, TypeError or ValueError where it is not one."""

    def __init__(self, arrays: Mapping[str, Array]) -> None:
        self.arrays = arrays

    def value(self, value: Any) -> Any:
        """A field: arrays looked up, lists as tuples."""
        if isinstance(value, dict):
            return freeze(self.arrays[value[_ARRAY]]) if set(value) == {_ARRAY} else value
        return tuple(self.value(v) for v in value) if isinstance(value, list) else value

    def parts(self, kind: Any, record: Mapping[str, Any], **more: Any) -> Any:
        """A dataclass from its fields, all of them and no others."""
        names = {f.name for f in fields(kind)}
        if not isinstance(record, Mapping) or set(record) | set(more) != names:
            raise ValueError(f"{kind.__name__} has other fields")
        values = {**{k: self.value(v) for k, v in record.items() if k not in more}, **more}
        wrong = [name for name, hint in hints_of(kind).items() if not fits(values[name], hint)]
        if wrong:
            raise ValueError(f"{kind.__name__}.{wrong[0]} is of another type")
        return kind(**values)

    def operator(self, record: Mapping[str, Any]) -> Operator:
        """An operator."""
        rest = {k: v for k, v in record.items() if k != "kind"}
        if record["kind"] == "Chain":
            parts = tuple(self.operator(part) for part in rest["parts"])
            if any(isinstance(part, Chain) for part in parts) or len(parts) < 2:
                raise ValueError("a chain of chains")
            return Chain(parts)
        return self.parts(OPERATORS[record["kind"]], rest)

    def population(self, record: Mapping[str, Any]) -> FixedPopulation:
        """A population."""
        return self.parts(FixedPopulation, record, neuron=self.parts(FixedNeuron, record["neuron"]))

    def wired(self, kind: Any, record: Mapping[str, Any]) -> Any:
        """A projection."""
        return self.parts(kind, record, operator=self.operator(record["operator"]))

    def layer(self, record: Mapping[str, Any]) -> LayerReport:
        """A layer's report."""
        return self.parts(
            LayerReport,
            record,
            bounds=self.parts(AccumulatorBounds, record["bounds"]),
            v_bound=self.parts(VBound, record["v_bound"]),
            decays=MappingProxyType(dict(record["decays"])),
            weights=tuple(MappingProxyType(dict(w)) for w in record["weights"]),
            measured=MappingProxyType(dict(record["measured"])),
        )


def quantized_from_dict(record: Mapping[str, Any], arrays: Mapping[str, Array]) -> QuantizedNetwork:
    """The quantized network of a record. Raises KeyError, TypeError, ValueError for anything else."""
    r = QuantizedDecoder(arrays)
    parts: dict[str, Any] = {"chip": record["chip"], "dt": record["dt"], "latency": record["latency"]}
    for name, hint in (("chip", str), ("dt", float), ("latency", Mapping)):
        if not fits(parts[name], hint):
            raise ValueError(f"{name} is of another type")
    if not all(fits(step, int) and step >= 0 for step in record["latency"].values()):
        raise ValueError("latency counts steps")
    return QuantizedNetwork(
        chip=record["chip"],
        dt=float(record["dt"]),
        populations=tuple(r.population(p) for p in record["populations"]),
        projections=tuple(r.wired(FixedProjection, p) for p in record["projections"]),
        inputs=tuple(r.parts(FixedInput, p) for p in record["inputs"]),
        outputs=tuple(r.parts(Port, p) for p in record["outputs"]),
        reads=tuple(r.wired(Projection, p) for p in record["reads"]),
        latency=MappingProxyType(dict(record["latency"])),
        formats=MappingProxyType(dict(record["formats"])),
        report=tuple(r.layer(x) for x in record["report"]),
        notes=tuple(map(str, record["notes"])),
    )


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
