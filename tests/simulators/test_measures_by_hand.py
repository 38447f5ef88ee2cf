"""Calibration data and measurements on it, number by number."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from nirbridge.chips import read_chip
from nirbridge.errors import UsageError
from nirbridge.network.model import Port, Projection
from nirbridge.network.operators import Identity
from nirbridge.pipeline import quantize as quantize_data
from nirbridge.pipeline.quantize import (
    CalibrationData,
    CalibrationPlan,
    ReferenceScore,
    calibration_data,
    observe_reference,
    quantize_with_data,
    requested_widths,
)
from nirbridge.quantization.options import QuantizationOptions
from tests.quantization.nets import layer, lif

NET = layer(np.diag([1.0, 2.0, -1.0]), lif(a_mem=0.5, theta=0.5))
VALUES = np.random.default_rng(0).integers(0, 2, (6, 4, 3)).astype(np.uint8)


def ports(*names: str) -> Any:
    return SimpleNamespace(inputs=tuple(Port(name, (3,)) for name in names))


def test_data_has_a_batch_axis_and_the_names_of_the_inputs() -> None:
    for given in (VALUES, {"in": VALUES}, {"anything": VALUES}):
        found = calibration_data(NET, given)
        assert {k: v.tolist() for k, v in found.inputs.items()} == {"in": VALUES.tolist()}
        assert (found.labels, found.steps) == (None, 6)
    alone = calibration_data(NET, {"x": VALUES[:, 0], "labels": np.array([2])})
    assert alone.inputs["in"].tolist() == VALUES[:, :1].tolist()
    assert alone.labels is not None
    assert alone.labels.tolist() == [2]
    named = calibration_data(ports("in", "labels"), {"in": VALUES, "labels": VALUES})
    assert (sorted(named.inputs), named.labels) == (["in", "labels"], None)
    given = {"in": VALUES, "labels": np.arange(4)}
    calibration_data(NET, given)
    assert list(given) == ["in", "labels"]
    assert calibration_data(ports("a", "b"), {"a": VALUES, "b": VALUES}).inputs["b"].shape == (6, 4, 3)


@pytest.mark.parametrize(("values", "labels", "said"), [
    (VALUES, np.arange(3), "int64 of shape (3,), whole numbers, one for each of 4 samples"),
    (VALUES, np.arange(5), "int64 of shape (5,), whole numbers, one for each of 4 samples"),
    (VALUES, np.arange(4.0), "float64 of shape (4,), whole numbers, one for each of 4 samples"),
    (VALUES, np.zeros(4, bool), "bool of shape (4,), whole numbers, one for each of 4 samples"),
    (VALUES, np.zeros((4, 1), int), "int64 of shape (4, 1), whole numbers, one for each of 4 samples"),
    (VALUES[:, 0], np.array(1), "int64 of shape (), whole numbers, one for each of 1 sample"),
])  # fmt: skip
def test_labels_are_one_whole_number_for_each_sample(values: Any, labels: Any, said: str) -> None:
    with pytest.raises(UsageError) as caught:
        calibration_data(NET, {"in": values, "labels": labels})
    assert str(caught.value) == f"labels: {said}; correct them"
    assert calibration_data(NET, {"in": VALUES, "labels": np.arange(4, dtype=np.uint8)}).labels is not None


def test_what_is_observed_says_of_how_much_data() -> None:
    seen = observe_reference(NET, calibration_data(NET, VALUES))
    assert seen.said == "6 steps of 4 samples"
    assert set(seen.samples) == {"in", "p"}
    assert seen.seen["p"].x == (-1.0, 2.0)
    assert set(
        observe_reference(
            layer(np.eye(3), lif(kind="LI", theta=None, a_mem=0.5)), calibration_data(NET, VALUES)
        ).samples
    ) == {"in"}


@pytest.mark.parametrize("plan", [CalibrationPlan(tight=True), CalibrationPlan(memory_bits=100)])
def test_plans_that_need_data(plan: CalibrationPlan) -> None:
    with pytest.raises(UsageError) as caught:
        quantize_with_data(NET, read_chip("loihi2"), QuantizationOptions(), None, plan)
    said = (
        "observed ranges (--tight) and mixed precision (--memory-kib) need calibration data; give --calibrate DATA.npz"
    )
    assert str(caught.value) == f"quantize: {said}"


def test_widths_that_were_asked_for() -> None:
    assert requested_widths(QuantizationOptions()) == {}
    assert requested_widths(QuantizationOptions(weight_bits=5)) == {"*": 5}
    asked = {"p": 4}
    found = requested_widths(QuantizationOptions(weight_bits=asked))
    assert found == asked
    assert found is not asked


def test_progress_and_plans_by_default() -> None:
    told: list[Any] = []
    plan = CalibrationPlan(progress=lambda *own: told.append(own))
    quantize_with_data(NET, read_chip("loihi2"), QuantizationOptions(), None, plan)
    assert told == [("calibrate", None)]
    assert (
        CalibrationPlan().method,
        CalibrationPlan().percentile,
        CalibrationPlan().tight,
        CalibrationPlan().memory_bits,
    ) == ("range", 99.9, False, None)


@pytest.mark.parametrize(("plan", "given", "ranges", "clipped"), [
    (CalibrationPlan(), False, False, ("range", False, 99.9)), (CalibrationPlan(), True, False, ("range", True, 99.9)),
    (CalibrationPlan("percentile", 97.0, True), True, True, ("percentile", True, 97.0)),
])  # fmt: skip
def test_plans_say_what_data_is_for(
    plan: CalibrationPlan, given: bool, ranges: bool, clipped: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ranges of data are used where the plan is tight; weights are clipped by what was seen, if there is any."""
    asked: list[Any] = []
    clips, quantize = quantize_data.clip_shares, quantize_data.quantize
    monkeypatch.setattr(quantize_data, "clip_shares", lambda net, bits, method, seen, share: asked.append(
        (bits, method, seen is not None, share)) or clips(net, bits, method, seen, share))  # fmt: skip
    monkeypatch.setattr(quantize_data, "quantize", lambda net, chip, own: asked.append(own) or quantize(net, chip, own))
    made = quantize_with_data(
        NET, read_chip("loihi2"), QuantizationOptions(weight_bits=6), calibration_data(NET, VALUES) if given else None,
        plan
    )  # fmt: skip
    assert asked[0] == ({0: 6}, *clipped)
    assert (asked[1].calibration is not None) is ranges
    assert asked[1].weight_bits == {"*": 6}
    assert bool(made.report[0].measured) is given


