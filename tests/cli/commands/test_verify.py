from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import nir
import numpy as np
import pytest

from nirbridge.cli.main import run
from nirbridge.importers import save_nir
from nirbridge.quantization.model import QuantizedNetwork
from nirbridge.quantization.operators import weights_of, with_weights
from nirbridge.simulators.fixed import simulate as fixed_simulator
from nirbridge.simulators.mapped import simulate as mapped_simulator
from nirbridge.simulators.types import Recording
from tests.network.graphs import chain, lif, out, port


@pytest.fixture
def model(tmp_path: Path) -> str:
    weight = np.random.default_rng(1).normal(size=(4, 3))
    graph = chain(port(3), nir.Linear(weight), lif(4, tau=4e-4, r=4.0), nir.Linear(np.eye(4)), lif(4), out(4))
    save_nir(graph, tmp_path / "model.nir")
    return str(tmp_path / "model.nir")


def test_it_says_what_is_equal(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["verify", model, "--chip", "loihi1", "--steps", "30", "--seed", "3"]) == 0
    shown = capsys.readouterr().out
    assert "fixed == mapped: every spike, u and v" in shown
    said = "30 time steps on loihi1; input: random spikes, 0.1 per time step and element, seed 3"
    assert said in " ".join(shown.split())
    assert "latency of output 'out': 2 time steps" in shown


def test_the_document_has_the_pairs(model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    np.save(tmp_path / "in.npy", (np.random.default_rng(0).random((20, 5, 3)) < 0.5))
    np.save(tmp_path / "labels.npy", np.arange(5) % 4)
    options = ["--input", str(tmp_path / "in.npy"), "--labels", str(tmp_path / "labels.npy"), "--json"]
    assert run(["verify", model, "--chip", "loihi2", *options]) == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["holds"], document["steps"], document["input"]) == (
        True,
        20,
        "as given, 5 samples of 20 time steps (axes time, sample: the default order)",
    )
    assert [(p["a"], p["b"], p["required"]) for p in document["pairs"]] == [
        ("reference", "fixed", False),
        ("fixed", "mapped", True),
    ]
    decided = [row["decisions"] for row in document["pairs"][0]["rows"] if row["decisions"] is not None]
    assert decided[0]["samples"] == 5
    assert decided[0]["accuracy_a"] is not None


