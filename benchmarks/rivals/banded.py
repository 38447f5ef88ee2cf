"""Bandwidth: neurons in reverse Cuthill-McKee order of who feeds whom, each core filled to the last that fits.

A stand-in for a graph partitioner (METIS) with a repair, which is not a dependency of this project: neurons that are
near in the graph get near in the order, and filling by the exact use is the repair. ``metis.py`` is the real one.
"""

from __future__ import annotations

import numpy as np
from scipy import sparse
from scipy.sparse.csgraph import reverse_cuthill_mckee

from benchmarks.rivals.accounting import Accounts
from benchmarks.rivals.filling import Cores, best, fill


def feeds(accounts: Accounts) -> sparse.csr_array:
    """[points, points], symmetric: how many synapses join two neurons (or a neuron and a host input)."""
    rows = [np.repeat(e.first + np.arange(len(e.start) - 1), np.diff(e.start)) for e in accounts.incoming]
    target = np.concatenate([[], *rows]).astype(np.int64)
    source = np.concatenate([[], *(e.source for e in accounts.incoming)]).astype(np.int64)
    graph = sparse.csr_array((np.ones(len(target)), (target, source)), (accounts.points, accounts.points))
    return sparse.csr_array(graph + graph.T)


def banded(accounts: Accounts) -> Cores | None:
    """Cores of neurons, the fewer of both directions; None: neither is legal."""
    order = reverse_cuthill_mckee(feeds(accounts), symmetric_mode=True)
    order = order[order < accounts.neurons].astype(np.int64)
    return best(accounts, (fill(accounts, order), fill(accounts, order[::-1])))
