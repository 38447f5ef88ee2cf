"""Items of a scanned HDF5 file (groups, datasets, values in native byte order), and checks before they are read."""

from __future__ import annotations

import math
import mmap
import os
import struct
import zlib
from dataclasses import dataclass, field
from functools import lru_cache
from types import MappingProxyType
from typing import Any, Literal

import numpy as np

Content = Literal["number", "truth", "text"]


@dataclass(frozen=True, slots=True, eq=False)
class Leaf:
    """One dataset: numbers, truth values or text.

    ``stored`` are its bytes as they lie in the file, unpacked (of text of varying length: its references), where the
    scan copied them. Where it did not, ``dataset`` is open (``h5py.h5d.DatasetID``).
    """

    path: str
    content: Content
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    dataset: Any
    stored: bytes | None
    heaps: StringHeaps

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    def values(self) -> np.ndarray[Any, Any]:
        """A new array of the elements in native byte order; text is of fixed length.

        Raises:
            OSError: if they are damaged.
        """
        native = self.dtype.newbyteorder("=")
        if self.stored is not None:
            return np.frombuffer(self.stored, self.dtype).reshape(self.shape).astype(native)
        values = np.empty(self.shape, native)
        if values.size:
            every = hdf5().h5s.ALL
            self.dataset.read(every, every, values, native_type(native))
        return values

    def varying_texts(self) -> list[bytes] | None:
        """The elements if they are text of varying length (read without the HDF5 library), else None.

        Raises:
            ValueError: if they are damaged.
        """
        if self.dtype.kind != "O":
            return None
        texts = self.heaps.texts(self.stored or b"") or [b""] * self.size
        if len(texts) != self.size:
            raise ValueError(f"{len(texts)} texts are stored where {self.size} are declared")
        return texts


@lru_cache(maxsize=32)
def native_type(dtype: np.dtype[Any]) -> Any:
    """The HDF5 type of a numpy type (``h5py.h5t.TypeID``)."""
    return hdf5().h5t.py_create(dtype)


@dataclass(slots=True, eq=False)
class Branch:
    """One group: its members by name, in name order."""

    path: str
    members: dict[str, Leaf | Branch] = field(default_factory=dict)

    def branch(self, name: str) -> Branch | None:
        """The member of that name if it is a group."""
        member = self.members.get(name)
        return member if isinstance(member, Branch) else None

    def leaf(self, name: str) -> Leaf | None:
        """The member of that name if it is a dataset."""
        member = self.members.get(name)
        return member if isinstance(member, Leaf) else None


_WRITTEN_OUT_MAX = 2**16
"""Elements up to which one number for all of them is written out."""


def array_of(leaf: Leaf) -> Any:
    """The numbers or truth values of a dataset: an array, or a numpy scalar as nir gives for shape ().

    A large dataset that stores nothing but its fill value is a read-only view of that one number.
    """
    if leaf.size > _WRITTEN_OUT_MAX and not leaf.dataset.get_storage_size():
        native = leaf.dtype.newbyteorder("=")
        return np.broadcast_to(np.asarray(hdf5().Dataset(leaf.dataset).fillvalue, native), leaf.shape)
    values = leaf.values()
    return values if values.ndim else values[()]


def text_of(leaf: Leaf) -> str:
    """The text of a dataset with one element."""
    return _elements(leaf)[0]


def texts_of(leaf: Leaf) -> list[Any]:
    """The texts of a dataset, nested lists of its shape."""
    flat = np.empty(leaf.size, dtype=object)
    flat[:] = _elements(leaf)
    return flat.reshape(leaf.shape).tolist()


def _elements(leaf: Leaf) -> list[str]:
    encoded = leaf.varying_texts()
    if encoded is None:
        encoded = np.asarray(hdf5().Dataset(leaf.dataset)[()]).reshape(-1).tolist()
    return [item.decode("utf-8") for item in encoded]


def metadata_of(branch: Branch) -> dict[str, Any]:
    """Metadata as nir holds it: strings, numbers, arrays, lists of strings, and dicts of these."""
    metadata: dict[str, Any] = {}
    for name, member in branch.members.items():
        if isinstance(member, Branch):
            metadata[name] = metadata_of(member)
        elif member.content == "text":
            metadata[name] = text_of(member) if not member.shape else texts_of(member)
        else:
            metadata[name] = array_of(member)
    return metadata


# -- strings -------------------------------------------------------------------------------------------------------
# Reads text of varying length from the heaps of an HDF5 file without the library.
#
# A damaged heap can send the library into an endless loop, so heaps are parsed here, where every step is bounded.
# Layout: HDF5 File Format Specification, "Global Heap" (III.E) and "Variable-Length" data.

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


def global_heap_fault(descriptor: int) -> str:
    """The fault of the heaps of texts of an open file; empty if the library can read them.

    For attributes, whose texts the library reads itself: a heap that states sizes beyond its end, or free space of no
    bytes, would keep it busy. Every place with a heap's first letters is taken for one.
    """
    if not os.fstat(descriptor).st_size:
        return ""
    with mmap.mmap(descriptor, 0, access=mmap.ACCESS_READ) as data:
        position, parsed = data.find(b"GCOL"), 0
        while position >= 0:
            size = _HEADER.unpack_from(data, position)[2] if position + _HEADER.size <= len(data) else 0
            parsed += size
            if not _HEADER.size <= size <= len(data) - position or parsed > 2 * len(data):
                return "a heap of texts lies beyond the end"
            if not _is_sound_heap(data, position, position + size):
                return "a heap of texts is damaged"
            position = data.find(b"GCOL", position + 4)
    return ""


def _is_sound_heap(data: mmap.mmap, start: int, end: int) -> bool:
    """True where the objects of a heap fill it, each within its bounds."""
    position = start + _HEADER.size
    while position + _OBJECT.size <= end:
        index, _count, _reserved, size = _OBJECT.unpack_from(data, position)
        taken = size if index == 0 else _OBJECT.size + -(-size // 8) * 8
        if taken < _OBJECT.size or position + taken > end:
            return False
        position += taken
    return True


def longest_and_total(references: bytes) -> tuple[int, int]:
    """The longest text and the bytes of all texts that references announce."""
    lengths = [length for length, _address, _index in _REFERENCE.iter_unpack(references)]
    return max(lengths, default=0), sum(lengths)


# -- integrity -----------------------------------------------------------------------------------------------------
# Checks of an HDF5 file before the library reads it: compressed chunks and heaps of names.
#
# The library trusts the unpacked size that a chunk states, so that a small file could fill the memory. Here each chunk
# must unpack to at most the size that its dataset declares. Filter numbers: HDF5 reference, "Filters"; 32000 is LZF of
# h5py.
#
# A name heap keeps its free space as a list of offsets; the library follows a list that leads back into itself until
# the memory is full. Layout: HDF5 File Format Specification, "Local Heaps" (III.D).


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


_HEAP_HEADER = struct.Struct("<4sB3sQQQ")
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
    if position + _HEAP_HEADER.size > len(data):
        return 0
    _, version, reserved, size, offset, start = _HEAP_HEADER.unpack_from(data, position)
    if version or any(reserved) or start + size > len(data):
        return 0
    visited: set[int] = set()
    while offset != _END_OF_LIST and offset + _FREE.size <= size:
        if offset in visited or len(visited) > _MAX_STEPS:
            return -len(visited) - 1
        visited.add(offset)
        offset = _FREE.unpack_from(data, start + offset)[0]
    return len(visited)
