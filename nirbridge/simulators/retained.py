"""Cache of the last prepared simulator per network, one in each thread.

The cache is global: it lives as long as the thread and the network do. Threads share nothing of it, since a simulator
notes which kernels its runs chose.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

from nirbridge.network.compose import parts_of
from nirbridge.network.model import Network

BYTES = 2**26
"""Weights up to which a network is kept ready: what is kept is about as large, for as long as the network lives."""
Options = tuple[str, ...]
Simulator = TypeVar("Simulator")


class _Cache(threading.local):
    def __init__(self) -> None:
        self.ready: WeakKeyDictionary[Network, tuple[Options, Any]] = WeakKeyDictionary()


_of_thread = _Cache()


def retained(network: Network, options: Options, make: Callable[[Network], Simulator]) -> Simulator:
    """What ``make`` gives for this very network and these options: that of the last call, else a new one.

    A network never changes, so neither does what is made of it. One is kept per network and thread, the last that was
    requested, and it goes when the network or the thread goes.
    """
    ready = _of_thread.ready
    found = ready.get(network)
    if found is not None and found[0] == options:
        return found[1]
    made = make(replace(network))  # which must not keep the network itself alive
    if _bytes(network) <= BYTES:
        ready[network] = options, made
    return made


def _bytes(network: Network) -> int:
    parts = [part for p in network.projections for part in parts_of(p.operator)]
    return sum(getattr(part, name).nbytes for part in parts for name in ("weight", "data") if hasattr(part, name))
