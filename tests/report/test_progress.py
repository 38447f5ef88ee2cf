"""Progress of calls in Python: on a terminal and in a notebook, after a second, and nowhere else."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import nirbridge as nb
from nirbridge import pipeline
from nirbridge._types import IMPORT_PROGRESS, no_progress
from nirbridge.mapping.storage.file import map_to_dict
from nirbridge.report import progress as room
from nirbridge.report.progress import duration_text, progress_shown

NETWORK = pipeline.network_of_shapes("8 dense6 lif dense2 lif")
WORK = """
import sys, threading, time
from nirbridge.api.arguments import shows_progress
@shows_progress
def work(progress=True):
    for k in range(8):
        progress("mapping [b]x", k / 8)
        time.sleep(0.2)
    assert threading.active_count() == 1
work(**eval(sys.argv[1]))
"""


class Drawn:
    def __init__(self) -> None:
        self.lines: list[tuple[str, float | None, str]] = []

    def draw(self, stage: str, done: float | None, left: str) -> None:
        self.lines.append((stage, done, left))

    def end(self) -> None:
        self.lines.append(("end", None, ""))


def on_a_terminal(options: str = "{}", **environment: str) -> str:
    ours, theirs = os.openpty()
    env = {**os.environ, "TERM": "xterm", "COLUMNS": "80", **environment}
    done = subprocess.run(
        [sys.executable, "-c", WORK, options], stderr=theirs, stdout=subprocess.PIPE, env=env, check=True
    )
    os.close(theirs)
    assert done.stdout == b""
    os.set_blocking(ours, False)
    try:
        return os.read(ours, 100_000).decode()
    except OSError:
        return ""
    finally:
        os.close(ours)


def test_a_terminal_shows_the_stage_and_the_time_left_and_keeps_nothing() -> None:
    shown = on_a_terminal()
    assert "mapping [b]x" in shown
    assert "%, about 1 s left" in shown
    assert shown.rstrip().endswith("\x1b[2K")  # the line is erased


@pytest.mark.parametrize(("options", "environment"), [("{'progress': False}", {}), ("{}", {"NIRBRIDGE_PROGRESS": "0"})])
def test_it_can_be_turned_off(options: str, environment: dict[str, str]) -> None:
    assert on_a_terminal(options, **environment) == ""


def test_without_a_terminal_there_is_none() -> None:
    done = subprocess.run([sys.executable, "-c", WORK, "{}"], capture_output=True, check=True)
    assert (done.stdout, done.stderr) == (b"", b"")


def test_short_work_shows_nothing_and_the_estimate_is_that_of_the_stage(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, drawn = [0.0], Drawn()
    monkeypatch.setattr(room, "monotonic", lambda: clock[0])
    monkeypatch.setattr(room, "_drawer", lambda *_: drawn)
    with progress_shown() as progress:
        progress("short", 0.5)
    assert drawn.lines == []
    with progress_shown() as progress:
        for now, stage, done in ((0.5, "a", 0.1), (1.5, "a", 0.2), (1.55, "a", 0.3), (2.5, "b", 0.5), (4.5, "b", 0.6)):
            clock[0] = now
            progress(stage, done)
        with progress_shown() as inner:
            assert inner is no_progress
        clock[0] = 5.0
        progress("c", None)
    assert drawn.lines == [
        *(("a", 0.2, "about 8 s left"), ("b", 0.5, ""), ("b", 0.6, "about 8 s left"), ("c", None, "")),
        ("end", None, ""),
    ]


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.2, "1 s"), (99.4, "99 s"), (120, "2 min"), (5969, "99 min"), (9000, "2.5 h")]
)
def test_durations(seconds: float, text: str) -> None:
    assert duration_text(seconds) == text


def test_a_notebook_shows_a_line_of_its_own(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    shown: list[Any] = []
    handle = SimpleNamespace(update=lambda content, **_: shown.append(content["text/plain"]))

    def display(content: Any, **options: Any) -> Any:
        assert options == {"raw": True, "display_id": True}
        handle.update(content)
        return handle

    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace())
    monkeypatch.setitem(sys.modules, "IPython.display", SimpleNamespace(display=display))
    monkeypatch.setattr("rich.console._is_jupyter", lambda: True)
    monkeypatch.setattr(room, "_BETWEEN_S", 0.0)
    with progress_shown(delay_s=0) as progress:
        progress("bounds", None)
        progress("place", 0.25)
    assert shown == ["bounds", "place 25%", ""]
    assert capfd.readouterr() == ("", "")


X = np.ones((4, 2, *NETWORK.inputs[0].shape), np.uint8)
CALLS = {
    "map": lambda **more: nb.map(NETWORK, "loihi2", effort="fast", **more),
    "quantize": lambda **more: nb.quantize(NETWORK, "loihi2", **more),
    "simulate": lambda **more: nb.simulate(NETWORK, X, **more),
    "sweep": lambda **more: nb.sweep({"models": ["examples/models/digits_mlp.nir"], "chips": ["loihi2"]}, **more),
}


@pytest.mark.parametrize("name", CALLS)
def test_every_long_call_has_progress(name: str, monkeypatch: pytest.MonkeyPatch, root: Any) -> None:
    monkeypatch.chdir(root)
    said: list[str] = []

    @contextmanager
    def shown() -> Any:
        yield lambda stage, done: said.append(stage)

    monkeypatch.setattr("nirbridge.api.arguments.progress_shown", shown)
    CALLS[name](progress=False)
    assert said == []
    CALLS[name]()
    assert said
    told: list[str] = []
    CALLS[name](progress=lambda stage, done: told.append(stage))
    assert told == said[: len(told)]
    assert IMPORT_PROGRESS.get() is no_progress


def test_progress_changes_no_map_and_options_keep_their_own() -> None:
    told: list[str] = []
    options = nb.MapOptions(effort="fast", progress=lambda stage, done: told.append(stage))
    maps = [nb.map(NETWORK, "loihi2", options), nb.map(NETWORK, "loihi2", options, progress=False)]
    assert told
    first, second = (map_to_dict(mapped, "m", "") for mapped in maps)
    assert first == second