# -- the judge -------------------------------------------------------------------------------------------------------


def judge(truth: Any, labels: Any = None, steps: int = 2, latency: int = 1) -> ReferenceScore:
    """Of a network in -> p -> out, r -> read (which comes second) with these recordings of the reference."""
    made = object.__new__(ReferenceScore)
    p, r = (SimpleNamespace(name=name) for name in ("p", "r"))
    ways = (Projection("p", "out", Identity((2,))), Projection("r", "read", Identity((2,))),
            Projection("r", "p", Identity((2,))))  # fmt: skip
    outputs = (Port("out", (2,)), Port("read", (2,)))
    made.network = SimpleNamespace(populations=(p, r), projections=ways, outputs=outputs)  # type: ignore[assignment]
    made.truth = {key: np.asarray(x) for key, x in truth.items()}
    made.latency = {"out": latency, "p": 0}
    made.data = CalibrationData({"in": np.zeros((steps, 2, 1))}, None if labels is None else np.array(labels))
    return made


OUT = np.array([[[9, 0], [9, 0]], [[1, 0], [0, 3]], [[0, 2], [1, 0]], [[0, 9], [9, 0]]])
"""A step before the first, two steps, a step behind the last: sums are 1 2 and 1 3."""


def test_the_class_is_the_output_with_the_largest_sum_over_the_steps_of_the_data() -> None:
    for labels, share in (([1, 1], 1.0), ([1, 0], 0.5), ([0, 0], 0.0)):
        assert judge({}, labels)._accuracy({("out", "s"): OUT}) == share
    assert judge({}, [0, 0], latency=0)._accuracy({("out", "s"): OUT}) == 1.0
    assert judge({}, [1, 1], steps=3)._accuracy({("out", "s"): OUT}) == 0.5


SPIKES, CHANGED = np.array([[0, 1], [3, 1]], np.uint8), np.array([[1, 1], [0, 1]], np.uint8)


def test_spikes_that_changed_are_a_share_of_the_references() -> None:
    made = judge({("p", "s"): SPIKES})
    shown = {"spikes": 3, "spikes_reference": 5, "spikes_changed": 4 / 5}
    assert made._changed({("p", "s"): CHANGED}, "p") == shown
    silent = judge({("p", "s"): SPIKES * 0})._changed({("p", "s"): CHANGED}, "p")
    assert silent == {"spikes": 3, "spikes_reference": 0, "spikes_changed": 3.0}


