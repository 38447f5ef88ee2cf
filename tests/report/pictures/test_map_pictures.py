"""Floor plan, traffic, proof, energy: every number against the map that it is of."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import nirbridge as nb
from nirbridge.chips.model import CoreId, EnergyFigures, TimeFigures
from nirbridge.mapping.model import MappedNetwork
from nirbridge.mapping.route import link_loads, routes
from nirbridge.partitioner.cost.axons import HOST
from nirbridge.partitioner.model import SolveReport
from nirbridge.pipeline import network_of_shapes
from nirbridge.report.map_facts import core_rows
from nirbridge.report.pictures.bar_pictures import energy_picture, proof_picture
from nirbridge.report.pictures.map_pictures import (
    CARD,
    COLUMN,
    SCREEN,
    FloorplanPicture,
    Page,
    chip_layout,
    core_routes,
    floorplan_picture,
    traffic_matrix,
    traffic_picture,
)

CHIP = nb.chip("loihi1")


@pytest.fixture(scope="module")
def mapped() -> MappedNetwork:
    """Three chips of three cores a tile, one core dead, several populations in a core."""
    mesh = replace(CHIP.mesh, width_tiles=2, height_tiles=2, cores_per_tile=3, chips_max=4)
    chip = replace(CHIP, core=replace(CHIP.core, neurons=24), mesh=mesh, dead_cores=(CoreId(0, 1, 0, 1),))
    network = network_of_shapes("1x8x8 conv8k3 if conv4k3 if flatten dense20 if dense6 if")
    return nb.map(network, chip, chips=4, objective="traffic")


@pytest.mark.parametrize("page", [SCREEN, CARD, COLUMN])
def test_every_core_is_a_square_of_its_own(mapped: MappedNetwork, page: Page) -> None:
    picture = floorplan_picture(mapped)
    layout = chip_layout(mapped.chip.mesh, {cell.core[:3] for cell in picture.cells}, page)
    corners, core = {cell.core: layout.corner(cell.core) for cell in picture.cells}, layout.core
    assert len(corners) == len(picture.cells)
    for (ax, ay), (bx, by) in itertools.combinations(corners.values(), 2):
        assert max(abs(ax - bx), abs(ay - by)) > core - 1e-9
    for x, y in corners.values():
        assert 0 <= x <= layout.width - core + 1e-9
        assert 0 <= y <= layout.height - core + 1e-9
    for frame in layout.frames:
        for x in range(frame.x_first, frame.x_stop):
            for y in range(frame.y_first, frame.y_stop):
                left, top = layout.tile((frame.chip, x, y))
                places = [(left, top), (left + core, top), (left, top + core)]
                assert [corners[CoreId(frame.chip, x, y, k)] for k in range(3)] == places


def test_cells_hold_what_the_map_holds(mapped: MappedNetwork) -> None:
    picture = floorplan_picture(mapped)
    cells = {cell.core: cell for cell in picture.cells}
    assert {core for core, cell in cells.items() if cell.parts} == set(mapped.cores)
    assert picture.cores_used == len(mapped.cores)
    rows = {row.core: row for row in core_rows(mapped)}
    populations = [p.name for p in mapped.network.populations]
    for core, block in zip(mapped.cores, mapped.partition.blocks, strict=True):
        cell, row = cells[core], rows[core]
        held: dict[str, int] = {}
        for piece in block.slices:
            held[piece.population] = held.get(piece.population, 0) + math.prod(b - a for a, b in piece.box)
        assert {populations[part.population]: part.neurons for part in cell.parts} == held
        assert sum(part.share for part in cell.parts) == pytest.approx(1)
        assert (cell.name, cell.fullest, cell.share) == (row.name, row.fullest, row.share)
        assert cell.used == block.used
    assert [cell.core for cell in picture.cells if cell.is_dead] == [CoreId(0, 1, 0, 1)]
    assert sum(p.cores for p in picture.populations) == sum(len(cell.parts) for cell in picture.cells)
    assert sum(p.neurons for p in picture.populations) == mapped.network.neurons


def test_chips_are_cropped_to_the_tiles_in_use() -> None:
    """One core of a mesh of 64 x 64, and a corner of another chip."""
    mesh = replace(CHIP.mesh, width_tiles=64, height_tiles=64, cores_per_tile=1)
    layout = chip_layout(mesh, [(0, 5, 7), (3, 60, 1), (3, 61, 4)], COLUMN)
    assert [(f.chip, f.x_first, f.x_stop, f.y_first, f.y_stop) for f in layout.frames] == [
        (0, 5, 6, 7, 8),
        (3, 60, 62, 1, 5),
    ]
    assert all(frame.is_cropped for frame in layout.frames)
    assert not chip_layout(mesh, [(0, 0, 0), (0, 63, 63)], COLUMN).frames[0].is_cropped


@pytest.mark.parametrize("page", [SCREEN, CARD, COLUMN])
@pytest.mark.parametrize("chips", [1, 2, 3, 8, 17, 300])
def test_chips_do_not_overlap(chips: int, page: Page) -> None:
    mesh = replace(CHIP.mesh, width_tiles=8, height_tiles=16, cores_per_tile=1)
    tiles = [(c, x, y) for c in range(chips) for x in (0, 7 - c % 3) for y in (0, 15 - c % 2)]
    layout = chip_layout(mesh, tiles, page)
    assert len(layout.frames) == chips
    boxes = [(frame.left, frame.top, *layout.size_of(frame)) for frame in layout.frames]
    for (ax, ay, aw, ah), (bx, by, bw, bh) in itertools.combinations(boxes, 2):
        assert max(ax - bx - bw, bx - ax - aw, ay - by - bh, by - ay - ah) >= page.apart - 1e-9
    assert max(x + width for x, _, width, _ in boxes) <= layout.width + 1e-9
    assert layout.width <= page.width + 1e-9
    assert max(y + height for _, y, _, height in boxes) < layout.height
    assert chips > 17 or layout.height <= page.height + 1e-9 or layout.core == page.core_min


def test_links_carry_what_the_costs_count(mapped: MappedNetwork) -> None:
    picture = traffic_picture(mapped)
    assert picture.load_max == pytest.approx(mapped.costs.max_link_load_spikes_per_step)
    assert picture.load_mean == pytest.approx(mapped.costs.mean_link_load_spikes_per_step)
    assert sum(link.load for link in picture.links) == pytest.approx(mapped.costs.multicast_hops_per_step)
    assert picture.busiest is picture.links[-1]
    assert picture.busiest is not None
    assert picture.busiest.load == picture.load_max
    assert picture.busiest.share == 1
    assert len({(link.source, link.target) for link in picture.links}) == len(picture.links)
    layout = chip_layout(mapped.chip.mesh, picture.drawn, COLUMN)
    for link in picture.links:
        (a, xa, ya), (b, xb, yb) = link.source, link.target
        assert abs((b - a) * 2 + xb - xa) + abs(yb - ya) == 1
        x0, y0, x1, y1 = layout.link(link.source, link.target)
        direction = np.sign(round(x1 - x0, 9)), np.sign(round(y1 - y0, 9))
        assert direction == (np.sign((b - a) * 2 + xb - xa), np.sign(yb - ya))
    assert any(link.source[0] != link.target[0] for link in picture.links)
    assert picture.host == (0, 0, 0)


def test_the_two_directions_between_two_tiles_do_not_cover_each_other(mapped: MappedNetwork) -> None:
    picture = traffic_picture(mapped)
    layout = chip_layout(mapped.chip.mesh, picture.drawn, COLUMN)
    lines = [layout.link(link.source, link.target) for link in picture.links]
    assert len({tuple(sorted(((a, b), (c, d)))) for a, b, c, d in lines}) == len(lines)


def test_routes_of_all_cores_add_up_to_the_links(mapped: MappedNetwork) -> None:
    total: dict[Any, float] = {}
    for block in (HOST, *range(len(mapped.cores))):
        for source, target, load in core_routes(mapped, block):
            total[source, target] = total.get((source, target), 0.0) + load
    assert total == pytest.approx({(li.source, li.target): li.load for li in traffic_picture(mapped).links})
    one = next(b for b in range(len(mapped.cores)) if core_routes(mapped, b))
    alone = np.where(mapped.axons.source_block == one, mapped.axons.spikes_per_step, 0.0)
    paths = routes(mapped.axons, mapped.cores, mapped.chip).multicast
    assert sum(load for *_, load in core_routes(mapped, one)) == pytest.approx(link_loads(paths, alone, 8, 2).sum())


def test_the_matrix_counts_every_message(mapped: MappedNetwork) -> None:
    matrix = traffic_matrix(mapped)
    assert (matrix.of, matrix.sources[0], len(matrix.destinations)) == ("core", "host", len(mapped.cores))
    assert matrix.destinations == matrix.sources[1:]
    own = np.trace(matrix.spikes[1:])
    assert matrix.spikes.sum() - own == pytest.approx(mapped.costs.unicast_spikes_per_step)
    by_population = traffic_matrix(mapped, cores_max=3)
    assert by_population.of == "population"
    assert by_population.destinations == tuple(p.name for p in mapped.network.populations)
    assert by_population.spikes.sum() == pytest.approx(matrix.spikes.sum())  # a chain: each has one target
    assert by_population.sources[0] == "host"
    assert [(row > 0).tolist() for row in by_population.spikes] == np.eye(5, 4, dtype=bool).tolist()[
        : len(by_population.sources)
    ]


def _report(**changes: Any) -> SolveReport:
    report = SolveReport("m", "feasible", 9, 6, 7, {"neurons": 6, "synapse_words": 5}, "neurons", 0, "s", 1.0)
    return replace(report, **changes)


@pytest.mark.parametrize(
    ("changes", "gap", "said"),
    [
        ({}, 3, "9 cores, at most 3 above the optimum; any map needs at least 6 (set by neurons)"),
        (
            {"status": "optimal", "cores": 6, "cores_lower_bound_sliced": 6},
            0,
            "6 cores: no map needs fewer (set by neurons)",
        ),
        (
            {"status": "optimal-sliced", "cores": 7},
            1,
            "7 cores, the fewest for rectangular slices, each stored by itself;"
            " any map needs at least 6 (set by neurons)",
        ),
        (
            {"status": "optimal", "cores": 1, "cores_lower_bound": 1, "cores_lower_bound_sliced": 1},
            0,
            "1 core: no map needs fewer (set by neurons)",
        ),
    ],
)
def test_the_proof_in_bars_and_one_sentence(
    mapped: MappedNetwork, changes: dict[str, Any], gap: int, said: str
) -> None:
    partition = replace(mapped.partition, report=_report(**changes))
    picture = proof_picture(partition)
    assert (picture.gap, picture.sentence) == (gap, said)
    assert proof_picture(replace(mapped, partition=partition)) == picture
    assert picture.bars[0].cores == partition.report.cores
    assert [(bar.label, bar.cores, bar.decides) for bar in picture.bars if bar.kind == "bound"] == [
        ("bound: neurons", 6, True),
        ("bound: synapse words", 5, False),
    ]
    sliced = [bar.cores for bar in picture.bars if bar.kind == "sliced"]
    assert sliced == (
        [7] if partition.report.cores_lower_bound < 7 and partition.report.cores_lower_bound_sliced == 7 else []
    )


def test_energy_and_time_are_those_of_the_costs(mapped: MappedNetwork) -> None:
    energy, time = energy_picture(mapped).bars
    assert (energy.total, time.total) == (mapped.costs.energy_per_step_j, mapped.costs.time_per_step_s)
    for bar, values in ((energy, mapped.costs.energy_breakdown_j), (time, mapped.costs.time_breakdown_s)):
        assert {part.kind: part.value for part in bar.parts} == {k: v for k, v in values.items() if v > 0}
        assert bar.parts[0].start == 0
        assert bar.parts[-1].stop == pytest.approx(1)
        assert all(a.stop == b.start for a, b in itertools.pairwise(bar.parts))
        assert all(part.source for part in bar.parts)


def test_a_chip_without_figures_has_no_energy(mapped: MappedNetwork) -> None:
    chip = replace(mapped.chip, energy=EnergyFigures(), time=TimeFigures(barrier_s=1e-6))
    costs = replace(
        mapped.costs,
        energy_per_step_j=None,
        time_per_step_s=1e-6,
        energy_breakdown_j={},
        time_breakdown_s={"barrier": 1e-6},
    )
    energy, time = energy_picture(replace(mapped, chip=chip, costs=costs)).bars
    assert (energy.total, energy.parts) == (None, ())
    assert "synaptic operations" in energy.missing
    assert [(part.kind, part.start, part.stop) for part in time.parts] == [("barrier", 0, 1)]


def test_one_core_has_no_links_of_its_own() -> None:
    mapped = nb.map(network_of_shapes("1 dense1 lif"), "loihi1")
    picture: FloorplanPicture = floorplan_picture(mapped)
    assert (picture.cores_used, len(picture.cells)) == (1, 4)
    traffic = traffic_picture(mapped)
    assert all(link.source[0] == 0 for link in traffic.links)
    assert traffic.load_max == pytest.approx(mapped.costs.max_link_load_spikes_per_step)
