from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nirbridge.mapping.traffic_bound import traffic_lower_bound
from nirbridge.partitioner.cost.axons import HOST
from tests.cases import cases
from tests.mapping.tables import Group, chip, cores_in_rows, group_lists, hops_by_hand, table


@settings(max_examples=cases(30, 80), deadline=None)
@given(st.data())
def test_no_placement_is_below_the_bound(data) -> None:
    on = data.draw(st.sampled_from([chip(3, 2), chip(2, 2, 2), chip(5, 1), chip(2, 1, 4), chip(1, 3, 2)]))
    blocks = data.draw(st.integers(1, min(on.mesh.cores, 5)))
    groups = data.draw(group_lists(blocks, 6))
    best = min(hops_by_hand(groups, cores, on) for cores in itertools.permutations(cores_in_rows(on), blocks))
    assert traffic_lower_bound(table(groups), blocks, on) <= best


@settings(max_examples=cases(20, 40), deadline=None)
@given(st.data())
def test_more_chips_never_raise_the_bound(data) -> None:
    on, blocks = chip(2, 2, 2), 8
    axons = table(data.draw(group_lists(blocks)))
    bounds = [traffic_lower_bound(axons, blocks, on, chips=chips) for chips in (1, 2, 4)]
    assert bounds[0] >= bounds[1] - 1e-9
    assert bounds[1] >= bounds[2] - 1e-9


CHAIN = [(b, 1.0, [b + 1]) for b in range(8)]


@pytest.mark.parametrize(
    ("groups", "blocks", "shape", "expected"),
    [
        ([], 3, (3, 3, 1), 0.0),
        ([(0, 1.0, [0])], 1, (3, 3, 1), 0.0),
        (CHAIN, 9, (3, 3, 1), 8.0),
        (CHAIN, 9, (3, 3, 4), 2.0),
        ([(HOST, 1.0, [0]), *CHAIN], 9, (3, 3, 4), 2.0),
        ([(a, 3.0, [a + 1]) for a in (0, 1, 2)] + [(3, 0.5, [4]), (4, 2.0, [5])], 6, (3, 3, 2), 3 * 1 + 0.5),
        ([(0, 1.0, list(range(1, 9)))], 9, (3, 3, 1), 8.0),
        ([(0, 1.0, [b]) for b in range(1, 9)], 9, (3, 3, 1), 4 * 1 + 4 * 2),
        ([(HOST, 1.0, [b]) for b in range(4)], 4, (2, 2, 1), 0 + 1 + 1 + 2),
        ([(HOST, 2.0, [0, 1, 2, 3])], 4, (2, 2, 2), 2.0),
        ([(0, 1.0, [1, 2]), (1, 1.0, [0, 2]), (2, 1.0, [0, 1])], 3, (2, 2, 2), 3.0),
    ],
)
def test_worked_bounds(groups: list[Group], blocks: int, shape: tuple[int, int, int], expected: float) -> None:
    assert traffic_lower_bound(table(groups), blocks, chip(*shape)) == pytest.approx(expected)


@pytest.mark.parametrize("groups", [CHAIN, [(0, 1.0, list(range(1, 9)))]])
def test_met_by_a_placement(groups: list[Group]) -> None:
    """A snake for the chain; any placement with the source in the middle row for the broadcast."""
    on = chip(3, 3)
    rows = cores_in_rows(on)
    snake = [*rows[:3], *reversed(rows[3:6]), *rows[6:]]
    bound = traffic_lower_bound(table(groups), 9, on)
    assert bound <= hops_by_hand(groups, snake, on) == pytest.approx(bound)
