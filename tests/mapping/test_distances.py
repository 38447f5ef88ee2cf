"""The least sum of distances on a mesh: against every placement of a few blocks."""

from __future__ import annotations

import itertools

import pytest

from nirbridge.mapping.bounds import distances
from nirbridge.mapping.bounds.distances import least_distances


def all_pairs(places: tuple[tuple[int, int], ...]) -> int:
    return sum(abs(x - u) + abs(y - v) for (x, y), (u, v) in itertools.combinations(places, 2))


def least_of_all(blocks: int, per_tile: int, width: int, height: int) -> int:
    tiles = itertools.product(range(width), range(height))
    return min(all_pairs(own) for own in itertools.combinations([t for t in tiles for _ in range(per_tile)], blocks))


@pytest.mark.parametrize("shape", [(4, 3), (3, 3), (2, 5), (4, 4), (5, 1), (1, 1), (6, 2)])
def test_one_block_a_tile_is_exact(shape: tuple[int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    width, height = shape
    for blocks in range(min(width * height, 8) + 1):
        least = least_of_all(blocks, 1, width, height)
        assert least_distances(blocks, 1, shape) == least
        with monkeypatch.context() as patch:
            patch.setattr(distances, "ROWS_LISTED", 0)
            patch.setattr(distances, "TILES_LISTED", 0)
            assert 0.9 * least <= least_distances(blocks, 1, shape) <= least


@pytest.mark.parametrize(("per_tile", "shape"), [(2, (3, 2)), (3, (2, 2)), (4, (3, 1)), (2, (2, 3))])
def test_tiles_that_are_not_full_cost_at_least_their_share(per_tile: int, shape: tuple[int, int]) -> None:
    for blocks in range(min(per_tile * shape[0] * shape[1], 9) + 1):
        least, found = least_of_all(blocks, per_tile, *shape), least_distances(blocks, per_tile, shape)
        assert 0.7 * least <= found <= least
        assert blocks % per_tile or found == least


def test_long_meshes_have_their_distances_without_deep_recursion() -> None:
    in_a_row = sum(k * (1100 - k) for k in range(1100))
    assert least_distances(1100, 1, (2000, 1)) == in_a_row
    assert 0 < least_distances(1024, 4, (128, 4)) <= 16 * all_pairs(tuple(itertools.product(range(64), range(4))))


def test_full_meshes_and_larger_ones() -> None:
    full = all_pairs(tuple(itertools.product(range(16), range(8))))
    assert least_distances(128, 1, (16, 8)) == least_distances(128, 1, (8, 16)) == full
    assert least_distances(512, 4, (16, 8)) == 16 * full
    assert least_distances(128, 4, (8, 4)) == 16 * all_pairs(tuple(itertools.product(range(8), range(4))))
    assert least_distances(128, 1, (64, 64)) < least_distances(128, 1, (16, 16)) + 1 <= full
