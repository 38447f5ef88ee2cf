"""``nirbridge emit`` and ``nirbridge run``: the commands as users have them."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from nirbridge.cli import main as cli
from nirbridge.simulators.recording_file import load


def test_emit_then_run(root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model, program = str(root / "examples" / "models" / "digits_mlp.nir"), str(tmp_path / "program")
    assert cli.run(["emit", model, "--to", "lava", "-o", program, "--json"]) == 0
    made = json.loads(capsys.readouterr().out)
    assert made["manifest"]["tag"] == "fixed_pt"
    assert cli.run(["emit", model, "--to", "lava", "-o", program]) == 0
    assert made["digest"] in capsys.readouterr().out
    shape = json.loads((tmp_path / "program" / "program.json").read_text())["inputs"][0]["shape"]
    np.save(tmp_path / "in.npy", (np.random.default_rng(0).random((12, *shape)) < 0.4).astype(np.uint8))
    out = str(tmp_path / "out.npz")
    code = cli.run(["run", program, "--input", str(tmp_path / "in.npy"), "-o", out, "--json"])
    captured = capsys.readouterr()
    assert code == 0, captured.err
    recording = load(out)
    assert recording.meta["backend"] == "lava"
    assert recording.meta["latency"]
    [(key, spikes)] = recording.arrays.items()
    assert key[1] == "s"
    assert spikes.dtype == np.uint8
    assert json.loads(captured.out)["recorded"][0]["spikes"] == int(spikes.sum())


def test_a_program_per_core(root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model, chip = root / "examples" / "models" / "digits_cnn.nir", "loihi1"
    found = {}
    for flag in ("--per-core", "--json"):
        arguments = ["emit", str(model), "--to", "lava", "--chip", chip, "-o", str(tmp_path / flag), "--json", flag]
        assert cli.run(arguments) == 0, capsys.readouterr().err
        found[flag] = json.loads(capsys.readouterr().out)["manifest"]["processes"]
    assert found["--per-core"] >= found["--json"]


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--floating", "--per-core"], "choose one of them"),
        (["--graded", "input"], "is not INPUT=MAX:BITS"),
        (["--chip", "unknown"], "unknown"),
    ],
)
def test_options_that_make_no_sense(
    root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], text: str
) -> None:
    model = str(root / "examples" / "models" / "digits_mlp.nir")
    assert cli.run(["emit", model, "--to", "lava", "-o", str(tmp_path / "out"), *arguments]) == 2
    assert text in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_what_is_no_program_is_not_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    np.save(tmp_path / "in.npy", np.ones((2, 2)))
    code = cli.run(["run", str(tmp_path), "--input", str(tmp_path / "in.npy"), "-o", str(tmp_path / "out.npz")])
    assert code == 2
    assert "is no program of nirbridge; make one with nirbridge emit" in capsys.readouterr().err
