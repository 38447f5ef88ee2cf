"""Event data wherever inputs are: files by their content, datasets of tonic by name, arrays; and files written."""

from __future__ import annotations

import importlib
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from types import MappingProxyType
from typing import IO, Any
from urllib.parse import parse_qsl

import numpy as np

from nirbridge._types import Shape
from nirbridge.arrays import Array
from nirbridge.errors import FileError, ToolMissing, UsageError, counted, did_you_mean, quoted
from nirbridge.events.aedat2 import DAVIS_MAX, TIME_MAX, read_aedat2, write_aedat2
from nirbridge.events.aedat4 import SIGNATURE as AEDAT4
from nirbridge.events.aedat4 import read_aedat4, write_aedat4
from nirbridge.events.columns import columns_of, event_columns, events_of_columns, write_columns
from nirbridge.events.model import MICROSECOND, BinnedEvents, EventOptions, Events, bin_events
from nirbridge.events.nirdata import SIGNATURE as HDF5
from nirbridge.events.nirdata import Grid, NirData, Observable, read_nir_data
from nirbridge.files.npy import load_fields
from nirbridge.files.places import file_name
from nirbridge.files.regular import open_regular, read_up_to
from nirbridge.simulators.types import Recording

TONIC = "tonic:"
LABELS = "labels"
WRITERS = MappingProxyType(
    {".npy": write_columns, ".aedat": write_aedat2, ".aedat2": write_aedat2, ".aedat4": write_aedat4}
)
"""Files of events by suffix, and how each is written."""
_START = 16


def read_event_file(path: str | Path, max_bytes: int) -> Any:
    """The content of a file of events: ``Events``, columns by name, or ``NirData``; None: the file is another one.

    ``.npz`` files are read as arrays first, see ``columns_of``. ``tonic:NAME?...``: see ``read_dataset``.

    Raises:
        FileError: damaged, or larger than ``max_bytes``.
        UsageError: times or places that are none.
    """
    if isinstance(path, str) and path.startswith(TONIC):
        return read_dataset(path)
    subject = f"file {quoted(file_name(path))}"
    with open_regular(path, subject, "a file of arrays or events") as file:
        start = file.read(_START)
        if start.startswith(b"#!AER-DAT"):
            file.seek(0)
            return _aedat(file, start, subject, max_bytes)
    if start.startswith(HDF5):
        return read_nir_data(path, max_bytes=max_bytes)
    fields = load_fields(path, max_bytes=max_bytes) if start.startswith(b"\x93NUMPY") else None
    return None if fields is None else event_columns(fields, subject)


def _aedat(file: IO[bytes], start: bytes, subject: str, max_bytes: int) -> Events:
    data = read_up_to(file, max_bytes)
    if len(data) > max_bytes:
        raise FileError.of(subject, f"more than {max_bytes:,} bytes", "", "raise --max-bytes, or cut it")
    if start.startswith(AEDAT4):
        return read_aedat4(data, subject, max_bytes)
    if start.startswith(b"#!AER-DAT2."):
        return read_aedat2(data, subject)
    version = quoted(start[9:12].decode("ascii", "replace"))[1:-1]
    raise FileError.of(subject, f"is AEDAT {version}", "AEDAT 2 and 4 are read", "convert it with iniVation's DV")


# -- inputs --------------------------------------------------------------------------------------------------------


def is_events(value: Any) -> bool:
    """True for events, columns of events, and NIR's data."""
    return isinstance(value, Events | NirData | BinnedEvents) or columns_of(value) is not None


def bound_events(
    ports: Mapping[str, Shape],
    dt: float | None,
    value: Any,
    options: EventOptions,
    *,
    subject: str,
    **settings: Any,
) -> dict[str, BinnedEvents]:
    """The events as arrays of the inputs of a network. Settings and errors as of ``bin_events``."""
    if isinstance(value, NirData):
        if options.unit is not None:
            raise UsageError.of("--events unit", "NIR's data are in seconds", "", "leave it out")
        found = _observables(ports, value, subject)
        return {
            name: _of_observable(each, ports[name], dt, options, f"{subject}, node {quoted(name)}", **settings)
            for name, each in found.items()
        }
    if len(ports) != 1:
        limit = f"the network has {len(ports)} inputs"
        raise UsageError.of(subject, "events of one sensor", limit, "give arrays or columns by the name of the input")
    ((name, shape),) = ports.items()
    if isinstance(value, BinnedEvents):
        return {name: value}
    columns = columns_of(value)
    if columns is None and options.unit is not None:
        raise UsageError.of("--events unit", f"{value.kind} is in microseconds", "it is for columns", "leave it out")
    events = value if columns is None else events_of_columns(columns, subject, options.unit)
    return {name: bin_events(events, shape, dt, options, subject=subject, **settings)}


