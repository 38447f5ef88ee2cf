"""``nir.NIRGraph`` -> ``Network``: the last place that sees nir nodes. The graph is never changed, arrays are copied.

Paths of linear nodes between neurons and ports become one projection each. A constant (the bias of an Affine or
Conv node) is propagated along the rest of the path and counted once per linear node and way onward: the path whose
edges up to that node come first in the file carries it. A Delay after a constant leaves it unchanged.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np

from nirbridge.arrays import Array, freeze, stored_part
from nirbridge.errors import Diagnostic, ModelError, quoted
from nirbridge.network.apply import apply
from nirbridge.network.axes import stored_axes
from nirbridge.network.check import check_network
from nirbridge.network.compose import compose
from nirbridge.network.graph import cycle_among, dead_notes, grouped, in_causal_order, topological_order
from nirbridge.network.model import Network, Population, Port, Projection, Timing
from nirbridge.network.naming import natural_key
from nirbridge.network.nir.delays import path_delays
from nirbridge.network.nir.fields import LINEAR, NEURONS, kind_of, value_problems
from nirbridge.network.nir.flatten import FlatGraph, flatten_graph
from nirbridge.network.nir.lower_linear import LinearStep, is_pattern, lower_linear
from nirbridge.network.nir.lower_neurons import lower_neuron
from nirbridge.network.nir.raise_sparse import NODES
from nirbridge.network.nir.shapes import NodeShapes, infer_shapes
from nirbridge.network.nir.timing import PREFIX, Metadata, ResolvedTiming, resolve_timing
from nirbridge.network.operators import Identity, Operator, Sparse

# -- paths ---------------------------------------------------------------------------------------------------------
# Paths of linear nodes from a population or input to a population or output.

MAX_PATHS = 10_000
MAX_VISITS = 1_000_000
"""Linear nodes on all paths together."""


_Rest = tuple[str, bool, "_Rest"] | None
"""The rest of a path, seen from its start: a linear node, whether the edge into it is its first, and so on."""


@dataclass(frozen=True, slots=True)
class LinearPath:
    """From ``source`` through the linear ``nodes`` (perhaps none) to ``target``.

    ``first[k]``: the edge into ``nodes[k]`` is the first of that node's edges that a source reaches. Constants are
    counted once: the path whose edges up to a node are all first carries that node's bias.
    """

    source: str
    nodes: tuple[str, ...]
    target: str
    first: tuple[bool, ...]


@dataclass(frozen=True, slots=True)
class Wiring:
    """Edges into every node, in the file's order, and how many paths from a source end at each linear node."""

    incoming: Mapping[str, Sequence[str]]
    counts: Mapping[str, int]
    sources: frozenset[str]

    def live(self, name: str) -> int:
        """Paths from a source that arrive at ``name``: 1 for a source itself, 0 where none does."""
        return 1 if name in self.sources else self.counts.get(name, 0)


def build_wiring(edges: Sequence[tuple[str, str]], linear: frozenset[str], sources: frozenset[str]) -> Wiring:
    """The wiring of a graph.

    Raises:
        ModelError: a loop of linear nodes alone.
    """
    incoming = grouped((target, source) for source, target in edges)
    following = grouped((source, target) for source, target in edges if source in linear and target in linear)
    counts: dict[str, int] = {}
    for name in topological_order(linear, following):
        counts[name] = sum(1 if s in sources else counts.get(s, 0) for s in incoming.get(name, ()))
    if len(counts) < len(linear):
        names, shown = cycle_among(sorted(linear - set(counts), key=natural_key), following)
        found = f"linear nodes feed each other in a loop: {shown}"
        raise ModelError.of("graph", found, "a loop needs a neuron in it", "put a neuron between", nodes=names)
    return Wiring(incoming, counts, sources)


