"""Comparison of recordings, value by value: rows, sums, decisions, notes and refusals word by word."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest

from nirbridge.comparison import distances
from nirbridge.comparison.compare import compare
from nirbridge.comparison.distances import Decisions
from nirbridge.comparison.types import Comparison, ComparisonRow, SpikeDistances
from nirbridge.errors import UsageError
from nirbridge.simulators.types import Recording

A = np.array([[1, 0], [0, 1], [1, 1], [0, 0]], np.uint8)
B = np.array([[1, 0], [1, 1], [0, 1], [0, 1]], np.uint8)


def recording(arrays: Any, **meta: Any) -> Recording:
    named = {tuple(k.split("/")) if isinstance(k, str) else k: np.asarray(v) for k, v in arrays.items()}
    return Recording(named, {"dt": 1e-3, **meta})


# -- rows ------------------------------------------------------------------------------------------------------------


def only_row(a: Any, b: Any, **options: Any) -> ComparisonRow:
    (row,) = compare(recording({"n/s": a}), recording({"n/s": b}), **options).rows
    return row


def test_a_row_is_its_numbers() -> None:
    spikes = SpikeDistances(False, 4, 5, 3, 6, 1, math.sqrt(2 * (1 - math.exp(-0.1)) + 1), 0, 0)
    row = only_row(A, B)
    assert row.spikes is not None
    assert row.spikes.van_rossum == pytest.approx(spikes.van_rossum)
    spikes = replace(spikes, van_rossum=row.spikes.van_rossum)
    assert row == ComparisonRow("n", "s", 4, 0, "given", False, 1, (0,), (0.0, 1.0), 1.0, spikes)
    assert [only_row(x, y).spikes.is_graded for x, y in ((A, B), (A / 2, B), (A, B / 2))] == [False, True, True]
    same = SpikeDistances(False, 4, 4, 4, 4, 0, 0.0, 0, 0)
    assert only_row(A, A) == ComparisonRow("n", "s", 4, 0, "given", True, largest_difference=0.0, spikes=same)


def test_events_without_a_counterpart_are_counted_on_both_sides() -> None:
    a, b = np.array([[1], [2], [4], [8], [16]], np.int16), np.array([[32], [64], [1], [2]], np.int16)
    row = only_row(a, b, latency=2)
    assert row.spikes == SpikeDistances(False, 3, 3, 3, 3, 0, 0.0, 28, 96)
    assert (row.steps, row.latency_steps, row.equal) == (2, 2, False)
    assert row.problem == "5 steps in A, 4 in B: the 2 in common were compared"
    back = only_row(b, a, latency=-2)
    assert back.spikes == SpikeDistances(False, 3, 3, 3, 3, 0, 0.0, 96, 28)


@pytest.mark.parametrize("latency", [-2, -1, 0, 1, 2])
def test_b_starts_and_stops_with_a_or_the_latency_later(latency: int) -> None:
    zeros = np.zeros((6, 1), np.uint8)
    for later, longer in product(range(-3, 4), range(-3, 4)):
        a = recording({"n/s": zeros}, first_step=10)
        b = recording({"n/s": zeros[: 6 + longer - later]} if longer <= later else
                      {"n/s": np.zeros((6 + longer - later, 1), np.uint8)}, first_step=10 + later)  # fmt: skip
        (row,) = compare(a, b, latency=latency).rows
        inside = all(min(0, latency) <= n <= max(0, latency) for n in (later, longer))
        assert row.equal == inside, (later, longer)


@pytest.mark.parametrize(("a", "b", "options", "meta", "said"), [
    (A, A[:, None], {}, {}, "shape (2,) of one time step in A, (1, 2) in B"),
    (np.uint8(1), A[:, 0], {}, {}, "shape missing of one time step in A, () in B"),
    (A[:, 0], np.uint8(1), {}, {}, "shape () of one time step in A, missing in B"),
    (np.uint8(1), A, {}, {}, "shape missing of one time step in A, (2,) in B"),
    (A, A, {"latency": 3}, {"every": {"n/s": 2}}, "a latency of 3 steps where one step in 2 was kept"),
    (A[:, 0], A[:, 0], {"latency": -4}, {}, "no step in common: 4 kept in A, 4 in B, latency -4"),
    (A, A, {"latency": -4}, {}, "no step in common: 4 kept in A, 4 in B, latency -4"),
])  # fmt: skip
def test_rows_that_can_not_be_compared(a: Any, b: Any, options: Any, meta: Any, said: str) -> None:
    (row,) = compare(recording({"n/s": a}, **meta), recording({"n/s": b}, **meta), **options).rows
    assert row == ComparisonRow("n", "s", 0, options.get("latency", 0), "given", False, problem=said)


def test_neurons_without_an_axis_are_compared_too() -> None:
    row = only_row(A[:, 0], B[:, 0])
    assert (row.first_step, row.first_neuron, row.first_values, row.problem) == (1, (), (0.0, 1.0), None)


def test_rows_with_clocks_of_their_own() -> None:
    def row(a: Any, b: Any, meta_a: Any, meta_b: Any, latency: int = 0) -> ComparisonRow:
        return compare(recording({"n/s": a}, **meta_a), recording({"n/s": b}, **meta_b), latency=latency).rows[0]

    two, three = {"every": {"n/s": 2}}, {"every": {"n/s": 3}}
    assert row(A, A, two, three).problem == "one step in 2 was kept in A, one in 3 in B"
    assert row(A, A, three, two).problem == "one step in 3 was kept in A, one in 2 in B"
    assert row(A, A, two, two, 2).problem is None
    longer = np.concatenate([np.zeros((1, 2), np.uint8), A])
    assert row(A, longer, two, two, 2).equal
    assert row(A, longer, three, three, 3).equal
    late = row(A, np.concatenate([longer, A[:1]]), three, three, 3)
    assert (late.equal, late.problem) == (False, "4 steps in A, 6 in B: the 4 in common were compared")


def test_counts_are_compared_without_steps() -> None:
    def row(a: Any, b: Any) -> ComparisonRow:
        return compare(recording({"n/count": a}), recording({"n/count": b}), latency="auto").rows[0]

    assert row([1, 2], [[1, 2]]) == ComparisonRow(
        "n", "count", 0, 0, "given", False, problem="shape (2,) in A, (1, 2) in B"
    )  # fmt: skip
    assert row([1, 2], [1, 2]) == ComparisonRow("n", "count", 0, 0, "given", True, largest_difference=0.0)
    assert row([1, 2, 9], [1, 7, 3]) == ComparisonRow("n", "count", 0, 0, "given", False, None, (1,), (2.0, 7.0), 6.0)


def test_decisions_are_of_the_steps_in_common_and_of_arrays_of_one_shape() -> None:
    def decided(a: Any, b: Any, variable: str = "s", latency: int = 0) -> Any:
        made = (recording({f"n/{variable}": x}, batch=None) for x in (a, b))
        return compare(*made, latency=latency).rows[0].decisions

    assert decided(A, B) == Decisions(1, 0)  # 2 2 and 2 3
    assert decided(A[:2], np.concatenate([[[0, 5]], A[:2]]), latency=1) == Decisions(1, 1)
    assert decided(A, B[:3]) == Decisions(1, 1)  # of three steps: 2 2 and 2 2
    assert decided([1, 2], [3, 4], "count") == Decisions(1, 1)
    assert decided([1, 2], [3, 4, 5], "count") is None
    assert decided(A, A[:, :1]) is None
    assert decided(A, B, latency=9) == Decisions(1, 0)


# -- all rows --------------------------------------------------------------------------------------------------------


def test_all_spikes_are_the_sums_of_the_rows() -> None:
    one = SpikeDistances(False, 1, 2, 3, 40, 5, 3.0, 7, 8)
    two = SpikeDistances(True, 10, 20, 30, 400, 50, 4.0, 70, 80)
    rows = [ComparisonRow("n", "s", 4, 0, "given", True, 7, spikes=x) for x in (one, two)]
    rows += [replace(rows[0], variable="v", first_step=3), replace(rows[0], spikes=None, first_step=None)]
    made = Comparison(tuple(rows), (), (), 10.0, ())
    assert made.spikes == SpikeDistances(True, 11, 22, 33, 440, 55, 5.0, 77, 88)
    assert made.spikes.jaccard == 33 / 440
    assert (made.first_step, made.equal) == (3, True)
    assert replace(made, rows=rows[2:]).spikes is None
    assert replace(made, rows=()).first_step is None
    only = (("n", "s"),)
    assert not replace(made, only_a=only).equal
    assert not replace(made, only_b=only).equal
    assert not replace(made, rows=(rows[0], replace(rows[1], equal=False))).equal
    assert one.jaccard == 3 / 40
    assert replace(one, common=0, either=0).jaccard == 1.0


def test_notes_name_six_nodes_and_count_the_others() -> None:
    def notes(count: int, asked: Any, **meta: Any) -> tuple[str, ...]:
        arrays = {f"n{k}/s": A for k in range(count)} | {"n0/v": A, "n0/count": A[0], "m/count": A[0]}
        late = {f"n{k}": 1 + k for k in range(count)}
        own = recording(arrays, latency=dict.fromkeys([*late, "m"], 0))
        stated = {"latency": {**late, "m": 9}, **meta}
        return compare(own, recording(arrays, **stated), latency=asked).notes

    six = ", ".join(f"'n{k}'" for k in range(6))
    stated = "the recordings state a different latency for"
    assert notes(6, 0) == (f"{stated} {six}: 1; 'auto' uses it",)
    assert notes(8, {"n0": 1, "n3": 4}) == (f"{stated} 'n1', 'n2', 'n4', 'n5', 'n6', 'n7': 2; 'auto' uses it",)
    assert notes(7, 0) == (f"{stated} {six} and 1 more: 1; 'auto' uses it",)
    assert notes(2, {"n0": 1, "n1": 2}) == notes(3, "auto") == ()
    best = "estimated, because the recordings do not both state it: best agreement within 32 kept steps"
    assert notes(7, "auto", latency=None) == (f"latency of {six} and 1 more {best}",)
    assert notes(11, "auto", latency={f"n{k}": 0 for k in range(9)}) == (f"latency of 'n9', 'n10' {best}",)
    silent = "the recordings do not both state dt: it is assumed to be the same"
    assert notes(1, 1, dt=None) == (silent,)


def test_rows_and_what_only_one_has_are_in_the_order_of_names() -> None:
    keys = [f"n{k}/{x}" for k in (10, 2, 1) for x in ("v", "s", "u", "i", "count")]
    own, other = [f"m{k}/s" for k in (12, 3, 20, 1)], [f"m{k}/v" for k in (7, 30, 4)]
    a, b = (recording(dict.fromkeys([*more, *keys], A)) for more in (own, other))
    found = compare(a, b)
    order = ["count", "i", "s", "u", "v"]
    assert [(r.node, r.variable) for r in found.rows] == [(f"n{k}", x) for k in (1, 2, 10) for x in order]
    assert found.only_a == tuple((f"m{k}", "s") for k in (1, 3, 12, 20))
    assert found.only_b == tuple((f"m{k}", "v") for k in (4, 7, 30))


def names(count: int) -> Any:
    return {f"n{k}/s": A for k in range(count)}


@pytest.mark.parametrize(("a", "b", "options", "said"), [
    (names(7), {}, {}, "recordings: one has 'n0'/s, 'n1'/s, 'n2'/s, 'n3'/s, 'n4'/s, 'n5'/s and 1 more, the other "
     "nothing, nothing was recorded in both; record the same nodes and variables"),
    ({"n10/v": A, "n10/s": A, "n2/s": A}, {}, {}, "recordings: one has 'n2'/s, 'n10'/s, 'n10'/v, the other nothing, "
     "nothing was recorded in both; record the same nodes and variables"),
    (names(9), names(9), {"latency": {f"{k}{k}": 0 for k in "zyxw"}}, "\n".join(
        f"latency: node '{k}{k}', not recorded in both; recorded: 'n0', 'n1', 'n2', 'n3', 'n4', 'n5', 'n6', 'n7'"
        for k in "wxyz")),
    (names(6), {"m/s": A}, {}, "recordings: one has 'n0'/s, 'n1'/s, 'n2'/s, 'n3'/s, 'n4'/s, 'n5'/s, the other 'm'/s, "
     "nothing was recorded in both; record the same nodes and variables"),
    (names(9), names(9), {"latency": {"n": 1}}, "latency: node 'n', not recorded in both; did you mean 'n8'?"),
    (names(9), names(9), {"latency": {"zz": 1, "n1": 2.5}}, "latency: node 'zz', not recorded in both; recorded: "
     "'n0', 'n1', 'n2', 'n3', 'n4', 'n5', 'n6', 'n7'\nlatency: '2.5', whole time steps; give one, or 'auto'"),
    (names(1), names(1), {"latency": False}, "latency: 'False', whole time steps; give one, or 'auto'"),
])  # fmt: skip
def test_refusals_in_their_words(a: Any, b: Any, options: Any, said: str) -> None:
    with pytest.raises(UsageError) as caught:
        compare(recording(a), recording(b), **options)
    assert str(caught.value) == said


def test_differences_are_measured_to_the_last_value() -> None:
    a, b = np.array([[1.0, np.nan], [np.inf, 2.0]]), np.array([[1.0, np.nan], [np.inf, 2.5]])
    assert distances.largest_difference(a, b) == 0.5
    assert distances.largest_difference(a, -b) == math.inf
    assert math.isnan(distances.largest_difference(a, np.nan_to_num(b, posinf=np.nan)))
    assert distances.first_difference(np.float64(1), np.float64(2)) == ()
    assert distances.first_difference(np.zeros((3, 2, 2)), np.eye(3)[:, :2, None] * np.ones(2)) == (0, 0, 0)
