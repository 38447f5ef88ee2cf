"""Columns that leave channels out: words against the lists of their slices, every filling legal, fewer cores."""

from __future__ import annotations

import numpy as np
import pytest

from nirbridge.partitioner.cost.axons import block_words
from nirbridge.partitioner.cost.sizing import CostModel, cost_model
from nirbridge.partitioner.model import Slice
from nirbridge.partitioner.search import balancing
from nirbridge.partitioner.search.balancing import BalanceBudget, balanced
from nirbridge.partitioner.search.clusters import Work
from nirbridge.partitioner.search.column_generation import SearchBudget
from nirbridge.partitioner.search.filling import StretchCosts, Way, ways_of
from nirbridge.partitioner.search.methods import fewest_cores, is_within
from nirbridge.partitioner.search.slicing import capacity, in_core_order
from tests.partitioner.cases import LOIHI, chip, tiles_exactly
from tests.partitioner.nets import network_of

THIRTEEN = "2x9x11 conv13k3p1 lif"
BUDGET = BalanceBudget(100_000_000, 6)


def ragged_ways(sizes: CostModel) -> tuple[StretchCosts, list[Way]]:
    costs = StretchCosts(sizes, capacity(sizes.chip), Work(10**9))
    return costs, balancing.with_ragged(costs, ways_of(costs, (0.05, 0.95), {}), balancing.ragged_columns(sizes))


@pytest.mark.parametrize(
    "shapes",
    [
        THIRTEEN,
        "2x9x11 conv13k3 lif",
        "3x12x9 conv17k5p2 lif",
        "2x17x19 conv5k5s2p2 lif",
        "2x18x22 sumpool2 conv13k3p1 lif",
    ],
)
@pytest.mark.parametrize("index_bits", [None, 10])
def test_words_of_ragged_stretches_are_those_of_their_lists(shapes: str, index_bits: int | None) -> None:
    """Synapse by synapse, where lists run on from slice to slice; lists of indices may take fewer words."""
    on = chip(core={"input_axons": None, "output_axons": None}, words=10**6, index_bits=index_bits)
    sizes = cost_model(network_of(shapes), on, 8)
    costs, ways = ragged_ways(sizes)
    assert len(ways) > 1
    rng = np.random.default_rng(0)
    for way in ways:
        ends = [sorted(rng.choice(way.size + 1, size=2, replace=False).tolist()) for _ in range(12)]
        for start, stop in [(0, way.size), *ends]:
            pieces = in_core_order(way.slices(start, stop), tuple(sizes.shapes))
            exact = block_words(sizes, pieces)
            charged = costs.cost(way, start, stop)[2]
            assert charged >= exact
            if index_bits is None and isinstance(way, balancing.LeavingWay):
                assert charged == exact


def test_the_words_by_which_columns_are_chosen_are_those_of_all_neurons() -> None:
    sizes = cost_model(network_of(THIRTEEN), chip(core={}, words=10**6), 8)
    costs, ways = ragged_ways(sizes)
    name = ways[0].population
    left, windows = balancing.left_out(sizes, name), balancing.windows_of(sizes, name)
    assert left is not None
    assert set(np.diff(np.flatnonzero(left == 1)).tolist()) == {3}
    words = balancing.whole_words(sizes, windows, 13, left)
    assert words == sum(costs.cost(way, 0, way.size)[2] for way in ways)
    plain = balancing.whole_words(sizes, windows, 13, np.zeros(11, np.int64))
    assert plain == sizes.cost(name, ((0, 13), (0, 9), (0, 11))).synapse_words
    assert words < 0.95 * plain


def test_columns_and_what_they_leave_out_are_all_neurons_once() -> None:
    net = network_of(THIRTEEN)
    _, ways = ragged_ways(cost_model(net, LOIHI, 8))
    shape = net.populations[0].shape
    numbers = np.arange(1, 1 + net.neurons).reshape(shape)
    seen: list[int] = []
    for way in ways:
        order = way.in_order({way.population: numbers})
        assert len(order) == way.size
        for start, stop in [(0, way.size), (5, 6), (3, 40), (20, way.size - 1)]:
            held = sorted(order[start:stop][order[start:stop] > 0].tolist())
            boxes = [tuple(slice(a, b) for a, b in s.box) for s in way.slices(start, stop)]
            assert held == sorted(np.concatenate([numbers[box].ravel() for box in boxes]).tolist())
        seen += order[order > 0].tolist()
    assert sorted(seen) == list(range(1, 1 + net.neurons))


