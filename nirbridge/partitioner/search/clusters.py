"""Greedy clusters of arbitrary neurons, for irregular networks.

A core grows by the neuron that adds the fewest new input axons, then by one of equal profiles. Afterwards the neurons
of light cores are moved to other cores as long as a core becomes free. Every use is exact, except for words where a
chip stores equal kernels once (an upper bound).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from nirbridge.arrays import Array
from nirbridge.partitioner.cost.axons import Blocks
from nirbridge.partitioner.cost.neurons import neuron_lists, slices_of, total_synapses
from nirbridge.partitioner.cost.sizing import CostModel
from nirbridge.partitioner.search.cores import Cores, Work
from nirbridge.partitioner.search.slicing import UNLIMITED

NEURONS_MAX = 20_000
SYNAPSES_MAX = 1_000_000
"""Networks up to these sizes are searched neuron by neuron."""
REPAIRS = 4
"""Passes over the cores with too many output axons: moving a neuron out adds output axons elsewhere."""


@dataclass(frozen=True, slots=True)
class Rule:
    """Rule by which a core grows.

    ``start``: the first, the last, the widest (most sources) or the least wide of the remaining neurons; ``widest``:
    among equals, take the widest, else the next in order from the start; ``shared``: axons already in the core count in
    favour of a neuron.
    """

    start: str = "first"
    widest: bool = True
    shared: bool = False


RULES = (
    Rule(),
    Rule("last"),
    Rule("widest"),
    Rule(widest=False),
    Rule("last", widest=False),
    Rule("least", widest=False),
    Rule("widest", shared=True),
    Rule(shared=True),
)


def clustered(sizes: CostModel, cap: Array, groups: Mapping[str, int], enough: int, most: int) -> Blocks | None:
    """The best clustering over ``RULES``; stops at ``enough`` cores. None: too large a network, or none is legal.

    ``most``: work of all rules together (``cores.FIT_WORK``).
    """
    if sizes.network.neurons > NEURONS_MAX or total_synapses(sizes) > SYNAPSES_MAX:
        return None
    lists = neuron_lists(sizes)
    populations = sizes.network.populations
    group = np.repeat([groups.get(p.name, 0) for p in populations], [p.size for p in populations])
    best: Cores | None = None
    charged: Array | None = None
    work = Work(most)
    for rule in RULES:
        if best is not None and work.left <= 0:
            break
        found = _grow(Cores(lists, cap, group, work), rule, charged)
        if found is None:
            continue
        charged = found.slots.copy()
        if not _repair(found):
            continue
        _free_cores(found)
        if best is None or len(found.members) < len(best.members):
            best = found
        if len(best.members) <= enough:
            break
    return None if best is None else tuple(slices_of(lists, np.array(sorted(m))) for m in best.members)


def _grow(cores: Cores, rule: Rule, charged: Array | None) -> Cores | None:
    """Cores filled one after the other; None: a neuron fits no core.

    ``charged`` are output axons that neurons will have, from a map before. Those of the cores to come are not known.
    """
    lists, cores.charged = cores.lists, charged
    order = np.arange(lists.neurons)[:: -1 if rule.start == "last" else 1]
    widest = np.lexsort((np.argsort(order), -lists.fan_in))
    start = _places(widest if rule.start == "widest" else order)
    place = _places(widest if rule.widest else order)
    left = np.ones(lists.neurons, bool)
    while left.any():
        core = cores.open()
        first = -1 if rule.start == "least" else int(np.argmin(np.where(left, start, lists.neurons)))
        fill_core(cores, core, first, rule, place, left)
        if not cores.members[core]:
            return None
        left[cores.members[core]] = False
    cores.charged, cores.strict = None, True
    return cores


def _places(order: Array) -> Array:
    place = np.empty_like(order)
    place[order] = np.arange(len(order))
    return place


def fill_core(cores: Cores, core: int, first: int, rule: Rule, place: Array, left: Array) -> None:
    """Add neurons that are left to an open core until none fits, ``first`` before the others."""
    lists, fan_in = cores.lists, cores.lists.fan_in
    free, new = left.copy(), fan_in
    like = np.zeros((2, lists.neurons), bool)
    axons = 0
    while free.any() and len(cores.members[core]) < cores.cap[0]:
        unlike = 2 - like.sum(axis=0)
        cost = (2 * new - fan_in if rule.shared else new) * 3 + unlike
        neuron = (
            first
            if first >= 0 and free[first]
            else int(np.argmin(np.where(free, cost * lists.neurons + place, UNLIMITED)))
        )
        free[neuron] = False
        if not cores.fits(neuron, core):
            if cores.work.left <= 0 and cores.members[core]:
                break
            continue
        fresh = lists.fed.row(neuron)
        fresh = fresh[cores.held[core][fresh] == 0]
        cores.add(neuron, core)
        axons += len(fresh)
        new = new - np.bincount(lists.feeds.values[lists.feeds.places(fresh)[0]], minlength=lists.neurons)
        if cores.cap[1] < UNLIMITED:
            free &= axons + new <= cores.cap[1]
        free &= cores.like(core)
        like[0] |= lists.decay == lists.decay[neuron]
        like[1] |= lists.threshold == lists.threshold[neuron]


def _repair(cores: Cores) -> bool:
    """Move neurons out of cores with too many output axons until none has; False: they fit nowhere."""
    limit = int(cores.cap[5])
    for _ in range(REPAIRS):
        over = [core for core, out in enumerate(cores.out) if out > limit]
        if not over:
            return True
        for core in over:
            own = sorted(cores.members[core], key=lambda n: (-int(cores.slots[n]), n))
            while cores.out[core] > limit and own:
                cores.remove(neuron := own.pop(0))
                target = best_core(cores, neuron, core)
                cores.add(neuron, cores.open() if target is None else target)
    return all(out <= limit for out in cores.out)


def _free_cores(cores: Cores) -> None:
    """Empty the lightest cores into the others, as far as their neurons fit there."""
    for core in sorted(range(len(cores.members)), key=lambda c: (len(cores.members[c]), c)):
        if cores.work.left <= 0:
            break
        moved: list[tuple[int, int]] = []
        fan_in = cores.lists.fan_in
        for neuron in sorted(cores.members[core], key=lambda n: (-int(fan_in[n]), n)):
            cores.remove(neuron)
            target = best_core(cores, neuron, core)
            cores.add(neuron, core if target is None else target)
            if target is None:
                for other, _ in moved:
                    cores.remove(other)
                for other, _ in moved:
                    cores.add(other, core)
                break
            moved.append((neuron, target))
    cores.members = [members for members in cores.members if members]


def best_core(cores: Cores, neuron: int, without: int) -> int | None:
    """The core of fewest new axons where a neuron fits, other than ``without``; None: there is none."""
    sources = cores.lists.fed.row(neuron)
    options = [
        (int((cores.held[c][sources] == 0).sum()), c)
        for c, members in enumerate(cores.members)
        if members and c != without
    ]
    return next((c for _, c in sorted(options) if cores.fits(neuron, c)), None)
