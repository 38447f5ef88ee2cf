"""The gate of writing: whole files or none, with the mode that a plain ``open`` would give them.

No other module opens a file to write it.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import tempfile
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import IO, BinaryIO

from nirbridge.errors import FileError
from nirbridge.files.places import Path, ResolvedPath, check_folder_above, own_place, resolve_output, resolve_path
from nirbridge.files.scratch import lock_unfinished, remove_folder, sweep, unfinished_name

_TRIES = 100


def atomic_write(
    path: Path,
    write: Callable[[BinaryIO], object],
    *,
    subject: str,
    check: Callable[[str], object] | None = None,
    follow: bool = True,
) -> None:
    """Write a file, whole or not at all, even if the process is killed; nothing unfinished is left.

    The content has no name until it is complete, where the file system has such files (``O_TMPFILE``). A symbolic
    link stays and its target is replaced; a character device, a FIFO or an open descriptor (``/dev/stdout``) gets
    the complete content written to it. The process's umask is respected and never set, so threads may write at the
    same time.

    Args:
        path: where the file goes.
        write: gets an empty file, open for reading and writing in binary mode, with a descriptor.
        subject: the subject of error messages, such as ``recording 'out.npz'``.
        check: gets a path under which the complete content can be read before it takes its place; may raise.
        follow: False for a name that no user gave: a link, FIFO or device of that name is replaced itself.

    Raises:
        FileError: the place cannot be written (see ``resolve_output``), or the disk is full; anything that ``write``
            and ``check`` raise, an OSError as a FileError.
    """
    place = resolve_output(path, subject) if follow else own_place(path, subject)
    try:
        if place.kind == "stream":
            _write_through(place, write, check)
        else:
            _write_file(place, write, check)
    except OSError as error:
        found = f"cannot be written ({error.strerror or error})"
        raise FileError.of(subject, found, "", "check the path") from error


def atomic_write_bytes(path: Path, data: bytes, *, subject: str, follow: bool = True) -> None:
    """``atomic_write`` of these bytes."""
    atomic_write(path, lambda file: file.write(data), subject=subject, follow=follow)


def create_file(path: Path) -> IO[bytes]:
    """A new file in a folder of ours, open to be written. Raises OSError where there is anything of that name."""
    return open(path, "xb")


def write_new(path: Path, data: bytes) -> None:
    """A new file of these bytes in a folder of ours. Raises OSError where there is anything of that name."""
    with create_file(path) as file:
        file.write(data)


def _write_through(
    place: ResolvedPath, write: Callable[[BinaryIO], object], check: Callable[[str], object] | None
) -> None:
    """Into a file without a name first, since zip and HDF5 move back and forth, then into the stream."""
    with tempfile.TemporaryFile() as scratch:
        write(scratch)
        scratch.flush()
        if check is not None:
            check(_path_of(scratch.fileno()))
        scratch.seek(0)
        stream = os.dup(place.descriptor) if place.descriptor is not None else os.open(place.path, os.O_WRONLY)
        with os.fdopen(stream, "wb") as out:
            shutil.copyfileobj(scratch, out)


def _write_file(
    place: ResolvedPath, write: Callable[[BinaryIO], object], check: Callable[[str], object] | None
) -> None:
    name = os.path.basename(place.path)
    sweep(place.folder, name)
    folder = os.open(place.folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    part: str | None = None
    try:
        descriptor, part = _unfinished(folder, name)
        with os.fdopen(descriptor, "w+b") as file:
            write(file)
            file.flush()
            if check is not None:
                check(_path_of(descriptor) if part is None else os.path.join(place.folder, part))
            _take_mode(descriptor, place.status)
            if part is None and place.kind == "new":
                with suppress(FileExistsError):  # another process has taken the name meanwhile
                    _link(descriptor, name, folder)
                    return
            if part is None:
                lock_unfinished(descriptor)
                part = unfinished_name(name)
                _link(descriptor, part, folder)
            os.replace(part, name, src_dir_fd=folder, dst_dir_fd=folder)
            part = None
    finally:
        if part is not None:
            with suppress(OSError):
                os.unlink(part, dir_fd=folder)
        os.close(folder)


def _unfinished(folder: int, name: str) -> tuple[int, str | None]:
    """A new file in the folder: without a name, or with the name that is returned where there are no such files."""
    if hasattr(os, "O_TMPFILE") and os.path.isdir("/proc/self/fd"):
        try:
            return os.open(".", os.O_TMPFILE | os.O_RDWR | os.O_CLOEXEC, 0o666, dir_fd=folder), None
        except OSError:
            pass
    for _ in range(_TRIES):
        part = unfinished_name(name)
        descriptor = os.open(part, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, 0o666, dir_fd=folder)
        lock_unfinished(descriptor)
        if os.fstat(descriptor).st_nlink:  # else another writer of this name swept it before it was locked
            return descriptor, part
        os.close(descriptor)
    raise OSError("other writers of the same name remove its unfinished form")


def _path_of(descriptor: int) -> str:
    return f"/proc/self/fd/{descriptor}"


def _take_mode(descriptor: int, old: os.stat_result | None) -> None:
    """Mode and owner of the file that is replaced, as writing into it would keep them."""
    if old is None:
        return
    os.fchmod(descriptor, old.st_mode & 0o777)
    new = os.fstat(descriptor)
    if (old.st_uid, old.st_gid) != (new.st_uid, new.st_gid):
        with suppress(OSError):
            os.fchown(descriptor, old.st_uid, old.st_gid)


def _link(descriptor: int, name: str, folder: int) -> None:
    # With folders given, Python calls linkat and follows the link that /proc has for the descriptor.
    os.link(_path_of(descriptor), name, src_dir_fd=folder, dst_dir_fd=folder)


# -- folders -------------------------------------------------------------------------------------------------------
# Atomic creation and replacement of folders.


_AT_FDCWD, _RENAME_EXCHANGE = -100, 2


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
        scratch, descriptor = _unfinished_folder(place, created)
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


def _unfinished_folder(place: ResolvedPath, created: list[str]) -> tuple[str, int]:
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
