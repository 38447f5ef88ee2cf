"""Neurons of like sources next to each other, so that the lists of a core have few gaps."""

from __future__ import annotations

import numpy as np
from scipy import sparse
from scipy.cluster.hierarchy import leaves_list, linkage
from scipy.spatial.distance import squareform

from nirbridge.arrays import Array

NEURONS_MAX = 4096
"""More neurons stay in their order: each is compared with each."""


def by_likeness(start: Array, sources: Array) -> Array:
    """An order of neurons, the leaves of a tree of average linkage over the Jaccard distances of their sources.

    Neuron ``i`` has the distinct ``sources[start[i]:start[i + 1]]``. Returns a permutation (int64).
    """
    neurons = len(start) - 1
    if not 2 < neurons <= NEURONS_MAX:
        return np.arange(neurons)
    ones = np.ones(len(sources), np.float32)
    rows = sparse.csr_array((ones, sources, start), shape=(neurons, int(sources.max(initial=-1)) + 1))
    common = np.asarray((rows @ rows.T).todense(), np.float64)
    degree = np.diff(start)
    union = degree[:, None] + degree[None, :] - common
    distance = 1.0 - np.divide(common, union, out=np.ones_like(common), where=union > 0)
    np.fill_diagonal(distance, 0.0)
    return np.asarray(leaves_list(linkage(squareform(distance, checks=False), "average")), np.int64)
