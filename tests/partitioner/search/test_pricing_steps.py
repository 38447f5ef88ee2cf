"""Column generation and its dive step by step: prices requested, and the effect of each result."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from nirbridge.partitioner.search import column_generation as master
from nirbridge.partitioner.search.column_generation import GeneratedPatterns, SearchBudget, dive, generate
from tests.partitioner.search.test_master import EYE, NONE, VECTORS, made, ranges

TWO, ONE, SMALL = np.array([0, 2, 0]), np.array([0, 1, 0]), np.array([3, 0, 0])
WHOLE = 2_000_000
"""The weight of a piece of two neurons, the heaviest class; five neurons weigh two and a half of it."""


class Prices:
    """Stands for ``price``: gives the answers in turn and keeps what was asked."""

    def __init__(self, *answers: tuple[np.ndarray | None, float, float]) -> None:
        self.answers, self.asked = list(answers), list[tuple[np.ndarray, np.ndarray, SearchBudget]]()

    def __call__(
        self, vectors: np.ndarray, weights: np.ndarray, cap: np.ndarray, budget: SearchBudget, seed: int
    ) -> Any:
        assert weights.max() == WHOLE
        assert weights[1] == WHOLE or self.asked, "of single pieces those of two neurons are worth most"
        self.asked.append((vectors, weights, budget))
        assert weights.min() >= 0
        assert (cap.tolist(), seed) == ([4, 6], 7)
        return self.answers.pop(0)


def run(
    patch: pytest.MonkeyPatch, prices: Prices, lower: int = 0, certain: tuple[int, ...] = (0, 1), **own: Any
) -> GeneratedPatterns:
    patch.setattr(master, "price", prices)
    found = generate(made(ranges(5), certain=certain), EYE, NONE, SearchBudget(**own), lower, 7)
    assert prices.answers == []
    return found


def kinds(prices: Prices) -> list[tuple[float, float]]:
    return [(budget.price_gap, budget.price_time) for _, _, budget in prices.asked]


ROUGH, CLOSE = (0.01, 0.02), (0.0, 0.2)


@pytest.mark.parametrize("rough", [None, ONE, NONE])
@pytest.mark.parametrize("close", [None, NONE])
def test_a_rough_price_that_gains_nothing_is_followed_by_a_close_one(
    monkeypatch: pytest.MonkeyPatch, rough: Any, close: Any
) -> None:
    prices = Prices((rough, 9e9, 0.25), (close, 9e9, 0.5))
    found = run(monkeypatch, prices, lower=1)
    assert kinds(prices) == [ROUGH, CLOSE]
    assert (found.linear, found.bound, found.certificate, found.spent) == (2.5, 1, 0.0, 0.75)
    assert found.patterns is EYE


def test_a_pattern_that_gains_is_added_and_its_price_is_a_certificate(monkeypatch: pytest.MonkeyPatch) -> None:
    prices = Prices((ONE, 9e9, 0.25), (TWO, 2 * WHOLE, 0.5), (None, 0.0, 1.0), (None, 0.0, 2.0))
    found = run(monkeypatch, prices)
    assert kinds(prices) == [ROUGH, CLOSE, ROUGH, CLOSE]
    assert found.patterns.tolist() == [*EYE.tolist(), TWO.tolist()]
    assert (found.linear, found.bound, found.spent) == (1.25, 2, 3.75)
    assert found.certificate == pytest.approx(1.25, rel=1e-8)
    assert found.use.tolist() == [0, 0, 0, 1.25]
    assert found.work > master.linear_work(1, 0) * 2


@pytest.mark.parametrize(
    ("most", "lower", "certificate", "bound"),
    [
        (2 * WHOLE, 1, 1.25, 2),
        (2 * WHOLE, 2, 0.0, 2),  # what it could prove at best is known
        (5 * WHOLE, 0, 0.5, 1),
        (1.25 * WHOLE, 0, 2.0, 2),
        (0.0, 0, 0.0, 0),
        (-1.0, 0, 0.0, 0),
    ],
)
def test_certificates(monkeypatch: pytest.MonkeyPatch, most: float, lower: int, certificate: float, bound: int) -> None:
    prices = Prices((TWO, most, 0.25))
    found = run(monkeypatch, prices, lower=lower, rounds=1)
    assert found.certificate == pytest.approx(certificate, rel=1e-8)
    assert (found.bound, found.linear, found.spent) == (bound, 1.25, 0.25)


@pytest.mark.parametrize(("gap", "added"), [(1.0, False), (0.9999, True)])
def test_pricing_ends_at_a_gain_of_the_gap(monkeypatch: pytest.MonkeyPatch, gap: float, added: bool) -> None:
    found = run(monkeypatch, Prices((TWO, 2 * WHOLE, 0.0)), rounds=1, gap=gap)
    assert len(found.patterns) == 3 + added
    assert found.bound == 2


@pytest.mark.parametrize(("most", "certificate"), [(2 * WHOLE, 1.25), (0.0, 0.0)])
def test_where_not_every_column_adds_up_those_that_do_are_priced_again(
    monkeypatch: pytest.MonkeyPatch, most: float, certificate: float
) -> None:
    prices = Prices((TWO, 7.0, 0.25), (None, most, 0.5))
    found = run(monkeypatch, prices, certain=(1,), rounds=1)
    assert [vectors.tolist() for vectors, _, _ in prices.asked] == [VECTORS.tolist(), [[0, 2], [0, 3], [0, 0]]]
    assert kinds(prices) == [ROUGH, ROUGH]
    assert found.certificate == pytest.approx(certificate, rel=1e-8)
    assert found.spent == 0.75


def test_the_work_of_linear_programs_ends_it_once_it_is_over_its_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    first = run(monkeypatch, Prices(), rounds=0).work
    assert first > 0
    more = run(monkeypatch, Prices((TWO, 2 * WHOLE, 0.0)), linear_time=first)
    assert len(more.patterns) == 4
    assert more.work > first
    assert run(monkeypatch, Prices(), linear_time=first * 0.999).work == first


# -- the dive -----------------------------------------------------------------------------------------------------


class Watched:
    """Stands for ``generate`` and ``finish`` of a dive."""

    def __init__(self, linear: list[float], finished: list[bool]) -> None:
        self.linear, self.finished = linear, finished
        self.steps, self.tries = list[tuple[list[int], int, float]](), list[list[list[int]]]()

    def generate(
        self, _: Any, patterns: Any, fixed: Any, budget: SearchBudget, lower: int, seed: int, enough: float
    ) -> Any:
        assert (lower, seed) == (0, 7)
        self.steps.append((fixed.tolist(), budget.rounds, round(enough, 9)))
        return GeneratedPatterns(patterns, np.array([0.2, 0.7, 0.1]), 0, 0.0, self.linear.pop(0), 0.25, 0.5)

    def finish(self, _: Any, settled: list[Any], cores: int, budget: SearchBudget, seed: int) -> Any:
        assert seed == 7
        self.tries.append([s.tolist() for s in settled])
        return ("found" if self.finished.pop(0) else None), 1.0


START = GeneratedPatterns(EYE, np.array([2.0, 0.5, 0.0]), 0, 0.0, 0.0, 0.0, 0.0)
A, B = EYE[0].tolist(), EYE[1].tolist()


@pytest.mark.parametrize(
    ("cores", "own", "linear", "finished", "steps", "tries", "found"),
    [
        (3, {}, [], [True], [], [[]], ("found", 1.0)),
        (3, {}, [], [False], [], [[]], (None, 1.0)),
        (4, {}, [3.0], [True], [([1, 0, 0], 40, 2.999999)], [[A]], ("found", 1.25)),
        (5, {}, [3.0], [True], [([2, 0, 0], 40, 2.999999)], [[A, A]], ("found", 1.25)),
        (6, {}, [4.0, 3.0], [True], [([2, 0, 0], 40, 3.999999), ([2, 1, 0], 40, 2.999999)], [[A, A, B]],
         ("found", 1.5)),
        # what is settled cannot be completed: the last two are given back
        (6, {}, [4.0, 3.1], [True], [([2, 0, 0], 40, 3.999999), ([2, 1, 0], 40, 2.999999)], [[A]], ("found", 1.5)),
        (6, {}, [4.1], [True], [([2, 0, 0], 40, 3.999999)], [[]], ("found", 1.25)),
        # a finish that finds nothing gives the last two back and is tried again, while there is time
        (6, {"finish_time": 9.0}, [4.0, 3.0], [False, True],
         [([2, 0, 0], 40, 3.999999), ([2, 1, 0], 40, 2.999999)], [[A, A, B], [A]], ("found", 2.5)),
        (6, {"finish_time": 9.0}, [4.0, 3.0], [False, False, False],
         [([2, 0, 0], 40, 3.999999), ([2, 1, 0], 40, 2.999999)], [[A, A, B], [A], []], (None, 3.5)),
        (6, {"finish_time": 1.4}, [4.0, 3.0], [False],
         [([2, 0, 0], 40, 3.999999), ([2, 1, 0], 40, 2.999999)], [[A, A, B]], (None, 1.5)),
        (6, {"finish_time": 1.5, "give_back": 1}, [4.0, 3.0], [False, True],
         [([2, 0, 0], 40, 3.999999), ([2, 1, 0], 40, 2.999999)], [[A, A, B], [A, A]], ("found", 2.5)),
        (6, {"linear_time": 0.4}, [4.0], [True], [([2, 0, 0], 40, 3.999999)], [[A, A]], ("found", 1.25)),
        (6, {"linear_time": 0.5, "dive_rounds": 9}, [4.0, 3.0], [True],
         [([2, 0, 0], 9, 3.999999), ([2, 1, 0], 9, 2.999999)], [[A, A, B]], ("found", 1.5)),
        (12, {"linear_time": -1.0}, [], [True], [], [[]], ("found", 1.0)),
        (13, {"linear_time": -1.0}, [], [], [], [], (None, 0.0)),
    ],
)  # fmt: skip
def test_a_dive(
    monkeypatch: pytest.MonkeyPatch,
    cores: int,
    own: Any,
    linear: Any,
    finished: Any,
    steps: Any,
    tries: Any,
    found: Any,
) -> None:
    watched = Watched(linear, finished)
    monkeypatch.setattr(master, "generate", watched.generate)
    monkeypatch.setattr(master, "finish_cores", watched.finish)
    assert dive(made(ranges(5)), START, cores, SearchBudget(**own), 7) == found
    assert (watched.steps, watched.tries) == (steps, tries)
    assert (watched.linear, watched.finished) == ([], [])


def test_a_dive_with_nothing_to_settle_finishes(monkeypatch: pytest.MonkeyPatch) -> None:
    watched = Watched([], [True])
    monkeypatch.setattr(master, "generate", watched.generate)
    monkeypatch.setattr(master, "finish_cores", watched.finish)
    nothing = replace(START, use=np.zeros(3))
    assert dive(made(ranges(5)), nothing, 8, SearchBudget(), 7) == ("found", 1.0)
    assert (watched.steps, watched.tries) == ([], [[]])
