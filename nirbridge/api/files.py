"""Files of results: maps, quantized networks and recordings read, every value written, one report of several."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal

import numpy as np

from nirbridge import pipeline
from nirbridge.api.arguments import Count, Natural, checked, kind_of, plain_arrays
from nirbridge.api.models import ChipLike, FilePath, chip, is_graph, network_of
from nirbridge.benchmarking.model import Bench
from nirbridge.emitters.artifact import Artifact
from nirbridge.errors import IllegalMapping, ModelError, UsageError, quoted
from nirbridge.events.model import BinnedEvents
from nirbridge.files.scratch import unnamed_file
from nirbridge.mapping.model import MappedNetwork
from nirbridge.mapping.storage.file import read_map, write_map
from nirbridge.mapping.storage.record import MapRecord
from nirbridge.network.model import ModelFile, Network
from nirbridge.network.storage.file import SUFFIX, is_too_sparse_for_nir
from nirbridge.profiling.model import Profile
from nirbridge.quantization.model import QuantizedNetwork
from nirbridge.simulators.types import Recording
from nirbridge.verification.verify import Verification

SUFFIXES = MappingProxyType(
    {
        "a quantized network": ".q.npz",
        "a map": ".map.json",
        "a network": ".nir",
        "a network in discrete time": SUFFIX,
        "a recording": ".npz",
        "a verification": ".npz",
    }
)
"""Saved value -> how the name of its file ends; longer ones before those that they end in."""


@checked
def load_map(
    path: FilePath, model: object = None, chip: ChipLike | None = None, *, placement_only: bool = False
) -> MapRecord:
    """A saved map; with ``model``, the model that was mapped, the independent checker goes through it first.

    Args:
        path: a ``.map.json`` file.
        model: what was mapped, as ``load`` takes it; None: the map is read, not checked.
        chip: the chip that the map has to be of; None: the one in the file.
        placement_only: the placement alone is judged.

    Raises:
        FileError: the file cannot be read.
        IllegalMapping: the map breaks a limit or is not of this model; every violation.

    Example:
        >>> nb.map("model.nir", "loihi2").save("model.map.json")
        >>> nb.load_map("model.map.json", "model.nir")
        MapRecord: 'model.nir', 74 neurons on 1 core of 'loihi2', optimal
    """
    if model is None:
        return read_map(path)
    network = network_of(model)
    named = model_file(network, str(path))
    problems = pipeline.check_map(Path(path), network, named.sha256, _chip_or_none(chip), placement_only=placement_only)
    IllegalMapping.raise_all(problems)
    return read_map(path)


@checked
def load_quantized(path: FilePath, *, max_bytes: Count | None = None) -> QuantizedNetwork:
    """A network in integers from a ``.q.npz`` file, or from a ``.mlir`` text of ``nirbridge lower --until dialect``.

    Raises:
        FileError: the file cannot be read.
        ModelError: a text whose operations contradict each other, or in real numbers.
        ToolMissing: a text, and xDSL (the extra ``mlir``) is not installed.

    Example:
        >>> nb.quantize("model.nir", "loihi2").save("model.q.npz")
        >>> nb.load_quantized("model.q.npz")
        QuantizedNetwork: 74 neurons in integers of 'loihi2', weights of 8 bits, latency 2 time steps
    """
    return pipeline.load_quantized(Path(path), max_bytes=max_bytes)


@checked
def read_events(
    events: object,
    model: object,
    *,
    bin: float | None = None,
    sensor: tuple[int, int] | None = None,
    merge: bool = False,
    clip: bool = False,
    unit: Literal["s", "ms", "us", "ns"] | None = None,
    origin: Literal["zero", "first"] | None = None,
    steps: Natural | None = None,
    max_bytes: Count | None = None,
) -> BinnedEvents | dict[str, BinnedEvents | np.ndarray]:
    """Events as an array of spike counts per time step, for the input of a model; none is lost or counted twice.

    Args:
        events: the path of a file of events (AEDAT 2 or 4, a structured ``.npy``, columns in a ``.npz``, or NIR's own
            data), ``tonic:NAME?folder=...&index=0``, a structured array with fields x, y, t, p, or columns by name.
        model: as ``load`` takes it, or a quantized or mapped network: it gives the shapes and dt.
        bin: seconds per time step; None: dt of the model.
        sensor: width and height; None: those of the input.
        merge: count both polarities in one channel.
        clip: count several events of one place and time step as one.
        unit: of the times of columns; None: microseconds.
        origin: whether time step 0 begins at time zero or with the first event; None: ``first`` for AEDAT, whose clocks
            begin anywhere, else ``zero``.
        steps: time steps; None: up to the last event.
        max_bytes: of the file, and of the array; None: 2 GiB.

    Returns:
        a ``BinnedEvents``, taken wherever an array is; for several inputs, arrays by name (and ``labels``).

    Raises:
        FileError: a file that is damaged or too large.
        UsageError: events that do not fit the input; tonic, or the package that unpacks a file, is not installed.

    Example:
        >>> binned = nb.read_events({"x": np.array([3, 3]), "t": np.array([50, 90])}, "model.nir")
        >>> binned.text
        '2 events in 1 time step of 0.0001 s, 1 bin with several (at most 2)'
        >>> nb.simulate("model.nir", binned)["output"].shape
        (1, 10)
    """
    ready = model if isinstance(model, QuantizedNetwork | MappedNetwork) else network_of(model)
    options = pipeline.EventOptions(bin, sensor, merge, clip, unit, origin)
    settings = {} if max_bytes is None else {"max_bytes": max_bytes}
    is_path = isinstance(events, str | os.PathLike)
    data = pipeline.load_data(os.fspath(events), **settings) if is_path else plain_arrays(events)
    subject = f"file {quoted(Path(os.fspath(events)).name)}" if is_path else "events"
    return pipeline.binned_events(ready, data, options, steps=steps, subject=subject, **settings)


@checked
def load_recording(path: FilePath) -> Recording:
    """A recording from a ``.npz`` file, or from a ``.h5`` file that ``save`` wrote. Raises FileError.

    Example:
        >>> nb.simulate("model.nir", np.ones((25, 64))).save("run.npz")
        >>> nb.load_recording("run.npz")["output"].shape
        (25, 10)
    """
    return pipeline.read_recording(Path(path))


@checked
def load_verification(path: FilePath) -> Verification:
    """A verification from a ``.npz`` file, as ``nirbridge verify -o`` writes it. Raises FileError.

    Example:
        >>> nb.save(nb.verify("model.nir", "loihi2", np.ones((25, 1, 64))), "verified.npz")
        >>> nb.load_verification("verified.npz").holds
        True
    """
    return pipeline.read_verification(Path(path))


@checked
def save(value: object, path: FilePath) -> None:
    """Write a value in its file format, whole or not at all.

    A ``Network`` or ``nir.NIRGraph`` becomes a ``.nir`` file, or a ``.net.npz`` file where ``path`` ends so (sparse
    matrices stay sparse, and every network has this form), a ``MappedNetwork`` a ``.map.json`` file, a
    ``QuantizedNetwork`` a ``.q.npz`` file, a ``Recording`` or a ``Verification`` a ``.npz`` file, a ``Profile`` a
    ``.json``, ``.csv`` or ``.parquet`` file, a ``Bench`` a ``.json`` file, and an ``Artifact`` a folder. Also,
    a ``Recording`` becomes NIR's own data (``.h5``), and its spikes events (``.npy``, ``.aedat``, ``.aedat4``). The map
    of a network that was not read from a file names the file that saving the network writes: a ``.net.npz`` file where
    NIR cannot express it, or where a sparse matrix would have more than 10,000,000 weights as a dense one, else a
    ``.nir`` file. An ``ExportWarning`` says what of a ``.nir`` file other tools drop.

    Raises:
        UsageError: a value without a file format, or a file name with another suffix than that of its format.
        FileError: the place cannot be written.
        ModelError: a network that NIR cannot express, or that is not well formed.

    Example:
        >>> nb.save(nb.quantize("model.nir", "loihi1"), "model.q.npz")
    """
    if isinstance(value, Network) or is_graph(value):
        _check_suffix("a network in discrete time" if os.fspath(path).endswith(SUFFIX) else "a network", path)
        _save_graph(value, path)
    elif isinstance(value, MappedNetwork):
        _check_suffix("a map", path)
        _save_map(value, path)
    elif isinstance(value, QuantizedNetwork):
        _check_suffix("a quantized network", path)
        pipeline.write_quantized(value, Path(path))
    elif isinstance(value, Recording):
        if os.path.splitext(os.fspath(path))[1].lower() not in pipeline.EVENT_FILES:
            _check_suffix("a recording", path)
        pipeline.write_recording(value, Path(path))
    elif isinstance(value, Verification):
        _check_suffix("a verification", path)
        pipeline.write_verification(value, Path(path))
    elif isinstance(value, Profile | Bench):
        _save_figures(value, path)
    elif isinstance(value, Artifact):
        _check_suffix("a program", path)
        pipeline.write_program(value, Path(path))
    else:
        kinds = (
            "a Network, NIRGraph, MappedNetwork, QuantizedNetwork, Recording, Verification, Profile, Bench or Artifact"
        )
        raise UsageError.of("nirbridge.save()", kind_of(value), f"{kinds} is saved", "give one of these")


def _save_figures(value: Profile | Bench, path: FilePath) -> None:
    from nirbridge.report.bench import write_bench
    from nirbridge.report.profile_document import write_profile

    if isinstance(value, Bench):
        write_bench(value, path)
    else:
        write_profile(value, path)


def _check_suffix(kind: str, path: FilePath) -> None:
    """Raises UsageError for a file name with another suffix than that of its kind, a folder name with any of them."""
    name = os.path.basename(os.fspath(path))
    expected = SUFFIXES.get(kind, "")
    suffix = next((each for each in SUFFIXES.values() if name.endswith(each)), "")
    if suffix == expected:
        return
    found = f"{kind} is saved as {expected or 'a folder'}"
    limit = f"the suffixes are {', '.join(f'{end} ({owner})' for owner, end in sorted(SUFFIXES.items()))}"
    stem = name.removesuffix(suffix) if suffix else os.path.splitext(name)[0]
    raise UsageError.of(f"path {quoted(name)}", found, limit, f"did you mean {quoted(stem + expected)}?")


def model_file(network: Network, path: str) -> ModelFile:
    """The file that a network was read from; else the one that saving it beside ``path`` would write."""
    if network.file is not None:
        return network.file
    name = Path(path).name.partition(".")[0]
    if not is_too_sparse_for_nir(network):
        with suppress(ModelError), unnamed_file(f"{name}.nir") as written:
            _save_graph(network, written, warn=False)
            return ModelFile(f"{name}.nir", pipeline.file_sha256(written))
    with unnamed_file(f"{name}{SUFFIX}") as written:  # every network has this form
        pipeline.write_network(network, written)
        return ModelFile(f"{name}{SUFFIX}", pipeline.file_sha256(written))


def _save_graph(value: Any, path: FilePath, *, warn: bool = True) -> None:
    from nirbridge.network.nir.import_notes import store_import_notes
    from nirbridge.network.nir.portability import warn_of_tools
    from nirbridge.network.nir.to_nir import to_nir

    is_network = isinstance(value, Network)
    if os.fspath(path).endswith(SUFFIX):
        pipeline.write_network(value if is_network else pipeline.network_of_graph(value), Path(path))
        return
    graph = to_nir(value) if is_network else value
    if is_network:
        store_import_notes(graph, value)
    pipeline.save_graph(graph, Path(path), warn=warn)
    if is_network and warn:
        warn_of_tools(pipeline.export_warnings(value))


def _save_map(mapped: MappedNetwork, path: FilePath) -> None:
    named = model_file(mapped.model or mapped.network, str(path))
    write_map(mapped, path, named.name, named.sha256)


def _chip_or_none(value: ChipLike | None) -> Any:
    return None if value is None else chip(value)


# -- reports -------------------------------------------------------------------------------------------------------
# One report of several values.


@checked
def write_report(path: FilePath, values: object) -> None:
    """Write one self-contained HTML page about a model, whole or not at all.

    Every value has sections of its own; a single value writes its page with ``value.report(path)``, too.

    Args:
        path: the page.
        values: one value, or a list of at most one ``Network``, ``MappedNetwork``, ``QuantizedNetwork``, ``Partition``,
            ``Verification`` and ``Comparison``, and any number of ``Recording``, all of one model.

    Raises:
        UsageError: a value that has no section, or two of a kind.
        FileError: the place cannot be written.

    Example:
        >>> net = nb.load("model.nir")
        >>> nb.write_report("report.html", [net, nb.map(net, "loihi2"), nb.quantize(net, "loihi2")])
    """
    from nirbridge.report.html.document import write_values

    write_values(path, tuple(values) if isinstance(values, list | tuple) else (values,))
