"""Groups, delay lines, costs, decisions and encoders of small cases, each against its definition."""

from __future__ import annotations

from itertools import combinations, product
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from nirbridge.comparison.distances import Decisions, checked_labels, compare_decisions, deciding_outputs
from nirbridge.errors import ModelError, UsageError
from nirbridge.network.graph import population_groups
from nirbridge.simulators import checks
from nirbridge.simulators.compiled import dense_layer
from nirbridge.simulators.encoders import delta, latency, rate_stream
from nirbridge.simulators.reference import state as delays
from tests.quantization.nets import layer, lif

NAMES = ("a", "b", "c")
PAIRS = tuple(product(NAMES, NAMES))
EVERY_GRAPH = [edges for count in range(5) for edges in combinations(PAIRS, count)]


def test_groups_of_every_small_graph() -> None:
    """Two are in one group if each is heard by the other; each group comes after those that it hears."""
    for edges in EVERY_GRAPH:
        reach = {n: {n} for n in NAMES}
        for _ in NAMES:
            for a, b in edges:
                for seen in reach.values():
                    if a in seen:
                        seen.add(b)
        network: Any = SimpleNamespace(
            populations=tuple(SimpleNamespace(name=n) for n in NAMES),
            projections=[SimpleNamespace(source=a, target=b) for a, b in (*edges, ("in", "a"), ("b", "out"))],
        )
        found = [tuple(p.name for p in g.populations) for g in population_groups(network)]
        wanted = {tuple(m for m in NAMES if m in reach[n] and n in reach[m]) for n in NAMES}
        assert sorted(found) == sorted(wanted)
        place = {n: k for k, members in enumerate(found) for n in members}
        assert all(place[a] <= place[b] for a, b in edges)
        for g in population_groups(network):
            names = {p.name for p in g.populations}
            assert g.has_cycle == any(a in names and b in names for a, b in edges)


SPACE: Any = SimpleNamespace(xp=np, booleans=lambda x: np.asarray(x, bool))


@pytest.mark.parametrize("cuts", [(6,), (1, 5), (2, 2, 2), (1, 1, 4)])
@pytest.mark.parametrize("late", [(0, 0), (2, 2), (3, 3), (0, 3), (2, 1)])
def test_a_delay_line_gives_what_was_sent(cuts: tuple[int, ...], late: tuple[int, int]) -> None:
    sent = np.arange(1, 19).reshape(9, 1, 2)
    line = delays.SpikeHistory(SPACE, sent[:3])
    at = 3
    for steps in cuts:
        line.add(sent[at : at + steps])
        at += steps
    delay = delays.Delay(np.array(late), SPACE)
    assert (delay.longest, delay.uniform) == (max(late), late[0] if late[0] == late[1] else None)
    for start in range(6):
        for stop in range(start + 1, 7):
            wanted = np.stack([sent[3 + start - d : 3 + stop - d, :, k] for k, d in enumerate(late)], axis=-1)
            assert line.window(start, stop, delay).tolist() == wanted.tolist()
    assert line.close().tolist() == sent[6:].tolist()
    line.add(sent[:1])
    assert line.window(0, 1, delays.Delay(np.array(1), SPACE)).tolist() == sent[8:].tolist()


def held(depth: int, late: int, batch: int) -> None:
    sources = [SimpleNamespace(name="in", shape=(4,)), SimpleNamespace(name="p", shape=(2, 3))]
    ways = [
        SimpleNamespace(source="in", target="p", delay_steps=np.array([1, 2]), target_delay_steps=np.array([0, late]),
                        operator=SimpleNamespace(output_shape=(2, 3))),
        SimpleNamespace(source="p", target="q", delay_steps=np.array([0, depth]), target_delay_steps=np.array(0),
                        operator=SimpleNamespace(output_shape=(5,))),
        SimpleNamespace(source="p", target="q", delay_steps=np.array(1), target_delay_steps=np.array(0),
                        operator=SimpleNamespace(output_shape=(5,))),
    ]  # fmt: skip
    delays.check_history(sources, ways, batch)


def test_values_of_past_steps_are_counted_to_the_last(monkeypatch: pytest.MonkeyPatch) -> None:
    total = 7 * (6 * 3 + 4 * 2 + 6 * 9)
    monkeypatch.setattr(delays, "HELD_MAX", total)
    held(9, 3, 7)
    monkeypatch.setattr(delays, "HELD_MAX", total - 1)
    limit = f"at most {total - 1:,} are held; {delays.SECONDS}"
    with pytest.raises(ModelError) as caught:
        held(9, 3, 7)
    found = "with a delay of 9 time steps, 560 values of past steps are held (batch 7)"
    assert str(caught.value) == f"projection 'p' -> 'q': {found}, {limit}"
    with pytest.raises(ModelError, match="^projection 'in' -> 'p': with a delay of 42 time steps"):
        held(9, 40, 7)


