"""Emitted C programs on a Cortex-M4 without an operating system and on RISC-V, in QEMU: the same spikes."""

from __future__ import annotations

import re
from pathlib import Path

import nirbridge as nb
from nirbridge.quantization.model import QuantizedNetwork
from tests.emitters.c.programs import (
    BOARD,
    LINK,
    M4,
    STRICT,
    as_text,
    expected_text,
    random_inputs,
    random_networks,
    run,
    run_on_m4,
    written,
)
from tests.tools import needs


def both(root: Path) -> dict[str, QuantizedNetwork]:
    return {
        "digits": nb.quantize(root / "examples/models/digits_cnn.nir", "loihi2"),
        "random": random_networks(range(80, 90)),
    }


def test_cortex_m4(root: Path, tmp_path: Path) -> None:
    gcc = needs("arm-gcc")
    for name, q in both(root).items():
        folder, inputs = written(q, tmp_path / name), random_inputs(q, 20)
        run([gcc, *M4, *STRICT, "-c", "model.c"], folder)
        run([gcc, *M4, *LINK, BOARD / "start.c", "model.o", "main.c", "-o", "model.elf"], folder)
        assert run_on_m4("model.elf", folder, as_text(q, inputs)) == expected_text(q, inputs)
        if name == "digits":  # code and tables of the network
            size = run([gcc.replace("gcc", "size"), "model.o"], folder)
            assert int(re.findall(r"\n\s*(\d+)", size)[0]) < 14_000


def test_risc_v(root: Path, tmp_path: Path) -> None:
    gcc, qemu = needs("riscv-gcc"), needs("qemu-riscv")
    for name, q in both(root).items():
        folder, inputs = written(q, tmp_path / name), random_inputs(q, 20)
        run([gcc, *STRICT, "-O2", "-static", "model.c", "main.c", "-o", "model"], folder)
        assert run([qemu, folder / "model"], folder, as_text(q, inputs)) == expected_text(q, inputs)
