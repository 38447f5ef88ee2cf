"""The picture of a map as a floor plan: chips and tiles in use on a page, their cores, slices, and how full they are.

Chips without a used core are left
out, and a chip is cropped to the rectangle of tiles with used cores. All dead cores within it are drawn.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace

from nirbridge.chips.model import Chip, CoreId, Mesh
from nirbridge.mapping.model import MappedNetwork
from nirbridge.mapping.storage.record import BlockRecord
from nirbridge.partitioner.cost.resources import limits
from nirbridge.partitioner.model import Block
from nirbridge.report.map_facts import core_number, slice_text
from nirbridge.report.pictures.labels import COLUMN_POINTS


@dataclass(frozen=True, slots=True)
class CorePart:
    """The neurons of one population in a core: their number, share of the core's neurons, and slices in words."""

    population: int
    neurons: int
    share: float
    slices: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class CoreCell:
    """A core: its parts in order, and its use of every limited resource, 0 … 1.

    ``used`` holds the amounts of all resources. ``fullest`` is the resource with the largest share, "" where the core
    is not used or nothing is limited.
    """

    core: CoreId
    name: str
    parts: tuple[CorePart, ...]
    used: Mapping[str, int]
    shares: Mapping[str, float]
    fullest: str
    is_dead: bool

    @property
    def share(self) -> float:
        """The share of the fullest resource."""
        return self.shares.get(self.fullest, 0.0)


@dataclass(frozen=True, slots=True)
class DrawnPopulation:
    """A population of the legend: its name, neurons, and the number of its cores."""

    name: str
    neurons: int
    cores: int


@dataclass(frozen=True, slots=True)
class FloorplanPicture:
    """Cells (by chip, row, column, core) and populations in network order; a part names its by number.

    ``chips_in_use``: chips with a used core; ``cores_used``: cells with parts.
    """

    cells: tuple[CoreCell, ...]
    populations: tuple[DrawnPopulation, ...]
    chips_in_use: int
    cores_used: int


def floorplan_picture(mapped: MappedNetwork) -> FloorplanPicture:
    """The floor plan of a map."""
    blocks = dict(zip(mapped.cores, mapped.partition.blocks, strict=True))
    return floorplan(mapped.chip, mapped.chips, blocks, {p.name: p.size for p in mapped.network.populations})


def floorplan(
    chip: Chip,
    chips: int,
    blocks: Mapping[CoreId, Block | BlockRecord],
    populations: Mapping[str, int],
    *,
    tiles: Collection[Tile] = (),
    cores_max: float = math.inf,
) -> FloorplanPicture:
    """The floor plan of blocks on cores of these chips; ``populations``: neurons by name, in network order.

    ``tiles`` are drawn beside those with blocks. With more than ``cores_max`` cores those in use are drawn alone.
    """
    spans = tile_spans({core[:3] for core in blocks}.union(tiles))
    drawn = sum((x1 - x0) * (y1 - y0) for x0, x1, y0, y1 in spans.values()) * chip.mesh.cores_per_tile
    number, limit, dead = {name: k for k, name in enumerate(populations)}, limits(chip), set(chip.dead_cores)
    cells = []
    for core in cores_of(chip.mesh, spans) if drawn <= cores_max else sorted(blocks):
        block = blocks.get(core)
        parts = () if block is None else _parts(block, number)
        used = {} if block is None else {name: int(amount) for name, amount in block.used.items()}
        shares = {name: used[name] / most for name, most in limit.items() if most and name in used}
        fullest = max(shares, key=lambda name: shares[name]) if shares else ""
        name = core_number(core, chip.mesh, with_chip=chips > 1)
        cells.append(CoreCell(core, name, parts, used, shares, fullest, core in dead))
    held = Counter(name for block in blocks.values() for name in {piece.population for piece in block.slices})
    legend = tuple(DrawnPopulation(name, neurons, held[name]) for name, neurons in populations.items())
    return FloorplanPicture(tuple(cells), legend, len({core.chip for core in blocks}), len(blocks))


def _parts(block: Block | BlockRecord, number: Mapping[str, int]) -> tuple[CorePart, ...]:
    """A slice of a population that is none, or without neurons, which only a file can have, is no part."""
    sizes: Counter[int] = Counter()
    slices: dict[int, list[str]] = {}
    for piece in block.slices:
        neurons = math.prod(max(0, stop - start) for start, stop in piece.box)
        if neurons and piece.population in number:
            sizes[number[piece.population]] += neurons
            slices.setdefault(number[piece.population], []).append(slice_text(piece))
    return tuple(CorePart(p, n, n / sizes.total(), tuple(slices[p])) for p, n in sizes.items())


# -- chip layout ---------------------------------------------------------------------------------------------------
# Where chips, tiles and cores lie on a page: chips side by side, cropped to the tiles in use, tiles a lane apart.


Tile = tuple[int, int, int]
"""Chip, column x, row y."""


@dataclass(frozen=True, slots=True)
class Page:
    """What chips are laid out for: lengths in its own unit, ``lane`` (between tiles) in sides of a core.

    A row of chips takes ``width``, all rows ``height``, where cores can be as small; beyond ``screen`` cores count as
    smaller. ``head``, ``side`` and ``foot``: room above, at the left of and below the tiles of a chip.
    """

    width: float
    height: float
    screen: float
    core_min: float
    core_max: float
    head: float
    side: float
    foot: float
    apart: float
    lane: float


