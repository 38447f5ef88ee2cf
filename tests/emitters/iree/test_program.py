"""Programs for IREE as files, which needs no IREE; tests/stack/test_iree.py compiles and runs them."""

from __future__ import annotations

import ast
import importlib.util
import io
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nirbridge as nb
from nirbridge.emitters.iree.emit import IREE, IreeOptions, emit
from nirbridge.emitters.iree.module import checked_text
from nirbridge.emitters.iree.program import stored_model
from nirbridge.errors import ModelError, ToolMissing, UsageError
from tests.emitters.c.programs import random_networks
from tests.emitters.oracles import dense, recurrent

PLAIN = IreeOptions(vmfb=False)


def network() -> Any:
    return dense(np.random.default_rng(0))


@pytest.mark.parametrize("options", [PLAIN, replace(PLAIN, batch=5, device="vulkan-spirv")])
def test_files_are_the_same_again_and_hold_the_network(options: IreeOptions) -> None:
    for model in (recurrent(np.random.default_rng(0)), random_networks(range(2))):
        program = emit(model, options)
        assert program.digest == emit(model, options).digest
        for name in ("run.py", "compile.py"):
            ast.parse(program.files[name].decode("ascii"))
        for name in ("compile.py", "README.md"):
            assert not re.search(rb"@[A-Z]+@", program.files[name])
        facts = json.loads(program.files["program.json"])
        assert facts["module"]["batch"] == options.batch
        assert f"tensor<?x{options.batch}x".encode() in program.files["network.mlir"]
        with np.load(io.BytesIO(program.files["states.npz"])) as states:
            assert {values.shape[0] for values in states.values()} == {options.batch}
            assert len(states.files) == facts["module"]["states"]
        again = emit(stored_model(program.files), options)
        assert again.files["network.mlir"] == program.files["network.mlir"]


def test_names_of_the_model_stay_in_their_files() -> None:
    """Neither the MLIR nor a script holds them."""
    model = network()
    bad = '"}\nimport os @FLAGS@'
    first = replace(model.populations[0], name=bad)
    edges = tuple(
        replace(p, source=p.source.replace("a", bad), target=p.target.replace("a", bad)) for p in model.projections
    )
    hostile = emit(replace(model, populations=(first, *model.populations[1:]), projections=edges), PLAIN)
    plain = emit(model, PLAIN)
    same = {name for name, content in hostile.files.items() if plain.files[name] == content}
    assert {"network.mlir", "run.py", "compile.py", "states.npz"} <= same
    assert json.loads(hostile.files["program.json"])["nodes"][0]["name"] == bad


def test_the_flags_keep_the_order_of_sums_and_the_roundings() -> None:
    text = emit(network(), PLAIN).files["compile.py"].decode()
    assert "--iree-llvmcpu-reassociate-fp-reductions=false" in text
    assert "AVX = '--iree-llvmcpu-target-cpu-features=+avx'" in text
    host = emit(network(), replace(PLAIN, cpu="host")).files["compile.py"].decode()
    assert "--iree-llvmcpu-target-cpu=host" in host
    assert "AVX = ''" in host
    vulkan = emit(network(), replace(PLAIN, device="vulkan-spirv")).files["compile.py"].decode()
    assert "--iree-hal-target-device=vulkan" in vulkan
    assert "llvmcpu" not in vulkan


def test_no_operation_that_iree_does_not_know_reaches_it() -> None:
    for bad in (
        '    %3 = "spike.neuron"(%1) : (f32) -> f32',
        "    spike.result %1 : f32",
        "%0 = stablehlo.custom_call @x()",
    ):
        with pytest.raises(ModelError, match="module: has the operation '(spike|stablehlo)"):
            checked_text(f"module {{\n  func.func @run() {{\n{bad}\n  }}\n}}\n")
    assert checked_text(text := emit(network(), PLAIN).files["network.mlir"].decode()) == text


def test_without_iree_the_files_say_it_and_a_run_refuses(monkeypatch: pytest.MonkeyPatch, root: Path) -> None:
    there = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name.startswith("iree") else there(name))
    program = nb.emit(root / "examples/models/digits_mlp.nir", "iree")
    [note] = json.loads(program.files["manifest.json"])["notes"]
    assert note.startswith("no network.vmfb: iree-compile is not installed")
    assert note in program.files["README.md"].decode()
    assert "network.vmfb" not in program.files
    with pytest.raises(ToolMissing, match=r"the package iree-base-runtime is not installed; pip install \"nirbridge"):
        nb.run(program, np.ones((3, 64)))
    with pytest.raises(ToolMissing, match="the package iree-base-compiler is not installed"):
        emit(network(), IreeOptions(vmfb=True))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"source": "tosa"}, "source 'tosa', linalg or stablehlo"),
        ({"device": "cuda"}, "device 'cuda', llvm-cpu or vulkan-spirv"),
        ({"dtype": "float16"}, "dtype 'float16', float32 or float64"),
        ({"batch": 0}, "batch 0, a whole number from 1 to 65,536"),
        ({"steps": 2.5}, "steps 2.5, a whole number"),
        ({"cpu": "host --evil"}, "cpu 'host --evil', a name of a processor"),
        ({"device": "vulkan-spirv", "dtype": "float64"}, "it computes in float32"),
    ],
)
def test_options_that_do_not_apply(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        IREE.emit(network(), replace(PLAIN, **changes))


def test_refusals() -> None:
    with pytest.raises(ModelError, match="network: has no output"):
        emit(replace(network(), outputs=(), projections=network().projections[:-1]), PLAIN)
    with pytest.raises(UsageError, match="model of emitter 'iree'"):
        IREE.emit("x")  # pyright: ignore[reportArgumentType]
    with pytest.raises(UsageError, match="options of emitter 'iree'"):
        IREE.emit(network(), 3)  # pyright: ignore[reportArgumentType]


def test_the_command_has_the_options(root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from nirbridge.cli.main import run

    model = str(root / "examples/models/digits_mlp.nir")
    assert run(["emit", model, "--to", "iree", "-o", str(tmp_path / "p"), "--batch", "3", "--dtype", "float64"]) == 0
    options = json.loads((tmp_path / "p" / "program.json").read_text())["options"]
    assert (options["batch"], options["dtype"], options["source"]) == (3, "float64", "linalg")
    assert run(["emit", model, "--to", "jax", "-o", str(tmp_path / "q"), "--batch", "3"]) == 2
    assert "emitter 'jax': given with --batch, it has no such option" in capsys.readouterr().err
