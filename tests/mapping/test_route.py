from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nirbridge.chips.model import CoreId
from nirbridge.mapping.route import DIRECTIONS, link_loads, route_hops, routes, tree_hops
from nirbridge.partitioner.cost.axons import HOST
from tests.cases import cases
from tests.mapping.tables import (
    at,
    chip,
    cores_in_rows,
    group_lists,
    loads_by_hand,
    table,
    tree_links,
    walk,
)


@st.composite
def placed(draw: st.DrawFn) -> tuple:
    on = chip(draw(st.integers(1, 4)), draw(st.integers(1, 4)), draw(st.integers(1, 2)))
    chips = draw(st.integers(1, 3))
    order = draw(st.permutations(cores_in_rows(on, chips)))
    blocks = min(len(order), draw(st.integers(1, 6)))
    return on, chips, tuple(order[:blocks]), draw(group_lists(blocks))


@settings(max_examples=cases(50, 150), deadline=None)
@given(placed())
def test_hops_and_loads_are_those_of_the_union_of_walked_paths(case) -> None:
    on, chips, cores, groups = case
    paths = routes(table(groups), cores, on)
    assert tree_hops(paths.multicast).tolist() == [len(tree_links(g, cores, on)) for g in groups]
    rates = np.array([rate for _, rate, _ in groups])
    loads = link_loads(paths.multicast, rates, on.mesh.width_tiles * chips, on.mesh.height_tiles)
    expected = np.zeros_like(loads)
    for ((x, y), direction), load in loads_by_hand(groups, cores, on).items():
        expected[y, x, DIRECTIONS.index(direction)] = load
    np.testing.assert_array_equal(loads, expected)


@settings(max_examples=cases(35, 100), deadline=None)
@given(placed())
def test_unicast_hops_are_the_lengths_of_the_paths(case) -> None:
    on, _, cores, groups = case
    paths = routes(table(groups), cores, on)
    expected = []
    for source, _, targets in groups:
        for target in sorted(targets):
            links = walk((0, 0) if source == HOST else at(cores[source], on), at(cores[target], on))
            expected.append((sum(d[1] == "x" for _, d in links), sum(d[1] == "y" for _, d in links)))
    assert list(zip(paths.hops_x.tolist(), paths.hops_y.tolist(), strict=True)) == expected
    assert tree_hops(paths.unicast).tolist() == [x + y for x, y in expected]


def test_a_worked_tree() -> None:
    """From (1, 1): to (3, 1), (3, 3) and (0, 0): two links right, two down, one left, one up."""
    on = chip(4, 4)
    cores = [CoreId(0, 1, 1, 0), CoreId(0, 3, 1, 0), CoreId(0, 3, 3, 0), CoreId(0, 0, 0, 0)]
    paths = routes(table([(0, 2.0, [1, 2, 3])]), cores, on)
    assert tree_hops(paths.multicast).tolist() == [6]
    loads = link_loads(paths.multicast, np.array([2.0]), 4, 4)
    used = {(int(x), int(y), DIRECTIONS[d]) for y, x, d in np.argwhere(loads > 0)}
    assert used == {(1, 1, "+x"), (2, 1, "+x"), (3, 1, "+y"), (3, 2, "+y"), (1, 1, "-x"), (0, 1, "-y")}
    assert set(loads[loads > 0]) == {2.0}


def test_many_rates_leave_no_load_where_no_path_is() -> None:
    rng = np.random.default_rng(0)
    groups = [(0, float(rng.random()), [1, 2]) for _ in range(1000)]
    on = chip(5, 5)
    cores = [CoreId(0, 1, 1, 0), CoreId(0, 3, 1, 0), CoreId(0, 1, 3, 0)]
    loads = link_loads(routes(table(groups), cores, on).multicast, np.array([g[1] for g in groups]), 5, 5)
    assert np.count_nonzero(loads) == 4


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        (CoreId(0, 0, 0, 0), CoreId(0, 0, 0, 3), 0),
        (CoreId(0, 0, 0, 0), CoreId(0, 2, 1, 0), 3),
        (CoreId(0, 2, 1, 0), CoreId(1, 0, 0, 0), 2),
        (CoreId(2, 0, 0, 0), CoreId(0, 1, 2, 0), 7),
    ],
)
def test_chips_are_a_chain_along_x(a: CoreId, b: CoreId, expected: int) -> None:
    on = chip(3, 3, 4)
    assert route_hops(a, b, on) == route_hops(b, a, on) == expected


def test_an_empty_table_has_no_routes() -> None:
    paths = routes(table([]), [CoreId(0, 0, 0, 0)], chip())
    assert tree_hops(paths.multicast).tolist() == []
    assert link_loads(paths.multicast, np.zeros(0), 3, 3).sum() == 0
