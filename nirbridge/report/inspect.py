"""Report of a model file: nodes, neurons, projections, timing, warnings; as tables and as one plain document (JSON)."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from rich.console import Console, ConsoleOptions, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from nirbridge.arrays import stored_part
from nirbridge.dialect.model_files import network_loader
from nirbridge.errors import counted, quoted
from nirbridge.importers.nirfile.faults import SHAPES_ONLY, exporter_of, fault_sentences, unsettled_findings
from nirbridge.importers.nirfile.form import stored_form
from nirbridge.importers.nirfile.reader import DEFAULT_MAX_BYTES, file_sha256, load_repaired
from nirbridge.network.compose import part_weights, parts_of
from nirbridge.network.graph import (
    DelayArc,
    back_arcs,
    causal_order,
    grouped,
    unreached_populations,
    useless_populations,
)
from nirbridge.network.model import Network, Timing
from nirbridge.network.naming import folded
from nirbridge.network.neurons import arrays_of, extra_label, is_extra
from nirbridge.network.nir.fields import ELEMENTWISE, NEURONS, WEIGHTED, kind_of
from nirbridge.network.nir.flatten import FlatGraph
from nirbridge.network.nir.from_nir import lower_graph, nodes_with_shapes
from nirbridge.network.nir.import_notes import with_import_notes
from nirbridge.network.nir.shapes import NodeShapes
from nirbridge.network.nir.windows import window_of
from nirbridge.report.lines import shape_line
from nirbridge.report.map_facts import figure_with_prefix, one_line
from nirbridge.report.network_facts import population_facts, projection_facts
from nirbridge.report.tables import facts_table, fitted, heading, table

ROWS_SHOWN = 200
"""Rows of each table; laying out thousands takes longer than reading the file."""
_NODES_SHOWN = 30
"""Rows of each table without ``--verbose``: about a screen."""
_NAMES_SHOWN = 3
"""Targets of a node, and sources of a population, in a row."""
_READINGS_SHOWN = 12

_LISTS = {
    "assumed": "assumed",
    "notes": "notes",
    "faults": "known faults of exporters",
    "repaired": "repaired on request",
    "portability": "other tools",
}
"""Key of the document -> heading of its sentences."""
_OPTIONS = " (other values: --dt, --integrator, --reset, --compare, --if-gain)"
_SECONDS = ("tau", "tau_mem", "tau_syn", "delay")


def inspect_text(document: Mapping[str, Any], *, notes: bool = True, verbose: bool = False) -> RenderableType:
    """A document of ``inspect_file`` for a terminal: what wrote the file, its nodes, and how they are read.

    Args:
        document: the document.
        notes: False leaves assumptions and notes out.
        verbose: all parameters of nodes, more rows, and the operators of projections.
    """
    nodes, shown = document["nodes"], ROWS_SHOWN if verbose else _NODES_SHOWN
    parts: list[RenderableType] = [facts_table(_facts(document))]
    if nodes:
        rows = [_node_row(node, verbose=verbose) for node in nodes[:shown]]
        parts += [Text(), Nodes(rows), *_more(len(nodes), shown, "nodes")]
        readings = list(_readings(document))
        most = len(readings) if len(nodes) <= shown else _READINGS_SHOWN
        headings = ("population", "neurons", "decay", "synapses")
        parts += [heading("as nirbridge reads it"), table(headings, "lrll", readings[:most])]
        parts += _more(len(readings), most, "populations")
    else:
        parts += [heading("populations"), populations_table(document["populations"])]
    if verbose or not nodes:
        parts += [heading("projections"), projections_table(document["projections"])]
    for key, title in _LISTS.items():
        if notes or key not in ("assumed", "notes"):
            options = _OPTIONS if key == "assumed" and nodes else ""
            parts += _bullets(title + options, document.get(key, ()))
    return Group(*parts)


def _bullets(title: str, sentences: Iterable[str]) -> list[RenderableType]:
    """A heading and the sentences, further lines of each below its first word; nothing where there is none."""
    rows = [("-", one_line(sentence)) for sentence in folded(sentences)]
    return [heading(title), table(("", ""), "Ll", rows, show_header=False, padding=(0, 1, 0, 0))] if rows else []


def name_text(name: str) -> str:
    """A name, quoted and escaped unless it is plain."""
    return name if name.isprintable() and name.strip() == name and len(name) <= 60 and name else quoted(name)


def _facts(document: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    totals, timing = document["totals"], document["timing"]
    if document["nodes"] and "exporter" in document:
        version = "" if document["nir_version"] is None else f"NIR {one_line(document['nir_version'])}, "
        tool, sure = document["exporter"] or (None, "")
        by = "no trace of the tool that wrote it" if tool is None else f"written by {one_line(tool)}"
        yield "file", f"{version}{by}" + ("" if sure in ("", "certain") else f" ({sure})")
    count = totals["synapses"]
    synapses = "too many synapses to count" if count is None else counted(count, "synapse")
    yield "network", f"{counted(totals['neurons'], 'neuron')}, {synapses}"
    stored = f"{totals['weights']:,} of them weights and biases"
    yield "stored", f"{counted(totals['parameters'], 'parameter')}, {stored}"
    spike = f"spike if v {timing['compare']} threshold"
    dt = f"dt {figure_with_prefix(timing['dt'], 's')} ({document['dt_from']})"
    yield "timing", f"{dt}, {timing['integrator']}, reset {timing['reset']}, {spike}"


@dataclass(frozen=True, slots=True)
class Nodes:
    """A table of nodes; where it is wider than the console, every node takes two or three lines instead."""

    rows: Sequence[tuple[str, str, str, str, str]]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[RenderableType]:
        """The parts that rich prints."""
        wide = fitted(table(("node", "type", "shape", "weights, parameters", "feeds"), "l", self.rows), console)
        if isinstance(wide, Table):
            yield wide
            return
        for name, kind, shape, values, feeds in self.rows:
            yield Text(f"{name}  {kind}  {shape}", overflow="fold")
            for line in filter(None, (values, feeds and f"-> {feeds}")):
                yield Padding(Text(line, overflow="fold"), (0, 0, 0, 4))


def _node_row(node: Mapping[str, Any], *, verbose: bool) -> tuple[str, str, str, str, str]:
    before, after = (shape_line(node[key]).replace(" ", "") for key in ("input_shape", "output_shape"))
    shape = after if before == after else f"{before} to {after}"
    return name_text(node["name"]), node["type"], shape, _values(node, verbose=verbose), _some(node["feeds"])


def _values(node: Mapping[str, Any], *, verbose: bool) -> str:
    """The window, the weights and their zeros, and the parameters: those that are 0 only if ``verbose``."""
    window, weights = node["window"], node["weights"]
    parts = []
    if window is not None:
        stride = "" if set(window["stride"]) == {1} else f" / {_by(window['stride'])}"
        groups = f", {window['groups']} groups" if window["groups"] > 1 else ""
        parts.append(_by(window["kernel"]) + stride + groups)
    if weights is not None:
        low, high = weights["range"]
        parts.append(("all " if low == high else "") + _short(weights["range"]))
        parts += [f"{_percent(weights['zeros'])} zero"] if weights["zeros"] or verbose else []
    for name, values in node["parameters"].items():
        if verbose or values != [0.0, 0.0]:
            parts.append(f"{name} {_short(values, 's' if name in _SECONDS else '')}")
    return ", ".join(parts)


def _by(sizes: Sequence[int]) -> str:
    return "x".join(map(str, sizes))


def _percent(share: float) -> str:
    """Only all is 100 %, only none is 0 %."""
    shown = f"{share:.0%}"
    return {"100%": "over 99%", "0%": "under 1%"}.get(shown, shown) if 0 < share < 1 else shown


def _short(values: Sequence[float], unit: str = "") -> str:
    """One value, or the least and the greatest, in three digits."""
    low, high = (figure_with_prefix(float(f"{value:.3g}"), unit) if unit else f"{value:.3g}" for value in values)
    return low if low == high else f"{low} to {high}"


def _some(texts: Sequence[str]) -> str:
    more = len(texts) - _NAMES_SHOWN
    return ", ".join(map(name_text, texts[:_NAMES_SHOWN])) + (f" and {more:,} more" if more > 0 else "")


def _more(count: int, shown: int, rows: str) -> list[RenderableType]:
    """How many rows a table leaves out, and where they are."""
    if count <= shown:
        return []
    others = "all in --json" if shown == ROWS_SHOWN else "--verbose shows more"
    return [Text(f"… and {count - shown:,} more {rows} ({others})")]


def _readings(document: Mapping[str, Any]) -> Iterator[tuple[str, str, str, str]]:
    """A row for each population, and for each output that has weights: what the nodes do not say themselves."""
    into = grouped((p["target"], p) for p in document["projections"])
    for p in document["populations"]:
        decays = [("v", p["membrane_decay"]), ("i", p["synaptic_decay"])]
        if p["synaptic_decay"] is None:
            decays = [("", p["membrane_decay"])]
        texts = [f"{state} {_spread_text(decay)}".lstrip() for state, decay in decays]
        texts += _marks(p, document["timing"])
        yield name_text(p["name"]), f"{p['neurons']:,}", ", ".join(texts), _sources(into.get(p["name"], ()))
    for port in document["outputs"]:
        found = into.get(port["name"], ())
        if any(part["type"] not in ("Identity", "Reshape") for p in found for part in p["operator"]):
            yield name_text(port["name"]), "", "", _sources(found)


def _marks(p: Mapping[str, Any], timing: Mapping[str, Any]) -> Iterator[str]:
    """In what the neurons differ from the timing of the whole network, and what plain NIR does not have."""
    if p["compare"] is None:
        yield "readout"
        return
    if p["compare"] != timing["compare"]:
        yield f"spike if v {p['compare']} threshold"
    if p["reset"] != timing["reset"]:
        yield f"reset {p['reset']}"
    if p["max_spikes"] > 1:
        yield f"up to {p['max_spikes']} spikes"
    if p["refractory_steps"] != [0, 0]:
        yield f"refractory {_spread_text(p['refractory_steps'])}"
    yield from (f"{extra_label(name)} {_spread_text(p[name])}" for name in p if is_extra(name))


def _sources(projections: Sequence[Mapping[str, Any]]) -> str:
    texts = []
    for p in projections[:_NAMES_SHOWN]:
        count = "too many to count" if p["synapses"] is None else f"{p['synapses']:,}"
        late = [] if p["delay_steps"] == [0, 0] else [f"delay {_spread_text(p['delay_steps'])}"]
        marks = [*late, *["bias"] * p["bias"], *["closes a cycle"] * p["closes_cycle"]]
        texts.append(f"{count} from {name_text(p['source'])}" + (f" ({', '.join(marks)})" if marks else ""))
    more = len(projections) - _NAMES_SHOWN
    return ", ".join(texts) + (f" and {more:,} more" if more > 0 else "")


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
    return Group(table(headings, "llrrrrl", rows), *_more(len(populations), ROWS_SHOWN, "populations"))


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
    return Group(projections_shown, *_more(len(projections), ROWS_SHOWN, "projections"))


def _operator(part: Mapping[str, Any]) -> str:
    kind = part["type"]
    if kind in ("Conv", "SumPool"):
        groups = f", {part['groups']} groups" if part.get("groups", 1) > 1 else ""
        return f"{kind} {'x'.join(map(str, part['kernel']))} / {'x'.join(map(str, part['stride']))}{groups}"
    if kind in ("Dense", "Sparse"):
        return f"{kind} {shape_line(part['output_shape'])} from {shape_line(part['input_shape'])}"
    return kind


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
    sentence for each kind that no repair settles, with what to do. ``dt_from``: ``assumed by the repair``, too.
    ``exporter``: the tool that wrote the file and how sure that is, or null; ``nir_version``: of the nir that wrote it.

    Raises:
        FileError: it cannot be read.
        ModelError: it has no exact meaning here.
        UsageError: repairs that are none.
    """
    load = network_loader(path)
    if load is not None:
        network = load(path, timing, repairs, max_bytes=max_bytes)
        about = {"findings": [], "faults": [], "repaired": [], "nir_version": None, "exporter": None}
        return {"sha256": file_sha256(path), **about, **inspect_network(network, rewrite)}
    graph, findings = load_repaired(path, repairs, dt=timing.dt, max_bytes=max_bytes)
    left = fault_sentences(unsettled_findings(findings, repairs))
    faults = {"findings": [asdict(f) for f in findings], "faults": list(left)}
    version, defaults = stored_form(path, max_bytes)
    about = {**faults, "repaired": list(repairs), "nir_version": version}
    about["exporter"] = exporter_of({} if repairs else graph.metadata or {}, findings)  # repairs write metadata, too
    document = inspect_graph(graph, timing, rewrite, frozenset() if repairs else defaults)
    if document["dt_from"] == "stored" and any(name not in SHAPES_ONLY for name in repairs):
        document["dt_from"] = "assumed by the repair"
    return {"sha256": file_sha256(path), **about, **document}


