"""Bounds from profiles and conflicts, by hand and against brute force."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from nirbridge.errors import DoesNotFit
from nirbridge.network.model import Network, Projection
from nirbridge.network.neurons import neuron
from nirbridge.network.operators import Dense, Sparse
from nirbridge.partitioner import partition
from nirbridge.partitioner.cost.neurons import neuron_lists
from nirbridge.partitioner.cost.sizing import cost_model
from nirbridge.partitioner.search.bounds import conflict_bound, profile_bounds
from nirbridge.partitioner.search.slicing import capacity
from tests.partitioner.cases import chip, network, population, random_network


def fed_by(rows: list[list[int]], inputs: int) -> Network:
    """One population; ``rows`` are the inputs of each neuron."""
    indptr = np.concatenate(([0], np.cumsum([len(r) for r in rows])))
    operator = Sparse(indptr, np.concatenate(rows), np.ones(int(indptr[-1])), (inputs,), (len(rows),))
    return network({"in": (inputs,)}, [population("p", (len(rows),))], [Projection("in", "p", operator)])


def with_kinds(decays: int, thresholds: int) -> Network:
    kinds = np.arange(24)
    record = neuron("LIF", a_mem=0.5 + kinds % decays / 64, theta=1.0 + kinds % thresholds)
    return network({"in": (4,)}, [population("p", (24,), record)], [Projection("in", "p", Dense(np.ones((24, 4))))])


def test_every_profile_lies_in_some_core() -> None:
    on = chip(core={"decay_profiles": 5, "threshold_profiles": 3})
    for decays, thresholds, expected in [
        (11, 3, {"decay_profiles": 3}),
        (5, 7, {"threshold_profiles": 3}),
        (5, 3, {}),
        (24, 24, {"decay_profiles": 5, "threshold_profiles": 8}),
    ]:
        sizes = cost_model(with_kinds(decays, thresholds), on, 8)
        assert profile_bounds(sizes, capacity(on)) == expected
    report = partition(with_kinds(11, 3), on).report
    assert (report.cores, report.cores_lower_bound, report.binding) == (3, 3, "decay_profiles")


def test_profiles_prove_that_no_map_exists() -> None:
    on = chip(core={"decay_profiles": 1})
    few = with_kinds(24, 1)
    mesh = on.mesh.__class__(4, 4, 1, 1)
    with pytest.raises(
        DoesNotFit, match=r"at least 24 cores in any map .* proved by the limit per core of 1 decay prof"
    ):
        partition(few, on.__class__(**{f: getattr(on, f) for f in on.__slots__} | {"mesh": mesh}))


def test_neurons_of_which_no_two_fit_one_core() -> None:
    rows = [[0, 1, 2], [3, 4, 5], [6, 7, 8], [0, 1, 3], [2, 3, 4]]
    sizes = cost_model(fed_by(rows, 9), chip(), 8)
    assert conflict_bound(sizes, 6) == 1
    assert conflict_bound(sizes, 5) == 3
    assert conflict_bound(sizes, 4) == 3  # the first and the fourth have 4, so have the second and the last
    assert conflict_bound(sizes, 3) == 5


@pytest.mark.parametrize("seed", range(20))
def test_a_bound_is_a_set_of_conflicting_neurons(seed: int) -> None:
    """No larger than the largest such set among the widest neurons, found by trying all."""
    rng = np.random.default_rng(seed)
    net = random_network(rng)
    sizes = cost_model(net, chip(), 8)
    lists = neuron_lists(sizes)
    most = int(lists.fan_in.max()) + int(rng.integers(0, 4))
    if lists.neurons > 14:
        rows = [lists.fed.row(n).tolist() for n in np.argsort(-lists.fan_in)[:14].tolist()]
        sizes = cost_model(fed_by(rows, lists.points), chip(), 8)
    else:
        rows = [lists.fed.row(n).tolist() for n in range(lists.neurons)]
    clash = {(a, b) for a, b in combinations(range(len(rows)), 2) if len({*rows[a], *rows[b]}) > most}
    largest = max(
        k
        for k in range(1, len(rows) + 1)
        if any(all(p in clash for p in combinations(c, 2)) for c in combinations(range(len(rows)), k))
    )
    assert 1 <= conflict_bound(sizes, most) <= largest
