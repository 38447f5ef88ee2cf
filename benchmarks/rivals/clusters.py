"""Greedy clusters: a core repeatedly takes the neuron that adds the fewest new input axons.

Among those of equally few, the one whose profiles are in the core already, then the one of most sources, then the
first. A neuron that does not fit is left for a later core. A core begins with the first neuron that is left, in the
order of the network or in the opposite one, which places targets before their sources and so knows output axons.
"""

from __future__ import annotations

import numpy as np
from scipy import sparse

from benchmarks.rivals.accounting import Accounts
from benchmarks.rivals.filling import Cores, best, room
from nirbridge.arrays import Array


def clusters(accounts: Accounts) -> Cores | None:
    """Cores of neurons, the fewer of both orders; None: neither is legal."""
    rows = [np.repeat(e.first + np.arange(len(e.start) - 1), np.diff(e.start)) for e in accounts.incoming]
    target, source = np.concatenate([[], *rows]), np.concatenate([[], *(e.source for e in accounts.incoming)])
    fed = sparse.csr_array((np.ones(len(target)), (target, source)), (accounts.neurons, accounts.points)) > 0
    order = np.arange(accounts.neurons)
    return best(accounts, (_grow(accounts, fed, order), _grow(accounts, fed, order[::-1])))


def _grow(accounts: Accounts, fed: sparse.csr_array, order: Array) -> Cores | None:
    slots, left = np.zeros(accounts.points, np.int64), np.ones(accounts.neurons, bool)
    cores: Cores = []
    feeds = fed.T.tocsr()
    while left.any():
        members, open_ = np.zeros(accounts.neurons, bool), left.copy()
        has, new = np.zeros(accounts.points, bool), np.diff(fed.indptr)
        rank = np.lexsort((np.argsort(order), -new))
        place, chosen = np.argsort(rank), int(order[np.argmax(left[order])])
        while True:
            open_[chosen] = False
            members[chosen] = True
            if not room(accounts, np.flatnonzero(members), slots):
                members[chosen] = False
            for source in fed.indices[fed.indptr[chosen] : fed.indptr[chosen + 1]] if members[chosen] else ():
                if not has[source]:
                    has[source] = True
                    new[feeds.indices[feeds.indptr[source] : feeds.indptr[source + 1]]] -= 1
            open_ &= has.sum() + new <= accounts.cap["input_axons"]
            if not open_.any() or members.sum() >= accounts.cap["neurons"]:
                break
            decay, threshold = (np.isin(k, k[members]) for k in (accounts.decay, accounts.threshold))
            score = np.where(open_, (new * 3 + ~decay + 0 + ~threshold) * accounts.neurons + place, 2**60)
            chosen = int(np.argmin(score))
        if not members.any():
            return None
        cores.append(np.flatnonzero(members))
        left &= ~members
        slots[has] += 1
    return cores
