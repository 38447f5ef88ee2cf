"""Chips with other values: files that extend another chip, ``with_values`` and ``--set``."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import nirbridge as nb
from nirbridge import pipeline
from nirbridge.chips import Chip, builtin_chips, chip_from_dict, read_chip, with_values, without_cores
from nirbridge.chips.load import EXTENDS_MAX, extended_files, value_of_text
from nirbridge.chips.schema import CORES_MAX, FIELDS, Field
from nirbridge.chips.write import write_chip
from nirbridge.cli.main import run
from nirbridge.errors import ChipError


def write(folder: Path, name: str, text: str) -> Path:
    (folder / name).write_text(text, encoding="utf-8")
    return folder / name


def test_a_file_that_extends_a_chip_has_its_keys_but_those_that_it_changes(tmp_path: Path) -> None:
    text = 'extends = "loihi2"\nname = "half"\n[core]\nneurons = 4096\n[energy]\nhop_x_j = 1e-12\n'
    chip, loihi2 = read_chip(write(tmp_path, "half.toml", text)), read_chip("loihi2")
    assert (chip.name, chip.description, chip.core.neurons, chip.energy.hop_x_j) == (
        *("half", loihi2.description, 4096, 1e-12),
    )
    assert dataclasses.replace(chip.core, neurons=8192) == loihi2.core
    changed = {"core.neurons", "energy.hop_x_j"}
    assert {*loihi2.approximate} - {*chip.approximate} == changed
    assert {key for key, text in chip.sources.items() if text != loihi2.sources[key]} == changed
    assert chip.sources["core.neurons"] == "set by the user; loihi2 has 8192"


def test_what_a_file_says_of_its_own_numbers_holds(tmp_path: Path) -> None:
    text = """
        extends = "loihi1"
        name = "mine"
        approximate = ["core.neurons"]
        [core]
        neurons = 512
        input_axons = 64
        [energy]
        hop_y_j = 3e-12
        neuron_access_j = 50e-12
        [range]
        "energy.neuron_access_j" = [40e-12, 60e-12]
        [source]
        core = "my data sheet"
        "core.neurons" = "page 3"
        "range.energy.neuron_access_j" = "page 4"
    """
    chip, loihi1 = read_chip(write(tmp_path, "mine.toml", text)), read_chip("loihi1")
    assert "core.neurons" in chip.approximate
    sources = [chip.sources[key] for key in ("core.neurons", "core.input_axons", "core.output_axons")]
    assert sources == ["page 3", "my data sheet", loihi1.sources["core.output_axons"]]
    assert chip.ranges["energy.neuron_access_j"] == (40e-12, 60e-12)
    assert chip.sources["range.energy.neuron_access_j"] == "page 4"
    assert "energy.hop_y_j" in loihi1.ranges
    assert "energy.hop_y_j" not in chip.ranges  # it was that of the old figure
    assert chip_from_dict(json.loads(json.dumps(chip.record))) == chip


def test_files_extend_files_beside_them(tmp_path: Path) -> None:
    write(tmp_path, "a.toml", 'extends = "loihi1"\nname = "a"\n[core]\nneurons = 512\n')
    path = write(tmp_path, "b.toml", 'extends = "a.toml"\nname = "b"\n[core]\ninput_axons = 9\n')
    assert (read_chip(path).core.neurons, read_chip(path).core.input_axons) == (512, 9)


CHAIN = {f"c{k}.toml": f'extends = "c{k + 1}.toml"\nname = "c"\n' for k in range(EXTENDS_MAX + 1)}


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"c.toml": 'extends = "c.toml"\nname = "c"\n'}, "extends: 'c.toml' extends itself"),
        (
            {"c.toml": 'extends = "d.toml"\nname = "c"\n', "d.toml": 'extends = "c.toml"\nname = "d"\n'},
            "chip file 'd.toml': extends: 'c.toml' extends itself",
        ),
        ({"c.toml": 'extends = "c0.toml"\nname = "c"\n', **CHAIN}, f"extends: more than {EXTENDS_MAX} files"),
        ({"c.toml": 'extends = "../d.toml"\nname = "c"\n'}, "extends: found '../d.toml', expected a built-in chip"),
        ({"c.toml": 'extends = "/etc/d.toml"\nname = "c"\n'}, "extends: found '/etc/d.toml', expected a built-in chip"),
        ({"c.toml": 'extends = "..\\\\d.toml"\nname = "c"\n'}, "expected a built-in chip"),
        ({"c.toml": 'extends = "d\\u0000.toml"\nname = "c"\n'}, "expected a built-in chip"),
        ({"c.toml": 'extends = "lohi1"\nname = "c"\n'}, "did you mean 'loihi1'?"),
        ({"c.toml": 'extends = ["loihi1"]\nname = "c"\n'}, "expected a built-in chip"),
        ({"c.toml": 'extends = {a = "loihi1"}\nname = "c"\n'}, "extends: found a table, expected a built-in chip"),
        ({"c.toml": 'extends = "d.toml"\nname = "c"\n'}, "chip file 'd.toml': no such file"),
        ({"c.toml": 'extends = "loihi1"\n'}, "name: missing"),
        ({"c.toml": 'extends = "loihi1"\nname = "c"\nschema = 2\n'}, "schema: found 2"),
        ({"c.toml": 'extends = "loihi1"\nname = "c"\nneuron = 3\n'}, "neuron: found 3, expected a table [neuron]"),
        ({"c.toml": 'extends = "loihi1"\nname = "c"\n[core]\nneuron = 3\n'}, "[core] key 'neuron': unknown"),
        ({"c.toml": 'extends = "loihi1"\nname = "c"\n[core]\nneurons = "x"\n'}, "core.neurons: found 'x', expected"),
        ({"c.toml": 'extends = "loihi1"\nname = "c"\napproximate = 3\n'}, "approximate: found 3, expected"),
        ({"c.toml": 'extends = "loihi1"\nname = "c"\nsource = 3\n'}, "source: found 3, expected a table [source]"),
    ],
)
def test_one_error_for_what_cannot_be_extended(tmp_path: Path, files: dict[str, str], message: str) -> None:
    for name, text in files.items():
        write(tmp_path, name, text)
    with pytest.raises(ChipError) as caught:
        read_chip(tmp_path / "c.toml")
    assert len(caught.value.problems) == 1
    assert message in str(caught.value)


def test_a_link_beside_the_file_is_not_followed(tmp_path: Path) -> None:
    secret = write(tmp_path, "secret", "name = 3")
    folder = tmp_path / "chips"
    folder.mkdir()
    (folder / "d.toml").symlink_to(secret)
    with pytest.raises(ChipError, match=r"chip file 'd.toml': cannot be read"):
        read_chip(write(folder, "c.toml", 'extends = "d.toml"\nname = "c"\n'))


def test_no_result_replaces_a_file_that_the_chip_extends(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    base = write(tmp_path, "a.toml", 'extends = "loihi1"\nname = "a"\n')
    write(tmp_path, "b.toml", 'extends = "a.toml"\nname = "b"\n')
    before = base.read_bytes()
    assert run(["map", "none.nir", "--chip", "b.toml", "-o", "a.toml"]) == 2
    assert "-o 'a.toml': is --chip 'a.toml', which this command reads" in capsys.readouterr().err
    assert base.read_bytes() == before
    write(tmp_path, "a.toml", 'extends = "b.toml"\n')
    assert len(extended_files("b.toml")) == EXTENDS_MAX + 1  # a loop ends, and is said where the chip is read
    assert extended_files("none.toml") == ()


def test_a_saved_map_cannot_extend() -> None:
    record = {**read_chip("loihi1").record, "extends": "loihi2"}
    with pytest.raises(ChipError, match="key 'extends': unknown"):
        chip_from_dict(record)


# -- values --------------------------------------------------------------------------------------------------------


def values_of(field: Field) -> st.SearchStrategy[Any]:
    """Values that the schema allows, in the form of the file."""
    figure = st.floats(0, 1e6)
    own: dict[str, st.SearchStrategy[Any]] = {
        "count": st.integers(field.least, field.most),
        "count list": st.lists(st.integers(1, 64), min_size=1, unique=True).map(sorted),
        "flag": st.booleans(),
        "figure": figure,
        "steps": figure | st.lists(st.tuples(st.integers(1, CORES_MAX), figure).map(list), min_size=1, max_size=1),
        "pairs": st.lists(st.lists(st.integers(0, 9), min_size=2, max_size=2), max_size=3),
    }
    return own[field.kind] | (st.just(field.absent) if field.absent else st.nothing())


CHANGES = st.dictionaries(st.sampled_from(FIELDS), st.none(), min_size=1, max_size=4).flatmap(
    lambda chosen: st.fixed_dictionaries({field.name: values_of(field) for field in chosen})
)


def toml(value: Any) -> str:
    return json.dumps(value)


def chip_or_problems(make: Any) -> Chip | list[str]:
    """The chip without what names it, or what is wrong with it, without the subject."""
    try:
        return dataclasses.replace(make(), name="c")
    except ChipError as error:
        return [f"{p.found} | {p.limit} | {p.hint}" for p in error.problems]


@settings(max_examples=200, deadline=None)
@given(base=st.sampled_from(builtin_chips()), values=CHANGES)
def test_set_on_the_command_line_is_what_a_file_says(
    tmp_path_factory: pytest.TempPathFactory, base: str, values: dict[str, Any]
) -> None:
    lines = [f'extends = "{base}"', 'name = "c"']
    tables = dict.fromkeys(key.partition(".")[0] for key in values)
    for table in tables:
        own = {key.partition(".")[2]: value for key, value in values.items() if key.startswith(f"{table}.")}
        lines += [f"[{table}]", *(f"{key} = {toml(value)}" for key, value in own.items())]
    file = write(tmp_path_factory.getbasetemp(), "c.toml", "\n".join(lines))
    typed = {key: value_of_text(value if isinstance(value, str) else toml(value)) for key, value in values.items()}
    by_file, by_values = (
        chip_or_problems(make) for make in (lambda: read_chip(file), lambda: with_values(nb.chip(base), typed))
    )
    assert by_file == by_values
    if isinstance(by_values, Chip):
        named = nb.chip(base).with_values(typed)
        assert named.name.startswith(f"{base} with {next(iter(values))}=")
        assert chip_from_dict(json.loads(json.dumps(named.record))) == named


def test_a_value_that_is_changed_twice_is_named_once() -> None:
    chip = nb.chip("loihi1").with_values({"core.neurons": 512, "synapses.weight_bits": [4, 8]})
    assert chip.name == "loihi1 with core.neurons=512, synapses.weight_bits=[4, 8]"
    again = chip.with_values({"core.neurons": 256, "core.input_axons": None})
    assert again.name == "loihi1 with core.neurons=256, synapses.weight_bits=[4, 8], core.input_axons=unlimited"
    assert (again.core.neurons, again.core.input_axons) == (256, None)
    assert again.sources["core.input_axons"] == "set by the user; loihi1 with core.neurons=512, " + (
        "synapses.weight_bits=[4, 8] has 4096"
    )


def test_a_long_list_of_changes_is_cut_in_the_name_alone() -> None:
    figures = {f.name: 0.5 for f in FIELDS if f.kind == "figure"}
    chip = nb.chip("loihi1").with_values(figures)
    assert chip.name.endswith("…")
    assert chip_from_dict(json.loads(json.dumps(chip.record))) == chip


def test_numbers_of_numpy() -> None:
    values = {"core.neurons": np.int64(512), "synapses.weight_bits": np.array([4, 8])}
    assert nb.chip("loihi1").with_values(values).synapses.weight_bits == (4, 8)


def test_no_values_are_the_chip_itself() -> None:
    assert nb.chip("loihi1").with_values({}) is not None
    assert nb.chip("loihi1").with_values({}) == nb.chip("loihi1")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("core.neuron=512", "chip key 'core.neuron': unknown, keys are those of a chip file, as core.neurons; "
         "did you mean 'core.neurons'?"),
        ("neurons=512", "did you mean 'core.neurons'?"),
        ("core=512", "chip key 'core': unknown"),
        ("core.neurons=many", "chip 'loihi1': core.neurons: found 'many', expected a whole number from 1 to 10^12"),
        ("core.neurons=", "core.neurons: found '', expected a whole number"),
        ("core.neurons=1,024", "core.neurons: found '1,024', expected a whole number"),
        ("core.neurons=5\nname = 3", "core.neurons: found '5\\nname = 3', expected a whole number"),
        ("neuron.soft_reset=yes", "neuron.soft_reset: found 'yes', expected true or false"),
        ("synapses.weight_bits=[4]", "synapses.weight_bits_default is 8, the chip stores 4 bits"),
        ("energy.hop_x_j=nan", "energy.hop_x_j: found nan, expected a finite number of J"),
        ("core.neurons", "--set 'core.neurons': not understood, expected KEY=VALUE; for example"),
    ],
)  # fmt: skip
def test_wrong_values_are_named(text: str, message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["chips", "loihi1", "--set", text]) == 2
    captured = capsys.readouterr()
    assert message in captured.err.replace("\n", " ")
    assert captured.err.count("error:") == 1
    assert captured.out == ""


def test_a_map_holds_its_changed_chip(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = str(Path(__file__).resolve().parents[2] / "examples" / "models" / "digits_mlp.nir")
    saved, values = str(tmp_path / "m.map.json"), ["--set", "core.neurons=64", "--set", "energy.hop_x_j=1e-12"]
    assert run(["map", model, "--chip", "loihi2", *values, "-o", saved, "--summary"]) == 0
    assert "loihi2 with core.neurons=64, energy.hop_x_j=1e-12" in capsys.readouterr().out
    assert run(["show", saved]) == 0
    assert "loihi2 with core.neurons=64" in capsys.readouterr().out
    for more, code in (([], 0), (["--chip", "loihi2", *values], 0), (["--chip", "loihi2"], 1)):
        assert run(["check", model, "--map", saved, *more]) == code, more
    chip = pipeline.load_chip("loihi2", values={"core.neurons": 64, "energy.hop_x_j": 1e-12})
    assert nb.load_map(saved, model).chip == chip.record


def test_set_is_refused_without_a_chip(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["chips", "--set", "core.neurons=3"]) == 2
    assert "--set: given without a chip" in capsys.readouterr().err


# -- new files -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", builtin_chips())
def test_a_new_file_reads_back_as_the_chip_under_its_own_name(name: str, tmp_path: Path) -> None:
    chip = without_cores(read_chip(name), [0, 3])
    made = write_chip(chip, tmp_path / "my_chip.toml")
    assert read_chip(tmp_path / "my_chip.toml") == made == dataclasses.replace(chip, name="my_chip")
    lines = (tmp_path / "my_chip.toml").read_text(encoding="utf-8").splitlines()
    assert max(len(line) for line in lines if "=" not in line or '"' not in line) <= 120  # a text is one line
    text = " ".join(line.removeprefix("# ") for line in lines)
    for field in FIELDS:
        if field.table != "numbers" or chip.numbers is not None:
            assert field.meaning in text, field.name
            assert any(line.removeprefix("# ").startswith(f"{field.key} = ") for line in lines), field.name


@pytest.mark.parametrize(
    ("file", "name"), [("my chip.toml", "my_chip"), ("3d.toml", "chip_3d"), ("é.toml", "chip__"), ("a" * 99, "a" * 64)]
)
def test_the_name_of_a_new_file_becomes_one_of_a_chip(file: str, name: str, tmp_path: Path) -> None:
    assert write_chip(read_chip("loihi1"), tmp_path / file).name == name


def test_the_command_writes_a_changed_chip_and_no_file_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    line = ["chips", "--new", "my.toml", "--like", "loihi2", "--set", "core.neurons=512"]
    assert run(line) == 0
    said = "saved 'my.toml': chip 'my', like loihi2 with core.neurons=512; edit it, then: nirbridge chips my.toml\n"
    assert capsys.readouterr().out == said
    expected = nb.chip("loihi2").with_values({"core.neurons": 512})
    assert read_chip(Path("my.toml")) == dataclasses.replace(expected, name="my")
    before = Path("my.toml").read_bytes()
    assert run(line) == 2
    assert "chip file 'my.toml': is there already" in capsys.readouterr().err
    assert Path("my.toml").read_bytes() == before
    assert run(["chips", "loihi1", "--new", "other.toml", "--like", "loihi2"]) == 2
    assert run(["chips", "--like", "loihi2"]) == 2
    assert not Path("other.toml").exists()
