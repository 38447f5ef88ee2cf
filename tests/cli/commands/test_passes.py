# ruff: noqa: E501  (tables of messages read better in one line)
"""``--passes`` of every command that reads a model, and ``inspect --print-after``."""

from __future__ import annotations

import json
from pathlib import Path

import nir
import numpy as np
import pytest

from nirbridge.cli.main import run
from nirbridge.importers import save_nir
from nirbridge.passes import EliminateDead
from nirbridge.pipeline import load_network
from nirbridge.simulators.recording_file import read_recording
from tests.network.graphs import graph_of, lif, out, port

TEXT = "eliminate-dead,replicate-source{name=a,ways=2}"
NOTE = f"passes applied on request: {TEXT}"


@pytest.fixture
def model(tmp_path: Path) -> str:
    rng = np.random.default_rng(0)
    nodes = {
        "in": port(3),
        "fc1": nir.Linear(rng.integers(-8, 16, (4, 3)) / 8),
        "a": lif(4, tau=2e-4, theta=0.25),
        "fc2": nir.Linear(rng.integers(-8, 16, (5, 4)) / 8),
        "b": lif(5, tau=2e-4, theta=0.25),
        "out": out(5),
        "dead": lif(3),
    }
    edges = [("in", "fc1"), ("fc1", "a"), ("a", "fc2"), ("fc2", "b"), ("b", "out"), ("in", "dead")]
    save_nir(graph_of(nodes, edges, dt=1e-4), tmp_path / "model.nir")
    np.save(tmp_path / "in.npy", rng.integers(0, 2, (30, 3)).astype(np.uint8))
    return str(tmp_path / "model.nir")


def told(capsys: pytest.CaptureFixture[str]) -> str:
    return capsys.readouterr().err


def test_a_map_is_of_the_rewritten_network(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    saved = model.removesuffix(".nir") + ".map.json"
    assert run(["map", model, "--chip", "loihi1", "--passes", TEXT, "-o", saved, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert [p["name"] for p in document["populations"]] == ["a", "a_copy", "b"]
    assert NOTE in document["notes"]
    assert run(["check", model, "--map", saved, "--passes", TEXT]) == 0
    assert run(["check", model, "--map", saved]) == 1
    source = ["--input", str(Path(model).parent / "in.npy"), "-o", str(Path(model).parent / "out.npz")]
    on_map = ["simulate", model, "--backend", "mapped", "--chip", "loihi1", "--map", saved, *source]
    assert run([*on_map, "--passes", TEXT]) == 0
    assert run(on_map) == 1


def test_outputs_stay_the_same(model: str) -> None:
    folder = Path(model).parent
    source = ["--input", str(folder / "in.npy"), "--record", "out:s"]
    for name, passes in (("before", []), ("after", ["--passes", TEXT])):
        assert run(["simulate", model, *source, "-o", str(folder / f"{name}.npz"), *passes]) == 0
    before, after = (read_recording(folder / f"{name}.npz").arrays for name in ("before", "after"))
    assert before.keys() == after.keys()
    assert all(np.array_equal(before[key], after[key]) for key in before)
    assert sum(array.sum() for array in before.values()) > 10


@pytest.mark.parametrize(
    "arguments",
    [
        ["check", "--chip", "loihi1"],
        ["quantize", "--chip", "loihi1", "-o", "OUT.q.npz"],
        ["emit", "--to", "lava", "--chip", "loihi2", "-o", "OUT"],
        ["verify", "--chip", "loihi1", "--steps", "5"],
        ["inspect"],
    ],
    ids=lambda arguments: arguments[0],
)
def test_every_command_with_a_model_takes_passes(
    arguments: list[str], model: str, capsys: pytest.CaptureFixture[str]
) -> None:
    command, *options = [str(Path(model).parent / a) if a.startswith("OUT") else a for a in arguments]
    assert run([command, model, *options, "--passes", TEXT]) == 0
    assert run([command, model, *options, "--passes", "replicate-source{name=c,ways=2}"]) == 2
    assert "error: split: no population 'c', there are 'a', 'b', 'dead'; name one\n" in told(capsys)


def test_a_network_of_shapes_is_rewritten_too(capsys: pytest.CaptureFixture[str]) -> None:
    given = [
        "--shapes",
        "4 dense8 lif dense3 lif",
        "--chip",
        "loihi1",
        "--passes",
        "replicate-source{name=2_lif,ways=2}",
    ]
    assert run(["check", *given]) == 0
    assert run(["check", *given[:-1], "replicate-source{name=3_lif,ways=2}"]) == 2
    assert "error: split: no population '3_lif'" in told(capsys)


def test_inspect_shows_populations_after_and_nodes_before(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["inspect", model, "--json", "--passes", TEXT]) == 0
    document = json.loads(capsys.readouterr().out)
    assert [p["name"] for p in document["populations"]] == ["a", "a_copy", "b"]
    assert "dead" in {node["name"] for node in document["nodes"]}
    assert document["totals"]["neurons"] == 13
    assert NOTE in document["notes"]


def test_networks_are_printed_after_the_passes_that_are_named(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    def printed(*options: str) -> list[str]:
        assert run(["inspect", model, "--json", "--passes", TEXT, *options]) == 0
        return [line for line in told(capsys).splitlines() if line.startswith("network after")]

    first, second = "network after eliminate-dead:", "network after replicate-source{name=a,ways=2}:"
    assert printed() == []
    assert printed("--print-after", "eliminate-dead") == [first]
    assert printed("--print-after", "replicate-source", "--print-after", "eliminate-dead") == [first, second]
    assert printed("--print-after", "all") == [first, second]


def test_the_text_of_a_network_is_its_summary(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["inspect", model, "--json", "--passes", "eliminate-dead", "--print-after", "all"]) == 0
    summary = EliminateDead()(load_network(model)).summary()
    assert f"network after eliminate-dead:\n{summary}\n" in told(capsys)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--print-after", "all"], "--print-after: given without --passes, it names one of them; add --passes TEXT"),
        (["--passes", TEXT, "--print-after", "retime"], "--print-after 'retime': none of the passes, the passes are eliminate-dead, replicate-source; name one of them, or all"),
        (["--passes", TEXT, "--print-after", "eliminate-ded"], "--print-after 'eliminate-ded': none of the passes, the passes are eliminate-dead, replicate-source; did you mean 'eliminate-dead'?"),
        (["--passes", "eliminate-dead,"], "passes 'eliminate-dead,': character 16 is the end where a pass is expected, as in eliminate-dead,replicate-source{name=fc1,ways=2}"),
        (["--passes", "eliminate-ded"], "pass 'eliminate-ded': unknown, "),
        (["--passes", "replicate-source{name=c,ways=2}"], "split: no population 'c', there are 'a', 'b', 'dead'; name one"),
    ],
)  # fmt: skip
def test_passes_that_make_no_sense(
    options: list[str], words: str, model: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["inspect", model, *options]) == 2
    assert told(capsys).startswith(f"error: {words}")


def test_integers_that_are_chosen_already_take_no_passes(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    saved = model.removesuffix(".nir") + ".q.npz"
    assert run(["quantize", model, "--chip", "loihi1", "-o", saved]) == 0
    assert run(["emit", saved, "--to", "lava", "-o", str(Path(model).parent / "p"), "--passes", "retime"]) == 2
    assert "given with other options, its integers are fixed" in told(capsys)
