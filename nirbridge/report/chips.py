"""Chips as tables for a terminal, or one with every number and its source; and the optional tools as one table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from nirbridge.chips.model import Chip
from nirbridge.chips.schema import FIELDS, TABLES, Field
from nirbridge.errors import counted
from nirbridge.report.tables import table

APPROXIMATE = "~"
LISTED_MAX = 128
"""Longer lists, the places of large boards, are shown by their first and last entries; ``--json`` has all."""
_PREFIXES = (("", 1.0), ("m", 1e-3), ("u", 1e-6), ("n", 1e-9), ("p", 1e-12), ("f", 1e-15))


def chips_table(chips: Sequence[Chip]) -> RenderableType:
    """One row per chip with its main limits; ``~`` before a number that is not public."""
    headings = ("chip", "cores", "neurons", "axons in", "axons out", "words", "weights", "delay")
    least = ("delay", "axons out", "axons in", "weights")  # a narrow terminal does without them
    return Group(
        table(headings, "LR", map(_limits, chips), drop=least),
        Text(),
        Text(f"{_legend(chips)} words: of synaptic memory."),
    )


def _limits(chip: Chip) -> tuple[str, ...]:
    names = ("core.neurons", "core.input_axons", "core.output_axons", "synapses.words")
    limits = (figure_text(chip, name) for name in names)
    return (chip.name, f"{chip.mesh.cores:,}", *limits, _weights(chip), figure_text(chip, "core.delay_steps"))


def chip_table(chip: Chip, *, meanings: bool = True) -> RenderableType:
    """Every number of one chip: key, value, unit, meaning (on request) and source, table by table."""
    head = [Text(chip.name, style="bold"), Text(chip.description), Text(_cores(chip))]
    return Group(
        *head, *(_part(chip, part, meanings) for part in TABLES), *_ranges(chip), Text(), Text(_legend([chip]))
    )


def figure_text(chip: Chip, name: str) -> str:
    """The value of a dotted key as text, with ``~`` where it is approximate."""
    table, _, key = name.partition(".")
    value = getattr(getattr(chip, table), key)
    return _mark(chip, name) + _text(value, next(f for f in FIELDS if f.name == name))


def _mark(chip: Chip, name: str) -> str:
    return APPROXIMATE if name in chip.approximate else ""


def _text(value: object, field: Field) -> str:
    if value is None:
        return field.absent or "not known"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if field.kind == "steps":
        return _steps(value, field.unit)
    if field.kind == "count list" and isinstance(value, tuple):
        return _spans(value)
    if isinstance(value, tuple):
        texts = [str(list(entry)) if field.kind == "pairs" else str(entry) for entry in value]
        if len(texts) > LISTED_MAX:
            texts = [*texts[:3], "...", f"{texts[-1]} ({len(texts):,} entries)"]
        return ", ".join(texts)
    return str(value) if isinstance(value, float) else f"{value:,}"


def _spans(numbers: Sequence[int]) -> str:
    """Ascending numbers with those that follow on each other as one: ``1-6, 8``."""
    spans: list[list[int]] = []
    for number in numbers:
        if spans and number == spans[-1][-1] + 1:
            spans[-1].append(number)
        else:
            spans.append([number])
    return ", ".join(str(span[0]) if len(span) == 1 else f"{span[0]}-{span[-1]}" for span in spans)


def _figure(value: float, unit: str) -> tuple[str, str]:
    """A figure with the prefix of its size: 3.55e-11 J is 35.5 pJ."""
    for prefix, scale in _PREFIXES:
        if value >= scale:
            return f"{value / scale:.6g}", prefix + unit
    return f"{value:.6g}", unit


def _steps(value: object, unit: str) -> str:
    """A figure, or its values by a count: ``600 ns from 1, 1 us from 2``."""
    if isinstance(value, tuple):
        return ", ".join(f"{' '.join(_figure(figure, unit))} from {least:,}" for least, figure in value)
    return " ".join(_figure(float(str(value)), unit))


def _weights(chip: Chip) -> str:
    widths = list(chip.synapses.weight_bits)
    mark = _mark(chip, "synapses.weight_bits")
    return f"{mark}{min(widths)}-{max(widths)} bits" if len(widths) > 1 else f"{mark}{widths[0]} bits"


def _cores(chip: Chip) -> str:
    mesh = chip.mesh
    dead = f", {len(chip.dead_cores):,} dead" if chip.dead_cores else ""
    tiles = f"{mesh.width_tiles} x {mesh.height_tiles} tiles of {mesh.cores_per_tile}"
    return f"{counted(mesh.cores, 'core')} per chip ({tiles}){dead}"


def _part(chip: Chip, part: str, meanings: bool) -> RenderableType:
    present = [f for f in FIELDS if f.table == part and f.name in chip.sources]
    if not present:
        return Text(f"\n{part}: not known")
    title = {"title": f"\n{part}", "title_justify": "left", "title_style": "bold"}
    rows = [_row(chip, f) for f in present]
    if meanings:
        return table(("key", "value", "unit", "meaning", "source"), "Lrl", rows, **title)
    return table(("key", "value", "unit", "source"), "LrLl", ([*row[:3], row[4]] for row in rows), **title)


def _ranges(chip: Chip) -> list[RenderableType]:
    """The figures of which sources disagree: the lowest and the highest value, and the sources."""
    if not chip.ranges:
        return []
    rows = []
    for key, ends in chip.ranges.items():
        field = next(f for f in FIELDS if f.name == key)
        rows.append((key, *(_steps(end, field.unit) for end in ends), chip.sources[f"range.{key}"]))
    title = {"title": "\nrange", "title_justify": "left", "title_style": "bold"}
    return [table(("figure", "lowest", "highest", "sources"), "Ll", rows, **title)]


def _row(chip: Chip, field: Field) -> tuple[str, ...]:
    value, unit = figure_text(chip, field.name), field.unit
    if field.kind == "figure":
        value, unit = _figure(getattr(getattr(chip, field.table), field.key), field.unit)
        value = _mark(chip, field.name) + value
    if field.kind == "steps":
        unit = ""  # each figure has its own
    return (field.key, value, unit, field.meaning, chip.sources[field.name])


def _legend(chips: Sequence[Chip]) -> str:
    legend = "Limits are per core."
    if any(chip.approximate for chip in chips):
        legend += f" {APPROXIMATE}: not public or not certain; maps that rest on such a number say so."
    return legend


# -- doctor --------------------------------------------------------------------------------------------------------

ABSENT = "-"


def doctor_document(facts: Mapping[str, str], states: Sequence[Any]) -> dict[str, Any]:
    """As JSON."""
    return {**facts, "tools": [asdict(state) for state in states]}


def doctor_table(facts: Mapping[str, str], states: Sequence[Any]) -> RenderableType:
    """One row per tool: its version, what it is for, and, where it is not there, how to get it."""
    rows = [
        (s.name, ABSENT if s.version is None else s.version, s.purpose, s.hint if s.version is None else "")
        for s in states
    ]
    missing = sum(s.version is None for s in states)
    head = f"nirbridge {facts['nirbridge']}, Python {facts['python']}, {facts['machine']}"
    foot = f"{counted(len(states) - missing, 'tool')} of {len(states)} are there; all are optional"
    return Group(Text(head), Text(), table(("tool", "version", "for", "to get it"), "LLll", rows), Text(), Text(foot))
