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
from nirbridge.partitioner import PartitionOptions, partition
from nirbridge.partitioner.cost import connectivity
from nirbridge.partitioner.cost.sizing import CostModel, cost_model
from nirbridge.partitioner.model import Slice
from nirbridge.partitioner.search.exact import ExactResult
from nirbridge.partitioner.search.methods import SearchResult
from nirbridge.partitioner.search.slicing import NoTiling, capacity
from tests.partitioner.cases import chip, network, population

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


@pytest.mark.parametrize(
    ("method", "cores", "tiny", "groups", "asked"),
    [
        ("packed", 5, True, {}, []),
        ("sequential", None, True, {}, []),
        ("cp-sat", 2, True, {}, []),
        ("cp-sat", 1, True, {}, []),
        ("cp-sat", 3, True, {}, ["exact"]),
        ("cp-sat", None, True, {"p": 1}, ["exact"]),
        ("cp-sat", 3, False, {}, ["fewest"]),
        ("cp-sat", 4, False, {}, ["fewest", "finer"]),
        ("cp-sat", 3, False, {"p": 1}, []),
        ("cp-sat", None, False, {}, []),
    ],
)
def test_which_search_improves_a_first_map(
    monkeypatch: pytest.MonkeyPatch, method: str, cores: int | None, tiny: bool, groups: Any, asked: list[str]
) -> None:
    sizes, first, called = sizes_of(), None if cores is None else blocks(cores), list[str]()

    def exactly(own: Any, outcome: Any, bounds: Any, available: int, options: Any) -> Any:
        assert (own, outcome, available) == (sizes, None if first is None else SearchResult(first, 2, 0.0), 7)
        called.append("exact")
        return "exact"

    def fewest(own: Any, _: Any, *given: Any) -> Any:
        assert (own, given[:-1]) == (sizes, (first, {"p": ()}, {"p": 0}, 2, "fast", 5))
        called.append("fewest")
        return SearchResult(blocks(3), 3 if cores == 3 else 2, 0.5)

    def finer(own: Any, _: Any, outcome: Any, *given: Any) -> Any:
        assert (own, given[:-1]) == (sizes, ({"p": ()}, {"p": 0}, "fast", 5))
        assert outcome == SearchResult(blocks(3), 2, 0.5)
        called.append("finer")
        return SearchResult(blocks(2), 2, 0.75)

    monkeypatch.setattr(MODULE, "_exactly", exactly)
    monkeypatch.setattr(MODULE, "fewest_cores", fewest)
    monkeypatch.setattr(MODULE, "finer_cores", finer)
    monkeypatch.setattr(MODULE.exact, "is_tiny", lambda own, available: tiny and available == 7)
    options = PartitionOptions(method=method, effort="fast", seed=5, groups=groups)
    cap = capacity(sizes.chip)
    found = MODULE._improve(sizes, cap, first, {"p": ()}, {"a": 1, "b": 2}, 7, options)
    assert called == asked
    patterns = {"fewest": SearchResult(blocks(3), 3, 0.5), "finer": SearchResult(blocks(2), 2, 0.75), "exact": "exact"}
    assert found == (patterns[asked[-1]] if asked else None if first is None else SearchResult(first, 2, 0.0))


def test_without_a_first_map_there_are_no_tilings(monkeypatch: pytest.MonkeyPatch) -> None:
    def unfit(*_: Any) -> None:
        raise NoTiling("p", 0)

    sizes = sizes_of()
    cap = capacity(chip(core={"neurons": 4}))
    found, tilings, _ = MODULE._heuristics(sizes, cap, 1, PartitionOptions(method="sequential", spread=2))
    assert tilings["p"] == (((0, 2),), ((2, 4),), ((4, 6),), ((6, 8),), ((8, 9),))
    assert found == tuple((Slice("p", box),) for box in tilings["p"])
    monkeypatch.setattr(MODULE, "sequential", unfit)
    assert MODULE._heuristics(sizes, cap, 1, PartitionOptions(method="packed")) == (None, {}, "packed")
    for name in ("streamed", "balanced", "clustered"):
        monkeypatch.setattr(MODULE, name, lambda *_, **__: None)
    assert MODULE._heuristics(sizes, cap, 1, PartitionOptions()) == (None, {}, "cp-sat")


def test_the_first_map_is_the_best_of_those_that_are_legal(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = sizes_of()
    cap = capacity(sizes.chip)
    first, tilings, _ = MODULE._heuristics(sizes, cap, 1, PartitionOptions(method="packed"))
    asked: list[int] = []

    def search(blocks: Any) -> Any:
        def one(own: CostModel, limits: Any, groups: Any, enough: int, *_: Any, **__: Any) -> Any:
            asked.append(enough)
            return blocks

        return one

    for streamed, balanced, clustered, legal, expected, calls in [
        (None, None, None, True, first, 5),
        ((), None, None, True, (), 1),
        (None, (), None, True, (), 2),
        ((), None, None, False, first, 5),
        (first * 2, first * 2, (), True, (), 5),
    ]:
        asked.clear()
        monkeypatch.setattr(MODULE, "streamed", search(streamed))
        monkeypatch.setattr(MODULE, "balanced", search(balanced))
        monkeypatch.setattr(MODULE, "clustered", search(clustered))
        monkeypatch.setattr(MODULE, "is_within", lambda own, blocks, legal=legal: legal)
        assert MODULE._heuristics(sizes, cap, 0, PartitionOptions())[:2] == (expected, tilings)
        assert asked == [0] * calls


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
