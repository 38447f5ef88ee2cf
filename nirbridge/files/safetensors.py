"""Read ``.safetensors`` files: a JSON header of names, types, shapes and places, then the numbers; nothing is run.

Layout: https://huggingface.co/docs/safetensors. The header is checked as a whole before any number is used.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from nirbridge.arrays import Array
from nirbridge.errors import FileError, quoted
from nirbridge.files.json_text import parse_json
from nirbridge.files.npy import MAX_BYTES, MEMBERS_MAX
from nirbridge.files.regular import open_regular, read_up_to

SUFFIX = ".safetensors"
_TYPES = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "BF16": "<u2", "I64": "<i8", "I32": "<i4", "I16": "<i2"} | {
    "I8": "|i1",
    "U8": "|u1",
    "BOOL": "|b1",
}
_HEADER_MAX = 2**26
_STEP = "write it again with safetensors.torch.save_file"


def load_safetensors(path: str | Path, subject: str, *, max_bytes: int = MAX_BYTES) -> dict[str, Array]:
    """Every array by name; ``BF16`` as float32, which holds the same numbers.

    Raises:
        FileError: anything else, a header that does not describe the data exactly, more than ``max_bytes``.
    """
    with open_regular(path, subject, f"a {SUFFIX} file") as file:
        start = file.read(8)
        length = int.from_bytes(start, "little")
        if len(start) < 8 or length > _HEADER_MAX:
            raise FileError.of(subject, "its header is cut off or too long", f"at most {_HEADER_MAX:,} bytes", _STEP)
        header = parse_json(file.read(length), subject, bytes_max=_HEADER_MAX, hint=_STEP)
        data = read_up_to(file, max_bytes)
    if len(data) > max_bytes:
        raise FileError.of(subject, "it holds too much", f"at most {max_bytes:,} bytes are read", "cut it")
    if not isinstance(header, dict) or len(header) > MEMBERS_MAX:
        raise FileError.of(subject, "its header is no object of arrays by name", f"at most {MEMBERS_MAX:,}", _STEP)
    return dict(_arrays(header, data, subject))


def _arrays(header: dict[str, Any], data: bytes, subject: str) -> Iterator[tuple[str, Array]]:
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        match entry:
            case {"dtype": str(kind), "shape": list(shape), "data_offsets": [int(start), int(stop)]} if kind in _TYPES:
                dtype = np.dtype(_TYPES[kind])
                is_place = 0 <= start <= stop <= len(data)
                if is_place and _is_shape(shape) and math.prod(shape) * dtype.itemsize == stop - start:
                    numbers = np.frombuffer(data, dtype, math.prod(shape), start).reshape(shape)
                    yield name, (numbers.astype("<u4") << 16).view("<f4") if kind == "BF16" else numbers
                    continue
        limit = f"a type of {', '.join(_TYPES)}, a shape, and a place in the file of that size"
        raise FileError.of(subject, f"{quoted(name)} is not described by its header", limit, _STEP)


def _is_shape(shape: list[Any]) -> bool:
    """True for at most 32 axes whose product, those of length 0 left out, an array can have."""
    return (
        len(shape) <= 32 and all(type(n) is int and n >= 0 for n in shape) and math.prod(n for n in shape if n) < 2**40
    )
