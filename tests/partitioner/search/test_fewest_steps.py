"""The search for fewest cores step by step: generated patterns, numbers of cores tried, termination."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from nirbridge.network.model import Projection
from nirbridge.network.operators import Dense
from nirbridge.partitioner.cost.sizing import cost_model
from nirbridge.partitioner.model import Slice
from nirbridge.partitioner.search import methods as search
from nirbridge.partitioner.search import slicing
from nirbridge.partitioner.search.column_generation import GeneratedPatterns, SearchBudget
from nirbridge.partitioner.search.layouts import Layout, LayoutArc
from nirbridge.partitioner.search.methods import fewest_cores
from nirbridge.partitioner.search.slicing import NoTiling, capacity, largest_slices, tile_all
from tests.partitioner.cases import chip, network, population

BUDGET = SearchBudget()


def made(patterns: int, bound: int, linear: float, spent: float = 0.25, work: float = 0.0) -> GeneratedPatterns:
    return GeneratedPatterns(np.zeros((patterns, 2), int), np.zeros(patterns), bound, 0.0, linear, spent, work)


class Scripted:
    """Stands for layouts, generation, dives and what they make; two classes, so that two patterns are the start."""

    def __init__(self, patch: pytest.MonkeyPatch, generated: list[GeneratedPatterns], dives: list[int | None]) -> None:
        self.generated, self.dives = generated, dives
        self.classes: dict[Any, int] = {None: 2}
        self.needed: dict[int, float] = {0: 1.0}
        self.illegal: set[int] = set()
        self.segments: list[Any] = []
        self.asked: list[tuple[int, int, float]] = []
        self.tried: list[int] = []
        self.told: list[str] = []
        patch.setattr(search, "layouts", self.layouts)
        patch.setattr(search.master, "master_problem", lambda *_: "problem")
        patch.setattr(search.master, "resource_bounds", lambda _: self.needed)
        patch.setattr(search.master, "generate", self.generate)
        patch.setattr(search.master, "dive", self.dive)
        patch.setattr(search, "_blocks", lambda *given: (0,) * given[2])
        patch.setattr(search, "swapped", lambda *_: None)
        patch.setattr(search, "is_within", lambda _, blocks: len(blocks) not in self.illegal)

    def layouts(self, sizes: Any, slots: Any, tilings: Any, cap: Any, segments: Any, *, fine: bool) -> Any:
        assert not fine
        assert {name: own.tolist() for name, own in slots.items()} == {"p": [3, 3]}
        self.segments.append(segments)
        return (), np.zeros((self.classes.get(segments, 2), 1))

    def generate(self, what: Any, start: Any, fixed: Any, budget: Any, bound: int, seed: int, enough: float) -> Any:
        assert (what, fixed.any(), seed, budget) == ("problem", False, 7, BUDGET)
        self.asked.append((len(start), bound, round(enough, 9)))
        return self.generated.pop(0)

    def dive(self, what: Any, generated: Any, cores: int, budget: Any, seed: int) -> Any:
        assert (what, seed) == ("problem", 7)
        self.tried.append(cores)
        found = self.dives.pop(0)
        return (None if found is None else (found, None)), 0.5

    def run(self, incumbent: int, lower: int = 1) -> Any:
        synapses = SimpleNamespace(shared_kernels=False)
        sizes: Any = SimpleNamespace(shapes={"p": (2,)}, chip=SimpleNamespace(synapses=synapses))
        tell: Any = lambda stage, done: self.told.append(stage)  # noqa: E731
        found = fewest_cores(sizes, np.zeros(6), (0,) * incumbent, {}, {"p": 3}, lower, BUDGET, 7, tell)
        assert (self.generated, self.dives) == ([], [])
        return len(found.blocks), found.sliced_bound, found.spent


@pytest.mark.parametrize(
    ("classes", "tried", "searched"),
    [
        ({None: 400}, [None], True),
        ({None: 401, 6: 1}, [None, 6], True),
        ({None: 401, 6: 0, 3: 500, 2: 7}, [None, 6, 3, 2], True),
        (dict.fromkeys((None, 6, 3, 2, 1), 401), [None, 6, 3, 2, 1], False),
        (dict.fromkeys((None, 6, 3, 2, 1), 0), [None, 6, 3, 2, 1], False),
    ],
)
def test_the_first_cuts_with_few_enough_classes_are_searched(
    monkeypatch: pytest.MonkeyPatch, classes: Any, tried: Any, searched: bool
) -> None:
    steps = Scripted(monkeypatch, [made(3, 4, float("inf"))] if searched else [], [])
    steps.classes = classes
    assert steps.run(9, lower=3) == (9, 3, 0.0)
    assert steps.segments == tried
    assert len(steps.asked) == searched


@pytest.mark.parametrize(
    ("lower", "needed", "bound"),
    [(3, {0: 2.5}, 3), (3, {0: 3.2, 5: 4.1}, 5), (3, {0: 4.0000005}, 4), (3, {0: 4.000002}, 5), (6, {2: 5.5}, 6)],
)
def test_the_bound_that_it_begins_with(monkeypatch: pytest.MonkeyPatch, lower: int, needed: Any, bound: int) -> None:
    steps = Scripted(monkeypatch, [made(2, 0, float("inf"))], [])
    steps.needed = needed
    assert steps.run(9, lower) == (9, bound, 0.0)
    assert steps.asked == [(2, bound, bound - 0.2)]
    assert steps.told == [f"patterns: 9 cores, at least {bound}"]
    again = Scripted(monkeypatch, [], [])
    again.needed = needed
    assert again.run(bound, lower) == (bound, bound, 0.0)
    assert again.asked == []


@pytest.mark.parametrize(
    ("incumbent", "generated", "dives", "asked", "tried", "found"),
    [
        # met at once
        (9, [made(5, 4, 4.0)], [4], [(2, 1, 0.8)], [4], (4, 4, 0.75)),
        # the second number of cores is, and the next round cannot better it by its own bound
        (9, [made(5, 4, 4.0), made(6, 5, 4.5)], [None, 5], [(2, 1, 0.8), (5, 4, 3.95)], [4, 5], (5, 5, 1.5)),
        # every round to its end
        (6, [made(5, 4, 4.0), made(6, 4, 4.0), made(7, 4, 4.0)], [None] * 6,
         [(2, 1, 0.8), (5, 4, 3.95), (6, 4, 0.0)], [4, 5] * 3, (6, 4, 3.75)),
        # a later round that finds no pattern is the last, and its bound is not taken
        (6, [made(5, 4, 4.0), made(5, 6, 4.0)], [None, None], [(2, 1, 0.8), (5, 4, 3.95)], [4, 5], (6, 4, 1.25)),
        # the first round may find none
        (4, [made(2, 2, 2.0), made(3, 3, 2.0)], [None, 3], [(2, 1, 0.8), (2, 2, 1.95)], [2, 3], (3, 3, 1.5)),
        # too large: its bound counts, no cores are settled
        (9, [made(5, 4, 4.0, work=20.1)], [], [(2, 1, 0.8)], [], (9, 4, 0.25)),
        (9, [made(5, 4, 4.0, work=20.0)], [4], [(2, 1, 0.8)], [4], (4, 4, 0.75)),
        # the time is over: before the first dive, or after one
        (9, [made(5, 4, 4.0, spent=4.1)], [], [(2, 1, 0.8)], [], (9, 4, 4.1)),
        (9, [made(5, 4, 4.0, spent=3.6)], [None], [(2, 1, 0.8)], [4], (9, 4, 4.1)),
        (9, [made(5, 4, 4.0, spent=4.0)], [4], [(2, 1, 0.8)], [4], (4, 4, 4.5)),
        # no layout is there
        (9, [made(5, 4, float("inf"))], [], [(2, 1, 0.8)], [], (9, 1, 0.0)),
        # a bound above the cores that are known does not hold for the slicings of that map: it is not taken
        (3, [made(5, 7, 8.0), ], [], [(2, 1, 0.8)], [], (3, 1, 0.25)),
    ],
)  # fmt: skip
def test_rounds_of_the_search(
    monkeypatch: pytest.MonkeyPatch,
    incumbent: int,
    generated: Any,
    dives: Any,
    asked: Any,
    tried: Any,
    found: Any,
) -> None:
    steps = Scripted(monkeypatch, generated, dives)
    assert steps.run(incumbent) == found
    assert (steps.asked, steps.tried) == (asked, tried)


def test_what_is_over_a_limit_when_counted_in_full_is_not_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    steps = Scripted(monkeypatch, [made(5, 4, 4.0), made(5, 4, 4.0)], [4, 5])
    steps.illegal = {4}
    assert steps.run(9) == (5, 4, 1.25)
    assert steps.tried == [4, 5]


def test_pieces_that_no_core_takes_are_a_fault_of_ours() -> None:
    way = Projection("in", "p", Dense(np.ones((4, 2))))
    sizes = cost_model(network({"in": (2,)}, [population("p", (4,))], [way]), chip(), 8)
    layout = Layout("p", "fixed", (LayoutArc(0, (0,)), LayoutArc(1, (1,))), (), boxes=(((0, 3),), ((3, 4),)))
    held, arcs = np.array([[0, 1], [1, 0]]), np.array([1, 1])
    assert search._blocks(sizes, (layout,), held, arcs) == ((Slice("p", ((0, 3),)),), (Slice("p", ((3, 4),)),))
    whole = search._blocks(sizes, (layout,), np.array([[0, 0], [1, 1]]), arcs)
    assert whole == ((Slice("p", ((0, 4),)),),)
    with pytest.raises(AssertionError, match="must supply every piece it cuts"):
        search._blocks(sizes, (layout,), np.array([[0, 1], [0, 0]]), arcs)


# -- tilings ------------------------------------------------------------------------------------------------------


def chained(*sizes: int) -> Any:
    names = ["in", *"abc"[: len(sizes)]]
    ways = [Projection(names[i], names[i + 1], Dense(np.ones((n, (2, *sizes)[i])))) for i, n in enumerate(sizes)]
    return network({"in": (2,)}, [population(n, (w,)) for n, w in zip(names[1:], sizes, strict=True)], ways)


def test_tilings_that_do_not_settle_are_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = cost_model(chained(4, 4), chip(), 8)
    tilings, slots = tile_all(sizes, capacity(chip()))
    assert tilings == {"a": (((0, 4),),), "b": (((0, 4),),)}
    assert {name: own.tolist() for name, own in slots.items()} == {"a": [1] * 4, "b": [0] * 4}
    monkeypatch.setattr(slicing, "ROUNDS_MAX", 0)
    with pytest.raises(NoTiling) as caught:
        tile_all(sizes, capacity(chip()))
    assert (caught.value.population, caught.value.output_axons) == ("b", 0)


def test_largest_pieces_that_one_neuron_overfills() -> None:
    sizes = cost_model(chained(6), chip(), 8)
    cap = capacity(chip(core={"output_axons": 5}))
    slots = np.array([1, 2, 2, 5, 5, 1])
    assert largest_slices(sizes, "a", slots, cap) == (((0, 3),), ((3, 4),), ((4, 5),), ((5, 6),))
    with pytest.raises(NoTiling) as caught:
        largest_slices(sizes, "a", slots + (slots == 2) * 4, cap)
    assert (caught.value.population, caught.value.output_axons) == ("a", 6)
    with pytest.raises(NoTiling) as caught:
        largest_slices(sizes, "a", None, capacity(chip(core={"input_axons": 1})))
    assert caught.value.output_axons == 0
