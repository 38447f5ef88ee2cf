"""What ``nirbridge inspect`` tells of a NIR file, as one plain document (the JSON form)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from nirbridge.arrays import Array
from nirbridge.errors import ModelError
from nirbridge.importers.nirfile.faults import sentences, unsettled
from nirbridge.importers.nirfile.load_repaired import load_repaired
from nirbridge.importers.nirfile.reader import DEFAULT_MAX_BYTES, fingerprint
from nirbridge.network.compose import parts_of
from nirbridge.network.model import Population, Projection, Timing
from nirbridge.network.naming import natural_key
from nirbridge.network.neurons import Neuron
from nirbridge.network.nir.export_warning import warn_of_faults
from nirbridge.network.nir.fields import NEURONS, WEIGHTED, kind_of
from nirbridge.network.nir.flatten import FlatGraph
from nirbridge.network.nir.from_nir import lowered, shaped
from nirbridge.network.nir.shapes import NodeShapes
from nirbridge.network.operators import Conv, Dense, Operator, Scale, Sparse, SumPool
from nirbridge.network.reach import unreached, useless
from nirbridge.partitioner.cost.connectivity import connectivity, synapses


def inspect_file(
    path: str, timing: Timing, max_bytes: int = DEFAULT_MAX_BYTES, repairs: Sequence[str] = ()
) -> dict[str, Any]:
    """Reads a NIR file and describes it as repaired; see ``inspect_graph``.

    ``findings``: what the file shows of known faults of exporters, before any repair, node by node; ``faults``: one
    sentence for each kind of them, with what to do. Those that no repair settles are warned of.

    Raises:
        FileError: it can not be read.
        ModelError: it has no exact meaning here.
        UsageError: repairs that are none.
    """
    graph, findings = load_repaired(path, repairs, dt=timing.dt, max_bytes=max_bytes)
    warn_of_faults(sentences(unsettled(findings, repairs)))
    found = {"findings": [asdict(f) for f in findings], "faults": list(sentences(findings))}
    told = {**found, "repaired": list(repairs)}
    return {"sha256": fingerprint(path), **told, **inspect_graph(graph, timing)}


def inspect_graph(graph: Any, timing: Timing) -> dict[str, Any]:
    """Nodes, populations, projections, totals, timing (read and assumed), warnings and dead parts of a graph.

    ``synapses`` are pairs of source and target (null where they can not be counted without listing too many; the
    total leaves out those onto outputs), ``weights`` numbers stored in the file, each node counted once.
    """
    flat, shapes = shaped(graph)
    network = lowered(graph, flat, shapes, timing)
    projections = [_projection(p) for p in network.projections]
    outputs = {p.name for p in network.outputs}
    counts = [p["synapses"] for p in projections if p["target"] not in outputs]
    return {
        "nodes": _nodes(flat, shapes),
        "inputs": [{"name": p.name, "shape": list(p.shape)} for p in network.inputs],
        "outputs": [{"name": p.name, "shape": list(p.shape)} for p in network.outputs],
        "populations": [_population(p) for p in network.populations],
        "projections": projections,
        "totals": {
            "neurons": network.neurons,
            "synapses": None if None in counts else sum(counts),
            "parameters": _stored(flat.nodes.values(), {**WEIGHTED, **NEURONS, "Scale": ("scale",)}),
            "weights": _stored(flat.nodes.values(), {**WEIGHTED, "Scale": ("scale",)}),
        },
        "timing": asdict(network.timing),
        "assumed": list(network.assumed),
        "notes": list(network.notes),
        "dead": {"no_input": list(unreached(network)), "no_output": list(useless(network))},
    }


def _nodes(flat: FlatGraph, shapes: Mapping[str, NodeShapes]) -> list[dict[str, Any]]:
    return [
        {
            "name": name,
            "type": kind_of(node),
            "input_shape": list(shapes[name].input_shape),
            "output_shape": list(shapes[name].output_shape),
        }
        for name, node in sorted(flat.nodes.items(), key=lambda item: natural_key(item[0]))
    ]


def _stored(nodes: Iterable[Any], fields: Mapping[str, tuple[str, ...]]) -> int:
    values = (getattr(node, field, None) for node in nodes for field in fields.get(kind_of(node), ()))
    return sum(math.prod(getattr(v, "shape", ())) for v in values if v is not None)


def _population(p: Population) -> dict[str, Any]:
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
    }


def _spread(values: Array | None) -> list[float] | None:
    """[least, most]; None for None."""
    return None if values is None else [values.min().item(), values.max().item()]


def _reset(neuron: Neuron) -> str | None:
    return neuron.reset if neuron.fires else None


def _projection(p: Projection) -> dict[str, Any]:
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
    own: dict[str, Any] = {}
    if isinstance(part, Conv):
        own = {"kernel": list(part.kernel), "stride": list(part.stride), "groups": part.groups}
        own["weights"] = part.weight.size
    elif isinstance(part, SumPool):
        own = {"kernel": list(part.kernel), "stride": list(part.stride), "factor": part.factor}
    elif isinstance(part, Dense | Scale):
        own = {"weights": part.weight.size if isinstance(part, Dense) else part.scale.size}
    elif isinstance(part, Sparse):
        own = {"weights": part.data.size}
    shapes = {"input_shape": list(part.input_shape), "output_shape": list(part.output_shape)}
    return {"type": type(part).__name__, **shapes, **own}
