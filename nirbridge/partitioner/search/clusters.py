"""Cores that hold any neurons, and greedy clusters of arbitrary neurons, for irregular networks.

A core grows by the neuron that adds the fewest new input axons, then by one of equal profiles. Afterwards the neurons
of light cores are moved to other cores as long as a core becomes free. Every use is exact, except for words where a
chip stores equal kernels once (an upper bound).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from nirbridge.arrays import Array
from nirbridge.partitioner.cost.axons import Blocks
from nirbridge.partitioner.cost.neurons import NeuronLists, neuron_lists, slices_of, total_synapses
from nirbridge.partitioner.cost.sizing import CostModel
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


# -- cores ---------------------------------------------------------------------------------------------------------
# Cores that hold any neurons, with what each uses kept up to date as neurons come and go.


CALL_WORK = 3_000
FIT_WORK = 500
"""Work of an exact count of words beside its synapses, and of asking whether a neuron fits: about 50 ns each."""


@dataclass(slots=True)
class Work:
    """Remaining work budget, in synapses listed for exact words."""

    left: int


class Cores:
    """Neurons on cores, with what every core uses kept up to date.

    ``held[core, point]`` counts the targets of a point in a core, ``slots`` the cores with targets of a point.
    """

    def __init__(self, lists: NeuronLists, cap: Array, groups: Array, work: Work) -> None:
        self.lists, self.cap, self.groups, self.work = lists, cap, groups, work
        self.tables = lists.word_tables(int(min(cap[0], lists.neurons)))
        self.core = np.full(lists.points, -1, np.int64)
        self.slots = np.zeros(lists.points, np.int64)
        self.members: list[list[int]] = []
        self.axons: list[int] = []
        self.kinds: list[tuple[Counter[int], Counter[int]]] = []
        self.held: list[Array] = []
        self.counts: list[list[Array]] = []
        self.most_words: list[int] = []
        self.least_words: list[int] = []
        self.out: list[int] = []
        self.charged: Array | None = None
        self.strict = False

    def open(self) -> int:
        """A new, empty core; its number."""
        self.members.append([])
        self.axons.append(0)
        self.kinds.append((Counter(), Counter()))
        self.held.append(np.zeros(self.lists.points, np.int64))
        self.counts.append([np.zeros(self.lists.points, np.int32) for _ in self.lists.edges])
        self.most_words.append(0)
        self.least_words.append(0)
        self.out.append(0)
        return len(self.members) - 1

    def fits(self, neuron: int, core: int) -> bool:
        """True if a core has room for one more neuron."""
        cap, own = self.cap, self.members[core]
        self.work.left -= FIT_WORK
        if len(own) >= cap[0] or (own and self.groups[own[0]] != self.groups[neuron]):
            return False
        new = self.lists.fed.row(neuron)
        new = new[self.held[core][new] == 0]
        if cap[1] < UNLIMITED and self.axons[core] + len(new) > cap[1]:
            return False
        return self._profiles_fit(neuron, core) and self._slots_fit(neuron, core, new) and self._words_fit(neuron, core)

    def _profiles_fit(self, neuron: int, core: int) -> bool:
        own = self.kinds[core]
        return all(
            kind < 0 or kind in kinds or len(kinds) < most
            for kinds, kind, most in zip(own, self._profiles(neuron), self.cap[3:5].tolist(), strict=True)
        )

    def _profiles(self, neuron: int) -> tuple[int, int]:
        return int(self.lists.decay[neuron]), int(self.lists.threshold[neuron])

    def like(self, core: int) -> Array:
        """[neurons], True for those whose profiles a core has, or has room for."""
        able = np.ones(self.lists.neurons, bool)
        for kinds, of, most in zip(
            self.kinds[core], (self.lists.decay, self.lists.threshold), self.cap[3:5].tolist(), strict=True
        ):
            if len(kinds) >= most:
                able &= np.isin(of, [-1, *kinds])
        return able

    def _slots_fit(self, neuron: int, core: int, new: Array) -> bool:
        """Output axons: the neuron's own in this core, and one more wherever a source that is new here lies."""
        if self.cap[5] >= UNLIMITED:
            return True
        if self.charged is not None:
            own = self.members[core]
            return int(self.charged[own].sum() + self.charged[neuron]) <= self.cap[5]
        if not self.strict:
            return True
        itself = bool(len(new) and (new == neuron).any())
        more = np.bincount(self.core[new[self.core[new] >= 0]], minlength=len(self.members))
        more[core] += self.slots[neuron] + itself
        touched = np.flatnonzero(more)
        return all(self.out[c] + int(more[c]) <= self.cap[5] for c in touched.tolist())

    def _words_fit(self, neuron: int, core: int) -> bool:
        """Bounds of the words first; while there is work left, the words themselves."""
        if self.cap[2] >= UNLIMITED:
            return True
        least, most = self._more_words(neuron, core)
        if self.most_words[core] + most <= self.cap[2]:
            return True
        if self.least_words[core] + least > self.cap[2] or self.work.left <= 0:
            return False
        members = np.array(sorted([*self.members[core], neuron]))
        self.work.left -= CALL_WORK + int(self.lists.fan_in[members].sum())
        return self.lists.words(members) <= self.cap[2]

    def _more_words(self, neuron: int, core: int) -> tuple[int, int]:
        """By how much the least and the most words of the core's lists grow."""
        totals = [0, 0]
        for edge, counts, tables in zip(self.lists.edges, self.counts[core], self.tables, strict=True):
            n = counts[edge.lists.row(neuron)]
            for i, table in enumerate(tables):
                totals[i] += int((table[n + 1] - table[n]).sum())
        return totals[0], totals[1]

    def add(self, neuron: int, core: int) -> None:
        """Put a neuron into a core."""
        self._count_words(neuron, core, 1)
        sources = self.lists.fed.row(neuron)
        new = sources[self.held[core][sources] == 0]
        self.held[core][sources] += 1
        self.members[core].append(neuron)
        self.axons[core] += len(new)
        for kinds, kind in zip(self.kinds[core], self._profiles(neuron), strict=True):
            if kind >= 0:
                kinds[kind] += 1
        self.core[neuron] = core
        self.out[core] += int(self.slots[neuron])
        self._pay(new, 1)

    def remove(self, neuron: int) -> int:
        """Take a neuron out of its core; that core."""
        core = int(self.core[neuron])
        sources = self.lists.fed.row(neuron)
        self.held[core][sources] -= 1
        gone = sources[self.held[core][sources] == 0]
        self._pay(gone, -1)
        self.axons[core] -= len(gone)
        for kinds, kind in zip(self.kinds[core], self._profiles(neuron), strict=True):
            if kind >= 0:
                kinds[kind] -= 1
                if not kinds[kind]:
                    del kinds[kind]
        self.core[neuron] = -1
        self.out[core] -= int(self.slots[neuron])
        self.members[core].remove(neuron)
        self._count_words(neuron, core, -1)
        return core

    def _count_words(self, neuron: int, core: int, step: int) -> None:
        """A neuron comes into a core (1) or leaves it (-1)."""
        if self.cap[2] >= UNLIMITED:
            return
        less = self._more_words(neuron, core) if step > 0 else (0, 0)
        for edge, counts in zip(self.lists.edges, self.counts[core], strict=True):
            counts[edge.lists.row(neuron)] += step
        least, most = less if step > 0 else self._more_words(neuron, core)
        self.least_words[core] += step * least
        self.most_words[core] += step * most

    def _pay(self, sources: Array, step: int) -> None:
        """Sources gain or lose a core with targets; so do the output axons where they lie."""
        self.slots[sources] += step
        for core in self.core[sources].tolist():
            if core >= 0:
                self.out[core] += step