def check_count(wiring: Wiring, targets: Sequence[str], limit: int = MAX_PATHS) -> None:
    """Refuse graphs whose branches multiply.

    Raises:
        ModelError: more than ``limit`` paths.
    """
    total = sum(wiring.live(s) for t in targets for s in wiring.incoming.get(t, ()))
    if total > limit:
        shown = f"{total:,}" if total < 10**15 else "more than 10^15"
        found = f"{shown} paths of linear nodes between neurons"
        raise ModelError.of("graph", found, f"at most {limit:,}", "put neurons between the branches, or merge them")


def paths_into(target: str, wiring: Wiring, spend: Callable[[int], None]) -> Iterator[LinearPath]:
    """Every path that ends at ``target``, in the order of the edges (those into the target first).

    ``spend`` is called for each node visited and may raise.
    """
    stack: list[tuple[str, _Rest]] = [(s, None) for s in reversed(wiring.incoming.get(target, ())) if wiring.live(s)]
    while stack:
        name, rest = stack.pop()
        spend(1)
        if name in wiring.sources:
            yield _path(name, rest, target, spend)
            continue
        sources = [s for s in wiring.incoming[name] if wiring.live(s)]
        stack += reversed([(s, (name, k == 0, rest)) for k, s in enumerate(sources)])


def _path(source: str, rest: _Rest, target: str, spend: Callable[[int], None]) -> LinearPath:
    nodes: list[str] = []
    first: list[bool] = []
    while rest is not None:
        name, is_first, rest = rest
        nodes.append(name)
        first.append(is_first)
    spend(len(nodes))
    return LinearPath(source, tuple(nodes), target, tuple(first))


MAX_ELEMENTS = 2**31
_BIAS_AGREES = 1e-6
Item = TypeVar("Item")
Lowered = TypeVar("Lowered")


def from_nir(
    graph: Any, timing: Timing | None = None, *, max_elements: int = MAX_ELEMENTS, max_projections: int | None = None
) -> Network:
    """Lower a NIR graph to discrete time.

    Args:
        graph: a ``nir.NIRGraph``; not changed, and nothing of it is kept.
        timing: the caller's choices; the rest comes from metadata or defaults (see ``Network.assumed``).
        max_elements: most array elements, counted as stored (a broadcast view counts once), that are copied.
        max_projections: most paths of linear nodes between neurons; None: 10,000, and as many as the graph has edges.

    Raises:
        ModelError: the graph has no exact discrete-time semantics; every problem is listed.
        UsageError: an invalid timing option.
    """
    flat, shapes = nodes_with_shapes(graph, max_elements)
    return lower_graph(graph, flat, shapes, timing, max_elements=max_elements, max_projections=max_projections)


def nodes_with_shapes(graph: Any, max_elements: int = MAX_ELEMENTS) -> tuple[FlatGraph, Mapping[str, NodeShapes]]:
    """The nodes of ``graph`` without subgraphs, with sound values, and their shapes. See ``from_nir``."""
    flat = flatten_graph(graph)
    _check_values(flat, max_elements)
    return flat, infer_shapes(flat)


def lower_graph(
    graph: Any,
    flat: FlatGraph,
    shapes: Mapping[str, NodeShapes],
    timing: Timing | None = None,
    *,
    max_elements: int = MAX_ELEMENTS,
    max_projections: int | None = None,
) -> Network:
    """The second half of ``from_nir``, after ``nodes_with_shapes``, for callers that need the nodes too."""
    metadata = _metadata(graph, flat)
    graph_metadata = graph.metadata if isinstance(graph.metadata, Mapping) else {}
    resolved = resolve_timing(flat.nodes, metadata, graph_metadata, timing or Timing())
    wiring = _wiring(flat)
    targets = [n for n, node in flat.nodes.items() if kind_of(node) == "Output" or kind_of(node) in NEURONS]
    check_count(wiring, targets, max(MAX_PATHS, len(flat.edges)) if max_projections is None else max_projections)
    populations, notes = _populations(flat, shapes, metadata, resolved)
    steps = _steps(flat, shapes, metadata, resolved.dt)
    _check_constants(steps, wiring, shapes, max_elements)
    network = in_causal_order(
        Network(
            resolved.dt,
            resolved.timing,
            populations,
            _projections(targets, wiring, steps, shapes),
            _ports(flat, shapes, "Input"),
            _ports(flat, shapes, "Output"),
            resolved.assumed,
            (*resolved.notes, *notes),
            axes=stored_axes(graph_metadata, PREFIX + "axes", "metadata of the graph"),
        )
    )
    check_network(network)
    return replace(network, notes=(*network.notes, *_graded(network), *_unused(steps, network), *dead_notes(network)))


