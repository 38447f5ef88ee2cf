"""A map as text: the slices of each core, utilisation, its lower bound, its traffic, and its assumptions.

The mesh as a small picture in text: one sign per core, darker where the core is fuller.
"""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from nirbridge.chips.model import CoreId
from nirbridge.errors import counted
from nirbridge.mapping.model import MappedNetwork
from nirbridge.report.layout import fitted
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

CORES_SHOWN = 24
SLICES_SHOWN = 3
_SHORT = {
    "neurons": "neurons",
    "input_axons": "axons in",
    "output_axons": "axons out",
    "synapse_words": "words",
    "decay_profiles": "decays",
    "threshold_profiles": "thresholds",
}


def map_text(mapped: MappedNetwork, width: int = 100, *, title: str = "", color: bool = False) -> str:
    """The report as one string, lines of at most ``width``, with terminal colours only if ``color``.

    ``title`` is shown above (the model's name). Names from files are escaped and never read as markup.
    """
    system = "standard" if color else None
    console = Console(  # every cell is a Text; were one a str, a name in it would still not be read as markup
        file=io.StringIO(),
        width=width,
        force_terminal=color,
        color_system=system,
        no_color=not color,
        markup=False,
        emoji=False,
        highlight=False,
    )
    with console.capture() as captured:
        console.print(fitted(map_renderable(mapped, width, title=title), console))
    return "\n".join(line.rstrip() for line in captured.get().split("\n"))


def map_renderable(mapped: MappedNetwork, width: int = 100, *, title: str = "", notes: bool = True) -> RenderableType:
    """The same report for a ``rich`` console of one's own; without assumptions and notes where ``notes`` is false."""
    parts: list[RenderableType] = [Text(one_line(title), style="bold")] if title else []
    parts += [_facts(mapped), _heading("resources"), _resources(mapped)]
    rows = core_rows(mapped)
    if len(rows) <= CORES_SHOWN:
        parts += [_heading("cores"), _cores(rows)]
    else:
        parts += [_heading("populations"), _populations(mapped), _heading("fullest cores"), _cores(_fullest(rows))]
    parts += [_heading("mesh"), Text(mesh_text(mapped, width))]
    parts += _breakdown(
        "energy per time step", mapped.costs.energy_breakdown_j, "J", rough=is_approximate_table(mapped, "energy")
    )
    parts += _breakdown(
        "duration of a time step", mapped.costs.time_breakdown_s, "s", rough=is_approximate_table(mapped, "time")
    )
    for heading, lines in remarks(mapped) if notes else []:
        parts += [_heading(heading), *(Text(f"- {line}") for line in lines)]
    return Group(*parts)


def _heading(text: str) -> Text:
    return Text(f"\n{text}", style="bold")


