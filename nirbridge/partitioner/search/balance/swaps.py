"""Repair of cores with too many output axons: slices of equal cost change places.

The pattern search chooses how many slices of each cost a core holds, not which ones. Slices of equal cost can differ in
output axons: of every two rows that a strided convolution reads, one has targets in more rows than the other.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import numpy as np

from nirbridge.arrays import Array
from nirbridge.partitioner.cost.axons import Blocks
from nirbridge.partitioner.cost.sizing import CostModel
from nirbridge.partitioner.cost.usage import block_sources
from nirbridge.partitioner.model import Slice
from nirbridge.partitioner.search.packing import in_core_order
from nirbridge.partitioner.search.slicing import UNLIMITED

ROUNDS = 8
"""Rounds of swaps, each with the output axons after the one before: a slice that moves adds some to its sources."""


def core_slots(sizes: CostModel, blocks: Blocks) -> dict[str, Array]:
    """Output axons of each neuron, by population: the cores with targets of it."""
    slots = {name: np.zeros(shape, np.int64) for name, shape in sizes.shapes.items()}
    for block in blocks:
        for name, index in block_sources(sizes, block).items():
            if name in slots:
                slots[name].reshape(-1)[index] += 1
    return slots


def swapped(sizes: CostModel, cap: Array, blocks: Blocks) -> Blocks | None:
    """The blocks after swaps that bring every core within its output axons; None: none were found."""
    limit = int(cap[5])
    cores = [list(block) for block in blocks]
    for _ in range(ROUNDS if limit < UNLIMITED else 0):
        slots = core_slots(sizes, blocks)
        sums = [[_own(slots, piece) for piece in core] for core in cores]
        over = [i for i, own in enumerate(sums) if sum(own) > limit]
        if not over:
            return blocks
        alike = _alike(sizes, cores)
        for core in sorted(over, key=lambda i: (-sum(sums[i]), i)):
            while sum(sums[core]) > limit:
                swap = _best_swap(core, sums, alike, limit)
                if swap is None:
                    return None
                (a, i), (b, j) = swap
                cores[a][i], cores[b][j] = cores[b][j], cores[a][i]
                sums[a][i], sums[b][j] = sums[b][j], sums[a][i]
        blocks = tuple(in_core_order(core, tuple(sizes.shapes)) for core in cores)
        cores = [list(block) for block in blocks]
    return None


def _own(slots: dict[str, Array], piece: Slice) -> int:
    return int(slots[piece.population][tuple(slice(a, b) for a, b in piece.box)].sum())


Place = tuple[int, int]
"""A core and the number of a slice there."""


def _alike(sizes: CostModel, cores: Sequence[Sequence[Slice]]) -> list[list[Place]]:
    """The places of slices of one population and of equal cost."""
    places: dict[object, list[Place]] = defaultdict(list)
    for core, pieces in enumerate(cores):
        for i, piece in enumerate(pieces):
            places[piece.population, sizes.cost(piece.population, piece.box)].append((core, i))
    return list(places.values())


def _best_swap(core: int, sums: list[list[int]], alike: list[list[Place]], limit: int) -> tuple[Place, Place] | None:
    """The swap that brings the core just below its limit, or else the one that takes most from it."""
    excess = sum(sums[core]) - limit
    room = [limit - sum(own) for own in sums]
    found: list[tuple[tuple[bool, int], Place, Place]] = []
    for places in alike:
        for here in (p for p in places if p[0] == core):
            for there in places:
                less = sums[core][here[1]] - sums[there[0]][there[1]]
                if there[0] != core and 0 < less <= room[there[0]]:
                    found.append(((less < excess, less if less >= excess else -less), here, there))
    return min(found)[1:] if found else None
