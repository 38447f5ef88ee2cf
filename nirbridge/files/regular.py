"""Regular files, opened to be read."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO

from nirbridge.errors import FileError


@contextmanager
def open_regular(path: str | os.PathLike[str], subject: str, expected: str) -> Iterator[IO[bytes]]:
    """An open file that is neither a folder nor a pipe (opening a pipe would wait for its other end).

    Raises:
        FileError: it cannot be opened, or is no regular file; ``expected`` is the noun in the message.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (OSError, ValueError) as error:
        found = f"it cannot be opened ({getattr(error, 'strerror', None) or error})"
        raise FileError.of(subject, found, "", "check the path and its rights") from None
    mode = os.fstat(descriptor).st_mode
    if not stat.S_ISREG(mode):
        os.close(descriptor)
        found = "a folder" if stat.S_ISDIR(mode) else "not a regular file"
        raise FileError.of(subject, f"it is {found}", f"{expected} is expected", "give the path of a file")
    with os.fdopen(descriptor, "rb") as handle:
        yield handle
