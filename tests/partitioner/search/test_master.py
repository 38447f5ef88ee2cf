"""Column generation on two small layouts: matrices, bounds, prices and finishes, by hand or by brute force."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest

from nirbridge.partitioner.search import column_generation as master
from nirbridge.partitioner.search.column_generation import (
    GeneratedPatterns,
    MasterProblem,
    SearchBudget,
    class_multiplicity,
    dive,
    finish_cores,
    generate,
    master_problem,
    price,
)
from nirbridge.partitioner.search.layouts import Layout, LayoutArc, LayoutRow

VECTORS = np.array([[1, 2], [2, 3], [4, 0]])
CAP = np.array([4, 6])
"""Pieces of one and two neurons of the first population, one of four of the second; at most four neurons a core."""
EYE = np.eye(3, dtype=np.int64)
NONE = np.zeros(3, np.int64)


def ranges(length: int) -> Layout:
    """Neurons of the first population, covered by pieces of one and of two."""
    return Layout(
        "a", "flat", (LayoutArc(0, (1,)), LayoutArc(1, (2,))), (LayoutRow(((0, 1), (1, 2)), length, cover=True),)
    )


FIXED = Layout("b", "fixed", (LayoutArc(2, (0,)), LayoutArc(-1, (1,))), (LayoutRow(((0, 1), (1, -2)), 1),))


def made(*layouts: Layout, certain: tuple[int, ...] = (0, 1)) -> MasterProblem:
    return master_problem(layouts, VECTORS, CAP, certain)


def test_the_matrices_of_two_layouts() -> None:
    what = made(ranges(5), FIXED, certain=(1,))
    assert what.demand.toarray().tolist() == [[1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0]]
    assert (what.cover.toarray().tolist(), what.cover_rhs.tolist()) == ([[1, 2, 0, 0]], [5])
    assert (what.equal.toarray().tolist(), what.equal_rhs.tolist()) == ([[0, 0, 1, -2]], [1])
    assert (what.arcs, what.vectors.tolist(), what.cap.tolist()) == (4, VECTORS.tolist(), [4, 6])
    assert what.certain.tolist() == [[0, 2], [0, 3], [0, 0]]
    other = made(FIXED, ranges(5))
    assert other.cover.toarray().tolist() == [[0, 0, 1, 2]]
    assert other.certain.tolist() == VECTORS.tolist()
    assert (made(ranges(5)).equal.shape, made(FIXED).cover.shape) == ((0, 2), (0, 2))


@pytest.mark.parametrize(
    ("layouts", "weights", "least"),
    [
        ((ranges(5),), [3, 5, 7], 12.5),
        ((ranges(5),), [2, 5, 7], 10.0),
        ((FIXED,), [3, 5, 7], 7.0),
        ((ranges(5), FIXED), [3, 5, 7], 19.5),
        ((ranges(5), FIXED), [0, 0, 0], 0.0),
        (
            (FIXED, Layout("c", "fixed", (LayoutArc(0, (0,)),), (LayoutRow(((0, 0),), 1),))),
            [3, 5, 7],
            0.0,
        ),  # no layout at all
    ],
)
def test_the_least_weight_of_any_layout(layouts: Any, weights: list[int], least: float) -> None:
    found = master.least_weight(made(*layouts), np.array(weights))
    assert found == pytest.approx(least, rel=1e-8)
    assert found <= least * (1 - 1e-10)


def test_cores_needed_for_each_resource_alone() -> None:
    both = master.resource_bounds(made(ranges(5), FIXED))
    assert both == {0: pytest.approx((5 + 4) / 4), 1: pytest.approx(7.5 / 6)}
    assert [*master.resource_bounds(made(ranges(5), FIXED, certain=(0,)))] == [0]
    assert [*master.resource_bounds(made(ranges(5), FIXED, certain=()))] == []


def test_how_often_a_piece_fits_an_empty_core() -> None:
    vectors = np.array([[1, 2], [2, 3], [4, 0], [0, 0], [5, 1], [1, 6], [0, 1]])
    assert class_multiplicity(vectors, CAP).tolist() == [3, 2, 1, 2**20, 0, 1, 6]
    assert class_multiplicity(np.array([[0, 1]]), np.array([1, 2**30])).tolist() == [2**20]


@pytest.mark.parametrize("weights", [[3, 5, 0], [1, 0, 9], [5, 5, 5], [0, 1, 0], [7, 11, 1], [1, 1, 2]])
def test_the_heaviest_pattern_is_that_of_brute_force(weights: list[int]) -> None:
    grid = [np.array(counts) for counts in product(range(5), repeat=3)]
    best = max(int(n @ weights) for n in grid if np.all(n @ VECTORS <= CAP))
    found, bound, spent = price(VECTORS, np.array(weights), CAP, SearchBudget(price_gap=0.0, price_time=1.0), 0)
    assert found is not None
    assert np.all(found @ VECTORS <= CAP)
    assert (int(found @ weights), bound) == (best, best)
    assert all(n == 0 for n, weight in zip(found, weights, strict=True) if weight == 0)
    assert spent > 0
    assert price(VECTORS, NONE, CAP, SearchBudget(), 0) == (None, 0.0, 0.0)


@pytest.mark.parametrize(
    ("found", "duals", "known"),
    [
        ([2, 0], [0.5, 9], True),
        ([3, 0], [0.5, 9], False),
        ([3, 1], [0.5, 1], True),
        ([1, 3], [0.5, 1], False),
        ([1, 0], [1 + 1e-6, 0], True),
        ([1, 0], [1 + 3e-6, 0], False),
    ],
)
def test_patterns_that_improve_nothing(found: list[int], duals: list[float], known: bool) -> None:
    patterns = np.array([[3, 1], [1, 1]])
    assert master._is_known(np.array(found), patterns, np.array(duals)) is known


@pytest.mark.parametrize(
    ("use", "room", "chosen"),
    [
        ([2.0, 0.9999995, 0.3], 5, [0, 0, 1]),
        ([2.0, 0.9999995, 0.3], 2, [0, 0]),
        ([0.5, 1.7, 0.3], 5, [1]),
        ([0.2, 0.7, 0.1], 5, [1]),
        ([0.0, 0.0, 2e-6], 5, [2]),
        ([0.0, 0.0, 1e-6], 5, []),
    ],
)
def test_whole_uses_are_settled_first_and_else_the_largest_part(use: list[float], room: int, chosen: list[int]) -> None:
    assert master._to_settle(EYE, np.array(use), room) == chosen


# -- the search ---------------------------------------------------------------------------------------------------


def supplies(what: MasterProblem, held: np.ndarray, arcs: np.ndarray) -> bool:
    """True if cores within the limits supply what the arcs cut, and the arcs are a layout."""
    fits = bool(np.all(held @ what.vectors <= what.cap)) and bool(np.all(held.sum(axis=0) >= what.demand @ arcs))
    return fits and bool(np.all(what.cover @ arcs >= what.cover_rhs) and np.all(what.equal @ arcs == what.equal_rhs))


@pytest.mark.parametrize(
    ("settled", "cores", "there_is_one"),
    [
        ([], 2, True),  # no core holds more than four neurons
        ([], 1, False),
        ([[0, 2, 0]], 2, True),
        ([[1, 0, 0]], 2, True),
        ([[0, 0, 0]], 2, False),
        ([[0, 0, 0]], 3, True),
        ([[0, 2, 0], [1, 0, 0]], 2, True),
        ([[0, 2, 0], [0, 0, 0]], 2, False),
    ],
)
def test_the_last_cores_are_filled_exactly(settled: list[list[int]], cores: int, there_is_one: bool) -> None:
    what = made(ranges(5))
    found, spent = finish_cores(what, [np.array(s) for s in settled], cores, SearchBudget(), 0)
    assert spent >= 0
    assert (found is not None) is there_is_one
    if found is not None:
        held, arcs = found
        assert held[: len(settled)].tolist() == settled
        assert len(held) == cores
        assert supplies(what, held, arcs)


def test_a_fixed_piece_takes_a_core_of_its_own() -> None:
    what = made(ranges(4), FIXED)
    assert finish_cores(what, [], 1, SearchBudget(), 0)[0] is None
    found = finish_cores(what, [], 2, SearchBudget(), 0)[0]
    assert found is not None
    assert supplies(what, *found)
    assert sorted(found[0][:, 2].tolist()) == [0, 1]


def generated(length: int = 5, start: np.ndarray = EYE, fixed: np.ndarray = NONE, **options: Any) -> GeneratedPatterns:
    budget = options.pop("budget", SearchBudget(price_gap=0.0, price_time=1.0))
    return generate(made(ranges(length)), start, fixed, budget, options.pop("lower", 0), 0, **options)


@pytest.mark.parametrize(("length", "cores"), [(4, 1), (5, 2), (8, 2), (9, 3), (40, 10), (41, 11)])
def test_the_certificate_is_the_bound_of_four_neurons_a_core(length: int, cores: int) -> None:
    found = generated(length)
    assert found.linear == pytest.approx(length / 4)
    assert found.bound == cores
    assert found.certificate <= length / 4
    assert int(np.ceil(found.certificate - 1e-6)) == cores
    assert found.patterns[:3].tolist() == EYE.tolist()
    assert [0, 2, 0] in found.patterns.tolist()
    assert found.use @ found.patterns @ [1, 2, 0] == pytest.approx(length)
    assert found.spent > 0
    assert found.work > 0


@pytest.mark.parametrize(
    "options", [{"enough": 2.5}, {"budget": SearchBudget(rounds=0)}, {"budget": SearchBudget(linear_time=0.0)}]
)
def test_generation_that_ends_before_it_prices(options: dict[str, Any]) -> None:
    found = generated(lower=1, **options)
    assert (found.linear, found.bound, found.certificate, found.spent) == (2.5, 1, 0.0, 0.0)
    assert found.patterns is EYE
    assert found.use.tolist() == [0, 2.5, 0]


def test_generation_beside_settled_cores_proves_nothing_and_counts_what_they_supply() -> None:
    found = generated(9, fixed=np.array([0, 2, 0]), lower=1)
    assert found.linear == pytest.approx(5 / 4)
    assert (found.bound, found.certificate) == (1, 0.0)
    assert generated(5, lower=7).bound == 7


def test_where_no_layout_fits_nothing_is_generated() -> None:
    none = Layout("c", "fixed", (LayoutArc(0, (0,)),), (LayoutRow(((0, 0),), 1),))
    found = generate(made(none), EYE, NONE, SearchBudget(), 3, 0)
    assert (found.linear, found.bound, found.spent) == (float("inf"), 3, 0.0)
    assert found.use.tolist() == [0, 0, 0]
    assert found.patterns is EYE


def test_columns_that_add_up_alone_prove() -> None:
    """By the words alone, of which a piece of two takes three: six a core hold four neurons; by no column nothing."""
    what = made(ranges(40), certain=(1,))
    assert generate(what, EYE, NONE, SearchBudget(price_gap=0.0, price_time=1.0), 0, 0).bound == 10
    nothing = made(ranges(40), certain=())
    assert generate(nothing, EYE, NONE, SearchBudget(price_gap=0.0, price_time=1.0), 2, 0).bound == 2


@pytest.mark.parametrize(("length", "cores"), [(5, 2), (40, 10), (41, 11), (60, 15)])
@pytest.mark.parametrize("free", [1, 3, 5])
def test_a_dive_settles_as_many_cores_as_are_needed(length: int, cores: int, free: int) -> None:
    what, budget = made(ranges(length)), SearchBudget(price_gap=0.0, price_time=1.0, free_cores=free)
    start = generated(length)
    found, spent = dive(what, start, cores, budget, 0)
    assert found is not None
    assert len(found[0]) == cores
    assert supplies(what, *found)
    assert spent > 0


def test_a_dive_that_has_too_few_cores_finds_nothing() -> None:
    what, start = made(ranges(9)), generated(9)
    assert dive(what, start, 2, SearchBudget(), 0)[0] is None
    assert dive(what, start, 3, SearchBudget(), 0)[0] is not None
    many = made(ranges(200))
    none, spent = dive(many, generated(200), 49, replace(SearchBudget(), linear_time=-1.0), 0)
    assert none is None
    assert spent == 0  # too many cores are left for the finish, which is not tried
