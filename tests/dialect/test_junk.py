"""Texts that nirbridge did not write: one error of our own, whatever they hold; and arrays that no text holds."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
import pytest

import nirbridge as nb
from nirbridge.arrays import freeze
from nirbridge.dialect import values
from nirbridge.dialect.build import network_module
from nirbridge.dialect.lower import linalg_program
from nirbridge.dialect.module import parse_module
from nirbridge.dialect.read import module_model
from nirbridge.errors import ModelError, NirbridgeError, UsageError
from nirbridge.network.model import Network, Population, Port, Projection
from nirbridge.network.operators import Dense
from tests.dialect.networks import late_sums, one_axis, several_ports
from tests.emitters.oracles import TIMING, lif

JUNK = (
    *("", "0", "-1", "99999999999999999999", "1.5", '"x"', "[]", "{}", "unit", "f32", "bf16", "tensor<2xi5>", "%0"),
    *("%99", "dense<0> : tensor<i64>", "array<i64>", "true", "spike.current", "spike.scan", "builtin.module", "nan"),
    *("\0", "é", '"%FF"'),
)
TOKEN = re.compile(r'"[^"]*"|[%\w.]+|[^\s\w]')


def mutants(seeds: Sequence[int]) -> list[str]:
    """Texts of modules with some tokens replaced, removed, doubled or exchanged."""
    texts = [network_module(make(np.random.default_rng(0))).text() for make in (several_ports, late_sums, one_axis)]
    found = []
    for seed in seeds:
        rng = np.random.default_rng(seed)
        text = texts[int(rng.integers(len(texts)))]
        for _ in range(int(rng.integers(1, 3))):
            spans = [m.span() for m in TOKEN.finditer(text)]
            (a, b), (c, d) = (spans[int(k)] for k in rng.integers(len(spans), size=2))
            other = text[c:d] if rng.random() < 0.5 else JUNK[int(rng.integers(len(JUNK)))]
            text = text[:a] + (other if rng.random() < 0.8 else text[a:b] * 2) + text[b:]
        found.append(text)
    return found


@pytest.mark.parametrize("seeds", [range(50), pytest.param(range(1000, 3000), marks=pytest.mark.slow)], ids=str)
def test_a_changed_text_is_read_or_refused(seeds: Sequence[int]) -> None:
    refused = 0
    for text in mutants(seeds):
        try:
            module = parse_module(text)
            module_model(module)
        except NirbridgeError:
            refused += 1
    assert len(seeds) / 3 < refused <= len(seeds)


def text_with(old: str, new: str) -> str:
    text = network_module(several_ports(np.random.default_rng(0))).text()
    assert old in text
    return text.replace(old, new, 1)


FAULTS = [
    ('"none", dense', "5 : i64, dense", "reset of spike.reset is '5 : i64', expected one of"),
    ('">=", 1 : i64', '">=", "1"', "max_spikes of spike.firing is"),
    ("dense<8.750000e-01> : tensor<f64>", "8.75e-1 : f64", "a_mem of spike.membrane is"),
    ("dense<8.750000e-01> : tensor<f64>", "dense<0.5> : tensor<bf16>", "a_mem of spike.membrane is"),
    ('numbers = "float32"', 'numbers = "f8"', "numbers is '\"f8\"', expected one of"),
    ('name = "b"', 'name = "%FF"', "name is '\"%FF\"', expected a text, escaped"),
    ('name = "b"', 'name = "a %22b%22%5C%0A%00%C3%A9%E6%BC%A2%2520"', "another one has this name"),
    ("membrane = ", "membranes = ", "it has no membrane, #spike.membrane<a_mem, g_mem, bias, v_init>; add"),
]  # fmt: skip


@pytest.mark.parametrize(("old", "new", "found"), FAULTS)
def test_an_attribute_of_another_kind(old: str, new: str, found: str) -> None:
    with pytest.raises(NirbridgeError) as raised:
        parse_module(text_with(old, new))
    assert found in str(raised.value)


def test_a_result_that_nothing_uses_and_a_cycle_without_a_neuron() -> None:
    head, end = 'spike.network @n attributes {dt = 1.0 : f64, numbers = "float32", ', "}\n"
    head += 'timing = #spike.timing<"euler", "none", ">", "per-step">, chip = unit, provenance = {}} {\n'
    kind = "!spike.{}<array<i64: 2>, f32>".format
    one = f'%0 = spike.input {{name = "a"}} : {kind("stream")}\n'
    scan = f"%1 = spike.scan %0 : {kind('stream')} -> {kind('value')}\n"
    last = f"%3 = spike.identity %1 : {kind('value')} -> {kind('value')}\n"
    loop = f"%2 = spike.identity %2 : {kind('value')} -> {kind('value')}\n"
    with pytest.raises(ModelError, match=r"line 4, column 1, spike\.identity: nothing uses its result"):
        parse_module(head + one + scan + last + end)
    with pytest.raises(ModelError, match=r"spike\.identity: it uses a value that comes later"):
        parse_module(head + loop + end)
    with pytest.raises(ModelError, match=r"dialect, line 3, column 1: an operation 'builtin\.module'"):
        parse_module(head + one + "builtin.module {}\n" + end)


def wide(weight: np.ndarray) -> Network:
    post, pre = weight.shape
    edges = (Projection("in", "a", Dense(freeze(weight))), Projection("a", "out", Dense(freeze(np.ones((1, post))))))
    return Network(1e-3, TIMING, (Population("a", (post,), lif()),), edges, (Port("in", (pre,)),), (Port("out", (1,)),))


def test_arrays_too_large_for_a_text(monkeypatch: pytest.MonkeyPatch) -> None:
    network = wide(np.arange(600.0).reshape(20, 30))
    monkeypatch.setattr(values, "ARRAYS_MAX", 4799)
    with pytest.raises(ModelError, match="its arrays have 4,800 bytes, at most 4,799 are written as text"):
        network_module(network)
    monkeypatch.setattr(values, "ARRAYS_MAX", 4960)  # the weights of the readout are of one value
    module = network_module(network, "float64")
    assert module_model(parse_module(module.text())).projections[0].operator.weight[3, 4] == 94  # type: ignore[union-attr]


def test_weights_of_one_value_are_counted_before_they_are_made() -> None:
    with pytest.raises(ModelError, match="its arrays have 8,000,000,000,000 bytes, at most 536,870,912 are"):
        network_module(wide(np.broadcast_to(np.float64(0.5), (10**6, 10**6))))
    text = linalg_program(wide(np.broadcast_to(np.float64(0.5), (100, 100)))).text
    assert "dense<5.000000e-01> : tensor<100x100xf32>" in text


def test_arguments_that_the_network_lacks() -> None:
    network = several_ports(np.random.default_rng(0))
    with pytest.raises(UsageError, match=r"lower, records: no population or input 'z', there are 'x', 'y', "):
        nb.lower(network, records=[("z", "v")])
    with pytest.raises(UsageError, match="'b' has no variable 'w', it has s, u, v, i; choose one of them"):
        nb.lower(network, records=[("b", "w")])
    with pytest.raises(UsageError, match="no input or population 'xx'; did you mean 'x'"):
        nb.lower(network, activity={"xx": 0.1})
    with pytest.raises(UsageError, match="lower, activity of 'x': it is 2, a share, 0 to 1"):
        nb.lower(network, activity={"x": 2})
