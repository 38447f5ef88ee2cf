"""Every list of a chip file with one wrong element among valid ones is refused."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from nirbridge.chips import chip_from_dict, read_chip
from nirbridge.chips.schema import FIELDS
from nirbridge.errors import ChipError

LISTS = [f for f in FIELDS if f.kind == "count list"]
PLACES = pytest.mark.parametrize("place", [0, 1, 2])


@pytest.fixture
def record() -> dict[str, Any]:
    return copy.deepcopy(dict(read_chip("loihi1").record))


def problems(record: dict[str, Any]) -> list[str]:
    with pytest.raises(ChipError) as caught:
        chip_from_dict(record)
    return [str(p) for p in caught.value.problems]


@PLACES
@pytest.mark.parametrize("wrong", [0, -1, 65, 1.5, "8", True, None, [8], float("nan")])
@pytest.mark.parametrize("field", LISTS, ids=lambda f: f.name)
def test_one_entry_of_a_list_of_widths(record: dict[str, Any], field: Any, wrong: Any, place: int) -> None:
    own = [2, 4, 8]
    own[place] = wrong
    record[field.table][field.key] = own
    assert any(line.startswith(f"chip record: {field.name}: found [") for line in problems(record))


@pytest.mark.parametrize("place", [0, 1, 2, 3])
@pytest.mark.parametrize("wrong", [-1, 0.5, "0", True, None, [0]])
def test_one_number_of_one_dead_core(record: dict[str, Any], wrong: Any, place: int) -> None:
    core: list[Any] = [0, 1, 1, 1]
    core[place] = wrong
    for dead in ([core, [0, 0, 0, 0]], [[0, 0, 0, 0], core]):
        lines = problems(record | {"dead_cores": dead})
        assert len(lines) == 1
        assert lines[0].startswith("chip record: dead_cores: found [")


@PLACES
@pytest.mark.parametrize("wrong", [[0, 0, 0], [0, 0, 0, 0, 0], 3, {}, None])
def test_one_dead_core_that_is_none(record: dict[str, Any], wrong: Any, place: int) -> None:
    dead: list[Any] = [[0, 0, 0, 0], [0, 1, 1, 1], [0, 2, 2, 2]]
    dead[place] = wrong
    assert len(problems(record | {"dead_cores": dead})) == 1


@PLACES
@pytest.mark.parametrize("wrong", ["core.neurns", 3, None, ""])
def test_one_approximate_key(record: dict[str, Any], wrong: Any, place: int) -> None:
    keys: list[Any] = ["core.neurons", "core.input_axons", "synapses.words"]
    keys[place] = wrong
    (line,) = problems(record | {"approximate": keys})
    assert "is not a key of this file" in line


@PLACES
@pytest.mark.parametrize("wrong", ["", 3, "two\nlines"])
def test_one_source(record: dict[str, Any], wrong: Any, place: int) -> None:
    key = ["core.neurons", "core.input_axons", "synapses.words"][place]
    record["source"][key] = wrong
    (line,) = problems(record)
    assert line.startswith(f"chip record: [source]: '{key}': found ")


@pytest.mark.parametrize("field", [f for f in FIELDS if f.table in ("mesh", "core", "synapses")], ids=lambda f: f.name)
def test_every_key_by_itself(record: dict[str, Any], field: Any) -> None:
    record[field.table][field.key] = {"a": 1}
    assert f"chip record: {field.name}: found a table" in problems(record)[0]
