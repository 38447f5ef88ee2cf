"""A NIR file for a terminal: nodes, neurons, projections, timing, warnings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from nirbridge.errors import quoted

ROWS_SHOWN = 200
"""Rows of each table; laying out thousands takes longer than reading the file."""


def inspect_text(document: Mapping[str, Any]) -> RenderableType:
    """The tables of a document that ``inspect_document`` made."""
    parts: list[RenderableType] = [
        _nodes(document["nodes"]),
        _heading("populations"),
        _populations(document["populations"]),
        _heading("projections"),
        _projections(document["projections"]),
        _heading("totals"),
        Text(_totals(document["totals"])),
        _heading("timing"),
        Text(_timing(document["timing"])),
    ]
    parts += _list("assumed", document["assumed"])
    parts += _list("notes", document["notes"])
    parts += _list("known faults of exporters", document.get("faults", ()))
    parts += _list("repaired on request", document.get("repaired", ()))
    return Group(*parts)


def _heading(text: str) -> Text:
    return Text(f"\n{text}", style="bold")


def _list(heading: str, sentences: Sequence[str]) -> list[RenderableType]:
    return [_heading(heading), *(Text(f"- {s}") for s in sentences)] if sentences else []


def _table(*columns: tuple[str, bool]) -> Table:
    """A table of (heading, whether numbers)."""
    table = Table(box=None, pad_edge=False)
    for heading, numbers in columns:
        table.add_column(heading, justify="right" if numbers else "left")
    return table


def name_text(name: str) -> str:
    """A name as it is where it is plain, else quoted and escaped."""
    return name if name.isprintable() and name.strip() == name and len(name) <= 60 and name else quoted(name)


def shape_text(shape: Sequence[int]) -> str:
    """``2 x 34 x 34``."""
    return " x ".join(f"{n:,}" for n in shape) or "1"


def _nodes(nodes: Sequence[Mapping[str, Any]]) -> RenderableType:
    table = _table(("node", False), ("type", False), ("takes", True), ("puts out", True))
    for node in nodes[:ROWS_SHOWN]:
        shapes = shape_text(node["input_shape"]), shape_text(node["output_shape"])
        table.add_row(Text(name_text(node["name"])), node["type"], *shapes)
    return _cut(table, len(nodes), "nodes")


def _cut(table: Table, count: int, rows: str) -> RenderableType:
    """The table, and how many rows it leaves out."""
    if count <= ROWS_SHOWN:
        return table
    return Group(table, Text(f"… and {count - ROWS_SHOWN:,} more {rows} (all in --json)"))


def _populations(populations: Sequence[Mapping[str, Any]]) -> RenderableType:
    columns = (("population", False), ("kind", False), ("shape", True), ("neurons", True), ("threshold", True))
    table = _table(*columns, ("decay", True), ("spike", False), ("reset", False))
    for p in populations[:ROWS_SHOWN]:
        decays = [_spread(p["membrane_decay"])] + ([_spread(p["synaptic_decay"])] if p["synaptic_decay"] else [])
        table.add_row(
            Text(name_text(p["name"])),
            Text(name_text(p["kind"])),
            shape_text(p["shape"]),
            f"{p['neurons']:,}",
            _spread(p["threshold"]),
            ", ".join(decays),
            f"v {p['compare']} threshold" if p["compare"] else "none (read-out)",
            p["reset"] or "",
        )
    return _cut(table, len(populations), "populations")


def _spread(values: Sequence[float] | None) -> str:
    if values is None:
        return ""
    low, high = values
    return f"{low:.6g}" if low == high else f"{low:.6g} to {high:.6g}"


def _projections(projections: Sequence[Mapping[str, Any]]) -> RenderableType:
    table = _table(
        ("from", False), ("to", False), ("operator", False), ("synapses", True), ("delay", True), ("", False)
    )
    for p in projections[:ROWS_SHOWN]:
        count = "too many to count" if p["synapses"] is None else f"{p['synapses']:,}"
        marks = ["bias"] * p["bias"] + ["closes a cycle"] * p["closes_cycle"]
        operator = ", ".join(_operator(part) for part in p["operator"])
        names = Text(name_text(p["source"])), Text(name_text(p["target"]))
        table.add_row(*names, operator, count, _spread(p["delay_steps"]), ", ".join(marks))
    return _cut(table, len(projections), "projections")


def _operator(part: Mapping[str, Any]) -> str:
    kind = part["type"]
    if kind in ("Conv", "SumPool"):
        groups = f", {part['groups']} groups" if part.get("groups", 1) > 1 else ""
        return f"{kind} {'x'.join(map(str, part['kernel']))} / {'x'.join(map(str, part['stride']))}{groups}"
    if kind in ("Dense", "Sparse"):
        return f"{kind} {shape_text(part['output_shape'])} from {shape_text(part['input_shape'])}"
    return kind


def _totals(totals: Mapping[str, Any]) -> str:
    synapses = "too many synapses to count" if totals["synapses"] is None else f"{totals['synapses']:,} synapses"
    return (
        f"{totals['neurons']:,} neurons, {synapses}, {totals['weights']:,} weights and biases stored, "
        f"{totals['parameters']:,} parameters in all"
    )


def _timing(timing: Mapping[str, Any]) -> str:
    return (
        f"dt {timing['dt']:g} s, integrator {timing['integrator']}, reset {timing['reset']}, "
        f"spike where v {timing['compare']} threshold, gain of integrators {timing['if_gain']}"
    )
