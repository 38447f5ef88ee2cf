"""Report of a model file: nodes, neurons, projections, timing, warnings; as tables and as one plain document (JSON)."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from nirbridge.dialect.model_files import network_loader
from nirbridge.errors import counted, quoted
from nirbridge.importers.nirfile.faults import fault_sentences, unsettled_findings
from nirbridge.importers.nirfile.reader import DEFAULT_MAX_BYTES, file_sha256, load_repaired
from nirbridge.network.compose import part_weights, parts_of
from nirbridge.network.graph import unreached_populations, useless_populations
from nirbridge.network.model import Network, Timing
from nirbridge.network.naming import natural_key
from nirbridge.network.neurons import arrays_of, extra_label, is_extra
from nirbridge.network.nir.fields import NEURONS, WEIGHTED, kind_of
from nirbridge.network.nir.flatten import FlatGraph
from nirbridge.network.nir.from_nir import lower_graph, nodes_with_shapes
from nirbridge.network.nir.import_notes import with_import_notes
from nirbridge.network.nir.portability import warn_of_faults
from nirbridge.network.nir.shapes import NodeShapes
from nirbridge.report.lines import shape_line
from nirbridge.report.network_facts import population_facts, projection_facts
from nirbridge.report.tables import heading, listed, table

ROWS_SHOWN = 200
"""Rows of each table; laying out thousands takes longer than reading the file."""


_LISTS = {
    "assumed": "assumed",
    "notes": "notes",
    "faults": "known faults of exporters",
    "repaired": "repaired on request",
    "portability": "other tools",
}
"""Key of the document -> heading of its sentences."""


def inspect_text(document: Mapping[str, Any], *, notes: bool = True) -> RenderableType:
    """The tables of a document of ``inspect_file``; without assumptions and notes where ``notes`` is false."""
    parts: list[RenderableType] = [
        *([_node_table(document["nodes"])] if document["nodes"] else []),
        heading("populations"),
        populations_table(document["populations"]),
        heading("projections"),
        projections_table(document["projections"]),
        heading("totals"),
        Text(_totals(document["totals"])),
        heading("timing"),
        Text(timing_text(document["timing"])),
    ]
    for key, title in _LISTS.items():
        parts += listed(title, document.get(key, ())) if notes or key not in ("assumed", "notes") else []
    return Group(*parts)


def name_text(name: str) -> str:
    """A name, quoted and escaped unless it is plain."""
    return name if name.isprintable() and name.strip() == name and len(name) <= 60 and name else quoted(name)


def _node_table(nodes: Sequence[Mapping[str, Any]]) -> RenderableType:
    rows = [
        (name_text(node["name"]), node["type"], shape_line(node["input_shape"]), shape_line(node["output_shape"]))
        for node in nodes[:ROWS_SHOWN]
    ]
    return _cut(table(("node", "type", "input", "output"), "llr", rows), len(nodes), "nodes")


def _cut(part: Table, count: int, rows: str) -> RenderableType:
    """The table, and how many rows it leaves out."""
    if count <= ROWS_SHOWN:
        return part
    return Group(part, Text(f"… and {count - ROWS_SHOWN:,} more {rows} (all in --json)"))


def populations_table(populations: Sequence[Mapping[str, Any]]) -> RenderableType:
    """A row per population, from ``population_facts``."""
    headings = ("population", "kind", "shape", "neurons", "threshold", "decay", "spike", "reset")
    rows = [
        (
            name_text(p["name"]),
            name_text(p["kind"]),
            shape_line(p["shape"]),
            f"{p['neurons']:,}",
            _spread_text(p["threshold"]),
            ", ".join(_spread_text(decay) for decay in (p["membrane_decay"], p["synaptic_decay"]) if decay),
            f"v {p['compare']} threshold" if p["compare"] else "none (readout)",
            (p["reset"] or "") + "".join(f", {extra_label(k)} {_spread_text(p[k])}" for k in p if is_extra(k)),
        )
        for p in populations[:ROWS_SHOWN]
    ]
    return _cut(table(headings, "llrrrrl", rows), len(populations), "populations")


def _spread_text(values: Sequence[float] | None) -> str:
    if values is None:
        return ""
    low, high = values
    return f"{low:.6g}" if low == high else f"{low:.6g} to {high:.6g}"


def projections_table(projections: Sequence[Mapping[str, Any]]) -> RenderableType:
    """A row per projection, from ``projection_facts``."""
    rows = []
    for p in projections[:ROWS_SHOWN]:
        count = "too many to count" if p["synapses"] is None else f"{p['synapses']:,}"
        marks = ["bias"] * p["bias"] + ["closes a cycle"] * p["closes_cycle"]
        operator = ", ".join(_operator(part) for part in p["operator"])
        names = name_text(p["source"]), name_text(p["target"])
        rows.append((*names, operator, count, _spread_text(p["delay_steps"]), ", ".join(marks)))
    projections_shown = table(("from", "to", "operator", "synapses", "delay", ""), "lllrrl", rows)
    return _cut(projections_shown, len(projections), "projections")


def _operator(part: Mapping[str, Any]) -> str:
    kind = part["type"]
    if kind in ("Conv", "SumPool"):
        groups = f", {part['groups']} groups" if part.get("groups", 1) > 1 else ""
        return f"{kind} {'x'.join(map(str, part['kernel']))} / {'x'.join(map(str, part['stride']))}{groups}"
    if kind in ("Dense", "Sparse"):
        return f"{kind} {shape_line(part['output_shape'])} from {shape_line(part['input_shape'])}"
    return kind


def _totals(totals: Mapping[str, Any]) -> str:
    count = totals["synapses"]
    synapses = "too many synapses to count" if count is None else counted(count, "synapse")
    return (
        f"{counted(totals['neurons'], 'neuron')}, {synapses}, {totals['weights']:,} weights and biases stored, "
        f"{counted(totals['parameters'], 'parameter')} in all"
    )


def timing_text(timing: Mapping[str, Any]) -> str:
    """The fields of a ``Timing`` in one sentence."""
    return (
        f"dt {timing['dt']:g} s, integrator {timing['integrator']}, reset {timing['reset']}, "
        f"spike if v {timing['compare']} threshold, gain of integrators {timing['if_gain']}"
    )


def inspect_file(
    path: str,
    timing: Timing,
    max_bytes: int = DEFAULT_MAX_BYTES,
    repairs: Sequence[str] = (),
    rewrite: Callable[[Network], Network] | None = None,
) -> dict[str, Any]:
    """Reads a NIR file and describes it as repaired; see ``inspect_graph``, and for other files ``inspect_network``.

    ``findings``: what the file shows of known faults of exporters, before any repair, node by node; ``faults``: one
    sentence for each kind of them, with what to do. Those that no repair settles are warned of.

    Raises:
        FileError: it cannot be read.
        ModelError: it has no exact meaning here.
        UsageError: repairs that are none.
    """
    load = network_loader(path)
    if load is not None:
        network = load(path, timing, repairs, max_bytes=max_bytes)
        about = {"findings": [], "faults": [], "repaired": []}
        return {"sha256": file_sha256(path), **about, **inspect_network(network, rewrite)}
    graph, findings = load_repaired(path, repairs, dt=timing.dt, max_bytes=max_bytes)
    warn_of_faults(fault_sentences(unsettled_findings(findings, repairs)))
    faults = {"findings": [asdict(f) for f in findings], "faults": list(fault_sentences(findings))}
    about = {**faults, "repaired": list(repairs)}
    return {"sha256": file_sha256(path), **about, **inspect_graph(graph, timing, rewrite)}


def inspect_graph(graph: Any, timing: Timing, rewrite: Callable[[Network], Network] | None = None) -> dict[str, Any]:
    """Nodes, populations, projections, totals, timing (read and assumed), warnings and dead parts of a graph.

    ``synapses`` are pairs of source and target (null where they cannot be counted without listing too many; the
    total leaves out those onto outputs), ``weights`` numbers stored in the file, each node counted once. With
    ``rewrite`` populations and projections are those of the rewritten network, nodes those of the graph.
    """
    flat, shapes = nodes_with_shapes(graph)
    network = with_import_notes(lower_graph(graph, flat, shapes, timing), graph)
    network = network if rewrite is None else rewrite(network)
    stored = {
        "parameters": _stored(flat.nodes.values(), {**WEIGHTED, **NEURONS, "Scale": ("scale",)}),
        "weights": _stored(flat.nodes.values(), {**WEIGHTED, "Scale": ("scale",)}),
    }
    return _document(network, _nodes(flat, shapes), stored)


def inspect_network(network: Network, rewrite: Callable[[Network], Network] | None = None) -> dict[str, Any]:
    """As ``inspect_graph``, of a network that is not from NIR: it has no nodes, and its arrays are counted."""
    parts = [part for p in network.projections for part in parts_of(p.operator)]
    weights = _sizes([part_weights(part) for part in parts] + [p.bias for p in network.projections])
    neurons = [values for p in network.populations for values in arrays_of(p.neuron).values()]
    stored = {"parameters": weights + _sizes(neurons), "weights": weights}
    return _document(network if rewrite is None else rewrite(network), [], stored)


def _sizes(values: Iterable[Any]) -> int:
    return sum(value.size for value in values if isinstance(value, np.ndarray))


def _document(network: Network, nodes: list[dict[str, Any]], stored: Mapping[str, int]) -> dict[str, Any]:
    projections = [projection_facts(p) for p in network.projections]
    outputs = {p.name for p in network.outputs}
    counts = [p["synapses"] for p in projections if p["target"] not in outputs]
    return {
        "nodes": nodes,
        "inputs": [{"name": p.name, "shape": list(p.shape)} for p in network.inputs],
        "outputs": [{"name": p.name, "shape": list(p.shape)} for p in network.outputs],
        "populations": [population_facts(p) for p in network.populations],
        "projections": projections,
        "totals": {
            "neurons": network.neurons,
            "synapses": None if None in counts else sum(counts),
            **stored,
        },
        "timing": asdict(network.timing),
        "assumed": list(network.assumed),
        "notes": list(network.notes),
        "dead": {"no_input": list(unreached_populations(network)), "no_output": list(useless_populations(network))},
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
