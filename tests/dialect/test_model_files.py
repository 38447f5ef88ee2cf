"""Texts of MLIR where files of models and of quantized networks are taken: every kind, its commands, and refusals."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import nirbridge as nb
from nirbridge.cli.main import run
from nirbridge.errors import FileError, ModelError
from nirbridge.network.equality import network_differences
from nirbridge.quantization.storage.file import quantized_to_dict

pytest.importorskip("xdsl", reason="xDSL, the extra 'mlir', is not installed")
MODEL = Path(__file__).parents[2] / "examples" / "models" / "digits_mlp.nir"
KINDS = ("dialect", "snn-mlir", "quantized", "linalg")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A text of each kind, and the quantized network as a file of its own."""
    folder, quantized = tmp_path_factory.mktemp("texts"), nb.quantize(MODEL, "loihi2")
    quantized.save(folder / "m.q.npz")
    np.save(folder / "in.npy", np.ones((4, 1, 64), np.uint8))
    for kind in KINDS:
        model, stage = (quantized, "dialect") if kind == "quantized" else (MODEL, kind)
        (folder / f"{kind}.mlir").write_text(f"// of {kind}\n{nb.lower(model, stage).text}")
    return folder


def test_integers_are_read_as_from_their_own_file(folder: Path) -> None:
    (a, x), (b, y) = (quantized_to_dict(nb.load_quantized(folder / name)) for name in ("m.q.npz", "quantized.mlir"))
    assert a == b
    assert {key: array.tobytes() for key, array in x.items()} == {key: array.tobytes() for key, array in y.items()}
    with pytest.raises(ModelError, match="'dialect.mlir': a network in real numbers, a chip's integers are expected"):
        nb.load_quantized(folder / "dialect.mlir")
    with pytest.raises(ModelError, match="a network in a chip's integers, .*; read it with nb.load_quantized"):
        nb.load(folder / "quantized.mlir")
    for read in (nb.load, nb.load_quantized):
        with pytest.raises(FileError, match="'linalg.mlir': another module of MLIR, a network of nirbridge's dialect"):
            read(folder / "linalg.mlir")
    with pytest.raises(FileError, match="more than 100 bytes"):
        nb.load_quantized(folder / "quantized.mlir", max_bytes=100)


def test_commands_on_integers(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    own, text = str(folder / "m.q.npz"), str(folder / "quantized.mlir")
    shown = {}
    for command in ("inspect", "show"):
        for path in (own, text):
            assert run([command, path]) == 0
            shown[command, path] = capsys.readouterr().out
    assert len(set(shown.values())) == 1
    assert run(["diff", own, text]) == 0
    for name, path in (("a", own), ("b", text)):
        assert run(["emit", path, "--to", "c", "-o", str(tmp_path / name)]) == 0
    a, b = ({p.name: p.read_bytes() for p in (tmp_path / name).iterdir() if p.is_file()} for name in "ab")
    assert a == b
    assert run(["report", str(MODEL), "--quantized", text, "-o", str(tmp_path / "r.html")]) == 0
    for name, path in (("own.npz", own), ("text.npz", text)):
        assert run(["simulate", path, "--input", str(folder / "in.npy"), "-o", str(tmp_path / name)]) == 0
    assert (tmp_path / "own.npz").read_bytes() == (tmp_path / "text.npz").read_bytes()


@pytest.mark.parametrize("kind", ["dialect", "snn-mlir"])
def test_commands_on_networks(kind: str, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Every command that reads a model."""
    text, data = str(folder / f"{kind}.mlir"), ["--input", str(folder / "in.npy")]
    out = {end: str(tmp_path / f"out.{end}") for end in ("map.json", "q.npz", "npz", "nir", "html", "c")}
    chip, again = ["--chip", "loihi2"], ["--map", out["map.json"]]
    commands = (
        ["inspect"], ["show"], ["map", *chip, "-o", out["map.json"]], ["check", *again],
        ["simulate", *data, "-o", out["npz"]], ["quantize", *chip, "-o", out["q.npz"]], ["verify", *chip, *data],
        ["profile", *chip, *data], ["lower", *again], ["emit", "--to", "c", "-o", out["c"]],
        ["report", *again, "-o", out["html"]], ["import", "-o", out["nir"]],
    )  # fmt: skip
    for name, *options in commands:
        assert run([name, text, *options]) == 0, (name, capsys.readouterr().err)
    shown = capsys.readouterr().out
    assert f"from {'snn-mlir' if kind == 'snn-mlir' else 'the dialect of nirbridge'}, dt 0.0001 s" in shown
    assert not network_differences(nb.load(out["nir"]), nb.load(MODEL))
    assert run(["report", text, "--view", "-o", out["html"]]) == 2
    assert "is a model, the viewer shows a model, network, map" in capsys.readouterr().err
