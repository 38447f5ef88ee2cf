"""The bound by flows from the host, against every placement of a few blocks and many placements of more."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from nirbridge.chips.model import CoreId
from nirbridge.mapping.bounds import distance_flows
from nirbridge.mapping.bounds.distance_flows import Flows
from nirbridge.mapping.bounds.distances import beyond_rings
from nirbridge.mapping.bounds.tile_bound import tile_bound
from nirbridge.mapping.bounds.tile_nets import TouchingNets
from nirbridge.mapping.traffic import Traffic, traffic
from nirbridge.partitioner.cost.axons import HOST
from tests.mapping.tables import Group, chip, hops_by_hand, table
from tests.mapping.test_distance_flows import least_hops

SHAPES = [(3, 2, 1), (6, 1, 1), (1, 5, 1), (4, 1, 2), (2, 2, 2), (2, 3, 1)]


def nets(groups: list[Group], blocks: int) -> Traffic:
    return traffic(table(groups), blocks)


def flows_of(groups: list[Group], blocks: int, shape: tuple[int, int, int]) -> Flows:
    found = Flows.between(TouchingNets.of_traffic(nets(groups, blocks)), shape[2], shape[:2])
    assert found is not None
    return found


def from_host_on(rng: np.random.Generator, blocks: int) -> list[Group]:
    """The host feeds the first blocks, which feed those after them: the last are far only over others."""
    first = int(rng.integers(1, blocks))
    groups: list[Group] = [(HOST, float(rng.random()) + 0.5, [b]) for b in range(first)]
    groups += [(b - first, float(rng.random()) + 0.5, [b]) for b in range(first, blocks)]
    return groups + [(HOST, float(rng.random()), rng.permutation(blocks)[:2].tolist()) for _ in range(2)]


@pytest.mark.parametrize("shape", SHAPES)
def test_no_placement_has_trees_below_the_bound(shape: tuple[int, int, int]) -> None:
    rng, higher = np.random.default_rng(shape), 0
    width, height, most = shape
    for _ in range(10):
        blocks = int(rng.integers(2, min(5, width * height * most) + 1))
        groups = from_host_on(rng, blocks)
        found = tile_bound(nets(groups, blocks), most, (width, height))
        tiles_alone = (
            tile_bound(nets(groups, blocks), most)
            if most > 1
            else sum(rate * len(set(targets)) for source, rate, targets in groups if source != HOST)
        )
        assert found <= least_hops(groups, blocks, shape)
        higher += found > 1.01 * tiles_alone
    assert higher > 0 or shape == (2, 2, 2)


@pytest.mark.parametrize("shape", [(3, 2, 1), (6, 1, 1), (4, 1, 2)])
def test_nets_of_one_target_take_what_the_best_placement_does(shape: tuple[int, int, int]) -> None:
    """The largest rates are nearest to the host, whatever all others do."""
    rng = np.random.default_rng(1)
    for _ in range(4):
        groups: list[Group] = [(HOST, float(rate), [b]) for b, rate in enumerate(rng.random(5) + 0.01)]
        found = tile_bound(nets(groups, 5), shape[2], shape[:2])
        assert found == pytest.approx(least_hops(groups, 5, shape), rel=1e-5)
        assert found <= least_hops(groups, 5, shape)


def test_blocks_without_inputs_are_as_far_as_others_let_them() -> None:
    """A chain from the host, a block to a tile: the way to its end is over every net of it."""
    groups: list[Group] = [(HOST, 10.0, [0]), (0, 10.0, [1]), (1, 10.0, [2]), (2, 1.0, [3])]
    assert tile_bound(nets(groups, 4), 1, (4, 1)) <= 21.0 + 1e-9  # along the row, the first on the host's tile
    fan: list[Group] = [(HOST, 100.0, [0]), *((0, 1.0, [b]) for b in range(1, 7))]
    # block 0 on the host's tile: the others are 1, 1, 2, 2, 2, 3 links from it, which all nets of block 0 take
    assert tile_bound(nets(fan, 7), 1, (8, 8)) == pytest.approx(11.0, rel=1e-3)


def test_blocks_beyond_rings() -> None:
    for shape in SHAPES:
        width, height, most = shape
        places = sorted(x + y for x, y in itertools.product(range(width), range(height)) for _ in range(most))
        for blocks in range(1, len(places) + 1):
            wanted = [sum(d >= r for d in places[:blocks]) for r in range(1, places[blocks - 1] + 1)]
            assert beyond_rings(blocks, most, (width, height)).tolist() == wanted


def test_the_host_is_a_block_more() -> None:
    given = TouchingNets.of_traffic(nets([(HOST, 1.0, [0, 2]), (1, 2.0, [2]), (HOST, 3.0, [1])], 3))
    found = given.with_host()
    assert found.blocks == given.blocks + 1
    own = [found.ends[found.ptr[g] : found.ptr[g + 1]].tolist() for g in range(3)]
    was = [given.ends[given.ptr[g] : given.ptr[g + 1]].tolist() for g in range(3)]
    assert own == [ends + [3] * host for ends, host in zip(was, given.is_host.tolist(), strict=True)]
    assert found.rate.tolist() == given.rate.tolist()


@pytest.mark.parametrize("is_later", [False, True])
@pytest.mark.parametrize("seed", range(4))
def test_parts_of_rates_take_what_is_paid_in_any_placement(seed: int, is_later: bool) -> None:
    rng, shape, blocks = np.random.default_rng(seed), (6, 5, 1 + seed % 2), 24
    groups = from_host_on(rng, blocks) + [
        (int(rng.integers(blocks)), float(rng.random()), rng.permutation(blocks)[:3].tolist()) for _ in range(40)
    ]
    on_mesh, flows = nets(groups, blocks), flows_of(groups, blocks, shape)
    first = flows.best(rng.random(len(on_mesh.rate)))
    split = flows.best(rng.random(len(on_mesh.rate)), first.lengths) if is_later else first
    parts, paid = split.parts, split.paid
    assert (parts <= on_mesh.rate + 1e-12).all()
    assert paid > 0.0
    tiles = [(x, y) for x in range(shape[0]) for y in range(shape[1]) for _ in range(shape[2])]
    near = sorted(tiles, key=sum)
    for k in range(60):
        places = near[:blocks] if k % 2 else [tiles[i] for i in rng.permutation(len(tiles))[:blocks]]
        places = [places[i] for i in rng.permutation(blocks)]
        cores = [CoreId(0, *tile, places[:b].count(tile)) for b, tile in enumerate(places)]
        taken: list[Group] = [
            (int(source), float(part), on_mesh.targets[on_mesh.ptr[g] : on_mesh.ptr[g + 1]].tolist())
            for g, (source, part) in enumerate(zip(on_mesh.source, parts, strict=True))
        ]
        assert hops_by_hand(taken, cores, chip(*shape)) >= paid


def test_large_boards_have_no_flows_from_the_host_and_few_ways(monkeypatch: pytest.MonkeyPatch) -> None:
    groups = from_host_on(np.random.default_rng(2), 5)
    whole = flows_of(groups, 5, (5, 1, 1))
    assert whole.has_host
    paid = whole.best(np.zeros(whole.count)).paid
    monkeypatch.setattr(distance_flows, "ENTRIES_MAX", 1)
    few = whole.best(np.zeros(whole.count)).paid
    assert 0.0 < few <= paid * (1 + 1e-6)
    rings = len(beyond_rings(5, 1, (5, 1)))
    monkeypatch.setattr(distance_flows, "HOST_MAX", 5 * rings)
    assert flows_of(groups, 5, (5, 1, 1)).has_host
    monkeypatch.setattr(distance_flows, "HOST_MAX", 5 * rings - 1)
    without = Flows.between(TouchingNets.of_traffic(nets([*groups, (4, 1.0, [0])], 5)), 1, (5, 1))
    assert without is not None
    assert not without.has_host
    assert tile_bound(nets([*groups, (4, 1.0, [0])], 5), 1, (5, 1)) <= least_hops(
        [*groups, (4, 1.0, [0])], 5, (5, 1, 1)
    )
