"""Few cores where input axons are scarce: rectangles of any sizes, packed, and rests filled neuron by neuron.

The sources of a window overlap those of its neighbours, so few sources per neuron need boxes as square as the limits
allow, and larger ones at padded borders: where a core holds the sources of 4 neighbouring positions of a 3 x 3
convolution, it holds those of 6 at an edge and of 9 at a corner. Grids of equal boxes and stretches of rows miss these.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterator, Mapping
from functools import partial

import numpy as np

from nirbridge._types import Box
from nirbridge.arrays import Array
from nirbridge.partitioner.cost.axis import Axis
from nirbridge.partitioner.cost.axons import Blocks, resource_use
from nirbridge.partitioner.cost.connectivity import Separable, numbering_axes
from nirbridge.partitioner.cost.sizing import CostModel
from nirbridge.partitioner.model import Slice
from nirbridge.partitioner.search.rectangles import Cutter, fewest, is_spatial, prices_of
from nirbridge.partitioner.search.slicing import (
    UNLIMITED,
    NoTiling,
    PackingItems,
    Queue,
    Tilings,
    first_fit,
    in_core_order,
    packing_orders,
    tile_all,
    vector,
)

AXONS_FULLEST = 0.25
"""Share of the cores in which input axons have to be the fullest resource for this search to be tried."""
WORK_MAX = 6_000_000
"""Work (``Cutter.work``) after which no other price is tried."""


def axons_bind(sizes: CostModel, cap: Array, blocks: Blocks | None) -> bool:
    """True if input axons are the fullest resource of many of the cores so far, and windows may share them."""
    if cap[1] >= UNLIMITED or not any(is_spatial(sizes, name) for name in sizes.shapes):
        return False
    if blocks is None:
        return True
    names = ("neurons", "input_axons", "synapse_words")
    use = np.array([[used[name] for name in names] for used in resource_use(sizes, blocks)])
    return float(((use / cap[:3]).argmax(axis=1) == 1).mean()) >= AXONS_FULLEST


def tiled(sizes: CostModel, cap: Array, groups: Mapping[str, int], enough: int) -> Blocks | None:
    """The best packing over several prices of rectangles; stops at ``enough`` cores. None: no tiling is legal."""
    rests, cutter = rests_of(sizes), Cutter()
    best: Blocks | None = None
    tried: list[Tilings] = []
    slots: Mapping[str, Array] = {}
    for price in prices_of(sizes, cap, rests):
        cutter.price = price
        try:
            tilings, slots = tile_all(sizes, cap, cutter.cut)
        except NoTiling:
            continue
        tried.append(tilings)
        best = _fewer(best, _packed(sizes, cap, tilings, slots, groups, rests))
        if best is not None and (len(best) <= enough or cutter.work > WORK_MAX):
            return best
    if tried:
        contents = in_rooms(sizes, cap, tried, slots, groups, rests, cutter)
        best = _fewer(best, None if contents is None else _in_order(sizes, contents))
    return best


def _fewer(best: Blocks | None, other: Blocks | None) -> Blocks | None:
    """The blocks of fewer cores, the first of equals."""
    return other if best is None or (other is not None and len(other) < len(best)) else best


def _in_order(sizes: CostModel, contents: list[list[Slice]]) -> Blocks:
    return tuple(in_core_order(core, tuple(sizes.shapes)) for core in contents)


def _packed(
    sizes: CostModel,
    cap: Array,
    tilings: Tilings,
    slots: Mapping[str, Array],
    groups: Mapping[str, int],
    rests: Mapping[str, int],
) -> Blocks | None:
    """The boxes of other populations first-fit, then the rests; None: a neuron of these fits no core."""
    slices = tuple(Slice(name, box) for name, boxes in tilings.items() if name not in rests for box in boxes)
    vectors = [vector(sizes, s.population, s.box, slots[s.population]) for s in slices]
    table = np.array(vectors, np.int64).reshape(-1, len(cap))
    pieces = PackingItems(slices, table, tuple(groups.get(s.population, 0) for s in slices))
    best: list[list[Slice]] | None = None
    for order in packing_orders(pieces, cap):
        filling = Filling(sizes, cap, slots, groups)
        for core in first_fit(pieces, cap, order):
            filling.open([slices[i] for i in core], table[core].sum(axis=0))
        if filling.fill(rests) and (best is None or len(filling.contents) < len(best)):
            best = filling.contents
    return None if best is None else _in_order(sizes, best)


# -- rests ---------------------------------------------------------------------------------------------------------
# Populations that can be cut anywhere at no cost, which fill what is left of cores.


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


# -- rooms ---------------------------------------------------------------------------------------------------------
# Rectangles for the rooms that earlier populations left: those of many sources and of few share cores.
#
# Populations come in the order of their share of input axons to that of neurons, so that the first leave neurons and
# the next ones can use these. A population may be cut into boxes that fit a common room at a lower price than others.

ROOMS = 2
"""Common rooms that a population is cut for."""
DISCOUNTS = (0.2, 0.6)
"""Prices of boxes that fit a room, as parts of those that need a core."""
ROOMS_WORK_MAX = 3_000_000
"""Work of tilings (``Cutter.work``) until populations are cut at the usual prices alone."""
Boxes = tuple[Box, ...]


class Roomed:
    """Cores that are filled population by population."""

    def __init__(
        self, sizes: CostModel, cap: Array, slots: Mapping[str, Array], groups: Mapping[str, int], cutter: Cutter
    ) -> None:
        self.sizes, self.cap, self.slots, self.groups, self.cutter = sizes, cap, slots, groups, cutter
        self.filling = Filling(sizes, cap, slots, groups)
        self.most_work = cutter.work + ROOMS_WORK_MAX

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
