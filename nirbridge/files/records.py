"""Files of a JSON record and a table of arrays: one ``.npz`` whose ``meta`` holds the record.

``{"array": name}`` in the record stands for an array of the archive. A digest covers both, so that a change is noticed.
"""

from __future__ import annotations

import hashlib
import io
import json
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from nirbridge.arrays import Array
from nirbridge.errors import FileError, ModelError, quoted
from nirbridge.files.atomic import atomic_write
from nirbridge.files.json_text import parse_json
from nirbridge.files.npy import UNREADABLE, load_npz, open_archive, open_member, read_header, write_npz
from nirbridge.files.places import file_name

T = TypeVar("T")
META = "meta"
META_BYTES_MAX = 64 * 2**20
# Besides those of archives: errors of json and of shapes that disagree.
_WRONG = (*UNREADABLE, TypeError, AttributeError, LookupError, ArithmeticError, MemoryError, struct.error)


@dataclass(frozen=True, slots=True)
class RecordFormat:
    """A kind of file: its ``kind`` and ``schema``, the types of its arrays, and the words of messages.

    ``noun``: with its article; ``origin``: how such a file is made; ``remedy``: hint for a damaged one.
    """

    kind: str
    schema: int
    types: tuple[str, ...]
    noun: str
    origin: str
    remedy: str

    @property
    def name(self) -> str:
        """The noun without its article."""
        return self.noun.partition(" ")[2]


def write_record(path: str | Path, form: RecordFormat, record: Mapping[str, Any], arrays: Mapping[str, Array]) -> str:
    """Write a file, whole or not at all and the same bytes every time; return its digest.

    Raises:
        FileError: the place cannot be written.
    """
    digest, stored = _stored(form, record, arrays)
    atomic_write(path, lambda file: write_npz(file, stored, 1), subject=f"file {quoted(Path(path).name)}")
    return digest


def record_bytes(form: RecordFormat, record: Mapping[str, Any], arrays: Mapping[str, Array]) -> bytes:
    """The bytes of the file that ``write_record`` writes."""
    out = io.BytesIO()
    write_npz(out, _stored(form, record, arrays)[1], 1)
    return out.getvalue()


def _stored(form: RecordFormat, record: Mapping[str, Any], arrays: Mapping[str, Array]) -> tuple[str, dict[str, Array]]:
    """The digest, and everything that the file holds."""
    digest = digest_of(record, arrays)
    header = {"schema": form.schema, "kind": form.kind, "digest": digest}
    text = json.dumps({**header, **record}, sort_keys=True, allow_nan=False).encode()
    return digest, {META: np.frombuffer(text, np.uint8), **arrays}


def read_record(
    path: str | Path, form: RecordFormat, build: Callable[[dict[str, Any], dict[str, Array]], T], *, max_bytes: int
) -> T:
    """The value that ``build`` makes of the record and the arrays of a file.

    ``build`` raises ModelError, KeyError, TypeError, ValueError for content that is none.

    Raises:
        FileError: another kind of file, a damaged one, one that declares more than ``max_bytes``.
    """
    subject = f"file {quoted(file_name(path))}"
    try:
        arrays = load_npz(path, max_bytes=max_bytes)
        return build(_checked_record(subject, form, arrays), arrays)
    except ModelError as error:
        raise FileError.of(subject, str(error.problems[0]), "", form.remedy) from None
    except _WRONG as error:
        reason = quoted(str(error).splitlines()[0] if str(error) else type(error).__name__)
        raise FileError.of(subject, f"cannot be read as {form.noun} ({reason})") from None


def _checked_record(subject: str, form: RecordFormat, arrays: dict[str, Array]) -> dict[str, Any]:
    """The record without its header; ``meta`` is removed from ``arrays``. Raises FileError."""
    foreign = [array.dtype for array in arrays.values() if array.dtype.str not in form.types]
    if foreign or arrays[META].nbytes > META_BYTES_MAX:
        found = f"an array of type {foreign[0]}" if foreign else f"{arrays[META].nbytes:,} bytes of description"
        raise FileError.of(subject, found, f"no {form.name} has that", form.remedy)
    text = arrays.pop(META).tobytes()
    record: dict[str, Any] = parse_json(text, subject, bytes_max=META_BYTES_MAX, hint=form.remedy)
    if record.pop("kind") != form.kind:
        raise FileError.of(subject, f"is not {form.noun}", "", form.origin)
    schema = record.pop("schema")
    if schema != form.schema:
        raise FileError.of(subject, f"schema {schema!r}", f"this nirbridge reads {form.schema}")
    if record.pop("digest") != digest_of(record, arrays):
        raise FileError.of(subject, "its digest does not match", "the file was changed or damaged", form.remedy)
    return record


def stored_kind(path: str | Path) -> str:
    """The ``kind`` of a file; empty where its ``meta`` is no such record. Raises as zipfile and ``open_member``."""
    with open_archive(path) as archive, open_member(archive, archive.getinfo(f"{META}.npy")) as member:
        try:
            read_header(member, META)
            return str(parse_json(member.read(META_BYTES_MAX + 1), META, bytes_max=META_BYTES_MAX)["kind"])
        except (FileError, *_WRONG):
            return ""


def digest_of(record: Mapping[str, Any], arrays: Mapping[str, Array]) -> str:
    """SHA-256 over the record (as JSON with sorted keys) and every array: name, type, shape, bytes."""
    digest = hashlib.sha256(json.dumps(record, sort_keys=True, allow_nan=False).encode())
    for name, array in sorted(arrays.items()):
        digest.update(f"\n{name} {array.dtype.str} {array.shape}\n".encode())
        digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()
