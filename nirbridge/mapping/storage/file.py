"""Maps as files: ``*.map.json``, the same bytes for the same map, complete enough for an independent check."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from nirbridge.chips.model import CoreId
from nirbridge.errors import Bug, FileError, quoted
from nirbridge.files.atomic import atomic_write_bytes
from nirbridge.files.json_text import parse_json
from nirbridge.files.regular import open_file, read_up_to
from nirbridge.mapping.model import MappedNetwork
from nirbridge.mapping.storage.document import map_to_dict
from nirbridge.mapping.storage.record import MapRecord, map_from_dict

MAX_BYTES = 1 << 28

# -- writing -----------------------------------------------------------------------------------------------------


def write_map(mapped: MappedNetwork, path: str | os.PathLike[str], model_file: str, model_sha256: str) -> None:
    """Write the map file, whole or not at all. Raises FileError where the place cannot be written."""
    write_document(map_to_dict(mapped, model_file, model_sha256), path)


def write_document(document: Mapping[str, Any], path: str | os.PathLike[str]) -> None:
    """Write a map document to ``path``, whole or not at all (``files.atomic``).

    Raises FileError where the place cannot be written, and Bug where a number is not finite.
    """
    subject = f"map file {quoted(Path(path).name)}"
    try:
        data = map_bytes(document)
    except ValueError as error:
        raise Bug.of(subject, str(error), hint="please report it") from error
    atomic_write_bytes(path, data, subject=subject)


def map_bytes(document: Mapping[str, Any]) -> bytes:
    """UTF-8 JSON, keys sorted, one line per top-level key and per entry of a list of objects, newline at the end."""
    lines = []
    for key in sorted(document):
        value = document[key]
        if isinstance(value, list) and value and isinstance(value[0], dict):
            entries = ",\n  ".join(_line(entry) for entry in value)
            lines.append(f" {_line(key)}: [\n  {entries}\n ]")
        else:
            lines.append(f" {_line(key)}: {_line(value)}")
    # A name with a lone surrogate is no UTF-8; 'backslashreplace' writes just the escape that JSON has for it.
    return ("{\n" + ",\n".join(lines) + "\n}\n").encode("utf-8", "backslashreplace")


def _line(value: object) -> str:
    return json.dumps(value, sort_keys=True, ensure_ascii=False, allow_nan=False, default=_plain)


def _plain(value: Any) -> object:
    """Numpy's numbers and arrays and any mapping as plain values."""
    if isinstance(value, Mapping):
        return dict(value)
    if hasattr(value, "tolist"):
        return value.tolist()
    raise TypeError(f"{type(value).__name__} has no place in a map file")


# -- reading -----------------------------------------------------------------------------------------------------


def read_map(path: str | os.PathLike[str], *, max_bytes: int = MAX_BYTES) -> MapRecord:
    """Read and validate a map file.

    Raises:
        FileError: not readable, larger than ``max_bytes``, refused by ``parse_json``, or not of the form that
            docs/reference/map-file.md gives (every problem is listed).
    """
    file = Path(path)
    subject = f"map file {quoted(file.name)}"
    try:
        with open_file(file, stream=True) as handle:
            data = read_up_to(handle, max_bytes)
    except (OSError, ValueError) as error:  # ValueError: a text that is no path
        reason = getattr(error, "strerror", None) or f"cannot be read ({error})"
        raise FileError.of(subject, reason, hint="check the path") from error
    hint = "write it again with nirbridge map … -o"
    return map_from_dict(parse_json(data, subject, bytes_max=max_bytes, hint=hint), subject)


def core_text(core: CoreId | None) -> str:
    """A core in a message."""
    return "nowhere" if core is None else f"core {core.core} of tile ({core.x}, {core.y}) of chip {core.chip}"
