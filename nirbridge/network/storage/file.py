"""Networks as ``.net.npz`` files (docs/reference/network-file.md): sparse matrices stay sparse, nothing is executed."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from nirbridge.arrays import Array
from nirbridge.errors import Diagnostic, UsageError, quoted
from nirbridge.files.npy import MAX_BYTES
from nirbridge.files.places import file_name
from nirbridge.files.records import RecordFormat, read_record, write_record
from nirbridge.files.regular import open_regular
from nirbridge.network.axes import stored_axes
from nirbridge.network.compose import parts_of
from nirbridge.network.model import Network, Timing
from nirbridge.network.operators import Sparse
from nirbridge.network.storage.check import check_stored
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
    path: str | Path, timing: Timing | None = None, repairs: Sequence[str] = (), *, max_bytes: int = MAX_BYTES
) -> Network:
    """``read_network`` with the options of a model file; the network has its time steps already.

    Raises:
        FileError: see ``read_network``.
        UsageError: a timing other than the network's, repairs.
    """
    network = read_network(path, max_bytes=max_bytes)
    subject, limit = f"file {quoted(Path(path).name)}", f"a {SUFFIX} file holds a network in discrete time"
    asked = timing or Timing()
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
    """True for a name that ends in ``.net.npz``, and for a zip archive; its content decides. Raises FileError."""
    name = os.fsdecode(path)
    with open_regular(path, quoted(file_name(path)), "a model file") as file:
        return name.endswith(SUFFIX) or file.read(len(_ZIP)) == _ZIP


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
