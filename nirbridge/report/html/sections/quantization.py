"""Quantization layer by layer: bits, error histograms, and the margin up to an overflow."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from nirbridge.arrays import Array
from nirbridge.errors import ModelError, counted, quoted
from nirbridge.quantization.folding import fold_population
from nirbridge.quantization.formats import grid_of, signed_max
from nirbridge.quantization.model import FixedProjection, LayerReport, QuantizedNetwork
from nirbridge.quantization.operators import gained_operator, weights_of
from nirbridge.report.html.page import (
    Child,
    Markup,
    Picture,
    Section,
    bar,
    folded,
    listed,
    picture,
    rectangles,
    remark,
    short,
    table,
    tag,
    text,
)

LAYERS_MAX, HISTOGRAMS_MAX, BINS = 200, 24, 20
"""Layers in the tables, projections with a histogram, bins from -1 to 1 steps of the grid."""
HISTOGRAM_NOTE = "Errors of the weights in steps of the grid: within half a step they are rounding, beyond it clipping."
BITS_MAX = 64
"""Wider numbers, which only a file can state, have no margin."""
AGREES = 1e-6
"""Share by which the error of a histogram's weights may differ from that of the quantization's own report."""


def quantization_section(quantized: QuantizedNetwork) -> Section:
    """The section of a quantized network."""
    layers = quantized.report[:LAYERS_MAX]
    loose = [layer.population for layer in layers if not layer.bounds.proved]
    proof = "no sum can overflow, proved from the weights for any input"
    if loose:
        proof = f"{counted(len(loose), 'layer')} of {len(layers):,} rest on calibration data, not on a proof"
    bits = sorted({w["bits"] for layer in layers for w in layer.weights})
    said = f"{bits[0]} bits" if len(bits) == 1 else f"{bits[0]} to {bits[-1]} bits" if bits else "no bits"
    lead = f"Weights of {said} for {short(quantized.chip)}; {proof}."
    body: list[Child] = [_weights(layers), *_histograms(quantized), _margins(quantized, layers)]
    measured = [(layer, layer.measured) for layer in layers if layer.measured]
    if measured:
        body.append(_measured(measured))
    notes = [f"{quoted(layer.population, 40)}: {note}" for layer in layers for note in layer.notes]
    if notes:
        body.append(folded("Notes on layers", listed(notes[:LAYERS_MAX])))
    return Section("quantization", "Quantization", lead, body)


def _weights(layers: tuple[LayerReport, ...]) -> Markup:
    headings = ["into", "from", "bits", "signs", "weights", "error", "", "clipped"]
    rows = []
    for layer in layers:
        for w in layer.weights:
            low, high = w["range"]
            error = float(w["error"])
            drawn = bar(min(error * 5, 1.0), says=f"root mean square error {error:.2%} of the weights")
            clipped = f"{w['clipped']:.2%}" if w.get("clipped") else ""
            name, source = quoted(layer.population, 40), quoted(w["source"], 40)
            rows.append(
                [
                    name,
                    source,
                    str(w["bits"]),
                    w["sign_mode"],
                    f"{low:.4g} to {high:.4g}",
                    f"{error:.2%}",
                    drawn,
                    clipped,
                ]
            )
    note = remark("Error: root mean square, as a share of the weights' own; a full bar is 20 %.")
    return tag("div", table("Weights of every projection", headings, rows, "llrllrlr"), note)


# -- margins -----------------------------------------------------------------------------------------------------


def _margins(quantized: QuantizedNetwork, layers: tuple[LayerReport, ...]) -> Markup:
    """How much of its range each accumulator can need."""
    widths = {p.name: (p.neuron.u_bits, p.neuron.v_bits) for p in quantized.populations}
    a_in = quantized.formats.get("a_in_bits")
    headings = ["layer", "sum of inputs a_in", "", "current u", "", "time steps until v saturates", "proved"]
    rows = []
    for layer in layers:
        u_bits = widths.get(layer.population, (None, None))[0]
        cells: list[Child] = [quoted(layer.population, 40)]
        for name, ends, bits in (("a_in", layer.bounds.a_in, a_in), ("u", layer.bounds.u, u_bits)):
            cells += _margin(name, ends, bits)
        steps = layer.bounds.v_steps
        rows.append(
            [*cells, "never" if steps is None else f"{steps:,} or more", "yes" if layer.bounds.proved else "no"]
        )
    note = remark(
        "Bars: the largest magnitude that any input can cause, as a share of the range; the rest is the margin."
    )
    return tag("div", table("Overflow margins", headings, rows, "lrlrlrl"), note)


def _margin(name: str, ends: tuple[int, int], bits: Any) -> list[Child]:
    most = max(abs(end) for end in ends)
    if not isinstance(bits, int) or not 2 <= bits <= BITS_MAX:
        return [f"{most:,}", None]
    share = most / signed_max(bits)
    return [
        f"{most:,} of {signed_max(bits):,}",
        bar(share, says=f"{name}: {share:.1%} of {bits} bits, margin {1 - share:.1%}"),
    ]


def _measured(measured: list[tuple[LayerReport, Mapping[str, Any]]]) -> Markup:
    headings = ["layer", "spikes changed", "accuracy", "accuracy of the reference"]
    names = ("spikes_changed", "accuracy", "accuracy_reference")
    rows = [[quoted(layer.population, 40), *(f"{m[n]:.2%}" if n in m else "" for n in names)] for layer, m in measured]
    return table("Measured on the calibration data", headings, rows, "lr")


# -- histograms --------------------------------------------------------------------------------------------------


def weight_errors(quantized: QuantizedNetwork) -> Iterator[tuple[FixedProjection, Array]]:
    """Errors of the weights of each projection in steps of its grid, where the real weights are known.

    They are known where the value holds the real network; a projection is left out where the error of its weights is
    not that of the report, since the real network then is another one.
    """
    network = quantized.network
    if network is None:
        return
    real = {p.name: p for p in network.populations}
    worth = {p.name: p.scale for p in quantized.inputs}
    stated = {(layer.population, w["index"]): w for layer in quantized.report for w in layer.weights if "index" in w}
    for p in quantized.projections:
        row = stated.get((p.target, p.index))
        if row is None or p.target not in real or p.index >= len(network.projections):
            continue
        try:
            latency = 0 if p.target in quantized.early else quantized.latency.get(p.target, 0)
            gain = fold_population(network, real[p.target], latency).gain * worth.get(p.source, 1.0)
            weights = weights_of(gained_operator(network.projections[p.index].operator, np.asarray(gain)))
        except ModelError:
            continue
        integers = weights_of(p.operator)
        if weights.shape == integers.shape and _agrees(weights, integers / p.scale, float(row["error"])):
            yield p, (integers - weights * p.scale).ravel() / grid_of(p.weight_bits, p.sign_mode).step


def _agrees(weights: Array, rounded: Array, error: float) -> bool:
    size = float(np.sqrt(np.mean(np.square(weights)))) if weights.size else 0.0
    found = float(np.sqrt(np.mean(np.square(rounded - weights)))) / size if size else 0.0
    return abs(found - error) <= AGREES * max(1.0, error)


def _histograms(quantized: QuantizedNetwork) -> list[Child]:
    drawn, count = [], 0
    for p, errors in weight_errors(quantized):
        count += 1
        if len(drawn) < HISTOGRAMS_MAX:
            drawn.append(histogram(p, errors))
    if not drawn:
        said = "No histograms of errors: the real weights are not in the file; give the model that was quantized."
        return [remark(said)]
    note = HISTOGRAM_NOTE
    if count > len(drawn):
        note += f" The first {len(drawn)} of {count:,} projections are drawn."
    return [tag("h3", "Errors of the weights"), tag("div", drawn, class_="multiples"), remark(note)]


def histogram(p: FixedProjection, errors: Array) -> Picture:
    """The errors of the weights of one projection, below its name and the number of its weights."""
    counts, _ = np.histogram(np.clip(errors, -1, 1), bins=BINS, range=(-1, 1))
    most = max(1, int(counts.max()))
    boxes = [(10 + 9.0 * k, 106 - 66 * n / most, 8.0, 66 * n / most) for k, n in enumerate(counts.tolist()) if n]
    axis = tag("path", d="M10 106.5H190M55 106v4M100 106v4M145 106v4M10 106v4M190 106v4", class_="axis")
    places = ((10, "-1"), (55, "-½"), (100, "0"), (145, "½"), (190, "1"))
    labels = [text(x, 122, said, anchor="middle") for x, said in places]
    beyond = float(np.mean(np.abs(errors) > 0.5 + 1e-9)) if errors.size else 0.0
    name, weights = f"{short(p.source, 14)} to {short(p.target, 14)}", counted(errors.size, "weight")
    labels += [text(0, 12, name), text(0, 26, f"{weights}, {p.weight_bits} bits", class_="small")]
    label = f"{name}: {weights}, {1 - beyond:.1%} within half a step of the grid"
    return picture(200, 128, rectangles(boxes, class_="fill"), axis, labels, label=label, class_="histogram")
