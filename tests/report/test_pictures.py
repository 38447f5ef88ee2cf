"""Pictures: their content, read from the figure, and the file written."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nirbridge.errors import FileError, UsageError
from nirbridge.report.plots import recordings as pictures
from nirbridge.report.plots import style
from nirbridge.simulators.types import Recording

pytest.importorskip("matplotlib", reason="matplotlib, the extra 'plot', is not installed")

HOSTILE = "$\\frac{$ [b]\x1b[31m\n\u202e 神経 \U0001f9e0" + "y" * 200
S = np.array([[1, 0, 0], [0, 1, 0], [1, 1, 0], [0, 0, 0]], np.uint8)
V = np.array([[0.1, 0, 0], [0.2, 0.5, 0], [0.3, 0, 0], [0.4, 0, 0]])


def made(s: Any = S, node: str = "fc", **meta: Any) -> Recording:
    return Recording({(node, "s"): np.asarray(s), (node, "v"): V}, {"dt": 1e-3, **meta})


def points(axes: Any, line: int = 0) -> list[tuple[float, float]]:
    """(x, y) of one line."""
    return [(float(x), float(y)) for x, y in axes.lines[line].get_xydata()]


def legend(axes: Any) -> list[str]:
    return [text.get_text() for text in axes.get_legend().get_texts()]


def test_a_raster_has_a_mark_per_event() -> None:
    axes = pictures.plot_raster(made(), "fc")
    assert points(axes) == [(0, 0), (1, 1), (2, 0), (2, 1)]
    assert axes.get_title() == "fc; 4 events of 3 neurons"
    assert (axes.get_xlim(), axes.get_ylim()) == ((-0.5, 3.5), (-0.5, 2.5))


def test_steps_are_those_of_the_simulation() -> None:
    axes = pictures.plot_raster(made(every={"fc/s": 5}), "fc")
    assert points(axes) == [(4, 0), (9, 1), (14, 0), (14, 1)]
    assert axes.get_xlim() == (-0.5, 19.5)


def test_one_sample_of_a_batch() -> None:
    batch = np.stack([np.zeros_like(S), S], axis=1)
    assert len(points(pictures.plot_raster(made(batch, batch=2), "fc", sample=1))) == 4
    assert points(pictures.plot_raster(made(batch, batch=2), "fc")) == []
    with pytest.raises(UsageError, match="^population 'fc': sample 2, the recording has 2, numbered from 0; choose"):
        pictures.plot_raster(made(batch, batch=2), "fc", sample=2)


def test_a_trace_has_potential_threshold_and_spikes() -> None:
    axes = pictures.plot_traces(made(), "fc", 0, threshold=0.35)
    assert points(axes, 0) == [(0, 0.1), (1, 0.2), (2, 0.3), (3, 0.4)]
    assert [y for _, y in points(axes, 1)] == [0.35, 0.35]
    assert [x for x, _ in points(axes, 2)] == [0, 2]
    assert legend(axes) == ["after the reset", "threshold 0.35", "spike"]


def test_a_trace_is_of_the_potential_before_the_reset_where_that_is_recorded() -> None:
    both = Recording({("n", "v"): V, ("n", "u"): V + 1}, {})
    axes = pictures.plot_traces(both, "n", 1)
    assert points(axes) == [(0, 1), (1, 1.5), (2, 1), (3, 1)]
    assert legend(axes) == ["before the reset"]


def test_rates_count_neurons() -> None:
    """Neurons 0 and 1 spike in 2 of 4 steps, neuron 2 never: bins for 0, 1 and 2 spikes."""
    axes = pictures.plot_rates(made(), "fc")
    assert [bar.get_height() for bar in axes.patches] == [1, 0, 2]
    assert [bar.get_x() + bar.get_width() / 2 for bar in axes.patches] == pytest.approx([0, 0.25, 0.5])
    many = pictures.plot_rates(made(np.full((400, 3), 1)), "fc")
    assert len(many.patches) == pictures.BINS_MAX
    assert sum(bar.get_height() for bar in many.patches) == 3
    with pytest.raises(UsageError, match="^population 'fc': graded values, rates are of spikes; draw a raster$"):
        pictures.plot_rates(made(V), "fc")


def test_a_difference_has_three_kinds_of_marks() -> None:
    other = S.copy()
    other[0, 0], other[3, 2], other[2, 1] = 0, 1, 2
    axes = pictures.plot_difference(made(), made(other), "fc")
    assert points(axes, 0) == [(1, 1), (2, 0)]
    assert points(axes, 1) == [(0, 0)]
    assert points(axes, 2) == [(2, 1), (3, 2)]
    assert legend(axes) == ["both: 2", "only A, or more: 1", "only B, or more: 2"]


def test_a_difference_at_a_latency_is_numbered_as_in_a() -> None:
    late = np.concatenate([np.zeros((2, 3), np.uint8), S])
    axes = pictures.plot_difference(made(), made(late), "fc", latency=2)
    assert points(axes, 0) == [(0, 0), (1, 1), (2, 0), (2, 1)]
    assert legend(axes)[1:] == ["only A, or more: 0", "only B, or more: 0"]
    early = pictures.plot_difference(made(late), made(), "fc", latency=-2)
    assert points(early, 0) == [(2, 0), (3, 1), (4, 0), (4, 1)]
    with pytest.raises(UsageError, match="^population 'fc': .*latency 9, no steps in common; compare without"):
        pictures.plot_difference(made(), made(), "fc", latency=9)


@pytest.mark.parametrize("draw", [pictures.plot_raster, pictures.plot_traces, pictures.plot_rates])
def test_what_was_not_recorded_can_not_be_drawn(draw: Callable[..., Any]) -> None:
    with pytest.raises(UsageError, match="^population 'nope': '[sv]' was not recorded; recorded for 'fc'$"):
        draw(made(), "nope")
    with pytest.raises(UsageError, match="^population 'nope': '[sv]' was not recorded; record it$"):
        draw(Recording({}, {}), "nope")
    with pytest.raises(UsageError, match="^population 'fc': neuron 3, it has 3, numbered from 0; choose one of them$"):
        pictures.plot_traces(made(), "fc", 3)


@pytest.mark.parametrize("spikes", [S, np.zeros((0, 3), np.uint8), np.zeros((4, 0), np.uint8), V])
def test_hostile_names_and_empty_recordings_are_drawn(spikes: np.ndarray, tmp_path: Path) -> None:
    recording = Recording({(HOSTILE, "s"): spikes, (HOSTILE, "v"): V}, {})
    figures = [pictures.plot_raster(recording, HOSTILE), pictures.plot_traces(recording, HOSTILE)]
    figures += [pictures.plot_difference(recording, recording, HOSTILE)] if len(spikes) else []
    figures += [] if spikes is V else [pictures.plot_rates(recording, HOSTILE)]
    for axes in figures:
        style.save_picture(axes, tmp_path / "p.png")
    assert (tmp_path / "p.png").read_bytes().startswith(b"\x89PNG")


def test_a_picture_is_written_whole_or_not_at_all(tmp_path: Path) -> None:
    axes = pictures.plot_raster(made(), "fc")
    for name in ("a.PNG", "b.png"):
        style.save_picture(axes, tmp_path / name)
    assert (tmp_path / "a.PNG").read_bytes() == (tmp_path / "b.png").read_bytes()
    with pytest.raises(FileError, match="^picture 'c.png': its folder does not exist; create it$"):
        style.save_picture(axes, tmp_path / "nope" / "c.png")
    with pytest.raises(
        UsageError, match="^picture 'c.jpg': not a name of a picture, pictures are SVG, PDF or PNG; let"
    ):
        style.save_picture(axes, tmp_path / "c.jpg")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.PNG", "b.png"]


def test_without_matplotlib_it_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(style, "find_spec", lambda name: None)
    with pytest.raises(UsageError, match=r"^pictures: matplotlib is not installed; pip install 'nirbridge\[plot\]'$"):
        pictures.plot_raster(made(), "fc")
