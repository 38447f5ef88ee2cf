"""Recordings on disk: lossless, never executed, never half-written."""

from __future__ import annotations

import json
import os
import zipfile
from pathlib import Path
from types import MappingProxyType

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nirbridge.errors import FileError
from nirbridge.files.npy import load_npy, load_npz
from nirbridge.simulators.recording_file import decode_name, encode_name, read_recording, write_recording
from nirbridge.simulators.types import Recording

NAMES = (
    "fc1",
    "a b",
    "x/y",
    "../../etc/passwd",
    "/root",
    "a//b",
    "%2F",
    "%",
    "line\nbreak",
    "nul\0",
    "层",
    "back\\slash",
    "s/v",
    "meta",
    ".",
    "C:x",
)


def some_recording() -> Recording:
    rng = np.random.default_rng(0)
    arrays = {(name, "s"): (rng.random((5, 3)) < 0.5).astype(np.uint8) for name in NAMES}
    arrays["fc1", "v"] = rng.normal(size=(5, 3)).astype(np.float32)
    arrays["fc1", "count"] = np.arange(3)
    meta = {"dt": 1e-3, "steps": 5, "latency": MappingProxyType({"out": 0}), "assumed": ["é"], "n": np.int64(3)}
    return Recording(MappingProxyType(arrays), MappingProxyType(meta))


def test_all_names_and_values_come_back(tmp_path: Path) -> None:
    wanted = some_recording()
    write_recording(wanted, tmp_path / "out.npz")
    found = read_recording(tmp_path / "out.npz")
    assert found.arrays.keys() == wanted.arrays.keys()
    for key, array in wanted.arrays.items():
        assert found.arrays[key].dtype == array.dtype
        assert np.array_equal(found.arrays[key], array)
    assert found.meta == {"dt": 1e-3, "steps": 5, "latency": {"out": 0}, "assumed": ["é"], "n": 3}
    assert list(tmp_path.iterdir()) == [tmp_path / "out.npz"]


def test_numpy_reads_it_with_the_documented_keys(tmp_path: Path) -> None:
    write_recording(some_recording(), tmp_path / "out.npz")
    with np.load(tmp_path / "out.npz", allow_pickle=False) as found:
        assert found["fc1/v"].shape == (5, 3)
        assert found["x/y/s"].shape == (5, 3)
        assert json.loads(str(found["meta"]))["steps"] == 5


def test_members_stay_inside_a_folder_and_bytes_are_the_same_each_time(tmp_path: Path) -> None:
    for name in ("a.npz", "b.npz"):
        write_recording(some_recording(), tmp_path / name)
    assert (tmp_path / "a.npz").read_bytes() == (tmp_path / "b.npz").read_bytes()
    with zipfile.ZipFile(tmp_path / "a.npz") as archive:
        for name in archive.namelist():
            assert not {"", ".", ".."} & set(name.split("/"))
            assert name.isprintable()
            assert "\\" not in name


@given(st.text(min_size=1))
def test_every_name_survives(name: str) -> None:
    assert decode_name(encode_name(name)) == name


def test_what_can_not_be_written_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(FileError, match="^recording 'out.npz': its folder does not exist; create it$"):
        write_recording(some_recording(), tmp_path / "nowhere" / "out.npz")
    bad = Recording(some_recording().arrays, {"dt": float("nan")})
    (tmp_path / "out.npz").write_bytes(b"before")
    with pytest.raises(ValueError, match="not JSON compliant"):
        write_recording(bad, tmp_path / "out.npz")
    assert (tmp_path / "out.npz").read_bytes() == b"before"
    assert len(list(tmp_path.iterdir())) == 1
    long = Recording({("n" * 70_000, "s"): np.zeros(3)}, {})
    with pytest.raises(FileError, match="is too long for an archive; rename the node$"):
        write_recording(long, tmp_path / "out.npz")


def archive_of(path: Path, **members: bytes) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            archive.writestr(f"{name}.npy", data)
    return path


def npy(header: str, data: bytes = b"") -> bytes:
    text = header.encode() + b"\n"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text + data


