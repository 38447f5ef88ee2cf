"""Arrays and events of the user, probes, the reference simulation, and recordings as files of either kind."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import IO, Any

from nirbridge import plugins as registry
from nirbridge.errors import FileError, UsageError, quoted
from nirbridge.events.model import MAX_BYTES as EVENT_BYTES
from nirbridge.events.model import BinnedEvents, EventOptions
from nirbridge.events.nirdata import SIGNATURE, read_nir_data, suffix_of, write_nir_data
from nirbridge.events.sources import WRITERS, bound_events, is_events, read_event_file, write_events
from nirbridge.files.atomic import atomic_write
from nirbridge.files.npy import MAX_BYTES, load_npy, load_npz
from nirbridge.files.regular import open_regular
from nirbridge.mapping.model import MappedNetwork
from nirbridge.network.model import Network
from nirbridge.quantization.model import QuantizedNetwork
from nirbridge.simulators import recording_file
from nirbridge.simulators.best import simulate_best
from nirbridge.simulators.fixed.host_io import signature_network
from nirbridge.simulators.given import Given, read_given
from nirbridge.simulators.recording import default_probes
from nirbridge.simulators.simulate import BACKENDS, Probe, Recording, simulate
from nirbridge.simulators.threads import refuse_threads

NIR_DATA = (".h5", ".hdf5")
EVENT_FILES = (*NIR_DATA, *WRITERS)
"""Suffixes of recordings that are no ``.npz`` files."""
NO_EVENTS = EventOptions()


def load_inputs(path: str | Path, *, max_bytes: int | None = None) -> Any:
    """One array of a ``.npy`` file, or arrays by name of a ``.npz`` file. Raises FileError or UsageError."""
    readers = {".npz": load_npz, ".npy": load_npy}
    reader = readers.get(Path(path).suffix)
    if reader is None:
        raise UsageError.of(f"file {quoted(path)}", "is neither .npy nor .npz", "", "save it with numpy.save")
    return reader(path, max_bytes=MAX_BYTES if max_bytes is None else max_bytes)


def load_data(path: str | Path, *, max_bytes: int | None = None) -> Any:
    """As ``load_inputs``, and events of any kind that ``read_event_file`` reads. Raises FileError or UsageError."""
    is_missing = suffix_of(path) in (".npy", ".npz") and not Path(path).exists()  # the reader of arrays says so
    events = None if is_missing else read_event_file(path, EVENT_BYTES if max_bytes is None else max_bytes)
    if events is None and suffix_of(path) not in (".npy", ".npz"):
        limit = "arrays are .npy and .npz files, events also .aedat, .aedat4 and .h5"
        raise UsageError.of(f"file {quoted(path)}", "holds neither arrays nor events", limit, "save it as one of these")
    return load_inputs(path, max_bytes=max_bytes) if events is None else events


def read_inputs(
    model: Any,
    inputs: Any,
    *,
    events: EventOptions = NO_EVENTS,
    subject: str = "events",
    max_bytes: int = EVENT_BYTES,
    **options: Any,
) -> Given:
    """Arrays of the user for a model, read by named axes: ``simulators.given.read_given``; events are binned first.

    ``subject``: of messages on events. Raises UsageError.
    """
    network = _network_of(model)
    arrays, text = bind_events(
        network, inputs, events, steps=options.get("steps"), subject=subject, max_bytes=max_bytes
    )
    if not text:
        return read_given(network, inputs, **options)
    refuse_axes(options.get("axes"))
    return replace(read_given(network, arrays, **{**options, "axes": "time,sample"}), reading=text)


def has_events(inputs: Any) -> bool:
    """True for events, and for a mapping with some."""
    return is_events(inputs) or (isinstance(inputs, Mapping) and any(map(is_events, inputs.values())))


def refuse_axes(axes: Any) -> None:
    """Raises UsageError for axes of events."""
    if axes is not None:
        raise UsageError.of("--axes", "given with events", "their time steps come first", "leave it out")


def _network_of(model: Any) -> Any:
    return (model.model or model.network) if isinstance(model, MappedNetwork) else model


def _events_in(model: Any, inputs: Any) -> dict[str, Any]:
    """The events among inputs by name; events alone have an empty one. ``x`` and ``t`` may be inputs of a model."""
    by_name = isinstance(inputs, Mapping) and any(port.name in inputs for port in model.inputs)
    if is_events(inputs) and not by_name:
        return {"": inputs}
    return {name: each for name, each in inputs.items() if is_events(each)} if isinstance(inputs, Mapping) else {}


def bind_events(model: Any, inputs: Any, options: EventOptions = NO_EVENTS, **settings: Any) -> tuple[Any, str]:
    """Inputs with their events as arrays, and these events in words; no words where there are none.

    Raises:
        UsageError: options of events without events; else as ``events.model.bin_events``.
    """
    if not _events_in(model, inputs):
        if options != NO_EVENTS:
            raise UsageError.of("--bin, --sensor, --events", "given without events", "", "leave them out")
        return inputs, ""
    bound = binned_events(model, inputs, options, **settings)
    if isinstance(bound, BinnedEvents):
        return bound.array, bound.text
    found = {name: each for name, each in bound.items() if isinstance(each, BinnedEvents)}
    text = "; ".join(each.text if len(found) == 1 else f"{quoted(name)}: {each.text}" for name, each in found.items())
    return bound | {name: each.array for name, each in found.items()}, text


def binned_events(
    model: Any, inputs: Any, options: EventOptions = NO_EVENTS, *, subject: str = "events", **settings: Any
) -> Any:
    """Events as ``BinnedEvents``, by name for several inputs or where other arrays stand beside them.

    ``settings``: ``steps`` and ``max_bytes`` of ``events.model.bin_events``.

    Raises:
        UsageError: no events; else as ``events.model.bin_events``.
    """
    network = _network_of(model)
    ports = {port.name: port.shape for port in network.inputs}
    events = _events_in(network, inputs)
    if not events:
        names = f"there are {', '.join(map(quoted, list(inputs)[:8]))}, " if isinstance(inputs, Mapping) else ""
        limit = f"{names}columns are x, y, t and p alone"
        raise UsageError.of(subject, "no events", limit, "rename or remove columns, or give arrays to simulate")
    if events.get("") is inputs:
        bound = bound_events(ports, network.dt, inputs, options, subject=subject, **settings)
        return next(iter(bound.values())) if len(bound) == 1 else bound
    found: dict[str, Any] = dict(inputs)
    for name in events:
        port = name or next(iter(ports), "")
        place = {port: ports[port]} if port in ports else ports
        one = bound_events(
            place, network.dt, found.pop(name), options, subject=f"{subject}, {quoted(port)}", **settings
        )
        found |= {port if port in ports else name: next(iter(one.values()))}
    return found


def with_reading(recording: Recording, given: Given) -> Recording:
    """The recording, with the reading of its data in ``meta``."""
    return replace(recording, meta=MappingProxyType({**recording.meta, "reading": given.reading}))


def simulate_network(network: Network, inputs: Any, *, backend: str = "auto", **options: Any) -> Recording:
    """Simulates a network in floating point, by its exact semantics; options and errors as of ``simulators.simulate``.

    A backend of a plugin gets ``steps``, ``record`` and ``progress`` of the options, and takes no ``threads``.
    """
    if backend == "best":
        return simulate_best(network, inputs, **options)
    if backend in ("auto", *BACKENDS):
        return simulate(network, inputs, backend=backend, **options).recording
    simulator = registry.get("simulators", backend)
    if backend in ("fixed", "mapped"):
        limit = "this runs a network in real numbers"
        raise UsageError.of(f"backend {quoted(backend)}", "runs the integers of a chip", limit, "use simulate_on_chip")
    refuse_threads(backend, options.get("threads", 1))
    taken = {name: options[name] for name in ("steps", "record", "progress") if options.get(name) is not None}
    return simulator(network, inputs, **taken)


def probes(
    model: Network | QuantizedNetwork, variables_of: Sequence[tuple[str, tuple[str, ...]]], every: int
) -> list[Probe] | None:
    """Probes of variables by node, every ``every``-th time step; None: the default of the simulators."""
    if variables_of:
        return [Probe(node, variables, every) for node, variables in variables_of]
    network = signature_network(model) if isinstance(model, QuantizedNetwork) else model
    return None if every == 1 else [Probe(r.node, r.variables, every) for r in default_probes(network)]


# -- recordings ----------------------------------------------------------------------------------------------------
# Files of recordings: nirbridge's own, NIR's data, and events; the suffix decides what is written.


def check_output(path: str | Path, first_step: Callable[[], Recording]) -> None:
    """Refuse, before a run, a place whose format cannot hold its recording, by that of its first time step.

    Raises:
        UsageError: as ``write_recording``, but for what later time steps alone show.
    """
    if suffix_of(path) in EVENT_FILES:
        _write(first_step(), io.BytesIO(), path)


def write_recording(recording: Recording, path: str | Path) -> None:
    """Write a recording: ``.npz`` as ``simulators.recording_file``, ``.h5`` as NIR's data, and spikes as events.

    Raises:
        FileError: the place cannot be written.
        UsageError: what the format of the suffix cannot hold.
    """
    if suffix_of(path) in EVENT_FILES:
        atomic_write(path, lambda file: _write(recording, file, path), subject=_subject(path))
    else:
        recording_file.write_recording(recording, path)


def _write(recording: Recording, file: IO[bytes], path: str | Path) -> None:
    suffix = suffix_of(path)
    if suffix in NIR_DATA:
        write_nir_data(recording, file, _subject(path))
    else:
        write_events(recording, file, suffix, _subject(path))


def _subject(path: str | Path) -> str:
    return f"recording {quoted(Path(path).name)}"


def read_recording(path: str | Path, *, max_bytes: int = MAX_BYTES) -> Recording:
    """A recording from a ``.npz`` file, or from one that ``write_recording`` wrote as NIR's data. Raises FileError."""
    subject = _subject(path)
    with open_regular(path, subject, "a recording") as file:
        is_hdf5 = file.read(len(SIGNATURE)) == SIGNATURE
    if not is_hdf5:
        return recording_file.read_recording(path, max_bytes=max_bytes)
    recording = read_nir_data(path, max_bytes=max_bytes).recording
    if recording is None:
        raise FileError.of(subject, "was not written by nirbridge", "its shapes are not known", "give it as --input")
    return recording
