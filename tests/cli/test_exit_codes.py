"""Exit codes 0, 1, 2 and 3 of every command, one JSON document in each case, and no half-written file."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import nir
import numpy as np
import pytest

from nirbridge import pipeline
from nirbridge import plugins as registry
from nirbridge.cli import main as cli
from nirbridge.cli.commands import completion
from nirbridge.cli.main import run
from nirbridge.importers import save_nir
from nirbridge.report import inspect as inspect_document
from nirbridge.report.html import document
from nirbridge.simulators.simulate import Probe
from nirbridge.viewer import page
from tests.network.graphs import graph_of, lif, out, port

NAMES = [name for name, _, _ in cli.COMMANDS]
OUTPUTS = {
    "map": "m.map.json",
    "simulate": "o.npz",
    "quantize": "m.q.npz",
    "emit": "program",
    "run": "o.npz",
    "import": "o.nir",
}
"""What a command writes, as named in ``arguments``."""
READERS = ("map", "check", "simulate", "quantize", "profile", "verify", "inspect", "emit", "bench", "lower")


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model, one without an exact meaning, a damaged one, inputs and three recordings."""
    folder = tmp_path_factory.mktemp("files")
    edges = [("in", "a"), ("a", "out")]
    save_nir(graph_of({"in": port(2), "a": lif(2), "out": out(2)}, edges, dt=1e-4), folder / "m.nir")
    late = {"in": port(2), "d": nir.Delay(np.full(2, 1.5e-4)), "a": lif(2), "out": out(2)}
    save_nir(graph_of(late, [("in", "d"), ("d", "a"), ("a", "out")], dt=1e-4), folder / "late.nir")
    (folder / "bad.nir").write_bytes((folder / "m.nir").read_bytes()[:900])
    network = pipeline.load_network(folder / "m.nir")
    every = [Probe("in", ("s",)), Probe("a", ("v",))]
    for name, spikes, record in (("a", 1, None), ("b", 0, every), ("c", 1, every)):
        inputs = np.full((5, 2), spikes, np.uint8)
        np.save(folder / "in.npy", inputs)
        pipeline.write_recording(pipeline.simulate_network(network, inputs, record=record), folder / f"{name}.npz")
    (folder / "net.py").write_text("net = 3\n")
    (folder / "s.toml").write_text('models = ["m.nir"]\nchips = ["loihi1"]\n')
    return folder


