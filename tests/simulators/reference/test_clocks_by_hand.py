"""Corresponding time steps of two recordings: pairs, clocks, stated and estimated latencies."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

from nirbridge.comparison import distances as alignment
from nirbridge.comparison.distances import (
    RecordedSteps,
    StepAlignment,
    align_steps,
    both_stored,
    has_batch,
    node_latency,
    recorded_steps,
)
from nirbridge.errors import UsageError
from tests.simulators.test_pairs_of_recordings_by_hand import A, recording

CASES = list(product(range(5), range(5), range(-4, 5), (0, 1, 4), (0, 2, 3), (1, 2, 3)))


def test_every_pair_of_steps_of_small_recordings() -> None:
    """Step t of A belongs to step t + latency of B; kept step k is step first + k * every."""
    for steps_a, steps_b, latency, first_a, first_b, every in CASES:
        a, b = ({f + k * every: k for k in range(n)} for f, n in ((first_a, steps_a), (first_b, steps_b)))
        wanted = [(a[t], b[t + latency]) for t in a if t + latency in b]
        found = align_steps(steps_a, steps_b, latency, RecordedSteps(first_a, every), RecordedSteps(first_b, every))
        if not wanted:
            assert found is None
            continue
        own, other = (slice(min(k), max(k) + 1) for k in zip(*wanted, strict=True))
        assert found == StepAlignment(latency, own, other, len(wanted), first_a + wanted[0][0] * every, every)
    assert align_steps(3, 3, 0, RecordedSteps(0, 2), RecordedSteps(0, 1)) is None
    assert RecordedSteps() == RecordedSteps(0, 1)


def test_clocks_of_every_first_step() -> None:
    for every, first in product(range(1, 6), range(12)):
        made = recording({"n/s": A}, every={"n/s": every, "n/v": 9}, first_step=first)
        wanted = next(t for t in range(first, 99) if (t + 1) % every == 0)
        assert recorded_steps(made, ("n", "s")) == RecordedSteps(wanted, every)
    assert recorded_steps(recording({"n/s": A}, every=[5]), ("n", "s")) == RecordedSteps(0, 1)


@pytest.mark.parametrize(("meta", "said"), [
    ({"every": {"n/s": True}}, "'every' of 'n/s' in the recording's meta: 'True', whole time steps, 1 or more; "
     "simulate it again"),
    ({"every": {"n/s": 0}}, "'every' of 'n/s' in the recording's meta: '0', whole time steps, 1 or more; "
     "simulate it again"),
    ({"first_step": -1}, "'first_step' in the recording's meta: '-1', whole time steps, 0 or more; simulate it again"),
    ({"first_step": None}, "'first_step' in the recording's meta: 'None', whole time steps, 0 or more; "
     "simulate it again"),
])  # fmt: skip
def test_meta_that_is_no_clock(meta: Any, said: str) -> None:
    with pytest.raises(UsageError) as caught:
        recorded_steps(recording({}, **meta), ("n", "s"))
    assert str(caught.value) == said


def test_what_recordings_state() -> None:
    for batch, said in ((None, False), (False, False), (3, True), (0, True)):
        assert has_batch(recording({}, batch=batch)) is said
    assert has_batch(recording({})) is None
    one, three = recording({}, latency={"n": 1}), recording({}, latency={"n": 3, "m": -1})
    assert (both_stored(one, three, "n"), both_stored(three, one, "n")) == (2, -2)
    assert both_stored(one, three, "m") is both_stored(three, one, "m") is None
    assert both_stored(one, recording({}, latency=[3]), "n") is None
    assert node_latency(one, three, "n", 7) == (7, "given")
    assert node_latency(one, three, "n", {"m": 7}) == (0, "given")
    assert node_latency(one, three, "m", {"m": 7}) == (7, "given")
    assert node_latency(one, three, "n", "auto") == (2, "stored")
    assert node_latency(one, three, "m", "auto") == (0, "estimated")
    with pytest.raises(
        UsageError, match="^latency of 'n' in the recording's meta: 'True', whole time steps; simulate it"
    ):
        both_stored(recording({}, latency={"n": True}), three, "n")


LONG = np.random.default_rng(0).integers(0, 2, (40, 3)).astype(np.uint8)


def moved(by: int, values: np.ndarray = LONG) -> np.ndarray:
    return np.concatenate([np.zeros((by, 3), values.dtype), values])[: len(values)]


@pytest.mark.parametrize(("a", "b", "meta_a", "meta_b", "wanted"), [
    ({"n/s": LONG, "n/v": moved(9)}, {"n/s": moved(2), "n/v": moved(9)}, {}, {}, 2),
    ({"n/s": LONG, "n/v": LONG / 3}, {"n/s": moved(2)[:, :2], "n/v": moved(5) / 3}, {}, {}, 5),
    ({"n/u": LONG / 3, "n/i": LONG}, {"n/u": moved(4) / 3, "n/i": moved(6)}, {}, {}, 4),
    ({"n/i": LONG / 3}, {"n/i": moved(6) / 3}, {}, {}, 6),
    ({"n/count": LONG}, {"n/count": moved(6)}, {}, {}, 0),
    ({"n/s": LONG}, {"n/s": np.uint8(1)}, {}, {}, 0),
    ({"n/s": LONG, "n/v": LONG / 3}, {"n/v": moved(4) / 3}, {}, {}, 4),
    ({"n/v": LONG / 3}, {"n/s": LONG, "n/v": moved(4) / 3}, {}, {}, 4),
    ({"n/s": LONG}, {"n/s": moved(2)}, {"every": {"n/s": 4}, "first_step": 3}, {"every": {"n/s": 4}}, 8),
    ({"n/s": LONG, "n/v": moved(9)}, {"n/s": moved(2), "n/v": moved(9)}, {"every": {"n/v": 2}}, {}, 2),
    ({"n/s": np.uint8(1), "n/v": LONG / 3}, {"n/s": LONG, "n/v": moved(1) / 3}, {}, {}, 1),
    ({"n/s": LONG}, {"n/s": moved(2)}, {"every": {"n/s": 3}}, {"every": {"n/s": 3}}, 6),
    ({"n/s": LONG}, {"n/s": moved(2)}, {"every": {"n/s": 3}}, {"every": {"n/s": 2}}, 0),
    ({"n/s": LONG}, {"n/s": moved(2)}, {"first_step": 5}, {}, -3),
    ({"n/s": LONG}, {"n/s": moved(2)}, {"first_step": 7, "every": {"n/s": 4}}, {"every": {"n/s": 4}}, 4),
    ({"n/s": moved(32)}, {"n/s": LONG}, {}, {}, -32),
    ({"n/s": LONG[:, :0]}, {"n/s": LONG[:, :0]}, {}, {}, 0),
])  # fmt: skip
def test_latencies_are_estimated_from_the_first_variable_that_both_have(
    a: Any, b: Any, meta_a: Any, meta_b: Any, wanted: int
) -> None:
    assert node_latency(recording(a, **meta_a), recording(b, **meta_b), "n", "auto") == (wanted, "estimated")


def test_values_that_are_no_numbers_count_as_far_away() -> None:
    """Of latencies tried first the one that meets a NaN is not taken."""
    a = np.array([[5.0], [np.nan], [1.0], [2.0]])
    assert alignment.estimate_latency(a, a, by_values=True, most=2) == 0
    assert alignment.estimate_latency(a[2:], a, by_values=True, most=2) == 2
    assert alignment.estimate_latency(a[2:], np.roll(a, 1), by_values=True, most=2) == -1
    assert alignment.estimate_latency(a[2:], a[2:] + 1, by_values=False) == 0
    assert alignment.estimate_latency(LONG, moved(32)) == 32
    assert alignment.estimate_latency(LONG, np.pad(LONG, ((33, 0), (0, 0)))) != 33
    assert alignment.estimate_latency(LONG[:, :0], LONG[:, :0], by_values=True, around=3) == 3


def test_of_large_arrays_so_many_numbers_are_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    for most, every in ((1, 120), (40, 3), (59, 2), (60, 2), (61, 1), (120, 1), (10**6, 1)):
        monkeypatch.setattr(alignment, "_SAMPLED", most)
        assert alignment._sampled(LONG).tolist() == LONG[:, ::every].tolist()
    assert alignment._sampled(np.zeros((4, 0, 2))).shape == (4, 0)
