"""Recordings of integer programs whose outputs the host computes from what populations sent."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from nirbridge.arrays import Array
from nirbridge.quantization.model import FixedNeuron, QuantizedNetwork
from nirbridge.simulators.fixed.host_io import readout_values
from nirbridge.simulators.types import Key


def needed_arrays(quantized: QuantizedNetwork, requested: Mapping[str, frozenset[str]]) -> set[Key]:
    """The variables of populations that the recording and its outputs are made of."""
    populations = {p.name: p for p in quantized.populations}
    keys = {(name, v) for name, variables in requested.items() if name in populations for v in variables}
    for read in quantized.reads:
        if read.target in requested and read.source in populations:
            keys.add((read.source, "s" if populations[read.source].neuron.fires else "v"))
    return keys


def recorded_arrays(
    quantized: QuantizedNetwork,
    requested: Mapping[str, frozenset[str]],
    found: Mapping[Key, Array],
    inputs: Mapping[str, Array],
    past: Mapping[Key, Array] | None = None,
) -> dict[Key, Array]:
    """Every requested array in its shape, and the outputs, which the host computes.

    Args:
        quantized: the network.
        requested: variables by node.
        found: the arrays of ``needed_arrays``, flat over neurons: ``[steps, samples, neurons]``.
        inputs: integers by input, ``[steps, samples, *shape]``.
        past: arrays of the state that the run continues from; None: nothing was sent before.
    """
    populations = {p.name: p for p in quantized.populations}
    out = {key: a.reshape(*a.shape[:2], *populations[key[0]].shape) for key, a in found.items()}
    out |= {(p.name, "s"): inputs[p.name] * (p.scale if p.graded else 1) for p in quantized.inputs}
    sent = {p.name: inputs[p.name].reshape(*inputs[p.name].shape[:2], -1) for p in quantized.inputs}
    sent |= {name: array for (name, variable), array in found.items() if variable == _sends(populations[name].neuron)}
    depths = {x.name: 0 for x in (*quantized.inputs, *quantized.populations)}
    for read in quantized.reads:
        depths[read.source] = max(depths[read.source], int(read.delay_steps.max(initial=0)))
    history = {name: np.concatenate([_before(name, a, depths[name], past), a]) for name, a in sent.items()}
    for port in (port for port in quantized.outputs if port.name in requested):
        steps = next(iter(sent.values())).shape[0]
        out[port.name, "s"] = out[port.name, "v"] = readout_values(quantized, port, steps, history, depths)
    return out


def _before(name: str, sent: Array, depth: int, past: Mapping[Key, Array] | None) -> Array:
    """What a source sent in the last time steps before the run."""
    if past is None or not depth:
        return np.zeros((depth, *sent.shape[1:]), np.int64)
    earlier = past[name, "past"]
    return earlier[len(earlier) - depth :].reshape(depth, *sent.shape[1:])


def _sends(neuron: FixedNeuron) -> str:
    return "s" if neuron.fires else "v"
