"""Output paths: every refusal in full, and paths that denote the same file."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from nirbridge.errors import FileError
from nirbridge.files.atomic import atomic_folder, atomic_write, resolve_folder
from nirbridge.files.gate import CommandInput, CommandOutput, check_outputs
from nirbridge.files.places import resolve_output, resolve_path
from nirbridge.files.scratch import sweep, unfinished_name


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("folder/inner").mkdir(parents=True)
    Path("file").write_bytes(b"kept")


def said(function: object, *args: object) -> str:
    with pytest.raises(FileError) as caught:
        function(*args)  # type: ignore[operator]
    return str(caught.value)


def test_places_that_take_no_file() -> None:
    assert said(resolve_output, "folder", "map 'a'") == "map 'a': is a folder; name a file"
    assert said(resolve_output, "new/", "map 'a'") == "map 'a': is a folder; name a file"
    assert said(resolve_output, "none/a", "map 'a'") == "map 'a': its folder does not exist; create it"
    assert said(resolve_output, "", "map") == "map: is not a valid path (the path is empty); check the path"
    assert said(resolve_output, "file/a", "map") == "map: is not a valid path (Not a directory); check the path"
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("socket")
        assert said(resolve_output, "socket", "map") == (
            "map: is a socket, results go to files, character devices and FIFOs; name another path"
        )


def test_rights_are_asked_for_before_anything_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, int]] = []

    def access(path: str, mode: int) -> bool:
        asked.append((os.path.basename(path), mode))
        return not path.endswith(("/folder", "/file"))

    monkeypatch.setattr(os, "access", access)
    assert said(resolve_output, "folder/a", "map") == (
        "map: its folder cannot be written, permission denied; name another one"
    )
    assert said(resolve_output, "file", "map") == "map: cannot be written, permission denied; name another path"
    assert ("folder", os.W_OK | os.X_OK) in asked
    assert ("file", os.W_OK) in asked
    assert said(check_outputs, [CommandOutput("--report", "folder", "report", ("a",))]) == (
        "--report 'folder': cannot be written, permission denied; name another folder"
    )


def test_places_that_take_no_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    assert said(resolve_folder, "file", "app 'x'") == "app 'x': is not a folder; name another one"
    monkeypatch.chdir("folder/inner")
    for path in (".", "..", "../../folder"):
        assert said(resolve_folder, path, "app") == (
            "app: holds the working folder, a folder is replaced as a whole; name another one"
        )
    assert resolve_folder("../inner2", "app").kind == "new"
    assert resolve_folder("../../fold", "app").kind == "new"
    Path("below").mkdir()
    assert resolve_folder("below", "app").kind == "folder"


def test_a_folder_that_cannot_be_made_says_why_and_leaves_nothing() -> None:
    before = sorted(os.listdir())
    assert said(lambda: atomic_folder("new", {"a": b"1", "a/b": b"2"}, subject="app")).startswith(
        "app: cannot be written ("
    )
    assert sorted(os.listdir()) == before


def test_an_old_folder_is_replaced_as_a_whole_and_keeps_its_mode() -> None:
    Path("folder/old").write_bytes(b"old")
    Path("folder").chmod(0o750)
    atomic_folder("folder", {"a": b"1", "deep/er/b": b"2"}, subject="app")
    files = {str(p.relative_to("folder")): p.read_bytes() for p in Path("folder").rglob("*") if p.is_file()}
    assert files == {"a": b"1", "deep/er/b": b"2"}
    assert Path("folder").stat().st_mode & 0o777 == 0o750
    assert sorted(os.listdir()) == ["file", "folder"]


def test_an_error_without_a_name_is_said_in_its_own_words() -> None:
    def fails(file: object) -> None:
        raise OSError("odd")

    with pytest.raises(FileError) as caught:
        atomic_write("a", fails, subject="map")
    assert str(caught.value) == "map: cannot be written (odd); check the path"


def test_what_is_the_same_place() -> None:
    os.link("file", "hard")
    Path("twin").write_bytes(b"kept")
    places = {name: resolve_path(name, name) for name in ("file", "hard", "twin", "new", "folder", os.devnull)}
    same = {(a, b) for a in places for b in places if places[a].is_same(places[b])}
    own = {(name, name) for name in places if name != os.devnull}
    assert same == own | {("file", "hard"), ("hard", "file")}


@pytest.mark.parametrize("links", [39, 40])
def test_a_chain_of_links_has_an_end(links: int) -> None:
    Path("l0").symlink_to("file")
    for k in range(1, links):
        Path(f"l{k}").symlink_to(f"l{k - 1}")
    if links == 39:
        assert resolve_path(f"l{links - 1}", "map").path == os.path.abspath("file")
    else:
        found = said(resolve_path, f"l{links - 1}", "map")
        assert found == "map: is not a valid path (too many levels of symbolic links); check the path"


def test_the_gate_lists_every_conflict_in_full() -> None:
    outputs = [
        CommandOutput("-o", "file"),
        CommandOutput("--app", "folder", "folder"),
        CommandOutput("--plot", "folder/inner/p"),
    ]
    found = said(check_outputs, outputs, [CommandInput("MODEL", "file"), CommandInput("DATA", "folder/inner/d")])
    assert found.split("\n") == [
        "-o 'file': is MODEL 'file', which this command reads; name another path",
        "--app 'folder': holds DATA 'folder/inner/d', which this command reads; name another folder",
        "--plot 'folder/inner/p': is also the path of --app 'folder', each result has its own; name another path",
    ]
    assert said(check_outputs, [CommandOutput("--report", "file/r", "report", ("a",))]).startswith(
        "--report 'file/r': is no"
    )


def test_a_report_in_a_file_is_refused_and_in_new_folders_taken() -> None:
    assert said(check_outputs, [CommandOutput("--report", "file", "report", ("a",))]) == (
        "--report 'file': is not a folder; name another one"
    )
    places = check_outputs([CommandOutput("--report", "folder/x/y", "report", ("a", "b"))])
    assert [os.path.relpath(p.path) for p in places] == ["folder/x/y/a", "folder/x/y/b"]
    assert not Path("folder/x").exists()
    report = CommandOutput("--report", "folder", "report", ("inner",))
    assert said(check_outputs, [report]) == "--report 'folder/inner': is a folder; name a file"


def test_long_names_get_unfinished_names_that_a_file_system_takes() -> None:
    for name in ("a", "n" * 255, "ä" * 127):
        part = unfinished_name(name)
        assert len(os.fsencode(part)) == min(len(os.fsencode(name)), 100) + 23
        Path(part).write_bytes(b"half")
        sweep(".", name)
        assert not Path(part).exists()
    assert unfinished_name("a") != unfinished_name("a")
