"""``nirbridge emit`` and ``nirbridge run``, end to end."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path

import nir
import numpy as np
import pytest

from nirbridge.cli import main as cli
from nirbridge.importers import save_nir
from nirbridge.quantization.storage.file import read_quantized as load_quantized
from nirbridge.simulators.fixed.simulate import simulate_fixed
from nirbridge.simulators.recording_file import read_recording as load_recording
from nirbridge.simulators.simulate import Probe
from tests.network.graphs import graph_of, lif, out, port


def test_what_integers_lose_is_said_where_it_is_much(
    root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = str(root / "examples" / "models" / "digits_mlp.nir")
    for bits, said in (("8", ""), ("2", "weights     error 90.6 % into leaky_1: see nirbridge quantize")):
        assert cli.run(["emit", model, "--to", "c", "--bits", bits, "-o", str(tmp_path / bits)]) == 0
        lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("weights ")]
        assert lines == [said] * bool(said)


def test_emit_then_run(root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model, program = str(root / "examples" / "models" / "digits_mlp.nir"), str(tmp_path / "program")
    assert cli.run(["emit", model, "--to", "lava", "-o", program, "--json"]) == 0
    made = json.loads(capsys.readouterr().out)
    assert made["manifest"]["tag"] == "fixed_pt"
    assert cli.run(["emit", model, "--to", "lava", "-o", program]) == 0
    assert made["digest"] in capsys.readouterr().out
    shape = json.loads((tmp_path / "program" / "program.json").read_text())["inputs"][0]["shape"]
    np.save(tmp_path / "in.npy", (np.random.default_rng(0).random((12, *shape)) < 0.4).astype(np.uint8))
    target = str(tmp_path / "out.npz")
    code = cli.run(["run", program, "--input", str(tmp_path / "in.npy"), "-o", target, "--json"])
    captured = capsys.readouterr()
    assert code == 0, captured.err
    recording = load_recording(target)
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


def test_the_integers_that_quantize_saved_become_the_program(
    root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model, saved = str(root / "examples" / "models" / "digits_mlp.nir"), str(tmp_path / "m.q.npz")
    spikes = np.random.default_rng(0).random((25, 4, 64)) < 0.3
    np.save(tmp_path / "data.npy", spikes)
    choice = ["--bits", "4", "--calibrate", str(tmp_path / "data.npy"), "--method", "percentile", "--percentile", "90"]
    assert cli.run(["quantize", model, "--chip", "loihi1", *choice, "-o", saved]) == 0
    assert cli.run(["emit", saved, "--to", "lava", "-o", str(tmp_path / "program")]) == 0
    for more in (["--chip", "loihi1"], ["--reset", "subtract"], ["--per-core"], ["--weight-bits", "4"]):
        assert cli.run(["emit", saved, "--to", "lava", *more, "-o", str(tmp_path / "other")]) == 2
    quantized = load_quantized(saved)
    np.save(tmp_path / "in.npy", spikes[:, 0])
    out = tmp_path / "out.npz"
    arguments = ["run", str(tmp_path / "program"), "--input", str(tmp_path / "in.npy"), "-o", str(out)]
    assert cli.run([*arguments, "--record", "*:v"]) == 0
    records = [Probe(p.name, ("v",)) for p in quantized.populations]
    expected = simulate_fixed(quantized, spikes[:, 0], record=records, drain=True).recording.arrays
    found = load_recording(out).arrays
    assert set(found) == set(expected)
    assert all(np.array_equal(found[key], array) for key, array in expected.items())
    capsys.readouterr()


def test_a_file_with_hostile_names_becomes_a_program_like_any_other(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    names = ["it's", '"""\nimport os\nos.abort()\n"""', "{0} %s", "x" * 1000]
    for k, own in enumerate((names, ["a", "b", "c", "d"])):
        nodes = {"in": port(2), "w": nir.Linear(np.eye(2)), "out": out(2)} | {n: lif(2, tau=4e-4, r=9.0) for n in own}
        edges = [("in", "w"), ("w", own[0]), *pairwise(own), (own[-1], "out")]
        save_nir(graph_of(nodes, edges, dt=1e-4), tmp_path / f"{k}.nir")
        folder = str(tmp_path / f"program{k}")
        assert cli.run(["emit", str(tmp_path / f"{k}.nir"), "--to", "lava", "-o", folder]) == 0
    hostile, plain = tmp_path / "program0", tmp_path / "program1"
    code = [path.relative_to(plain) for path in sorted(plain.rglob("*.py"))]
    assert code == [path.relative_to(hostile) for path in sorted(hostile.rglob("*.py"))]
    assert all((hostile / path).read_bytes() == (plain / path).read_bytes() for path in code)
    np.save(tmp_path / "in.npy", np.ones((8, 2), np.uint8))
    arguments = ["run", str(hostile), "--input", str(tmp_path / "in.npy"), "-o", str(tmp_path / "out.npz")]
    assert cli.run([*arguments, *(x for name in names for x in ("--record", f"{name}:s,v")), "--record", "out:s"]) == 0
    recording = load_recording(tmp_path / "out.npz")
    assert {node for node, _ in recording.arrays} == {*names, "out"}
    assert recording.arrays["out", "s"].any()
    capsys.readouterr()


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--floating", "--per-core"], "choose one of them"),
        (["--graded", "input"], "INPUT=MAX:BITS"),
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
    assert "is not a program of nirbridge; make one with nirbridge emit" in capsys.readouterr().err
