"""Checks of an HDF5 file before the library reads it: compressed chunks and heaps of names.

The library trusts the unpacked size that a chunk states, so that a small file could fill the memory. Here each chunk
must unpack to at most the size that its dataset declares. Filter numbers: HDF5 reference, "Filters"; 32000 is LZF of
h5py.

A name heap keeps its free space as a list of offsets; the library follows a list that leads back into itself until the
memory is full. Layout: HDF5 File Format Specification, "Local Heaps" (III.D).
"""

from __future__ import annotations

import mmap
import os
import struct
import zlib
from types import MappingProxyType
from typing import Any

_DEFLATE, _SHUFFLE, _FLETCHER32, _SZIP, _LZF = 1, 2, 3, 4, 32000
_NAMES = MappingProxyType(
    {_DEFLATE: "gzip", _SHUFFLE: "shuffle", _FLETCHER32: "fletcher32", _SZIP: "szip", _LZF: "lzf"}
)
_UNPACKS = frozenset({_DEFLATE, _SZIP, _LZF})
_CHECKSUM_BYTES = 4
_DEFLATE_OVERHEAD_BYTES = 1024


def hdf5() -> Any:
    """h5py with its low-level modules (h5d, h5o …), which its type stubs leave out."""
    import h5py

    return h5py


def pipeline_fault(plist: Any, chunk_bytes: int) -> str:
    """The fault of the filters of a dataset (its creation property list); empty if they can be used.

    A filter that is not in the table is never looked up, since the library would load a plugin for it.
    """
    codes = []
    for i in range(plist.get_nfilters()):
        code, _flags, values, _name = plist.get_filter(i)
        codes.append(code)
        if code == _LZF and len(values) >= 3 and values[2] > chunk_bytes:
            return "its lzf filter announces more than the chunk holds"
    unknown = [code for code in codes if code not in _NAMES]
    if unknown:
        return f"filter {unknown[0]} is not known"
    if not _is_plain(codes):
        return f"its filters are chained as {', '.join(_NAMES[c] for c in codes)}"
    missing = [code for code in codes if not hdf5().h5z.filter_avail(code)]
    return f"the {_NAMES[missing[0]]} filter is not available in this HDF5 library" if missing else ""


def _is_plain(codes: list[int]) -> bool:
    """True for: shuffle or not, at most one compression, a checksum or not, in this order."""
    rest = list(codes)
    for group in ({_SHUFFLE}, _UNPACKS, {_FLETCHER32}):
        if rest and rest[0] in group:
            rest.pop(0)
    return not rest


def chunk_fault(dataset: Any, plist: Any, chunk_bytes: int, descriptor: int) -> str:
    """The fault of the stored chunks of a dataset; empty if each unpacks to at most ``chunk_bytes``.

    Args:
        dataset: the low-level dataset (``h5py.h5d.DatasetID``).
        plist: its creation property list.
        chunk_bytes: size of one unpacked chunk.
        descriptor: the open file, to read the raw chunks from.
    """
    codes = [plist.get_filter(i)[0] for i in range(plist.get_nfilters())]
    if not codes:
        return ""
    faults: list[str] = []
    file_bytes = os.fstat(descriptor).st_size

    def visit(info: Any) -> bool | None:
        skipped = {code for i, code in enumerate(codes) if info.filter_mask >> i & 1}
        active = [code for code in codes if code not in skipped]
        fault = _stored_fault(info, active, chunk_bytes, descriptor, file_bytes)
        if fault:
            faults.append(fault)
        return True if fault else None  # True ends the iteration

    dataset.chunk_iter(visit)
    return faults[0] if faults else ""


