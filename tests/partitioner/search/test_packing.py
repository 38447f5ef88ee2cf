"""Packing of slices on a few cores, computed by hand."""

from __future__ import annotations

import numpy as np
import pytest

from nirbridge._types import Box
from nirbridge.partitioner.model import Slice
from nirbridge.partitioner.search.slicing import PackingItems, first_fit, in_core_order, pack, packing_orders


def pieces(vectors: list[list[int]], groups: list[int] | None = None) -> PackingItems:
    slices = tuple(Slice("p", ((i, i + 1),)) for i in range(len(vectors)))
    return PackingItems(slices, np.array(vectors), tuple(groups or [0] * len(vectors)))


@pytest.mark.parametrize(
    ("vectors", "groups", "order", "cores"),
    [
        ([[3], [2], [2], [3]], None, [0, 1, 2, 3], [[0, 1], [2, 3]]),
        ([[3], [2], [2], [3]], None, [1, 2, 0, 3], [[1, 2], [0], [3]]),
        ([[2], [4], [2], [1], [1]], None, [0, 1, 2, 3, 4], [[0, 2, 3], [1, 4]]),
        ([[2], [2], [1], [1]], [0, 1, 1, 0], [0, 1, 2, 3], [[0, 3], [1, 2]]),
        ([[5], [5]], None, [0, 1], [[0], [1]]),
        ([[9]], None, [0], [[0]]),  # a piece has a core of its own, whatever it takes
        ([], None, [], []),
    ],
)
def test_each_piece_goes_to_the_first_core_with_room(
    vectors: list[list[int]], groups: list[int] | None, order: list[int], cores: list[list[int]]
) -> None:
    assert first_fit(pieces(vectors, groups), np.array([5]), np.array(order, int)) == cores


def test_every_resource_has_to_have_room() -> None:
    assert first_fit(pieces([[2, 3], [2, 3], [2, 2]]), np.array([9, 5]), np.arange(3)) == [[0, 2], [1]]


def test_the_orders() -> None:
    found = packing_orders(pieces([[1, 6], [4, 1], [3, 3], [4, 1]]), np.array([10, 10]))
    assert [order.tolist() for order in found] == [[0, 1, 2, 3], [0, 1, 3, 2], [0, 2, 1, 3]]
    fine = packing_orders(pieces([[0, 1], [0, 2]]), np.array([0, 10]))
    assert [order.tolist() for order in fine] == [[0, 1], [1, 0], [1, 0]]


@pytest.mark.parametrize(
    ("vectors", "cores"),
    [
        ([[1], [1], [4], [4]], [[2, 0], [3, 1]]),
        ([[3], [2]], [[0, 1]]),
        ([[3], [2], [2], [3]], [[0, 1], [2, 3]]),  # the first of equals: as they come
    ],
)
def test_the_best_of_the_orders(vectors: list[list[int]], cores: list[list[int]]) -> None:
    assert pack(pieces(vectors), np.array([5])) == cores


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ([((0, 2),), ((2, 5),)], [((0, 5),)]),
        ([((2, 5),), ((0, 2),)], [((0, 5),)]),
        ([((0, 2),), ((3, 5),)], [((0, 2),), ((3, 5),)]),
        ([((0, 1),), ((1, 2),), ((4, 5),), ((2, 3),), ((5, 7),)], [((0, 3),), ((4, 7),)]),
        ([((0, 2), (0, 1)), ((0, 2), (1, 2))], [((0, 2), (0, 1)), ((0, 2), (1, 2))]),
        ([((2, 4), (0, 1)), ((0, 2), (1, 2)), ((0, 2), (0, 1))],
         [((0, 2), (0, 1)), ((2, 4), (0, 1)), ((0, 2), (1, 2))]),
        ([((0, 1), (1, 2), (0, 1)), ((0, 1), (0, 1), (1, 2)), ((1, 2), (0, 1), (0, 1))],
         [((1, 2), (0, 1), (0, 1)), ((0, 1), (0, 1), (1, 2)), ((0, 1), (1, 2), (0, 1))]),
    ],
)  # fmt: skip
def test_slices_are_numbered_row_by_row_and_ranges_that_touch_are_one(given: list[Box], found: list[Box]) -> None:
    slices = [Slice("q", ((0, 1),)), *(Slice("p", box) for box in given)]
    own = tuple(Slice("p", box) for box in found)
    assert in_core_order(slices, ("p", "q")) == (*own, Slice("q", ((0, 1),)))
    assert in_core_order(slices, ("q", "p")) == (Slice("q", ((0, 1),)), *own)
