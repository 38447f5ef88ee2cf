"""``nirbridge show`` and ``diff``: files are recognised by content, differences are differences in meaning."""

from __future__ import annotations

import json
import shutil
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nirbridge import pipeline
from nirbridge.cli.main import run

MODEL = Path(__file__).resolve().parents[3] / "examples/models/digits_mlp.nir"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A map, a quantized network and a recording under names that say nothing, and others beside them."""
    folder = tmp_path_factory.mktemp("saved")
    network, chip = pipeline.load_network(MODEL), pipeline.load_chip("loihi1")
    for name, options in (("map", {}), ("pinned", {"pins": {"leaky_1": (5,)}}), ("split", {"method": "sequential"})):
        mapped = pipeline.map_network(network, chip, pipeline.MapOptions(**options))
        pipeline.save_map(mapped, folder / f"{name}.bin", MODEL)
    for name, bits in (("quantized", 8), ("narrow", 4)):
        plan = pipeline.quantize_plan(network, {"weight_bits": bits}, None, {"method": "range", "percentile": 99.9})
        pipeline.write_quantized(pipeline.quantize_network(network, chip, *plan), folder / f"{name}.bin")
    inputs = np.zeros((4, 2, 64), np.uint8)
    for name in ("recording", "other"):
        pipeline.write_recording(pipeline.simulate_network(network, inputs), folder / f"{name}.bin")
        inputs[1, 1] = 1
    return folder


@pytest.fixture(autouse=True)
def _here(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(made, tmp_path / "here")
    monkeypatch.chdir(tmp_path / "here")


def shown(*args: str, code: int = 0, capsys: pytest.CaptureFixture[str]) -> str:
    assert run(list(args)) == code
    return capsys.readouterr().out


def as_json(*args: str, code: int = 0, capsys: pytest.CaptureFixture[str]) -> Any:
    return json.loads(shown(*args, "--json", code=code, capsys=capsys))


def test_a_map_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    out = shown("show", "map.bin", capsys=capsys)
    for line in (" on loihi1\n", "\ncores    1 of 128 used, proved optimal", "\nenergy   8.99 nJ per time step\n"):
        assert line in out
    assert [row.split() for row in out.splitlines() if row.startswith("leaky")] == [
        ["leaky_1", "LIF", "64", "64", "1", "1"],
        ["leaky_3", "LIF", "10", "10", "1", "1"],
    ]
    document = as_json("show", "map.bin", capsys=capsys)
    assert (document["kind"], document["chip"], document["totals"]["cores_used"]) == ("map", "loihi1", 1)
    assert document["populations"][0] == {
        **{"name": "leaky_1", "shape": [64], "neurons": 64, "kind": "LIF", "relay": False},
        **{"slices": 1, "cores": 1},
    }


def test_the_others_are_shown_as_the_commands_that_made_them_do(capsys: pytest.CaptureFixture[str]) -> None:
    quantized = as_json("show", "quantized.bin", capsys=capsys)
    assert quantized["kind"] == "quantized"
    assert [layer["population"] for layer in quantized["layers"]] == ["leaky_1", "leaky_3"]
    assert "synaptic memory at least" in shown("show", "quantized.bin", capsys=capsys)
    recording = as_json("show", "recording.bin", capsys=capsys)
    assert recording["kind"] == "recording"
    assert recording["recorded"] == [
        {"node": "output", "variable": "s", "shape": [4, 2, 10], "type": "uint8", "spikes": 0}
    ]
    assert "4 time steps of 0.0001 s, batch 2" in shown("show", "recording.bin", capsys=capsys)


def test_without_notes(capsys: pytest.CaptureFixture[str]) -> None:
    record = json.loads(Path("map.bin").read_text())
    record["notes"] = ["a note"]
    Path("map.bin").write_text(json.dumps(record))
    assert "- a note" in shown("show", "map.bin", "--verbose", capsys=capsys)
    assert "- a note" not in shown("show", "map.bin", "--verbose", "--quiet", capsys=capsys)
    assert "1 note, " in shown("show", "map.bin", capsys=capsys)
    assert "1 note, " not in shown("show", "map.bin", "--quiet", capsys=capsys)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is empty, "),
        (b"PK nothing", "is an archive without a readable 'meta'"),
        (b"[1]", "is not a file that nirbridge saves, "),
        (b"{", "not JSON at line 1"),
        (b"\x93NUMPY\x01", "is an array of NumPy; give it to a command as --input"),
        (b"models = ['a.nir']\n", "is the file of a sweep; see its points with nirbridge sweep FILE.toml --dry-run"),
        (b'{"made_by": "nirbridge", "files": {}}', "is the manifest of a program; name its folder"),
        (b"\x89PNG\r\n", "is a picture; open it"),
    ],
    ids=["empty", "archive", "list", "broken", "array", "sweep", "manifest", "picture"],
)
def test_files_of_no_kind(content: bytes, message: str, capsys: pytest.CaptureFixture[str]) -> None:
    Path("x").write_bytes(content)
    for command in (["show", "x"], ["diff", "map.bin", "x"]):
        assert run(command) == 2
        assert message in capsys.readouterr().err


def test_archives_of_others(capsys: pytest.CaptureFixture[str]) -> None:
    np.savez("x.npz", x=np.zeros(3))
    with zipfile.ZipFile("x.pt", "w") as archive:
        archive.writestr("x/data.pkl", b"")
    with zipfile.ZipFile("x.zip", "w") as archive:
        archive.writestr("x.txt", b"")
    messages = {
        "x.npz": "holds arrays of NumPy; give it",
        "x.pt": "is a file of torch.save; import its module: nirbridge import",
        "x.zip": "is an archive of another program; unpack it",
    }
    for name, message in messages.items():
        assert run(["show", name]) == 2
        assert f"'{name}': {message}" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["map.bin", "quantized.bin", "recording.bin", "model.bin", "chip.bin", "program", "x"])
def test_inspect_shows_the_same(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.copy(MODEL, "model.bin")
    shutil.copy(MODEL.parents[1] / "chips/my_chip.toml", "chip.bin")
    lines = [
        "module {",
        "  %1 = arith.constant 0 : index",
        "  %2 = arith.addi %1, %1 : index",
        "  func.return",
        "}",
        "",
    ]
    Path("x").write_text("\n".join(lines))
    assert run(["emit", str(MODEL), "--to", "c", "-o", "program"]) == 0
    capsys.readouterr()
    screen = shown("show", name, capsys=capsys)
    assert screen == shown("inspect", name, capsys=capsys)
    part = {"model.bin": "4,096 from input", "chip.bin": "my_chip", "program": "run with: nirbridge run program",
            "x": "MLIR module: 5 lines\noperations by dialect: arith 2, func 1"}  # fmt: skip
    assert part.get(name, "") in screen
    document = as_json("show", name, capsys=capsys)
    assert document["file"] == name
    found = as_json("inspect", name, capsys=capsys)
    assert found == document if name != "model.bin" else found.items() <= document.items()


def test_options_of_reading_a_model_are_refused_for_other_files(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["inspect", "map.bin", "--repair", "norse", "--dt", "1e-3"]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert [line.split(": ")[1] for line in lines] == ["--repair", "--dt and others of timing"]


def test_two_models_are_compared(capsys: pytest.CaptureFixture[str]) -> None:
    model = str(MODEL)
    assert as_json("diff", model, model, capsys=capsys)["same"] is True
    other = as_json("diff", model, str(MODEL.with_name("digits_cnn.nir")), code=1, capsys=capsys)
    assert other["kind"] == "model"
    assert run(["diff", str(MODEL.parents[1] / "chips/my_chip.toml")] * 2) == 2
    capsys.readouterr()


def test_an_archive_whose_packed_content_is_damaged(capsys: pytest.CaptureFixture[str]) -> None:
    with zipfile.ZipFile("x", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("meta.npy", bytes(1000))
        start = archive.getinfo("meta.npy").header_offset + 30 + len("meta.npy")
    content = bytearray(Path("x").read_bytes())
    content[start] = 0xFF  # a block of deflate of no known kind
    Path("x").write_bytes(content)
    for command in (["show", "x"], ["diff", "map.bin", "x"]):
        assert run(command) == 2
        assert "is an archive without a readable 'meta'" in capsys.readouterr().err


def test_places_that_are_no_file(capsys: pytest.CaptureFixture[str]) -> None:
    for path in (".", "none"):
        assert run(["show", path]) == 2
    assert "'.': is a folder without a program of nirbridge; name a file in it" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["map.bin", "quantized.bin", "recording.bin"])
def test_a_file_differs_from_itself_in_nothing(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert "no difference between" in shown("diff", name, name, capsys=capsys)
    assert as_json("diff", name, name, capsys=capsys)["same"] is True


def test_what_has_no_meaning_is_no_difference(capsys: pytest.CaptureFixture[str]) -> None:
    record = json.loads(Path("split.bin").read_text())
    record["nirbridge"] = "9.9"
    record["proof"] |= {"seed": 7, "solver": "another", "deterministic_time": 3.0}
    record["blocks"] = record["blocks"][::-1]
    Path("again").write_text(json.dumps(record))
    assert as_json("diff", "split.bin", "again", capsys=capsys)["differences"] == []


def test_a_map_with_other_cores(capsys: pytest.CaptureFixture[str]) -> None:
    document = as_json("diff", "map.bin", "pinned.bin", code=1, capsys=capsys)
    assert document["same"] is False
    differences = {each["name"]: (each["a"], each["b"]) for each in document["differences"]}
    assert differences["placement of 64 of 64 neurons of 'leaky_1'"] == ("(0, 0, 0, 0)", "(0, 1, 0, 1)")
    assert all(name.startswith(("placement of", "slices", "totals.", "proof.")) for name in differences)
    text = shown("diff", "map.bin", "pinned.bin", code=1, capsys=capsys)
    assert f"{len(differences)} differences between 'map.bin' and 'pinned.bin'\n" in text
    assert "  placement of 64 of 64 neurons of 'leaky_1': (0, 0, 0, 0) / (0, 1, 0, 1)\n" in text


def test_a_map_of_another_model_and_chip(capsys: pytest.CaptureFixture[str]) -> None:
    record = json.loads(Path("map.bin").read_text())
    record["model"]["sha256"] = "0" * 64
    record["chip"]["core"]["neurons"] = 2048
    record["timing"]["reset"] = "subtract"
    record["projections"][0]["delay_steps"] = 3
    Path("again").write_text(json.dumps(record))
    found = as_json("diff", "map.bin", "again", code=1, capsys=capsys)["differences"]
    assert [each["name"] for each in found] == [
        *("model", "chip.core.neurons", "timing.reset", "projections 'input -> leaky_1'.delay_steps"),
    ]
    assert found[1]["a"] == 1024
    assert found[1]["b"] == 2048


def test_another_chip_is_one_line_where_its_name_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    record = json.loads(Path("map.bin").read_text())
    record["chip"]["name"] = "other"
    record["chip"]["core"]["neurons"] = 2048
    record["chip"]["core"]["input_axons"] = 8
    Path("moved.bin").write_text(json.dumps(record))
    lines = shown("diff", "map.bin", "moved.bin", code=1, capsys=capsys).splitlines()
    assert lines == [
        "3 differences between 'map.bin' and 'moved.bin'",
        "  chip.name: loihi1 / other",
        "  2 more of the chips; --json lists all",
    ]
    assert len(as_json("diff", "map.bin", "moved.bin", code=1, capsys=capsys)["differences"]) == 3


def test_other_integers(capsys: pytest.CaptureFixture[str]) -> None:
    found = as_json("diff", "quantized.bin", "narrow.bin", code=1, capsys=capsys)["differences"]
    weights = next(each for each in found if each["name"].endswith("'input -> leaky_1'.operator.weight"))
    assert weights["a"].startswith("3,")
    assert " of 4,096 values differ, the first at [0, 0]: " in weights["a"]


def test_other_recordings(capsys: pytest.CaptureFixture[str]) -> None:
    found = as_json("diff", "recording.bin", "other.bin", code=1, capsys=capsys)["differences"]
    spikes = pipeline.read_recording("other.bin").arrays["output", "s"]
    step, sample, neuron = map(int, np.argwhere(spikes)[0])
    assert sample == 1
    assert [each["name"] for each in found] == [f"output s, first at time step {step}, sample 1, neuron ({neuron})"]
    assert (found[0]["a"], found[0]["b"]) == (0.0, 1.0)


def test_two_kinds_have_nothing_in_common(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["diff", "map.bin", "quantized.bin"]) == 2
    assert "one is a map, the other a quantized network" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("meta", "line"),
    [
        ('{"schema": 1}', "time steps of unknown length, integers, backend unknown"),
        ('{"schema": 1, "steps": 4, "dt": 1, "backend": "a\\u001b"}', "4 time steps of 1 s, integers, backend a\\x1b"),
    ],
)
def test_a_recording_that_says_little_is_shown(meta: str, line: str, capsys: pytest.CaptureFixture[str]) -> None:
    np.savez("r.npz", meta=np.array(meta), **{"n/s": np.ones((4, 2), np.uint8)})
    assert shown("show", "r.npz", capsys=capsys).splitlines()[0] == line
    assert as_json("show", "r.npz", capsys=capsys)["kind"] == "recording"


@pytest.mark.parametrize(
    ("place", "value", "message"),
    [
        (("timing", "dt"), 10**400, "timing.dt is a whole number of 401 digits, at most 64 bits"),
        (("totals", "energy_per_step_j"), 10**400, "totals.energy_per_step_j is a whole number of 401 digits"),
        (("chip", "name"), None, "chip.name: is null, expected a text"),
        (("populations", 0, "shape"), [1] * 65, "populations[0].shape: has 65 entries, expected at most 64"),
    ],
)
def test_a_map_that_cannot_be_shown_is_refused(
    place: tuple[Any, ...], value: Any, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    document = json.loads(Path("map.bin").read_text(encoding="utf-8"))
    holder = document
    for key in place[:-1]:
        holder = holder[key]
    holder[place[-1]] = value
    Path("m.json").write_text(json.dumps(document), encoding="utf-8")
    assert run(["show", "m.json"]) == 2
    assert "map file 'm.json'" in (said := capsys.readouterr().err)
    assert message in said


def test_notes_of_a_network_are_printed_without_control_characters(capsys: pytest.CaptureFixture[str]) -> None:
    network = pipeline.load_network(MODEL)
    pipeline.write_network(replace(network, notes=("a\x1b[31m",), assumed=("b\x00",)), "n.net.npz")
    out = shown("show", "n.net.npz", capsys=capsys)
    assert "- a\\x1b[31m" in out
    assert "\x1b" not in out
    assert "\x00" not in out
