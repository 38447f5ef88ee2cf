"""The bound by sets of blocks on tiles: against every way to part a few blocks, and on chains of convolutions."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import linprog

from benchmarks.nets import Conv, feedforward, mixed
from nirbridge.chips import read_chip
from nirbridge.chips.model import CoreId
from nirbridge.mapping import tile_program
from nirbridge.mapping.tile_program import count_sets
from nirbridge.mapping.traffic import traffic
from nirbridge.mapping.traffic_bound import TIGHT, TileWork, tile_bound
from nirbridge.network.nir.from_nir import from_nir
from nirbridge.partitioner import PartitionOptions, partition
from nirbridge.partitioner.cost.axons import HOST
from nirbridge.pipeline import MapOptions, map_network, place_partition
from tests.mapping.tables import Group, chip, hops_by_hand, table

Net = tuple[bool, frozenset[int], float]
"""True where the source is the host, the blocks that are touched, rate."""


def random_groups(rng: np.random.Generator, blocks: int, most: int) -> list[Group]:
    groups: list[Group] = []
    for _ in range(int(rng.integers(1, most + 1))):
        targets = rng.permutation(blocks)[: int(rng.integers(1, min(blocks, 5) + 1))].tolist()
        source = HOST if rng.random() < 0.4 else int(rng.integers(0, blocks))
        groups.append((source, float(rng.integers(0, 9)) / 4, targets))
    return groups


def nets_of(groups: Sequence[Group]) -> list[Net]:
    return [(s == HOST, frozenset(t) | ({s} - {HOST}), rate) for s, rate, t in groups if set(t) - {s}]


def parts(blocks: Sequence[int], most: int) -> Iterator[list[set[int]]]:
    """Every way to part blocks into sets of at most ``most``."""
    if not blocks:
        yield []
        return
    first, *rest = blocks
    for size in range(most):
        for chosen in itertools.combinations(rest, size):
            for others in parts([b for b in rest if b not in chosen], most):
                yield [{first, *chosen}, *others]


def links(nets: Sequence[Net], tiles: Sequence[set[int]]) -> float:
    """The rate of every net times the tiles that it touches beyond its source's; the host is on the best tile."""
    away = [(rate * sum(bool(ends & tile) for tile in tiles), rate, is_host, ends) for is_host, ends, rate in nets]
    between = sum(all_tiles - rate for all_tiles, rate, is_host, _ in away if not is_host)
    of_host = sum(all_tiles for all_tiles, _, is_host, _ in away if is_host)
    saved = [sum(rate for _, rate, is_host, ends in away if is_host and ends & tile) for tile in tiles]
    return between + of_host - max(saved)


