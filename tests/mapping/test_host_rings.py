"""The bound on nets of the host by rings around its tile, against every placement of a few blocks."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from nirbridge.chips.model import CoreId
from nirbridge.mapping import host_rings
from nirbridge.mapping.host_rings import Rings
from nirbridge.mapping.tile_bound import tile_bound
from nirbridge.mapping.tile_nets import TouchingNets
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


def rings_of(groups: list[Group], blocks: int, shape: tuple[int, int, int]) -> Rings | None:
    return Rings.around(TouchingNets.of_traffic(nets(groups, blocks)), shape[2], shape[:2])


def empty_rings(groups: list[Group], blocks: int, shape: tuple[int, int, int]) -> float:
    """The bound where all tiles with targets are counted elsewhere, however many they are."""
    rings = rings_of(groups, blocks, shape)
    if rings is None:
        return 0.0
    parts, bound = rings.best(None)
    assert not parts.any()
    return bound


SHAPES = [(3, 2, 1), (6, 1, 1), (1, 5, 1), (4, 1, 2), (2, 2, 2)]


@pytest.mark.parametrize("shape", SHAPES)
def test_no_placement_passes_fewer_tiles(shape: tuple[int, int, int]) -> None:
    rng, found = np.random.default_rng(shape), 0.0
    width, height, most = shape
    for _ in range(12):
        blocks = int(rng.integers(2, min(5, width * height * most) + 1))
        groups = of_host(rng, blocks, 3)
        bound = empty_rings(groups, blocks, shape)
        assert 0.0 <= bound <= fewest(groups, blocks, shape) + 1e-9
        found += bound
    assert found > 0.0 or max(height, most) == 2  # where few tiles must be passed


@pytest.mark.parametrize("shape", [(3, 2, 1), (6, 1, 1), (4, 1, 2)])
def test_nets_of_one_target_pass_as_few_as_the_bound_says(shape: tuple[int, int, int]) -> None:
    rng = np.random.default_rng(1)
    for _ in range(6):
        groups = of_host(rng, 5, 1)
        fewest_passed = fewest(groups, 5, shape)
        assert empty_rings(groups, 5, shape) == pytest.approx(fewest_passed, abs=1e-6)


def test_by_hand() -> None:
    """Blocks on the host's tile, two on its neighbours, two that are two links away and pass a tile each."""
    alone: list[Group] = [(HOST, 1.0, [b]) for b in range(5)]
    assert empty_rings(alone, 5, (8, 8, 1)) == pytest.approx(2.0)
    assert empty_rings(alone, 5, (5, 1, 1)) == pytest.approx(0 + 0 + 1 + 2 + 3)
    assert empty_rings(alone, 5, (8, 8, 2)) == 0.0
    assert empty_rings([(HOST, 1.0, [0, 1, 2])], 3, (3, 1, 1)) == 0.0  # none is passed: all have a target


def test_two_targets_cannot_both_be_nearest() -> None:
    """In a row of tiles of one block, nets with one common target: it is near, and each other one passes tiles."""
    groups: list[Group] = [(HOST, 1.0, [0, b]) for b in range(1, 5)]
    assert empty_rings(groups, 5, (5, 1, 1)) > 1.5


def test_the_bound_adds_to_that_of_tiles() -> None:
    alone: list[Group] = [(HOST, 1.0, [b]) for b in range(5)]
    distances = 1 + 1 + 2 + 2
    assert tile_bound(nets(alone, 5), 1, (8, 8)) == pytest.approx(distances)
    assert (
        hops_by_hand(alone, [CoreId(0, *at, 0) for at in ((0, 0), (0, 1), (1, 0), (1, 1), (2, 0))], chip(8, 8, 1)) == 6
    )


@pytest.mark.parametrize("shape", SHAPES)
def test_no_placement_has_trees_of_the_host_below_the_bound(shape: tuple[int, int, int]) -> None:
    """A part of each rate pays for all links, the rest for those beyond the tiles, for any counts of these."""
    rng, parted = np.random.default_rng(shape), 0.0
    width, height, most = shape
    mesh = [(x, y) for x in range(width) for y in range(height)]
    for _ in range(8):
        blocks = int(rng.integers(2, min(5, width * height * most) + 1))
        groups = of_host(rng, blocks, 3)
        rings, own = rings_of(groups, blocks, shape), nets(groups, blocks)
        if rings is None:
            continue
        parts, bound = rings.best(rng.random(rings.count))
        parted += parts.sum()
        assert ((parts >= 0) & (parts <= own.rate)).all()
        split = np.split(own.targets, own.ptr[1:-1])
        whole = [(HOST, float(part), targets.tolist()) for part, targets in zip(parts, split, strict=True)]
        rest = [(HOST, rate - part, targets) for (_, part, targets), rate in zip(whole, own.rate, strict=True)]
        for at in itertools.product(mesh, repeat=blocks):
            if max(at.count(tile) for tile in mesh) <= most:
                cores = [CoreId(0, *tile, at[:b].count(tile)) for b, tile in enumerate(at)]
                assert bound <= hops_by_hand(whole, cores, chip(*shape)) + passed(rest, at, shape) + 1e-9
    assert parted > 0.0 or most == 2


def test_all_links_are_paid_for_where_tiles_count_nothing() -> None:
    """Five nets of one target each, in a row: 0 + 1 + 2 + 3 + 4 links."""
    rings = rings_of([(HOST, 1.0, [b]) for b in range(5)], 5, (5, 1, 1))
    assert rings is not None
    parts, bound = rings.best(np.zeros(5))
    assert bound == pytest.approx(10.0)
    assert parts == pytest.approx(1.0)


def test_any_prices_give_a_bound_and_nets_left_out_a_lower_one(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(5)
    groups = of_host(rng, 5, 3)
    rings, best = rings_of(groups, 5, (5, 1, 1)), empty_rings(groups, 5, (5, 1, 1))
    assert rings is not None
    assert best > 0.0
    for _ in range(20):
        prices = 3 * rng.random((len(rings.net), rings.outer)) * rings.rate[rings.net, None]
        assert 0.0 <= rings.bound(0 * prices, rings._within(prices, rings.rate)) <= best + 1e-9
    monkeypatch.setattr(host_rings, "ROWS_MAX", 8)
    assert empty_rings(groups, 5, (5, 1, 1)) < best
    monkeypatch.setattr(host_rings, "ROWS_MAX", 0)
    assert empty_rings(groups, 5, (5, 1, 1)) == 0.0


def test_networks_without_inputs_have_no_rings() -> None:
    assert rings_of([(0, 1.0, [1, 2])], 3, (3, 1, 1)) is None
    assert rings_of([], 3, (3, 1, 1)) is None
