"""Reads text of varying length from the heaps of an HDF5 file without the library.

A damaged heap can send the library into an endless loop, so heaps are parsed here, where every step is bounded.
Layout: HDF5 File Format Specification, "Global Heap" (III.E) and "Variable-Length" data.
"""

from __future__ import annotations

import os
import struct
from dataclasses import dataclass, field

REFERENCE_BYTES = 16

_HEADER = struct.Struct("<4sB3xQ")
_OBJECT = struct.Struct("<HHIQ")
_REFERENCE = struct.Struct("<IQI")


@dataclass(slots=True)
class StringHeaps:
    """The heaps of one open file, each parsed once; ``parsed_bytes`` bounds the cost of overlapping heaps."""

    descriptor: int
    parsed_bytes: int = 0
    known: dict[int, dict[int, bytes]] = field(default_factory=dict)

    def texts(self, references: bytes) -> list[bytes]:
        """The texts that stored references point to.

        Raises:
            ValueError: if a reference or its heap is damaged.
        """
        return [
            self._text(*_REFERENCE.unpack_from(references, start))
            for start in range(0, len(references), REFERENCE_BYTES)
        ]

    def _text(self, length: int, address: int, index: int) -> bytes:
        if not length:
            return b""
        heap = self.known.get(address)
        if heap is None:
            heap = self.known[address] = self._parse(address)
        text = heap.get(index)
        if text is None or len(text) < length:
            raise ValueError("a text is not where its reference points")
        return text[:length].split(b"\0", 1)[0]

    def _parse(self, address: int) -> dict[int, bytes]:
        """The objects of the heap at ``address``, by index."""
        file_bytes = os.fstat(self.descriptor).st_size
        if address > file_bytes - _HEADER.size:
            raise ValueError("a text lies beyond the end of the file")
        signature, version, size = _HEADER.unpack(os.pread(self.descriptor, _HEADER.size, address))
        self.parsed_bytes += size
        if signature != b"GCOL" or version != 1 or self.parsed_bytes > 2 * file_bytes or address + size > file_bytes:
            raise ValueError("a heap of texts is damaged")
        return _objects(os.pread(self.descriptor, size, address))


def _objects(heap: bytes) -> dict[int, bytes]:
    objects: dict[int, bytes] = {}
    position = _HEADER.size
    while position + _OBJECT.size <= len(heap):
        index, _count, _reserved, size = _OBJECT.unpack_from(heap, position)
        if index == 0:  # the free space at the end
            break
        start = position + _OBJECT.size
        if start + size > len(heap):
            raise ValueError("a heap of texts is damaged")
        objects[index] = heap[start : start + size]
        position = start + -(-size // 8) * 8
    return objects


def longest_and_total(references: bytes) -> tuple[int, int]:
    """The longest text and the bytes of all texts that references announce."""
    lengths = [length for length, _address, _index in _REFERENCE.iter_unpack(references)]
    return max(lengths, default=0), sum(lengths)
