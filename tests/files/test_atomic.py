"""Files are written completely or not at all, whatever exists at their path and whenever the writer is killed."""

from __future__ import annotations

import os
import signal
import socket
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from nirbridge.errors import FileError
from nirbridge.files import scratch
from nirbridge.files.atomic import atomic_write, atomic_write_bytes

UMASKS = (0o022, 0o077, 0o002)


@pytest.fixture(params=["nameless", "named"])
def form(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Both ways to write: a file without a name, and one with a name where the file system has only those."""
    if request.param == "named":
        monkeypatch.delattr(os, "O_TMPFILE")
    return request.param


def put(path: Path | str, data: bytes = b"new") -> None:
    atomic_write_bytes(path, data, subject="result")


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.parametrize("umask", UMASKS)
def test_a_new_file_has_the_mode_of_a_plain_open(tmp_path: Path, form: str, umask: int) -> None:
    old = os.umask(umask)
    try:
        put(tmp_path / "ours")
        (tmp_path / "plain").write_bytes(b"")
    finally:
        os.umask(old)
    assert mode(tmp_path / "ours") == mode(tmp_path / "plain") == 0o666 & ~umask
    assert sorted(os.listdir(tmp_path)) == ["ours", "plain"]


def test_a_file_that_is_replaced_keeps_its_mode(tmp_path: Path, form: str) -> None:
    file = tmp_path / "a"
    file.write_bytes(b"old and longer")
    file.chmod(0o640)
    put(file)
    assert (file.read_bytes(), mode(file), os.listdir(tmp_path)) == (b"new", 0o640, ["a"])


def test_the_umask_of_the_process_is_never_set(tmp_path: Path, form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "umask", lambda mask: pytest.fail("umask was set"))
    put(tmp_path / "a")
    put(tmp_path / "a")


def test_threads_that_write_the_same_file_leave_one_whole_file(tmp_path: Path, form: str) -> None:
    contents = [bytes([i]) * 100_000 for i in range(8)]
    threads = [threading.Thread(target=put, args=(tmp_path / "a", data)) for data in contents]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (tmp_path / "a").read_bytes() in contents
    assert os.listdir(tmp_path) == ["a"]


def test_a_write_that_fails_changes_nothing(tmp_path: Path, form: str) -> None:
    (tmp_path / "a").write_bytes(b"old")

    def fails(file: object) -> None:
        file.write(b"half")  # pyright: ignore[reportAttributeAccessIssue]
        raise OSError(28, "No space left on device")

    for name in ("a", "b"):
        with pytest.raises(FileError, match=r"^result: cannot be written \(No space left on device\)"):
            atomic_write(tmp_path / name, fails, subject="result")
    assert os.listdir(tmp_path) == ["a"]
    assert (tmp_path / "a").read_bytes() == b"old"


def test_a_check_reads_the_whole_content_and_may_refuse_it(tmp_path: Path, form: str) -> None:
    seen: list[bytes] = []

    def check(path: str) -> None:
        seen.append(Path(path).read_bytes())
        raise FileError.of("result", "is wrong")

    with pytest.raises(FileError, match="is wrong"):
        atomic_write(tmp_path / "a", lambda file: file.write(b"all of it"), subject="result", check=check)
    assert (seen, os.listdir(tmp_path)) == ([b"all of it"], [])


def test_a_symbolic_link_stays_and_its_target_is_replaced(tmp_path: Path, form: str) -> None:
    folder = tmp_path / "real"
    folder.mkdir()
    (folder / "target").write_bytes(b"old")
    (tmp_path / "dir").symlink_to("real")
    (tmp_path / "link").symlink_to("dir/../real/target")
    (tmp_path / "dangling").symlink_to("dir/made")
    put(tmp_path / "link")
    put(tmp_path / "dangling")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "dangling").is_symlink()
    assert (folder / "target").read_bytes() == (folder / "made").read_bytes() == b"new"
    assert sorted(os.listdir(folder)) == ["made", "target"]


def test_a_loop_of_links_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    with pytest.raises(FileError, match="too many levels of symbolic links"):
        put(tmp_path / "a")


@pytest.mark.parametrize(
    ("name", "said"),
    [("", "the path is empty"), ("a\0b", "null"), ("none/a", "its folder does not exist"), ("new/", "is a folder")],
)
def test_paths_that_are_none_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, said: str) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(FileError, match=said):
        put(name)
    assert os.listdir(tmp_path) == []


def test_folders_sockets_and_files_in_place_of_folders_are_refused(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_bytes(b"kept")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / "socket"))
        for path, said in (("folder", "is a folder"), ("socket", "is a socket"), ("file/a", "is not a valid path")):
            with pytest.raises(FileError, match=said):
                put(tmp_path / path)
    assert (tmp_path / "file").read_bytes() == b"kept"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may make a block device")
def test_a_block_device_is_refused(tmp_path: Path) -> None:
    try:
        os.mknod(tmp_path / "disk", 0o600 | stat.S_IFBLK, os.makedev(240, 7))
    except OSError as error:
        pytest.skip(str(error))
    with pytest.raises(FileError, match="is a block device"):
        put(tmp_path / "disk")
    assert stat.S_ISBLK((tmp_path / "disk").stat().st_mode)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everything")
def test_a_file_that_this_user_may_not_write_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"old")
    (tmp_path / "a").chmod(0o444)
    with pytest.raises(FileError, match="permission denied"):
        put(tmp_path / "a")


def test_devices_get_the_content_and_stay_devices() -> None:
    put(os.devnull)
    assert stat.S_ISCHR(os.stat(os.devnull).st_mode)
    with pytest.raises(FileError, match="No space left on device"):
        put("/dev/full", b"x" * 10)
    assert stat.S_ISCHR(os.stat("/dev/full").st_mode)


def test_a_fifo_gets_the_content_and_stays_a_fifo(tmp_path: Path) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    data, got = os.urandom(300_000), []
    reader = threading.Thread(target=lambda: got.append(fifo.read_bytes()))
    reader.start()
    put(fifo, data)
    reader.join(60)
    assert got == [data]
    assert stat.S_ISFIFO(fifo.stat().st_mode)


def test_an_open_descriptor_is_written_where_it_stands(tmp_path: Path) -> None:
    with (tmp_path / "out").open("w+b") as file:
        file.write(b"before ")
        file.flush()
        put(f"/dev/fd/{file.fileno()}")
        put(f"/proc/self/fd/{file.fileno()}", b" after")
    assert (tmp_path / "out").read_bytes() == b"before new after"
    assert os.listdir(tmp_path) == ["out"]


# -- killed writers ----------------------------------------------------------------------------------------------

KILLED = """
import os, sys, time
from nirbridge.files import atomic
if sys.argv[2] == "named":
    del os.O_TMPFILE
def write(file):
    file.write(b"half"); file.flush(); print("ready", flush=True); time.sleep(600)
if sys.argv[3] == "linked":
    def stop(*args, **kwargs):
        print("ready", flush=True); time.sleep(600)
    os.replace = stop
    write = lambda file: file.write(b"whole")
atomic.atomic_write(sys.argv[1], write, subject="result")
"""


def started(path: Path, form: str, moment: str) -> subprocess.Popen[bytes]:
    writer = subprocess.Popen([sys.executable, "-c", KILLED, str(path), form, moment], stdout=subprocess.PIPE)
    assert writer.stdout is not None
    assert writer.stdout.readline() == b"ready\n"
    return writer


def end(writer: subprocess.Popen[bytes]) -> None:
    writer.send_signal(signal.SIGKILL)
    writer.communicate()


def test_a_writer_that_is_killed_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"old")
    for name in ("a", "b"):
        end(started(tmp_path / name, "nameless", "writing"))
    assert os.listdir(tmp_path) == ["a"]
    assert (tmp_path / "a").read_bytes() == b"old"


@pytest.mark.parametrize(("form_", "moment"), [("named", "writing"), ("nameless", "linked"), ("named", "linked")])
def test_what_a_killed_writer_had_to_leave_goes_with_the_next_and_not_before(
    tmp_path: Path, form_: str, moment: str
) -> None:
    target = tmp_path / "a"
    target.write_bytes(b"old")
    writer = started(target, form_, moment)
    assert len(os.listdir(tmp_path)) == 2
    put(target)
    assert len(os.listdir(tmp_path)) == 2, "the unfinished file of a living writer was removed"
    end(writer)
    put(tmp_path / "b")
    assert len(os.listdir(tmp_path)) == 3, "another name is no one's to sweep"
    put(target, b"newer")
    assert sorted(os.listdir(tmp_path)) == ["a", "b"]
    assert target.read_bytes() == b"newer"


def test_only_unfinished_files_of_this_form_are_swept(tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "x").write_bytes(b"x")
    hexes = "0123456789abcdef"
    (tmp_path / f".a.{hexes}.part").symlink_to(precious)
    for name in (f".a.{hexes[1:]}.part", f".a.{hexes.upper()}.part", f".ab.{hexes}.part", f"a.{hexes}.part", ".a.part"):
        (tmp_path / name).write_bytes(b"kept")
    before = sorted(os.listdir(tmp_path))
    put(tmp_path / "a")
    assert sorted(os.listdir(tmp_path)) == sorted([*before, "a"])
    assert (precious / "x").read_bytes() == b"x"


def test_a_folder_that_a_dead_writer_left_is_swept_without_following_links(tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "x").write_bytes(b"x")
    left = tmp_path / scratch.unfinished_name("a")
    left.mkdir()
    (left / "link").symlink_to(tmp_path / "outside")
    scratch.sweep(str(tmp_path), "a")
    assert os.listdir(tmp_path) == ["outside"]
    assert (tmp_path / "outside" / "x").read_bytes() == b"x"


def test_long_names_have_unfinished_names_that_a_file_system_takes(tmp_path: Path, form: str) -> None:
    name = "ä" * 127
    (tmp_path / name).write_bytes(b"old")
    put(tmp_path / name)
    assert [each.encode() for each in os.listdir(tmp_path)] == [name.encode()]
