"""No command destroys existing data at the path of its result, and each refuses before it starts to work."""

from __future__ import annotations

import io
import os
import shutil
import stat
import subprocess
import sys
import threading
from pathlib import Path

import click
import numpy as np
import pytest

from nirbridge import pipeline
from nirbridge.cli import main as cli
from nirbridge.cli.common import ChipFile, Command, ModuleTarget, OutputFile, OutputFolder, ProgramFolder, ReportFolder
from nirbridge.cli.main import run
from nirbridge.emitters.artifact import make_artifact, write_artifact
from nirbridge.importers import save_nir
from tests.network.graphs import graph_of, lif, out, port

ROOT = Path(__file__).resolve().parents[2]
READ = ("m.nir", "in.npy", "labels.npy", "rates.npz", "chip.toml", "m.map.json", "net.py", "in.png", "a.png", "s.toml")
COMMANDS = {
    "map": "map m.nir --chip chip.toml --rates rates.npz",
    "simulate": "simulate m.nir --input in.npy --backend mapped --chip chip.toml --map m.map.json",
    "quantize": "quantize m.nir --chip chip.toml --calibrate in.npy",
    "emit": "emit m.nir --to lava --chip chip.toml --map m.map.json",
    "run": "run program --input in.npy",
    "import": "import net.py:net --from torch --calibrate in.npy --sample-shape 2",
    "verify": "verify m.nir --chip chip.toml --input in.npy --labels labels.npy --calibrate in.npy --map m.map.json",
    "profile": "profile m.nir --chip chip.toml --input in.npy --labels labels.npy",
    "sweep": "sweep s.toml",
    "bench": "bench m.nir --chip chip.toml --input in.npy",
    "lower": "lower m.nir --chip chip.toml",
    "compare": "compare in.png a.png --labels labels.npy",
    "chips": "chips --like chip.toml",
}
"""Every command that writes, with every option that reads."""
WRITES = {
    "verify": "--plot",
    "compare": "--plot",
    "profile": "--plot",
    "sweep": "--plot",
    "bench": "--plot",
    "chips": "--new",
}


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("files")
    save_nir(
        graph_of({"in": port(2), "a": lif(2), "out": out(2)}, [("in", "a"), ("a", "out")], dt=1e-4), folder / "m.nir"
    )
    np.save(folder / "in.npy", np.ones((5, 2), np.uint8))
    shutil.copy(ROOT / "nirbridge/chips/data/loihi1.toml", folder / "chip.toml")
    for name in set(READ) - {"m.nir", "in.npy", "chip.toml"}:
        (folder / name).write_bytes(b"precious " + name.encode())
    write_artifact(
        make_artifact({"run.py": b"precious", "data/a.npz": b"precious"}, {"kind": "lava"}), folder / "program"
    )
    return folder


