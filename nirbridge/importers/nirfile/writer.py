"""Writes a NIR graph to a file that ``load_nir`` and nir itself read back; all of it or nothing."""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import fields
from types import MappingProxyType
from typing import Any

import numpy as np

from nirbridge.arrays import Array, stored_part
from nirbridge.errors import Diagnostic, FileError, ModelError, quoted, type_text
from nirbridge.files.atomic import atomic_write
from nirbridge.files.places import file_name
from nirbridge.importers.nirfile.faults import walk_nodes
from nirbridge.importers.nirfile.hdf5.scan import MAX_NAME_BYTES, ScanLimits
from nirbridge.importers.nirfile.reader import Path, read_nir_as
from nirbridge.network.nir.fields import kind_of, value_problems
from nirbridge.network.nir.portability import warn_of_tools
from nirbridge.network.nir.shapes import NodeShapes, infer_shapes
from nirbridge.network.nir.timing import PREFIX

_NO_LIMIT = 2**62


def save_nir(graph: Any, path: Path) -> None:
    """Write ``graph`` (a ``nir.NIRGraph``, not changed) to ``path``.

    The file appears under its name only when it is complete and was read back. Shapes that the graph leaves open are
    stored as inferred. A node called ``a/b`` is stored in groups, as HDF5 does; names that HDF5 would change (``/a``,
    ``a//b``, ``a/./b``) or cannot store (empty, with NUL, over 1,000 bytes) are refused.

    An imported graph that other tools would run differently gives an ``ExportWarning``.

    Raises:
        ModelError: if the graph has no meaning (see ``infer_shapes``), with every problem.
        FileError: a name or metadata cannot be stored, or the file cannot be written.
    """
    shapes = infer_shapes(graph)
    FileError.raise_all(_unstorable(graph, ""))
    ModelError.raise_all(p for full, node in walk_nodes(graph) for p in value_problems(full, node))
    shown = quoted(file_name(path))
    try:
        atomic_write(
            os.fspath(path),
            lambda file: store_graph(file, graph, shapes),
            subject=shown,
            check=lambda written: read_nir_as(written, shown, ScanLimits(_NO_LIMIT, _NO_LIMIT, _NO_LIMIT)),
        )
    except (RuntimeError, ValueError, TypeError, KeyError) as error:
        reason = " ".join(str(error).split())[:200]
        raise FileError.of(shown, f"cannot be written ({reason})", "", "check its folder") from error
    warn_of_tools([line for line in str(graph.metadata.get(f"{PREFIX}warnings", "")).split("\n") if line])


def _unstorable(graph: Any, prefix: str) -> Iterator[Diagnostic]:
    """Names and metadata that HDF5 cannot store unchanged."""
    yield from _metadata_problems(graph.metadata, "graph" if not prefix else f"subgraph {quoted(prefix[:-1])}")
    for name, node in graph.nodes.items():
        subject = f"node {quoted(prefix + name)}"
        fault = _name_fault(name) or _clash(name, graph)
        if fault:
            ids = MappingProxyType({"node": prefix + name})
            yield Diagnostic(subject, f"its name {fault}", "HDF5 cannot store it", "rename the node", ids)
        if kind_of(node) == "NIRGraph":
            yield from _unstorable(node, f"{prefix}{name}.")
        else:
            yield from _metadata_problems(node.metadata, subject)


def _name_fault(name: object) -> str:
    """Reason why HDF5 cannot store a name; empty if it can."""
    if not isinstance(name, str):
        return "is no text"
    try:
        size = len(name.encode("utf-8"))
    except UnicodeEncodeError:
        return "is not valid Unicode"
    if size > MAX_NAME_BYTES:
        return f"has {size:,} bytes, at most {MAX_NAME_BYTES:,} are stored"
    if "\0" in name:
        return "holds a NUL"
    if any(part in ("", ".") for part in name.split("/")):
        return "is empty or '.' between its slashes" if "/" in name else "is empty or '.'"
    return ""


def _clash(name: str, graph: Any) -> str:
    """A name ``a/b`` beside a node ``a`` with a field or subgraph where ``b`` would be stored."""
    parts = name.split("/")
    for i in range(1, len(parts)):
        outer = graph.nodes.get("/".join(parts[:i]))
        if outer is not None and (
            kind_of(outer) == "NIRGraph" or parts[i] in {"type", "metadata", "nodes", "shape", *vars(outer)}
        ):
            return f"would be stored inside node {quoted('/'.join(parts[:i]))}"
    return "ends like the field 'type' of a group" if len(parts) > 1 and "type" in parts[1:] else ""


def _metadata_problems(metadata: Any, subject: str, inside: str = "metadata") -> Iterator[Diagnostic]:
    for key, value in (metadata or {}).items():
        where = f"{inside} {quoted(key)}"
        fault = _name_fault(key) or ("holds a slash" if "/" in key else "")
        if fault:
            yield Diagnostic(subject, f"a key of its {where} {fault}", "HDF5 cannot store it", "rename the key")
        elif isinstance(value, dict):
            yield from _metadata_problems(value, subject, where)
        elif not _is_storable(value):
            found = f"its {where} is {type_text(value)}"
            yield Diagnostic(subject, found, "text, numbers and arrays of them are stored", "convert or remove it")


def _is_storable(value: Any) -> bool:
    if isinstance(value, str):
        return "\0" not in value and not any("\ud800" <= c <= "\udfff" for c in value)
    if isinstance(value, list | tuple) and value and all(isinstance(item, str) for item in value):
        return all(_is_storable(item) for item in value)
    try:
        return np.asarray(value).dtype.kind in "biuf"
    except (ValueError, TypeError):
        return False


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
        _put(group, "metadata", metadata)


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
    pieces = (flat[start : start + _SAMPLE_BYTES] for start in range(0, len(flat), _SAMPLE_BYTES))
    return all(piece.tobytes() == first * len(piece) for piece in pieces)


def _shrinks(flat: Array) -> bool:
    """True if pieces from all over an array shrink to half."""
    count = max(1, _SAMPLE_BYTES // 16 // flat.itemsize)
    starts = np.linspace(0, max(0, len(flat) - count), 16).astype(int)
    sample = b"".join(flat[s : s + count].tobytes() for s in starts)
    return len(zlib.compress(sample, 4)) < _WORTH * len(sample)
