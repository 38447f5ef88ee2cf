"""Incrementally updated costs of the placement search equal a full recomputation."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nirbridge.chips.model import CoreId
from nirbridge.mapping.placement import anneal as annealing
from nirbridge.mapping.placement import refine as refining
from nirbridge.mapping.placement import starts
from nirbridge.mapping.placement.anneal import anneal, block_costs, draw_change, pairwise_cost, swap_changes
from nirbridge.mapping.placement.board import PlacementBoard, Sites
from nirbridge.mapping.placement.refine import ExactCost, exact_cost, refine
from nirbridge.mapping.traffic import PairwisePulls, Traffic, pairwise_pulls, traffic
from tests.cases import cases
from tests.mapping.tables import chip, cores_in_rows, group_lists, table


@st.composite
def positions(draw: st.DrawFn) -> tuple[PlacementBoard, Traffic, PairwisePulls]:
    """Up to seven blocks on one or two chips, perhaps one of them pinned."""
    chips, blocks = draw(st.integers(1, 2)), draw(st.integers(2, 7))
    on = chip(3, 2, 2)
    pins = {0: CoreId(0, 1, 1, 0)} if draw(st.booleans()) else {}
    free = [core for core in cores_in_rows(on, chips) if core not in pins.values()]
    board = PlacementBoard.empty(Sites.of(free, on), blocks, pins, on)
    order = np.random.default_rng(draw(st.integers(0, 99))).permutation(len(free))
    nets = traffic(table(draw(group_lists(blocks))), blocks)
    return starts.in_order(board, order), nets, pairwise_pulls(nets)


@settings(max_examples=cases(20, 60), deadline=None)
@given(positions(), st.data())
def test_costs_brought_up_to_date_are_the_costs_computed_anew(
    made: tuple[PlacementBoard, Traffic, PairwisePulls], data: st.DataObject
) -> None:
    board, _, pull = made
    cost = block_costs(board, pull)
    for _ in range(data.draw(st.integers(1, 5))):
        block = data.draw(st.sampled_from(board.movable.tolist()))
        site = data.draw(st.integers(0, len(board.sites.cores) - 1))
        annealing._apply(board, pull, cost, block, site)
        assert cost == pytest.approx(block_costs(board, pull), abs=1e-9)
        assert board.block[board.site[block]] == block


@settings(max_examples=15, deadline=None)
@given(positions(), st.integers(0, 99), st.sampled_from([0.0, 0.7]))
def test_every_step_of_annealing_knows_its_cost(
    made: tuple[PlacementBoard, Traffic, PairwisePulls], seed: int, heat: float
) -> None:
    """The costs and the value that lead the search stay those of its position, and the best seen is what it returns."""
    board, _, pull = made
    apply, values = annealing._apply, list[float]()

    def watched(now: PlacementBoard, own: PairwisePulls, cost: Any, block: int, site: int) -> None:
        values.append(pairwise_cost(now, own, block_costs(now, own)))
        apply(now, own, cost, block, site)
        assert cost == pytest.approx(block_costs(now, own), abs=1e-9)
        values.append(pairwise_cost(now, own, cost))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(annealing, "_apply", watched)
        best = anneal(board, pull, np.random.default_rng(seed), 30, heat)
    first = pairwise_cost(board, pull, block_costs(board, pull))
    assert pairwise_cost(best, pull, block_costs(best, pull)) == pytest.approx(min([first, *values]), abs=1e-6)
    assert all(values[i] == pytest.approx(values[i + 1], abs=1e-9) for i in range(1, len(values) - 1, 2))


@settings(max_examples=15, deadline=None)
@given(positions(), st.integers(0, 99), st.sampled_from([0.0, 0.5]))
def test_every_step_of_refining_knows_its_cost(
    made: tuple[PlacementBoard, Traffic, PairwisePulls], seed: int, heat: float
) -> None:
    """Hops, loads and the value of the position are after each step those of the position looked at anew."""
    board, nets, pull = made
    take, values = refining._take, [exact_cost(board, nets).value]

    def watched(state: ExactCost, *rest: Any) -> float:
        value = take(state, *rest)
        anew = exact_cost(state.board, nets)
        assert state.hops.tolist() == anew.hops.tolist()
        assert state.loads == pytest.approx(anew.loads, abs=1e-9)
        assert value == pytest.approx(anew.value, abs=1e-9)
        values.append(value)
        return value

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(refining, "_take", watched)
        found = refine(exact_cost(board, nets), pull, np.random.default_rng(seed), 200_000, heat=heat)
    assert found.value == pytest.approx(min(values), abs=1e-6)
    assert heat > 0 or values == sorted(values, reverse=True)


def test_a_draw_takes_the_best_at_zero_and_each_by_its_weight_above() -> None:
    rng = np.random.default_rng(0)
    assert draw_change(np.zeros(0), 1.0, rng) == -1
    assert draw_change(np.array([1.0, -1.0, -2.0]), 0.0, rng) == 2
    assert draw_change(np.array([1.0, 0.0]), 0.0, rng) == -1
    counts = np.bincount([draw_change(np.array([0.0, np.log(2.0)]), 1.0, rng) + 1 for _ in range(4000)], minlength=3)
    assert counts / 4000 == pytest.approx([0.4, 0.4, 0.2], abs=0.04)


def test_only_so_many_sites_are_weighed() -> None:
    board, _, pull = position_of(40)
    cost = block_costs(board, pull)
    for width in (2, 5):
        sites, change = swap_changes(board, pull, cost, 0, np.random.default_rng(0), width)
        assert len(sites) == len(change) == width
        assert len(set(sites.tolist())) == width


@pytest.mark.parametrize("blocks", [2, 3, 30])
def test_changes_by_the_table_of_pulls_are_those_by_its_lists_to_the_last_digit(blocks: int) -> None:
    rng, on = np.random.default_rng(blocks), chip(8, 8)
    groups = [(a, rng.random(), [b]) for a in range(blocks) for b in range(blocks) if a != b and rng.random() < 0.9]
    pull = pairwise_pulls(traffic(table(groups), blocks))
    board = starts.in_order(PlacementBoard.empty(Sites.of(cores_in_rows(on), on), blocks, {}, on), np.arange(64))
    cost, weights = block_costs(board, pull), pull.table()
    assert weights is not None
    for block in range(blocks):
        plain, quick = (
            swap_changes(board, pull, cost, block, np.random.default_rng(0), table=t) for t in (None, weights)
        )
        assert np.array_equal(plain[0], quick[0])
        assert np.array_equal(plain[1], quick[1])


def position_of(blocks: int) -> tuple[PlacementBoard, Traffic, PairwisePulls]:
    on = chip(8, 8)
    board = PlacementBoard.empty(Sites.of(cores_in_rows(on), on), blocks, {}, on)
    nets = traffic(table([(a, 1.0, [b]) for a, b in itertools.pairwise(range(blocks))]), blocks)
    return starts.in_order(board, np.arange(64)), nets, pairwise_pulls(nets)


def test_a_random_placement_takes_every_core_alike() -> None:
    """Distinct cores, all of them sooner or later, in every order; the same seed gives the same."""
    cores = cores_in_rows(chip(3, 2))
    placed = [starts.place_random(cores, 3, seed) for seed in range(600)]
    assert all(len(set(p)) == 3 for p in placed)
    for place in range(3):
        counts = [sum(p[place] == core for p in placed) for core in cores]
        assert min(counts) > 60
    assert starts.place_random(cores, 3, 5) == placed[5]
    assert len(starts.place_random(cores, 6, 0)) == 6


def test_row_major_goes_along_rows_of_one_chip_after_the_other() -> None:
    cores = cores_in_rows(chip(3, 2, 2), 2)
    shuffled = [cores[i] for i in np.random.default_rng(0).permutation(len(cores))]
    assert starts.place_row_major(shuffled, 15) == tuple(cores[:15])
