from __future__ import annotations

import itertools
import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nirbridge.chips.model import CoreId
from nirbridge.errors import DoesNotFit, UsageError
from nirbridge.mapping.placement import place as placing
from nirbridge.mapping.placement.place import EFFORTS, place
from nirbridge.mapping.placement.tree_moves import Sites
from nirbridge.partitioner.cost.axons import HOST
from tests.cases import cases
from tests.mapping.tables import chip, cores_in_rows, group_lists, hops_by_hand, objective_by_hand, table


@settings(max_examples=cases(12, 30), deadline=None)
@given(st.data())
def test_as_good_as_the_best_of_all_placements(data) -> None:
    on = chip(3, 2) if data.draw(st.booleans()) else chip(2, 2, 2)
    blocks = data.draw(st.integers(1, 4))
    groups = data.draw(group_lists(blocks, 5))
    best = min(objective_by_hand(groups, cores, on) for cores in itertools.permutations(cores_in_rows(on), blocks))
    found = place(table(groups), blocks, on, seed=1)
    assert objective_by_hand(groups, found, on) == best


def layers(sizes: list[int]) -> list[tuple[int, float, list[int]]]:
    """Every block of a layer sends to all of the next; the host to the first."""
    starts_at = np.cumsum([0, *sizes])
    own = [list(range(a, b)) for a, b in itertools.pairwise(starts_at.tolist())]
    return [(HOST, 1.0, own[0])] + [(b, 1.0, to) for at, to in itertools.pairwise(own) for b in at]


def test_beats_the_baselines_on_a_layered_network() -> None:
    on, groups, blocks = chip(8, 8), layers([8] * 5), 40
    cores = cores_in_rows(on)
    found = hops_by_hand(groups, place(table(groups), blocks, on, effort="fast"), on)
    assert found < hops_by_hand(groups, placing.place_row_major(cores, blocks), on)
    assert found < 0.5 * hops_by_hand(groups, placing.place_random(cores, blocks, 0), on)


def test_neighbours_in_a_shuffled_chain_end_up_together() -> None:
    """A chain of 16 blocks on 4 x 4 tiles has a placement of 15 hops and none with fewer."""
    order = np.random.default_rng(3).permutation(16).tolist()
    groups = [(a, 1.0, [b]) for a, b in itertools.pairwise(order)]
    found = place(table(groups), 16, chip(4, 4))
    assert hops_by_hand(groups, found, chip(4, 4)) == 15


@pytest.mark.parametrize("effort", ["fast", "default"])
def test_same_seed_same_placement(effort: str) -> None:
    rng = np.random.default_rng(5)
    groups = [(int(rng.integers(20)), float(rng.random()), rng.integers(20, size=3).tolist()) for _ in range(60)]
    runs = [place(table(groups), 20, chip(5, 5), seed=7, effort=effort) for _ in range(2)]
    assert runs[0] == runs[1]
    assert len(set(runs[0])) == 20


def test_pins_stay_and_dead_cores_are_left_alone() -> None:
    dead = (CoreId(0, 0, 0, 0), CoreId(0, 1, 1, 0))
    on = chip(3, 3, dead=dead)
    pins = {2: CoreId(0, 2, 2, 0), 0: CoreId(0, 0, 2, 0)}
    groups = layers([2, 3, 2])
    found = place(table(groups), 7, on, pins=pins)
    assert found[2] == pins[2]
    assert found[0] == pins[0]
    assert not set(found) & set(dead)
    assert len(set(found)) == 7


def test_a_pin_far_away_pulls_its_partner_along() -> None:
    on = chip(3, 1)
    pins = {0: CoreId(3, 2, 0, 0)}
    found = place(table([(0, 1.0, [1])]), 2, on, chips=4, pins=pins)
    assert found[1] in (CoreId(3, 1, 0, 0), CoreId(2, 2, 0, 0))


def test_several_chips_are_used_where_one_is_too_small() -> None:
    on, groups = chip(2, 2), layers([3, 3, 3])
    found = place(table(groups), 9, on, chips=3)
    assert len(set(found)) == 9
    assert {core.chip for core in found} == {0, 1, 2}


