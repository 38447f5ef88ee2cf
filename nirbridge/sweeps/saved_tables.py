"""Tables that nirbridge wrote, of sweeps, profiles and benchmarks: read from JSON, CSV or parquet, and as text."""

from __future__ import annotations

import csv
import io
import math
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import compress
from pathlib import Path
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from nirbridge.errors import FileError, counted, quoted
from nirbridge.files.json_text import parse_json
from nirbridge.files.regular import open_regular, read_up_to
from nirbridge.report.map_facts import figure_with_prefix, one_line
from nirbridge.report.tables import table
from nirbridge.sweeps.table import ERRORS_SHOWN, ROWS_SHOWN, read_table

_BYTES_MAX = 2**28
_LIMIT, _ORIGIN = "a table of nirbridge sweep, profile or bench is expected", "write it again"
_COLUMNS: Mapping[str, str] = {
    "model": "model",
    "chip": "chip",
    "weight_bits": "bits",
    "objective": "objective",
    "seed": "seed",
    "cores": "cores",
    "cores_lower_bound": "bound",
    "energy_per_inference_j": "energy",
    "energy_per_step_j": "energy/step",
    "time_per_inference_s": "time",
    "time_per_step_s": "time/step",
    "accuracy": "accuracy",
    "backend": "back end",
    "numbers": "numbers",
    "status": "status",
    "spikes": "spikes",
    "us_per_step": "us/step at batch",
    "peak_memory_bytes": "memory",
}
"""Columns that are shown, where a row has a value, and their headings; the parameters of chips stand before them."""
_OF_BENCH = ("status",)
"""Columns that mean something else in the other tables."""
_DIGITS = 25
"""A longer text is no number that nirbridge writes."""
_EMPTY: tuple[Any, ...] = (None, "", {})
_UNITS = {"_j": "J", "_s": "s", "_bytes": "B"}


@dataclass(frozen=True, slots=True)
class SavedTable:
    """``kind``: sweep, profile or bench; ``facts``: what the file says of all rows; ``rows``: by name of column."""

    kind: str
    facts: Mapping[str, Any]
    rows: tuple[Mapping[str, Any], ...]


def read_saved_table(path: str | Path) -> SavedTable:
    """A table that ``sweep``, ``profile`` or ``bench`` wrote. Raises FileError; UsageError without pyarrow."""
    subject = f"table {quoted(Path(path).name)}"
    with open_regular(Path(path), subject, "a table") as file:
        start = file.read(4)
        data = b"" if start == b"PAR1" else start + read_up_to(file, _BYTES_MAX)
    if start == b"PAR1":
        return _of_rows(read_table(path, of_sweep=False), subject)
    if len(data) > _BYTES_MAX:
        raise FileError.of(subject, f"more than {_BYTES_MAX:,} bytes", "too large to be read", _ORIGIN)
    if data.lstrip().startswith(b"{"):
        return _of_document(parse_json(data, subject, bytes_max=_BYTES_MAX), subject)
    try:
        rows = list(csv.DictReader(io.StringIO(data.decode("utf-8"))))
    except (ValueError, csv.Error) as error:
        raise FileError.of(subject, f"cannot be read ({quoted(error, 80)[1:-1]})", _LIMIT, _ORIGIN) from None
    return _of_rows([{name: _value(text) for name, text in row.items()} for row in rows], subject)


def _of_rows(rows: list[dict[str, Any]], subject: str) -> SavedTable:
    return _checked("sweep" if rows and "key" in rows[0] else "profile", {}, rows, subject)


def _of_document(document: Mapping[str, Any], subject: str) -> SavedTable:
    facts = {name: value for name, value in document.items() if name not in ("rows", "points", "failed")}
    if "points" not in document:
        return _checked("bench" if "batches" in document else "sweep", facts, document.get("rows"), subject)
    points, failed = document["points"], document.get("failed", [])
    if not (
        isinstance(points, list) and isinstance(failed, list) and all(isinstance(p, dict) for p in points + failed)
    ):
        raise FileError.of(subject, "its points are damaged", _LIMIT, _ORIGIN)
    rows = [point.get("row") for point in points]
    return _checked("profile", facts, rows + [{**each, "error": each.get("reason")} for each in failed], subject)


