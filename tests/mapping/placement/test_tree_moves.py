"""Annealing of exact trees: links and loads kept against a recount, and placements that are never worse."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nirbridge._types import Progress
from nirbridge.chips.model import Chip, CoreId
from nirbridge.mapping.placement import part_kernels, tree_kernels, tree_moves
from nirbridge.mapping.placement.place import (
    EFFORTS,
    annealed_on_trees,
    exact_cost,
    in_order,
    place,
    place_random,
    search_placement,
)
from nirbridge.mapping.placement.tree_moves import (
    NO_TREES,
    PlacementBoard,
    Runs,
    Sites,
    TreeBudget,
    annealed_trees,
    runs_and_steps,
    tree_board,
)
from nirbridge.mapping.traffic import Traffic, traffic
from nirbridge.pipeline import MapOptions, map_network
from tests.cases import cases
from tests.mapping.known_searches import groups
from tests.mapping.placement.machine import Machine
from tests.mapping.tables import chip, cores_in_rows, group_lists, table
from tests.partitioner.cases import LOIHI
from tests.partitioner.nets import network_of

ROOT = Path(__file__).resolve().parents[3]
kernels: Any = Machine(part_kernels)
trees_of: Any = Machine(tree_kernels)
RUNS = Runs(1, 400)


@st.composite
def positions(draw: st.DrawFn) -> tuple[PlacementBoard, Traffic]:
    """Two to nine blocks on one or two chips of 3 x 2 tiles with two cores, perhaps one pinned and one core dead."""
    chips, blocks = draw(st.integers(1, 2)), draw(st.integers(2, 9))
    on = chip(3, 2, 2, dead=[CoreId(0, 2, 0, 1)] if draw(st.booleans()) else [])
    pins = {0: CoreId(0, 1, 1, 0)} if draw(st.booleans()) else {}
    free = [core for core in cores_in_rows(on, chips) if core not in pins.values() and core not in on.dead_cores]
    board = PlacementBoard.empty(Sites.of(free, on), blocks, pins, on)
    order = np.random.default_rng(draw(st.integers(0, 99))).permutation(len(free))
    return in_order(board, order), traffic(table(draw(group_lists(blocks))), blocks)


def as_board(start: PlacementBoard, trees: Any) -> PlacementBoard:
    """The position that a compiled board holds."""
    board = start.copy()
    board.put(board.movable, trees.site[board.movable])
    assert board.block.tolist() == trees.first[: len(board.block)].tolist()
    return board


@settings(max_examples=cases(20, 60), deadline=None)
@given(positions(), st.integers(1, 2**63 - 1), st.lists(st.booleans(), min_size=1, max_size=12))
def test_links_and_loads_brought_up_to_date_are_those_of_the_trees(
    made: tuple[PlacementBoard, Traffic], seed: int, taken: list[bool]
) -> None:
    """Every proposal, kept or refused, leaves the links, the loads and the busiest link of its position."""
    start, nets = made
    if len(start.movable) == 0:
        return
    trees, state = tree_board(start, nets, RUNS), np.array([seed], np.uint64)
    for keep in taken:
        before = exact_cost(as_board(start, trees), nets)
        moves, what = kernels.propose(trees, kernels.BLOCKS, state)
        if moves == 0:
            continue
        change, count = kernels.weigh(trees, moves)
        if not kernels.accept(trees, moves, what, count, change, 1e9 if keep else -1e9):
            assert not keep
        after = exact_cost(as_board(start, trees), nets)
        assert trees.links.tolist() == after.hops.tolist()
        assert trees_of.busiest(trees)[0] == pytest.approx(after.loads.max(initial=0.0), abs=1e-9)
        assert trees.tally[trees_of.PEAK] == pytest.approx(after.loads.max(initial=0.0), abs=1e-9)
        if keep:
            assert change == pytest.approx(nets.rate @ (after.hops - before.hops), abs=1e-9)
        else:
            assert after.hops.tolist() == before.hops.tolist()


@settings(max_examples=cases(20, 60), deadline=None)
@given(positions(), st.integers(0, 99))
def test_the_best_position_costs_what_annealing_says_and_pins_stay(
    made: tuple[PlacementBoard, Traffic], seed: int
) -> None:
    start, nets = made
    if len(start.movable) == 0 or len(nets.source) == 0:
        return
    trees, best = tree_board(start, nets, RUNS), start.site.copy()
    before = trees.site.copy()
    kernels.anneal(trees, kernels.BLOCKS, np.array([seed + 1], np.uint64), 400, 0.5, 0.05, best)
    found, gain = start.copy(), trees.tally[trees_of.LOWEST]
    found.put(found.movable, best[found.movable])
    assert exact_cost(found, nets).value == pytest.approx(exact_cost(start, nets).value + gain, abs=1e-6)
    fixed = np.setdiff1d(np.arange(nets.blocks), start.movable)
    assert trees.site[fixed].tolist() == before[fixed].tolist()
    better = annealed_trees(start, nets, np.random.default_rng(seed), RUNS)
    assert better is None or exact_cost(better, nets).value < exact_cost(start, nets).value
    again = annealed_trees(start, nets, np.random.default_rng(seed), RUNS)
    assert (better is None) == (again is None)
    assert better is None or again is None or better.site.tolist() == again.site.tolist()


def random_board(seed: int) -> tuple[PlacementBoard, Traffic]:
    """24 blocks with 60 nets on 4 x 3 tiles of two cores."""
    on = chip(4, 3, 2)
    return PlacementBoard.empty(Sites.of(cores_in_rows(on), on), 24, {}, on), traffic(table(groups(seed, 24, 60)), 24)


def test_no_placement_is_worse_with_trees_and_most_are_better() -> None:
    better = 0
    for seed in range(12):
        board, nets = random_board(seed)
        with_trees = search_placement(board, nets, 0, EFFORTS["fast"], lambda *_: None)
        without = search_placement(board, nets, 0, NO_TREES, lambda *_: None)
        values = [exact_cost(found, nets).value for found in (with_trees, without)]
        assert values[0] <= values[1]
        better += values[0] < values[1]
    assert better >= 6


@settings(max_examples=cases(20, 60), deadline=None)
@given(positions(), st.integers(1, 2**63 - 1))
def test_the_busiest_link_is_relieved_by_no_more_than_the_trees_on_it(
    made: tuple[PlacementBoard, Traffic], seed: int
) -> None:
    start, nets = made
    if len(start.movable) == 0:
        return
    trees, state = tree_board(start, nets, RUNS), np.array([seed], np.uint64)
    for _ in range(8):
        loads, peak = trees.loads.copy(), tuple(trees.peak)
        assert loads[peak] == pytest.approx(loads.max(), abs=1e-9)
        on_peak = [g for g in range(len(nets.source)) if trees_of.is_on(trees, g, *peak)]
        assert float(nets.rate[on_peak].sum()) == pytest.approx(loads[peak], abs=1e-9)
        moves, what = kernels.propose(trees, kernels.BLOCKS, state)
        if moves == 0:
            continue
        change, count = kernels.weigh(trees, moves)
        relief = kernels.relief(trees, count)
        assert kernels.accept(trees, moves, what, count, change, 1e9)
        assert loads[peak] - trees.loads[peak] <= relief + 1e-9


def test_runs_and_steps_of_a_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    board, nets = random_board(0)
    sites = board.sites
    step = tree_moves.STEP_NETS + int((tree_moves.OF_PARTS + tree_moves.OF_BLOCKS) * len(nets.nets) / 24)
    assert runs_and_steps(24, nets, sites, NO_TREES) == Runs(0, 0)
    assert runs_and_steps(24, nets, sites, TreeBudget(2, 1_000, 10**9)) == Runs(2, 24_000)
    assert runs_and_steps(24, nets, sites, TreeBudget(2, 1_000, 2 * 24_000 * step)) == Runs(2, 24_000)
    assert runs_and_steps(24, nets, sites, TreeBudget(2, 1_000, 2 * 24_000 * step - 1)) == Runs(1, 24_000)
    assert runs_and_steps(24, nets, sites, TreeBudget(2, 1_000, 9_600 * step)) == Runs(1, 9_600)
    fewer = TreeBudget(2, 1_000, 9_600 * step - 1)
    assert runs_and_steps(24, nets, sites, fewer) == Runs(0, 0)  # fewer than 400 a block
    assert runs_and_steps(24, nets, sites, fewer, least=399) == Runs(1, 9_599)
    longer = tree_moves.STEP_NETS + int((tree_moves.OF_PARTS + 5 * tree_moves.OF_BLOCKS) * len(nets.nets) / 24)
    assert runs_and_steps(24, nets, sites, TreeBudget(1, 1_000, 9_600 * longer), parts_of_block=5) == Runs(1, 9_600)
    assert runs_and_steps(1, traffic(table([]), 1), sites, TreeBudget(2, 1_000, 10**9)) == Runs(0, 0)
    due = TreeBudget(1, 1_000, 9_600 * step, 600, 20_000 * step)
    assert runs_and_steps(24, nets, sites, due) == Runs(1, 14_400)
    assert runs_and_steps(24, nets, sites, TreeBudget(1, 1_000, 9_600 * step, 600, 12_000 * step)) == Runs(1, 12_000)
    assert runs_and_steps(24, nets, sites, TreeBudget(1, 500, 9_600 * step, 600, 20_000 * step)) == Runs(1, 12_000)
    assert runs_and_steps(24, nets, sites, TreeBudget(1, 1_000, 20_000 * step, 600, 10_000 * step)) == Runs(1, 20_000)
    entries, count = len(nets.targets), len(nets.source)
    assert entries > count
    for short, steps in ((0, 9_600), (1, 9_599)):  # targets // mean targets, in nets
        targets = (9_600 * step * entries - short * entries) // count + (short == 0)
        few = TreeBudget(2, 1_000, 10**9, targets=targets)
        assert runs_and_steps(24, nets, sites, few, least=399) == Runs(1, steps)
    assert runs_and_steps(24, nets, sites, TreeBudget(2, 1_000, 10**9, targets=10**12)) == Runs(2, 24_000)
    # 12 tiles of two cores each
    monkeypatch.setattr(tree_moves, "COUNTS_MAX", len(nets.source) * (12 + 24))
    assert runs_and_steps(24, nets, sites, TreeBudget(2, 1_000, 10**9)) == Runs(2, 24_000)
    monkeypatch.setattr(tree_moves, "COUNTS_MAX", len(nets.source) * (12 + 24) - 1)
    assert runs_and_steps(24, nets, sites, TreeBudget(2, 1_000, 10**9)) == Runs(0, 0)


def test_few_steps_are_the_one_run_of_a_small_map() -> None:
    board, nets = random_board(0)
    step = tree_moves.STEP_NETS + int((tree_moves.OF_PARTS + tree_moves.OF_BLOCKS) * len(nets.nets) / 24)
    budget = TreeBudget(2, 1_000, 10**9, small=(10, 240 * step))
    assert runs_and_steps(24, nets, board.sites, budget) == Runs(1, 240, is_small=True)
    budget = TreeBudget(2, 1_000, 10**9, small=(10, 240 * step - 1))
    assert runs_and_steps(24, nets, board.sites, budget) == Runs(2, 24_000)


def test_plain_code_gives_what_compiled_code_gives_to_the_last_bit() -> None:
    for seed in range(4):
        start, nets = random_board(seed)
        found = []
        for run in (Runs(1, 300, is_small=True), Runs(1, 300)):
            trees, best = tree_board(start, nets, run), start.site.copy()
            state = np.array([seed + 1], np.uint64)
            run.code(part_kernels.anneal)(trees, kernels.BLOCKS, state, 300, 2.0, 0.05, best)
            found.append([*(a.tolist() for a in trees), best.tolist(), state.tolist()])
        assert found[0] == found[1]


def test_a_small_map_is_made_without_the_compiler(tmp_path: Path) -> None:
    code = (
        "import sys; from nirbridge.cli.main import main; out = sys.argv[1]\n"
        "try: main(['map', 'examples/models/digits_cnn.nir', '--chip', 'examples/chips/my_chip.toml', '-o', out])\n"
        "except SystemExit: pass\n"
        "sys.exit('numba' in sys.modules)"
    )
    command = [sys.executable, "-c", code, str(tmp_path / "digits.map.json")]
    subprocess.run(command, check=True, cwd=ROOT, capture_output=True)
    assert (tmp_path / "digits.map.json").exists()


def test_stages_and_runs_are_told() -> None:
    told: list[tuple[str, float | None]] = []
    on = chip(4, 3, 2)
    place(table(groups(3, 24, 60)), 24, on, effort="max", progress=lambda stage, done: told.append((stage, done)))
    assert [done for stage, done in told if stage == "anneal trees"] == [(k + 1) / 12 for k in range(12)]


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 99), st.integers(1, 2))
def test_a_placed_map_is_annealed_from_where_it_is(seed: int, chips: int) -> None:
    """No dearer than before, pins where they were, and every block on a core of its own."""
    on, nets = chip(4, 3, 2), random_board(seed)[1]
    cores = place_random(cores_in_rows(on, chips), 24, seed)
    pins = {0: cores[0], 7: cores[7]}
    found = annealed_on_trees(nets, cores, on, chips=chips, seed=seed, effort="fast", pins=pins)
    assert len(set(found)) == 24
    assert {block: found[block] for block in pins} == pins
    assert placed_value(nets, found, on) < placed_value(nets, cores, on)  # a random one is never the best
    assert annealed_on_trees(traffic(table([]), 24), cores, on, chips=chips) == cores


def placed_value(nets: Traffic, cores: tuple[CoreId, ...], on: Chip) -> float:
    """Hops and busiest link of blocks on cores."""
    board = PlacementBoard.empty(Sites.of(cores, on), len(cores), {}, on)
    board.put(board.movable, board.movable)
    return exact_cost(board, nets).value


def test_a_traffic_map_anneals_the_trees_of_its_last_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Moves of slices and of neurons make other blocks."""
    told: list[str] = []
    progress: Progress = lambda stage, _: told.append(stage)  # noqa: E731
    options = MapOptions(placement_only=True, objective="traffic", effort="fast", progress=progress)
    net = network_of("1x8x8 conv16k5p2 lif conv20k1 lif conv18k5p2 lif conv24k1 lif")
    mapped = map_network(net, LOIHI, options)
    # before and after the slices of each of three candidates, and at the end
    assert told.count("anneal trees") <= 2 * 3 + 1
    last = {stage: k for k, stage in enumerate(told)}
    assert last["anneal trees"] > max(last["place"], last["move slices"], last["move neurons"])
    before = mapped.costs.multicast_hops_per_step
    monkeypatch.setattr("nirbridge.pipeline.map.with_annealed_trees", lambda placed, *_: placed)
    assert before <= map_network(net, LOIHI, options).costs.multicast_hops_per_step
