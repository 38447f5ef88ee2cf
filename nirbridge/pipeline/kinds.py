"""The kind of a file, by its content: what nirbridge saves or reads, and what else a user may point at by mistake."""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

from nirbridge.dialect.model_files import mlir_kind
from nirbridge.emitters.artifact import artifact_kind
from nirbridge.errors import FileError, quoted
from nirbridge.events.nirdata import is_nir_data
from nirbridge.files.json_text import parse_json
from nirbridge.files.npy import UNREADABLE, field_names, open_archive, open_member, stored_kind
from nirbridge.files.regular import open_regular, read_up_to
from nirbridge.importers.weights import weights_hint
from nirbridge.network.storage.file import FORMAT

Kind = Literal[
    "model",
    "map",
    "network",
    "quantized",
    "recording",
    "verification",
    "chip",
    "program",
    "table",
    "module",
    "page",
    "events",
]
_HDF5, _ZIP = b"\x89HDF\r\n\x1a\n", b"PK"
_META, _TEXT_TYPE = "meta.npy", b"<U"
_RECORDS: dict[str, Kind] = {FORMAT.kind: "network", "nirbridge-verification": "verification"}
_START, _TEXT_MAX = 4096, 2**28
_DATA = "give it to a command as --input, --calibrate or --labels"
_OTHERS: tuple[tuple[bytes, str, str], ...] = (
    (b"\x93NUMPY", "is an array of NumPy", _DATA),
    (b"\x89PNG", "is a picture", "open it with a viewer of pictures"),
    (b"%PDF", "is a PDF document", "open it with a viewer of documents"),
    (b"<?xml", "is a picture or another XML document", "open it in a browser"),
    (b"\x1f\x8b", "is packed with gzip", "unpack it first"),
    (b"\x80\x04", "is a pickle of Python", "import the module that it was saved from: nirbridge import"),
)
"""First bytes of files of others, what these are, and what a user can do."""
_BY_ENDING = {
    ".py": ("is Python", "name the module in it: FILE.py:ATTR"),
    ".onnx": ("is an ONNX model", "convert the module that it was exported from: nirbridge import"),
}
KNOWN = (
    "expected is a model, map, quantized network, recording, verification, table, chip, program or report of "
    "nirbridge, or a file of events"
)


def kind_of_file(path: str | Path) -> Kind:
    """The kind of a file or a folder by its content. Raises FileError for a file that is none of nirbridge's."""
    subject = quoted(Path(path).name or str(path))
    if os.path.isdir(path):
        if artifact_kind(path):
            return "program"
        raise FileError.of(subject, "is a folder without a program of nirbridge", "", "name a file in it")
    with open_regular(Path(path), subject, "a file that nirbridge saved") as file:
        start = file.read(_START)
    if start.startswith(_HDF5):
        return "events" if is_nir_data(path) else "model"
    if start.startswith(b"#!AER-DAT") or {"x", "t"} <= set(field_names(start)):
        return "events"
    if start.startswith(_ZIP):
        return _kind_of_archive(path, subject)
    if start.startswith(b"PAR1"):
        return "table"
    return _kind_of_text(path, start, subject)


def _kind_of_archive(path: str | Path, subject: str) -> Kind:
    """The ``meta`` of a recording is a text, that of other archives a record."""
    try:
        with open_archive(path) as archive:
            if {"x.npy", "t.npy"} <= set(archive.namelist()) <= {"x.npy", "y.npy", "t.npy", "p.npy"}:
                return "events"
            if _META not in archive.namelist():
                found, step = _other_archive(archive.namelist(), Path(path).name)
                raise FileError.of(subject, found, "", step)
            with open_member(archive, archive.getinfo(_META)) as member:
                header = member.read(256)
    except (KeyError, *UNREADABLE) as error:
        found = f"is an archive without a readable 'meta' ({quoted(error, 80)[1:-1]})"
        raise FileError.of(subject, found, KNOWN, "make it again") from None
    if _TEXT_TYPE in header.partition(b"}")[0]:
        return "recording"
    return _RECORDS.get(stored_kind(path), "quantized")


def _other_archive(names: list[str], file: str) -> tuple[str, str]:
    """What an archive without ``meta`` is, and what to do with it."""
    if any(name.endswith("data.pkl") for name in names):
        return "is a file of torch.save", weights_hint(file, is_torch=True)
    if names and all(name.endswith(".npy") for name in names):
        return "holds arrays of NumPy", _DATA
    return "is an archive of another program", "unpack it first"


def _kind_of_text(path: str | Path, start: bytes, subject: str) -> Kind:
    ending = os.path.splitext(os.fsdecode(path))[1].lower()
    text = start.decode("utf-8", "replace").lstrip("\ufeff \t\r\n")
    if text.startswith("{"):
        return _kind_of_json(path, text, subject)
    if text.startswith(("<!doctype html", "<html")) and 'content="nirbridge ' in text:
        return "page"
    if ending == ".mlir" and (kind := mlir_kind(text_of_file(path, subject))) != "other":
        return "quantized" if kind == "quantized" else "model"
    if text.startswith(("module", '"builtin.module"')):
        return "module"
    if re.match(r"(?:key,)?model,chip,", text):
        return "table"
    if ending == ".toml" or _is_toml(start):
        return _kind_of_toml(path, subject)
    for found, hint in _others(start, ending):
        raise FileError.of(subject, found, "", hint)
    raise FileError.of(subject, "is not a file that nirbridge saves" if start else "is empty", KNOWN, "check the path")


def _others(start: bytes, ending: str) -> Iterator[tuple[str, str]]:
    yield from ((found, hint) for prefix, found, hint in _OTHERS if start.startswith(prefix))
    if ending in _BY_ENDING:
        yield _BY_ENDING[ending]


def _kind_of_json(path: str | Path, start: str, subject: str) -> Kind:
    """A map begins with its key ``approximate``; any other document is read, and a broken one is taken for a map."""
    if re.match(r'\{\s*"approximate"', start):
        return "map"
    try:
        document = parse_json(text_of_file(path, subject), subject, bytes_max=_TEXT_MAX)
    except FileError:
        return "map"
    if document.get("made_by") == "nirbridge" and "files" in document:
        raise FileError.of(subject, "is the manifest of a program", "", "name its folder")
    return "table" if not {"rows", "points"}.isdisjoint(document) else "map"


def _is_toml(start: bytes) -> bool:
    return re.search(rb"^(?:name|schema|models|chips|extends)\s*=", start, re.MULTILINE) is not None


def _kind_of_toml(path: str | Path, subject: str) -> Kind:
    try:
        record = tomllib.loads(text_of_file(path, subject))
    except tomllib.TOMLDecodeError:
        record = {}  # the reader of chips says where it is broken
    if "models" in record:
        step = "see its points with nirbridge sweep FILE.toml --dry-run"
        raise FileError.of(subject, "is the file of a sweep", "", step)
    return "chip"


def text_of_file(path: str | Path, subject: str) -> str:
    """The text of a file of at most 256 MiB; bytes that are no UTF-8 are replaced. Raises FileError."""
    with open_regular(Path(path), subject, "a file that nirbridge saved") as file:
        return read_up_to(file, _TEXT_MAX).decode("utf-8", "replace")
