"""A comparison of two recordings as a table with remarks, and as one plain document (the JSON form)."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from nirbridge.comparison.decisions import Decisions
from nirbridge.comparison.distances import KERNEL
from nirbridge.comparison.types import SPIKES, Comparison, ComparisonRow, SpikeDistances
from nirbridge.errors import counted
from nirbridge.report.inspect import name_text
from nirbridge.report.map_facts import one_line
from nirbridge.report.tables import share_text, table
from nirbridge.simulators.types import Key

NUMBERS = ("first step", "Jaccard", "spikes A", "spikes B", "count error", "van Rossum", "max |A-B|")


def compare_text(comparison: Comparison, *, notes: bool = True) -> RenderableType:
    """The table of a comparison and the sentences below it, without notes where ``notes`` is false.

    Names from files are escaped and never read as markup.
    """
    decided = any(row.decisions is not None for row in comparison.rows)
    headings = ("node", "", "same", *NUMBERS, *(["same decision"] if decided else []), "latency")
    variables = table(headings, "lllR", (_cells(row, decided=decided) for row in comparison.rows))
    spikes = comparison.spikes
    if spikes is not None and sum(row.spikes is not None for row in comparison.rows) > 1:
        variables.add_row(*map(Text, ("(all)", SPIKES, *_overall(comparison, spikes))), style="bold")
    return Group(
        variables,
        Text(),
        Text(comparison_verdict(comparison), style="bold"),
        *(Text(f"- {one_line(s)}") for s in _remarks(comparison, notes=notes)),
    )


def comparison_verdict(comparison: Comparison) -> str:
    """One sentence: equal, or how many rows differ and from which step on."""
    rows = len(comparison.rows)
    if comparison.equal:
        return f"equal: every value of {counted(rows, 'recorded variable')}"
    differ = sum(not row.equal for row in comparison.rows)
    parts = [f"{differ:,} of {counted(rows, 'variable')} {'differs' if differ == 1 else 'differ'}"] if differ else []
    if comparison.first_step is not None:
        parts[0] += f", first at time step {comparison.first_step:,}"
    spikes = [row for row in comparison.rows if row.variable == SPIKES]
    if differ and spikes and all(row.equal for row in spikes):
        parts += ["all spikes are equal"]
    alone = len(comparison.only_a) + len(comparison.only_b)
    parts += [f"{alone:,} more recorded in only one of the two recordings"] if alone else []
    return "not equal: " + "; ".join(parts)


def _cells(row: ComparisonRow, *, decided: bool) -> tuple[str, ...]:
    first = "" if row.first_step is None else f"{row.first_step:,}"
    largest = "" if row.largest_difference is None else f"{row.largest_difference:.6g}"
    mark = {"stored": "", "given": "", "estimated": " est."}[row.latency_source]
    numbers = ("", "", "", "", "") if row.spikes is None else _numbers(row.spikes)
    same = "yes" if row.equal else "no"
    cells = (name_text(row.node), name_text(row.variable), same, first, *numbers, largest)
    decisions = "" if row.decisions is None else f"{row.decisions.alike:,} of {row.decisions.samples:,}"
    return (*cells, *([decisions] if decided else []), f"{row.latency_steps}{mark}")


def _numbers(spikes: SpikeDistances) -> tuple[str, ...]:
    counts = (f"{n:,}" for n in (spikes.spikes_a, spikes.spikes_b, spikes.count_error))
    return (share_text(spikes.jaccard), *counts, f"{spikes.van_rossum:.6g}")


def _overall(comparison: Comparison, spikes: SpikeDistances) -> tuple[str, ...]:
    rows = [row for row in comparison.rows if row.variable == SPIKES]
    steps = [row.first_step for row in rows if row.first_step is not None]
    same = "yes" if all(row.equal for row in rows) else "no"
    return (same, f"{min(steps):,}" if steps else "", *_numbers(spikes))


def _remarks(comparison: Comparison, *, notes: bool) -> Iterator[str]:
    for row in comparison.rows:
        label = f"{name_text(row.node)}/{name_text(row.variable)}"
        if row.problem is not None:
            yield f"{label}: {row.problem}"
        if row.first_values is not None:
            a, b = (f"{v:.9g}" for v in row.first_values)
            yield f"{label}: first differs at {place_text(row)}: {a} in A, {b} in B"
        if row.decisions is not None and row.decisions.right_a is not None:
            d = row.decisions
            correct = f"{d.right_a:,} in A, {d.right_b:,} in B"
            yield f"{label}: correct decisions in {counted(d.samples, 'sample')}: {correct}"
        if row.spikes is not None and row.spikes.outside_a + row.spikes.outside_b:
            out = f"{row.spikes.outside_a:,} in A, {row.spikes.outside_b:,} in B"
            yield f"{label}: spikes in time steps without a counterpart are not compared: {out}"
    for name, keys in (("A", comparison.only_a), ("B", comparison.only_b)):
        if keys:
            yield f"recorded only in {name}: {_keys(keys)}"
    if notes and comparison.spikes is not None:
        yield f"van Rossum: {KERNEL}; tau {comparison.tau_steps:g} time steps"
    yield from comparison.notes if notes else ()


def place_text(row: ComparisonRow) -> str:
    """Position of the first difference: ``time step 0, sample 3, neuron (0, 3, 3)``, as far as it exists."""
    step = [] if row.first_step is None else [f"time step {row.first_step:,}"]
    sample = [] if row.first_sample is None else [f"sample {row.first_sample:,}"]
    index = ", ".join(map(str, row.first_neuron or ()))
    return ", ".join([*step, *sample, *([f"neuron ({index})"] if index else [])])


def _keys(keys: Sequence[Key], shown: int = 8) -> str:
    names = ", ".join(f"{name_text(node)}/{name_text(variable)}" for node, variable in keys[:shown])
    return names + (f" and {len(keys) - shown:,} more" if len(keys) > shown else "")


def compare_document(comparison: Comparison, name_a: str = "A", name_b: str = "B") -> dict[str, Any]:
    """Everything that ``compare`` found; a number that is not finite is null."""
    spikes = comparison.spikes
    return {
        "a": name_a,
        "b": name_b,
        "equal": comparison.equal,
        "first_step": comparison.first_step,
        "spikes": None if spikes is None else _spikes(spikes),
        "rows": [_row(row) for row in comparison.rows],
        "only_a": [list(key) for key in comparison.only_a],
        "only_b": [list(key) for key in comparison.only_b],
        "van_rossum": {"kernel": KERNEL, "tau_steps": comparison.tau_steps},
        "notes": list(comparison.notes),
    }


def _row(row: ComparisonRow) -> dict[str, Any]:
    plain = ("node", "variable", "equal", "problem", "steps", "latency_steps", "latency_source")
    return {
        **_fields(row, *plain, "first_step", "first_sample"),
        "first_neuron": None if row.first_neuron is None else list(row.first_neuron),
        "first_values": None if row.first_values is None else [_finite(v) for v in row.first_values],
        "largest_difference": _finite(row.largest_difference),
        "spikes": None if row.spikes is None else _spikes(row.spikes),
        "decisions": None if row.decisions is None else _decisions(row.decisions),
    }


def _spikes(spikes: SpikeDistances) -> dict[str, Any]:
    distances = _fields(spikes, "is_graded", "spikes_a", "spikes_b", "jaccard", "count_error")
    outside = _fields(spikes, "outside_a", "outside_b")
    return {**distances, "van_rossum": _finite(spikes.van_rossum), **outside}


def _decisions(decisions: Decisions) -> dict[str, Any]:
    return _fields(decisions, "samples", "alike", "agreement", "accuracy_a", "accuracy_b")


def _fields(value: object, *names: str) -> dict[str, Any]:
    return {name: getattr(value, name) for name in names}


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None
