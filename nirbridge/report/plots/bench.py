"""Times of back ends as a figure: a bar per back end and batch, on a logarithmic axis."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nirbridge.benchmarking.model import Bench, BenchRow
from nirbridge.errors import UsageError
from nirbridge.report.bench import microseconds
from nirbridge.report.plots.style import (
    HATCHES,
    INK,
    PALETTE,
    SMALL,
    axes_for,
    drawn_name,
    plain,
    put_legend,
    put_text,
    style_axes,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes  # pyright: ignore[reportMissingImports]

BARS_MAX = 40
_NAME = 112.0
"""Width of a name beside its bars in points."""


def plot_bench(bench: Bench, *, ax: Axes | None = None) -> Axes:
    """Microseconds per time step of every back end with equal spikes, by batch, the fastest first.

    Raises UsageError: no back end was timed, or matplotlib is not installed.
    """
    rows = timed_rows(bench)
    if not rows:
        raise UsageError.of("benchmark", "no back end was timed", "", "bench a model that one of them takes")
    count = len(bench.batches)
    axes = axes_for(ax, 0.8 + (0.1 + 0.13 * count) * len(rows))
    height = 0.8 / count
    handles = []
    for number, batch in enumerate(bench.batches):
        places = [place for place, row in enumerate(rows) if batch in row.us_per_step]
        values = [rows[place].us_per_step[batch] for place in places]
        heights = [place - 0.4 + (number + 0.5) * height for place in places]
        colour, hatch = PALETTE[number % len(PALETTE)], HATCHES[number % len(HATCHES)]
        drawn = axes.barh(
            heights, values, height=0.9 * height, facecolor=colour, hatch=hatch, edgecolor=INK, linewidth=0.5
        )
        handles.append(drawn)
        for place, value in zip(heights, values, strict=True):
            put_text(axes, value, place, f" {microseconds(value)}", size=SMALL, va="center")
    _finish(axes, rows)
    put_legend(axes, handles, [f"batch {batch:,}" for batch in bench.batches], columns=min(count, 4))
    return axes


def timed_rows(bench: Bench) -> list[BenchRow]:
    """Rows with equal spikes and a time, the fastest at the smallest batch first."""
    rows = [row for row in bench.rows if row.status == "equal" and row.us_per_step]
    return sorted(rows, key=lambda row: next(iter(row.us_per_step.values())))[:BARS_MAX]


def _finish(axes: Axes, rows: list[BenchRow]) -> None:
    """Logarithmic axis with room for the numbers, and names that say the numbers of a back end with two rows."""
    values = [value for row in rows for value in row.us_per_step.values()]
    axes.set_xscale("log")
    axes.set(xlim=(min(values) / 2, max(values) * 6), ylim=(len(rows) - 0.5, -0.5))
    style_axes(axes, "time step of the whole batch (us)", "")
    axes.set_yticks(range(len(rows)), [drawn_name(_label(row), _NAME) for row in rows])
    plain(axes.get_yticklabels())
    axes.tick_params(axis="y", length=0)


def _label(row: BenchRow) -> str:
    """Its name, with what sets it apart."""
    apart = [row.numbers] if row.numbers == "integers" else []
    apart += [row.measured] if row.measured == "whole run" else []
    return f"{row.backend} ({', '.join(apart)})" if apart else row.backend
