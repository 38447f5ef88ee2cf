"""Quantized files: saved networks are restored bit for bit; anything else is refused without being executed."""

from __future__ import annotations

import io
import json
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

from nirbridge.chips import read_chip
from nirbridge.errors import FileError, ModelError
from nirbridge.files.npy import digest_of
from nirbridge.network.nir.from_nir import from_nir
from nirbridge.passes import Retime
from nirbridge.quantization import QuantizedNetwork, quantize
from nirbridge.quantization.storage.file import FORMAT, quantized_to_dict, read_quantized, write_quantized
from nirbridge.simulators.fixed.simulate import simulate_fixed
from nirbridge.simulators.simulate import Probe
from nirbridge.testing import nir_graphs
from tests import record_files
from tests.cases import cases
from tests.quantization.nets import layer, lif


def small() -> QuantizedNetwork:
    rng = np.random.default_rng(0)
    return quantize(layer(rng.normal(size=(3, 4)), lif(a_mem=0.9), bias=[0.1, 0, 0]), read_chip("loihi2"))


@settings(max_examples=cases(12, 25), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(nir_graphs())
def test_what_was_saved_comes_back(tmp_path: Path, graph: Any) -> None:
    try:
        q = quantize(Retime().retimed(from_nir(graph)), read_chip("loihi2"))
    except ModelError:
        return
    digest = write_quantized(q, tmp_path / "a.q.npz")
    back = read_quantized(tmp_path / "a.q.npz")
    assert json.dumps(quantized_to_dict(back)[0], sort_keys=True) == json.dumps(quantized_to_dict(q)[0], sort_keys=True)
    assert digest_of(*quantized_to_dict(back)) == digest
    first = (tmp_path / "a.q.npz").read_bytes()
    write_quantized(back, tmp_path / "a.q.npz")
    assert (tmp_path / "a.q.npz").read_bytes() == first
    values = {p.name: np.ones((4, *p.shape), np.uint8) for p in q.inputs}
    for a, b in zip(
        *(simulate_fixed(x, values, record=[Probe("*", ("s", "v"))]).recording.arrays.values() for x in (q, back)),
        strict=True,
    ):
        np.testing.assert_array_equal(a, b)


def rewritten(path: Path, change: Any) -> Path:
    """The file with its members changed: ``change(dict of name -> bytes)``."""
    with zipfile.ZipFile(path) as archive:
        members = {m: archive.read(m) for m in archive.namelist()}
    change(members)
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return path


def npy(array: Any, **options: Any) -> bytes:
    file = io.BytesIO()
    np.save(file, array, **options)
    return file.getvalue()


def with_meta(members: dict[str, bytes], **change: Any) -> None:
    meta = json.loads(np.load(io.BytesIO(members["meta.npy"])).tobytes())
    meta.update(change)
    members["meta.npy"] = npy(np.frombuffer(json.dumps(meta).encode(), np.uint8))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda m: m.update({"a0.npy": npy(np.array([object()]), allow_pickle=True)}), "not an array of plain numbers"),
        (lambda m: m.update({"a0.npy": npy(np.int64(7))}), "its digest does not match"),
        (lambda m: m.pop("a0.npy"), "its digest does not match"),
        (lambda m: m.pop("meta.npy"), "cannot be read as a quantized network"),
        (lambda m: m.update({"a0.npy": m["a0.npy"][:-1]}), "array 'a0': ends early"),
        (lambda m: with_meta(m, kind="other"), "is not a quantized network"),
        (lambda m: with_meta(m, schema=99), "schema 99"),
        (lambda m: with_meta(m, dt=2.0), "its digest does not match"),
        (
            lambda m: m.update({"meta.npy": npy(np.frombuffer(b"[" * 100_000, np.uint8))}),
            "nested too deeply, at most 64",
        ),
    ],
)
def test_other_files_are_refused(tmp_path: Path, change: Any, message: str) -> None:
    write_quantized(small(), tmp_path / "a.q.npz")
    with pytest.raises(FileError, match=message):
        read_quantized(rewritten(tmp_path / "a.q.npz", change))


@pytest.mark.parametrize(
    ("place", "value", "message"),
    [
        (("weights", 0, "range"), [], "report of 'a', weights: a range without two ends"),
        (("weights", 0, "range"), [1.0, None], "report of 'a', weights, range: is of another type, expected a list"),
        (("weights", 0, "bits"), "8", "report of 'a', weights, bits: is of another type, expected a whole number"),
        (("weights", 0, "error"), 10**16, "weights, error: is of another type, expected a finite number"),
        (("weights", 0), {}, "report of 'a', weights, source: is missing, expected a text"),
        (("measured",), {"accuracy": 0.5}, "report of 'a', measured: one of two accuracies, both or none"),
        (("measured",), {"spikes_changed": "x"}, "measured, spikes_changed: is of another type"),
    ],
)
def test_a_report_that_cannot_be_shown_is_refused(tmp_path: Path, place: Any, value: Any, message: str) -> None:
    record, arrays = quantized_to_dict(small())
    name = record["report"][0]["population"]
    path = record_files.written(
        tmp_path / "a.q.npz", FORMAT, record_files.with_value(record, ("report", 0, *place), value), arrays
    )
    with pytest.raises(FileError) as caught:
        read_quantized(path)
    assert message.replace("'a'", repr(name)) in str(caught.value)


def test_a_file_that_declares_too_much_is_not_read(tmp_path: Path) -> None:
    write_quantized(small(), tmp_path / "a.q.npz")
    with pytest.raises(FileError, match="at most 100"):
        read_quantized(tmp_path / "a.q.npz", max_bytes=100)
    (tmp_path / "b.q.npz").write_bytes(b"not a zip")
    with pytest.raises(FileError, match="cannot be read"):
        read_quantized(tmp_path / "b.q.npz")
    with pytest.raises(FileError, match="does not exist; check the path"):
        read_quantized(tmp_path / "none.q.npz")
    with pytest.raises(FileError, match="its folder does not exist"):
        write_quantized(small(), tmp_path / "no folder" / "a.q.npz")


def test_a_file_with_a_right_digest_and_wrong_numbers_is_refused(tmp_path: Path) -> None:
    from dataclasses import replace

    from nirbridge.arrays import freeze

    q = small()
    wide = replace(q.populations[0].neuron, du=freeze(np.int64(5000)))
    write_quantized(replace(q, populations=(replace(q.populations[0], neuron=wide),)), tmp_path / "a.q.npz")
    with pytest.raises(FileError, match="population 'p', du: values from 5000 to 5000, 0 to 4095"):
        read_quantized(tmp_path / "a.q.npz")
