"""The form of a map file, and every place where a document deviates (the shipped JSON Schema says the same)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from nirbridge.errors import Diagnostic, quoted
from nirbridge.network.storage.codec import WHOLE_MAX, fits_plain
from nirbridge.partitioner.model import RESOURCES

SCHEMA = 1
SCHEMA_MARKED = 2
"""Of maps with ``placement_only``, ``early_spikes``, ``zeros`` or an ``order`` of a population's neurons."""
STATUSES = ("optimal", "optimal-sliced", "feasible")


@dataclass(frozen=True, slots=True)
class _ListOf:
    of: Any
    length: int | None = None
    most: int | None = None


@dataclass(frozen=True, slots=True)
class _MapOf:
    of: Any


@dataclass(frozen=True, slots=True)
class _Nullable:
    """The value, or null; the key may be absent."""

    of: Any


@dataclass(frozen=True, slots=True)
class _OneOf:
    values: tuple[object, ...]


_COUNT, _NUMBER, _AMOUNT, _TEXT, _BOOL, _ANY = "count", "number", "amount", "text", "bool", "any"
_LEAVES: dict[str, tuple[type, str, int | None]] = {
    _COUNT: (int, "a whole number from 0 to 2**53", 0),
    _NUMBER: (float, "a finite number", None),
    _AMOUNT: (float, "a finite number >= 0", 0),
    _TEXT: (str, "a text", None),
    _BOOL: (bool, "true or false", None),
}
"""Type, words, and least value of each simple form."""
_AXES_MAX, _WHOLE_NUMBER_MAX = 64, 2**64
_SHAPE = _ListOf(_COUNT, most=_AXES_MAX)
_PORT = {"name": _TEXT, "shape": _SHAPE}
_TOTAL = {"used": _COUNT, "max": _COUNT, "where_max": _COUNT, "limit": _Nullable(_COUNT)}
FORM = {
    "schema": _OneOf((SCHEMA, SCHEMA_MARKED)),
    "nirbridge": _TEXT,
    "model": {"file": _TEXT, "sha256": _TEXT},
    "timing": {"dt": _NUMBER, "integrator": _TEXT, "reset": _TEXT, "compare": _TEXT, "if_gain": _TEXT},
    "chip": {"name": _TEXT},  # and the other keys of a chip file
    "chips": _COUNT,
    "objective": _TEXT,
    "rates": _TEXT,
    "weight_bits": _COUNT,
    "splits": _Nullable(_ListOf({"population": _TEXT, "ways": _COUNT})),
    "retimed": _Nullable({"latency": _MapOf(_COUNT)}),
    "placement_only": _Nullable(_BOOL),
    "early_spikes": _Nullable(_ListOf(_TEXT)),
    "inputs": _ListOf(_PORT),
    "outputs": _ListOf(_PORT),
    "populations": _ListOf(
        {
            "name": _TEXT,
            "shape": _SHAPE,
            "neurons": _COUNT,
            "kind": _TEXT,
            "relay": _BOOL,
            "order": _Nullable(_ListOf(_COUNT)),
        }
    ),
    "blocks": _ListOf(
        {
            "id": _COUNT,
            "core": {"chip": _COUNT, "x": _COUNT, "y": _COUNT, "core": _COUNT},
            "slices": _ListOf(
                {"population": _TEXT, "box": _ListOf(_ListOf(_COUNT, 2), most=_AXES_MAX), "order": _Nullable(_SHAPE)}
            ),
            "used": dict.fromkeys(RESOURCES, _COUNT),
        }
    ),
    "projections": _ListOf(
        {
            "source": _TEXT,
            "target": _TEXT,
            "operator": _MapOf(_ANY),
            "delay_steps": _COUNT,
            "weight_bits": _COUNT,
            "synapses": _COUNT,
            "nodes": _ListOf(_TEXT),
            "is_back": _BOOL,
            "zeros": _Nullable(_OneOf(("dropped",))),
        }
    ),
    "routes": _ListOf(
        {
            "source_block": _Nullable(_COUNT),
            "source_input": _Nullable(_TEXT),
            "target_block": _COUNT,
            "neurons": _COUNT,
            "synapses": _COUNT,
            "spikes_per_step": _AMOUNT,
            "hops": _COUNT,
        }
    ),
    "totals": {
        "cores_used": _COUNT,
        "cores_available": _COUNT,
        "unicast_traffic": _AMOUNT,
        "multicast_hops": _AMOUNT,
        "max_link_load": _AMOUNT,
        "mean_link_load": _AMOUNT,
        "energy_per_step_j": _Nullable(_AMOUNT),
        "time_per_step_s": _Nullable(_AMOUNT),
        "energy_breakdown_j": _MapOf(_AMOUNT),
        "time_breakdown_s": _MapOf(_AMOUNT),
    }
    | dict.fromkeys(RESOURCES, _TOTAL),
    "proof": {
        "cores_lower_bound": _COUNT,
        "cores_lower_bound_sliced": _COUNT,
        "cores_gap": _COUNT,
        "traffic_lower_bound": _AMOUNT,
        "status": _OneOf(STATUSES),
        "method": _TEXT,
        "seed": _COUNT,
        "solver": _TEXT,
        "deterministic_time": _AMOUNT,
        "bounds": _MapOf(_COUNT),
        "binding": _TEXT,
        "interrupted": _Nullable(_BOOL),
    },
    "approximate": _ListOf(_TEXT),
    "assumed": _ListOf(_TEXT),
    "notes": _ListOf(_TEXT),
}


