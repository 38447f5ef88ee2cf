"""The result of an emitter: files in memory with a digest, written to a folder separately."""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from types import MappingProxyType
from typing import Any

import numpy as np

from nirbridge._values import ReportedValue, SavedValue
from nirbridge.arrays import Array
from nirbridge.errors import Bug, FileError, ModelError, quoted
from nirbridge.files.atomic import atomic_folder, resolve_folder
from nirbridge.files.json_text import parse_json
from nirbridge.files.npy import write_npz
from nirbridge.files.regular import open_file, read_regular, read_up_to
from nirbridge.network.storage.codec import check_fields

MANIFEST = "manifest.json"
MADE_BY = "nirbridge"
_DOCUMENT_BYTES_MAX = 2**28
_AGAIN = "make it again with nirbridge emit"


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Artifact(SavedValue, ReportedValue):
    """Files by path (relative, with ``/``); ``manifest.json`` among them names every other with its SHA-256."""

    files: Mapping[str, bytes]

    @property
    def digest(self) -> str:
        """SHA-256 of the manifest, and so of everything."""
        return hashlib.sha256(self.files[MANIFEST]).hexdigest()


def make_artifact(files: Mapping[str, bytes], facts: Mapping[str, object]) -> Artifact:
    """The artifact of these files: a manifest is added that holds ``facts`` (plain JSON) and the digests.

    Raises:
        Bug: a path that leads out of the folder.
    """
    for path in files:
        if not _is_inside(path):
            raise Bug.of("emitter", f"path {quoted(path)}", "paths stay in their folder", "please report it")
    digests = {path: hashlib.sha256(content).hexdigest() for path, content in files.items()}
    manifest = {"made_by": MADE_BY, **facts, "files": digests}
    text = json.dumps(manifest, sort_keys=True, indent=1, allow_nan=False) + "\n"
    with_manifest = {**files, MANIFEST: text.encode("ascii")}
    return Artifact(MappingProxyType(dict(sorted(with_manifest.items()))))


def _is_inside(path: str) -> bool:
    parts = PurePosixPath(path).parts
    return bool(parts) and not path.startswith("/") and ".." not in parts and "\\" not in path and path.isprintable()


def npz_bytes(arrays: Mapping[str, Array]) -> bytes:
    """The bytes of an ``.npz`` of these arrays: the same arrays give the same bytes."""
    out = io.BytesIO()
    write_npz(out, {name: np.asarray(arrays[name]).copy() for name in sorted(arrays)}, 6)  # copies: in order of rows
    return out.getvalue()


def write_artifact(artifact: Artifact, folder: str | Path) -> None:
    """Writes every file; the folder appears, or is replaced, as a whole.

    Raises:
        FileError: see ``check_folder``, or the folder cannot be written.
    """
    check_folder(folder)
    atomic_folder(folder, artifact.files, subject=f"folder {quoted(Path(folder).name)}")


def check_folder(folder: str | Path) -> None:
    """Check that ``write_artifact`` may create or replace the folder; nothing is changed.

    Raises:
        FileError: it is no folder, cannot be made there, or holds something that nirbridge did not make, or made
            otherwise.
    """
    subject = f"folder {quoted(Path(folder).name)}"
    place = resolve_folder(folder, subject)
    existing = Path(place.path)
    if place.kind == "new" or not any(existing.iterdir()):
        return
    digests = _manifest(existing).get("files")
    if not isinstance(digests, dict):
        raise FileError.of(subject, "holds files, but no manifest of nirbridge", "", "name another folder, or empty it")
    files = [p.relative_to(existing).as_posix() for p in existing.rglob("*") if p.is_symlink() or not p.is_dir()]
    own_files = {MANIFEST, *digests} | _built_files(existing)
    strange = [p for p in files if p not in own_files and "__pycache__" not in p]
    changed = [p for p in files if p in digests and hashlib.sha256(_file_of(existing, p)).hexdigest() != digests[p]]
    for found, paths in (("that nirbridge did not write", strange), ("edited since nirbridge wrote them", changed)):
        if paths:
            shown = ", ".join(map(quoted, sorted(paths)[:4])) + (" …" if len(paths) > 4 else "")
            raise FileError.of(subject, f"holds files {found}: {shown}", "", "move them away")


