"""Removal of the populations that no output can be reached from."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import ClassVar

from nirbridge.errors import quoted
from nirbridge.network.graph import useless_populations
from nirbridge.network.model import Network
from nirbridge.passes.base import Promise, check_argument


@dataclass(frozen=True, slots=True)
class EliminateDead:
    """Remove the populations (and their projections) that no output can be reached from.

    Every output stays the same, bit for bit. Populations that no input reaches but that lead to an output stay: their
    biases may make them spike. Ports stay, since they are the network's interface. Each removal is noted.
    """

    pass_name: ClassVar[str] = "eliminate-dead"
    promise: Promise = field(default="same", init=False, repr=False)

    def __call__(self, network: Network) -> Network:
        """The network without dead populations; the same object where there are none."""
        check_argument(self, network)
        dead = useless_populations(network)
        if not dead:
            return network
        removed = set(dead)
        about = tuple(f"population {quoted(name)}: " for name in dead)
        notes = [n for n in network.notes if not n.startswith(about)]
        return replace(
            network,
            populations=tuple(p for p in network.populations if p.name not in removed),
            projections=tuple(p for p in network.projections if p.source not in removed and p.target not in removed),
            notes=(*notes, *(f"population {quoted(n)}: removed, no output can be reached from it" for n in dead)),
        )
