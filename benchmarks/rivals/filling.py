"""Filling of cores in a given order of the neurons, shared by several rules."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable

import numpy as np

from benchmarks.rivals.accounting import Accounts
from nirbridge.arrays import Array

Cores = list[Array]


def fill(accounts: Accounts, order: Array, breaks: Iterable[int] = ()) -> Cores | None:
    """Each core takes as many of the next neurons of ``order`` as fit, by bisection on the exact use.

    A core ends at the places ``breaks`` at the latest. Output axons to cores filled before count; those to cores filled
    later cannot be known yet. None: a neuron fits no core.
    """
    ends = np.unique([*breaks, len(order)])
    slots = np.zeros(accounts.points, np.int64)
    cores: Cores = []
    start = 0
    while start < len(order):
        end = int(ends[np.searchsorted(ends, start, side="right")])
        most = min(end, start + accounts.cap["neurons"])
        stop = most - bisect_left(range(most, start, -1), True, key=lambda n: room(accounts, order[start:n], slots))
        if stop == start:
            return None
        cores.append(np.sort(order[start:stop]))
        slots[accounts.sources(cores[-1])] += 1
        start = stop
    return cores


def room(accounts: Accounts, members: Array, slots: Array) -> bool:
    """True if a core can hold ``members``; ``slots``: output axons of every neuron to the cores there are."""
    members = np.sort(members)
    if int(slots[members].sum()) > accounts.cap["output_axons"] or not accounts.fits(members):
        return False
    if accounts.cap["output_axons"] >= 2**60:
        return True
    own = len(np.intersect1d(accounts.sources(members), members, assume_unique=True))
    return int(slots[members].sum()) + own <= accounts.cap["output_axons"]


def best(accounts: Accounts, found: Iterable[Cores | None]) -> Cores | None:
    """The legal one of fewest cores (the first of equals); None: none is legal."""
    legal = [cores for cores in found if cores is not None and accounts.is_legal(cores)]
    return min(legal, key=len, default=None)
