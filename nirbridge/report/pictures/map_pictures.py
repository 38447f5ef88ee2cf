"""Pictures of a map on its chips: the floor plan with cores and slices, the load of every link, who sends to whom.

Chips without a used core are left out, and a chip is cropped to the rectangle of tiles with used cores. All dead cores
within it are drawn.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from nirbridge.arrays import Array
from nirbridge.chips.boards import board_tiles, chip_places
from nirbridge.chips.model import Chip, CoreId, Mesh
from nirbridge.mapping.model import MappedNetwork
from nirbridge.mapping.route import DIRECTIONS, HOST_TILE, MulticastTrees, link_loads, multicast_trees, routes
from nirbridge.mapping.storage.record import BlockRecord
from nirbridge.partitioner.cost.axons import HOST
from nirbridge.partitioner.cost.resources import limits
from nirbridge.partitioner.model import Block
from nirbridge.report.map_facts import core_name, core_number, slice_text
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


# -- traffic picture -----------------------------------------------------------------------------------------------
# The picture of a map's traffic: the load of every link of the mesh, and who sends how much to whom.
#
# Loads are spikes per time step over one directed link between neighbouring tiles, on multicast trees, as the costs of
# a map count them. Chips are a chain along x; a link to the next chip is drawn up to the edge of its own.


MATRIX_MAX = 64
"""Cores of a traffic matrix; a map with more has one of populations."""
_STEPS = {"+x": (1, 0), "-x": (-1, 0), "+y": (0, 1), "-y": (0, -1)}


@dataclass(frozen=True, slots=True)
class DrawnLink:
    """A directed link with traffic: its tiles, its load and share of the busiest one's."""

    source: Tile
    target: Tile
    load: float
    share: float

    @property
    def name(self) -> str:
        """``(3, 0) to (4, 0)``, with the chips where they are not the first."""
        if not self.source[0] and not self.target[0]:
            return f"{self.source[1:]} to {self.target[1:]}"
        return f"chip {self.source[0]} {self.source[1:]} to chip {self.target[0]} {self.target[1:]}"


@dataclass(frozen=True, slots=True)
class TrafficPicture:
    """Links from the least load to the greatest (the last one is the busiest), and the tiles with used cores.

    ``host``: the tile where the spikes of inputs enter, None where it is not drawn.
    """

    links: tuple[DrawnLink, ...]
    tiles: tuple[Tile, ...]
    host: Tile | None
    load_max: float
    load_mean: float

    @property
    def drawn(self) -> set[Tile]:
        """The tiles of the picture: those with used cores, and those that links pass."""
        return {*self.tiles, *(tile for link in self.links for tile in (link.source, link.target))}

    @property
    def busiest(self) -> DrawnLink | None:
        """The link with the greatest load; None where no link has any."""
        return self.links[-1] if self.links else None

    @property
    def as_busy(self) -> tuple[DrawnLink, ...]:
        """The links with the greatest load, the busiest one first; sums in another order differ in last digits."""
        return tuple(link for link in self.links[::-1] if link.share >= 1 - 1e-9)


@dataclass(frozen=True, slots=True, eq=False)
class TrafficMatrix:
    """Spikes per time step from every source (row) to every destination: float64 ``spikes`` [sources, destinations].

    ``of`` is "core": a spike counts once for each destination core. With more than ``MATRIX_MAX`` cores it is
    "population": a spike counts for each population that its source projects to, once for each destination core that
    holds a slice of it. Sources begin with the host, if it sends.
    """

    of: str
    sources: tuple[str, ...]
    destinations: tuple[str, ...]
    spikes: Array


def traffic_picture(mapped: MappedNetwork) -> TrafficPicture:
    """The load of all links of a map."""
    used = sorted({(core.chip, core.x, core.y) for core in mapped.cores})
    loads = _loads(mapped, routes(mapped.axons, mapped.cores, mapped.chip).multicast, mapped.axons.spikes_per_step)
    found = _links(mapped, loads)
    most = max((load for *_, load in found), default=0.0)
    links = tuple(DrawnLink(*link, link[2] / most) for link in sorted(found, key=lambda link: (link[2], link[:2])))
    sends = bool((mapped.axons.source_block == HOST).any())
    mean = float(np.mean([load for *_, load in found])) if found else 0.0
    picture = TrafficPicture(links, tuple(used), None, most, mean)
    return replace(picture, host=(0, *HOST_TILE)) if sends and (0, *HOST_TILE) in picture.drawn else picture


