"""Slices moved between cores: sums kept against a recount, limits counted in full, and maps with fewer hops."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations, pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nirbridge.chips import cores_of
from nirbridge.chips.model import Chip
from nirbridge.mapping.cost import costs
from nirbridge.mapping.placement import part_kernels, tree_kernels
from nirbridge.mapping.placement import slice_moves as moves
from nirbridge.mapping.placement.neuron_moves import Moved
from nirbridge.mapping.placement.slice_moves import CutSlices, SliceTree, cut_slices
from nirbridge.mapping.placement.tree_moves import Runs, Sites
from nirbridge.network.model import Network
from nirbridge.partitioner import PartitionOptions, partition
from nirbridge.partitioner.cost.axons import Blocks, axon_table, resource_use
from nirbridge.partitioner.cost.sizing import CostModel, box_size, cost_model
from nirbridge.partitioner.model import Slice
from nirbridge.partitioner.search.methods import is_within
from nirbridge.pipeline import MapOptions, map_network
from tests.cases import cases
from tests.mapping.hand_made import chip_with
from tests.mapping.placement.machine import Machine
from tests.mapping.placement.test_neuron_moves import mesh, recurrent
from tests.partitioner.cases import LOIHI
from tests.partitioner.nets import network_of

kernels: Any = Machine(part_kernels)
boards: Any = Machine(tree_kernels)

CHIPS = [
    mesh(4, 4, 1, {"neurons": 5}),
    mesh(4, 3, 2, {"neurons": 9, "input_axons": 27}),
    mesh(4, 4, 1, {"neurons": 9, "output_axons": 40}),
    mesh(5, 5, 1, {"neurons": 8, "threshold_profiles": 2, "decay_profiles": 2}),
    mesh(5, 5, 1, {"neurons": 9}, words=60),
]
RATES: dict[str, Any] = {"p": np.linspace(0, 1, 30), "q": np.full(9, 0.5), "in": np.float64(0.25)}
CONVOLUTIONS = "2x16x16 conv16k5p2 lif conv24k3p1 lif conv16k5p2 lif"


def cut(network: Network, chip: Chip, seed: int) -> tuple[CostModel, Blocks]:
    """Blocks of small slices, put into cores in a random order as long as each is within its limits."""
    sizes, rng = cost_model(network, chip, 8), np.random.default_rng(seed)
    slices = []
    for p in network.populations:
        ends = np.minimum(np.append(0, np.cumsum(rng.integers(1, 4, p.size))), p.size)
        ends = np.unique(ends)
        slices += [Slice(p.name, ((int(a), int(b)),)) for a, b in pairwise(ends)]
    alone = [[s] if is_within(sizes, [(s,)]) else _singles(s) for s in slices]
    slices = [s for own in alone for s in own]
    blocks: list[tuple[Slice, ...]] = []
    for k in rng.permutation(len(slices)):
        for i, own in enumerate(blocks):
            grown = [*blocks[:i], (*own, slices[k]), *blocks[i + 1 :]]
            if is_within(sizes, grown):
                blocks = grown
                break
        else:
            blocks.append((slices[k],))
    assert is_within(sizes, blocks)
    assert len(blocks) <= len(cores_of(chip))
    return sizes, tuple(blocks)


def _singles(piece: Slice) -> list[Slice]:
    return [Slice(piece.population, ((k, k + 1),)) for k in range(*piece.box[0])]


def board_of(sizes: CostModel, blocks: Blocks) -> tuple[Any, list[Slice], Any]:
    """The compiled board with block b on the chip's core b, its slices, and the description that it was made of."""
    slices = [s for own in blocks for s in own]
    table = axon_table(sizes, [(s,) for s in slices], RATES)
    site = np.repeat(np.arange(len(blocks)), [len(own) for own in blocks])
    parts = moves._parts(sizes, slices, table, moves._nets(table, len(slices)), np.arange(len(slices)), site)
    return board_on(parts, sizes), slices, parts


def board_on(parts: Any, sizes: CostModel) -> Any:
    return parts.on(
        Sites.of(cores_of(sizes.chip), sizes.chip), np.zeros(0, np.int64), np.zeros(0, np.int64), Runs(1, 400)
    )


