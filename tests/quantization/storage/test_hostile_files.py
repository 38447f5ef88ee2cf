"""Malicious files: each is refused with one FileError, even if its digest is correct."""

from __future__ import annotations

import io
import json
import struct
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nirbridge.arrays import freeze
from nirbridge.chips import read_chip
from nirbridge.errors import FileError
from nirbridge.network.model import Network, Population, Port, Projection
from nirbridge.network.operators import Chain, Conv, Dense, Identity, Reshape, Sparse
from nirbridge.quantization import QuantizedNetwork, quantize
from nirbridge.quantization.storage.codec import quantized_to_dict
from nirbridge.quantization.storage.file import KIND, SCHEMA, digest_of, read_quantized, write_quantized
from nirbridge.simulators.fixed.simulate import simulate_fixed
from tests.quantization.nets import TIMING, lif, one

VALUES: list[Any] = [
    *(None, True, -1, 0, 3, 2**31, 2**63, 2**70, -0.5, 1e308, float("inf"), float("nan")),
    *("", "x", "a0", "mixed", "zero", [], [0], [-1], [1.5], [10**6, 10**6], [[1]], [None], ["a"]),
    *({}, {"array": "a0"}, {"array": "nothing"}, {"array": ["a0"]}, {"array": 3}, {"a": {"b": 1}}),
]


def small() -> QuantizedNetwork:
    """A convolution, a sparse loop, a dense layer, per-neuron numbers, a read chain."""
    rng = np.random.default_rng(0)
    conv = Conv(freeze(rng.normal(size=(2, 1, 2, 2))), (1, 1), ((0, 0), (0, 1)), (1, 1), 1, (1, 3, 3))
    first, size = conv.output_shape, int(np.prod(conv.output_shape))
    ends, places = freeze(np.array([0, 1, 2, 2], np.int64)), freeze(np.array([1, 0], np.int64))
    loop = Sparse(ends, places, freeze(np.ones(2)), (3,), (3,))
    flat = Dense(freeze(rng.normal(size=(3, size))))
    populations = (
        Population("a", first, lif(a_mem=0.9, refractory_steps=2)),
        Population(
            "b", (3,), lif(kind="CubaLIF", a_mem=0.5, a_syn=0.5, bias=rng.normal(0, 0.1, 3), theta=rng.uniform(1, 2, 3))
        ),
    )
    projections = (
        Projection("in", "a", conv, delay_steps=one()),
        Projection("a", "b", Chain((Reshape(first, (size,)), flat)), delay_steps=one()),
        Projection("b", "b", loop, delay_steps=one(2), is_back=True),
        Projection("b", "out", Chain((Dense(freeze(rng.normal(size=(2, 3)))), Reshape((2,), (2, 1))))),
        Projection("a", "two", Identity(first)),
    )
    ports = (Port("out", (2, 1)), Port("two", first))
    return quantize(
        Network(1.0, TIMING, populations, projections, (Port("in", (1, 3, 3)),), ports), read_chip("loihi2")
    )


def npy(array: Any, **options: Any) -> bytes:
    file = io.BytesIO()
    np.save(file, array, **options)
    return file.getvalue()


def written(path: Path, record: Any, arrays: dict[str, Any], **change: bytes) -> Path:
    """A file with the right digest of whatever is in it; ``change``: members as bytes."""
    text = json.dumps({"schema": SCHEMA, "kind": KIND, "digest": digest(record, arrays), **record}, sort_keys=True)
    members = {"meta": npy(np.frombuffer(text.encode(), np.uint8)), **{k: npy(v) for k, v in arrays.items()}, **change}
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in members.items():
            archive.writestr(f"{name}.npy", data)
    return path


