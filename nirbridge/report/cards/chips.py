"""Floor plans for a notebook: of a map, of a saved map, and of the mesh of a chip."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from nirbridge.chips import chip_from_dict
from nirbridge.errors import counted
from nirbridge.report.cards.page_picture import card
from nirbridge.report.html.plan import still_plan
from nirbridge.report.html.plan_layout import plan_layout
from nirbridge.report.pictures.floorplan_picture import FloorplanPicture, floorplan, floorplan_picture
from nirbridge.report.pictures.labels import printable_name

if TYPE_CHECKING:
    from nirbridge.chips.model import Chip, Mesh
    from nirbridge.mapping.model import MappedNetwork
    from nirbridge.mapping.storage.record import MapRecord

CORES_MAX = 1_200
"""Cores of a picture; the mesh of a chip is cropped to fewer, and empty cores of a saved map are left out beyond."""
_DETAILED_MAX, _SIDE_MAX, _HEIGHT = 240, 100, 600.0
"""Cores and parts with outlines and numbers; cores of a chip side by side; height of the tiles in pixels."""


def map_svg(mapped: MappedNetwork) -> str:
    """Every core of the tiles in use with its populations, by number."""
    return _plan(floorplan_picture(mapped), mapped.chip.mesh, f"floor plan of {mapped!r}")


def record_svg(record: MapRecord) -> str:
    """The same of a saved map, which its model has not been compared with. Raises ChipError: the chip is none."""
    chip = chip_from_dict(dict(record.chip))
    mesh = chip.mesh
    bounds = (record.chips, mesh.width_tiles, mesh.height_tiles, mesh.cores_per_tile)
    if not record.blocks or any(not 0 <= k < n for b in record.blocks for k, n in zip(b.core, bounds, strict=True)):
        return ""
    sizes, blocks = {p.name: p.neurons for p in record.populations}, {b.core: b for b in record.blocks}
    floor = floorplan(chip, record.chips, blocks, sizes, cores_max=CORES_MAX)
    return _plan(floor, mesh, f"floor plan of {record!r}")


def _plan(floor: FloorplanPicture, mesh: Mesh, label: str) -> str:
    layout = plan_layout(mesh, sorted({cell.core[:3] for cell in floor.cells}), _HEIGHT)
    detailed = len(floor.cells) + sum(len(cell.parts) for cell in floor.cells) <= _DETAILED_MAX
    said = f"{counted(len(floor.populations), 'population')}, numbered in the order of the network"
    if not detailed:
        said = f"{counted(len(floor.populations), 'population')}; 64 fills in turn, in the order of the network"
    return card(label, (still_plan(floor, layout, detailed=detailed), said))


def chip_svg(chip: Chip) -> str:
    """The mesh of one chip: tiles, their cores, and the dead ones."""
    mesh = chip.mesh
    columns, rows = mesh.width_tiles, mesh.height_tiles
    while max(columns, rows) > 1 and (
        columns * rows * mesh.cores_per_tile > CORES_MAX or max(columns, rows) > _SIDE_MAX
    ):
        columns, rows = (columns // 2, rows) if columns > rows else (columns, rows // 2)
    tiles, per_tile = [(0, 0, 0), (0, columns - 1, rows - 1)], min(mesh.cores_per_tile, CORES_MAX)
    part = replace(chip, mesh=replace(mesh, cores_per_tile=per_tile))
    floor = floorplan(part, 1, {}, {}, tiles=tiles)
    size = f"{mesh.width_tiles:,} x {mesh.height_tiles:,} tiles of {counted(mesh.cores_per_tile, 'core')}"
    boards = f"; up to {counted(mesh.chips_max, 'chip')}" if mesh.chips_max > 1 else ""
    marked = f"; {counted(len(chip.dead_cores), 'dead core')} (crossed)" if chip.dead_cores else ""
    cropped = (columns, rows) != (mesh.width_tiles, mesh.height_tiles)
    shown = [f"shown: {columns:,} x {rows:,} tiles"] if cropped else []
    shown += [f"shown: {per_tile:,} cores of a tile"] if per_tile < mesh.cores_per_tile else []
    drawn = still_plan(floor, plan_layout(part.mesh, tiles, _HEIGHT), detailed=True)
    return card(f"mesh of {chip!r}", (printable_name(chip.name), drawn, size + boards + marked, *shown))
