"""``--axes`` of every command that takes data, the order of an imported module, and what stderr states."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import nir
import numpy as np
import pytest

import nirbridge as nb
from nirbridge.cli.main import run
from nirbridge.network.nir.from_nir import from_nir
from nirbridge.simulators.recording_file import read_recording
from tests.network.graphs import chain, lif, out, port

X = (np.random.default_rng(2).random((7, 5, 4)) < 0.5).astype(np.uint8)
"""7 samples of 5 time steps."""
READING = "7 samples of 5 time steps (axes sample, time: "


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    weight = np.random.default_rng(1).normal(size=(3, 4)) * 90
    network = from_nir(chain(port(4), nir.Linear(weight), lif(3), out(3)), nb.Timing(dt=1e-3))
    nb.save(network, tmp_path / "plain.net.npz")
    nb.save(replace(network, axes=("sample", "time")), tmp_path / "known.net.npz")
    np.save(tmp_path / "x.npy", X)
    np.save(tmp_path / "y.npy", np.arange(7) % 3)
    np.savez(tmp_path / "xy.npz", x=X, labels=np.arange(7) % 3)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    "command",
    [
        "simulate MODEL --input x.npy -o out.npz",
        "simulate MODEL --input x.npy -o out.npz --backend fixed --chip loihi2",
        "profile MODEL --chip loihi2 --input x.npy --labels y.npy -o out.json",
        "verify MODEL --chip loihi2 --input x.npy --labels y.npy",
        "verify MODEL --chip loihi2 --calibrate xy.npz",
        "quantize MODEL --chip loihi2 --calibrate xy.npz -o out.q.npz",
        "map MODEL --chip loihi2 --input x.npy",
        "bench MODEL --input x.npy --backend reference --batch 7 --repeats 1",
    ],
)
def test_every_command_reads_the_order_that_is_named_or_known(
    folder: Path, command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    texts = []
    for model, options in (("known.net.npz", []), ("plain.net.npz", ["--axes", "sample,time"])):
        assert run([*command.replace("MODEL", model).split(), *options]) == 0
        shown = capsys.readouterr()
        assert READING in shown.err
        texts.append(shown.out.replace(model, "").replace("the order of the module", "as given"))
    assert texts[0] == texts[1] or command.startswith(("bench", "map"))  # which state times
    assert run([*command.replace("MODEL", "known.net.npz").split(), "--quiet"]) == 0
    assert READING not in capsys.readouterr().err


def test_labels_that_contradict_the_order_are_refused(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for command in ("profile", "verify"):
        assert run([command, "plain.net.npz", "--chip", "loihi2", "--input", "x.npy", "--labels", "y.npy"]) == 2
        assert "7 labels for 5 samples of 7 time steps" in capsys.readouterr().err
    assert run(["verify", "plain.net.npz", "--chip", "loihi2", "--axes", "sample,time"]) == 2
    assert "--axes: given without data" in capsys.readouterr().err
    assert run(["simulate", "plain.net.npz", "--input", "x.npy", "-o", "out.npz", "--axes", "sample"]) == 2
    assert "--axes: 'sample'" in capsys.readouterr().err


def test_the_default_order_is_stated_where_there_are_samples(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["simulate", "plain.net.npz", "--input", "x.npy", "-o", "out.npz", "--json"]) == 0
    shown = capsys.readouterr()
    reading = "5 samples of 7 time steps (axes time, sample: the default order)"
    assert shown.err == f"'x.npy': {reading}\n"
    assert json.loads(shown.out)["meta"]["reading"] == reading


def test_integers_and_their_program_are_drained_alike(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("onnxruntime")
    assert run(["simulate", "known.net.npz", "--input", "x.npy", "-o", "real.npz"]) == 0
    nb.emit(nb.quantize("known.net.npz", "loihi2"), "onnx").save("program")
    on_chip = ["--backend", "fixed", "--chip", "loihi2"]
    assert run(["simulate", "known.net.npz", "--input", "x.npy", "-o", "fixed.npz", *on_chip]) == 0
    assert run(["run", "program", "--input", "x.npy", "-o", "program.npz"]) == 0
    assert capsys.readouterr().err.count(READING) == 3
    real, fixed, program = (read_recording(folder / f"{name}.npz") for name in ("real", "fixed", "program"))
    assert real["out"].shape == fixed["out"].shape == (5, 7, 3)
    assert fixed.meta["drained"]["out"] > 0
    assert np.array_equal(fixed["out"], program["out"])
    assert np.array_equal(fixed["out"][-1].any(axis=1), real["out"][-1].any(axis=1))
