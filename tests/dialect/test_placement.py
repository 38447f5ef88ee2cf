"""Placement: the cores of a map in the text of a module, read back, and verified neuron by neuron."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

import nirbridge as nb
from nirbridge.chips.model import CoreId
from nirbridge.dialect.build import network_module, quantized_module
from nirbridge.dialect.module import DialectModule, check_module, parse_module
from nirbridge.dialect.placement import Placement, placements_of
from nirbridge.dialect.read import module_placements
from nirbridge.errors import IllegalMapping, ModelError, UsageError
from nirbridge.mapping.model import MappedNetwork
from tests.dialect.networks import NAME, several_ports
from tests.dialect.test_dialect import GOLDEN, accepted
from tests.emitters.c.programs import random_networks
from tests.tools import needs

EXAMPLES = Path(__file__).parents[2] / "examples"
MODEL = EXAMPLES / "models" / "digits_cnn.nir"
CORES = (CoreId(0, 1, 2, 0), CoreId(1, 0, 0, 3))
HALVES = Placement(((CORES[0], ((0, 3), (0, 2))), (CORES[1], ((0, 3), (2, 4)))))
ONE = Placement(((CORES[0], ()),))


@pytest.fixture(scope="module")
def mapped() -> MappedNetwork:
    return nb.map(MODEL, EXAMPLES / "chips" / "my_chip.toml", method="packed")


def placed(text: str) -> str:
    """The lines of the neurons, cut to their names and cores."""
    found = re.findall(r'"?name"? = "([^"]*)".*?"?placement"? = (\[.*?\])[,}]', text)
    return "".join(f"{name}: {cores}\n" for name, cores in found)


def test_the_cores_of_a_map_are_in_the_text(mapped: MappedNetwork) -> None:
    lowering = nb.lower(MODEL, "forms", mapping=mapped)
    assert len(set(mapped.cores)) > 3
    for text in lowering.stages.values():
        assert placed(text) == (GOLDEN / "placement.txt").read_text()
        again = module_placements(parse_module(text))
        assert {name: p.slices for name, p in again.items()} == {
            name: p.slices for name, p in placements_of(mapped).items()
        }
    p = mapped.network.populations[0]
    for index in ((0, 0, 0), (3, 4, 5), tuple(n - 1 for n in p.shape)):
        holders = [
            c for c, box in again[p.name].slices if all(a <= k < b for k, (a, b) in zip(index, box, strict=True))
        ]
        assert tuple(holders) == mapped.where(p.name, index)


def test_integers_of_the_map_and_a_file(tmp_path: Path) -> None:
    mapped = nb.map(MODEL, "loihi2", method="packed")
    mapped.save(tmp_path / "model.map.json")
    lowering = nb.lower(MODEL, chip="loihi2", mapping=tmp_path / "model.map.json")
    module = parse_module(lowering.stages["dialect"])
    assert {n: p.slices for n, p in module_placements(module).items()} == {
        n: p.slices for n, p in placements_of(mapped).items()
    }
    assert lowering.program is not None
    assert {t.dtype for t in lowering.program.states} == {"int32"}
    assert "placement" not in lowering.stages["linalg"]
    assert lowering.text == nb.lower(nb.quantize(MODEL, "loihi2")).text


def test_a_map_of_something_else(mapped: MappedNetwork, tmp_path: Path) -> None:
    other = EXAMPLES / "models" / "digits_mlp.nir"
    with pytest.raises(IllegalMapping, match="of another model"):
        nb.lower(other, mapping=mapped)
    with pytest.raises(UsageError, match=r"'loihi2', and the map is of 'my_chip'"):
        nb.lower(MODEL, chip="loihi2", mapping=mapped)
    with pytest.raises(UsageError, match="given with a quantized network"):
        nb.lower(nb.quantize(other, "loihi2"), mapping=mapped)
    mapped.save(tmp_path / "model.map.json")
    with pytest.raises(IllegalMapping):
        nb.lower(other, mapping=tmp_path / "model.map.json")
    with pytest.raises(ModelError, match="2 populations of only one of them"):
        network_module(several_ports(np.random.default_rng(0)), placement={NAME: HALVES, "q": HALVES})


def halves(placement: Placement = HALVES) -> DialectModule:
    return network_module(several_ports(np.random.default_rng(0)), placement={NAME: placement, "b": ONE})


def test_placement_comes_back_with_its_order(tmp_path: Path) -> None:
    order = np.random.default_rng(0).permutation(12)
    module = halves(Placement(HALVES.slices, order))
    check_module(module)
    again = module_placements(parse_module(module.text()))
    assert again[NAME].slices == HALVES.slices
    assert again["b"].slices == ONE.slices
    assert again[NAME].order is not None
    assert again[NAME].order.tolist() == order.tolist()
    assert again["b"].order is None
    needs("mlir")
    accepted(module, tmp_path)


FAULTS = [
    (
        "slice = array<i64: 0, 3, 0, 2>",
        "slice = array<i64: 0, 3, 0, 3>",
        "neuron (0, 2) is on 2 cores, every neuron is",
    ),
    ("slice = array<i64: 0, 3, 0, 2>", "slice = array<i64: 1, 3, 0, 2>", "neuron (0, 0) is on 0 cores"),
    ("slice = array<i64: 0, 3, 0, 2>", "slice = array<i64: 0, 4, 0, 2>", "ranges within (3, 4)"),
    ("slice = array<i64: 0, 3, 0, 2>", "slice = array<i64: 0, 3>", "ranges within (3, 4)"),
    ("slice = array<i64: 0, 3, 0, 2>", "slice = array<i64: 0, 3, 2>", "placement has another form"),
    ("tile = array<i64: 1, 2>", "tile = array<i64: 1, -2>", "placement on (0, 1, -2, 0), chip, tile and core are 0"),
    ("tile = array<i64: 1, 2>", "tile = array<i64: 1>", "placement has another form"),
    ("tile = array<i64: 1, 2>", 'tile = "here"', "placement has another form"),
    ("chip = 0 : i64", "chips = 0 : i64", "placement has another form"),
    ("placement = [", "placement = [5 : i64, ", "placement has another form"),
]


@pytest.mark.parametrize(("old", "new", "found"), FAULTS)
def test_every_neuron_is_on_one_core(old: str, new: str, found: str) -> None:
    text = halves().text()
    assert old in text
    with pytest.raises(ModelError) as raised:
        parse_module(text.replace(old, new, 1))
    assert found in str(raised.value)


def test_integers_of_slices() -> None:
    q = random_networks(range(3))
    cores = {p.name: Placement(((CORES[0], tuple((0, n) for n in p.shape)),)) for p in q.populations}
    module = quantized_module(q, placement=cores)
    check_module(module)
    again = module_placements(parse_module(module.text()))
    assert {name: p.slices for name, p in again.items()} == {name: p.slices for name, p in cores.items()}
