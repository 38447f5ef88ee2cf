"""Balanced fillings: every one is legal, populations of many and of few words per neuron fill cores together."""

from __future__ import annotations

import numpy as np
import pytest

from nirbridge.network.model import Network
from nirbridge.partitioner.cost.axons import Blocks
from nirbridge.partitioner.cost.sizing import cost_model
from nirbridge.partitioner.search.balancing import BalanceBudget, balanced, nearer
from nirbridge.partitioner.search.clusters import Work
from nirbridge.partitioner.search.filling import FAR, Near, Stretch, StretchCosts, Way
from nirbridge.partitioner.search.methods import is_within
from nirbridge.partitioner.search.slicing import capacity
from nirbridge.partitioner.search.streaming import streamed
from tests.partitioner.cases import LOIHI, chip, covers, random_network
from tests.partitioner.nets import network_of

MIXED = "1x8x8 conv16k5p2 lif conv20k1 lif conv18k5p2 lif conv24k1 lif conv12k3p1 lif conv24k1 lif conv8k5p2 lif"
BUDGET = BalanceBudget(100_000_000, 6)


@pytest.mark.parametrize("axes", [(1, 2, 0), (2, 1, 0), (0, 1, 2)])
def test_slices_and_values_of_a_way_follow_the_same_order(axes: tuple[int, ...]) -> None:
    shape = (4, 3, 5)
    way = Way("p", axes, tuple(2 if a == 0 else shape[a] for a in axes), 1, 0)
    numbers = np.arange(60).reshape(shape)
    order = way.in_order({"p": numbers})
    assert len(order) == way.size == 30
    for start, stop in [(0, 30), (3, 4), (7, 22), (1, 29)]:
        boxes = [tuple(slice(a, b) for a, b in s.box) for s in way.slices(start, stop)]
        found = np.concatenate([numbers[box].ravel() for box in boxes])
        assert sorted(found.tolist()) == sorted(order[start:stop].tolist())


@pytest.mark.parametrize("seed", range(6))
def test_every_filling_is_legal(seed: int) -> None:
    net = random_network(np.random.default_rng(seed), windows=seed % 2 == 0)
    on = chip(core={"neurons": 9, "input_axons": 60, "output_axons": 120}, words=120)
    sizes = cost_model(net, on, 8)
    blocks = balanced(sizes, capacity(on), {}, 0, BUDGET, seed)
    assert blocks is not None
    assert covers(net, blocks)
    assert is_within(sizes, blocks)
    assert blocks == balanced(sizes, capacity(on), {}, 0, BUDGET, seed)


def test_many_and_few_words_fill_a_core_together() -> None:
    net = network_of(MIXED.replace("1x8x8", "1x12x12"))
    sizes = cost_model(net, LOIHI, 8)
    blocks = balanced(sizes, capacity(LOIHI), {}, 0, BUDGET, 0)
    streams = streamed(sizes, capacity(LOIHI), {}, 10**6, 60_000_000)
    assert blocks is not None
    assert streams is not None
    assert len(blocks) < len(streams)
    assert is_within(sizes, blocks)


TRIES = BalanceBudget(400_000_000, 150)
FAR_APART = "1x12x12 conv20k5p2 lif " + "conv20k1 lif " * 5 + "conv20k5p2 lif " + "conv20k1 lif " * 5


def between(net: Network, blocks: Blocks) -> int:
    """Populations between the first and the last one of each core, added up."""
    place = {p.name: k for k, p in enumerate(net.populations)}
    own = [[place[s.population] for s in block] for block in blocks]
    return sum(max(places) - min(places) for places in own)


def test_nearer_populations_share_as_many_cores() -> None:
    net = network_of(FAR_APART)
    sizes, cap = cost_model(net, LOIHI, 8), capacity(LOIHI)
    blocks = balanced(sizes, cap, {}, 0, BUDGET, 0)
    assert blocks is not None
    found = nearer(sizes, cap, {}, blocks, TRIES, 0)
    assert found is not None
    assert len(found) <= len(blocks)
    assert covers(net, found)
    assert is_within(sizes, found)
    assert between(net, found) < between(net, blocks)
    assert found == nearer(sizes, cap, {}, blocks, TRIES, 0)


def test_there_are_no_nearer_blocks_on_fewer_cores_than_any_map_takes() -> None:
    net = network_of(MIXED)
    sizes, cap = cost_model(net, LOIHI, 8), capacity(LOIHI)
    assert nearer(sizes, cap, {}, ((),), TRIES, 0) is None


def test_what_a_stretch_is_worth() -> None:
    places = {name: place for place, name in enumerate("abcdefghijkl")}
    near, first = Near(places, 0.5), Stretch(Way("c", (0,), (4,), 0, 0), 0, 4)
    worth = {name: near.worth(first, Stretch(Way(name, (0,), (4,), 0, 0), 0, 4)) for name in places}
    assert worth["b"] == worth["c"] == worth["d"] == 1.0
    assert worth["a"] == worth["e"] == pytest.approx(1 - 0.5 / FAR)
    assert worth["l"] == pytest.approx(0.5)
    assert list(worth.values())[3:] == sorted(list(worth.values())[3:], reverse=True)


def test_kernels_that_are_stored_once_are_kept_together() -> None:
    net = network_of("3x8x8 conv64k1 lif conv128k1 lif conv128k1 lif")
    on = chip(core={"neurons": 1024, "input_axons": None, "output_axons": None}, words=600, shared_kernels=True)
    sizes = cost_model(net, on, 8)
    blocks = balanced(sizes, capacity(on), {}, 0, BUDGET, 0)
    assert blocks is not None
    assert is_within(sizes, blocks)
    assert len(blocks) == 20  # for the neurons


def test_populations_of_different_groups_never_share_a_core() -> None:
    net = network_of(MIXED)
    name = net.populations[1].name
    sizes = cost_model(net, LOIHI, 8)
    blocks = balanced(sizes, capacity(LOIHI), {name: 1}, 0, BUDGET, 0)
    assert blocks is not None
    assert all(len({s.population == name for s in block}) == 1 for block in blocks)


def test_nothing_is_found_once_the_work_is_spent() -> None:
    sizes = cost_model(network_of(MIXED), LOIHI, 8)
    assert balanced(sizes, capacity(LOIHI), {}, 0, BalanceBudget(10_000, 6), 0) is None


def test_stretches_end_at_the_last_place_that_fits() -> None:
    net = network_of("1x8x8 conv16k5p2 lif conv20k1 lif")
    on = chip(core={"neurons": 100}, words=300)
    sizes = cost_model(net, on, 8)
    costs = StretchCosts(sizes, capacity(on), Work(10**9))
    way = Way(net.populations[1].name, (1, 2, 0), (8, 8, 20), 0, 0)
    for start in (0, 20, 50):
        stretch = Stretch(way, start, way.size)
        ends = [
            e
            for e in range(start + 1, way.size + 1)
            if all(x <= m for x, m in zip(costs.cost(way, start, e), costs.cap, strict=True))
        ]
        assert costs.longest(stretch, costs.cap, 1) == max(ends)
        assert costs.longest(stretch, costs.cap, 20) == max(e for e in ends if e % 20 == 0)
