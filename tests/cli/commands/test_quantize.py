"""``nirbridge quantize``: files, tables, JSON, exit codes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nirbridge.cli.main import main
from nirbridge.quantization.storage.file import read_quantized


def run(capsys: pytest.CaptureFixture[str], *words: object) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as left:
        main(["quantize", *map(str, words)])
    said = capsys.readouterr()
    return int(left.value.code or 0), said.out, said.err


@pytest.fixture
def model(root: Path) -> Path:
    return root / "examples" / "models" / "digits_mlp.nir"


def test_a_model_becomes_a_file_and_a_table(model: Path, tmp_path: Path, capsys: Any) -> None:
    out = tmp_path / "m.q.npz"
    code, text, _ = run(capsys, model, "--chip", "loihi1", "--bits", 4, "--bits", "leaky_3=8", "-o", out)
    assert code == 0
    assert "proved from the weights: a_in and u cannot overflow for any input" in text
    assert [p.weight_bits for p in read_quantized(out).projections] == [4, 8]


def test_json_with_data(model: Path, tmp_path: Path, capsys: Any) -> None:
    spikes = (np.random.default_rng(0).random((10, 4, 64)) < 0.3).astype(np.uint8)
    np.savez(tmp_path / "data.npz", input=spikes, labels=np.zeros(4, int))
    words = (model, "--chip", "loihi2", "--calibrate", tmp_path / "data.npz", "--method", "error", "--memory-kib", 4)
    code, text, _ = run(capsys, *words, "--json", "-o", tmp_path / "m.q.npz")
    document = json.loads(text)
    assert code == 0
    assert [layer["population"] for layer in document["layers"]] == ["leaky_1", "leaky_3"]
    assert "spikes_changed" in document["layers"][0]["measured"]
    assert document["layers"][1]["measured"]["accuracy"] == document["layers"][1]["measured"]["accuracy_reference"]
    assert sum(w["synapse_bits"] for layer in document["layers"] for w in layer["weights"]) <= 4 * 8192
    assert len(document["digest"]) == 64


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (("--chip", "loihi1", "--reset", "subtract"), 1, "a soft reset"),
        (("--chip", "loihi1", "--bits", "many"), 2, "is neither N nor LAYER=N"),
        (("--chip", "loihi1", "--bits", "x=4"), 1, "weight_bits of 'x'"),
        (("--chip", "loihi1", "--graded", "input=a"), 2, "not understood"),
        (("--chip", "loihi1", "--tight"), 2, "need calibration data"),
        (("--chip", "no_chip"), 2, "unknown"),
    ],
)
def test_what_can_not_be(model: Path, tmp_path: Path, capsys: Any, words: Any, code: int, message: str) -> None:
    found, _, error = run(capsys, model, *words, "-o", tmp_path / "m.q.npz")
    assert found == code
    assert message in error
    assert not (tmp_path / "m.q.npz").exists()
