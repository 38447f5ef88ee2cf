"""Writes a NIR graph to a file that ``nir_file.load`` and nir itself read back; all of it or nothing."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np

from nirbridge.errors import Diagnostic, FileError, ModelError, quoted
from nirbridge.files.atomic import atomic_write
from nirbridge.importers.nirfile.faults import walk_nodes
from nirbridge.importers.nirfile.hdf5.scan import MAX_NAME_BYTES, ScanLimits
from nirbridge.importers.nirfile.reader import Path, read_nir_as
from nirbridge.importers.nirfile.store import store_graph
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
    problems = list(_unstorable(graph, ""))
    FileError.raise_all(problems)
    values = [p for full, node in walk_nodes(graph) for p in value_problems(full, node)]
    ModelError.raise_all(values)
    _write(graph, shapes, os.fspath(path))
    warn_of_tools([line for line in str(graph.metadata.get(f"{PREFIX}warnings", "")).split("\n") if line])


def _write(graph: Any, shapes: Mapping[str, NodeShapes], path: str) -> None:
    shown = quoted(os.path.basename(path))
    try:
        atomic_write(
            path,
            lambda file: store_graph(file, graph, shapes),
            subject=shown,
            check=lambda written: read_nir_as(written, shown, ScanLimits(_NO_LIMIT, _NO_LIMIT, _NO_LIMIT)),
        )
    except (RuntimeError, ValueError, TypeError, KeyError) as error:
        reason = " ".join(str(error).split())[:200]
        raise FileError.of(shown, f"cannot be written ({reason})", "", "check its folder") from error


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
    """Why HDF5 would not keep a name; empty if it does."""
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
        if outer is not None and (kind_of(outer) == "NIRGraph" or parts[i] in _reserved(outer)):
            return f"would be stored inside node {quoted('/'.join(parts[:i]))}"
    return "ends like the field 'type' of a group" if len(parts) > 1 and "type" in parts[1:] else ""


def _reserved(node: Any) -> set[str]:
    return {"type", "metadata", "nodes", "shape", *vars(node)}


def _metadata_problems(metadata: Any, subject: str, inside: str = "metadata") -> Iterator[Diagnostic]:
    for key, value in (metadata or {}).items():
        where = f"{inside} {quoted(key)}"
        fault = _name_fault(key) or ("holds a slash" if "/" in key else "")
        if fault:
            yield Diagnostic(subject, f"a key of its {where} {fault}", "HDF5 cannot store it", "rename the key")
        elif isinstance(value, dict):
            yield from _metadata_problems(value, subject, where)
        elif not _is_storable(value):
            found = f"its {where} is a {type(value).__name__}"
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