def _table(*columns: tuple[str, bool]) -> Table:
    """A table of (heading, whether numbers)."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for heading, numbers in columns:
        table.add_column(Text(heading), justify="right" if numbers else "left", no_wrap=numbers)
    return table


def _facts(mapped: MappedNetwork) -> RenderableType:
    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True)
    table.add_column()
    for label, lines in map_facts(mapped):
        table.add_row(Text(label), Text("\n".join(lines)))
    return table


def _resources(mapped: MappedNetwork) -> RenderableType:
    table = _table(("resource", False), ("all cores", True), ("fullest core", True), ("", True), ("limit", True))
    table.add_column(Text("at core"), justify="right")
    for row in resource_rows(mapped):
        mark = "~" if row.is_approximate else ""
        limit = "not limited" if row.limit is None else f"{row.limit:,}"
        share = "" if row.share is None else f"{row.share:.0%}"
        cells = (row.name.replace("_", " "), f"{row.total:,}", f"{row.most:,}", share, mark + limit, row.where)
        table.add_row(*(Text(cell, style=_style(row.share) if i == 3 else "") for i, cell in enumerate(cells)))
    return table


def _cores(rows: Sequence[CoreRow]) -> RenderableType:
    names = ("neurons", "synapse_words", "input_axons", "output_axons")
    table = _table(
        ("core", True), ("tile", True), *((_SHORT[name], True) for name in names), ("fullest", False), ("holds", False)
    )
    for row in rows:
        cells = [Text(row.name), Text(f"{row.core.x},{row.core.y}"), *(_share(*row.used[name]) for name in names)]
        fullest = f"{_SHORT.get(row.fullest, row.fullest)} {row.share:.0%}"
        table.add_row(*cells, Text(fullest, style=_style(row.share)), Text(_holds(row)))
    return table


def _share(used: int, limit: int | None) -> Text:
    if limit is None:
        return Text(f"{used:,}")
    share = used / limit if limit else 0.0
    return Text(f"{used:,} {share:4.0%}", style=_style(share))


def _style(share: float | None) -> str:
    if share is None or share < 0.75:
        return ""
    return "green" if share < 0.95 else "yellow"


def _holds(row: CoreRow) -> str:
    more = len(row.slices) - SLICES_SHOWN
    return "\n".join(row.slices[:SLICES_SHOWN]) + (f"\nand {more} more" if more > 0 else "")


def _fullest(rows: Sequence[CoreRow]) -> list[CoreRow]:
    """Of many cores the three fullest (the first of equals)."""
    return sorted(rows, key=lambda row: -row.share)[:3]


def _populations(mapped: MappedNetwork) -> RenderableType:
    columns = (("population", False), ("shape", True), ("neurons", True), ("slices", True), ("cores", True))
    table = _table(*columns, ("slice sizes", False))
    for row in population_rows(mapped):
        cells = (row.name, row.shape, f"{row.neurons:,}", f"{row.slices:,}", f"{row.cores:,}", row.boxes)
        table.add_row(*(Text(cell) for cell in cells))
    return table


def _breakdown(heading: str, parts: Mapping[str, float], unit: str, *, rough: bool) -> list[RenderableType]:
    total = sum(parts.values())
    if total <= 0:
        return []
    table = _table(("", False), ("", True), ("", True))
    table.show_header = False
    for kind, value in parts.items():
        table.add_row(
            Text(kind), Text(figure_with_prefix(value, unit, approximate=rough)), Text(f"{value / total:.0%}")
        )
    return [_heading(heading), table]


SHADES = "░▒▓█"
FREE, DEAD = "·", "x"
CHIPS_SHOWN, ROWS_SHOWN = 4, 16


def mesh_text(mapped: MappedNetwork, width: int = 100) -> str:
    """The chips in use (the first four), tiles row by row; in a tile one sign per core.

    A shade is the share of the core's fullest resource: up to a quarter, a half, three quarters, all of the limit.
    Rows after the 16th and columns after ``width`` are left out where nothing is on them, or cut where something is;
    both are said.
    """
    shares = {row.core: row.share for row in core_rows(mapped)}
    chips = sorted({core.chip for core in mapped.cores})
    lines: list[str] = []
    for chip in chips[:CHIPS_SHOWN]:
        lines += [f"chip {chip}"] if mapped.chips > 1 else []
        lines += _chip(mapped, chip, shares, width)
    if len(chips) > CHIPS_SHOWN:
        lines.append(f"… and {len(chips) - CHIPS_SHOWN:,} more chips in use")
    dead = f"  {DEAD} masked out" if mapped.chip.dead_cores else ""
    steps = "  ".join(f"{sign} up to {share} %" for sign, share in zip(SHADES, (25, 50, 75, 100), strict=True))
    return "\n".join([*lines, f"{FREE} free  {steps} of its fullest resource{dead}"])


def shade(share: float) -> str:
    """The sign of a used core."""
    return SHADES[min(max(-int(-share * 4 // 1), 1), 4) - 1]


def _chip(mapped: MappedNetwork, chip: int, shares: Mapping[CoreId, float], width: int) -> list[str]:
    mesh, dead = mapped.chip.mesh, set(mapped.chip.dead_cores)
    used = [core for core in shares if core.chip == chip]
    columns = _shown(mesh.width_tiles, (width + 1) // (mesh.cores_per_tile + 1), max(core.x for core in used))
    rows = _shown(mesh.height_tiles, ROWS_SHOWN, max(core.y for core in used))
    lines = []
    for y in range(rows):
        tiles = ([CoreId(chip, x, y, core) for core in range(mesh.cores_per_tile)] for x in range(columns))
        lines.append(" ".join("".join(_sign(core, shares, dead) for core in cores) for cores in tiles))
    hidden = [core for core in used if core.x >= columns or core.y >= rows]
    if columns < mesh.width_tiles or rows < mesh.height_tiles:
        hidden_text = f"{counted(len(hidden), 'core')} in use" if hidden else "none in use"
        lines.append(
            f"({columns} x {rows} of {mesh.width_tiles} x {mesh.height_tiles} tiles; on the others: {hidden_text})"
        )
    return lines


def _shown(tiles: int, room: int, last_used: int) -> int:
    """How many columns or rows to show: all where there is room, else those in use, at most what there is room for."""
    return tiles if tiles <= room else max(min(last_used + 1, room), 1)


def _sign(core: CoreId, shares: Mapping[CoreId, float], dead: set[CoreId]) -> str:
    if core in shares:
        return shade(shares[core])
    return DEAD if core in dead else FREE
