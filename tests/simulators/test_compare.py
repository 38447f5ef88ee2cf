"""Comparison of handmade recordings."""

from __future__ import annotations

import json
import math
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from rich.console import Console

from nirbridge.cli.output import to_json
from nirbridge.comparison.compare import compare
from nirbridge.comparison.distances import Decisions, RecordedSteps, align_steps, estimate_latency, recorded_steps
from nirbridge.errors import UsageError
from nirbridge.report.compare import compare_document, compare_text, comparison_verdict
from nirbridge.simulators.types import Recording

HOSTILE = "[bold red]x[/]\x1b[31m\n\u202e$\\frac{$" + "y" * 100
SPIKES = hnp.arrays(np.uint8, (8, 3), elements=st.integers(0, 1))


def recording(arrays: dict[tuple[str, str], Any], **meta: Any) -> Recording:
    return Recording(MappingProxyType({k: np.asarray(v) for k, v in arrays.items()}), {"dt": 1e-3, **meta})


def spikes(array: Any, node: str = "fc", **meta: Any) -> Recording:
    return recording({(node, "s"): np.asarray(array)}, **meta)


def later(array: np.ndarray, steps: int) -> np.ndarray:
    """The same, ``steps`` later, as long as before."""
    return np.concatenate([np.zeros((steps, *array.shape[1:]), array.dtype), array])[: len(array)]


def rendered(comparison: Any) -> str:
    console = Console(width=120, color_system=None, markup=False, emoji=False, highlight=False)
    with console.capture() as captured:
        console.print(compare_text(comparison))
    return captured.get()


A = np.array([[1, 0], [0, 1], [1, 1], [0, 0]], np.uint8)
B = np.array([[1, 0], [1, 1], [0, 1], [0, 1]], np.uint8)


def test_one_row_by_hand() -> None:
    found = compare(spikes(A), spikes(B))
    (row,) = found.rows
    assert (row.node, row.variable, row.steps, row.latency_steps, row.latency_source) == ("fc", "s", 4, 0, "given")
    assert (row.equal, row.first_step, row.first_neuron, row.first_values) == (False, 1, (0,), (0.0, 1.0))
    assert row.largest_difference == 1.0
    assert row.spikes is not None
    assert (row.spikes.spikes_a, row.spikes.spikes_b, row.spikes.count_error) == (4, 5, 1)
    assert row.spikes.jaccard == 0.5
    # Neuron 0: a spike one step early; neuron 1: one spike more.
    assert row.spikes.van_rossum == pytest.approx(math.sqrt(2 * (1 - math.exp(-0.1)) + 1))
    assert not found.equal
    assert found.first_step == 1


def test_equal_whatever_the_dtype() -> None:
    found = compare(spikes(A), spikes(A.astype(np.float32)))
    assert found.equal
    assert found.rows[0].spikes is not None
    assert (found.rows[0].spikes.jaccard, found.rows[0].spikes.van_rossum) == (1.0, 0.0)
    assert found.first_step is None
    assert comparison_verdict(found) == "equal: every value of 1 recorded variable"


def test_overall_adds_the_rows_up() -> None:
    a = recording({("x", "s"): A, ("y", "s"): A[:, :1], ("y", "v"): A * 0.5})
    b = recording({("x", "s"): B, ("y", "s"): A[:, :1], ("y", "v"): A * 0.5})
    found = compare(a, b)
    assert [(r.node, r.variable, r.equal) for r in found.rows] == [
        ("x", "s", False),
        ("y", "s", True),
        ("y", "v", True),
    ]
    assert found.spikes is not None
    assert (found.spikes.common, found.spikes.either, found.spikes.count_error) == (3 + 2, 6 + 2, 1)
    assert found.spikes.van_rossum == found.rows[0].spikes.van_rossum  # type: ignore[union-attr]
    assert rendered(found).splitlines()[4].split()[:5] == ["(all)", "s", "no", "1", "0.6250"]


def test_the_verdict_says_where_only_potentials_differ() -> None:
    a, b = (recording({("x", "s"): A, ("x", "v"): A * factor}) for factor in (1.0, 0.5))
    assert (
        comparison_verdict(compare(a, b))
        == "not equal: 1 of 2 variables differs, first at time step 0; all spikes are equal"
    )


