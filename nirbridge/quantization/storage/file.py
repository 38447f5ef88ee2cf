"""Quantized networks as ``.q.npz`` files: numbers only, nothing is ever executed, sizes are checked before reading."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from nirbridge.arrays import Array
from nirbridge.files.npy import MAX_BYTES
from nirbridge.files.records import RecordFormat, read_record, record_bytes, write_record
from nirbridge.quantization.model import QuantizedNetwork
from nirbridge.quantization.storage.check import check_quantized
from nirbridge.quantization.storage.codec import quantized_from_dict, quantized_to_dict

FORMAT = RecordFormat(
    "nirbridge-quantized",
    1,
    ("<i8", "<f8", "<f4", "|u1", "<i4", "|b1"),
    "a quantized network",
    "make one with nirbridge quantize",
    "quantize again",
)


def write_quantized(quantized: QuantizedNetwork, path: str | Path) -> str:
    """Write a quantized network, whole or not at all and the same bytes every time; return its digest.

    Raises:
        FileError: the place cannot be written.
    """
    return write_record(path, FORMAT, *quantized_to_dict(quantized))


def quantized_bytes(quantized: QuantizedNetwork) -> bytes:
    """The bytes of the file that ``write_quantized`` writes."""
    return record_bytes(FORMAT, *quantized_to_dict(quantized))


def read_quantized(path: str | Path, *, max_bytes: int = MAX_BYTES) -> QuantizedNetwork:
    """A quantized network from a file that ``write_quantized`` wrote; ``network`` is None.

    Raises:
        FileError: anything else: another kind of file, a damaged one, one that declares more than ``max_bytes``.
    """
    return read_record(path, FORMAT, _checked, max_bytes=max_bytes)


def _checked(record: Mapping[str, Any], arrays: Mapping[str, Array]) -> QuantizedNetwork:
    quantized = quantized_from_dict(record, arrays)
    check_quantized(quantized)
    return quantized
