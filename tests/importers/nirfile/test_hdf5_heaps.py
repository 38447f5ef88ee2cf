"""Recognition of HDF5 heaps of names, one byte of the header at a time."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from nirbridge.importers.nirfile.hdf5 import items as hdf5_heaps

HEAD = struct.Struct("<4sB3sQQQ")


def heap(*, offset: int = 0, size: int = 64, version: int = 0, reserved: bytes = bytes(3), list_: bytes = b"") -> bytes:
    """A heap whose data of ``size`` bytes follow its head; ``list_`` are the first of them."""
    return HEAD.pack(b"HEAP", version, reserved, size, offset, HEAD.size) + list_.ljust(64, b"\0")


def fault(folder: Path, data: bytes) -> str:
    path = folder / "file"
    path.write_bytes(data)
    with path.open("rb") as file:
        return hdf5_heaps.heap_fault(file.fileno())


def free(*entries: tuple[int, int]) -> bytes:
    """Data with the next entry's offset at each of the given offsets."""
    data = bytearray(64)
    for at, following in entries:
        struct.pack_into("<QQ", data, at, following, 16)
    return bytes(data)


LOOPS = [free((0, 0)), free((0, 16), (16, 0)), free((0, 16), (16, 48), (48, 16))]


@pytest.mark.parametrize("list_", LOOPS, ids=["itself", "two", "tail"])
def test_a_list_that_leads_into_itself(tmp_path: Path, list_: bytes) -> None:
    assert fault(tmp_path, heap(list_=list_)) == "a heap of names is damaged"
    assert fault(tmp_path, b"HEAP" + heap(list_=free((0, 1))) + heap()[:20]) == ""


@pytest.mark.parametrize("place", [0, 1, 2])
@pytest.mark.parametrize("wrong", [1, 255])
def test_one_byte_that_must_be_zero_and_is_not_means_no_heap(tmp_path: Path, place: int, wrong: int) -> None:
    reserved = bytes(wrong if i == place else 0 for i in range(3))
    assert fault(tmp_path, heap(reserved=reserved, list_=LOOPS[0])) == ""
    assert fault(tmp_path, heap(version=wrong, list_=LOOPS[0])) == ""


def test_every_heap_of_a_file_is_looked_at(tmp_path: Path) -> None:
    good, bad = heap(list_=free((0, 16), (16, 1))), heap(list_=LOOPS[1])
    assert fault(tmp_path, good) == ""
    at = len(good)  # the second says where its own data begin
    second = HEAD.pack(b"HEAP", 0, bytes(3), 64, 0, at + HEAD.size) + LOOPS[1]
    assert fault(tmp_path, good + second) == "a heap of names is damaged"
    assert fault(tmp_path, bad[:-1]) == "", "its data do not lie in the file"
    assert fault(tmp_path, b"") == ""


def test_an_entry_behind_the_data_ends_the_list(tmp_path: Path) -> None:
    assert fault(tmp_path, heap(list_=free((0, 48), (48, 0)))) == "a heap of names is damaged"
    for offset in (49, 64, 2**63):
        assert fault(tmp_path, heap(list_=free((0, offset)))) == ""


def test_both_bounds_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    three = heap(list_=free((0, 16), (16, 32), (32, 1)))
    monkeypatch.setattr(hdf5_heaps, "_MAX_STEPS", 3)
    assert fault(tmp_path, three) == ""
    monkeypatch.setattr(hdf5_heaps, "_MAX_STEPS", 2)
    assert fault(tmp_path, three) == "it has too many heaps of names"
    monkeypatch.setattr(hdf5_heaps, "_MAX_STEPS", 1)
    assert fault(tmp_path, three) == "a heap of names is damaged"
    monkeypatch.setattr(hdf5_heaps, "_MAX_STEPS", 100)
    monkeypatch.setattr(hdf5_heaps, "_MAX_HEAPS", 2)
    assert fault(tmp_path, b"HEAP" * 2) == ""
    assert fault(tmp_path, b"HEAP" * 3) == "it has too many heaps of names"