def test_names_are_in_natural_order() -> None:
    many = recording({(f"fc{n}", "s"): A for n in (10, 2, 1)})
    assert [row.node for row in compare(many, many).rows] == ["fc1", "fc2", "fc10"]


# -- latency -----------------------------------------------------------------------------------------------------


def test_a_known_latency_makes_them_equal_and_is_used_for_every_distance() -> None:
    a, b = spikes(A), spikes(later(A, 2))
    assert not compare(a, b).equal
    found = compare(a, b, latency=2)
    assert found.equal
    assert found.rows[0].steps == 2
    assert found.rows[0].spikes is not None
    assert (found.rows[0].spikes.outside_a, found.rows[0].spikes.outside_b) == (2, 0)
    assert compare(b, a, latency=-2).equal
    assert "spikes in time steps without a counterpart are not compared: 2 in A, 0 in B" in rendered(found)


def test_the_first_step_is_as_a_numbers_it() -> None:
    a, b = later(A, 1), A.copy()
    b[1, 0] = 1
    assert compare(spikes(a), spikes(b), latency=-1).first_step == 2


def test_b_may_run_on_for_the_latency_and_no_longer() -> None:
    longer = np.concatenate([np.zeros((2, 2), np.uint8), A])
    assert compare(spikes(A), spikes(longer), latency=2).equal
    assert compare(spikes(A), spikes(longer[:5]), latency=2).equal
    for steps in (3, 7):
        b = np.concatenate([longer, A])[:steps]
        found = compare(spikes(A), spikes(b), latency=2)
        assert not found.equal
        assert found.first_step is None
        common = min(4, steps - 2)
        assert found.rows[0].problem == f"4 steps in A, {steps} in B: the {common} in common were compared"


def test_auto_uses_what_both_state() -> None:
    a, b = spikes(later(A, 1), latency={"fc": 1}), spikes(later(A, 3), latency={"fc": 3})
    found = compare(a, b, latency="auto")
    assert (found.rows[0].latency_steps, found.rows[0].latency_source) == (2, "stored")
    assert found.equal
    assert found.notes == ()
    assert compare(a, b).notes == ("the recordings state a different latency for 'fc': 2; 'auto' uses it",)


def test_auto_does_not_estimate_what_is_stated() -> None:
    """The best fit would be 2; the recordings say 0, so they differ."""
    a, b = spikes(A, latency={"fc": 0}), spikes(later(A, 2), latency={"fc": 0})
    found = compare(a, b, latency="auto")
    assert (found.rows[0].latency_steps, found.equal) == (0, False)


def test_auto_says_what_it_estimated() -> None:
    rng = np.random.default_rng(1)
    a = (rng.random((60, 5)) < 0.2).astype(np.uint8)
    found = compare(spikes(a, latency={"fc": 0}), spikes(later(a, 7)), latency="auto")
    assert (found.rows[0].latency_steps, found.rows[0].latency_source) == (7, "estimated")
    assert found.equal
    assert found.notes == (
        "latency of 'fc' estimated, because the recordings do not both state it: best agreement within 32 kept steps",
    )
    assert "7 est." in rendered(found)


def test_potentials_of_a_node_are_shifted_with_its_spikes() -> None:
    rng = np.random.default_rng(2)
    s, v = (rng.random((40, 3)) < 0.3).astype(np.uint8), rng.random((40, 3)).astype(np.float32)
    a = recording({("n", "s"): s, ("n", "v"): v, ("out", "v"): v})
    b = recording({("n", "s"): later(s, 3), ("n", "v"): later(v, 3), ("out", "v"): later(v, 5)})
    found = compare(a, b, latency="auto")
    assert [(r.node, r.variable, r.latency_steps) for r in found.rows] == [
        ("n", "s", 3),
        ("n", "v", 3),
        ("out", "v", 5),
    ]
    assert found.equal


def test_a_latency_for_each_node() -> None:
    a = recording({("x", "s"): A, ("y", "s"): A})
    b = recording({("x", "s"): A, ("y", "s"): later(A, 1)})
    assert compare(a, b, latency={"y": 1}).equal
    with pytest.raises(UsageError, match="^latency: node 'yy', not recorded in both; did you mean 'y'\\?$"):
        compare(a, b, latency={"yy": 1})


