"""Refusals of the HDF5 scan, in full, and each count at its limit and one above it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from nirbridge.importers.nirfile import reader as nir_save
from nirbridge.importers.nirfile.hdf5 import items as hdf5_filters
from nirbridge.importers.nirfile.hdf5 import scan as hdf5_scan
from nirbridge.importers.nirfile.hdf5.items import metadata_of
from nirbridge.importers.nirfile.hdf5.scan import ScanLimits, ScannedFile, scan_file

PLAIN = ScanLimits(2**20, 100, 100)


def scanned(folder: Path, fill: Callable[[Any], object], limits: ScanLimits = PLAIN) -> ScannedFile:
    path = folder / "file.h5"
    with h5py.File(path, "w") as file:
        fill(file)
    with path.open("rb") as raw, h5py.File(path, "r") as file:
        return scan_file(file, raw.fileno(), limits)


def said(folder: Path, fill: Callable[[Any], object], limits: ScanLimits = PLAIN) -> list[str]:
    return [str(p) for p in scanned(folder, fill, limits).problems]


def put(name: str, value: Any, **options: Any) -> Callable[[Any], object]:
    return lambda file: file.create_dataset(name, data=value, **options)


def test_what_is_found_and_counted(tmp_path: Path) -> None:
    def fill(file: Any) -> None:
        file["g/a"] = np.arange(6, dtype=np.float32).reshape(2, 3)
        file["g/t"] = np.array([True, False])
        file["g/s"] = "text"
        file["g/f"] = np.bytes_(b"fixed")
        file.create_dataset("g/c", data=np.arange(10, dtype=np.int16), chunks=(4,))

    found = scanned(tmp_path, fill)
    group = found.root.branch("g")
    assert group is not None
    assert found.problems == []
    assert (found.items, found.chunks, found.bytes) == (6, 3, 24 + 2 + 8 + 4 + 5 + 20)
    leaves = {name: group.leaf(name) for name in "atsfc"}
    assert [leaf and leaf.content for leaf in leaves.values()] == ["number", "truth", "text", "text", "number"]
    assert [leaf and (leaf.path, leaf.size) for leaf in leaves.values()][:2] == [("g/a", 6), ("g/t", 2)]
    assert (group.branch("a"), found.root.leaf("g"), group.leaf("none")) == (None, None, None)


LAST = "; store it again with nir.write"
UNUSUAL = ", real numbers of at most 64 bits, truth values or text are read; store it as floats"


@pytest.mark.parametrize(
    ("fill", "message"),
    [
        (put("a", np.zeros(2, np.complex64)), f"its values are of an unusual type (compound or complex){UNUSUAL}"),
        (
            lambda f: f.create_dataset("a", (2,), h5py.vlen_dtype(np.int32)),
            f"its values are of an unusual type (lists of varying length){UNUSUAL}",
        ),
        (
            lambda f: f.create_dataset("a", (2,), h5py.ref_dtype),
            f"its values are of an unusual type (references){UNUSUAL}",
        ),
        (put("a", np.zeros(2, "V3")), f"its values are of an unusual type (HDF5 class 5){UNUSUAL}"),
        (put("a", np.zeros(2, np.longdouble)), f"its values are of an unusual type (HDF5 class 1){UNUSUAL}"),
        (
            lambda f: f.create_dataset("a", (2,), h5py.enum_dtype({"x": 1})),
            f"its values are of an unusual type (HDF5 class 8){UNUSUAL}",
        ),
        (
            lambda f: f.create_dataset("a", data=h5py.Empty("f4")),
            "it is empty (null), numbers or text are expected; store a value or remove it",
        ),
        (
            lambda f: f.__setitem__("a", np.dtype("f4")),
            "it is a stored type, only groups and datasets are read; remove it",
        ),
        (
            lambda f: f.__setitem__("a", h5py.SoftLink("/b")),
            "it is a soft link, links are never followed; store the data itself in the file",
        ),
        (
            lambda f: f.__setitem__("a", h5py.ExternalLink("other.h5", "/b")),
            "it is a link to another file, links are never followed; store the data itself in the file",
        ),
        (
            lambda f: f.create_dataset("a", (2,), "f4", external=[("raw", 0, 8)]),
            "its data lie in another file, other files are never read; store the data in the file",
        ),
        (
            lambda f: f.create_dataset("a", data=["x"] * 9, dtype=h5py.string_dtype(), chunks=(2,)),
            "its text is stored in chunks or in the header, text of varying length must be stored contiguously" + LAST,
        ),
    ],
)
def test_items_that_are_not_read(tmp_path: Path, fill: Callable[[Any], object], message: str) -> None:
    assert said(tmp_path, fill) == [f"item 'a': {message}"]


def test_one_object_under_two_names_and_odd_names(tmp_path: Path) -> None:
    def fill(file: Any) -> None:
        file["g/a"] = 1.0
        file["g/b"] = file["g/a"]
        file["g/" + "n" * 1000] = 1.0
        file["g/" + "n" * 1001] = 1.0
        h5py.h5d.create(file.id, b"\xff", h5py.h5t.NATIVE_FLOAT, h5py.h5s.create_simple((1,)))

    lines = said(tmp_path, fill)
    assert lines[0] == "item '\\xff': its name is not UTF-8, names must be UTF-8; rename it"
    assert lines[1] == (
        "item 'g/b': it is a group or dataset that has another name too, each may be there once; store a copy of it"
    )
    assert lines[2].endswith("its name has 1,001 bytes, at most 1,000; rename it")
    assert len(lines) == 3


def test_bytes_at_the_limit_and_one_above(tmp_path: Path) -> None:
    fill = put("a", np.zeros(1000, np.uint8))
    assert said(tmp_path, fill, ScanLimits(1000, 9, 9)) == []
    assert said(tmp_path, fill, ScanLimits(999, 9, 9)) == [
        "content: it declares 1,000 bytes or more, at most 999 are read; "
        "raise the limit with --max-bytes if you trust the file"
    ]


def test_items_at_the_limit_and_one_above(tmp_path: Path) -> None:
    def fill(file: Any) -> None:
        for k in range(32):
            file[f"a{k}"] = 1.0

    assert said(tmp_path, fill, ScanLimits(10**6, 2, 9)) == []

    def more(file: Any) -> None:
        fill(file)
        file["one more"] = 1.0

    assert said(tmp_path, more, ScanLimits(10**6, 2, 9)) == [
        "content: it declares 33 items or more, at most 32 are read; raise max_nodes where load is called"
    ]


def test_chunks_at_the_limit_and_one_above(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hdf5_scan, "MAX_CHUNKS", 6)
    assert said(tmp_path, put("a", np.zeros((5, 3)), chunks=(2, 2))) == []
    assert said(tmp_path, put("a", np.zeros((5, 5)), chunks=(2, 2))) == [
        "content: it declares 9 chunks or more, at most 6 are read; store the arrays in larger chunks or contiguously"
    ]


def test_levels_at_the_limit_and_one_above(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hdf5_scan, "_MAX_LEVELS", 2)
    assert said(tmp_path, lambda f: f.create_group("a/b")) == []
    assert said(tmp_path, lambda f: f.create_group("a/b/c")) == [
        "item 'a/b/c': groups are nested 3 deep, at most 2 levels are read; flatten the model where it was made"
    ]


def test_texts_at_the_limit_and_one_above(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hdf5_scan, "MAX_TEXT_BYTES", 1000)
    assert said(tmp_path, put("a", "x" * 1000)) == []
    assert said(tmp_path, put("a", "x" * 1001)) == [
        "item 'a': it holds a text of 1,001 bytes, at most 1,000 are read; shorten it"
    ]
    many = ["x"] * 2002
    assert said(tmp_path, put("a", many), ScanLimits(2**20, 9, 1001)) == []
    assert said(tmp_path, put("a", many), ScanLimits(2**20, 9, 1000)) == [
        "item 'a': it holds 2,002 texts, at most 2,000 are read; raise max_edges where load is called"
    ]
    lengths = scanned(tmp_path, put("a", ["xyz"] * 10))
    assert lengths.bytes == 10 * (8 + 3)


def test_chains_of_filters() -> None:
    gzip, shuffle, sums, szip, lzf = 1, 2, 3, 4, 32000
    plain = [[], [gzip], [shuffle], [sums], [shuffle, gzip], [gzip, sums], [shuffle, lzf, sums], [szip]]
    odd = [[gzip, shuffle], [gzip, gzip], [sums, gzip], [gzip, lzf], [shuffle, shuffle], [sums, sums]]
    assert [hdf5_filters._is_plain(codes) for codes in plain] == [True] * len(plain)
    assert [hdf5_filters._is_plain(codes) for codes in odd] == [False] * len(odd)


def pipeline(*codes: int, values: tuple[int, ...] = ()) -> str:
    class List:
        def get_nfilters(self) -> int:
            return len(codes)

        def get_filter(self, i: int) -> tuple[int, int, tuple[int, ...], bytes]:
            return codes[i], 0, values, b""

    return hdf5_filters.pipeline_fault(List(), 100)


def test_filters_that_are_refused() -> None:
    assert pipeline(2, 1) == ""
    assert pipeline(2, 305) == "filter 305 is not known"
    assert pipeline(1, 2) == "its filters are chained as gzip, shuffle"
    assert pipeline(32000, values=(4, 261, 100)) == ""
    assert pipeline(32000, values=(4, 261, 101)) == "its lzf filter announces more than the chunk holds"
    assert pipeline(32000, values=(4, 261)) == ""
    assert pipeline(1, values=(4, 261, 101)) == ""


@pytest.mark.parametrize("limit", [0, 1, 99, 100, 101, 2**21])
def test_bytes_that_a_stream_inflates_to(limit: int) -> None:
    import zlib

    assert hdf5_filters._unpacked_size(zlib.compress(bytes(100)), limit) == min(100, limit + 1)
    assert hdf5_filters._unpacked_size(b"no stream", limit) == -1
    assert hdf5_filters._unpacked_size(zlib.compress(b""), limit) == 0
    assert hdf5_filters._unpacked_size(zlib.compress(bytes(100))[:2], limit) == 0


def test_metadata_comes_back_as_it_was(tmp_path: Path) -> None:
    def fill(file: Any) -> None:
        file["m/text"] = "ä"
        file["m/list"] = ["a", "b"]
        file["m/number"] = 2.5
        file["m/array"] = np.arange(3, dtype=">i4")
        file["m/inner/flag"] = True

    path = tmp_path / "file.h5"
    with h5py.File(path, "w") as file:
        fill(file)
    with path.open("rb") as raw, h5py.File(path, "r") as file:
        branch = scan_file(file, raw.fileno(), PLAIN).root.branch("m")
        assert branch is not None
        found = metadata_of(branch)
    array = found.pop("array")
    assert (array.tolist(), array.dtype) == ([0, 1, 2], np.dtype("=i4"))
    assert found == {"text": "ä", "list": ["a", "b"], "number": 2.5, "inner": {"flag": True}}


@pytest.mark.parametrize(
    ("name", "fault"),
    [
        ("a", ""),
        ("a.b", ""),
        (7, "is no text"),
        ("\ud800", "is not valid Unicode"),
        ("ä" * 500, ""),
        ("ä" * 501, "has 1,002 bytes, at most 1,000 are stored"),
        ("a\0b", "holds a NUL"),
        ("", "is empty or '.'"),
        (".", "is empty or '.'"),
        ("a/./b", "is empty or '.' between its slashes"),
        ("a/", "is empty or '.' between its slashes"),
    ],
)
def test_names_that_hdf5_does_not_keep(name: object, fault: str) -> None:
    assert nir_save._name_fault(name) == fault


def test_values_that_can_be_stored_as_metadata() -> None:
    for value in ("a", "", 1, 2.5, True, [1, 2], np.arange(3), ["a", "b"], ("a",), [[1], [2]], []):
        assert nir_save._is_storable(value), value
    for value in ("a\0", "\ud800", "\udfff", None, [1, "a"], ["a", "b\0"], [[1], [2, 3]], 1j, {"a"}, object()):
        assert not nir_save._is_storable(value), value


def test_metadata_that_cannot_be_stored_is_named_by_its_place() -> None:
    metadata = {"ok": 1, "a/b": 1, "inner": {"x": {"deep": None}, "": 1}}
    assert [str(p) for p in nir_save._metadata_problems(metadata, "node 'n'")] == [
        "node 'n': a key of its metadata 'a/b' holds a slash, HDF5 cannot store it; rename the key",
        "node 'n': its metadata 'inner' 'x' 'deep' is a NoneType, text, numbers and arrays of them are stored; "
        "convert or remove it",
        "node 'n': a key of its metadata 'inner' '' is empty or '.', HDF5 cannot store it; rename the key",
    ]
