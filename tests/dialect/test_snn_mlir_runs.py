"""snn-mlir's own tools: its program accepts our text, and what it lowers has the spikes of the reference.

``SNN_OPT`` names the program ``snn-opt`` of snn-mlir, which no package has: without it these tests are skipped.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

import nirbridge as nb
from benchmarks.programs_snn_mlir import driver
from nirbridge.dialect.snn_mlir.held import held_form
from nirbridge.dialect.snn_mlir.read import read_snn_mlir
from nirbridge.dialect.snn_mlir.write import snn_mlir_text
from nirbridge.network.equality import network_differences
from tests.cases import cases
from tests.dialect.snn_mlir_networks import OTHERS, held_network
from tests.tools import needs

MODELS = Path(nb.__file__).parents[1] / "examples" / "models"
PASSES = (
    "convert-linalg-to-affine-loops", "expand-strided-metadata", "lower-affine", "convert-scf-to-cf",
    "convert-func-to-llvm", "convert-cf-to-llvm", "finalize-memref-to-llvm", "convert-arith-to-llvm",
    "reconcile-unrealized-casts",
)  # fmt: skip


def snn_opt() -> str:
    path = os.environ.get("SNN_OPT") or shutil.which("snn-opt")
    if path is None:
        pytest.skip("snn-opt of snn-mlir is not there (SNN_OPT)")
    return path


def piped(command: list[str], text: str) -> str:
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[:2000]
    return done.stdout


def test_its_program_accepts_the_text_and_prints_the_same_network() -> None:
    command = [snn_opt(), "-"]
    assert network_differences(read_snn_mlir(piped(command, OTHERS)), read_snn_mlir(OTHERS)) != ()  # names are lost
    for seed in range(30):
        network = held_network(seed)
        for dtype in ("float32", "float64"):
            text = snn_mlir_text(network, dtype)
            assert network_differences(read_snn_mlir(piped(command, text)), held_form(network, dtype)) == (), seed


@pytest.mark.parametrize("model", [*cases(range(4), range(12)), "digits_mlp", "digits_cnn"])
def test_what_it_lowers_has_the_spikes_of_the_reference(model: int | str, tmp_path: Path) -> None:
    program, tools = snn_opt(), Path(needs("mlir")).resolve().parent
    if not (tools / "llc").is_file():
        pytest.skip("llc of LLVM 22 is not there")
    network = held_network(model) if isinstance(model, int) else nb.load(MODELS / f"{model}.nir")
    inputs = (np.random.default_rng(0).random((40, *network.inputs[0].shape)) < 0.5).astype(np.float32)
    text = snn_mlir_text(network)
    (tmp_path / "network.mlir").write_text(text)
    lowered = piped([program, "-", "--convert-snn-to-linalg"], text)
    lowered = piped([str(tools / "mlir-opt"), *(f"-{name}" for name in PASSES)], lowered)
    lowered = piped([str(tools / "mlir-translate"), "--mlir-to-llvmir"], lowered)
    piped([str(tools / "llc"), "--relocation-model=pic", "-filetype=obj", "-", "-o", str(tmp_path / "n.o")], lowered)
    (tmp_path / "main.c").write_text(driver(tmp_path / "network.mlir", len(inputs)))
    subprocess.run(["cc", "main.c", "n.o", "-o", "main", "-lm"], cwd=tmp_path, check=True)
    done = subprocess.run(["./main", "0"], cwd=tmp_path, input=inputs.tobytes(), capture_output=True, check=True)
    (expected,) = nb.simulate(network, inputs, backend="numpy").arrays.values()
    found = np.frombuffer(done.stdout, np.float32).reshape(expected.shape)
    np.testing.assert_array_equal(found, expected)
    assert expected.any()
