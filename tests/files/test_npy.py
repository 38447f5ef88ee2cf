"""Arrays in files: every limit on both sides, every refusal in its words, unusual but legal files."""

from __future__ import annotations

import warnings
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nirbridge.errors import FileError
from nirbridge.files import npy
from nirbridge.files.npy import load_npy, load_npz, read_header

AGAIN = "write it with numpy.save or numpy.savez"
RAISE = "raise --max-bytes, or cut it"


def said(call: Any, *args: Any, **options: Any) -> str:
    with pytest.raises(FileError) as caught:
        call(*args, **options)
    return str(caught.value)


def test_an_archive_is_read_up_to_the_last_byte_that_is_allowed(tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    x, y = np.arange(5.0), np.asfortranarray(np.arange(6, dtype=np.int16).reshape(2, 3))
    np.savez(path, x=x, y=y, z=np.zeros((0, 3), np.uint8))
    found = load_npz(path, max_bytes=40 + 12)
    assert {k: (v.tolist(), v.dtype, v.shape) for k, v in found.items()} == {
        "x": (x.tolist(), np.float64, (5,)), "y": (y.tolist(), np.int16, (2, 3)), "z": ([], np.uint8, (0, 3)),
    }  # fmt: skip
    assert found["y"].flags.f_contiguous
    assert said(load_npz, path, max_bytes=51) == f"file 'a.npz', array 'y': 12 bytes, at most 11 are read; {RAISE}"
    assert said(load_npz, path, max_bytes=39) == f"file 'a.npz', array 'x': 40 bytes, at most 39 are read; {RAISE}"


def test_archives_have_so_many_arrays_and_each_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.npz"
    np.savez(path, x=np.ones(1), y=np.ones(2), z=np.ones(3))
    monkeypatch.setattr(npy, "MEMBERS_MAX", 3)
    assert list(load_npz(path)) == ["x", "y", "z"]
    monkeypatch.setattr(npy, "MEMBERS_MAX", 2)
    assert said(load_npz, path) == f"file 'a.npz': 3 arrays, at most 2 are read; {RAISE}"
    with zipfile.ZipFile(tmp_path / "b.npz", "w") as archive, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name in ("x.npy", "x"):
            archive.writestr(name, zipfile.ZipFile(path).read("x.npy"))
    assert said(load_npz, tmp_path / "b.npz") == "file 'b.npz', array 'x': occurs twice; keep one of them"


def test_one_array_alone_may_be_a_text(tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    np.savez(path, x=np.ones(2), meta=np.array("words"), other=np.array("more"))
    plain = "not an array of plain numbers; save plain numbers with numpy.save or numpy.savez"
    assert said(load_npz, path) == f"file 'a.npz', array 'meta': {plain}"
    assert said(load_npz, path, text="meta") == f"file 'a.npz', array 'other': {plain}"
    np.savez(path, x=np.ones(2), meta=np.array("words"))
    assert str(load_npz(path, text="meta")["meta"]) == "words"
    assert said(load_npz, path, text="x") == f"file 'a.npz', array 'meta': {plain}"
    np.save(tmp_path / "t.npy", np.array("words"))
    with (tmp_path / "t.npy").open("rb") as file:
        header = read_header(file, "it", text=True)
    start = (tmp_path / "t.npy").stat().st_size - 20
    assert (header.shape, header.dtype, header.fortran, header.start) == ((), np.dtype("<U5"), False, start)
    with (tmp_path / "t.npy").open("rb") as file:
        assert said(read_header, file, "it") == f"it: {plain}"
    np.savez(path, meta=np.array(["words"]))
    assert said(load_npz, path, text="meta") == f"file 'a.npz', array 'meta': {plain}"


def test_headers_that_are_cut_are_no_headers(tmp_path: Path) -> None:
    path = tmp_path / "a.npy"
    np.save(path, np.ones(3))
    whole = path.read_bytes()
    path.write_bytes(b"")
    assert said(load_npy, path).startswith("file 'a.npy': is empty; save plain numbers with numpy.save or numpy.savez")
    for cut in (5, 9, 10, 60):
        path.write_bytes(whole[:cut])
        assert said(load_npy, path).startswith("file 'a.npy': not an array of plain numbers; save plain numbers with")
    for other in (b"\x93NUMPY\x02\x00", b"\x93NUMPZ\x01\x00"):
        path.write_bytes(other + whole[8:])
        assert said(load_npy, path).startswith("file 'a.npy': not an array of plain numbers")
    path.write_bytes(whole)
    with path.open("rb") as file:
        header = read_header(file, "it")
    assert (header.shape, header.dtype, header.fortran, header.bytes) == ((3,), np.float64, False, 24)
    assert header.start == len(whole) - 24


def test_one_array_is_mapped_up_to_its_end(tmp_path: Path) -> None:
    path = tmp_path / "a.npy"
    values = np.asfortranarray(np.arange(6.0).reshape(2, 3))
    np.save(path, values)
    found = load_npy(path, max_bytes=48)
    assert isinstance(found, np.memmap)
    assert (found.tolist(), found.flags.f_contiguous, found.flags.writeable) == (values.tolist(), True, False)
    assert said(load_npy, path, max_bytes=47) == f"file 'a.npy': 48 bytes, at most 47 are read; {RAISE}"
    path.write_bytes(path.read_bytes() + b"more")
    assert load_npy(path).tolist() == values.tolist()
    path.write_bytes(path.read_bytes()[:-5])
    early = "ends early, its header declares 48 bytes; save it again"
    assert said(load_npy, path) == f"file 'a.npy': {early}"
    np.save(path, np.zeros((0, 3), np.int8))
    assert (load_npy(path).shape, load_npy(path).dtype) == ((0, 3), np.int8)


def test_what_can_not_be_read_says_why(tmp_path: Path) -> None:
    for call in (load_npy, load_npz):
        assert said(call, tmp_path / "no.npy") == "file 'no.npy': does not exist; check the path"
        folder = tmp_path.name
        assert said(call, tmp_path) == f"file '{folder}': cannot be read ('Is a directory'); {AGAIN}"
    (tmp_path / "a.npz").write_bytes(b"no archive")
    assert said(load_npz, tmp_path / "a.npz") == f"file 'a.npz': cannot be read ('File is not a zip file'); {AGAIN}"
    assert str(npy._unreadable("it", OSError())) == f"it: cannot be read ('OSError'); {AGAIN}"


def test_axes_beside_one_of_length_0_are_limited(tmp_path: Path) -> None:
    """Such an array has no data, but a sum over its empty axis would have petabytes."""
    np.save(path := tmp_path / "x.npy", np.zeros((0, 10**12)))
    with pytest.raises(FileError, match="bytes"):
        load_npy(path)
    np.savez(path := tmp_path / "x.npz", a=np.zeros((0, 10**12)))
    with pytest.raises(FileError, match="bytes"):
        load_npz(path)