def as_blocks(sizes: CostModel, slices: list[Slice], site: Any) -> Moved:
    members = CutSlices([SliceTree(s) for s in slices], slices, [0] * len(slices)).on_cores(site)
    return moves._as_moved(sizes, members, cores_of(sizes.chip))


@pytest.mark.parametrize("which", range(len(CHIPS)))
def test_sums_kept_are_those_of_a_fresh_board_and_of_the_checker(which: int) -> None:
    sizes, blocks = cut(recurrent(which), CHIPS[which], which)
    board, slices, parts = board_of(sizes, blocks)
    before, best = board.site.copy(), board.site.copy()
    kernels.anneal(board, kernels.NEW_CORES, np.array([7 + which], np.uint64), 3000, 1.0, 0.3, best)
    assert np.count_nonzero(board.site != before) > 5
    fresh = board_on(replace(parts, site=board.site.copy()), sizes)
    counts = ("on_tile", "on_site", "low", "high", "left", "right")
    for name in ("links", "spread", "used", "x", "y", "site", *counts):
        assert np.array_equal(getattr(board, name), getattr(fresh, name)), name
    assert np.allclose(board.loads, fresh.loads)
    found = as_blocks(sizes, slices, board.site)
    paid = costs(axon_table(sizes, found.blocks, RATES), found.cores, sizes.chip, [1] * len(found.blocks), chips=1)
    assert paid.multicast_hops_per_step == pytest.approx(float(board.rate @ board.links))
    assert paid.max_link_load_spikes_per_step == pytest.approx(board.tally[boards.PEAK])
    number = {core: k for k, core in enumerate(cores_of(sizes.chip))}
    for core, used in zip(found.cores, resource_use(sizes, found.blocks), strict=True):
        on_board = board.used[:, number[core]]
        assert on_board[boards.NEURONS] == used["neurons"]
        assert on_board[boards.INPUTS] == used["input_axons"]
        assert on_board[boards.OUTPUTS] == used["output_axons"]
        assert on_board[boards.WORDS] >= used["synapse_words"] or sizes.chip.synapses.words is None


@pytest.mark.parametrize("which", range(len(CHIPS)))
def test_plain_code_moves_slices_as_compiled_code_does_to_the_last_bit(which: int) -> None:
    found = []
    for run in (Runs(1, 400, is_small=True), Runs(1, 400)):
        sizes, blocks = cut(recurrent(which), CHIPS[which], which)
        board = board_of(sizes, blocks)[0]
        best, state = board.site.copy(), np.array([which + 1], np.uint64)
        run.code(part_kernels.anneal)(board, kernels.NEW_CORES, state, 400, 1.0, 0.3, best)
        found.append([*(a.tolist() for a in board), best.tolist(), state.tolist()])
    assert found[0] == found[1]


@settings(max_examples=cases(12, 25), deadline=None)
@given(st.integers(0, 999), st.integers(0, len(CHIPS) - 1), st.booleans())
def test_every_accepted_state_is_legal(seed: int, which: int, new_cores: bool) -> None:
    sizes, blocks = cut(recurrent(seed), CHIPS[which], seed)
    board, slices, _ = board_of(sizes, blocks)
    state, moving = np.array([seed + 1], np.uint64), kernels.NEW_CORES if new_cores else kernels.SLICES
    for _ in range(8):
        kernels.anneal(board, moving, state, 40, 5.0, 5.0, board.site.copy())
        found = as_blocks(sizes, slices, board.site)
        assert is_within(sizes, found.blocks)
        assert new_cores or len(found.blocks) <= len(blocks)
        assert sorted(s for own in found.blocks for s in own) == sorted(slices)


