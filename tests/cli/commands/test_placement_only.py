"""A model that a chip cannot run is refused by every command alike, or placed on request and marked everywhere."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pytest

from nirbridge.cli.main import run

MODEL = "examples/models/digits_mlp.nir"
SOFT = ["--chip", "loihi1", "--reset", "subtract"]
FOUND = (
    "error: population 'leaky_1': a soft reset, chip 'loihi1' resets the membrane to a value; choose a chip that can"
)


@pytest.fixture(autouse=True)
def _at_the_root(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(root)


def placed(folder: Path) -> str:
    saved = str(folder / "p.map.json")
    assert run(["map", MODEL, *SOFT, "--effort", "fast", "--placement-only", "-o", saved]) == 0
    return saved


@pytest.mark.parametrize("command", ["check", "map", "quantize", "emit", "verify", "simulate"])
def test_every_command_refuses_the_same_neurons(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    spikes = tmp_path / "in.npy"
    np.save(spikes, np.zeros((3, 64), np.uint8))
    more = {
        "map": ["-o", str(tmp_path / "m.map.json")],
        "quantize": ["-o", str(tmp_path / "m.q.npz")],
        "emit": ["--to", "lava", "-o", str(tmp_path / "program")],
        "simulate": ["--backend", "mapped", "--input", str(spikes), "-o", str(tmp_path / "out.npz")],
    }
    assert run([command, MODEL, *SOFT, *more.get(command, [])]) == 1
    lines = capsys.readouterr().err.splitlines()
    assert lines[0].startswith(FOUND)
    assert lines[1].startswith(FOUND.replace("leaky_1", "leaky_3"))
    assert "(crossbar256, halapoint, loihi2), or train with a reset to a value" in lines[0]
    assert ("--placement-only" in lines[0]) == (command in ("check", "map"))
    assert [p.name for p in tmp_path.iterdir()] == ["in.npy"]


def test_the_chips_of_the_hint_do_run_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for chip in ("crossbar256", "loihi2"):
        assert run(["check", MODEL, "--chip", chip, "--reset", "subtract"]) == 0
        assert run(["quantize", MODEL, "--chip", chip, "--reset", "subtract", "-o", str(tmp_path / "q.npz")]) == 0
    assert "placement" not in capsys.readouterr().out


def test_shapes_alone_are_judged_too(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["check", "--shapes", "64 dense32 lif dense10 lif", *SOFT, "--json"]) == 1
    problems = json.loads(capsys.readouterr().out)["error"]["problems"]
    assert [p["found"] for p in problems] == ["a soft reset"] * 2
    assert [p["ids"]["rule"] for p in problems] == ["reset"] * 2


def test_what_does_not_even_fit_says_both(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["check", "--shapes", "9000 dense32 lif", *SOFT]) == 1
    said = capsys.readouterr().err
    assert "input axons" in said
    assert "a soft reset" in said
    assert "--chip loihi2" in said


def test_loops_and_neurons_are_refused_together(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    import nir

    one = np.ones(2)
    nodes: dict[str, Any] = {name: nir.LIF(one * 1e-3, one, one * 0, one) for name in "ab"}
    nodes |= {"in": nir.Input({"input": np.array([2])}), "out": nir.Output({"output": np.array([2])})}
    edges = [("in", "a"), ("a", "b"), ("b", "a"), ("b", "out")]
    model = str(tmp_path / "m.nir")
    nir.write(model, nir.NIRGraph(nodes, edges, metadata={"nirbridge:dt": 1e-4}, type_check=False))
    commands: dict[str, list[str]] = {"check": [], "map": [], "quantize": ["-o", str(tmp_path / "q.npz")], "verify": []}
    for command, more in commands.items():
        assert run([command, model, *SOFT, *more]) == 1
        things = [line.split(": ")[1] for line in capsys.readouterr().err.splitlines()]
        assert things == ["loop 'b' -> 'a' -> 'b'", "population 'a'", "population 'b'"]


def test_a_placement_is_only_offered_where_there_is_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A delay that no relays make up for is too long for the synapses of a placement, too."""
    import nir

    one = np.ones(2)
    cells = {name: nir.LIF(one * 1e-3, one, one * 0, one) for name in "ab"}
    nodes: dict[str, Any] = {"in": nir.Input({"input": np.array([2])}), "a": cells["a"], "late": nir.Delay(one * 10)}
    nodes |= {"m": nir.Linear(np.eye(2)), "b": cells["b"], "out": nir.Output({"output": np.array([2])})}
    model = str(tmp_path / "m.nir")
    nir.write(model, nir.NIRGraph(nodes, list(pairwise(nodes)), metadata={"nirbridge:dt": 1e-4}, type_check=False))
    for more in ([], ["--placement-only"]):
        assert run(["map", model, "--chip", "loihi2", *more]) == 1
        said = capsys.readouterr().err
        assert "'a' -> 'b': a delay of 100,000 time steps" in said
        assert "--placement-only" not in said
        assert "node 'late' (Delay): a delay of 100,000 time steps takes" in said


