"""TOML files of users, read with the limits that all readers have."""

from __future__ import annotations

import os
import tomllib
from typing import Any

from nirbridge.errors import FileError, quoted
from nirbridge.files.regular import open_regular

FILE_BYTES_MAX = 1_000_000


def read_toml(path: str | os.PathLike[str], subject: str) -> dict[str, Any]:
    """The top table of a TOML file.

    Raises:
        FileError: it cannot be opened, is no regular file, too large, not UTF-8, or not TOML.
    """
    with open_regular(path, subject, "a TOML file") as file:
        data = file.read(FILE_BYTES_MAX + 1)
    if len(data) > FILE_BYTES_MAX:
        raise FileError.of(subject, "too large", f"at most {FILE_BYTES_MAX:,} bytes are read")
    try:
        return tomllib.loads(data.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise FileError.of(subject, f"not UTF-8 text (byte {error.start})") from error
    except RecursionError as error:
        raise FileError.of(subject, "nested too deeply") from error
    except ValueError as error:  # TOMLDecodeError, and whole numbers of thousands of digits
        raise FileError.of(subject, f"not valid TOML ({quoted(error, 200)[1:-1]})") from error