@pytest.mark.parametrize("which", range(len(CHIPS)))
def test_one_or_two_slices_in_return_are_all_that_fit(which: int) -> None:
    """Against all sets of up to two slices of the other core, by their neurons, words and profiles."""
    sizes, blocks = cut(recurrent(which), CHIPS[which], which)
    board, slices, _ = board_of(sizes, blocks)
    state, rng, several = np.array([which + 1], np.uint64), np.random.default_rng(which), 0
    for part, there in zip(rng.integers(len(slices), size=60), rng.integers(len(blocks), size=60), strict=True):
        here, own = board.site[part], np.flatnonzero(board.site == there)
        if here == there:
            continue
        sets = [s for k in (0, 1, 2) for s in combinations(own.tolist(), k) if may_return(board, part, here, there, s)]
        count, pick = kernels.fitting_return(board, part, there, state)
        assert count == len(sets)
        assert not sets or sorted(k for k in pick if k >= 0) in [sorted(s) for s in sets]
        several += any(len(s) == 2 for s in sets)
    assert several or which == 4


def may_return(board: Any, part: int, here: int, there: int, back: tuple[int, ...]) -> bool:
    """True where a part fits on its new core, and up to two of that core on its own, when all have moved."""
    needs, lists = board.needs, {site: set(np.flatnonzero(board.site == site)) for site in (here, there)}
    left, more = needs[:, list(back)].sum(axis=1), needs[:, part]
    fits = all(board.used[:2, there] + more - left <= board.most[:2]) and all(
        board.used[:2, here] - more + left <= board.most[:2]
    )
    stay = [lists[there] - set(back), lists[here] - {part}]
    alike = all(board.profile[k] == board.profile[part] for k in back)
    known = [[board.profile[k] for k in own] for own in stay]
    if not back:
        return fits and board.profile[part] in known[0]
    if len(back) == 1 and not alike:
        return fits and board.profile[part] in known[0] and board.profile[back[0]] in known[1]
    return fits and alike


@pytest.mark.parametrize("which", range(len(CHIPS)))
def test_lone_slices_are_cut_and_halves_that_stay_together_are_whole_again(
    which: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(moves, "PARTS_OF_BLOCK", 1)
    sizes = cost_model(recurrent(which), CHIPS[which], 8)
    pieces = [Slice("p", ((k, min(k + 4, 30)),)) for k in range(0, 30, 4)] + [
        Slice("q", ((0, 5),)),
        Slice("q", ((5, 9),)),
    ]
    blocks = (*((s,) for s in pieces[:-2]), tuple(pieces[-2:]))
    found = cut_slices(sizes, blocks, {1}, 100)
    halved = [tree for tree in found.trees if tree.halves]
    assert halved
    assert pieces[1] in found.slices
    assert [s for s in found.slices if s.population == "q"] == pieces[-2:]
    assert all(not half.halves for tree in halved for half in tree.halves)
    together = found.on_cores(np.array(found.block))
    assert [tuple(own) for own in together.values()] == list(blocks)
    apart = found.on_cores(np.arange(len(found.slices)))
    assert [own for (own,) in apart.values()] == found.slices


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 999), st.integers(0, len(CHIPS) - 1), st.integers(1, 12), st.booleans())
def test_parts_are_the_slices_and_take_the_words_of_a_core_at_most_as_counted(
    seed: int, which: int, parts: int, has_fixed: bool
) -> None:
    """Every neuron is in one part; parts that meet again are whole, and no more words than by themselves."""
    sizes, blocks = cut(recurrent(seed), CHIPS[which], seed)
    fixed = {0} if has_fixed else set[int]()
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(moves, "PARTS_OF_BLOCK", parts)
        found = cut_slices(sizes, blocks, fixed, 1_000)
        assert found.slices == cut_slices(sizes, blocks, fixed, 1_000).slices
    assert [tree.whole for tree in found.trees] == [s for own in blocks for s in own]
    assert found.block == sorted(found.block)
    assert found.slices[: len(blocks[0])] == list(blocks[0]) or not fixed
    lone = sum(len(own) == 1 for own in blocks)
    assert len(found.slices) <= max(len(found.trees) + lone, parts * len(blocks))
    neurons = [(s.population, k) for s in found.slices for k in range(*s.box[0])]
    assert sorted(neurons) == sorted((s.population, k) for own in blocks for s in own for k in range(*s.box[0]))
    rng, words = np.random.default_rng(seed), sizes.chip.synapses.words
    for _ in range(5):
        site = rng.integers(0, 4, len(found.slices))
        for core, own in found.on_cores(site).items():
            there = [s for s, k in zip(found.slices, site.tolist(), strict=True) if k == core]
            assert sum(box_size(s.box) for s in own) == sum(box_size(s.box) for s in there)
            assert words is None or _words(sizes, own) <= _words(sizes, there)


