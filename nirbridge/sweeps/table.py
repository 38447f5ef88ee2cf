"""The table of a sweep as text, and as a file: parquet, CSV or JSON by the ending of its name; parquet is read back."""

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
from nirbridge.errors import Diagnostic, FileError, UsageError, counted, quoted
from nirbridge.files.atomic import atomic_write_bytes
from nirbridge.files.regular import open_regular
from nirbridge.network.storage.codec import fits
from nirbridge.report.map_facts import figure_with_prefix, one_line
from nirbridge.sweeps.model import COLUMNS, MEASURED, type_of
from nirbridge.sweeps.spec import SweepPlan

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


def read_table(path: str | os.PathLike[str], *, of_sweep: bool = True) -> list[dict[str, Any]]:
    """The rows of a ``.parquet`` file of a sweep; of any table where ``of_sweep`` is false.

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
            _check_rows(table.metadata.num_rows, subject)
            if of_sweep:
                _check_schema(table.schema_arrow, subject)
            rows = _decoded(table, subject)
        except (pyarrow.ArrowException, OSError, ValueError, OverflowError) as error:
            found = f"cannot be read ({quoted(str(error).partition(chr(10))[0])})"
            raise FileError.of(subject, found, "a parquet file is expected", "write it again") from None
    if of_sweep:
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


def _check_rows(rows: int, subject: str) -> None:
    if rows > ROWS_MAX:
        raise FileError.of(subject, f"{rows:,} rows", f"at most {ROWS_MAX:,} are read", _ORIGIN)


def _check_schema(schema: Any, subject: str) -> None:
    """The columns and their types, before a value is read. Raises FileError."""
    if _KEY not in (schema.metadata or {}) or tuple(schema.names) != COLUMNS:
        raise FileError.of(subject, "is not the table of a sweep of this version", "", _ORIGIN)
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


# -- text ----------------------------------------------------------------------------------------------------------
# Sweeps in plain text: the points of a plan, and the table of a result.


ROWS_SHOWN = 30
ERRORS_SHOWN = 5
_NAME, _ERROR = 24, 56
_ABOUT = 5
"""Columns before the result, or before the error in its place."""
_HEAD = ("model", "chip", "bits", "objective", "seed", "cores", "bound", "energy", "time", "accuracy")


def plan_text(plan: SweepPlan) -> str:
    """A line per point: its key, and what it is."""
    lines = [f"{point.key[:12]}  {point.label}" for point in plan.points]
    return "\n".join([counted(len(plan.points), "point"), *lines])


def sweep_text(rows: Sequence[Mapping[str, Any]]) -> str:
    """The count, the first points, and the first errors in full.

    Energy and time are those of an inference, or of a time step without data.
    """
    failed = sum(row["error"] is not None for row in rows)
    lines = [counted(len(rows), "point") + (f", {failed:,} failed" if failed else "")]
    table = [_HEAD, *(_cells(row) for row in rows[:ROWS_SHOWN])]
    whole = [line for line in table if len(line) == len(_HEAD)]
    widths = [max(len(line[k]) for line in (table if k < _ABOUT else whole)) for k in range(len(_HEAD))]
    for line in table:
        cells = [text.ljust(width) for text, width in zip(line, widths, strict=False)]
        lines.append("  ".join([*cells[:_ABOUT], *line[_ABOUT:]] if len(line) < len(_HEAD) else cells).rstrip())
    if len(rows) > ROWS_SHOWN:
        lines.append(f"… and {counted(len(rows) - ROWS_SHOWN, 'more point')}")
    errors = dict.fromkeys(row["error"] for row in rows if row["error"] is not None)
    lines += [f"error: {one_line(error)}" for error in list(errors)[:ERRORS_SHOWN]]
    if len(errors) > ERRORS_SHOWN:
        lines.append(f"… and {counted(len(errors) - ERRORS_SHOWN, 'more error')}")
    if any(row["error"] is None for row in rows):
        lines.append("energy and time are those of an inference (/step: of a time step, without data)")
    if any("assumed" in (row["energy_basis"], row["time_basis"]) for row in rows):
        lines.append("~: rests on assumed spike rates, or on a figure that is not public")
    return "\n".join(lines)


def _cells(row: Mapping[str, Any]) -> tuple[str, ...]:
    bits = row["weight_bits"] or row["bits"]
    about = (_name(row["model"]), _name(row["chip"]), _text(bits), one_line(row["objective"]), str(row["seed"]))
    if row["error"] is not None:
        error = one_line(row["error"])
        return (*about, error if len(error) <= _ERROR else error[: _ERROR - 1] + "…")
    energy = _figure(row, "energy_per_inference_j", "energy_per_step_j", "J")
    time = _figure(row, "time_per_inference_s", "time_per_step_s", "s")
    accuracy = "-" if row["accuracy"] is None else f"{row['accuracy']:.1%}"
    return (*about, _text(row["cores"]), _text(row["cores_lower_bound"]), energy, time, accuracy)


def _figure(row: Mapping[str, Any], inference: str, step: str, unit: str) -> str:
    assumed = row["energy_basis" if unit == "J" else "time_basis"] == "assumed"
    if row[inference] is not None:
        return figure_with_prefix(row[inference], unit, approximate=assumed)
    return "-" if row[step] is None else f"{figure_with_prefix(row[step], unit, approximate=assumed)}/step"


def _name(name: str) -> str:
    shown = quoted(name)[1:-1]
    return shown if len(shown) <= _NAME else "…" + shown[1 - _NAME :]


def _text(value: Any) -> str:
    return "-" if value is None else f"{value:,}"
