"""The lower bound on traffic, from the facts in its module's docstring, in plain loops; and its nets."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nirbridge.chips.model import Chip
from nirbridge.mapping import traffic_bound
from nirbridge.mapping.traffic import gather, pairwise_pulls, traffic
from nirbridge.mapping.traffic_bound import ROUNDED_DOWN, SHARES, tile_bound, traffic_lower_bound
from nirbridge.partitioner.cost.axons import HOST
from tests.cases import cases
from tests.mapping.tables import Group, chip, group_lists, table

Net = tuple[int, tuple[int, ...], float]
"""Source, targets, rate."""


def nets_of(groups: Sequence[Group]) -> list[Net]:
    """Groups with spikes and with targets on other cores, those of one source and the same targets added up."""
    merged: dict[tuple[int, tuple[int, ...]], float] = {}
    for source, rate, targets in groups:
        away = tuple(sorted(set(targets) - {source}))
        if rate > 0 and away:
            merged[source, away] = merged.get((source, away), 0.0) + rate
    return [(source, targets, rate) for (source, targets), rate in merged.items()]


def distances(on: Chip, chips: int, tile: tuple[int, int]) -> list[int]:
    """Links from a tile to every core, the nearest first."""
    columns, rows = range(on.mesh.width_tiles * chips), range(on.mesh.height_tiles)
    return sorted(
        abs(x - tile[0]) + abs(y - tile[1]) for x in columns for y in rows for _ in range(on.mesh.cores_per_tile)
    )


def least(charges: dict[int, tuple[float, float]], hops: list[int]) -> float:
    """The heaviest partner at the nearest core: the first link of each pair, and the others of those by distance."""
    both = sorted((far + near for far, near in charges.values()), reverse=True)
    far = sorted((far for far, _ in charges.values()), reverse=True)
    first = sum(w for w, h in zip(both, hops, strict=False) if h > 0)
    return first + sum(w * max(h - 1, 0) for w, h in zip(far, hops, strict=False))


def charged(nets: list[Net], on: Chip, chips: int, shares: tuple[float, float], large: bool) -> float:
    """Facts 2 and 3: nets of more targets than a tile holds pay by tile, or (not ``large``) nothing."""
    c, width = on.mesh.cores_per_tile, on.mesh.width_tiles * chips
    pays: dict[int, dict[int, tuple[float, float]]] = {}

    def charge(payer: int, partner: int, weight: float, by_distance: bool) -> None:
        far, near = pays.setdefault(payer, {}).get(partner, (0.0, 0.0))
        pays[payer][partner] = (far + weight, near) if by_distance else (far, near + weight)

    for source, targets, rate in nets:
        small = len(targets) <= c
        for target in targets:
            weight = rate / min(len(targets), c) * (small or large)
            if source == HOST:
                charge(HOST, target, weight, small)
            else:
                charge(source, target, shares[0] * weight, small)
                charge(target, source, shares[1] * weight, small)
    middle = distances(on, chips, ((width - 1) // 2, (on.mesh.height_tiles - 1) // 2))[1:]
    return sum(least(own, distances(on, chips, (0, 0)) if p == HOST else middle) for p, own in pays.items())


def connected(nets: list[Net], c: int) -> float:
    """Fact 4: for each rate, how many links the nets of that rate or more need to hold their blocks together."""
    total, rates = 0.0, sorted({rate for *_, rate in nets}, reverse=True)
    for rate, lower in itertools.pairwise([*rates, 0.0]):
        parts: list[set[int]] = []
        for source, targets, own in nets:
            if own >= rate:
                joined = {source, *targets}.union(*(p for p in parts if p & {source, *targets}))
                parts = [p for p in parts if not p & joined] + [joined]
        total += (rate - lower) * sum(max(math.ceil(len(p - {HOST}) / c), 1) - 1 for p in parts)
    return total


def bound_by_hand(groups: Sequence[Group], on: Chip, chips: int) -> float:
    nets, c = nets_of(groups), on.mesh.cores_per_tile
    tiles = [rate * math.ceil(max(len(t) - (c if s == HOST else c - 1), 0) / c) for s, t, rate in nets]
    of_large = sum(n for n, (_, targets, _) in zip(tiles, nets, strict=True) if len(targets) > c)
    found = [sum(tiles), connected(nets, c)]
    for shares in ((0.5, 0.5), (1.0, 0.0), (0.0, 1.0)):
        found += [charged(nets, on, chips, shares, True), charged(nets, on, chips, shares, False) + of_large]
    return max(found) * (1 - 1e-12)


@settings(max_examples=cases(50, 150), deadline=None)
@given(st.data())
def test_the_bound_is_the_best_of_the_facts(data: st.DataObject) -> None:
    shapes = [(3, 2, 1), (2, 2, 2), (5, 1, 2), (1, 4, 3), (4, 3, 4), (2, 3, 1)]
    on, chips = chip(*data.draw(st.sampled_from(shapes))), data.draw(st.integers(1, 3))
    blocks = data.draw(st.integers(1, min(on.mesh.cores * chips, 9)))
    groups = data.draw(group_lists(blocks, 10))
    expected, axons = bound_by_hand(groups, on, chips), table(groups)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(traffic_bound, "tile_bound", lambda *_: 0.0)
        found = traffic_lower_bound(axons, blocks, on, chips=chips)
        assert found == pytest.approx(expected, rel=1e-13, abs=1e-15)
        if chips == 1:
            assert traffic_lower_bound(axons, blocks, on) == found
    by_sets = tile_bound(traffic(axons, blocks), on.mesh.cores_per_tile)
    assert traffic_lower_bound(axons, blocks, on, chips=chips) == max(found, by_sets)


def test_how_pairs_are_shared_and_what_is_lost_to_rounding() -> None:
    assert SHARES == ((0.5, 0.5), (1.0, 0.0), (0.0, 1.0))
    assert ROUNDED_DOWN == 1 - 1e-12
    assert traffic_lower_bound(table([(0, 1.0, [1])]), 2, chip(2, 1)) == 1 - 1e-12


# -- nets and pulls -----------------------------------------------------------------------------------------------


@settings(max_examples=cases(20, 60), deadline=None)
@given(st.data())
def test_nets_and_the_pulls_that_stand_for_them(data: st.DataObject) -> None:
    blocks = data.draw(st.integers(1, 6))
    groups = data.draw(group_lists(blocks))
    nets, expected = traffic(table(groups), blocks), nets_of(groups)
    lists = [tuple(nets.targets[a:b].tolist()) for a, b in zip(nets.ptr[:-1], nets.ptr[1:], strict=True)]
    assert list(zip(nets.source.tolist(), lists, nets.rate.tolist(), strict=True)) == expected
    assert nets.degrees.tolist() == [len(targets) for _, targets, _ in expected]
    assert nets.entry_nets().tolist() == [g for g, (_, targets, _) in enumerate(expected) for _ in targets]
    for block in range(blocks):
        touching = [g for g, (source, targets, _) in enumerate(expected) if block in (source, *targets)]
        assert nets.nets[nets.net_ptr[block] : nets.net_ptr[block + 1]].tolist() == touching
    pull = pairwise_pulls(nets)
    weights, host = np.zeros((blocks, blocks)), np.zeros(blocks)
    for source, targets, rate in expected:
        for target in targets:
            if source == HOST:
                host[target] += rate / math.sqrt(len(targets))
            else:
                weights[source, target] += rate / math.sqrt(len(targets))
                weights[target, source] += rate / math.sqrt(len(targets))
    assert pull.host == pytest.approx(host)
    assert len(pull.ptr) == blocks + 1
    for block in range(blocks):
        others, own = pull.row(block)
        assert others.tolist() == np.flatnonzero(weights[block]).tolist()
        assert own == pytest.approx(weights[block][others])


@pytest.mark.parametrize(
    ("rows", "positions", "counts"),
    [([0, 2], [0, 1, 3, 4, 5], [2, 3]), ([2, 0, 2], [3, 4, 5, 0, 1, 3, 4, 5], [3, 2, 3]), ([1], [2], [1]), ([], [], []),
     ([3, 1], [2], [0, 1])],
)  # fmt: skip
def test_entries_of_some_rows(rows: list[int], positions: list[int], counts: list[int]) -> None:
    found = gather(np.array([0, 2, 3, 6, 6]), np.array(rows, int))
    assert (found[0].tolist(), found[1].tolist()) == (positions, counts)
