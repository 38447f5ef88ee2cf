"""Differences in meaning between two saved files of one kind."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from nirbridge.errors import UsageError
from nirbridge.files.differences import Difference, flat, flat_differences
from nirbridge.network.model import Network
from nirbridge.pipeline.saved_files import SavedFile
from nirbridge.simulators.types import Recording
from nirbridge.verification.verify import Verification

if TYPE_CHECKING:
    from nirbridge.mapping.storage.record import MapRecord

_MEASURED = ("report", "notes")
"""Parts of a network that say how it was made, or report its errors."""


def differences(a: SavedFile, b: SavedFile) -> tuple[Difference, ...]:
    """Everything that differs in meaning; empty: the files mean the same. Raises UsageError: two kinds of file."""
    if a.kind != b.kind:
        found = f"one is a {_label(a)}, the other a {_label(b)}"
        raise UsageError.of("files", found, "only files of one kind can be compared", "give two of one kind")
    if a.kind == "map":
        from nirbridge.mapping.storage.differences import map_differences

        return map_differences(cast("MapRecord", a.value), cast("MapRecord", b.value))
    if a.kind in ("network", "quantized", "verification"):
        return tuple(_of_numbers(_numbers(a.value), _numbers(b.value)))
    return tuple(_of_recordings(cast("Recording", a.value), cast("Recording", b.value)))


def _label(saved: SavedFile) -> str:
    return "quantized network" if saved.kind == "quantized" else saved.kind


def _of_numbers(a: dict[str, Any], b: dict[str, Any]) -> Iterator[Difference]:
    for difference in flat_differences(a, b):
        x, y = difference.a, difference.b
        yield Difference(difference.name, *_arrays(x, y)) if hasattr(x, "shape") or hasattr(y, "shape") else difference


def _numbers(value: Any) -> dict[str, Any]:
    """Every number and text of a network, quantized or not, or of a verification, by its dotted name."""
    if isinstance(value, Network):
        from nirbridge.network.storage.file import network_to_dict

        record, arrays = network_to_dict(value)
    elif isinstance(value, Verification):
        from nirbridge.verification.storage import verification_to_dict

        record, arrays = verification_to_dict(value)
    else:
        from nirbridge.quantization.storage.file import quantized_to_dict

        record, arrays = quantized_to_dict(value)
    return dict(flat({key: _resolved(value, arrays) for key, value in record.items() if key not in _MEASURED}))


def _resolved(value: Any, arrays: Mapping[str, Any]) -> Any:
    """A part of the record with its arrays in place of their names."""
    if isinstance(value, dict):
        if set(value) <= {"array", "shape"} and "array" in value:
            stored = arrays[value["array"]]
            return np.broadcast_to(stored, value.get("shape", stored.shape))
        return {key: _resolved(each, arrays) for key, each in value.items()}
    return [_resolved(each, arrays) for each in value] if isinstance(value, list) else value


def _arrays(x: Any, y: Any) -> tuple[str, str]:
    """Both as text: how many values differ, and the first of them."""
    if not (hasattr(x, "shape") and hasattr(y, "shape")) or x.shape != y.shape:
        return _described(x), _described(y)
    places = np.argwhere(x != y)
    if not len(places):
        return str(x.dtype), str(y.dtype)
    first = tuple(map(int, places[0]))
    where = f"{len(places):,} of {x.size:,} values differ, the first at {list(first)}: " if first else ""
    return f"{where}{x[first].item()}", str(y[first].item())


def _described(value: Any) -> str:
    return f"shape {list(value.shape)}" if hasattr(value, "shape") else str(value)


def _of_recordings(a: Recording, b: Recording) -> Iterator[Difference]:
    from nirbridge.comparison.compare import compare
    from nirbridge.report.compare import place_text

    comparison = compare(a, b)
    for row in comparison.rows:
        if row.problem is not None:
            yield Difference(f"{row.node} {row.variable}", row.problem, "")
        elif row.first_values is not None:
            yield Difference(f"{row.node} {row.variable}, first at {place_text(row)}", *row.first_values)
    for node, variable in comparison.only_a:
        yield Difference(f"{node} {variable}", "recorded", None)
    for node, variable in comparison.only_b:
        yield Difference(f"{node} {variable}", None, "recorded")
