"""Networks as ``.net.npz`` files (docs/reference/network-file.md): sparse matrices stay sparse, nothing is executed."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np

from nirbridge._types import Shape
from nirbridge.arrays import Array
from nirbridge.errors import Diagnostic, ModelError, UsageError, quoted
from nirbridge.files.npy import MAX_BYTES, RecordFormat, read_record, write_record
from nirbridge.files.places import file_name
from nirbridge.files.regular import open_regular
from nirbridge.network.axes import stored_axes
from nirbridge.network.check import diagnose_network
from nirbridge.network.compose import parts_of
from nirbridge.network.model import Network, Population, Projection, Timing
from nirbridge.network.neurons import arrays_of
from nirbridge.network.nir.fields import NEURONS
from nirbridge.network.operators import Conv, Operator, Sparse, SumPool
from nirbridge.network.storage.codec import ValueDecoder, ValueEncoder

SUFFIX = ".net.npz"
FORMAT = RecordFormat(
    "nirbridge-network",
    1,
    ("|b1", "|i1", "<i2", "<i4", "<i8", "|u1", "<u2", "<u4", "<u8", "<f2", "<f4", "<f8"),
    "a network",
    f"give a .nir or {SUFFIX} file",
    "write it again with nirbridge.save",
)
DENSE_MAX = 10_000_000
"""Weights of a matrix that is written to NIR, which has dense ones only, without request."""
_ZIP = b"PK"
START = 512
_STORED = tuple(f.name for f in fields(Network) if f.name not in ("file", "axes"))


def write_network(network: Network, path: str | Path) -> str:
    """Write a network, whole or not at all and the same bytes every time; return its digest.

    Raises:
        FileError: the place cannot be written.
        ModelError: a network that ``read_network`` would refuse: not well formed, or beyond the limits of the format.
    """
    check_stored(network)
    return write_record(path, FORMAT, *network_to_dict(network))


def read_network(path: str | Path, *, max_bytes: int = MAX_BYTES) -> Network:
    """A network from a file that ``write_network`` wrote; ``file`` is None.

    Raises:
        FileError: anything else: another kind of file, a damaged one, one that declares more than ``max_bytes``.
    """

    def checked(record: Mapping[str, Any], arrays: Mapping[str, Array]) -> Network:
        network = network_from_dict(record, arrays, max_bytes=max_bytes)
        check_stored(network)
        return network

    return read_record(path, FORMAT, checked, max_bytes=max_bytes)


def load_network_file(
    path: str | Path, timing: Timing | None = None, repairs: Sequence[str] = (), *, max_bytes: int | None = None
) -> Network:
    """``read_network`` with the options of a model file; the network has its time steps already.

    Raises:
        FileError: see ``read_network``.
        UsageError: a timing other than the network's, repairs.
    """
    network = read_network(path, max_bytes=max_bytes or MAX_BYTES)
    limit = f"a {SUFFIX} file holds a network in discrete time"
    return as_requested(network, timing, repairs, f"file {quoted(Path(path).name)}", limit, keeps_dt=True)


def as_requested(
    network: Network,
    timing: Timing | None,
    repairs: Sequence[str],
    subject: str,
    limit: str = "",
    *,
    keeps_dt: bool = False,
) -> Network:
    """The network with a requested time step, where its file states none (unless ``keeps_dt``); all else has to agree.

    Raises:
        UsageError: a timing other than the network's, repairs.
    """
    asked = timing or Timing()
    if network.is_dt_assumed and asked.dt is not None and not keeps_dt:
        network = replace(network, dt=asked.dt, timing=replace(network.timing, dt=asked.dt), assumed=())
    stored = replace(network.timing, dt=network.dt)
    named = {f.name: (getattr(asked, f.name), getattr(stored, f.name)) for f in fields(Timing)}
    problems = [
        Diagnostic(subject, f"{name} {given} is requested, it has {own}", limit, "leave the option out")
        for name, (given, own) in named.items()
        if given not in (None, own)
    ]
    if repairs:
        found = f"repair {', '.join(map(quoted, repairs))} is requested"
        problems.append(Diagnostic(subject, found, "exporters write .nir files", "leave the option out"))
    UsageError.raise_all(problems)
    return network


def is_network_file(path: str | Path) -> bool:
    """True for a name that ends in ``.net.npz``, and for a zip archive that is not torch's. Raises FileError."""
    name = os.fsdecode(path)
    with open_regular(path, quoted(file_name(path)), "a model file") as file:
        start = file.read(START)
        return name.endswith(SUFFIX) or (start.startswith(_ZIP) and not is_torch_archive(start))


