"""Bytes of emitted archives and manifests; recognition of folders written by nirbridge."""

from __future__ import annotations

import io
import json
import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nirbridge.emitters.artifact import (
    MANIFEST,
    Artifact,
    check_folder,
    known_files,
    make_artifact,
    npz_bytes,
    read_document,
    write_artifact,
)
from nirbridge.errors import Bug, FileError


def test_members_are_sorted_packed_and_without_a_time() -> None:
    rng = np.random.default_rng(0)
    arrays = {"b": rng.integers(0, 40, 5000), "a": np.arange(3)}
    with zipfile.ZipFile(io.BytesIO(npz_bytes(arrays))) as archive:
        infos = archive.infolist()
        assert [info.filename for info in infos] == ["a.npy", "b.npy"]
        for info in infos:
            content = archive.read(info)
            packer = zlib.compressobj(6, zlib.DEFLATED, -15)
            assert info.compress_size == len(packer.compress(content) + packer.flush())
            assert (info.date_time, info.compress_type) == ((1980, 1, 1, 0, 0, 0), zipfile.ZIP_DEFLATED)
            assert info.extract_version == 45  # its size may be known only after 4 GiB
            assert content[:8] == b"\x93NUMPY\x01\x00"
    sizes = {len(zlib.compress(arrays["b"].tobytes(), level)) for level in (5, 6, 7)}
    assert len(sizes) == 3


def test_objects_are_not_written() -> None:
    with pytest.raises(ValueError, match="allow_pickle"):
        npz_bytes({"a": np.array([{}], dtype=object)})


def test_the_manifest_is_sorted_json_with_the_facts() -> None:
    made = make_artifact({"b": b"2", "a": b""}, {"kind": "x", "n": [1]})
    assert list(made.files) == ["a", "b", "manifest.json"]
    empty, two = (json.loads(made.files[MANIFEST])["files"][name] for name in ("a", "b"))
    assert made.files[MANIFEST].decode() == (
        f'{{\n "files": {{\n  "a": "{empty}",\n  "b": "{two}"\n }},\n "kind": "x",\n "made_by": "nirbridge",\n'
        ' "n": [\n  1\n ]\n}\n'
    )
    with pytest.raises(ValueError, match="Out of range float"):
        make_artifact({}, {"x": float("nan")})


@pytest.mark.parametrize("path", [".", "/", "a/..", "..", "a\\", "\x00", "a/\u202e"])
def test_one_wrong_path_among_right_ones(path: str) -> None:
    with pytest.raises(Bug, match="^emitter: path .*, paths stay in their folder; please report it$"):
        make_artifact({"a/b": b"", path: b"", "..a/.b": b""}, {})
    assert make_artifact({"a/b": b"", "..a/.b": b""}, {}).digest


@pytest.mark.parametrize(
    ("count", "shown"), [(1, "'s0'"), (4, "'s0', 's1', 's2', 's3'"), (5, "'s0', 's1', 's2', 's3' …")]
)
def test_four_strange_files_are_named(count: int, shown: str, tmp_path: Path) -> None:
    folder = tmp_path / "out"
    write_artifact(make_artifact({"a": b"", "in/b": b""}, {}), folder)
    for name in reversed(range(count)):
        (folder / f"s{name}").touch()
    with pytest.raises(FileError) as caught:
        check_folder(folder)
    assert str(caught.value) == f"folder 'out': holds files that nirbridge did not write: {shown}; move them away"


def test_folders_and_caches_in_ours_are_ours_but_a_link_is_not(tmp_path: Path) -> None:
    folder = tmp_path / "out"
    write_artifact(make_artifact({"a": b""}, {}), folder)
    (folder / "in" / "__pycache__").mkdir(parents=True)
    (folder / "in" / "__pycache__" / "b.pyc").touch()
    check_folder(folder)
    (folder / "in" / "link").symlink_to(tmp_path)
    with pytest.raises(FileError, match="did not write: 'in/link'; move them away$"):
        check_folder(folder)


@pytest.mark.parametrize(
    ("manifest", "files"),
    [
        ('{"made_by": "nirbridge", "files": {"a": "1"}}', {"a", MANIFEST}),
        ('{"made_by": "nirbridge", "files": {}}', {MANIFEST}),
        ('{"made_by": "nirbridge", "files": ["a"]}', None),
        ('{"made_by": "other", "files": {"a": "1"}}', None),
        ('{"files": {"a": "1"}}', None),
        ("[]", None),
        ("[" * 100_000, None),
        ("{", None),
    ],
)
def test_files_that_a_manifest_of_ours_names(manifest: str, files: set[str] | None, tmp_path: Path) -> None:
    assert known_files(tmp_path) is None
    (tmp_path / MANIFEST).write_text(manifest)
    assert known_files(tmp_path) == files


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"a": 1', "is not a program of nirbridge; make one with nirbridge emit"),
        ('{"n": 1, "n": 2}', "is not a program of nirbridge; make one with nirbridge emit"),
        ('{"n": NaN}', "is not a program of nirbridge; make one with nirbridge emit"),
        (None, "is not a program of nirbridge; make one with nirbridge emit"),
        ('{"n": 1}', "its a.json is damaged (ports is missing), expected a list; make it again with nirbridge emit"),
        ('{"n": 1, "ports": [3]}', "its a.json is damaged (ports is of another type), expected a list; make it again"),
        ("[]", "its a.json is damaged (n is missing), expected a whole number; make it again with nirbridge emit"),
    ],
)
def test_a_document_of_a_program_has_the_fields_that_its_reader_needs(
    text: str | None, message: str, tmp_path: Path
) -> None:
    fields = {"n": int, "ports": list[dict[str, Any]]}
    files = {} if text is None else {"a.json": text.encode()}
    for name, data in files.items():
        (tmp_path / name).write_bytes(data)
    for program, subject in ((tmp_path, f"folder '{tmp_path.name}'"), (Artifact(files), "program")):
        with pytest.raises(FileError) as caught:
            read_document(program, "a.json", fields)
        assert str(caught.value).startswith(f"{subject}: {message}")


def test_a_document_of_a_program_is_read_from_memory_and_from_its_folder(tmp_path: Path) -> None:
    good = {"n": 1, "ports": [{"name": "in"}], "more": None}
    artifact = make_artifact({"a.json": json.dumps(good).encode()}, {"kind": "x"})
    write_artifact(artifact, tmp_path / "p")
    for program in (artifact, tmp_path / "p", str(tmp_path / "p")):
        assert read_document(program, "a.json", {"n": int, "ports": list[dict[str, Any]]}) == good
    with pytest.raises(FileError, match=r"^program: its a.json is damaged \(it is no object\); make it again"):
        read_document(Artifact({"a.json": b"3"}), "a.json", {})
