"""The dialect: text that parses back, networks that come back, verifiers, and acceptance by MLIR's own tools."""

from __future__ import annotations

import importlib.util
import subprocess
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from xdsl.irdl import result_def

from nirbridge.arrays import Array, freeze
from nirbridge.dialect.base import ValueType, value_type
from nirbridge.dialect.build import fits_in_32, network_module, quantized_module
from nirbridge.dialect.definition import irdl_text
from nirbridge.dialect.lower import dialect_module
from nirbridge.dialect.module import DialectModule, check_module, parse_module
from nirbridge.dialect.neurons import NeuronBase, neuron_attributes, neuron_operation
from nirbridge.dialect.read import attribute_values, module_model
from nirbridge.dialect.values import ELEMENTS, Resources, integer, text
from nirbridge.errors import FileError, ModelError, ToolMissing
from nirbridge.network.model import Network
from nirbridge.network.neurons import Neuron, neuron
from nirbridge.network.storage.codec import ValueEncoder
from nirbridge.testing import networks
from tests.dialect.networks import NAME, NETWORKS, several_ports
from tests.emitters.c.programs import random_networks
from tests.tools import needs

GOLDEN = Path(__file__).with_name("golden")


def record(network: Network) -> tuple[Any, list[bytes]]:
    """Every field of a network, and the bytes of its arrays."""
    encoder = ValueEncoder()
    return encoder.plain(network), [a.tobytes() for a in encoder.arrays.values()]


def accepted(module: DialectModule, folder: Path) -> None:
    """``mlir-opt`` reads and verifies the module, by the dialect's definition alone."""
    (folder / "spike.irdl").write_text(irdl_text())
    (folder / "module.mlir").write_text(module.text())
    command = ["mlir-opt-22", f"--irdl-file={folder / 'spike.irdl'}", folder / "module.mlir", "-o", folder / "out.mlir"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[:2000]


@pytest.mark.parametrize("make", NETWORKS)
def test_a_network_comes_back_from_its_text(make: Any) -> None:
    network = make(np.random.default_rng(0))
    module = network_module(network)
    check_module(module)
    text = module.text()
    again = parse_module(text)
    assert again.text() == text
    assert record(module_model(again)) == record(network)
    assert network_module(network).text() == text
    assert text.isascii()


@settings(max_examples=20, deadline=None, database=None, derandomize=True, phases=[Phase.generate])
@given(networks())
def test_random_networks_come_back(network: Network) -> None:
    text = network_module(network, "float64").text()
    assert record(module_model(parse_module(text))) == record(network)


@pytest.mark.parametrize("make", NETWORKS)
def test_mlir_accepts_the_dialect(make: Any, tmp_path: Path) -> None:
    needs("mlir")
    accepted(network_module(make(np.random.default_rng(0))), tmp_path)


def test_a_quantized_network_has_a_text(tmp_path: Path) -> None:
    q = random_networks(range(8))
    module = quantized_module(q)
    check_module(module)
    assert parse_module(module.text()).text() == module.text()
    assert fits_in_32(q)
    needs("mlir")
    accepted(module, tmp_path)


def test_the_text_is_that_of_the_golden_file() -> None:
    assert network_module(several_ports(np.random.default_rng(0))).text() == (GOLDEN / "several_ports.mlir").read_text()


FAULTS = [
    ('"none", dense', '"never", dense', "reset of spike.reset is"),
    ('">=", 1 : i64', '"=", 1 : i64', "compare of spike.firing is"),
    ('">=", 1 : i64', '">=", 0 : i64', "max_spikes is 0, at least 1"),
    ("dt = 1.000000e-03 : f64, numbers", "dt = 0.0 : f64, numbers", "dt is 0.0 s, above 0"),
    ("steps = dense<2> : tensor<i64>", "steps = dense<2> : tensor<5xi64>", "steps has shape (5,), expected ()"),
    ('dense<6.250000e-02> : tensor<f64>, ">="', 'dense<0.5> : tensor<7xf64>, ">="', "theta has shape (7,), expected"),
]


@pytest.mark.parametrize(("old", "new", "found"), FAULTS)
def test_one_wrong_attribute_is_found(old: str, new: str, found: str) -> None:
    text = network_module(several_ports(np.random.default_rng(0))).text()
    assert old in text
    with pytest.raises((ModelError, FileError)) as raised:
        parse_module(text.replace(old, new, 1))
    assert found in str(raised.value)


def test_every_fault_is_listed() -> None:
    text = network_module(several_ports(np.random.default_rng(0))).text()
    text = text.replace('"none", dense', '"x", dense').replace('">=", 1 : i64', '"=", "a"')
    with pytest.raises(ModelError) as raised:
        parse_module(text)
    assert len(raised.value.problems) == 3


@pytest.mark.parametrize("text", ["", "module {", '"spike.dense"() : () -> ()', "\0", '"other.op"() : () -> ()'])
def test_no_module(text: str) -> None:
    with pytest.raises(FileError):
        parse_module(text)


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    decay: Array
    is_on: bool


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Whole(Neuron):
    part: Part | None = None


@neuron_operation
class WholeOp(NeuronBase):
    name = "spike.whole"
    s = result_def(ValueType)
    RECORD: ClassVar[type[Any]] = Whole
    THRESHOLD: ClassVar[str] = "theta"


def test_a_record_in_a_neuron_record_is_attributes() -> None:
    plain, resources = neuron("LIF", max_spikes=2), Resources()
    n = Whole(**{f.name: getattr(plain, f.name) for f in fields(plain)}, part=Part(freeze(np.arange(3.0)), True))
    attributes = neuron_attributes(WholeOp, n, resources) | {"name": text("p"), "index": integer(0)}
    op = WholeOp.create(result_types=[value_type(ELEMENTS["float32"], (3,))], attributes=attributes)
    part = attribute_values(op, resources)["part"]
    assert (part.is_on, part.decay.tolist()) == (True, [0.0, 1.0, 2.0])
    assert not list(op.faults())
    del op.attributes["part.is_on"]
    assert [fault.found for fault in op.faults()] == ["a part of part alone"]
    del op.attributes["part.decay"]
    assert attribute_values(op, resources)["part"] is None
    assert not list(op.faults())


def test_names_are_escaped() -> None:
    text = network_module(several_ports(np.random.default_rng(0))).text()
    assert NAME not in text
    assert "a %22b%22%5C%0A%00%C3%A9%E6%BC%A2%2520" in text


def test_without_xdsl_the_package_to_install_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ToolMissing, match=r"install nirbridge\[mlir\]"):
        dialect_module(several_ports(np.random.default_rng(0)))
