"""Figures by a count, ranges of figures, and lists of pairs: their forms in files and their checks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from nirbridge.chips.model import Steps, at_count
from nirbridge.chips.schema import CORES_MAX, FIELDS, FIGURE_MAX, Field
from nirbridge.errors import Diagnostic, did_you_mean, quoted

STEPS_MAX = 1000
"""Most entries of a figure by a count."""

RANGED = tuple(f.name for f in FIELDS if f.kind in ("figure", "steps"))
"""Keys that may have a range."""


def is_figure(value: Any) -> bool:
    """True for a finite number from 0 to ``FIGURE_MAX``; NaN is not."""
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= FIGURE_MAX


def is_steps(value: Any) -> bool:
    """True for a list of [count, figure] with ascending counts of at least 1."""
    if not isinstance(value, list | tuple) or not 0 < len(value) <= STEPS_MAX:
        return False
    if not all(isinstance(entry, list | tuple) and len(entry) == 2 for entry in value):
        return False
    counts = [entry[0] for entry in value]
    whole = all(isinstance(n, int) and not isinstance(n, bool) and 1 <= n <= CORES_MAX for n in counts)
    return whole and counts == sorted(set(counts)) and all(is_figure(entry[1]) for entry in value)


def is_pairs(value: Any) -> bool:
    """True for a list of pairs of whole numbers from 0."""
    return isinstance(value, list | tuple) and len(value) <= CORES_MAX and all(_is_pair(entry) for entry in value)


def _is_pair(value: Any) -> bool:
    if not isinstance(value, list | tuple) or len(value) != 2:
        return False
    return all(isinstance(n, int) and not isinstance(n, bool) and 0 <= n <= CORES_MAX for n in value)


def steps_from(value: Any) -> float | Steps:
    """A figure, or one by a count, as the model has it."""
    return tuple((int(n), float(x)) for n, x in value) if isinstance(value, list | tuple) else float(value)


def plain(value: Any) -> Any:
    """Tuples within tuples as lists of JSON."""
    return [plain(entry) for entry in value] if isinstance(value, list | tuple) else value


def ranges_from(table: Mapping[str, Any]) -> dict[str, tuple[float | Steps, float | Steps]]:
    """The ranges of a record without problems."""
    return {key: (steps_from(low), steps_from(high)) for key, (low, high) in sorted(table.items())}


def at_least(a: float | Steps, b: float | Steps) -> bool:
    """True where ``a`` is not below ``b`` for any count."""
    counts = {1} | {n for x in (a, b) if isinstance(x, tuple) for n, _ in x}
    return all(at_count(a, n) >= at_count(b, n) for n in counts)


def figure_problems(f: Field, value: Any) -> Iterator[Diagnostic]:
    """Problems of a figure, a figure by a count, or a list of pairs."""
    if f.kind == "figure" and not is_figure(value):
        yield Diagnostic(
            f.name, f"found {shown(value)}", f"expected a finite number of {f.unit}, not negative, to 10^6"
        )
    if f.kind == "steps" and not (is_figure(value) or is_steps(value)):
        expected = (
            f"expected a finite number of {f.unit}, not negative, to 10^6, or a list of [tiles, {f.unit}], ascending"
        )
        yield Diagnostic(f.name, f"found {shown(value)}", expected)
    if f.kind == "pairs" and not is_pairs(value):
        yield Diagnostic(f.name, f"found {shown(value)}", "expected a list of pairs of whole numbers from 0")


def range_problems(record: Mapping[str, Any]) -> Iterator[Diagnostic]:
    """Problems of ``[range]``: keys without a figure, wrong forms, figures outside their range."""
    table = record.get("range", {})
    if not isinstance(table, Mapping):
        yield Diagnostic("range", f"found {shown(table)}", "expected a table [range]")
        return
    for key, value in table.items():
        part, _, name = str(key).partition(".")
        group = record.get(part)
        if key not in RANGED or not isinstance(group, Mapping) or name not in group:
            yield Diagnostic(
                "[range]", f"{quoted(key)} is not a figure of this file", hint=did_you_mean(str(key), RANGED)
            )
        elif not _is_range(value):
            yield Diagnostic(f"range {key}", f"found {shown(value)}", "expected [lowest, highest], each as the figure")
        elif is_figure(group[name]) or is_steps(group[name]):
            yield from _outside(key, steps_from(group[name]), steps_from(value[0]), steps_from(value[1]))


def _is_range(value: Any) -> bool:
    if not isinstance(value, list | tuple) or len(value) != 2:
        return False
    return all(is_figure(end) or is_steps(end) for end in value)


def _outside(key: str, figure: float | Steps, low: float | Steps, high: float | Steps) -> Iterator[Diagnostic]:
    if not (at_least(figure, low) and at_least(high, figure)):
        found = f"the figure {shown(plain(figure))} lies outside {shown(plain([low, high]))}"
        yield Diagnostic(f"range {key}", found, "a range holds its figure")


def shown(value: object) -> str:
    """A wrong value in one short text."""
    if isinstance(value, str):
        return quoted(value)
    if isinstance(value, Mapping):
        return "a table"
    try:
        text = str(value).lower() if isinstance(value, bool) else str(value)
    except ValueError:  # Python writes no whole number of more than 4,300 digits
        text = "a number of thousands of digits"
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "…"


_SHOWN = 60