SCREEN = Page(870, math.inf, 800, core_min=7, core_max=60, head=40, side=26, foot=12, apart=26, lane=0.5)
"""A page of HTML in pixels: text beside the tiles is 11 pixels high at any size."""
CARD = replace(SCREEN, height=640)
COLUMN = Page(COLUMN_POINTS, 300, 300, core_min=0.5, core_max=24, head=11, side=10.5, foot=12, apart=8, lane=0.15)
"""A printed column in points."""


@dataclass(frozen=True, slots=True)
class ChipFrame:
    """A chip: columns ``x_first <= x < x_stop`` and rows of tiles that are drawn, and the corner of the first tile.

    ``is_cropped`` where the chip has more.
    """

    chip: int
    x_first: int
    x_stop: int
    y_first: int
    y_stop: int
    left: float
    top: float
    is_cropped: bool


@dataclass(frozen=True, slots=True)
class ChipLayout:
    """Chips within ``width`` x ``height``; a core is a square of ``core``, tiles are ``lane`` apart."""

    mesh: Mesh
    frames: tuple[ChipFrame, ...]
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
        frame = next(frame for frame in self.frames if frame.chip == tile[0])
        width, height = self.tile_size
        x = frame.left + (tile[1] - frame.x_first) * (width + self.lane)
        return x, frame.top + (tile[2] - frame.y_first) * (height + self.lane)

    def corner(self, core: CoreId) -> tuple[float, float]:
        """The corner of a core at the top left."""
        row, column = divmod(core.core, self.tile_columns)
        x, y = self.tile(core[:3])
        return x + column * self.core, y + row * self.core

    def size_of(self, frame: ChipFrame) -> tuple[float, float]:
        """Width and height of the tiles of a chip."""
        width, height = self.tile_size
        across = (frame.x_stop - frame.x_first) * (width + self.lane) - self.lane
        return across, (frame.y_stop - frame.y_first) * (height + self.lane) - self.lane

    def link(self, source: Tile, target: Tile) -> tuple[float, float, float, float]:
        """The stretch of a link in the lane between its tiles; to another chip, a lane beyond the edge of its own.

        Each direction has its own side.
        """
        (chip, x, y), (left, top), (width, height) = source, self.tile(source), self.tile_size
        forth = target[:2] > (chip, x) if target[:2] != (chip, x) else target[2] > y
        aside = min(width, height) * 0.2 * (1 if forth else -1)
        if target[2] != y:
            edge, step = (top + height, self.lane) if forth else (top, -self.lane)
            return left + width / 2 - aside, edge, left + width / 2 - aside, edge + step
        edge, step = (left + width, self.lane) if forth else (left, -self.lane)
        return edge, top + height / 2 + aside, edge + step, top + height / 2 + aside


def chip_layout(mesh: Mesh, tiles: Collection[Tile], page: Page) -> ChipLayout:
    """The layout of these tiles: of all numbers of chips in a row, the one with the largest cores on a screen."""
    spans = tile_spans(tiles)
    found = [_laid(mesh, spans, per_row, page) for per_row in range(1, len(spans) + 1)]
    fitting = [layout for layout in found if layout.width <= page.width + 1e-6] or found[:1]
    return max(fitting, key=lambda layout: (layout.core * min(1.0, page.screen / layout.height), -layout.height))


Span = tuple[int, int, int, int]


def tile_spans(tiles: Collection[Tile]) -> dict[int, Span]:
    """The columns and rows of each chip that hold its tiles: the first and the one after the last."""
    spans: dict[int, Span] = {}
    for chip, x, y in sorted(tiles):
        x0, x1, y0, y1 = spans.get(chip, (x, x, y, y))
        spans[chip] = min(x0, x), max(x1, x + 1), min(y0, y), max(y1, y + 1)
    return spans


def cores_of(mesh: Mesh, spans: dict[int, Span]) -> Iterator[CoreId]:
    """All cores of these columns and rows, by chip, row, column, and number in the tile."""
    for chip, (x0, x1, y0, y1) in spans.items():
        for y in range(y0, y1):
            for x in range(x0, x1):
                yield from (CoreId(chip, x, y, k) for k in range(mesh.cores_per_tile))


def _laid(mesh: Mesh, spans: dict[int, Span], per_row: int, page: Page) -> ChipLayout:
    lines = [list(spans)[k : k + per_row] for k in range(0, len(spans), per_row)]
    columns = max(sum(spans[c][1] - spans[c][0] for c in line) for line in lines)
    rows = sum(max(spans[c][3] - spans[c][2] for c in line) for line in lines)
    side = math.ceil(math.sqrt(mesh.cores_per_tile))
    lane = page.lane * (1.0 if side == 1 else 1.2)
    across = (page.width - per_row * (page.side + page.apart)) / columns / (side + lane)
    down = (page.height - len(lines) * (page.head + page.foot)) / rows / (math.ceil(mesh.cores_per_tile / side) + lane)
    core = min(max(min(across, down), page.core_min), page.core_max)
    layout = ChipLayout(mesh, (), 0, 0, core, core * lane)
    placed: list[ChipFrame] = []
    top = width = 0.0
    for line in lines:
        left, tallest = page.side, 0.0
        for chip in line:
            x0, x1, y0, y1 = spans[chip]
            cropped = (x1 - x0, y1 - y0) != (mesh.width_tiles, mesh.height_tiles)
            placed.append(ChipFrame(chip, x0, x1, y0, y1, left, top + page.head, cropped))
            size = layout.size_of(placed[-1])
            left += size[0] + page.side + page.apart
            tallest = max(tallest, size[1])
        width, top = max(width, left - page.apart), top + page.head + tallest + page.foot
    return replace(layout, frames=tuple(placed), width=width, height=top)
