"""Finer patterns: settled cores are completed to the neuron, slices change places, every map is legal."""

from __future__ import annotations

import threading
from dataclasses import replace

import numpy as np
import pytest

from nirbridge.network.model import Projection
from nirbridge.network.operators import Dense
from nirbridge.partitioner.cost.axons import resource_use
from nirbridge.partitioner.cost.sizing import CostModel, cost_model
from nirbridge.partitioner.model import Slice
from nirbridge.partitioner.search import filling as swaps
from nirbridge.partitioner.search import finer as finer_search
from nirbridge.partitioner.search import methods
from nirbridge.partitioner.search.bounds import least_cores, least_slots
from nirbridge.partitioner.search.column_generation import SearchBudget
from nirbridge.partitioner.search.finer import finer_cores
from nirbridge.partitioner.search.layouts import layouts
from nirbridge.partitioner.search.methods import SearchResult, is_within, sequential
from nirbridge.partitioner.search.slicing import capacity, word_groups
from tests.partitioner.cases import LOIHI, chip, covers, network, population, random_network
from tests.partitioner.nets import network_of

STRIDED = "3x15x31 conv24k5s2 lif conv48k5s2 lif"


def finer(sizes: CostModel, seed: int = 0) -> tuple[SearchResult, SearchResult]:
    """One layer per core, and what the finer patterns make of it."""
    cap = capacity(sizes.chip)
    blocks, tilings = sequential(sizes, cap)
    least = least_slots(sizes, least_cores(sizes, cap))
    first = SearchResult(blocks, 1, 0.0)
    return first, finer_cores(sizes, cap, first, tilings, least, SearchBudget(), seed, lambda *_: None)


def test_finer_patterns_take_fewer_cores_than_coarse_ones() -> None:
    net = network_of(STRIDED)
    sizes = cost_model(net, LOIHI, 8)
    first, found = finer(sizes)
    cap = capacity(LOIHI)
    blocks, tilings = sequential(sizes, cap)
    least = least_slots(sizes, least_cores(sizes, cap))
    coarse = methods.fewest_cores(sizes, cap, blocks, tilings, least, 1, SearchBudget(), 0, lambda *_: None)
    assert len(found.blocks) < len(first.blocks)
    assert len(found.blocks) <= len(coarse.blocks)
    assert covers(net, found.blocks)
    assert is_within(sizes, found.blocks)
    assert found.sliced_bound <= len(found.blocks)


@pytest.mark.parametrize("seed", range(6))
def test_every_completed_map_is_legal(seed: int) -> None:
    net = random_network(np.random.default_rng(seed), windows=seed % 2 == 0)
    on = chip(core={"neurons": 9, "input_axons": 60, "output_axons": 120}, words=120)
    sizes = cost_model(net, on, 8)
    first, found = finer(sizes, seed)
    assert covers(net, found.blocks)
    assert len(found.blocks) <= len(first.blocks)
    assert found.blocks == first.blocks or is_within(sizes, found.blocks)


def test_the_same_seed_gives_the_same_map_in_any_thread() -> None:
    sizes = cost_model(network_of(STRIDED), LOIHI, 8)
    found = [finer(sizes)[1].blocks]
    threads = [threading.Thread(target=lambda: found.append(finer(sizes)[1].blocks)) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found[0] == found[1] == found[2]


def test_any_part_of_a_map_can_be_filled_anew() -> None:
    net = network_of(STRIDED)
    sizes = cost_model(net, LOIHI, 8)
    blocks, _ = sequential(sizes, capacity(LOIHI))
    for kept in (0, 3, len(blocks) - 1):
        rest = [s for block in blocks[kept:] for s in block]
        found = finer_search.filled_up(sizes, capacity(LOIHI), blocks[:kept], rest, 1, 0)
        assert found is not None
        assert covers(net, found)
        assert is_within(sizes, found)
        assert len(found) <= len(blocks) + 1


# -- fine layouts -------------------------------------------------------------------------------------------------


def test_groups_of_channels_that_fill_their_words() -> None:
    """A run of m targets of 8 bits has a header of 10: m = 6, 14, 22, ... fill words of 64 bits (m + 1.25 of 8)."""
    sizes = cost_model(network_of("3x9x9 conv24k5 lif"), LOIHI, 8)
    (name,) = sizes.shapes
    assert word_groups(sizes, name) == [((0, n), (n, 24)) for n in (6, 14, 22)]
    shared = replace(LOIHI, synapses=replace(LOIHI.synapses, shared_kernels=True))
    assert word_groups(cost_model(network_of("3x9x9 conv24k5 lif"), shared, 8), name) == []
    free = replace(LOIHI, synapses=replace(LOIHI.synapses, words=None))
    assert word_groups(cost_model(network_of("3x9x9 conv24k5 lif"), free, 8), name) == []


def test_fine_layouts_cut_a_strip_where_its_lists_fill_words() -> None:
    """48 channels take 7 words, 46 take 6: three pixels of 46 channels fit a core, of 48 only two."""
    sizes = cost_model(network_of("36x13x47 conv48k5s2 lif"), LOIHI, 8)
    (name,) = sizes.shapes
    slots = {name: np.zeros(sizes.shapes[name], np.int64)}
    groups: dict[bool, set[int]] = {}
    for fine in (False, True):
        (layout,), _ = layouts(sizes, slots, {}, capacity(LOIHI), None, fine=fine)
        groups[fine] = {len({b - a for a, b in ranges}) for _, ranges in layout.bands}
    assert groups == {False: {1}, True: {2}}


# -- swaps --------------------------------------------------------------------------------------------------------


def strided() -> CostModel:
    ways = [Projection("in", "a", Dense(np.ones((6, 2))))]
    return cost_model(network({"in": (2,)}, [population("a", (6,))], ways), chip(core={"output_axons": 3}), 8)


def test_slices_of_equal_cost_change_places(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = strided()
    blocks = tuple(tuple(Slice("a", ((i, i + 1),)) for i in core) for core in ((0, 2), (1, 3), (4,)))
    slots = {"a": np.array([2, 1, 2, 1, 1, 0])}
    monkeypatch.setattr(swaps, "core_slots", lambda *_: slots)
    cap = capacity(sizes.chip)
    found = swaps.swapped(sizes, cap, blocks)
    assert found is not None
    used = [sum(int(slots["a"][s.box[0][0] : s.box[0][1]].sum()) for s in core) for core in found]
    assert max(used) <= 3
    assert sorted(i for core in found for s in core for i in range(*s.box[0])) == [0, 1, 2, 3, 4]
    tight = cap.copy()
    tight[5] = 1
    assert swaps.swapped(sizes, tight, blocks) is None
    none = cap.copy()
    none[5] = 4
    assert swaps.swapped(sizes, none, blocks) == blocks


def test_slots_are_the_output_axons_of_the_map() -> None:
    net = random_network(np.random.default_rng(3), windows=True)
    sizes = cost_model(net, LOIHI, 8)
    blocks, _ = sequential(sizes, capacity(LOIHI) // np.array([64, 1, 1, 1, 1, 1]))
    slots = swaps.core_slots(sizes, blocks)
    for core, used in zip(blocks, resource_use(sizes, blocks), strict=True):
        own = sum(int(slots[s.population][tuple(slice(a, b) for a, b in s.box)].sum()) for s in core)
        assert own == used["output_axons"]
