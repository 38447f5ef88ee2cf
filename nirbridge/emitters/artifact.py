"""What an emitter makes: files in memory with a digest; writing them to a folder is a step of its own."""

from __future__ import annotations

import hashlib
import io
import json
import os
import secrets
import shutil
import zipfile
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from types import MappingProxyType

import numpy as np

from nirbridge.arrays import Array
from nirbridge.errors import Bug, FileError, quoted

MANIFEST = "manifest.json"
MADE_BY = "nirbridge"
_NO_TIME = (1980, 1, 1, 0, 0, 0)


@dataclass(frozen=True, slots=True, eq=False)
class Artifact:
    """Files by path (relative, with ``/``); ``manifest.json`` among them names every other with its SHA-256."""

    files: Mapping[str, bytes]

    @property
    def digest(self) -> str:
        """SHA-256 of the manifest, and so of everything."""
        return hashlib.sha256(self.files[MANIFEST]).hexdigest()


def artifact(files: Mapping[str, bytes], facts: Mapping[str, object]) -> Artifact:
    """The artifact of these files: a manifest is added that holds ``facts`` (plain JSON) and the digests.

    Raises:
        Bug: a path that leads out of the folder.
    """
    for path in files:
        parts = PurePosixPath(path).parts
        if not parts or path.startswith("/") or ".." in parts or "\\" in path or not path.isprintable():
            raise Bug.of("emitter", f"path {quoted(path)}", "paths stay in their folder", "please report it")
    digests = {path: hashlib.sha256(content).hexdigest() for path, content in sorted(files.items())}
    manifest = {"made_by": MADE_BY, **facts, "files": digests}
    text = json.dumps(manifest, sort_keys=True, indent=1, allow_nan=False) + "\n"
    whole = {**files, MANIFEST: text.encode("ascii")}
    return Artifact(MappingProxyType(dict(sorted(whole.items()))))


def npz_bytes(arrays: Mapping[str, Array]) -> bytes:
    """The bytes of an ``.npz`` of these arrays: the same arrays give the same bytes."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED, compresslevel=6) as archive:
        for name in sorted(arrays):
            info = zipfile.ZipInfo(f"{name}.npy", _NO_TIME)
            info.compress_type = zipfile.ZIP_DEFLATED
            with archive.open(info, "w", force_zip64=True) as member:
                array = np.asarray(arrays[name])
                np.lib.format.write_array(member, array.copy(), version=(1, 0), allow_pickle=False)
    return out.getvalue()


def write(artifact: Artifact, folder: str | Path) -> None:
    """Writes every file; the folder appears, or is replaced, as a whole.

    Raises:
        FileError: the folder holds something that nirbridge did not make, or can not be written.
    """
    folder = Path(folder)
    _refuse_foreign(folder)
    scratch = folder.parent / f".{folder.name[:100]}.{secrets.token_hex(8)}.part"
    try:
        for path, content in artifact.files.items():
            target = scratch / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content)
        _replace(folder, scratch)
    except OSError as error:
        thing = f"folder {quoted(folder.name)}"
        raise FileError.of(thing, f"can not be written ({error.strerror})", "", "check where it is") from error
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _replace(folder: Path, scratch: Path) -> None:
    """A folder can not be replaced in one step where it has files: the old one is moved aside first."""
    old = scratch.with_suffix(".old")
    if folder.exists():
        folder.rename(old)
    try:
        scratch.rename(folder)
    except OSError:
        with suppress(OSError):
            old.rename(folder)
        raise
    shutil.rmtree(old, ignore_errors=True)


def _refuse_foreign(folder: Path) -> None:
    thing = f"folder {quoted(folder.name)}"
    if folder.is_symlink() or (folder.exists() and not folder.is_dir()):
        raise FileError.of(thing, "is no folder", "", "name another one")
    if not os.access(folder.absolute().parent, os.W_OK):
        raise FileError.of(thing, "its folder does not exist or can not be written", "", "create it")
    if not folder.is_dir() or not any(folder.iterdir()):
        return
    known = _known_files(folder)
    if known is None:
        raise FileError.of(thing, "holds files, and no manifest of nirbridge", "", "name another folder, or empty it")
    found = (p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_symlink() or not p.is_dir())
    strange = sorted(p for p in found if p not in known and "__pycache__" not in p)
    if strange:
        shown = ", ".join(quoted(p) for p in strange[:4]) + (" …" if len(strange) > 4 else "")
        raise FileError.of(thing, f"holds files that nirbridge did not write: {shown}", "", "move them away")


def _known_files(folder: Path) -> set[str] | None:
    """The files that the manifest in the folder names; None where there is none of ours."""
    try:
        manifest = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return None
    if not isinstance(manifest, dict) or manifest.get("made_by") != MADE_BY:
        return None
    files = manifest.get("files")
    return {MANIFEST, *files} if isinstance(files, dict) else None
