"""NIR's own data (``nir.NIRGraphData``) as HDF5 files: read through the scan of ``.nir`` files, and written.

A recording is written as grids of time, with what they leave open (shapes, types, ``meta``) in one more dataset, which
nir does not read: the recording comes back exactly. Layout: ``nir.write_data`` of nir 1.0.8.
"""

from __future__ import annotations

import json
import math
import mmap
import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from types import MappingProxyType
from typing import IO, Any

import numpy as np

from nirbridge.arrays import Array
from nirbridge.errors import FileError, ModelError, UsageError, counted, quoted
from nirbridge.events.model import MAX_BYTES, Events, checked_events
from nirbridge.files.json_text import parse_json
from nirbridge.files.places import file_name
from nirbridge.files.regular import open_file
from nirbridge.importers.nirfile.hdf5.items import Branch, array_of, global_heap_fault, hdf5
from nirbridge.importers.nirfile.hdf5.scan import ScanLimits, ScannedFile
from nirbridge.importers.nirfile.reader import open_scanned
from nirbridge.simulators.recording import VARIABLES
from nirbridge.simulators.recording_file import check_meta
from nirbridge.simulators.types import Recording

SIGNATURE = b"\x89HDF\r\n\x1a\n"
RECORDING = "nirbridge:recording"
_SPIKES = "spikes"
_NAMES = {"s": _SPIKES}
"""Variables whose observables have another name; the others keep theirs."""
_KIND, _STEP = "a file of nir.write_data", "write it again with nir.write_data"
_LIMITS = (100_000, 1_000_000)
_TEXT_MAX = 2**16
_SCHEMA = 1


@dataclass(frozen=True, slots=True, eq=False)
class Grid:
    """Values per time step: ``data`` is ``[samples, time steps, neurons]``, ``dt`` in seconds."""

    data: Array
    dt: float


Observable = Grid | Events


@dataclass(frozen=True, slots=True, eq=False)
class NirData:
    """Observables by node and name; nodes of graphs within graphs have dotted names. ``recording``: None: foreign."""

    nodes: Mapping[str, Mapping[str, Observable]]
    recording: Recording | None


def read_nir_data(path: str | Path, *, max_bytes: int = MAX_BYTES) -> NirData:
    """The data of a file. Raises FileError."""
    shown = f"file {quoted(file_name(path))}"
    with open_scanned(path, shown, ScanLimits(max_bytes, *_LIMITS), _KIND, _STEP) as scanned:
        fault = global_heap_fault(scanned.descriptor)
        if fault:
            raise FileError.of("content", f"it is damaged ({fault})", "", f"copy it again, or {_STEP}")
        if scanned.root.branch("node") is not None and scanned.root.branch("nodes") is None:
            raise FileError.of("content", "it holds a graph of NIR", f"{_KIND} is expected", "give it as the model")
        _expect(scanned, scanned.root, ("NIRGraphData",))
        nodes = dict(_nodes(scanned, scanned.root, ""))
        leaf = scanned.root.leaf(RECORDING)
        recording = None if leaf is None else _recording(np.asarray(leaf.values()), nodes, shown)
        return NirData(MappingProxyType(nodes), recording)


def is_nir_data(path: str | Path) -> bool:
    """True for an HDF5 file that has the type of NIR's data as a text, and no graph. Raises OSError."""
    with open_file(path) as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        if data.find(b"NIRGraphData") < 0:
            return False
    with suppress(FileError), open_scanned(path, "", ScanLimits(2**62, *_LIMITS), _KIND, _STEP) as scanned:
        return scanned.root.branch("node") is None
    return True


def _nodes(scanned: ScannedFile, graph: Branch, prefix: str) -> Iterator[tuple[str, Mapping[str, Observable]]]:
    members = graph.branch("nodes")
    for name, group in (members.members if members else {}).items():
        if not isinstance(group, Branch):
            raise FileError.of(f"item {quoted(group.path)}", "it is a dataset", "nodes are groups", _STEP)
        if _expect(scanned, group, ("NIRNodeData", "NIRGraphData")) == "NIRGraphData":
            yield from _nodes(scanned, group, f"{prefix}{name}.")
            continue
        inner = group.branch("observables")
        found = {
            key: _observable(scanned, each)
            for key, each in (inner.members if inner else {}).items()
            if isinstance(each, Branch)
        }
        yield f"{prefix}{name}", MappingProxyType(found)


