"""A map as text: slices of each core, utilisation, lower bound, traffic and assumptions; of a saved map, too.

The mesh as a small picture in text: one sign per core, darker where the core is fuller.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from nirbridge.chips.model import CoreId
from nirbridge.errors import counted, quoted
from nirbridge.mapping.cost import missing_figures
from nirbridge.mapping.model import MappedNetwork
from nirbridge.mapping.storage.record import MapRecord
from nirbridge.partitioner.model import RESOURCES
from nirbridge.report.map_brief import (
    CORE_COLUMNS,
    CORE_HEADINGS,
    CORES_SHOWN,
    brief_of_record,
    fullest_text,
    share_style,
    share_text,
)
from nirbridge.report.map_facts import (
    APPROXIMATE_HEADING,
    CoreRow,
    approximate_lines,
    core_rows,
    figure_with_prefix,
    is_approximate_limit,
    is_approximate_table,
    map_facts,
    one_line,
    population_rows,
    remarks,
    resource_rows,
)
from nirbridge.report.tables import Names, captured, facts_table, heading, listed, table

PADDING = (0, 2, 0, 0)
SLICES_SHOWN = 3


def map_text(mapped: MappedNetwork, width: int = 100, *, title: str = "", color: bool = False) -> str:
    """The report as one string, lines of at most ``width``, with terminal colours only if ``color``.

    ``title`` is shown above (the model's name). Names from files are escaped and never read as markup.
    """
    return captured([map_renderable(mapped, width, title=title)], width, fit=True, color=color)


def map_renderable(mapped: MappedNetwork, width: int = 100, *, title: str = "", notes: bool = True) -> RenderableType:
    """The same report for a given ``rich`` console; without assumptions and notes where ``notes`` is false."""
    keys = mapped.chip.approximate
    parts: list[RenderableType] = [Text(one_line(title), style="bold")] if title else []
    facts = facts_table((label, "\n".join(lines)) for label, lines in map_facts(mapped))
    parts += [facts, heading("resources"), _resources(mapped)]
    rows = core_rows(mapped)
    if len(rows) <= CORES_SHOWN:
        parts += [heading("cores"), _cores(rows)]
    else:
        fullest = sorted(rows, key=lambda row: -row.share)[:3]  # the first of equals
        parts += [heading("populations"), _populations(mapped), heading("fullest cores"), _cores(fullest)]
    parts += [heading("mesh"), Text(mesh_text(mapped, width))]
    costs, missing = mapped.costs, missing_figures(mapped.chip)
    for title, values, unit, of in (
        ("energy per time step", costs.energy_breakdown_j, "J", "energy"),
        ("duration of a time step", costs.time_breakdown_s, "s", "time"),
    ):
        partial = " (partial)" * bool(missing[of])
        parts += _breakdown(title + partial, values, unit, rough=is_approximate_table(keys, of))
    for title, lines in remarks(mapped) if notes else []:
        parts += listed(title, lines)
    return Group(*parts)


def _resources(mapped: MappedNetwork) -> RenderableType:
    rows = []
    for row in resource_rows(mapped):
        mark = "~" if row.is_approximate else ""
        limit = "not limited" if row.limit is None else f"{row.limit:,}"
        share = Text("" if row.share is None else f"{row.share:.0%}", style=share_style(row.share))
        rows.append((row.name.replace("_", " "), f"{row.total:,}", f"{row.most:,}", share, mark + limit, row.where))
    headings = ("resource", "all cores", "fullest core", "", "limit", "at core")
    return table(headings, "lRRRRr", rows, padding=PADDING)


def _cores(rows: Sequence[CoreRow]) -> RenderableType:
    cells = []
    for row in rows:
        used = (share_text(*row.used[name]) for name in CORE_COLUMNS)
        cells.append((row.name, f"{row.core.x},{row.core.y}", *used, fullest_text(row), _holds(row)))
    return table(CORE_HEADINGS, "RRRRRRl", cells, padding=PADDING)


def _holds(row: CoreRow) -> str:
    more = len(row.slices) - SLICES_SHOWN
    return "\n".join(row.slices[:SLICES_SHOWN]) + (f"\nand {more} more" if more > 0 else "")


def _populations(mapped: MappedNetwork) -> RenderableType:
    rows = [
        (row.name, row.shape, f"{row.neurons:,}", f"{row.slices:,}", f"{row.cores:,}", row.boxes)
        for row in population_rows(mapped)
    ]
    headings = ("population", "shape", "neurons", "slices", "cores", "slice sizes")
    return table(headings, "lRRRRl", rows, padding=PADDING)


def _breakdown(title: str, parts: Mapping[str, float], unit: str, *, rough: bool) -> list[RenderableType]:
    total = sum(parts.values())
    if total <= 0:
        return []
    rows = [
        (kind, figure_with_prefix(value, unit, approximate=rough), f"{value / total:.0%}")
        for kind, value in parts.items()
    ]
    return [heading(title), table(("", "", ""), "lRR", rows, padding=PADDING, show_header=False)]


SHADES = "░▒▓█"
FREE, DEAD = "·", "x"
CHIPS_SHOWN, ROWS_SHOWN = 4, 16


def mesh_text(mapped: MappedNetwork, width: int = 100) -> str:
    """The chips in use (the first four), tiles row by row; in a tile one sign per core.

    A shade is the share of the core's fullest resource: up to a quarter, a half, three quarters, all of the limit.
    Rows after the 16th and columns after ``width`` are left out where they are unused,
    or cut where they are used; the report states both.
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
            f"({columns} x {rows} of {mesh.width_tiles} x {mesh.height_tiles} tiles; on other tiles: {hidden_text})"
        )
    return lines


