"""Recordings as ``.npz`` files: one array ``NODE/VARIABLE`` each, and ``meta``, a JSON text.

Names of nodes are stored unchanged except for ``%``, ``:``, backslashes, unprintable characters and the path segments
``.`` and ``..``, which are written as ``%XX`` per UTF-8 byte, and empty segments, written as ``%``. The last ``/`` ends
the name. The same recording always gives the same bytes.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from nirbridge.arrays import Array
from nirbridge.errors import FileError, ModelError, quoted
from nirbridge.files.atomic import atomic_write
from nirbridge.files.json_text import parse_json
from nirbridge.files.npy import MAX_BYTES, decode_name, encode_name, load_npz, write_npz
from nirbridge.network.storage.codec import check_fields
from nirbridge.simulators.recording import VARIABLES
from nirbridge.simulators.types import Recording

META = "meta"
SCHEMA = 1
_LONGEST_NAME = 2**15
_FIELDS = {
    "steps": int | None, "batch": int | bool | None, "dt": float | None, "dtype": str | None, "backend": str | None,
    "assumed": list[str] | None, "notes": list[str] | None, "candidates": Mapping | None,
}  # fmt: skip
"""Types of the values that are shown; there may be others, and each may be missing."""


def write_recording(recording: Recording, path: str | Path) -> None:
    """Write a recording atomically.

    Raises:
        FileError: the place cannot be written, or a name is longer than a zip archive takes.
    """
    subject = f"recording {quoted(Path(path).name)}"
    for node, _ in recording.arrays:
        if len(encode_name(node).encode()) > _LONGEST_NAME:
            raise FileError.of(subject, f"the name {quoted(node)} is too long for an archive", "", "rename the node")
    atomic_write(path, lambda file: _write(file, recording), subject=subject)


def _write(file: Any, recording: Recording) -> None:
    text = json.dumps({"schema": SCHEMA, **recording.meta}, sort_keys=True, default=_plain, allow_nan=False)
    arrays: dict[str, Array] = {f"{encode_name(node)}/{name}": a for (node, name), a in recording.arrays.items()}
    arrays[META] = np.array(text)
    write_npz(file, arrays, 1)


def _plain(value: Any) -> Any:
    if hasattr(value, "tolist"):
        return value.tolist()
    return dict(value)


def read_recording(path: str | Path, *, max_bytes: int = MAX_BYTES) -> Recording:
    """Read a recording. Nothing in the file is executed, and at most ``max_bytes`` are read.

    Raises:
        FileError: not a recording, damaged, too large.
    """
    arrays = load_npz(path, max_bytes=max_bytes, text=META)
    subject = f"recording {quoted(Path(path).name)}"
    if META not in arrays or arrays[META].dtype.kind != "U":
        raise FileError.of(subject, "has no text 'meta'", "a recording holds NODE/VARIABLE and meta", "record it again")
    meta = _meta(arrays.pop(META), subject, max_bytes)
    out: dict[tuple[str, str], Array] = {}
    for key, array in arrays.items():
        node, slash, variable = key.rpartition("/")
        if not slash or variable not in VARIABLES:
            step = f"variables are {', '.join(VARIABLES)}"
            raise FileError.of(subject, f"has an array {quoted(key)}", "arrays are named NODE/VARIABLE", step)
        array.flags.writeable = False
        out[decode_name(node), variable] = array
    return Recording(MappingProxyType(out), MappingProxyType(meta))


def _meta(text: Array, subject: str, max_bytes: int) -> dict[str, Any]:
    """The values beside the arrays. Raises FileError."""
    try:
        letters = text.tobytes().decode("utf-32-le", "surrogatepass").rstrip("\0")
    except UnicodeDecodeError:
        raise FileError.of(subject, "its meta is no text (a number beyond Unicode)", "", "record it again") from None
    meta = parse_json(letters, f"{subject}, meta", bytes_max=max_bytes, hint="record it again")
    if not isinstance(meta, dict) or meta.pop("schema", None) != SCHEMA:
        raise FileError.of(subject, "its meta is of another form", f"schema {SCHEMA} is read", "record it again")
    try:
        check_meta(meta, f"{subject}, meta")
    except ModelError as error:
        raise FileError(*(replace(p, hint="record it again") for p in error.problems)) from None
    return meta


def check_meta(meta: Mapping[str, Any], subject: str) -> None:
    """Raise ModelError for a value of another type than recordings have."""
    check_fields(meta, _FIELDS, subject)
