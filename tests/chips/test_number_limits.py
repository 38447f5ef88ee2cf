"""Every limit of a chip's number formats and of its synaptic memory, on both sides."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from nirbridge.chips import Chip, CoreId, core_at, cores_of, diagnose_chip, read_chip
from nirbridge.chips.codec import chip_dict_problems
from nirbridge.chips.model import Mesh
from nirbridge.chips.schema import table_fields
from nirbridge.errors import ChipError

LIMITS = (
    ("dv_max", 4096, "decays are parts of 4096"),
    ("du_max", 4095, "decays are parts of 4096, and the current loses one more"),
    ("u_bits", 48, "the integer simulator has 64 bits"),
    ("v_bits", 48, "the integer simulator has 64 bits"),
    ("vth_bits", 33, "a threshold, times 64, lies within the membrane"),
    ("a_in_bits", 34, "the input, times 64, lies within the current"),
    ("bias_mant_bits", 40, "a bias lies within the membrane"),
    ("bias_exp_max", 15, "a bias lies within the membrane"),
    ("weight_exp_max", 15, "weights lie within the input"),
)


def said(chip: Chip) -> list[str]:
    return [str(problem) for problem in diagnose_chip(chip)]


def with_numbers(**values: Any) -> Chip:
    chip = read_chip("loihi1")
    assert chip.numbers is not None
    return replace(chip, numbers=replace(chip.numbers, **({"v_bits": 40, "u_bits": 40} | values)))


@pytest.mark.parametrize(("key", "most", "why"), LIMITS)
def test_a_number_format_at_its_limit_and_one_beyond(key: str, most: int, why: str) -> None:
    assert said(with_numbers(**{key: most})) == []
    beyond = f"chip 'loihi1': numbers.{key} is {most + 1}, at most {most}: {why}"
    assert said(with_numbers(**{key: most + 1})) == [beyond]


@pytest.mark.parametrize(("words", "fits"), [(3, True), (2, False)])
def test_the_widest_synapse_fits_a_core(words: int, fits: bool) -> None:
    """8 bits, 6 of a delay and 10 of a header are 24: three words of 8 bits."""
    chip = read_chip("loihi1")
    chip = replace(chip, synapses=replace(chip.synapses, words=words, word_bits=8, delay_bits=6, run_header_bits=10))
    small = (
        "chip 'loihi1': one synapse of 8 bits takes 3 words, a core has 2; check synapses.words and synapses.word_bits"
    )
    assert said(chip) == ([] if fits else [small])
    assert said(replace(chip, synapses=replace(chip.synapses, words=None))) == []
    assert len(said(replace(chip, synapses=replace(chip.synapses, words=3, run_header_bits=11)))) == 1


@pytest.mark.parametrize(("chips", "fits"), [(7812, True), (7813, False)])
def test_a_board_has_at_most_a_million_cores(chips: int, fits: bool) -> None:
    chip = read_chip("loihi1")
    chip = replace(chip, mesh=replace(chip.mesh, chips_max=chips))
    large = f"chip 'loihi1': {chips:,} chips of 128 cores, at most 1,000,000 cores on a board"
    assert said(chip) == ([] if fits else [large])
    even = replace(chip, mesh=Mesh(10, 10, 10, 1000))
    assert said(even) == []


@pytest.mark.parametrize("place", range(4))
@pytest.mark.parametrize("edge", ["last", "beyond", "below"])
def test_dead_cores_lie_on_the_board(place: int, edge: str) -> None:
    bounds = (2, 3, 5, 7)
    core = [0, 0, 0, 0]
    core[place] = {"last": bounds[place] - 1, "beyond": bounds[place], "below": -1}[edge]
    chip = replace(read_chip("loihi1"), mesh=Mesh(3, 5, 7, 2), dead_cores=(CoreId(*core),))
    lines = said(chip)
    assert len(lines) == (0 if edge == "last" else 1)
    if edge == "beyond":
        where = "there are 2 chips of 3 columns, 5 rows and 7 cores per tile"
        assert lines == [f"chip 'loihi1': dead core {core} (chip, x, y, core) does not exist, {where}"]


def test_one_living_core_is_enough() -> None:
    chip = replace(read_chip("loihi1"), mesh=Mesh(2, 1, 1, 1))
    assert said(replace(chip, dead_cores=(CoreId(0, 0, 0, 0),))) == []
    both = (CoreId(0, 0, 0, 0), CoreId(0, 1, 0, 0))
    assert said(replace(chip, dead_cores=both)) == ["chip 'loihi1': every core is dead, at least one must be alive"]
    twice = "chip 'loihi1': dead_cores has an entry twice or out of order, cores ascend and are distinct"
    assert said(replace(chip, dead_cores=both[:1] * 2)) == [twice]


def test_the_first_and_the_last_core_of_a_chip() -> None:
    chip = replace(read_chip("loihi1"), mesh=Mesh(3, 5, 7, 2))
    assert (core_at(chip, 0), core_at(chip, 104, 1)) == (CoreId(0, 0, 0, 0), CoreId(1, 2, 4, 6))
    assert core_at(chip, 7 * 4 + 3) == CoreId(0, 1, 1, 3)
    for index in (-1, 105):
        with pytest.raises(ChipError, match=f"^core {index}: does not exist, cores of loihi1 are numbered 0 to 104$"):
            core_at(chip, index)
    assert (len(cores_of(chip, 1)), len(cores_of(chip, 2))) == (105, 210)
    with pytest.raises(ChipError, match="^number of chips: 3, a board of loihi1 has 1 to 2$"):
        cores_of(chip, 3)


@pytest.mark.parametrize(
    ("description", "right"),
    [("x", True), ("x" * 1000, True), ("x" * 1001, False), (" ", False), ("a\tb", False), (3, False), (None, True)],
)
def test_descriptions_are_one_line(description: Any, right: bool) -> None:
    record = dict(read_chip("loihi1").record) | {"description": description}
    assert (list(chip_dict_problems(record)) == []) == right


@pytest.mark.parametrize(
    ("name", "shown"), [("9" + "x" * 3, "'9xxx'"), (10**59, "1" + "0" * 59), (10**60, "1" + "0" * 59 + "…")]
)
def test_long_values_are_cut_after_sixty_characters(name: Any, shown: str) -> None:
    record = dict(read_chip("loihi1").record) | {"name": name}
    limit = "a name is a letter, then up to 63 letters, digits, '_', '.', '-'"
    assert [str(problem) for problem in chip_dict_problems(record)] == [f"name: found {shown}, {limit}"]


def test_fields_of_a_table_in_their_order() -> None:
    assert [(f.key, f.least, f.most, f.absent) for f in table_fields("core")] == [
        *((key, 1, 10**12, "unlimited") for key in ("neurons", "input_axons", "output_axons")),
        *((key, 1, 10**12, "unlimited") for key in ("decay_profiles", "threshold_profiles")),
        ("delay_steps", 0, 2**16, "unlimited"),
    ]
    assert {f.key: (f.least, f.most) for f in table_fields("synapses") if f.kind == "count"} == {
        "word_bits": (1, 2**16),
        "words": (1, 10**12),
        "weight_bits_default": (1, 64),
        "run_targets_max": (1, 4096),
        "run_header_bits": (0, 2**16),
        "index_bits": (1, 64),
        "delay_bits": (0, 64),
    }
    least = {f.key: f.least for f in table_fields("numbers") if f.kind == "count"}
    assert {key for key, value in least.items() if value == 0} == {
        *("du_max", "dv_max", "bias_exp_max", "weight_exp_max", "refractory_steps_max"),
    }
    assert [f.unit for f in table_fields("numbers")].count("bits") == 5
    assert {f.most for f in table_fields("mesh")} == {1_000_000}
