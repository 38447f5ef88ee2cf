"""Commands on a ``.net.npz`` file: the same results as on the ``.nir`` file that it was made from."""

from __future__ import annotations

import json
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nirbridge as nb
from nirbridge.cli.main import run
from nirbridge.errors import ExportWarning, UsageError
from nirbridge.network.neurons import neuron
from nirbridge.network.operators import Dense
from nirbridge.network.storage.file import read_network
from nirbridge.pipeline import file_sha256
from tests.network.storage.nets import reservoir
from tests.network.storage.test_file import assert_same

INSPECTED = ("nodes", "sha256", "totals", "exporter", "nir_version", "dt_from")
"""Keys of a document that are about the NIR file itself."""
MODEL = Path(__file__).resolve().parents[3] / "examples/models/digits_mlp.nir"


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("model.nir").write_bytes(MODEL.read_bytes())
    nb.save(nb.load("model.nir"), "model.net.npz")
    np.save("in.npy", (np.random.default_rng(0).random((5, 64)) < 0.3).astype(np.uint8))


def done(*args: str, code: int = 0, capsys: pytest.CaptureFixture[str]) -> str:
    assert run(list(args)) == code
    captured = capsys.readouterr()
    return captured.err if code else captured.out


def as_json(*args: str, capsys: pytest.CaptureFixture[str]) -> Any:
    return json.loads(done(*args, "--json", capsys=capsys))


def without(document: Any, *names: str) -> Any:
    return {key: value for key, value in document.items() if key not in names}


