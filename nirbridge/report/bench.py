"""A benchmark of back ends as text, as plain JSON, as rows, and as a file."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import fields
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from nirbridge.benchmarking.model import Bench, BenchRow
from nirbridge.errors import UsageError, counted, quoted
from nirbridge.files.atomic import atomic_write_bytes
from nirbridge.network.graph import grouped
from nirbridge.report.map_facts import figure_with_prefix, one_line
from nirbridge.report.tables import listed, table

ENDING = ".json"


def bench_text(bench: Bench, *, notes: bool = True) -> RenderableType:
    """The table of what ran, and below it what did not, each with its reason."""
    ran = [row for row in bench.rows if row.us_per_step]
    batches = [f"batch {batch:,}" for batch in bench.batches]
    headings = ("back end", "numbers", "spikes", *batches, "measured", "build", "compile", "start", "size", "memory")
    alignment = f"LLR{'R' * len(batches)}LRRRRR"
    rows = (_cells(row, bench.batches) for row in ran)
    title = Text(_title(bench), style="bold")
    shown = (table(headings, alignment, rows, padding=(0, 2, 0, 0)),) if ran else ()
    under = [Text("us per time step of the whole batch; spikes equal to those of the reference")] if ran else []
    return Group(title, Text(), *shown, *under, *_others(bench), *(_notes(bench, ran) if notes else ()))


def bench_line(bench: Bench) -> str:
    """The verdict, and the fastest back end at the smallest batch."""
    told = [f"{counted(sum(row.status == status for row in bench.rows), 'back end')} {word}" for status, word in _WORDS
            if any(row.status == status for row in bench.rows)]  # fmt: skip
    fastest = next((row for row in bench.timed(bench.batches[0]) if row.numbers == "float32"), None)
    fastest = fastest or next(iter(bench.timed(bench.batches[0])), None)
    batch = bench.batches[0]
    best = (
        f"; fastest at batch {batch:,}: {one_line(fastest.backend)}, {microseconds(fastest.us_per_step[batch])} us"
        if fastest
        else ""
    )
    return f"{', '.join(told)}{best}"


_WORDS = (
    ("equal", "with equal spikes"),
    ("differs", "with other spikes"),
    ("failed", "failed"),
    ("time limit", "at the time limit"),
    ("refused", "refused it"),
    ("absent", "absent"),
)


def bench_document(bench: Bench) -> dict[str, Any]:
    """Everything of a benchmark as plain JSON."""
    return {
        **dict(bench.meta),
        "model": bench.model,
        "inputs": bench.inputs,
        "steps": bench.steps,
        "batches": list(bench.batches),
        "chip": bench.chip,
        "latency": bench.latency,
        "holds": bench.holds,
        "rows": [_record(row) for row in bench.rows],
    }


def bench_rows(bench: Bench) -> list[dict[str, Any]]:
    """A record per back end, with a column for each batch."""
    return [_flat(row, bench.batches) for row in bench.rows]


def check_bench_path(path: str | os.PathLike[str]) -> None:
    """Raises UsageError for a name of a benchmark's file that does not end in ``.json``."""
    name = os.path.basename(os.fspath(path))
    if not name.endswith(ENDING):
        found = f"ends in {quoted(os.path.splitext(name)[1])}"
        raise UsageError.of(f"file {quoted(name)}", found, f"a benchmark is written as {ENDING}", "change the ending")


def write_bench(bench: Bench, path: str | os.PathLike[str]) -> None:
    """Write a benchmark as JSON, whole or not at all. Raises UsageError or FileError."""
    check_bench_path(path)
    content = (json.dumps(bench_document(bench), sort_keys=True, indent=2) + "\n").encode()
    atomic_write_bytes(os.fspath(path), content, subject=f"benchmark {quoted(os.path.basename(os.fspath(path)))}")


def faults(bench: Bench) -> list[str]:
    """A sentence for each back end that ran and gave other spikes, or failed."""
    return [f"{quoted(row.backend)} in {row.numbers}: {one_line(row.reason)}" for row in bench.rows if row.is_fault]


def _title(bench: Bench) -> str:
    of = f"{one_line(bench.model)}: " if bench.model else ""
    on = f", integers of {one_line(bench.chip)}" if bench.chip else ""
    return f"{of}{counted(bench.steps, 'time step')}{on}, {one_line(bench.inputs)}"


def _cells(row: BenchRow, batches: Sequence[int]) -> tuple[str, ...]:
    seconds = (row.build_s, row.compile_s, row.start_s)
    build, compilation, start = ("" if s is None else figure_with_prefix(s, "s") for s in seconds)
    size = "" if row.artifact_bytes is None else figure_with_prefix(row.artifact_bytes, "B")
    memory = "" if row.peak_memory_bytes is None else figure_with_prefix(row.peak_memory_bytes, "B")
    times = (microseconds(row.us_per_step[batch]) if batch in row.us_per_step else "" for batch in batches)
    spikes = "" if row.spikes is None else f"{row.spikes:,}"
    return (one_line(row.backend), row.numbers, spikes, *times, row.measured, build, compilation, start, size, memory)


def microseconds(value: float) -> str:
    """Three digits, thousands separated."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _others(bench: Bench) -> Iterator[RenderableType]:
    """What has no complete row in the table, by status; back ends with one reason on one line."""
    titles = {"differs": "other spikes, not timed", "failed": "failed", "time limit": "time limit",
              "refused": "refused", "absent": "absent"}  # fmt: skip
    for status, title in titles.items():
        rows = [row for row in bench.rows if row.status == status]
        by_reason = grouped(((row.reason, row.hint), one_line(row.backend)) for row in rows)
        lines = [
            f"{', '.join(dict.fromkeys(names))}: {one_line(reason)}{f'; {one_line(hint)}' if hint else ''}"
            for (reason, hint), names in by_reason.items()
        ]
        yield from listed(title, lines)


def _notes(bench: Bench, ran: Sequence[BenchRow]) -> list[RenderableType]:
    alone = [one_line(row.backend) for row in ran if row.one_sample_at_a_time]
    sentences = [
        f"{one_line(row.backend)}: {one_line(row.reason)}" for row in ran if row.status == "equal" and row.reason
    ]
    if alone:
        sentences.append(f"{', '.join(alone)}: a program takes one sample at a time; a batch is as many runs")
    if any(row.measured == "whole run" for row in ran):
        sentences.append("whole run: the program states no time of its own; the start of a process is in the figure")
    if ran and not any(row.spikes for row in ran):
        sentences.append("no population fires on this input, so equality says little: give a higher rate, or data")
    if bench.latency:
        sentences.append(f"a run of integers has {counted(bench.latency, 'more time step')}, its latency on the chip")
    sentences += [one_line(note) for note in bench.meta.get("notes", ())]
    return listed("notes", sentences)


def _record(row: BenchRow) -> dict[str, Any]:
    columns = {f.name: getattr(row, f.name) for f in fields(row)}
    return columns | {"us_per_step": {str(batch): time for batch, time in row.us_per_step.items()}}


def _flat(row: BenchRow, batches: Sequence[int]) -> dict[str, Any]:
    columns = {f.name: getattr(row, f.name) for f in fields(row) if f.name != "us_per_step"}
    return columns | {f"us_per_step_{batch}": row.us_per_step.get(batch) for batch in batches}
