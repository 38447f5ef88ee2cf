"""METIS + repair: k-way parts of the graph of neurons, one after the other, each core filled to the last that fits.

METIS (through pymetis, where it is installed) balances numbers of neurons alone; the parts follow each other in the
order in which they were numbered, and filling by the exact use repairs what is over a limit. Several k are tried, from
the least number of cores that neurons allow to twice as many.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec

import numpy as np

from benchmarks.rivals.accounting import Accounts
from benchmarks.rivals.banded import feeds
from benchmarks.rivals.filling import Cores, best, fill


def is_installed() -> bool:
    """True where pymetis can be imported."""
    return find_spec("pymetis") is not None


def metis(accounts: Accounts) -> Cores | None:
    """Cores of neurons, the fewest over all k; None: none is legal."""
    return best(accounts, _all(accounts))


def _all(accounts: Accounts) -> Iterator[Cores | None]:
    import pymetis

    graph = feeds(accounts)[: accounts.neurons, : accounts.neurons].tocsr()
    graph.setdiag(0)
    graph.eliminate_zeros()
    least = -(-accounts.neurons // min(accounts.cap["neurons"], accounts.neurons))
    for parts in sorted({least, least + 1, -(-3 * least // 2), 2 * least}):
        adjacency = pymetis.CSRAdjacency(graph.indptr, graph.indices)
        part = pymetis.part_graph(parts, adjacency=adjacency)[1] if parts > 1 else np.zeros(accounts.neurons)
        order = np.argsort(np.asarray(part), kind="stable")
        yield fill(accounts, order)
        yield fill(accounts, order[::-1])
