"""Every parameter of every command that names a file: a FIFO, a folder or a socket ends the command at once."""

from __future__ import annotations

import os
import shutil
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click
import numpy as np
import pytest

from nirbridge.cli.common import OutputFile, OutputFolder, ReportFolder
from nirbridge.cli.main import COMMANDS, run
from nirbridge.files.attributes import load_attribute
from nirbridge.importers import save_nir
from tests.network.graphs import graph_of, lif, out, port

BASES = {
    "map": "m.nir --chip loihi1",
    "check": "m.nir --chip loihi1",
    "simulate": "m.nir --input in.npy -o out.npz",
    "stream": "m.nir --listen 70000",
    "quantize": "m.nir --chip loihi1 -o out.q.npz",
    "profile": "m.nir --chip loihi1 --input in.npy",
    "sweep": "s.toml",
    "bench": "m.nir --backend fast --input in.npy",
    "verify": "m.nir --chip loihi1 --input in.npy",
    "report": "m.nir -o out.html",
    "view": "m.nir",
    "inspect": "m.nir",
    "compare": "a.npz a.npz",
    "emit": "m.nir --to c --chip loihi1 -o out",
    "lower": "m.nir",
    "run": "program --input in.npy -o out.npz",
    "import": "net.py:net --from torch --sample-shape 2 -o out.nir",
    "show": "a.npz",
    "diff": "m.map.json m.map.json",
    "chips": "loihi1",
    "doctor": "lava --install",
}
"""A run of each command that works as far as the path is read."""
MORE = {
    ("simulate", "--chip"): "--backend fixed",
    ("simulate", "--map"): "--backend mapped --chip loihi1",
    ("stream", "--map"): "--chip loihi1",
    ("report", "--input"): "--map m.map.json",
    ("chips", "--like"): "--new out.toml",
}
"""What a parameter needs besides."""
KINDS = ("fifo", "folder", "socket")
WAITED_S = 20


def paths() -> Iterator[tuple[str, click.Parameter]]:
    """Every parameter of every command that names files."""
    for name, where, _ in COMMANDS:
        for parameter in load_attribute(where).params:
            if isinstance(parameter.type, click.Path):
                yield name, parameter


def names_of(parameter: click.Parameter) -> list[str]:
    """A name of each form that the parameter takes: ``bad.npy`` and ``bad.npz`` of ``IN.npy|npz``."""
    parts = (parameter.metavar or "").strip("[]").split("|")
    endings = [part.partition(".")[2] or part for part in parts]
    forms = [f"bad.{ending}".replace("ATTR", "net") for ending in endings if ending[:1].islower()]
    return forms or ["bad"]


def cases() -> Iterator[tuple[str, str, str, str]]:
    """Command, parameter, name, and what has that name."""
    for command, parameter in paths():
        for name in names_of(parameter):
            for kind in KINDS:
                waits = kind == "fifo" and isinstance(parameter.type, OutputFile)  # for its reader, as it should
                takes = kind == "folder" and isinstance(parameter.type, OutputFolder | ReportFolder)
                if not waits and not takes:
                    yield command, parameter.opts[0], name, kind


def words_of(command: str, parameter: str, name: str) -> list[str]:
    """The command with that name instead of what its parameter has in ``BASES``."""
    words = [command, *BASES[command].split()]
    if parameter.startswith("-"):
        more = MORE.get((command, parameter), "").split()
        if (command, parameter) == ("import", "--measure"):  # of a network with spikes
            words = [word.replace("torch", "snntorch") for word in words]
        module = ["net.py:net", "--sample-shape", "2"] if parameter == "--weights" and command != "import" else []
        return [command, *(module or words[1:2]), *words[2:], *more, parameter, name]
    if name == "bad.mlir":
        return [command, name, "-o", "out.nir"]
    arguments = [p.name for p in params_of(command) if isinstance(p, click.Argument)]
    words[1 + arguments.index(parameter)] = name
    return [*words, "--sample-shape", "2"] if name.endswith(":net") and command != "import" else words