def test_predicted_costs_are_the_fitted_ones() -> None:
    assert dense_layer.event_coefficients(10, 100, 200) == pytest.approx((10 * (34 + 24 + 80), 0.75 + 5.52))
    assert dense_layer.product_ns(10, 100, 200) == pytest.approx(10 * (8 + 24.4 + 380))


@pytest.mark.parametrize("most", [0, 3, 40, 50])
def test_the_grid_is_the_coarsest_that_holds_all(most: int) -> None:
    for values in ([0.5], [0.75, 4.0], [1.0], [8.0], [0.125, 3.0], [0.1], [2.0**-40], [2.0**-41]):
        wanted = next((k for k in range(min(most, 40) + 1) if all((v * 2.0**k) % 1 == 0 for v in values)), None)
        assert dense_layer._grid(np.array(values), most) == wanted


@pytest.mark.parametrize(("theta", "count", "line"), [
    (1e-9, 2, None), (0.0, 1, None), (None, 3, None),
    ([1.0, 0.0, 2.0], 2, "up to 2 spikes per time step, and a threshold of 0"),
    ([1.0, -0.5, 2.0], 1_000, "up to 1,000 spikes per time step, and a threshold of -0.5"),
])  # fmt: skip
def test_spikes_are_counted_in_thresholds_above_0(theta: Any, count: int, line: str | None) -> None:
    cell = lif(theta=theta, max_spikes=count, reset="subtract" if theta is not None else "none")
    net = layer(np.ones((3, 2)), cell)
    if line is None:
        checks.check_neurons(net)
        return
    limit = "several spikes per time step need a threshold above 0; raise it, or set max_spikes to 1"
    with pytest.raises(ModelError) as caught:
        checks.check_neurons(net)
    assert str(caught.value) == f"population 'p': {line}, {limit}"


def test_versions_are_those_that_ran() -> None:
    assert list(checks.versions("numpy")) == ["nirbridge", "numpy", "scipy"]
    assert checks.versions("numpy")["numpy"] == np.__version__


# -- decisions -------------------------------------------------------------------------------------------------------


def recording(arrays: Any, **meta: Any) -> Any:
    return SimpleNamespace(arrays=arrays, meta=meta)


def test_samples_are_decided_by_the_most_and_ties_by_the_lower_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nirbridge.comparison.distances.has_batch", lambda r: r.meta.get("batched"))
    a = np.array([[2, 2, 0], [0, 1, 5], [0, 0, 0], [1, 0, 0]])
    b = np.array([[0, 3, 0], [0, 1, 5], [0, 0, 1], [2, 1, 0]])
    both = recording({}, batched=True), recording({}, batched=True)
    found = compare_decisions(("o", "count"), (a, b), both, np.array([0, 2, 2, 1]))
    assert found == Decisions(4, 2, 2, 2)
    assert (found.agreement, found.accuracy_a, found.accuracy_b) == (0.5, 0.5, 0.5)
    assert compare_decisions(("o", "count"), (a, b), both, None) == Decisions(4, 2)
    assert compare_decisions(("o", "s"), (a[:, None], b[:, None]), both, None) == Decisions(1, 1)  # 3 3 5, 2 5 6
    unsaid = recording({}), recording({})
    assert compare_decisions(("o", "s"), (a, b), unsaid, None) == Decisions(1, 1)
    assert compare_decisions(("o", "count"), (a, b), unsaid, np.array([0, 2, 2, 1])) == found
    assert compare_decisions(("o", "s"), (a, b), (recording({}), recording({}, batched=True)), None) is None
    assert compare_decisions(("o", "s"), (a[:, :1], b[:, :1]), unsaid, None) is None
    assert compare_decisions(("o", "v"), (a[:, :2] * 0.25, a[:, :2] * -0.25), unsaid, None) == Decisions(1, 1)
    assert compare_decisions(("o", "v"), (a[:, 1:] * 0.25, a[:, 1:] * -0.25), unsaid, None) == Decisions(1, 0)
    reals = np.array([[0.5, 0.25], [0.25, 0.75]])  # sums of 0.75 and 1
    assert compare_decisions(("o", "v"), (reals, reals[::-1]), unsaid, np.array(1)) == Decisions(1, 1, 1, 1)
    assert compare_decisions(("o", "count"), (a[:0], b[:0]), both, np.array([], int)) == Decisions(0, 0, 0, 0)
    for few, key in ((a[:, 0], "s"), (a[0, 0], "s"), (a[0], "s"), (a[0], "count")):
        assert compare_decisions(("o", key), (few, few), both, None) is None
    assert compare_decisions(("o", "count"), (a[0, 0], a[0, 0]), unsaid, None) is None
    assert compare_decisions(("o", "s"), (a[:, 0], a[:, 0]), unsaid, None) is None
    assert (Decisions(0, 0, 0, 0).agreement, Decisions(0, 0, 0, 0).accuracy_a) == (1.0, None)
    assert Decisions(3, 1).accuracy_b is None