def _check_values(flat: FlatGraph, max_elements: int) -> None:
    """Values and sizes, before anything is copied."""
    arrays = [v for node in flat.nodes.values() for v in vars(node).values() if isinstance(v, np.ndarray)]
    stored = sum(stored_part(array).size for array in arrays)
    if stored > max_elements:
        found = f"its arrays hold {stored:,} elements"
        raise ModelError.of("graph", found, f"at most {max_elements:,}", "raise max_elements to accept it")
    ModelError.raise_all(p for name, node in flat.nodes.items() for p in value_problems(name, node))


def _metadata(graph: Any, flat: FlatGraph) -> dict[str, Metadata]:
    """Metadata of every node by full name; that of a subgraph holds for its nodes unless they say otherwise."""
    by_name: dict[str, Metadata] = {}
    waiting: list[tuple[str, Any, Metadata]] = [("", graph, {})]
    while waiting:
        prefix, sub, inherited = waiting.pop()
        for name, node in sub.nodes.items():
            stored = node.metadata if isinstance(getattr(node, "metadata", None), Mapping) else {}
            merged = {**inherited, **stored}
            if kind_of(node) == "NIRGraph":
                waiting.append((f"{prefix}{name}.", node, merged))
            elif prefix + name in flat.nodes:
                by_name[prefix + name] = merged
    return by_name


def _wiring(flat: FlatGraph) -> Wiring:
    linear = frozenset(n for n, node in flat.nodes.items() if kind_of(node) in LINEAR)
    sources = frozenset(n for n, node in flat.nodes.items() if kind_of(node) == "Input" or kind_of(node) in NEURONS)
    return build_wiring(flat.edges, linear, sources)


def _ports(flat: FlatGraph, shapes: Mapping[str, NodeShapes], kind: str) -> tuple[Port, ...]:
    names = sorted((n for n, node in flat.nodes.items() if kind_of(node) == kind), key=natural_key)
    return tuple(Port(name, shapes[name].output_shape) for name in names)


def _populations(
    flat: FlatGraph, shapes: Mapping[str, NodeShapes], metadata: Mapping[str, Metadata], resolved: ResolvedTiming
) -> tuple[tuple[Population, ...], tuple[str, ...]]:
    """Populations in natural order of names, and the notes on them."""
    names = sorted((n for n, node in flat.nodes.items() if kind_of(node) in NEURONS), key=natural_key)
    sizes = {name: shapes[name].output_shape for name in names}
    lowered = _all_lowered(lambda n: lower_neuron(n, flat.nodes[n], sizes[n], metadata[n], resolved), names)
    populations = (Population(n, sizes[n], neuron) for n, (neuron, _) in zip(names, lowered, strict=True))
    return tuple(populations), tuple(note for _, notes in lowered for note in notes)


def _all_lowered(lower: Callable[[Item], Lowered], items: Iterable[Item]) -> list[Lowered]:
    """``lower`` of every item. Raises ModelError with the problems of all of them, each once."""
    results: list[Lowered] = []
    problems: dict[str, Diagnostic] = {}
    for item in items:
        try:
            results.append(lower(item))
        except ModelError as error:
            problems |= {str(problem): problem for problem in error.problems}
    ModelError.raise_all(problems.values())
    return results


