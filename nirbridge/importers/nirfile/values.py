"""Reads the values of scanned datasets: arrays, text and metadata, always as copies in native byte order."""

from __future__ import annotations

from typing import Any

import numpy as np

from nirbridge.importers.nirfile.hdf5.integrity import hdf5
from nirbridge.importers.nirfile.hdf5.items import Branch, Leaf

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
