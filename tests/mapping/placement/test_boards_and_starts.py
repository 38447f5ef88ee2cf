"""Boards and initial placements, against a naive implementation, on every site of small boards."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from nirbridge.chips.model import CoreId
from nirbridge.mapping.placement import place as placing
from nirbridge.mapping.placement.tree_moves import PlacementBoard, Sites
from nirbridge.mapping.traffic import PairwisePulls
from tests.mapping.tables import chip, cores_in_rows

BOARDS = [(3, 2, 2, 1), (2, 3, 1, 2), (4, 4, 1, 3), (5, 1, 3, 1), (1, 5, 1, 2), (6, 3, 1, 1)]
"""Columns, rows, cores of a tile, chips."""


def sites_of(width: int, height: int, per_tile: int, chips: int) -> Sites:
    on = chip(width, height, per_tile)
    return Sites.of(cores_in_rows(on, chips), on)


def board_of(
    shape: tuple[int, ...], blocks: int, pins: dict[int, CoreId] | None = None, seed: int = 0
) -> PlacementBoard:
    width, height, per_tile, chips = shape
    on, pins = chip(width, height, per_tile), pins or {}
    free = [core for core in cores_in_rows(on, chips) if core not in pins.values()]
    board = PlacementBoard.empty(Sites.of(free, on), blocks, pins, on)
    return placing.in_order(board, np.random.default_rng(seed).permutation(len(free)))


def pulls_of(blocks: int, seed: int) -> PairwisePulls:
    """Whole weights, so that sums are exact."""
    rng = np.random.default_rng(seed)
    matrix = np.triu(rng.integers(0, 4, size=(blocks, blocks)) * rng.integers(0, 2, size=(blocks, blocks)), 1)
    matrix = matrix + matrix.T
    rows = [np.flatnonzero(row) for row in matrix]
    ptr = np.concatenate(([0], np.cumsum([len(row) for row in rows])))
    weights = np.concatenate([matrix[b][row] for b, row in enumerate(rows)]).astype(float)
    return PairwisePulls(ptr, np.concatenate(rows), weights, rng.integers(0, 3, size=blocks).astype(float))


# -- boards -------------------------------------------------------------------------------------------------------


def test_sites_know_their_tile_and_their_way_from_the_host() -> None:
    on = chip(2, 2, 2)
    cores = [CoreId(1, 1, 0, 0), CoreId(0, 0, 0, 1), CoreId(0, 0, 0, 0), CoreId(1, 0, 1, 1), CoreId(0, 0, 1, 0)]
    sites = Sites.of(cores, on)
    assert (sites.x.tolist(), sites.y.tolist()) == ([3, 0, 0, 2, 0], [0, 0, 0, 1, 1])
    assert sites.host_hops.tolist() == [3, 0, 0, 3, 1]
    assert sites.tile.tolist() == [3, 0, 0, 2, 1]


def test_a_board_with_pinned_blocks_alone() -> None:
    board = PlacementBoard.empty(sites_of(2, 2, 1, 1), 4, {3: CoreId(1, 1, 0, 0), 1: CoreId(0, 0, 1, 0)}, chip(2, 2))
    assert (board.x.tolist(), board.y.tolist()) == ([0, 0, 0, 3], [0, 1, 0, 0])
    assert (board.site.tolist(), board.block.tolist()) == ([-1] * 4, [-1] * 4)
    assert board.movable.tolist() == [0, 2]


def test_a_copy_goes_its_own_way() -> None:
    board = board_of((3, 2, 2, 1), 4)
    before = (board.x.tolist(), board.y.tolist(), board.site.tolist(), board.block.tolist())
    other = board.copy()
    for _ in range(8):
        other.put(np.array([0]), np.array([other.block.tolist().index(-1)]))
    assert (board.x.tolist(), board.y.tolist(), board.site.tolist(), board.block.tolist()) == before


def test_a_block_that_is_nowhere_yet_takes_no_place_from_another() -> None:
    board = PlacementBoard.empty(sites_of(3, 1, 1, 1), 3, {}, chip(3, 1))
    board.put(np.array([0]), np.array([2]))
    board.put(np.array([1]), np.array([0]))
    board.put(np.array([0, 1]), np.array([0, 2]))
    assert (board.block.tolist(), board.site.tolist()) == ([0, -1, 1], [0, 2, -1])


# -- starts -------------------------------------------------------------------------------------------------------


def curve(side: int) -> list[tuple[int, int]]:
    """A Hilbert curve, by its own recursion."""
    if side == 1:
        return [(0, 0)]
    half, inner = side // 2, curve(side // 2)
    upright = [(x, y + half) for x, y in inner] + [(x + half, y + half) for x, y in inner]
    return [(y, x) for x, y in inner] + upright + [(side - 1 - y, half - 1 - x) for x, y in inner]


def along_the_curve(height: int) -> Callable[[int, int, int], Any]:
    side = 2
    while side < height:
        side *= 2
    place = {xy: k for k, xy in enumerate(curve(side))}
    return lambda _, x, y: (x // side, place[x % side, y])


@pytest.mark.parametrize("shape", [*BOARDS, (8, 8, 1, 1), (9, 5, 1, 1)])
def test_orders_of_sites(shape: tuple[int, ...]) -> None:
    sites = sites_of(*shape)
    keys: dict[Callable[[Sites], Any], Callable[[int, int, int], Any]] = {
        placing.row_major: lambda c, x, y: (c, y, x),
        placing.snake: lambda c, x, y: (c, y, -x if y % 2 else x),
        placing.columns_snake: lambda _, x, y: (x, -y if x % 2 else y),
        placing.hilbert: along_the_curve(shape[1]),
    }
    mixed = np.random.default_rng(0).permutation(len(sites.cores))
    other = Sites.of([sites.cores[i] for i in mixed], chip(*shape[:3]))
    for some in (sites, other):
        for order, key in keys.items():
            place = list(zip((core.chip for core in some.cores), some.x.tolist(), some.y.tolist(), strict=True))
            expected = sorted(range(len(place)), key=lambda i, place=place, key=key: (key(*place[i]), i))
            assert order(some).tolist() == expected, order.__name__


def test_the_baselines() -> None:
    cores = [CoreId(c, x, y, k) for k in (1, 0) for x in (1, 0) for y in (1, 0) for c in (1, 0)]
    assert placing.place_row_major(cores, 5) == (
        CoreId(0, 0, 0, 0), CoreId(0, 0, 0, 1), CoreId(0, 1, 0, 0), CoreId(0, 1, 0, 1), CoreId(0, 0, 1, 0),
    )  # fmt: skip
    order = np.random.default_rng(3).permutation(16)[:5]
    assert placing.place_random(cores, 5, 3) == tuple(cores[i] for i in order)


def lengths_by_hand(board: PlacementBoard, pull: PairwisePulls, block: int, others: list[int]) -> list[float]:
    x, y = board.sites.x.tolist(), board.sites.y.tolist()
    weight = dict(zip(*(a.tolist() for a in pull.row(block)), strict=True))
    return [
        sum(weight.get(o, 0) * (abs(x[s] - board.x[o]) + abs(y[s] - board.y[o])) for o in others)
        + pull.host[block] * (x[s] + y[s])
        for s in range(len(x))
    ]


@pytest.mark.parametrize("shape", BOARDS)
@pytest.mark.parametrize("pinned", ["none", "first", "last"])
def test_the_greedy_start(shape: tuple[int, ...], pinned: str) -> None:
    """The block that is pulled most goes next, the first of equals, to the first of the free sites that pull least."""
    last = CoreId(shape[3] - 1, shape[0] - 1, shape[1] - 1, 0)
    pins = {"none": {}, "first": {2: CoreId(0, 0, 0, 0)}, "last": {3: last}}[pinned]
    for seed in range(5):
        empty, pull = board_of(shape, 5, pins), pulls_of(5, seed)
        empty = PlacementBoard.empty(empty.sites, 5, pins, chip(*shape[:3]))
        board = empty.copy()
        placed = list(pins)
        while len(placed) < 5:
            pulled = {b: pull.host[b] for b in range(5) if b not in placed}
            for b in pulled:
                others, weights = pull.row(b)
                pulled[b] += sum(w for o, w in zip(others.tolist(), weights, strict=True) if o in placed)
            block = max(pulled, key=lambda b: (pulled[b], -b))
            length = lengths_by_hand(board, pull, block, placed)
            site = min(np.flatnonzero(board.block < 0).tolist(), key=lambda s: (length[s], s))
            board.put(np.array([block]), np.array([site]))
            placed.append(block)
        assert placing.greedy(empty, pull).site.tolist() == board.site.tolist()
        assert empty.site.tolist() == [-1] * 5