def _observables(ports: Mapping[str, Shape], data: NirData, subject: str) -> dict[str, Observable]:
    """The observable for each input: of the node of its name, else of the one node for the one input."""
    names = dict(zip(ports, ports, strict=True))
    if len(ports) == 1 and len(data.nodes) == 1:
        names = dict(zip(ports, data.nodes, strict=True))
    found: dict[str, Observable] = {}
    for port, node in names.items():
        observables = data.nodes.get(node)
        if not observables:
            shown = ", ".join(map(quoted, list(data.nodes)[:8])) or "none"
            hint = did_you_mean(node, data.nodes) or "name the node as the input"
            raise UsageError.of(subject, f"has no data of a node {quoted(port)}", f"its nodes are {shown}", hint)
        names_of = ["spikes"] if "spikes" in observables else list(observables)
        if len(names_of) > 1:
            shown = ", ".join(map(quoted, names_of[:8]))
            limit = f"node {quoted(node)} has {shown}"
            raise UsageError.of(subject, "has several observables of one input", limit, "keep one, or name it 'spikes'")
        found[port] = observables[names_of[0]]
    return found


def _of_observable(
    observable: Observable,
    shape: Shape,
    dt: float | None,
    options: EventOptions,
    subject: str,
    **settings: Any,
) -> BinnedEvents:
    size = math.prod(shape)
    neurons = observable.data.shape[2] if isinstance(observable, Grid) else (observable.sensor or (0,))[0]
    if neurons != size:
        raise UsageError.of(subject, f"{neurons:,} neurons", f"the input has {size:,}", "give data of this network")
    if isinstance(observable, Events):
        return bin_events(observable, shape, dt, options, subject=subject, **settings)
    length = options.bin if options.bin is not None else dt
    if length is not None and length != observable.dt:
        limit = f"a time step has {length:g} s"
        hint = f"give --bin {observable.dt!r} to present a step of the grid per time step"
        raise UsageError.of(subject, f"a grid of {observable.dt:g} s", limit, hint)
    if options.clip or options.merge or options.origin or options.sensor:
        raise UsageError.of(subject, "is a grid of time", "--sensor and --events are for events", "leave them out")
    data = observable.data.view(np.uint8) if observable.data.dtype == bool else observable.data
    given = np.moveaxis(data, 0, 1).reshape(data.shape[1], data.shape[0], *shape)
    count = settings.get("steps")
    count = len(given) if count is None else count
    beyond = int(np.count_nonzero(given[count:]))
    left = f", {beyond:,} values other than 0 after the last time step left out" if beyond else ""
    text = f"{counted(len(given[:count]), 'time step')} of {observable.dt:g} s, as a grid of NIR's data{left}"
    return BinnedEvents(given[:count], int(np.count_nonzero(given)), beyond, 0, text)


# -- tonic ---------------------------------------------------------------------------------------------------------


def read_dataset(text: str) -> Any:
    """Samples of a dataset of tonic: ``tonic:NAME?folder=data&train=false&index=0``, or ``index=0-7`` for several.

    Other words are arguments of the dataset. Nothing is downloaded: the data have to be in the folder, as tonic
    lays them out. Several samples come with their classes as ``labels``.

    Raises:
        ToolMissing: tonic is not installed.
        UsageError: no such dataset or sample, or the folder has none of its data.
    """
    name, _, query = text.removeprefix(TONIC).partition("?")
    words = dict(parse_qsl(query, keep_blank_values=True))
    subject = f"dataset {quoted(text, 120)}"
    first, last = _indices(words.pop("index", "0"), subject)
    dataset = _opened(name, words.pop("folder", "."), words, subject)
    if last >= len(dataset):
        raise UsageError.of(
            subject, f"has {len(dataset):,} samples", f"index {last:,} was requested", "give a lower one"
        )
    samples = [dataset[index] for index in range(first, last + 1)]
    size = tuple(getattr(dataset, "sensor_size", None) or ())
    found = [_events_of_sample(events, size, subject) for events, _ in samples]
    if first == last:
        return found[0]
    labels = [label for _, label in samples]
    is_class = all(isinstance(label, int | np.integer) for label in labels)
    return {"": _joined(found), LABELS: np.array(labels)} if is_class else _joined(found)


