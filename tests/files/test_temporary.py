"""Temporary files and folders: gone afterwards, whichever signal ends the process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from nirbridge.errors import FileError
from nirbridge.files.atomic import atomic_write_bytes, write_new
from nirbridge.files.scratch import locked, remove_folder, temporary_folder, unnamed_file

BLOCK = """
import os, time
from nirbridge.files.scratch import temporary_folder, unnamed_file
with temporary_folder("test") as folder, unnamed_file("a.nir", b"x" * 10**6) as path:
    open(os.path.join(folder, "inside"), "w").close()
    print(folder, flush=True)
    time.sleep(60)
"""
MODULE = """
import sys, time
from nirbridge import pipeline
from nirbridge.cli import model_target
from nirbridge.cli.main import main
from tests.network.graphs import graph_of, lif, out, port

def waits(path, *_, **__):
    with open(path, "rb") as file:
        print(len(file.read()), flush=True)
    time.sleep(60)

graph = graph_of({"in": port(2), "a": lif(2), "out": out(2)}, [("in", "a"), ("a", "out")], dt=1e-4)
model_target.imported_graph = lambda *_: graph
pipeline.load_network = waits
sys.argv = ["nirbridge", "map", "net.py:net", "--sample-shape", "2", "--chip", "loihi1"]
main()
"""
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGKILL)


def ended_by(number: signal.Signals, code: str, folder: Path) -> tuple[int, str]:
    """Exit status of the code that is sent a signal after its first line, and that line."""
    root = str(Path(__file__).resolve().parents[2])
    env = {**os.environ, "TMPDIR": str(folder), "PYTHONPATH": root}
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=env)
    assert process.stdout is not None
    with process.stdout:
        line = process.stdout.readline().decode().strip()
        process.send_signal(number)
        return process.wait(60), line


@pytest.mark.parametrize("number", SIGNALS)
def test_nothing_is_left_of_an_imported_model(number: signal.Signals, tmp_path: Path) -> None:
    code, size = ended_by(number, MODULE, tmp_path)
    assert int(size) > 1000  # the model was there, and was read
    assert code == {signal.SIGINT: 130}.get(number, -number)
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("number", SIGNALS)
def test_a_folder_goes_with_its_process_or_with_the_next(
    number: signal.Signals, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code, folder = ended_by(number, BLOCK, tmp_path)
    assert (code, Path(folder).parent) == (-number, tmp_path)
    assert os.listdir(tmp_path) == ([Path(folder).name] if number == signal.SIGKILL else [])
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with temporary_folder("test") as first, temporary_folder("test") as second:
        assert sorted(os.listdir(tmp_path)) == sorted(map(os.path.basename, (first, second)))
    assert os.listdir(tmp_path) == []


def test_an_own_handler_of_sigterm_stays(tmp_path: Path) -> None:
    seen: list[int] = []
    old = signal.signal(signal.SIGTERM, lambda number, frame: seen.append(number))
    try:
        with temporary_folder("test"):
            os.kill(os.getpid(), signal.SIGTERM)
    finally:
        signal.signal(signal.SIGTERM, old)
    assert seen == [signal.SIGTERM]
    with temporary_folder("test"):
        pass
    assert signal.getsignal(signal.SIGTERM) is old


def test_without_files_in_memory_they_are_in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "memfd_create")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with unnamed_file("a.nir", b"content") as path:
        assert Path(path).name == "a.nir"
        assert Path(path).read_bytes() == b"content"
    assert os.listdir(tmp_path) == []


# -- names that no user gave -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["link", "dangling", "fifo", "file"])
def test_what_has_the_name_of_our_file_is_replaced_and_never_followed(kind: str, tmp_path: Path) -> None:
    precious, path = tmp_path / "precious", tmp_path / "ours"
    precious.write_bytes(b"mine")
    if kind == "fifo":
        os.mkfifo(path)
    elif kind == "file":
        path.write_bytes(b"old")
        path.chmod(0o640)
    else:
        path.symlink_to("precious" if kind == "link" else "nothing")
    atomic_write_bytes(path, b"new", subject="ours", follow=False)
    assert (path.read_bytes(), precious.read_bytes()) == (b"new", b"mine")
    assert sorted(os.listdir(tmp_path)) == ["ours", "precious"]
    assert not path.is_symlink()
    assert kind != "file" or path.stat().st_mode & 0o777 == 0o640


def test_a_folder_of_the_name_of_our_file_is_an_error_of_ours(tmp_path: Path) -> None:
    (tmp_path / "ours").mkdir()
    with pytest.raises(FileError, match="^ours: is a folder; remove it$"):
        atomic_write_bytes(tmp_path / "ours", b"new", subject="ours", follow=False)
    with pytest.raises(FileError, match="its folder does not exist"):
        atomic_write_bytes(tmp_path / "none" / "ours", b"new", subject="ours", follow=False)


def test_a_new_file_and_a_lock_follow_no_link(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("target")
    with pytest.raises(FileExistsError):
        write_new(tmp_path / "link", b"new")
    with pytest.raises(OSError, match="symbolic links"), locked(tmp_path / "link"):
        pytest.fail("locked")
    with locked(tmp_path / "lock"):
        assert sorted(os.listdir(tmp_path)) == ["link", "lock"]


def test_of_a_link_to_a_folder_the_link_alone_is_removed(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "mine").write_bytes(b"")
    (tmp_path / "link").symlink_to("folder")
    remove_folder(tmp_path / "link")
    assert os.listdir(tmp_path) == ["folder"]
    assert os.listdir(tmp_path / "folder") == ["mine"]
