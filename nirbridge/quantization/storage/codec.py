"""A quantized network as a JSON record and a table of arrays, and back (docs/reference/quantized-file.md)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any

from nirbridge.arrays import Array
from nirbridge.errors import ModelError, quoted
from nirbridge.network.axes import stored_axes
from nirbridge.network.storage.codec import ValueDecoder, ValueEncoder, check_fields, fits
from nirbridge.quantization.model import LayerReport, QuantizedNetwork

_WEIGHTS = {
    "source": str, "index": int | None, "kind": str, "bits": int, "exponent": int, "sign_mode": str,
    "range": list[float], "integers": list[int], "scale": float | None, "error": float, "clipped": float | None,
    "synapse_bits": int,
}  # fmt: skip
_MEASURED = {"spikes_changed": float | None, "accuracy": float | None, "accuracy_reference": float | None}
_FORMATS = {"a_in_bits": int | None, "bias_mant_bits": int | None, "programmable": bool | None}
"""Fields of the report and of the number formats that are shown or used, by their types."""
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
    check_fields(quantized.formats, _FORMATS, "formats")
    for layer in quantized.report:
        _check_report(layer)
    return replace(quantized, dt=float(quantized.dt))


def _check_report(layer: LayerReport) -> None:
    """Raise ModelError for a report of a layer that cannot be shown."""
    subject = f"report of {quoted(layer.population)}"
    for weights in layer.weights:
        check_fields(weights, _WEIGHTS, f"{subject}, weights")
        if (len(weights["range"]), len(weights["integers"])) != (2, 2):
            raise ModelError.of(f"{subject}, weights", "a range without two ends")
    check_fields(layer.measured, _MEASURED, f"{subject}, measured")
    measured = layer.measured
    if (measured.get("accuracy") is None) != (measured.get("accuracy_reference") is None):
        raise ModelError.of(f"{subject}, measured", "one of two accuracies", "both or none")
