"""The bound on tiles that nets of the host only pass, against every placement of a few blocks."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from nirbridge.chips.model import CoreId
from nirbridge.mapping import host_rings
from nirbridge.mapping.host_rings import empty_rings
from nirbridge.mapping.tile_bound import tile_bound
from nirbridge.mapping.traffic import Traffic, traffic
from nirbridge.partitioner.cost.axons import HOST
from tests.mapping.tables import Group, chip, hops_by_hand, table

Tile = tuple[int, int]


def of_host(rng: np.random.Generator, blocks: int, most: int) -> list[Group]:
    """Nets of the host with up to ``most`` targets each."""
    return [
        (HOST, float(rng.random()), rng.permutation(blocks)[: int(rng.integers(1, most + 1))].tolist())
        for _ in range(int(rng.integers(3, 12)))
    ]


def passed(groups: list[Group], tiles: tuple[Tile, ...], shape: tuple[int, int, int]) -> float:
    """Links of the trees to tiles without a target."""
    cores = [CoreId(0, *tile, tiles[:b].count(tile)) for b, tile in enumerate(tiles)]
    reached = sum(rate * len({tiles[b] for b in targets} - {(0, 0)}) for _, rate, targets in groups)
    return hops_by_hand(groups, cores, chip(*shape)) - reached


def fewest(groups: list[Group], blocks: int, shape: tuple[int, int, int]) -> float:
    width, height, most = shape
    mesh = [(x, y) for x in range(width) for y in range(height)]
    placed = itertools.product(mesh, repeat=blocks)
    return min(passed(groups, at, shape) for at in placed if max(at.count(tile) for tile in mesh) <= most)


def nets(groups: list[Group], blocks: int) -> Traffic:
    return traffic(table(groups), blocks)


@pytest.mark.parametrize("shape", [(3, 2, 1), (6, 1, 1), (1, 5, 1), (4, 1, 2), (2, 2, 2)])
def test_no_placement_passes_fewer_tiles(shape: tuple[int, int, int]) -> None:
    rng, found = np.random.default_rng(shape), 0.0
    width, height, most = shape
    for _ in range(12):
        blocks = int(rng.integers(2, min(5, width * height * most) + 1))
        groups = of_host(rng, blocks, 3)
        bound = empty_rings(nets(groups, blocks), most, (width, height))
        assert 0.0 <= bound <= fewest(groups, blocks, shape) + 1e-9
        found += bound
    assert found > 0.0 or max(height, most) == 2  # where few tiles must be passed


@pytest.mark.parametrize("shape", [(3, 2, 1), (6, 1, 1), (4, 1, 2)])
def test_nets_of_one_target_pass_as_few_as_the_bound_says(shape: tuple[int, int, int]) -> None:
    rng = np.random.default_rng(1)
    for _ in range(6):
        groups = of_host(rng, 5, 1)
        fewest_passed = fewest(groups, 5, shape)
        assert empty_rings(nets(groups, 5), shape[2], shape[:2]) == pytest.approx(fewest_passed, abs=1e-6)


def test_by_hand() -> None:
    """Blocks on the host's tile, two on its neighbours, two that are two links away and pass a tile each."""
    alone: list[Group] = [(HOST, 1.0, [b]) for b in range(5)]
    assert empty_rings(nets(alone, 5), 1, (8, 8)) == pytest.approx(2.0)
    assert empty_rings(nets(alone, 5), 1, (5, 1)) == pytest.approx(0 + 0 + 1 + 2 + 3)
    assert empty_rings(nets(alone, 5), 2, (8, 8)) == 0.0
    assert empty_rings(nets([(HOST, 1.0, [0, 1, 2])], 3), 1, (3, 1)) == 0.0  # none is passed: all have a target


def test_two_targets_cannot_both_be_nearest() -> None:
    """In a row of tiles of one block, nets with one common target: it is near, and each other one passes tiles."""
    groups: list[Group] = [(HOST, 1.0, [0, b]) for b in range(1, 5)]
    assert empty_rings(nets(groups, 5), 1, (5, 1)) > 1.5


def test_the_bound_adds_to_that_of_tiles() -> None:
    alone: list[Group] = [(HOST, 1.0, [b]) for b in range(5)]
    distances = 1 + 1 + 2 + 2
    assert tile_bound(nets(alone, 5), 1, (8, 8)) == pytest.approx(distances)
    assert (
        hops_by_hand(alone, [CoreId(0, *at, 0) for at in ((0, 0), (0, 1), (1, 0), (1, 1), (2, 0))], chip(8, 8, 1)) == 6
    )


def test_any_prices_give_a_bound_and_nets_left_out_a_lower_one(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(5)
    groups = of_host(rng, 5, 3)
    rings = host_rings._Rings.of_nets(nets(groups, 5), 1, (5, 1))
    best = rings.bound(rings.prices())
    assert best > 0.0
    for _ in range(20):
        prices = 3 * rng.random((len(rings.net), rings.inner)) * rings.rate[rings.net, None]
        assert 0.0 <= rings.bound(prices) <= best + 1e-9
    monkeypatch.setattr(host_rings, "ROWS_MAX", 8)
    assert empty_rings(nets(groups, 5), 1, (5, 1)) < best
    monkeypatch.setattr(host_rings, "ROWS_MAX", 0)
    assert empty_rings(nets(groups, 5), 1, (5, 1)) == 0.0


def test_networks_without_inputs_have_no_rings() -> None:
    assert empty_rings(nets([(0, 1.0, [1, 2])], 3), 1, (3, 1)) == 0.0
    assert empty_rings(nets([], 3), 1, (3, 1)) == 0.0