@pytest.mark.parametrize("latency", ["automatic", 1.5, True, {"fc": "1"}])
def test_a_latency_is_whole_steps(latency: Any) -> None:
    with pytest.raises(UsageError, match="^latency: .*, whole time steps; give one, or 'auto'$"):
        compare(spikes(A), spikes(A), latency=latency)


def test_a_stored_latency_must_be_whole_steps() -> None:
    with pytest.raises(
        UsageError, match="^latency of 'fc' in the recording's meta: 'soon', whole time steps; simulate"
    ):
        compare(spikes(A, latency={"fc": "soon"}), spikes(A), latency="auto")


def test_no_step_in_common() -> None:
    found = compare(spikes(A), spikes(A), latency=4)
    assert found.rows[0].problem == "no step in common: 4 kept in A, 4 in B, latency 4"
    assert not found.equal


@given(SPIKES, st.integers(0, 4), st.integers(0, 1))
def test_a_shifted_recording_is_equal_at_its_latency(a: np.ndarray, steps: int, way: int) -> None:
    pair_of = (spikes(a), spikes(later(a, steps)))
    assert compare(*(pair_of[::-1] if way else pair_of), latency=-steps if way else steps).equal


@given(SPIKES, SPIKES)
def test_the_other_way_round_the_distances_are_the_same(a: np.ndarray, b: np.ndarray) -> None:
    one, other = compare(spikes(a), spikes(b), latency=1), compare(spikes(b), spikes(a), latency=-1)
    assert one.equal == other.equal == bool((a[:-1] == b[1:]).all())
    assert one.spikes is not None
    assert other.spikes is not None
    assert one.spikes.jaccard == other.spikes.jaccard
    assert (one.spikes.outside_a, one.spikes.outside_b) == (other.spikes.outside_b, other.spikes.outside_a)


@given(SPIKES, st.integers(-3, 3))
def test_the_estimate_is_never_worse_than_the_truth(a: np.ndarray, steps: int) -> None:
    b = later(a, steps) if steps >= 0 else np.concatenate([a[-steps:], np.zeros((-steps, 3), np.uint8)])
    found = estimate_latency(a, b)

    def common(latency: int) -> int:
        p = align_steps(8, 8, latency, RecordedSteps(), RecordedSteps())
        return 0 if p is None else int((a[p.in_a] & b[p.in_b]).sum())

    assert common(found) >= common(steps)


def test_silence_is_estimated_as_no_latency() -> None:
    silent = np.zeros((5, 2), np.uint8)
    assert estimate_latency(silent, silent) == 0
    assert estimate_latency(silent[:0], silent) == 0
    assert estimate_latency(silent * 1.0, silent * 1.0, by_values=True) == 0


# -- steps that were kept ----------------------------------------------------------------------------------------


def test_steps_are_those_of_the_simulation() -> None:
    """One step in three is kept: 2, 5, 8, 11; a run that starts at step 4 keeps 5, 8, 11."""
    assert recorded_steps(spikes(A, every={"fc/s": 3}), ("fc", "s")) == RecordedSteps(2, 3)
    assert recorded_steps(spikes(A, every={"fc/s": 3}, first_step=4), ("fc", "s")) == RecordedSteps(5, 3)
    assert recorded_steps(spikes(A, every={"fc/s": 3}, first_step=5), ("fc", "s")) == RecordedSteps(5, 3)
    assert recorded_steps(spikes(A, every={"fc/v": 3}, first_step=4), ("fc", "s")) == RecordedSteps(4, 1)
    found = compare(spikes(A, every={"fc/s": 3}), spikes(B, every={"fc/s": 3}))
    assert found.first_step == 5


def test_a_latency_between_kept_steps_can_not_be_compared() -> None:
    a, b = (spikes(x, every={"fc/s": 3}) for x in (A, later(A, 1)))
    assert compare(a, b, latency=3).equal
    assert compare(a, b, latency="auto").rows[0].latency_steps == 3
    assert compare(a, b, latency=2).rows[0].problem == "a latency of 2 steps where one step in 3 was kept"
    assert compare(a, spikes(A)).rows[0].problem == "one step in 3 was kept in A, one in 1 in B"


def test_a_run_that_starts_later_is_paired_by_its_steps() -> None:
    found = compare(spikes(A), spikes(A[1:], first_step=1))
    assert found.rows[0].first_step is None
    assert found.rows[0].steps == 3
    assert found.rows[0].problem == "4 steps in A, 3 in B: the 3 in common were compared"
    assert compare(spikes(A), spikes(A, first_step=2), latency=2).equal
    assert compare(spikes(A), spikes(A, first_step=2), latency="auto").equal