def known_files(folder: Path) -> set[str] | None:
    """Files listed by the manifest in the folder; None without a manifest of nirbridge."""
    files = _manifest(folder).get("files")
    return {MANIFEST, *files} if isinstance(files, dict) else None


def _built_files(folder: Path) -> set[str]:
    """Files that the program in the folder makes there when it is built."""
    built = _manifest(folder).get("builds")
    return {path for path in built if isinstance(path, str)} if isinstance(built, list) else set()


def _manifest(program: str | Path | Artifact) -> dict[str, Any]:
    """The manifest of a program; empty without a manifest of nirbridge."""
    try:
        manifest = read_document(program, MANIFEST, {"made_by": str})
    except FileError:
        return {}
    return manifest if manifest["made_by"] == MADE_BY else {}


def artifact_kind(program: str | Path | Artifact) -> str:
    """The emitter that made a program, in memory or in a folder; empty where it is no program of nirbridge."""
    kind = _manifest(program).get("kind")
    return kind if isinstance(kind, str) else ""


def read_document(program: str | Path | Artifact, name: str, fields: Mapping[str, Any]) -> dict[str, Any]:
    """A JSON object of a program, in memory or in a folder.

    Args:
        program: the program.
        name: of its file: ``manifest.json``, ``program.json``.
        fields: types of the fields that the caller needs, as ``check_fields`` takes them; others may be there.

    Raises:
        FileError: no such file, no JSON object, or a field that is missing or of another type.
    """
    document = read_json(program, name)
    try:
        check_fields(document, fields, name)
    except ModelError as error:
        problem = error.problems[0]
        found = f"its {name} is damaged ({problem.subject.removeprefix(f'{name}, ')} {problem.found})"
        raise FileError.of(_subject(program), found, problem.limit, _AGAIN) from None
    if not isinstance(document, dict):
        raise FileError.of(_subject(program), f"its {name} is damaged (it is no object)", "", _AGAIN)
    return document


def read_json(program: str | Path | Artifact, name: str) -> Any:
    """The value of a JSON file of a program, in memory or in a folder, whatever it is.

    Raises:
        FileError: no such file, or no JSON.
    """
    try:
        data = program.files[name] if isinstance(program, Artifact) else _content(Path(program) / name)
        return parse_json(data, name, bytes_max=_DOCUMENT_BYTES_MAX)
    except (KeyError, OSError, ValueError, FileError):  # ValueError: a text that is no path
        limit, hint = "", "make one with nirbridge emit"
        raise FileError.of(_subject(program), "is not a program of nirbridge", limit, hint) from None


def _subject(program: str | Path | Artifact) -> str:
    return "program" if isinstance(program, Artifact) else f"folder {quoted(Path(program).absolute().name)}"


def _content(path: Path) -> bytes:
    """The bytes of a JSON file, cut off where they are too many for the reader. Raises OSError."""
    with open_file(path) as file:
        return read_up_to(file, _DOCUMENT_BYTES_MAX)


def read_artifact(folder: str | Path) -> Artifact:
    """The files of a program that ``write_artifact`` wrote.

    Raises:
        FileError: it is no program of nirbridge, or a file is missing or was changed.
    """
    place = Path(folder)
    subject = f"folder {quoted(place.name)}"
    digests = _manifest(place).get("files")
    if not isinstance(digests, dict):
        raise FileError.of(subject, "is not a program of nirbridge", "", "make one with nirbridge emit")
    files = {path: _file_of(place, path) for path in digests}
    for path, digest in digests.items():
        if hashlib.sha256(files[path]).hexdigest() != digest:
            found = f"its file {quoted(path)} is missing or was changed"
            raise FileError.of(subject, found, "", _AGAIN)
    return Artifact(MappingProxyType({**files, MANIFEST: read_regular(place / MANIFEST)}))


def _file_of(folder: Path, path: str) -> bytes:
    """A file of a program; empty where there is none."""
    try:
        return read_regular(folder / path) if _is_inside(path) else b""
    except OSError:
        return b""
