"""Flattening of nested NIR graphs: full names ``outer.inner``, subgraph ports spliced out.

An edge names one port of a subgraph as ``("a", "sub.in1")`` and ``("sub.out1", "b")`` (NIR's API design text,
"Subgraphs and types"); the bare name ``sub`` is accepted where the subgraph has exactly one Input (or Output).
Nothing is guessed: an ambiguous name is an error.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from nirbridge.errors import Diagnostic, ModelError, nearest, quoted
from nirbridge.network.graph import grouped, topological_order
from nirbridge.network.nir.fields import LINEAR, NODE_TYPES, kind_of

Edge = tuple[str, str]

MAX_DEPTH = 32
MAX_EDGES = 1_000_000
_HINTS = 20


@dataclass(frozen=True, slots=True, eq=False)
class FlatGraph:
    """A graph without subgraphs: nodes by full name (order of the graph, subgraphs in place) and edges.

    The edges into any one node are in the order of the file.
    """

    nodes: Mapping[str, Any]
    edges: tuple[Edge, ...]


@dataclass(slots=True)
class _FlatBuilder:
    nodes: dict[str, Any] = field(default_factory=dict)
    edges: list[Edge] = field(default_factory=list)
    ports: set[str] = field(default_factory=set)
    problems: list[Diagnostic] = field(default_factory=list)

    def report(self, subject: str, found: str, limit: str = "", hint: str = "", **ids: Any) -> None:
        self.problems.append(Diagnostic(subject, found, limit, hint, MappingProxyType(ids)))


def flatten_graph(graph: Any) -> FlatGraph:
    """``graph`` (a ``nir.NIRGraph``, never changed) without subgraphs; their Inputs and Outputs are spliced out.

    Raises:
        ModelError: with every problem of the structure (see ``expand_graph``), or for a loop of ports alone.
    """
    return _splice(_expanded(graph))


def expand_graph(graph: Any) -> FlatGraph:
    """``graph`` without subgraphs, their Inputs and Outputs kept as pass-through nodes ``sub.in1``.

    Raises:
        ModelError: with every problem: dangling, malformed, duplicate or ambiguous edges, edges of a linear node onto
            itself, unknown node types, two nodes with one full name, nesting deeper than ``MAX_DEPTH``,
            no Input or no Output.
    """
    build = _expanded(graph)
    return FlatGraph(MappingProxyType(build.nodes), tuple(build.edges))


def _expanded(graph: Any) -> _FlatBuilder:
    build = _FlatBuilder()
    if kind_of(graph) != "NIRGraph":
        found = f"it is a {kind_of(graph)}"
        raise ModelError.of("graph", found, "it must be a NIRGraph", "wrap it with nir.NIRGraph.from_list")
    _collect(graph, "", 0, build)
    kinds = {kind_of(node) for node in graph.nodes.values()}
    for port in ("Input", "Output"):
        if port not in kinds:
            build.report("graph", f"it has no {port} node", "it needs at least one", f"add a nir.{port} and an edge")
    ModelError.raise_all(build.problems)
    return build


def _collect(graph: Any, prefix: str, depth: int, build: _FlatBuilder) -> None:
    """Adds the nodes and edges of ``graph`` under ``prefix`` (empty or ending with a dot)."""
    if depth > MAX_DEPTH:
        subject = f"subgraph {quoted(prefix[:-1])}"
        build.report(subject, f"graphs are nested {depth} deep", f"at most {MAX_DEPTH} are read", "flatten the model")
        return
    for name, node in graph.nodes.items():
        if not isinstance(name, str) or not name:
            build.report(f"node {quoted(name)}", "its name is not a string", "", "rename the node")
            continue
        full = prefix + name
        if kind_of(node) == "NIRGraph":
            _collect(node, full + ".", depth + 1, build)
        else:
            _add_node(full, node, depth, build)
    seen: set[Edge] = set()
    for edge in graph.edges:
        _add_edge(edge, graph, prefix, seen, build)


def _add_node(full: str, node: Any, depth: int, build: _FlatBuilder) -> None:
    if kind_of(node) not in NODE_TYPES:
        hint = "use one of " + ", ".join(NODE_TYPES)
        build.report(f"node {quoted(full)}", f"its type {kind_of(node)} is not known", "", hint, node=full)
    if full in build.nodes:
        found = "two nodes have this full name, one of them in a subgraph"
        build.report(f"node {quoted(full)}", found, "full names must differ", "rename one of them", node=full)
    build.nodes[full] = node
    if depth and kind_of(node) in ("Input", "Output"):
        build.ports.add(full)


def _add_edge(edge: Any, graph: Any, prefix: str, seen: set[Edge], build: _FlatBuilder) -> None:
    pair = tuple(edge) if isinstance(edge, tuple | list) else ()
    if len(pair) != 2 or not all(isinstance(end, str) for end in pair):
        found = "it is not a pair of node names"
        build.report(f"edge {quoted(edge)}", found, "an edge is (source, target)", "correct the edge")
        return
    shown = edge_label(prefix + pair[0], prefix + pair[1])
    if pair in seen:
        limit = "NIR allows an edge once"
        build.report(shown, "it is listed twice", limit, "double the weights after it, or remove one", edge=pair)
        return
    seen.add(pair)
    source = _resolve(pair[0], graph, prefix, shown, "Output", build)
    target = _resolve(pair[1], graph, prefix, shown, "Input", build)
    if source is not None and target is not None:
        _check_ends(source, target, graph, pair, prefix, shown, build)
        build.edges.append((source, target))


def _check_ends(source: str, target: str, graph: Any, pair: Edge, prefix: str, shown: str, build: _FlatBuilder) -> None:
    start, end = graph.nodes.get(pair[0]), graph.nodes.get(pair[1])
    if source == target and kind_of(start) in LINEAR:
        found = f"the {kind_of(start)} node feeds itself within one time step"
        build.report(shown, found, "a loop needs a neuron in it", "route the loop through a neuron", edge=pair)
    elif not prefix and kind_of(end) == "Input":
        build.report(shown, "it leads into an Input", "inputs come from outside", "remove the edge", edge=pair)
    elif not prefix and kind_of(start) == "Output":
        found = "it starts at an Output"
        build.report(shown, found, "outputs lead outside", f"start it at the node before {quoted(source)}", edge=pair)


def edge_label(source: str, target: str) -> str:
    """Subject of a message on an edge: ``edge 'a' -> 'b'``."""
    return f"edge {quoted(source)} -> {quoted(target)}"


def _resolve(end: str, graph: Any, prefix: str, shown: str, port: str, build: _FlatBuilder) -> str | None:
    """The full name of the node that one end of an edge means, or None and a problem."""
    candidates = _candidates(end, graph, port)
    if len(candidates) == 1:
        return prefix + candidates[0]
    if candidates:
        options = ", ".join(map(quoted, sorted(candidates)))
        side = "inputs" if port == "Input" else "outputs"
        text = f"{quoted(prefix + end)} can mean several nodes ({options})"
        build.report(shown, text, "it must mean one", f"name one of the {side}, or rename a node", node=end)
    elif end in graph.nodes:
        text = f"the subgraph {quoted(prefix + end)} has no {port} node"
        build.report(shown, text, "", f"add a nir.{port} inside it", node=prefix + end)
    else:
        outer, _, inner = end.rpartition(".")
        text = f"there is no node {quoted(prefix + end)}"
        if kind_of(graph.nodes.get(outer)) == "NIRGraph":
            text = f"the subgraph {quoted(prefix + outer)} has no {port} {quoted(inner)}"
        build.report(shown, text, "", _nearest(end, prefix, graph, port, build), node=prefix + end)
    return None


def _candidates(end: str, graph: Any, port: str) -> list[str]:
    """Names below ``graph`` that ``end`` can mean: a node, the ports of a subgraph, or ``sub.port``."""
    names: list[str] = []
    node = graph.nodes.get(end)
    if node is not None:
        names += [end] if kind_of(node) != "NIRGraph" else [f"{end}.{name}" for name in _ports(node, port)]
    for dot in (k for k, letter in enumerate(end) if letter == "."):
        sub = graph.nodes.get(end[:dot])
        if kind_of(sub) == "NIRGraph" and kind_of(sub.nodes.get(end[dot + 1 :])) == port:
            names.append(end)
    return names


def _ports(graph: Any, port: str) -> list[str]:
    return [name for name, node in graph.nodes.items() if kind_of(node) == port]


def _addresses(graph: Any, port: str) -> list[str]:
    graphs = [(name, node) for name, node in graph.nodes.items() if kind_of(node) == "NIRGraph"]
    return [*map(str, graph.nodes), *(f"{name}.{inner}" for name, sub in graphs for inner in _ports(sub, port))]


def _nearest(name: str, prefix: str, graph: Any, port: str, build: _FlatBuilder) -> str:
    """Hint for a name that does not exist; a similar one is looked for in the first few problems only."""
    advice = "add the node or remove the edge"
    if len(build.problems) >= _HINTS:
        return advice
    near = nearest(name, [n for n in _addresses(graph, port) if len(n) <= 100][:1000])
    return f"did you mean {quoted(prefix + near[0])}?" if near else advice


def _splice(build: _FlatBuilder) -> FlatGraph:
    """Replaces every path through ports by edges between the nodes at its ends."""
    sources: dict[str, list[str]] = {port: [] for port in build.ports}
    incoming = grouped((target, source) for source, target in build.edges if target in sources)
    total = 0
    for port in _port_order(build):
        for source in incoming.get(port, ()):
            more = sources.get(source, [source])
            total = _count(total + len(more))
            sources[port] += more
    edges: list[Edge] = []
    for source, target in (edge for edge in build.edges if edge[1] not in sources):
        starts = sources.get(source, [source])
        _count(len(edges) + len(starts))
        edges += [(start, target) for start in starts]
    nodes = {name: node for name, node in build.nodes.items() if name not in build.ports}
    return FlatGraph(MappingProxyType(nodes), tuple(edges))


def _count(edges: int) -> int:
    if edges > MAX_EDGES:
        found = f"splicing the subgraphs makes more than {MAX_EDGES:,} edges"
        raise ModelError.of("graph", found, f"at most {MAX_EDGES:,} are read", "flatten the model where it was made")
    return edges


def _port_order(build: _FlatBuilder) -> list[str]:
    """Ports, each after the ports that feed it.

    Raises:
        ModelError: if ports feed each other in a loop.
    """
    feeds = grouped(edge for edge in build.edges if build.ports.issuperset(edge))
    order = topological_order(sorted(build.ports), feeds)
    if len(order) < len(build.ports):
        stuck = ", ".join(quoted(port) for port in sorted(build.ports - set(order))[:5])
        found = f"subgraph ports feed each other without a node between: {stuck}"
        raise ModelError.of("graph", found, "a loop needs a neuron in it", "remove one of these edges")
    return order