@pytest.mark.parametrize(("labels", "line"), [
    ([0, 1, 2], "3 labels, the recordings have 2 samples"),
    ([0], "1 label, the recordings have 2 samples"),
    ([0, -1], "a label of -1, classes are 0 to 2; give the index of the correct neuron"),
    ([3, 0], "a label of 3, classes are 0 to 2; give the index of the correct neuron"),
    ([-1, 3], "a label of -1, classes are 0 to 2; give the index of the correct neuron"),
])  # fmt: skip
def test_labels_that_belong_to_no_sample_or_class(labels: list[int], line: str) -> None:
    a = np.zeros((2, 3), int)
    unsaid = recording({}), recording({})
    assert compare_decisions(("o", "count"), (a, a), unsaid, np.array([0, 2])) == Decisions(2, 2, 1, 1)
    with pytest.raises(UsageError) as caught:
        compare_decisions(("o", "count"), (a, a), unsaid, np.array(labels))
    assert str(caught.value) == f"labels of 'o': {line}"


def test_labels_are_whole_numbers_on_one_axis_or_none() -> None:
    assert checked_labels(3).shape == ()
    assert checked_labels([1, 2]).tolist() == [1, 2]
    for wrong, said in (([0.5], r"float64 of shape \(1,\)"), ([[1]], r"int64 of shape \(1, 1\)"), (True, "bool of")):
        with pytest.raises(
            UsageError, match=f"^labels: {said}.*, whole numbers, one per sample; give the class of each"
        ):
            checked_labels(wrong)


@pytest.mark.parametrize(("meta", "other", "wanted"), [
    ({"batched": True}, {}, [("a", "count"), ("b", "s"), ("c", "v")]),
    ({"batched": False, "outputs": ["b"]}, {"outputs": ["c", 3]}, [("b", "s"), ("c", "v")]),
    ({"batched": False, "latency": {"a": 1}}, {}, [("a", "count")]),
    ({"batched": False, "outputs": [["a"], "b"]}, {}, [("b", "s")]),
    ({"batched": False, "outputs": ["b"], "latency": {"a": 1}}, {}, [("b", "s")]),
    ({}, {}, []),
])  # fmt: skip
def test_outputs_are_decided_by_the_first_variable_of_both(
    meta: Any, other: Any, wanted: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nirbridge.comparison.distances.has_batch", lambda r: r.meta.get("batched"))
    x = recording(dict.fromkeys([("c", "v"), ("b", "v"), ("b", "s"), ("a", "count"), ("a", "s"), ("d", "u")]), **meta)
    y = recording(dict.fromkeys([("c", "v"), ("b", "v"), ("b", "s"), ("a", "count"), ("d", "u"), ("e", "s")]), **other)
    assert list(deciding_outputs(x, y, labels=False)) == wanted
    assert bool(deciding_outputs(x, y, labels=True))


# -- encoders --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("steps", [1, 2, 5, 8])
def test_latency_of_every_strength(steps: int) -> None:
    values = np.linspace(0, 1, 33)
    found = latency(values, steps)
    assert (found.shape, found.dtype) == ((steps, 33), np.uint8)
    for k, x in enumerate(values):
        wanted = [] if x == 0 else [round((1 - x) * (steps - 1))]
        assert np.flatnonzero(found[:, k]).tolist() == wanted


def test_a_move_of_a_whole_threshold_is_sent_and_less_is_not() -> None:
    assert delta([0.0, 0.5, 0.5, 0.0], 0.5).tolist() == [0, 1, 0, -1]
    assert delta([0.0, 0.49, -0.49], 0.5).tolist() == [0, 0, 0]
    assert delta(np.array([[1.0, 2.0], [2.0, 0.0], [2.0, 0.0]]), 1.0).tolist() == [[0, 0], [1, -1], [0, -1]]
    with pytest.raises(UsageError, match=r"^encoder delta: a signal of shape \(\), finite numbers, one step or more$"):
        delta(1.0, 1.0)
    with pytest.raises(UsageError, match=r"^encoder delta: a signal of shape \(0, 2\), finite"):
        delta(np.zeros((0, 2)), 1.0)


def test_seeds_have_64_bits() -> None:
    assert rate_stream([1.0], seed=2**64 - 1)(5, 7).tolist() == [[1], [1]]
    for seed in (-1, 2**64):
        with pytest.raises(UsageError, match=rf"^encoder rate: a seed of {seed}, 0 to 2\*\*64 - 1; choose another$"):
            rate_stream([1.0], seed=seed)
