"""Planted faults in a text of the dialect: stock ``mlir-opt`` refuses it, or our reader does with the place."""

from __future__ import annotations

import contextlib
import re
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nirbridge as nb
from nirbridge.dialect.build import network_module
from nirbridge.dialect.definition import irdl_text
from nirbridge.dialect.lower import dialect_module
from nirbridge.dialect.model_files import load_mlir
from nirbridge.dialect.module import parse_module
from nirbridge.dialect.read import module_model
from nirbridge.errors import NirbridgeError
from nirbridge.network.equality import network_differences
from nirbridge.network.model import Network
from nirbridge.quantization.storage.file import quantized_to_dict
from tests.dialect.networks import several_ports
from tests.dialect.whole import odd_network
from tests.emitters.held_out import fixed_network
from tests.tools import needs

Fault = tuple[str, str]
STOCK: list[Fault] = [
    ('"none", dense', '"never", dense'),
    ('">=", 1 : i64', '"=", 1 : i64'),
    ('kind = "LIF"', 'kind = "LIFE"'),
    ('"euler"', '"heun"'),
    ('numbers = "float32"', 'numbers = "float8"'),
    ('variable = "s"', 'variable = "w"'),
    ("dt = 1.000000e-03 : f64", 'dt = "hello"'),
    ("#spike.membrane<dense<8.750000e-01> : tensor<f64>", '#spike.membrane<"hello"'),
    ("weight = dense_resource<a0> : tensor<12x5xf64>", "weight = 3 : i64"),
    ("{weight = dense_resource<a0> : tensor<12x5xf64>}", "{}"),
    ("spike.scale", "spike.scald"),
    ("!spike.value<array<i64: 3, 4>, i1>, !spike.value", "!spike.value<array<i64: 3, 5>, i1>, !spike.value"),
    ("!spike.value<array<i64: 5>, f32>", "!spike.value<array<i64: 6>, f32>"),
    ("!spike.stream<array<i64: 5>, f32>", "!spike.stream<array<i64: 5>, f16>"),
    ('"spike.current"(%5)', '"spike.current"(%99)'),
    ('"spike.identity"(%18)', '"spike.identity"(%21)'),
    ("index = 0 : i64", "index = 0.5 : f64"),
    ('#spike.reset<"none", ', "#spike.reset<"),
]
"""Faults that the dialect's definition states: words, types, shapes, absent attributes, unknown operations, cycles."""
COLLECTED = """%35 = "spike.collect"(%34) : (!spike.value<array<i64>, f32>) -> !spike.stream<array<i64>, f32>
    "spike.result"(%35) {name = "p", variable = "s"} : (!spike.stream<array<i64>, f32>) -> ()"""
OURS: list[Fault] = [
    ("tensor<12x5xf64>}", "tensor<12x6xf64>}"),
    ("steps = dense<2> : tensor<i64>", "steps = dense<-2> : tensor<i64>"),
    ("steps = dense<1> : tensor<i64>", "steps = dense<0> : tensor<i64>"),
    ("steps = dense<2> : tensor<i64>", "steps = dense<2> : tensor<5xi64>"),
    ('name = "b"', 'name = "x"'),
    ('name = "y"', 'name = "x"'),
    ("#spike.membrane<dense<8.750000e-01>", "#spike.membrane<dense<0x7FF8000000000000>"),
    ('">=", 1 : i64', '">=", 0 : i64'),
    ("dt = 1.000000e-03", "dt = -1.000000e-03"),
    ('"spike.connect"(%18, %21)', '"spike.connect"(%19, %21)'),
    ('">=", 1 : i64', '">=", 2 : i64'),
    ("dense<8.750000e-01> : tensor<f64>", "dense<8.750000e-01> : tensor<100000x100000xf64>"),
    ("steps = dense<2> : tensor<i64>", "steps = dense<4611686018427387904> : tensor<i64>"),
    ("steps = dense<2> : tensor<i64>", "steps = dense<1.5> : tensor<f64>"),
    ("index = 1 : i64}", "index = 0 : i64}"),
    ("index = 1 : i64}", "index = 9 : i64}"),
    ("index = 1 : i64}", 'index = 1 : i64, colour = "red"}'),
    ("index = 1 : i64}", "index = 1 : i64, bais = dense<1.0> : tensor<f64>}"),
    ('name = "p", variable', 'name = "z", variable'),
    ("index = 1 : i64}", "index = 1 : i32}"),
    ("index = 1 : i64}", "index = 1 : i64, bias = 3 : i64}"),
    ("dt = 1.000000e-03 : f64", "dt = 1.000000e-03 : f32"),
    ('kind = "LIF"', 'kind = "LI"'),
    (COLLECTED, "// not collected"),
    ('"builtin.module"() ({', '"builtin.module"() ({ "builtin.module"() ({}) : () -> ()'),
    ('"spike.scan"', '"builtin.module"() ({}) : () -> ()\n"spike.scan"'),
    ('name = "b"', 'name = "%FF"'),
    ("provenance = {", "provenance = {colour = [], "),
    ('notes = ["two %22%0A"]', "notes = [3 : i64]"),
    ('"ub.unreachable"() : () -> ()', '"ub.unreachable"() : () -> ()\n^bb1:\n"ub.unreachable"() : () -> ()'),
]
"""Faults beyond IRDL: sizes, signs, names, values, indices, unknown attributes, bookkeeping."""


def text_with(old: str, new: str) -> str:
    text = network_module(several_ports(np.random.default_rng(0))).text()
    assert old in text
    return text.replace(old, new, 1)


