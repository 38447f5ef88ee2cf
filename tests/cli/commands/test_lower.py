"""``nirbridge lower`` and ``nb.lower``: stages, files, and errors."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import nirbridge as nb
from nirbridge.cli.main import run
from nirbridge.dialect.module import parse_module
from nirbridge.dialect.read import module_model
from nirbridge.errors import UsageError
from nirbridge.network.equality import same_network

MODEL = Path(__file__).parents[3] / "examples" / "models" / "digits_mlp.nir"


def test_the_stages_as_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    module, irdl = tmp_path / "m.mlir", tmp_path / "m.irdl"
    assert run(["lower", str(MODEL), "--until", "dialect", "-o", str(module), "--irdl", str(irdl)]) == 0
    assert "stage dialect" in capsys.readouterr().out
    assert same_network(module_model(parse_module(module.read_text())), nb.load(MODEL))
    assert irdl.read_text().startswith("module {\n  irdl.dialect @spike {")


def test_every_stage_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["lower", str(MODEL), "--print-ir-after-all", "--batch", "2", "--steps", "3"]) == 0
    out = capsys.readouterr().out
    assert [line for line in out.splitlines() if line.startswith("// --")] == [
        f"// -----// after {stage} //----- //" for stage in ("dialect", "forms", "linalg")
    ]
    assert "%in0: tensor<3x2x" in out


def test_integers_and_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["lower", str(MODEL), "--chip", "loihi2", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert list(document["stages"]) == ["dialect", "forms", "linalg"]
    assert {t["dtype"] for t in document["states"]} == {"int32"}
    assert document["outputs"][0]["dtype"] == "float64"
    assert document["stages"]["linalg"] == nb.lower(nb.quantize(MODEL, "loihi2")).text


def test_the_network_of_a_map(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    saved = tmp_path / "m.map.json"
    nb.map(MODEL, "loihi2", method="packed").save(saved)
    assert run(["lower", str(MODEL), "--map", str(saved), "--until", "dialect"]) == 0
    assert "placement = [{chip = 0 : i64, tile = array<i64: 0, 0>, core = 0 : i64, slice = array<i64: 0, 64>}]" in (
        capsys.readouterr().out
    )
    assert run(["lower", str(MODEL), "--map", str(saved), "--chip", "loihi2", "--until", "dialect"]) == 0
    assert "spike.fixed_neuron" in (out := capsys.readouterr().out)
    assert "slice = array<i64: 0, 10>" in out
    assert run(["lower", str(MODEL), "--map", str(saved), "--chip", "loihi1"]) == 1
    assert run(["lower", str(MODEL.with_name("digits_cnn.nir")), "--map", str(saved)]) == 1
    assert capsys.readouterr().out == ""


def test_wrong_arguments() -> None:
    with pytest.raises(
        UsageError, match="no stage 'linlag', stages: dialect, forms, linalg, cores, snn-mlir; did you mean 'linalg'"
    ):
        nb.lower(MODEL, "linlag")
    with pytest.raises(UsageError, match="given with a quantized network"):
        nb.lower(nb.quantize(MODEL, "loihi2"), chip="loihi2")
