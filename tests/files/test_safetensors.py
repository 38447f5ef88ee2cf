"""``.safetensors``: the numbers of a file, byte by byte, and headers that do not describe its data."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nirbridge.errors import FileError
from nirbridge.files.safetensors import load_safetensors

ENTRY = {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}


def written(path: Path, header: Any, data: bytes) -> Path:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + data)
    return path


def test_every_type_is_read(tmp_path: Path) -> None:
    arrays = {
        "F64": np.array([0.1, -2.0]),
        "F32": np.arange(6, dtype=np.float32).reshape(2, 3) / 7,
        "F16": np.array([[0.5], [65504.0]], np.float16),
        "I64": np.array(-(2**40)),
        "I32": np.array([[[7]]], np.int32),
        "I16": np.array([], np.int16),
        "I8": np.array([-128], np.int8),
        "U8": np.array([255], np.uint8),
        "BOOL": np.array([True, False]),
    }
    header, data = {"__metadata__": {"format": "pt"}}, b""
    for kind, array in arrays.items():
        places = [len(data), len(data) + array.nbytes]
        header[f"a.{kind}"] = {"dtype": kind, "shape": list(array.shape), "data_offsets": places}  # type: ignore[assignment]
        data += array.tobytes()
    found = load_safetensors(written(tmp_path / "w.safetensors", header, data), "weights")
    assert list(found) == [f"a.{kind}" for kind in arrays]
    for kind, array in arrays.items():
        assert found[f"a.{kind}"].dtype == array.dtype
        assert found[f"a.{kind}"].shape == array.shape
        assert found[f"a.{kind}"].tobytes() == array.tobytes()


def test_bfloat16_is_the_upper_half_of_float32(tmp_path: Path) -> None:
    numbers = np.array([1.0, -0.15625, 3.0e38], np.float32)
    upper = (numbers.view(np.uint32) >> 16).astype("<u2")
    header = {"w": {"dtype": "BF16", "shape": [3], "data_offsets": [0, 6]}}
    (found,) = load_safetensors(written(tmp_path / "w.safetensors", header, upper.tobytes()), "weights").values()
    assert found.dtype == np.float32
    assert found[:2].tolist() == [1.0, -0.15625]
    assert np.array_equal(found.view(np.uint32) >> 16, upper)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"dtype": "F8_E4M3"}, "'w' is not described by its header"),
        ({"dtype": 3}, "'w' is not described by its header"),
        ({"shape": [2, 4]}, "'w' is not described by its header"),
        ({"shape": [-2, -3]}, "'w' is not described by its header"),
        ({"shape": [2.0, 3]}, "'w' is not described by its header"),
        ({"shape": [True, 6]}, "'w' is not described by its header"),
        ({"shape": [2**40, 0], "data_offsets": [0, 0]}, "'w' is not described by its header"),
        ({"shape": [1] * 65, "data_offsets": [0, 4]}, "'w' is not described by its header"),
        ({"data_offsets": [4, 28]}, "'w' is not described by its header"),
        ({"data_offsets": [24, 0]}, "'w' is not described by its header"),
        ({"data_offsets": [0]}, "'w' is not described by its header"),
    ],
)
def test_an_entry_that_does_not_describe_the_data_is_refused(
    change: dict[str, Any], message: str, tmp_path: Path
) -> None:
    path = written(tmp_path / "w.safetensors", {"w": {**ENTRY, **change}}, bytes(24))
    with pytest.raises(FileError, match=message):
        load_safetensors(path, "weights")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "its header is cut off or too long"),
        (b"\x00\x00", "its header is cut off or too long"),
        (b"\xff" * 8, "its header is cut off or too long"),
        ((100).to_bytes(8, "little") + b"{", "not JSON"),
        ((2).to_bytes(8, "little") + b"[]", "its header is no object"),
        ((3).to_bytes(8, "little") + b'{"a', "not JSON"),
        ((20).to_bytes(8, "little") + b'{"a": {}, "a": {} } ', "the key 'a' occurs twice"),
        ((7).to_bytes(8, "little") + b'{"w":1}', "'w' is not described by its header"),
    ],
)
def test_files_that_are_none(content: bytes, message: str, tmp_path: Path) -> None:
    path = tmp_path / "w.safetensors"
    path.write_bytes(content)
    with pytest.raises(FileError, match=message):
        load_safetensors(path, "weights")


def test_a_file_is_read_up_to_a_limit(tmp_path: Path) -> None:
    path = written(tmp_path / "w.safetensors", {"w": ENTRY}, bytes(24))
    assert load_safetensors(path, "weights", max_bytes=24)["w"].shape == (2, 3)
    with pytest.raises(FileError, match=r"it holds too much, at most 23 bytes"):
        load_safetensors(path, "weights", max_bytes=23)
