"""Reads ``.nir`` files, with repairs of exporter faults on request, and writes them.

A file is not trusted: it is scanned first, and no other file is ever opened.
"""

from __future__ import annotations

import hashlib
import os
import shlex
import zlib
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields, replace
from math import prod
from types import MappingProxyType
from typing import Any

import numpy as np

from nirbridge.arrays import Array, stored_part
from nirbridge.errors import Diagnostic, FileError, ModelError, quoted, type_text
from nirbridge.files.atomic import atomic_write
from nirbridge.files.places import file_name
from nirbridge.files.regular import open_regular
from nirbridge.importers.nirfile.faults import (
    ExporterFinding,
    batch_problems,
    diagnose_exporter,
    fault_sentences,
    walk_nodes,
)
from nirbridge.importers.nirfile.hdf5.items import array_of, hdf5, heap_fault
from nirbridge.importers.nirfile.hdf5.scan import MAX_NAME_BYTES, ScanLimits, ScannedFile, scan_file
from nirbridge.importers.nirfile.nodes import GraphDraft, draft_graph, stored_kind
from nirbridge.importers.nirfile.repairs import drop_batch_axes, repair_graph
from nirbridge.importers.weights import weights_hint
from nirbridge.network.nir.fields import ELEMENTWISE, array_problems, kind_of, label, value_problems
from nirbridge.network.nir.portability import warn_of_faults, warn_of_tools
from nirbridge.network.nir.shapes import NodeShapes, infer_shapes
from nirbridge.network.nir.timing import PREFIX
from nirbridge.network.nir.windows import window_of
from nirbridge.network.storage.file import START, is_torch_archive

DEFAULT_MAX_BYTES = 2 * 2**30
DEFAULT_MAX_NODES = 10_000
DEFAULT_MAX_EDGES = 100_000
MAX_ELEMENTS = 2**32

_SIGNATURE = b"\x89HDF\r\n\x1a\n"
_LISTED = 100
_QUICK_BYTES = 2**25
_NO_CHUNK_CACHE = MappingProxyType({"rdcc_nslots": 1, "rdcc_nbytes": 0})
"""Each dataset is read once and whole; by default HDF5 2.0 gives every open one a table of 64 KiB."""

Path = str | os.PathLike[str]


def read_nir(
    path: Path,
    *,
    max_bytes: int = DEFAULT_MAX_BYTES,
    max_nodes: int = DEFAULT_MAX_NODES,
    max_edges: int = DEFAULT_MAX_EDGES,
    drop_batch: bool = False,
) -> Any:
    """The ``nir.NIRGraph`` of a file, with the shapes of every node filled in.

    Args:
        path: a file that nir wrote (any since 1.0.4, and the older ones of the NIR paper).
        max_bytes: limit of the file size and of all declared data, unpacked.
        max_nodes: how many nodes it may have, those of subgraphs included.
        max_edges: how many edges one graph in it may have.
        drop_batch: take axes of size 1 off ports that have more axes than their neighbours (exporters of Norse and
            Rockpool count the batch in).

    Raises:
        FileError: with every problem that was found; nothing but this comes of a bad file.
    """
    shown = quoted(file_name(path) or os.fspath(path))
    return read_nir_as(path, shown, ScanLimits(max_bytes, max_nodes, max_edges), drop_batch=drop_batch)


def read_nir_as(path: Path, shown: str, limits: ScanLimits, *, drop_batch: bool = False) -> Any:
    """As ``read_nir``, with the name that messages give the file."""
    with open_scanned(path, shown, limits, "a .nir file", "write it again with nir.write") as scanned:
        return _graph_of(scanned, limits, drop_batch=drop_batch)


@contextmanager
def open_scanned(path: Path, shown: str, limits: ScanLimits, kind: str, step: str) -> Iterator[ScannedFile]:
    """An HDF5 file, scanned and open, of the name ``shown``; what is raised within is an error of the file.

    ``kind``: what it should be, with its article; ``step``: what to do where it is damaged, besides copying it again.
    """
    with open_regular(path, shown, kind) as handle:
        size = os.fstat(handle.fileno()).st_size
        if size > limits.max_bytes:
            limit = f"at most {limits.max_bytes:,} are read"
            raise FileError.of(shown, f"it has {size:,} bytes", limit, "raise the limit with --max-bytes")
        if handle.read(len(_SIGNATURE)) != _SIGNATURE:
            handle.seek(0)
            is_torch = is_torch_archive(handle.read(START))
            found = "a file of torch.save" if is_torch else "not an HDF5 file" if size else "empty"
            raise FileError.of(shown, f"it is {found}", f"{kind} is HDF5", way_out(path, is_torch=is_torch) or step)
        fault = heap_fault(handle.fileno())
        if fault:
            raise FileError.of(shown, f"it is damaged ({fault})", "", f"copy it again, or {step}")
        try:  # the content reaches HDF5 through this handle only, so it cannot name other files
            with hdf5().File(handle, "r", **_NO_CHUNK_CACHE) as file:
                scanned = scan_file(file, handle.fileno(), limits)
                FileError.raise_all(scanned.problems)
                yield scanned
        except (FileError, ModelError) as error:
            raise FileError(*_listed(error.problems, shown)) from None
        except (OSError, RuntimeError, ValueError, TypeError, KeyError, MemoryError, ArithmeticError) as error:
            reason = " ".join(str(error).split())[:200] or type(error).__name__
            raise FileError.of(
                shown, f"it is damaged or cut off ({reason})", "", f"copy it again, or {step}"
            ) from error


