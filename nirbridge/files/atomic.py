"""The gate of writing: whole files or none, with the mode that a plain ``open`` would give them.

No other module opens a file to write it.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable
from contextlib import suppress
from typing import IO, BinaryIO

from nirbridge.errors import FileError
from nirbridge.files.places import Path, ResolvedPath, own_place, resolve_output
from nirbridge.files.scratch import lock_unfinished, sweep, unfinished_name

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