def _steps(
    flat: FlatGraph, shapes: Mapping[str, NodeShapes], metadata: Mapping[str, Metadata], dt: float
) -> dict[str, LinearStep]:
    names = [name for name, node in flat.nodes.items() if kind_of(node) in LINEAR]
    steps = _all_lowered(lambda n: lower_linear(n, flat.nodes[n], shapes[n], metadata[n], dt), names)
    return merge_groups(dict(zip(names, steps, strict=True)), flat.edges, metadata)


def _check_constants(
    steps: Mapping[str, LinearStep], wiring: Wiring, shapes: Mapping[str, NodeShapes], max_elements: int
) -> None:
    """A constant needs a path to travel on, and arrays of the shapes that it travels through."""
    problems: list[Diagnostic] = []
    biased = False
    for name in sorted(steps, key=natural_key):
        step = steps[name]
        biased = biased or step.bias is not None
        if step.bias is not None and not wiring.live(name):
            subject, found = f"node {quoted(name)} ({step.kind})", "it has a bias, but no input or neuron leads to it"
            problems.append(Diagnostic(subject, found, "", "connect an Input to it, or remove it"))
    largest = max((math.prod(shapes[n].output_shape) for n in steps), default=0)
    if biased and largest > max_elements:
        found = f"a bias would have to be propagated through {largest:,} elements"
        problems.append(Diagnostic("graph", found, f"at most {max_elements:,}", "raise max_elements to accept it"))
    ModelError.raise_all(problems)


@dataclass(slots=True)
class _ElementBudget:
    left: int = MAX_VISITS

    def spend(self, visits: int) -> None:
        self.left -= visits
        if self.left < 0:
            found = f"the paths between neurons pass more than {MAX_VISITS:,} linear nodes"
            raise ModelError.of("graph", found, f"at most {MAX_VISITS:,}", "merge linear nodes")


@np.errstate(over="ignore", invalid="ignore")  # check_network reports values that are not finite
def _projections(
    targets: Sequence[str], wiring: Wiring, steps: Mapping[str, LinearStep], shapes: Mapping[str, NodeShapes]
) -> tuple[Projection, ...]:
    """Target by target, within a target in the order of the file's edges."""
    budget = _ElementBudget()
    paths = (path for target in targets for path in paths_into(target, wiring, budget.spend))
    return tuple(_all_lowered(lambda path: _projection(path, steps, shapes), paths))


def _projection(path: LinearPath, steps: Mapping[str, LinearStep], shapes: Mapping[str, NodeShapes]) -> Projection:
    along = [steps[name] for name in path.nodes]
    source_shape, target_shape = shapes[path.source].output_shape, shapes[path.target].input_shape
    delay, target_delay = path_delays(along, source_shape, target_shape)
    operator, names = compose([s.operator for s in along], path.nodes, source_shape)
    marked = any(step.is_back for step in along) and int(delay.min()) + int(target_delay.min()) > 0
    delayed = tuple(step.name for step in along if step.delay is not None)
    return Projection(
        path.source, path.target, operator, _constant(path, along), delay, target_delay, marked, names, delayed
    )


def _constant(path: LinearPath, along: Sequence[LinearStep]) -> Array | None:
    """The constant that arrives at the target, or None where it is 0."""
    total: Array | None = None
    carries = True
    for step, is_first in zip(along, path.first, strict=True):
        carries = carries and is_first
        total = None if total is None else apply(step.operator, total)
        if carries and step.bias is not None:
            total = step.bias if total is None else total + step.bias
        if carries and step.stored_bias is not None and _agrees(total, step.stored_bias):
            total = step.stored_bias
    return freeze(total, np.float64) if total is not None and bool(np.any(total)) else None


def _agrees(plain: Array | None, stored: Array) -> bool:
    if plain is None or not np.any(plain):
        return True  # plain NIR could not say it at all
    return bool(np.all(np.abs(plain - stored) <= _BIAS_AGREES * np.abs(plain) + 1e-12))