def way_out(path: Path, *, is_torch: bool) -> str:
    """Hint for a file that is no HDF5 file: the command that imports it, where it is Python code or weights."""
    name = os.fspath(path)
    if not isinstance(name, str) or not name.isprintable():
        return ""
    stem, ending = os.path.splitext(name)
    options = f"--sample-shape SHAPE -o {shlex.quote(stem + '.nir')}"
    if ending == ".py":
        return f"import it: nirbridge import {shlex.quote(name)}:ATTR {options}"
    other = "give a .nir, .net.npz, .mlir or .net file, or the module that it was made from, FILE.py:ATTR"
    return weights_hint(name, is_torch=is_torch) or ("" if ending in (".nir", ".net", "") else other)


def file_sha256(path: Path) -> str:
    """The SHA-256 of a file, as hexadecimal digits.

    Raises:
        FileError: it cannot be read.
    """
    digest = hashlib.sha256()
    with open_regular(path, quoted(file_name(path)), "a .nir file") as handle:
        while piece := handle.read(2**20):
            digest.update(piece)
    return digest.hexdigest()


def draft_of(scanned: ScannedFile, limits: ScanLimits) -> tuple[Any, GraphDraft]:
    """The graph of a file without its values; shapes are not judged. Raises FileError."""
    top = scanned.root.branch("node")
    if top is None or (kind := stored_kind(top)) is None:
        raise FileError.of("content", "it holds no NIR graph", "a group 'node' is expected", "use nir.write")
    if kind != "NIRGraph":
        found, limit = f"the top node is a {quoted(kind)}", "a NIRGraph is expected"
        raise FileError.of("content", found, limit, "wrap it with nir.NIRGraph.from_list")
    draft = GraphDraft(limits)
    graph = draft_graph(top, draft)
    FileError.raise_all(draft.problems)
    return graph, draft


def _graph_of(scanned: ScannedFile, limits: ScanLimits, *, drop_batch: bool) -> Any:
    graph, draft = draft_of(scanned, limits)
    if drop_batch:
        drop_batch_axes(graph)
    shapes, problems = _shapes(graph)
    if problems and not drop_batch:
        problems += batch_problems(graph)
    if not problems or scanned.bytes <= _QUICK_BYTES:
        _read_arrays(draft)
    FileError.raise_all((*problems, *draft.problems))
    _complete(graph, shapes, "")
    return graph


def _shapes(graph: Any) -> tuple[MappingProxyType[str, NodeShapes], list[Diagnostic]]:
    try:
        shapes = infer_shapes(graph)
    except ModelError as error:
        return MappingProxyType({}), list(error.problems)
    problems = []
    for name, node_shapes in shapes.items():
        size = max(prod(node_shapes.input_shape), prod(node_shapes.output_shape))
        if size > MAX_ELEMENTS:
            limit = f"at most {MAX_ELEMENTS:,} are read"
            problems.append(Diagnostic(f"node {quoted(name)}", f"it has {size:,} elements", limit, "split the layer"))
    return MappingProxyType(dict(shapes)), problems


def _read_arrays(draft: GraphDraft) -> None:
    """Puts the values in place of the stand-ins and checks them."""
    for full, node, name, leaf in draft.unread:
        subject = label(full, node)
        value = draft.try_read(f"{subject}, {name}", full, lambda leaf=leaf: array_of(leaf))
        if value is not None:
            draft.problems.extend(array_problems(subject, name, stored_part(np.asarray(value)), full))
            setattr(node, name, value)


