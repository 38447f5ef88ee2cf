"""Items of a scanned HDF5 file: groups, datasets and their values (arrays, text, metadata), in native byte order."""

from __future__ import annotations

import math
import os
import struct
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Literal

import numpy as np

from nirbridge.importers.nirfile.hdf5.integrity import hdf5

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


def longest_and_total(references: bytes) -> tuple[int, int]:
    """The longest text and the bytes of all texts that references announce."""
    lengths = [length for length, _address, _index in _REFERENCE.iter_unpack(references)]
    return max(lengths, default=0), sum(lengths)