def _checked(kind: str, facts: Mapping[str, Any], rows: Any, subject: str) -> SavedTable:
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise FileError.of(subject, "its rows are damaged", _LIMIT, _ORIGIN)
    return SavedTable(kind, facts, tuple(rows))


def _value(text: Any) -> Any:
    """A cell of CSV: a number, a text, or None where it is empty."""
    if not isinstance(text, str) or not text:
        return None
    for read in (int, float) if len(text) < _DIGITS else ():
        try:
            return read(text)
        except ValueError:
            continue
    return text


# -- text ----------------------------------------------------------------------------------------------------------


def saved_table_text(saved: SavedTable) -> RenderableType:
    """What the table is of, what all its rows share, and of the first rows the columns in which they differ."""
    noun = "back end" if saved.kind == "bench" else "point"
    facts = {name: saved.facts.get(name) for name in ("model", "data", "chip", "steps", "inputs")}
    about = [f"{name} {one_line(value)}" for name, value in facts.items() if value not in _EMPTY]
    head = [Text(", ".join([f"{saved.kind} of {counted(len(saved.rows), noun)}", *about]))]
    names = _names(saved)
    texts = [[_cell(name, row) for name in names] for row in saved.rows]
    shared = [len(set(column)) == 1 < len(texts) for column in zip(*texts, strict=True)]
    if any(shared):
        words = (f"{_heading(name)} {text}" for name, text, same in zip(names, texts[0], shared, strict=True) if same)
        head.append(Text(f"each: {', '.join(words)}"))
    kept = [not same for same in shared]
    rows = [list(compress(row, kept)) for row in texts[:ROWS_SHOWN]]
    headings = [_heading(name) for name in compress(names, kept)]
    body = table(headings, "L" * len(headings), rows, padding=(0, 2, 0, 0))
    return Group(*head, *([Text(), body] if headings else []), *map(Text, _foot(saved, texts, noun)))


def _foot(saved: SavedTable, texts: list[list[str]], noun: str) -> Iterator[str]:
    """What is not listed, the reasons of failures, and what a mark means."""
    if len(texts) > ROWS_SHOWN:
        yield f"and {counted(len(texts) - ROWS_SHOWN, f'more {noun}')}; --json lists all"
    failures = Counter(one_line(row["error"]) for row in saved.rows if row.get("error") not in _EMPTY)
    yield from (f"{count:,} failed: {error}" for error, count in failures.most_common(ERRORS_SHOWN))
    if any(text.startswith("~") for row in texts for text in row):
        yield "~: rests on assumed spike rates, or on a figure that is not public"


def _heading(name: str) -> str:
    return _COLUMNS.get(name) or one_line(name)


def _names(saved: SavedTable) -> list[str]:
    """The columns to compare that have a value; a figure of a time step only where there is none of an inference."""
    given = {name for row in saved.rows for name, value in row.items() if value not in _EMPTY}
    hidden = {name.replace("inference", "step") for name in given if "inference" in name}
    hidden |= set() if saved.kind == "bench" else set(_OF_BENCH)
    usual = [name for name in _COLUMNS if name in given - hidden]
    return [*usual[:2], *sorted(name for name in given if "." in name), *usual[2:]]


def _cell(name: str, row: Mapping[str, Any]) -> str:
    value = row.get(name)
    if name == "weight_bits" and value is None:  # of a point that has no map
        value = row.get("bits")
    if value in _EMPTY:
        return "-"
    if isinstance(value, Mapping):
        return ", ".join(f"{one_line(batch)}: {_number(time)}" for batch, time in value.items())
    unit = next((unit for ending, unit in _UNITS.items() if name.endswith(ending)), "")
    if not unit or isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return f"{value:.1%}" if name == "accuracy" and isinstance(value, float) else _number(value)
    rough = row.get(f"{name.partition('_')[0]}_basis") == "assumed"
    return figure_with_prefix(float(value), unit, approximate=rough)


def _number(value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return one_line(value)
    return f"{value:,}" if isinstance(value, int) else f"{value:.3g}"
