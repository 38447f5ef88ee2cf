"""Populations and projections as plain values, for JSON and for the rows of tables."""

from __future__ import annotations

from typing import Any

from nirbridge.arrays import Array
from nirbridge.errors import ModelError
from nirbridge.network.compose import parts_of
from nirbridge.network.model import Population, Projection
from nirbridge.network.neurons import Neuron, extra_arrays
from nirbridge.network.operators import Conv, Dense, Operator, Scale, Sparse, SumPool
from nirbridge.partitioner.cost.connectivity import connectivity, synapses


def population_facts(p: Population) -> dict[str, Any]:
    """Name, kind, shape, and the ranges of the neurons' parameters."""
    return {
        "name": p.name,
        "kind": p.neuron.kind,
        "shape": list(p.shape),
        "neurons": p.size,
        "threshold": _spread(p.neuron.theta),
        "membrane_decay": _spread(p.neuron.a_mem),
        "synaptic_decay": _spread(p.neuron.a_syn) if p.neuron.has_synapse else None,
        "reset": _reset(p.neuron),
        "compare": p.neuron.compare if p.neuron.fires else None,
        "max_spikes": p.neuron.max_spikes if p.neuron.fires else None,
        "refractory_steps": _spread(p.neuron.refractory_steps),
        **{name: _spread(values) for name, values in extra_arrays(p.neuron).items()},
    }


def _spread(values: Array | None) -> list[float] | None:
    """[least, most]; None for None."""
    return None if values is None else [values.min().item(), values.max().item()]


def _reset(neuron: Neuron) -> str | None:
    return neuron.reset if neuron.fires else None


def projection_facts(p: Projection) -> dict[str, Any]:
    """Source, target, the operator part by part, synapses and delays."""
    return {
        "source": p.source,
        "target": p.target,
        "operator": [_part(part) for part in parts_of(p.operator)],
        "nodes": list(p.nodes),
        "synapses": _synapses(p),
        "bias": p.bias is not None,
        "delay_steps": [
            int(p.delay_steps.min()) + int(p.target_delay_steps.min()),
            p.max_delay_steps,
        ],
        "closes_cycle": p.is_back,
    }


def _synapses(p: Projection) -> int | None:
    try:
        return synapses(connectivity(p.operator))
    except ModelError:
        return None


def _part(part: Operator) -> dict[str, Any]:
    """One part of an operator: what it is, and its sizes."""
    sizes: dict[str, Any] = {}
    if isinstance(part, Conv):
        sizes = {"kernel": list(part.kernel), "stride": list(part.stride), "groups": part.groups}
        sizes["weights"] = part.weight.size
    elif isinstance(part, SumPool):
        sizes = {"kernel": list(part.kernel), "stride": list(part.stride), "factor": part.factor}
    elif isinstance(part, Dense | Scale):
        sizes = {"weights": part.weight.size if isinstance(part, Dense) else part.scale.size}
    elif isinstance(part, Sparse):
        sizes = {"weights": part.data.size}
    shapes = {"input_shape": list(part.input_shape), "output_shape": list(part.output_shape)}
    return {"type": type(part).__name__, **shapes, **sizes}
