"""Where cores, tiles and links lie on the page: chips side by side, cropped, with lanes for links between tiles."""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass

from nirbridge.chips.model import CoreId, Mesh
from nirbridge.report.pictures.chip_grid import Tile

PAGE_WIDTH = 870.0
"""Pixels that a row of chips may take; text beside them is 11 pixels high at any size."""
SCREEN_HEIGHT = 800.0
"""Pixels that a floor plan may be high without its cores counting as smaller."""
CORE_MIN, CORE_MAX = 7.0, 60.0
_HEAD, _SIDE, _APART = 40.0, 26.0, 26.0


@dataclass(frozen=True, slots=True)
class PlanChip:
    """A chip: columns ``x_first <= x < x_stop`` and rows of tiles that are drawn, and the corner of the first tile."""

    chip: int
    x_first: int
    x_stop: int
    y_first: int
    y_stop: int
    left: float
    top: float


@dataclass(frozen=True, slots=True)
class PlanLayout:
    """Chips within ``width`` x ``height``; a core is a square of ``core``, tiles are ``lane`` apart."""

    mesh: Mesh
    chips: tuple[PlanChip, ...]
    width: float
    height: float
    core: float
    lane: float

    @property
    def tile_columns(self) -> int:
        """Cores side by side in a tile."""
        return math.ceil(math.sqrt(self.mesh.cores_per_tile))

    @property
    def tile_size(self) -> tuple[float, float]:
        """Width and height of a tile."""
        rows = math.ceil(self.mesh.cores_per_tile / self.tile_columns)
        return self.tile_columns * self.core, rows * self.core

    def tile(self, tile: Tile) -> tuple[float, float]:
        """The corner of a tile at the top left."""
        chip = next(chip for chip in self.chips if chip.chip == tile[0])
        width, height = self.tile_size
        x = chip.left + (tile[1] - chip.x_first) * (width + self.lane)
        return x, chip.top + (tile[2] - chip.y_first) * (height + self.lane)

    def corner(self, core: CoreId) -> tuple[float, float]:
        """The corner of a core at the top left."""
        row, column = divmod(core.core, self.tile_columns)
        x, y = self.tile((core.chip, core.x, core.y))
        return x + column * self.core, y + row * self.core

    def size_of(self, chip: PlanChip) -> tuple[float, float]:
        """Width and height of the tiles of a chip."""
        width, height = self.tile_size
        across = (chip.x_stop - chip.x_first) * (width + self.lane) - self.lane
        return across, (chip.y_stop - chip.y_first) * (height + self.lane) - self.lane


def plan_layout(mesh: Mesh, tiles: Collection[Tile], height: float = math.inf) -> PlanLayout:
    """The layout of these tiles: of all numbers of chips in a row, the one with the largest cores on a screen.

    ``height``: pixels that the tiles of all rows of chips may take, where cores can be as small.
    """
    chips = sorted({tile[0] for tile in tiles})
    spans = {chip: _span([tile for tile in tiles if tile[0] == chip]) for chip in chips}
    found = [_laid(mesh, spans, per_row, height) for per_row in range(1, len(chips) + 1)]
    return max(found, key=lambda layout: (layout.core * min(1.0, SCREEN_HEIGHT / layout.height), -layout.height))


def _span(tiles: Collection[Tile]) -> tuple[int, int, int, int]:
    xs, ys = [tile[1] for tile in tiles], [tile[2] for tile in tiles]
    return min(xs), max(xs) + 1, min(ys), max(ys) + 1


def _laid(mesh: Mesh, spans: dict[int, tuple[int, int, int, int]], per_row: int, height: float) -> PlanLayout:
    lines = [list(spans)[k : k + per_row] for k in range(0, len(spans), per_row)]
    columns = max(sum(spans[c][1] - spans[c][0] for c in line) for line in lines)
    room = PAGE_WIDTH - per_row * (_SIDE + _APART)
    side = math.ceil(math.sqrt(mesh.cores_per_tile))
    rows = sum(max(spans[c][3] - spans[c][2] for c in line) for line in lines)
    deep = math.ceil(mesh.cores_per_tile / side) + _lane(1.0, side)
    core = min(max(min(room / columns / (side + _lane(1.0, side)), height / rows / deep), CORE_MIN), CORE_MAX)
    layout = PlanLayout(mesh, (), 0, 0, core, _lane(core, side))
    placed: list[PlanChip] = []
    top = width = 0.0
    for line in lines:
        left, tallest = _SIDE, 0.0
        for chip in line:
            placed.append(PlanChip(chip, *spans[chip], left, top + _HEAD))
            across, down = layout.size_of(placed[-1])
            left += across + _SIDE + _APART
            tallest = max(tallest, down)
        width, top = max(width, left - _APART), top + _HEAD + tallest + 12
    return PlanLayout(mesh, tuple(placed), width, top, core, layout.lane)


def _lane(core: float, side: int) -> float:
    """Space between tiles, in which links are drawn."""
    return core * (0.5 if side == 1 else 0.6)