def digest(record: Any, arrays: dict[str, Any]) -> str:
    try:
        return digest_of(record, arrays)
    except ValueError:  # NaN in the record: there is no right digest
        return "0" * 64


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every place of a JSON value."""
    found = [path] if path else []
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return found + [p for k, v in items for p in places(v, (*path, k))]


NETWORK = small()
RECORD, ARRAYS = quantized_to_dict(NETWORK)
PLACES = places(json.loads(json.dumps(RECORD)))


def refused_or_sound(path: Path) -> None:
    """A file is refused, or what it holds runs."""
    try:
        q = read_quantized(path)
    except FileError as error:
        problems = error.problems
    else:
        runs(q)
        return
    assert [p.subject.partition(", array ")[0] for p in problems] == ["file 'a.q.npz'"]


def runs(q: QuantizedNetwork) -> None:
    inputs = {p.name: np.zeros((3, *p.shape), np.uint8) for p in q.inputs}
    for backend in ("reference", "fast"):
        simulate_fixed(q, inputs, backend=backend)


@settings(max_examples=400, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.sampled_from(PLACES), st.sampled_from(VALUES))
def test_any_value_in_any_place_is_refused_or_sound(tmp_path: Path, place: tuple[Any, ...], value: Any) -> None:
    record = json.loads(json.dumps(RECORD))
    holder = record
    for key in place[:-1]:
        holder = holder[key]
    holder[place[-1]] = value
    refused_or_sound(written(tmp_path / "a.q.npz", record, ARRAYS))


@settings(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.sampled_from(sorted(ARRAYS)), st.integers(0, 11), st.integers(0, 2**32 - 1))
def test_any_array_in_any_place_is_refused_or_sound(tmp_path: Path, name: str, kind: int, seed: int) -> None:
    rng, old = np.random.default_rng(seed), ARRAYS[name]
    place = tuple(int(rng.integers(n)) for n in old.shape)
    new = np.array(old)
    worst = [np.nan, np.inf, -1.0] if old.dtype.kind == "f" else [-1, 2**62, -(2**63)]
    if kind < 3:
        new[place] = worst[kind] if old.dtype.kind in "fi" else 1
    others = [old.astype(np.float32), old.astype(np.uint8), old.reshape(-1), old[..., None], np.zeros((0,), old.dtype)]
    others += [
        np.repeat(old.reshape(-1), 2),
        old.reshape(-1)[:-1],
        np.zeros((), old.dtype),
        old.astype(np.float64) * np.nan,
    ]
    with np.errstate(invalid="ignore"):
        made = new if kind < 3 else others[kind - 3]
    refused_or_sound(written(tmp_path / "a.q.npz", RECORD, {**ARRAYS, name: made}))


@settings(max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.floats(0, 1, exclude_max=True), st.integers(0, 255), st.booleans())
def test_damaged_and_cut_files_are_refused(tmp_path: Path, where: float, byte: int, cut: bool) -> None:
    path = tmp_path / "a.q.npz"
    write_quantized(NETWORK, path)
    data = bytearray(path.read_bytes())
    at = int(where * len(data))
    data[at] = byte
    path.write_bytes(bytes(data[:at]) if cut else bytes(data))
    refused_or_sound(path)


@pytest.mark.parametrize(
    ("header", "said"),
    [
        (
            "{'descr': '<i8', 'fortran_order': False, 'shape': (999999999999999,), }",
            "999,992 bytes, at most",
        ),
        ("{'descr': '<i8', 'fortran_order': False, 'shape': (1000000000000000,), }", "not an array of plain numbers"),
        ("{'descr': '<i8', 'fortran_order': False, 'shape': (-1,), }", "not an array of plain numbers"),
        ("{'descr': '|O', 'fortran_order': False, 'shape': (1,), }", "not an array of plain numbers"),
        ("{'descr': '<i8', 'fortran_order': True, 'shape': (1,), }", "its digest does not match"),
        ("{'descr': '<f2', 'fortran_order': False, 'shape': (4,), }", "an array of type float16"),
        ("{'descr': '<i8', 'fortran_order': False, 'shape': (__import__('os'),), }", "not an array of plain numbers"),
        ("[" * 9000, "not an array of plain numbers"),
        ("x" * 60000, "not an array of plain numbers"),
    ],
)
def test_headers_that_lie(tmp_path: Path, header: str, said: str) -> None:
    """A size is never believed, no text of a header is ever run."""
    text = header.encode() + b"\n"
    data = b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text + bytes(8)
    with pytest.raises(FileError, match=said):
        read_quantized(written(tmp_path / "a.q.npz", RECORD, ARRAYS, a0=data))


def test_a_network_too_large_to_run_is_refused_before_room_is_made(tmp_path: Path) -> None:
    """A few bytes can say any number of neurons, or spikes that are under way for a million steps."""
    record = json.loads(json.dumps(RECORD))
    record["inputs"] += [{"name": "more", "shape": [2**20, 2**20], "value_max": 1, "scale": 1.0}]
    record["latency"]["more"] = 0
    with pytest.raises(FileError, match="values to keep"):
        read_quantized(written(tmp_path / "a.q.npz", record, ARRAYS))
