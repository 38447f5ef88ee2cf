"""The synapses into some neurons, one by one, with their integer weights: what a core's memory holds."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

import numpy as np

from nirbridge.arrays import Array
from nirbridge.network.operators import Conv, Dense, Sparse


@dataclass(frozen=True, slots=True, eq=False)
class Synapses:
    """One entry per synapse: ``target`` (index into the targets asked for), flat ``source`` index, ``weight``."""

    target: Array
    source: Array
    weight: Array


def synapses_into(operator: Dense | Sparse | Conv, targets: Array) -> Synapses:
    """Every synapse of ``operator`` into ``targets`` (flat indices of its output), zero weights included."""
    if isinstance(operator, Dense):
        width = operator.weight.shape[1]
        at = np.repeat(np.arange(len(targets)), width)
        return Synapses(at, np.tile(np.arange(width), len(targets)), operator.weight[targets].reshape(-1))
    return _of_sparse(operator, targets) if isinstance(operator, Sparse) else _of_conv(operator, targets)


def _of_sparse(operator: Sparse, targets: Array) -> Synapses:
    first = operator.indptr[targets].astype(np.int64)
    at, picked = ranges(first, operator.indptr[targets + 1] - first)
    return Synapses(at, operator.indices[picked].astype(np.int64), operator.data[picked])


def _of_conv(operator: Conv, targets: Array) -> Synapses:
    """y[o, p] = sum over i, k of weight[o, i, k] * x[o's first channel + i, p * stride - before + k * dilation]."""
    out, *place = np.unravel_index(targets, operator.output_shape)
    channels = operator.weight.shape[1]
    first = out // (operator.weight.shape[0] // operator.groups) * channels
    spatial = operator.input_shape[1:]
    found: list[tuple[Array, Array, Array]] = []
    for tap in itertools.product(*map(range, operator.kernel)):
        inside, flat = np.ones(len(targets), bool), np.zeros(len(targets), np.int64)
        for axis, n in enumerate(spatial):
            x = place[axis] * operator.stride[axis] - operator.padding[axis][0] + tap[axis] * operator.dilation[axis]
            inside &= (x >= 0) & (x < n)
            flat = flat * n + x
        hit = np.flatnonzero(inside)
        source = (first[hit, None] + np.arange(channels)) * math.prod(spatial) + flat[hit, None]
        weight = operator.weight[(out[hit], slice(None), *tap)]
        found.append((np.repeat(hit, channels), source.reshape(-1), weight.reshape(-1)))
    return Synapses(*(np.concatenate(column) for column in zip(*found, strict=True)))


def ranges(first: Array, count: Array) -> tuple[Array, Array]:
    """Stretches ``first[k] … first[k] + count[k] - 1`` one after the other: (k, value) of each entry."""
    at = np.repeat(np.arange(len(first)), count)
    before = np.cumsum(count) - count
    return at, np.arange(len(at)) - before[at] + first[at]
