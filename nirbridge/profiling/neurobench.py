"""Metrics of NeuroBench under its own names, computed from their definitions.

J. Yik et al., "The NeuroBench framework for benchmarking neuromorphic computing algorithms and systems", Nature
Communications 16, 2025; definitions as in ``docs/metrics`` of github.com/NeuroBench/neurobench, commit e521c28:

* Footprint: bytes that represent the model, "which reflects quantization, parameters, and buffering requirements".
  Of the reference 4 bytes for each weight, bias and state; of the integers the bits of each weight, bias and state.
* ParameterCount: weights and biases, a kernel counted once; of the integers those of the model that they stand for,
  since a weight that a folded pool repeats in the stored kernel or matrix is one parameter.
* ConnectionSparsity: zero weights over weights. NeuroBench rounds it to 4 decimals; here it is not rounded.
* ActivationSparsity: zero activations over activations, over all neurons, time steps and samples.
* SynapticOperations: ``Effective_ACs`` are non-zero weights that a spike (0 or 1) reaches, ``Effective_MACs`` those
  that another value reaches, ``Dense`` all weights at all positions with every activation counted; averages over
  samples, biases left out.
* MembraneUpdates: the first potential of each neuron, and every time step in which it differs from the one before, per
  sample.
* ClassificationAccuracy: share of samples whose largest sum of the output over time is that of the label.

A pool between two populations is folded into the synapses: each spike counts at every synapse that it reaches through
the pool, where NeuroBench counts the layer after the pool alone, once for spikes that meet in a window.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from nirbridge.arrays import Array
from nirbridge.network import Network, apply
from nirbridge.network.compose import part_weights, parts_of
from nirbridge.network.operators import Chain, Conv, Dense, Operator, Scale, Sparse, SumPool
from nirbridge.profiling.activity import Activity
from nirbridge.quantization.model import QuantizedNetwork

FLOAT_BITS = 32
Edge = tuple[str, str, Operator]


def reference_metrics(network: Network, activity: Activity, accuracy: float | None) -> dict[str, float]:
    """The metrics of the model in real numbers."""
    weights, parameters = _weights(p.operator for p in network.projections), _parameters(network)
    states = sum(p.size * (2 if p.neuron.has_synapse else 1) for p in network.populations)
    bits = FLOAT_BITS * (parameters + states)
    edges = [(p.source, p.target, p.operator) for p in network.projections]
    return _metrics(edges, weights, parameters, bits, activity, accuracy)


def _parameters(network: Network) -> int:
    biases = sum(_stored(p.bias) for p in network.projections if p.bias is not None)
    biases += sum(_stored(p.neuron.bias) for p in network.populations if np.any(p.neuron.bias))
    return sum(w.size for w in _weights(p.operator for p in network.projections)) + biases


def integer_metrics(
    quantized: QuantizedNetwork, network: Network, activity: Activity, accuracy: float | None
) -> dict[str, float]:
    """The metrics of the model in the chip's integers; ``network``: the model."""
    mantissa = int(quantized.formats.get("bias_mant_bits", FLOAT_BITS))
    biases = sum(_stored(p.neuron.bias_mant) for p in quantized.populations if np.any(p.neuron.bias_mant))
    bits = mantissa * biases
    bits += sum(p.size * (p.neuron.u_bits + p.neuron.v_bits) for p in quantized.populations)
    bits += sum(p.weight_bits * w.size for p in quantized.projections for w in _weights([p.operator]))
    edges: list[Edge] = [(p.source, p.target, p.operator) for p in quantized.projections]
    edges += [(p.source, p.target, p.operator) for p in quantized.reads]
    weights = _weights(operator for _, _, operator in edges)
    return _metrics(edges, weights, _parameters(network), bits, activity, accuracy)


def _metrics(
    edges: Iterable[Edge], weights: list[Array], parameters: int, bits: int, activity: Activity, accuracy: float | None
) -> dict[str, float]:
    count = sum(w.size for w in weights)
    zeros = count - sum(int(np.count_nonzero(w)) for w in weights)
    found: dict[str, float] = {"Footprint": -(-bits // 8), "ParameterCount": parameters}
    found |= {"ConnectionSparsity": zeros / count} if count else {}
    activations = sum(activity.counts[name].size for name in activity.active) * activity.steps * activity.samples
    if activations:
        found["ActivationSparsity"] = 1 - sum(activity.active.values()) / activations
    found |= _operations(edges, activity)
    if activity.updates:
        found["MembraneUpdates"] = sum(activity.updates.values()) / activity.samples
    return found | ({} if accuracy is None else {"ClassificationAccuracy": accuracy})


def _operations(edges: Iterable[Edge], activity: Activity) -> dict[str, float]:
    """Operations of a sample; a sum over the outputs of the operator with weights of 1, driven by the counts."""
    effective, dense = {"Effective_MACs": 0.0, "Effective_ACs": 0.0}, 0.0
    for source, _, operator in edges:
        if not _weights([operator]) or source not in activity.counts:
            continue
        spikes = activity.counts[source].reshape(operator.input_shape)
        kind = "Effective_MACs" if source in activity.graded else "Effective_ACs"
        effective[kind] += float(apply(with_weights(operator, _binary), spikes).sum()) / activity.samples
        ones = np.ones(operator.input_shape)
        dense += float(apply(with_weights(operator, np.ones_like), ones).sum()) * activity.steps
    return {**effective, "Dense": dense}


def _binary(weights: Array) -> Array:
    return (weights != 0).astype(np.float64)


def with_weights(operator: Operator, change: Callable[[Array], Array]) -> Operator:
    """The operator with other weights; a pool adds what it reaches."""
    parts = tuple(_changed(part, change) for part in parts_of(operator))
    return replace(operator, parts=parts) if isinstance(operator, Chain) else parts[0]


def _changed(part: Any, change: Callable[[Array], Array]) -> Any:
    if isinstance(part, Dense | Conv):
        return replace(part, weight=np.asarray(change(part.weight), np.float64))
    if isinstance(part, Sparse):
        return replace(part, data=np.asarray(change(part.data), np.float64))
    if isinstance(part, Scale):
        return replace(part, scale=np.asarray(change(part.scale), np.float64))
    return replace(part, factor=1.0) if isinstance(part, SumPool) else part


def _weights(operators: Iterable[Operator]) -> list[Array]:
    """The weights of layers, each once; scales of single neurons and pools have none that NeuroBench counts."""
    found: dict[int, Array] = {}
    for operator in operators:
        for part in parts_of(operator):
            weights = part_weights(part)
            if weights is not None and not isinstance(part, Scale):
                found[id(weights)] = weights
    return list(found.values())


def _stored(values: Array) -> int:
    """Numbers that are stored: one where all neurons share it."""
    return int(np.asarray(values).size)


def accuracy_of(totals: Mapping[str, Array], labels: Array, output: str) -> float:
    """Share of samples whose largest total is that of the label; a tie goes to the lower class."""
    return float(np.mean(totals[output].argmax(axis=1) == labels))
