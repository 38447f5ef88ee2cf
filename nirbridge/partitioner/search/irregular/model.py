"""An irregular network for the search over cores of any neurons: its nets, its limits and the graph of its neurons."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from nirbridge.arrays import Array
from nirbridge.partitioner.cost.connectivity import AllToAll, Explicit, explicit, synapses
from nirbridge.partitioner.cost.resources import run_words
from nirbridge.partitioner.cost.sizing import CostModel, IncomingProjection, distinct_profiles
from nirbridge.partitioner.search.irregular.coarsen import Graph, graph_of
from nirbridge.partitioner.search.irregular.moves import MANY, Nets
from nirbridge.partitioner.search.slicing import UNLIMITED

LISTED_MAX = 5_000_000
"""Pairs of a dense projection that are listed; a larger one is charged to every core as a whole."""
WIDE = 1_000
"""A source of more targets joins no neurons in the graph: it has targets in most cores."""
COUNTED_MAX = 300_000_000
"""Nets times cores up to which targets are counted for every core, a byte each; above, they are listed."""
ROW = 32
"""Rows of such numbers have a multiple of this length."""


@dataclass(frozen=True, slots=True, eq=False)
class Model:
    """Pairs (target neuron, net), both numbered through the network; of each net its source neuron (-1: host).

    ``kind`` of a net is its row of ``table``; ``table[kind]`` has the words of n targets in a core. ``cap``: neurons,
    input axons, words and output axons of a core, less what every core pays.
    """

    neurons: int
    start: Array
    nets: Array
    source: Array
    kind: Array
    table: Array
    cap: Array
    graph: Graph


def model_of(sizes: CostModel, cap: Array, *, together: bool = False) -> Model | None:
    """The model of an irregular network; None: it has a limit that the search does not know.

    ``together``: lists are charged as if the targets in a core lay together, which has to be counted afterwards.
    """
    decays, thresholds = distinct_profiles(sizes.network)
    if decays > cap[3] or thresholds > cap[4]:
        return None
    most = np.array([cap[0], cap[1], cap[2], cap[5]], np.int64)
    first, points = {}, 0
    for point in (*sizes.network.populations, *sizes.network.inputs):
        first[point.name] = points
        points += point.size
    edges = [(name, edge) for name in sizes.shapes for edge in sizes.incoming[name]]
    listed = []
    for name, edge in edges:
        if not isinstance(edge.form, AllToAll) or synapses(edge.form) <= LISTED_MAX:
            listed.append((name, edge))
        elif not _charge(sizes, edge, math.prod(sizes.shapes[name]), most):
            return None
    return _listed(sizes, listed, first, most, together=together) if listed else None


def _charge(sizes: CostModel, edge: IncomingProjection, targets: int, most: Array) -> bool:
    """Charge a dense projection to every core; False: it takes too much, or output axons that cannot be known."""
    assert isinstance(edge.form, AllToAll)
    sources = int(edge.form.touched.sum())
    if edge.source in sizes.shapes and most[3] < UNLIMITED:
        return False
    per_core = int(min(targets, most[0]))
    words = run_words(per_core, sizes.chip.synapses, sizes.weight_bits, delayed=edge.delayed)
    most[1] -= sources if most[1] < UNLIMITED else 0
    most[2] -= sources * words if most[2] < UNLIMITED else 0
    return bool(most[1] > 0 and most[2] > 0)


def _listed(
    sizes: CostModel,
    edges: list[tuple[str, IncomingProjection]],
    first: dict[str, int],
    most: Array,
    *,
    together: bool,
) -> Model:
    neurons, points = sizes.network.neurons, sum(p.size for p in (*sizes.network.populations, *sizes.network.inputs))
    lists = [explicit(edge.form, f"projection from {edge.source!r}") for _, edge in edges]
    start, net = _merged([(first[name], own) for (name, _), own in zip(edges, lists, strict=True)], neurons)
    source = np.concatenate(
        [first[e.source] + np.arange(own.n_sources) for (_, e), own in zip(edges, lists, strict=True)]
    )
    kind = np.repeat(np.arange(len(edges), dtype=np.int32), [own.n_sources for own in lists])
    targets = np.bincount(net, minlength=len(source))
    longest = int(targets.max(initial=0)) + 2
    table = np.stack([_words(sizes, edge, longest, together=together) for _, edge in edges])
    narrow = (targets <= WIDE)[net]
    row = np.repeat(np.arange(neurons, dtype=np.int32), np.diff(start))[narrow]
    size = np.zeros(points, np.int64)
    size[:neurons] = 1
    graph = graph_of(row, source.astype(np.int32)[net[narrow]], np.ones(len(row), np.int32), size)
    return Model(neurons, start, net, np.where(source < neurons, source, -1), kind, table, most, graph)


def _merged(lists: list[tuple[int, Explicit]], neurons: int) -> tuple[Array, Array]:
    """Compressed rows: the start of each neuron's nets, and the nets, projection by projection.

    ``lists``: of each projection the first of its targets, and its pairs.
    """
    degree = np.zeros(neurons, np.int64)
    for first, own in lists:
        degree[first : first + len(own.indptr) - 1] += np.diff(own.indptr)
    start = np.concatenate(([0], np.cumsum(degree)))
    nets, at, before = np.empty(start[-1], np.int32), start[:-1].copy(), 0
    for first, own in lists:
        counts, begin = np.diff(own.indptr), at[first : first + len(own.indptr) - 1]
        nets[np.repeat(begin - own.indptr[:-1], counts) + np.arange(len(own.sources))] = before + own.sources
        begin += counts
        before += own.n_sources
    return start, nets


def _words(sizes: CostModel, edge: IncomingProjection, length: int, *, together: bool) -> Array:
    """Words of a source's list of 0 to ``length - 1`` targets in a core, wherever they lie; dense ones lie together."""
    fmt, bits, counts = sizes.chip.synapses, sizes.weight_bits, np.arange(length)
    if isinstance(edge.form, AllToAll) or (together and edge.fills):
        return run_words(counts, fmt, bits, delayed=edge.delayed)
    words = counts * run_words(1, fmt, bits, delayed=edge.delayed)
    if fmt.index_bits is not None:
        words = np.minimum(words, run_words(counts, fmt, bits, delayed=edge.delayed, sparse=True))
    return words


def nets_of(model: Model, cores: int) -> Nets:
    """The nets with no neuron placed yet, on at most ``cores`` cores."""
    targets = np.bincount(model.nets, minlength=len(model.source))
    rows = len(targets) if len(targets) * cores <= COUNTED_MAX else 0
    listed = (targets >= MANY) if rows else np.ones(len(targets), bool)
    first = np.concatenate(([0], np.cumsum(np.where(listed, np.minimum(targets, cores) + 1, 0))))
    return Nets(
        model.start,
        model.nets,
        model.source,
        model.kind,
        model.table,
        np.where(listed, first[:-1], -1),
        np.zeros((first[-1], 2), np.int32),
        np.zeros(len(targets), np.int64),
        np.full(model.neurons, -1),
        np.zeros(model.neurons, np.int64),
        np.zeros((4, cores), np.int64),
        model.cap.copy(),
        np.zeros((rows, -(-cores // ROW) * ROW), np.uint8),
        np.zeros((rows, -(-cores // 64), 2), np.uint64),
    )
