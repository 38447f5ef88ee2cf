"""The picture of a map as a floor plan: every core of the tiles in use, its slices, and how full it is.

Chips without a used core are left
out, and a chip is cropped to the rectangle of tiles with used cores. All dead cores within it are drawn.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from nirbridge.chips.model import Chip, CoreId
from nirbridge.mapping.model import MappedNetwork
from nirbridge.mapping.storage.record import BlockRecord
from nirbridge.partitioner.cost.resources import limits
from nirbridge.partitioner.model import Block
from nirbridge.report.map_facts import core_number, slice_text
from nirbridge.report.pictures.chip_layout import Tile, cores_of, tile_spans


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
