"""Pictures, value by value: every line, label, limit and edge; batches, late time steps and unusual shapes."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nirbridge.comparison.alignment import RecordedSteps
from nirbridge.errors import UsageError
from nirbridge.report import plots as pictures
from nirbridge.simulators.types import Recording
from tests.report.test_pictures import S, V, legend, made, points

pytest.importorskip("matplotlib", reason="matplotlib, the extra 'plot', is not installed")

BLACK, GREY, RED, BLUE = "black", "#7f7f7f", "#d62728", "#1f77b4"


def drawn(figure: Any) -> dict[str, Any]:
    """All that a reader sees, as plain values."""
    (axes,) = figure.axes
    return {
        "title": axes.get_title(),
        "labels": (axes.get_xlabel(), axes.get_ylabel()),
        "limits": (axes.get_xlim(), axes.get_ylim()),
        "lines": [
            (line.get_color(), line.get_linestyle(), line.get_linewidth(), line.get_marker(), line.get_markersize())
            for line in axes.lines
        ],
        "points": [points(figure, i) for i in range(len(axes.lines))],
        "legend": legend(figure) if figure.legends else None,
    }


def mark(color: str, size: float = 5.0) -> tuple[Any, ...]:
    return (color, "None", 1.5, "|", size)


DASHED = (RED, "--", 1.0, "None", 6.0)


def test_a_raster() -> None:
    assert drawn(pictures.plot_raster(made(), "fc")) == {
        "title": "'fc': 4 events",
        "labels": ("step", "neuron"),
        "limits": ((-0.5, 3.5), (-0.5, 2.5)),
        "lines": [mark(BLACK)],
        "points": [[(0, 0), (1, 1), (2, 0), (2, 1)]],
        "legend": None,
    }
    line = pictures.plot_raster(made(), "fc").axes[0].lines[0]
    assert (line.get_markeredgewidth(), line.get_label()) == (1.2, "_child0")


@pytest.mark.parametrize(
    ("shape", "limits"),
    [((0, 3), ((-0.5, 0.5), (-0.5, 2.5))), ((4, 0), ((-0.5, 3.5), (-0.5, 0.5))), ((1, 1), ((-0.5, 0.5), (-0.5, 0.5)))],
)
def test_an_empty_raster_still_has_a_step_and_a_neuron(shape: tuple[int, int], limits: Any) -> None:
    axes = pictures.plot_raster(made(np.zeros(shape, np.uint8)), "fc").axes[0]
    assert (axes.get_xlim(), axes.get_ylim()) == limits


def test_a_trace() -> None:
    shown = drawn(pictures.plot_trace(made(), "fc", 1, 0.35))
    high = 0.525  # the upper end of the axis, a twentieth of the range above it
    assert shown | {"limits": None} == {
        "title": "'fc', neuron 1",
        "labels": ("step", "potential"),
        "limits": None,
        "lines": [(BLACK, "-", 0.9, "None", 6.0), DASHED, (BLUE, "None", 1.5, "|", 10.0)],
        "points": [[(0, 0), (1, 0.5), (2, 0), (3, 0)], [(0, 0.35), (1, 0.35)], [(1, high), (2, high)]],
        "legend": ["after the reset", "threshold 0.35", "spike"],
    }


def test_a_trace_is_of_neuron_0_without_a_threshold_by_default() -> None:
    shown = drawn(pictures.plot_trace(made(), "fc"))
    assert (shown["title"], shown["points"][0]) == ("'fc', neuron 0", [(0, 0.1), (1, 0.2), (2, 0.3), (3, 0.4)])
    assert shown["legend"] == ["after the reset", "spike"]
    for number in (-1, 3):
        with pytest.raises(UsageError, match=f"^population 'fc': neuron {number}, it has 3, numbered from 0; choose"):
            pictures.plot_trace(made(), "fc", number)
    assert drawn(pictures.plot_trace(made(), "fc", 2))["points"][0] == [(0, 0), (1, 0), (2, 0), (3, 0)]


@pytest.mark.parametrize("spikes", [S[:0], S[:, :2], np.zeros((4, 4))])
def test_spikes_that_are_not_of_these_neurons_are_not_marked(spikes: np.ndarray) -> None:
    assert legend(pictures.plot_trace(made(spikes), "fc", 1)) == ["after the reset"]


def test_potential_and_spikes_have_their_own_steps() -> None:
    figure = pictures.plot_trace(made(S[:2], every={"fc/s": 2}), "fc", 1)
    assert [x for x, _ in points(figure, 0)] == [0, 1, 2, 3]
    assert [x for x, _ in points(figure, 1)] == [3]
    later = pictures.plot_raster(made(first_step=7), "fc")
    assert (points(later)[0], later.axes[0].get_xlim()) == ((7, 0), (6.5, 10.5))


def test_rates() -> None:
    """Spikes 2, 2 and 0 in four steps."""
    figure = pictures.plot_rates(made(), "fc")
    shown = drawn(figure)
    assert (shown["title"], shown["labels"]) == (
        "'fc': 0.3333 spikes per neuron and step",
        ("spikes per time step", "neurons"),
    )
    assert (shown["lines"], shown["legend"]) == ([DASHED], ["mean"])
    assert [x for x, _ in shown["points"][0]] == pytest.approx([1 / 3, 1 / 3])
    bars: Any = figure.axes[0].patches
    assert [bar.get_height() for bar in bars] == [1, 0, 2]
    assert {bar.get_facecolor() for bar in bars} == {(127 / 255, 127 / 255, 127 / 255, 1.0)}


@pytest.mark.parametrize(
    ("spikes", "mean", "heights"),
    [
        ([[1, 0]], "0.5", [1, 1]),
        ([[3, 0], [0, 0]], "0.75", [1, 0, 0, 1]),
        (np.zeros((0, 2), np.uint8), "0", [2]),
        (np.zeros((3, 0), np.uint8), "0", [0]),
    ],
)
def test_rates_of_few_steps(spikes: Any, mean: str, heights: list[int]) -> None:
    figure = pictures.plot_rates(made(np.asarray(spikes, np.uint8)), "fc")
    assert figure.axes[0].get_title() == f"'fc': {mean} spikes per neuron and step"
    bars: Any = figure.axes[0].patches
    assert [bar.get_height() for bar in bars] == heights


@pytest.mark.parametrize("most", [0, 1, 48, 49, 50, 99])
@pytest.mark.parametrize("steps", [1, 4, 0])
def test_a_bin_for_each_count_up_to_fifty(most: int, steps: int) -> None:
    if most and not steps:
        return
    edges = pictures._bins(np.array([0, most]) / max(1, steps), steps)
    bins = min(most + 1, 50)
    assert edges * max(1, steps) == pytest.approx([k * (most + 1) / bins - 0.5 for k in range(bins + 1)])


def test_a_difference() -> None:
    other = S.copy()
    other[0, 0], other[3, 2], other[2, 1] = 0, 1, 2
    assert drawn(pictures.plot_difference(made(), made(other), "fc", names=("x", "y"))) == {
        "title": "'fc'",
        "labels": ("step", "neuron"),
        "limits": ((-0.5, 3.5), (-0.5, 2.5)),
        "lines": [mark(GREY), mark(RED), mark(BLUE)],
        "points": [[(1, 1), (2, 0)], [(0, 0)], [(2, 1), (3, 2)]],
        "legend": ["both: 2", "only x, or more: 1", "only y, or more: 2"],
    }
    box: Any = pictures.plot_difference(made(), made(other), "fc").legends[0]
    assert (box._ncols, box.get_texts()[0].get_fontsize(), box.get_frame_on()) == (4, 8, False)


def test_a_difference_of_a_sample_says_which() -> None:
    batch = np.stack([np.zeros_like(S), S], axis=1)
    own, other = made(batch, batch=2), made(batch[:, ::-1], batch=2)
    for sample, counts in ((0, (0, 0, 4)), (1, (0, 4, 0))):
        figure = pictures.plot_difference(own, other, "fc", sample=sample)
        assert figure.axes[0].get_title() == f"'fc', sample {sample}"
        assert [len(points(figure, line)) for line in range(3)] == list(counts)
    assert pictures.plot_difference(own, other, "fc").axes[0].get_title() == "'fc', sample 0"


def test_a_difference_ends_where_one_of_the_two_does() -> None:
    figure = pictures.plot_difference(made(np.concatenate([S, S])), made(), "fc", latency=-2)
    assert figure.axes[0].get_xlim() == (-0.5, 5.5)
    assert [points(figure, line) for line in range(3)] == [[(2, 0), (4, 0)], [(2, 1), (5, 1)], [(3, 1), (4, 1)]]


def test_shapes_that_do_not_fit_are_named() -> None:
    found = r"\(4, 3\) steps and neurons in one, \(4, 2\) in the other, latency 1"
    with pytest.raises(UsageError, match=f"^population 'fc': {found}, no steps in common; compare without a picture$"):
        pictures.plot_difference(made(), made(S[:, :2]), "fc", latency=1)


@pytest.mark.parametrize("x", [[0, 1, 2, 3], [0, 0.5, 2, 3], [0, -1, 2, 3]])
@pytest.mark.parametrize("y", [[0, 1, 1, 4], [0.25, 0.5, 2, 1], [1, 0, 0, 3]])
def test_more_of_a_count_and_any_other_graded_value(x: list[float], y: list[float]) -> None:
    counts = all(v >= 0 and v == int(v) for v in (*x, *y))
    wanted = [a > b if counts else a not in (0, b) for a, b in zip(x, y, strict=True)]
    assert pictures._more(np.array([x]), np.array([y])).tolist() == [wanted]


def test_names_are_drawn_in_latin_letters() -> None:
    assert pictures._label("Größe \u024f\u0250") == "'Größe \u024f\\u0250'"
    full, long = pictures._label("y" * 60), pictures._label("y" * 61)
    assert "y" * 59 in full
    assert "y" * 60 not in long


@pytest.mark.parametrize("shape", [(4,), (4, 1), (4, 2, 3)])
def test_neurons_are_numbered_along_the_flattened_shape(shape: tuple[int, ...]) -> None:
    spikes = np.arange(int(np.prod(shape))).reshape(shape) % 3 == 1
    flat = spikes.reshape(4, -1)
    metas: list[dict[str, Any]] = [{}, {"batch": None}, {"batch": False}]
    for meta in metas:
        assert points(pictures.plot_raster(made(spikes, **meta), "fc")) == [
            tuple(at) for at in np.argwhere(flat).tolist()
        ]
    with pytest.raises(UsageError, match="^population 'fc': sample 1, the recording has 1, numbered from 0; choose"):
        pictures.plot_raster(made(spikes), "fc", sample=1)
    with pytest.raises(UsageError, match="^population 'fc': sample -1, the recording has 1, numbered from 0; choose"):
        pictures.plot_raster(made(spikes), "fc", sample=-1)


def test_a_batch_without_an_axis_of_samples_has_one() -> None:
    assert points(pictures.plot_raster(made(S[:, 0], batch=2), "fc")) == [(0, 0), (2, 0)]
    with pytest.raises(UsageError, match="sample 1, the recording has 1"):
        pictures.plot_raster(made(S[:, 0], batch=2), "fc", sample=1)
    batch = made(np.stack([S, 1 - S], axis=1), batch=2)
    assert points(pictures.plot_raster(batch, "fc", sample=1))[0] == (0, 1)
    with pytest.raises(UsageError, match="sample 2, the recording has 2"):
        pictures.plot_rates(batch, "fc", sample=2)


def test_up_to_eight_recorded_nodes_are_named_in_order() -> None:
    recording = Recording({(f"n{i}", "s"): S for i in range(10, 0, -1)} | {("z", "v"): V}, {})
    named = ", ".join(f"'n{i}'" for i in range(1, 9))
    with pytest.raises(UsageError, match=f"^population 'q': 's' was not recorded; recorded for {named}$"):
        pictures.plot_raster(recording, "q")
    with pytest.raises(UsageError, match=r"^population 'fc': 's' was not recorded; recorded for 'fc'$"):
        pictures.plot_raster(made(np.uint8(1)), "fc")


def test_marks_begin_after_the_steps_that_were_not_kept() -> None:
    figure, axes = pictures._figure("t")
    pictures._extent(axes, (2, 5), RecordedSteps(4, 5))
    assert (axes.get_xlim(), axes.get_ylim()) == ((-0.5, 9.5), (-0.5, 4.5))
    assert axes.title.get_fontsize() == 10
    assert tuple(figure.get_size_inches()) == (9.0, 4.5)


def test_the_file_has_150_dots_per_inch(tmp_path: Path) -> None:
    pictures.save_picture(pictures.plot_raster(made(), "fc"), tmp_path / "p.png")
    assert struct.unpack(">II", (tmp_path / "p.png").read_bytes()[16:24]) == (1350, 675)


def test_the_name_is_looked_at_before_matplotlib(monkeypatch: pytest.MonkeyPatch) -> None:
    pictures.check_picture("a.Png")
    monkeypatch.setattr(pictures, "find_spec", lambda name: None)
    with pytest.raises(UsageError, match="^picture 'b.jpg': not a name of a PNG"):
        pictures.check_picture("a/b.jpg")
    with pytest.raises(UsageError, match="^pictures: matplotlib is not installed"):
        pictures.check_picture("a.png")
