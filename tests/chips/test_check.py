"""Invariants of every chip file (a user's included), and violations of each."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest

from nirbridge.chips import (
    Chip,
    CoreId,
    check_chip,
    chip_from_dict,
    core_at,
    cores_of,
    diagnose_chip,
    flat_index,
    is_valid_chip,
    read_chip,
    without_cores,
)
from nirbridge.chips.schema import FIELDS, TABLES, table_fields
from nirbridge.errors import ChipError

ROOT = Path(__file__).resolve().parents[2]
FILES = sorted([*(ROOT / "nirbridge" / "chips" / "data").glob("*.toml"), *(ROOT / "examples" / "chips").glob("*.toml")])
USER = """
schema = 1
name = "tiny"
description = "Two cores"
mesh = {width_tiles = 2, height_tiles = 1, cores_per_tile = 1, chips_max = 1}
core = {neurons = 2, input_axons = 3, output_axons = 2, decay_profiles = 1, threshold_profiles = 1, delay_steps = 0}
neuron = {soft_reset = false, graded_spikes = false, synaptic_current = false}
source = {mesh = "me", core = "me", synapses = "me", neuron = "me"}
[synapses]
word_bits = 16
words = 4
weight_bits = [8]
weight_bits_default = 8
run_targets_max = 1
run_free = false
run_header_bits = 8
index_bits = "none"
delay_bits = 0
shared_kernels = false
"""


@pytest.fixture(params=[*FILES, USER], ids=lambda p: p.stem if isinstance(p, Path) else "user")
def chip(request: pytest.FixtureRequest, tmp_path: Path) -> Chip:
    """Every chip file of the repository, and one that a user has somewhere else."""
    if isinstance(request.param, Path):
        return read_chip(request.param)
    (tmp_path / "user.toml").write_text(USER)
    return read_chip(tmp_path / "user.toml")


def changed(chip: Chip, table: str, **values: Any) -> Chip:
    return dataclasses.replace(chip, **{table: dataclasses.replace(getattr(chip, table), **values)})


# -- invariants ----------------------------------------------------------------------------------------------------


def test_no_problems(chip: Chip) -> None:
    assert list(diagnose_chip(chip)) == []
    assert is_valid_chip(chip)
    check_chip(chip)


def test_the_record_is_the_whole_chip(chip: Chip) -> None:
    assert chip_from_dict(chip.record) == chip
    assert chip_from_dict(json.loads(json.dumps(chip.record, allow_nan=False))) == chip


def test_every_number_has_a_source(chip: Chip) -> None:
    for table in TABLES:
        for field in table_fields(table):
            part = getattr(chip, table)
            known = part is not None and (field.required or getattr(part, field.key) is not None)
            assert (field.name in chip.sources) == known
    assert all(text.strip() for text in chip.sources.values())


def test_cores_and_their_numbers(chip: Chip) -> None:
    cores = cores_of(chip)
    assert len(cores) + sum(core.chip == 0 for core in chip.dead_cores) == chip.mesh.cores
    indices = [flat_index(chip, core) for core in cores]
    assert indices == sorted(set(indices))
    assert [core_at(chip, i) for i in indices] == list(cores)


def test_a_dead_core_and_its_record(chip: Chip) -> None:
    masked = without_cores(chip, [1])
    assert tuple(cores_of(masked)) == tuple(c for c in cores_of(chip) if flat_index(chip, c) != 1)
    assert chip_from_dict(masked.record) == masked
    assert without_cores(masked, [core_at(chip, 1)]) == masked


def test_file_name_is_chip_name() -> None:
    for file in FILES:
        assert read_chip(file).name == file.stem


def test_fields_are_the_model() -> None:
    chip = read_chip("loihi1")
    model = {f"{t}.{f.name}" for t in TABLES for f in dataclasses.fields(getattr(chip, t))}
    assert {f.name for f in FIELDS} == model


# -- what breaks them ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("table", "values", "message"),
    [
        (
            "synapses",
            {"weight_bits_default": 7},
            "chip 'loihi1': synapses.weight_bits_default is 7, the chip stores 1, 2, 3, 4, 5, 6, 8 bits; take one of "
            "these",
        ),
        (
            "synapses",
            {"weight_bits": (8, 4)},
            "chip 'loihi1': synapses.weight_bits is [8, 4], widths ascend and are distinct",
        ),
        (
            "synapses",
            {"words": 1, "word_bits": 8},
            "chip 'loihi1': one synapse of 8 bits takes 3 words, a core has 1; check synapses.words and "
            "synapses.word_bits",
        ),
        (
            "mesh",
            {"chips_max": 10**6},
            "chip 'loihi1': 1,000,000 chips of 128 cores, at most 1,000,000 cores on a board",
        ),
        ("core", {"neurons": 0}, 'core.neurons: found 0, expected a whole number from 1 to 10^12 or "unlimited"'),
        (
            "energy",
            {"spike_j": -1.0},
            "energy.spike_j: found -1.0, expected a finite number of J, not negative, to 10^6",
        ),
    ],
)
def test_broken_chip(table: str, values: dict[str, Any], message: str) -> None:
    broken = changed(read_chip("loihi1"), table, **values)
    assert [str(p) for p in diagnose_chip(broken)] == [message]
    assert not is_valid_chip(broken)
    with pytest.raises(ChipError) as caught:
        check_chip(broken)
    assert str(caught.value) == message


def test_a_chip_without_sources_is_not_valid() -> None:
    problems = list(diagnose_chip(dataclasses.replace(read_chip("loihi1"), sources={})))
    assert len(problems) == len(read_chip("loihi1").sources)
    assert all(p.found == "no source" for p in problems if p.subject != "approximate")


def test_order_of_cores() -> None:
    chip = read_chip("loihi1")
    assert cores_of(chip, 2)[:6] == (
        CoreId(0, 0, 0, 0),
        CoreId(0, 0, 0, 1),
        CoreId(0, 0, 0, 2),
        CoreId(0, 0, 0, 3),
        CoreId(0, 1, 0, 0),
        CoreId(0, 1, 0, 1),
    )
    assert cores_of(chip, 2)[128] == CoreId(1, 0, 0, 0)
    assert flat_index(chip, CoreId(0, 7, 3, 3)) == 127
    assert flat_index(chip, CoreId(1, 2, 1, 3)) == (8 + 2) * 4 + 3


@pytest.mark.parametrize("dead", [(), (0,), (127,), (0, 1, 2, 3, 60, 126, 127)])
def test_cores_are_made_one_by_one_as_in_order(dead: tuple[int, ...]) -> None:
    """Each core by its position, slices and membership are those of the list of all."""
    chip = without_cores(read_chip("loihi1"), [*dead, *([CoreId(1, 0, 0, 0), CoreId(2, 7, 3, 3)] if dead else [])])
    for chips in (1, 2):
        cores = cores_of(chip, chips)
        listed = list(cores)
        assert len(cores) == len(listed) == chips * 128 - sum(core.chip < chips for core in chip.dead_cores)
        assert [cores[k] for k in range(len(cores))] == listed
        assert [cores[-1], cores[3:9], cores[::50]] == [listed[-1], tuple(listed[3:9]), tuple(listed[::50])]
        every = [CoreId(c, x, y, k) for c in range(-1, 4) for x in range(9) for y in range(5) for k in range(5)]
        assert [core for core in every if core in cores] == sorted(listed)
        assert cores.index(listed[40]) == 40
        assert "core" not in cores
        with pytest.raises(IndexError):
            cores[len(cores)]


def test_dead_cores_on_a_further_chip() -> None:
    chip = without_cores(read_chip("loihi1"), [CoreId(1, 0, 0, 0), 5])
    assert chip.dead_cores == (CoreId(0, 1, 0, 1), CoreId(1, 0, 0, 0))
    assert (len(cores_of(chip)), len(cores_of(chip, 2)), len(cores_of(chip, 3))) == (127, 254, 382)


@pytest.mark.parametrize(
    ("cores", "message"),
    [
        ([128], "core 128: does not exist, cores of loihi1 are numbered 0 to 127"),
        ([-1], "core -1: does not exist, cores of loihi1 are numbered 0 to 127"),
        (
            [CoreId(0, 8, 0, 0)],
            "chip 'loihi1': dead core [0, 8, 0, 0] (chip, x, y, core) does not exist, there are 32 chips of 8 columns, "
            "4 rows and 4 cores per tile",
        ),
    ],
)
def test_a_core_that_does_not_exist(cores: list[CoreId | int], message: str) -> None:
    with pytest.raises(ChipError) as caught:
        without_cores(read_chip("loihi1"), cores)
    assert str(caught.value) == message


def test_no_core_left() -> None:
    chip = changed(read_chip("loihi1"), "mesh", chips_max=1)
    with pytest.raises(ChipError, match="^chip 'loihi1': every core is dead, at least one must be alive$"):
        without_cores(chip, range(128))
    assert tuple(cores_of(without_cores(chip, range(127)))) == (CoreId(0, 7, 3, 3),)


def test_dead_cores_out_of_order() -> None:
    chip = dataclasses.replace(read_chip("loihi1"), dead_cores=(CoreId(0, 1, 0, 0), CoreId(0, 0, 0, 0)))
    assert [str(p) for p in diagnose_chip(chip)] == [
        "chip 'loihi1': dead_cores has an entry twice or out of order, cores ascend and are distinct"
    ]


@pytest.mark.parametrize("chips", [0, 33, -1])
def test_number_of_chips(chips: int) -> None:
    with pytest.raises(ChipError, match=f"^number of chips: {chips}, a board of loihi1 has 1 to 32$"):
        cores_of(read_chip("loihi1"), chips)


def test_number_formats_stand_in_the_rule_of_the_integer_simulator(chip: Chip) -> None:
    """Products of the widest state and 4096 must stay within 63 bits, and a threshold within the membrane."""
    numbers = chip.numbers
    if numbers is None:
        assert chip.name in {"tiny", "my_chip"}
        return
    assert numbers.du_max <= 4095
    assert numbers.dv_max <= 4096
    assert max(numbers.u_bits, numbers.v_bits) + 13 <= 63
    assert numbers.vth_bits + 6 <= numbers.v_bits - 1
    assert numbers.a_in_bits + 6 <= numbers.u_bits


@pytest.mark.parametrize(
    ("change", "found"),
    [
        ({"du_max": -1}, "numbers.du_max: found -1"),
        ({"programmable": 1}, "numbers.programmable: found 1"),
        ({"more": 1}, "[numbers] key 'more': unknown"),
    ],
)
def test_wrong_number_formats_are_named(change: dict[str, Any], found: str) -> None:
    record = json.loads(json.dumps(read_chip("loihi1").record))
    record["numbers"].update(change)
    with pytest.raises(ChipError) as error:
        chip_from_dict(record)
    assert found in str(error.value)


def test_missing_number_formats_are_named() -> None:
    record = json.loads(json.dumps(read_chip("loihi1").record))
    del record["numbers"]["vth_bits"], record["source"]["numbers.vth_bits"]
    with pytest.raises(ChipError, match=r"numbers\.vth_bits: missing"):
        chip_from_dict(record)


def test_the_record_of_a_changed_chip_is_that_of_the_change() -> None:
    """Also of one that is made with `dataclasses.replace`: a saved map names the chip that it was made for."""
    chip = read_chip("loihi1")
    smaller = dataclasses.replace(chip, core=dataclasses.replace(chip.core, neurons=100))
    assert smaller.record["core"]["neurons"] == 100  # type: ignore[index]
    assert chip_from_dict(smaller.record) == smaller
    assert chip.record["core"]["neurons"] == 1024  # type: ignore[index]