def _indices(text: str, subject: str) -> tuple[int, int]:
    found = re.fullmatch(r"(\d{1,9})(?:-(\d{1,9}))?", text)
    pair = () if found is None else (int(found[1]), int(found[2] or found[1]))
    if not pair or pair[1] < pair[0]:
        raise UsageError.of(subject, f"index={quoted(text)}", "a number, or a range as 0-7", "correct it")
    return pair


def _opened(name: str, folder: str, words: Mapping[str, str], subject: str) -> Any:
    """A dataset of tonic that refuses to download. Raises ToolMissing and UsageError."""
    try:
        datasets = importlib.import_module("tonic.datasets")
    except ImportError as error:
        found = f"tonic cannot be imported ({quoted(error, 120)[1:-1]})"
        raise ToolMissing.of(subject, found, "its datasets are read with it", "pip install tonic") from None
    names = sorted(
        n for n, value in vars(datasets).items() if isinstance(value, type) and hasattr(value, "sensor_size")
    )
    if name not in names:
        hint = did_you_mean(name, names) or f"datasets are {', '.join(names[:8])}"
        raise UsageError.of(subject, f"tonic has no dataset {quoted(name)}", "", hint)
    kind = getattr(datasets, name)

    def download(_self: Any) -> None:
        limit = "nirbridge downloads no data"
        hint = f"download it once: tonic.datasets.{name}(save_to={folder!r})"
        raise UsageError.of(subject, f"its data are not in {quoted(folder)}", limit, hint)

    try:
        return type(name, (kind,), {"download": download})(folder, **{k: _word(v) for k, v in words.items()})
    except (TypeError, ValueError, OSError, LookupError, AttributeError) as error:
        raise UsageError.of(
            subject, f"tonic cannot open it ({quoted(error, 200)[1:-1]})", "", "check its words"
        ) from None


def _word(text: str) -> Any:
    return {"true": True, "false": False}.get(text.lower(), int(text) if re.fullmatch(r"-?\d{1,9}", text) else text)


def _events_of_sample(sample: Any, size: Sequence[int], subject: str) -> Events:
    """The events of a sample; one polarity alone is none. Raises UsageError."""
    columns = columns_of(sample)
    if columns is None:
        raise UsageError.of(subject, "its samples are no events", "columns x, y, t and p are read", "give an array")
    wide = len(size) == 3 and all(isinstance(n, int) for n in size)
    kept = {key: c for key, c in columns.items() if not (key == "p" and wide and size[2] == 1)}
    events = events_of_columns(kept, subject)
    return replace(events, kind="tonic", sensor=(size[0], size[1]) if wide else None)


def _joined(samples: Sequence[Events]) -> Events:
    """Samples of one dataset as events of a batch."""
    columns: dict[str, Array | None] = {}
    for key in ("t", "x", "y", "p"):
        parts = [getattr(each, key) for each in samples]
        columns[key] = None if parts[0] is None else np.concatenate(parts)
    sample = np.repeat(np.arange(len(samples)), [len(each) for each in samples])
    return replace(samples[0], **columns, sample=sample, samples=len(samples))


# -- outputs -------------------------------------------------------------------------------------------------------


def write_events(recording: Recording, file: IO[bytes], suffix: str, subject: str) -> None:
    """Write the spikes of the one recorded node as events, a spike at the first moment of its time step.

    Raises:
        UsageError: several nodes or samples, a shape that is no sensor's, time steps that are no whole microseconds.
    """
    table, (width, height) = _events_of(recording, subject)
    sizes, end = (DAVIS_MAX, TIME_MAX) if WRITERS[suffix] is write_aedat2 else ((2**15, 2**15), 2**62)
    last = int(table["t"].max(initial=0))
    if width > sizes[0] or height > sizes[1] or last >= end:
        found = f"a sensor of {width:,} x {height:,}, times to {last:,} us"
        limit = f"{suffix} holds {sizes[0]:,} x {sizes[1]:,} and times below {end:,} us"
        raise UsageError.of(subject, found, limit, "save it as .npz or .h5")
    WRITERS[suffix](table, (width, height), file)


