"""The search over cores of any neurons: graph made small, cut, then refined under every limit of the chip."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from nirbridge.arrays import Array
from nirbridge.partitioner.search.irregular.balance import empty, even_out, is_within, shed
from nirbridge.partitioner.search.irregular.bisect import bisected
from nirbridge.partitioner.search.irregular.coarsen import Graph, coarsened
from nirbridge.partitioner.search.irregular.model import Model, nets_of
from nirbridge.partitioner.search.irregular.moves import SIZE, Nets, place_all, refine

CLUSTER, GROWTH = 6, 5
"""Neurons of a cluster on the first level, and how much larger those of the next are."""
NODES_PER_CORE = 12
"""Least nodes per core of a level."""
UNEVEN = 1.03
"""Cores may be over their limit of neurons by this factor until neurons are evened out."""
GROWS = 8
"""Numbers of cores that are tried."""
SCATTERED = 0.85
"""A graph has no parts where clusters of the first level leave more than this share of its pairs of neighbours."""
SAMPLE = 12
"""Cores whose use is counted for an estimate."""
MORE = 1.04
"""By how much the number of cores grows where neurons found no room."""
MANY = 10
"""Destination cores of a source from which a pass of moves takes long."""
EXTRA = 1.2
"""Power of the need by which the number of cores grows: a core of fewer neurons shares fewer sources."""


@dataclass(frozen=True, slots=True)
class Effort:
    """``passes`` of moves at most, until one saves less than the share ``settled`` of all destination cores.

    ``starts``: cuts from other seeds, of which the best is kept; a next one while synapses times cores of those before
    are below ``work``. ``rounds``: further passes with moves that save nothing, which open the way for others.
    """

    passes: int
    settled: float
    starts: int
    work: int
    rounds: int


EFFORTS = {
    "fast": Effort(4, 0.01, 1, 0, 0),
    "default": Effort(12, 0.004, 4, 10_000_000, 4),
    "max": Effort(40, 0.0005, 8, 500_000_000, 30),
}


def irregular_cores(model: Model, lower: int, effort: str, seed: int) -> Array | None:
    """The core of each neuron, numbers from 0; None: no map within every limit was found."""
    settings = EFFORTS[effort]
    best: tuple[int, int] | None = None
    part, work = None, 0
    for start in range(settings.starts):
        if work > settings.work:
            break
        found = _search(model, lower, settings, np.random.default_rng((seed, start)))
        work += len(model.nets) * model.neurons if found is None else len(model.nets) * found.use.shape[1]
        if found is not None:
            used = int((found.use[SIZE] > 0).sum()), int(found.length.sum())
            if best is None or used < best:
                best, part = used, found.part.copy()
    return None if part is None else np.unique(part, return_inverse=True)[1]


def _search(model: Model, lower: int, effort: Effort, rng: np.random.Generator) -> Nets | None:
    levels, cores = _levels(model.graph, lower, rng), lower
    for _ in range(GROWS):
        x, cores = _first(model, levels, cores, rng)
        if _settled(x, cores, effort, rng):
            _free_cores(x, lower, effort, rng)
            if effort.starts > EFFORTS["default"].starts or x.length.sum() <= MANY * len(x.length):
                _wander(x, effort, rng)
                _free_cores(x, lower, effort, rng)
            return x
        cores = min(max(cores + 1, math.ceil(MORE * cores)), model.neurons)
    return None


def _settled(x: Nets, cores: int, effort: Effort, rng: np.random.Generator) -> bool:
    """Refine, and bring every core within its limits; False: neurons found no room."""
    limit, active = int(x.cap[SIZE]), np.ones(len(x.part), bool)
    x.cap[SIZE] = max(limit, math.ceil(UNEVEN * len(x.part) / cores))
    _refine(x, active, effort, rng)
    x.cap[SIZE] = limit
    if (x.use[SIZE] > limit).any():
        even_out(x, x.use[SIZE] > 0)
        active[:] = True
        _refine(x, active, effort, rng)
    over = [core for core in range(x.use.shape[1]) if not is_within(x, core)]
    if not all(shed(x, core, rng.permutation(len(x.part))) for core in over):
        return False
    if over:
        _refine(x, active, effort, rng)
    return all(is_within(x, core) for core in range(x.use.shape[1]))


def _levels(graph: Graph, cores: int, rng: np.random.Generator) -> list[tuple[Graph, Array | None]]:
    """The graph and ever smaller ones, each with the node of every neuron (None: the neurons themselves).

    None at all where even small clusters share next to nothing: a cut of such a graph is as good as any other.
    """
    levels: list[tuple[Graph, Array | None]] = [(graph, None)]
    most = CLUSTER
    while levels[-1][0].nodes > 3 * NODES_PER_CORE * cores and most * NODES_PER_CORE <= graph.size.sum() / cores:
        smaller, node = coarsened(levels[-1][0], most, rng)
        if len(levels) == 1 and len(smaller.index) > SCATTERED * len(graph.index):
            return []
        if smaller.nodes > 0.9 * levels[-1][0].nodes:
            break
        before = levels[-1][1]
        levels.append((smaller, node if before is None else node[before]))
        most *= GROWTH
    return levels


def _first(
    model: Model, levels: list[tuple[Graph, Array | None]], cores: int, rng: np.random.Generator
) -> tuple[Nets, int]:
    """Neurons cut into as few cores as can hold them on average, with some empty cores to spare; how many."""
    while True:
        part = _cut(model, levels, cores, rng)
        need = _need(model, part, cores)
        if need <= 1.0 or cores >= model.neurons:
            x = nets_of(model, cores + max(4, cores // 8))
            place_all(x, part)
            return x, cores
        cores = min(max(cores + 1, math.ceil(cores * need**EXTRA)), model.neurons)


def _cut(model: Model, levels: list[tuple[Graph, Array | None]], cores: int, rng: np.random.Generator) -> Array:
    """The core of each neuron, near-equal numbers of them; of their nets where the graph has no parts."""
    if not levels:
        before = (model.start[:-1] + model.start[1:]) // 2
        return np.minimum(before * cores // max(int(model.start[-1]), 1), cores - 1)
    graph, node = ([level for level in levels if level[0].nodes >= NODES_PER_CORE * cores] or levels[:1])[-1]
    part = bisected(graph, cores, rng)
    return (part if node is None else part[node])[: model.neurons]


def _need(model: Model, part: Array, cores: int) -> float:
    """The largest mean use of a limit, as its share, over a sample of cores; output axons count as input axons do."""
    uses = []
    for core in range(0, cores, -(-cores // SAMPLE)):
        members = np.flatnonzero(part == core)
        counts = model.start[members + 1] - model.start[members]
        within = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
        nets, targets = np.unique(model.nets[np.repeat(model.start[members], counts) + within], return_counts=True)
        own = int((model.source[nets] >= 0).sum())
        uses.append([len(nets), int(model.table[model.kind[nets], targets].sum()), own])
    return float((np.mean(uses, axis=0) / model.cap[SIZE + 1 :]).max())


def _refine(x: Nets, active: Array, effort: Effort, rng: np.random.Generator) -> None:
    for _ in range(effort.passes):
        if not _pays(x, refine(x, rng.permutation(len(x.part)), active, 1), effort):
            break


def _pays(x: Nets, saved: int, effort: Effort) -> bool:
    """True where a pass saved enough for another one: each takes as long as there are destination cores."""
    cores = int(x.length.sum())
    return saved > effort.settled * cores * max(1.0, cores / len(x.length) / MANY)


def _free_cores(x: Nets, lower: int, effort: Effort, rng: np.random.Generator) -> None:
    """Empty the cores of fewest neurons into the others, as long as all of their neurons find room."""
    active = np.zeros(len(x.part), bool)
    while int((x.use[SIZE] > 0).sum()) > lower:
        used = np.flatnonzero(x.use[SIZE])
        core = int(used[np.argmin(x.use[SIZE, used])])
        moved = x.part == core
        if not empty(x, core, rng.permutation(len(x.part))):
            break
        active |= moved
    _refine(x, active, effort, rng)


def _wander(x: Nets, effort: Effort, rng: np.random.Generator) -> None:
    """Passes of moves that lose nothing, each followed by one of moves that save."""
    active = np.ones(len(x.part), bool)
    for _ in range(effort.rounds):
        saved = 0
        for least in (0, 1):
            active[:] = True
            saved += refine(x, rng.permutation(len(x.part)), active, least)
        if not _pays(x, saved, effort):
            break
