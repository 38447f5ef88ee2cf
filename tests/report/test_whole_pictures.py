"""Pictures, value by value: every line, label, limit and edge; batches, late time steps and unusual shapes."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nirbridge as nb
from nirbridge.errors import UsageError
from nirbridge.report.pictures.raster_picture import differing_events
from nirbridge.report.plots import recordings as pictures
from nirbridge.report.plots import style
from nirbridge.report.plots.style import BLUE, GREY, INK, RED, drawn_name
from nirbridge.simulators.types import Recording
from tests.report.test_pictures import S, V, legend, made, points

pytest.importorskip("matplotlib", reason="matplotlib, the extra 'plot', is not installed")


def drawn(axes: Any) -> dict[str, Any]:
    """All that a reader sees, as plain values."""
    return {
        "title": axes.get_title(),
        "labels": (axes.get_xlabel(), axes.get_ylabel()),
        "limits": (axes.get_xlim(), axes.get_ylim()),
        "lines": [
            (line.get_color(), line.get_linestyle(), line.get_linewidth(), line.get_marker(), line.get_markersize())
            for line in axes.lines
        ],
        "points": [points(axes, i) for i in range(len(axes.lines))],
        "legend": legend(axes) if axes.get_legend() else None,
    }


def mark(color: str, sign: str = "|", size: float = 6.0) -> tuple[Any, ...]:
    return (color, "None", 1.5, sign, size)


DOTTED = (GREY, ":", 1.0, "None", 6.0)
DASHED = (RED, "--", 1.0, "None", 6.0)


def test_a_raster() -> None:
    assert drawn(pictures.plot_raster(made(), "fc")) == {
        "title": "fc; 4 events of 3 neurons",
        "labels": ("time step (1 ms each)", "neuron"),
        "limits": ((-0.5, 3.5), (-0.5, 2.5)),
        "lines": [mark(INK)],
        "points": [[(0, 0), (1, 1), (2, 0), (2, 1)]],
        "legend": None,
    }
    line = pictures.plot_raster(made(), "fc").lines[0]
    assert (line.get_markeredgewidth(), line.get_label()) == (1.0, "_child0")


@pytest.mark.parametrize(
    ("shape", "limits"),
    [((0, 3), ((-0.5, 0.5), (-0.5, 2.5))), ((4, 0), ((-0.5, 3.5), (-0.5, 0.5))), ((1, 1), ((-0.5, 0.5), (-0.5, 0.5)))],
)
def test_an_empty_raster_still_has_a_step_and_a_neuron(shape: tuple[int, int], limits: Any) -> None:
    axes = pictures.plot_raster(made(np.zeros(shape, np.uint8)), "fc")
    assert (axes.get_xlim(), axes.get_ylim()) == limits


def test_a_trace() -> None:
    shown = drawn(pictures.plot_traces(made(), "fc", 1, threshold=0.35))
    high = pytest.approx(1 - 0.03 / 1.06)  # in the middle of a row above the lines, 0.06 of their height
    assert shown | {"limits": None} == {
        "title": "fc, neuron 1",
        "labels": ("time step (1 ms each)", "potential"),
        "limits": None,
        "lines": [(INK, "-", 0.9, "None", 6.0), DOTTED, mark(INK, size=5.0)],
        "points": [[(0, 0), (1, 0.5), (2, 0), (3, 0)], [(0, 0.35), (1, 0.35)], [(1, high), (2, high)]],
        "legend": ["after the reset", "threshold 0.35", "spike"],
    }


def test_a_trace_is_of_neuron_0_without_a_threshold_by_default() -> None:
    shown = drawn(pictures.plot_traces(made(), "fc"))
    assert (shown["title"], shown["points"][0]) == ("fc, neuron 0", [(0, 0.1), (1, 0.2), (2, 0.3), (3, 0.4)])
    assert shown["legend"] == ["after the reset", "spike"]
    for number in (-1, 3):
        with pytest.raises(UsageError, match=f"^population 'fc': neuron {number}, it has 3, numbered from 0; choose"):
            pictures.plot_traces(made(), "fc", number)
    assert drawn(pictures.plot_traces(made(), "fc", 2))["points"][0] == [(0, 0), (1, 0), (2, 0), (3, 0)]


@pytest.mark.parametrize("spikes", [S[:0], S[:, :2], np.zeros((4, 4))])
def test_spikes_that_are_not_of_these_neurons_are_not_marked(spikes: np.ndarray) -> None:
    assert legend(pictures.plot_traces(made(spikes), "fc", 1)) == ["after the reset"]


def test_potential_and_spikes_have_their_own_steps() -> None:
    axes = pictures.plot_traces(made(S[:2], every={"fc/s": 2}), "fc", 1)
    assert [x for x, _ in points(axes, 0)] == [0, 1, 2, 3]
    assert [x for x, _ in points(axes, 1)] == [3]
    later = pictures.plot_raster(made(first_step=7), "fc")
    assert (points(later)[0], later.get_xlim()) == ((7, 0), (6.5, 10.5))


def test_rates() -> None:
    """Spikes 2, 2 and 0 in four steps."""
    axes = pictures.plot_rates(made(), "fc")
    shown = drawn(axes)
    assert (shown["title"], shown["labels"]) == (
        "fc",
        ("spikes per time step", "neurons"),
    )
    assert (shown["lines"], shown["legend"]) == ([DASHED], ["mean 0.3333"])
    assert [x for x, _ in shown["points"][0]] == pytest.approx([1 / 3, 1 / 3])
    bars: Any = axes.patches
    assert [bar.get_height() for bar in bars] == [1, 0, 2]
    assert {bar.get_facecolor() for bar in bars} == {(166 / 255, 166 / 255, 166 / 255, 1.0)}


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
    axes = pictures.plot_rates(made(np.asarray(spikes, np.uint8)), "fc")
    assert legend(axes) == [f"mean {mean}"]
    bars: Any = axes.patches
    assert [bar.get_height() for bar in bars] == heights


@pytest.mark.parametrize("most", [0, 1, 48, 49, 50, 99])
@pytest.mark.parametrize("steps", [1, 4, 0])
def test_a_bin_for_each_count_up_to_fifty(most: int, steps: int) -> None:
    if most and not steps:
        return
    edges = pictures.rate_bins(np.array([0, most]) / max(1, steps), steps)
    bins = min(most + 1, 50)
    assert edges * max(1, steps) == pytest.approx([k * (most + 1) / bins - 0.5 for k in range(bins + 1)])


def test_a_difference() -> None:
    other = S.copy()
    other[0, 0], other[3, 2], other[2, 1] = 0, 1, 2
    assert drawn(pictures.plot_difference(made(), made(other), "fc", names=("x", "y"))) == {
        "title": "fc",
        "labels": ("time step (1 ms each)", "neuron"),
        "limits": ((-0.5, 3.5), (-0.5, 2.5)),
        "lines": [mark(GREY), mark(RED, "x", 4.5), mark(BLUE, "+", 4.5)],
        "points": [[(1, 1), (2, 0)], [(0, 0)], [(2, 1), (3, 2)]],
        "legend": ["both: 2", "only x, or more: 1", "only y, or more: 2"],
    }
    box: Any = pictures.plot_difference(made(), made(other), "fc").get_legend()
    assert (box._ncols, box.get_texts()[0].get_fontsize(), box.get_frame_on()) == (2, 6, False)


def test_a_difference_of_a_sample_says_which() -> None:
    batch = np.stack([np.zeros_like(S), S], axis=1)
    own, other = made(batch, batch=2), made(batch[:, ::-1], batch=2)
    for sample, counts in ((0, (0, 0, 4)), (1, (0, 4, 0))):
        axes = pictures.plot_difference(own, other, "fc", sample=sample)
        assert axes.get_title() == f"fc, sample {sample}"
        assert [len(points(axes, line)) for line in range(3)] == list(counts)
    assert pictures.plot_difference(own, other, "fc").get_title() == "fc, sample 0"


def test_a_difference_ends_where_one_of_the_two_does() -> None:
    axes = pictures.plot_difference(made(np.concatenate([S, S])), made(), "fc", latency=-2)
    assert axes.get_xlim() == (-0.5, 5.5)
    assert [points(axes, line) for line in range(3)] == [[(2, 0), (4, 0)], [(2, 1), (5, 1)], [(3, 1), (4, 1)]]


def test_shapes_that_do_not_fit_are_named() -> None:
    found = r"\(4, 3\) steps and neurons in one, \(4, 2\) in the other, latency 1"
    with pytest.raises(UsageError, match=f"^population 'fc': {found}, no steps in common; compare without a picture$"):
        pictures.plot_difference(made(), made(S[:, :2]), "fc", latency=1)


@pytest.mark.parametrize("x", [[0, 1, 2, 3], [0, 0.5, 2, 3], [0, -1, 2, 3]])
@pytest.mark.parametrize("y", [[0, 1, 1, 4], [0.25, 0.5, 2, 1], [1, 0, 0, 3]])
def test_more_of_a_count_and_any_other_graded_value(x: list[float], y: list[float]) -> None:
    counts = all(v >= 0 and v == int(v) for v in (*x, *y))
    wanted = [a > b if counts else a not in (0, b) for a, b in zip(x, y, strict=True)]
    assert differing_events(np.array([x]), np.array([y]))[1].tolist() == [wanted]


def test_names_are_drawn_in_latin_letters() -> None:
    assert drawn_name("Größe \u024f\u0250 a…b", 500) == "Größe \u024f\\u0250 a…b"
    assert drawn_name("$\\frac{1}{2}$", 500) == "$\\frac{1}{2}$"
    assert len(drawn_name("y" * 1000, 100)) < 30


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
    axes = pictures.plot_raster(made(S[:2], every={"fc/s": 5}), "fc")
    assert (axes.get_xlim(), axes.get_ylim()) == ((-0.5, 9.5), (-0.5, 2.5))
    assert axes.title.get_fontsize() == 6
    figure: Any = axes.figure
    assert figure.get_size_inches()[0] == pytest.approx(8.5 / 2.54, abs=0.01)


def test_the_file_has_300_dots_per_inch(tmp_path: Path) -> None:
    style.save_picture(pictures.plot_raster(made(), "fc"), tmp_path / "p.png")
    width, height = struct.unpack(">II", (tmp_path / "p.png").read_bytes()[16:24])
    assert (width, height) == (pytest.approx(300 * 241 / 72, abs=1), pytest.approx(300 * 1.9, abs=1))


def test_several_nodes_are_bands_from_the_top_down() -> None:
    both = Recording({("a", "s"): S, ("b", "s"): S[:, :2], ("c", "v"): V}, {"dt": 1e-3})
    axes = pictures.plot_raster(both)
    first, second = axes.lines[0], axes.lines[1]
    assert first.get_xdata().tolist() == [0, 1, 2, 2]
    assert first.get_ydata().tolist() == pytest.approx([0.86 * (n + 0.5) / 3 for n in (0, 1, 0, 1)])
    assert second.get_ydata().tolist() == pytest.approx([1 + 0.86 * (n + 0.5) / 2 for n in (0, 1, 0, 1)])
    assert [t.get_text() for t in axes.get_yticklabels()] == ["a\n3 neurons", "b\n2 neurons"]
    assert axes.get_ylim()[0] > axes.get_ylim()[1]
    assert points(pictures.plot_raster(both, ["b"])) == [(0, 0), (1, 1), (2, 0), (2, 1)]
    with pytest.raises(UsageError, match="no node has spikes"):
        pictures.plot_raster(Recording({("c", "v"): V}, {}))


def test_many_neurons_are_shaded_cells_with_all_events() -> None:
    spikes = np.random.default_rng(0).random((50, 960)) < 0.05
    axes = pictures.plot_raster(made(spikes), "fc")
    title = axes.get_title().split("\n")
    (shaded,) = (np.ma.filled(c.get_array(), 0).reshape(96, 50) for c in axes.collections)
    counts = spikes.reshape(50, 96, 10).sum(axis=2).T
    assert shaded == pytest.approx(counts / counts.max())
    assert title == [
        f"fc; {spikes.sum():,} events of 960 neurons",
        f"a cell: 10 neurons × 1 time step, fullest: {counts.max()} events",
    ]
    bands = pictures.plot_raster(Recording({("a", "s"): spikes, ("b", "s"): S}, {"dt": 1e-3}))
    cells = spikes.reshape(50, 40, 24).sum(axis=2)
    text = f"a\n960 neurons\ncell: 24 × 1 step,\n≤ {cells.max()} events"
    assert [label.get_text() for label in bands.get_yticklabels()] == [text, "b\n3 neurons"]
    assert np.ma.filled(bands.collections[0].get_array(), 0).reshape(40, 50) == pytest.approx(cells.T / cells.max())


def test_one_difference_among_many_events_is_marked() -> None:
    a = np.ones((400, 300), np.uint8)
    b = a.copy()
    b[123, 217] = 0
    axes = pictures.plot_difference(made(a), made(b), "fc")
    assert legend(axes) == ["both: 119,999", "only A, or more: 1", "only B, or more: 0"]
    assert [points(axes, line) for line in (1, 2)] == [[(123, 217)], []]
    assert axes.get_title() == "fc\na cell: 4 neurons × 3 time steps, fullest: 12 events"


def test_spikes_of_a_neuron_have_the_colour_of_its_line() -> None:
    axes = pictures.plot_traces(made(), "fc", [0, 2, 1])
    assert axes.get_title() == "fc, 3 of 3 neurons"
    first, _, third, *rows = axes.lines
    assert [row.get_color() for row in rows] == [first.get_color(), third.get_color()]  # neuron 2 never fires
    assert [sorted(x for x, _ in points(axes, k)) for k in (3, 4)] == [[0, 2], [1, 2]]
    assert len({line.get_color() for line in axes.lines}) == 3


def test_a_recording_draws_its_spikes_else_its_potentials() -> None:
    both = Recording({("a", "s"): S, ("b", "v"): V, ("c", "s"): S}, {"dt": 1e-3})
    assert [t.get_text() for t in both.plot().get_yticklabels()] == ["a\n3 neurons", "c\n3 neurons"]
    assert drawn(both.plot("c")) == drawn(pictures.plot_raster(both, "c"))
    assert drawn(both.plot("b")) == drawn(pictures.plot_traces(both, "b", [0, 1, 2]))
    alone = Recording({("b", "v"): np.stack([V, 2 * V], axis=1)}, {"dt": 1e-3, "batch": 2})
    assert points(alone.plot(sample=1)) == [(0, 0.2), (1, 0.4), (2, 0.6), (3, 0.8)]
    axes = both.plot("a")
    assert both.plot(["c"], ax=axes) is axes
    with pytest.raises(UsageError, match="^recording: no node has spikes or potentials to draw; add record='"):
        Recording({("c", "count"): S}, {}).plot()
    with pytest.raises(UsageError, match="^population 'x': 's' was not recorded; recorded for 'a', 'c'$"):
        both.plot("x")


def test_integers_are_drawn_in_real_units_at_the_time_of_the_reference() -> None:
    meta = {"scale": {"fc": 64.0}, "v_offset": {"fc": 0.5}, "latency": {"fc": 2}}
    fixed = Recording({("fc", "v"): np.array([[0], [64], [128]]), ("fc", "u"): np.ones((3, 1))}, meta)
    axes = pictures.plot_traces(made(), "fc", 0, other=fixed, names=("reference", "fixed"), threshold=1.0)
    assert points(axes, 1) == [(-2, 0.5), (-1, 1.5), (0, 2.5)]
    assert legend(axes)[:2] == ["reference: after the reset", "fixed: after the reset"]
    assert [line.get_linestyle() for line in axes.lines[:2]] == ["-", "--"]
    for wrong in ("x", 0, [1, 2], None, float("nan")):
        with pytest.raises(UsageError, match="^scale of 'fc' in the recording's meta: .*; simulate it again$"):
            pictures.plot_traces(Recording(fixed.arrays, {"scale": {"fc": wrong}}), "fc")
    several = pictures.plot_traces(made(), "fc", [0, 2])
    assert legend(several) == ["neuron 0, after the reset", "neuron 2, after the reset", "spike"]


def test_the_name_is_looked_at_before_matplotlib(monkeypatch: pytest.MonkeyPatch) -> None:
    style.check_picture("a.Png")
    monkeypatch.setattr(style, "find_spec", lambda name: None)
    with pytest.raises(UsageError, match="^picture 'b.jpg': not a name of a picture"):
        style.check_picture("a/b.jpg")
    with pytest.raises(UsageError, match="^pictures: matplotlib is not installed"):
        style.check_picture("a.png")


def test_a_comparison_draws_the_first_sample_that_differs() -> None:
    a = np.zeros((4, 3, 2), np.uint8)
    b = a.copy()
    b[1, 2, 0] = 1
    pair = [Recording({("c", "s"): x}, {"dt": 1e-3, "batch": 3}) for x in (a, b)]
    compared = nb.compare(*pair, latency=0)
    assert compared.plot().get_title().endswith("sample 2")
    assert compared.plot(sample=1).get_title().endswith("sample 1")
