"""``nirbridge map`` and ``nirbridge check``, end to end."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest

from nirbridge.cli.main import run

MODEL = "examples/models/digits_cnn.nir"
CHIP = "examples/chips/my_chip.toml"
pytestmark = pytest.mark.usefixtures("searched_once")


@pytest.fixture(autouse=True)
def _at_the_root(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(root)


@pytest.fixture
def map_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A map that the command saved; tests change copies of it."""
    saved = tmp_path_factory.mktemp("map") / "a.map.json"
    assert run(["map", MODEL, "--chip", CHIP, "-o", str(saved)]) == 0
    return saved


def test_a_map_is_shown_saved_and_found_legal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    saved = str(tmp_path / "a.map.json")
    assert run(["map", MODEL, "--chip", CHIP, "-o", saved, "--report", str(tmp_path / "report")]) == 0
    out = capsys.readouterr().out
    shown = ("cores    5 of 16 used", "gap 1 to the lower bound 4", "synapse words", "hops", "energy")
    for words in shown:
        assert words in out
    assert "cores    5 of 16" in (tmp_path / "report" / "map.txt").read_text(encoding="utf-8")
    assert (tmp_path / "report" / "map.html").read_text(encoding="utf-8").startswith("<!doctype html>")
    assert run(["check", MODEL, "--map", saved]) == 0
    assert capsys.readouterr().out == "legal: 'a.map.json' maps 'digits_cnn.nir' within every limit\n"


def test_json_is_the_map_file(tmp_path: Path, root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    saved = tmp_path / "a.map.json"
    assert run(["map", MODEL, "--chip", CHIP, "-o", str(saved), "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed == json.loads(saved.read_text(encoding="utf-8"))
    schema = json.loads((root / "nirbridge" / "mapping" / "storage" / "map.schema.json").read_text(encoding="utf-8"))
    jsonschema.validate(printed, schema)


def test_a_map_that_was_changed_is_illegal(tmp_path: Path, map_file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    saved = tmp_path / "a.map.json"
    document = json.loads(map_file.read_text(encoding="utf-8"))
    document["blocks"][0]["slices"].pop()
    saved.write_text(json.dumps(document), encoding="utf-8")
    capsys.readouterr()
    assert run(["check", MODEL, "--map", str(saved)]) == 1
    assert "error: population " in capsys.readouterr().err


def test_a_map_is_checked_with_the_timing_it_was_made_with(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    import nir
    import numpy as np

    model, saved = str(tmp_path / "m.nir"), tmp_path / "a.map.json"
    ones = np.ones(4)
    nodes = {
        "i": nir.Input({"input": np.array([4])}),
        "d": nir.Delay(2e-3 * ones),
        "l": nir.LIF(1e-2 * ones, ones, 0 * ones, ones, v_reset=0 * ones),
        "o": nir.Output({"output": np.array([4])}),
    }
    nir.write(model, nir.NIRGraph(nodes, [("i", "d"), ("d", "l"), ("l", "o")], type_check=False))
    assert run(["map", model, "--chip", "loihi1", "--dt", "1e-3", "-o", str(saved)]) == 0
    assert run(["check", model, "--map", str(saved)]) == 0
    capsys.readouterr()
    assert run(["check", model, "--map", str(saved), "--dt", "1e-4"]) == 1
    assert capsys.readouterr().err.startswith("error: timing.dt: 0.001 in the map, 0.0001 as the model was read; ")
    document = json.loads(saved.read_text(encoding="utf-8"))
    document["timing"].update(dt=0, integrator="later")
    saved.write_text(json.dumps(document), encoding="utf-8")
    assert run(["check", model, "--map", str(saved)]) == 2
    assert capsys.readouterr().err == (
        "error: map: timing.dt: is 0, expected a number of seconds above 0; map the model again\n"
        "error: map: timing.integrator: is 'later', expected one of euler, zoh, exponential; map the model again\n"
    )


def test_a_map_of_another_model(map_file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["check", "examples/models/digits_mlp.nir", "--map", str(map_file)]) == 1
    errors = capsys.readouterr().err
    assert "SHA-256" in errors
    assert errors.count("map the model again") == 1, "nothing else is compared with another model"


def test_does_it_fit(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["check", MODEL, "--chip", "loihi1"]) == 0
    assert capsys.readouterr().out == "fits: 1 of 128 cores of 1 x loihi1 (optimal; at least 1 in any map)\n"
    assert run(["check", "--shapes", "5000 dense10 lif", "--chip", "loihi1", "--json"]) == 1
    captured = capsys.readouterr()
    problems = json.loads(captured.out)["error"]["problems"]
    assert problems[0]["ids"]["population"] == "2_lif"
    assert problems[-1]["subject"] == "changes that fit"
    assert captured.err.startswith("error: population '2_lif', neuron (5): 5,000 input axons for one neuron, a loihi1")


def test_check_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["check", MODEL, "--chip", "loihi2", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["fits"], document["cores"], document["status"]) == (True, 1, "optimal")


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["map", MODEL, "--chip", "lohi1"], "error: chip 'lohi1': unknown"),
        (["map", "nowhere.nir", "--chip", "loihi1"], "nowhere.nir"),
        (
            ["map", MODEL, "--chip", CHIP, "--pin", "leaky_1"],
            "error: --pin: 'leaky_1', expected a population and its core",
        ),
        (
            ["map", "examples/models/digits_mlp.nir", "--chip", CHIP, "--chips", "2", "--pin", "leaky_3=32"],
            "error: --pin 'leaky_3': core 32, cores of 2 x my_chip are 0 to 31; choose",
        ),
        (["map", MODEL, "--chip", CHIP, "--pin", "x=1"], "error: --pin: no population 'x', there are 'leaky_1'"),
        (["map", MODEL, "--chip", CHIP, "--without-cores", "a"], "error: --without-cores: 'a', expected core numbers"),
        (["map", MODEL, "--chip", CHIP, "--without-cores", "99"], "error: core 99: does not exist"),
        (["map", MODEL, "--chip", CHIP, "--rates", "nowhere.npz"], "nowhere.npz"),
        (
            ["map", MODEL, "--chip", CHIP, "-o", "no/such/folder/a.map.json"],
            "error: -o 'no/such/folder/a.map.json': its folder does",
        ),
        (["map", MODEL, "--chip", CHIP, "-o", "docs"], "error: -o 'docs': is a folder; name a file"),
        (["map", MODEL, "--chip", CHIP, "--dt", "-1"], "dt"),
        (["map", MODEL], "--chip"),
        (["check", MODEL], "error: check: needs --chip or --map"),
        (["check"], "error: check: needs one of MODEL.nir and --shapes"),
        (["check", "--shapes", "4 dense", "--chip", "loihi1"], "dense"),
        (["check", "--shapes", "4 dense2 lif", "--map", "a.map.json"], "error: --map: needs the model"),
    ],
)
def test_wrong_usage_is_one_clear_error(args: list[str], words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(args) == 2
    captured = capsys.readouterr()
    assert words in captured.err
    assert captured.out == ""
