"""``nirbridge import``: user files, printed text, and errors with their hints."""

from __future__ import annotations

import json
import warnings
from pathlib import Path

import numpy as np
import pytest

from nirbridge.cli.main import run
from tests.packages import package

package("snntorch")

CODE = """
import warnings
warnings.simplefilter("ignore")
import torch, snntorch as snn
torch.manual_seed(0)
net = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(16, 3), snn.Leaky(beta=0.9, init_hidden=True))
def make():
    return net
def broken():
    raise RuntimeError("no weights")
alpha = snn.Alpha(0.9, 0.8, init_hidden=True)
bad = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(16, 3), torch.nn.Sigmoid(), alpha)
number = 3
"""


@pytest.fixture
def user_file(tmp_path: Path) -> Path:
    path = tmp_path / "user_net.py"
    path.write_text(CODE)
    return path


def called(target: str, folder: Path, *more: str) -> int:
    common = ["--from", "snntorch", "--sample-shape", "1,4,4", "-o", str(folder / "m.nir")]
    return run(["import", target, *common, *more])


@pytest.mark.parametrize("name", ["net", "make"])
def test_a_module_or_a_function_is_imported(name: str, user_file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert called(f"{user_file}:{name}", user_file.parent) == 0
    out = capsys.readouterr().out
    assert "3 neurons in 1 population, " in out
    assert "other tools: " in out
    assert ", dt 0.0001 s (assumed: the module stores none; set it with --dt)\n" in out
    assert run(["inspect", str(user_file.parent / "m.nir")]) == 0


def test_json(user_file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert called(f"{user_file}:net", user_file.parent, "--json", "--dt", "0.001") == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["dt"], document["dt_is_assumed"]) == (0.001, False)
    assert document["inputs"] == [{"name": "input", "shape": [1, 4, 4]}]
    assert document["source"].startswith("snntorch ")


@pytest.mark.parametrize(
    ("name", "code", "text"),
    [
        ("nets", 2, "did you mean 'net'"),
        ("number", 2, "not a torch module"),
        ("broken", 2, "no weights"),
        ("bad", 1, "sigmoid"),
    ],
)
def test_errors(name: str, code: int, text: str, user_file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert called(f"{user_file}:{name}", user_file.parent) == code
    assert text in capsys.readouterr().err
    assert not (user_file.parent / "m.nir").exists()


def test_wrong_usage(user_file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert called("user_net.py", user_file.parent) == 2
    assert called(f"{user_file.parent / 'none.py'}:x", user_file.parent) == 2
    assert called(f"{user_file}:net", user_file.parent, "--calibrate", "x.npz", "--steps", "9") == 2
    err = capsys.readouterr().err
    assert "--calibrate: does not apply here" in err
    assert "--steps: does not apply here" in err
    assert called(f"{user_file}:net", user_file.parent, "--dt", "-1") == 2
    target = ["import", f"{user_file}:net", "--from", "snntorch", "-o", str(user_file.parent / "m.nir")]
    assert run([*target, "--sample-shape", "1,x"]) == 2
    assert "whole numbers" in capsys.readouterr().err


HEAD = """
import warnings
warnings.simplefilter("ignore")
import torch
from torch import nn
torch.manual_seed(0)
"""
MODELS = {
    "snntorch": """
import snntorch as snn
net = nn.Sequential(nn.Linear(6, 4), snn.Leaky(beta=0.9, init_hidden=True))
""",
    "norse": """
import norse.torch as norse
net = norse.SequentialState(nn.Linear(6, 4), norse.LIFCell())
""",
    "sinabs": """
import sinabs.layers as layers
net = nn.Sequential(nn.Linear(6, 4), layers.IAFSqueeze(batch_size=1))
""",
    "spikingjelly": """
from spikingjelly.activation_based.neuron import LIFNode
net = nn.Sequential(nn.Linear(6, 4), LIFNode())
""",
    "rockpool": """
from rockpool.nn.combinators import Sequential
from rockpool.nn.modules.torch import LIFTorch, LinearTorch
net = Sequential(LinearTorch((6, 4)), LIFTorch(4))
""",
    "torch": """
net = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 4), nn.ReLU(), nn.Linear(4, 3))
""",
}
PACKAGES = {"norse": "norse.torch", "spikingjelly": "spikingjelly.activation_based"}


def imported(framework: str, folder: Path, *more: str) -> int:
    (folder / "model.py").write_text(HEAD + MODELS[framework])
    np.save(folder / "data.npy", np.random.default_rng(0).random((50, 6), np.float32))
    data = ["--calibrate", str(folder / "data.npy")] if framework == "torch" and "--calibrate" not in more else []
    common = ["--from", framework, "--sample-shape", "6", "-o", str(folder / "m.nir"), *data]
    return run(["import", f"{folder / 'model.py'}:net", *common, *more])


@pytest.mark.parametrize("framework", MODELS)
def test_every_framework(framework: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # deprecations of what the packages import are not this project's
        pytest.importorskip(PACKAGES.get(framework, framework), reason=f"{framework} is not installed")
    assert imported(framework, tmp_path, "--json") == 0
    document = json.loads(capsys.readouterr().out)
    assert document["source"].startswith(framework)
    assert [p["shape"] for p in document["inputs"]] == [[6]]
    assert next(p["shape"] for p in document["populations"]) == ([8] if framework == "torch" else [4])
    assert document["warnings"]
    assert ("conversion" in document) == (framework == "torch")
    assert document["dt_is_assumed"] == (framework not in ("norse", "rockpool"))  # whose neurons store it
    assert run(["inspect", str(tmp_path / "m.nir"), "--json"]) == 0


def test_a_stated_time_step_is_not_assumed(user_file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert called(f"{user_file}:net", user_file.parent, "--dt", "0.001") == 0
    assert ", dt 0.001 s\n" in capsys.readouterr().out


def test_the_report_of_a_conversion(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ("--steps", "16", "--percentile", "99.9", "--per-population", "--half-start")
    assert imported("torch", tmp_path, *options, "--json") == 0
    document = json.loads(capsys.readouterr().out)
    report = document["conversion"]
    assert (report["steps"], report["samples"], report["given_samples"]) == (16, 50, 50)
    layers = {layer["name"]: layer for layer in report["layers"]}
    assert [p["name"] for p in document["populations"]] == [*layers, "output_readout"]
    for layer in layers.values():
        assert 0 < layer["scale"][0] == layer["scale"][1] <= layer["largest"]
        assert 0 < layer["error_share"] < 0.2
    assert report["output_error"] > 0
    assert any("folded weights" in note for note in document["notes"])
    assert imported("torch", tmp_path) == 0
    out = capsys.readouterr().out
    assert "conversion for 64 steps on 50 samples" in out
    assert all(name in out for name in layers)
    assert "decisions: " in out


def test_spikes_as_the_answer(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert imported("torch", tmp_path, "--readout", "spikes", "--json") == 0
    document = json.loads(capsys.readouterr().out)
    assert document["conversion"]["output_error"] is None
    assert {p["neuron"] for p in document["populations"]} == {"IF"}


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (("--percentile", "most"), "least-error, max or a number"),
        (("--percentile", "101"), "up to 100"),
        (("--steps", "0"), "at least 1"),
        (("--calibrate", "none.npy"), "none.npy"),
    ],
)
def test_wrong_options_of_a_conversion(
    options: tuple[str, ...], text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert imported("torch", tmp_path, *options) == 2
    assert text in capsys.readouterr().err
    assert not (tmp_path / "m.nir").exists()


def test_a_conversion_needs_data(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "model.py").write_text(HEAD + MODELS["torch"])
    target = ["import", f"{tmp_path / 'model.py'}:net", "--from", "torch", "--sample-shape", "6"]
    assert run([*target, "-o", str(tmp_path / "m.nir")]) == 2
    err = capsys.readouterr().err
    assert "no neurons that spike" in err
    assert "nirbridge import --calibrate DATA.npz" in err
    assert "[samples, *shape]" in err


POOLED = """
import warnings
warnings.simplefilter("ignore")
import torch, snntorch as snn
torch.manual_seed(0)
lifs = [snn.Leaky(beta=0.5, threshold=0.3, init_hidden=True) for _ in range(2)]
net = torch.nn.Sequential(
    torch.nn.Conv2d(1, 3, 3), torch.nn.MaxPool2d(2), lifs[0], torch.nn.Flatten(), torch.nn.Linear(27, 4), lifs[1]
)
"""


def test_a_replaced_maximum_is_measured_on_labelled_data(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "pooled.py").write_text(POOLED)
    source = np.random.default_rng(0)
    data, output = tmp_path / "data.npz", tmp_path / "m.nir"
    np.savez(data, images=source.random((6, 30, 1, 8, 8)), labels=np.arange(30) % 4)
    command = ["import", f"{tmp_path / 'pooled.py'}:net", "--sample-shape", "1,1,8,8", "-o", str(output)]
    assert run(command) == 1
    assert "a maximum of currents is not linear" in capsys.readouterr().err
    assert run([*command, "--accept", "replaced-maxpool"]) == 0
    out = capsys.readouterr().out
    assert "self-check: " in out
    assert "with the deviations accepted: replaced-maxpool; spikes of the module and of the import" in out
    assert "measured" not in out
    assert run([*command, "--accept", "replaced-maxpool", "--measure", str(data), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)["self_check"]
    measured = document["measured"]
    assert (measured["samples"], measured["steps"]) == (30, 6)
    assert 0 < measured["outputs_differ"] < 1
    assert [p["name"] for p in measured["populations"]] == ["2", "5"]
    assert run([*command, "--accept", "replaced-maxpool", "--measure", str(data)]) == 0
    line = next(line for line in capsys.readouterr().out.splitlines() if line.startswith("measured: "))
    assert line == f"measured: {measured['text']}"
    assert f"accuracy {measured['module_accuracy']:.1%} (module) and {measured['import_accuracy']:.1%} (import)" in line
    assert run([*command, "--accept", "replaced-maxpool", "--measure", str(tmp_path / "none.npz")]) == 2
    assert run(["import", *command[1:], "--from", "torch", "--calibrate", "x.npy", "--measure", str(data)]) == 2
    assert "--measure: does not apply here" in capsys.readouterr().err
