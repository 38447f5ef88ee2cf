from __future__ import annotations

import copy
import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nirbridge.chips import builtin_chips, chip_from_dict, cores_of, read_chip
from nirbridge.chips.boards import board_tiles
from nirbridge.chips.schema import FIELDS
from nirbridge.errors import ChipError

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "chips" / "my_chip.toml"


@pytest.fixture
def record() -> dict[str, Any]:
    return copy.deepcopy(dict(read_chip("loihi1").record))


def lines(record: dict[str, Any]) -> list[str]:
    """The problems of a record, as text."""
    with pytest.raises(ChipError) as caught:
        chip_from_dict(record)
    return [str(p).removeprefix("chip record: ") for p in caught.value.problems]


def write(folder: Path, text: str | bytes) -> Path:
    path = folder / "chip.toml"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def test_builtin_names() -> None:
    assert builtin_chips() == ("crossbar256", "halapoint", "loihi1", "loihi2")


def test_loihi1_limits() -> None:
    chip = read_chip("loihi1")
    assert (chip.mesh.width_tiles, chip.mesh.height_tiles, chip.mesh.cores_per_tile, chip.mesh.cores) == (8, 4, 4, 128)
    assert (chip.core.neurons, chip.core.input_axons, chip.core.output_axons) == (1024, 4096, 4096)
    assert chip.synapses.words == 128 * 1024 * 8 // chip.synapses.word_bits
    assert chip.synapses.weight_bits == (1, 2, 3, 4, 5, 6, 8)
    assert (chip.synapses.run_targets_max, chip.synapses.run_free) == (64, True)
    assert chip.energy.synaptic_op_j == 35.5e-12


def test_halapoint_is_a_board_of_loihi2() -> None:
    chip, loihi2 = read_chip("halapoint"), read_chip("loihi2")
    for part in ("core", "synapses", "neuron", "numbers", "energy", "time", "ranges"):
        assert getattr(chip, part) == getattr(loihi2, part)
    assert (chip.board.link_j, chip.board.link_s) == (loihi2.board.link_j, loihi2.board.link_s)
    assert set(chip.approximate) == {*loihi2.approximate, "board.places"}
    own = {"board.places", "core.neurons", "mesh.chips_max", "mesh.height_tiles", "mesh.width_tiles"}
    assert {key for key, source in chip.sources.items() if source != loihi2.sources.get(key)} == own


def test_halapoint_has_no_more_cores_than_published() -> None:
    chip = read_chip("halapoint")
    cores = len(cores_of(chip, 1152))
    assert chip.mesh.chips_max == 1152
    assert 0.98 * 140_544 < cores <= 140_544
    assert cores + 2 * 1152 == 140_544  # 122 of a chip, of which 8 x 15 are used
    for side in (1, 2, 3, 32):  # the first chips of the board are a square
        assert board_tiles(chip, side * side) == (8 * side, 15 * side)
    assert board_tiles(chip, 1152) == (8 * 36, 15 * 32)


def test_unlimited_and_none_become_python_none() -> None:
    chip = read_chip("crossbar256")
    assert chip.core.output_axons is None
    assert chip.synapses.words is None
    assert chip.synapses.index_bits is None
    assert chip.record["core"]["output_axons"] == "unlimited"  # type: ignore[index]
    assert chip.record["synapses"]["index_bits"] == "none"  # type: ignore[index]


def test_figures_left_out_are_not_known() -> None:
    chip = read_chip("crossbar256")
    assert chip.energy.synaptic_op_j is None
    assert chip.time.barrier_s is None


@pytest.mark.parametrize("name", builtin_chips())
def test_every_unpublished_limit_of_loihi2_is_marked(name: str) -> None:
    chip = read_chip(name)
    for key in chip.approximate:
        assert key in chip.sources
    if name == "loihi2":
        assert {"core.input_axons", "core.output_axons", "synapses.words", "synapses.run_free"} <= set(chip.approximate)


def test_a_path_is_a_file_and_a_name_is_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path, EXAMPLE.read_text())
    assert read_chip(path) == read_chip(str(path)) == read_chip(EXAMPLE)
    (tmp_path / "loihi1").write_text("not a chip")
    monkeypatch.chdir(tmp_path)
    assert read_chip("loihi1").core.neurons == 1024