def _observable(scanned: ScannedFile, group: Branch) -> Observable:
    kind = _expect(scanned, group, ("TimeGriddedData", "EventData", "ValuedEventData"))
    if kind == "TimeGriddedData":
        data, dt = _array(group, "data", 3), _number(scanned, group, "dt")
        if not dt > 0:
            raise FileError.of(f"item {quoted(group.path)}", f"its dt is {dt:g}", "seconds above 0", _STEP)
        return Grid(data, dt)
    idx, time = _array(group, "idx", 2), _array(group, "time", 2)
    value = _array(group, "value", 2) if kind == "ValuedEventData" else None
    neurons, t_max = _number(scanned, group, "n_neurons"), _number(scanned, group, "t_max")
    subject = f"item {quoted(group.path)}"
    if idx.shape != time.shape or (value is not None and value.shape != idx.shape):
        raise FileError.of(subject, "its arrays have different shapes", "one index and one time for each event", _STEP)
    if not (neurons == int(neurons) and 0 < neurons < 2**53) or t_max < 0:
        raise FileError.of(subject, f"n_neurons is {neurons:g} and t_max {t_max:g}", "", _STEP)
    return _events(idx, time, value, int(neurons), t_max, subject)


def _events(idx: Array, time: Array, value: Array | None, neurons: int, t_max: float, subject: str) -> Events:
    """Events of all samples, without the entries of index -1 that fill the rows up. Raises FileError."""
    kept = idx != -1
    problem = "" if not (idx[kept] >= neurons).any() else f"an index of {int(idx[kept].max()):,}"
    problem = problem or ("" if value is None or np.isfinite(value[kept]).all() else "a value that is not finite")
    if problem:
        raise FileError.of(subject, problem, f"there are {counted(neurons, 'neuron')}", _STEP)
    values = None if value is None else value[kept].astype(np.float64)
    sample = np.nonzero(kept)[0].astype(np.int64)
    events = Events(
        "NIR data",
        time[kept].astype(np.float64),
        idx[kept],
        value=values,
        sample=sample,
        samples=len(idx),
        unit=Fraction(1),
        sensor=(neurons, 1),
        span=t_max,
    )
    try:
        return checked_events(events, subject)
    except UsageError as error:
        raise FileError(*error.problems) from None


def _array(group: Branch, name: str, axes: int) -> Array:
    leaf = group.leaf(name)
    if leaf is None or leaf.content == "text" or len(leaf.shape) != axes:
        found = f"has no array {quoted(name)} of {axes} axes"
        raise FileError.of(f"item {quoted(group.path)}", found, "", _STEP)
    return np.asarray(array_of(leaf))


# -- attributes ----------------------------------------------------------------------------------------------------


def _expect(scanned: ScannedFile, group: Branch, kinds: tuple[str, ...]) -> str:
    """The ``__type__`` of a group. Raises FileError where it is none of ``kinds``."""
    kind = _attribute(scanned, group, "__type__")
    if kind not in kinds:
        found = "has no type" if kind is None else f"its type is {quoted(kind)}"
        raise FileError.of(f"item {quoted(group.path or '/')}", found, f"expected is {' or '.join(kinds)}", _STEP)
    return str(kind)


def _number(scanned: ScannedFile, group: Branch, name: str) -> float:
    value = _attribute(scanned, group, name)
    if not isinstance(value, float) or not math.isfinite(value):
        raise FileError.of(f"item {quoted(group.path)}", f"{name} is {quoted(value)}", "a finite number", _STEP)
    return value


def _attribute(scanned: ScannedFile, group: Branch, name: str) -> str | float | None:
    """A number or a short text that a group has as an attribute; None: neither."""
    h5 = hdf5()
    opened = h5.h5o.open(scanned.file, group.path.encode() or b"/")
    if not h5.h5a.exists(opened, name.encode()):
        return None
    attribute = h5.h5a.open(opened, name.encode())
    kind = attribute.get_type()
    if attribute.shape != () or kind.get_size() > _TEXT_MAX:
        return None
    if kind.get_class() in (h5.h5t.INTEGER, h5.h5t.FLOAT) and kind.dtype.kind in "iuf" and kind.get_size() <= 8:
        value = np.empty((), kind.dtype.newbyteorder("="))
        attribute.read(value)
        return float(value)
    if kind.get_class() != h5.h5t.STRING:
        return None
    text = h5.AttributeManager(h5.Group(opened))[name]
    return text.decode("utf-8", "replace") if isinstance(text, bytes) else str(text)


# -- recordings ----------------------------------------------------------------------------------------------------


