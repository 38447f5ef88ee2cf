"""Lower bounds on cores from what neurons do not share: their profiles, and their sources."""

from __future__ import annotations

import numpy as np
from scipy import sparse

from nirbridge.arrays import Array
from nirbridge.partitioner.cost.neurons import NeuronLists, neuron_lists, total_synapses
from nirbridge.partitioner.cost.sizing import CostModel, distinct_profiles
from nirbridge.partitioner.search.slicing import UNLIMITED

NEURONS_MAX = 1_500
SYNAPSES_MAX = 500_000
"""Networks up to these sizes are compared neuron by neuron."""
STARTS = 12
"""Neurons from which a set of conflicting ones is grown."""


def profile_bounds(sizes: CostModel, cap: Array) -> dict[str, int]:
    """Cores for the distinct profiles, where a core cannot hold all: each is in some core."""
    decays, thresholds = distinct_profiles(sizes.network)
    counts = {"decay_profiles": (decays, int(cap[3])), "threshold_profiles": (thresholds, int(cap[4]))}
    return {name: -(-kinds // most) for name, (kinds, most) in counts.items() if kinds > most}


def conflict_bound(sizes: CostModel, input_axons: int) -> int:
    """The size of a set of neurons of which no two fit one core: together they have too many sources."""
    sources = sum(point.size for point in (*sizes.network.populations, *sizes.network.inputs))
    if input_axons >= min(sources, UNLIMITED):
        return 1
    if sizes.network.neurons > NEURONS_MAX or total_synapses(sizes) > SYNAPSES_MAX:
        return 1
    lists = neuron_lists(sizes)
    if 2 * int(lists.fan_in.max(initial=0)) <= input_axons:
        return 1
    return _clique(_conflicts(lists, input_axons))


def _conflicts(lists: NeuronLists, input_axons: int) -> Array:
    """[neurons, neurons], True where two neurons have more distinct sources than a core has input axons."""
    ones = np.ones(len(lists.fed.values), np.int64)
    fed = sparse.csr_array((ones, lists.fed.values, lists.fed.start), shape=(lists.neurons, lists.points))
    common = sparse.csr_array(fed @ fed.T).toarray()
    distinct = lists.fan_in[:, None] + lists.fan_in - common
    np.fill_diagonal(distinct, 0)
    return distinct > input_axons


def _clique(conflict: Array) -> int:
    """The largest of some sets that conflict pairwise: each grows by the neuron with most conflicts in what is left."""
    best, numbers = 1, conflict.astype(np.float32)
    for start in np.argsort(-conflict.sum(axis=1), kind="stable")[:STARTS].tolist():
        left, size = conflict[start].copy(), 1
        while left.any():
            chosen = int(np.argmax(np.where(left, numbers @ left, -1)))
            left &= conflict[chosen]
            size += 1
        best = max(best, size)
    return best
