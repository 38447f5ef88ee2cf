"""Chips side by side as grids of tiles, cropped to the tiles in use, in as many rows as let the cells be largest."""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass

from nirbridge.chips.model import Mesh
from nirbridge.report.pictures.labels import COLUMN_POINTS

Tile = tuple[int, int, int]
"""Chip, column x, row y."""
TILE_GAP, CHIP_GAP = 0.15, 0.8
"""Space between tiles and between chips, in sides of a core."""
MARGIN_POINTS = 10.5
"""Space at the left of a chip and below it for the numbers of rows and columns, and above it for its title."""
CELL_POINTS = 24.0
"""Side of a core at most."""
_PAGE = 300.0
_ROUNDS = 4


@dataclass(frozen=True, slots=True)
class ChipFrame:
    """A chip of the picture: its drawn columns and rows of tiles, and where the first of them has its corner.

    Columns ``x_first <= x < x_stop`` and rows ``y_first <= y < y_stop`` are drawn; ``is_cropped`` where the chip has
    more. Lengths are in sides of a core.
    """

    chip: int
    x_first: int
    x_stop: int
    y_first: int
    y_stop: int
    left: float
    top: float
    width: float
    height: float
    is_cropped: bool


@dataclass(frozen=True, slots=True)
class ChipGrid:
    """Chips on a page; a tile is ``tile_columns`` x ``tile_rows`` cores, ``pitch_x`` and ``pitch_y`` apart."""

    width: float
    height: float
    frames: tuple[ChipFrame, ...]
    tile_columns: int
    tile_rows: int

    @property
    def pitch_x(self) -> float:
        """From one column of tiles to the next."""
        return self.tile_columns + TILE_GAP

    @property
    def pitch_y(self) -> float:
        """From one row of tiles to the next."""
        return self.tile_rows + TILE_GAP

    def corner(self, tile: Tile) -> tuple[float, float]:
        """The top left corner of a tile; a tile outside of what is drawn has one too, if its chip is drawn."""
        frame = next(frame for frame in self.frames if frame.chip == tile[0])
        return frame.left + (tile[1] - frame.x_first) * self.pitch_x, frame.top + (
            tile[2] - frame.y_first
        ) * self.pitch_y

    def centre(self, tile: Tile) -> tuple[float, float]:
        """The middle of a tile."""
        x, y = self.corner(tile)
        return x + self.tile_columns / 2, y + self.tile_rows / 2


def chip_grid(mesh: Mesh, tiles: Collection[Tile], *, page: tuple[float, float] = (COLUMN_POINTS, _PAGE)) -> ChipGrid:
    """The chips of the tiles, each cropped to them; ``page``: width and height that the cells should fill."""
    columns = math.ceil(math.sqrt(mesh.cores_per_tile))
    rows = math.ceil(mesh.cores_per_tile / columns)
    chips = sorted({tile[0] for tile in tiles}) or [0]
    spans = {chip: _span([t for t in tiles if t[0] == chip] or [(chip, 0, 0)]) for chip in chips}
    margin, grid = 1.0, None
    for _ in range(_ROUNDS):  # margins are of points, lengths of cells: a smaller cell takes more of them
        grids = [_placed(mesh, spans, per_line, (columns, rows), margin) for per_line in range(1, len(chips) + 1)]
        grid = max(grids, key=lambda grid: cell_points(grid, page))
        margin = MARGIN_POINTS / cell_points(grid, page)
    assert grid is not None
    return grid


def cell_points(grid: ChipGrid, page: tuple[float, float] = (COLUMN_POINTS, _PAGE)) -> float:
    """The side of a core in points, where the grid fills a page of this width and height."""
    return min(CELL_POINTS, page[0] / grid.width, page[1] / grid.height)


def _span(tiles: Collection[Tile]) -> tuple[int, int, int, int]:
    xs, ys = [t[1] for t in tiles], [t[2] for t in tiles]
    return min(xs), max(xs) + 1, min(ys), max(ys) + 1


def _placed(
    mesh: Mesh, spans: dict[int, tuple[int, int, int, int]], per_line: int, tile: tuple[int, int], margin: float
) -> ChipGrid:
    columns, rows = tile
    frames: list[ChipFrame] = []
    chips, top, width = list(spans), 0.0, 0.0
    for start in range(0, len(chips), per_line):
        left, tallest = 0.0, 0.0
        for chip in chips[start : start + per_line]:
            x0, x1, y0, y1 = spans[chip]
            size = (x1 - x0) * (columns + TILE_GAP) - TILE_GAP, (y1 - y0) * (rows + TILE_GAP) - TILE_GAP
            cropped = (x1 - x0, y1 - y0) != (mesh.width_tiles, mesh.height_tiles)
            frames.append(ChipFrame(chip, x0, x1, y0, y1, left + margin, top + margin, *size, cropped))
            left += margin + size[0] + CHIP_GAP
            tallest = max(tallest, size[1])
        width = max(width, left - CHIP_GAP)
        top += tallest + 2 * margin + CHIP_GAP
    return ChipGrid(width, top - CHIP_GAP, tuple(frames), columns, rows)
