"""Recordings in files: names, descriptions and limits on both sides, every refusal in its words."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import numpy as np
import pytest

from nirbridge.simulators.recording_file import read_recording, write_recording
from nirbridge.simulators.types import Recording
from tests.files.test_npy import RAISE, said


def test_names_have_so_many_bytes(tmp_path: Path) -> None:
    path = tmp_path / "r.npz"
    write_recording(Recording({("n" * 2**15, "s"): np.zeros(1)}, {}), path)
    assert list(read_recording(path).arrays) == [("n" * 2**15, "s")]
    for name in ("n" * 2**15 + "m", "é" * 2**14 + "m"):
        wrong = said(write_recording, Recording({("a", "s"): np.zeros(1), (name, "s"): np.zeros(1)}, {}), path)
        assert wrong.startswith("recording 'r.npz': the name 'n" if name[0] == "n" else "recording 'r.npz': the name '")
        assert wrong.endswith("is too long for an archive; rename the node")


@pytest.mark.parametrize(("meta", "wrong"), [
    ("[]", "its meta is of another form, schema 1 is read; record it again"),
    ('{"schema": 2}', "its meta is of another form, schema 1 is read; record it again"),
    ('{"schema": 1, "steps": "x"}', "meta, steps: is of another type, expected a whole number; record it again"),
    ('{"schema": 1, "dt": true}', "meta, dt: is of another type, expected a finite number; record it again"),
    ('{"schema": 1, "notes": [1]}', "meta, notes: is of another type, expected a list; record it again"),
    ("nothing", "meta: not JSON at line 1, column 1 (Expecting value); record it again"),
    ('{"schema": 1, "a": NaN}', "meta: the number NaN is not allowed in JSON; record it again"),
    ('{"schema": 1, "a": [0, 1e999]}', "meta: the number '1e999' is not finite; record it again"),
    ('{"schema": 1, "a": [0, 18446744073709551616]}',
     "meta: a[1] is a whole number of 20 digits, at most 64 bits; record it again"),
    ('{"schema": 1, "a": 1, "a": 2}', "meta: the key 'a' occurs twice; record it again"),
])  # fmt: skip
def test_meta_is_of_one_form(meta: str, wrong: str, tmp_path: Path) -> None:
    np.savez(tmp_path / "r.npz", meta=np.array(meta))
    separator = ", " if wrong.startswith("meta") else ": "
    assert said(read_recording, tmp_path / "r.npz") == f"recording 'r.npz'{separator}{wrong}"


@pytest.mark.parametrize("beyond", [0x110000, 0xFFFFFFFF])
def test_a_number_beyond_unicode_is_no_text(beyond: int, tmp_path: Path) -> None:
    text = '{"schema": 1, "a": "x"}'
    letters = np.array([text]).view(np.uint32).copy()
    letters[text.index("x")] = beyond
    np.savez(tmp_path / "r.npz", meta=letters.view(f"<U{len(text)}").reshape(()))
    wrong = "its meta is no text (a number beyond Unicode); record it again"
    assert said(read_recording, tmp_path / "r.npz") == f"recording 'r.npz': {wrong}"


@pytest.mark.parametrize("name", ["odd", "n/odd", "/q"])
def test_arrays_are_named_by_node_and_variable(name: str, tmp_path: Path) -> None:
    given = {"meta": np.array('{"schema": 1}'), "n/s": np.ones(2), name: np.ones(2)}
    np.savez(tmp_path / "r.npz", **given)
    step = "arrays are named NODE/VARIABLE; variables are s, v, u, i, count"
    assert said(read_recording, tmp_path / "r.npz") == f"recording 'r.npz': has an array '{name}', {step}"
    np.savez(tmp_path / "r.npz", **{"meta": np.ones(1)})
    text = "has no text 'meta', a recording holds NODE/VARIABLE and meta; record it again"
    assert said(read_recording, tmp_path / "r.npz") == f"recording 'r.npz': {text}"


def test_a_recording_is_written_as_plain_json_and_read_only(tmp_path: Path) -> None:
    path = tmp_path / "r.npz"
    meta = {"b": np.int64(3), "a": {"x": np.array([1, 2])}, "c": {"y": None}}
    write_recording(Recording({("n", "s"): np.ones(2)}, meta), path)
    with np.load(path) as raw:
        text = str(raw["meta"])
    assert text == json.dumps({"a": {"x": [1, 2]}, "b": 3, "c": {"y": None}, "schema": 1})
    found = read_recording(path, max_bytes=10**4)
    assert dict(found.meta) == {"a": {"x": [1, 2]}, "b": 3, "c": {"y": None}}
    assert not found.arrays["n", "s"].flags.writeable
    assert said(read_recording, path, max_bytes=15).endswith(RAISE)
    assert {member.date_time for member in zipfile.ZipFile(path).infolist()} == {(1980, 1, 1, 0, 0, 0)}
    assert {member.compress_type for member in zipfile.ZipFile(path).infolist()} == {zipfile.ZIP_DEFLATED}
