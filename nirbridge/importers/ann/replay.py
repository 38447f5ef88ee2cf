"""The ANN and the spiking network made of it, run on data: activations, start potentials, spike rates, bounds.

Population by population, all steps of one before the next, as nothing here goes back in time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from nirbridge._types import Progress
from nirbridge.arrays import Array
from nirbridge.errors import Diagnostic, ModelError, quoted
from nirbridge.importers.ann.spiking import HALF, count_spikes, fair_start, magnitude
from nirbridge.importers.torch_apply import torch_apply
from nirbridge.network.model import Network, Population

Values = dict[str, Array]
Visit = Callable[[Population, Array], Array]
"""``visit(population, drive [samples, *shape]) -> output of the population``."""


def check_replayable(network: Network) -> None:
    """Raises ModelError where a network is no feed-forward ANN: loops and delays."""
    problems = [
        Diagnostic(
            f"projection {quoted(p.source)} -> {quoted(p.target)}",
            "a loop or a delay",
            "a converted network is feed-forward: every value stands for a whole run of steps",
            "convert the part without it",
        )
        for p in network.projections
        if p.is_back or p.max_delay_steps
    ]
    ModelError.raise_all(problems)


def ceiling(population: Population) -> float:
    """The largest value that the rectifier lets through: theta of the unscaled network (infinity for a ReLU)."""
    theta = population.neuron.theta
    return np.inf if theta is None or float(theta) >= UNBOUNDED else float(theta)


UNBOUNDED = 1e300
"""Theta of a rectifier without ceiling (populations hold finite numbers only)."""


def rectify(population: Population, drive: Array) -> Array:
    """``min(max(drive, 0), ceiling)``."""
    return np.clip(drive, 0.0, ceiling(population)).astype(drive.dtype, copy=False)


def walk_populations(network: Network, inputs: Mapping[str, Array], visit: Visit = rectify) -> Values:
    """Goes through the populations in order and gives the values that reach the outputs, ``[samples, *shape]``.

    ``network`` in causal order. A value is released after its last use.
    """
    samples = len(next(iter(inputs.values())))
    values: Values = dict(inputs)
    last = {p.source: p.target for p in network.projections}
    reached: Values = {}
    for node in (*network.populations, *network.outputs):
        drive = summed_input(network, node.name, node.shape, values, samples)
        if isinstance(node, Population):
            values[node.name] = visit(node, drive)
        else:
            reached[node.name] = drive
        for name in [n for n, target in last.items() if target == node.name]:
            values.pop(name, None)
    return reached


def summed_input(
    network: Network, target: str, shape: tuple[int, ...], values: Mapping[str, Array], samples: int
) -> Array:
    """The summed input of a node, biases included: ``[..., samples, *shape]``, float32 unless sources are float64.

    ``values``: ``[..., samples, *shape]`` by source; axes in front of the samples broadcast.
    """
    total: Array | None = None
    for p in network.projections:
        if p.target != target:
            continue
        part = torch_apply(p.operator, values[p.source])
        if p.bias is not None:
            part += p.bias.astype(part.dtype)
        total = part if total is None else total + part
    return np.zeros((samples, *shape), np.float32) if total is None else total


ENOUGH = 64
"""Counts that a start potential of its own needs; a channel with fewer shares that of its population."""


@dataclass(frozen=True, slots=True, eq=False)
class SpikeMeasurement:
    """By population: start potential, spikes per time step ``[samples, *shape]``, mean surplus, bound in spikes.

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
    target_rates: Mapping[str, Array],
    steps: int,
    choices: tuple[bool, bool],
    progress: Progress | None = None,
) -> SpikeMeasurement:
    """Runs ``network`` for ``steps`` steps of the constant ``inputs [samples, *shape]``.

    ``target_rates``: by population, those of the ANN (activation over scale). ``choices``: start potentials
    per channel or per population, and whether they are looked for at all (else they stay at half the threshold).
    """
    measurement = SpikeMeasurement({}, {}, {}, {}, {})
    sent = {name: values.astype(np.float32)[None] for name, values in inputs.items()}
    bounds = {port.name: np.zeros(port.shape) for port in network.inputs}
    last = {p.source: p.target for p in network.projections}
    for k, population in enumerate(network.populations):
        sent[population.name] = _population(network, population, sent, steps, target_rates, choices, measurement)
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
    target_rates: Mapping[str, Array],
    choices: tuple[bool, bool],
    measurement: SpikeMeasurement,
) -> Array:
    """Output of a population, ``[steps or 1, samples, *shape]``: spikes, or the mean input of a readout."""
    samples = next(iter(sent.values())).shape[1]
    drive = summed_input(network, population.name, population.shape, sent, samples)
    drive = np.broadcast_to(drive, (steps, samples, *population.shape))  # a constant input is a view
    if not population.neuron.fires:
        return drive.mean(axis=0, dtype=np.float32)[None]
    name, (per_channel, fair) = population.name, choices
    start = np.asarray(HALF)
    if name in target_rates:
        goal = np.clip(target_rates[name], 0, 1) * steps
        measurement.surplus[name] = float(np.mean(count_spikes(drive, start) - goal))
        varies = any(len(sent[p.source]) > 1 for p in network.projections if p.target == name)
        if fair and varies:  # at a constant input half the threshold rounds fairly
            start = fair_start(drive, goal, per_channel=per_channel and goal[:, 0].size >= ENOUGH)
    spikes = np.zeros(drive.shape, np.bool_)
    measurement.starts[name] = np.broadcast_to(start, population.shape)
    measurement.rates[name] = count_spikes(drive, start, spikes) / steps
    return spikes


def _bound(
    network: Network, population: Population, bounds: Mapping[str, Array], measurement: SpikeMeasurement
) -> Array:
    """The bound in spikes of each neuron (see ``ann.spiking``)."""
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
