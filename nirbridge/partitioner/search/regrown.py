"""Large-neighbourhood search: take the neurons out of a few cores of the best map and grow these cores again.

The order is random and differs in each try. A try is kept if it uses fewer cores, or as many cores filled less evenly:
free capacity then collects in one core until it is empty. The start is the best map so far, from any search. Every use
is exact, as in ``clusters``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from nirbridge.arrays import Array
from nirbridge.partitioner.cost.axons import Blocks
from nirbridge.partitioner.cost.neurons import NeuronLists, neuron_lists, slices_of, total_synapses
from nirbridge.partitioner.cost.sizing import CostModel
from nirbridge.partitioner.model import Slice
from nirbridge.partitioner.search.clusters import Cores, Rule, Work, best_core, fill_core

NEURONS_MAX = 2_000
SYNAPSES_MAX = 100_000
"""Networks up to these sizes are searched neuron by neuron."""
AT_A_TIME = (2, 6)
"""Cores that are grown again at a time: from, to before."""
LIGHTEST, NEAREST = 0.6, 0.5
"""How often the first of them is the lightest core (else any), and the others share most sources (else any)."""


@dataclass(frozen=True, slots=True)
class RegrowBudget:
    """Work (``cores.FIT_WORK``), tries, and how many of them in a row may be no better."""

    work: int
    tries: int
    patience: int


def regrown(
    sizes: CostModel,
    cap: Array,
    groups: Mapping[str, int],
    blocks: Blocks,
    enough: int,
    budget: RegrowBudget,
    seed: int,
) -> Blocks | None:
    """Fewer cores than ``blocks``; stops at ``enough``. None: none was found, or the network is too large."""
    if len(blocks) <= max(enough, 1) or sizes.network.neurons > NEURONS_MAX:
        return None
    if total_synapses(sizes) > SYNAPSES_MAX:
        return None
    lists = neuron_lists(sizes)
    populations = sizes.network.populations
    group = np.repeat([groups.get(p.name, 0) for p in populations], [p.size for p in populations])
    before = [members_of(lists, slices) for slices in blocks]
    cores = _filled(Cores(lists, cap, group, Work(budget.work)), before)
    rng, fruitless = np.random.default_rng(seed), 0
    for _ in range(budget.tries):
        used, rank = _used(cores), _rank(cores)
        if len(used) <= max(enough, 1) or cores.work.left <= 0 or fruitless >= budget.patience:
            break
        _try(cores, _chosen(cores, used, rng), rng)
        fruitless = 0 if _rank(cores) > rank else fruitless + 1
    if len(_used(cores)) >= len(blocks):
        return None
    # a core that was never grown again keeps its slices: their order may take fewer words
    kept = {tuple(members.tolist()): slices for members, slices in zip(before, blocks, strict=True)}
    after = [sorted(cores.members[core]) for core in _used(cores)]
    return tuple(kept.get(tuple(own)) or slices_of(lists, np.array(own)) for own in after)


def members_of(lists: NeuronLists, slices: Sequence[Slice]) -> Array:
    """The neurons of some slices, ascending, by their numbers."""
    found = []
    for s in slices:
        shape = lists.sizes.shapes[s.population]
        lengths = (*shape[1:], shape[0]) if len(shape) > 1 else shape
        box = (*s.box[1:], s.box[0]) if len(shape) > 1 else s.box
        places = np.arange(math.prod(shape)).reshape(lengths)[tuple(slice(a, b) for a, b in box)]
        found.append(lists.first[s.population] + places.ravel())
    return np.sort(np.concatenate(found))


def _filled(cores: Cores, contents: Sequence[Array]) -> Cores:
    for members in contents:
        core = cores.open()
        for neuron in members.tolist():
            cores.add(neuron, core)
    cores.strict = True
    return cores


def _used(cores: Cores) -> list[int]:
    return [core for core, members in enumerate(cores.members) if members]


def _rank(cores: Cores) -> tuple[int, int]:
    """Larger is better: few cores, then unevenly filled ones."""
    counts = [len(members) for members in cores.members if members]
    return -len(counts), sum(n * n for n in counts)


def _chosen(cores: Cores, used: Sequence[int], rng: np.random.Generator) -> list[int]:
    """The cores to grow again: a light one and some that share sources with it, or any."""
    counts = np.array([len(cores.members[core]) for core in used]) + rng.random(len(used))
    first = int(np.argmin(counts) if rng.random() < LIGHTEST else rng.integers(len(used)))
    near = rng.random(len(used))
    if rng.random() < NEAREST:
        held = cores.held[used[first]] > 0
        near = (1 + near) * [int((held & (cores.held[core] > 0)).sum()) for core in used]
    near[first] = np.inf
    many = int(rng.integers(*AT_A_TIME))
    return [used[i] for i in np.argsort(-near, kind="stable")[:many]]


def _try(cores: Cores, chosen: Sequence[int], rng: np.random.Generator) -> None:
    """Grow the chosen cores again; all is as before where that is no better."""
    before = _rank(cores)
    home = {neuron: core for core in chosen for neuron in cores.members[core]}
    for neuron in home:
        cores.remove(neuron)
    if _grown(cores, chosen, list(home), rng):
        _emptied(cores, chosen)
        if _rank(cores) >= before:
            return
    for neuron in home:
        if cores.core[neuron] >= 0:
            cores.remove(neuron)
    for neuron, core in home.items():
        cores.add(neuron, core)


def _grown(cores: Cores, chosen: Sequence[int], neurons: Sequence[int], rng: np.random.Generator) -> bool:
    """Fill the chosen cores one after the other; what is left goes where it fits. False: a neuron fits nowhere."""
    place, left = rng.permutation(cores.lists.neurons), np.zeros(cores.lists.neurons, bool)
    left[neurons] = True
    rule = Rule(widest=False, shared=bool(rng.random() < 0.5))
    for core in chosen:
        free = np.flatnonzero(left)
        if not len(free):
            break
        weight = cores.lists.fan_in[free] if rng.random() < 0.5 else 0
        first = int(free[np.argmax(weight + rng.random(len(free)))])
        fill_core(cores, core, first, rule, place, left)
        left[cores.members[core]] = False
    for neuron in np.flatnonzero(left).tolist():
        core = best_core(cores, neuron, -1)
        if core is None:
            return False
        cores.add(neuron, core)
    return True


def _emptied(cores: Cores, chosen: Sequence[int]) -> None:
    """Neurons of the lightest chosen core move to fuller ones that have room."""
    light = min((core for core in chosen if cores.members[core]), key=lambda core: len(cores.members[core]))
    fan_in = cores.lists.fan_in
    for neuron in sorted(cores.members[light], key=lambda n: (-int(fan_in[n]), n)):
        cores.remove(neuron)
        core = best_core(cores, neuron, light)
        fuller = core is not None and len(cores.members[core]) >= len(cores.members[light])
        cores.add(neuron, core if core is not None and fuller else light)
