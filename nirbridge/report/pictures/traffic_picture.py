"""The picture of a map's traffic: the load of every link of the mesh, and who sends how much to whom.

Loads are spikes per time step over one directed link between neighbouring tiles, on multicast trees, as the costs of a
map count them. Chips are a chain along x; a link to the next chip is drawn up to the edge of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from nirbridge.arrays import Array
from nirbridge.chips.boards import board_tiles, chip_places
from nirbridge.mapping.model import MappedNetwork
from nirbridge.mapping.route import DIRECTIONS, HOST_TILE, MulticastTrees, link_loads, multicast_trees, routes
from nirbridge.partitioner.cost.axons import HOST
from nirbridge.report.map_facts import core_name
from nirbridge.report.pictures.floorplan_picture import Tile

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