def only_chunk(dataset: Any, plist: Any, size: int, descriptor: int) -> bytes | None:
    """The bytes of a dataset that is one gzip chunk and unpacks to exactly ``size`` bytes, checksum and all; else None.

    Args:
        dataset: the low-level dataset (``h5py.h5d.DatasetID``), stored in chunks.
        plist: its creation property list.
        size: the required unpacked size.
        descriptor: the open file, to read the raw chunk from.
    """
    if plist.get_nfilters() != 1 or plist.get_filter(0)[0] != _DEFLATE or dataset.get_num_chunks() != 1:
        return None
    info = dataset.get_chunk_info(0)
    if info.filter_mask or info.size > size + size // 64 + _DEFLATE_OVERHEAD_BYTES:
        return None
    try:
        inflate = zlib.decompressobj()
        out = inflate.decompress(os.pread(descriptor, info.size, info.byte_offset), size + 1)
    except zlib.error:
        return None
    return out if inflate.eof and len(out) == size else None


def _stored_fault(info: Any, codes: list[int], chunk_bytes: int, descriptor: int, file_bytes: int) -> str:
    if info.byte_offset + info.size > file_bytes:
        return "a chunk lies beyond the end of the file"
    if info.size > chunk_bytes + chunk_bytes // 64 + _DEFLATE_OVERHEAD_BYTES:
        return "a stored chunk is larger than the chunk it holds"
    packed = _UNPACKS.intersection(codes)
    if not packed or packed == {_LZF}:  # lzf unpacks to at most 88 times its size
        return ""
    raw = os.pread(descriptor, info.size, info.byte_offset)
    if _FLETCHER32 in codes:
        raw = raw[:-_CHECKSUM_BYTES]
    size = _unpacked_size(raw, chunk_bytes) if packed == {_DEFLATE} else int.from_bytes(raw[:4], "little")
    if size < 0:
        return "a gzip chunk is damaged"
    return "a chunk unpacks to more than its dataset declares" if size > chunk_bytes else ""


def _unpacked_size(raw: bytes, limit: int) -> int:
    """Bytes that ``raw`` inflates to, counted to ``limit`` + 1; -1 if it is no deflate stream."""
    inflate = zlib.decompressobj()
    size, piece = 0, raw
    try:
        while size <= limit and piece:
            out = inflate.decompress(piece, min(1 << 20, limit + 1 - size))
            size += len(out)
            piece = inflate.unconsumed_tail
            if not out:
                break
    except zlib.error:
        return -1
    return size


_HEADER = struct.Struct("<4sB3sQQQ")
_FREE = struct.Struct("<QQ")
_END_OF_LIST = 1
_MAX_HEAPS = 1_000_000
_MAX_STEPS = 2_000_000


def heap_fault(descriptor: int) -> str:
    """The fault of the name heaps of an open file; empty if every list of free space ends.

    Only what looks like a heap from its first byte to the end of its list can be refused, so weights that happen to
    hold the four letters of a heap do no harm.
    """
    if not os.fstat(descriptor).st_size:
        return ""
    with mmap.mmap(descriptor, 0, access=mmap.ACCESS_READ) as data:
        position, heaps, steps = data.find(b"HEAP"), 0, 0
        while position >= 0:
            entries = _list_length(data, position)
            heaps, steps = heaps + 1, steps + abs(entries)
            if entries < 0:
                return "a heap of names is damaged"
            if heaps > _MAX_HEAPS or steps > _MAX_STEPS:
                return "it has too many heaps of names"
            position = data.find(b"HEAP", position + 4)
    return ""


def _list_length(data: mmap.mmap, position: int) -> int:
    """Entries in the free list of the heap at ``position`` (0 if there is none); negative if the list is circular."""
    if position + _HEADER.size > len(data):
        return 0
    _, version, reserved, size, offset, start = _HEADER.unpack_from(data, position)
    if version or any(reserved) or start + size > len(data):
        return 0
    visited: set[int] = set()
    while offset != _END_OF_LIST and offset + _FREE.size <= size:
        if offset in visited or len(visited) > _MAX_STEPS:
            return -len(visited) - 1
        visited.add(offset)
        offset = _FREE.unpack_from(data, start + offset)[0]
    return len(visited)
