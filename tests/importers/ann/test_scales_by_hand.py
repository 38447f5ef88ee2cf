"""Scales of a conversion on activations small enough to search by hand, and the report's lines word by word."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from nirbridge.importers.ann.convert import (
    SHARES,
    SMALLEST,
    ConversionReport,
    ConvertedLayer,
    ScaleOptions,
    choose_scale,
    clipped_share,
    folding_note,
    report_document,
)
from nirbridge.importers.lowering.analysis import never_negative

TOP = float("inf")
VALUES = np.array([[[1.0, 3.0], [0.0, 0.0], [0.0625, 0.0]], [[4.0, 2.0], [0.0, 0.0], [0.0, 0.03125]]])
"""Two samples of three channels of two values: the second is silent, the third weak."""


def test_the_largest_activation_of_each_channel_or_of_all() -> None:
    each = choose_scale(VALUES, TOP, ScaleOptions("max", 8, per_channel=True))
    np.testing.assert_array_equal(each, [[4.0], [4.0], [4.0 * SMALLEST]])
    assert SMALLEST == 1 / 64
    whole = choose_scale(VALUES, TOP, ScaleOptions("max", 8, per_channel=False))
    assert (whole.shape, float(whole)) == ((), 4.0)
    assert float(choose_scale(VALUES, 2.5, ScaleOptions("max", 8, per_channel=False))) == 2.5
    np.testing.assert_array_equal(
        choose_scale(VALUES, 2.5, ScaleOptions("max", 8, per_channel=True)).ravel(), [2.5, 2.5, 0.0625]
    )


def test_a_population_that_stayed_silent_gets_one() -> None:
    assert float(choose_scale(np.zeros((2, 3)), TOP, ScaleOptions("max", 8, per_channel=False))) == 1.0
    assert choose_scale(np.zeros((2, 3)), TOP, ScaleOptions("max", 8, per_channel=True)).tolist() == [1.0, 1.0, 1.0]


def test_a_percentile_of_the_activations() -> None:
    values = np.arange(101.0).reshape(101, 1)
    assert float(choose_scale(values, TOP, ScaleOptions(75.0, 8, per_channel=False))) == 75.0
    assert choose_scale(np.hstack([values, values / 2]), TOP, ScaleOptions(50.0, 8, per_channel=True)).tolist() == [
        50,
        25,
    ]


def squared_error(values: Any, scale: float, steps: int) -> float:
    spikes = np.clip(np.rint(values * steps / scale), 0, steps)
    return float(np.mean((spikes * scale / steps - values) ** 2))


@pytest.mark.parametrize("steps", [2, 3, 8])
@pytest.mark.parametrize("seed", [1, 2, 3, 4])
def test_the_least_error_of_all_shares_is_taken(steps: int, seed: int) -> None:
    values = np.random.default_rng(seed).exponential(1.0, (40, 2)).astype(np.float32)
    found = choose_scale(values, TOP, ScaleOptions("least-error", steps, per_channel=True))
    for column, scale in zip(values.T, found, strict=True):
        errors = [squared_error(column.astype(np.float64), share * column.max(), steps) for share in SHARES]
        assert scale == pytest.approx(SHARES[int(np.argmin(errors))] * column.max(), rel=1e-5)
    assert (SHARES[0], SHARES[-1], len(SHARES)) == (0.25, 1.0, 46)


def test_only_so_many_activations_are_searched() -> None:
    values = np.array([[1.0], [9.0], [1.0], [9.0], [1.0], [10.0]], np.float32)
    options = ScaleOptions("least-error", 1, per_channel=False, searched=3)
    assert float(choose_scale(values, TOP, options)) == pytest.approx(2.5)
    assert float(choose_scale(values, TOP, replace(options, searched=6))) > 8.0


def test_the_share_of_positive_activations_that_are_clipped() -> None:
    values = np.array([0.0, 1.0, 2.0, 3.0, 4.0])
    assert clipped_share(values, np.array(2.0)) == 0.5
    assert clipped_share(values, np.array(2.0 - 1e-7)) == 0.5
    assert clipped_share(values, np.array(4.0)) == 0.0
    assert clipped_share(np.zeros(3), np.array(1.0)) == 0.0
    assert clipped_share(np.array([-1.0, 1.0]), np.array(0.5)) == 1.0


# -- the report ----------------------------------------------------------------------------------------------------

LAYER = ConvertedLayer("fc", 1200, np.array([[0.5], [2.0]]), 3.0, 0.125, 0.0625, 0.25, 0.5, 1.5, 12.5)
REPORT = ConversionReport(32, 5000, 4000, 64, 1e-4, 4.0, 0.125, 0.75, (LAYER,))
NOTE = "folded weights: outputs are off by 1.0e-04 at most on calibration data, 2.5e-05 of the largest output (4)"
HEAD = "population                neurons            scale  clipped  rounding     error   share  surplus     bound"


def test_a_report_line_by_line() -> None:
    assert str(REPORT).split("\n") == [
        f"converted for 32 steps on 4,000 of 5,000 samples; {NOTE}",
        HEAD,
        "fc                          1,200         0.5 to 2   12.50%     0.062      0.25   50.0%     1.50      12.5",
        "outputs: root mean square error 0.125",
        "decisions: 75.0% as the original on 64 of the samples",
    ]


def test_a_report_of_all_samples_and_of_spikes() -> None:
    one = replace(LAYER, scale=np.array(2.0))
    report = replace(REPORT, samples=5000, output_error=None, decisions=None, layers=(one,))
    assert str(report).split("\n") == [
        f"converted for 32 steps on 5,000 samples; {NOTE}",
        HEAD,
        "fc                          1,200                2   12.50%     0.062      0.25   50.0%     1.50      12.5",
    ]


def test_outputs_of_zero_have_no_share() -> None:
    assert folding_note(replace(REPORT, output_size=0.0, folding_error=0.0)) == (
        "folded weights: outputs are off by 0.0e+00 at most on calibration data, 0.0e+00 of the largest output (0)"
    )


def test_a_report_as_a_document() -> None:
    found = report_document(REPORT)
    assert (found["steps"], found["given_samples"], found["samples"], found["measured_samples"]) == (32, 5000, 4000, 64)
    assert (found["output_error"], found["decisions"], found["output_size"]) == (0.125, 0.75, 4.0)
    (layer,) = found["layers"]
    assert (layer["name"], layer["scale"], layer["largest"], layer["bound_spikes"]) == ("fc", [0.5, 2.0], 3.0, 12.5)
    assert set(layer) == set(ConvertedLayer.__dataclass_fields__)


# -- values that are never negative --------------------------------------------------------------------------------


def call(kind: str, *inputs: Any, **arguments: Any) -> Any:
    return SimpleNamespace(kind=kind, inputs=inputs, arguments=arguments)


def ref(name: str, output: int = 0) -> Any:
    return SimpleNamespace(call=name, output=output)


def reads(*, fires: bool = True, scale_out: Any = None) -> Any:
    return SimpleNamespace(neuron=SimpleNamespace(fires=fires), scale_out=scale_out)


@pytest.mark.parametrize(
    ("what", "is_so"),
    [
        (call("avg_pool", ref("lif")), True),
        (call("conv", ref("lif")), False),
        (call("add", ref("lif"), ref("lif"), signs=(1.0, 1.0)), True),
        (call("add", ref("lif"), ref("lif"), signs=(1.0, -1.0)), False),
        (call("add", ref("lif"), ref("li"), signs=(1.0, 1.0)), False),
        (call("add", ref("lif"), ref("lif"), signs=(1.0, 0.0)), True),
        (call("scale", ref("lif"), factor=np.array([0.0, 2.0])), True),
        (call("scale", ref("lif"), factor=np.array([2.0, -1e-9])), False),
        (call("concat", ref("lif"), ref("lif")), True),
        (call("concat", ref("lif"), ref("lif", 1)), False),
        (call("concat", ref("lif"), ref("graded")), True),
        (call("concat", ref("lif"), ref("signed")), False),
        (call("relu", ref("lif")), True),
        (call("reshape", ref("in")), False),
    ],
)
def test_sums_and_selections_of_spikes_are_never_negative(what: Any, is_so: bool) -> None:
    readings = {
        "lif": reads(),
        "li": reads(fires=False),
        "graded": reads(scale_out=np.array([0.0, 2.0])),
        "signed": reads(scale_out=np.array([2.0, -2.0])),
    }
    calls = {name: call("neuron") for name in readings} | {"in": call("input"), "it": what}
    assert never_negative(ref("it"), calls, readings) is is_so
