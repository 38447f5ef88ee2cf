"""Quantized networks as ``.q.npz`` files: numbers only, nothing is ever executed, sizes are checked before reading."""

from __future__ import annotations

import hashlib
import io
import json
import struct
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from nirbridge.arrays import Array
from nirbridge.errors import FileError, ModelError, quoted
from nirbridge.files.atomic import atomic_write
from nirbridge.files.npy import MAX_BYTES, UNREADABLE, load_npz
from nirbridge.quantization.model import QuantizedNetwork
from nirbridge.quantization.storage.check import check_quantized
from nirbridge.quantization.storage.codec import quantized_from_dict, quantized_to_dict

SCHEMA = 1
KIND = "nirbridge-quantized"
META = "meta"
META_BYTES_MAX = 64 * 2**20
_NO_TIME = (1980, 1, 1, 0, 0, 0)
# Besides those of archives: errors of json (RuntimeError: nested too deeply) and of shapes that disagree.
_WRONG = (*UNREADABLE, TypeError, AttributeError, LookupError, ArithmeticError, MemoryError, struct.error)
_TYPES = "<i8", "<f8", "<f4", "|u1", "<i4", "|b1"


def write_quantized(quantized: QuantizedNetwork, path: str | Path) -> str:
    """Write a quantized network, whole or not at all and the same bytes every time; return its digest.

    Raises:
        FileError: the place cannot be written.
    """
    record, arrays = quantized_to_dict(quantized)
    digest = digest_of(record, arrays)
    header = {"schema": SCHEMA, "kind": KIND, "digest": digest}
    text = json.dumps({**header, **record}, sort_keys=True, allow_nan=False).encode()
    stored = {META: np.frombuffer(text, np.uint8), **arrays}
    atomic_write(path, lambda file: _write(file, stored), subject=f"file {quoted(Path(path).name)}")
    return digest


def _write(file: BinaryIO, arrays: Mapping[str, Array]) -> None:
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for name, array in arrays.items():
            archive.writestr(zipfile.ZipInfo(f"{name}.npy", _NO_TIME), _npy(array), zipfile.ZIP_DEFLATED, 1)


def read_quantized(path: str | Path, *, max_bytes: int = MAX_BYTES) -> QuantizedNetwork:
    """A quantized network from a file that ``write_quantized`` wrote; ``network`` is None.

    Raises:
        FileError: anything else: another kind of file, a damaged one, one that declares more than ``max_bytes``.
    """
    path = Path(path)
    subject = f"file {quoted(path.name)}"
    try:
        arrays = load_npz(path, max_bytes=max_bytes)
        foreign = [array.dtype for array in arrays.values() if array.dtype.str not in _TYPES]
        if foreign or arrays[META].nbytes > META_BYTES_MAX:
            found = f"an array of type {foreign[0]}" if foreign else f"{arrays[META].nbytes:,} bytes of description"
            raise FileError.of(subject, found, "no quantized network has that", "quantize again")
        record: dict[str, Any] = json.loads(arrays.pop(META).tobytes().decode())
        if record.pop("kind") != KIND:
            raise FileError.of(subject, "is not a quantized network", "", "make one with nirbridge quantize")
        schema = record.pop("schema")
        if schema != SCHEMA:
            raise FileError.of(subject, f"schema {schema!r}", f"this nirbridge reads {SCHEMA}")
        if record.pop("digest") != digest_of(record, arrays):
            raise FileError.of(
                subject, "its digest does not match", "the file was changed or damaged", "quantize again"
            )
        quantized = quantized_from_dict(record, arrays)
        check_quantized(quantized)
    except ModelError as error:
        raise FileError.of(subject, str(error.problems[0]), "", "quantize again") from None
    except _WRONG as error:
        reason = quoted(str(error).splitlines()[0] if str(error) else type(error).__name__)
        raise FileError.of(subject, f"cannot be read as a quantized network ({reason})") from None
    return quantized


def digest_of(record: Mapping[str, Any], arrays: Mapping[str, Array]) -> str:
    """SHA-256 over the record (as JSON with sorted keys) and every array: name, type, shape, bytes."""
    digest = hashlib.sha256(json.dumps(record, sort_keys=True, allow_nan=False).encode())
    for name, array in sorted(arrays.items()):
        digest.update(f"\n{name} {array.dtype.str} {array.shape}\n".encode())
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()


def _npy(array: Array) -> bytes:
    file = io.BytesIO()
    np.lib.format.write_array(file, array, version=(1, 0), allow_pickle=False)
    return file.getvalue()
