"""The effect of quantization, layer by layer: as a table for a terminal and as one JSON document."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from nirbridge.errors import counted
from nirbridge.quantization.model import LayerReport, QuantizedNetwork
from nirbridge.report.inspect import name_text
from nirbridge.report.lines import short_notes
from nirbridge.report.tables import Names, items, table

HEADINGS = (
    "into",
    "from",
    "kind",
    "bits",
    "exp",
    "signs",
    "weights",
    "integers",
    "error",
    "a_in",
    "process",
    "spikes changed",
)
ALIGNMENT = "llLRRLRRRRLR"
_LEAST = ("process", "signs", "exp", "a_in", "integers", "kind", "from")
"""Columns that a narrow terminal does without, the first to go first."""


def quantize_document(quantized: QuantizedNetwork, digest: str | None = None) -> dict[str, Any]:
    """Everything that the report says, as JSON values."""
    return {
        "chip": quantized.chip,
        "dt": quantized.dt,
        "digest": digest,
        "latency": dict(quantized.latency),
        "formats": dict(quantized.formats),
        "inputs": [{"name": p.name, "value_max": p.value_max, "scale": p.scale} for p in quantized.inputs],
        "layers": [_layer(layer) for layer in quantized.report],
        "notes": list(quantized.notes),
    }


def _layer(layer: LayerReport) -> dict[str, Any]:
    b = layer.bounds
    return {
        "population": layer.population,
        "process": layer.process,
        "bounds": {"a_in": list(b.a_in), "u": list(b.u), "v": list(b.v), "proved": b.proved, "v_steps": b.v_steps},
        "neuron": dict(layer.decays),
        "weights": [dict(w) for w in layer.weights],
        "v_bound": dataclasses.asdict(layer.v_bound),
        "measured": dict(layer.measured),
        "notes": list(layer.notes),
    }


def quantize_text(quantized: QuantizedNetwork, *, notes: bool = True, every: bool = True) -> RenderableType:
    """The table and the sentences below it, without notes where ``notes`` is false.

    Without ``every`` the notes of the import are only counted.
    Names from files are escaped and never read as markup.
    """
    measured = any("spikes_changed" in layer.measured for layer in quantized.report)
    headings = HEADINGS if measured else HEADINGS[:-1]
    rows = [
        _cells(layer, weights, first=number == 0)[: len(headings)]
        for layer in quantized.report
        for number, weights in enumerate(layer.weights or ({},))
    ]
    return Group(
        table(headings, ALIGNMENT, rows, drop=_LEAST),
        Text(),
        *items(_remarks(quantized, notes=notes)),
        *items((quantized.notes if every else short_notes(quantized.notes)) if notes else ()),
    )


def _cells(layer: LayerReport, w: Mapping[str, Any], *, first: bool) -> tuple[str | Names, ...]:
    low, high = layer.bounds.a_in
    changed = layer.measured.get("spikes_changed")
    layer_cells = (
        f"{low:,} to {high:,}" if first else "",
        layer.process if first else "",
        f"{changed:.2%}" if first and changed is not None else "",
    )
    name = Names((name_text(layer.population),)) if first else ""
    if not w:
        return (name, "", "", "", "", "", "", "", "", *layer_cells)
    ranges = f"{w['range'][0]:.4g} to {w['range'][1]:.4g}", f"{w['integers'][0]} to {w['integers'][1]}"
    weight_cells = Names((name_text(w["source"]),)), w["kind"], str(w["bits"]), str(w["exponent"]), w["sign_mode"]
    return (name, *weight_cells, *ranges, f"{w['error']:.2%}", *layer_cells)


def precision_line(quantized: QuantizedNetwork) -> str:
    """Where integers lose much: the largest error of a layer's weights above 1 %, and v that saturates; else ``''``."""
    errors = [(float(w["error"]), layer.population) for layer in quantized.report for w in layer.weights]
    said, (error, name) = [], max(errors, default=(0.0, ""))
    if error > 0.01:
        said.append(f"error {100 * error:.3g} % into {name_text(name)}")
    if saturating := [layer.population for layer in quantized.report if layer.bounds.v_steps is not None]:
        said.append(f"v of {name_text(saturating[0])} can saturate")
    return f"{', '.join(said)}: see nirbridge quantize" if said else ""


def _remarks(quantized: QuantizedNetwork, *, notes: bool) -> Iterator[str]:
    loose = [layer.population for layer in quantized.report if not layer.bounds.proved]
    if loose:
        names = ", ".join(map(name_text, loose))
        yield f"not proved, scaled to the calibration data: a_in of {names}"
    else:
        yield "proved from the weights: a_in and u cannot overflow for any input"
    for layer in quantized.report:
        steps = layer.bounds.v_steps
        if notes and steps is not None:
            saturation = f"v saturates after {steps:,} or more time steps of the worst-case input"
            yield f"{name_text(layer.population)}: {saturation}"
        yield from (f"{name_text(layer.population)}: {note}" for note in layer.notes if notes)
        accuracy = layer.measured.get("accuracy")
        if accuracy is not None:
            yield f"accuracy {accuracy:.2%}, reference {layer.measured['accuracy_reference']:.2%}"
    memory = sum(w["synapse_bits"] for layer in quantized.report for w in layer.weights)
    latency = counted(max(quantized.latency.values(), default=0), "time step")
    yield f"synaptic memory at least {counted(memory, 'bit')}; latency {latency}"