def _complete(graph: Any, shapes: MappingProxyType[str, NodeShapes], prefix: str) -> None:
    """Gives every node the fields that nir's constructors would: types, defaults, whole numbers as tuples."""
    for name, node in graph.nodes.items():
        full, kind = prefix + name, kind_of(node)
        if kind == "NIRGraph":
            _complete(node, shapes, full + ".")
            continue
        node_shapes = shapes[full]
        if kind in ELEMENTWISE:
            _fill_neuron(node, kind)
        elif kind in ("Conv1d", "Conv2d"):
            _fill_conv(full, node, node_shapes)
        elif kind == "Flatten":
            node.start_dim, node.end_dim = int(node.start_dim), int(node.end_dim)
        node.input_type = {"input": np.array(node_shapes.input_shape, dtype=np.int64)}
        node.output_type = {"output": np.array(node_shapes.output_shape, dtype=np.int64)}
    graph._update_input_output_types()


def _fill_neuron(node: Any, kind: str) -> None:
    """One shape for all parameters, as nir's constructors ask for; a missing v_reset is 0, a missing w_in 1."""
    fields = [f for f in ELEMENTWISE[kind] if getattr(node, f) is not None]
    shape = np.broadcast_shapes(*(np.shape(getattr(node, f)) for f in fields))
    for name in fields:
        value = np.asarray(getattr(node, name))
        value = value if value.shape == shape else np.broadcast_to(value, shape).copy()
        setattr(node, name, value if shape else value[()])
    for name in ELEMENTWISE[kind]:
        if getattr(node, name) is None:
            setattr(node, name, np.zeros_like(node.v_threshold))


def _fill_conv(full: str, node: Any, node_shapes: NodeShapes) -> None:
    window, spatial = window_of(full, node), node_shapes.input_shape[1:]
    numbers = [window.stride, window.dilation, spatial, tuple(before for before, _ in window.padding)]
    node.stride, node.dilation, node.input_shape, padding = numbers if len(spatial) > 1 else (n[0] for n in numbers)
    node.padding = node.padding if isinstance(node.padding, str) else padding
    node.groups = window.groups


def _listed(problems: Iterable[Diagnostic], shown: str) -> Iterator[Diagnostic]:
    """The problems with the file's name before each; not more than someone would read."""
    problems = list(problems)
    for problem in problems[:_LISTED]:
        yield replace(problem, subject=f"{shown}, {problem.subject}")
    if len(problems) > _LISTED:
        yield Diagnostic(shown, f"{len(problems) - _LISTED:,} problems more", "", "repair these first")


def load_nir(
    path: Path,
    *,
    max_bytes: int = DEFAULT_MAX_BYTES,
    max_nodes: int = DEFAULT_MAX_NODES,
    max_edges: int = DEFAULT_MAX_EDGES,
    drop_batch: bool = False,
) -> Any:
    """See ``read_nir``; warns (``ExporterFaultWarning``) of each known fault of exporters that the file shows."""
    graph = read_nir(path, max_bytes=max_bytes, max_nodes=max_nodes, max_edges=max_edges, drop_batch=drop_batch)
    warn_of_faults(fault_sentences(diagnose_exporter(graph)))
    return graph


def load_repaired(
    path: Path, repairs: Collection[str] = (), *, dt: float | None = None, max_bytes: int = DEFAULT_MAX_BYTES
) -> tuple[Any, tuple[ExporterFinding, ...]]:
    """The graph of a file, repaired only by the names in ``repairs``, and the findings of ``diagnose_exporter``.

    Args:
        path: see ``read_nir``.
        repairs: see ``repair_graph``; ``batch-axis`` also lets a file be read whose ports count a batch.
        dt: seconds per time step, if it is not the exporter's default.
        max_bytes: see ``read_nir``.

    Raises:
        FileError: it cannot be read.
        UsageError, ModelError: see ``repair_graph``.
    """
    graph = read_nir(path, max_bytes=max_bytes, drop_batch="batch-axis" in repairs)
    findings = diagnose_exporter(graph)
    return (repair_graph(graph, repairs, dt=dt) if repairs else graph), findings


# -- writer --------------------------------------------------------------------------------------------------------
# Writes a NIR graph to a file that ``load_nir`` and nir itself read back; all of it or nothing.


_NO_LIMIT = 2**62


def save_nir(graph: Any, path: Path) -> None:
    """Write ``graph`` (a ``nir.NIRGraph``, not changed) to ``path``.

    The file appears under its name only when it is complete and was read back. Shapes that the graph leaves open are
    stored as inferred. A node called ``a/b`` is stored in groups, as HDF5 does; names that HDF5 would change (``/a``,
    ``a//b``, ``a/./b``) or cannot store (empty, with NUL, over 1,000 bytes) are refused.

    An ``ExportWarning`` says what of an imported graph other tools drop.

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
