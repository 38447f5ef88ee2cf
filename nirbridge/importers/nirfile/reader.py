"""Reads ``.nir`` files, with repairs of exporter faults on request.

A file is not trusted: it is scanned first, and no other file is ever opened.
"""

from __future__ import annotations

import hashlib
import os
import shlex
from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace
from math import prod
from types import MappingProxyType
from typing import IO, Any

import numpy as np

from nirbridge.arrays import stored_part
from nirbridge.errors import Diagnostic, FileError, ModelError, quoted
from nirbridge.files.places import file_name
from nirbridge.files.regular import open_regular
from nirbridge.importers.nirfile.faults import ExporterFinding, diagnose_exporter, fault_sentences, leading_ones
from nirbridge.importers.nirfile.hdf5.items import array_of, hdf5, heap_fault
from nirbridge.importers.nirfile.hdf5.scan import ScanLimits, scan_file
from nirbridge.importers.nirfile.nodes import GraphDraft, draft_graph, stored_kind
from nirbridge.importers.nirfile.repairs import drop_batch_axes, repair_graph
from nirbridge.network.nir.fields import ELEMENTWISE, array_problems, kind_of, label
from nirbridge.network.nir.portability import warn_of_faults
from nirbridge.network.nir.shapes import NodeShapes, infer_shapes
from nirbridge.network.nir.windows import window_of

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
    with open_regular(path, shown, "a .nir file") as handle:
        size = os.fstat(handle.fileno()).st_size
        if size > limits.max_bytes:
            limit = f"at most {limits.max_bytes:,} are read"
            raise FileError.of(shown, f"it has {size:,} bytes", limit, "raise the limit with --max-bytes")
        if handle.read(len(_SIGNATURE)) != _SIGNATURE:
            found = "it is not an HDF5 file" if size else "it is empty"
            raise FileError.of(shown, found, "a .nir file is HDF5", way_out(path))
        fault = heap_fault(handle.fileno())
        if fault:
            raise FileError.of(shown, f"it is damaged ({fault})", "", "copy it again, or write it again with nir.write")
        try:
            return _load_open(handle, limits, drop_batch=drop_batch)
        except (FileError, ModelError) as error:
            raise FileError(*_listed(error.problems, shown)) from None
        except (OSError, RuntimeError, ValueError, TypeError, KeyError, MemoryError, ArithmeticError) as error:
            reason = " ".join(str(error).split())[:200] or type(error).__name__
            raise FileError.of(
                shown, f"it is damaged or cut off ({reason})", "", "copy it again, or write it again with nir.write"
            ) from error


def way_out(path: Path) -> str:
    """Hint for a file that is no NIR file: the command that imports it, where it is Python code or weights."""
    name = os.fspath(path)
    if not isinstance(name, str) or not name.isprintable():
        return "write the model with nir.write"
    stem, ending = os.path.splitext(name)
    options = f"--sample-shape SHAPE -o {shlex.quote(stem + '.nir')}"
    if ending == ".py":
        return f"import it: nirbridge import {shlex.quote(name)}:ATTR {options}"
    if ending in (".pt", ".pth"):
        return f"import its module: nirbridge import FILE.py:ATTR --weights {shlex.quote(name)} {options}"
    return "write the model with nir.write"


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


def _load_open(handle: IO[bytes], limits: ScanLimits, *, drop_batch: bool) -> Any:
    """Reads an open file; its content reaches HDF5 through this handle only, so it cannot name other files."""
    with hdf5().File(handle, "r", **_NO_CHUNK_CACHE) as file:
        scanned = scan_file(file, handle.fileno(), limits)
        FileError.raise_all(scanned.problems)
        top = scanned.root.branch("node")
        if top is None or (kind := stored_kind(top)) is None:
            raise FileError.of("content", "it holds no NIR graph", "a group 'node' is expected", "use nir.write")
        if kind != "NIRGraph":
            hint = "wrap it with nir.NIRGraph.from_list"
            raise FileError.of("content", f"the top node is a {quoted(kind)}", "a NIRGraph is expected", hint)
        draft = GraphDraft(limits)
        graph = draft_graph(top, draft)
        FileError.raise_all(draft.problems)
        if drop_batch:
            drop_batch_axes(graph)
        shapes, problems = _shapes(graph)
        if problems and not drop_batch and (ports := leading_ones(graph)):
            shown = ", ".join(quoted(name) for name in [*ports][:3])
            step = "--drop-batch (or --repair batch-axis) takes it off"
            problems.append(Diagnostic(f"ports {shown}", "have an axis of size 1 more than their neighbours", "", step))
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
