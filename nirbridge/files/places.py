"""Resolution of paths: a new or regular file, a folder, or a stream (character device, FIFO, open descriptor)."""

from __future__ import annotations

import fcntl
import os
import re
import stat
from contextlib import suppress
from dataclasses import dataclass
from pathlib import PurePath
from typing import Literal

from nirbridge.errors import FileError

Path = str | os.PathLike[str]
_DESCRIPTOR = re.compile(r"/proc/(\d+)(?:/task/\d+)?/fd/(\d+)")
_UNNAMED = re.compile(r"/memfd:(.*) \(deleted\)", re.DOTALL)
_LINKS_MAX = 40
_REFUSED = {stat.S_IFBLK: "is a block device", stat.S_IFSOCK: "is a socket"}


@dataclass(frozen=True, slots=True)
class ResolvedPath:
    """Where a path leads.

    No symbolic link is left in ``path``. ``descriptor`` is that of a stream that this process has open already, such as
    ``/dev/stdout``. ``status`` is None where ``kind`` is ``new``.
    """

    kind: Literal["new", "file", "folder", "stream"]
    path: str
    descriptor: int | None = None
    status: os.stat_result | None = None

    @property
    def folder(self) -> str:
        """The folder that holds the place."""
        return os.path.dirname(self.path)

    def is_same(self, other: ResolvedPath) -> bool:
        """Whether both are one file or folder: the same path, or the same device and inode, as of hard links.

        Streams are compared only where they lead to a regular file: two results may go to ``/dev/null``.
        """
        if self.status is None or other.status is None:
            return self.path == other.path
        if not (stat.S_ISREG(self.status.st_mode) or stat.S_ISDIR(self.status.st_mode)):
            return False
        return os.path.samestat(self.status, other.status)


def file_name(path: Path) -> str:
    """The last part of a path; of a file without a name (``unnamed_file``) the one that messages and results give."""
    name = PurePath(path).name or str(path)
    if name.isdecimal():
        with suppress(OSError, ValueError):
            unnamed = _UNNAMED.fullmatch(os.readlink(path))
            return unnamed[1] if unnamed else name
    return name


def own_place(path: Path, subject: str) -> ResolvedPath:
    """The place of a file that no user named: a symbolic link, a FIFO or a socket there is replaced, never followed.

    Raises:
        FileError: a folder, or a place that cannot be written.
    """
    folder, name = os.path.split(os.fsdecode(path))
    end, status = os.path.join(os.path.realpath(folder), name), None
    with suppress(OSError):
        status = os.lstat(end)
    if status is None or not stat.S_ISREG(status.st_mode):
        if status is not None and stat.S_ISDIR(status.st_mode):
            raise FileError.of(subject, "is a folder", "", "remove it")
        place = ResolvedPath("new" if status is None else "file", end)
    else:
        place = ResolvedPath("file", end, None, status)
    check_folder_above(place, subject)
    return place


def resolve_path(path: Path, subject: str) -> ResolvedPath:
    """Follows the symbolic links of ``path``; nothing is opened.

    Raises:
        FileError: not a valid path, a loop of links, a folder that this user may not search.
    """
    status = None
    try:
        end, descriptor = _end_of_links(os.fsdecode(path))
        with suppress(FileNotFoundError):
            status = os.stat(end)
    except (OSError, ValueError) as error:
        found = f"is not a valid path ({getattr(error, 'strerror', None) or error})"
        raise FileError.of(subject, found, "", "check the path") from None
    if status is None:
        return ResolvedPath("new", end)
    if stat.S_ISDIR(status.st_mode):
        return ResolvedPath("folder", end, None, status)
    if descriptor is None and stat.S_ISREG(status.st_mode):
        return ResolvedPath("file", end, None, status)
    is_ours = descriptor is not None and descriptor[0] == os.getpid()
    return ResolvedPath("stream", end, descriptor[1] if descriptor and is_ours else None, status)


def _end_of_links(path: str) -> tuple[str, tuple[int, int] | None]:
    """The path without links; and (process, descriptor) where it leads into ``/proc``, whose links name no file."""
    if not path:
        raise ValueError("the path is empty")
    for _ in range(_LINKS_MAX):
        folder, name = os.path.split(path)
        if name in ("", ".", ".."):
            return os.path.realpath(path), None
        path = os.path.join(os.path.realpath(folder), name)
        if not os.path.islink(path):
            return path, None
        if process := _DESCRIPTOR.fullmatch(path):
            return path, (int(process[1]), int(process[2]))
        path = os.path.join(os.path.dirname(path), os.readlink(path))
    raise ValueError("too many levels of symbolic links")


def resolve_output(path: Path, subject: str) -> ResolvedPath:
    """The place of a result that is one file, if it can be written there; nothing is opened or changed.

    Raises:
        FileError: a folder, a block device, a socket; a folder above it that does not exist or cannot be written; a
            file or stream that this user may not write.
    """
    place = resolve_path(path, subject)
    if place.kind == "folder" or os.fsdecode(path).endswith(os.sep):
        raise FileError.of(subject, "is a folder", "", "name a file")
    kind = stat.S_IFMT(place.status.st_mode) if place.status is not None else None
    if kind in _REFUSED and place.descriptor is None:
        limit = "results go to files, character devices and FIFOs"
        raise FileError.of(subject, _REFUSED[kind], limit, "name another path")
    if place.kind in ("new", "file"):
        check_folder_above(place, subject)
    if place.kind != "new" and not _is_writable(place):
        raise FileError.of(subject, "cannot be written", "permission denied", "name another path")
    return place


def check_folder_above(place: ResolvedPath, subject: str) -> None:
    """Raises FileError where the folder that holds the place does not exist or takes no new files."""
    if not os.path.isdir(place.folder):
        raise FileError.of(subject, "its folder does not exist", "", "create it")
    if not os.access(place.folder, os.W_OK | os.X_OK):
        raise FileError.of(subject, "its folder cannot be written", "permission denied", "name another one")


def _is_writable(place: ResolvedPath) -> bool:
    if place.descriptor is None:
        return os.access(place.path, os.W_OK)
    return fcntl.fcntl(place.descriptor, fcntl.F_GETFL) & os.O_ACCMODE != os.O_RDONLY
