"""The text of C programs: warnings, sanitizers, names, sizes, the program that reads spikes, refusals."""

from __future__ import annotations

import json
import re
import subprocess
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

import nirbridge as nb
from nirbridge.arrays import freeze
from nirbridge.emitters.artifact import read_artifact, write_artifact
from nirbridge.emitters.c.emit import C, emit
from nirbridge.emitters.c.options import COptions
from nirbridge.emitters.c.plan import WEIGHTS_MAX
from nirbridge.emitters.c.run import compile_program, find_compiler
from nirbridge.errors import ModelError, UsageError
from nirbridge.network.model import Network
from nirbridge.network.operators import Dense
from nirbridge.quantization.model import FixedInput, QuantizedNetwork
from nirbridge.testing import check_conformance
from tests.emitters.c.programs import (
    STRICT,
    as_text,
    expected_text,
    random_inputs,
    random_networks,
    run,
    whole,
    wide_matrices,
    written,
)
from tests.emitters.hand_made import dense, neuron, population, projection, quantized
from tests.golden.models import network_of
from tests.tools import needs, not_there


@pytest.fixture(scope="module")
def digits(root: Path) -> QuantizedNetwork:
    return nb.quantize(root / "examples/models/digits_cnn.nir", "loihi2")


def test_the_emitter_keeps_to_its_protocol() -> None:
    check_conformance("emitters", "c")


def test_no_warning_of_the_compiler(tmp_path: Path, digits: QuantizedNetwork) -> None:
    alone = population("alone", (4,), neuron(dv=4096, bias_mant=70))  # nothing is kept of it, sent or shown
    nothing_kept = whole(quantized([], [alone, population("p", (2,), neuron())], [], ["p"]))
    networks = (digits, random_networks(range(40, 60)), wide_matrices(), nothing_kept)
    for k, q in enumerate(networks):
        folder = written(q, tmp_path / str(k))
        for options in (["-O2"], ["-O1", "-fanalyzer"], ["-Os", "-DNB_TRACE"]):
            run(["gcc", *STRICT, *options, "-c", "model.c", "main.c"], folder)


def test_nothing_undefined_happens(tmp_path: Path) -> None:
    """The sanitizers of gcc end a program at the first overflow, wrong shift or access outside an array."""
    q = random_networks(range(60, 80))
    folder, inputs = written(q, tmp_path / "p"), random_inputs(q, 30)
    sanitizers = ["-fsanitize=undefined,address", "-fno-sanitize-recover=all"]
    run(["gcc", "-std=c99", "-O1", *sanitizers, "-o", "model", "model.c", "main.c"], folder)
    assert run([folder / "model"], folder, as_text(q, inputs)) == expected_text(q, inputs)


def test_cppcheck_finds_nothing(tmp_path: Path, digits: QuantizedNetwork) -> None:
    folder = written(digits, tmp_path / "p")
    checks = ["--enable=style,warning,performance,portability", "--error-exitcode=1", "--std=c99", "--quiet"]
    run([needs("cppcheck"), *checks, "model.c", "main.c"], folder)


def misra_findings(model: Network | QuantizedNetwork, folder: Path) -> Counter[str]:
    """Rules of MISRA C:2012; tables are emptied, each is one finding, since cppcheck reads long ones for a minute."""
    write_artifact(emit(model, COptions(selftest=4)), folder)
    for name in ("weights.h", "model_selftest.c"):
        text = (folder / name).read_text()
        (folder / name).write_text(re.sub(r"= \{\n[^}]*\n\};", "= {0};", text))
    command = [needs("cppcheck"), "--addon=misra", "--std=c99", "--quiet", "model.c", "model_selftest.c"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)
    if "Did not find addon" in done.stderr:
        not_there("cppcheck", "cppcheck's addon misra")
    return Counter(re.findall(r"\[misra-c2012-([0-9.]+)\]", done.stderr))


def test_the_page_counts_the_findings_of_misra(root: Path, tmp_path: Path) -> None:
    page = (root / "docs/c.md").read_text()
    (counted,) = re.findall(r"\(cppcheck ([0-9.]+)\) counts", page)
    if (version := run([needs("cppcheck"), "--version"], tmp_path).split()[-1]) != counted:
        pytest.skip(f"docs/c.md counts with cppcheck {counted}, and this is {version}")
    networks = [network_of(name) for name in ("digits_mlp", "digits_cnn", "recurrent")]
    forms = [(nb.quantize(network, "loihi2"), network) for network in networks]
    found = [[misra_findings(x, tmp_path / f"{k}{x is a}") for x in (a, b)] for k, (a, b) in enumerate(forms)]
    rules = sorted({rule for pair in found for f in pair for rule in f}, key=lambda r: [*map(int, r.split("."))])
    rows = [f"| {rule} | {' | '.join(f'{a[rule]}, {b[rule]}' for a, b in found)} |" for rule in rules]
    table = page.partition("| left, because |\n")[2].partition("\n\n")[0].splitlines()[1:]
    assert [row[: len(start)] for row, start in zip(table, rows, strict=True)] == rows


