"""An unscaled network and data -> the spiking network and its report, in two walks: activations, then spikes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from nirbridge._types import Progress
from nirbridge.arrays import Array
from nirbridge.importers.ann.data import measured_samples, select_samples
from nirbridge.importers.ann.replay import (
    SpikeMeasurement,
    ceiling,
    check_replayable,
    measure_spikes,
    rectify,
    walk_populations,
)
from nirbridge.importers.ann.report import ConvertedLayer
from nirbridge.importers.ann.scales import SEARCHED, SEARCHED_IN_ALL, ScaleOptions, choose_scale, clipped_share
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
