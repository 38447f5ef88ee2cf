"""The picture of a map as a floor plan: every core of the tiles in use, its slices, and how full it is.

Lengths are in sides of a core, y downwards as the rows of the mesh are numbered. Chips without a used core are left
out, and a chip is cropped to the rectangle of tiles with used cores. All dead cores within it are drawn.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from nirbridge.chips.model import CoreId
from nirbridge.mapping.model import MappedNetwork
from nirbridge.partitioner.cost.resources import limits
from nirbridge.partitioner.model import Block
from nirbridge.report.map_facts import core_name, slice_text
from nirbridge.report.pictures.chip_grid import ChipGrid, chip_grid


@dataclass(frozen=True, slots=True)
class CorePart:
    """The neurons of one population in a core: their number, share of the core's neurons, and slices in words."""

    population: int
    neurons: int
    share: float
    slices: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class CoreCell:
    """A core: the corner of its unit square, its parts in order, and its use of every limited resource, 0 … 1.

    ``used`` holds the amounts of all resources. ``fullest`` is the resource with the largest share, "" where the core
    is not used or nothing is limited.
    """

    core: CoreId
    name: str
    x: float
    y: float
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
    """Chips, cells (by chip, row, column, core) and populations in network order; a part names its by number.

    ``chips_in_use``: chips with a used core; ``cores_used`` and ``cores_drawn``: cells with and without parts.
    """

    grid: ChipGrid
    cells: tuple[CoreCell, ...]
    populations: tuple[DrawnPopulation, ...]
    chip_name: str
    chips_in_use: int
    cores_used: int

    @property
    def cores_drawn(self) -> int:
        """Cells of the picture, used or not."""
        return len(self.cells)


def floorplan_picture(mapped: MappedNetwork) -> FloorplanPicture:
    """The floor plan of a map."""
    mesh = mapped.chip.mesh
    grid = chip_grid(mesh, sorted({(core.chip, core.x, core.y) for core in mapped.cores}))
    blocks = dict(zip(mapped.cores, mapped.partition.blocks, strict=True))
    number = {p.name: k for k, p in enumerate(mapped.network.populations)}
    limit, dead = limits(mapped.chip), set(mapped.chip.dead_cores)
    cells = []
    for frame in grid.frames:
        for y in range(frame.y_first, frame.y_stop):
            for x in range(frame.x_first, frame.x_stop):
                left, top = grid.corner((frame.chip, x, y))
                for k in range(mesh.cores_per_tile):
                    core = CoreId(frame.chip, x, y, k)
                    row, column = divmod(k, grid.tile_columns)
                    block = blocks.get(core)
                    parts = () if block is None else _parts(block, number)
                    used = {} if block is None else {name: int(amount) for name, amount in block.used.items()}
                    shares = {name: used[name] / most for name, most in limit.items() if most and name in used}
                    fullest = max(shares, key=lambda name: shares[name]) if shares else ""
                    place = core_name(core, mapped), left + column, top + row
                    cells.append(CoreCell(core, *place, parts, used, shares, fullest, core in dead))
    return FloorplanPicture(
        grid, tuple(cells), _populations(mapped), mapped.chip.name, len({c.chip for c in mapped.cores}), len(blocks)
    )


def _parts(block: Block, number: Mapping[str, int]) -> tuple[CorePart, ...]:
    sizes: dict[int, int] = {}
    slices: dict[int, list[str]] = {}
    for piece in block.slices:
        population = number[piece.population]
        sizes[population] = sizes.get(population, 0) + math.prod(stop - start for start, stop in piece.box)
        slices.setdefault(population, []).append(slice_text(piece))
    total = max(1, sum(sizes.values()))
    return tuple(CorePart(p, n, n / total, tuple(slices[p])) for p, n in sizes.items())


def _populations(mapped: MappedNetwork) -> tuple[DrawnPopulation, ...]:
    cores = dict.fromkeys((p.name for p in mapped.network.populations), 0)
    for block in mapped.partition.blocks:
        for name in {piece.population for piece in block.slices}:
            cores[name] += 1
    return tuple(DrawnPopulation(p.name, p.size, cores[p.name]) for p in mapped.network.populations)
