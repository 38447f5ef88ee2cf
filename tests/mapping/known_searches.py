"""Stored results of placement searches on small boards: a seed and an effort always give the same result.

``python -m tests.mapping.known_searches`` writes them again, after a change of the search that is meant.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from nirbridge.chips.model import Chip, CoreId, EnergyFigures, TimeFigures
from nirbridge.mapping.cost import costs
from nirbridge.mapping.placement.place import (
    columns_snake,
    exact_cost,
    greedy,
    hilbert,
    in_order,
    place,
    place_random,
    row_major,
    snake,
)
from nirbridge.mapping.placement.tree_moves import PlacementBoard, Sites
from nirbridge.mapping.traffic import pairwise_pulls, traffic
from nirbridge.mapping.traffic_bound import traffic_lower_bound
from nirbridge.partitioner.cost.axons import HOST
from tests.mapping.tables import Group, chip, cores_in_rows, table

KNOWN = Path(__file__).parent / "known" / "searches.json"
Value = dict[str, Any]


def groups(seed: int, blocks: int, count: int) -> list[Group]:
    """Nets of one source (now and then the host) and one to four targets; rates are multiples of 1/4."""
    rng = np.random.default_rng(seed)
    return [
        (
            int(rng.integers(HOST, blocks)),
            int(rng.integers(1, 20)) / 4,
            [int(t) for t in rng.choice(blocks, size=min(int(rng.integers(1, 5)), blocks), replace=False)],
        )
        for _ in range(count)
    ]


def _board(
    seed: int, on: Chip, blocks: int, nets: int, pins: dict[int, CoreId], chips: int
) -> tuple[Any, Any, PlacementBoard]:
    found = traffic(table(groups(seed, blocks, nets)), blocks)
    sites = Sites.of([core for core in cores_in_rows(on, chips) if core not in pins.values()], on)
    return found, pairwise_pulls(found), PlacementBoard.empty(sites, blocks, pins, on)


SMALL, WIDE = chip(3, 3, 1), chip(4, 3, 2, chips_max=2)
BOARDS: tuple[tuple[int, Chip, int, int, dict[int, CoreId], int], ...] = (
    (0, SMALL, 7, 12, {}, 1),
    (1, SMALL, 9, 20, {4: CoreId(0, 2, 2, 0)}, 1),
    (2, WIDE, 12, 25, {0: CoreId(1, 1, 2, 1), 5: CoreId(0, 3, 1, 0)}, 2),
    (3, WIDE, 24, 60, {}, 1),
)


def starts_of_a_search(case: int) -> Value:
    """Two starts, each with its cost."""
    seed, on, blocks, count, pins, chips = BOARDS[case]
    nets, pull, board = _board(seed, on, blocks, count, pins, chips)
    found = {"row-major": in_order(board, row_major(board.sites)), "greedy": greedy(board, pull)}
    return {name: {"value": exact_cost(own, nets).value, "site": own.site.tolist()} for name, own in found.items()}


def placements(case: int) -> Value:
    """Where whole searches of each effort end (the largest only on the smallest board)."""
    seed, on, blocks, count, pins, chips = BOARDS[case]
    axons = table(groups(seed, blocks, count))
    return {
        f"{effort} {s}": [
            list(core) for core in place(axons, blocks, on, chips=chips, seed=s, effort=effort, pins=pins)
        ]
        for effort in ("fast", "default")[: 2 if case < 2 else 1]
        for s in (0, 1)
    }


def orders(_: int = 0) -> Value:
    """Orders of the sites of a board whose sides are no powers of two, on two chips; cores drawn at random."""
    on = chip(5, 3, 1)
    cores = cores_in_rows(on, 2)
    sites = Sites.of([core for core in cores if core != CoreId(0, 1, 1, 0)], on)
    found = {order.__name__: order(sites).tolist() for order in (row_major, snake, columns_snake, hilbert)}
    return found | {"random": [list(core) for core in place_random(cores, 6, 3)]}


def paid(case: int) -> Value:
    """What a placement in rows costs, and the bound of its traffic for each number of cores in a tile."""
    seed, on, blocks, count, _, chips = BOARDS[case]
    axons = table(groups(seed, blocks, count))
    energy = EnergyFigures(1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0)
    time = TimeFigures(1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0)
    priced = chip(on.mesh.width_tiles, on.mesh.height_tiles, on.mesh.cores_per_tile, energy=energy, time=time)
    own = costs(axons, cores_in_rows(on, chips)[:blocks], priced, list(range(1, blocks + 1)), chips=chips)
    bounds = [traffic_lower_bound(axons, blocks, chip(6, 5, c), chips=2) for c in (1, 2, 3, 4)]
    names = ("unicast_spikes_per_step", "multicast_hops_per_step", "max_link_load_spikes_per_step")
    names += ("mean_link_load_spikes_per_step", "energy_per_step_j", "time_per_step_s")
    parts = {"energy": dict(own.energy_breakdown_j), "time": dict(own.time_breakdown_s)}
    return {name: getattr(own, name) for name in names} | parts | {"bounds": bounds}


SEARCHES: dict[str, tuple[Callable[[int], Value], int]] = {
    **{f"starts {k}": (starts_of_a_search, k) for k in range(len(BOARDS))},
    **{f"placements {k}": (placements, k) for k in range(len(BOARDS))},
    **{f"paid {k}": (paid, k) for k in range(len(BOARDS))},
    "orders": (orders, 0),
}


if __name__ == "__main__":
    lines = (f"{json.dumps(name)}: {json.dumps(make(case))}" for name, (make, case) in SEARCHES.items())
    KNOWN.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