def inspect_graph(
    graph: Any,
    timing: Timing,
    rewrite: Callable[[Network], Network] | None = None,
    defaults: frozenset[tuple[str, str]] = frozenset(),
) -> dict[str, Any]:
    """Nodes, populations, projections, totals, timing (read and assumed), warnings and dead parts of a graph.

    ``synapses`` are pairs of source and target (null where they cannot be counted without listing too many; the
    total leaves out those onto outputs), ``weights`` numbers stored in the file, each node counted once. Nodes are in
    the order in which values pass through them, with ranges of what they store. ``dt_from``: ``given``, ``stored`` or
    ``assumed``. ``defaults``: parameters, by node and name, that the file leaves out; they are not counted as stored,
    and are listed among what is assumed. With ``rewrite`` populations and projections are those of the rewritten
    network, nodes those of the graph.
    """
    flat, shapes = nodes_with_shapes(graph)
    network = with_import_notes(lower_graph(graph, flat, shapes, timing), graph)
    network = network if rewrite is None else rewrite(network)
    stored = {
        "parameters": _stored(flat.nodes, {**WEIGHTED, **NEURONS, "Scale": ("scale",)}, defaults),
        "weights": _stored(flat.nodes, {**WEIGHTED, "Scale": ("scale",)}, defaults),
    }
    document = _document(network, timing, _nodes(flat, shapes), stored)
    return {**document, "assumed": [*document["assumed"], *_left_out(flat, defaults)]}


