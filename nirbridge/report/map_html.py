"""A map as one HTML page: self-contained, no scripts, nothing loaded from anywhere; names are escaped."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from pathlib import Path

from nirbridge.chips.model import CoreId
from nirbridge.errors import quoted
from nirbridge.files.atomic import atomic_write_bytes
from nirbridge.mapping.model import MappedNetwork
from nirbridge.report.map_facts import (
    CoreRow,
    core_rows,
    figure_with_prefix,
    is_approximate_table,
    map_facts,
    one_line,
    population_rows,
    remarks,
    resource_rows,
)

CHIPS_SHOWN = 16
_CSP = "default-src 'none'; style-src 'unsafe-inline'"
_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 72rem; padding: 0 1rem; color: #1b1f24; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.1rem; margin-top: 2rem; }
table { border-collapse: collapse; } th { text-align: left; font-weight: 600; }
td, th { padding: .15rem .9rem .15rem 0; vertical-align: top; }
td.n, th.n { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
.scroll { overflow-x: auto; } .mesh td { padding: 2px; border: 1px solid #c9d1d9; white-space: nowrap; }
.mesh span { display: inline-block; width: 14px; height: 14px; margin: 1px; background: #eaeef2; }
.mesh span.dead { background: repeating-linear-gradient(45deg, #888, #888 2px, #fff 2px, #fff 4px); }
.bar { display: inline-block; height: .7rem; background: #3a7ca5; } .track { width: 12rem; background: #eaeef2; }
"""


def map_html(mapped: MappedNetwork, *, title: str = "") -> str:
    """The report of a map as an HTML document; ``title`` (the model's name) is escaped like every name."""
    name, keys = one_line(title) or "nirbridge map", mapped.chip.approximate
    parts = [
        f"<h1>{escape(name)}</h1>",
        _facts(mapped),
        "<h2>Resources</h2>",
        _resources(mapped),
        "<h2>Mesh</h2>",
        _mesh(mapped),
        "<h2>Populations</h2>",
        _populations(mapped),
        "<h2>Cores</h2>",
        _cores(core_rows(mapped)),
        *_breakdown(
            "Energy per time step", mapped.costs.energy_breakdown_j, "J", rough=is_approximate_table(keys, "energy")
        ),
        *_breakdown(
            "Duration of a time step", mapped.costs.time_breakdown_s, "s", rough=is_approximate_table(keys, "time")
        ),
        *(_remark(heading, lines) for heading, lines in remarks(mapped)),
    ]
    head = (
        f'<meta charset="utf-8"><meta http-equiv="Content-Security-Policy" content="{escape(_CSP)}">'
        f"<title>{escape(name)}</title><style>{_STYLE}</style>"
    )
    body = "\n".join(parts)
    return f'<!doctype html>\n<html lang="en"><head>{head}</head>\n<body>\n{body}\n</body></html>\n'


def write_map_html(mapped: MappedNetwork, path: str | os.PathLike[str]) -> None:
    """Write the report of a map as an HTML file, whole or not at all. Raises FileError."""
    title = "" if mapped.network.file is None else mapped.network.file.name
    data = map_html(mapped, title=title).encode()
    atomic_write_bytes(path, data, subject=f"report {quoted(Path(path).name)}")


def _table(headings: Sequence[tuple[str, bool]], rows: Iterable[Sequence[str]]) -> str:
    """A table of (heading, whether numbers); cells are HTML already."""
    kinds = [' class="n"' if numbers else "" for _, numbers in headings]
    head = "".join(f"<th{kind}>{escape(text)}</th>" for kind, (text, _) in zip(kinds, headings, strict=True))
    body = "".join(
        "<tr>" + "".join(f"<td{kind}>{cell}</td>" for kind, cell in zip(kinds, row, strict=True)) + "</tr>\n"
        for row in rows
    )
    return f'<div class="scroll"><table><tr>{head}</tr>\n{body}</table></div>'


def _lines(lines: Iterable[str]) -> str:
    return "<br>".join(escape(line) for line in lines)


def _facts(mapped: MappedNetwork) -> str:
    return _table([("", False), ("", False)], ([escape(label), _lines(lines)] for label, lines in map_facts(mapped)))


