"""Archives of arrays (``.npz``) and single arrays (``.npy``), with mutations of values, headers and members."""

from __future__ import annotations

import io
import struct
import zipfile
from typing import Any

import numpy as np

from tests.fuzz.choices import Choices
from tests.fuzz.values import NUMBERS, TEXTS, mutate_bytes

TYPES = (
    "|b1",
    "|i1",
    "|u1",
    "<i2",
    ">i4",
    "<u4",
    "<i8",
    "<u8",
    "<f2",
    "<f4",
    ">f8",
    "<f8",
    "<c16",
    "|S3",
    "<U4",
    "|V4",
)
ODD_HEADERS = (
    "{'descr': '|O', 'fortran_order': False, 'shape': (1,), }",
    "{'descr': '<f8', 'fortran_order': False, 'shape': (1000000000000,), }",
    "{'descr': '<f8', 'fortran_order': False, 'shape': (99999999999, 99999999999), }",
    "{'descr': '<f8', 'fortran_order': False, 'shape': (0, 999999999999999), }",
    "{'descr': '<f8', 'fortran_order': False, 'shape': (-1,), }",
    "{'descr': '<f8', 'fortran_order': True, 'shape': (2, 3), }",
    "{'descr': [('a', '<f8')], 'fortran_order': False, 'shape': (1,), }",
    "{'descr': '<f8', 'fortran_order': False, 'shape': (" + "1, " * 70 + "), }",
    "{'descr': '<U999999999', 'fortran_order': False, 'shape': (), }",
    "{'descr': '<U268435456', 'fortran_order': False, 'shape': (), }",
    "(" * 500,
    "__import__('os').system('true')",
    "",
)
BOMB = 64 * 2**20


def npy(array: Any, header: str | None = None, version: bytes = b"\x01\x00") -> bytes:
    """The bytes of a ``.npy`` file; ``header`` replaces the right one."""
    array = np.asarray(array)
    if header is None and version == b"\x01\x00":
        out = io.BytesIO()
        np.lib.format.write_array(out, array, version=(1, 0), allow_pickle=True)
        return out.getvalue()
    text = (header or str({"descr": array.dtype.str, "fortran_order": False, "shape": array.shape})).encode("latin-1")
    return b"\x93NUMPY" + version + struct.pack("<H", len(text) + 1) + text + b"\n" + array.tobytes()


def mutate_array(array: Any, c: Choices) -> bytes:
    """A ``.npy`` file near that of the array."""
    array = np.array(array)
    kind = c.below(10)
    if kind < 3:
        return npy(_other_values(array, c))
    if kind < 6:
        return npy(_other_shape(array, c))
    if kind == 6:
        return npy(_other_type(array, c))
    if kind == 7:
        return npy(array, c.pick(ODD_HEADERS))
    if kind == 8:
        return npy(array, version=c.pick((b"\x02\x00", b"\x03\x00", b"\x00\x00", b"\xff\xff")))
    return mutate_bytes(npy(array), c)


def _other_values(array: Any, c: Choices) -> Any:
    if not array.size:
        return array
    value = c.pick(NUMBERS)
    with np.errstate(all="ignore"):
        try:
            array.reshape(-1)[c.below(array.size)] = value
        except (OverflowError, ValueError, TypeError):
            array = array.astype(np.float64) if abs(value) < 1e308 and array.dtype.kind in "biuf" else array
            array.reshape(-1)[: 1 + c.below(2)] = -3 if array.dtype.kind == "f" else array.reshape(-1)[:1]
    return array


def _other_shape(array: Any, c: Choices) -> Any:
    kind = c.below(7)
    if kind == 0 or not array.ndim:
        return array[None]
    if kind == 1:
        return array[..., None]
    if kind == 2:
        return array[:0]
    if kind == 3:
        return array.reshape(-1)
    if kind == 4:
        return array.reshape(-1)[:1].reshape(()) if array.size else array
    return np.concatenate([array, array]) if kind == 5 else np.swapaxes(array, 0, -1)


def _other_type(array: Any, c: Choices) -> Any:
    if c.chance(8):
        return np.full(array.shape, None, dtype=object)
    with np.errstate(all="ignore"):
        try:
            return array.astype(c.pick(TYPES))
        except (TypeError, ValueError):
            return array


def npz(members: list[tuple[str, bytes]], how: int = zipfile.ZIP_STORED) -> bytes:
    """An archive of these members, in this order; names may come twice."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", how) as archive:
        for name, data in members:
            archive.writestr(zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0)), data, how)
    return out.getvalue()


def mutate_npz(arrays: dict[str, Any], c: Choices) -> bytes:
    """An archive near the right one of these arrays; text stays text."""
    members = [(f"{name}.npy", npy(a)) for name, a in arrays.items()]
    names = list(arrays)
    how = c.pick((zipfile.ZIP_STORED, zipfile.ZIP_STORED, zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_LZMA))
    for _ in range(c.several(3)):
        at, kind = c.below(len(members)), c.below(10)
        name, data = members[at]
        if kind < 5:
            members[at] = (name, mutate_array(arrays[names[at % len(names)]], c))
        elif kind == 5:
            members[at] = (_other_name(name, c), data)
        elif kind == 6 and len(members) > 1:
            del members[at]
        elif kind == 7:
            members.append((_other_name(name, c) if c.chance(2) else name, data))
        elif kind == 8:
            members[at], how = (name, _bomb(c)), zipfile.ZIP_DEFLATED
        else:
            return _damaged(npz(members, how), c)
    return npz(members, how)


def _other_name(name: str, c: Choices) -> str:
    made = c.pick((c.pick(TEXTS) + ".npy", c.pick(TEXTS), name[1:], "x" + name, name.upper(), f"../{name}", f"/{name}"))
    return made[:60_000].encode("utf-8", "replace").decode()


def _bomb(c: Choices) -> bytes:
    """Some zeros that are packed well, under a header that may promise more."""
    count = c.pick((1000, 2**16, 2**20))
    promised = c.pick((count, BOMB, 2**40))
    return npy(np.zeros(count), f"{{'descr': '<f8', 'fortran_order': False, 'shape': ({promised},), }}")


def _damaged(data: bytes, c: Choices) -> bytes:
    """The archive with an edit of its bytes, or of the fields of one header."""
    if c.chance(2):
        return mutate_bytes(data, c)
    at = data.find(b"PK\x01\x02") if c.chance(2) else data.find(b"PK\x05\x06")
    field = at + 4 + c.below(24)
    return data[:field] + c.pick((b"\xff\xff", b"\x01\x00", b"\x00\x00", b"\xff\xff\xff\x7f")) + data[field + 2 :]
