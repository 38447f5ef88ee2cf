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
from nirbridge.errors import Bug, FileError, quoted
from nirbridge.files.folders import atomic_folder, resolve_folder
from nirbridge.files.npy import write_npz
from nirbridge.files.regular import read_regular

MANIFEST = "manifest.json"
MADE_BY = "nirbridge"


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
        FileError: it is no folder, cannot be made there, or holds something that nirbridge did not make.
    """
    subject = f"folder {quoted(Path(folder).name)}"
    place = resolve_folder(folder, subject)
    existing = Path(place.path)
    if place.kind == "new" or not any(existing.iterdir()):
        return
    own_files = known_files(existing)
    if own_files is None:
        raise FileError.of(subject, "holds files, but no manifest of nirbridge", "", "name another folder, or empty it")
    files = (p.relative_to(existing).as_posix() for p in existing.rglob("*") if p.is_symlink() or not p.is_dir())
    own_files |= _built_files(existing)
    strange = sorted(p for p in files if p not in own_files and "__pycache__" not in p)
    if strange:
        shown = ", ".join(quoted(p) for p in strange[:4]) + (" …" if len(strange) > 4 else "")
        raise FileError.of(subject, f"holds files that nirbridge did not write: {shown}", "", "move them away")


def known_files(folder: Path) -> set[str] | None:
    """Files listed by the manifest in the folder; None without a manifest of nirbridge."""
    files = _manifest(folder).get("files")
    return {MANIFEST, *files} if isinstance(files, dict) else None


def _built_files(folder: Path) -> set[str]:
    """Files that the program in the folder makes there when it is built."""
    built = _manifest(folder).get("builds")
    return {path for path in built if isinstance(path, str)} if isinstance(built, list) else set()


def _manifest(folder: Path) -> dict[str, Any]:
    """The manifest in the folder; empty without a manifest of nirbridge."""
    try:
        manifest = json.loads(read_regular(folder / MANIFEST))
    except (OSError, ValueError, RecursionError):
        return {}
    return manifest if isinstance(manifest, dict) and manifest.get("made_by") == MADE_BY else {}


def artifact_kind(program: str | Path | Artifact) -> str:
    """The emitter that made a program, in memory or in a folder; empty where it is no program of nirbridge."""
    manifest = json.loads(program.files[MANIFEST]) if isinstance(program, Artifact) else _manifest(Path(program))
    kind = manifest.get("kind")
    return kind if isinstance(kind, str) else ""


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
    files = {}
    for path, digest in digests.items():
        try:
            files[path] = read_regular(place / path) if _is_inside(path) else b""
        except OSError:
            files[path] = b""
        if hashlib.sha256(files[path]).hexdigest() != digest:
            found = f"its file {quoted(path)} is missing or was changed"
            raise FileError.of(subject, found, "", "make it again with nirbridge emit")
    return Artifact(MappingProxyType({**files, MANIFEST: read_regular(place / MANIFEST)}))
