"""Events as columns: structured arrays, and arrays by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import IO, Any

import numpy as np

from nirbridge.arrays import Array
from nirbridge.errors import UsageError, did_you_mean, quoted
from nirbridge.events.model import UNITS, Events, checked_events

NAMES = ("x", "y", "t", "p")


def columns_of(value: Any) -> dict[str, Array] | None:
    """The columns of a structured array, or of arrays ``x``, ``t`` and perhaps ``y``, ``p`` by name; None of others."""
    names: tuple[str, ...] | None = getattr(getattr(value, "dtype", None), "names", None)
    if names:
        return {name: np.asarray(value[name]) for name in names}
    if not isinstance(value, Mapping) or not {"x", "t"} <= set(value) <= set(NAMES):
        return None
    arrays = {name: np.asarray(column) for name, column in value.items()}
    return arrays if all(a.ndim == 1 for a in arrays.values()) else None


def event_columns(columns: Mapping[str, Array], subject: str) -> dict[str, Array]:
    """The columns of events among those of an array. Raises UsageError where ``x`` or ``t`` is missing."""
    for name in ("x", "t"):
        if name not in columns:
            limit = f"there are {', '.join(map(quoted, list(columns)[:8]))}"
            hint = did_you_mean(name, columns) or "events are columns x, y, t and p"
            raise UsageError.of(subject, f"has no column {quoted(name)}", limit, hint)
    return {name: columns[name] for name in NAMES if name in columns}


def events_of_columns(columns: Mapping[str, Array], subject: str, unit: str | None = None) -> Events:
    """Events of columns ``x``, ``t`` and perhaps ``y``, ``p``; ``unit``: of ``t``, None: microseconds.

    Raises:
        UsageError: other columns, or values that are none of events.
    """
    if unit is not None and unit not in UNITS:
        raise UsageError.of(f"unit {quoted(unit)}", "is not known", f"units are {', '.join(UNITS)}", "choose one")
    found, length = event_columns(columns, subject), UNITS[unit or "us"]
    return checked_events(
        Events("columns", found["t"], found["x"], found.get("y"), found.get("p"), unit=length), subject
    )


def write_columns(table: Array, size: tuple[int, int], file: IO[bytes]) -> None:
    """Write a structured ``.npy`` array with the fields x, y, t, p, as tonic has them; it states no ``size``."""
    kinds = [("x", "<i2"), ("y", "<i2"), ("t", "<i8"), ("p", "|b1")]
    np.lib.format.write_array(file, table.astype(kinds), version=(1, 0), allow_pickle=False)
