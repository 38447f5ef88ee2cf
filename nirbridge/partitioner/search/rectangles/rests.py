"""Populations that can be cut anywhere at no cost, which fill what is left of cores."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Mapping

import numpy as np

from nirbridge.arrays import Array
from nirbridge.partitioner.cost.axis import Axis
from nirbridge.partitioner.cost.connectivity import Separable
from nirbridge.partitioner.cost.listing import numbering_axes
from nirbridge.partitioner.cost.sizing import CostModel
from nirbridge.partitioner.model import Slice
from nirbridge.partitioner.search.slicing import vector
from nirbridge.partitioner.search.stretches import Queue


def rests_of(sizes: CostModel) -> dict[str, int]:
    """Populations whose places share no source, and the neurons of a place (all channels where these share sources)."""
    found = {name: _grain(sizes, name) for name in sizes.shapes}
    return {name: grain for name, grain in found.items() if grain}


def _grain(sizes: CostModel, name: str) -> int:
    """Neurons that are cut together; 0: places share sources."""
    edges = sizes.incoming[name]
    forms = [edge.form for edge in edges if isinstance(edge.form, Separable)]
    if not forms or len(forms) < len(edges) or len({edge.source for edge in edges}) < len(edges):
        return 0
    if any(_most_targets(axis) > 1 for form in forms for axis in form.axes[1:]):
        return 0
    alone = all(_most_targets(form.axes[0]) <= 1 for form in forms)
    return 1 if alone else sizes.shapes[name][0] if len(sizes.shapes[name]) > 1 else 0


def _most_targets(axis: Axis) -> int:
    return int(axis.counts(0, axis.n_out).max(initial=0))


class Filling:
    """Cores that are filled with rests: ``contents``, their ``rooms`` (packing vectors) and their groups."""

    def __init__(self, sizes: CostModel, cap: Array, slots: Mapping[str, Array], groups: Mapping[str, int]) -> None:
        self.sizes, self.cap, self.slots, self.groups = sizes, cap, slots, groups
        self.contents: list[list[Slice]] = []
        self.rooms: list[Array] = []

    def open(self, slices: list[Slice], used: Array) -> None:
        """One more core."""
        self.contents.append(list(slices))
        self.rooms.append(self.cap - used)

    def fill(self, rests: Mapping[str, int]) -> bool:
        """Put the rests into the rooms, and what is left into more cores; False: a neuron fits no core."""
        return all(self._fill(name, grain) for name, grain in rests.items())

    def _fill(self, name: str, grain: int) -> bool:
        shape, group = self.sizes.shapes[name], self.groups.get(name, 0)
        axes = numbering_axes(shape)
        queue = Queue(name, axes, tuple(shape[a] for a in axes), group, 0.0, math.prod(shape))
        core = 0
        while queue.stop:
            if core == len(self.contents):
                self.open([], np.zeros(len(self.cap), np.int64))
            own = self.contents[core]
            if not own or self.groups.get(own[0].population, 0) == group:
                taken = self._take(queue, grain, self.rooms[core], whole=bool(own))
                if not own and not taken:
                    return False
                own += taken
            core += 1
        return True

    def _take(self, queue: Queue, grain: int, room: Array, *, whole: bool) -> list[Slice]:
        """The last neurons that fit a room, which shrinks by what they use; ``whole``: none but whole places."""
        most = int(min(queue.stop, room[0]))
        numbers = range(1, most + 1)
        count = bisect_left(numbers, True, key=lambda n: bool(np.any(self._use(queue, n) > room)))
        aligned = queue.stop - -(-(queue.stop - count) // grain) * grain
        if aligned > 0 or whole:
            count = max(aligned, 0) if count < queue.stop else count
        if not count:
            return []
        slices = list(queue.slices(count))
        room -= self._use(queue, count)
        queue.stop -= count
        return slices

    def _use(self, queue: Queue, count: int) -> Array:
        own = self.slots[queue.population]
        parts = queue.slices(count)
        return np.sum([vector(self.sizes, s.population, s.box, own) for s in parts], axis=0)
