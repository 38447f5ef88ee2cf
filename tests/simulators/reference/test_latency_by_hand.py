"""The estimated latency, against every latency tried by hand; and the sentence on differences."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nirbridge.comparison.compare import compare
from nirbridge.comparison.distances import estimate_latency
from nirbridge.report.compare import comparison_verdict
from nirbridge.simulators.types import Recording
from tests.cases import cases


def by_hand(a: np.ndarray, b: np.ndarray, *, by_values: bool, around: int, most: int) -> int:
    best: tuple[float, int, bool] | None = None
    chosen = around
    for n in range(around - most, around + most + 1):
        pairs = [(t, t + n) for t in range(len(a)) if 0 <= t + n < len(b)]
        if len(pairs) < (max(1, min(len(a), len(b)) // 2) if by_values else 1):
            continue
        x, y = a[[p for p, _ in pairs]].astype(float), b[[q for _, q in pairs]].astype(float)
        score = -float(np.mean((x - y) ** 2)) if by_values else float(np.sum((x != 0) & (y != 0)))
        rank = (-score, abs(n - around), n < around)
        if best is None or rank < best:
            best, chosen = rank, n
    return chosen


@settings(max_examples=cases(50, 150))
@given(st.integers(0, 9999), st.integers(1, 8), st.integers(1, 8), st.integers(-3, 3), st.integers(0, 5), st.booleans())
def test_the_best_of_all_latencies(seed: int, first: int, second: int, around: int, most: int, by_values: bool) -> None:
    rng = np.random.default_rng(seed)
    a, b = (rng.integers(0, 2, (n, 3)).astype(np.uint8) for n in (first, second))
    found = estimate_latency(a, b, by_values=by_values, around=around, most=most)
    assert found == by_hand(a, b, by_values=by_values, around=around, most=most)


def recording(**arrays: Any) -> Recording:
    named = {tuple(name.split("_")): np.array(v) for name, v in arrays.items()}
    return Recording(named, {"dt": 1e-3})  # type: ignore[arg-type]


SPIKES, OTHER = np.array([[1, 0], [0, 1]], np.uint8), np.array([[1, 0], [1, 1]], np.uint8)
POTENTIALS = np.array([[0.5, 0.25], [1.0, 0.0]])


@pytest.mark.parametrize(
    ("a", "b", "equal"),
    [
        (
            {"p_s": SPIKES, "q_s": SPIKES, "p_v": POTENTIALS},
            {"p_s": SPIKES, "q_s": SPIKES, "p_v": POTENTIALS + 1},
            True,
        ),
        ({"p_s": SPIKES, "q_s": SPIKES, "p_v": POTENTIALS}, {"p_s": SPIKES, "q_s": OTHER, "p_v": POTENTIALS}, False),
        ({"p_s": SPIKES, "q_s": SPIKES}, {"p_s": OTHER, "q_s": OTHER}, False),
        ({"p_v": POTENTIALS}, {"p_v": POTENTIALS + 1}, False),
    ],
)
def test_all_spikes_are_said_to_be_equal_only_where_all_are(a: dict[str, Any], b: dict[str, Any], equal: bool) -> None:
    said = comparison_verdict(compare(recording(**a), recording(**b)))
    assert said.startswith("not equal: ")
    assert ("all spikes are equal" in said) is equal
    assert comparison_verdict(compare(recording(**a), recording(**a))).startswith("equal: every value of ")
    more = replace(recording(**a), arrays={**recording(**a).arrays, ("z", "s"): SPIKES})
    assert "1 more recorded in only one of the two recordings" in comparison_verdict(compare(recording(**a), more))
