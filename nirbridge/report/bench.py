"""A benchmark of back ends as text, as plain JSON, as rows, and as a file."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from nirbridge.benchmarking.model import Bench, BenchRow, Choice
from nirbridge.errors import UsageError, counted, quoted
from nirbridge.files.atomic import atomic_write_bytes
from nirbridge.network.graph import grouped
from nirbridge.report.map_facts import figure_with_prefix, one_line
from nirbridge.report.tables import listed, table

ENDING = ".json"
_SHORTEST_US = 1e-3
_LEAST = ("size", "memory", "start", "build", "compile", "measured", "spikes", "numbers")
"""Columns that a narrow terminal does without, the first to go first."""
_OPENED = (
    'nb.open(model, backend="best") counts the start of a program, and takes back ends with the reference\'s bits only'
)


def bench_text(bench: Bench, *, notes: bool = True) -> RenderableType:
    """The table of what ran, and below it what did not, each with its reason."""
    ran = [row for row in bench.rows if row.us_per_step]
    batches = [f"batch {batch:,}" for batch in bench.batches]
    headings = ("back end", "numbers", "spikes", *batches, "measured", "build", "compile", "start", "size", "memory")
    alignment = f"LLR{'R' * len(batches)}LRRRRR"
    rows = (_cells(row, bench.batches) for row in ran)
    title = Text(_title(bench), style="bold")
    shown = (table(headings, alignment, rows, drop=_LEAST, padding=(0, 2, 0, 0)),) if ran else ()
    under = [Text("us per time step of the whole batch; spikes equal to those of the reference")] if ran else []
    chosen = listed("best", _choices(bench))
    return Group(title, Text(), *shown, *under, *chosen, *_others(bench), *(_notes(bench, ran) if notes else ()))


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
    choices = {"choices": [_choice_record(choice, bench.steps) for choice in bench.choices]} if bench.choices else {}
    return {
        **choices,
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


def unchosen(bench: Bench) -> list[str]:
    """A sentence for each batch at which no back end could be chosen."""
    choices = (choice for choice in bench.choices if not choice.us_per_step)
    return [f"no back end with equal spikes in {c.numbers} at batch {c.batch:,}, so none is chosen" for c in choices]


def run_text(choice: Choice, steps: int) -> str:
    """The back end with the fastest run, and the next one: ``fast, 1 ms per run of 100 time steps at batch 1, …``."""
    return _compared(choice.runs(steps), f"per run of {counted(steps, 'time step')} at batch {choice.batch:,}")


def _compared(times: Mapping[str, float], of: str) -> str:
    """The first of these times, in microseconds, and its ratio to the second."""
    (first, time), *others = times.items()
    text = f"{one_line(first)}, {_time(time)} {of}"
    if not others:
        return f"{text}, no other with equal spikes"
    second, longer = others[0]
    return f"{text}, {longer / max(time, _SHORTEST_US):,.3g} times as fast as {one_line(second)} ({_time(longer)})"


def _time(us: float) -> str:
    return figure_with_prefix(us / 1e6, "s")


def _choices(bench: Bench) -> Iterator[str]:
    """The choices, and what is left out, in sentences."""
    for choice in bench.choices:
        if not choice.us_per_step:
            yield f"{choice.numbers}: none with equal spikes at batch {choice.batch:,}"
            continue
        yield f"{choice.numbers}: {_compared(choice.us_per_step, f'per time step at batch {choice.batch:,}')}"
        if next(iter(choice.runs(bench.steps))) != next(iter(choice.us_per_step)):
            yield f"{choice.numbers}: nb.open takes {run_text(choice, bench.steps)}"
    for numbers in dict.fromkeys(choice.numbers for choice in bench.choices):
        left_out = {name: why for c in bench.choices if c.numbers == numbers for name, why in c.left_out.items()}
        if left_out:
            yield f"{numbers}, left out: {', '.join(f'{one_line(n)} ({why})' for n, why in left_out.items())}"
    if bench.choices:
        yield _OPENED
    if any(choice.is_kept for choice in bench.choices):
        yield "kept for it on this machine"


def _choice_record(choice: Choice, steps: int) -> dict[str, Any]:
    return {
        "numbers": choice.numbers,
        "batch": choice.batch,
        "backend": next(iter(choice.us_per_step), None),
        "opened": next(iter(choice.runs(steps)), None),
        "us_per_step": dict(choice.us_per_step),
        "us_per_run": dict(choice.us_per_run),
        "left_out": dict(choice.left_out),
        "is_kept": choice.is_kept,
    }


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
    return columns | {
        name: {str(batch): time for batch, time in columns[name].items()} for name in ("us_per_step", "us_per_run")
    }


def _flat(row: BenchRow, batches: Sequence[int]) -> dict[str, Any]:
    columns = {f.name: getattr(row, f.name) for f in fields(row) if f.name not in ("us_per_step", "us_per_run")}
    return columns | {f"us_per_step_{batch}": row.us_per_step.get(batch) for batch in batches}
