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

from rich.console import Group
from rich.text import Text

from nirbridge._version import __version__
from nirbridge.chips.schema import FIELDS
from nirbridge.errors import Diagnostic, FileError, UsageError, counted, quoted
from nirbridge.files.atomic import atomic_write_bytes
from nirbridge.files.regular import open_regular
from nirbridge.network.storage.codec import fits
from nirbridge.report.map_facts import figure_with_prefix, one_line
from nirbridge.report.tables import captured, table
from nirbridge.sweeps.model import COLUMNS, MEASURED, columns_with, type_of, type_of_values
from nirbridge.sweeps.plan import SweepPlan

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
            stored = parquet.ParquetFile(file)
            _check_rows(stored.metadata.num_rows, subject)
            kinds = _kinds(stored.schema_arrow, subject) if of_sweep else {}
            rows = _decoded(stored, subject)
        except (pyarrow.ArrowException, OSError, ValueError, OverflowError) as error:
            found = f"cannot be read ({quoted(str(error).partition(chr(10))[0])})"
            raise FileError.of(subject, found, "a parquet file is expected", "write it again") from None
    if of_sweep:
        FileError.raise_all(islice(_row_problems(rows, kinds, subject), _PROBLEMS_MAX))
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


def _kinds(schema: Any, subject: str) -> dict[str, type]:
    """The columns and their types, before a value is read. Raises FileError."""
    keys = [name for name in schema.names if name not in COLUMNS]
    is_sweep = set(keys) <= {f.name for f in FIELDS} and tuple(schema.names) == columns_with(keys)
    if _KEY not in (schema.metadata or {}) or not is_sweep:
        raise FileError.of(subject, "is not the table of a sweep of this version", "", _ORIGIN)
    found = {each.name: next((kind for kind in _KINDS if _arrow(kind) == each.type), object) for each in schema}
    FileError.raise_all(
        Diagnostic(f"{subject}, column {quoted(name)}", f"of type {quoted(schema.field(name).type, 40)[1:-1]}",
                   f"expected {'a number or a text' if name in keys else _arrow(type_of(name))}", _ORIGIN)
        for name, kind in found.items() if kind is object or (name not in keys and kind is not type_of(name))
    )  # fmt: skip
    return found


def _row_problems(rows: list[dict[str, Any]], kinds: Mapping[str, type], subject: str) -> Iterator[Diagnostic]:
    """Values that no sweep writes: numbers that are not finite or too large, no key."""
    for k, row in enumerate(rows):
        for name, value in row.items():
            if not fits(value, kinds[name]) if value is not None else name == "key":
                found = f"is {quoted(value, 40)[1:-1]}"
                yield Diagnostic(f"{subject}, row {k}, column {quoted(name)}", found, "beyond its type", _ORIGIN)


def _parquet(rows: Sequence[Mapping[str, Any]]) -> bytes:
    import pyarrow
    from pyarrow import parquet

    columns = {name: [row[name] for row in rows] for name in _columns(rows)}
    kinds = {name: type_of(name) if name in COLUMNS else type_of_values(values) for name, values in columns.items()}
    fields = [
        pyarrow.field(name, _arrow(kind), metadata={"measured": "true"} if name in MEASURED else None)
        for name, kind in kinds.items()
    ]
    about = json.dumps({"nirbridge": __version__, "measured": MEASURED})
    schema = pyarrow.schema(fields, metadata={_KEY: about})
    texts = {
        name: [str(value) for value in columns[name]] for name in columns.keys() - set(COLUMNS) if kinds[name] is str
    }
    written = pyarrow.table([(columns | texts)[f.name] for f in fields], schema=schema)
    buffer = io.BytesIO()
    parquet.write_table(written, buffer, compression="zstd")
    return buffer.getvalue()


_KINDS = (str, bool, int, float)


def _arrow(kind: type) -> Any:
    import pyarrow

    types = {str: pyarrow.string(), bool: pyarrow.bool_(), int: pyarrow.int64(), float: pyarrow.float64()}
    return types[kind]


