"""A NIR graph into an HDF5 file, array by array, in the layout of ``nir.write`` and with nothing copied whole.

Weights of random digits do not shrink by gzip (by 7 % in float32, at 20 MB a second), so an array is packed only where
a sample of it shrinks to half. An array of one number throughout is stored as the fill value of its dataset.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping
from dataclasses import fields
from typing import Any

import numpy as np

from nirbridge.arrays import Array, stored_part
from nirbridge.network.nir.fields import kind_of
from nirbridge.network.nir.shapes import NodeShapes

_TINY_BYTES, _SMALL_BYTES = 2**12, 2**16
"""Up to the first size arrays are not packed (the table of a packed one takes more), up to the second they are."""
_SAMPLE_BYTES = 2**18
_SLAB_BYTES = 2**22
"""Bytes that are written at a time."""
_WORTH = 0.5
"""Share of its size that a sample has to shrink to."""
_TYPES = ("input_type", "output_type")


def store_graph(file: Any, graph: Any, shapes: Mapping[str, NodeShapes]) -> None:
    """Write ``graph`` to an empty file that is open for reading and writing; shapes that it leaves open are filled in.

    Args:
        file: a path or a binary file object.
        graph: a ``nir.NIRGraph``, not changed.
        shapes: the shapes of every node by full name.
    """
    import h5py
    import nir

    with h5py.File(file, "w") as opened:
        opened.create_dataset("version", data=nir.version, dtype=h5py.string_dtype())
        _put_graph(opened.create_group("node"), graph, shapes, "")


def _put_graph(group: Any, graph: Any, shapes: Mapping[str, NodeShapes], prefix: str) -> None:
    _put(group, "edges", graph.edges)
    _put_metadata(group, graph.metadata)
    _put(group, "type", kind_of(graph))
    nodes = group.create_group("nodes")
    for name, node in graph.nodes.items():
        if kind_of(node) == "NIRGraph":
            _put_graph(nodes.create_group(name), node, shapes, f"{prefix}{name}.")
        else:
            _put_node(nodes.create_group(name), node, shapes[prefix + name])


def _put_node(group: Any, node: Any, node_shapes: NodeShapes) -> None:
    for name, value in _members(node, node_shapes):
        _put(group, name, value)
    _put_metadata(group, node.metadata)


def _members(node: Any, node_shapes: NodeShapes) -> Iterator[tuple[str, Any]]:
    """The stored fields of a node that is no graph, as its ``to_dict`` names them."""
    kind = kind_of(node)
    for field in fields(node):
        value = getattr(node, field.name)
        if field.name == "input_shape":
            spatial = node_shapes.input_shape[1:]
            yield field.name, spatial[0] if kind == "Conv1d" else spatial
        elif field.name not in (*_TYPES, "metadata"):
            yield field.name, value
    if kind in ("Input", "Output"):
        yield "shape", np.array(node_shapes.input_shape, dtype=np.int64)
    elif kind == "Flatten":
        yield "input_type", np.array(node_shapes.input_shape, dtype=np.int64)
    yield "type", kind


def _put_metadata(group: Any, metadata: Mapping[str, Any]) -> None:
    if metadata:
        inside = group.create_group("metadata")
        for key, value in metadata.items():
            _put(inside, str(key), value)


def _put(group: Any, name: str, value: Any) -> None:
    if isinstance(value, Mapping):
        inside = group.create_group(name)
        for key, inner in value.items():
            _put(inside, str(key), inner)
    elif isinstance(value, str):
        import h5py

        group.create_dataset(name, data=value, dtype=h5py.string_dtype())
    elif isinstance(value, np.ndarray) and value.ndim and value.dtype.kind in "biuf":
        _put_array(group, name, value)
    else:
        group.create_dataset(name, data=value[()] if isinstance(value, np.ndarray) else value)


def _put_array(group: Any, name: str, array: Array) -> None:
    if array.nbytes <= _SMALL_BYTES:
        group.create_dataset(name, data=array, compression="gzip" if array.nbytes > _TINY_BYTES else None)
        return
    flat = stored_part(array).ravel(order="K")  # no copy where the array is contiguous in some order
    if _is_one_number(flat):
        group.create_dataset(name, array.shape, array.dtype, fillvalue=flat[0])
        return
    rows = max(1, _SLAB_BYTES * len(array) // array.nbytes)
    packing = {"compression": "gzip", "chunks": (min(rows, len(array)), *array.shape[1:])} if _shrinks(flat) else {}
    dataset = group.create_dataset(name, array.shape, array.dtype, **packing)
    for start in range(0, len(array), rows):
        dataset[start : start + rows] = array[start : start + rows]


def _is_one_number(flat: Array) -> bool:
    """True if every element has the bits of the first."""
    first = flat[:1].tobytes()
    for start in range(0, len(flat), _SAMPLE_BYTES):
        piece = flat[start : start + _SAMPLE_BYTES]
        if piece.tobytes() != first * len(piece):
            return False
    return True


def _shrinks(flat: Array) -> bool:
    """True if pieces from all over an array shrink to half."""
    count = max(1, _SAMPLE_BYTES // 16 // flat.itemsize)
    starts = np.linspace(0, max(0, len(flat) - count), 16).astype(int)
    sample = b"".join(flat[s : s + count].tobytes() for s in starts)
    return len(zlib.compress(sample, 4)) < _WORTH * len(sample)
