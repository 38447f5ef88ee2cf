"""The gate of reading: regular files alone, opened without waiting for anything.

No other module opens a file to read it. A FIFO, a folder, a socket or a device is an error at once.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.resources.abc import Traversable
from typing import IO

from nirbridge.errors import FileError
from nirbridge.files.places import Path, resolve_path

_PIECE = 2**20


def open_file(path: Path, *, follow: bool = True, stream: bool = False) -> IO[bytes]:
    """A regular file, open to be read from its start.

    Args:
        path: where it is.
        follow: whether its name may be a symbolic link; False for names that no user gave.
        stream: take a pipe, too, that this process has open already, such as ``/dev/stdin``.

    Raises:
        OSError: it cannot be opened, or is no regular file.
    """
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | (0 if follow else os.O_NOFOLLOW)
    try:
        descriptor = os.open(path, flags)
    except OSError as error:
        raise _irregular() if error.errno == errno.ENXIO else error from None  # ENXIO: of a socket
    mode = os.fstat(descriptor).st_mode
    if stream and stat.S_ISFIFO(mode) and resolve_path(path, "").descriptor is not None:
        os.set_blocking(descriptor, True)
    elif not stat.S_ISREG(mode):
        os.close(descriptor)
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR)) if stat.S_ISDIR(mode) else _irregular()
    return os.fdopen(descriptor, "rb")


def _irregular() -> OSError:
    return OSError(errno.EINVAL, "not a regular file")


@contextmanager
def open_regular(path: Path, subject: str, expected: str) -> Iterator[IO[bytes]]:
    """``open_file`` of a file that a user named, with an error of ours.

    Raises:
        FileError: it cannot be opened, or is no regular file; ``expected`` is the noun in the message.
    """
    try:
        handle = open_file(path)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        if isinstance(error, IsADirectoryError) or str(reason) == _irregular().strerror:
            found = "a folder" if isinstance(error, IsADirectoryError) else reason
            raise FileError.of(
                subject, f"it is {found}", f"{expected} is expected", "give the path of a file"
            ) from None
        raise FileError.of(subject, f"it cannot be opened ({reason})", "", "check the path and its rights") from None
    with handle:
        yield handle


def read_regular(path: Path) -> bytes:
    """The content of a regular file. Raises OSError."""
    with open_file(path) as file:
        return file.read()


def read_up_to(file: IO[bytes], limit: int) -> bytes:
    """The content of an open file, at most ``limit + 1`` bytes.

    In pieces: Python takes the memory for all bytes that are requested, however short the file is.
    """
    parts, left = [], limit + 1
    while left and (part := file.read(min(left, _PIECE))):
        parts.append(part)
        left -= len(part)
    return b"".join(parts)


def read_own(path: Path) -> bytes:
    """The content of a file that no user named: of a cache, of a process that was started, of the system.

    Raises:
        OSError: it cannot be read, is a symbolic link, or is no regular file.
    """
    with open_file(path, follow=False) as file:
        return file.read()


def template_text(place: Traversable) -> str:
    """A text that is part of the package."""
    return place.read_text(encoding="utf-8")


def template_bytes(place: Traversable) -> bytes:
    """A file that is part of the package."""
    return place.read_bytes()
