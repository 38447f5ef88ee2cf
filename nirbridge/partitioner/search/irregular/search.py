"""The search over cores of any neurons: graph made small, cut, then refined under every limit of the chip."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from nirbridge._types import Progress, no_progress
from nirbridge.arrays import Array
from nirbridge.partitioner.search.irregular.balance import empty, even_out, is_within, room_of, shed
from nirbridge.partitioner.search.irregular.coarsen import Graph, bisected, clusters, contracted, scattered
from nirbridge.partitioner.search.irregular.jit import announce, compiled, inlined, loop, uncounted
from nirbridge.partitioner.search.irregular.model import Model, nets_of
from nirbridge.partitioner.search.irregular.moves import (
    AXONS,
    OUT,
    SIZE,
    UNLIMITED,
    WORDS,
    Nets,
    _near,
    copied,
    move,
    place_all,
    refine,
    words_fit,
)

CLUSTER, GROWTH = 6, 5
"""Neurons of a cluster on the first level, and how much larger those of the next are."""
NODES_PER_CORE = 24
"""Least nodes per core of a level: with 12, cuts of a torus on 44 cores had 2 to 7 % more destination cores."""
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
FULL = 1.005
"""Cores that are needed at least, as a multiple of those that the mean use of the scarcest limit fills."""


@dataclass(frozen=True, slots=True)
class Effort:
    """``passes`` of moves at most, until one saves less than the share ``settled`` of all destination cores.

    ``starts``: cuts from other seeds, of which the best is kept; a next one while synapses times cores of those before
    are below ``work``. ``sweeps`` of annealing at most, and ``entries``, targets of synapses that all of them look at;
    fewer where sources have many destination cores, which takes longer.
    """

    passes: int
    settled: float
    starts: int
    work: int
    sweeps: int
    entries: int


DEFAULT = Effort(2, 0.03, 3, 10_000_000, 60, 24_000_000)
EFFORTS: Mapping[str, tuple[Effort, ...]] = {
    "fast": (Effort(4, 0.01, 1, 0, 0, 0),),
    "default": (DEFAULT,),
    "max": (DEFAULT, Effort(10, 0.005, 6, 100_000_000, 200, 400_000_000)),
}
"""Searches one after the other, the best kept: more effort is never worse, and has its first map as soon."""


def irregular_cores(
    model: Model, lower: int, effort: str, seed: int, progress: Progress = no_progress
) -> Iterator[Array]:
    """Ever better cores of each neuron, numbers from 0, all within every limit; none where no such map was found.

    Fewer cores are better, then fewer destination cores.
    """
    best: tuple[int, int] | None = None
    announce(refine, progress)
    for settings in EFFORTS[effort]:
        work = 0
        for start in range(settings.starts):
            if work > settings.work:
                break
            cores = 0
            for x in _search(model, lower, settings, np.random.default_rng((seed, start)), progress):
                cores = int((x.use[SIZE] > 0).sum())
                value = cores, int(x.length.sum())
                if best is None or value < best:
                    best = value
                    yield np.unique(x.part, return_inverse=True)[1]
                # said when the caller has them: who interrupts what is shown gets it
                progress(f"cores of neurons: {cores} cores, {value[1]:,} destination cores", None)
            work += len(model.nets) * (cores or model.neurons)


def _search(model: Model, lower: int, effort: Effort, rng: np.random.Generator, progress: Progress) -> Iterator[Nets]:
    progress("graph of neurons", None)
    levels, cores = _levels(model.graph, lower, rng), lower
    for _ in range(GROWS):
        x, cores = _first(model, levels, cores, rng)
        if _settled(x, cores, effort, rng):
            yield from _improved(x, lower, effort, rng, progress)
            return
        cores = min(max(cores + 1, math.ceil(MORE * cores)), model.neurons)


def _improved(x: Nets, lower: int, effort: Effort, rng: np.random.Generator, progress: Progress) -> Iterator[Nets]:
    """From cores within every limit on: fewer cores, fewer destination cores."""
    yield x
    x = _free_cores(x, lower, effort, rng)
    yield x
    sweeps = min(effort.sweeps, int(effort.entries / max(len(x.nets) * _length(x), 1)))
    if sweeps < 1:
        return
    for heat, share in ((HOT, 0.75), (WARM, 0.25)):
        other = copied(x)
        if _annealed(other, int(np.ceil(share * sweeps)), heat, effort, rng, progress):
            if other.length.sum() <= x.length.sum():
                x = other
            yield x
            x = _free_cores(x, lower, effort, rng)
            yield x


def _annealed(x: Nets, sweeps: int, heat: float, effort: Effort, rng: np.random.Generator, progress: Progress) -> bool:
    """Sweeps with limits that give way, ever less; False: cores are left that are over a limit."""
    limit = x.cap.copy()
    loose = np.minimum(limit, (UNEVEN * x.use.mean(axis=1)).astype(np.int64))
    x.cap[:] = np.where(limit < UNLIMITED, np.maximum(limit, loose), limit)
    for k in range(sweeps):
        share = k / (sweeps - 1) if sweeps > 1 else 1.0  # a single one is cold: hot ones alone lose what was found
        progress(f"cores of neurons: {int(x.length.sum()):,} destination cores", share)
        sweep(x, limit, cooled(heat, COLD, share), cooled(LIGHT, HEAVY, share), rng)
    x.cap[:] = limit
    return _within(x, effort, rng)


def _settled(x: Nets, cores: int, effort: Effort, rng: np.random.Generator) -> bool:
    """Refine, and bring every core within its limits; False: neurons found no room."""
    limit, active = int(x.cap[SIZE]), np.ones(len(x.part), bool)
    x.cap[SIZE] = max(limit, math.ceil(UNEVEN * len(x.part) / cores))
    _refine(x, active, effort, rng)
    x.cap[SIZE] = limit
    return _within(x, effort, rng)


def _within(x: Nets, effort: Effort, rng: np.random.Generator) -> bool:
    """Every core within its limits, and what was moved refined; False: neurons found no room."""
    before, room = x.part.copy(), room_of(x, x.cap)
    if (room < 0).any():
        even_out(x, np.where(x.use[SIZE] > 0, room, np.minimum(room, 0)))
        _refine(x, x.part != before, effort, rng)
    over = [core for core in range(x.use.shape[1]) if not compiled(is_within)(x, core)]
    before = x.part.copy()
    if not all(compiled(shed)(x, core, rng.permutation(len(x.part))) for core in over):
        return False
    if over:
        _refine(x, x.part != before, effort, rng)
    return all(compiled(is_within)(x, core) for core in range(x.use.shape[1]))


def _levels(graph: Graph, cores: int, rng: np.random.Generator) -> list[tuple[Graph, Array | None]]:
    """The graph and ever smaller ones, each with the node of every neuron (None: the neurons themselves).

    None at all where even small clusters share next to nothing: a cut of such a graph is as good as any other.
    """
    levels: list[tuple[Graph, Array | None]] = [(graph, None)]
    most = CLUSTER
    while levels[-1][0].nodes > 3 * NODES_PER_CORE * cores and most * NODES_PER_CORE <= graph.size.sum() / cores:
        node = clusters(levels[-1][0], most, rng)
        if len(levels) == 1 and scattered(graph, node) > SCATTERED:
            return []
        smaller = contracted(levels[-1][0], node)
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
            compiled(place_all)(x, part)
            return x, cores
        cores = min(max(cores + 1, math.ceil(cores * need)), model.neurons)


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
        if not _pays(x, compiled(refine)(x, rng.permutation(len(x.part)), active, 1), effort):
            break


def _pays(x: Nets, saved: int, effort: Effort) -> bool:
    """True where a pass saved enough for another one: each takes as long as there are destination cores."""
    return saved > effort.settled * int(x.length.sum()) * _length(x)


def _length(x: Nets) -> float:
    """How much longer than others a pass takes: by how much sources have more destination cores than few."""
    return max(1.0, float(x.length.mean()) / MANY)


def _free_cores(x: Nets, lower: int, effort: Effort, rng: np.random.Generator) -> Nets:
    """Without the cores of fewest neurons, as long as the others have room for all of their neurons."""
    used = int((x.use[SIZE] > 0).sum())
    needed = math.ceil(FULL * float((x.use.sum(axis=1) / x.cap).max()))
    many, before = max(used - max(lower, needed), 1), x
    while used > lower:
        other = _without(x, many, effort, rng)
        if other is None and many == 1:
            break
        many = 1 if other is None else max(many // 2, 1)
        x = x if other is None else other
        used = int((x.use[SIZE] > 0).sum())
    if x is not before:
        _refine(x, np.ones(len(x.part), bool), effort, rng)
    return x


def _without(x: Nets, many: int, effort: Effort, rng: np.random.Generator) -> Nets | None:
    """The state without the ``many`` cores of fewest neurons; None: the others have no room."""
    used = np.flatnonzero(x.use[SIZE])
    light = used[np.argsort(x.use[SIZE, used], kind="stable")[:many]]
    room = np.where(x.use[SIZE] > 0, np.maximum(room_of(x, x.cap), 0), 0)
    room[light] = -x.use[SIZE, light]
    if room.sum() < 0:
        return None
    x, before = copied(x), x.part
    even_out(x, room)
    in_use = (core for core in light.tolist() if x.use[SIZE, core])
    emptied = all(compiled(empty)(x, core, rng.permutation(len(x.part))) for core in in_use)
    if not emptied or not _within(x, effort, rng):
        return None
    _refine(x, x.part != before, effort, rng)
    return x if int((x.use[SIZE] > 0).sum()) < len(used) else None


# -- anneal --------------------------------------------------------------------------------------------------------
# Annealing of neurons between cores: moves that cost destination cores are made too, ever more rarely.
#
# A sweep takes the neurons one by one. Each chooses among its own core and those of its nets that have room, with
# probability ~ exp(nets there / temperature) (a heat bath, by Gumbel noise). Cores may be over their limits for a
# while: what is over costs, ever more from sweep to sweep.

HOT, WARM, COLD = 1.0, 0.6, 0.2
"""Temperatures of the first sweep, of the first of later ones and of the last sweep, in destination cores."""
LIGHT, HEAVY = 0.02, 0.4
"""Destination cores that a neuron over the limit counts as, in the first and the last sweep."""
NOISE = 1 << 17
"""Random numbers of a sweep; neurons take them in turn."""


def cooled(first: float, last: float, share: float) -> float:
    """The value at a share of the way from the first to the last, by equal factors."""
    return float(first * (last / first) ** share)


def sweep(x: Nets, limit: Array, heat: float, weight: float, rng: np.random.Generator) -> None:
    """Every neuron chooses its core once, in a random order; ``weight``: of a neuron over ``limit``."""
    noise = rng.gumbel(size=NOISE) * heat
    per_neuron = np.maximum(x.use.sum(axis=1) / len(x.part), 1e-9)
    compiled(_sweep)(x, rng.permutation(len(x.part)), noise, limit.astype(np.float64), per_neuron, weight)


@loop
def _sweep(x, order, noise, limit, per_neuron, weight):
    cores = x.use.shape[1]
    sums, seen = np.zeros(-(-cores // 64) * 64, np.int32), np.empty(cores, np.int64)
    excess = np.empty(cores)
    for core in range(cores):
        excess[core] = _excess(x, core, limit, per_neuron)
    part, at = x.part, 0
    for v in order:
        if _is_inner(x, v):
            continue
        found = _near(x, v, sums, seen)
        if at + found >= len(noise):
            at = 0
        best = _drawn(x, v, sums, seen, found, noise[at:], excess, weight)
        at += found + 1
        for k in range(found):
            sums[seen[k]] = 0
        own = part[v]
        if best != own and words_fit(x, v, best):
            if not move(x, v, best):
                move(x, v, own)
                continue
            excess[own] = _excess(x, own, limit, per_neuron)
            excess[best] = _excess(x, best, limit, per_neuron)


@inlined
def _is_inner(x, v):
    """True where all nets of a neuron have their targets in one core."""
    nets, length = x.nets, x.length
    inner = True
    for k in range(x.start[v], x.start[v + 1]):
        inner = inner and length[nets[k]] <= 1
    return inner


@inlined
def _drawn(x, v, sums, seen, found, noise, excess, weight):
    """The core that a neuron draws; its own one where no other has room."""
    own, nets, use, cap, out = x.part[v], x.start[v + 1] - x.start[v], x.use, x.cap, x.slots[v]
    best, top = own, sums[own] - weight * max(excess[own], 0.0) + noise[found]
    for k in range(found):
        core = seen[k]
        value = sums[core] - weight * max(excess[core] + 1.0, 0.0) + noise[k]
        if core != own and value > top and use[SIZE, core] < cap[SIZE]:
            new = nets - sums[core]  # nets that come: an axon each, and a word at least
            room = use[AXONS, core] + new <= cap[AXONS] and use[WORDS, core] + new <= cap[WORDS]
            if room and use[OUT, core] + out <= cap[OUT]:
                best, top = core, value
    return best


@uncounted
def _excess(x, core, limit, per_neuron):
    """By how many neurons a core is over its limits; negative: how many it has room for."""
    most = -1e18
    for row in range(4):
        most = max(most, (x.use[row, core] - limit[row]) / per_neuron[row])
    return most
