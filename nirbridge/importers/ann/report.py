"""Report of a conversion, layer by layer: scales, clipping, and errors of the spike rates."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

from nirbridge.arrays import Array


@dataclass(frozen=True, slots=True, eq=False)
class ConvertedLayer:
    """One population of a converted network.

    ``scale``: the activation that a spike in every time step stands for, shape ``(channels, 1, …)`` or ``()``;
    activation = spikes / steps * scale. ``largest``: the largest activation on the calibration data. ``clipped``: share
    of the positive activations above their scale. ``rounding``: the largest error of one layer by itself after
    ``steps`` time steps of constant input, half a spike, in activation. ``error``: root mean square of (spikes / steps
    * scale - activation) as measured through all layers before it, after ``steps`` time steps; ``error_share``: the
    same as a share of the activations' own root mean square. ``surplus``: mean number of spikes too many from a start
    at half the threshold, which the start potentials make up for. ``bound_spikes``: E of ``ann.spiking``: after T steps
    each rate is proved to be within E / T of that of the clipped ANN, whatever the (constant) input.
    """

    name: str
    neurons: int
    scale: Array
    largest: float
    clipped: float
    rounding: float
    error: float
    error_share: float
    surplus: float
    bound_spikes: float


@dataclass(frozen=True, slots=True, eq=False)
class ConversionReport:
    """Figures of a conversion.

    ``steps``: what scales and starts were tuned for. ``given_samples``: how many the calibration data has; ``samples``:
    those of them that scales were chosen on, ``measured_samples``: those that were run as spikes. ``folding_error``:
    largest absolute difference between the module's outputs and those of the network it was read as (BatchNorm folded),
    in float32 on the calibration data; ``output_size``: the largest absolute output. ``output_error``: root mean square
    error of the outputs after ``steps`` steps (None where outputs are spikes); ``decisions``: share of the measured
    samples whose largest output is the same (None where an output has one element).
    """

    steps: int
    given_samples: int
    samples: int
    measured_samples: int
    folding_error: float
    output_size: float
    output_error: float | None
    decisions: float | None
    layers: tuple[ConvertedLayer, ...]

    def __str__(self) -> str:
        return "\n".join(_lines(self))


def folding_note(report: ConversionReport) -> str:
    """The error of folding BatchNorm and rounding to float32, in figures."""
    share = report.folding_error / report.output_size if report.output_size else 0.0
    return (
        f"folded weights: outputs are off by {report.folding_error:.1e} at most on calibration data, "
        f"{share:.1e} of the largest output ({report.output_size:.3g})"
    )


def report_document(report: ConversionReport) -> dict[str, Any]:
    """The report for JSON: numbers and lists only; a scale is the smallest and the largest of a population's."""
    figures = {f.name: getattr(report, f.name) for f in fields(report) if f.name != "layers"}
    return {**figures, "layers": [_layer_document(layer) for layer in report.layers]}


def _layer_document(layer: ConvertedLayer) -> dict[str, Any]:
    plain = {f.name: getattr(layer, f.name) for f in fields(layer) if f.name != "scale"}
    return {**plain, "scale": [float(layer.scale.min()), float(layer.scale.max())]}


def _lines(report: ConversionReport) -> list[str]:
    of = f" of {report.given_samples:,}" if report.samples < report.given_samples else ""
    lines = [
        f"converted for {report.steps} steps on {report.samples:,}{of} samples; {folding_note(report)}",
        f"{'population':<24} {'neurons':>8} {'scale':>16} {'clipped':>8} {'rounding':>9} {'error':>9} {'share':>7}"
        f" {'surplus':>8} {'bound':>9}",
    ]
    for layer in report.layers:
        low, high = float(layer.scale.min()), float(layer.scale.max())
        scale = f"{low:.3g}" if low == high else f"{low:.3g} to {high:.3g}"
        lines.append(
            f"{layer.name:<24} {layer.neurons:>8,} {scale:>16} {layer.clipped:>8.2%} {layer.rounding:>9.2g} "
            f"{layer.error:>9.2g} {layer.error_share:>7.1%} {layer.surplus:>8.2f} {layer.bound_spikes:>9.3g}"
        )
    if report.output_error is not None:
        lines.append(f"outputs: root mean square error {report.output_error:.3g}")
    if report.decisions is not None:
        lines.append(f"decisions: {report.decisions:.1%} as the original on {report.measured_samples} of the samples")
    return lines
