"""Which populations can run through many steps at once, and in which order: strongly connected groups."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from nirbridge.network.model import Network, Population


@dataclass(frozen=True, slots=True)
class Group:
    """Populations that hear each other, in causal order; a population outside every cycle is alone."""

    populations: tuple[Population, ...]
    has_cycle: bool


def groups(network: Network) -> tuple[Group, ...]:
    """The groups so that each comes after all those that it hears, delayed or not.

    ``network.populations`` is in causal order (``in_causal_order``), and so are the members of a group.
    """
    rank = {p.name: k for k, p in enumerate(network.populations)}
    heard: dict[str, list[str]] = {p.name: [] for p in network.populations}
    for p in network.projections:
        if p.source in rank and p.target in rank:
            heard[p.target].append(p.source)
    found = []
    for names in _components(list(rank), heard):
        members = tuple(network.populations[k] for k in sorted(rank[n] for n in names))
        found.append(Group(members, len(names) > 1 or names[0] in heard[names[0]]))
    return tuple(found)


def _components(names: Sequence[str], heard: Mapping[str, Sequence[str]]) -> Iterator[list[str]]:
    """Strongly connected components, those that are heard first (Tarjan 1972, without recursion)."""
    number: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    waiting: set[str] = set()
    for root in names:
        if root in number:
            continue
        path = [(root, iter(heard[root]))]
        number[root] = low[root] = len(number)
        stack.append(root)
        waiting.add(root)
        while path:
            name, others = path[-1]
            other = next(others, None)
            if other is None:
                path.pop()
                if path:
                    low[path[-1][0]] = min(low[path[-1][0]], low[name])
                if low[name] == number[name]:
                    yield _cut(stack, waiting, name)
            elif other not in number:
                number[other] = low[other] = len(number)
                stack.append(other)
                waiting.add(other)
                path.append((other, iter(heard[other])))
            elif other in waiting:
                low[name] = min(low[name], number[other])


def _cut(stack: list[str], waiting: set[str], name: str) -> list[str]:
    component: list[str] = []
    while not component or component[-1] != name:
        component.append(stack.pop())
    waiting.difference_update(component)
    return component
