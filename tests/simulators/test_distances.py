"""Distances of spike arrays, against numbers computed by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from nirbridge.comparison import distances as d
from nirbridge.errors import UsageError

A = np.array([[1, 0], [0, 1], [1, 1], [0, 0]], np.uint8)
B = np.array([[1, 0], [1, 1], [0, 1], [0, 1]], np.uint8)
spikes = hnp.arrays(np.uint8, (6, 3), elements=st.integers(0, 3))
values = hnp.arrays(np.float64, (5, 2), elements=st.sampled_from([0.0, 0.5, -1.0, 2.0, math.nan, math.inf]))


def jaccard(a: np.ndarray, b: np.ndarray) -> float:
    return d.ratio(*d.event_overlap(a, b))


def test_events_by_hand() -> None:
    assert d.event_overlap(A, B) == (3, 6)  # (0, 0), (1, 1), (2, 1) in both; (2, 0), (1, 0), (3, 1) in one
    assert jaccard(A, B) == 0.5
    assert (d.event_count(A), d.event_count(B)) == (4, 5)
    assert d.events_of_each(A).tolist() == [2, 2]
    assert d.count_error(A, B) == 1
    assert d.first_difference(A, B) == (1, 0)


def test_several_spikes_in_a_step_are_several_events() -> None:
    a, b = np.array([[3], [0]], np.int16), np.array([[1], [2]], np.uint8)
    assert d.event_overlap(a, b) == (1, 5)
    assert d.count_error(a, b) == 0


def test_graded_events_are_places_that_are_not_zero() -> None:
    a, b = np.array([[0.5, 0.0, -1.0]]), np.array([[0.25, 1.0, -1.0]])
    assert not d.is_counts(a)
    assert d.event_overlap(a, b) == (2, 3)
    assert d.event_count(a) == 2
    assert d.count_error(a, b) == 1
    assert d.largest_difference(a, b) == 1.0


def test_whole_numbers_are_counts_whatever_their_dtype() -> None:
    assert d.is_counts(np.array([0.0, 1.0, 2.0], np.float32))
    assert d.is_counts(np.array([True, False]))
    assert not d.is_counts(np.array([-1]))
    assert not d.is_counts(np.array([np.nan]))
    assert not d.is_counts(np.array([np.inf]))


def test_nothing_is_like_nothing() -> None:
    silent = np.zeros((4, 2), np.uint8)
    assert jaccard(silent, silent) == 1.0
    assert jaccard(silent, A) == 0.0
    empty = np.zeros((0, 2))
    assert (jaccard(empty, empty), d.van_rossum(empty, empty), d.event_count(empty)) == (1.0, 0.0, 0)


def one(step: int, steps: int = 20, neurons: int = 1) -> np.ndarray:
    array = np.zeros((steps, neurons))
    array[step] = 1
    return array


@pytest.mark.parametrize("step", [0, 7, 19])
def test_van_rossum_of_one_spike_more_is_one(step: int) -> None:
    assert d.van_rossum(one(step), np.zeros((20, 1))) == pytest.approx(1.0, abs=1e-12)
    assert d.van_rossum(one(step, neurons=9), np.zeros((20, 9))) == pytest.approx(3.0, abs=1e-12)


@pytest.mark.parametrize(("moved", "tau"), [(1, 10.0), (5, 10.0), (12, 3.0)])
def test_van_rossum_of_a_moved_spike(moved: int, tau: float) -> None:
    expected = math.sqrt(2 * (1 - math.exp(-moved / tau)))
    assert d.van_rossum(one(3), one(3 + moved), tau) == pytest.approx(expected, abs=1e-12)


def test_van_rossum_is_the_sum_over_every_step() -> None:
    """The same by the plain recursion, run on until nothing is left."""
    rng = np.random.default_rng(3)
    a, b = (rng.integers(0, 3, (40, 5)).astype(np.uint8) for _ in range(2))
    g, f, total = math.exp(-1 / 4.0), np.zeros(5), 0.0
    for step in range(40 + 300):
        f = g * f + (a[step].astype(float) - b[step] if step < 40 else 0.0)
        total += float(f @ f)
    assert d.van_rossum(a, b, 4.0) == pytest.approx(math.sqrt((1 - g * g) * total), rel=1e-12)


@pytest.mark.parametrize("tau", [0.0, -1.0, math.nan, math.inf])
def test_a_time_constant_must_be_above_zero(tau: float) -> None:
    with pytest.raises(UsageError, match="^tau_steps: .*, a number of steps above 0; 10 is the default$"):
        d.van_rossum(A, B, tau)


def test_shapes_must_agree() -> None:
    with pytest.raises(UsageError, match=r"^two arrays: shapes \(4, 2\) and \(4, 1\), one shape for both"):
        d.event_overlap(A, B[:, :1])


def test_pieces_give_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(5)
    a, b = (rng.integers(0, 2, (30, 2, 4)).astype(np.uint8) for _ in range(2))
    b[:11] = a[:11]

    def all_of() -> tuple[object, ...]:
        far = d.van_rossum(a, b)
        return d.event_overlap(a, b), d.count_error(a, b), far, d.first_difference(a, b), d.largest_difference(a, b)

    whole = all_of()
    monkeypatch.setattr(d, "_PIECE", 7)
    assert all_of() == whole
    assert d.first_difference(a, b) == tuple(np.argwhere(a != b)[0])


@given(spikes, spikes)
def test_jaccard_is_symmetric_and_one_only_for_equals(a: np.ndarray, b: np.ndarray) -> None:
    assert jaccard(a, b) == jaccard(b, a)
    assert 0.0 <= jaccard(a, b) <= 1.0
    assert (jaccard(a, b) == 1.0) == bool((a == b).all())
    assert d.van_rossum(a, b) == pytest.approx(d.van_rossum(b, a))
    assert (d.van_rossum(a, b) == 0.0) == bool((a == b).all())


@given(spikes, spikes, spikes)
def test_van_rossum_keeps_the_triangle(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> None:
    assert d.van_rossum(a, c) <= d.van_rossum(a, b) + d.van_rossum(b, c) + 1e-9


@given(values, values)
def test_values_agree_with_numpy(a: np.ndarray, b: np.ndarray) -> None:
    same = bool(np.array_equal(a, b, equal_nan=True))
    assert (a.shape == b.shape and d.first_difference(a, b) is None) == same
    assert (d.largest_difference(a, b) == 0.0) == same
