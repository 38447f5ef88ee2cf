"""Atomic creation and replacement of folders."""

from __future__ import annotations

import ctypes
import os
import shutil
from collections.abc import Mapping
from contextlib import suppress

from nirbridge.errors import FileError
from nirbridge.files.places import Path, ResolvedPath, check_folder_above, resolve_path
from nirbridge.files.scratch import lock_unfinished, remove_folder, sweep, unfinished_name

_AT_FDCWD, _RENAME_EXCHANGE = -100, 2
_TRIES = 100


def resolve_folder(path: Path, subject: str) -> ResolvedPath:
    """The place of a result that is a folder, if one can be made or replaced there; nothing is changed.

    Raises:
        FileError: not a folder; a folder above it that does not exist or cannot be written.
    """
    place = resolve_path(path, subject)
    if place.kind not in ("new", "folder"):
        raise FileError.of(subject, "is not a folder", "", "name another one")
    if f"{os.path.realpath(os.curdir)}{os.sep}".startswith(f"{place.path}{os.sep}"):
        raise FileError.of(subject, "holds the working folder", "a folder is replaced as a whole", "name another one")
    check_folder_above(place, subject)
    return place


def atomic_folder(path: Path, files: Mapping[str, bytes], *, subject: str) -> None:
    """Create a folder of these files (by relative path with ``/``); an old one is replaced and removed.

    The folder appears whole or not at all. A symbolic link stays and the folder it leads to is replaced. Whether an
    old folder may be removed is for the caller to decide.

    Raises:
        FileError: the folder cannot be made there.
    """
    place = resolve_folder(path, subject)
    sweep(place.folder, os.path.basename(place.path))
    try:
        _write_folder(place, files)
    except OSError as error:
        found = f"cannot be written ({error.strerror or error})"
        raise FileError.of(subject, found, "", "check the path") from error


def _write_folder(place: ResolvedPath, files: Mapping[str, bytes]) -> None:
    created: list[str] = []
    try:
        scratch, descriptor = _unfinished(place, created)
        try:
            _fill(scratch, files)
            if place.status is not None:
                os.chmod(scratch, place.status.st_mode & 0o777)
            _take_place(scratch, place.path)
        finally:
            os.close(descriptor)
    finally:
        for path in created:
            remove_folder(path)


def _fill(folder: str, files: Mapping[str, bytes]) -> None:
    for name, content in files.items():
        target = os.path.join(folder, *name.split("/"))
        os.makedirs(os.path.dirname(target), exist_ok=True)
        with open(target, "xb") as file:
            file.write(content)


def _unfinished(place: ResolvedPath, created: list[str]) -> tuple[str, int]:
    """A new folder beside the place, locked; ``created`` gets its name before it is there."""
    for _ in range(_TRIES):
        scratch = os.path.join(place.folder, unfinished_name(os.path.basename(place.path)))
        created.append(scratch)
        os.mkdir(scratch)
        with suppress(FileNotFoundError):  # another writer of this name swept it before it was locked
            descriptor = os.open(scratch, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            lock_unfinished(descriptor)
            if os.path.isdir(scratch):
                return scratch, descriptor
            os.close(descriptor)
    raise OSError("other writers of the same name remove its unfinished form")


def _take_place(scratch: str, target: str) -> None:
    """Give the folder its name; afterwards ``scratch`` is the previous folder, or nothing."""
    if not os.path.isdir(target) or not os.listdir(target):
        os.rename(scratch, target)
    elif not _exchange(scratch, target):
        old = f"{scratch}.old"  # not a name that is ever swept: it is all there is of the old folder for a moment
        os.rename(target, old)
        try:
            os.rename(scratch, target)
        except OSError:
            with suppress(OSError):
                os.rename(old, target)
            raise
        shutil.rmtree(old, ignore_errors=True)


def _exchange(a: str, b: str) -> bool:
    """Swaps two names in one step; False where the system cannot."""
    try:
        rename = ctypes.CDLL(None, use_errno=True).renameat2
    except (OSError, AttributeError):
        return False
    return rename(_AT_FDCWD, os.fsencode(a), _AT_FDCWD, os.fsencode(b), _RENAME_EXCHANGE) == 0
