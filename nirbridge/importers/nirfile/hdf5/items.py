"""Items of a scanned HDF5 file: groups, datasets and their values (arrays, text, metadata), in native byte order."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Literal

import numpy as np

from nirbridge.importers.nirfile.hdf5.integrity import hdf5
from nirbridge.importers.nirfile.hdf5.strings import StringHeaps

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