def _columns(rows: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    return tuple(rows[0]) if rows else COLUMNS


def _csv(rows: Sequence[Mapping[str, Any]]) -> bytes:
    text = io.StringIO()
    writer = csv.DictWriter(text, fieldnames=_columns(rows), lineterminator="\n")
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
_NAME = 24
_ABOUT = ("model", "chip", "bits", "objective", "seed")
"""What a point is, beside the values of its chip's keys: columns where it differs from point to point."""
_DROP = (*("time/step", "time", "energy/step", "energy", "accuracy"), *("seed", "objective", "bits"))
"""Columns that go where there is no room; the bound stays, without which the cores would look proved."""


def plan_text(plan: SweepPlan) -> str:
    """A line per point: its key, and what it is."""
    lines = [f"{point.key[:12]}  {point.label}" for point in plan.points]
    return "\n".join([counted(len(plan.points), "point"), *lines])


def sweep_text(rows: Sequence[Mapping[str, Any]]) -> str:
    """The parts of ``sweep_parts`` in plain text."""
    return captured([sweep_parts(rows)], 120, fit=True).rstrip("\n")


def sweep_parts(rows: Sequence[Mapping[str, Any]]) -> Group:
    """The count and what all points have in common, a table of the first points, and the first errors in full."""
    errors = list(dict.fromkeys(row["error"] for row in rows if row["error"] is not None))
    about = {name: _about(rows, name) for name in _about_columns(rows)}
    kinds = {name: set(cells) - {"-"} or {"-"} for name, cells in about.items()}  # a point that failed has no bits
    same = {name: kind.pop() for name, kind in kinds.items() if len(rows) > 1 and len(kind) == 1}
    first = next((name for name in about if name not in same), "chip")
    if first not in ("model", "chip"):  # where rows become paragraphs, a number alone would be their title
        del same["chip"]
    columns = {name: cells for name, cells in about.items() if name not in same} | _figures(rows, errors)
    shown = list(zip(*columns.values(), strict=True))[:ROWS_SHOWN]
    failed = sum(row["error"] is not None for row in rows)
    count = counted(len(rows), "point") + (f", {failed:,} failed" if failed else "")
    efforts = dict.fromkeys(row["effort"] for row in rows if row["effort"] != "default")
    shared = ", ".join(f"{name} {text}" for name, text in (*same.items(), *(("effort", each) for each in efforts)))
    letters = "".join("R" if name not in ("model", "chip", "objective") else "L" for name in columns)
    lines = [f"… and {counted(len(rows) - ROWS_SHOWN, 'more point')}"] if len(rows) > ROWS_SHOWN else []
    lines += [f"error{_number(errors, error)}: {one_line(error)}" for error in errors[:ERRORS_SHOWN]]
    if len(errors) > ERRORS_SHOWN:
        lines.append(f"… and {counted(len(errors) - ERRORS_SHOWN, 'more error')}")
    lines += _legend(rows, columns)
    head = Text(f"{count}; all: {shared}" if shared else count)
    return Group(
        head,
        table(tuple(columns), letters, shown, drop=_DROP if len(rows) > 1 else ("seed", "objective", *_DROP)),
        *(Text(line) for line in lines),
    )


def _about_columns(rows: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    keys = [name for name in _columns(rows) if name not in COLUMNS]
    return (*_ABOUT[:2], *keys, *_ABOUT[2:])


def _about(rows: Sequence[Mapping[str, Any]], name: str) -> list[str]:
    """The cells of a column; models and chips by the names of their files alone where these differ."""
    values = [row[name] for row in rows]
    if name in ("model", "chip"):
        short = {value: os.path.basename(value) for value in values}
        differ = len(set(short.values())) == len(short)
        return [_name(short[value] if differ else value) for value in values]
    if name == "bits":
        return [_text(row["weight_bits"] or row["bits"]) for row in rows]
    return [one_line(value) if isinstance(value, str) else _text(value) for value in values]


def _figures(rows: Sequence[Mapping[str, Any]], errors: Sequence[str]) -> dict[str, list[str]]:
    """Heading -> cells; a column in which nothing stands is left out, and bounds that the cores of all points reach."""
    columns = {
        "cores": ["failed" + _number(errors, row["error"]) if row["error"] else _text(row["cores"]) for row in rows],
        "bound": [_text(row["cores_lower_bound"]) for row in rows],
    }
    if not any(row["cores_gap"] for row in rows):
        del columns["bound"]
    for name, inference, step, unit in _COSTS:
        whole = all(row[inference] is not None or row[step] is None for row in rows)
        column = inference if whole else step
        cells = ["" if row[column] is None else _figure(row, column, unit) for row in rows]
        columns[f"{name}" if whole else f"{name}/step"] = cells
    columns["accuracy"] = ["" if row["accuracy"] is None else f"{row['accuracy']:.1%}" for row in rows]
    return {name: cells for name, cells in columns.items() if any(cells) or name == "cores"}


_COSTS = (
    ("energy", "energy_per_inference_j", "energy_per_step_j", "J"),
    ("time", "time_per_inference_s", "time_per_step_s", "s"),
)


def _figure(row: Mapping[str, Any], column: str, unit: str) -> str:
    of = "energy" if unit == "J" else "time"
    figure = figure_with_prefix(row[column], unit, approximate=row[f"{of}_basis"] == "assumed")
    return figure + "*" * bool(row[f"{of}_missing"])


def _number(errors: Sequence[str], error: str) -> str:
    """Which of several errors it is."""
    return f" {errors.index(error) + 1}" if len(errors) > 1 else ""


def _legend(rows: Sequence[Mapping[str, Any]], columns: Mapping[str, Any]) -> list[str]:
    lines = []
    if "bound" not in columns and any(row["cores_gap"] == 0 for row in rows):
        lines.append("cores: no mapping of the stored synapses needs fewer (proved)")
    if "bound" in columns:
        lines.append("bound: no mapping needs fewer cores; where cores are more, fewer may do (not proved)")
    if "energy" in columns or "time" in columns:
        lines.append("energy and time are those of an inference")
    if any("assumed" in (row["energy_basis"], row["time_basis"]) for row in rows):
        lines.append("~: rests on assumed spike rates, or on a figure that is not public")
    if any(row["energy_missing"] or row["time_missing"] for row in rows):
        lines.append("*: partial, without the events in the columns energy_missing and time_missing: no figures")
    return lines


def _name(name: str) -> str:
    shown = quoted(name)[1:-1]
    return shown if len(shown) <= _NAME else "…" + shown[1 - _NAME :]


def _text(value: Any) -> str:
    return "-" if value is None else f"{value:,}"