def _graded(network: Network) -> tuple[str, ...]:
    """Readouts that drive other neurons."""
    silent = {p.name for p in network.populations if not p.neuron.fires}
    names = {p.name for p in network.populations}
    pairs = [(p.source, p.target) for p in network.projections if p.source in silent and p.target in names]
    return tuple(
        f"population {quoted(a)} never fires: it feeds {quoted(b)} with its potential" for a, b in dict.fromkeys(pairs)
    )


def _unused(steps: Mapping[str, LinearStep], network: Network) -> tuple[str, ...]:
    """Linear nodes on no path."""
    used = {name for p in network.projections for name in p.nodes}
    silent = ("Delay", "Scale", "Flatten")  # may have vanished in a merge
    left = [n for n in steps if n not in used and steps[n].kind not in silent]
    return tuple(
        f"node {quoted(n)} ({steps[n].kind}) lies on no path between inputs, neurons and outputs: left out"
        for n in sorted(left, key=natural_key)
    )


# -- lower sparse --------------------------------------------------------------------------------------------------
# Groups of nodes that ``raise_sparse`` wrote for one sparse matrix between images, read as one step again.

_QUIET = "Flatten"
"""Kind of the steps that are left of a group: they change nothing, and are not reported as unused."""
_AGREES = 1e-6
_SEED = 20_261_122


def merge_groups(
    steps: Mapping[str, LinearStep], edges: Sequence[tuple[str, str]], metadata: Mapping[str, Metadata]
) -> dict[str, LinearStep]:
    """The steps, of each group the first as the whole matrix and the others without effect.

    Nodes that compute anything else than the stored matrix (a tool has changed them) mean what they plainly are.
    """
    merged = dict(steps)
    for name in (n for n in steps if NODES in metadata[n]):
        names = _members(name, metadata[name], edges)
        group = [steps[n] for n in names if n in steps]
        matrix = _matrix(group, metadata[name]) if group and len(group) == len(names) else None
        if matrix is None:
            continue
        merged[name] = replace(steps[name], operator=matrix)
        for n in names[1:]:
            merged[n] = replace(steps[n], kind=_QUIET, operator=Identity(matrix.output_shape))
    return merged


def _members(name: str, stored: Metadata, edges: Sequence[tuple[str, str]]) -> list[str]:
    """Names of the nodes of the group that starts at ``name``; empty where there is none."""
    count = np.asarray(stored[NODES])
    if count.size != 1 or count.dtype.kind not in "iu" or not 1 <= int(count.item()) <= 3:
        return []
    names = [name]
    while len(names) < int(count.item()):
        after = [b for a, b in edges if a == names[-1]]
        if len(after) != 1 or sum(b == after[0] for _, b in edges) != 1:
            return []
        names += after
    return names


def _matrix(group: Sequence[LinearStep], stored: Metadata) -> Sparse | None:
    """The matrix of a group; None where its nodes compute something else."""
    is_plain = all(s.bias is None and s.stored_bias is None for s in group[:-1])
    if not is_plain or any(s.delay is not None for s in group):
        return None
    source, target = group[0].operator.input_shape, group[-1].operator.output_shape
    indptr, indices, data = (np.asarray(stored.get(PREFIX + key, ())) for key in ("indptr", "indices", "data"))
    if not is_pattern(indptr, indices, math.prod(target), math.prod(source)):
        return None
    if data.shape != indices.shape or data.dtype.kind != "f" or not bool(np.all(np.isfinite(data))):
        return None
    matrix = Sparse(freeze(indptr, np.int64), freeze(indices, np.int64), freeze(data), source, target)
    return matrix if _computes([s.operator for s in group], matrix) else None


def _computes(parts: Sequence[Operator], matrix: Sparse) -> bool:
    """True if the parts and the matrix agree on random numbers."""
    plain = np.random.default_rng(_SEED).normal(size=matrix.input_shape)
    wanted = np.asarray(apply(matrix, plain))
    for part in parts:
        plain = apply(part, plain)
    return bool(np.allclose(plain, wanted, rtol=_AGREES, atol=_AGREES * float(np.abs(wanted).max(initial=0.0))))