def test_a_read_out_is_off_by_a_share_of_its_size() -> None:
    found = {("read", "s"): np.array([3.0, 0.0]), ("out", "s"): np.array([0.0])}
    made = judge({("read", "s"): np.array([3.0, 4.0]), ("out", "s"): np.array([12.0])})
    assert made._read_error(found, {"read"}) == {"read_error": 4 / 5}
    assert made._read_error(found, {"read", "out"}) == {"read_error": pytest.approx(np.sqrt(160) / 13)}
    assert made._read_error(found, {"p"}) == {}
    none = judge({("read", "s"): np.zeros(2)})
    assert none._read_error(found, {"read"}) == {"read_error": 0.0}


def test_the_score_is_accuracy_less_a_little_for_spikes_that_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    truth = {("p", "s"): SPIKES, ("out", "s"): OUT}
    found = {("p", "s"): CHANGED, ("out", "s"): OUT}
    monkeypatch.setattr(ReferenceScore, "run", lambda self, q: found)
    q: Any = None
    assert judge(truth, [1, 0]).score(q) == pytest.approx(0.5 - 1e-3 * 0.8, rel=1e-12)
    assert judge(truth).score(q) == pytest.approx(-1e-3 * 0.8, rel=1e-12)
    assert judge({("out", "s"): OUT}, [1, 1]).score(q) == 1.0


def test_the_report_of_a_layer_holds_what_is_its_own() -> None:
    from nirbridge.quantization.model import LayerReport

    truth = {("p", "s"): SPIKES, ("out", "s"): OUT, ("read", "s"): OUT * 1.0}
    found = {("p", "s"): CHANGED, ("out", "s"): OUT[:, ::-1], ("read", "s"): OUT * 0.5}
    ranges = {(name, x): [k, -k] for k, (name, x) in enumerate([("p", "u"), ("p", "v"), ("r", "u"), ("r", "v")])}
    fields: Any = {"process": "lif", "bounds": None, "decays": {}, "weights": (), "v_bound": None}

    def measured(name: str, labels: Any) -> Any:
        return dict(judge(truth, labels)._layer(LayerReport(name, **fields), found, ranges).measured)

    own = {"u": [0, 0], "v": [1, -1], "spikes": 3, "spikes_reference": 5, "spikes_changed": 0.8}
    assert measured("p", None) == own
    assert measured("p", [1, 0]) == {**own, "accuracy": 0.5, "accuracy_reference": 0.5}
    assert measured("r", None) == {"u": [2, -2], "v": [3, -3], "read_error": 0.5}


def test_a_judge_runs_as_long_as_the_latest_and_records_what_fires() -> None:
    made = ReferenceScore(NET, {}, calibration_data(NET, VALUES))
    assert (made.late, made.latency, len(made.inputs["in"])) == (0, {"p": 0, "out": 0}, 6)
    late = ReferenceScore(NET, {"p": 2, "q": 3}, calibration_data(NET, VALUES))
    assert (late.late, late.latency, len(late.inputs["in"])) == (3, {"p": 2, "out": 0}, 9)
    assert set(late.truth) == {("p", "s"), ("out", "s")}
    assert late.truth["p", "s"].shape == (9, 4, 3)
    read = layer(np.eye(3), lif(kind="LI", theta=None, a_mem=0.5))
    assert set(ReferenceScore(read, {}, calibration_data(read, VALUES)).truth) == {("out", "s")}


@pytest.mark.parametrize("samples", [1, 2, 3, 4, 9])
def test_ranges_are_those_of_all_samples_and_of_0(samples: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quantize_data, "SAMPLES", samples)
    q = quantize_with_data(NET, read_chip("loihi2"), QuantizationOptions(), None, CalibrationPlan())
    made = ReferenceScore(NET, {"out": 1}, calibration_data(NET, VALUES))
    n = q.populations[0].neuron
    one = float(n.scale)
    found = made._ranges(q)
    assert set(found) == {("p", "u"), ("p", "v")}
    assert found["p", "u"] == [pytest.approx(-one, rel=0.02), pytest.approx(2 * one, rel=0.02)]
    assert all(type(x) is int for ends in found.values() for x in ends)