def test_a_placement_is_marked_everywhere(tmp_path: Path, root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    saved, report = str(tmp_path / "p.map.json"), tmp_path / "report"
    options = [MODEL, *SOFT, "--effort", "fast", "--placement-only"]
    assert run(["map", *options, "-o", saved, "--report", str(report)]) == 0
    shown = capsys.readouterr().out
    for text in (shown, *((report / name).read_text("utf-8") for name in ("map.txt", "map.html"))):
        assert "PLACEMENT ONLY: cannot be quantized, run or emitted; " in text
        assert "a soft reset" in text
        assert ("the chip cannot run it, see the notes" in text) == (text is not shown)  # which gives the note itself
    assert run(["map", *options, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document == json.loads(Path(saved).read_text("utf-8"))
    assert (document["schema"], document["placement_only"]) == (2, True)
    assert document["notes"][-1].startswith("placement only, chip 'loihi1' cannot run it: population 'leaky_3': a soft")
    schema = json.loads((root / "nirbridge" / "mapping" / "storage" / "map.schema.json").read_text("utf-8"))
    jsonschema.validate(document, schema)
    assert run(["check", *options[:-3], "--placement-only"]) == 0
    assert capsys.readouterr().out.startswith("fits, placement only: 1 of 128 cores of 1 x loihi1")
    assert run(["check", *options[:-3], "--placement-only", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["placement_only"] is True


def test_a_requested_mark_is_set_even_where_the_chip_could(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    saved = str(tmp_path / "p.map.json")
    assert run(["map", MODEL, "--chip", "loihi1", "--effort", "fast", "--placement-only", "-o", saved]) == 0
    words = " ".join(capsys.readouterr().out.split())
    assert "PLACEMENT ONLY: cannot be quantized, run or emitted; requested, although the chip could" in words
    spikes = tmp_path / "in.npy"
    np.save(spikes, np.zeros((3, 64), np.uint8))
    on_map = ["--chip", "loihi1", "--map", saved]
    commands = (
        ["check", MODEL, "--map", saved],
        ["verify", MODEL, *on_map],
        ["emit", MODEL, "--to", "lava", *on_map, "-o", str(tmp_path / "program")],
        ["simulate", MODEL, "--backend", "mapped", *on_map, "--input", str(spikes), "-o", str(tmp_path / "o.npz")],
    )
    for command in commands:
        assert run(command) == 1
        assert capsys.readouterr().err.startswith(
            "error: map: is marked placement_only, such a map cannot be quantized, run or"
        )
    assert run(["check", MODEL, "--map", saved, "--placement-only"]) == 0
    assert capsys.readouterr().out.startswith("legal as a placement only: 'p.map.json' places")


def test_the_checker_finds_a_mark_that_was_removed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    saved = Path(placed(tmp_path))
    document = json.loads(saved.read_text("utf-8"))
    del document["placement_only"]
    document["schema"] = 1
    saved.write_text(json.dumps(document), "utf-8")
    capsys.readouterr()
    assert run(["check", MODEL, "--map", str(saved)]) == 1
    assert capsys.readouterr().err.splitlines()[0].startswith(FOUND)
    assert run(["check", MODEL, "--map", str(saved), "--placement-only"]) == 0


def test_other_maps_are_of_the_first_schema(tmp_path: Path) -> None:
    saved = tmp_path / "m.map.json"
    assert run(["map", MODEL, "--chip", "loihi1", "--effort", "fast", "-o", str(saved)]) == 0
    text = saved.read_text("utf-8")
    assert json.loads(text)["schema"] == 1
    assert "placement" not in text
