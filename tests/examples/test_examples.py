"""Every example runs as its docstring describes, from any folder, and prints correct results."""

from __future__ import annotations

import os
import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def run(script: str, folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(ROOT / "examples" / script), *arguments]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=120
    )


def output(script: str, folder: Path) -> str:
    done = run(script, folder)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def shapes(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    return output("shapes_before_training.py", tmp_path_factory.mktemp("anywhere")).splitlines()


def test_a_trained_network_with_maxima_keeps_its_accuracy(tmp_path: Path) -> None:
    """Trained with MaxPool2d over spikes, imported, mapped, verified; one epoch here."""
    pytest.importorskip("snntorch", reason="snntorch is not installed")
    pytest.importorskip("sklearn", reason="needs scikit-learn's digits")
    done = run("digits_max_pool.py", tmp_path, "--epochs", "1")
    assert done.returncode == 0, done.stderr
    trained, imported = re.findall(r"([\d.]+)%", done.stdout.splitlines()[0])
    assert trained == imported != "0.00"
    assert "spike counts equal: True" in done.stdout
    assert "970 neurons on" in done.stdout
    assert "fixed == mapped: every spike, u and v" in done.stdout


@pytest.mark.slow
def test_a_trained_transformer_keeps_its_scores(tmp_path: Path) -> None:
    """Spike-driven attention, trained, imported, mapped, verified; three epochs here."""
    pytest.importorskip("spikingjelly", reason="spikingjelly is not installed")
    pytest.importorskip("sklearn", reason="needs scikit-learn's digits")
    done = run("digits_transformer.py", tmp_path, "--epochs", "3")
    assert done.returncode == 0, done.stderr
    trained, imported = re.findall(r"([\d.]+)%", done.stdout.splitlines()[1])
    assert trained == imported
    assert float(trained) > 30
    assert "scores that differ: 0 of 5970" in done.stdout
    assert "fixed == mapped: every spike, u and v" in done.stdout


def test_map_a_model(tmp_path: Path) -> None:
    lines = output("map_a_model.py", tmp_path).splitlines()
    assert lines[:2] == ["778 neurons on 1 of 128 cores of loihi2", "any map needs at least 1: optimal"]
    assert re.fullmatch(r"  core \(\d+, \d+, \d+\) of chip 0: leaky_1 .*leaky_4 .*leaky_8 .*", lines[2])


def test_sparse_reservoir(tmp_path: Path) -> None:
    lines = output("sparse_reservoir.py", tmp_path).splitlines()
    assert re.fullmatch(r"reservoir\.net\.npz: 0\.\d MB, 2,010 neurons", lines[0])
    assert int(lines[1].split()[0].replace(",", "")) > 1000
    cores, bound = map(int, re.findall(r": (\d+), lower bound (\d+)", lines[2])[0])
    assert 1 <= bound <= cores
    assert list(tmp_path.iterdir()) == []


def test_map_a_model_says_what_is_wrong(tmp_path: Path) -> None:
    done = run("map_a_model.py", tmp_path, "nothing.nir")
    assert done.returncode == 1
    assert re.fullmatch(r"'nothing.nir': it cannot be opened \(No such file or directory\); .*\n", done.stderr)


@pytest.mark.parametrize("widths", ["2312 -> 128 -> 10", "2312 -> 512 -> 512 -> 10"])
def test_shapes_that_fit(shapes: list[str], widths: str) -> None:
    assert re.fullmatch(r"  yes: \d+ of 128 cores, (optimal|optimal-sliced)", shapes[shapes.index(widths) + 1])


def test_shapes_that_do_not_fit(shapes: list[str]) -> None:
    reason = shapes[shapes.index("4900 -> 128 -> 10") + 1]
    assert re.match(r"^  no: population 'lif', .*: 4,900 input axons .*, a loihi1 core holds 4,096; ", reason)


@pytest.mark.usefixtures("searched_once")
@pytest.mark.parametrize("script", ["draw_digits_cnn.py", "draw_profile.py"])
def test_pictures_of_the_pages_are_drawn(script: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In this process, where the map of the first one is often known."""
    pytest.importorskip("matplotlib", reason="pictures need matplotlib")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", [script, "drawn.png"])
    runpy.run_path(str(ROOT / "examples" / script), run_name="__main__")
    assert (tmp_path / "drawn.png").read_bytes().startswith(b"\x89PNG")
