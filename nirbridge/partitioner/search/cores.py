"""Cores that hold any neurons, with what each uses kept up to date as neurons come and go."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np

from nirbridge.arrays import Array
from nirbridge.partitioner.cost.neurons import NeuronLists
from nirbridge.partitioner.search.slicing import UNLIMITED

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
