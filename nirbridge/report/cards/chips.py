"""Floor plans for a notebook: of maps, of saved maps, and the mesh of a chip."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from nirbridge.chips import chip_from_dict
from nirbridge.errors import counted
from nirbridge.report.cards.svg import GREY, INK, PALE, WHITE, fitted, path, rect, square, svg, text
from nirbridge.report.pictures.chip_grid import ChipGrid, cell_points, chip_grid
from nirbridge.report.pictures.floorplan_picture import floorplan_picture

if TYPE_CHECKING:
    from nirbridge.chips.model import Chip, Mesh
    from nirbridge.mapping.model import MappedNetwork
    from nirbridge.mapping.storage.record import BlockRecord, MapRecord

COLOURS = ("#56b4e9", "#e69f00", "#009e73", "#cc79a7", "#f0e442", "#0072b2", "#d55e00")
CORES_MAX = 1_200
"""Cores of a picture; the mesh of a chip is cropped to fewer, and empty cores of a saved map are left out beyond."""
_NUMBERED_MAX = 120
"""Squares with a number for each population; of more cores each has the colour of its largest population."""
_NUMBER_POINTS = 8
_LINE = 10.0


@dataclass(frozen=True, slots=True)
class _Cell:
    """A core: its corner in sides of a core, and (population, share of its neurons) from the top down."""

    x: float
    y: float
    parts: tuple[tuple[int, float], ...]
    is_dead: bool


def map_svg(mapped: MappedNetwork) -> str:
    """Every core of the tiles in use with its populations, by number."""
    drawn = floorplan_picture(mapped)
    cells = [_Cell(c.x, c.y, tuple((p.population, p.share) for p in c.parts), c.is_dead) for c in drawn.cells]
    return _plan(drawn.grid, cells, len(drawn.populations), f"floor plan of {mapped!r}")


def record_svg(record: MapRecord) -> str:
    """The same of a saved map, which its model has not been compared with. Raises ChipError: the chip is none."""
    mesh = chip_from_dict(dict(record.chip)).mesh
    bounds = (record.chips, mesh.width_tiles, mesh.height_tiles, mesh.cores_per_tile)
    if not record.blocks or any(not 0 <= k < n for b in record.blocks for k, n in zip(b.core, bounds, strict=True)):
        return ""
    grid = chip_grid(mesh, sorted({(b.core.chip, b.core.x, b.core.y) for b in record.blocks}))
    number = {p.name: k for k, p in enumerate(record.populations)}
    used = {_corner(grid, b.core): _shares(b, number) for b in record.blocks}
    tiles = sum((f.x_stop - f.x_first) * (f.y_stop - f.y_first) for f in grid.frames)
    drawn = dict.fromkeys(_corners(grid, mesh), ()) if tiles * mesh.cores_per_tile <= CORES_MAX else {}
    cells = [_Cell(*corner, parts, False) for corner, parts in (drawn | used).items()]
    return _plan(grid, cells, len(number), f"floor plan of {record!r}")


def _corner(grid: ChipGrid, core: tuple[int, int, int, int]) -> tuple[float, float]:
    left, top = grid.corner(core[:3])
    row, column = divmod(core[3], grid.tile_columns)
    return left + column, top + row


def _corners(grid: ChipGrid, mesh: Mesh) -> Iterator[tuple[float, float]]:
    for f in grid.frames:
        for y in range(f.y_first, f.y_stop):
            for x in range(f.x_first, f.x_stop):
                yield from (_corner(grid, (f.chip, x, y, k)) for k in range(mesh.cores_per_tile))


def _shares(block: BlockRecord, number: Mapping[str, int]) -> tuple[tuple[int, float], ...]:
    sizes: dict[int, int] = {}
    for piece in block.slices:
        population = number.get(piece.population, -1)
        sizes[population] = sizes.get(population, 0) + math.prod(max(0, b - a) for a, b in piece.box)
    total = max(1, sum(sizes.values()))
    return tuple((p, n / total) for p, n in sizes.items() if p >= 0 and n)


def _plan(grid: ChipGrid, cells: Sequence[_Cell], populations: int, label: str) -> str:
    side = cell_points(grid)
    numbered = len(cells) + sum(len(c.parts) for c in cells) <= 2 * _NUMBERED_MAX
    said = f"{counted(populations, 'population')}, numbered in the order of the network"
    if not numbered:
        said = f"{counted(populations, 'population')}; a core has the colour of its largest, 7 colours in turn"
    width, height = max(grid.width * side, 241.0), grid.height * side

    def parts() -> Iterator[str]:
        for frame in grid.frames:
            yield text(frame.left * side, frame.top * side - 2, f"chip {frame.chip}", anchor="start")
        yield from _numbered(cells, side) if numbered else _coloured(cells, side)
        yield text(0, height + _LINE, said, anchor="start")

    return svg(width, height + _LINE, label, parts())


def _numbered(cells: Sequence[_Cell], side: float) -> Iterator[str]:
    for cell in cells:
        x, y = cell.x * side, cell.y * side
        yield rect(x, y, (side, side), PALE if cell.is_dead else WHITE, GREY)
        for population, share in cell.parts:
            tall = share * side
            yield rect(x, y, (side, tall), COLOURS[population % len(COLOURS)], INK)
            if tall >= _NUMBER_POINTS:
                yield text(x + side / 2, y + tall / 2 + 2.5, str(population + 1))
            y += tall


def _coloured(cells: Sequence[_Cell], side: float) -> Iterator[str]:
    groups: dict[str, list[str]] = {}
    for cell in cells:
        largest = max(cell.parts, key=lambda part: part[1], default=None)
        colour = COLOURS[largest[0] % len(COLOURS)] if largest else PALE if cell.is_dead else WHITE
        groups.setdefault(colour, []).append(square(cell.x * side, cell.y * side, side))
    yield from (path(squares, fill=colour, stroke=INK, width=0.3) for colour, squares in sorted(groups.items()))


def chip_svg(chip: Chip) -> str:
    """The mesh of one chip: tiles, their cores, and the dead ones."""
    mesh = chip.mesh
    columns, rows = mesh.width_tiles, mesh.height_tiles
    while columns * rows * mesh.cores_per_tile > CORES_MAX and max(columns, rows) > 1:
        columns, rows = (columns // 2, rows) if columns > rows else (columns, rows // 2)
    grid = chip_grid(mesh, [(0, 0, 0), (0, columns - 1, rows - 1)])
    side, per_tile = cell_points(grid), min(mesh.cores_per_tile, CORES_MAX)
    dead = set(chip.dead_cores)
    size = f"{mesh.width_tiles:,} x {mesh.height_tiles:,} tiles of {counted(mesh.cores_per_tile, 'core')}"
    shown = f"; shown: {columns:,} x {rows:,} tiles" if (columns, rows) != (mesh.width_tiles, mesh.height_tiles) else ""
    shown += f"; shown: {per_tile:,} cores of a tile" if per_tile < mesh.cores_per_tile else ""
    places = [(0, x, y, k) for y in range(rows) for x in range(columns) for k in range(per_tile)]
    height = grid.height * side

    def parts() -> Iterator[str]:
        yield fitted(0, 6, chip.name, 241, bold=True)
        alive = [square(*_scaled(_corner(grid, p), side)) for p in places if p not in dead]
        yield path(alive, fill="#dceaf4", stroke=INK, width=0.5)
        gone = [square(*_scaled(_corner(grid, p), side)) for p in places if p in dead]
        yield path(gone, fill=GREY, stroke=INK, width=0.5)
        boards = f"; up to {counted(mesh.chips_max, 'chip')}" if mesh.chips_max > 1 else ""
        marked = f"; {counted(len(chip.dead_cores), 'dead core')} (grey)" if dead else ""
        yield text(0, height + _LINE, size + boards + marked, anchor="start")
        yield text(0, height + 2 * _LINE, shown[2:], anchor="start") if shown else ""

    return svg(max(241.0, grid.width * side), height + (2 if shown else 1) * _LINE, f"mesh of {chip!r}", parts())


def _scaled(corner: tuple[float, float], side: float) -> tuple[float, float, float]:
    return corner[0] * side, corner[1] * side, side