def test_further_names() -> None:
    assert read_chip("mine", {"mine": EXAMPLE}).name == "my_chip"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("lohi1", "chip 'lohi1': unknown, known chips: crossbar256, halapoint, loihi1, loihi2; did you mean 'loihi1'?"),
        (
            "zzz",
            "chip 'zzz': unknown, known chips: crossbar256, halapoint, loihi1, loihi2; or give the path of a .toml "
            "file",
        ),
        (
            "no/such.toml",
            "chip file 'no/such.toml': no such file; built-in chips: crossbar256, halapoint, loihi1, loihi2",
        ),
        (
            "a\x1b[31m\nb",
            "chip 'a\\x1b[31m\\nb': unknown, known chips: crossbar256, halapoint, loihi1, loihi2; or give the path of "
            "a .toml file",
        ),
    ],
)
def test_unknown_chip(name: str, message: str) -> None:
    with pytest.raises(ChipError) as caught:
        read_chip(name)
    assert str(caught.value) == message
    assert caught.value.exit_code == 2


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"\xff\xfe", r"^chip file '.*': not UTF-8 text \(byte 0\)$"),
        ("a = = 1", r"^chip file '.*': not valid TOML \(Invalid value \(at line 1, column 5\)\)$"),
        ("a = " + "[" * 5000, r"^chip file '.*': nested too deeply$"),
        ("a = " + "9" * 5000, r"^chip file '.*': not valid TOML"),
        ("a = 1\na = 2", r"^chip file '.*': not valid TOML \(Cannot overwrite a value"),
        ("# " + "x" * 1_000_000, r"^chip file '.*': too large, at most 1,000,000 bytes are read$"),
        (
            "schema = 0x1" + "0" * 5000,
            r"^chip file '.*': schema: found a number of thousands of digits, this nirbridge",
        ),
        ("", r"^chip file '.*': schema: missing, this nirbridge reads schema = 1"),
    ],
)
def test_broken_file(tmp_path: Path, content: str | bytes, message: str) -> None:
    with pytest.raises(ChipError, match=message):
        read_chip(write(tmp_path, content))


def test_a_folder_and_a_pipe_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ChipError, match="^chip file '.*': is not a regular file"):
        read_chip(tmp_path)
    os.mkfifo(tmp_path / "pipe.toml")
    with pytest.raises(ChipError, match="^chip file '.*': is not a regular file"):
        read_chip(tmp_path / "pipe.toml")


def test_all_problems_at_once(record: dict[str, Any]) -> None:
    record["bogus"] = 1
    record["core"]["neurns"] = record["core"].pop("neurons")
    record["core"]["input_axons"] = -1
    record["synapses"]["run_free"] = 1
    record["source"].pop("energy.spike_j")
    assert lines(record) == [
        "key 'bogus': unknown; known keys: schema, name, description, approximate, dead_cores, mesh, core, synapses, "
        "neuron, numbers, board, energy, time, range, source",
        "[core] key 'neurns': unknown; did you mean 'neurons'?",
        "core.neurons: missing",
        'core.input_axons: found -1, expected a whole number from 1 to 10^12 or "unlimited"',
        "synapses.run_free: found 1, expected true or false",
        'energy.spike_j: no source, every number has one; add "energy.spike_j" = "…" under [source]',
    ]


@pytest.mark.parametrize("value", [0, -5, 1.5, True, "many", "none", 10**12 + 1, None, [], {}])
def test_bad_count(record: dict[str, Any], value: Any) -> None:
    record["core"]["neurons"] = value
    (line,) = lines(record)
    assert line.startswith("core.neurons: found ")


@pytest.mark.parametrize("value", [-1e-12, float("nan"), float("inf"), True, "3", None, 10**400])
def test_bad_figure(record: dict[str, Any], value: Any) -> None:
    record["energy"]["spike_j"] = value
    (line,) = lines(record)
    assert line.startswith("energy.spike_j: found ")
    assert line.endswith(", expected a finite number of J, not negative, to 10^6")


@pytest.mark.parametrize("value", [[], [0], [65], [1.5], ["8"], 8, [True], list(range(1, 66))])
def test_bad_widths(record: dict[str, Any], value: Any) -> None:
    record["synapses"]["weight_bits"] = value
    (line,) = lines(record)
    assert line.endswith("expected a list of whole numbers from 1 to 64")


@pytest.mark.parametrize("value", ["", "9lives", "a b", "a/../b", "x" * 65, "a\n", 3])
def test_bad_name(record: dict[str, Any], value: Any) -> None:
    record["name"] = value
    (line,) = lines(record)
    assert line.endswith("a name is a letter, then up to 63 letters, digits, '_', '.', '-'")