@pytest.fixture(autouse=True)
def _here(files: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(files, tmp_path / "here")
    monkeypatch.chdir(tmp_path / "here")


def content() -> dict[str, bytes | str]:
    """All that is there: bytes of files, targets of links."""
    found = {}
    for path in sorted(Path().rglob("*")):
        if not path.is_dir() or path.is_symlink():
            found[str(path)] = os.readlink(path) if path.is_symlink() else path.read_bytes()
    return found


def inputs_of(name: str) -> list[str]:
    words = COMMANDS[name].replace(":net", "").split()
    own = ["program/run.py", "program/data/a.npz", "program/manifest.json"] if name == "run" else []
    return [*dict.fromkeys(w for w in words if w in READ), *own]


CASES = [(name, read) for name in COMMANDS for read in inputs_of(name)]


@pytest.mark.parametrize(("name", "read"), CASES)
@pytest.mark.parametrize("form", ["itself", "symlink", "hard link"])
def test_no_result_replaces_an_input(
    name: str, read: str, form: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(pipeline, "load_network", lambda *_, **__: pytest.fail("worked all the same"))
    target = {"itself": read, "symlink": "s.png", "hard link": "h.png"}[form]
    if form == "symlink":
        Path(target).symlink_to(read)
    elif form == "hard link":
        os.link(read, target)
    before = content()
    assert run([*COMMANDS[name].split(), WRITES.get(name, "-o"), target]) == 2
    captured = capsys.readouterr()
    assert captured.err.startswith("error: ")
    wanted = "is not a folder" if name == "emit" else "which this command reads"
    assert wanted in captured.err
    assert "|" not in captured.err  # the model is called MODEL, not by its whole metavar
    assert content() == before


def test_the_report_replaces_no_input_either(capsys: pytest.CaptureFixture[str]) -> None:
    Path("r").mkdir()
    Path("r/map.txt").symlink_to("../rates.npz")
    before = content()
    assert run([*COMMANDS["map"].split(), "--report", "r"]) == 2
    assert "is --rates 'rates.npz', which this command reads" in capsys.readouterr().err
    assert content() == before


@pytest.mark.parametrize("place", ["foreign", "file", "link to file", "model inside", "."])
def test_a_program_replaces_nothing_but_a_program(place: str, capsys: pytest.CaptureFixture[str]) -> None:
    Path("foreign").mkdir()
    Path("foreign/thesis").write_bytes(b"mine")
    Path("link to file").symlink_to("m.nir")
    shutil.copytree("program", "model inside")
    shutil.copy("m.nir", "model inside/run.py")
    model = "model inside/run.py" if place == "model inside" else "m.nir"
    before = content()
    assert run(["emit", model, "--to", "lava", "-o", {"file": "in.npy"}.get(place, place)]) == 2
    assert capsys.readouterr().err.startswith("error: ")
    assert content() == before


def test_a_program_goes_where_a_link_leads(capsys: pytest.CaptureFixture[str]) -> None:
    Path("link").symlink_to("program")
    assert run(["emit", "m.nir", "--to", "lava", "-o", "link"]) == 0
    assert "integers of the chip loihi2, the default of --to lava; --chip names another" in capsys.readouterr().out
    assert Path("link").is_symlink()
    assert Path("program/run.py").read_bytes() != b"precious"


def test_devices_and_fifos_stay_and_get_the_result(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["map", "m.nir", "--chip", "loihi1", "-o", os.devnull]) == 0
    assert stat.S_ISCHR(os.stat(os.devnull).st_mode)
    os.mkfifo("fifo")
    got: list[bytes] = []
    reader = threading.Thread(target=lambda: got.append(Path("fifo").read_bytes()))
    reader.start()
    assert run(["simulate", "m.nir", "--input", "in.npy", "-o", "fifo"]) == 0
    reader.join(60)
    assert stat.S_ISFIFO(os.stat("fifo").st_mode)
    with np.load(io.BytesIO(got[0])) as recording:
        assert recording["out/s"].shape == (5, 2)
    assert run(["map", "m.nir", "--chip", "loihi1", "-o", "/dev/full"]) == 2
    assert "No space left on device" in capsys.readouterr().err


def test_a_result_on_stdout_is_alone_there() -> None:
    base = [sys.executable, "-m", "nirbridge", "simulate", "m.nir", "--input", "in.npy", "-o", "/dev/stdout"]
    done = subprocess.run(base, capture_output=True, check=True, timeout=120)
    with np.load(io.BytesIO(done.stdout)) as recording:
        assert recording["out/s"].shape == (5, 2)
    assert b"5 time steps of 0.0001 s" in done.stderr
    done = subprocess.run([*base, "--json"], capture_output=True, check=False, timeout=120)
    assert done.returncode == 2
    assert b"--json: writes to stdout, the result goes there, too" in done.stderr


def test_a_saved_map_is_not_its_model() -> None:
    from nirbridge.errors import FileError

    network = pipeline.load_network("m.nir")
    mapped = pipeline.map_network(network, pipeline.load_chip("loihi1"), pipeline.MapOptions(effort="fast"))
    before = content()
    with pytest.raises(FileError, match="map file './m.nir': is model 'm.nir'"):
        pipeline.save_map(mapped, "./m.nir", "m.nir")
    assert content() == before


@pytest.mark.parametrize("name", [n for n, _, _ in cli.COMMANDS])
def test_every_parameter_of_every_command_is_known_to_the_gate(name: str) -> None:
    """A new option that takes a path must have one of the types that the gate understands."""
    command = cli.nirbridge.get_command(click.Context(cli.nirbridge), name)
    assert isinstance(command, Command)
    for parameter in command.params:
        metavar = parameter.metavar or ""
        looks_like_a_path = any(
            word in metavar
            for word in (".n", ".svg", ".html", ".toml", ".json", "DIR", "PATH", ".py", ".pt", ".mlir", ".irdl")
        )
        assert looks_like_a_path == isinstance(parameter.type, click.Path), parameter.name
        written = parameter.name in ("output", "plot", "report", "irdl")
        assert written == isinstance(parameter.type, OutputFile | OutputFolder | ReportFolder), parameter.name
        if "TOML" in metavar.upper() and name != "sweep" and not written:
            assert isinstance(parameter.type, ChipFile)
    special = {"run": ("folder", ProgramFolder), "import": ("target", ModuleTarget), "emit": ("output", OutputFolder)}
    if name in special:
        parameter, kind = special[name]
        assert isinstance(next(p for p in command.params if p.name == parameter).type, kind)
