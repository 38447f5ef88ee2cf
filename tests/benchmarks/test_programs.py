"""The benchmark of programs: equality before any time, one that differs is reported, and the page says so."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nirbridge as nb
from benchmarks import programs, programs_timed
from benchmarks.programs_nets import CASES, Case, delayed
from benchmarks.programs_snn_mlir import Absent, SnnMlirProgram
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
    one[programs_timed.ORT] = {"us": None, "differing": 1234, "why": ""}
    one[programs_timed.SNN_MLIR] = {"us": None, "differing": None, "why": "absent: see below"}
    text = programs.page(records, ["Python 3.11"])
    assert f"* **{programs_timed.ORT}** differs from the simulator: net_a (1,234 values)." in text
    assert f"* **{programs_timed.SNN_MLIR}** on net_a: absent: see below" in text
    assert "| net_a | 1x | 1x | - | 2,500x |" in text
    assert "| net_a | 2 | 2 | 2 | - | 5,000 |" in text


FAKE = """#!/bin/sh
mkdir -p "$4/build" && cd "$4/build"
if [ -z "$MLIR_DIR" ]; then echo "error: custom op 'memref.subview'" >&2; exit 1; fi
"$MLIR_DIR/../../../bin/mlir-opt" -cse -lower-affine -canonicalize > passes || exit 1
echo 'func.func @f(%a : memref<16xf32>, %v : memref<2x2xf32>, %o : memref<4xf32>) attributes {' > network.mlir
cat > f.c <<'END'
#include <stdint.h>
struct one { float *allocated, *aligned; int64_t offset, sizes[1], strides[1]; };
struct two { float *allocated, *aligned; int64_t offset, sizes[2], strides[2]; };
void _mlir_ciface_snn_forward_step(struct one *a, struct two *v, struct one *o)
{
    float *sum = v->aligned + v->strides[0] * (v->sizes[0] - 1) + v->strides[1];
    *sum += a->aligned[0];
    for (int k = 0; k < 4; ++k)
        o->aligned[k * o->strides[0]] = k == 2 ? *sum : 0;
}
END
cc -c -o network.o f.c
"""


def test_snn_mlir_is_another_interpreter(case: Case, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """One that fails is not timed, and its own last words are shown; one that runs has its results compared."""
    monkeypatch.delenv("MLIR_DIR", raising=False)
    expected = np.zeros((20, 4), np.float32)
    with pytest.raises(Absent, match="absent"):
        SnnMlirProgram(tmp_path, None, case, expected)
    with pytest.raises(Absent, match="No module named snn_mlir"):
        SnnMlirProgram(tmp_path, sys.executable, case, expected)
    fake, echo = tmp_path / "python", tmp_path / "mlir-opt"
    fake.write_text(FAKE)
    echo.write_text('#!/bin/sh\necho "$@"\n')
    for tool in (fake, echo):
        tool.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    program = SnnMlirProgram(tmp_path, str(fake), case, expected)
    assert (tmp_path / "build" / "passes").read_text().split() == [
        "-cse", "-expand-strided-metadata", "-lower-affine", "-canonicalize"
    ]  # fmt: skip
    assert np.load(program.folder / "input.npy").shape == (20, 16)
    sums = np.cumsum(case.spikes[:, 0])
    assert program.differing() == np.count_nonzero(sums) > 0
    expected[:, 2] = sums
    assert program.differing() == 0
    assert 0 < program.turn() < 1e-3


def test_the_delayed_network_is_delayed() -> None:
    network = delayed().network
    (back,) = (p for p in network.projections if p.is_back)
    assert (back.delay_steps.min(), back.delay_steps.max()) == (1, 8)
    assert json.dumps(sorted(CASES)) == json.dumps(
        ["braille", "cnn_sinabs", "digits_cnn", "digits_mlp", "net_a", "recurrent"]
    )