def _words(sizes: CostModel, slices: list[Slice]) -> int:
    return sum(sizes.cost(s.population, s.box).synapse_words for s in slices)


def test_slices_are_cut_across_their_longest_side_but_the_channels() -> None:
    net = network_of(CONVOLUTIONS)
    name = net.populations[0].name
    sizes, whole = cost_model(net, LOIHI, 8), Slice(name, ((0, 16), (0, 4), (0, 8)))
    found = cut_slices(sizes, ((whole,),), set(), 4)
    assert [s.box for s in found.slices] == [
        ((0, 16), (rows, rows + 2), (columns, columns + 4)) for columns in (0, 4) for rows in (0, 2)
    ]
    assert found.on_cores(np.array([0, 0, 1, 2])) == {
        0: [Slice(name, ((0, 16), (0, 4), (0, 4)))],
        1: [found.slices[2]],
        2: [found.slices[3]],
    }
    assert found.on_cores(np.zeros(4, np.int64)) == {0: [whole]}


@settings(max_examples=10, deadline=None)
@given(st.integers(0, 999), st.integers(0, len(CHIPS) - 1))
def test_moved_slices_cost_less_and_fixed_blocks_stay(seed: int, which: int) -> None:
    sizes, blocks = cut(recurrent(seed), CHIPS[which], seed)
    usable, fixed = cores_of(sizes.chip), {0, len(blocks) - 1}
    cores = usable[: len(blocks)]
    found = moves.move_slices(sizes, blocks, cores, RATES, usable, fixed=fixed, seed=seed)
    if found is None:
        return
    for b in fixed:
        assert set(found.blocks[found.cores.index(cores[b])]) == set(blocks[b])
    assert is_within(sizes, found.blocks)
    assert cost(sizes, found) < cost(sizes, Moved(blocks, cores))
    assert found == moves.move_slices(sizes, blocks, cores, RATES, usable, fixed=fixed, seed=seed)


def cost(sizes: CostModel, moved: Moved) -> float:
    """Hops and busiest link."""
    table = axon_table(sizes, moved.blocks, RATES)
    paid = costs(table, moved.cores, sizes.chip, [1] * len(moved.blocks), chips=1)
    return paid.multicast_hops_per_step + paid.max_link_load_spikes_per_step


def test_a_chain_of_convolutions_takes_far_fewer_hops(monkeypatch: pytest.MonkeyPatch) -> None:
    """As many cores, a third of the hops less, and objective traffic less still; the checker passes all."""
    options = MapOptions(placement_only=True, method="packed", effort="fast")
    net = network_of(CONVOLUTIONS)
    moved = map_network(net, LOIHI, options)
    spread = map_network(net, LOIHI, replace(options, objective="traffic"))
    monkeypatch.setattr("nirbridge.pipeline.map.with_moved_slices", lambda mapped, *_: mapped)
    before = map_network(net, LOIHI, options)
    assert len(moved.cores) <= len(before.cores)
    assert moved.costs.multicast_hops_per_step < 0.7 * before.costs.multicast_hops_per_step
    assert spread.costs.multicast_hops_per_step <= moved.costs.multicast_hops_per_step


def test_slices_of_other_profiles_stay_out() -> None:
    """Where a core may not hold all profiles, a slice goes only to where its own are already."""
    sizes, blocks = cut(recurrent(3), CHIPS[3], 3)
    parts = board_of(sizes, blocks)[2]
    assert len(np.unique(parts.needs.profile)) > 1
    free = replace(CHIPS[3], core=replace(CHIPS[3].core, threshold_profiles=None, decay_profiles=None))
    assert not board_of(cost_model(recurrent(3), free, 8), blocks)[2].needs.profile.any()


