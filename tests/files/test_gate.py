"""Output paths: no result replaces an input, another result, or anything that is not a file."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from nirbridge.errors import FileError
from nirbridge.files.gate import CommandInput, CommandOutput, check_outputs


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("sub").mkdir()
    Path("model").write_bytes(b"model")
    Path("link").symlink_to("sub/../model")
    os.link("model", "sub/hard")
    Path("here").symlink_to(".")


@pytest.mark.parametrize("written", ["model", "./sub/../model", "link", "sub/hard", "here/model", "here/here/link"])
@pytest.mark.parametrize("read", ["model", "link", "sub/hard"])
def test_an_input_is_found_under_every_name_it_has(written: str, read: str) -> None:
    inputs = [CommandInput("--input", "other"), CommandInput("MODEL.nir", read)]
    limit = f"is MODEL.nir '{read}', which this command reads; name another path$"
    with pytest.raises(FileError, match=limit):
        check_outputs([CommandOutput("-o", written)], inputs)
    assert Path("model").read_bytes() == b"model"


@pytest.mark.parametrize("written", ["new", "sub/model", "model2"])
def test_other_places_pass(written: str) -> None:
    (place,) = check_outputs([CommandOutput("-o", written)], [CommandInput("MODEL.nir", "model")])
    assert place.path == str(Path(written).absolute())
    assert not Path("new").exists()


def test_an_input_that_is_not_there_is_left_to_its_reader() -> None:
    check_outputs([CommandOutput("-o", "new")], [CommandInput("MODEL.nir", "none"), CommandInput("--input", "\0")])
    with pytest.raises(FileError, match="is MODEL.nir 'sub/none'"):
        check_outputs([CommandOutput("-o", "here/sub/none")], [CommandInput("MODEL.nir", "sub/none")])


def test_an_input_behind_an_open_descriptor_is_found() -> None:
    with Path("model").open("rb+") as file, pytest.raises(FileError, match="is MODEL.nir 'model'"):
        check_outputs([CommandOutput("-o", f"/dev/fd/{file.fileno()}")], [CommandInput("MODEL.nir", "model")])


def test_a_descriptor_that_is_open_for_reading_alone_is_refused() -> None:
    with Path("sub/hard").open("rb") as file, pytest.raises(FileError, match="permission denied"):
        check_outputs([CommandOutput("-o", f"/dev/fd/{file.fileno()}")])


def test_two_results_need_two_places_and_may_share_a_device() -> None:
    with pytest.raises(FileError, match=r"^--plot 'here/a': is also the path of -o 'a', each result has its own"):
        check_outputs([CommandOutput("-o", "a"), CommandOutput("--plot", "here/a")])
    with pytest.raises(FileError, match="--report 'sub': is also the path of -o 'sub/map.txt'"):
        check_outputs([CommandOutput("-o", "sub/map.txt"), CommandOutput("--report", "sub", "report", ("map.txt",))])
    Path("made").mkdir()
    with pytest.raises(FileError, match="is also the path of -o 'made'"):
        check_outputs([CommandOutput("-o", "made", "folder"), CommandOutput("--plot", "made/a")])
    check_outputs([CommandOutput("-o", os.devnull), CommandOutput("--plot", os.devnull)])


def test_a_folder_that_is_replaced_holds_no_input() -> None:
    with pytest.raises(FileError, match="^-o 'here/sub': holds MODEL.nir 'sub/hard', which this command reads"):
        check_outputs([CommandOutput("-o", "here/sub", "folder")], [CommandInput("MODEL.nir", "sub/hard")])
    with pytest.raises(FileError, match="is not a folder"):
        check_outputs([CommandOutput("-o", "model", "folder")])
    with pytest.raises(FileError, match="holds the working folder"):
        check_outputs([CommandOutput("-o", "here", "folder")])
    check_outputs([CommandOutput("-o", "sub", "folder")], [CommandInput("MODEL.nir", "model")])


def test_a_report_may_be_in_new_folders_and_replaces_no_input() -> None:
    places = check_outputs([CommandOutput("--report", "x/y", "report", ("map.txt", "map.html"))])
    assert [Path(p.path).relative_to(Path.cwd()).as_posix() for p in places] == ["x/y/map.txt", "x/y/map.html"]
    Path("sub/map.txt").symlink_to("../model")
    with pytest.raises(FileError, match="is MODEL.nir 'model'"):
        check_outputs([CommandOutput("--report", "sub", "report", ("map.txt",))], [CommandInput("MODEL.nir", "model")])
    for path in ("model", "model/x", os.devnull):
        with pytest.raises(FileError, match="is not a folder|not a valid path"):
            check_outputs([CommandOutput("--report", path, "report", ("map.txt",))])


def test_every_problem_is_said_once() -> None:
    outputs = [
        CommandOutput("-o", "none/a"),
        CommandOutput("--plot", "sub"),
        CommandOutput("--report", "model", "report", ("a", "b")),
    ]
    with pytest.raises(FileError) as error:
        check_outputs(outputs)
    assert [str(p).partition(":")[0] for p in error.value.problems] == [
        "-o 'none/a'",
        "--plot 'sub'",
        "--report 'model'",
    ]
