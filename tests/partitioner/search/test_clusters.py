"""Clusters of neurons: counts against brute force, upkeep against a recount, maps that no slicing reaches."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from nirbridge.arrays import Array
from nirbridge.chips.model import Chip
from nirbridge.network.model import Network, Projection
from nirbridge.network.neurons import neuron
from nirbridge.network.operators import Dense, Sparse
from nirbridge.partitioner import partition
from nirbridge.partitioner.cost.axons import resource_use
from nirbridge.partitioner.cost.neurons import neuron_lists, slices_of
from nirbridge.partitioner.cost.sizing import cost_model, flat_indices
from nirbridge.partitioner.search.clusters import Cores, Work, clustered
from nirbridge.partitioner.search.methods import is_within
from nirbridge.partitioner.search.slicing import capacity
from tests.partitioner.cases import (
    LOIHI,
    axons,
    chip,
    network,
    population,
    positions,
    random_network,
    shared_words,
    words,
)
from tests.partitioner.search.test_streaming import covers

FREE = Work(10**9)


def shuffled_band(n: int, reach: int, seed: int) -> Network:
    """A chain of neurons, each fed by those near it, numbered at random."""
    rng = np.random.default_rng(seed)
    near = np.abs(np.arange(n)[:, None] - np.arange(n)) <= reach
    mixed = rng.permutation(n)
    rows, columns = np.nonzero(near[mixed][:, mixed])
    indptr = np.concatenate(([0], np.cumsum(np.bincount(rows, minlength=n))))
    band = Sparse(indptr, columns, np.ones(len(rows)), (n,), (n,))
    into = Projection("in", "p", Sparse(np.arange(n + 1), np.arange(n), np.ones(n), (n,), (n,)))
    back = Projection("p", "p", band, delay_steps=np.array(1), is_back=True)
    return network({"in": (n,)}, [population("p", (n,))], [into, back])


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("on", [LOIHI, chip(run_free=False, run_targets_max=4), chip(index_bits=None)])
def test_the_use_of_a_set_is_that_of_its_slices_and_of_brute_force(seed: int, on: Chip) -> None:
    rng = np.random.default_rng(seed)
    net = random_network(rng)
    sizes = cost_model(net, on, 8)
    lists = neuron_lists(sizes)
    members = np.flatnonzero(rng.random(lists.neurons) < 0.5)
    slices = slices_of(lists, members)
    held = [net.populations[0].name] * 0
    for p in net.populations:
        place = positions(p.shape, slices, p.name)
        held += [p.name] * len(place)
    assert len(held) == len(members)
    by_hand = sum(words(p, positions(net.population(p.target).shape, slices, p.target), on, 8) for p in net.projections)
    assert lists.words(members) == by_hand
    sources = set()
    for p in net.populations:
        sources |= axons(net, p.name, positions(p.shape, slices, p.name))
    used = resource_use(sizes, (slices,))[0]
    fed = {int(s) for n in members.tolist() for s in lists.fed.row(n)}
    assert len(fed) == len(sources) == used["input_axons"]
    assert used["synapse_words"] <= by_hand


@pytest.mark.parametrize("seed", range(4))
def test_counts_kept_are_those_of_a_recount(seed: int) -> None:
    rng = np.random.default_rng(seed)
    net = random_network(rng)
    sizes = cost_model(net, LOIHI, 8)
    lists = neuron_lists(sizes)
    cores = Cores(lists, capacity(LOIHI), np.zeros(lists.neurons, np.int64), FREE)
    for _ in range(3):
        cores.open()
    where = rng.integers(3, size=lists.neurons)
    for n in rng.permutation(lists.neurons).tolist():
        cores.add(n, int(where[n]))
    for n in rng.permutation(lists.neurons)[: lists.neurons // 2].tolist():
        assert cores.remove(n) == where[n]
        where[n] = rng.integers(3)
        cores.add(n, int(where[n]))
    blocks = tuple(slices_of(lists, np.flatnonzero(where == c)) for c in range(3))
    for core, used in enumerate(resource_use(sizes, blocks)):
        assert (cores.axons[core], cores.out[core]) == (used["input_axons"], used["output_axons"])
        kinds = tuple(len(k) for k in cores.kinds[core])
        assert kinds == (used["decay_profiles"], used["threshold_profiles"])
        assert cores.least_words[core] <= lists.words(np.flatnonzero(where == core)) <= cores.most_words[core]


@pytest.mark.parametrize("seed", range(12))
def test_like_kernels_of_a_set_are_stored_once(seed: int) -> None:
    rng = np.random.default_rng(seed)
    net = random_network(rng, windows=True)
    on = chip(shared_kernels=True)
    sizes = cost_model(net, on, 8)
    lists = neuron_lists(sizes)
    members = np.flatnonzero(rng.random(lists.neurons) < 0.6)
    slices = slices_of(lists, members)
    shares = {edge.index: edge.shares for edges in sizes.incoming.values() for edge in edges}
    assert any(shares.values())
    expected = 0
    for index, p in enumerate(net.projections):
        place = positions(net.population(p.target).shape, slices, p.target)
        expected += (shared_words if shares[index] else words)(p, place, on, 8)
    assert lists.words(members) == expected


def test_slices_of_an_image_keep_the_order_of_numbering() -> None:
    rng = np.random.default_rng(5)
    net = random_network(rng, windows=True)
    lists = neuron_lists(cost_model(net, LOIHI, 8))
    members = np.flatnonzero(rng.random(lists.neurons) < 0.7)
    found: list[Array] = []
    for s in slices_of(lists, members):
        shape = net.population(s.population).shape
        rank = np.empty(int(np.prod(shape)), np.int64)
        rank[flat_indices(shape, tuple((0, n) for n in shape))] = np.arange(len(rank))
        found.append(lists.first[s.population] + rank[flat_indices(shape, s.box)])
    assert np.concatenate(found).tolist() == members.tolist()


def test_neurons_of_like_profiles_come_together() -> None:
    kinds = np.tile(np.arange(12), 10)
    record = neuron("LIF", a_mem=0.5 + kinds / 32)
    net = network({"in": (4,)}, [population("p", (120,), record)], [Projection("in", "p", Dense(np.ones((120, 4))))])
    report = partition(net, chip(core={"decay_profiles": 4})).report
    assert report.cores == 3


def test_a_shuffled_band_takes_no_more_cores_than_a_sorted_one() -> None:
    on = chip(core={"input_axons": 60, "neurons": 40})
    net = shuffled_band(200, 4, 3)
    # in its order, 40 neurons need their 40 inputs and those of 48 of the band: 26 of them need 60
    report = partition(net, on).report
    assert report.cores <= 200 // 26 + 1


def test_output_axons_are_repaired() -> None:
    net = shuffled_band(60, 8, 1)
    on = chip(core={"output_axons": 24, "neurons": 12})
    sizes = cost_model(net, on, 8)
    blocks = clustered(sizes, capacity(on), {}, 1, 10**9)
    assert blocks is not None
    assert covers(net, blocks)
    assert is_within(sizes, blocks)


def test_groups_share_no_core() -> None:
    net = shuffled_band(30, 2, 1)
    more = network(
        {"in": (30,)},
        [*net.populations, population("q", (30,))],
        [*net.projections, replace(net.projections[0], target="q")],
    )
    blocks = clustered(cost_model(more, LOIHI, 8), capacity(LOIHI), {"q": 1}, 1, 10**9)
    assert blocks is not None
    assert sorted({s.population for s in block} for block in blocks) == [{"p"}, {"q"}]
