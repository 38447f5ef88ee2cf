"""An unscaled network and data -> the spiking network and its report, in two walks: activations, then spikes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, Literal

import numpy as np

from nirbridge._types import Progress
from nirbridge.arrays import Array, freeze
from nirbridge.importers.ann.replay import (
    SpikeMeasurement,
    ceiling,
    check_replayable,
    measure_spikes,
    measured_samples,
    rectify,
    select_samples,
    walk_populations,
)
from nirbridge.importers.ann.spiking import Readout, integrate_and_fire, sends_plainly, spiking_network
from nirbridge.network.model import Network, Population


@dataclass(frozen=True, slots=True)
class ConversionOptions:
    """Options of ``from_torch``."""

    dt: float
    scales: ScaleOptions
    fair_start: bool
    readout: Readout


@dataclass(frozen=True, slots=True, eq=False)
class ScaledNetwork:
    """The spiking network, its layers for the report, and the values of the outputs on the measured samples.

    ``scales`` by population. ``wanted`` and ``reached`` by output, ``[samples, *shape]``: the ANN's values and those of
    the spiking network (mean per time step, in the ANN's units; spikes per time step where outputs are spikes).
    """

    network: Network
    layers: tuple[ConvertedLayer, ...]
    scales: Mapping[str, Array]
    wanted: Mapping[str, Array]
    reached: Mapping[str, Array]


@dataclass(frozen=True, slots=True, eq=False)
class _ObservedActivations:
    """Activations of the ANN: scales, values on the measured samples, largest activation and clipped share."""

    scales: dict[str, Array]
    values: dict[str, Array]
    largest: dict[str, float]
    clipped: dict[str, float]


def convert_ann(
    ann: Network, data: Mapping[str, Array], options: ConversionOptions, progress: Progress | None = None
) -> ScaledNetwork:
    """Scales every population on ``data`` (``[samples, *shape]`` by input), then finds where potentials start.

    Raises:
        ModelError: the network has loops or delays.
    """
    check_replayable(ann)
    steps = options.scales.steps
    measured = measured_samples(ann, len(next(iter(data.values()))), steps)
    observed = _see(ann, data, options, measured)
    network = spiking_network(ann, observed.scales, options.dt, options.readout)
    target_rates = {
        name: values / observed.scales[name] for name, values in observed.values.items() if name in observed.scales
    }
    choices = (options.scales.per_channel, options.fair_start)
    measurement = measure_spikes(network, select_samples(data, measured), target_rates, steps, choices, progress)
    populations = tuple(
        replace(p, neuron=integrate_and_fire(measurement.starts[p.name])) if p.name in measurement.starts else p
        for p in network.populations
    )
    layers = tuple(_layer(p, observed, measurement, steps) for p in ann.populations)
    outputs = {port.name: observed.values[port.name] for port in ann.outputs}
    return ScaledNetwork(
        replace(network, populations=populations), layers, observed.scales, outputs, measurement.reached
    )


def _see(ann: Network, data: Mapping[str, Array], options: ConversionOptions, measured: Array) -> _ObservedActivations:
    searched = min(SEARCHED, SEARCHED_IN_ALL // max(1, len(ann.populations)))
    scales = replace(options.scales, searched=searched)
    shared = {sends_plainly(ann, port.name) for port in ann.outputs} if options.readout == "spikes" else set()
    one_scale = replace(scales, per_channel=False)  # spikes of different outputs have to compare
    observed = _ObservedActivations({}, {}, {}, {})

    def visit(population: Population, drive: Array) -> Array:
        values, name = rectify(population, drive), population.name
        scale = choose_scale(values, ceiling(population), one_scale if name in shared else scales)
        observed.scales[name], observed.values[name] = scale, values[measured]
        observed.largest[name], observed.clipped[name] = float(values.max(initial=0)), clipped_share(values, scale)
        return values

    for name, values in walk_populations(ann, data, visit).items():
        observed.values[name] = values[measured]
        if options.readout == "spikes" and sends_plainly(ann, name) is None:
            observed.scales[name] = choose_scale(np.maximum(values, 0), np.inf, one_scale)
    return observed


def _layer(
    population: Population, observed: _ObservedActivations, measurement: SpikeMeasurement, steps: int
) -> ConvertedLayer:
    name, scale = population.name, observed.scales[population.name]
    off, size = measurement.rates[name] * scale - observed.values[name], _root_mean_square(observed.values[name])
    error = _root_mean_square(off)
    return ConvertedLayer(
        name=name,
        neurons=population.size,
        scale=scale,
        largest=observed.largest[name],
        clipped=observed.clipped[name],
        rounding=float(scale.max()) / (2 * steps),
        error=error,
        error_share=error / size if size else 0.0,
        surplus=measurement.surplus[name],
        bound_spikes=measurement.bounds[name],
    )


def _root_mean_square(values: Array) -> float:
    return float(np.sqrt(np.mean(np.square(values, dtype=np.float64)))) if values.size else 0.0


# -- report --------------------------------------------------------------------------------------------------------


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


# -- scales --------------------------------------------------------------------------------------------------------
# The activation that a spike in every time step stands for, chosen on the user's data.
#
# With scale s and T steps, a rectifier's value a is sent as ``min(round(a * T / s), T)`` spikes that count ``s / T``
# each (see ``count_spikes``): a small scale clips, a large one rounds coarsely.

ScaleChoice = float | Literal["max", "least-error"]
SEARCHED = 2_000_000
"""Most activations of a population that the search for the least error looks at (evenly spaced ones)."""
SEARCHED_IN_ALL = 5_000_000
"""The same over all populations."""
SHARES = np.linspace(0.25, 1.0, 46)
"""Shares of the largest activation that are tried as scale."""
SMALLEST = 1 / 64
"""Smallest scale of a channel as a share of the population's largest: weaker ones would clip all that is new."""


@dataclass(frozen=True, slots=True)
class ScaleOptions:
    """Choice of scales: a percentile (0 to 100), the maximum, or the least mean squared error at ``steps``.

    ``searched``: the most activations of a population that the search for the least error looks at.
    """

    choice: ScaleChoice
    steps: int
    per_channel: bool
    searched: int = SEARCHED


def choose_scale(values: Array, ceiling: float, options: ScaleOptions) -> Array:
    """Scales of a population from its activations ``[samples, *shape]``: shape ``(channels, 1, …)`` or ``()``.

    A channel is an element of the first axis. Channels that stayed 0 get the population's largest scale, and a
    population that stayed 0 gets 1. No scale is above ``ceiling``.
    """
    rows = _rows(values, options.per_channel)
    scales = _statistic(rows, options)
    largest = float(scales.max(initial=0.0))
    if largest <= 0.0:
        largest = 1.0
    scales = np.where(scales > 0, np.maximum(scales, SMALLEST * largest), largest)
    scales = np.minimum(scales, ceiling)
    if not options.per_channel:
        return freeze(scales[0], np.float64)
    return freeze(scales.reshape(-1, *(1,) * (values.ndim - 2)), np.float64)


def _rows(values: Array, per_channel: bool) -> Array:
    """``[channels, activations]``, one row where the whole population shares a scale."""
    return np.moveaxis(values, 1, 0).reshape(values.shape[1], -1) if per_channel else values.reshape(1, -1)


def _statistic(rows: Array, options: ScaleOptions) -> Array:
    if options.choice == "max":
        return rows.max(axis=1).astype(np.float64)
    if options.choice == "least-error":
        return _least_error(rows, options)
    return np.percentile(rows, options.choice, axis=1).astype(np.float64)


def _least_error(rows: Array, options: ScaleOptions) -> Array:
    steps, every = options.steps, max(1, rows.size // options.searched)
    sample, top = rows[:, ::every], rows.max(axis=1).astype(np.float64)
    best, least = top.copy(), np.full(len(top), np.inf)
    sample = np.ascontiguousarray(sample)
    work = np.empty_like(sample)
    for share in SHARES:
        scale = np.maximum(share * top, 1e-30).astype(np.float32)[:, None]
        np.rint(np.multiply(sample, steps / scale, out=work), out=work)
        np.clip(work, 0, steps, out=work)
        work *= scale / steps
        work -= sample
        error = np.mean(np.square(work, out=work), axis=1)
        better = error < least
        best, least = np.where(better, share * top, best), np.where(better, error, least)
    return best


def clipped_share(values: Array, scale: Array) -> float:
    """Share of the positive activations that lie above their scale."""
    positive = int(np.count_nonzero(values > 0))
    return int(np.count_nonzero(values > scale * (1 + 1e-6))) / positive if positive else 0.0
