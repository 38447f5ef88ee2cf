"""Costs that C programs state: bytes equal those of compilers, instructions are near what QEMU counts, inputs work."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nirbridge as nb
from nirbridge.cli import main as cli
from nirbridge.emitters.c.costs import STACK, cost_facts, program_facts
from nirbridge.emitters.c.plan import CPlan, c_plan
from nirbridge.pipeline import network_of_shapes
from nirbridge.quantization.model import FixedInput, QuantizedNetwork
from tests.emitters.c.programs import (
    BOARD,
    LINK,
    M4,
    STRICT,
    expected_text,
    random_networks,
    run,
    run_on_m4,
    whole,
    wide_matrices,
    written,
)
from tests.emitters.hand_made import dense, neuron, population, projection, quantized
from tests.golden.models import network_of
from tests.tools import needs

NETWORKS = ("digits_cnn", "deep", "recurrent", "wide", "sequence", "tiny", "random", "matrices")


def network(name: str) -> QuantizedNetwork:
    made = {"random": lambda: random_networks(range(90, 95)), "matrices": wide_matrices}
    made["tiny"] = lambda: nb.quantize(network_of_shapes("4 dense4 lif"), "loihi2")
    return made[name]() if name in made else nb.quantize(network_of(name), "loihi2")


def manifest(folder: Path) -> dict[str, dict[str, dict[str, int]]]:
    return json.loads((folder / "manifest.json").read_text())


def sections(gcc: str, folder: Path, name: str, *options: str) -> dict[str, int]:
    """Bytes of each section of an object file."""
    run([gcc, *options, *STRICT, "-c", f"{name}.c"], folder)
    found = run([gcc.replace("gcc", "size"), "-A", f"{name}.o"], folder)
    return {section: int(size) for section, size in re.findall(r"(\S+)\s+(\d+)\s+0\n", found)}


@pytest.mark.parametrize("make", [network, network_of])
def test_the_line_of_the_readme_measures_the_code_and_no_library_is_needed(make: Any, tmp_path: Path) -> None:
    """In integers and in float32, where gcc has functions of its own for reals."""
    needs("arm-gcc")
    folder = written(make("digits_mlp"), tmp_path / "p")
    run([needs("make"), "model.o"], folder)  # of another machine: the line has to replace it
    (line,) = re.findall(r"^    (make clean .*size)$", (folder / "README.md").read_text(), re.MULTILINE)
    assert "arm-none-eabi-gcc" in run(["sh", "-c", line], folder)
    linked = ["arm-none-eabi-gcc", *M4, *STRICT, "-nostdlib", "-ffreestanding", "-Wl,-e,nb_step", "model.c"]
    run([*linked, "-lgcc", "-o", "whole"], folder)


@pytest.mark.parametrize("compiler", ["gcc", "arm-gcc"])
@pytest.mark.parametrize("name", NETWORKS)
def test_bytes_are_those_of_the_compiler(name: str, compiler: str, tmp_path: Path) -> None:
    folder = written(network(name), tmp_path / name)
    gcc, options = ("gcc", ("-Os",)) if compiler == "gcc" else (needs(compiler), M4)
    for what in ("nb_model", "nb_inputs"):
        (folder / "sizes.c").write_text(f'#include "model.h"\nextern {what} one;\n{what} one;\n')
        assert sections(gcc, folder, "sizes", *options)[".bss"] == manifest(folder)["costs"]["ram_bytes"][what]
    size, flash = sections(gcc, folder, "model", *options), manifest(folder)["costs"]["flash_bytes"]
    padding = 32 * (folder / "weights.h").read_text().count("static const")  # gcc aligns large arrays
    inlined = 0.1 * flash["tables"] if name == "random" else 0  # arrays of a few elements become code
    assert -inlined <= size[".rodata"] - flash["tables"] < padding
    if compiler == "arm-gcc" and name not in ("random", "matrices"):
        assert size[".text"] == pytest.approx(flash["code_estimated"], rel=0.2)


@pytest.mark.parametrize("name", NETWORKS)
def test_the_stack_is_below_what_is_stated(name: str, tmp_path: Path) -> None:
    """The frame of a time step and the three largest of the functions that it may call."""
    gcc, folder = needs("arm-gcc"), written(network(name), tmp_path / name)
    for level in ("-Os", "-O2", "-O3"):
        run([gcc, *M4[:2], level, "-fstack-usage", "-c", "model.c"], folder)
        rows = [line.split("\t") for line in (folder / "model.su").read_text().splitlines()]
        frames = {words[0].rpartition(":")[2]: int(words[1]) for words in rows}
        step = frames.pop("nb_step")
        assert all(words[2] == "static" for words in rows)
        assert 0 < step + sum(sorted(frames.values())[-3:]) < STACK


DRIVER = """
#include <stdio.h>
#include "model.h"
#define TIMER ((volatile uint32_t *)0xE000E010)
static nb_model model;
static nb_inputs inputs;
static void counted(void)
{
    const uint32_t before = TIMER[2];
    nb_step(&model, &inputs);
    printf("%lu\\n", (unsigned long)((before - TIMER[2]) & 0xFFFFFFu));
}
int main(void)
{
    TIMER[1] = 0xFFFFFF;
    TIMER[2] = 0;
    TIMER[0] = 5;
    nb_reset(&model);
    counted();
    nb_reset(&model);
@SENT@
    counted();
    return 0;
}
"""
INSTRUCTIONS_PER_TICK = 40
"""QEMU lets an instruction take 1 ns (``-icount shift=0``); the timer ticks with the 25 MHz of the board."""


def all_sent(plan: CPlan) -> Iterator[str]:
    """Statements by which every source has sent a spike in all time steps before."""
    for source in (*plan.inputs, *(n.source for n in plan.neurons)):
        for word in range(source.words):
            bits = min(32, source.size - 32 * word)
            for slot in range(source.slots):
                yield f"    model.{source.id}_sent[{slot}][{word}] = {(1 << bits) - 1}u;"


@pytest.mark.parametrize("name", ["digits_cnn", "digits_mlp", "deep", "recurrent", "sequence", "wide"])
def test_instructions_are_near_those_of_qemu(name: str, tmp_path: Path) -> None:
    gcc, q = needs("arm-gcc"), network(name)
    folder = written(q, tmp_path / name)
    (folder / "driver.c").write_text(DRIVER.replace("@SENT@", "\n".join(all_sent(c_plan(q)))))
    run([gcc, *M4, *LINK, BOARD / "start.c", "model.c", "driver.c", "-o", "model.elf"], folder)
    ticks = run_on_m4("model.elf", folder, options=["-icount", "shift=0"]).split()
    idle, most = (INSTRUCTIONS_PER_TICK * int(count) for count in ticks)
    stated = manifest(folder)["costs"]["cortex_m4_instructions_per_step_estimated"]
    assert stated["without_spikes"] == pytest.approx(idle, rel=0.15)
    assert stated["most"] == pytest.approx(most, rel=0.15)
    assert most > idle


def test_the_readme_says_how_real_numbers_become_inputs(tmp_path: Path) -> None:
    """Its snippet, run on real numbers: the program gives what the simulator gives on the same numbers."""
    ports = [FixedInput("x", (6,)), FixedInput("current", (4,), value_max=9, scale=0.25)]
    rng = np.random.default_rng(3)
    edges = [projection("x", "p", dense(rng, 5, 6)), projection("current", "p", dense(rng, 5, 4))]
    q = whole(quantized(ports, [population("p", (5,), neuron(fires_above=60))], edges, ["p"]))
    folder = written(q, tmp_path / "p")
    spikes, current = rng.integers(0, 2, (20, 6)).astype(float), rng.normal(0, 1.5, (20, 4))
    np.savez(folder / "in.npz", x=spikes, current=current)
    code = re.findall(r"```python\n(.*?)```", (folder / "README.md").read_text(), re.DOTALL)
    (folder / "spikes.py").write_text(code[0])
    run([needs("make"), "model"], folder)
    lines = run([sys.executable, "spikes.py"], folder)
    inputs = {"x": spikes[:, None], "current": np.clip(current, -2.25, 2.25)[:, None]}
    wanted = expected_text(q, inputs)
    assert run([folder / "model"], folder, lines) == wanted
    assert len(wanted.split()) > 20


def test_what_is_said_of_a_program() -> None:
    ports = [{"type": "int8_t", "field": "in.in0", "size": 6, "name": "x", "shape": [2, 3], "values": "whole numbers"}]
    ports = [{**port, "max": 9, "scale": 0.25} for port in ports] * 5
    found = {
        "costs": {
            "flash_bytes": {"tables": 1200, "code_estimated": 330},
            "ram_bytes": {"nb_model": 40, "nb_inputs": 6},
            "operations_per_step": {"synaptic_most": 1, "neuron_updates": 2},
            "cortex_m4_instructions_per_step_estimated": {"without_spikes": 70, "most": 1200},
        },
        "inputs": ports,
        "latency_steps": {"a": 1, "b": 3},
        "options": {"prefix": "nb"},
        "selftest": {"steps": 30, "bytes": 60, "active_outputs": 0},
    }
    lines = [f"{label}: {text}" for label, text in program_facts(found)]
    assert lines[: len(list(cost_facts(found)))] == [
        "flash: 1,200 bytes of tables, and about 330 of code",
        "RAM: 40 bytes of state, 6 of inputs, stack below 256",
        "time step: 1 synaptic operation at most, and 2 neuron updates",
        "Cortex-M4: about 1,200 instructions a time step at most, 70 without spikes; 1.3 to 1.8 cycles each",
        "at 100 MHz: about 16 to 22 us a time step at most, 0.91 to 1.3 without spikes",
    ]
    assert lines[5] == "self-test: 30 time steps, 0 values of outputs other than 0"
    assert lines[6] == "latency: 'a' 1 time step, 'b' 3 time steps"
    assert lines[7] == "input: 'x' 2 x 3, last axis fastest, as int8_t in.in0[6]: round(x / 0.25), -9 to 9"
    assert lines[11] == ": and 1 more inputs"


def test_the_page_shows_what_is_printed(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    page = (root / "docs/c.md").read_text()
    block = page[page.index("$ nirbridge emit examples/models/digits_mlp.nir") + 2 :].partition("```")[0]
    line, _, expected = block.partition("\n")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "examples").symlink_to(root / "examples")
    assert cli.run(line.split()[1:]) == 0
    found = capsys.readouterr().out.splitlines()
    assert [*found[:1], "…", *found[2:]] == expected.splitlines()
