"""Neurons moved between cores: sums kept against a recount, limits of the checker, and maps with fewer hops."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from nirbridge.arrays import freeze
from nirbridge.chips import cores_of
from nirbridge.chips.model import Chip
from nirbridge.mapping.cost import costs
from nirbridge.mapping.placement import neuron_kernels
from nirbridge.mapping.placement import neuron_moves as moves
from nirbridge.network.model import Network, Port, Projection
from nirbridge.network.operators import Dense, Sparse
from nirbridge.partitioner.cost.axons import axon_table, resource_use
from nirbridge.partitioner.cost.sizing import cost_model
from nirbridge.partitioner.model import Slice
from nirbridge.partitioner.search.methods import is_within
from nirbridge.pipeline import MapOptions, map_network
from tests.mapping.hand_made import chip_with, network_of, population
from tests.mapping.placement.machine import Machine

kernels: Any = Machine(neuron_kernels)


def sparse(rng: np.random.Generator, rows: int, columns: int, density: float) -> Sparse:
    mask = rng.random((rows, columns)) < density
    indptr = np.concatenate(([0], np.cumsum(mask.sum(axis=1))))
    return Sparse(indptr, np.nonzero(mask)[1], np.ones(int(mask.sum())), (columns,), (rows,))


def recurrent(seed: int, n: int = 30) -> Network:
    """in (6) -> p, p -> p, p -> q -> p, q with a delay; two decays and three thresholds."""
    rng = np.random.default_rng(seed)
    p = population("p", n, a_mem=freeze(rng.choice([0.5, 0.75], n)))
    q = population("q", 9, theta=freeze(rng.choice([1.0, 2.0, 3.0], 9)))
    ways = [
        Projection("in", "p", sparse(rng, n, 6, 0.2), delay_steps=freeze(1)),
        Projection("p", "p", sparse(rng, n, n, 0.12), delay_steps=freeze(1), is_back=True),
        Projection("p", "q", sparse(rng, 9, n, 0.2), delay_steps=freeze(3)),
        Projection("q", "p", sparse(rng, n, 9, 0.2), delay_steps=freeze(1), is_back=True),
        Projection("p", "q", sparse(rng, 9, n, 0.05), delay_steps=freeze(1)),
    ]
    return network_of([p, q], ways, [Port("in", (6,))])


def mesh(width: int, height: int, per_tile: int, core: dict[str, Any], words: Any = "unlimited") -> Chip:
    base = chip_with("loihi1")
    record: Any = base.record
    size = {"width_tiles": width, "height_tiles": height, "cores_per_tile": per_tile, "chips_max": 1}
    free = dict.fromkeys(("input_axons", "output_axons", "decay_profiles", "threshold_profiles"), "unlimited")
    return chip_with(
        "loihi1", mesh=size, core={**record["core"], **free, **core}, synapses={**record["synapses"], "words": words}
    )


CHIPS = [
    mesh(4, 3, 1, {"neurons": 5}),
    mesh(3, 2, 2, {"neurons": 7, "input_axons": 26}),
    mesh(4, 3, 1, {"neurons": 6, "output_axons": 40}),
    mesh(4, 4, 1, {"neurons": 8, "threshold_profiles": 2, "decay_profiles": 1}),
    mesh(4, 4, 1, {"neurons": 9}, words=40),
]


def setup_of(network: Network, chip: Chip) -> tuple[Any, Any, Any]:
    """A placed map of the network, its cost model and the search on all cores."""
    mapped = map_network(network, chip, MapOptions(effort="fast", placement_only=True, retime="never"))
    sizes = cost_model(mapped.stored_network, chip, mapped.partition.weight_bits)
    lists = moves.neuron_lists(sizes)
    rates = {"p": np.linspace(0, 1, 30), "q": np.full(9, 0.5), "in": np.float64(0.25)}
    sites = moves._sites(mapped.cores, cores_of(chip), 10**6, sizes)
    return mapped, sizes, moves._Setup(lists, moves._point_rates(lists, rates), sites)


@pytest.mark.parametrize("which", range(len(CHIPS)))
def test_sums_kept_are_those_of_a_fresh_board_and_of_the_checker(which: int) -> None:
    mapped, sizes, setup = setup_of(recurrent(which), CHIPS[which])
    owner = moves._owner(setup.lists, tuple(b.slices for b in mapped.partition.blocks))
    board = setup.board(owner)
    state = np.array([77 + which], np.uint64)
    change = kernels.anneal(board, state, len(owner), 1000, 3.0, 1.0)  # hot: starts are good
    moved = board.core[: len(owner)].copy()
    assert np.count_nonzero(moved != owner) > 5
    fresh = setup.board(moved)
    for name in ("counts", "tile_counts", "rows", "spread", "used", "x", "y", "list_counts"):
        assert np.array_equal(getattr(board, name), getattr(fresh, name)), name
    spiking = board.rate > 0  # trees without spikes are not kept up
    assert np.array_equal(board.hops[spiking], fresh.hops[spiking])
    before = float(board.rate @ setup.board(owner).hops)
    assert change == pytest.approx(float(board.rate @ board.hops) - before)
    found = moves._as_moved(setup.lists, moved, setup.sites)
    assert is_within(sizes, found.blocks)
    rates = {"p": np.linspace(0, 1, 30), "q": np.full(9, 0.5), "in": np.float64(0.25)}
    table = axon_table(sizes, found.blocks, rates)
    paid = costs(table, found.cores, CHIPS[which], [1] * len(found.blocks), chips=1)
    assert paid.multicast_hops_per_step == pytest.approx(float(board.rate @ board.hops))
    names = ("neurons", "input_axons", "output_axons", None, "decay_profiles", "threshold_profiles")
    for core, used in zip(np.unique(moved).tolist(), resource_use(sizes, found.blocks), strict=True):
        for row, name in enumerate(names):
            if name is None:
                assert board.used[row, core] >= used["synapse_words"] or board.limits[row] == kernels.UNLIMITED
            elif board.limits[row] < kernels.UNLIMITED or row < 3:
                assert board.used[row, core] == used[name], name


@pytest.mark.parametrize("which", range(len(CHIPS)))
def test_every_accepted_state_is_legal(which: int) -> None:
    mapped, sizes, setup = setup_of(recurrent(10 + which), CHIPS[which])
    owner = moves._owner(setup.lists, tuple(b.slices for b in mapped.partition.blocks))
    board, state = setup.board(owner), np.array([5], np.uint64)
    for _ in range(25):
        kernels.anneal(board, state, len(owner), 12, 5.0, 5.0)
        assert is_within(sizes, moves._as_moved(setup.lists, board.core[: len(owner)], setup.sites).blocks)


def test_spans_of_columns_with_many_rows() -> None:
    rng = np.random.default_rng(0)
    ends = moves._ends_of_bytes()
    for _ in range(200):
        rows = rng.choice(64, size=int(rng.integers(1, 5)), replace=False)
        own = int(rng.integers(-3, 64))
        bits = np.uint64(sum(1 << int(r) for r in rows))
        assert kernels.span_of(ends, bits, own) == max(own, *rows, -9) - min(own, *rows, 99)


def pairs_of_strangers() -> Network:
    """Eight pairs that only hear each other, listed so that no two of a pair are neighbours."""
    order = np.random.default_rng(4).permutation(16)
    weight = np.zeros((16, 16))
    for a, b in order.reshape(8, 2):
        weight[a, b] = weight[b, a] = 1.0
    way = Projection("p", "p", Dense(weight), delay_steps=freeze(1), is_back=True)
    to = Projection("in", "p", Dense(np.eye(16)), delay_steps=freeze(1))
    return network_of([population("p", 16)], [to, way], [Port("in", (16,))])


def test_traffic_brings_neurons_that_hear_each_other_together() -> None:
    chip = mesh(4, 4, 1, {"neurons": 2})
    rates = ({"p": np.full(16, 0.1), "in": np.zeros(16)}, "given")
    options = MapOptions(objective="traffic", placement_only=True, retime="never", rates=rates, effort="fast")
    mapped = map_network(pairs_of_strangers(), chip, options)
    assert mapped.costs.multicast_hops_per_step == 0.0
    again = map_network(pairs_of_strangers(), chip, options)
    assert (again.partition.blocks, again.cores) == (mapped.partition.blocks, mapped.cores)
    assert mapped.partition.report.cores == len(mapped.cores) == 8


def test_pins_and_maps_of_one_core_stay() -> None:
    chip = mesh(4, 4, 1, {"neurons": 4})
    rates = ({"p": np.full(16, 0.1), "in": np.zeros(16)}, "given")
    options = MapOptions(objective="traffic", placement_only=True, retime="never", rates=rates, effort="fast")
    pinned = map_network(pairs_of_strangers(), chip, replace(options, pins={"p": (0, 1, 2, 3)}))
    assert {core.x for core in pinned.cores} == {0, 1, 2, 3}
    sizes = cost_model(pairs_of_strangers(), chip, 8)
    one = moves.move_neurons(sizes, ((Slice("p", ((0, 16),)),),), cores_of(chip)[:1], rates[0], cores_of(chip)[:1])
    assert one is None
