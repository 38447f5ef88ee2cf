"""Known faults of exporters: one line from every command that reads the file, in its JSON and its results."""

from __future__ import annotations

import json
import warnings
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import nir
import numpy as np
import pytest

from nirbridge.cli.main import run
from nirbridge.errors import ExporterFaultWarning
from nirbridge.importers import load_nir
from nirbridge.network import from_nir, to_nir
from nirbridge.pipeline import load_graph, load_network, network_of_graph, save_graph

COMMANDS = ("map", "check", "check map", "inspect", "simulate", "quantize", "verify", "emit")
SAID = "in 2 nodes ('1', '3'): r = tau / 1e-4 s, as snnTorch and spikingjelly write it"
MEND = (
    "repair it with --repair snntorch-subtract (snnTorch's default), snntorch-zero, snntorch-zero-early "
    "or snntorch-none"
)


@pytest.fixture
def model(tmp_path: Path) -> str:
    """As snnTorch writes two layers of Leaky(beta=0.9)."""
    ones = np.ones(3)
    cells = [nir.LIF(1e-3 * ones, 10 * ones, 0 * ones, ones) for _ in range(2)]
    layers = [x for cell in cells for x in (nir.Linear(2.0 * np.eye(3)), cell)]
    nodes = {str(k): layer for k, layer in enumerate(layers)}
    nodes = {"in": nir.Input({"input": np.array([3])}), **nodes, "out": nir.Output({"output": np.array([3])})}
    nir.write(tmp_path / "m.nir", nir.NIRGraph(nodes, list(pairwise(nodes)), type_check=False))
    np.save(tmp_path / "in.npy", np.ones((12, 3), np.uint8))
    return str(tmp_path / "m.nir")


def arguments(name: str, model: str) -> list[str]:
    folder = Path(model).parent
    more = {
        "map": ["--chip", "loihi2", "-o", str(folder / "m.map.json")],
        "check": ["--chip", "loihi2"],
        "check map": ["--map", str(folder / "m.map.json")],
        "simulate": ["--input", str(folder / "in.npy"), "-o", str(folder / "out.npz")],
        "quantize": ["--chip", "loihi2", "-o", str(folder / "m.q.npz")],
        "verify": ["--chip", "loihi2", "--input", str(folder / "in.npy")],
        "emit": ["--to", "lava", "-o", str(folder / "program")],
    }
    return [name.split()[0], model, *more.get(name, [])]


def warned(error: str) -> list[str]:
    return [line for line in error.splitlines() if line.startswith("warning:")]


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_says_it_in_one_line_and_in_its_json(
    name: str, model: str, capsys: pytest.CaptureFixture[str]
) -> None:
    mended = ["--repair", "snntorch-subtract"]
    if name == "check map":
        assert run(arguments("map", model)) == 0
        capsys.readouterr()
    assert run(arguments(name, model)) == 0
    shown = capsys.readouterr()
    if name == "inspect":  # its result says it, once
        assert warned(shown.err) == []
        (line,) = [text for text in " ".join(shown.out.split()).split("- ") if SAID in text]
        assert MEND in line
        assert " (possible); " in line
    else:  # one short line
        lost = "the reset is not in the file and is read as a reset to v_reset in the time step of the spike"
        found = f"'m.nir' may have a known fault of its exporter: {SAID.partition(': ')[2]}: {lost}"
        assert "exporter: " not in shown.out or name != "check"
        assert warned(shown.err) == [f"warning: {found}; see nirbridge inspect {model}"]
    assert run([*arguments(name, model), "--json"]) == 0
    shown = capsys.readouterr()
    assert warned(shown.err) == []
    document = json.loads(shown.out)
    (fault,) = [n for n in document["notes"] if "snntorch" in n] if name == "map" else document["faults"]
    assert SAID in fault
    assert MEND in fault
    if name != "check map":
        assert run([*arguments(name, model), *mended]) == 0
        assert warned(capsys.readouterr().err) == []


def notes_of(path: Path) -> Sequence[Any]:
    if path.suffix == ".json":
        return json.loads(path.read_text("utf-8"))["notes"]
    with np.load(path) as file:
        return json.loads(str(file["meta"]))["notes"]


def test_what_is_made_of_the_file_keeps_it(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    folder = Path(model).parent
    for name in ("map", "simulate", "emit"):
        assert run(arguments(name, model)) == 0
    for made in ("m.map.json", "out.npz", "program/program.json"):
        (note,) = [n for n in notes_of(folder / made) if n.startswith("exporter: ")]
        assert SAID in note
    capsys.readouterr()
    other = [*arguments("simulate", model)[:-1], str(folder / "mended.npz"), "--repair", "snntorch-subtract"]
    assert run(other) == 0
    assert run(["compare", str(folder / "out.npz"), str(folder / "mended.npz")]) == 0
    (line,) = warned(capsys.readouterr().err)
    assert line.startswith(f"warning: model of 'out.npz': exporter: {SAID}")
    assert run(["compare", str(folder / "out.npz"), str(folder / "mended.npz"), "--json"]) == 0
    faults = json.loads(capsys.readouterr().out)["faults"]
    assert len(faults["a"]) == 1
    assert faults["b"] == []


def test_the_library_warns_at_the_line_that_reads(model: str) -> None:
    readers = [
        lambda: load_nir(model),
        lambda: load_graph(model),
        lambda: load_network(model),
        lambda: network_of_graph(nir.read(model)),
    ]
    for read in readers:
        with pytest.warns(ExporterFaultWarning) as caught:
            read()
        assert [w.filename for w in caught] == [__file__]
        assert SAID in str(caught[0].message)
        assert "\n" not in str(caught[0].message)


def test_nothing_is_said_of_repaired_files_and_of_our_own(model: str, tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        network = load_network(model, repairs=["snntorch-zero"])
        assert not any(note.startswith("exporter") for note in network.notes)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ExporterFaultWarning)
            plain = from_nir(load_nir(model))
        save_graph(to_nir(plain), tmp_path / "ours.nir")
        assert load_network(tmp_path / "ours.nir").notes == ()


def test_a_lost_edge_stays_said_after_a_repair(model: str, tmp_path: Path) -> None:
    graph = nir.read(model)
    graph.nodes["lost"] = nir.Linear(np.eye(3))
    graph.edges.append(("in", "lost"))
    save_graph(graph, tmp_path / "lost.nir")
    with pytest.warns(ExporterFaultWarning, match="no edge leads out.*import the model itself") as caught:
        load_network(tmp_path / "lost.nir", repairs=["snntorch-subtract"])
    assert len(caught) == 1
