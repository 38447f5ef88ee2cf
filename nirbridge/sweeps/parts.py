"""Rows by key, each in a file of its own beside the sweep's table, so that a sweep goes on where it was cut."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from typing import Any

from nirbridge.errors import FileError, quoted
from nirbridge.files.atomic import atomic_write_bytes
from nirbridge.files.json_text import parse_json
from nirbridge.files.regular import open_file
from nirbridge.network.storage.codec import fits
from nirbridge.sweeps.columns import COLUMNS, type_of
from nirbridge.sweeps.plan import SweepPoint

Row = dict[str, Any]
ENDING = ".parts"
PART_BYTES_MAX = 1_000_000


def parts_folder(output: str | os.PathLike[str]) -> str:
    """The folder of the rows of a table, made where there is none.

    Raises:
        FileError: it cannot be made.
    """
    folder = os.path.abspath(os.fspath(output)) + ENDING
    make_parts_folder(folder)
    return folder


def make_parts_folder(folder: str) -> None:
    """Make the folder of the rows where there is none; never what a link leads to. Raises FileError."""
    subject = f"folder {quoted(os.path.basename(folder))}"
    if os.path.islink(folder):
        raise FileError.of(subject, "is a symbolic link", "rows are kept in a folder of their own", "remove it")
    try:
        os.makedirs(folder, exist_ok=True)
    except OSError as error:
        raise FileError.of(subject, f"cannot be made ({error.strerror})", "", "check the path") from error


def write_part(folder: str, row: Row) -> None:
    """Keep a row, whole or not at all; a link or a FIFO of its name is replaced. Raises FileError.

    Where a folder has its name, the row is in the table alone: the next run computes it again.
    """
    path = os.path.join(folder, f"{row['key']}.json")
    if os.path.isdir(path) and not os.path.islink(path):
        return
    data = json.dumps(row, allow_nan=False).encode()
    atomic_write_bytes(path, data, subject=f"part {row['key'][:12]}", follow=False)


def kept_rows(folder: str, points: Iterable[SweepPoint]) -> dict[str, Row]:
    """The rows that are kept of these points, by key; a damaged one, a link or a FIFO counts as missing."""
    rows = ((point.key, _read(os.path.join(folder, f"{point.key}.json"), point)) for point in points)
    return {key: row for key, row in rows if row is not None}


def _read(path: str, point: SweepPoint) -> Row | None:
    try:
        with open_file(path, follow=False) as file:
            data = file.read(PART_BYTES_MAX + 1)
        row = parse_json(data, "part", bytes_max=PART_BYTES_MAX)
    except (FileError, OSError):
        return None
    return row if _is_row(row, point) else None


def _is_row(row: Any, point: SweepPoint) -> bool:
    """True for a row of this point whose values have the types of their columns."""
    if not isinstance(row, dict) or tuple(row) != COLUMNS:
        return False
    same = all(row[name] == getattr(point, name) for name in ("key", "model", "chip", "bits", "objective", "seed"))
    return same and all(value is None or fits(value, type_of(name)) for name, value in row.items())