def _recording(text: Array, nodes: Mapping[str, Mapping[str, Observable]], subject: str) -> Recording:
    """The recording that a file was written of. Raises FileError."""
    record = parse_json(text.tobytes(), f"{subject}, {RECORDING}", bytes_max=MAX_BYTES, hint=_STEP)
    try:
        arrays = {(e["node"], e["variable"]): _restored(e, nodes) for e in _entries(record)}
        meta = dict(record["meta"])
        check_meta(meta, f"{subject}, meta")
    except ModelError as error:
        raise FileError(*error.problems) from None
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        found = f"its {RECORDING} does not fit its data ({quoted(error, 100)})"
        raise FileError.of(subject, found, "", "record it again") from None
    return Recording(MappingProxyType(arrays), MappingProxyType(meta))


def _entries(record: Any) -> Any:
    """The arrays of a record. Raises ValueError for another schema."""
    if record["schema"] != _SCHEMA:
        raise ValueError(f"schema {record['schema']!r}")
    return record["arrays"]


def _restored(entry: Mapping[str, Any], nodes: Mapping[str, Mapping[str, Observable]]) -> Array:
    """One array of the shape and type that it was recorded with."""
    variable = str(entry["variable"])
    grid = nodes[entry["node"]][_NAMES.get(variable, variable)]
    dtype, shape = np.dtype(entry["dtype"]), tuple(map(int, entry["shape"]))
    if variable not in VARIABLES or not isinstance(grid, Grid) or dtype.kind not in "biuf":
        raise ValueError(f"{variable} is no such array")
    steps_first = grid.data.swapaxes(0, 1).astype(dtype)
    array = np.ascontiguousarray(steps_first).reshape(shape)
    array.flags.writeable = False
    return array


def write_nir_data(recording: Recording, file: IO[bytes], subject: str) -> None:
    """Write a recording as NIR's data; the same recording gives the same bytes.

    Raises:
        UsageError: a recording without dt, or with a name that NIR's data cannot hold.
    """
    import h5py

    dt, batch = recording.meta.get("dt"), recording.meta.get("batch")
    if not isinstance(dt, float) or not dt > 0:
        raise UsageError.of(subject, "its recording states no dt", "a grid of time has one", "save it as .npz")
    for node in sorted({node for node, _ in recording.arrays}):
        if "/" in node or node in ("", ".") or "\0" in node or len(node.encode()) > 1000:
            found = f"the name {quoted(node)} has a slash, or is none of HDF5"
            raise UsageError.of(subject, found, "NIR's data keep nodes as groups", "save it as .npz")
    entries = []
    with h5py.File(file, "w") as opened:
        opened.attrs["__type__"] = "NIRGraphData"
        nodes = opened.create_group("nodes")
        for (node, variable), array in recording.arrays.items():
            every = recording.meta.get("every", {}).get(f"{node}/{variable}", 1)
            steps = max(1, recording.meta.get("steps") or 1) if variable == "count" else every
            _put_grid(_observables(nodes, node), variable, array, dt * steps, batched=batch is not None)
            entries.append({"node": node, "variable": variable, "shape": list(array.shape), "dtype": array.dtype.str})
        record = {"schema": _SCHEMA, "meta": dict(recording.meta), "arrays": entries}
        text = json.dumps(record, sort_keys=True, allow_nan=False, default=_plain).encode()
        opened.create_dataset(RECORDING, data=np.frombuffer(text, np.uint8), compression="gzip")


def _observables(nodes: Any, node: str) -> Any:
    """The group of observables of a node, made where it is new."""
    if node not in nodes:
        group = nodes.create_group(node)
        group.attrs["__type__"] = "NIRNodeData"
        group.create_group("observables")
    return nodes[node]["observables"]


def _put_grid(group: Any, variable: str, array: Array, dt: float, *, batched: bool) -> None:
    """An array as ``[samples, time steps, neurons]``; a count is one long time step."""
    lead = array if batched else array[None] if variable == "count" else array[:, None]
    steps_first = lead[None] if variable == "count" else lead
    steps, samples = steps_first.shape[:2]
    data = steps_first.reshape(steps, samples, math.prod(steps_first.shape[2:])).swapaxes(0, 1)
    is_binary = variable == "s" and data.dtype == np.uint8 and not (data > 1).any()
    inside = group.create_group(_NAMES.get(variable, variable))
    inside.attrs["__type__"] = "TimeGriddedData"
    inside.attrs["dt"] = float(dt)
    stored = data.astype(bool) if is_binary else data
    inside.create_dataset("data", data=stored, compression="gzip" if stored.size else None)


def _plain(value: Any) -> Any:
    return value.tolist() if hasattr(value, "tolist") else dict(value)


def suffix_of(path: str | Path) -> str:
    """The ending of a path in small letters."""
    return os.path.splitext(os.fspath(path))[1].lower()