def _left_out(flat: FlatGraph, defaults: frozenset[tuple[str, str]]) -> Iterator[str]:
    """A sentence for each parameter that nodes leave out, with the value that it is read as."""
    for field, pairs in grouped((field, name) for name, field in sorted(defaults) if name in flat.nodes).items():
        values = sorted({value for name in pairs for value in _range(getattr(flat.nodes[name], field, 0.0))})
        names = ", ".join(map(quoted, pairs[:_NAMES_SHOWN]))
        more = f" and {len(pairs) - _NAMES_SHOWN} more" if len(pairs) > _NAMES_SHOWN else ""
        yield f"{field} = {values[0]:g} of {names}{more}: not in the file"


def inspect_network(network: Network, rewrite: Callable[[Network], Network] | None = None) -> dict[str, Any]:
    """As ``inspect_graph``, of a network that is not from NIR: it has no nodes, and its arrays are counted."""
    parts = [part for p in network.projections for part in parts_of(p.operator)]
    weights = _sizes([part_weights(part) for part in parts] + [p.bias for p in network.projections])
    neurons = [values for p in network.populations for values in arrays_of(p.neuron).values()]
    stored = {"parameters": weights + _sizes(neurons), "weights": weights}
    return _document(network if rewrite is None else rewrite(network), Timing(), [], stored)


