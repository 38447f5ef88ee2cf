"""The mesh as a small picture in text: one sign per core, darker where the core is fuller."""

from __future__ import annotations

from collections.abc import Mapping

from nirbridge.chips.model import CoreId
from nirbridge.mapping.model import Mapped
from nirbridge.report.map_facts import core_rows

SHADES = "░▒▓█"
FREE, DEAD = "·", "x"
CHIPS_SHOWN, ROWS_SHOWN = 4, 16


def mesh_text(mapped: Mapped, width: int = 100) -> str:
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


def _chip(mapped: Mapped, chip: int, shares: Mapping[CoreId, float], width: int) -> list[str]:
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
        what = f"{len(hidden):,} cores in use" if hidden else "none in use"
        lines.append(f"({columns} x {rows} of {mesh.width_tiles} x {mesh.height_tiles} tiles; on the others: {what})")
    return lines


def _shown(tiles: int, room: int, last_used: int) -> int:
    """How many columns or rows to show: all where there is room, else those in use, at most what there is room for."""
    return tiles if tiles <= room else max(min(last_used + 1, room), 1)


def _sign(core: CoreId, shares: Mapping[CoreId, float], dead: set[CoreId]) -> str:
    if core in shares:
        return shade(shares[core])
    return DEAD if core in dead else FREE
