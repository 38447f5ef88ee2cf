"""Scan of an HDF5 file: no link is followed, and nothing is unpacked before its size is counted.

Every item is looked at through its link first, so a link to another file is refused before it is resolved. A small
dataset is copied as the scan meets it and closed at once, since open ones take the library time and memory.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

import numpy as np

from nirbridge.errors import Diagnostic, quoted
from nirbridge.importers.nirfile.hdf5.items import (
    REFERENCE_BYTES,
    Branch,
    Content,
    Leaf,
    StringHeaps,
    chunk_fault,
    hdf5,
    longest_and_total,
    native_type,
    only_chunk,
    pipeline_fault,
)
from nirbridge.network.nir.flatten import MAX_DEPTH

MAX_NAME_BYTES = 1000
MAX_TEXT_BYTES = 2**20
MAX_CHUNKS = 100_000
_MAX_LEVELS = 2 * MAX_DEPTH + 8
_ITEMS_PER_NODE = 16
_COPIED_BYTES = 1024
"""Datasets up to this size are copied by the scan; larger ones stay open until they are read."""


@dataclass(frozen=True, slots=True)
class ScanLimits:
    """Limits of a file; all sizes are counted before anything is read."""

    max_bytes: int
    max_nodes: int
    max_edges: int


@dataclass(slots=True)
class ScannedFile:
    """Content of a file: the root group, its problems, the number of bytes; ``file`` is open (``h5py.h5f.FileID``)."""

    file: Any
    limits: ScanLimits
    descriptor: int
    heaps: StringHeaps
    root: Branch = field(default_factory=lambda: Branch(""))
    problems: list[Diagnostic] = field(default_factory=list)
    bytes: int = 0
    items: int = 0
    chunks: int = 0
    seen: set[int] = field(default_factory=set)

    def report(self, path: str, found: str, limit: str, hint: str) -> None:
        """Note a problem of one item of the file."""
        ids = MappingProxyType({"path": path})
        self.problems.append(Diagnostic(f"item {quoted(path, 200)}", found, limit, hint, ids))


def scan_file(file: Any, descriptor: int, limits: ScanLimits) -> ScannedFile:
    """Everything that the open ``h5py.File`` holds, each object once; ``problems`` lists the refused objects.

    Stops early where a count is over its limit, since going on would take as long as the file wants it to.
    """
    result = ScannedFile(file.id, limits, descriptor, StringHeaps(descriptor))
    if file.id.get_create_plist().get_sizes() != (8, 8):
        result.report("/", "its addresses are not of 64 bits", "64 bits are read", "write it again with nir.write")
        return result
    result.seen.add(int(hdf5().h5o.get_info(file.id, b".").addr))
    todo: list[tuple[Any, Branch, int]] = [(file.id, result.root, 0)]
    while todo:
        group, branch, level = todo.pop()
        result.items += group.get_num_objs()
        if _excess(result):
            break
        if level > _MAX_LEVELS:
            limit = f"at most {_MAX_LEVELS} levels are read"
            result.report(branch.path, f"groups are nested {level} deep", limit, "flatten the model where it was made")
            break
        for name, raw in _names(group, branch, result):
            _add_item(group, raw, name, branch, level, todo, result)
            if _excess(result):
                break
    excess = _excess(result)
    if excess:
        result.problems.append(excess)
    return result


def _excess(result: ScannedFile) -> Diagnostic | None:
    """The first count that is over its limit."""
    limits = result.limits
    checks = (
        (result.items, limits.max_nodes * _ITEMS_PER_NODE, "items", "raise max_nodes where load is called"),
        (result.bytes, limits.max_bytes, "bytes", "raise the limit with --max-bytes if you trust the file"),
        (result.chunks, MAX_CHUNKS, "chunks", "store the arrays in larger chunks or contiguously"),
    )
    for count, limit, unit, hint in checks:
        if count > limit:
            return Diagnostic("content", f"it declares {count:,} {unit} or more", f"at most {limit:,} are read", hint)
    return None


def _names(group: Any, branch: Branch, result: ScannedFile) -> Iterator[tuple[str, bytes]]:
    for raw in sorted(group):
        shown = raw.decode("utf-8", "backslashreplace")
        path = f"{branch.path}/{shown}".lstrip("/")
        if len(raw) > MAX_NAME_BYTES:
            result.report(path, f"its name has {len(raw):,} bytes", f"at most {MAX_NAME_BYTES:,}", "rename it")
            continue
        try:
            yield raw.decode("utf-8"), raw
        except UnicodeDecodeError:
            result.report(path, "its name is not UTF-8", "names must be UTF-8", "rename it")


def _add_item(
    group: Any, raw: bytes, name: str, branch: Branch, level: int, todo: list[Any], result: ScannedFile
) -> None:
    h5 = hdf5()
    path = f"{branch.path}/{name}".lstrip("/")
    link = group.links.get_info(raw)
    if link.type != h5.h5l.TYPE_HARD:
        kind = {h5.h5l.TYPE_SOFT: "a soft link", h5.h5l.TYPE_EXTERNAL: "a link to another file"}.get(
            link.type, "an unknown link"
        )
        result.report(path, f"it is {kind}", "links are never followed", "store the data itself in the file")
        return
    address = int(link.u)
    if address in result.seen:
        limit = "each may be there once"
        result.report(path, "it is a group or dataset that has another name too", limit, "store a copy of it")
        return
    result.seen.add(address)
    opened = h5.h5o.open(group, raw)
    if isinstance(opened, h5.h5g.GroupID):
        member = Branch(path)
        branch.members[name] = member
        todo.append((opened, member, level + 1))
        return
    leaf = _leaf(opened, path, result)
    if leaf is not None:
        branch.members[name] = leaf


def _leaf(opened: Any, path: str, result: ScannedFile) -> Leaf | None:
    """A dataset that can be read within the limits, or None and a problem."""
    fault = _unreadable(opened)
    if fault:
        return result.report(path, *fault)
    kind = opened.get_type()
    content, dtype = _content(kind, path, result)
    if content is None or dtype is None:
        return None
    plist = opened.get_create_plist()
    return _sound_leaf(Leaf(path, content, opened.shape, dtype, opened, None, result.heaps), kind, plist, result)


def _unreadable(opened: Any) -> tuple[str, str, str] | None:
    """Reason why an object is not a dataset of the file itself: found, limit, hint."""
    h5 = hdf5()
    if not isinstance(opened, h5.h5d.DatasetID):
        return "it is a stored type", "only groups and datasets are read", "remove it"
    plist = opened.get_create_plist()
    if plist.get_external_count():
        return "its data lie in another file", "other files are never read", "store the data in the file"
    if plist.get_layout() == h5.h5d.VIRTUAL:
        return "it is a virtual dataset", "other files are never read", "store the data itself in the file"
    # only now: the extent of a virtual dataset is read from its sources
    if not opened.shape and opened.get_space().get_simple_extent_type() not in (h5.h5s.SCALAR, h5.h5s.SIMPLE):
        return "it is empty (null)", "numbers or text are expected", "store a value or remove it"
    return None


def _sound_leaf(leaf: Leaf, kind: Any, plist: Any, result: ScannedFile) -> Leaf | None:
    """A dataset of a known type and shape, copied if it is small and plain; None and a problem if it is not sound."""
    layout, width = plist.get_layout(), max(kind.get_size(), leaf.dtype.itemsize)
    size = leaf.size * width
    if not _fits(plist, layout, leaf.shape, width, result):
        return None
    if leaf.content == "number" and size <= _COPIED_BYTES and kind.equal(native_type(leaf.dtype)):
        stored = _copy(leaf, plist, layout, size, result.descriptor)
        if stored is not None:
            return replace(leaf, dataset=None, stored=stored)
    if not _is_sound(leaf.dataset, plist, layout, width, leaf.path, result):
        return None
    if leaf.dtype.kind != "O":
        return leaf
    references = _short_text(leaf.dataset, layout, leaf.path, result)
    return None if references is None else replace(leaf, dataset=None, stored=references)


def _content(kind: Any, path: str, result: ScannedFile) -> tuple[Content | None, np.dtype[Any] | None]:
    """The content of a stored type, and its numpy type; (None, None) and a problem for anything unusual."""
    h5 = hdf5()
    group = kind.get_class()
    if group == h5.h5t.STRING:
        return "text", np.dtype(object) if kind.is_variable_str() else np.dtype(f"S{kind.get_size()}")
    if group in (h5.h5t.INTEGER, h5.h5t.FLOAT, h5.h5t.ENUM):
        dtype = np.dtype(kind.dtype)
        if dtype.kind == "b":
            return "truth", dtype
        if group != h5.h5t.ENUM and dtype.kind in "iuf" and dtype.itemsize <= 8:
            return "number", dtype
    names = {
        h5.h5t.COMPOUND: "compound or complex",
        h5.h5t.REFERENCE: "references",
        h5.h5t.VLEN: "lists of varying length",
    }
    found = f"its values are of an unusual type ({names.get(group, 'HDF5 class ' + str(group))})"
    result.report(path, found, "real numbers of at most 64 bits, truth values or text are read", "store it as floats")
    return None, None


def _fits(plist: Any, layout: int, shape: tuple[int, ...], width: int, result: ScannedFile) -> bool:
    """Counts the declared size; False if it is over a limit."""
    size = math.prod(shape) * width
    if layout == hdf5().h5d.CHUNKED:
        chunk = plist.get_chunk()
        size = max(size, math.prod(chunk) * width)
        result.chunks += math.prod(-(-n // c) for n, c in zip(shape, chunk, strict=True))
    result.bytes += size
    return not _excess(result)


def _copy(leaf: Leaf, plist: Any, layout: int, size: int, descriptor: int) -> bytes | None:
    """The ``size`` bytes of a small dataset that lies in one plain piece; None where the library has to read it."""
    h5 = hdf5()
    if layout == h5.h5d.CHUNKED:
        return only_chunk(leaf.dataset, plist, size, descriptor) if plist.get_chunk() == leaf.shape else None
    is_plain = layout == h5.h5d.CONTIGUOUS and leaf.dataset.get_storage_size() == size
    offset = leaf.dataset.get_offset() if is_plain else None
    raw = b"" if offset is None else os.pread(descriptor, size, offset)
    return raw if raw and len(raw) == size else None


def _is_sound(dataset: Any, plist: Any, layout: int, width: int, path: str, result: ScannedFile) -> bool:
    """True if the library can read and unpack the values safely; False and a problem if not."""
    if layout != hdf5().h5d.CHUNKED:
        offset, file_bytes = dataset.get_offset(), os.fstat(result.descriptor).st_size
        is_inside = offset is None or offset + dataset.get_storage_size() <= file_bytes
        if not is_inside:
            result.report(path, "its data lie beyond the end of the file", "the file is cut off", "copy the file again")
        return is_inside
    chunk_bytes = math.prod(plist.get_chunk()) * width
    fault = pipeline_fault(plist, chunk_bytes) or chunk_fault(dataset, plist, chunk_bytes, result.descriptor)
    if fault:
        result.report(path, fault, "gzip, lzf, szip, shuffle and fletcher32 are read", "store it again with nir.write")
    return not fault


def _short_text(dataset: Any, layout: int, path: str, result: ScannedFile) -> bytes | None:
    """The stored references of text of varying length, counted by their lengths before any text is read.

    None and a problem where they are not stored plainly or the text is too long.
    """
    if layout != hdf5().h5d.CONTIGUOUS:
        limit = "text of varying length must be stored contiguously"
        result.report(path, "its text is stored in chunks or in the header", limit, "store it again with nir.write")
        return None
    offset, stored = dataset.get_offset(), dataset.get_storage_size()
    count, count_max = stored // REFERENCE_BYTES, 2 * result.limits.max_edges
    if count > count_max:
        result.report(
            path,
            f"it holds {count:,} texts",
            f"at most {count_max:,} are read",
            "raise max_edges where load is called",
        )
        return None
    raw = b"" if offset is None else os.pread(result.descriptor, stored, offset)  # nothing was written yet
    references = raw[: len(raw) // REFERENCE_BYTES * REFERENCE_BYTES]
    longest, total = longest_and_total(references)
    result.bytes += total
    if longest > MAX_TEXT_BYTES:
        limit = f"at most {MAX_TEXT_BYTES:,} are read"
        result.report(path, f"it holds a text of {longest:,} bytes", limit, "shorten it")
        return None
    return None if _excess(result) else references
