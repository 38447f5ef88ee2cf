"""Read and write ``.npy`` and ``.npz`` files, and records with their arrays in one ``.npz``.

Files of strangers are read with care: plain numbers only, headers first, never more than a limit.
"""

from __future__ import annotations

import hashlib
import io
import json
import math
import os
import re
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, TypeVar
from urllib.parse import unquote_to_bytes

import numpy as np

from nirbridge.arrays import Array
from nirbridge.errors import FileError, ModelError, NirbridgeError, quoted
from nirbridge.files.atomic import atomic_write
from nirbridge.files.json_text import parse_json
from nirbridge.files.places import file_name
from nirbridge.files.regular import open_file, read_up_to

MAX_BYTES = 2 * 2**30
MEMBERS_MAX = 100_000
UNREADABLE = (OSError, EOFError, ValueError, RuntimeError, zipfile.BadZipFile, zlib.error)
"""Exceptions of zipfile and numpy for damaged, encrypted or unknown content (unknown compression: RuntimeError)."""
MAGIC = b"\x93NUMPY\x01\x00"
HEADER = re.compile(
    r"\{'descr': '(?P<type>\|b1|\|[iu]1|[<>][iu][248]|[<>]f[248])', 'fortran_order': (?P<fortran>True|False), "
    r"'shape': \((?P<shape>(\d{1,15}(, \d{1,15})*,?)?)\),? *\}\s*"
)
FIELDS = re.compile(
    r"\{'descr': \[(?P<fields>(\('\w{0,30}', '[<>|][a-zA-Z]\d{1,4}'\)(, )?){1,100})\], 'fortran_order': (True|False), "
    r"'shape': \((?P<count>\d{1,15}),\),? *\}\s*"
)
FIELD = re.compile(r"\('(\w{0,30})', '(\|b1|\|[iu]1|[<>][iu][248]|[<>]f[248]|\|V\d{1,4})'\)")
TEXT = re.compile(r"\{'descr': '<U(?P<length>\d{1,8})', 'fortran_order': False, 'shape': \(\),? *\} *\s*")
_NO_TIME = (1980, 1, 1, 0, 0, 0)
_PACKINGS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)


@dataclass(frozen=True, slots=True)
class ArrayHeader:
    """Shape and type of an array in a file; ``start``: bytes in front of its data."""

    shape: tuple[int, ...]
    dtype: np.dtype
    fortran: bool
    start: int

    @property
    def bytes(self) -> int:
        """Bytes of the data."""
        return math.prod(self.shape) * self.dtype.itemsize

    @property
    def extent(self) -> int:
        """Bytes that a sum over the axes of length 0 would have: what a header may declare without any data."""
        return math.prod(n for n in self.shape if n) * self.dtype.itemsize


@contextmanager
def open_archive(path: str | Path) -> Iterator[zipfile.ZipFile]:
    """A ZIP file, opened to be read. Raises as ``open_file``, and BadZipFile."""
    with open_file(path) as file, zipfile.ZipFile(file) as archive:
        yield archive


