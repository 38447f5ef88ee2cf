"""Planted faults in a text of the dialect: stock ``mlir-opt`` refuses it, or our reader does with the place."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import numpy as np
import pytest

import nirbridge as nb
from nirbridge.dialect.build import network_module, quantized_module
from nirbridge.dialect.definition import irdl_text
from nirbridge.dialect.model_files import load_mlir
from nirbridge.dialect.module import parse_module
from nirbridge.dialect.read import module_model
from nirbridge.errors import NirbridgeError
from nirbridge.network.equality import network_differences
from nirbridge.quantization.storage.file import quantized_to_dict
from tests.dialect.networks import several_ports
from tests.dialect.whole import odd_network
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
]
"""Faults beyond IRDL: sizes, signs, names, values."""


def text_with(old: str, new: str) -> str:
    text = network_module(several_ports(np.random.default_rng(0))).text()
    assert old in text
    return text.replace(old, new, 1)


def stock(text: str, folder: Path) -> subprocess.CompletedProcess[str]:
    (folder / "spike.irdl").write_text(irdl_text())
    (folder / "a.mlir").write_text(text)
    command = ["mlir-opt-22", f"--irdl-file={folder / 'spike.irdl'}", str(folder / "a.mlir"), "-o", "/dev/null"]
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
    of_network = any(word in old for word in ("dt =", "numbers", "euler"))  # its attributes come after its region
    assert places[0] == 2 if of_network else min(abs(place - changed) for place in places) <= 2, (found, changed)


@pytest.mark.parametrize("seed", range(60))
def test_a_network_and_its_integers_come_back(seed: int) -> None:
    network = odd_network(seed)
    for pretty in (False, True):
        again = module_model(parse_module(network_module(network).text(pretty=pretty)))
        assert not network_differences(again, network)  # type: ignore[arg-type]
    try:
        quantized = nb.quantize(network, "loihi2")
    except NirbridgeError:
        return
    found = module_model(parse_module(quantized_module(quantized).text()))
    (a, x), (b, y) = quantized_to_dict(quantized), quantized_to_dict(found)  # type: ignore[arg-type]
    assert a == b
    assert {k: (v.dtype, v.tobytes()) for k, v in x.items()} == {k: (v.dtype, v.tobytes()) for k, v in y.items()}