def by_all_sets(nets: Sequence[Net], most: int) -> float:
    """The linear program with both rows for every set of at most ``most`` blocks of a net, and a price per tile."""
    used = sorted(set().union(*(ends for _, ends, rate in nets if rate > 0)))
    sets = [set(s) for n in range(1, most + 1) for s in itertools.combinations(used, n)]
    rows, costs = [], []
    for own in sets:
        for m in (0.0, -1.0):
            rows.append([*(float(b in own) for b in used), m, 1.0])
            costs.append(sum(rate for is_host, ends, rate in nets if ends & own and not (m and is_host)))
    if not rows:
        return 0.0
    found = linprog(
        [*[-1.0] * len(used), 1.0, -float(-(-len(used) // most))], A_ub=np.array(rows), b_ub=np.array(costs)
    )
    return -float(found.fun) - sum(rate for is_host, _, rate in nets if not is_host)


def with_the_host_on_every_tile(nets: Sequence[Net], most: int) -> float:
    """The program of nets that touch t tiles and take t - 1 links, those of the host too."""
    return by_all_sets([(False, ends, rate) for _, ends, rate in nets], most)


def test_sets_in_pieces_give_the_same_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(7)
    for _ in range(3):
        on_mesh = traffic(table(random_groups(rng, 12, 40)), 12)
        found = tile_bound(on_mesh, 3)
        for piece in (1, 5):
            with monkeypatch.context() as small:
                small.setattr(tile_program, "PIECE", piece)
                assert tile_bound(on_mesh, 3) == found > 0


@pytest.mark.parametrize("rows_at_once", [4, 1])
def test_no_tiles_take_fewer_links_and_the_program_has_every_row_that_counts(
    rows_at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tile_program, "ROWS_MORE", rows_at_once)
    monkeypatch.setattr(tile_program, "WORK_MAX", 0)
    rng, tight, higher = np.random.default_rng(5), 0, 0
    for _ in range(60):
        blocks, most = int(rng.integers(2, 9)), int(rng.integers(2, 5))
        groups = random_groups(rng, blocks, 9)
        nets = nets_of(groups)
        found = tile_bound(traffic(table(groups), blocks), most)
        best = min(links(nets, tiles) for tiles in parts(range(blocks), most))
        assert found <= best
        assert found == pytest.approx(by_all_sets(nets, most), abs=1e-5)
        before = with_the_host_on_every_tile(nets, most)
        assert found >= before - 1e-5
        tight, higher = tight + (found > best - 1e-5), higher + (found > before + 1e-5)
    assert tight > 30
    assert higher > 0


@pytest.mark.parametrize("rate", [5e-324, 1e-320, 1e-310, 1e-300, 1e300])
def test_tiny_and_huge_rates_have_a_bound_and_no_warning(rate: float, recwarn: pytest.WarningsRecorder) -> None:
    rng = np.random.default_rng(4)
    nets = traffic(table(random_groups(rng, 20, 40)), 20)
    found = tile_bound(replace(nets, rate=np.full(len(nets.rate), rate)), 4)
    assert 0.0 <= found <= rate * len(nets.targets)
    assert found > 0.0 or rate < 1e-307
    assert not recwarn.list


def test_few_blocks_are_parted_exactly() -> None:
    rng, above = np.random.default_rng(9), 0
    for _ in range(80):
        blocks, most = int(rng.integers(2, 10)), int(rng.integers(2, 6))
        groups = random_groups(rng, blocks, 24)
        nets, found = nets_of(groups), tile_bound(traffic(table(groups), blocks), most)
        best = min(links(nets, tiles) for tiles in parts(range(blocks), most))
        assert found <= best
        assert found == pytest.approx(best, rel=1e-9, abs=1e-9)
        above += found > by_all_sets(nets, most) + 1e-5
    assert above > 10


def test_blocks_that_are_parted_exactly() -> None:
    assert all(tile_program.is_exact(blocks, 4) for blocks in range(1, 19))
    assert tile_program.is_exact(16, 128)
    assert not any(tile_program.is_exact(blocks, most) for blocks, most in ((20, 4), (18, 128), (400, 2), (8, 1)))


@pytest.mark.parametrize("shape", [(2, 2, 2), (3, 1, 2), (3, 2, 2), (2, 1, 3), (1, 3, 3), (2, 2, 4)])
def test_no_placement_on_a_mesh_has_trees_below_the_bound(shape: tuple[int, int, int]) -> None:
    on, rng, met = chip(*shape), np.random.default_rng(shape), 0
    width, height, most = shape
    tiles = [(x, y) for x in range(width) for y in range(height)]
    for _ in range(12):
        blocks = int(rng.integers(2, min(5, on.mesh.cores) + 1))
        groups = [(s, float(rng.random()), t) for s, _, t in random_groups(rng, blocks, 6)]
        places = itertools.product(tiles, repeat=blocks)
        legal = (at for at in places if max(at.count(tile) for tile in tiles) <= most)
        best = min(
            hops_by_hand(groups, [CoreId(0, *tile, at[:b].count(tile)) for b, tile in enumerate(at)], on)
            for at in legal
        )
        found = tile_bound(traffic(table(groups), blocks), most)
        assert found <= best
        met += found > best - 1e-5
    assert met > 2


def test_the_host_is_on_one_tile() -> None:
    groups: list[Group] = [(b, 9.0, [b + 1]) for b in (0, 1, 2, 4, 5, 6)]
    assert tile_bound(traffic(table(groups), 8), 4) == pytest.approx(0.0)
    groups += [(HOST, 1.0, [0]), (HOST, 2.0, [4, 5])]
    assert tile_bound(traffic(table(groups), 8), 4) == pytest.approx(1.0)
    groups += [(HOST, 5.0, [0, 4])]
    assert tile_bound(traffic(table(groups), 8), 4) == pytest.approx(1.0 + 5.0)


def test_no_placement_takes_a_part_of_a_tile() -> None:
    """Five blocks, each pair with a net: sets of four cover them one and a quarter times, but there are two tiles."""
    pairs: list[Group] = [(a, 1.0, [b]) for a, b in itertools.combinations(range(5), 2)]
    assert tile_bound(traffic(table(pairs), 5), 4) == pytest.approx(4.0)


def test_windows_and_nets_of_much_work() -> None:
    """Where the sets are too many or the nets too large, a smaller bound holds."""
    nets = traffic(table([(b, 1.0, [b + 1]) for b in range(15)] + [(0, 0.01, list(range(1, 16)))]), 16)
    assert tile_bound(nets, 1) == 0.0
    assert tile_bound(nets, 4) == pytest.approx(3.0 + 0.03)
    assert tile_bound(nets, 4, TileWork(TIGHT.sets, 100)) == pytest.approx(3.0)
    assert tile_bound(nets, 4, TileWork(2 * count_sets(8, 4), 100)) == pytest.approx(2.0)
    assert tile_bound(nets, 4, TileWork(TIGHT.sets, 0)) == 0.0


def test_windows_keep_blocks_together_that_share_traffic() -> None:
    """Two chains whose blocks take turns are a window each."""
    nets = traffic(table([(b, 1.0, [b + 2]) for b in range(14)]), 16)
    assert tile_bound(nets, 4, TileWork(2 * count_sets(8, 4), TIGHT.of_nets)) == pytest.approx(2.0)


def test_bounds_of_windows_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    rng, positive = np.random.default_rng(6), 0
    for _ in range(60):
        blocks, most = int(rng.integers(4, 9)), int(rng.integers(2, 4))
        work = TileWork(count_sets(int(rng.integers(4, 8)), most), TIGHT.of_nets)
        monkeypatch.setattr(tile_program, "ROUNDS_MAX", int(rng.integers(1, 4)))
        groups = random_groups(rng, blocks, 12)
        found = tile_bound(traffic(table(groups), blocks), most, work)
        assert found <= min(links(nets_of(groups), tiles) for tiles in parts(range(blocks), most))
        positive += found > 0
    assert positive > 20


@pytest.mark.parametrize(("side", "layers"), [(16, 2), (16, 4), (12, 8)])
def test_chains_of_convolutions_are_placed_within_half_as_much_again(side: int, layers: int) -> None:
    net = from_nir(feedforward((2, side, side), [Conv(16, padding=1)] * layers))
    costs = map_network(net, read_chip("loihi1"), MapOptions(method="packed", placement_only=True)).costs
    assert costs.traffic_lower_bound <= costs.multicast_hops_per_step <= 1.5 * costs.traffic_lower_bound


def test_a_chain_of_48_blocks_whose_sets_were_too_many() -> None:
    net, on = from_nir(mixed(16)), read_chip("loihi1")
    found = place_partition(net, on, partition(net, on, PartitionOptions(method="packed")))
    assert tile_bound(traffic(found.axons, len(found.cores)), 4) == pytest.approx(752.535)
    assert found.costs.traffic_lower_bound == pytest.approx(752.535)
    assert found.costs.multicast_hops_per_step <= 1.5 * found.costs.traffic_lower_bound