def open_member(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> IO[bytes]:
    """A member, opened to be read.

    numpy stores members as they are or deflated. Other packings are not unpacked: an LZMA header alone may request
    4 GiB of memory, before any limit on the content applies.

    Raises:
        ValueError: another packing.
    """
    if member.compress_type not in _PACKINGS:
        raise ValueError("a member is neither stored nor deflated")
    return archive.open(member)


def header_of(file: IO[bytes], *, text: bool = False) -> ArrayHeader | None:
    """The header of an array of real numbers (or of one text) in format 1.0; None for anything else.

    numpy's own reader evaluates the header as Python; this takes only the form in which numpy writes it.
    """
    start = file.read(10)
    if not start.startswith(MAGIC):
        return None
    length = int.from_bytes(start[8:], "little")
    header = file.read(length).decode("latin-1")
    numbers = HEADER.fullmatch(header)
    if numbers is not None:
        shape = tuple(map(int, re.findall(r"\d+", numbers["shape"])))
        return ArrayHeader(shape, np.dtype(numbers["type"]), numbers["fortran"] == "True", 10 + length)
    letters = TEXT.fullmatch(header) if text else None
    return None if letters is None else ArrayHeader((), np.dtype(f"<U{letters['length']}"), False, 10 + length)


def read_header(file: IO[bytes], subject: str, *, text: bool = False) -> ArrayHeader:
    """See ``header_of``.

    Raises:
        FileError: anything but plain numbers (or one text).
    """
    header = header_of(file, text=text)
    if header is None:
        hint = "save plain numbers with numpy.save or numpy.savez"
        is_empty = file.seekable() and file.tell() == 0
        raise FileError.of(subject, "is empty" if is_empty else "not an array of plain numbers", "", hint)
    return header


def load_npy(path: str | Path, *, max_bytes: int = MAX_BYTES) -> Array:
    """The array of a ``.npy`` file, mapped into memory (read-only, read as it is used)."""
    subject = f"file {quoted(file_name(path))}"
    try:
        with open_file(path) as file:
            header = read_header(file, subject)
            _limit(subject, header.bytes or header.extent, max_bytes)
            if header.bytes > os.fstat(file.fileno()).st_size - header.start:
                limit = f"its header declares {header.bytes:,} bytes"
                raise FileError.of(subject, "ends early", limit, "save it again")
            if not header.bytes:
                return np.zeros(header.shape, header.dtype)
            order = "F" if header.fortran else "C"
            return np.memmap(file, header.dtype, "r", header.start, header.shape, order)
    except UNREADABLE as error:
        raise _unreadable(subject, error) from None


def field_names(start: bytes) -> tuple[str, ...]:
    """The names of the fields of a structured array, from the first bytes of its ``.npy`` file; none of another."""
    header = start[10 : 10 + int.from_bytes(start[8:10], "little")].decode("latin-1")
    found = FIELDS.fullmatch(header) if start.startswith(MAGIC) else None
    return () if found is None else tuple(name for name, _ in FIELD.findall(found["fields"]))


def load_fields(path: str | Path, *, max_bytes: int = MAX_BYTES) -> dict[str, Array] | None:
    """The fields of a ``.npy`` file that holds one structured array ``[n]`` of plain numbers; None for another file.

    Raises:
        FileError: fields of other types, more than ``max_bytes``, a file that ends early.
    """
    subject = f"file {quoted(file_name(path))}"
    try:
        with open_file(path) as file:
            start = file.read(10)
            length = int.from_bytes(start[8:], "little")
            header = FIELDS.fullmatch(file.read(length).decode("latin-1")) if start.startswith(MAGIC) else None
            if header is None:
                return None
            fields = FIELD.findall(header["fields"])
            names = [name for name, _ in fields if name]
            if len(fields) != header["fields"].count("(") or len(set(names)) != len(names):
                raise FileError.of(subject, "has fields that are no plain numbers, or of one name", "", "convert them")
            dtype = np.dtype([(name or f"_{k}", kind) for k, (name, kind) in enumerate(fields)])
            size = int(header["count"]) * dtype.itemsize
            _limit(subject, size, max_bytes)
            data = read_up_to(file, size)
            if len(data) < size:
                raise FileError.of(subject, "ends early", f"its header declares {size:,} bytes", "save it again")
            table = np.frombuffer(data[:size], dtype)
            return {name: table[name] for name, kind in fields if name and "V" not in kind}
    except UNREADABLE as error:
        raise _unreadable(subject, error) from None


def load_npz(path: str | Path, *, max_bytes: int = MAX_BYTES, text: str | None = None) -> dict[str, Array]:
    """Every array of a ``.npz`` file by name; ``text``: the name of the one that is a text.

    Raises:
        FileError: not such a file, arrays that are not plain numbers, more than ``max_bytes`` in all.
    """
    shown = quoted(file_name(path))
    arrays: dict[str, Array] = {}
    left = max_bytes
    try:
        with open_archive(path) as archive:
            members = archive.infolist()
            _limit(f"file {shown}", len(members), MEMBERS_MAX, "arrays")
            for member in members:
                name = member.filename.removesuffix(".npy")
                subject = f"file {shown}, array {quoted(name)}"
                if name in arrays:
                    raise FileError.of(subject, "occurs twice", "", "keep one of them")
                with open_member(archive, member) as file:
                    header = read_header(file, subject, text=name == text)
                    _limit(subject, *((header.bytes, left) if header.bytes else (header.extent, MAX_BYTES)))
                    arrays[name] = _data(file, header, subject)
                left -= header.bytes
    except UNREADABLE as error:
        raise _unreadable(f"file {shown}", error) from None
    return arrays


def write_npz(file: IO[bytes], arrays: Mapping[str, Array], level: int) -> None:
    """Write arrays as an ``.npz``; the same arrays give the same bytes. ``level``: of the compression, 1 to 9."""
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, compresslevel=level) as archive:
        for name, array in arrays.items():
            info = zipfile.ZipInfo(f"{name}.npy", _NO_TIME)
            info.compress_type = zipfile.ZIP_DEFLATED
            with archive.open(info, "w", force_zip64=True) as member:
                np.lib.format.write_array(member, np.asarray(array), version=(1, 0), allow_pickle=False)