@pytest.mark.parametrize("value", ["", "  ", 3, "two\nlines", "\x1b[31mred", "x" * 1001])
def test_bad_source(record: dict[str, Any], value: Any) -> None:
    record["source"]["core.neurons"] = value
    (line,) = lines(record)
    assert line.startswith("[source]: 'core.neurons': found ")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"schema": 2}, "schema: found 2, this nirbridge reads schema = 1"),
        ({"schema": True}, "schema: found true, this nirbridge reads schema = 1"),
        ({"mesh": 3}, "mesh: found 3, expected a table [mesh]"),
        (
            {"approximate": ["core.neuron"]},
            "approximate: 'core.neuron' is not a key of this file; did you mean 'core.neurons'?",
        ),
        ({"approximate": [3]}, "approximate: 3 is not a key of this file"),
        ({"approximate": "core"}, "approximate: found 'core', expected a list of keys such as 'core.neurons'"),
        ({"approximate": ["core.neurons"] * 2}, "approximate: 'core.neurons' is listed twice"),
        ({"dead_cores": [[0, 0, 0]]}, "dead_cores: found [0, 0, 0], expected [chip, x, y, core], whole numbers from 0"),
        ({"dead_cores": 3}, "dead_cores: found 3, expected a list of [chip, x, y, core]"),
        ({"source": []}, "source: found [], expected a table [source]"),
        (
            {"description": ""},
            "description: found '', a description is one line of printable text, not empty, of at most 1,000 "
            "characters",
        ),
    ],
)
def test_bad_top_level(record: dict[str, Any], change: dict[str, Any], message: str) -> None:
    assert message in lines(record | change)


def test_a_source_for_a_figure_that_is_not_given(record: dict[str, Any]) -> None:
    del record["energy"]["spike_j"]
    record["source"]["energy.spke_j"] = "a book"
    assert lines(record) == [
        "[source]: 'energy.spike_j' is not a key of this file; give the number, or take its source out",
        "[source]: 'energy.spke_j' is not a key of this file; did you mean 'energy.hop_y_j'?",
    ]


@pytest.mark.parametrize("key", ["name", "description", "mesh", "core", "synapses", "neuron", "source"])
def test_missing_top_level(record: dict[str, Any], key: str) -> None:
    del record[key]
    assert f"{key}: missing" in lines(record)


@pytest.mark.parametrize("field", [f for f in FIELDS if f.required], ids=lambda f: f.name)
def test_every_limit_is_required(record: dict[str, Any], field: Any) -> None:
    del record[field.table][field.key]
    assert f"{field.name}: missing" in lines(record)


def test_a_source_for_a_whole_table(record: dict[str, Any]) -> None:
    chip = chip_from_dict(record)
    record["source"] = {k: v for k, v in record["source"].items() if not k.startswith("core.")}
    record["source"]["core"] = "a book"
    record["source"]["core.neurons"] = "another"
    loaded = chip_from_dict(record)
    assert loaded.sources["core.neurons"] == "another"
    assert loaded.sources["core.delay_steps"] == "a book"
    assert loaded.core == chip.core


def test_sources_as_nested_tables(record: dict[str, Any]) -> None:
    flat = chip_from_dict(record)
    nested: dict[str, dict[str, str]] = {}
    for key, text in record["source"].items():
        table, _, name = key.partition(".")
        nested.setdefault(table, {})[name] = text
    assert chip_from_dict(record | {"source": nested}) == flat


def test_a_record_survives_json(record: dict[str, Any]) -> None:
    assert chip_from_dict(json.loads(json.dumps(record))) == read_chip("loihi1")


JUNK = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
PLACES = [*((f.table, f.key) for f in FIELDS), *(("", key) for key in read_chip("loihi1").record)]


@settings(max_examples=300)
@given(places=st.lists(st.sampled_from(PLACES), min_size=1, max_size=4), junk=st.lists(JUNK, min_size=4, max_size=4))
def test_junk_is_a_chip_or_one_of_our_errors(places: list[tuple[str, str]], junk: list[Any]) -> None:
    record = copy.deepcopy(dict(read_chip("loihi1").record))
    for (table, key), value in zip(places, junk, strict=False):
        target = record[table] if table and isinstance(record[table], dict) else record
        target[key] = value
    try:
        chip = chip_from_dict(record)
    except ChipError as error:
        problems = [str(p) for p in error.problems]
    else:
        problems = []
        assert chip_from_dict(chip.record) == chip
    assert all(p.isprintable() for p in problems)


def test_the_name_of_a_range_is_shown_escaped() -> None:
    record = {**read_chip("loihi1").record, "range": {"\x1f": None}}
    with pytest.raises(ChipError) as caught:
        chip_from_dict(record)
    assert all(str(p).isprintable() for p in caught.value.problems)
    assert "'\\x1f' is not a figure of this file" in str(caught.value)


@pytest.mark.parametrize("value", [3, [], "chip", None])
def test_a_record_that_is_no_table(value: Any) -> None:
    with pytest.raises(ChipError, match="^chip record: not a table, a chip is a table of keys$"):
        chip_from_dict(value)


@pytest.mark.parametrize("name", ["x" * 300 + ".toml", "a/" * 3000 + "a.toml"])
def test_a_name_longer_than_files_have(name: str) -> None:
    with pytest.raises(ChipError, match="no such file"):
        read_chip(name)
