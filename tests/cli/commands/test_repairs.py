"""--repair NAME and --repair batch-axis have the same effect in every command, and nothing is repaired silently."""

from __future__ import annotations

import json
from pathlib import Path

import click
import nir
import numpy as np
import pytest

from nirbridge.cli import main as cli
from nirbridge.cli.main import run

READERS = ("map", "check", "inspect", "simulate", "quantize", "report", "verify", "emit", "profile", "bench", "lower")
NOTE = "repaired on request: norse, batch-axis"


@pytest.fixture
def model(tmp_path: Path) -> str:
    """Readable only without its batch; as Norse writes it, with dt = 1e-3 its decay is 0.9 and not -9."""
    ones = np.ones(3)
    nodes = {
        "in": nir.Input({"input": np.array([1, 3])}),
        "lif": nir.LIF(1e-5 * ones, ones, 0 * ones, ones),
        "w": nir.Linear(2.0 * np.eye(3)),
        "out": nir.Output({"output": np.array([1, 3])}),
    }
    edges = [("in", "w"), ("w", "lif"), ("lif", "out")]
    nir.write(tmp_path / "m.nir", nir.NIRGraph(nodes, edges, type_check=False))
    np.save(tmp_path / "in.npy", np.ones((12, 3), np.uint8))
    return str(tmp_path / "m.nir")


def arguments(name: str, model: str) -> list[str]:
    folder = Path(model).parent
    chip = [] if name in ("inspect", "report", "simulate") else ["--chip", "loihi1"]
    more = {
        "simulate": ["--input", str(folder / "in.npy"), "-o", str(folder / "out.npz")],
        "quantize": ["-o", str(folder / "m.q.npz")],
        "verify": ["--input", str(folder / "in.npy")],
        "profile": ["--input", str(folder / "in.npy")],
        "bench": ["--backend", "numpy", "--steps", "3", "--batch", "1"],
        "emit": ["--to", "lava", "-o", str(folder / "program")],
        "map": ["-o", str(folder / "m.map.json")],
        "report": ["-o", str(folder / "m.html")],
    }
    return [name, model, *chip, *more.get(name, []), "--json"]


def test_every_command_that_reads_a_model_is_listed_here() -> None:
    readers = []
    for name, _, _ in cli.COMMANDS:
        command = cli.nirbridge.get_command(click.Context(cli.nirbridge), name)
        assert command is not None
        readers += [name] if any(p.name == "model" for p in command.params) else []
    assert sorted(readers) == sorted([*READERS, "stream"])  # its stdout holds frames: tests/cli/test_stream.py


@pytest.mark.parametrize("name", READERS)
def test_repairs_are_made_and_said(name: str, model: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(arguments(name, model)) == 2
    assert json.loads(capsys.readouterr().out)["error"]["problems"][-1]["hint"].startswith("--repair batch-axis")
    assert run([*arguments(name, model), "--repair", "norse", "--repair", "batch-axis"]) == 0
    written = Path(model).parent / "program" / "program.json"
    assert NOTE in (written.read_text("utf-8") if name == "emit" else capsys.readouterr().out) or name == "inspect"


def test_what_is_simulated_is_the_repaired_model(model: str) -> None:
    assert run([*arguments("simulate", model), "--repair", "norse", "--repair", "batch-axis"]) == 0
    with np.load(Path(model).parent / "out.npz") as found:
        spikes = found["out/s"][:, 0]
    v, expected = 0.0, []
    for _ in range(12):  # tau 10 ms at 1 ms, r = 1, an input of 2
        v = v + 0.1 * (2.0 - v)
        expected.append(int(v > 1))
        v = 0.0 if v > 1 else v
    assert spikes.tolist() == expected
    assert sum(expected) > 0


def test_a_map_of_a_repaired_model_is_checked_as_repaired(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    saved = Path(model).parent / "m.map.json"
    options = ["--repair", "norse", "--repair", "batch-axis"]
    assert run([*arguments("map", model), *options]) == 0
    assert NOTE in json.loads(saved.read_text("utf-8"))["notes"]
    assert run(["check", model, "--map", str(saved), *options]) == 0
    capsys.readouterr()
    assert run(["check", "--shapes", "4 dense2 lif", "--chip", "loihi1", *options]) == 2
    assert capsys.readouterr().err == ("error: --shapes: given with --repair, it repairs a file; leave it out\n")
