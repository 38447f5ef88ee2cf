"""Items of a scanned HDF5 file: groups, and datasets whose values are read from here."""

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
        found = self.heaps.texts(self.stored or b"") or [b""] * self.size
        if len(found) != self.size:
            raise ValueError(f"{len(found)} texts are stored where {self.size} are declared")
        return found


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
        found = self.members.get(name)
        return found if isinstance(found, Branch) else None

    def leaf(self, name: str) -> Leaf | None:
        """The member of that name if it is a dataset."""
        found = self.members.get(name)
        return found if isinstance(found, Leaf) else None