def _shown(tiles: int, room: int, last_used: int) -> int:
    """Number of columns or rows to show: all if there is room, else those in use, as far as there is room."""
    return tiles if tiles <= room else max(min(last_used + 1, room), 1)


def _sign(core: CoreId, shares: Mapping[CoreId, float], dead: set[CoreId]) -> str:
    if core in shares:
        return shade(shares[core])
    return DEAD if core in dead else FREE


# -- saved map -----------------------------------------------------------------------------------------------------

_LEFT_OUT = ("schema", "chip", "blocks", "routes", "projections", "populations")
"""Keys of a map file that its document does not repeat as they are."""


def saved_map_document(record: MapRecord) -> dict[str, Any]:
    """The map file without its lists of blocks and routes; the slices and cores of every population instead."""
    unchanged = {key: value for key, value in record.raw.items() if key not in _LEFT_OUT}
    return {
        **unchanged,
        "chip": record.chip["name"],
        "populations": [
            {**row, "slices": slices, "cores": cores}
            for row, (slices, cores) in zip(record.raw["populations"], _cut(record), strict=True)
        ],
        "projections": len(record.projections),
        "routes": len(record.routes),
    }


def saved_map_text(record: MapRecord, *, notes: bool = True, every: bool = False) -> RenderableType:
    """The lines of a saved map and its populations; without the notes where ``notes`` is false.

    With ``every`` also its file's digest, the course of the search, the resources, and all notes.
    """
    brief = brief_of_record(record)
    parts: list[RenderableType] = [Text(brief.title, style="bold"), facts_table(brief.lines(notes=notes and not every))]
    parts += [heading("populations"), _saved_populations(record)]
    if every:
        parts += [heading("file and search"), facts_table(_origin(record))]
        parts += [heading("resources"), _saved_resources(record)]
    if every and notes:
        for title in ("assumed", "notes"):
            parts += listed(title, map(one_line, record.raw.get(title) or ()))
        parts += listed(APPROXIMATE_HEADING, approximate_lines(record.chip["name"], _approximate(record)))
    return Group(*parts)


def _origin(record: MapRecord) -> Iterator[tuple[str, str]]:
    proof = record.proof
    yield "model", f"{quoted(record.model_file)}, sha256 {one_line(record.model_sha256[:16])}"
    yield "objective", one_line(record.raw["objective"])
    yield "search", f"{one_line(proof['status'])} ({one_line(proof['method'])}, seed {proof['seed']})"
    yield "bounds", f"at least {counted(proof['cores_lower_bound'], 'core')} in any map, {_sliced(proof)}"


def _sliced(proof: Mapping[str, Any]) -> str:
    return f"{proof['cores_lower_bound_sliced']:,} among the partitions searched"


def _approximate(record: MapRecord) -> tuple[str, ...]:
    return tuple(record.raw["approximate"])


def _saved_resources(record: MapRecord) -> Table:
    rows = []
    for name in RESOURCES:
        row = record.totals[name]
        limit = "not limited" if row.get("limit") is None else f"{row['limit']:,}"
        mark = "~" if is_approximate_limit(_approximate(record), name) else ""
        rows.append((name.replace("_", " "), f"{row['used']:,}", f"{row['max']:,}", mark + limit))
    return table(("resource", "all cores", "fullest core", "limit"), "LR", rows)


def _saved_populations(record: MapRecord) -> Table:
    rows = []
    for p, (slices, cores) in zip(record.populations, _cut(record), strict=True):
        shape = " x ".join(f"{n:,}" for n in p.shape)
        counts = (f"{n:,}" for n in (p.neurons, slices, cores))
        rows.append((Names((one_line(p.name),)), one_line(p.kind), shape, *counts))
    headings = ("population", "kind", "shape", "neurons", "slices", "cores")
    return table(headings, "lLR", rows, drop=("slices", "kind", "shape"))


def _cut(record: MapRecord) -> list[tuple[int, int]]:
    """(Slices, cores that they are on) of every population."""
    slices = {p.name: 0 for p in record.populations}
    cores: dict[str, set[Any]] = {p.name: set() for p in record.populations}
    for block in record.blocks:
        for each in block.slices:
            if each.population in slices:  # the checker refuses others; this only shows
                slices[each.population] += 1
                cores[each.population].add(block.core)
    return [(slices[p.name], len(cores[p.name])) for p in record.populations]
