"""First-fit packing of slices into cores."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby

import numpy as np

from nirbridge._types import Box
from nirbridge.arrays import Array
from nirbridge.partitioner.model import Slice


@dataclass(frozen=True, slots=True, eq=False)
class PackingItems:
    """Pieces of all populations, in a fixed order; ``vectors: [pieces, resources]`` are their packing vectors."""

    slices: tuple[Slice, ...]
    vectors: Array
    groups: tuple[int, ...]
    """Pieces of different groups never share a core (pinned populations)."""


def first_fit(pieces: PackingItems, cap: Array, order: Array) -> list[list[int]]:
    """Piece numbers per core: each piece, in ``order``, goes to the first core where all its resources fit."""
    room = np.zeros((len(order), len(cap)), np.int64)
    group = np.zeros(len(order), np.int64)
    cores: list[list[int]] = []
    for piece in order.tolist():
        n = len(cores)
        fits = np.all(room[:n] >= pieces.vectors[piece], axis=1) & (group[:n] == pieces.groups[piece])
        core = int(np.argmax(fits)) if fits.any() else n
        if core == n:
            cores.append([])
            room[n], group[n] = cap, pieces.groups[piece]
        cores[core].append(piece)
        room[core] -= pieces.vectors[piece]
    return cores


def packing_orders(pieces: PackingItems, cap: Array) -> list[Array]:
    """Orders worth trying: as they come; by the resource that is fullest, descending; by the sum of shares."""
    share = pieces.vectors / np.maximum(cap, 1)
    index = np.arange(len(pieces.slices))
    return [
        index,
        np.lexsort((index, -share.sum(axis=1), -share.max(axis=1))),
        np.lexsort((index, -share.sum(axis=1))),
    ]


def pack(pieces: PackingItems, cap: Array) -> list[list[int]]:
    """The best of first-fit over ``packing_orders`` (the first of equals)."""
    return min((first_fit(pieces, cap, order) for order in packing_orders(pieces, cap)), key=len)


def in_core_order(slices: list[Slice], populations: tuple[str, ...]) -> tuple[Slice, ...]:
    """Slices as a core numbers them: populations in network order, boxes row by row; ranges that touch are joined."""
    rank = {name: i for i, name in enumerate(populations)}

    def key(piece: Slice) -> tuple[int, Box]:
        return rank[piece.population], (*piece.box[1:], piece.box[0])

    joined: list[Slice] = []
    for _, members in groupby(sorted(slices, key=key), key=lambda s: s.population):
        joined.extend(_join_ranges(list(members)))
    return tuple(joined)


def _join_ranges(slices: list[Slice]) -> list[Slice]:
    if len(slices[0].box) != 1:
        return slices
    joined = [slices[0]]
    for piece in slices[1:]:
        (start, stop), (a, b) = joined[-1].box[0], piece.box[0]
        if a == stop:
            joined[-1] = Slice(piece.population, ((start, b),))
        else:
            joined.append(piece)
    return joined