@pytest.fixture(autouse=True)
def _here(files: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(files, tmp_path / "here")
    monkeypatch.chdir(tmp_path / "here")


def arguments(name: str, model: str = "m.nir") -> list[str]:
    return {
        "map": ["map", model, "--chip", "loihi1", "-o", "m.map.json"],
        "check": ["check", model, "--chip", "loihi1"],
        "simulate": ["simulate", model, "--input", "in.npy", "-o", "o.npz"],
        "quantize": ["quantize", model, "--chip", "loihi1", "-o", "m.q.npz"],
        "verify": ["verify", model, "--chip", "loihi1", "--input", "in.npy"],
        "profile": ["profile", model, "--chip", "loihi1", "--input", "in.npy"],
        "sweep": ["sweep", "s.toml"],
        "bench": ["bench", model, "--backend", "reference", "--input", "in.npy", "--batch", "1"],
        "inspect": ["inspect", model],
        "lower": ["lower", model],
        "compare": ["compare", "a.npz", "a.npz"],
        "emit": ["emit", model, "--to", "lava", "-o", "program"],
        "stream": ["stream", model, "--listen", "no/socket"],
        "run": ["run", "program", "--input", "in.npy", "-o", "o.npz"],
        "import": ["import", "net.py:net", "--from", "torch", "--sample-shape", "2", "-o", "o.nir"],
        "chips": ["chips", "loihi1"],
        "show": ["show", "a.npz"],
        "diff": ["diff", "a.npz", "a.npz"],
        "report": ["report", model, "-o", "o.html"],
        "view": ["view", model, "-o", "o.html"],
        "doctor": ["doctor"],
        "completion": ["completion", "bash"],
    }[name]


def left() -> set[str]:
    return {p.name for p in Path().iterdir()}


def lava(ready: bool) -> Callable[[], Any]:
    from nirbridge.emitters.lava.runtime.environment import LavaStatus

    return lambda: LavaStatus(Path("python"), "a test") if ready else LavaStatus(None, "", {}, "none", "install it")


# -- 0 -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [n for n in NAMES if n not in ("run", "import", "stream")])  # Lava, torch, frames
def test_done(name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(pipeline, "environment_status", lava(ready=True))
    assert run([*arguments(name), "--json"]) == 0
    assert isinstance(json.loads(capsys.readouterr().out), dict)
    assert name not in OUTPUTS or OUTPUTS[name] in left()


# -- 1 -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", READERS)
def test_a_model_that_can_not_do_it(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    before = left()
    assert run([*arguments(name, "late.nir"), "--json"]) == 1
    captured = capsys.readouterr()
    assert json.loads(captured.out)["error"]["type"] == "ModelError"
    assert captured.err.startswith("error: node 'd' (Delay): a delay of 0.00015 s is 1.5 steps of dt")
    assert left() == before


def test_recordings_that_differ(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["compare", "b.npz", "c.npz"]) == 0
    assert run(["compare", "b.npz", "c.npz", "--expect-equal"]) == 1
    assert "--expect-equal was given" in capsys.readouterr().err


def test_files_that_differ(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["diff", "b.npz", "c.npz"]) == 1
    assert run(["diff", "b.npz", "c.npz", "--json"]) == 1
    assert capsys.readouterr().err == ""


def test_no_lava(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipeline, "environment_status", lava(ready=False))
    for words in (["doctor", "lava"], ["lava", "status"]):  # the second as in version 0.1
        assert run(words) == 1


# -- 2 -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", READERS)
def test_a_model_that_can_not_be_read(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    before = left()
    for model, words in (
        ("bad.nir", "error: 'bad.nir': it is damaged"),
        ("no.nir", "error: 'no.nir': it cannot be op"),
    ):
        assert run([*arguments(name, model), "--json"]) == 2
        captured = capsys.readouterr()
        assert json.loads(captured.out)["error"]["type"] == "FileError"
        assert captured.err.startswith(words)
    assert left() == before


@pytest.mark.parametrize("name", NAMES)
def test_an_option_that_is_none(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    before = left()
    assert run([*arguments(name), "--jsn"]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith(f"error: nirbridge {name}: no such option '--jsn'")
    assert "--json" in captured.err
    assert captured.err.endswith(f"nirbridge {name} --help\n")
    assert left() == before


@pytest.mark.parametrize("option", ["--batch", "--steps"])
def test_an_extent_that_mlir_does_not_hold(option: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*arguments("lower"), option, str(10**20)]) == 2
    assert f"invalid value for '{option}': {10**20} is not in the range 1<=x<=" in capsys.readouterr().err


@pytest.mark.parametrize("name", [n for n in NAMES if n not in ("view", "chips", "doctor")])
def test_nothing_given(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run([name]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith(("error: nirbridge", "error: check: needs one of MODEL.nir and --shapes"))


@pytest.mark.parametrize(
    "changed",
    [
        ["map", "m.nir", "--chip", "lohi1"],
        ["check", "m.nir", "--map", "in.npy"],
        ["simulate", "m.nir", "--input", "m.nir", "-o", "o.npz"],
        ["simulate", "m.nir", "--input", "in.npy", "-o", "no/o.npz"],
        ["quantize", "m.nir", "--chip", "loihi1", "--bits", "many", "-o", "m.q.npz"],
        ["verify", "m.nir", "--chip", "loihi1", "--input", "no.npy"],
        ["inspect", "m.nir", "--dt", "0"],
        ["compare", "a.npz", "in.npy"],
        ["emit", "m.nir", "--to", "lav", "-o", "program"],
        ["emit", "m.nir", "--to", "lava", "-o", "m.nir"],
        ["run", ".", "--input", "in.npy", "-o", "o.npz"],
        ["lava", "status", "--again"],
        ["doctor", "gcc", "--install"],
        ["bench", "m.nir", "--backend", "fsat"],
        ["import", "none.py:net", "--from", "torch", "--sample-shape", "2", "-o", "o.nir"],
        ["chips", "lohi1"],
        ["show", "in.npy"],
        ["diff", "a.npz", "m.nir"],
        ["report", "m.nir", "--map", "a.npz", "-o", "o.html"],
        ["view", "in.npy", "-o", "o.html"],
        ["doctor", "jaxx"],
        ["completion", "csh"],
    ],
    ids=" ".join,
)
def test_bad_input_of_every_command(changed: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    before, kept = left(), Path("m.nir").read_bytes()
    assert run(changed) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("error: ")
    assert left() == before
    assert Path("m.nir").read_bytes() == kept


@pytest.mark.parametrize("where", ["no/such/m.map.json", "."])
def test_where_a_map_can_not_go_is_said_before_the_work(
    where: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(pipeline, "map_network", lambda *_: pytest.fail("mapped all the same"))
    assert run(["map", "m.nir", "--chip", "loihi1", "-o", where]) == 2
    assert capsys.readouterr().err.splitlines()[-1].startswith(f"error: -o '{where}': ")


def test_a_report_that_can_not_be_written_leaves_no_map(capsys: pytest.CaptureFixture[str]) -> None:
    before = left()
    assert run([*arguments("map"), "--report", "m.nir"]) == 2
    assert "error: --report 'm.nir': is not a folder" in capsys.readouterr().err
    assert left() == before


# -- 3 -----------------------------------------------------------------------------------------------------------

CRASHES: dict[str, tuple[Any, str]] = {
    "map": (pipeline, "map_network"),
    "check": (pipeline, "check_fit"),
    "simulate": (pipeline, "write_recording"),
    "quantize": (pipeline, "write_quantized"),
    "profile": (pipeline, "profile_network"),
    "sweep": (pipeline, "map_network"),
    "bench": (pipeline, "bench_network"),
    "verify": (pipeline, "verify_network"),
    "inspect": (inspect_document, "inspect_graph"),
    "lower": (pipeline, "lower_model"),
    "compare": (pipeline, "compare"),
    "emit": (pipeline, "write_program"),
    "stream": (pipeline, "load_network"),
    "run": (pipeline, "run_emitted"),
    "import": (registry, "get"),
    "chips": (registry, "find_chip"),
    "show": (pipeline, "load_saved"),
    "diff": (pipeline, "differences"),
    "report": (document, "write_page"),
    "view": (page, "write_viewer"),
    "doctor": (pipeline, "tool_states"),
    "completion": (completion, "script_of"),
}
"""Where each command is made to break: as late as it can be."""


def test_an_error_that_an_interrupt_caused_is_an_interrupt(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A ZIP file that Ctrl-C leaves in mid-member cannot be closed: the error is raised in place of the interrupt."""

    def cut_off(*args: object, **options: object) -> NoReturn:
        try:
            raise KeyboardInterrupt
        finally:
            raise ValueError("cannot close the ZIP file")

    monkeypatch.setattr(*CRASHES["chips"], cut_off)
    assert run(arguments("chips")) == 130
    assert capsys.readouterr().err == "nirbridge: interrupted\n"


@pytest.mark.parametrize("name", NAMES)
def test_a_bug_of_ours(name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    before = left()

    def broken(*args: object, **options: object) -> NoReturn:
        raise ZeroDivisionError("division by zero")

    monkeypatch.setattr(*CRASHES[name], broken)
    more = ["--calibrate", "in.npy"] if name == "import" else []
    assert run([*arguments(name), *more, "--json"]) == 3
    captured = capsys.readouterr()
    text = captured.err.splitlines()[-1] if name == "stream" else captured.out  # whose stdout has the frames
    assert json.loads(text)["error"]["type"] == "Bug"
    assert captured.err.startswith(
        "error: this is a bug of nirbridge: ZeroDivisionError: division by zero; please report"
    )
    assert left() == before