def stock(text: str, folder: Path, *flags: str) -> subprocess.CompletedProcess[str]:
    (folder / "spike.irdl").write_text(irdl_text())
    (folder / "a.mlir").write_text(text)
    command = ["mlir-opt-22", f"--irdl-file={folder / 'spike.irdl'}", str(folder / "a.mlir"), *flags]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(("old", "new"), STOCK)
def test_stock_mlir_refuses(old: str, new: str, tmp_path: Path) -> None:
    needs("mlir")
    done = stock(text_with(old, new), tmp_path)
    assert done.returncode != 0
    assert "a.mlir:" in done.stderr, done.stderr[:500]


@pytest.mark.parametrize(("old", "new"), [*STOCK, *OURS])
@pytest.mark.filterwarnings("ignore")
def test_the_reader_names_the_place(old: str, new: str, tmp_path: Path) -> None:
    text = text_with(old, new)
    (tmp_path / "a.mlir").write_text(text)
    with pytest.raises(NirbridgeError) as raised:
        load_mlir(tmp_path / "a.mlir")
    found = str(raised.value)
    assert re.match(r"file 'a\.mlir', (?:dialect, )?line \d+, column \d+", found), found
    changed = next(k for k, line in enumerate(text.split("\n"), 1) if line not in text_with("", "").split("\n"))
    places = [int(n) for n in re.findall(r"line (\d+), column", found)]
    words = ("dt =", "numbers", "euler", "provenance", "notes", "unreachable", "4611686018427387904")
    of_network = any(word in old + new for word in words)  # its attributes come after its region
    assert places[0] == 2 if of_network else min(abs(place - changed) for place in places) <= 2, (found, changed)


MESSAGES = [
    ('name = "x"', "", "line 3, column 5, spike.input: it has no name, a text, escaped as in URLs; add name"),
    ("steps = dense<1>", "steps = dense<-1>", "line 18, column 5, spike.past: a value of its steps is no integer"),
    (
        "dense<[[0.4091796875,",
        "dense<[[0x7FF0000000000000,",
        "line 15, column 5, spike.dense: a value of its weight",
    ),
    (
        'a0: "0x08',
        'a0: "0xZZ',
        "line 46, column 7: the bytes of resource 'a0' are no tensor<12x5xf64>, line 7",
    ),
    ('a0: "0x08000000', 'a0: "0x08000000FF', "line 46, column 7: the bytes of resource 'a0' are no tensor<12x5xf64>"),
    ("dense_resource<a0>", "dense_resource<b>", "line 7, column 5: no resource 'b'; add it to dialect_resources"),
    ('#spike.reset<"none", ', "#spike.reset<", "'spike.reset has 2 parameters, its parameters are reset, v_reset, "),
    ("<array<i64>, i1>", "<array<i64>>", "'spike.value has 1 parameter, its parameters are shape, element'"),
    ('">=", 1 : i64', '">=", 0 : i64', "max_spikes is 0, at least 1"),
    (COLLECTED, "// not collected", "line 32, column 5, spike.output 'p': nothing uses its result"),
    (
        'kind = "LIF"',
        'kind = "LI"',
        "line 13, column 5, spike.neuron 'a %22b%22%5C%0A%00%C3%A9%E6%BC%A2%2520': LI",
    ),
    ("  }) {sym_name", "  {sym_name", "'an operation is expected in block definition'"),
    ("    }\n  }\n#-}\n", "", "'it ends early'"),
]
"""Faults, each of one error, and its words."""


@pytest.mark.parametrize(("old", "new", "words"), MESSAGES)
def test_one_fault_is_one_error(old: str, new: str, words: str) -> None:
    with pytest.raises(NirbridgeError) as raised:
        module_model(parse_module(text_with(old, new)))
    assert len(raised.value.problems) == 1
    assert words in str(raised.value)


def test_a_cycle_without_delay_has_a_hint_in_words_of_the_dialect() -> None:
    text = text_with("steps = dense<1>", "steps = dense<0>").replace(", is_back", "")
    with pytest.raises(NirbridgeError, match="a cycle without delay: 'b' -> 'b'; give one spike.past in it 1 step"):
        module_model(parse_module(text))


def assert_read(text: str, model: Any) -> None:
    found: Any = module_model(parse_module(text))
    if isinstance(model, Network):
        assert not network_differences(found, model)
        return
    (a, x), (b, y) = quantized_to_dict(model), quantized_to_dict(found)
    assert a == b
    assert {k: (v.dtype, v.tobytes()) for k, v in x.items()} == {k: (v.dtype, v.tobytes()) for k, v in y.items()}


@pytest.mark.parametrize("seed", range(60))
def test_a_network_and_its_integers_come_back(seed: int) -> None:
    network = odd_network(seed)
    models: list[Any] = [network, fixed_network(seed)]
    with contextlib.suppress(NirbridgeError):
        models.append(nb.quantize(network, "loihi2"))
    for model in models:
        assert_read(dialect_module(model).text(pretty=bool(seed % 2)), model)


@pytest.mark.parametrize("seed", range(60, 70))
def test_stock_mlir_prints_the_same_network(seed: int, tmp_path: Path) -> None:
    """In its own form of builtin operations, and in the generic one."""
    needs("mlir")
    for model in (odd_network(seed), fixed_network(seed)):
        for flags in ((), ("--mlir-print-op-generic",)):
            done = stock(dialect_module(model).text(), tmp_path, *flags)
            assert done.returncode == 0, done.stderr[:500]
            assert_read(done.stdout, model)