def is_torch_archive(start: bytes) -> bool:
    """True for the first ``START`` bytes of a file of ``torch.save`` or ``torch.jit.save``: members lie in a folder."""
    name = start[30 : 30 + int.from_bytes(start[26:28], "little")]
    return start.startswith(_ZIP) and b"/" in name and not name.endswith(b".npy")


def is_too_sparse_for_nir(network: Network) -> bool:
    """True where a ``.nir`` file would hold a sparse matrix as a dense one of more than ``DENSE_MAX`` weights."""
    parts = (part for p in network.projections for part in parts_of(p.operator) if isinstance(part, Sparse))
    return any(math.prod(part.input_shape) * math.prod(part.output_shape) > DENSE_MAX for part in parts)


def network_to_dict(network: Network) -> tuple[dict[str, Any], dict[str, Array]]:
    """(JSON record, arrays by name) of a network; ``file`` is left out."""
    encoder = ValueEncoder(repeats=True)
    record = {name: encoder.plain(getattr(network, name)) for name in _STORED}
    return record | ({"axes": list(network.axes)} if network.axes else {}), encoder.arrays


def network_from_dict(record: Mapping[str, Any], arrays: Mapping[str, Array], *, max_bytes: int = MAX_BYTES) -> Network:
    """The network of a record. Raises KeyError, TypeError, ValueError or ModelError for anything else."""
    if set(record) - {"axes"} != set(_STORED):
        other = sorted((set(record) - {"axes"}) ^ set(_STORED))[0]
        raise ValueError(f"{other!r} is missing or unknown")
    left = max_bytes - sum(array.nbytes for array in arrays.values())
    decoder = ValueDecoder(arrays, repeats_max=left)
    network = decoder.parts(Network, {name: record[name] for name in _STORED}, file=None, axes=())
    network = replace(network, axes=stored_axes(record, "axes", "the network"))
    if unused := sorted(set(arrays) - decoder.used):
        raise ValueError(f"array {unused[0]!r} is not used")
    return network


# -- check ---------------------------------------------------------------------------------------------------------
# What a network file may hold: well-formed networks of known types and bounded sizes.

ELEMENTS_MAX = 2**28
"""Neurons, inputs and outputs, each with the spikes that are kept for its delays; values between two operators."""
NODES_MAX, PROJECTIONS_MAX = 10_000, 100_000
NAME_BYTES_MAX = 1000
_NUMBERS_MAX = 2**31 - 1
_READOUTS = ("LI", "CubaLI", "I")
_WEIGHT_KINDS = "fiu"


def check_stored(network: Network) -> None:
    """Raise one ModelError with every problem of ``diagnose_stored``."""
    ModelError.raise_all(diagnose_stored(network))


def diagnose_stored(network: Network) -> Iterator[Diagnostic]:
    """Every problem of a network that keeps it out of a file: too many parts, names, types, form, sizes."""
    counts = {
        "populations, inputs and outputs": (len([*_nodes(network)]), NODES_MAX),
        "projections": (len(network.projections), PROJECTIONS_MAX),
    }
    problems = [
        Diagnostic("network", f"{count:,} {noun}", f"at most {limit:,}", "merge some of them")
        for noun, (count, limit) in counts.items()
        if count > limit
    ]
    problems = problems or [*_names(network), *_neurons(network), *_weights(network)]
    problems = problems or [*diagnose_network(network)] or [*diagnose_sizes(network)]
    yield from problems


def diagnose_kept(sizes: Mapping[str, int], delays: Iterable[tuple[str, int]], outputs: int) -> Iterator[Diagnostic]:
    """The state of a run has to fit memory: a short file can state any number.

    Args:
        sizes: elements of each input and population.
        delays: source and longest delay of each projection.
        outputs: elements of all outputs.
    """
    stored = dict(sizes)
    for source, longest in delays:
        if source in sizes:
            stored[source] = max(stored[source], sizes[source] * (1 + longest))
    kept = sum(stored.values()) + outputs
    if kept > ELEMENTS_MAX:
        found = f"{kept:,} values to keep (neurons, and spikes on their way)"
        yield Diagnostic("network", found, f"{ELEMENTS_MAX:,} are allowed", "shorten delays")