@pytest.mark.parametrize(
    ("args", "own"),
    [
        (["inspect"], INSPECTED),
        (["inspect", "--portability"], INSPECTED),
        (["check", "--chip", "loihi1"], ("model",)),
        (["map", "--chip", "loihi1"], ("model",)),
        (["simulate", "--input", "in.npy", "-o", "out.npz"], ("model",)),
        (["quantize", "--chip", "loihi1", "-o", "out.q.npz"], ("model",)),
        (["verify", "--chip", "loihi1", "--input", "in.npy"], ("model",)),
        (["emit", "--to", "lava", "-o", "program"], ("model",)),
        (["inspect", "--passes", "eliminate-dead", "--dt", "1e-4"], INSPECTED),
    ],
    ids=lambda value: " ".join(value),
)
def test_a_command_does_the_same(args: list[str], own: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    command, *options = args
    results = [without(as_json(command, f"model{end}", *options, capsys=capsys), *own) for end in (".nir", ".net.npz")]
    assert results[0] == results[1]
    assert results[0]


def test_totals_are_those_of_the_arrays(capsys: pytest.CaptureFixture[str]) -> None:
    shown = as_json("inspect", "model.net.npz", capsys=capsys)
    totals = as_json("inspect", "model.nir", capsys=capsys)["totals"]
    network = nb.load("model.nir")
    assert shown["nodes"] == []
    assert without(shown["totals"], "parameters", "weights") == without(totals, "parameters", "weights")
    weights = sum(p.operator.weight.size for p in network.projections if isinstance(p.operator, Dense))
    assert shown["totals"]["weights"] == weights + sum(p.bias.size for p in network.projections if p.bias is not None)
    text = done("inspect", "model.net.npz", capsys=capsys)
    assert "projections" in text
    assert "node " not in text


def test_a_map_of_a_network_file_is_of_this_file(capsys: pytest.CaptureFixture[str]) -> None:
    done("map", "model.net.npz", "--chip", "loihi1", "-o", "a.map.json", capsys=capsys)
    done("check", "model.net.npz", "--map", "a.map.json", capsys=capsys)
    said = done("check", "model.nir", "--map", "a.map.json", code=1, capsys=capsys)
    assert "model" in said
    assert "is MODEL 'model.net.npz', which this command reads" in done(
        "map", "model.net.npz", "--chip", "loihi1", "-o", "model.net.npz", code=2, capsys=capsys
    )


def test_a_network_file_is_shown_and_compared(capsys: pytest.CaptureFixture[str]) -> None:
    network = nb.load("model.nir")
    one, *others = network.populations
    cell = replace(one.neuron, bias=neuron("LIF", bias=0.5).bias)
    nb.save(replace(network, populations=(replace(one, neuron=cell), *others), notes=("other",)), "other.net.npz")
    shown = as_json("show", "model.net.npz", capsys=capsys)
    assert (shown["kind"], shown["file"], shown["totals"]["neurons"]) == ("network", "model.net.npz", 74)
    text = done("show", "model.net.npz", capsys=capsys)
    assert all(name in text for name in ("leaky_1", "leaky_3", "projections", "dt 100 us"))
    assert "no difference" in done("diff", "model.net.npz", "model.net.npz", capsys=capsys)
    assert run(["diff", "model.net.npz", "other.net.npz", "--json"]) == 1
    found = json.loads(capsys.readouterr().out)["differences"]
    assert [each["name"] for each in found] == ["populations 'leaky_1'.neuron.bias"]


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["--dt", "0.5"], "dt 0.5 is requested, it has 0.0001"),
        (["--repair", "norse"], "repair 'norse' is requested, exporters write .nir files"),
        (["--repair", "batch-axis"], "repair 'batch-axis' is requested"),
        (["--max-bytes", "99"], "at most 99 are read; raise --max-bytes"),
    ],
)
def test_options_that_do_not_apply(args: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    for command in (["inspect"], ["map", "--chip", "loihi1"]):
        assert message in done(command[0], "model.net.npz", *command[1:], *args, code=2, capsys=capsys)


def test_archives_of_other_kinds_are_no_models(capsys: pytest.CaptureFixture[str]) -> None:
    nb.save(nb.quantize(nb.load("model.nir"), "loihi1"), "model.q.npz")
    nb.save(nb.simulate(nb.load("model.nir"), np.load("in.npy")), "recording.npz")
    expected = "'model.q.npz': is not a network; give a .nir or .net.npz file"
    assert expected in done("map", "model.q.npz", "--chip", "loihi1", code=2, capsys=capsys)
    assert "5 time steps" in done("inspect", "recording.npz", capsys=capsys)  # shown, but no model
    assert "'recording.npz'" in done("map", "recording.npz", "--chip", "loihi1", code=2, capsys=capsys)


# -- the front door ----------------------------------------------------------------------------------------------------


def test_load_and_save() -> None:
    network = nb.load("model.net.npz")
    assert network.file is not None
    assert network.file.name == "model.net.npz"
    assert_same(replace(network, file=None), replace(nb.load("model.nir"), file=None))
    network.save("again.net.npz")
    assert Path("again.net.npz").read_bytes() == Path("model.net.npz").read_bytes()
    assert nb.load("model.net.npz", dt=network.dt).dt == network.dt
    with pytest.raises(UsageError, match="dt 0.5 is requested"):
        nb.load("model.net.npz", dt=0.5)
    with pytest.raises(UsageError, match="is not a model file, a model file ends in .nir, .net.npz, .mlir or .net"):
        nb.load("recording.npz")


def test_a_graph_is_saved_as_its_network() -> None:
    from nirbridge.pipeline import load_graph

    nb.save(load_graph("model.nir"), "graph.net.npz")
    assert read_network("graph.net.npz").neurons == 74


@pytest.mark.parametrize(("neurons", "ending"), [(200, ".nir"), (4_000, ".net.npz")])
def test_the_map_of_a_network_names_the_file_that_holds_it(neurons: int, ending: str) -> None:
    """4,000 neurons: 16,000,000 weights as a dense matrix."""
    network = reservoir(neurons, 2)
    mapped = nb.map(network, "loihi2", effort="fast", retime="never", placement_only=True)
    nb.save(mapped, "a.map.json")
    model = json.loads(Path("a.map.json").read_text())["model"]
    assert model["file"] == f"a{ending}"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ExportWarning)
        nb.save(network, f"a{ending}")
    assert file_sha256(f"a{ending}") == model["sha256"]
    assert len(nb.load_map("a.map.json", network, placement_only=True).blocks) == len(mapped.partition.blocks)
