"""``nirbridge compare``: text, JSON, exit codes, pictures, files that cannot be compared."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nirbridge.cli.commands.compare import command
from nirbridge.cli.main import run
from nirbridge.simulators.recording_file import write_recording
from nirbridge.simulators.types import Recording

A = np.array([[1, 0], [0, 1], [1, 1], [0, 0]], np.uint8)
B = np.array([[1, 0], [1, 1], [0, 1], [0, 1]], np.uint8)
LATE = np.concatenate([np.zeros((2, 2), np.uint8), A[:2]])


def write(folder: Path, name: str, s: Any, node: str = "fc", **meta: Any) -> str:
    write_recording(Recording({(node, "s"): np.asarray(s)}, {"dt": 1e-3, **meta}), folder / name)
    return str(folder / name)


@pytest.fixture
def files(tmp_path: Path) -> tuple[str, str, str]:
    """A, another one, and A two steps later."""
    late = write(tmp_path, "late.npz", LATE, latency={"fc": 2})
    return write(tmp_path, "a.npz", A, latency={"fc": 0}), write(tmp_path, "b.npz", B, latency={"fc": 0}), late


def test_a_table(
    files: tuple[str, str, str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    assert run(["compare", *files[:2]]) == 0
    out = capsys.readouterr().out.splitlines()
    row = ["fc", "s", "no", "1", "0.5000", "4", "/", "5", "1", "1.09102", "1", "0"]
    assert out[1].split() == row
    assert out[3] == "not equal: 1 of 1 variable differs, first at time step 1"
    assert out[4] == "- fc/s: first differs at time step 1, neuron (0): 0 in A, 1 in B"


def test_exit_1_where_equality_was_asked_for(files: tuple[str, str, str], capsys: pytest.CaptureFixture[str]) -> None:
    a, b, late = files
    assert run(["compare", a, a, "--expect-equal"]) == 0
    assert capsys.readouterr().err == ""
    assert run(["compare", a, b, "--expect-equal"]) == 1
    assert capsys.readouterr().err == (
        "error: recordings 'a.npz' and 'b.npz': not equal: 1 of 1 variable differs, first at time step 1, "
        "--expect-equal was given\n"
    )
    assert run(["compare", a, late, "--expect-equal"]) == 0
    assert run(["compare", a, late, "--expect-equal", "--latency", "auto"]) == 0
    assert run(["compare", a, late, "--expect-equal", "--latency", "0"]) == 1
    assert run(["compare", a, late, "--expect-equal", "--latency", "2"]) == 0
    assert run(["compare", late, a, "--expect-equal", "--latency", "-2"]) == 0


def test_one_json_document(files: tuple[str, str, str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["compare", *files[:2], "--json", "--tau", "5", "--expect-equal"]) == 1
    document = json.loads(capsys.readouterr().out)
    assert (document["a"], document["b"], document["equal"]) == ("a.npz", "b.npz", False)
    assert document["rows"][0]["spikes"]["jaccard"] == 0.5
    assert document["van_rossum"]["tau_steps"] == 5.0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--latency", "soon"], "--latency: 'soon', a whole number of time steps, or 'auto'; as in --latency 2"),
        (
            ["--latency", "9" * 40],
            f"--latency: '{'9' * 40}', a whole number of time steps, or 'auto'; as in --latency 2",
        ),
        (["--tau", "0"], "tau_steps: 0.0, a number of steps above 0; 10 is the default"),
        (["--node", "fc"], "--node: given without --plot, it names the node to draw; add --plot FILE.png"),
    ],
)
def test_wrong_usage(
    files: tuple[str, str, str], options: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["compare", *files[:2], *options]) == 2
    assert capsys.readouterr().err == f"error: {message}\n"


def test_files_that_can_not_be_compared(
    files: tuple[str, str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["compare", files[0], str(tmp_path / "none.npz")]) == 2
    (tmp_path / "text.npz").write_text("no archive")
    assert run(["compare", files[0], str(tmp_path / "text.npz")]) == 2
    assert run(["compare", files[0], write(tmp_path, "other.npz", A, node="x")]) == 2
    errors = capsys.readouterr().err.splitlines()
    assert len(errors) == 3
    assert "'none.npz'" in errors[0]
    assert "'text.npz'" in errors[1]
    assert errors[2].startswith("error: recordings: one has 'fc'/s, the other 'x'/s, nothing was recorded in both")


def test_a_picture(files: tuple[str, str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("matplotlib", reason="matplotlib, the extra 'plot', is not installed")
    picture = tmp_path / "difference.png"
    assert run(["compare", *files[:2], "--plot", str(picture)]) == 0
    assert picture.read_bytes().startswith(b"\x89PNG")
    picture.unlink()
    assert run(["compare", *files[:2], "--plot", str(picture), "--node", "fd"]) == 2
    assert run(["compare", *files[:2], "--plot", str(tmp_path / "difference.bmp")]) == 2
    assert run(["compare", *files[:2], "--plot", str(tmp_path / "nope" / "d.png")]) == 2
    errors = capsys.readouterr().err.splitlines()
    assert errors[0] == "error: population 'fd': 's' was not recorded; did you mean 'fc'?"
    assert errors[1].startswith("error: picture 'difference.bmp': not a name of a picture")
    assert errors[2].startswith("error: --plot ")
    assert errors[2].endswith("d.png': its folder does not exist; create it")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.npz", "b.npz", "late.npz"]


def test_accuracy_with_labels(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    batch = np.zeros((2, 3, 2), np.uint8)
    batch[0, 1, 1] = 1  # the samples decide for 0, 1, 0
    a = write(tmp_path, "a.npz", batch, batch=3, latency={"fc": 0})
    np.save(tmp_path / "labels.npy", np.array([0, 1, 1]))
    assert run(["compare", a, a, "--labels", str(tmp_path / "labels.npy"), "--json"]) == 0
    decisions = json.loads(capsys.readouterr().out)["rows"][0]["decisions"]
    accuracy = {"accuracy_a": 2 / 3, "accuracy_b": 2 / 3}
    assert decisions == {"samples": 3, "alike": 3, "agreement": 1.0, **accuracy}
    np.save(tmp_path / "labels.npy", np.array([0, 1]))
    assert run(["compare", a, a, "--labels", str(tmp_path / "labels.npy")]) == 2
    assert run(["compare", a, a, "--labels", str(tmp_path / "none.npy")]) == 2
    errors = capsys.readouterr().err.splitlines()
    assert errors[0] == "error: labels of 'fc': 2 labels, the recordings have 3 samples"
    assert "'none.npy'" in errors[1]


def test_hostile_names(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    name = "../[red]\x1b[31m\n$\\frac{$\u202e"
    a, b = write(tmp_path, "a.npz", A, node=name), write(tmp_path, "b.npz", B, node=name)
    picture = ["--plot", str(tmp_path / "d.png")] if _has_matplotlib() else []
    assert run(["compare", a, b, "--latency", "auto", *picture]) == 0
    out = capsys.readouterr().out
    assert "\x1b" not in out
    assert "\u202e" not in out
    assert "[red]\\x1b[31m\\n" in out
    assert run(["compare", a, b, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["rows"][0]["node"] == name


def _has_matplotlib() -> bool:
    from importlib.util import find_spec

    return find_spec("matplotlib") is not None


def test_the_default_of_tau_is_that_of_the_library() -> None:
    from nirbridge.comparison.distances import TAU_STEPS

    assert next(p for p in command.params if p.name == "tau").default == TAU_STEPS
