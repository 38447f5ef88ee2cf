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
from nirbridge.files.npy import MAX_BYTES, MEMBERS_MAX, UNREADABLE, header_of, open_member
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
_KINDS = "<i8", "<f8", "<f4", "|u1", "<i4", "|b1"


def write_quantized(quantized: QuantizedNetwork, path: str | Path) -> str:
    """Write a quantized network, whole or not at all and the same bytes every time; return its digest.

    Raises:
        FileError: the place cannot be written.
    """
    record, arrays = quantized_to_dict(quantized)
    digest = digest_of(record, arrays)
    whole = {"schema": SCHEMA, "kind": KIND, "digest": digest, **record}
    text = json.dumps(whole, sort_keys=True, allow_nan=False).encode()
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
        arrays = _arrays(path, subject, max_bytes)
        whole: dict[str, Any] = json.loads(arrays.pop(META).tobytes().decode())
        if whole.pop("kind") != KIND:
            raise FileError.of(subject, "is not a quantized network", "", "make one with nirbridge quantize")
        found = whole.pop("schema")
        if found != SCHEMA:
            raise FileError.of(subject, f"schema {found!r}", f"this nirbridge reads {SCHEMA}")
        digest = whole.pop("digest")
        if digest != digest_of(whole, arrays):
            raise FileError.of(
                subject, "its digest does not match", "the file was changed or damaged", "quantize again"
            )
        quantized = quantized_from_dict(whole, arrays)
        check_quantized(quantized)
    except ModelError as error:
        raise FileError.of(subject, str(error.problems[0]), "", "quantize again") from None
    except _WRONG as error:
        said = quoted(str(error).splitlines()[0] if str(error) else type(error).__name__)
        raise FileError.of(subject, f"cannot be read as a quantized network ({said})") from None
    return quantized


def digest_of(record: Mapping[str, Any], arrays: Mapping[str, Array]) -> str:
    """SHA-256 over the record (as JSON with sorted keys) and every array: name, type, shape, bytes."""
    found = hashlib.sha256(json.dumps(record, sort_keys=True, allow_nan=False).encode())
    for name in sorted(arrays):
        array = arrays[name]
        found.update(f"\n{name} {array.dtype.str} {array.shape}\n".encode())
        found.update(np.ascontiguousarray(array).tobytes())
    return found.hexdigest()


def _npy(array: Array) -> bytes:
    file = io.BytesIO()
    np.lib.format.write_array(file, array, version=(1, 0), allow_pickle=False)
    return file.getvalue()


def _arrays(path: Path, subject: str, max_bytes: int) -> dict[str, Array]:
    with zipfile.ZipFile(path) as archive:
        members = archive.infolist()
        total = sum(m.file_size for m in members)
        if len(members) > MEMBERS_MAX or total > max_bytes:
            raise FileError.of(
                subject, f"declares {len(members):,} arrays of {total:,} bytes", f"at most {max_bytes:,}"
            )
        return {m.filename.removesuffix(".npy"): _array(archive, m, subject) for m in members}


def _array(archive: zipfile.ZipFile, member: zipfile.ZipInfo, subject: str) -> Array:
    """One array; its header must agree with the bytes that are there before room for it is made."""
    if member.filename == f"{META}.npy" and member.file_size > META_BYTES_MAX:
        raise FileError.of(subject, f"a description of {member.file_size:,} bytes", f"at most {META_BYTES_MAX:,}")
    with open_member(archive, member) as file:
        header = header_of(file)
        if header is None:
            raise ValueError("not an array of plain numbers")
        if header.dtype.str not in _KINDS or header.fortran:
            raise ValueError(f"an array of type {header.dtype}")
        data = file.read(member.file_size)
    if len(data) != header.bytes:
        raise ValueError("an array whose header and data disagree")
    return np.frombuffer(data, header.dtype).reshape(header.shape)
