"""The HDF5 scan after its first refusal: counts, the end of the scan, and damage in the file itself."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import h5py
import numpy as np
import pytest

from nirbridge.importers.nirfile.hdf5 import items as hdf5_filters
from nirbridge.importers.nirfile.hdf5 import items as hdf5_text
from nirbridge.importers.nirfile.hdf5 import scan as hdf5_scan
from nirbridge.importers.nirfile.hdf5.items import chunk_fault
from nirbridge.importers.nirfile.hdf5.scan import (
    MAX_CHUNKS,
    MAX_NAME_BYTES,
    MAX_TEXT_BYTES,
    Leaf,
    ScanLimits,
    ScannedFile,
    scan_file,
)

PLAIN = ScanLimits(2**20, 100, 100)


def scanned(folder: Path, fill: Callable[[Any], object], limits: ScanLimits = PLAIN, spoil: Any = None) -> ScannedFile:
    path = folder / "file.h5"
    with h5py.File(path, "w") as file:
        fill(file)
    if spoil is not None:
        path.write_bytes(spoil(path.read_bytes()))
    with path.open("rb") as raw, h5py.File(path, "r") as file:
        return scan_file(file, raw.fileno(), limits)


def said(found: ScannedFile) -> list[str]:
    return [str(p) for p in found.problems]


def test_limits_of_every_file() -> None:
    assert (MAX_NAME_BYTES, MAX_TEXT_BYTES, MAX_CHUNKS, hdf5_scan._MAX_LEVELS) == (1000, 1048576, 100_000, 72)
    assert (hdf5_scan._ITEMS_PER_NODE, hdf5_text.REFERENCE_BYTES) == (16, 16)


def test_a_file_of_other_addresses_is_not_read(tmp_path: Path) -> None:
    plist = h5py.h5p.create(h5py.h5p.FILE_CREATE)
    plist.set_sizes(4, 4)
    path = tmp_path / "small.h5"
    file = h5py.h5f.create(str(path).encode(), h5py.h5f.ACC_TRUNC, plist)
    h5py.h5g.create(file, b"g")
    file.close()
    with path.open("rb") as raw, h5py.File(path, "r") as opened:
        found = scan_file(opened, raw.fileno(), PLAIN)
    assert said(found) == [
        "item '/': its addresses are not of 64 bits, 64 bits are read; write it again with nir.write"
    ]
    assert (found.root.members, found.items) == ({}, 0)


def test_the_problem_of_an_item_holds_its_path(tmp_path: Path) -> None:
    found = scanned(tmp_path, lambda f: f.__setitem__("g/a", h5py.SoftLink("/b")))
    assert [dict(p.ids) for p in found.problems] == [{"path": "g/a"}]


def test_members_are_in_the_order_of_their_names_and_wrong_ones_are_left_out(tmp_path: Path) -> None:
    def fill(file: Any) -> None:
        for name in ("c", "a", "x" * 1001, "b"):
            file.create_dataset(name, data=np.zeros(1))
        file["d"] = h5py.SoftLink("/a")
        file["e"] = h5py.Empty("f4")
        file["f/deep"] = 1.0

    with h5py.File(tmp_path / "plain.h5", "w", track_order=True) as file:
        fill(file)
    with (tmp_path / "plain.h5").open("rb") as raw, h5py.File(tmp_path / "plain.h5", "r") as file:
        found = scan_file(file, raw.fileno(), PLAIN)
    assert list(found.root.members) == ["a", "b", "c", "f"]
    assert len(found.problems) == 3
    assert [p.subject for p in found.problems[:2]] == ["item 'd'", "item 'e'"]


def test_counting_stops_at_the_first_item_over_the_limit(tmp_path: Path) -> None:
    def fill(file: Any) -> None:
        file["a"] = np.zeros(600, np.uint8)
        file["b"] = np.zeros(600, np.uint8)
        file["c"] = np.zeros(600, np.uint8)
        file["d"] = h5py.SoftLink("/a")
        file["g/e"] = np.zeros(600, np.uint8)

    found = scanned(tmp_path, fill, ScanLimits(1000, 9, 9))
    assert (found.bytes, list(found.root.members)) == (1200, ["a"])
    assert said(found) == [
        "content: it declares 1,200 bytes or more, at most 1,000 are read; "
        "raise the limit with --max-bytes if you trust the file"
    ]


def test_a_large_group_is_not_even_listed(tmp_path: Path) -> None:
    def fill(file: Any) -> None:
        for k in range(33):
            file[f"g/{k}"] = h5py.SoftLink("/a")
        file["h"] = h5py.SoftLink("/a")
        file["f/x"] = 1.0

    found = scanned(tmp_path, fill, ScanLimits(10**6, 2, 9))
    assert found.items == 3 + 33, "nor is any group after it"
    assert [p.subject for p in found.problems] == ["item 'h'", "content"]


def test_chunks_count_in_full_even_where_the_array_is_smaller(tmp_path: Path) -> None:
    def fill(shape: tuple[int, ...], chunks: tuple[int, ...]) -> Callable[[Any], object]:
        return lambda f: f.create_dataset("a", shape, "f8", chunks=chunks, maxshape=(None,) * len(shape))

    for shape, chunks, size, count in (((3,), (5,), 40, 1), ((10,), (4,), 80, 3), ((4, 6), (2, 4), 192, 4)):
        found = scanned(tmp_path, fill(shape, chunks))
        assert (found.bytes, found.chunks, said(found)) == (size, count, [])
    over = scanned(tmp_path, fill((3,), (5,)), ScanLimits(39, 9, 9))
    assert (over.root.members, len(over.problems)) == ({}, 1)


def test_texts_count_by_their_references_and_their_lengths(tmp_path: Path) -> None:
    assert scanned(tmp_path, lambda f: f.create_dataset("a", data=["xyz"])).bytes == 8 + 3
    assert scanned(tmp_path, lambda f: f.create_dataset("a", data=np.array([b"xyz", b"z"]))).bytes == 2 * 3


def test_data_beyond_the_end_of_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: dict[str, int] = {}

    def fill(file: Any) -> None:
        made = file.create_dataset("a", data=np.arange(200, dtype=np.float64))
        file.flush()
        sizes["end"] = made.id.get_offset() + 1600

    path = tmp_path / "file.h5"
    with h5py.File(path, "w") as file:
        fill(file)
    for size, is_inside in ((sizes["end"], True), (sizes["end"] - 1, False)):
        monkeypatch.setattr(hdf5_scan.os, "fstat", lambda _, n=size: SimpleNamespace(st_size=n))
        with path.open("rb") as raw, h5py.File(path, "r") as file:
            found = scan_file(file, raw.fileno(), PLAIN)
        assert (found.root.leaf("a") is not None) is is_inside
        text = "item 'a': its data lie beyond the end of the file, the file is cut off; copy the file again"
        assert said(found) == ([] if is_inside else [text])


def test_a_dataset_that_was_never_written_lies_nowhere(tmp_path: Path) -> None:
    found = scanned(tmp_path, lambda f: f.create_dataset("a", (5,), "f8"))
    assert (said(found), found.bytes) == ([], 40)
    texts = scanned(tmp_path, lambda f: f.create_dataset("a", (3,), h5py.string_dtype()))
    leaf = texts.root.leaf("a")
    assert (said(texts), texts.bytes) == ([], 24)
    assert leaf is not None


def test_texts_are_read_while_the_file_is_open_and_empty_ones_where_none_were_written(tmp_path: Path) -> None:
    path = tmp_path / "file.h5"
    with h5py.File(path, "w") as file:
        file.create_dataset("none", (3,), h5py.string_dtype())
        file.create_dataset("some", data=["x", "yz"])
        file["number"] = 1.0
        file["fixed"] = np.bytes_(b"ab")
    with path.open("rb") as raw, h5py.File(path, "r") as file:
        root = scan_file(file, raw.fileno(), PLAIN).root
        leaves = {name: root.leaf(name) for name in ("none", "some", "number", "fixed")}
        found = {name: leaf and leaf.varying_texts() for name, leaf in leaves.items()}
        assert found == {"none": [b""] * 3, "some": [b"x", b"yz"], "number": None, "fixed": None}
        some = leaves["some"]
        assert some is not None
        wrong = Leaf("some", "text", (3,), some.dtype, None, some.stored, some.heaps)
        with pytest.raises(ValueError, match=r"^2 texts are stored where 3 are declared$"):
            wrong.varying_texts()


# -- chunks --------------------------------------------------------------------------------------------------------


def fault(path: Path, name: str, chunk_bytes: int) -> str:
    with path.open("rb") as raw, h5py.File(path, "r") as file:
        dataset = file[name].id
        return chunk_fault(dataset, dataset.get_create_plist(), chunk_bytes, raw.fileno())


PACKED = {"gzip": {"compression": "gzip"}, "checked": {"compression": "gzip", "fletcher32": True}}


@pytest.mark.parametrize("name", PACKED)
def test_what_a_chunk_unpacks_to_at_its_size_and_one_below(name: str, tmp_path: Path) -> None:
    path = tmp_path / "file.h5"
    with h5py.File(path, "w") as file:
        file.create_dataset("a", data=np.zeros(1000, np.uint8), chunks=(500,), **PACKED[name])
        file.create_dataset("plain", data=np.zeros(1000, np.uint8), chunks=(500,))
        file.create_dataset("lzf", data=np.zeros(1000, np.uint8), chunks=(500,), compression="lzf")
    assert fault(path, "a", 500) == ""
    assert fault(path, "a", 499) == "a chunk unpacks to more than its dataset declares"
    assert fault(path, "plain", 1) == ""
    assert fault(path, "lzf", 1) == ""


def test_a_chunk_that_skips_its_filter_is_as_large_as_it_is_stored(tmp_path: Path) -> None:
    path = tmp_path / "file.h5"
    with h5py.File(path, "w") as file:
        made = file.create_dataset("a", shape=(3000,), dtype="u1", chunks=(1000,), compression="gzip", shuffle=True)
        made.id.write_direct_chunk((0,), bytes(1000), filter_mask=3)
        made.id.write_direct_chunk((1000,), b"no stream" * 20, filter_mask=2)
    assert fault(path, "a", 1000) == ""
    with h5py.File(path, "r+") as file:
        file["a"].id.write_direct_chunk((2000,), b"no stream" * 20, filter_mask=1)
    assert fault(path, "a", 1000) == "a gzip chunk is damaged"


def stored(
    size: int, *, chunk: int = 640, offset: int = 0, file_bytes: int = 10**6, codes: tuple[int, ...] = (2,)
) -> str:
    info = SimpleNamespace(byte_offset=offset, size=size)
    return hdf5_filters._stored_fault(info, list(codes), chunk, -1, file_bytes)


def test_sizes_of_stored_chunks() -> None:
    larger, beyond = "a stored chunk is larger than the chunk it holds", "a chunk lies beyond the end of the file"
    assert (stored(640 + 10 + 1024), stored(640 + 10 + 1025)) == ("", larger)
    assert (stored(1000, offset=500, file_bytes=1500), stored(1000, offset=501, file_bytes=1500)) == ("", beyond)
    assert stored(100, codes=(2, 32000, 3)) == ""


def test_the_announced_size_of_an_szip_chunk(tmp_path: Path) -> None:
    path = tmp_path / "chunk"
    for announced, message in ((640, ""), (641, "a chunk unpacks to more than its dataset declares")):
        path.write_bytes(b"??" + announced.to_bytes(4, "little") + b"\xff" * 20)
        with path.open("rb") as raw:
            info = SimpleNamespace(byte_offset=2, size=24)
            assert hdf5_filters._stored_fault(info, [4], 640, raw.fileno(), 26) == message


def test_filters_that_this_library_lacks(monkeypatch: pytest.MonkeyPatch) -> None:
    class List:
        def get_nfilters(self) -> int:
            return 2

        def get_filter(self, i: int) -> tuple[int, int, tuple[int, ...], bytes]:
            return (2, 32000)[i], 0, (), b""

    library = SimpleNamespace(h5z=SimpleNamespace(filter_avail=lambda code: code != 32000))
    monkeypatch.setattr(hdf5_filters, "hdf5", lambda: library)
    assert hdf5_filters.pipeline_fault(List(), 1) == "the lzf filter is not available in this HDF5 library"
