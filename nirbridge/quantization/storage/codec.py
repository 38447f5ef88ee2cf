"""A quantized network as a JSON record and a table of arrays, and back (docs/reference/quantized-file.md)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any

from nirbridge.arrays import Array
from nirbridge.network.axes import stored_axes
from nirbridge.network.storage.codec import ValueDecoder, ValueEncoder, fits
from nirbridge.quantization.model import QuantizedNetwork

STORED = tuple(f.name for f in fields(QuantizedNetwork) if f.name not in ("network", "early", "axes"))
"""The fields of a quantized network that its file holds, and ``axes`` where they are known."""


def quantized_to_dict(q: QuantizedNetwork) -> tuple[dict[str, Any], dict[str, Array]]:
    """(JSON record, arrays by name) of a quantized network; ``network`` and ``early`` are left out."""
    encoder = ValueEncoder()
    record = {name: encoder.plain(getattr(q, name)) for name in STORED}
    return record | ({"axes": list(q.axes)} if q.axes else {}), encoder.arrays


def quantized_from_dict(record: Mapping[str, Any], arrays: Mapping[str, Array]) -> QuantizedNetwork:
    """The quantized network of a record. Raises KeyError, TypeError, ValueError for anything else."""
    notes = tuple(map(str, record["notes"]))
    stored = {name: record[name] for name in STORED}
    axes = stored_axes(record, "axes", "the quantized network")
    given: dict[str, Any] = {"notes": notes, "network": None, "early": (), "axes": axes}
    quantized = ValueDecoder(arrays).parts(QuantizedNetwork, stored, **given)
    if not all(fits(step, int) and step >= 0 for step in quantized.latency.values()):
        raise ValueError("latency counts steps")
    return replace(quantized, dt=float(quantized.dt))