def params_of(command: str) -> list[click.Parameter]:
    return next(load_attribute(where).params for name, where, _ in COMMANDS if name == command)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("files")
    graph = graph_of({"in": port(2), "a": lif(2), "out": out(2)}, [("in", "a"), ("a", "out")], dt=1e-4)
    save_nir(graph, folder / "m.nir")
    np.save(folder / "in.npy", np.ones((5, 2), np.uint8))
    (folder / "net.py").write_text("import torch\nnet = torch.nn.Linear(2, 2)\n")
    (folder / "s.toml").write_text("models = ['m.nir']\nchips = ['loihi1']\neffort = 'fast'\n")
    old = os.getcwd()
    os.chdir(folder)
    try:
        assert run(["simulate", "m.nir", "--input", "in.npy", "-o", "a.npz"]) == 0
        assert run(["map", "m.nir", "--chip", "loihi1", "-o", "m.map.json"]) == 0
        assert run(["emit", "m.nir", "--to", "c", "--chip", "loihi1", "-o", "program"]) == 0
    finally:
        os.chdir(old)
    return folder


@contextmanager
def released(fifo: Path) -> Iterator[list[str]]:
    """Who waits for the other end of a FIFO is let go after ``WAITED_S``, and the list says so."""
    waited: list[str] = []

    def let_go() -> None:
        waited.append("waited")
        os.close(os.open(fifo, os.O_RDWR | os.O_NONBLOCK))

    timer = threading.Timer(WAITED_S, let_go)
    timer.start()
    try:
        yield waited
    finally:
        timer.cancel()


def put(kind: str, path: Path) -> None:
    if kind == "fifo":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    else:
        with socket.socket(socket.AF_UNIX) as bound:
            bound.bind(path.name)


@pytest.mark.parametrize(("command", "parameter", "name", "kind"), [*cases()])
def test_what_is_no_file_ends_the_command_at_once(
    command: str,
    parameter: str,
    name: str,
    kind: str,
    files: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    if "py" in " ".join(words_of(command, parameter, name)) and "net.py" in " ".join(
        words_of(command, parameter, name)
    ):
        pytest.importorskip("torch", reason="torch is not installed")
    here = tmp_path / "here"
    shutil.copytree(files, here)
    monkeypatch.chdir(here)
    put(kind, here / name.partition(":")[0])
    with released(here / name.partition(":")[0]) as waited:
        code = run(words_of(command, parameter, name))
    err = capsys.readouterr().err
    assert (code, waited) == (2, []), err
    assert err.startswith("error: ")
    assert "bad" in err


@pytest.mark.parametrize("name", ["manifest.json", "network.q.npz", "model.c"])
def test_no_file_of_a_program_is_waited_for(
    name: str, files: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(files, tmp_path / "here")
    monkeypatch.chdir(tmp_path / "here")
    place = Path("program", name).resolve()
    place.unlink()
    os.mkfifo(place)
    with released(place) as waited:
        assert run(["run", "program", "--input", "in.npy", "-o", "out.npz"]) == 2
        assert run(["emit", "m.nir", "--to", "c", "--chip", "loihi1", "-o", "program"]) == 2
    assert waited == []
    assert capsys.readouterr().err.startswith("error: folder 'program': ")


def test_a_report_is_not_written_through_a_link(files: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The user names its folder; the names of its files are nirbridge's."""
    shutil.copytree(files, tmp_path / "here")
    monkeypatch.chdir(tmp_path / "here")
    Path("thesis.txt").write_text("years of work")
    Path("r").mkdir()
    Path("r/map.txt").symlink_to("../thesis.txt")
    os.mkfifo("r/map.html")
    with released(Path("r/map.html").resolve()) as waited:
        assert run(["map", "m.nir", "--chip", "loihi1", "--report", "r"]) == 0
    assert waited == []
    assert Path("thesis.txt").read_text() == "years of work"
    assert "loihi1" in Path("r/map.txt").read_text()
    assert "<html" in Path("r/map.html").read_text()


def test_every_command_is_in_the_table() -> None:
    assert {command for command, _ in paths()} == BASES.keys()
