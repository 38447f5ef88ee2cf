"""Sweeps in plain text: the points of a plan, and the table of a result."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from nirbridge.errors import counted, quoted
from nirbridge.report.map_facts import figure_with_prefix, one_line
from nirbridge.sweeps.plan import SweepPlan

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