def _nodes(network: Network) -> Iterator[Any]:
    yield from (*network.inputs, *network.populations, *network.outputs)


def _names(network: Network) -> Iterator[Diagnostic]:
    """Names and notes are UTF-8, of bounded length."""
    named = {f"node {quoted(node.name)}": node.name for node in _nodes(network)}
    for p in network.projections:
        named |= {f"{_subject(p)}, node {quoted(name)}": name for name in (*p.nodes, *p.delay_nodes)}
    for subject, name in named.items():
        if not _is_text(name) or len(name.encode()) > NAME_BYTES_MAX:
            yield Diagnostic(
                subject, "its name cannot be stored", f"UTF-8 of at most {NAME_BYTES_MAX:,} bytes", "rename"
            )
    for name in ("assumed", "notes"):
        if not all(map(_is_text, getattr(network, name))):
            yield Diagnostic("network", f"its {name} cannot be stored", "UTF-8", "correct them")


def _is_text(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _neurons(network: Network) -> Iterator[Diagnostic]:
    for population in network.populations:
        yield from _neuron(population)


def _neuron(population: Population) -> Iterator[Diagnostic]:
    subject, neuron = f"population {quoted(population.name)}", population.neuron
    if neuron.kind not in NEURONS:
        yield Diagnostic(
            subject, f"a neuron of kind {quoted(neuron.kind)}", f"one of {', '.join(NEURONS)}", "rename it"
        )
    elif neuron.fires == (neuron.kind in _READOUTS):
        found = f"{neuron.kind} {'with' if neuron.fires else 'without'} a threshold"
        yield Diagnostic(subject, found, f"{', '.join(_READOUTS)} never fire, the others do", "change its kind")
    for name, values in arrays_of(neuron).items():
        expected = np.int64 if name == "refractory_steps" else np.float64
        if values.dtype != expected:
            found, limit = f"neuron {name} of type {values.dtype}", f"{expected.__name__} is expected"
            yield Diagnostic(subject, found, limit, "convert it")
    most = neuron.refractory_steps.max(initial=0), neuron.max_spikes
    if max(most) > _NUMBERS_MAX:
        yield Diagnostic(subject, f"a count of {max(most):,}", f"at most {_NUMBERS_MAX:,}", "reduce it")


def _weights(network: Network) -> Iterator[Diagnostic]:
    """Real numbers; lists and shapes are checked with the network."""
    for p in network.projections:
        arrays = [getattr(part, f.name) for part in parts_of(p.operator) for f in fields(part)]
        for values in (*arrays, p.bias):
            if isinstance(values, np.ndarray) and values.dtype.kind not in _WEIGHT_KINDS:
                yield Diagnostic(_subject(p), f"values of type {values.dtype}", "real numbers", "convert them")


def diagnose_sizes(network: Network) -> Iterator[Diagnostic]:
    """Values that a network keeps or passes on, where they are too many: a short file can state any number."""
    sizes = {x.name: math.prod(x.shape) for x in (*network.inputs, *network.populations)}
    delays = ((p.source, p.max_delay_steps) for p in network.projections)
    yield from diagnose_kept(sizes, delays, sum(port.size for port in network.outputs))
    for p in network.projections:
        most = max(_largest(part) for part in parts_of(p.operator))
        empty = any(min(shape, default=1) < 1 for part in parts_of(p.operator) for shape in _ends(part))
        if most > ELEMENTS_MAX or empty:
            found = "an operator without values" if empty else f"an operator over {most:,} values"
            yield Diagnostic(_subject(p), found, f"from 1 to {ELEMENTS_MAX:,}", "correct its shapes")


def _ends(part: Operator) -> tuple[Shape, Shape]:
    return part.input_shape, part.output_shape


def _largest(part: Operator) -> int:
    """Values that the part takes, passes or pads to; also the largest number of its window."""
    values = [math.prod(shape) for shape in _ends(part)]
    if isinstance(part, Conv | SumPool):
        spatial = zip(part.input_shape[1:], part.padding, strict=True)
        padded = part.input_shape[0] * math.prod(size + before + after for size, (before, after) in spatial)
        values += [padded, math.prod(part.kernel), *part.stride, *part.dilation]
    return max(values)


def _subject(p: Projection) -> str:
    return f"projection {quoted(p.source)} -> {quoted(p.target)}"
