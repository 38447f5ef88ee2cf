"""A network made ready by one call is kept for the next one with the same network."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from nirbridge.network.compose import parts_of
from nirbridge.network.model import Network

if TYPE_CHECKING:
    from nirbridge.simulators import Simulator

BYTES = 2**26
"""Weights up to which a network is kept ready: what is kept is about as large, for as long as the network lives."""
Options = tuple[str, ...]
_ready: WeakKeyDictionary[Network, tuple[Options, Simulator]] = WeakKeyDictionary()


def retained(network: Network, options: Options, make: Callable[[Network], Simulator]) -> Simulator:
    """What ``make`` gives for this very network and these options: that of the last call, else a new one.

    A network never changes, so neither does what is made of it. One is kept per network, the last that was asked for,
    and it goes when the network goes.
    """
    found = _ready.get(network)
    if found is not None and found[0] == options:
        return found[1]
    made = make(replace(network))  # which must not keep the network itself alive
    if _bytes(network) <= BYTES:
        _ready[network] = options, made
    return made


def _bytes(network: Network) -> int:
    parts = [part for p in network.projections for part in parts_of(p.operator)]
    return sum(getattr(part, name).nbytes for part in parts for name in ("weight", "data") if hasattr(part, name))
