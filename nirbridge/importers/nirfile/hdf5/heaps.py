"""Looks for loops in the name heaps of an HDF5 file before the library opens it.

A name heap keeps its free space as a list of offsets; the library follows a list that leads back into itself until the
memory is full. Layout: HDF5 File Format Specification, "Local Heaps" (III.D).
"""

from __future__ import annotations

import mmap
import os
import struct

_HEADER = struct.Struct("<4sB3sQQQ")
_FREE = struct.Struct("<QQ")
_END_OF_LIST = 1
_MAX_HEAPS = 1_000_000
_MAX_STEPS = 2_000_000


def heap_fault(descriptor: int) -> str:
    """What is wrong with the name heaps of an open file; empty if every list of free space comes to an end.

    Only what looks like a heap from its first byte to the end of its list can be refused, so weights that happen to
    hold the four letters of a heap do no harm.
    """
    if not os.fstat(descriptor).st_size:
        return ""
    with mmap.mmap(descriptor, 0, access=mmap.ACCESS_READ) as data:
        at, heaps, steps = data.find(b"HEAP"), 0, 0
        while at >= 0:
            taken = _list_length(data, at)
            heaps, steps = heaps + 1, steps + abs(taken)
            if taken < 0:
                return "a heap of names is damaged"
            if heaps > _MAX_HEAPS or steps > _MAX_STEPS:
                return "it has too many heaps of names"
            at = data.find(b"HEAP", at + 4)
    return ""


def _list_length(data: mmap.mmap, at: int) -> int:
    """Entries in the free list of the heap at ``at`` (0 if it is none); negative if the list leads into itself."""
    if at + _HEADER.size > len(data):
        return 0
    _, version, reserved, size, offset, start = _HEADER.unpack_from(data, at)
    if version or any(reserved) or start + size > len(data):
        return 0
    seen: set[int] = set()
    while offset != _END_OF_LIST and offset + _FREE.size <= size:
        if offset in seen or len(seen) > _MAX_STEPS:
            return -len(seen) - 1
        seen.add(offset)
        offset = _FREE.unpack_from(data, start + offset)[0]
    return len(seen)