def test_shared_kernels_make_small_tables(tmp_path: Path, digits: QuantizedNetwork) -> None:
    folder = written(digits, tmp_path / "p")
    run(["gcc", "-std=c99", "-Os", "-c", "model.c"], folder)
    sizes = dict(re.findall(r"(\S+)\s+(\d+)\s+0\n", run(["size", "-A", "model.o"], folder)))
    assert int(sizes[".rodata"]) < 12_000
    assert int(sizes[".data"]) == int(sizes[".bss"]) == 0
    assert json.loads((folder / "manifest.json").read_text())["tables_bytes"] == int(sizes[".rodata"])


def test_names_of_the_model_stay_out_of_the_code() -> None:
    hostile = '*/ int evil; /* ??/ \n#include "x" @STATE@ `|`'
    p = population(hostile, (2,), neuron())
    rng = np.random.default_rng(0)
    q = quantized(
        [FixedInput(f"in{hostile}", (3,))], [p], [projection(f"in{hostile}", hostile, dense(rng, 2, 3))], [hostile]
    )
    files = emit(whole(q)).files
    for name in ("model.c", "weights.h", "main.c", "Makefile"):
        assert b"evil" not in files[name]
        assert b"@STATE" not in files[name]
    lines = [line for line in files["model.h"].splitlines() if b"evil" in line.lower()]
    assert all(re.fullmatch(rb"#define NB_(IN|OUT)PUT_(IN_|OUT_)?INT_EVIL_INCLUDE_X_STATE_\w+ .*", x) for x in lines)
    assert len([line for line in lines if b"_NAME " in line]) == 2  # strings: tests/emitters/c/test_kit.py
    rows = [line for line in files["README.md"].decode().splitlines() if "evil" in line]
    assert len(rows) == 3
    assert all("<" not in row and "\n" not in row for row in rows)


def test_the_program_reads_and_prints_spikes(tmp_path: Path) -> None:
    q = random_networks(range(5))
    folder, inputs = written(q, tmp_path / "p"), random_inputs(q, 30)
    run([needs("make"), "model"], folder)
    text = as_text(q, inputs) + "reset\n" + as_text(q, inputs, 1)
    assert run([folder / "model"], folder, text) == expected_text(q, inputs) + expected_text(q, inputs, 1)
    assert emit(q).digest == read_artifact(folder).digest
    write_artifact(emit(q), folder)  # what make built does not keep the folder from being replaced


@pytest.mark.parametrize("line", ["9999", "1:2", "x", "1:", "resets", "-1", "1 99999999999999999999999", "0:1:1"])
def test_the_program_refuses_other_lines(line: str, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.getbasetemp() / "refusing"
    if not folder.exists():
        p, rng = population("p", (2,), neuron()), np.random.default_rng(0)
        written(
            whole(quantized([FixedInput("in", (3,))], [p], [projection("in", "p", dense(rng, 2, 3))], ["p"])), folder
        )
        compile_program(folder, ("model.c", "main.c"), "model")
    done = subprocess.run([folder / "model"], input=f"0\n{line}\n", capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "\n")
    assert done.stderr.startswith("line 2: not an index, index:value or reset, or out of range")


def test_refusals(digits: QuantizedNetwork, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="model of emitter 'c'"):
        C.emit(digits.chip)  # pyright: ignore[reportArgumentType]
    with pytest.raises(UsageError, match="options of emitter 'c'"):
        C.emit(digits, "fast")  # pyright: ignore[reportArgumentType]
    assert C.emit(digits, C.options()).digest == C.emit(digits).digest
    side = 5000
    large = Dense(freeze(np.broadcast_to(np.int64(2), (side, side))))
    p = population("p", (side,), neuron())
    q = quantized([FixedInput("in", (side,))], [p], [projection("in", "p", large)], ["p"])
    with pytest.raises(ModelError, match=rf"25,000,000 stored weights, a C program holds {WEIGHTS_MAX:,}"):
        emit(q)
    low, rng = neuron(fires_above=-5, max_spikes=3), np.random.default_rng(0)
    q = quantized(
        [FixedInput("in", (3,))], [population("p", (2,), low)], [projection("in", "p", dense(rng, 2, 3))], ["p"]
    )
    with pytest.raises(ModelError, match="'p': several spikes in a time step, and a threshold below 0"):
        emit(q)
    monkeypatch.setenv("CC", "no-such-compiler")
    with pytest.raises(
        UsageError, match="compiler 'no-such-compiler': is not on this machine; correct or unset the variable CC"
    ):
        C.run(C.emit(digits), {"input": np.zeros((2, 1, 8, 8))})
    monkeypatch.delenv("CC")
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(UsageError, match="no C compiler on this machine.*apt install gcc"):
        find_compiler()


def test_errors_of_the_compiler_are_shown(tmp_path: Path) -> None:
    (tmp_path / "x.c").write_text("int main(void) { return missing; }\n")
    with pytest.raises(ModelError, match=r"the compiler refused it:\n(.|\n)*missing"):
        compile_program(tmp_path, ("x.c",), "x")
