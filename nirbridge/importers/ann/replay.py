"""The ANN that an unscaled network stands for, on data: every population a rectifier, every value a number."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from nirbridge.arrays import Array
from nirbridge.errors import Diagnostic, ModelError, quoted
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
    found: Values = {}
    for node in (*network.populations, *network.outputs):
        drive = summed_input(network, node.name, node.shape, values, samples)
        if isinstance(node, Population):
            values[node.name] = visit(node, drive)
        else:
            found[node.name] = drive
        for name in [n for n, target in last.items() if target == node.name]:
            values.pop(name, None)
    return found


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
