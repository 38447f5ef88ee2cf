"""Emitted C under clang: all its warnings but those listed here, and its sanitizers, with the same spikes, u and v."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

import numpy as np
import pytest

import nirbridge as nb
from nirbridge.quantization.model import FixedInput, QuantizedNetwork
from tests import tools
from tests.emitters.c.programs import (
    as_text,
    assert_equal_to_fixed,
    expected_text,
    random_inputs,
    random_networks,
    run,
    whole,
    written,
)
from tests.emitters.hand_made import conv, dense, neuron, population, projection, quantized, sparse
from tests.tools import needs

NOT_WARNED: Mapping[str, str] = MappingProxyType(
    {
        "declaration-after-statement": "of C89; C99 has declarations between statements",
        "padded": "a struct ends at a multiple of its widest type, and outputs of bytes lie before the state",
    }
)
"""Warnings of -Weverything that are no fault of a C99 program, each with the reason."""
WARNINGS = ("-std=c99", "-Weverything", "-Werror", *(f"-Wno-{name}" for name in NOT_WARNED))
SANITIZERS = (
    "-fsanitize=undefined,address,integer",
    "-fno-sanitize=unsigned-integer-overflow",  # unsigned numbers wrap, by definition
    "-fno-sanitize-recover=all",
)


def digits(name: str) -> Callable[[Path], QuantizedNetwork]:
    return lambda root: nb.quantize(root / "examples" / "models" / f"{name}.nir", "loihi2")


def several_ports(root: Path) -> QuantizedNetwork:
    """Graded and spiking inputs, all resets, several spikes, floors, values per neuron and row, a readout, loops."""
    rng = np.random.default_rng(1)
    image, button = FixedInput("image", (2, 5, 4), value_max=100, scale=0.25), FixedInput("button", (3,))
    by_row = np.repeat([[[300]], [[900]], [[0]]], 20, axis=1).reshape(3, 5, 4)
    soft = {"v_min": rng.integers(-900, -100, (3, 5, 4)), "reset": "subtract", "reset_amount": by_row + 2000}
    first = population("first", (3, 5, 4), neuron(dv=by_row, bias_mant=by_row, **soft))
    held = population("held", (4,), neuron(du=rng.integers(0, 4096, 4), refractory_steps=[0, 1, 2, 300]))
    silent = population("silent", (4,), neuron(du=3000, fires_above=None))
    last = population("last", (1,), neuron(du=700, dv=4096, fires_above=3000, max_spikes=3, spike_size=500))
    edges = [
        projection("image", "first", conv(rng, (2, 5, 4), 3, (3, 2), stride=(1, 1), padding=((1, 1), (0, 1)))),
        projection("first", "held", sparse(rng, (3, 5, 4), (4,))),
        projection("button", "held", dense(rng, 4, 3), delay_steps=[1, 60, 2]),
        projection("held", "silent", dense(rng, 4, 4), delay_steps=33),
        projection("silent", "last", dense(rng, 1, 4, 3), weight_exp=-5),
        projection("last", "last", dense(rng, 1, 1, 12), delay_steps=9),
    ]
    return whole(quantized([image, button], [first, held, silent, last], edges, ["first", "silent", "last"]))


def wide_sums(root: Path) -> QuantizedNetwork:
    """State of 64 bits."""
    wide = replace(neuron(du=100, dv=3, fires_above=1 << 37), u_bits=40, v_bits=41)
    edge = projection("in", "p", dense(np.random.default_rng(5), 6, 5, 60), weight_exp=6)
    return whole(quantized([FixedInput("in", (5,), value_max=1 << 20)], [population("p", (6,), wide)], [edge], ["p"]))


KINDS: Mapping[str, Callable[[Path], QuantizedNetwork]] = {
    "digits_mlp": digits("digits_mlp"),
    "digits_cnn": digits("digits_cnn"),
    "random": lambda root: random_networks(range(100, 106)),
    "several ports": several_ports,
    "wide sums": wide_sums,
    "nothing to hear": lambda root: whole(quantized([], [population("p", (2,), neuron(bias_mant=900))], [], ["p"])),
}


@pytest.mark.parametrize("kind", list(KINDS))
def test_no_warning_of_clang(kind: str, root: Path, tmp_path: Path) -> None:
    """Traced; without traces in ``test_kit.py``, with the self-test."""
    folder = written(KINDS[kind](root), tmp_path / "p")
    run([needs("clang"), *WARNINGS, "-O1", "-DNB_TRACE", "-c", "model.c", "main.c"], folder)


@pytest.mark.parametrize("kind", list(KINDS))
def test_nothing_undefined_under_clang(
    kind: str, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sanitizing_clang: str
) -> None:
    """Sanitizers end a program at an overflow, a conversion that loses bits, a wrong shift or a wrong address."""
    q = KINDS[kind](root)
    inputs = random_inputs(q, 30)
    if q.inputs:
        folder = written(q, tmp_path / "p")
        run([sanitizing_clang, "-std=c99", "-O1", *SANITIZERS, "-o", "model", "model.c", "main.c"], folder)
        assert run([folder / "model"], folder, as_text(q, inputs)) == expected_text(q, inputs)
    monkeypatch.setenv("CC", " ".join([sanitizing_clang, *SANITIZERS]))
    assert_equal_to_fixed(q, inputs, steps=None if q.inputs else 30)


@pytest.fixture(scope="module")
def sanitizing_clang(tmp_path_factory: pytest.TempPathFactory) -> str:
    """clang where it has its run-time libraries; it finds a planted overflow."""
    clang, folder = needs("clang"), tmp_path_factory.mktemp("clang")
    (folder / "x.c").write_text("int main(int n, char **w) { (void)w; return 2147483647 + n < 0; }\n")
    command = [clang, *SANITIZERS, "-o", "x", "x.c"]
    if subprocess.run(command, cwd=folder, capture_output=True, check=False).returncode != 0:
        tools.not_there("clang", "the run-time libraries of its sanitizers")
    assert subprocess.run([folder / "x"], capture_output=True, check=False).returncode != 0
    return clang