@pytest.mark.parametrize("meta", [{"every": {"fc/s": 0}}, {"every": {"fc/s": 1.5}}, {"first_step": -1}])
def test_meta_that_is_no_number_of_steps(meta: dict[str, Any]) -> None:
    with pytest.raises(
        UsageError, match="in the recording's meta: '[-0-9.]+', whole time steps, [01] or more; simulate"
    ):
        compare(spikes(A, **meta), spikes(A))


# -- what is not alike -------------------------------------------------------------------------------------------


def test_nodes_of_one_recording_only_are_listed_and_a_difference() -> None:
    found = compare(recording({("x", "s"): A, ("y", "s"): A}), recording({("x", "s"): A, ("x", "v"): A}))
    assert (found.only_a, found.only_b) == ((("y", "s"),), (("x", "v"),))
    assert not found.equal
    assert comparison_verdict(found) == "not equal: 2 more recorded in only one of the two recordings"
    assert "recorded only in A: y/s" in rendered(found)


def test_nothing_in_common_is_an_error_and_so_is_another_dt() -> None:
    with pytest.raises(UsageError) as caught:
        compare(spikes(A, "x"), Recording({("y", "s"): A}, {"dt": 2e-3}))
    assert str(caught.value).splitlines() == [
        "recordings: one has 'x'/s, the other 'y'/s, nothing was recorded in both; record the same nodes and variables",
        "recordings: dt 0.001 s in one and 0.002 s in the other, their time steps differ; "
        "simulate both with the same --dt",
    ]


def test_a_dt_that_is_not_stated_is_said() -> None:
    found = compare(spikes(A), Recording({("fc", "s"): A}, {}))
    assert found.equal
    assert found.notes == ("the recordings do not both state dt: it is assumed to be the same",)


def test_another_shape_is_a_row_with_a_problem() -> None:
    found = compare(spikes(A), spikes(A[:, None, :]))
    assert found.rows[0].problem == "shape (2,) of one time step in A, (1, 2) in B"
    assert not found.equal
    assert found.spikes is None
    assert "fc/s: shape (2,) of one time step in A, (1, 2) in B" in rendered(found)


@pytest.mark.parametrize("latency", [0, "auto"])
def test_an_array_without_steps_is_a_row_with_a_problem(latency: Any) -> None:
    found = compare(spikes([1, 0, 1]), spikes(1), latency=latency)
    assert found.rows[0].problem == "shape () of one time step in A, missing in B"


# -- graded, several spikes, batches, counts ---------------------------------------------------------------------


def test_several_spikes_and_graded_values() -> None:
    a = recording({("m", "s"): np.array([[3, 0]], np.int16), ("g", "s"): np.array([[0.5, 0.0]])})
    b = recording({("m", "s"): np.array([[1, 2]], np.int16), ("g", "s"): np.array([[0.25, 0.0]])})
    graded, several = compare(a, b).rows
    assert several.spikes is not None
    assert graded.spikes is not None
    assert (several.spikes.jaccard, several.spikes.count_error) == (1 / 5, 4)
    assert (graded.spikes.is_graded, graded.spikes.jaccard, graded.equal) == (True, 1.0, False)
    assert graded.spikes.van_rossum == 0.25
    assert graded.largest_difference == 0.25


def test_not_a_number_equals_itself_and_has_no_place_in_json() -> None:
    v = np.array([[np.nan, 1.0]])
    assert compare(recording({("n", "v"): v}), recording({("n", "v"): v})).equal
    found = compare(recording({("n", "v"): v}), recording({("n", "v"): v[:, ::-1]}))
    row = json.loads(to_json(compare_document(found)))["rows"][0]
    assert (row["first_values"], row["largest_difference"]) == ([None, 1.0], None)


def test_counts_have_no_steps() -> None:
    a, b = (recording({("n", "count"): np.array([[4, 2], [0, 7]])}, batch=2) for _ in range(2))
    assert compare(a, b, latency=5).equal
    c = recording({("n", "count"): np.array([[4, 2], [0, 5]])}, batch=2)
    (row,) = compare(a, c).rows
    assert (row.equal, row.first_step, row.first_neuron, row.largest_difference) == (False, None, (1,), 2.0)
    assert row.first_sample == 1
    assert comparison_verdict(compare(a, c)) == "not equal: 1 of 1 variable differs"
    assert "n/count: first differs at sample 1, neuron (1): 7 in A, 5 in B" in rendered(compare(a, c))