def _resources(mapped: MappedNetwork) -> str:
    headings = [("resource", False), ("all cores", True), ("fullest core", True), ("limit", True), ("at core", True)]
    rows = []
    for row in resource_rows(mapped):
        limit = "not limited" if row.limit is None else f"{row.limit:,}"
        cells = [row.name.replace("_", " "), f"{row.total:,}", f"{row.most:,}", "~" * row.is_approximate + limit]
        rows.append([*map(escape, cells), escape(row.where), _bar(row.share)])
    return _table([*headings, ("", False)], rows)


def _bar(share: float | None) -> str:
    if share is None:
        return ""
    return f'<div class="track"><span class="bar" style="width:{min(share, 1):.1%}" title="{share:.1%}"></span></div>'


def _mesh(mapped: MappedNetwork) -> str:
    """One small square per core, darker where its fullest resource is fuller; chips without a block are left out."""
    shares = {row.core: row for row in core_rows(mapped)}
    chips = sorted({core.chip for core in mapped.cores})
    parts = [_chip(mapped, chip, shares) for chip in chips[:CHIPS_SHOWN]]
    if len(chips) > CHIPS_SHOWN:
        parts.append(f"<p>… and {len(chips) - CHIPS_SHOWN:,} more chips in use</p>")
    return "\n".join(parts)


def _chip(mapped: MappedNetwork, chip: int, shares: Mapping[CoreId, CoreRow]) -> str:
    mesh, dead = mapped.chip.mesh, set(mapped.chip.dead_cores)
    rows = []
    for y in range(mesh.height_tiles):
        tiles = []
        for x in range(mesh.width_tiles):
            cores = (CoreId(chip, x, y, core) for core in range(mesh.cores_per_tile))
            tiles.append("<td>" + "".join(_square(core, shares, dead) for core in cores) + "</td>")
        rows.append("<tr>" + "".join(tiles) + "</tr>\n")
    label = f"<p>chip {chip}</p>" if mapped.chips > 1 else ""
    return f'{label}<div class="scroll"><table class="mesh">{"".join(rows)}</table></div>'


def _square(core: CoreId, shares: Mapping[CoreId, CoreRow], dead: set[CoreId]) -> str:
    if core not in shares:
        return '<span class="dead" title="masked out"></span>' if core in dead else "<span></span>"
    row = shares[core]
    lightness = 85 - 55 * min(max(row.share, 0.0), 1.0)
    says = f"core {row.name}: {row.fullest} {row.share:.0%}; {', '.join(row.slices[:6])}"
    return f'<span style="background:hsl(203 48% {lightness:.0f}%)" title="{escape(says)}"></span>'


def _populations(mapped: MappedNetwork) -> str:
    headings = [("population", False), ("shape", True), ("neurons", True), ("slices", True), ("cores", True)]
    rows = [
        [*map(escape, (row.name, row.shape, f"{row.neurons:,}", str(row.slices), str(row.cores), row.boxes))]
        for row in population_rows(mapped)
    ]
    return _table([*headings, ("boxes", False)], rows)


def _cores(rows: Sequence[CoreRow]) -> str:
    if not rows:
        return "<p>no core is used</p>"
    names = list(rows[0].used)
    headings = [("core", True), ("tile", True), *((name.replace("_", " "), True) for name in names)]
    cells = (
        [
            escape(row.name),
            f"{row.core.x},{row.core.y}",
            *(_used(*row.used[name]) for name in names),
            escape(f"{row.fullest.replace('_', ' ')} {row.share:.0%}"),
            _lines(row.slices),
        ]
        for row in rows
    )
    return _table([*headings, ("fullest", False), ("holds", False)], cells)


def _used(used: int, limit: int | None) -> str:
    return f"{used:,}" if not limit else f"{used:,} ({used / limit:.0%})"


def _breakdown(heading: str, parts: Mapping[str, float], unit: str, *, rough: bool) -> list[str]:
    total = sum(parts.values())
    if total <= 0:
        return []
    rows = (
        [escape(kind), figure_with_prefix(value, unit, approximate=rough), _bar(value / total)]
        for kind, value in parts.items()
    )
    return [f"<h2>{escape(heading)}</h2>", _table([("", False), ("", True), ("", False)], rows)]


def _remark(heading: str, lines: Sequence[str]) -> str:
    items = "".join(f"<li>{escape(line)}</li>" for line in lines)
    return f"<h2>{escape(heading.capitalize())}</h2><ul>{items}</ul>"
