"""``nirbridge import``: user files, what is printed, and errors that say what to do."""

from __future__ import annotations

import json
import warnings
from pathlib import Path

import pytest

from nirbridge.cli.main import run

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # deprecations of what snnTorch imports are not this project's
    pytest.importorskip("snntorch", reason="snntorch is not installed")

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
bad = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(16, 3), torch.nn.Sigmoid(), snn.Alpha(0.9, 0.8, init_hidden=True))
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
    assert "3 neurons in 1 populations" in out
    assert "other tools: " in out
    assert run(["inspect", str(user_file.parent / "m.nir")]) == 0


def test_json(user_file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert called(f"{user_file}:net", user_file.parent, "--json", "--dt", "0.001") == 0
    document = json.loads(capsys.readouterr().out)
    assert document["dt"] == 0.001
    assert document["inputs"] == [{"name": "input", "shape": [1, 4, 4]}]
    assert document["source"].startswith("snntorch ")


@pytest.mark.parametrize(
    ("name", "code", "text"),
    [
        ("nets", 2, "did you mean 'net'"),
        ("number", 2, "no torch module"),
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
    assert called(f"{user_file}:net", user_file.parent, "--calibrate", "x.npz") == 2
    assert called(f"{user_file}:net", user_file.parent, "--dt", "-1") == 2
    target = ["import", f"{user_file}:net", "--from", "snntorch", "-o", str(user_file.parent / "m.nir")]
    assert run([*target, "--sample-shape", "1,x"]) == 2
    assert "whole numbers" in capsys.readouterr().err
