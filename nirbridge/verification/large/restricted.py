"""Networks of some of the neurons: one population's sampled neurons, driven by the outputs of its sources."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from nirbridge.arrays import Array, freeze
from nirbridge.network.apply import fan_in
from nirbridge.network.compose import parts_of
from nirbridge.network.model import Network, Population, Port, Projection
from nirbridge.network.neurons import Neuron, with_arrays
from nirbridge.network.operators import Chain, Conv, Dense, Identity, Operator, Reshape, Scale, Sparse, SumPool

NEURONS = 64
"""Neurons of each population that are compared, at most."""
MOST_SYNAPSES = 3_000_000
"""Synapses of the neurons of one operator, at most."""


class TooManySynapses(Exception):
    """The sampled neurons have more synapses than are listed."""


@dataclass(frozen=True, slots=True)
class RestrictedNetwork:
    """``network`` has flat shapes; ``sources``: by input port, the source and the flat indices of its values."""

    network: Network
    sources: dict[str, tuple[str, Array]]


def restricted_network(
    network: Network, population: Population | None, rows: Array, outputs: Sequence[Port]
) -> RestrictedNetwork:
    """The neurons ``rows`` of a population (None: no population), and ``outputs``.

    The outputs are copies of all its neurons where there is one; else they are driven by the outputs of their sources.

    Raises:
        TooManySynapses: they are too many to be listed.
    """
    ports: list[Port] = []
    sources: dict[str, tuple[str, Array]] = {}
    projections: list[Projection] = []
    name = None if population is None else population.name
    targets = {port.name: np.arange(port.size) for port in outputs} | ({} if name is None else {name: rows})
    for number, p in enumerate(network.projections):
        if p.target not in targets:
            continue
        operator, columns = restricted(p.operator, targets[p.target])
        source = p.source
        if p.source != name or p.target == name:
            source = f"source {number}"
            ports.append(Port(source, (len(columns),)))
            sources[source] = p.source, columns
        projections.append(
            replace(
                p,
                source=source,
                operator=operator,
                is_back=False,
                bias=None if p.bias is None else _picked(p.bias, targets[p.target]),
                delay_steps=_picked(p.delay_steps, columns),
                target_delay_steps=_picked(p.target_delay_steps, targets[p.target]),
            )
        )
    kept = () if population is None else (Population(population.name, (len(rows),), _neurons(population.neuron, rows)),)
    flat = tuple(Port(port.name, (port.size,)) for port in outputs)
    parts = {"populations": kept, "projections": tuple(projections), "inputs": tuple(ports), "outputs": flat}
    return RestrictedNetwork(replace(network, **parts), sources)


def restricted(operator: Operator, rows: Array) -> tuple[Operator, Array]:
    """The operator on flat arrays, with the outputs ``rows`` alone; and the inputs that it takes."""
    parts: list[Operator] = []
    for part in reversed(parts_of(operator)):
        if len(rows) * max(1, fan_in(part)) > MOST_SYNAPSES:
            raise TooManySynapses
        taken, rows = _part(part, rows)
        parts.insert(0, taken)
    return parts[0] if len(parts) == 1 else Chain(tuple(parts)), rows  # pyright: ignore[reportArgumentType]


def _part(part: Operator, rows: Array) -> tuple[Operator, Array]:
    if isinstance(part, Identity | Reshape):
        return Identity((len(rows),)), rows
    if isinstance(part, Scale):
        return Scale(freeze(part.scale.reshape(-1)[rows])), rows
    if isinstance(part, Dense):
        return Dense(freeze(part.weight[rows])), np.arange(part.weight.shape[1])
    if isinstance(part, Sparse):
        counts = np.diff(part.indptr)[rows]
        places = np.concatenate([np.arange(int(part.indptr[row]), int(part.indptr[row + 1])) for row in rows])
        return _sparse(counts, part.indices[places], part.data[places])
    assert isinstance(part, Conv | SumPool)
    columns, values, is_inside = _window(part, rows)
    return _sparse(is_inside.sum(axis=1), columns[is_inside], values[is_inside])


def _sparse(counts: Array, columns: Array, values: Array) -> tuple[Operator, Array]:
    needed, places = np.unique(columns, return_inverse=True)
    indptr = np.concatenate([[0], np.cumsum(counts)])
    shapes = (len(needed),), (len(counts),)
    return Sparse(freeze(indptr), freeze(places.reshape(-1)), freeze(values), *shapes), needed


def _window(part: Conv | SumPool, rows: Array) -> tuple[Array, Array, Array]:
    """(Input, weight, is inside) of every tap of each of the outputs ``rows``, ``[rows, taps]``, inputs ascending."""
    channel, *place = np.unravel_index(rows, part.output_shape)
    if isinstance(part, Conv):
        cin = part.weight.shape[1]
        first = channel // (part.weight.shape[0] // part.groups) * cin
        values = part.weight[channel].reshape(len(rows), -1)
    else:
        cin, first = 1, channel
        values = np.full((len(rows), math.prod(part.kernel)), np.float32(part.factor))
    taps = np.indices((cin, *part.kernel)).reshape(1 + len(part.kernel), -1)
    columns = first[:, None] + taps[0]
    is_inside = np.ones(columns.shape, bool)
    for axis, n in enumerate(part.input_shape[1:]):
        start = place[axis] * part.stride[axis] - part.padding[axis][0]
        position = start[:, None] + taps[1 + axis] * part.dilation[axis]
        is_inside &= (position >= 0) & (position < n)
        columns = columns * n + position
    return columns, values, is_inside


def _picked(values: Array, places: Array) -> Array:
    return freeze(values[np.unravel_index(places, values.shape)]) if values.ndim else values


def _neurons(neuron: Neuron, rows: Array) -> Neuron:
    return with_arrays(neuron, lambda values: _picked(values, rows))
