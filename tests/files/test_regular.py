"""The gate of reading: regular files alone, and nothing that is no file is waited for."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from nirbridge.errors import FileError
from nirbridge.files.npy import load_npy, load_npz
from nirbridge.files.places import file_name
from nirbridge.files.regular import open_file, open_regular, read_own, read_regular, read_up_to
from nirbridge.files.scratch import unnamed_file
from nirbridge.mapping.storage.file import read_map

READERS: dict[str, Callable[[Path], object]] = {
    "open_file": open_file,
    "read_regular": read_regular,
    "read_own": read_own,
    "load_npy": load_npy,
    "load_npz": load_npz,
    "read_map": read_map,
}


@pytest.fixture(params=["fifo", "folder", "socket", "device"])
def place(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Something that is no regular file. A FIFO has no writer: who opens it without care waits for ever."""
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "x"
    if request.param == "fifo":
        os.mkfifo(path)
    elif request.param == "folder":
        path.mkdir()
    elif request.param == "socket":
        with socket.socket(socket.AF_UNIX) as bound:
            bound.bind("x")
    else:
        return Path(os.devnull)
    return path


@pytest.mark.parametrize("reader", READERS)
def test_what_is_no_regular_file_is_refused_at_once(reader: str, place: Path) -> None:
    with pytest.raises((OSError, FileError), match=r"(?i)is a directory|not a regular file"):
        READERS[reader](place)


def test_a_file_of_a_user_may_be_a_link_and_one_of_ours_may_not(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"text")
    (tmp_path / "b").symlink_to("a")
    assert read_regular(tmp_path / "b") == b"text"
    with pytest.raises(OSError, match="symbolic links"):
        read_own(tmp_path / "b")
    assert read_own(tmp_path / "a") == b"text"


@pytest.mark.parametrize("make", [Path.mkdir, os.mkfifo])
def test_the_error_says_what_is_expected(make: Callable[[Path], None], tmp_path: Path) -> None:
    make(tmp_path / "x")
    found = "a folder" if (tmp_path / "x").is_dir() else "not a regular file"
    text = f"^'x': it is {found}, a cake is expected; give the path of a file$"
    with pytest.raises(FileError, match=text), open_regular(tmp_path / "x", "'x'", "a cake"):
        pytest.fail("opened")


def test_no_descriptor_stays_open(place: Path) -> None:
    before = os.listdir("/proc/self/fd")
    for reader in READERS.values():
        with pytest.raises((OSError, FileError)):
            reader(place)
    assert os.listdir("/proc/self/fd") == before


def test_an_array_of_a_closed_file_is_still_there(tmp_path: Path) -> None:
    values = np.arange(12.0).reshape(3, 4)
    np.save(tmp_path / "a.npy", values)
    array = load_npy(tmp_path / "a.npy")
    (tmp_path / "a.npy").unlink()
    assert isinstance(array, np.memmap)
    assert np.array_equal(array, values)


def test_a_map_may_come_through_a_pipe_that_is_open_already() -> None:
    """``check --map /dev/stdin`` and ``<(command)``; a slow writer is waited for."""
    code = "from nirbridge.mapping.storage.file import read_map; read_map('/dev/stdin')"
    line = '{ sleep 0.3; printf "{"; } | "$0" -c "$1"'
    done = subprocess.run(
        ["sh", "-c", line, sys.executable, code], capture_output=True, text=True, timeout=60, check=False
    )
    assert "not JSON at line 1, column 2" in done.stderr


def test_a_file_without_a_name_has_the_one_it_was_given(tmp_path: Path) -> None:
    (tmp_path / "7").write_bytes(b"")
    assert file_name(tmp_path / "7") == "7"
    assert file_name("no/such/8") == "8"
    with unnamed_file("net.inner.nir", b"content") as path:
        assert file_name(path) == file_name(Path(path)) == "net.inner.nir"
        assert read_regular(path) == b"content"
    assert not os.path.exists(path)


def test_memory_is_taken_as_the_file_is_long(tmp_path: Path) -> None:
    (path := tmp_path / "x").write_bytes(bytes(3 * 2**20))
    with open_file(path) as file:
        tracemalloc.start()
        assert len(read_up_to(file, 2**40)) == 3 * 2**20
        most = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert most < 16 * 2**20
    with open_file(path) as file:
        assert len(read_up_to(file, 1000)) == 1001