def test_outputs_decide_and_hidden_layers_do_not(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A hidden layer of two neurons has no four classes; the output's are counted by hand."""
    rng = np.random.default_rng(1)
    first, second = rng.normal(0.5, 1, (2, 3)), rng.normal(0.5, 1, (4, 2))
    graph = chain(port(3), nir.Linear(first), lif(2, tau=4e-4, r=4.0), nir.Linear(second), lif(4), out(4))
    save_nir(graph, tmp_path / "model.nir")
    np.save(tmp_path / "in.npy", rng.random((20, 5, 3)) < 0.5)
    np.save(tmp_path / "labels.npy", np.array([0, 1, 2, 3, 3]))
    model, options = str(tmp_path / "model.nir"), ["--chip", "loihi2", "--input", str(tmp_path / "in.npy")]
    run(["simulate", model, "--input", str(tmp_path / "in.npy"), "-o", str(tmp_path / "out.npz")])
    with np.load(tmp_path / "out.npz") as recorded:
        right = recorded["out/s"].sum(axis=0).argmax(axis=1) == [0, 1, 2, 3, 3]
    capsys.readouterr()
    assert run(["verify", model, *options, "--labels", str(tmp_path / "labels.npy"), "--json"]) == 0
    for pair in json.loads(capsys.readouterr().out)["pairs"]:
        assert {row["node"] for row in pair["rows"] if row["decisions"] is not None} == {"out"}
        [found] = [row["decisions"] for row in pair["rows"] if row["decisions"] is not None]
        assert pair["a"] == "fixed" or found["accuracy_a"] == right.mean()


def test_the_table_has_the_latency(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["verify", model, "--chip", "loihi1", "--steps", "30"]) == 0
    heading, near, equal = capsys.readouterr().out.splitlines()[:3]
    end = heading.index("latency") + len("latency")
    assert [line[:end].split()[-1] for line in (near, equal)] == ["2", "0"]


def test_a_promise_that_is_broken_is_an_error(
    model: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    real = mapped_simulator.simulate_mapped

    def wrong(*args: Any, **options: Any) -> Recording:
        found = real(*args, **options)
        arrays = {key: array.copy() for key, array in found.arrays.items()}
        arrays["1", "v"][7, 2] += 1
        return Recording(arrays, found.meta)

    monkeypatch.setattr(mapped_simulator, "simulate_mapped", wrong)
    assert run(["verify", model, "--chip", "loihi1", "--steps", "20"]) == 1
    shown = capsys.readouterr()
    assert "1: potentials first differ at time step 7, neuron (2): fixed " in shown.out
    assert "not as required: fixed and mapped differ" in shown.out
    assert "fixed and mapped differ, verification failed" in shown.err


def test_a_population_beyond_its_bound_is_an_error(
    model: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Integers and map agree, but what runs has other weights than the model in integers."""

    def halved(quantized: QuantizedNetwork) -> QuantizedNetwork:
        first = quantized.projections[0]
        operator = with_weights(first.operator, weights_of(first.operator) // 2)
        return replace(quantized, projections=(replace(first, operator=operator), *quantized.projections[1:]))

    for module, name in ((fixed_simulator, "simulate_fixed"), (mapped_simulator, "simulate_mapped")):
        real = getattr(module, name)
        monkeypatch.setattr(module, name, lambda q, *args, real=real, **options: real(halved(q), *args, **options))
    assert run(["verify", model, "--chip", "loihi1", "--steps", "30", "--json"]) == 1
    shown = capsys.readouterr()
    found = json.loads(shown.out)
    assert [p["equal"] for p in found["pairs"]] == [False, True]
    assert [(layer["population"], layer["holds"]) for layer in found["layers"]] == [("1", False), ("3", True)]
    assert "'1' is beyond its bound" in shown.err


def test_the_bound_of_every_population_is_shown(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["verify", model, "--chip", "loihi1", "--steps", "30"]
    assert run([*arguments, "--json"]) == 0
    layers = json.loads(capsys.readouterr().out)["layers"]
    assert [layer["population"] for layer in layers] == ["1", "3"]
    assert all(0 < layer["seen"] <= layer["bound"] < 1 and layer["theta"] == 1 for layer in layers)
    assert run(arguments) == 0
    shown = capsys.readouterr().out
    assert "changed by rounding" in shown
    assert "reference ~ fixed: within the bound in every population" in " ".join(shown.split())


def test_the_integers_are_chosen_as_quantize_chooses_them(
    model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    spikes = np.random.default_rng(0).random((20, 8, 3)) < 0.4
    np.savez(tmp_path / "data.npz", spikes=spikes, labels=np.arange(8) % 4)
    arguments = ["verify", model, "--chip", "loihi2", "--steps", "40", "--json"]
    bounds = []
    for options in ([], ["--bits", "4", "--bits", "3=8"], ["--weight-bits", "4"]):
        assert run([*arguments, *options]) == 0
        bounds.append([layer["bound"] for layer in json.loads(capsys.readouterr().out)["layers"]])
    assert bounds[0][0] < bounds[1][0] == bounds[2][0]
    data = ["--calibrate", str(tmp_path / "data.npz")]
    assert run([*arguments, "--bits", "4", *data, "--method", "percentile", "--percentile", "60"]) == 0
    assert json.loads(capsys.readouterr().out)["layers"][0]["bound"] != bounds[2][0]
    assert run([*arguments, "--tight"]) == 2
    assert run([*arguments, "--bits", "9=x"]) == 2
    capsys.readouterr()
    assert run([*arguments, "--graded", "in=1.0:6"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["input"].startswith("random spikes and graded values")
    assert run([*arguments, "--per-core"]) == 2
    assert "add --to lava" in capsys.readouterr().err


def test_a_saved_map_is_run(model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "m.map.json"
    assert run(["map", model, "--chip", "loihi1", "-o", str(path)]) == 0
    assert run(["verify", model, "--chip", "loihi1", "--steps", "10", "--map", str(path)]) == 0
    assert run(["verify", model, "--chip", "loihi2", "--steps", "10", "--map", str(path)]) == 1
    assert "chip: the map is of 'loihi1', the integers are of 'loihi2'" in capsys.readouterr().err
    document = json.loads(path.read_text())
    document["routes"] = [r for r in document["routes"] if r["source_input"] is None]
    path.write_text(json.dumps(document))
    assert run(["verify", model, "--chip", "loihi1", "--steps", "10", "--map", str(path)]) == 1
    assert "the map has no route" in capsys.readouterr().err


def test_a_picture_of_what_differs(model: str, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="the plot extra is not installed")
    picture = tmp_path / "d.png"
    assert run(["verify", model, "--chip", "loihi2", "--steps", "20", "--plot", str(picture)]) == 0
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_the_picture_is_of_the_sample_that_differs(model: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("matplotlib", reason="the plot extra is not installed")
    from nirbridge.report.plots import style as pictures

    real, drawn = mapped_simulator.simulate_mapped, []

    def wrong(*args: Any, **options: Any) -> Recording:
        found = real(*args, **options)
        arrays = {key: array.copy() for key, array in found.arrays.items()}
        arrays["1", "s"][7, 3, 2] ^= 1
        return Recording(arrays, found.meta)

    monkeypatch.setattr(mapped_simulator, "simulate_mapped", wrong)
    monkeypatch.setattr(pictures, "save_picture", lambda figure, path: drawn.append(figure))
    np.save(tmp_path / "in.npy", np.random.default_rng(0).random((20, 5, 3)) < 0.5)
    arguments = ["verify", model, "--chip", "loihi2", "--input", str(tmp_path / "in.npy"), "--plot", "d.png"]
    assert run(arguments) == 1
    assert drawn[0].get_title() == "1, sample 3"
    labels = [text.get_text() for text in drawn[0].get_legend().get_texts()]
    assert sorted(label for label in labels if label.endswith(": 1")) in (
        ["only fixed, or more: 1"],
        ["only mapped, or more: 1"],
    )


def test_simulate_runs_the_integers_and_the_map(model: str, tmp_path: Path) -> None:
    from nirbridge.simulators.recording_file import read_recording

    np.save(tmp_path / "in.npy", np.random.default_rng(0).random((15, 3)) < 0.5)
    common = ["simulate", model, "--input", str(tmp_path / "in.npy"), "--record", "*:u,v"]
    for backend in ("fixed", "mapped"):
        options = ["--backend", backend, "--chip", "loihi1", "-o", str(tmp_path / f"{backend}.npz")]
        assert run([*common, *options]) == 0
    fixed, mapped = read_recording(tmp_path / "fixed.npz"), read_recording(tmp_path / "mapped.npz")
    assert fixed.meta["backend"] == "fixed"
    assert mapped.meta["latency"] == fixed.meta["latency"]
    assert all(np.array_equal(fixed.arrays[key], mapped.arrays[key]) for key in fixed.arrays)
    assert run([*common, "--backend", "fixed", "-o", str(tmp_path / "x.npz")]) == 2
    assert run([*common, "--chip", "loihi1", "-o", str(tmp_path / "x.npz")]) == 2
