"""Cores that are grown again a few at a time: fewer of them, legal, the same for a seed; what is not touched stays."""

from __future__ import annotations

import numpy as np
import pytest

from nirbridge.network.model import Network
from nirbridge.partitioner.cost.axons import Blocks
from nirbridge.partitioner.cost.neurons import neuron_lists, slices_of
from nirbridge.partitioner.cost.sizing import CostModel, cost_model
from nirbridge.partitioner.model import Slice
from nirbridge.partitioner.search import regrown as search
from nirbridge.partitioner.search.methods import is_within
from nirbridge.partitioner.search.regrown import RegrowBudget, members_of, regrown
from nirbridge.partitioner.search.slicing import capacity
from tests.partitioner.cases import chip, random_network
from tests.partitioner.search.test_clusters import shuffled_band
from tests.partitioner.search.test_streaming import covers

BUDGET = RegrowBudget(20_000_000, 300, 120)
TIGHT = chip(core={"neurons": 10, "input_axons": 26, "output_axons": 30})


def scattered(net: Network, size: int) -> tuple[CostModel, Blocks]:
    """A poor map: neurons as they are numbered, few to a core."""
    sizes = cost_model(net, TIGHT, 8)
    lists = neuron_lists(sizes)
    starts = range(0, lists.neurons, size)
    return sizes, tuple(slices_of(lists, np.arange(a, min(a + size, lists.neurons))) for a in starts)


@pytest.mark.parametrize("seed", range(3))
def test_a_poor_map_becomes_a_good_one(seed: int) -> None:
    """60 neurons in a shuffled band: 6 cores of 10 would be full."""
    net = shuffled_band(60, 2, seed)
    sizes, blocks = scattered(net, 2)
    found = regrown(sizes, capacity(TIGHT), {}, blocks, 6, BUDGET, 0)
    assert found is not None
    assert len(blocks) == 30
    assert len(found) <= 8
    assert covers(net, found)
    assert is_within(sizes, found)
    assert found == regrown(sizes, capacity(TIGHT), {}, blocks, 6, BUDGET, 0)


def test_enough_is_enough() -> None:
    sizes, blocks = scattered(shuffled_band(60, 2, 0), 2)
    assert regrown(sizes, capacity(TIGHT), {}, blocks, 30, BUDGET, 0) is None
    found = regrown(sizes, capacity(TIGHT), {}, blocks, 20, BUDGET, 0)
    assert found is not None
    assert 15 <= len(found) <= 20


@pytest.mark.parametrize("budget", [RegrowBudget(0, 10, 10), RegrowBudget(10**9, 0, 10), RegrowBudget(10**9, 10, 0)])
def test_no_work_no_result(budget: RegrowBudget) -> None:
    sizes, blocks = scattered(shuffled_band(60, 2, 0), 2)
    assert regrown(sizes, capacity(TIGHT), {}, blocks, 1, budget, 0) is None


def test_large_networks_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes, blocks = scattered(shuffled_band(60, 2, 0), 2)
    monkeypatch.setattr(search, "SYNAPSES_MAX", 50)
    assert regrown(sizes, capacity(TIGHT), {}, blocks, 1, BUDGET, 0) is None


def test_a_core_that_is_not_grown_again_keeps_its_slices() -> None:
    """Here the slices of every core are in another order than that of the numbers."""
    net = shuffled_band(60, 2, 0)
    sizes, blocks = scattered(net, 4)
    turned = tuple((Slice("p", ((a + 2, b),)), Slice("p", ((a, a + 2),))) for ((_, ((a, b),)),) in map(parts, blocks))
    one = RegrowBudget(10**9, 3, 3)
    found = regrown(sizes, capacity(TIGHT), {}, turned, 1, one, 1)
    assert found is not None
    assert covers(net, found)
    assert any(core in turned for core in found)


def parts(core: tuple[Slice, ...]) -> tuple[tuple[str, tuple[tuple[int, int], ...]], ...]:
    return tuple((s.population, s.box) for s in core)


@pytest.mark.parametrize("seed", range(6))
def test_the_neurons_of_slices_are_the_slices_of_these_neurons(seed: int) -> None:
    net = random_network(np.random.default_rng(seed), windows=True)
    lists = neuron_lists(cost_model(net, TIGHT, 8))
    members = np.flatnonzero(np.random.default_rng(seed).random(lists.neurons) < 0.5)
    assert members_of(lists, slices_of(lists, members)).tolist() == members.tolist()


def test_groups_never_share_a_core() -> None:
    net = random_network(np.random.default_rng(5))
    names = [p.name for p in net.populations]
    on = chip(core={"neurons": 20})
    sizes = cost_model(net, on, 8)
    lists = neuron_lists(sizes)
    blocks = tuple(slices_of(lists, np.array([n])) for n in range(lists.neurons))
    little = RegrowBudget(10**9, 20, 20)
    found = regrown(sizes, capacity(on), {names[0]: 1}, blocks, 1, little, 0)
    assert found is not None
    assert all(len({s.population == names[0] for s in core}) == 1 for core in found)
    mixed = regrown(sizes, capacity(on), {}, blocks, 1, little, 0)
    assert mixed is not None
    assert any(len({s.population == names[0] for s in core}) == 2 for core in mixed)
