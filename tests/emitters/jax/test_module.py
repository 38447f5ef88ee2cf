"""Modules for JAX as text, which needs no jax; tests/stack/test_jax.py runs them."""

from __future__ import annotations

import ast
import importlib.util
import io
import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import nirbridge as nb
from nirbridge.emitters.jax.emit import JAX, JaxOptions, emit
from nirbridge.emitters.jax.process import is_installed
from nirbridge.errors import ModelError, ToolMissing, UsageError
from nirbridge.network.model import Network
from nirbridge.simulators.types import Probe
from tests.emitters.c.programs import random_networks
from tests.emitters.oracles import ORACLES, dense, recurrent

PLAIN = JaxOptions(stablehlo=False)


def renamed(network: Network, names: dict[str, str]) -> Network:
    def new(name: str) -> str:
        return names.get(name, name)

    populations = tuple(replace(p, name=new(p.name)) for p in network.populations)
    projections = tuple(replace(p, source=new(p.source), target=new(p.target)) for p in network.projections)
    return replace(network, populations=populations, projections=projections)


def test_every_file_is_python_and_the_same_again() -> None:
    models = [*(make(np.random.default_rng(0)) for make in ORACLES), random_networks(range(20))]
    for model in models:
        program = emit(model, PLAIN)
        assert program.digest == emit(model, PLAIN).digest
        for name in ("network.py", "run.py", "export.py"):
            ast.parse(program.files[name].decode("ascii"))
            assert not re.search(rb"@[A-Z]", program.files[name])
        with np.load(io.BytesIO(program.files["weights.npz"])) as weights:
            text = program.files["network.py"].decode()
            assert all(f'w["{key}"]' in text for key in weights.files)


def test_names_of_the_model_cannot_become_code() -> None:
    """Comments hold them in one line of ASCII; a mark of a template among them stays text."""
    bad = 'x\nimport os\r\x0b\u2028os.remove(\'a\') @STEP@ """ \u00e9'
    plain, hostile = (emit(n, PLAIN) for n in _pair(bad))
    trees = [ast.dump(ast.parse(p.files["network.py"].decode("ascii"))) for p in (plain, hostile)]
    assert trees[0] == trees[1]
    assert json.loads(hostile.files["program.json"])["nodes"][0]["name"] == bad


def _pair(name: str) -> tuple[Network, Network]:
    network = recurrent(np.random.default_rng(0))
    return network, renamed(network, {"a": name})


def test_inputs_are_summed_before_the_scan() -> None:
    tree = ast.parse(emit(dense(np.random.default_rng(0)), PLAIN).files["network.py"])
    bodies = {node.name: ast.unparse(node) for node in tree.body if isinstance(node, ast.FunctionDef)}
    assert "dense(in0, w['c0.weight'])" in bodies["currents"]
    assert "c0.weight" not in bodies["step"]
    assert "dense(p0, w['c1.weight'])" in bodies["step"]


def test_without_jax_the_files_say_it_and_a_run_refuses(monkeypatch: pytest.MonkeyPatch, root: Path) -> None:
    found = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "jax" else found(name))
    program = nb.emit(root / "examples/models/digits_mlp.nir", "jax")
    [note] = json.loads(program.files["manifest.json"])["notes"]
    assert note.startswith("no network.stablehlo: the package jax is not installed")
    assert note in program.files["README.md"].decode()
    assert "network.stablehlo" not in program.files
    missing = r"emitter 'jax': the package jax is not installed; pip install \"nirbridge\[jax\]\""
    with pytest.raises(ToolMissing, match=missing):
        nb.run(program, np.ones((3, 64)))
    with pytest.raises(ToolMissing, match=missing):
        emit(dense(np.random.default_rng(0)), JaxOptions(stablehlo=True))


def test_refusals() -> None:
    network = dense(np.random.default_rng(0))
    with pytest.raises(ModelError, match="network: has no output"):
        emit(replace(network, outputs=(), projections=network.projections[:-1]))
    with pytest.raises(UsageError, match="model of emitter 'jax'"):
        JAX.emit("x")  # pyright: ignore[reportArgumentType]
    with pytest.raises(UsageError, match="options of emitter 'jax'"):
        JAX.emit(network, 3)  # pyright: ignore[reportArgumentType]
    with pytest.raises(UsageError, match="dtype 'float16', float32 or float64"):
        JAX.emit(network, JaxOptions(dtype="float16"))  # pyright: ignore[reportArgumentType]
    if is_installed():
        with pytest.raises(UsageError, match="record 'a': variable i"):
            JAX.run(emit(network, PLAIN), np.ones((3, 9)), record=[Probe("a", ("i",))])


def test_a_chip_makes_integers_and_the_command_chooses_numbers(root: Path, tmp_path: Path) -> None:
    from nirbridge.cli.main import run

    model, folder = str(root / "examples/models/digits_mlp.nir"), tmp_path
    numbers = {}
    for name, more in (("f", []), ("d", ["--dtype", "float64"]), ("i", ["--chip", "loihi2"])):
        assert run(["emit", model, "--to", "jax", "-o", str(folder / name), *more]) == 0
        numbers[name] = json.loads((folder / name / "manifest.json").read_text())["numbers"]
    assert numbers == {"f": "float32", "d": "float64", "i": "integers"}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--to", "onnx", "--dtype", "float64"], "emitter 'onnx': given with --dtype, it has no such option"),
        (["--to", "jax", "--dtype", "float64", "--chip", "loihi2"], "--dtype float64: given with --chip"),
    ],
)
def test_numbers_that_do_not_apply(
    arguments: list[str], message: str, root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from nirbridge.cli.main import run

    assert run(["emit", str(root / "examples/models/digits_mlp.nir"), "-o", str(tmp_path / "p"), *arguments]) == 2
    assert message in capsys.readouterr().err
