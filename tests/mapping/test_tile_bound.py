"""The bound by sets of blocks on tiles: against every way to part a few blocks, and on chains of convolutions."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

import numpy as np
import pytest
from scipy.optimize import linprog

from benchmarks.nets import Conv, feedforward
from nirbridge.chips import read_chip
from nirbridge.mapping import tile_bound as module
from nirbridge.mapping.tile_bound import tile_bound
from nirbridge.mapping.traffic import traffic
from nirbridge.network.nir.from_nir import from_nir
from nirbridge.partitioner.cost.axons import HOST
from nirbridge.pipeline import MapOptions, map_network
from tests.mapping.tables import Group, table


def random_groups(rng: np.random.Generator, blocks: int, most: int) -> list[Group]:
    groups: list[Group] = []
    for _ in range(int(rng.integers(1, most + 1))):
        targets = rng.permutation(blocks)[: int(rng.integers(1, min(blocks, 5) + 1))].tolist()
        groups.append((int(rng.integers(HOST, blocks)), float(rng.integers(0, 9)) / 4, targets))
    return groups


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


def links(groups: Sequence[Group], tiles: Sequence[set[int]]) -> float:
    """The rate of every group times the tiles that it touches beyond the first; the host is on any of them."""
    total = 0.0
    for source, rate, targets in groups:
        ends = set(targets) | ({source} - {HOST})
        total += rate * (sum(bool(ends & tile) for tile in tiles) - 1)
    return total


def by_all_sets(groups: Sequence[Group], blocks: int, most: int) -> float:
    """The linear program with a row for every set of at most ``most`` blocks."""
    sets = [set(s) for n in range(1, most + 1) for s in itertools.combinations(range(blocks), n)]
    nets = [(set(t) | ({s} - {HOST}), rate) for s, rate, t in groups if set(t) - {s}]
    rows = [[float(b in own) for b in range(blocks)] for own in sets]
    costs = [sum(rate for ends, rate in nets if ends & own) for own in sets]
    found = linprog(-np.ones(blocks), A_ub=np.array(rows), b_ub=np.array(costs))
    return -float(found.fun) - sum(rate for _, rate in nets)


@pytest.mark.parametrize("rows_at_once", [400, 1])
def test_no_tiles_take_fewer_links_and_the_program_has_every_row_that_counts(
    rows_at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "ROWS_FIRST", rows_at_once)
    monkeypatch.setattr(module, "ROWS_MORE", rows_at_once)
    rng, tight = np.random.default_rng(5), 0
    for _ in range(60):
        blocks, most = int(rng.integers(2, 9)), int(rng.integers(2, 5))
        groups = random_groups(rng, blocks, 9)
        found = tile_bound(traffic(table(groups), blocks), most)
        best = min(links(groups, tiles) for tiles in parts(range(blocks), most))
        assert found <= best
        assert found == pytest.approx(by_all_sets(groups, blocks, most), abs=1e-5)
        tight += found > best - 1e-5
    assert tight > 30


def test_there_is_no_such_bound_for_tiles_of_one_core_or_too_many_sets(monkeypatch: pytest.MonkeyPatch) -> None:
    nets = traffic(table([(b, 1.0, [b + 1]) for b in range(7)]), 8)
    assert tile_bound(nets, 1) == 0.0
    assert tile_bound(nets, 4) == pytest.approx(1.0)
    monkeypatch.setattr(module, "SETS_MAX", 20)
    assert tile_bound(nets, 4) == 0.0
    monkeypatch.setattr(module, "SETS_MAX", 60_000)
    monkeypatch.setattr(module, "WORK_MAX", 10)
    assert tile_bound(nets, 4) == 0.0


@pytest.mark.parametrize(("side", "layers"), [(16, 2), (16, 4), (12, 8)])
def test_chains_of_convolutions_are_placed_within_half_as_much_again(side: int, layers: int) -> None:
    net = from_nir(feedforward((2, side, side), [Conv(16, padding=1)] * layers))
    costs = map_network(net, read_chip("loihi1"), MapOptions(method="packed", placement_only=True)).costs
    assert costs.traffic_lower_bound <= costs.multicast_hops_per_step <= 1.5 * costs.traffic_lower_bound
