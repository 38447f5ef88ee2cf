"""The partitioner's calls of its searches, their order, and the report of their results."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from nirbridge.errors import ModelError
from nirbridge.network.model import Projection
from nirbridge.network.operators import Conv, Dense, Sparse
from nirbridge.partitioner import PartitionOptions, partition, searches
from nirbridge.partitioner.cost import connectivity
from nirbridge.partitioner.cost.sizing import CostModel, cost_model
from nirbridge.partitioner.model import Slice
from nirbridge.partitioner.search.exact import ExactResult
from nirbridge.partitioner.search.methods import SearchResult, is_within
from nirbridge.partitioner.search.slicing import NoTiling, capacity
from tests.partitioner.cases import chip, network, population
from tests.partitioner.nets import network_of

MODULE: Any = importlib.import_module("nirbridge.partitioner.partition")
"""The package gives its name to the function."""


def sizes_of(neurons: int = 9) -> CostModel:
    way = Projection("in", "p", Dense(np.ones((neurons, 2))))
    return cost_model(network({"in": (2,)}, [population("p", (neurons,))], [way]), chip(), 8)


def blocks(count: int) -> tuple[tuple[Slice, ...], ...]:
    """Nine neurons in so many blocks."""
    edges = [9 * i // count for i in range(count + 1)]
    return tuple((Slice("p", ((edges[i], edges[i + 1]),)),) for i in range(count))


NO, OPEN = ExactResult(None, True, 0.5), ExactResult(None, False, 0.25)


class Solver:
    """Stands for the exact model: answers by the number of cores asked for."""

    def __init__(
        self, patch: pytest.MonkeyPatch, answers: dict[int, ExactResult], illegal: tuple[int, ...] = ()
    ) -> None:
        self.answers, self.asked = answers, list[int]()
        patch.setattr(MODULE.exact, "solve_exactly", self.solve)
        patch.setattr(MODULE, "is_within", lambda _, found: len(found) not in illegal)

    def solve(self, _: Any, cores: int, seed: int, time: float, groups: Mapping[str, int]) -> ExactResult:
        assert (seed, time, groups) == (3, 4.0, {"p": 2})
        self.asked.append(cores)
        return self.answers[cores]


def yes(cores: int) -> ExactResult:
    return ExactResult(blocks(cores), True, 1.0)


@pytest.mark.parametrize(
    ("answers", "known", "available", "illegal", "asked", "found", "exact"),
    [
        ({2: yes(2)}, None, 5, (), [2], (2, 2, 1.0), None),
        ({2: NO, 3: yes(3)}, None, 5, (), [2, 3], (3, 3, 1.5), 3),
        ({2: NO, 3: NO, 4: yes(4)}, 6, 5, (), [2, 3, 4], (4, 4, 2.0), 4),
        ({2: OPEN, 3: NO, 4: yes(4)}, None, 5, (), [2, 3, 4], (4, 2, 1.75), None),  # 2 cores may do
        ({2: NO, 3: OPEN, 4: NO}, 5, 9, (), [2, 3, 4], (5, 3, 1.25), 3),
        ({2: NO, 3: NO}, 4, 9, (), [2, 3], (4, 4, 1.0), 4),
        ({2: NO, 3: NO}, 9, 3, (), [2, 3], (9, 4, 1.0), 4),
        ({2: NO, 3: NO}, None, 3, (), [2, 3], None, 4),
        ({2: yes(2), 3: yes(3)}, None, 5, (2,), [2, 3], (3, 2, 2.0), None),
        ({}, 2, 5, (), [], (2, 2, 0.0), None),
    ],
)
def test_the_exact_model_is_asked_from_the_bound_upwards(
    monkeypatch: pytest.MonkeyPatch, answers: Any, known: int | None, available: int, illegal: Any, asked: Any,
    found: Any, exact: int | None,
) -> None:  # fmt: skip
    solver = Solver(monkeypatch, answers, illegal)
    bounds = {"neurons": 2, "population": 1}
    outcome = None if known is None else SearchResult(blocks(known), 2, 0.0)
    options = PartitionOptions(seed=3, groups={"p": 2})
    result = MODULE._exactly(sizes_of(), outcome, bounds, available, options)
    assert solver.asked == asked
    assert (result and (len(result.blocks), result.sliced_bound, result.spent)) == found
    assert bounds == {"neurons": 2, "population": 1} | ({} if exact is None else {"exact": exact})


def problem(effort: str = "fast", lower: int = 2) -> searches.Problem:
    sizes = sizes_of()
    given = (searches.EFFORTS[effort], 5, lambda *_: None)
    return searches.Problem(sizes, capacity(sizes.chip), {}, lower, 7, {"p": ()}, *given)


@pytest.mark.parametrize(
    ("first", "found", "legal", "asked", "best", "by"),
    [
        (5, {"a": 4, "b": 3}, (4, 3), ["a", "b"], 3, "b"),
        (5, {"a": 2, "b": 3}, (2, 3), ["a"], 2, "a"),  # that is the bound
        (5, {"a": 4, "b": 3}, (4,), ["a", "b"], 4, "a"),
        (5, {"a": 6, "b": None}, (6,), ["a", "b"], 5, "packed"),
        (None, {"a": None, "b": 9}, (9,), ["a", "b"], 9, "b"),
        (None, {"a": None, "b": None}, (), ["a", "b"], None, "packed"),
        (2, {"a": 1, "b": 1}, (1,), [], 2, "packed"),
    ],
)
def test_every_search_goes_on_from_the_best_so_far(
    monkeypatch: pytest.MonkeyPatch, first: int | None, found: Any, legal: Any, asked: Any, best: int | None, by: str
) -> None:
    called: list[str] = []

    def search(name: str) -> searches.Search:
        def one(_: searches.Problem, before: SearchResult | None) -> Any:
            called.append(name)
            assert before is None or len(before.blocks) > 2
            return None if found[name] is None else blocks(found[name])

        return one

    monkeypatch.setattr(MODULE, "SEARCHES", {name: search(name) for name in found})
    monkeypatch.setattr(MODULE, "is_within", lambda _, own: len(own) in legal)
    start = None if first is None else SearchResult(blocks(first), 2, 0.0)
    outcome, name = MODULE._better(problem(), start, "packed")
    assert (called, None if outcome is None else len(outcome.blocks), name) == (asked, best, by)


def test_a_search_with_a_bound_of_its_own_ends_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    own = {"a": lambda *_: SearchResult(blocks(4), 4, 0.5), "b": lambda *_: pytest.fail("the bound is met")}
    monkeypatch.setattr(MODULE, "SEARCHES", own)
    assert MODULE._better(problem(), SearchResult(blocks(5), 2, 0.0), "packed") == (
        SearchResult(blocks(4), 4, 0.5),
        "a",
    )


def test_without_a_first_map_there_are_no_tilings(monkeypatch: pytest.MonkeyPatch) -> None:
    def unfit(*_: Any) -> None:
        raise NoTiling("p", 0)

    sizes = sizes_of()
    cap = capacity(chip(core={"neurons": 4}))
    found, own, _ = MODULE._first(sizes, cap, 1, 9, PartitionOptions(method="sequential", spread=2))
    assert own.tilings["p"] == (((0, 2),), ((2, 4),), ((4, 6),), ((6, 8),), ((8, 9),))
    assert found.blocks == tuple((Slice("p", box),) for box in own.tilings["p"])
    monkeypatch.setattr(MODULE, "sequential", unfit)
    found, own, name = MODULE._first(sizes, cap, 1, 9, PartitionOptions(method="packed"))
    assert (found, own.tilings, name) == (None, {}, "packed")


@pytest.mark.parametrize(
    ("effort", "cores", "asked", "bound"),
    [("default", 3, [], None), ("max", 3, ["fewest"], 3), ("max", 4, ["fewest", "finer"], 2)],
)
def test_patterns_are_searched_with_most_effort(
    monkeypatch: pytest.MonkeyPatch, effort: str, cores: int, asked: list[str], bound: int | None
) -> None:
    called: list[str] = []

    def fewest(*given: Any) -> SearchResult:
        called.append("fewest")
        assert given[6:8] == (searches.EFFORTS["max"].patterns, 5)
        return SearchResult(given[2], 3, 0.5)

    def finer(*given: Any) -> SearchResult:
        called.append("finer")
        return replace(given[2], sliced_bound=2)

    monkeypatch.setattr(searches, "fewest_cores", fewest)
    monkeypatch.setattr(searches, "finer_cores", finer)
    found = searches.SEARCHES["patterns"](problem(effort), SearchResult(blocks(cores), 2, 0.0))
    assert called == asked
    assert bound is None or (isinstance(found, SearchResult) and found.sliced_bound == bound)


@pytest.mark.parametrize("name", searches.SEARCHES)
def test_any_search_may_be_left_out(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    net = network_of("1x8x8 conv16k5p2 lif conv20k1 lif conv18k5p2 lif")
    on = chip(core={"neurons": 256}, words=4096)
    best = partition(net, on).report
    monkeypatch.setitem(searches.SEARCHES, name, lambda *_: None)
    found = partition(net, on)
    assert is_within(cost_model(net, on, 8), tuple(block.slices for block in found.blocks))
    assert found.report.cores >= best.cores_lower_bound


@pytest.mark.parametrize(
    ("cores", "sliced", "bounds", "report"),
    [
        (3, 3, {"b": 3, "a": 3}, ("optimal", 3, 3, "a")),
        (3, 9, {"b": 2, "a": 1}, ("optimal-sliced", 2, 3, "b")),
        (3, 2, {"b": 1, "c": 2, "a": 2}, ("feasible", 2, 2, "a")),
        (3, 1, {"c": 2}, ("feasible", 2, 2, "c")),
        (1, 1, {"c": 1}, ("optimal", 1, 1, "c")),
    ],
)
def test_the_report(cores: int, sliced: int, bounds: dict[str, int], report: Any) -> None:
    options = PartitionOptions(method="packed", seed=11)
    found = MODULE._report(sizes_of(), SearchResult(blocks(cores), sliced, 0.12345678), bounds, options, None)
    own = found.report
    assert (own.status, own.cores_lower_bound, own.cores_lower_bound_sliced, own.binding) == report
    assert (own.method, own.seed, own.cores, own.deterministic_time) == ("packed", 11, cores, 0.123457)
    assert list(own.bounds.items()) == sorted(bounds.items())
    assert own.solver.startswith("OR-Tools ")
    assert [(b.id, b.slices) for b in found.blocks] == list(enumerate(blocks(cores)))
    assert [b.used["neurons"] for b in found.blocks] == [s[0].box[0][1] - s[0].box[0][0] for s in blocks(cores)]
    assert found.weight_bits == 8


def test_the_default_options_and_what_is_told() -> None:
    given = PartitionOptions()
    assert (given.method, given.weight_bits, given.chips, given.effort) == ("cp-sat", None, 1, "default")
    assert (given.seed, given.spread, dict(given.groups)) == (0, 1, {})
    told = list[tuple[str, float | None]]()
    net = sizes_of().network
    options = replace(given, progress=lambda stage, done: told.append((stage, done)))
    assert partition(net, chip(), options).report.cores == 1
    assert told == [("bounds", None), ("first maps", None)]
    assert partition(net, chip()).blocks == partition(net, chip(), options).blocks


# -- lists of synapses ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("most", "refused"), [(12, False), (11, True)])
def test_synapses_that_are_listed_one_by_one(monkeypatch: pytest.MonkeyPatch, most: int, refused: bool) -> None:
    """Twelve of a convolution, and twelve of a product of two lists."""
    form = connectivity.connectivity(Conv(np.ones((2, 1, 2)), (1,), ((0, 0),), (1,), 1, (1, 4)))
    fan = Sparse(np.arange(5) * 3, np.tile(np.arange(3), 4), np.ones(12), (3,), (4,))
    step = "keep the neurons in the shape of the convolution (put the Flatten after them)"
    message = f"way: 12 synapses without a closed form, at most {most} are listed one by one; {step}"
    every = connectivity.connectivity(fan)
    assert isinstance(every, connectivity.Explicit)
    one = connectivity.connectivity(Sparse(np.arange(4), np.arange(3), np.ones(3), (3,), (3,)))
    assert isinstance(one, connectivity.Explicit)
    monkeypatch.setattr(connectivity, "EXPLICIT_SYNAPSES_MAX", most)
    for make in (lambda: connectivity.explicit(form, "way"), lambda: connectivity._product(every, one, "way")):
        if refused:
            with pytest.raises(ModelError) as caught:
                make()
            assert str(caught.value) == message
        else:
            assert len(make().sources) == 12
