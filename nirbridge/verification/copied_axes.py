"""Axes of an input along which an imported network only copies itself.

A batch or a time axis that was taken for values shows in this way, and in no comparison with the module: the module
treats its batch alike. The network is run again with other values in one part of the axis, and with the parts in turned
order. If nothing but one part of every output changes, and outputs and membranes turn with the parts, the parts are
independent copies. Membranes count since loud inputs make neurons with different weights fire alike.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from nirbridge.arrays import Array
from nirbridge.network.compose import parts_of
from nirbridge.network.model import Network
from nirbridge.network.operators import Conv, Dense, Sparse
from nirbridge.simulators.simulate import Probe, simulate

_STEPS = 6


def copied_axis(network: Network) -> tuple[int, int] | None:
    """(number of an input, axis) of the first axis of that kind; None where there is none."""
    if not any(isinstance(part, Dense | Sparse | Conv) for p in network.projections for part in parts_of(p.operator)):
        return None
    for number, port in enumerate(network.inputs):
        for axis, size in enumerate(port.shape):
            if len(port.shape) > 1 and size > 1 and _is_copied(network, number, axis, size):
                return number, axis
    return None


def _is_copied(network: Network, number: int, axis: int, size: int) -> bool:
    """True if a rotation of the input's parts rotates the parts of every output, and parts do not meet."""
    if not all(size in port.shape or port.size % size == 0 for port in network.outputs):
        return False
    source = np.random.default_rng(3)
    fed = {p.name: 8.0 * source.random((_STEPS, *p.shape)) for p in network.inputs}
    name = network.inputs[number].name
    rotated, single = np.roll(fed[name], 1, axis=axis + 1), fed[name].copy()
    np.moveaxis(single, axis + 1, 0)[0] = 0.0
    usual, turned, other = (_values(network, {**fed, name: values}) for values in (fed[name], rotated, single))
    if not all(_has_the_same(usual[p.name], turned[p.name]) for p in network.populations):
        return False
    if not any(np.any(usual[p.name] != other[p.name]) for p in network.outputs):
        return False
    return all(_moves_with(usual[p.name], turned[p.name], other[p.name], size) for p in network.outputs)


def _moves_with(usual: Array, turned: Array, other: Array, size: int) -> bool:
    if size not in usual.shape[1:]:  # values were joined in row-major order
        usual, turned, other = (a.reshape(len(a), size, -1) for a in (usual, turned, other))
    for axis in (k for k in range(1, usual.ndim) if usual.shape[k] == size):
        usual_rest, other_rest = (np.delete(values, 0, axis=axis) for values in (usual, other))
        if np.allclose(np.roll(usual, 1, axis=axis), turned) and np.array_equal(usual_rest, other_rest):
            return True
    return False


def _has_the_same(usual: Array, turned: Array) -> bool:
    """True if the neurons have the same membranes in each time step, in any order."""
    usual_sorted, turned_sorted = (np.sort(values.reshape(len(values), -1), axis=1) for values in (usual, turned))
    return np.allclose(usual_sorted, turned_sorted)


def _values(network: Network, fed: Mapping[str, Array]) -> dict[str, Array]:
    """Input of every output, and the membranes of every population before their reset."""
    probes = [
        *(Probe(p.name, ("u",)) for p in network.populations),
        *(Probe(p.name, ("s",)) for p in network.outputs),
    ]
    run = simulate(network, dict(fed), record=probes, dtype="float64", backend="numpy")
    return {name: values.astype(np.float64) for (name, _), values in run.recording.arrays.items()}
