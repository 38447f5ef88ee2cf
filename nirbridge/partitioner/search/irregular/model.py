"""An irregular network for the search over cores of any neurons: its nets, its limits and the graph of its neurons."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from nirbridge.arrays import Array
from nirbridge.partitioner.cost.connectivity import AllToAll, explicit, synapses
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


def model_of(sizes: CostModel, cap: Array) -> Model | None:
    """The model of an irregular network; None: it has a limit that the search does not know."""
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
    return _listed(sizes, listed, first, most) if listed else None


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


def _listed(sizes: CostModel, edges: list[tuple[str, IncomingProjection]], first: dict[str, int], most: Array) -> Model:
    neurons, points = sizes.network.neurons, sum(p.size for p in (*sizes.network.populations, *sizes.network.inputs))
    rows, nets, sources, kinds, ends = [], [], [], [], [0]
    for name, edge in edges:
        lists = explicit(edge.form, f"projection from {edge.source!r}")
        rows.append((first[name] + np.repeat(np.arange(len(lists.indptr) - 1), np.diff(lists.indptr))).astype(np.int32))
        nets.append((ends[-1] + lists.sources).astype(np.int32))
        sources.append(first[edge.source] + np.arange(lists.n_sources))
        kinds.append(np.full(lists.n_sources, len(kinds)))
        ends.append(ends[-1] + lists.n_sources)
    row, net, source = np.concatenate(rows), np.concatenate(nets), np.concatenate(sources)
    targets = np.bincount(net, minlength=ends[-1])
    table = np.stack([_words(sizes, edge, int(targets.max(initial=0)) + 2) for _, edge in edges])
    matrix: Any = sparse.csr_array((np.ones(len(row), np.int8), (row, net)), shape=(neurons, ends[-1]))
    narrow = targets[net] <= WIDE
    size = np.zeros(points, np.int64)
    size[:neurons] = 1
    graph = graph_of(row[narrow], source[net[narrow]].astype(np.int32), np.ones(int(narrow.sum()), np.int32), size)
    source = np.where(source < neurons, source, -1)
    start, index = matrix.indptr.astype(np.int64), matrix.indices.astype(np.int32)
    return Model(neurons, start, index, source, np.concatenate(kinds).astype(np.int32), table, most, graph)


def _words(sizes: CostModel, edge: IncomingProjection, length: int) -> Array:
    """Words of a source's list of 0 to ``length - 1`` targets in a core, wherever they lie; dense ones lie together."""
    fmt, bits, counts = sizes.chip.synapses, sizes.weight_bits, np.arange(length)
    if isinstance(edge.form, AllToAll):
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
    )
