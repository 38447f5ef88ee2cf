"""Writing a program: completely or not at all, never over files of others."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import numpy as np
import pytest

from nirbridge.emitters.artifact import make_artifact, npz_bytes, write_artifact
from nirbridge.errors import Bug, FileError


def test_the_manifest_has_the_digest_of_every_file(tmp_path: Path) -> None:
    made = make_artifact({"a.txt": b"1", "in/b.txt": b"2"}, {"kind": "test"})
    write_artifact(made, tmp_path / "out")
    manifest = json.loads((tmp_path / "out" / "manifest.json").read_text())
    assert manifest["files"] == {
        name: hashlib.sha256((tmp_path / "out" / name).read_bytes()).hexdigest() for name in ("a.txt", "in/b.txt")
    }
    assert made.digest == hashlib.sha256((tmp_path / "out" / "manifest.json").read_bytes()).hexdigest()


def test_our_own_folder_is_replaced_with_all_that_is_in_it(tmp_path: Path) -> None:
    write_artifact(make_artifact({"old.txt": b""}, {}), tmp_path / "out")
    (tmp_path / "out" / "__pycache__").mkdir()
    (tmp_path / "out" / "__pycache__" / "x.pyc").write_bytes(b"")
    write_artifact(make_artifact({"new.txt": b""}, {}), tmp_path / "out")
    assert sorted(p.name for p in (tmp_path / "out").iterdir()) == ["manifest.json", "new.txt"]
    assert [p.name for p in tmp_path.iterdir()] == ["out"]


def test_an_empty_folder_is_taken(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    write_artifact(make_artifact({"a": b""}, {}), tmp_path / "out")
    assert (tmp_path / "out" / "a").exists()


@pytest.mark.parametrize("manifest", [None, "no json", "[]", '{"made_by": "somebody"}', '{"made_by": "nirbridge"}'])
def test_folders_of_others_are_refused_untouched(tmp_path: Path, manifest: str | None) -> None:
    (tmp_path / "thesis.txt").write_text("mine")
    if manifest is not None:
        (tmp_path / "manifest.json").write_text(manifest)
    with pytest.raises(FileError, match="no manifest of nirbridge|did not write"):
        write_artifact(make_artifact({"a": b""}, {}), tmp_path)
    assert (tmp_path / "thesis.txt").read_text() == "mine"
    assert not (tmp_path / "a").exists()


def test_a_strange_file_in_our_folder_is_not_lost(tmp_path: Path) -> None:
    write_artifact(make_artifact({"a": b""}, {}), tmp_path / "out")
    (tmp_path / "out" / "results.npz").write_bytes(b"a day of work")
    with pytest.raises(FileError, match=r"did not write: 'results\.npz'; move them away"):
        write_artifact(make_artifact({"a": b""}, {}), tmp_path / "out")
    assert (tmp_path / "out" / "results.npz").exists()


def test_an_edited_file_in_our_folder_is_not_lost(tmp_path: Path) -> None:
    write_artifact(make_artifact({"a": b"", "b": b""}, {}), tmp_path / "out")
    (tmp_path / "out" / "a").write_bytes(b"a day of work")
    with pytest.raises(FileError, match="edited since nirbridge wrote them: 'a'; move them away"):
        write_artifact(make_artifact({"a": b""}, {}), tmp_path / "out")
    assert (tmp_path / "out" / "a").read_bytes() == b"a day of work"


def test_places_that_can_not_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(FileError, match="is not a folder"):
        write_artifact(make_artifact({"a": b""}, {}), tmp_path / "file")
    with pytest.raises(FileError, match="does not exist"):
        write_artifact(make_artifact({"a": b""}, {}), tmp_path / "nowhere" / "out")
    (tmp_path / "link").symlink_to(tmp_path)
    with pytest.raises(FileError, match="holds files, but no manifest"):
        write_artifact(make_artifact({"a": b""}, {}), tmp_path / "link")


def test_a_link_to_our_folder_stays_and_the_folder_is_replaced(tmp_path: Path) -> None:
    write_artifact(make_artifact({"old": b""}, {}), tmp_path / "real")
    (tmp_path / "link").symlink_to("real")
    write_artifact(make_artifact({"new": b""}, {}), tmp_path / "link")
    assert (tmp_path / "link").is_symlink()
    assert sorted(p.name for p in (tmp_path / "real").iterdir()) == ["manifest.json", "new"]
    assert sorted(p.name for p in tmp_path.iterdir()) == ["link", "real"]


def test_the_working_folder_is_not_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "a" / "b")
    for path in (".", "..", "../../a"):
        with pytest.raises(FileError, match="holds the working folder"):
            write_artifact(make_artifact({"a": b""}, {}), path)


@pytest.mark.parametrize("path", ["../a", "/a", "a/../../b", "", "a\\b", "a\nb"])
def test_paths_stay_in_their_folder(path: str) -> None:
    with pytest.raises(Bug, match="paths stay in their folder"):
        make_artifact({path: b""}, {})


def test_arrays_give_the_same_bytes_and_are_read_back(tmp_path: Path) -> None:
    arrays = {"b.x": np.arange(6).reshape(2, 3), "a": np.broadcast_to(np.float32(2), (3,)), "n": np.array(5)}
    assert npz_bytes(arrays) == npz_bytes(dict(reversed(arrays.items())))
    (tmp_path / "x.npz").write_bytes(npz_bytes(arrays))
    with np.load(tmp_path / "x.npz", allow_pickle=False) as file:
        assert all(np.array_equal(file[name], values) for name, values in arrays.items())


def test_an_interrupt_while_the_old_folder_is_removed_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from nirbridge.files import atomic

    write_artifact(make_artifact({"old": b""}, {}), tmp_path / "out")
    remove, calls = atomic.shutil.rmtree, []

    def interrupted(path: str, **options: bool) -> None:
        calls.append(path)
        if len(calls) == 1:
            raise KeyboardInterrupt
        remove(path, **options)

    monkeypatch.setattr(atomic.shutil, "rmtree", interrupted)
    with pytest.raises(KeyboardInterrupt):
        write_artifact(make_artifact({"new": b""}, {}), tmp_path / "out")
    assert sorted(p.name for p in (tmp_path / "out").iterdir()) == ["manifest.json", "new"]
    assert [p.name for p in tmp_path.iterdir()] == ["out"]