def test_what_cannot_move_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes, blocks = cut(recurrent(0), CHIPS[0], 0)
    usable = cores_of(sizes.chip)
    given_ = (sizes, blocks, usable[: len(blocks)], RATES, usable)
    assert moves.move_slices(*given_) is not None
    monkeypatch.setattr(moves, "PARTS_MAX", len(blocks))
    assert moves.move_slices(*given_) is None
    monkeypatch.undo()
    silent = {name: np.zeros_like(rate) for name, rate in RATES.items()}
    assert moves.move_slices(*given_[:3], silent, usable) is None
    whole = tuple((s,) for own in blocks for s in own)[: len(usable)]
    assert moves.move_slices(sizes, whole, usable[: len(whole)], RATES, usable) is None


def test_pinned_populations_stay_on_their_cores() -> None:
    net = network_of(CONVOLUTIONS)
    first = net.populations[0].name
    options = MapOptions(placement_only=True, method="packed", effort="fast")
    needed = partition(net, LOIHI, PartitionOptions(method="packed", groups={first: 1}))
    pinned = sum(any(s.population == first for s in b.slices) for b in needed.blocks)
    mapped = map_network(net, LOIHI, replace(options, pins={first: tuple(range(40, 40 + pinned))}))
    on = {mapped.cores[b.id] for b in mapped.partition.blocks if any(s.population == first for s in b.slices)}
    assert on <= set(cores_of(LOIHI)[40 : 40 + pinned])


def test_progress_is_told_run_by_run() -> None:
    sizes, blocks = cut(recurrent(1), CHIPS[0], 1)
    told: list[tuple[str, float]] = []
    usable = cores_of(sizes.chip)
    moves.move_slices(
        sizes,
        blocks,
        usable[: len(blocks)],
        RATES,
        usable,
        progress=lambda stage, done: told.append((stage, done or 0)),
    )
    assert {stage for stage, _ in told} == {"move slices"}
    assert len(told) % moves.CHUNKS == 0
    assert len(told) >= 2 * moves.CHUNKS
    shares = [done for _, done in told]
    assert shares == sorted(set(shares))
    assert shares[-1] <= 1.0


@pytest.mark.parametrize(
    ("steps", "gain", "few", "runs"),
    [
        (10_000, 1e9, 0, [(2_000, moves.HOT), (2_000, moves.WARM), (10_000, moves.HOT), (10_000, moves.HOT)]),
        (2_000, 1e9, 0, [(400, moves.WARM), (400, moves.WARM), (2_000, moves.HOT), (2_000, moves.HOT)]),
        (10_000, 1e-9, 0, [(2_000, moves.HOT), (2_000, moves.WARM)]),
        (10_000, 1e9, 100, [(2_000, moves.HOT), (2_000, moves.WARM)]),
    ],
)
def test_a_short_pair_of_runs_and_a_long_one_where_it_pays(
    steps: int, gain: float, few: int, runs: list[tuple[int, float]], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[int, float]] = []

    def annealed(self: Any, run: int, site: Any, made: int, heat: float, progress: Any) -> tuple[float, Any]:
        asked.append((made // len(self.board.parts.movable), heat))
        return -gain, site

    sizes, blocks = cut(recurrent(1), CHIPS[0], 1)
    monkeypatch.setattr(moves, "runs_and_steps", lambda movable, *_: Runs(1, steps * movable))
    monkeypatch.setattr(moves._Runs, "_annealed", annealed)
    monkeypatch.setattr(moves, "FEW", few)
    monkeypatch.setattr(moves, "SMALL", 0)
    usable = cores_of(sizes.chip)
    moves.move_slices(sizes, blocks, usable[: len(blocks)], RATES, usable)
    assert asked == runs


def test_tiles_of_chips_above_each_other_are_others() -> None:
    """The tile at (1, 0) and that at (0, 1), on chips of one tile: a part was exchanged for itself."""
    size = {"width_tiles": 1, "height_tiles": 1, "cores_per_tile": 1, "chips_max": 4}
    board = {"places": [[0, 0], [1, 0], [0, 1], [1, 1]]}
    on = chip_with("loihi1", mesh=size, board=board, source={"board.places": "this test"})
    assert len(set(Sites.of(cores_of(on, 4), on).tile.tolist())) == 4
