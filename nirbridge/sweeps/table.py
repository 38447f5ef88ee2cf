"""The table of a sweep as a file: parquet, CSV or JSON by the ending of its name, and parquet read back."""

from __future__ import annotations

import csv
import io
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from importlib.util import find_spec
from itertools import islice
from typing import Any

from nirbridge._version import __version__
from nirbridge.errors import Diagnostic, FileError, UsageError, quoted
from nirbridge.files.atomic import atomic_write_bytes
from nirbridge.files.regular import open_regular
from nirbridge.network.storage.codec import fits
from nirbridge.sweeps.columns import COLUMNS, MEASURED, type_of

ENDINGS = (".parquet", ".csv", ".json")
TABLE_BYTES_MAX = 2**30
ROWS_MAX = 1_000_000
DECODED_BYTES_MAX = 2**29
"""Of all values: those of a packed column can be a thousand times the file. A million rows of numbers fit."""
_BATCH = 1000
_KEY = b"nirbridge:sweep"
_ORIGIN, _PROBLEMS_MAX = "give a table of 'nirbridge sweep'", 20


def check_table_path(path: str | os.PathLike[str]) -> str:
    """The ending of a table's path. Raises UsageError: another ending, or ``.parquet`` without pyarrow."""
    name = os.path.basename(os.fspath(path))
    ending = os.path.splitext(name)[1]
    if ending not in ENDINGS:
        limit = f"a sweep is written as {', '.join(ENDINGS)}"
        raise UsageError.of(f"file {quoted(name)}", f"ends in {quoted(ending)}", limit, "choose one of these")
    if ending == ".parquet":
        _require_pyarrow("write .csv or .json")
    return ending


def write_table(rows: Sequence[Mapping[str, Any]], path: str | os.PathLike[str]) -> None:
    """Write the rows, whole or not at all; the same rows give the same bytes.

    Raises:
        UsageError: another ending; ``.parquet`` without pyarrow.
        FileError: the place cannot be written.
    """
    content = {".parquet": _parquet, ".csv": _csv, ".json": _json}[check_table_path(path)](rows)
    atomic_write_bytes(os.fspath(path), content, subject=f"sweep {quoted(os.path.basename(os.fspath(path)))}")


def read_table(path: str | os.PathLike[str]) -> list[dict[str, Any]]:
    """The rows of a ``.parquet`` file of a sweep.

    Raises:
        FileError: it cannot be read, or is not a sweep's.
        UsageError: pyarrow is not installed.
    """
    _require_pyarrow("read it where it is")
    import pyarrow
    from pyarrow import parquet

    subject = f"sweep {quoted(os.path.basename(os.fspath(path)))}"
    with open_regular(path, subject, "a parquet file") as file:
        if os.fstat(file.fileno()).st_size > TABLE_BYTES_MAX:
            raise FileError.of(subject, "too large", f"at most {TABLE_BYTES_MAX:,} bytes are read")
        try:
            table = parquet.ParquetFile(file)
            _check_schema(table.schema_arrow, table.metadata.num_rows, subject)
            rows = _decoded(table, subject)
        except (pyarrow.ArrowException, OSError, ValueError, OverflowError) as error:
            found = f"cannot be read ({quoted(str(error).partition(chr(10))[0])})"
            raise FileError.of(subject, found, "a parquet file is expected", "write it again") from None
    FileError.raise_all(islice(_row_problems(rows, subject), _PROBLEMS_MAX))
    return rows


def _decoded(table: Any, subject: str) -> list[dict[str, Any]]:
    """The rows, read in pieces, so that they are refused before they fill the memory. Raises FileError."""
    rows: list[dict[str, Any]] = []
    left = DECODED_BYTES_MAX
    for batch in table.iter_batches(batch_size=_BATCH):
        left -= batch.nbytes
        if left < 0:
            raise FileError.of(
                subject, f"more than {DECODED_BYTES_MAX:,} bytes of values", "too large to be read", _ORIGIN
            )
        rows += batch.to_pylist()
    return rows


def _check_schema(schema: Any, rows: int, subject: str) -> None:
    """The columns and their types, before a value is read. Raises FileError."""
    if _KEY not in (schema.metadata or {}) or tuple(schema.names) != COLUMNS:
        raise FileError.of(subject, "is not the table of a sweep of this version", "", _ORIGIN)
    if rows > ROWS_MAX:
        raise FileError.of(subject, f"{rows:,} rows", f"at most {ROWS_MAX:,} are read", _ORIGIN)
    FileError.raise_all(
        Diagnostic(f"{subject}, column {quoted(field.name)}", f"of type {quoted(field.type, 40)[1:-1]}",
                   f"expected {_type(field.name)}", _ORIGIN)
        for field in schema if field.type != _type(field.name)
    )  # fmt: skip


def _row_problems(rows: list[dict[str, Any]], subject: str) -> Iterator[Diagnostic]:
    """Values that no sweep writes: numbers that are not finite or too large, no key."""
    for k, row in enumerate(rows):
        for name, value in row.items():
            if not fits(value, type_of(name)) if value is not None else name == "key":
                found = f"is {quoted(value, 40)[1:-1]}"
                yield Diagnostic(f"{subject}, row {k}, column {quoted(name)}", found, "beyond its type", _ORIGIN)


def _parquet(rows: Sequence[Mapping[str, Any]]) -> bytes:
    import pyarrow
    from pyarrow import parquet

    fields = [
        pyarrow.field(name, _type(name), metadata={"measured": "true"} if name in MEASURED else None)
        for name in COLUMNS
    ]
    about = json.dumps({"nirbridge": __version__, "measured": MEASURED})
    schema = pyarrow.schema(fields, metadata={_KEY: about})
    table = pyarrow.table([[row[f.name] for row in rows] for f in fields], schema=schema)
    buffer = io.BytesIO()
    parquet.write_table(table, buffer, compression="zstd")
    return buffer.getvalue()


def _type(name: str) -> Any:
    import pyarrow

    types = {str: pyarrow.string(), bool: pyarrow.bool_(), int: pyarrow.int64(), float: pyarrow.float64()}
    return types[type_of(name)]


def _csv(rows: Sequence[Mapping[str, Any]]) -> bytes:
    text = io.StringIO()
    writer = csv.DictWriter(text, fieldnames=COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue().encode()


def _json(rows: Sequence[Mapping[str, Any]]) -> bytes:
    document = {"nirbridge": __version__, "measured": list(MEASURED), "rows": list(map(dict, rows))}
    return (json.dumps(document, indent=1) + "\n").encode()


def _require_pyarrow(otherwise: str) -> None:
    if find_spec("pyarrow") is None:
        hint = f"pip install 'nirbridge[sweep]', or {otherwise}"
        raise UsageError.of("parquet", "pyarrow is not installed", "in the extra sweep", hint)