def form_problems(form: Any, value: Any, where: str) -> Iterator[Diagnostic]:
    """Every place where ``value`` is not of ``form``."""
    if isinstance(form, _Nullable):
        if value is not None:
            yield from form_problems(form.of, value, where)
    elif isinstance(form, _OneOf):
        if isinstance(value, bool) or value not in form.values:
            yield Diagnostic(where, f"is {_shown(value)}", f"known: {', '.join(map(str, form.values))}")
    elif isinstance(form, str):
        expected = _wrong_leaf(form, value)
        if expected:
            yield Diagnostic(where, f"is {_shown(value)}", f"expected {expected}")
    elif isinstance(form, _ListOf):
        yield from _wrong_list(form, value, where)
    else:
        yield from _wrong_object(form, value, where)


def _wrong_leaf(form: str, value: Any) -> str:
    """The expectation where ``value`` is not of the simple ``form``, else nothing."""
    if form == _ANY:
        return ""
    kind, words, least = _LEAVES[form]
    is_whole = kind is float and type(value) is int and abs(value) <= _WHOLE_NUMBER_MAX
    return "" if (is_whole or fits_plain(value, kind)) and (least is None or value >= least) else words


def _wrong_list(form: _ListOf, value: Any, where: str) -> Iterator[Diagnostic]:
    if not isinstance(value, list):
        yield Diagnostic(where, f"is {_shown(value)}", "expected a list")
        return
    if form.length is not None and len(value) != form.length:
        yield Diagnostic(where, f"has {len(value)} entries", f"expected {form.length}")
        return
    if form.most is not None and len(value) > form.most:
        yield Diagnostic(where, f"has {len(value):,} entries", f"expected at most {form.most}")
        return
    if form.of == _COUNT and all(type(item) is int and 0 <= item <= WHOLE_MAX for item in value):
        return  # an order lists every neuron
    for i, item in enumerate(value):
        yield from form_problems(form.of, item, f"{where}[{i}]")


def _wrong_object(form: _MapOf | dict[str, Any], value: Any, where: str) -> Iterator[Diagnostic]:
    if not isinstance(value, dict):
        yield Diagnostic(where, f"is {_shown(value)}", "expected an object")
        return
    if isinstance(form, _MapOf):
        for key in sorted(value):
            yield from form_problems(form.of, value[key], f"{where}.{quoted(key)}")
        return
    for key, inner in form.items():
        if key in value or isinstance(inner, _Nullable):
            yield from form_problems(inner, value.get(key), f"{where}.{key}" if where else key)
        else:
            yield Diagnostic(f"{where}.{key}" if where else key, "is missing")


def _shown(value: Any) -> str:
    """A value in a message, short and safe to print."""
    if isinstance(value, str):
        return quoted(value, 40)
    if isinstance(value, dict | list):
        return "an object" if isinstance(value, dict) else "a list"
    return "null" if value is None else str(value)[:40]
