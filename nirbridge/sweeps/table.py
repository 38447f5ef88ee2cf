"""The table of a sweep as a file: parquet, CSV or JSON by the ending of its name, and parquet read back."""

from __future__ import annotations

import csv
import io
import json
import os
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from typing import Any

from nirbridge._version import __version__
from nirbridge.errors import FileError, UsageError, quoted
from nirbridge.files.atomic import atomic_write_bytes
from nirbridge.files.regular import open_regular
from nirbridge.sweeps.columns import COLUMNS, FLAGS, MEASURED, TEXTS, WHOLE

ENDINGS = (".parquet", ".csv", ".json")
TABLE_BYTES_MAX = 2**30
_KEY = b"nirbridge:sweep"


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
            table = parquet.read_table(file)
        except (pyarrow.ArrowException, OSError, ValueError) as error:
            found = f"cannot be read ({quoted(str(error).partition(chr(10))[0])})"
            raise FileError.of(subject, found, "a parquet file is expected", "write it again") from None
    if _KEY not in (table.schema.metadata or {}) or tuple(table.column_names) != COLUMNS:
        hint = "give a table of 'nirbridge sweep'"
        raise FileError.of(subject, "is not the table of a sweep of this version", "", hint)
    return table.to_pylist()


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

    if name in TEXTS:
        return pyarrow.string()
    if name in FLAGS:
        return pyarrow.bool_()
    return pyarrow.int64() if name in WHOLE else pyarrow.float64()


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