def _data(file: IO[bytes], header: ArrayHeader, subject: str) -> Array:
    data = file.read(header.bytes)
    if len(data) != header.bytes:
        raise FileError.of(subject, "ends early", f"its header declares {header.bytes:,} bytes", "save it again")
    order = "F" if header.fortran else "C"
    if not header.bytes:
        return np.zeros(header.shape, header.dtype)
    return np.frombuffer(data, header.dtype).reshape(header.shape, order=order)


def _limit(subject: str, count: int, limit: int, noun: str = "bytes") -> None:
    if count > limit:
        raise FileError.of(subject, f"{count:,} {noun}", f"at most {limit:,} are read", "raise --max-bytes, or cut it")


def _unreadable(subject: str, error: Exception) -> NirbridgeError:
    if isinstance(error, FileNotFoundError):
        return FileError.of(subject, "does not exist", "", "check the path")
    reason = quoted(getattr(error, "strerror", None) or str(error) or type(error).__name__)
    return FileError.of(subject, f"cannot be read ({reason})", "", "write it with numpy.save or numpy.savez")


# -- archive names -------------------------------------------------------------------------------------------------
# Names of nodes as names of arrays in an archive: readable, and safe to unpack.
#
# ``%``, ``:``, backslashes, characters that cannot be printed, and path segments ``.`` and ``..`` are written as
# ``%XX`` per UTF-8 byte, empty segments as ``%``.


def encode_name(name: str) -> str:
    """A node's name as a part of a file's name, readable and harmless."""
    segments = name.split("/")
    return "/".join(_hex(s) if s in ("", ".", "..") else "".join(map(_safe, s)) for s in segments)


def decode_name(name: str) -> str:
    """The node's name again."""
    encoded = "/".join("" if s == "%" else s for s in name.split("/"))
    return unquote_to_bytes(encoded).decode("utf-8", "surrogatepass")


def _safe(character: str) -> str:
    return character if character.isprintable() and character not in "%\\:" else _hex(character)


def _hex(text: str) -> str:
    if not text:
        return "%"  # an empty segment; '%' never stands alone else
    return "".join(f"%{byte:02X}" for byte in text.encode("utf-8", "surrogatepass"))


# -- records -------------------------------------------------------------------------------------------------------
# Files of a JSON record and a table of arrays: one ``.npz`` whose ``meta`` holds the record.
#
# ``{"array": name}`` in the record stands for an array of the archive. A digest covers both, so that a change is
# noticed.


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
    atomic_write(path, lambda file: write_npz(file, stored, 1), subject=f"file {quoted(file_name(Path(path)))}")
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