def test_hostile_archives_are_refused_before_they_are_read(tmp_path: Path) -> None:
    bomb = npy("{'descr': '|u1', 'fortran_order': False, 'shape': (5000000000,), }", bytes(5_000_000))
    with pytest.raises(
        FileError, match="^file 'a.npz', array 'in': 5,000,000,000 bytes, at most 2,147,483,648 are read"
    ):
        load_npz(archive_of(tmp_path / "a.npz", **{"in": bomb}))
    objects = npy("{'descr': '|O', 'fortran_order': False, 'shape': (1,), }", b"cos\nsystem\n")
    with pytest.raises(FileError, match="^file 'b.npz', array 'in': not an array of plain numbers; save plain numbers"):
        load_npz(archive_of(tmp_path / "b.npz", **{"in": objects}))
    short = npy("{'descr': '|u1', 'fortran_order': False, 'shape': (50,), }", b"12")
    with pytest.raises(FileError, match="^file 'c.npz', array 'in': ends early, its header declares 50 bytes"):
        load_npz(archive_of(tmp_path / "c.npz", **{"in": short}))
    (tmp_path / "d.npz").write_bytes(b"PK\x03\x04 no archive")
    with pytest.raises(FileError, match=r"^file 'd.npz': cannot be read \("):
        load_npz(tmp_path / "d.npz")
    with pytest.raises(FileError, match="^file 'e.npz': does not exist; check the path$"):
        load_npz(tmp_path / "e.npz")


def test_single_arrays_are_mapped_and_checked(tmp_path: Path) -> None:
    values = np.arange(24.0).reshape(2, 3, 4)
    for name, array in {"c.npy": values, "f.npy": np.asfortranarray(values), "z.npy": np.zeros((0, 3))}.items():
        np.save(tmp_path / name, array)
        assert np.array_equal(load_npy(tmp_path / name), array)
    (tmp_path / "short.npy").write_bytes((tmp_path / "c.npy").read_bytes()[:-1])
    with pytest.raises(FileError, match="^file 'short.npy': ends early, its header declares 192 bytes; save it again$"):
        load_npy(tmp_path / "short.npy")
    (tmp_path / "empty.npy").touch()
    with pytest.raises(FileError, match="^file 'empty.npy': is empty; save plain numbers"):
        load_npy(tmp_path / "empty.npy")
    np.save(tmp_path / "o.npy", np.array([{}]), allow_pickle=True)
    with pytest.raises(FileError, match="^file 'o.npy': not an array of plain numbers"):
        load_npy(tmp_path / "o.npy")
    with pytest.raises(
        FileError, match="^file 'c.npy': 192 bytes, at most 100 are read; raise --max-bytes, or cut it$"
    ):
        load_npy(tmp_path / "c.npy", max_bytes=100)


@pytest.mark.parametrize(
    ("meta", "message"),
    [
        (None, "^recording 'r.npz': has no text 'meta', "),
        ("[1", r"^recording 'r.npz', meta: not JSON at line 1, column 3 \(Expecting .* delimiter\); record it again$"),
        ("[" * 100_000, "^recording 'r.npz', meta: nested too deeply, at most 64 levels; record it again$"),
        ("{}", "^recording 'r.npz': its meta is of another form, schema 1 is read; record it again$"),
        (
            '{"schema": 1}',
            "^recording 'r.npz': has an array 'odd', arrays are named NODE/VARIABLE; variables are s, v, ",
        ),
    ],
)
def test_what_is_no_recording_is_refused(tmp_path: Path, meta: str | None, message: str) -> None:
    given: dict[str, np.ndarray] = {"odd": np.zeros(3)} | ({} if meta is None else {"meta": np.array(meta)})
    np.savez(tmp_path / "r.npz", **given)
    with pytest.raises(FileError, match=message):
        read_recording(tmp_path / "r.npz")


@pytest.mark.skipif(os.name != "posix", reason="permissions of POSIX")
def test_a_recording_has_the_permissions_of_any_new_file(tmp_path: Path) -> None:
    write_recording(some_recording(), tmp_path / "out.npz")
    (tmp_path / "plain").write_bytes(b"")
    assert (tmp_path / "out.npz").stat().st_mode == (tmp_path / "plain").stat().st_mode
