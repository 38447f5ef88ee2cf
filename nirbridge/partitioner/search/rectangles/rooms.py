"""Rectangles for the rooms that earlier populations left: those of many sources and of few share cores.

Populations come in the order of their share of input axons to that of neurons, so that the first leave neurons and the
next ones can use these. A population may be cut into boxes that fit a common room at a lower price than others.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial

import numpy as np

from nirbridge._types import Box
from nirbridge.arrays import Array
from nirbridge.partitioner.cost.sizing import CostModel
from nirbridge.partitioner.model import Slice
from nirbridge.partitioner.search.rectangles.prices import Cutter, fewest, is_spatial
from nirbridge.partitioner.search.rectangles.rests import Filling
from nirbridge.partitioner.search.slicing import NoTiling, Tilings, vector

ROOMS = 2
"""Common rooms that a population is cut for."""
DISCOUNTS = (0.2, 0.6)
"""Prices of boxes that fit a room, as parts of those that need a core."""
WORK_MAX = 3_000_000
"""Work of tilings (``Cutter.work``) until populations are cut at the usual prices alone."""
Boxes = tuple[Box, ...]


class Roomed:
    """Cores that are filled population by population."""

    def __init__(
        self, sizes: CostModel, cap: Array, slots: Mapping[str, Array], groups: Mapping[str, int], cutter: Cutter
    ) -> None:
        self.sizes, self.cap, self.slots, self.groups, self.cutter = sizes, cap, slots, groups, cutter
        self.filling = Filling(sizes, cap, slots, groups)
        self.most_work = cutter.work + WORK_MAX

    def add(self, name: str, usual: list[Boxes]) -> None:
        """Place a population, cut in the way that leaves the fewest new cores and the most room in them."""
        best: tuple[float, list[tuple[Box, int]]] | None = None
        for boxes in self._tilings(name, usual):
            found = self._placed(name, boxes)
            if best is None or found[0] < best[0]:
                best = found
        assert best is not None, "there are usual tilings"
        for box, core in best[1]:
            used = vector(self.sizes, name, box, self.slots[name])
            if core == len(self.filling.contents):
                self.filling.open([], np.zeros(len(self.cap), np.int64))
            self.filling.contents[core].append(Slice(name, box))
            self.filling.rooms[core] = self.filling.rooms[core] - used

    def _tilings(self, name: str, usual: list[Boxes]) -> Iterator[Boxes]:
        yield from dict.fromkeys(usual)
        if not is_spatial(self.sizes, name):
            return
        for room in self._common_rooms(name):
            for discount in DISCOUNTS:
                if self.cutter.work > self.most_work:
                    return
                self.cutter.price = partial(cheaper_in_room, room=room, discount=discount)
                try:
                    yield self.cutter.cut(self.sizes, name, self.slots[name], self.cap)
                except NoTiling:
                    return

    def _open_rooms(self, name: str) -> Array:
        """[cores, resources]: the rooms that this population may use; nothing in the others."""
        group = self.groups.get(name, 0)
        rows = [
            room if self.groups.get(content[0].population, 0) == group else np.full(len(self.cap), -1)
            for content, room in zip(self.filling.contents, self.filling.rooms, strict=True)
        ]
        return np.array(rows, np.int64).reshape(-1, len(self.cap))

    def _common_rooms(self, name: str) -> list[Array]:
        """Of the rooms with neurons and axons left the most frequent ones, the earlier of equals."""
        rooms = self._open_rooms(name)
        rooms = rooms[(rooms[:, 0] > 0) & (rooms[:, 1] > 0)]
        kinds, counts = np.unique(rooms, axis=0, return_counts=True)
        worth = counts * np.minimum(kinds / np.maximum(self.cap, 1), 1)[:, :2].sum(axis=1)
        return [kinds[i] for i in np.argsort(-worth, kind="stable")[:ROOMS]]

    def _placed(self, name: str, boxes: Boxes) -> tuple[float, list[tuple[Box, int]]]:
        """Best-fit, the largest boxes first: a score (cores that are new, half where half used), and a core of each."""
        vectors = np.array([vector(self.sizes, name, box, self.slots[name]) for box in boxes], np.int64)
        rooms, before = self._open_rooms(name), len(self.filling.contents)
        scale = np.maximum(self.cap, 1)
        placed: list[tuple[Box, int]] = []
        for i in np.argsort(-(vectors / scale).max(axis=1), kind="stable").tolist():
            fits = np.flatnonzero(np.all(rooms >= vectors[i], axis=1))
            if len(fits):
                left = ((rooms[fits] - vectors[i]) / scale)[:, :3].sum(axis=1)
                core = int(fits[np.argmin(left)])
            else:
                core, rooms = len(rooms), np.concatenate((rooms, self.cap[None]))
            rooms[core] -= vectors[i]
            placed.append((boxes[i], core))
        new = 1 - (rooms[before:] / scale).min(axis=1)
        return (len(new) + float(new.sum())) / 2, placed


def cheaper_in_room(vectors: Array, cap: Array, room: Array, discount: float) -> Array:
    """The price ``fewest``, times ``discount`` for boxes that fit a room."""
    price = fewest(vectors, cap)
    return np.where(np.all(vectors <= room, axis=-1), np.rint(price * discount).astype(np.int64), price)


def in_rooms(
    sizes: CostModel,
    cap: Array,
    found: list[Tilings],
    slots: Mapping[str, Array],
    groups: Mapping[str, int],
    rests: Mapping[str, int],
    cutter: Cutter,
) -> list[list[Slice]] | None:
    """Contents of cores; ``found`` are tilings at other prices, ``slots`` the output axons that are charged."""
    roomed = Roomed(sizes, cap, slots, groups, cutter)
    heavy = {name: _heaviness(sizes, cap, name, found[-1][name]) for name in sizes.shapes if name not in rests}
    for name in sorted(heavy, key=lambda n: -heavy[n]):
        roomed.add(name, [tilings[name] for tilings in found])
    return roomed.filling.contents if roomed.filling.fill(rests) else None


def _heaviness(sizes: CostModel, cap: Array, name: str, boxes: Boxes) -> float:
    """Share of input axons that the boxes of a population take, to that of neurons."""
    total = np.sum([vector(sizes, name, box, None) for box in boxes], axis=0)
    return float(total[1] / cap[1]) / float(total[0] / cap[0])
