"""Bounds, proofs and refusals where weights are 0, against every grouping, order and encoding of tiny networks."""

from __future__ import annotations

import numpy as np
import pytest

from nirbridge.chips import read_chip
from nirbridge.errors import DoesNotFit
from nirbridge.network.model import Network, Port, Projection
from nirbridge.network.operators import Dense
from nirbridge.partitioner import partition
from nirbridge.partitioner.cost.connectivity import explicit
from nirbridge.partitioner.cost.resources import axon_list_words
from nirbridge.partitioner.cost.sizing import cost_model
from nirbridge.partitioner.search.exact import best_order
from nirbridge.pipeline import MapOptions, map_network
from tests.cases import cases
from tests.mapping.hand_made import network_of, population
from tests.partitioner.brute_force_zeros import Fewest, random_case

OPTIONS = MapOptions(placement_only=True, retime="never")


@pytest.mark.parametrize("first", range(0, cases(60, 600), 20))
def test_tiny_networks_get_the_fewest_cores_and_the_proof(first: int) -> None:
    found = 0
    for seed in range(first, first + 20):
        network, chip = random_case(seed)
        best = Fewest(network, chip).cores(network.neurons)
        try:
            report = map_network(network, chip, OPTIONS).partition.report
        except DoesNotFit:
            assert best is None, seed
            continue
        assert (report.cores, report.cores_lower_bound, report.status) == (best, best, "optimal"), seed
        found += 1
    assert found >= 10


def heads(neurons: int, many: int, order: str) -> Network:
    """A block-diagonal layer, its sources and targets in order or not."""
    rng, size = np.random.default_rng(many), neurons // many
    weight = np.kron(np.eye(many), np.ones((size, size))) * rng.uniform(0.3, 1.0, size=(many * size, many * size))
    if order == "shuffled":
        weight = weight[rng.permutation(len(weight))][:, rng.permutation(len(weight))]
    way = Projection("in", "p", Dense(weight))
    return network_of([population("p", len(weight))], [way], [Port("in", (len(weight),))])


@pytest.mark.parametrize(
    ("name", "neurons", "many", "cores"),
    [("loihi1", 1024, 2, 5), ("loihi2", 1000, 2, 3), ("loihi1", 1024, 4, 3), ("loihi2", 1000, 4, 2)],
)
def test_shuffled_heads_take_the_cores_of_those_in_order(name: str, neurons: int, many: int, cores: int) -> None:
    mapped = map_network(heads(neurons, many, "shuffled"), read_chip(name), OPTIONS)
    assert (mapped.partition.report.cores, mapped.partition.report.status) == (cores, "optimal")
    assert mapped.partition.orders


def test_the_best_order_is_that_of_every_order() -> None:
    rng = np.random.default_rng(2)
    weight = np.where(rng.random((5, 12)) < 0.5, 1.0, 0.0)
    network = network_of([population("p", 5)], [Projection("in", "p", Dense(weight))], [Port("in", (12,))])
    mapped = map_network(network, read_chip("loihi1"), OPTIONS)
    sizes = cost_model(mapped.stored_network, mapped.chip, 8)
    lists = explicit(sizes.incoming["p"][0].form, "p")
    order, words = best_order(sizes, "p", range(5))

    def counted(places: tuple[int, ...]) -> int:
        own = [lists.sources[lists.indptr[n] : lists.indptr[n + 1]] for n in places]
        at, source = np.repeat(np.arange(5), [len(s) for s in own]), np.concatenate(own)
        by = np.lexsort((at, source))
        return int(axon_list_words(source[by], at[by], mapped.chip.synapses, 8, delayed=False, filled=True)[1].sum())

    assert counted(order) == words <= counted(tuple(range(5)))
    assert partition(mapped.stored_network, mapped.chip).report.status == "optimal"
