"""The bound by tiles and distances, against every placement of a few blocks."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy.sparse import csr_array
from scipy.sparse.csgraph import dijkstra

from benchmarks.chains import chain, measure
from nirbridge.chips.model import CoreId
from nirbridge.mapping.bounds import distance_flows
from nirbridge.mapping.bounds import tile_bound as module
from nirbridge.mapping.bounds.distance_flows import Flows
from nirbridge.mapping.bounds.tile_bound import tile_bound
from nirbridge.mapping.bounds.tile_nets import TouchingNets
from nirbridge.mapping.bounds.traffic_bound import traffic_lower_bound
from nirbridge.mapping.traffic import traffic
from tests.mapping.tables import Group, chip, hops_by_hand, table
from tests.mapping.test_tile_bound import random_groups


def in_a_ring(blocks: int) -> list[Group]:
    """Nets between any two blocks: those far from each other have to be so in any placement."""
    return [(a, 1.0 + (a + b) % 3, [b]) for a, b in itertools.permutations(range(blocks), 2)]


def least_hops(groups: list[Group], blocks: int, shape: tuple[int, int, int]) -> float:
    on, (width, height, most) = chip(*shape), shape
    tiles = [(x, y) for x in range(width) for y in range(height)]
    places = itertools.product(tiles, repeat=blocks)
    legal = (at for at in places if max(at.count(tile) for tile in tiles) <= most)
    return min(
        hops_by_hand(groups, [CoreId(0, *tile, at[:b].count(tile)) for b, tile in enumerate(at)], on) for at in legal
    )


@pytest.mark.parametrize("shape", [(3, 2, 1), (5, 1, 1), (2, 2, 2), (4, 1, 2), (3, 2, 2), (2, 3, 1), (6, 1, 1)])
def test_no_placement_has_trees_below_the_bound(shape: tuple[int, int, int]) -> None:
    rng, higher = np.random.default_rng(shape), 0
    width, height, most = shape
    for k in range(14):
        blocks = int(rng.integers(2, min(6, width * height * most) + 1))
        nets = random_groups(rng, blocks, 9) if k % 2 else in_a_ring(blocks)
        groups = [(s, float(rng.random()), t) for s, _, t in nets]
        on_mesh = traffic(table(groups), blocks)
        found = tile_bound(on_mesh, most, (width, height))
        tiles_alone = tile_bound(on_mesh, most)
        assert tiles_alone <= found <= least_hops(groups, blocks, shape)
        higher += found > 1.01 * max(tiles_alone, sum(g[1] * len(set(g[2]) - {g[0]}) for g in groups if most == 1))
    assert higher > 0 or shape == (2, 2, 2)


def test_nets_between_all_pairs_take_their_distances() -> None:
    """Nine tiles of a block each: 72 links between all pairs in the best placement, a square, and no less."""
    groups: list[Group] = [(a, 1.0, [b]) for a, b in itertools.combinations(range(9), 2)]
    nets = traffic(table(groups), 9)
    assert tile_bound(nets, 1, (3, 3)) == pytest.approx(72.0)
    assert tile_bound(nets, 1, (9, 1)) == pytest.approx(120.0)
    squares = [CoreId(0, b % 3, b // 3, 0) for b in range(9)]
    assert hops_by_hand(groups, squares, chip(3, 3, 1)) == 72.0


def test_blocks_that_nothing_connects_are_left_to_the_tiles() -> None:
    """The larger of two parts, and the nets of the host, which end at one."""
    groups: list[Group] = [(a, 1.0, [b]) for a, b in itertools.combinations(range(5), 2)]
    alone = tile_bound(traffic(table(groups), 5), 1, (5, 1))
    both = tile_bound(traffic(table([*groups, (5, 2.0, [6]), (-1, 3.0, [5, 6])]), 7), 1, (7, 1))
    assert alone == pytest.approx(20.0)  # of five in a row
    assert both >= alone + 2.0


def test_flows_take_no_more_than_the_rates_and_pay_for_distances() -> None:
    """Lengths of nets that are distances of some placement cost the parts that flows take at least what is paid."""
    rng = np.random.default_rng(3)
    for _ in range(8):
        blocks = int(rng.integers(6, 13))
        groups: list[Group] = [
            (int(s), float(rng.random()), rng.permutation(blocks)[:3].tolist()) for s in rng.integers(blocks, size=30)
        ]
        nets = TouchingNets.of_traffic(traffic(table(groups), blocks))
        flows = Flows.between(nets, 1, (4, 3))
        assert flows is not None
        split = flows.best(np.zeros(len(nets.rate)))
        parts, paid = split.parts, split.paid
        assert paid > 0
        assert (parts >= 0).all()
        assert (parts <= nets.rate).all()
        places = rng.permutation(12)[: nets.blocks]
        at = np.stack((places % 4, places // 4))
        apart = np.abs(at[:, :, None] - at[:, None, :]).sum(axis=0)
        length = [max(apart[a, b] for a in own for b in own) for own in np.split(nets.ends, nets.ptr[1:-1])]
        assert parts @ np.array(length, float) >= paid


@pytest.mark.parametrize("inputs", [0, 4])
def test_ways_and_their_use_are_those_of_shortest_paths(inputs: int) -> None:
    rng, blocks = np.random.default_rng(4), 9
    groups: list[Group] = [(b, 1.0, rng.permutation(blocks)[:3].tolist()) for b in range(blocks)] * 2
    groups += [(-1, 1.0, rng.permutation(blocks)[:2].tolist()) for _ in range(inputs)]
    nets = TouchingNets.of_traffic(traffic(table(groups), blocks))
    flows = Flows.between(nets, 1, (3, 3))
    assert flows is not None
    assert flows.numbers.tolist() == list(range(len(nets.rate)))
    length = rng.random(len(flows.numbers)) + 0.1
    found, size = flows._ways(length), blocks + (inputs > 0)
    assert flows.has_host == (inputs > 0)
    nearest = np.full((size, size), np.inf)
    own_ends = nets.with_host()
    for own, links in zip(np.split(own_ends.ends, own_ends.ptr[1:-1]), length, strict=True):
        for a, b in itertools.permutations(own.tolist(), 2):
            nearest[a, b] = min(nearest[a, b], links)
    ways = dijkstra(csr_array(np.where(np.isfinite(nearest), nearest, 0.0)))
    between, from_host = ways[:blocks, :blocks], ways[blocks:, :blocks].ravel()
    assert found.pairs == pytest.approx(between.sum() / 2)
    assert found.trees @ length == pytest.approx(between.sum(axis=1) / 2)
    assert found.host == pytest.approx(from_host.sum())
    assert found.from_host @ length == pytest.approx(from_host)
    assert found.use(3.0) @ length == pytest.approx(found.length(3.0)) == found.pairs + 3.0 * found.host


def test_nets_that_are_all_too_much_work_leave_no_flows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "WORK_MAX", 0)
    assert tile_bound(traffic(table(in_a_ring(4)), 4), 2, (2, 1)) == 0.0


def test_the_same_bound_each_time_and_none_above_what_is_enough() -> None:
    nets = traffic(table(in_a_ring(10)), 10)
    found = [tile_bound(nets, 2, (5, 1)) for _ in range(2)]
    assert found[0] == found[1] > 1.1 * tile_bound(nets, 2)
    assert tile_bound(nets, 2, (5, 1), tile_bound(nets, 2)) == tile_bound(nets, 2)


def test_parts_of_a_long_search_are_told() -> None:
    told: list[tuple[str, float | None]] = []
    nets = traffic(table([*in_a_ring(10), *((-1, 1.0, [b]) for b in range(10))]), 10)
    tile_bound(nets, 2, (5, 1), progress=lambda stage, done: told.append((stage, done)))
    assert {stage for stage, _ in told} == {"bounds"}
    done = [part or 0.0 for _, part in told]
    assert done == sorted(set(done))
    assert done[-1] == 1.0
    assert len(done) > 3


def test_distances_are_looked_at_where_a_map_is_far_above_the_other_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    axons, on = table(in_a_ring(10)), chip(10, 1, 1)
    others = traffic_lower_bound(axons, 10, on)
    assert traffic_lower_bound(axons, 10, on, hops=1.2 * others) == others
    assert traffic_lower_bound(axons, 10, on, hops=1.3 * others) > others
    for name in ("PAIRS_MAX", "WORK_MAX", "BLOCKS_MAX"):
        with monkeypatch.context() as limited:
            limited.setattr(distance_flows, name, 1)
            assert traffic_lower_bound(axons, 10, on, hops=1.3 * others) == others


def test_a_chain_of_convolutions_that_was_far_above_the_bound_of_tiles_alone() -> None:
    row = measure("chain-127", chain(127))
    assert row is not None
    assert 1.0 <= row.ratio <= 1.5
