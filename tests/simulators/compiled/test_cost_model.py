"""Conditions under which sums are exact in any order."""

from __future__ import annotations

import numpy as np
import pytest

from nirbridge.simulators.compiled.dense_layer import event_coefficients, exact_bound, product_ns


@pytest.mark.parametrize(
    ("weights", "bound"),
    [
        ([[0.5, 0.25], [1.0, 0.0]], 2**22 // 1),  # a grid of 1/4, at most 1 per input
        ([[3.0, 1.0]], 2**22),
        ([[0.1]], 1),  # one weight of 24 bits: multiplied by 1 only
        ([[1.0, 2.0**-30]], 0),
        ([[0.05, 0.1, 0.15]], 0),
        ([[0.0]], 2**24),
        ([[np.inf]], 0),
    ],
)
def test_bound_of_exact_sums(weights: list[list[float]], bound: float) -> None:
    assert exact_bound(np.asarray(weights, np.float32)) == bound


def test_sums_up_to_the_bound_are_exact_and_one_more_is_not_promised() -> None:
    rng = np.random.default_rng(3)
    weight = (rng.integers(-128, 128, (5, 40)) / 256).astype(np.float32)
    x = rng.integers(0, int(exact_bound(weight)), 40)
    wide = weight.astype(np.float64) @ x
    assert np.array_equal(wide, wide.astype(np.float32))


def test_float64_has_more_room() -> None:
    weight = np.asarray([[0.1]], np.float32).astype(np.float64)
    assert exact_bound(weight) > 2**28


def event_ns(items: int, events: int, pre: int, post: int) -> float:
    fixed, each = event_coefficients(items, pre, post)
    return fixed + events * each


def test_events_win_where_few_send_and_lose_where_most_do() -> None:
    assert event_ns(100, 100 * 20, 784, 1024) < product_ns(100, 784, 1000)
    assert event_ns(100, 100 * 700, 784, 1024) > product_ns(100, 784, 1000)
