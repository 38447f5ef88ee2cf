"""Variable-length texts, read from handmade heaps: every field of a heap, and damage."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from nirbridge.importers.nirfile.hdf5.items import StringHeaps, longest_and_total

BEFORE = 40
"""Bytes of the file before the heap."""


def heap(
    *texts: bytes, signature: bytes = b"GCOL", version: int = 1, size: int | None = None, tail: bytes = b""
) -> bytes:
    """A heap of these texts, numbered from 1; ``size``: what its head says."""
    body = b""
    for k, text in enumerate(texts):
        body += struct.pack("<HHIQ", k + 1, 1, 0, len(text)) + text.ljust(-(-len(text) // 8) * 8, b"\0")
    body += tail
    return struct.pack("<4sB3xQ", signature, version, 16 + len(body) if size is None else size) + body


def read(folder: Path, data: bytes, *references: tuple[int, int, int]) -> list[bytes]:
    path = folder / "file"
    path.write_bytes(bytes(BEFORE) + data)
    with path.open("rb") as file:
        return StringHeaps(file.fileno()).texts(b"".join(struct.pack("<IQI", *r) for r in references))


def test_texts_are_where_their_references_point(tmp_path: Path) -> None:
    data = heap(b"one", b"12345678", b"three and more")
    found = read(tmp_path, data, (3, BEFORE, 1), (8, BEFORE, 2), (14, BEFORE, 3), (5, BEFORE, 3), (0, 10**9, 9))
    assert found == [b"one", b"12345678", b"three and more", b"three", b""]


def test_a_text_ends_at_its_first_zero(tmp_path: Path) -> None:
    assert read(tmp_path, heap(b"ab\0cd\0e"), (7, BEFORE, 1)) == [b"ab"]


def test_free_space_ends_the_objects(tmp_path: Path) -> None:
    free = struct.pack("<HHIQ", 0, 0, 0, 16) + struct.pack("<HHIQ", 2, 1, 0, 0)
    with pytest.raises(ValueError, match=r"^a text is not where its reference points$"):
        read(tmp_path, heap(b"one", tail=free), (1, BEFORE, 2))


def test_a_heap_that_fills_the_file_exactly_is_read_once(tmp_path: Path) -> None:
    data = heap(b"12345678" * 5)  # read twice, it would be more than twice the file
    assert read(tmp_path, data, *[(8, BEFORE, 1)] * 9) == [b"12345678"] * 9


@pytest.mark.parametrize(
    ("data", "reference", "said"),
    [
        (heap(b"one"), (4, BEFORE, 1), "a text is not where its reference points"),
        (heap(b"one"), (3, BEFORE, 2), "a text is not where its reference points"),
        (heap(b"one"), (3, BEFORE + 25, 1), "a text lies beyond the end of the file"),
        (heap(b"one"), (3, BEFORE + 24, 1), "a heap of texts is damaged"),
        (heap(b"one", signature=b"GCOM"), (3, BEFORE, 1), "a heap of texts is damaged"),
        (heap(b"one", version=2), (3, BEFORE, 1), "a heap of texts is damaged"),
        (heap(b"one", version=0), (3, BEFORE, 1), "a heap of texts is damaged"),
        (heap(b"one", size=41), (3, BEFORE, 1), "a heap of texts is damaged"),
        (heap(b"one", size=39), (3, BEFORE, 1), None),
        (heap(b"12345678", size=39), (8, BEFORE, 1), "a heap of texts is damaged"),
        (heap(b"12345678", size=31), (8, BEFORE, 1), "a text is not where its reference points"),
    ],
)
def test_damaged_heaps(tmp_path: Path, data: bytes, reference: tuple[int, int, int], said: str | None) -> None:
    if said is None:
        assert read(tmp_path, data, reference) == [b"one"]
        return
    with pytest.raises(ValueError, match=f"^{said}$"):
        read(tmp_path, data, reference)


def test_overlapping_heaps_cost_no_more_than_twice_the_file(tmp_path: Path) -> None:
    inner = heap(b"x" * 8)
    data = inner + bytes(24)
    path = tmp_path / "file"
    path.write_bytes(bytes(BEFORE) + data)
    with path.open("rb") as file:
        size, taken = BEFORE + len(data), len(inner)
        heaps = StringHeaps(file.fileno(), parsed_bytes=2 * size - taken)
        assert heaps.texts(struct.pack("<IQI", 8, BEFORE, 1)) == [b"x" * 8]
        assert heaps.parsed_bytes == 2 * size
        with pytest.raises(ValueError, match="a heap of texts is damaged"):
            StringHeaps(file.fileno(), parsed_bytes=2 * size - taken + 1).texts(struct.pack("<IQI", 8, BEFORE, 1))


def test_what_references_announce() -> None:
    references = b"".join(struct.pack("<IQI", n, 0, 0) for n in (3, 9, 2))
    assert longest_and_total(references) == (9, 14)
    assert longest_and_total(b"") == (0, 0)
