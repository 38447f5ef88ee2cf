"""The package of tests/plugin, found by its entry point as if installed: each of its names works in a command."""

from __future__ import annotations

import json
import shutil
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nirbridge import pipeline
from nirbridge import plugins as registry
from nirbridge.chips import read_chip
from nirbridge.cli.main import run
from nirbridge.errors import UsageError
from nirbridge.network.model import Network
from nirbridge.plugins import BUILTIN
from nirbridge.quantization.model import QuantizedNetwork
from nirbridge.quantization.storage.file import read_quantized
from nirbridge.simulators.fixed.simulate import simulate_fixed
from nirbridge.simulators.recording_file import read_recording
from nirbridge.simulators.types import Probe
from nirbridge.testing import Example, check_plugin

PLUGIN = Path(__file__).parent / "plugin"


@pytest.fixture(autouse=True)
def _installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """What ``pip install tests/plugin`` leaves: the package and its entry points, here in a folder of their own."""
    site = tmp_path / "site"
    shutil.copytree(PLUGIN / "nirbridge_example_plugin", site / "nirbridge_example_plugin")
    project = tomllib.loads((PLUGIN / "pyproject.toml").read_text("utf-8"))["project"]
    info = site / "nirbridge_example_plugin-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: 1.0\n")
    points = project["entry-points"]["nirbridge.plugins"]
    text = "\n".join(f"{name} = {where}" for name, where in points.items())
    (info / "entry_points.txt").write_text(f"[nirbridge.plugins]\n{text}\n")
    monkeypatch.syspath_prepend(str(site))
    yield
    for name in [name for name in sys.modules if name.startswith("nirbridge_example_plugin")]:
        del sys.modules[name]


@pytest.fixture
def model(tmp_path: Path) -> str:
    """Made by the plugin's importer, from the command line."""
    (tmp_path / "net.py").write_text("net = [[[0.5, 2.0], [1.0, 1.0], [3.0, 0.0]], [[1.0, 2.0, 3.0]]]\n")
    target = f"{tmp_path / 'net.py'}:net"
    saved = str(tmp_path / "net.nir")
    assert run(["import", target, "--from", "weights", "--sample-shape", "2", "--dt", "2e-3", "-o", saved]) == 0
    return saved


def test_an_importer(model: str) -> None:
    network = pipeline.load_network(model)
    assert network.dt == 2e-3
    assert [p.shape for p in network.populations] == [(3,), (1,)]


