"""Malicious files: each is refused with one FileError, even if its digest is correct."""

from __future__ import annotations

import json
import struct
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
from nirbridge.quantization.storage.file import FORMAT, quantized_to_dict, read_quantized, write_quantized
from nirbridge.simulators.fixed.simulate import simulate_fixed
from tests.cases import cases
from tests.quantization.nets import TIMING, lif, one
from tests.record_files import VALUES, changed_array, damaged, places, with_value, written


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


@settings(max_examples=cases(135, 400), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.sampled_from(PLACES), st.sampled_from(VALUES))
def test_any_value_in_any_place_is_refused_or_sound(tmp_path: Path, place: tuple[Any, ...], value: Any) -> None:
    refused_or_sound(written(tmp_path / "a.q.npz", FORMAT, with_value(RECORD, place, value), ARRAYS))


@settings(max_examples=cases(100, 300), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.sampled_from(sorted(ARRAYS)), st.integers(0, 11), st.integers(0, 2**32 - 1))
def test_any_array_in_any_place_is_refused_or_sound(tmp_path: Path, name: str, kind: int, seed: int) -> None:
    with np.errstate(invalid="ignore"):
        made = changed_array(ARRAYS[name], kind, seed)
    refused_or_sound(written(tmp_path / "a.q.npz", FORMAT, RECORD, {**ARRAYS, name: made}))


@settings(max_examples=cases(70, 200), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.floats(0, 1, exclude_max=True), st.integers(0, 255), st.booleans())
def test_damaged_and_cut_files_are_refused(tmp_path: Path, where: float, byte: int, cut: bool) -> None:
    path = tmp_path / "a.q.npz"
    write_quantized(NETWORK, path)
    path.write_bytes(damaged(path.read_bytes(), where, byte, cut=cut))
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
        read_quantized(written(tmp_path / "a.q.npz", FORMAT, RECORD, ARRAYS, a0=data))


def test_a_network_too_large_to_run_is_refused_before_room_is_made(tmp_path: Path) -> None:
    """A few bytes can say any number of neurons, or spikes that are under way for a million steps."""
    record = json.loads(json.dumps(RECORD))
    record["inputs"] += [{"name": "more", "shape": [2**20, 2**20], "value_max": 1, "scale": 1.0}]
    record["latency"]["more"] = 0
    with pytest.raises(FileError, match="values to keep"):
        read_quantized(written(tmp_path / "a.q.npz", FORMAT, record, ARRAYS))