def _sizes(values: Iterable[Any]) -> int:
    return sum(value.size for value in values if isinstance(value, np.ndarray))


def _document(
    network: Network, given: Timing, nodes: list[dict[str, Any]], stored: Mapping[str, int]
) -> dict[str, Any]:
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
        "dt_from": "assumed" if network.is_dt_assumed else "stored" if given.dt is None else "given",
        "assumed": list(network.assumed),
        "notes": list(network.notes),
        "dead": {"no_input": list(unreached_populations(network)), "no_output": list(useless_populations(network))},
    }


def _nodes(flat: FlatGraph, shapes: Mapping[str, NodeShapes]) -> list[dict[str, Any]]:
    """Nodes along the edges, a loop at its entry; those that may come next in natural order of their names."""
    arcs = [DelayArc(source, target, 0) for source, target in flat.edges]
    inputs = [name for name, node in flat.nodes.items() if kind_of(node) == "Input"]
    order = causal_order(list(flat.nodes), arcs, back_arcs(inputs, list(flat.nodes), arcs))
    feeds = grouped(flat.edges)
    return [
        {
            "name": name,
            "type": kind_of(flat.nodes[name]),
            "input_shape": list(shapes[name].input_shape),
            "output_shape": list(shapes[name].output_shape),
            "feeds": feeds.get(name, []),
            **_node_values(name, flat.nodes[name]),
        }
        for name in order
    ]


def _node_values(name: str, node: Any) -> dict[str, Any]:
    """Window, weights and parameters of a node, as ranges."""
    kind = kind_of(node)
    window = window_of(name, node) if kind in ("Conv1d", "Conv2d", "SumPool2d", "AvgPool2d") else None
    shown = window and {"kernel": list(window.kernel), "stride": list(window.stride), "groups": window.groups}
    weights = None
    if kind in WEIGHTED:
        part = stored_part(np.asarray(node.weight))
        weights = {"range": _range(part), "zeros": 1 - np.count_nonzero(part) / part.size}
    fields = ("bias",) if kind in WEIGHTED else ELEMENTWISE.get(kind, ())
    values = {field: getattr(node, field, None) for field in fields}
    parameters = {field: _range(value) for field, value in values.items() if value is not None}
    return {"window": shown, "weights": weights, "parameters": parameters}


def _range(values: Any) -> list[float]:
    part = stored_part(np.asarray(values))
    return [float(part.min()), float(part.max())]


def _stored(
    nodes: Mapping[str, Any], fields: Mapping[str, tuple[str, ...]], defaults: frozenset[tuple[str, str]]
) -> int:
    values = (
        getattr(node, field, None)
        for name, node in nodes.items()
        for field in fields.get(kind_of(node), ())
        if (name, field) not in defaults
    )
    return sum(math.prod(getattr(v, "shape", ())) for v in values if v is not None)