def test_decisions_of_a_batch() -> None:
    """Counts of A: [2, 1], [1, 1], [0, 1]; of B: [2, 1], [0, 1], [0, 1]; a tie goes to class 0."""
    a = np.zeros((3, 3, 2), np.uint8)
    a[:2, 0, 0] = a[0, 0, 1] = a[1, 1] = a[2, 2, 1] = 1
    b = a.copy()
    b[1, 1, 0] = 0
    pair_of = spikes(a, batch=3), spikes(b, batch=3)
    assert compare(*pair_of).rows[0].decisions == Decisions(3, 2)
    found = compare(*pair_of, labels=[0, 0, 0]).rows[0].decisions
    assert found == Decisions(3, 2, 2, 1)
    assert (found.agreement, found.accuracy_a, found.accuracy_b) == (2 / 3, 2 / 3, 1 / 3)
    assert "fc/s: correct decisions in 3 samples: 2 in A, 1 in B" in rendered(compare(*pair_of, labels=[0, 0, 0]))


def test_decisions_are_of_the_outputs_that_are_stated() -> None:
    arrays = {("hidden", "s"): A, ("out", "v"): A * -1.0, ("out", "i"): A * 1.0, ("other", "count"): A[0]}
    made = recording(arrays, batch=None, latency={"out": 0, "other": 0})
    decided = {(r.node, r.variable): r.decisions for r in compare(made, made).rows if r.decisions}
    assert decided == {("other", "count"): Decisions(1, 1), ("out", "v"): Decisions(1, 1)}


def test_without_a_batch_axis_that_is_known_nothing_is_decided() -> None:
    assert compare(spikes(A), spikes(B)).rows[0].decisions is None
    assert compare(spikes(A), spikes(B), labels=1).rows[0].decisions == Decisions(1, 0, 0, 1)
    one_class = spikes(A[:, :1], batch=None)
    assert compare(one_class, one_class).rows[0].decisions is None


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ([0, 1], "^labels of 'fc': 2 labels, the recordings have 3 samples$"),
        ([0, 1, 2], "^labels of 'fc': a label of 2, classes are 0 to 1; give the index of the correct neuron$"),
        ([0, -1, 0], "^labels of 'fc': a label of -1, classes are 0 to 1; give the index of the correct neuron$"),
        ([0.0, 1.0, 0.0], r"^labels: float64 of shape \(3,\), whole numbers, one per sample; give the class"),
    ],
)
def test_labels_belong_to_the_samples(labels: list[int], message: str) -> None:
    batch = spikes(np.zeros((4, 3, 2), np.uint8), batch=3)
    with pytest.raises(UsageError, match=message):
        compare(batch, batch, labels=labels)


# -- text and JSON -----------------------------------------------------------------------------------------------


def test_the_document_says_which_kernel() -> None:
    document = json.loads(to_json(compare_document(compare(spikes(A), spikes(B), tau_steps=5), "a.npz", "b.npz")))
    assert (document["a"], document["b"], document["equal"], document["first_step"]) == ("a.npz", "b.npz", False, 1)
    assert document["van_rossum"]["tau_steps"] == 5
    assert document["van_rossum"]["kernel"].startswith("causal exponential exp(-t / tau)")
    assert document["rows"][0]["spikes"]["jaccard"] == document["spikes"]["jaccard"] == 0.5


def test_only_one_is_shown_as_one() -> None:
    a = np.ones((100_001, 1), np.uint8)
    b = a.copy()
    b[5] = 0
    assert "0.9999" in rendered(compare(spikes(a), spikes(b)))


def test_hostile_names_are_text() -> None:
    a, b = (recording({(HOSTILE, "s"): x, (HOSTILE + "2", "s"): x}, latency={HOSTILE: 0}) for x in (A, B))
    for latency in (0, "auto"):
        out = rendered(compare(a, b, latency=latency))
        assert "\x1b" not in out
        assert "\u202e" not in out
        assert "[bold red]x[/]\\x1b[31m\\n\\u202e" in out.replace("\n", "")
        json.loads(to_json(compare_document(compare(a, b, latency=latency))))
