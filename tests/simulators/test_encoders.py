"""Encoders: the spikes sent, which depend on values and seed alone."""

from __future__ import annotations

import numpy as np
import pytest

from nirbridge.errors import UsageError
from nirbridge.simulators.encoders import delta, latency, rate, rate_stream


def test_rate_is_seeded_and_as_frequent_as_asked() -> None:
    values = np.array([0.0, 0.2, 0.7, 1.0])
    found = rate(values, 4000, seed=3)
    assert found.dtype == np.uint8
    assert np.abs(found.mean(axis=0) - values).max() < 0.03
    assert found[:, 0].sum() == 0
    assert found[:, 3].all()
    assert np.array_equal(found, rate(values, 4000, seed=3))
    assert not np.array_equal(found, rate(values, 4000, seed=4))


def test_rate_as_a_stream_does_not_depend_on_the_cut() -> None:
    stream = rate_stream(np.full((2, 3), 0.5), seed=1)
    assert np.array_equal(rate_stream([0.5] * 9)(0, 50), rate([0.5] * 9, 50))
    assert np.array_equal(rate([0.5] * 9, 50), rate([0.5] * 9, 50, seed=0))
    pieces = [stream(0, 5), stream(5, 6), stream(6, 20)]
    assert np.array_equal(np.concatenate(pieces), rate(np.full((2, 3), 0.5), 20, seed=1))


def test_latency_sends_once_and_the_larger_the_earlier() -> None:
    found = latency([1.0, 0.5, 0.0, 1e-9], 11)
    assert [list(np.flatnonzero(column)) for column in found.T] == [[0], [5], [], [10]]


def test_delta_sends_moves_and_can_be_summed_back() -> None:
    signal = np.array([0.0, 0.4, 1.1, 1.2, 3.4, 3.4, 3.4, 0.0, 0.0])
    found = delta(signal, 1.0)
    assert found.tolist() == [0, 0, 1, 0, 1, 1, 0, -1, -1]
    slow = np.sin(np.linspace(0, 9, 400)) * 2
    assert np.abs(np.cumsum(delta(slow, 0.1)) * 0.1 + slow[0] - slow).max() < 0.1 + 1e-9


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: rate([0.5, 1.2, 0.1], 3),
            "^encoder rate: values outside 0 to 1, 0 is never, 1 always or at once; scale them$",
        ),
        (lambda: rate([np.nan], 3), "^encoder rate: values outside 0 to 1"),
        (lambda: rate([0.2], 0), "^encoder: 0 steps, at least 1; give more$"),
        (lambda: rate([0.2], 3, seed=-1), "^encoder rate: a seed of -1, "),
        (lambda: latency([-0.1], 3), "^encoder latency: values outside 0 to 1"),
        (lambda: delta([0.0, np.inf], 1.0), "^encoder delta: a signal of shape "),
        (lambda: delta([0.0, 1.0], 0.0), "^encoder delta: a threshold of 0, above 0; raise it$"),
    ],
)
def test_nonsense_is_refused(call: object, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        call()  # type: ignore[operator]