@pytest.mark.parametrize(
    "shapes",
    [
        "2x9x11 conv12k1 lif",  # a source has one list in any order
        "12x9x11 conv12k3p1g12 lif",  # depthwise: a source reaches one channel
        "30 dense20 lif",
        "2x9x11 conv10k3p1d2 lif",  # gaps between columns
    ],
)
def test_nothing_is_left_out_where_it_saves_nothing(shapes: str) -> None:
    sizes = cost_model(network_of(shapes), LOIHI, 8)
    assert balancing.ragged_columns(sizes) == {}


def test_nothing_is_left_out_where_kernels_or_words_do_not_count() -> None:
    for on in (chip(core={}, shared_kernels=True), chip(core={}, words=None)):
        assert balancing.ragged_columns(cost_model(network_of(THIRTEEN), on, 8)) == {}


@pytest.mark.parametrize("seed", range(4))
def test_every_ragged_filling_is_legal(seed: int) -> None:
    net = network_of(["2x8x9 conv5k3p1 lif conv7k3p1 lif", "1x8x9 conv13k3p1 lif conv3k5p2 lif"][seed % 2])
    on = chip(core={"neurons": 90, "input_axons": None, "output_axons": 900}, words=300 + 200 * seed)
    sizes = cost_model(net, on, 8)
    blocks = balanced(sizes, capacity(on), {}, 0, BUDGET, seed)
    assert blocks is not None
    pieces = [s for block in blocks for s in block]
    assert all(tiles_exactly(p.shape, [s.box for s in pieces if s.population == p.name]) for p in net.populations)
    assert is_within(sizes, blocks)
    assert blocks == balanced(sizes, capacity(on), {}, 0, BUDGET, seed)


def test_ragged_fillings_take_fewer_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    net = network_of("4x12x12 conv5k3p1 lif conv5k3p1 lif")
    on = chip(core={"input_axons": None, "output_axons": None}, words=400)
    sizes = cost_model(net, on, 8)
    other = balanced(sizes, capacity(on), {}, 0, BUDGET, 0)
    monkeypatch.setattr(balancing, "ragged_columns", lambda _: {})
    plain = balanced(sizes, capacity(on), {}, 0, BUDGET, 0)
    assert plain is not None
    assert other is not None
    assert len(other) < 0.9 * len(plain)


def test_plain_fillings_where_none_is_legal_with_ragged_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    net = network_of("4x12x12 conv5k3p1 lif conv5k3p1 lif")
    on = chip(core={"input_axons": None, "output_axons": None}, words=400)
    sizes, filled = cost_model(net, on, 8), balancing._filled
    monkeypatch.setattr(balancing, "ragged_columns", lambda _: {})
    plain = balanced(sizes, capacity(on), {}, 0, BUDGET, 0)
    monkeypatch.undo()
    tried: list[bool] = []

    def first_fails(costs: StretchCosts, ways: list[Way], near: object) -> object:
        tried.append(any(isinstance(way, balancing.LeavingWay) for way in ways))
        return None if tried[-1] else filled(costs, ways, None)

    monkeypatch.setattr(balancing, "_filled", first_fails)
    assert balanced(sizes, capacity(on), {}, 0, BUDGET, 0) == plain
    assert tried == [True, False]


def test_a_bound_of_some_tilings_is_none_of_other_maps() -> None:
    """Blocks of fewer cores than the bound of the pattern search are of other tilings: any map's bound is left."""
    net = network_of("2x9x11 conv13k3p1 lif")
    on = chip(core={"neurons": 1287, "input_axons": None, "output_axons": None}, words=10**6)
    sizes = cost_model(net, on, 8)
    tilings = {"2_lif": (((0, 13), (0, 9), (0, 5)), ((0, 13), (0, 9), (5, 11)))}
    whole = ((Slice("2_lif", ((0, 13), (0, 9), (0, 11))),),)
    few = chip(core={"neurons": 700, "input_axons": None, "output_axons": None}, words=10**6)
    for own, bound in ((on, 1), (few, 0)):
        sizes = cost_model(net, own, 8)
        given = (sizes, capacity(own), whole, tilings, {"2_lif": 0}, 0, SearchBudget(), 0, lambda *_: None)
        assert fewest_cores(*given).sliced_bound == bound
