"""The best order of a few neurons in a core: every permutation, so that what fits in none fits in none at all."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import permutations

import numpy as np

from nirbridge.arrays import Array
from nirbridge.partitioner.cost.connectivity import explicit
from nirbridge.partitioner.cost.resources import axon_list_words
from nirbridge.partitioner.cost.sizing import CostModel

MOST = 7
"""Neurons of one population in a core whose orders are all tried."""


def best_order(sizes: CostModel, population: str, neurons: Sequence[int]) -> tuple[tuple[int, ...], int]:
    """The order of fewest words of at most ``MOST`` neurons (flat indices) of a population, the first of several.

    Neurons of other populations between them would only lengthen their lists. Kernels that are stored once are not
    known here.
    """
    orders = _orders(len(neurons))
    words = np.zeros(len(orders), np.int64)
    bit = 1 << np.arange(len(neurons))
    for edge in sizes.incoming[population]:
        form = explicit(edge.form, population)
        pairs = [(form.sources[form.indptr[n] : form.indptr[n + 1]], b) for n, b in zip(neurons, bit, strict=True)]
        held = np.zeros(form.n_sources, np.int64)
        for sources, b in pairs:
            held[sources] |= b
        masks, counts = np.unique(held[held > 0], return_counts=True)
        table = _table(sizes, len(neurons), delayed=edge.delayed, fills=edge.fills)
        for mask, count in zip(masks, counts, strict=True):
            # bit k of a pattern: the neuron at place k is a target
            pattern = ((mask >> orders & 1) << np.arange(len(neurons))).sum(axis=1)
            words += count * table[pattern]
    best = int(np.argmin(words))
    return tuple(neurons[i] for i in orders[best]), int(words[best])


@lru_cache(maxsize=MOST + 1)
def _orders(n: int) -> Array:
    return np.array(list(permutations(range(n))), np.int64).reshape(-1, n)


def _table(sizes: CostModel, n: int, *, delayed: bool, fills: bool) -> Array:
    """Words of a list by its pattern of places, bit k for place k."""
    pattern = np.arange(1 << n)
    axon, place = np.nonzero(pattern[:, None] >> np.arange(n) & 1)
    table = np.zeros(1 << n, np.int64)
    how = {"delayed": delayed, "filled": fills}
    ids, words = axon_list_words(axon, place, sizes.chip.synapses, sizes.weight_bits, **how)
    table[ids] = words
    return table
