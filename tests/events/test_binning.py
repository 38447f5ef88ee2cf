"""Events per time step, against a count in a dict; what does not fit is refused with one message."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import nirbridge as nb
from nirbridge.errors import UsageError
from nirbridge.events.columns import events_of_columns
from nirbridge.events.model import EventOptions, bin_events
from nirbridge.network.model import Port
from tests.cases import cases
from tests.events.writers import random_events, table


def counted(events: Any, bin_us: Fraction, shape: tuple[int, ...], *, merge: bool = False) -> np.ndarray:
    """The oracle: one dict."""
    count = Counter((int(Fraction(t) / bin_us), 0 if merge else p, y, x) for x, y, t, p in events)
    array = np.zeros((1 + max(key[0] for key in count), 1 if merge else 2, *shape[-2:]), np.int64)
    for key, number in count.items():
        array[key] = number
    return array.reshape(len(array), *shape)


def binned(
    events: Any, shape: tuple[int, ...], dt: float | None = 1e-3, steps: int | None = None, **options: Any
) -> Any:
    given = events_of_columns(dict(events), "events", options.get("unit"))
    return bin_events(given, shape, dt, EventOptions(**options), steps=steps)


def columns(events: Any, kind: str = "<i8") -> dict[str, Any]:
    array = table(events, kind)
    return {name: array[name] for name in "xytp"}


@given(
    st.integers(0, 2**32), st.sampled_from((1e-6, 3e-6, 7e-4, 1e-3, 0.1, 1 / 3)), st.sampled_from(("<i8", "<u4", "<f8"))
)
@settings(max_examples=cases(60, 600), deadline=None)
def test_binning_is_the_count_of_a_dict(seed: int, bin_s: float, kind: str) -> None:
    events = random_events(seed, 1 + seed % 90, 5, 4, 5000)
    found = binned(columns(events, kind), (2, 4, 5), bin_s)
    expected = counted(events, Fraction(repr(bin_s)) * 10**6, (2, 4, 5))
    np.testing.assert_array_equal(found.array, expected)
    assert found.events == len(events) == int(found.array.sum())
    assert found.several == int((expected > 1).sum())


def test_merged_flat_and_one_dimensional_inputs() -> None:
    events = random_events(1, 200, 5, 4, 9000)
    for shape, options in (((4, 5), {}), ((1, 4, 5), {}), ((20,), {"sensor": (5, 4)})):
        found = binned(columns(events), shape, merge=True, **options)  # pyright: ignore[reportArgumentType]
        np.testing.assert_array_equal(
            found.array, counted(events, Fraction(1000), (1, 4, 5), merge=True).reshape(-1, *shape)
        )
    flat = binned(columns(events), (40,), sensor=(5, 4))
    np.testing.assert_array_equal(flat.array, counted(events, Fraction(1000), (2, 4, 5)).reshape(-1, 40))
    line = binned({"x": np.array([3, 3, 0]), "t": np.array([0, 5, 1500])}, (2, 2))
    assert line.array.tolist() == [[[0, 0], [0, 2]], [[1, 0], [0, 0]]]
    assert binned({"x": np.array([1]), "t": np.array([0]), "p": np.array([True])}, (2, 3)).array.tolist() == [
        [[0, 0, 0], [0, 1, 0]]
    ]


@pytest.mark.parametrize("dt", [0.1, 1e-3, 1e-4, 0.3, 7e-6])
def test_an_edge_in_floating_point_begins_a_time_step(dt: float) -> None:
    """0.3, 3 * 0.1 and 300000 * 1e-6 differ, and are all in time step 3 of 0.1 s; 1e-5 of it earlier is in 2."""
    k = np.arange(1, 3000)
    exact = [Fraction(repr(dt)) * int(n) for n in k]
    written = np.array([float(each) for each in exact])
    products, micro = k * dt, np.array([float(each * 10**6) for each in exact]) * 1e-6
    for t, earlier in ((written, 1e-5), (products, 1e-5), (micro, 1e-5), (written.astype(np.float32), 1e-2)):
        for each, shift in ((t, 0), (t - np.asarray(earlier * dt, t.dtype), 1)):
            found = binned({"x": np.zeros(2999, int), "t": each}, (1,), dt, unit="s")
            assert found.array.ravel().tolist() == [0] * (1 - shift) + [1] * 2999
    since = binned({"x": np.zeros(3000, int), "t": 1.7e9 + np.arange(3000) * 0.1}, (1,), 0.1, unit="s", origin="first")
    assert (since.array == 1).all()


def test_the_last_steps_clipping_origin_units_and_signs() -> None:
    events = {"x": np.array([0, 0, 0, 1]), "t": np.array([1000, 1001, 1999, 7000])}
    cut = binned(events, (2,), steps=3, clip=True)
    assert cut.array.tolist() == [[0, 0], [1, 0], [0, 0]]
    assert (cut.events, cut.beyond, cut.several) == (4, 1, 1)
    text = (
        "4 events in 3 time steps of 0.001 s, 1 bin with several (at most 3, counted as one), 1 event after the last "
    )
    assert cut.text == text + "time step left out"
    assert binned(events, (2,), origin="first").array.tolist() == [[3, 0], *[[0, 0]] * 5, [0, 1]]
    assert binned(events, (2,), bin=1.0, unit="ms").array.tolist() == [[0, 0], [3, 0], *[[0, 0]] * 5, [0, 1]]
    signs = {"x": np.zeros(2, int), "t": np.zeros(2, int), "p": np.array([-1, 1])}
    assert binned(signs, (2, 1)).array.tolist() == [[[1], [1]]]
    truth = {"x": np.zeros(2, bool), "t": np.array([False, True])}
    assert binned(truth, (1,), 1e-6).array.tolist() == [[1], [1]]
    many = {"x": np.zeros(300, int), "t": np.zeros(300, int)}
    assert binned(many, (1,)).array.tolist() == [[300]]


def test_huge_times_neither_allocate_nor_overflow() -> None:
    x = np.zeros(2, int)
    for last in (2**60, 2**62, 2**63 - 1):
        events = {"x": x, "t": np.array([0, last])}
        with pytest.raises(UsageError, match=r"^events: (its last event is at time step|\d[\d,]* time steps of)"):
            binned(events, (4,))
    assert binned({"x": x, "t": np.array([0, 2**40])}, (4,), steps=2).beyond == 1
    late = {"x": x, "t": np.array([2**62, 2**62 + 1500])}
    assert binned(late, (1,), origin="first").array.tolist() == [[1], [1]]
    with pytest.raises(UsageError, match="at most 100 are used"):
        bin_events(
            events_of_columns({"x": x, "t": np.array([0, 10**6])}, "e"), (1,), 1e-3, EventOptions(), max_bytes=100
        )


REFUSED = (
    (
        {"x": [5], "y": [0], "t": [0], "p": [1]},
        {},
        "1 of 1 event outside the sensor of 5 x 4, the first is event 0 at x 5, y 0",
    ),
    ({"x": [0], "y": [0], "t": [-1], "p": [1]}, {}, "t is -1 at event 0, a finite time from 0; shift the times"),
    ({"x": [0], "y": [0], "t": [np.nan], "p": [1]}, {}, "t is nan at event 0"),
    ({"x": [0], "y": [0], "t": [np.inf], "p": [1]}, {}, "t is inf at event 0"),
    ({"x": [0.5], "y": [0], "t": [0], "p": [1]}, {}, "x is 0.5 at event 0, a whole number from 0"),
    ({"x": [0], "y": [-1], "t": [0], "p": [1]}, {}, "y is -1 at event 0"),
    ({"x": [0], "y": [0], "t": [0], "p": [2]}, {}, "p is 2 at event 0, 0 and 1, or -1 and 1"),
    ({"x": [0, 0], "y": [0, 0], "t": [0, 0], "p": [-1, 0]}, {}, "p is -1 at event 0"),
    (
        {"x": [0], "y": [0], "t": [0]},
        {},
        "has events without a polarity, the input of shape \\[2, 4, 5\\] has two channels",
    ),
    ({"x": [0], "y": [0], "t": [0], "p": [1]}, {"merge": True}, "merged polarities"),
    ({"x": [0], "y": [0], "t": [0], "p": [1]}, {"sensor": (4, 5)}, "a sensor of 4 x 5 for an input of shape"),
    ({"x": [0], "y": [0], "t": [0], "p": [1]}, {"dt": None}, "the network states no dt"),
    ({"x": [0], "y": [0], "t": [0], "p": [1]}, {"bin": 0.0}, "--bin: 0, a finite number of seconds above 0"),
    ({"x": [], "y": [], "t": [], "p": []}, {}, "has no events"),
    ({"x": [0, 1], "y": [0], "t": [0], "p": [1]}, {}, "x is int64 of shape \\(2,\\)"),
    ({"x": [0], "t": 0}, {}, "t is int64 of shape \\(\\)"),
    ({"y": [0], "t": [0]}, {}, "has no column 'x', there are 'y', 't'"),
    ({"x": [0], "t": [0]}, {"unit": "h"}, "unit 'h': is not known"),
)


@pytest.mark.parametrize(("values", "options", "says"), REFUSED)
def test_what_does_not_fit_is_refused(values: dict[str, Any], options: dict[str, Any], says: str) -> None:
    arrays = {name: np.array(v, dtype=np.int64 if v in (0, []) else None) for name, v in values.items()}
    with pytest.raises(UsageError, match=says):
        binned(arrays, (2, 4, 5), **options)


def test_events_are_taken_wherever_arrays_are(tiny_events: Any) -> None:
    network, events = tiny_events
    run = nb.simulate(network, events)
    given = nb.read_events(events, network)
    again = nb.simulate(network, given)
    np.testing.assert_array_equal(run["output"], again["output"])
    plain = nb.simulate(network, given.array)
    np.testing.assert_array_equal(run["output"], plain["output"])
    assert run.meta["reading"] == given.text
    by_name = nb.simulate(network, {"input": events})
    np.testing.assert_array_equal(by_name["output"], run["output"])
    with pytest.raises(UsageError, match="axes: given with events"):
        nb.simulate(network, events, axes="time,sample")
    with pytest.raises(UsageError, match="^events: no events"):
        nb.read_events(np.zeros((3, 2)), network)
    with pytest.raises(UsageError, match=r"^events: no events, there are 'x', 't', 'pol', columns are x, y, t and p"):
        nb.read_events({name: np.zeros(3) for name in ("x", "t", "pol")}, network)


def test_an_input_of_that_name_is_an_array() -> None:
    from nirbridge import pipeline

    class Model:
        inputs, axes, dt = (Port("x", (2,)), Port("t", (2,))), (), 1e-3

    arrays = {"x": np.zeros(2), "t": np.zeros(2)}
    assert pipeline.read_inputs(Model(), arrays).reading == ""