def test_a_chip(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["chips", "tiny", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["name"] == "tiny"
    assert "tiny" in registry.chip_names()


def test_a_partitioner_is_checked_like_any_other(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["map", model, "--chip", "tiny", "--method", "one_each", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["proof"]["method"] == "one_each"
    assert document["totals"]["cores_used"] == 2


def test_an_emitter(model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    program = tmp_path / "program"
    assert run(["emit", model, "--to", "csv", "--chip", "loihi1", "-o", str(program)]) == 0
    assert (program / "cores.csv").read_text("utf-8").splitlines()[0] == "core,population,neurons"
    assert "3 files\ndigest " in capsys.readouterr().out
    assert run(["emit", model, "--to", "csv", "--floating", "-o", str(program)]) == 2
    assert capsys.readouterr().err.startswith("error: emitter 'csv': given with --floating, it has no such option")


def test_the_options_of_an_emitter_are_flags(model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    line = ["emit", model, "-o", str(tmp_path / "program"), "--to"]
    first, second = (p.name for p in pipeline.load_network(model).populations)
    assert run([*line, "csv", "--separator", ";", "--no-header", "--only", f"{second}, {first}"]) == 0
    assert (tmp_path / "program" / "cores.csv").read_text("utf-8").splitlines() == [f"0;{first};3", f"0;{second};1"]
    assert run([*line, "csv", "--only", second]) == 0
    table = (tmp_path / "program" / "cores.csv").read_text("utf-8").splitlines()
    assert table == ["core,population,neurons", f"0,{second},1"]
    capsys.readouterr()
    assert run([*line, "stepper", "--separator", ";", "--no-header"]) == 2
    refused = "error: emitter 'stepper': given with --separator, --header, it has no such option; leave it out\n"
    assert capsys.readouterr().err == refused
    assert run([*line, "csv", "--seperator", ";"]) == 2
    assert "no such option '--seperator'; did you mean '--separator'?" in capsys.readouterr().err


def test_help_lists_targets_and_their_options(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["emit", "--help"]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "tinygrad, verilog, csv, stepper. [required]" in text
    assert run(["map", "--help-all"]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "sequential, packed, cp-sat, one_each." in text
    assert run(["emit", "--help-all"]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "--separator TEXT Text between two columns (csv; default: ,)." in text
    assert "--header / --no-header Name the columns in the first line (csv; default: True)." in text
    assert "--only TEXT,... Populations in the table (csv)." in text
    assert "csv a table of cores and neurons stepper" in text
    for name in ("run", "verify"):
        assert run([name, "--help-all"]) == 0
        listed = capsys.readouterr().out.partition("\nTargets:\n")[2].split()
        assert {"lava", "iree", "stepper"} <= set(listed)
        assert "csv" not in listed


def test_a_broken_emitter_hides_no_other(
    model: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    registry.get("emitters", "csv")
    monkeypatch.setattr(sys.modules["nirbridge_example_plugin.table"].CSV.__class__, "options", "none")
    assert run(["emit", model, "--to", "jax", "--dtype", "float64", "-o", str(tmp_path / "program")]) == 0
    assert run(["emit", "--help-all"]) == 0
    assert "--dtype" in (text := capsys.readouterr().out)
    assert "--separator" not in text


def test_emitters_are_imported_for_their_flags_alone(model: str, tmp_path: Path) -> None:
    assert run(["emit", model, "--to", "c", "-o", str(tmp_path / "c")]) == 0
    assert "nirbridge_example_plugin.table" not in sys.modules


@pytest.mark.parametrize("more", [["--per-core"], ["--graded", "in=1.0:8"]])
def test_an_emitter_of_maps_takes_options_of_maps_and_integers(model: str, more: list[str], tmp_path: Path) -> None:
    port = pipeline.load_network(model).inputs[0].name
    more = [text.replace("in=", f"{port}=") for text in more]
    assert run(["emit", model, "--to", "csv", "--chip", "loihi2", "-o", str(tmp_path / "program"), *more]) == 0
    assert (tmp_path / "program" / "cores.csv").is_file()


@pytest.mark.parametrize(
    ("kind", "options", "given"),
    [
        (Network, {"per_core": True}, "--per-core"),
        (Network, {"graded": {"in": (1.0, 8)}, "weight_bits": 4}, "--graded, --bits"),
        (Network, {"mapping": object()}, "--map"),
        (QuantizedNetwork, {"mapping": object()}, "--map"),
    ],
)
def test_an_emitter_names_what_it_takes(
    model: str, kind: type, options: dict[str, Any], given: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    network, chip = pipeline.load_network(model), read_chip("loihi2")
    registry.get("emitters", "stepper")
    monkeypatch.setattr(type(vars(sys.modules["nirbridge_example_plugin.stepper"])["STEPPER"]), "takes", (kind,))
    with pytest.raises(UsageError) as caught:
        pipeline.emit_with("stepper", network, chip, **options)
    assert str(caught.value) == f"emitter 'stepper': given with {given}, it takes {kind.__name__}; leave them out"


def test_every_name_conforms() -> None:
    from nirbridge_example_plugin import PLUGIN

    weights = [np.array([[0.5, 2.0], [1.0, 1.0], [3.0, 0.0]]), np.array([[1.0, 2.0, 3.0]])]
    check_plugin(PLUGIN, examples={"weights": Example(weights, np.zeros(2))})


@pytest.mark.parametrize("more", [[], ["--weight-bits", "6"]])
def test_an_emitted_program_is_verified(model: str, more: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["verify", model, "--chip", "loihi2", "--to", "stepper", "--steps", "30", "--json", *more]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["verdict"].startswith("fixed == mapped == stepper: every spike, u and v; reference ~ fixed")
    assert [(p["b"], p["equal"]) for p in document["pairs"] if p["required"]] == [("mapped", True), ("stepper", True)]


def test_a_program_that_differs_is_found(
    model: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    registry.get("emitters", "stepper")
    module = sys.modules["nirbridge_example_plugin.stepper"]
    decayed = vars(module)["_decayed"]
    monkeypatch.setattr(module, "_decayed", lambda x, k: decayed(x, k) + (np.abs(x) > 64))
    assert run(["verify", model, "--chip", "loihi2", "--to", "stepper", "--steps", "30"]) == 1
    assert "fixed and stepper differ" in capsys.readouterr().err


def test_a_saved_program_is_run(model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    program, saved = str(tmp_path / "program"), str(tmp_path / "model.q.npz")
    assert run(["quantize", model, "--chip", "loihi2", "-o", saved]) == 0
    assert run(["emit", saved, "--to", "stepper", "-o", program]) == 0
    spikes = np.ones((9, 2), np.uint8)
    np.save(tmp_path / "in.npy", spikes)
    capsys.readouterr()
    out = str(tmp_path / "out.npz")
    assert run(["run", program, "--input", str(tmp_path / "in.npy"), "--record", "*:s,u,v", "-o", out]) == 0
    expected = simulate_fixed(read_quantized(saved), spikes, record=[Probe("*", ("s", "u", "v"))]).recording
    found = read_recording(out).arrays
    assert found.keys() == expected.arrays.keys()
    assert all(np.array_equal(array, found[key]) for key, array in expected.arrays.items())
    Path(program, "model.q.npz").write_bytes(b"changed")
    assert run(["run", program, "--input", str(tmp_path / "in.npy"), "-o", out]) == 2
    assert "its file 'model.q.npz' is missing or was changed" in capsys.readouterr().err


def test_a_program_that_nothing_runs_is_not_verified(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["verify", model, "--chip", "loihi2", "--to", "csv"]) == 2
    assert capsys.readouterr().err.startswith("error: emitter 'csv': records nothing, nothing runs its programs")


def test_an_emitter_without_maps_is_not_emitted_core_by_core(model: str) -> None:
    network, chip = pipeline.load_network(model), read_chip("loihi2")
    takes = "^emitter 'stepper': given with --per-core, it takes QuantizedNetwork; leave them out$"
    with pytest.raises(UsageError, match=takes):
        pipeline.emit_with("stepper", network, chip, per_core=True)
    whole, per_core = (pipeline.emit_with("csv", network, chip, per_core=each) for each in (False, True))
    assert whole.digest == per_core.digest


def test_a_simulator(model: str, tmp_path: Path) -> None:
    np.save(tmp_path / "in.npy", np.ones((9, 2), np.uint8))
    found = []
    for backend in ("auto", "twice"):
        out = str(tmp_path / f"{backend}.npz")
        assert run(["simulate", model, "--input", str(tmp_path / "in.npy"), "--backend", backend, "-o", out]) == 0
        found.append(read_recording(out).arrays)
    assert found[0].keys() == found[1].keys()
    assert all(np.array_equal(array, found[1][key]) for key, array in found[0].items())


def test_a_pass(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    network = registry.get("passes", "louder")(times=2)(pipeline.load_network(model))
    assert network.notes[-2:] == ("louder", "louder")
    assert run(["inspect", model, "--json", "--passes", 'louder{word="a b"},eliminate-dead']) == 0
    notes = json.loads(capsys.readouterr().out)["notes"]
    assert notes[-2:] == ["a b", 'passes applied on request: louder{word="a b"},eliminate-dead']


@pytest.mark.parametrize("kind", registry.KINDS)
def test_names_of_nirbridge_itself_are_found_in_the_same_way(kind: str) -> None:
    if kind == "chips":
        assert registry.find_chip("loihi1") == read_chip("loihi1")
        return
    names = [n for n in getattr(registry.BUILTIN, kind) if n not in {"torch", "norse", "rockpool", "sinabs"}]
    assert names
    assert all(registry.get(kind, name) for name in names)


KNOWN = ", ".join(sorted([*BUILTIN.emitters, "csv", "stepper"]))


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (
            ["map", "--chip", "loihi1", "--method", "one"],
            "error: partitioner 'one': unknown, known partitioners: cp-sat, one_each, p",
        ),
        (
            ["emit", "--to", "cvs", "-o", "x"],
            f"error: emitter 'cvs': unknown, known emitters: {KNOWN}",
        ),
        (
            ["simulate", "--input", "in.npy", "-o", "x.npz", "--backend", "tw"],
            "error: simulator 'tw': unknown, known simulators: auto, best, dense, event, fast, fixed, mapped, "
            "numpy, reference, twice",
        ),
    ],
)
def test_unknown_names_list_the_plugins_too(
    arguments: list[str],
    words: str,
    model: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    np.save("in.npy", np.ones((3, 2), np.uint8))
    assert run([arguments[0], model, *arguments[1:]]) == 2
    assert capsys.readouterr().err.startswith(words)


def test_an_unknown_importer_is_said_before_the_code_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "net.py").write_text("raise SystemExit(7)\n")
    out = str(tmp_path / "x.nir")
    assert run(["import", f"{tmp_path / 'net.py'}:net", "--from", "weight", "--sample-shape", "2", "-o", out]) == 2
    assert capsys.readouterr().err.startswith(
        "error: importer 'weight': unknown, known importers: norse, rockpool, sinabs, "
    )


def test_an_unknown_pass() -> None:
    with pytest.raises(UsageError, match="^pass 'quieter': unknown, known passes: eliminate-dead, .*louder"):
        registry.get("passes", "quieter")
