"""The converted network run on calibration samples: start potentials, spike rates, bounds.

Population by population, all steps of one before the next, as nothing here goes back in time.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from nirbridge._types import Progress
from nirbridge.arrays import Array
from nirbridge.importers.ann.replay import summed_input
from nirbridge.importers.ann.spiking import HALF, count_spikes, fair_start, magnitude
from nirbridge.importers.torch_apply import torch_apply
from nirbridge.network.model import Network, Population

ENOUGH = 64
"""Counts that a start potential of its own needs; a channel with fewer shares that of its population."""


@dataclass(frozen=True, slots=True, eq=False)
class SpikeMeasurement:
    """By population: start potential, spikes per step ``[samples, *shape]``, mean surplus, bound in spikes.

    ``reached``: by output, the mean over the steps of its input.
    """

    starts: dict[str, Array]
    rates: dict[str, Array]
    surplus: dict[str, float]
    bounds: dict[str, float]
    reached: dict[str, Array]


def measure_spikes(
    network: Network,
    inputs: Mapping[str, Array],
    wanted: Mapping[str, Array],
    steps: int,
    choices: tuple[bool, bool],
    progress: Progress | None = None,
) -> SpikeMeasurement:
    """Runs ``network`` for ``steps`` steps of the constant ``inputs [samples, *shape]``.

    ``wanted``: by population, the rates that the ANN asks for (activation over scale). ``choices``: start potentials
    per channel or per population, and whether they are looked for at all (else they stay at half the threshold).
    """
    measurement = SpikeMeasurement({}, {}, {}, {}, {})
    sent = {name: values.astype(np.float32)[None] for name, values in inputs.items()}
    bounds = {port.name: np.zeros(port.shape) for port in network.inputs}
    last = {p.source: p.target for p in network.projections}
    for k, population in enumerate(network.populations):
        sent[population.name] = _population(network, population, sent, steps, wanted, choices, measurement)
        bounds[population.name] = _bound(network, population, bounds, measurement)
        for name in [n for n, target in last.items() if target == population.name]:
            sent.pop(name, None)
        if progress is not None:
            progress("convert", (k + 1) / len(network.populations))
    samples = len(next(iter(inputs.values())))
    means = {name: values.mean(axis=0, dtype=np.float32) for name, values in sent.items()}
    for port in network.outputs:
        measurement.reached[port.name] = summed_input(network, port.name, port.shape, means, samples)
    return measurement


def _population(
    network: Network,
    population: Population,
    sent: Mapping[str, Array],
    steps: int,
    wanted: Mapping[str, Array],
    choices: tuple[bool, bool],
    measurement: SpikeMeasurement,
) -> Array:
    """Output of a population, ``[steps or 1, samples, *shape]``: spikes, or the mean input of a readout."""
    drive = _drive(network, population, sent, steps)
    if not population.neuron.fires:
        return drive.mean(axis=0, dtype=np.float32)[None]
    name, (per_channel, fair) = population.name, choices
    start = np.asarray(HALF)
    if name in wanted:
        goal = np.clip(wanted[name], 0, 1) * steps
        measurement.surplus[name] = float(np.mean(count_spikes(drive, start) - goal))
        varies = any(len(sent[p.source]) > 1 for p in network.projections if p.target == name)
        if fair and varies:  # at a constant input half the threshold rounds fairly
            start = fair_start(drive, goal, per_channel=per_channel and goal[:, 0].size >= ENOUGH)
    spikes = np.zeros(drive.shape, np.bool_)
    measurement.starts[name] = np.broadcast_to(start, population.shape)
    measurement.rates[name] = count_spikes(drive, start, spikes) / steps
    return spikes


def _drive(network: Network, population: Population, sent: Mapping[str, Array], steps: int) -> Array:
    """``[steps, samples, *shape]``; a constant input is computed once and is a view."""
    samples = next(iter(sent.values())).shape[1]
    drive = summed_input(network, population.name, population.shape, sent, samples)
    return np.broadcast_to(drive, (steps, samples, *population.shape))


def _bound(
    network: Network, population: Population, bounds: Mapping[str, Array], measurement: SpikeMeasurement
) -> Array:
    """The bound in spikes of each neuron (see ``torch_ann_start``)."""
    total = np.zeros(population.shape)
    for p in network.projections:
        if p.target == population.name:
            part = bounds[p.source]
            for operator in magnitude(p.operator):
                part = torch_apply(operator, part)
            total = total + part
    if population.neuron.fires:
        start = measurement.starts[population.name]
        total = total + np.maximum(np.abs(start), np.abs(1 - start))
    measurement.bounds[population.name] = float(total.max(initial=0.0))
    return total
