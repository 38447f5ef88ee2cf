"""Which populations matter: reached from an input, and leading to an output."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from nirbridge.errors import quoted
from nirbridge.network.model import Network


def _closure(start: Iterable[str], arcs: Sequence[tuple[str, str]]) -> frozenset[str]:
    following: dict[str, list[str]] = {}
    for source, target in arcs:
        following.setdefault(source, []).append(target)
    seen = set(start)
    waiting = list(seen)
    while waiting:
        for target in following.get(waiting.pop(), ()):
            if target not in seen:
                seen.add(target)
                waiting.append(target)
    return frozenset(seen)


def reached(network: Network) -> frozenset[str]:
    """Names that a path from an input leads to, the inputs among them."""
    return _closure((p.name for p in network.inputs), [(p.source, p.target) for p in network.projections])


def useful(network: Network) -> frozenset[str]:
    """Names from which a path leads to an output, the outputs among them."""
    return _closure((p.name for p in network.outputs), [(p.target, p.source) for p in network.projections])


def unreached(network: Network) -> tuple[str, ...]:
    """Populations that no input reaches, in network order; their own constants may still make them spike."""
    alive = reached(network)
    return tuple(p.name for p in network.populations if p.name not in alive)


def useless(network: Network) -> tuple[str, ...]:
    """Populations that no output can be reached from, in network order."""
    alive = useful(network)
    return tuple(p.name for p in network.populations if p.name not in alive)


def dead_notes(network: Network) -> tuple[str, ...]:
    """One sentence for each population, input and output that is cut off."""
    alive, wanted = reached(network), useful(network)
    notes = [f"population {quoted(n)}: no input reaches it" for n in unreached(network)]
    notes += [f"population {quoted(n)}: no output can be reached from it" for n in useless(network)]
    notes += [
        f"input {quoted(p.name)}: no output can be reached from it" for p in network.inputs if p.name not in wanted
    ]
    notes += [f"output {quoted(p.name)}: no input reaches it" for p in network.outputs if p.name not in alive]
    return tuple(notes)