def _events_of(recording: Recording, subject: str) -> tuple[Array, tuple[int, int]]:
    """A structured array x, y, t, p of the spikes, and the width and height. Raises UsageError."""
    spikes = {node: array for (node, variable), array in recording.arrays.items() if variable == "s"}
    if len(spikes) != 1:
        limit = f"spikes of {len(spikes)} nodes are recorded"
        raise UsageError.of(subject, "a file of events holds one node", limit, "record one, as --record 'NODE:s'")
    ((node, array),) = spikes.items()
    if recording.meta.get("batch") is not None:
        if array.shape[1] != 1:
            found = f"{array.shape[1]:,} samples of node {quoted(node)}"
            raise UsageError.of(subject, found, "a file of events holds one", "save it as .npz or .h5")
        array = array[:, 0]
    shape = array.shape[1:]
    if array.dtype.kind not in "biu" or (array < 0).any():
        raise UsageError.of(subject, f"node {quoted(node)} sends values", "events are spikes", "save it as .npz or .h5")
    channels, height, width = (1, 1, 1, *shape)[-3:]
    if len(shape) > 3 or channels > 2:
        found = f"node {quoted(node)} has the shape {list(shape)}"
        raise UsageError.of(subject, found, "[2, H, W], [H, W] and [N] are events", "save it as .npz or .h5")
    places = np.nonzero(array)
    places = np.repeat(np.stack(places), array[places].astype(np.int64), axis=1)
    table = np.zeros(places.shape[1], [(name, "<i8") for name in "xytp"])
    for name, column in zip("xyp", places[:0:-1], strict=False):
        table[name] = column
    table["t"] = places[0] * _ticks(recording, node, subject)
    table["p"] |= channels == 1
    return table, (width, height)


def _ticks(recording: Recording, node: str, subject: str) -> int:
    """Microseconds per row of a recording. Raises UsageError where they are not whole."""
    dt = recording.meta.get("dt")
    every = recording.meta.get("every", {}).get(f"{node}/s", 1)
    ticks = Fraction(repr(float(dt))) * every / MICROSECOND if isinstance(dt, float) and dt > 0 else Fraction(0)
    if ticks < 1 or ticks.denominator != 1:
        found = f"time steps of {dt if dt is None else f'{dt:g}'} s"
        raise UsageError.of(subject, found, "events have whole microseconds", "save it as .npz or .h5")
    return int(ticks)


def describe_events(value: Any) -> dict[str, Any]:
    """What a file of events holds, as JSON: events, length and size, or the nodes of NIR's data."""
    if isinstance(value, NirData):
        nodes = {n: {k: _of_one(each) for k, each in group.items()} for n, group in value.nodes.items()}
        return {"format": "NIR data", "nodes": nodes, "recording": value.recording is not None}
    events = value if isinstance(value, Events) else events_of_columns(value, "events")
    return {"format": events.kind, **_of_one(events)}


def _of_one(value: Observable) -> dict[str, Any]:
    if isinstance(value, Grid):
        samples, steps, neurons = value.data.shape
        used = int(np.count_nonzero(value.data))
        return {"samples": samples, "steps": steps, "neurons": neurons, "dt_s": value.dt, "nonzero": used}
    unit = float(value.unit)
    ends = [float(end) * unit for end in (value.t.min(), value.t.max())] if len(value) else []
    facts: dict[str, Any] = {
        "events": len(value),
        "first_s": ends[0] if ends else None,
        "last_s": ends[1] if ends else None,
    }
    facts["sensor"] = None if value.sensor is None else list(value.sensor)
    facts["largest"] = [int(c.max(initial=0)) for c in (value.x, value.y) if c is not None]
    facts |= {} if value.p is None else {"on": int(value.p.sum())}
    facts |= {} if value.samples is None else {"samples": value.samples, "span_s": value.span}
    return facts | ({"left_out": dict(value.left_out)} if any(value.left_out.values()) else {})