def core_routes(mapped: MappedNetwork, block: int) -> tuple[tuple[Tile, Tile, float], ...]:
    """The links that the spikes of a block take (``HOST``: those of the inputs): source tile, target tile, load."""
    chosen = np.flatnonzero(mapped.axons.source_block == block)
    entries = [np.arange(mapped.axons.target_ptr[g], mapped.axons.target_ptr[g + 1]) for g in chosen]
    x, y = _tiles(mapped)
    targets = mapped.axons.targets[np.concatenate(entries)] if entries else np.zeros(0, np.int64)
    group = np.repeat(np.arange(len(chosen)), [len(e) for e in entries])
    start = HOST_TILE if block == HOST else (int(x[block]), int(y[block]))
    x0, y0 = (np.full(len(chosen), at, np.int64) for at in start)
    trees = multicast_trees(x0, y0, group.astype(np.int64), x[targets], y[targets])
    return tuple(sorted(_links(mapped, _loads(mapped, trees, mapped.axons.spikes_per_step[chosen]))))


def traffic_matrix(mapped: MappedNetwork, *, cores_max: int = MATRIX_MAX) -> TrafficMatrix:
    """Who sends how many spikes per time step to which core, or to which population."""
    axons, blocks = mapped.axons, mapped.partition.blocks
    group = np.repeat(np.arange(len(axons.source_block)), np.diff(axons.target_ptr))
    spikes = np.asarray(axons.spikes_per_step, np.float64)[group]
    by_core = len(blocks) <= cores_max
    if by_core:
        names = [core_name(core, mapped) for core in mapped.cores]
        row = np.where(axons.source_block == HOST, 0, axons.source_block + 1)[group]
    else:
        names = [p.name for p in mapped.network.populations]
        number = {name: k + 1 for k, name in enumerate(names)}
        row = np.array([number.get(axons.names[k], 0) for k in axons.source_name], np.int64)[group]
    values = np.zeros((len(names) + 1, len(blocks)))
    np.add.at(values, (row, axons.targets), spikes)
    values = values if by_core else values @ _held(mapped) * _projected(mapped)
    order = _by_place(mapped) if by_core else list(range(len(names)))
    rows = [0, *(k + 1 for k in order)] if values[0].any() else [k + 1 for k in order]
    sources = tuple("host" if k == 0 else names[k - 1] for k in rows)
    return TrafficMatrix(
        "core" if by_core else "population", sources, tuple(names[k] for k in order), values[rows][:, order]
    )


def _by_place(mapped: MappedNetwork) -> list[int]:
    """Blocks by chip, row, column, and core in the tile: in the order of the numbers of cores."""
    return sorted(
        range(len(mapped.cores)), key=lambda b: (*mapped.cores[b][:1], *mapped.cores[b][2:0:-1], mapped.cores[b][3])
    )


def _held(mapped: MappedNetwork) -> Array:
    """[blocks, populations]: 1 where a block holds a slice of the population."""
    number = {p.name: k for k, p in enumerate(mapped.network.populations)}
    held = np.zeros((len(mapped.partition.blocks), len(number)))
    for b, block in enumerate(mapped.partition.blocks):
        for piece in block.slices:
            held[b, number[piece.population]] = 1.0
    return held


def _projected(mapped: MappedNetwork) -> Array:
    """[1 + populations, populations]: 1 where a source (the first is the host) projects to the population."""
    number = {p.name: k for k, p in enumerate(mapped.network.populations)}
    projected = np.zeros((1 + len(number), len(number)))
    for p in mapped.network.projections:
        if p.target in number:
            projected[number.get(p.source, -1) + 1, number[p.target]] = 1.0
    return projected


def _tiles(mapped: MappedNetwork) -> tuple[Array, Array]:
    from nirbridge.mapping.route import tiles_of

    return tiles_of(mapped.cores, mapped.chip)


def _loads(mapped: MappedNetwork, trees: MulticastTrees, rates: Array) -> Array:
    chips = 1 + max((core.chip for core in mapped.cores), default=0)
    return link_loads(trees, rates, *board_tiles(mapped.chip, chips))


def _links(mapped: MappedNetwork, loads: Array) -> Sequence[tuple[Tile, Tile, float]]:
    width, height = mapped.chip.mesh.width_tiles, mapped.chip.mesh.height_tiles
    chip_at = {place: number for number, place in enumerate(chip_places(mapped.chip))}
    found = []
    for y, x, direction in zip(*(axis.tolist() for axis in np.nonzero(loads > 0)), strict=True):
        step = _STEPS[DIRECTIONS[direction]]
        ends = [
            (chip_at[column // width, row // height], column % width, row % height)
            for column, row in ((x, y), (x + step[0], y + step[1]))
        ]
        found.append((ends[0], ends[1], float(loads[y, x, direction])))
    return found
