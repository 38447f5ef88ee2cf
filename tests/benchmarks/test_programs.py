"""The benchmark of programs: equality before any time, one that differs is reported, and the page says so."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nirbridge as nb
from benchmarks import programs, programs_timed
from benchmarks.programs_nets import CASES, Case, delayed
from nirbridge.pipeline import network_of_shapes


@pytest.fixture(scope="module")
def case() -> Case:
    network = network_of_shapes("16 dense12 lif dense4 lif")
    return Case(network, (np.random.default_rng(0).random((20, 16)) < 0.4).astype(np.uint8), "random")


def test_a_c_program_is_compared_and_timed(case: Case, tmp_path: Path) -> None:
    quantized = nb.quantize(case.network, "loihi2")
    program = programs_timed.CProgram(tmp_path, quantized, case.spikes, None)
    assert program.differing() == 0
    assert 0 < program.turn() < 1e-3
    text = (program.folder / "model.c").read_text()
    (program.folder / "model.c").write_text(text.replace("v > ", "v >= 0 * "))
    for path in ("model.o", "bench"):
        (program.folder / path).unlink()
    programs_timed.CProgram.build(program.folder, None)
    assert program.differing() > 0


def test_a_program_that_differs_is_reported_and_not_timed(
    case: Case, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    ones = np.ones(80)
    turned = []

    class Wrong(programs_timed.Called):
        def turn(self) -> float:
            turned.append(self)
            return 1.0

    def some(*_: Any) -> Any:
        yield "right", lambda _: programs_timed.Called(lambda: ones, ones, 20)
        yield "wrong", lambda _: Wrong(lambda: ones, np.zeros(80), 20)

    monkeypatch.setattr(programs_timed, "programs", some)
    monkeypatch.setattr(programs_timed, "TURN_S", 0.001)
    monkeypatch.setattr(programs, "CASES", {"small": lambda: case})
    record = programs.run("small", 1, None, tmp_path)
    assert record["programs"]["right"]["us"] > 0
    assert record["programs"]["wrong"] == {"us": None, "differing": 80, "why": ""}
    assert not turned
    assert record["weights"] == 16 * 12 + 12 * 4
    assert record["rate"] > 0


def test_the_page_says_what_was_not_timed() -> None:
    row = {"us": 2.0, "differing": 0, "why": ""}
    record = {"text": "t", "neurons": 10, "weights": 20, "steps": 5, "density": 0.1, "rate": 0.2}
    names = (*programs.INTEGERS, *programs.REALS)
    records = {n: {"name": n, **record, "programs": {p: dict(row) for p in names}} for n in CASES}
    one = records["net_a"]["programs"]
    one[programs_timed.LAVA]["us"] = 5000.0
    one[programs_timed.OPENVINO] = {"us": None, "differing": 1234, "why": ""}
    one[programs_timed.SNN_MLIR] = {"us": None, "differing": None, "why": "absent: see below"}
    text = programs.page(records, ["Python 3.11"])
    cause = "differs from the simulator (one cause: it computes int64 in 32 bits)"
    assert f"* **{programs_timed.OPENVINO}** {cause}: net_a (1,234 values)." in text
    assert f"* **{programs_timed.SNN_MLIR}** on net_a: absent: see below" in text
    assert "| net_a | 1x | 1x | 1x | - | 2,500x |" in text
    assert "| net_a | 2 | 2 | 2 | 2 | - | 5,000 |" in text


def test_snn_mlir_is_another_interpreter(case: Case, tmp_path: Path) -> None:
    """One that fails is not timed, and its own last words are shown; one that runs has its results compared."""
    expected = np.zeros((20, 4))
    with pytest.raises(programs_timed.Absent, match="absent"):
        programs_timed.SnnMlirProgram(tmp_path, None, case, expected)
    with pytest.raises(programs_timed.Absent, match="No module named snn_mlir"):
        programs_timed.SnnMlirProgram(tmp_path, sys.executable, case, expected)
    fake = tmp_path / "python"
    build = '"$4/build"'
    lines = ["#!/bin/sh", f"mkdir {build}", f"for i in $(seq 20); do echo 0,0,1,0; done > {build}/results.csv"]
    fake.write_text("\n".join([*lines, f"printf '#!/bin/sh\\n' > {build}/snn_exe; chmod +x {build}/snn_exe"]) + "\n")
    fake.chmod(0o755)
    program = programs_timed.SnnMlirProgram(tmp_path, str(fake), case, expected)
    assert (program.folder / "network.nir").is_file()
    assert np.load(program.folder / "input.npy").shape == (20, 16)
    assert program.differing() == 20
    assert program.turn() > 0


def test_the_delayed_network_is_delayed() -> None:
    network = delayed().network
    (back,) = (p for p in network.projections if p.is_back)
    assert (back.delay_steps.min(), back.delay_steps.max()) == (1, 8)
    assert json.dumps(sorted(CASES)) == json.dumps(
        ["braille", "cnn_sinabs", "digits_cnn", "digits_mlp", "net_a", "recurrent"]
    )
