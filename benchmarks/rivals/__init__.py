"""Rival rules of mapping, all based on the same exact count of a core (``accounting``), independent of the search."""

from __future__ import annotations

from collections.abc import Callable

from benchmarks.rivals.accounting import Accounts
from benchmarks.rivals.alone import alone
from benchmarks.rivals.banded import banded
from benchmarks.rivals.clusters import clusters
from benchmarks.rivals.filling import Cores
from benchmarks.rivals.metis import is_installed, metis
from benchmarks.rivals.next_fit import next_fit
from benchmarks.rivals.shuffled import shuffled

RIVALS: dict[str, Callable[[Accounts], Cores | None]] = {
    "next-fit": next_fit,
    "greedy clusters": clusters,
    "layer by layer": alone,
    "shuffled": shuffled,
    "banded": banded,
    **({"METIS + repair": metis} if is_installed() else {}),
}
