from __future__ import annotations

import json
from pathlib import Path

import nir
import numpy as np
import pytest

import nirbridge as nb
from nirbridge.cli.main import run
from nirbridge.importers import save_nir
from nirbridge.pipeline import load_network
from nirbridge.simulators.recording_file import read_recording
from nirbridge.simulators.simulate import Probe, simulate
from tests.network.graphs import chain, lif, out, port

INPUT = np.random.default_rng(4).random((40, 3)) < 0.5


@pytest.fixture
def model(tmp_path: Path) -> str:
    weight = np.random.default_rng(1).normal(size=(4, 3)) * 40
    save_nir(chain(port(3), nir.Linear(weight), lif(4), out(4)), tmp_path / "model.nir")
    np.save(tmp_path / "in.npy", INPUT)
    return str(tmp_path / "model.nir")


def test_it_saves_what_the_library_gives(model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    result = tmp_path / "out.npz"
    options = ["--dt", "1e-3", "--record", "*:s,v", "--record", "1:count"]
    assert run(["simulate", model, "--input", str(tmp_path / "in.npy"), "-o", str(result), *options]) == 0
    shown = capsys.readouterr()
    assert shown.out.startswith("40 time steps of 0.001 s, float32, backend ")
    assert shown.err == ""
    from nirbridge.network.model import Timing

    network = load_network(model, Timing(dt=1e-3))
    wanted = simulate(network, INPUT, record=[Probe("*", ("s", "v")), Probe("1", ("count",))]).recording
    found = read_recording(result)
    assert found.arrays.keys() == wanted.arrays.keys()
    assert all(np.array_equal(found.arrays[key], wanted.arrays[key]) for key in wanted.arrays)
    assert wanted.arrays["1", "count"].sum() > 0
    assert found.meta["assumed"] == list(network.assumed)
    assert found.meta["backend"] == wanted.meta["backend"]


def test_inputs_by_name_with_a_batch_and_json(model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    name = load_network(model).inputs[0].name
    np.savez(tmp_path / "in.npz", **{name: np.stack([INPUT, ~INPUT], axis=1)})
    where = ["--input", str(tmp_path / "in.npz"), "-o", str(tmp_path / "out.npz")]
    assert run(["simulate", model, *where, "--steps", "10", "--every", "5", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["meta"]["batch"] == 2
    assert [entry["shape"] for entry in document["recorded"]] == [[2, 2, 4]]
    assert read_recording(tmp_path / "out.npz").meta["steps"] == 10


@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        (["--record", "ni:s"], 2, "error: record 'ni': no population, input or output of that name; nearest: 'in'\n"),
        (["--record", "1"], 2, "error: --record '1': names no node or no variable, NODE:s,v with variables "),
        (["--dt", "-1"], 2, "-1"),
        (["--steps", "0"], 2, "error: steps: 0, at least 1; give more"),
        (["--backend", "quick"], 2, "error: simulator 'quick': unknown, known simulators: auto, best, dense, "),
        (["--device", "cuda:77"], 2, "error: "),
        (["--max-bytes", "10"], 2, "error: "),
    ],
)
def test_wrong_options_are_one_error_and_write_nothing(
    model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], options: list[str], code: int, message: str
) -> None:
    result = tmp_path / "out.npz"
    args = ["simulate", model, "--input", str(tmp_path / "in.npy"), "-o", str(result), *options]
    assert run(args) == code
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.count("error: ") == 1
    assert message in shown.err
    assert not result.exists()
    assert not list(tmp_path.glob(".*"))


def test_wrong_files_are_one_error(model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    broken = INPUT.astype(float)
    broken[3, 1] = np.nan
    np.save(tmp_path / "nan.npy", broken)
    np.save(tmp_path / "wide.npy", np.zeros((5, 4)))
    (tmp_path / "text.npy").write_text("no array")
    (tmp_path / "in.csv").write_text("1,0,1")
    for name, message in {
        "nan.npy": "NaN at time step 3 (1 such value), inputs are finite numbers of float32; remove them",
        "wide.npy": "an array of shape (5, 4), it takes [steps, 3] or [steps, batch, 3]; put time",
        "text.npy": "error: file 'text.npy': not an array of plain numbers",
        "none.npy": "error: file 'none.npy': does not exist; check the path",
        "in.csv": "holds neither arrays nor events, arrays are .npy and .npz files",
    }.items():
        args = ["simulate", model, "--input", str(tmp_path / name), "-o", str(tmp_path / "out.npz")]
        assert run(args) == 2
        assert message in capsys.readouterr().err
    assert not (tmp_path / "out.npz").exists()
    where = str(tmp_path / "none" / "out.npz")
    assert run(["simulate", model, "--input", str(tmp_path / "in.npy"), "-o", where]) == 2
    assert "its folder does not exist; create it" in capsys.readouterr().err


def test_a_picture_of_what_it_did(model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("matplotlib", reason="pictures need matplotlib, the extra `plot`")
    args = ["simulate", model, "--input", str(tmp_path / "in.npy"), "-o", str(tmp_path / "out.npz")]
    assert run([*args, "--plot", str(tmp_path / "a.png")]) == 0
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")
    (tmp_path / "out.npz").unlink()
    assert run([*args, "--node", "1"]) == 2
    assert run([*args, "--plot", str(tmp_path / "a.jpg")]) == 2
    assert run([*args, "--plot", str(tmp_path / "b.png"), "--node", "nobody"]) == 2
    assert "nobody" in capsys.readouterr().err
    assert not (tmp_path / "out.npz").exists()
    assert not (tmp_path / "b.png").exists()


def test_threads_give_the_file_of_one(model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    batch = np.stack([INPUT, ~INPUT, np.roll(INPUT, 1)], axis=1)
    np.save(tmp_path / "batch.npy", batch)
    args = ["simulate", model, "--input", str(tmp_path / "batch.npy"), "--dt", "1e-3"]
    for more in ([], ["--backend", "fixed", "--chip", "loihi2"]):
        for threads in ("1", "3"):
            out = str(tmp_path / f"out{threads}.npz")
            assert run([*args, "-o", out, "--threads", threads, *more]) == 0, capsys.readouterr().err
        one, three = (read_recording(tmp_path / f"out{threads}.npz") for threads in "13")
        assert one.meta == three.meta
        assert all(np.array_equal(one.arrays[key], three.arrays[key]) for key in one.arrays)
        assert next(iter(one.arrays.values())).any()
    capsys.readouterr()
    assert run([*args, "-o", str(tmp_path / "o.npz"), "--threads", "4"]) == 2
    assert "threads: 4 for 3 samples" in capsys.readouterr().err
    mapped = ["--backend", "mapped", "--chip", "loihi2", "--threads", "2"]
    assert run([*args, "-o", str(tmp_path / "o.npz"), *mapped]) == 2
    assert "backend 'mapped': runs in one thread, 2 were requested" in capsys.readouterr().err


def test_a_quantized_file_runs_its_integers(
    model: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    quantized = nb.quantize(model, "loihi2")
    quantized.save("m.q.npz")
    for options, record in (([], None), (["--record", "1:s,v", "--every", "3"], [Probe("1", ("s", "v"), 3)])):
        assert run(["simulate", "m.q.npz", "--input", "in.npy", "-o", "o.npz", *options]) == 0
        found, wanted = read_recording("o.npz"), nb.simulate(quantized, INPUT, record=record)
        assert found.meta["latency"] == wanted.meta["latency"]
        assert found.arrays.keys() == wanted.arrays.keys()
        assert all(np.array_equal(found.arrays[key], wanted.arrays[key]) for key in wanted.arrays)
        assert any(array.any() for array in wanted.arrays.values())
    assert run(["simulate", "m.q.npz", "--input", "in.npy", "-o", "every.npz", "--every", "5"]) == 0
    assert [a.shape for a in read_recording("every.npz").arrays.values()] == [(8, 4)]
    capsys.readouterr()
    for options, message in (
        (
            ["--dtype", "float64", "--chip", "loihi2"],
            "--chip: does not apply here, a quantized network has its numbers",
        ),
        (["--reset", "subtract"], "--reset: does not apply here"),
        (["--backend", "numpy"], "backend 'numpy': does not apply here"),
    ):
        assert run(["simulate", "m.q.npz", "--input", "in.npy", "-o", "no.npz", *options]) == 2
        assert message in capsys.readouterr().err
    assert run(["simulate", "m.q.npz", "-o", "no.npz"]) == 2
    assert "--input: is missing, the model has 1 input: 'in' of 3; give --input" in capsys.readouterr().err
    assert not Path("no.npz").exists()