def test_all_blocks_pinned_no_blocks_one_block_no_traffic() -> None:
    on = chip(2, 1)
    pins = {0: CoreId(0, 1, 0, 0), 1: CoreId(0, 0, 0, 0)}
    assert place(table([(0, 1.0, [1])]), 2, on, pins=pins) == (pins[0], pins[1])
    assert place(table([]), 0, on) == ()
    assert place(table([(HOST, 1.0, [0])]), 1, on) == (CoreId(0, 0, 0, 0),)
    assert len(set(place(table([(0, 0.0, [1])]), 2, on))) == 2


def test_more_blocks_than_cores_says_how_many_chips() -> None:
    message = "placement: 10 blocks, one to a core, 1 tiny chip has 4 usable cores; use --chips 3"
    with pytest.raises(DoesNotFit, match="^" + re.escape(message) + "$"):
        place(table([]), 10, chip(2, 2))


def test_more_blocks_than_a_board_says_so() -> None:
    with pytest.raises(DoesNotFit, match="use a larger chip or board, or a smaller model$"):
        place(table([]), 1000, chip(2, 2))


def test_every_wrong_pin_is_listed() -> None:
    on = chip(2, 2, dead=[CoreId(0, 1, 1, 0)])
    pins = {0: CoreId(0, 1, 1, 0), 1: CoreId(0, 5, 0, 0), 2: CoreId(0, 0, 0, 0), 3: CoreId(0, 0, 0, 0)}
    with pytest.raises(UsageError) as caught:
        place(table([]), 3, on, pins={**pins, 3: CoreId(0, 0, 0, 0)})
    assert [str(p) for p in caught.value.problems] == [
        "pin of block 0 to core (0, 1, 1, 0): the core is masked out, a pin needs a usable core; choose another core",
        "pin of block 1 to core (0, 5, 0, 0): no such core, 1 tiny chip of 2 x 2 tiles of 1 core;"
        " choose a core within that, or more --chips",
        "pin of block 3 to core (0, 0, 0, 0): no such block, blocks are 0 to 2; pin one of those",
        "pin of block 3 to core (0, 0, 0, 0): block 2 is pinned there too, a core holds one block; move one of them",
    ]


def test_an_unknown_effort_is_refused() -> None:
    with pytest.raises(
        UsageError, match="^effort 'huge': unknown, known efforts: fast, default, max; choose one of them$"
    ):
        place(table([]), 1, chip(), effort="huge")


def test_efforts_grow_and_progress_is_told() -> None:
    trees = [EFFORTS[name] for name in ("fast", "default", "max")]
    assert [budget.runs for budget in trees] == sorted(budget.runs for budget in trees)
    assert [budget.nets for budget in trees] == sorted({budget.nets for budget in trees})
    told: list[tuple[str, float | None]] = []
    place(table(layers([2, 2])), 4, chip(), effort="fast", progress=lambda stage, done: told.append((stage, done)))
    assert told == [("place", None), ("anneal trees", 1.0)]


@pytest.mark.parametrize("order", [placing.row_major, placing.snake, placing.columns_snake, placing.hilbert])
@pytest.mark.parametrize("chips", [1, 3])
def test_orders_visit_every_site_once(order, chips: int) -> None:
    sites = Sites.of(cores_in_rows(chip(4, 4, 2), chips), chip(4, 4, 2))
    assert sorted(order(sites).tolist()) == list(range(len(sites.cores)))


@pytest.mark.parametrize("order", [placing.snake, placing.columns_snake, placing.hilbert])
def test_orders_walk_from_tile_to_neighbouring_tile(order) -> None:
    sites = Sites.of(cores_in_rows(chip(4, 4)), chip(4, 4))
    steps = [sites.x[order(sites)], sites.y[order(sites)]]
    assert (np.abs(np.diff(steps[0])) + np.abs(np.diff(steps[1]))).tolist() == [1] * 15
