"""The graph of a network as it is drawn: nodes and arcs, and the folding of long chains and wide rows.

A network of more nodes than a picture holds is folded in this order, until it fits:

1. chains of populations that are alike (kind, shape, operator) become one node;
2. of a row with more nodes than fit, the last ones become one node, those that are alike first;
3. the rows in the middle of the network become one node.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from nirbridge.network.compose import parts_of
from nirbridge.network.graph import DelayArc, back_arcs, grouped, topological_order
from nirbridge.network.model import Network, Population, Port, Projection
from nirbridge.network.naming import natural_key
from nirbridge.network.operators import Conv, Dense, Identity, Operator, Reshape, Scale, Sparse, SumPool
from nirbridge.report.map_facts import one_line
from nirbridge.report.pictures.labels import times_text

Role = Literal["input", "population", "output", "folded"]
CHAIN_MIN = 3
"""Populations of a chain that are folded into one node, at the least."""


@dataclass(frozen=True, slots=True)
class Node:
    """A node of the drawn graph: an input, a population, an output, or several populations (``members``) in one."""

    name: str
    role: Role
    detail: str
    neurons: int
    members: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Arc:
    """A projection between two nodes, or several of the same nodes in one."""

    source: str
    target: str
    text: str


@dataclass(frozen=True, slots=True)
class DrawnGraph:
    """Nodes by name, arcs, and the row of every node; ``back`` are the arcs that close a cycle."""

    nodes: Mapping[str, Node]
    arcs: tuple[Arc, ...]
    rows: Mapping[str, int]
    back: tuple[bool, ...]


def drawn_graph(network: Network, nodes_max: int, row_max: int) -> DrawnGraph:
    """The graph of a network with at most ``nodes_max`` nodes, at most ``row_max`` (2 or more) of them in a row."""
    graph = _laid_in_rows(_nodes(network), _arcs(network))
    if len(graph.nodes) > nodes_max:
        graph = _folded(graph, _chains(graph))
    for _ in range(len(graph.nodes)):
        wide = _wide_rows(graph, row_max)
        if not wide:
            break
        graph = _folded(graph, wide)
    return graph if len(graph.nodes) <= nodes_max else _folded(graph, [_middle(graph, nodes_max)])


def _nodes(network: Network) -> list[Node]:
    inputs = [Node(p.name, "input", _port_text("input", p), 0, (p.name,)) for p in network.inputs]
    populations = [Node(p.name, "population", neuron_text(p), p.size, (p.name,)) for p in network.populations]
    outputs = [Node(p.name, "output", _port_text("output", p), 0, (p.name,)) for p in network.outputs]
    return [*inputs, *populations, *outputs]


def _port_text(role: Role, port: Port) -> str:
    """``input 1×8×8``; the shape alone where the name says the rest."""
    return times_text(port.shape) if role in port.name.lower() else f"{role} {times_text(port.shape)}"


def _arcs(network: Network) -> list[Arc]:
    return _merged(Arc(p.source, p.target, projection_text(p)) for p in network.projections)


def _merged(arcs: Iterable[Arc]) -> list[Arc]:
    """One arc for each pair of nodes; the texts of several are kept where they agree, else counted."""
    result = []
    for (source, target), same in grouped(((a.source, a.target), a) for a in arcs).items():
        texts = list(dict.fromkeys(a.text for a in same))
        text = texts[0] if len(texts) == 1 else f"{len(same):,} projections"
        result.append(Arc(source, target, text))
    return result


def _laid_in_rows(nodes: Sequence[Node], arcs: Sequence[Arc]) -> DrawnGraph:
    """Rows by the longest path from a node without predecessors; such nodes stand just before their first target."""
    names = [node.name for node in nodes]
    roots = [n.name for n in nodes if n.role == "input"]
    between = [a for a in arcs if a.source != a.target]
    closing = dict(zip(map(id, between), _closing(roots, names, between), strict=True))
    back = tuple(closing.get(id(a), False) for a in arcs)
    forward = [
        (a.source, a.target) for a, is_back in zip(arcs, back, strict=True) if a.source != a.target and not is_back
    ]
    following = grouped(forward)
    rows = dict.fromkeys(names, 0)
    for name in topological_order(names, following):
        for target in following.get(name, ()):
            rows[target] = max(rows[target], rows[name] + 1)
    preceded = {target for _, target in forward}
    for name in names:
        if name not in preceded and following.get(name):
            rows[name] = min(rows[target] for target in following[name]) - 1
    return DrawnGraph({n.name: n for n in nodes}, tuple(arcs), rows, back)


def _closing(roots: Sequence[str], names: Sequence[str], arcs: Sequence[Arc]) -> tuple[bool, ...]:
    return back_arcs(roots, names, [DelayArc(a.source, a.target, 0) for a in arcs])


def _chains(graph: DrawnGraph) -> list[tuple[str, ...]]:
    """Runs of at least ``CHAIN_MIN`` populations that are alike, each with one successor and one predecessor."""
    following: dict[str, list[Arc]] = grouped((a.source, a) for a in graph.arcs if a.source != a.target)
    preceding: dict[str, list[Arc]] = grouped((a.target, a) for a in graph.arcs if a.source != a.target)
    loops = {a.source: a.text for a in graph.arcs if a.source == a.target}

    def alike(name: str) -> tuple[str, str, str] | None:
        node, arcs = graph.nodes[name], preceding.get(name, [])
        return (
            (node.detail, arcs[0].text, loops.get(name, "")) if node.role == "population" and len(arcs) == 1 else None
        )

    chains: list[tuple[str, ...]] = []
    taken: set[str] = set()
    for name in sorted(graph.nodes, key=lambda n: (graph.rows[n], natural_key(n))):
        if name in taken or alike(name) is None:
            continue
        run = [name]
        while len(arcs := following.get(run[-1], [])) == 1 and alike(arcs[0].target) == alike(name):
            if arcs[0].target in taken or arcs[0].target in run:
                break
            run.append(arcs[0].target)
        taken.update(run)
        chains += [tuple(run)] if len(run) >= CHAIN_MIN else []
    return chains


def _wide_rows(graph: DrawnGraph, row_max: int) -> list[tuple[str, ...]]:
    """Of the first row with too many nodes, the nodes to fold: those that are alike, else all after the first ones."""
    by_row = grouped((graph.rows[name], name) for name in sorted(graph.nodes, key=natural_key))
    for _, names in sorted(by_row.items()):
        excess = len(names) - row_max + 1
        if excess < 2:
            continue
        alike = grouped((graph.nodes[n].detail, n) for n in names)
        largest = max(alike.values(), key=len)
        return [tuple((largest if len(largest) >= excess else names)[-excess:])]
    return []


def _middle(graph: DrawnGraph, nodes_max: int) -> tuple[str, ...]:
    """Nodes of the rows in the middle that become one node, after which at most ``nodes_max`` are left."""
    by_row = sorted(grouped((row, name) for name, row in graph.rows.items()).items())
    first, last, room = 0, len(by_row), nodes_max - 1
    while first < last:
        at_top = last == len(by_row) or len(by_row) - last > first
        size = len(by_row[first][1] if at_top else by_row[last - 1][1])
        if size > room:
            break
        room -= size
        first, last = (first + 1, last) if at_top else (first, last - 1)
    return tuple(name for _, names in by_row[first:last] for name in names)


def _folded(graph: DrawnGraph, groups: Sequence[tuple[str, ...]]) -> DrawnGraph:
    """The graph with every group as one node; arcs within a group are left out."""
    into: dict[str, str] = {}
    nodes = dict(graph.nodes)
    loops = {a.source for a in graph.arcs if a.source == a.target}
    for group in groups:
        if len(group) < 2:
            continue
        into |= dict.fromkeys(group, group[0])
        nodes[group[0]] = _fold([graph.nodes[name] for name in group], recurrent=not loops.isdisjoint(group))
        for name in group[1:]:
            del nodes[name]
    arcs = [replace(a, source=into.get(a.source, a.source), target=into.get(a.target, a.target)) for a in graph.arcs]
    kept = [
        new
        for old, new in zip(graph.arcs, arcs, strict=True)
        if new.source != new.target or (old.source == old.target and old.source not in into)
    ]
    return _laid_in_rows(list(nodes.values()), _merged(kept))


def _fold(nodes: Sequence[Node], *, recurrent: bool) -> Node:
    members = tuple(name for node in nodes for name in node.members)
    neurons = sum(node.neurons for node in nodes)
    kinds = {node.role for node in nodes} - {"folded"}
    noun = "populations" if kinds <= {"population"} else "inputs" if kinds == {"input"} else "nodes"
    detail = f"{len(members):,} {noun}, {neurons:,} neurons"
    alike = {node.detail for node in nodes}
    if len(alike) == 1 and kinds == {"population"}:
        detail = f"{len(members):,} populations, each {alike.pop()}"
    return Node(nodes[0].name, "folded", detail + ", recurrent" * recurrent, neurons, members)


# -- operator texts ------------------------------------------------------------------------------------------------
# Operators, delays and neurons as the short texts that stand in the picture of a network.


def operator_text(operator: Operator) -> str:
    """``conv 3×3, stride 2 · sum pool 2×2``; empty where values are passed on as they are (in another shape)."""
    return " · ".join(filter(None, map(_part_text, parts_of(operator))))


def _part_text(part: Operator) -> str:
    if isinstance(part, Identity | Reshape):
        return ""
    if isinstance(part, Conv):
        strides = "" if set(part.stride) == {1} else f", stride {_sizes(part.stride)}"
        groups = "" if part.groups == 1 else f", {part.groups:,} groups"
        return f"conv {times_text(part.kernel)}{strides}{groups}"
    if isinstance(part, SumPool):
        strides = "" if part.stride == part.kernel else f", stride {_sizes(part.stride)}"
        return f"{'sum' if part.factor == 1 else 'average'} pool {times_text(part.kernel)}{strides}"
    if isinstance(part, Dense):
        post, pre = part.weight.shape
        return f"dense {pre:,}→{post:,}"
    if isinstance(part, Sparse):
        return f"sparse, {part.data.size:,} weights"
    return "scale" if isinstance(part, Scale) else one_line(type(part).__name__.lower())


def _sizes(sizes: tuple[int, ...]) -> str:
    return str(sizes[0]) if len(set(sizes)) == 1 else times_text(sizes)


def delay_text(projection: Projection) -> str:
    """``delay 2`` or ``delay 1 to 5``, in time steps; empty for none."""
    least, most = projection.min_delay_steps, projection.max_delay_steps
    if not most:
        return ""
    return f"delay {least:,}" if least == most else f"delay {least:,} to {most:,}"


def projection_text(projection: Projection) -> str:
    """Operator and delay of a projection."""
    return ", ".join(filter(None, (operator_text(projection.operator), delay_text(projection))))


def neuron_text(population: Population) -> str:
    """``LIF 8×13×13, 1,352 neurons``."""
    kind = one_line(population.neuron.kind)[:24]
    count = f"{population.size:,} neuron{'' if population.size == 1 else 's'}"
    return f"{kind}, {count}" if len(population.shape) < 2 else f"{kind} {times_text(population.shape)}, {count}"
