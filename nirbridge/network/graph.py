"""Graph algorithms on a network: causal order and back edges, reachability, strongly connected components.

Only projections without a delay constrain the causal order; a back edge, which closes a cycle of zero delay, gets a
delay of one time step (docs/decisions/0001-delays-in-cycles.md).
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np

from nirbridge.arrays import freeze
from nirbridge.errors import quoted
from nirbridge.network.model import Network, Population, Projection
from nirbridge.network.naming import natural_key

Key = TypeVar("Key")
Item = TypeVar("Item")


def in_causal_order(network: Network) -> Network:
    """Mark back edges (one time step of delay each), order populations causally and projections by target.

    A projection that is already marked stays marked and keeps its delay. Within a target the order is kept.
    On a cycle the delay that all synapses of a projection have comes before its operator.
    """
    names = [p.name for p in network.populations]
    inputs, outputs = [p.name for p in network.inputs], [p.name for p in network.outputs]
    arcs = [DelayArc(p.source, p.target, p.min_delay_steps) for p in network.projections]
    is_back = back_arcs(inputs, names, arcs)
    delayed = _delays_first(network)
    projections = [_one_later(p) if back else p for p, back in zip(delayed, is_back, strict=True)]
    order = causal_order(names, arcs, [p.is_back for p in projections])
    rank = {name: k for k, name in enumerate((*order, *outputs))}
    by_name = {p.name: p for p in network.populations}
    return replace(
        network,
        populations=tuple(by_name[name] for name in order),
        projections=tuple(sorted(projections, key=lambda p: rank[p.target])),
    )


def _one_later(p: Projection) -> Projection:
    return replace(p, delay_steps=freeze(p.delay_steps + 1, np.int64), is_back=True)


def _delays_first(network: Network) -> Sequence[Projection]:
    """Projections whose source is on a cycle with their target read past values, not those of the same time step."""
    late = [p for p in network.projections if p.min_delay_steps and not p.delay_steps.all()]
    if not late:
        return network.projections
    group = {p.name: k for k, g in enumerate(population_groups(network)) for p in g.populations}
    moved = {id(p): _moved(p) for p in late if group.get(p.source, -1) == group.get(p.target, -2)}
    return [moved.get(id(p), p) for p in network.projections]


def _moved(p: Projection) -> Projection:
    steps = int(p.target_delay_steps.min())
    return replace(
        p, delay_steps=freeze(p.delay_steps + steps), target_delay_steps=freeze(p.target_delay_steps - steps)
    )


@dataclass(frozen=True, slots=True)
class DelayArc:
    """A projection as the graph of cycles sees it; ``delay_steps`` is the shortest delay of any of its synapses."""

    source: str
    target: str
    delay_steps: int


def back_arcs(inputs: Sequence[str], others: Sequence[str], arcs: Sequence[DelayArc]) -> tuple[bool, ...]:
    """For each arc, whether it closes a cycle of zero delay.

    Depth first from the inputs in natural order of names, successors in natural order, then from ``others`` that
    were not reached; an arc to a node on the current path closes a cycle. Without these arcs no cycle of zero delay
    is left.
    """
    instant = {(a.source, a.target) for a in arcs if a.delay_steps == 0}
    following = grouped(sorted(instant, key=lambda arc: natural_key(arc[1])))
    closing: set[tuple[str, str]] = set()
    done: set[str] = set()
    for root in [*sorted(inputs, key=natural_key), *sorted(others, key=natural_key)]:
        if root not in done:
            _walk(root, following, done, closing)
    return tuple(a.delay_steps == 0 and (a.source, a.target) in closing for a in arcs)


def _walk(root: str, following: dict[str, list[str]], done: set[str], closing: set[tuple[str, str]]) -> None:
    path = {root}
    stack = [(root, iter(following.get(root, ())))]
    while stack:
        node, targets = stack[-1]
        target = next(targets, None)
        if target is None:
            stack.pop()
            path.discard(node)
            done.add(node)
        elif target in path:
            closing.add((node, target))
        elif target not in done:
            path.add(target)
            stack.append((target, iter(following.get(target, ()))))


def grouped(pairs: Iterable[tuple[Key, Item]]) -> dict[Key, list[Item]]:
    """The second items of all pairs by the first, both in the order of the pairs."""
    groups: dict[Key, list[Item]] = {}
    for key, item in pairs:
        groups.setdefault(key, []).append(item)
    return groups


def causal_order(names: Sequence[str], arcs: Sequence[DelayArc], is_back: Sequence[bool]) -> tuple[str, ...]:
    """``names`` so that each comes after the sources of its zero-delay arcs, back arcs aside; ties by natural name.

    Among the names that may come next, those wait that a delayed arc still leads to, so that a network of explicit
    delays keeps its layers in order. Names left over (a cycle of zero delay not marked as back) follow at the end.
    """
    must, should = dict.fromkeys(names, 0), dict.fromkeys(names, 0)
    leaving: dict[str, list[tuple[str, bool]]] = {}
    for arc, back in zip(arcs, is_back, strict=True):
        if back or arc.source not in must or arc.target not in must or arc.source == arc.target:
            continue
        instant = arc.delay_steps == 0
        (must if instant else should)[arc.target] += 1
        leaving.setdefault(arc.source, []).append((arc.target, instant))
    heap = [(should[n], natural_key(n)) for n in names if not must[n]]
    heapq.heapify(heap)
    order: list[str] = []
    placed: set[str] = set()
    while heap:
        waits, key = heapq.heappop(heap)
        name = key[1]
        if name in placed or waits != should[name]:
            continue  # an old entry: a newer one has fewer waits
        placed.add(name)
        order.append(name)
        for target, instant in leaving.get(name, ()):
            (must if instant else should)[target] -= 1
            if not must[target] and target not in placed:
                heapq.heappush(heap, (should[target], natural_key(target)))
    rest = sorted((n for n in names if n not in placed), key=natural_key)
    return (*order, *rest)


def topological_order(names: Iterable[str], following: Mapping[str, Sequence[str]]) -> list[str]:
    """``names``, each after all that lead to it; names on a cycle, and those after one, are left out."""
    waits = dict.fromkeys(names, 0)
    for targets in following.values():
        for target in targets:
            waits[target] += 1
    ready = [name for name, count in waits.items() if not count]
    order: list[str] = []
    while ready:
        name = ready.pop()
        order.append(name)
        for target in following.get(name, ()):
            waits[target] -= 1
            if not waits[target]:
                ready.append(target)
    return order


def cycle_among(names: Sequence[str], following: Mapping[str, Sequence[str]]) -> tuple[tuple[str, ...], str]:
    """One cycle among ``names``, those that ``topological_order`` left out, and the text that a message shows."""
    before: dict[str, str] = {}
    for source in names:
        for target in following.get(source, ()):
            before.setdefault(target, source)
    trail: dict[str, None] = {}
    name = names[0]
    while name not in trail:
        trail[name] = None
        name = before[name]
    path = list(trail)
    cycle = path[path.index(name) :][::-1]
    shown = " -> ".join(quoted(n) for n in [*cycle[:6], *(["…"] if len(cycle) > 6 else []), cycle[0]])
    return tuple(cycle), shown


def closure(start: Iterable[str], arcs: Sequence[tuple[str, str]]) -> frozenset[str]:
    """Names that a path of arcs from one of ``start`` leads to, ``start`` among them."""
    following, reached = grouped(arcs), set(start)
    waiting = list(reached)
    while waiting:
        targets = set(following.get(waiting.pop(), ())) - reached
        reached |= targets
        waiting += targets
    return frozenset(reached)


def reached_by_inputs(network: Network) -> frozenset[str]:
    """Names that a path from an input leads to, the inputs among them."""
    return closure((p.name for p in network.inputs), [(p.source, p.target) for p in network.projections])


def reaching_outputs(network: Network) -> frozenset[str]:
    """Names from which a path leads to an output, the outputs among them."""
    return closure((p.name for p in network.outputs), [(p.target, p.source) for p in network.projections])


def unreached_populations(network: Network) -> tuple[str, ...]:
    """Populations that no input reaches, in network order; their own constants may still make them spike."""
    driven = reached_by_inputs(network)
    return tuple(p.name for p in network.populations if p.name not in driven)


def useless_populations(network: Network) -> tuple[str, ...]:
    """Populations that no output can be reached from, in network order."""
    useful = reaching_outputs(network)
    return tuple(p.name for p in network.populations if p.name not in useful)


def dead_notes(network: Network) -> tuple[str, ...]:
    """One sentence per population, input and output without a path from an input or to an output."""
    driven, useful = reached_by_inputs(network), reaching_outputs(network)
    kinds = (
        ("population", network.populations, driven, "no input reaches it"),
        ("population", network.populations, useful, "no output can be reached from it"),
        ("input", network.inputs, useful, "no output can be reached from it"),
        ("output", network.outputs, driven, "no input reaches it"),
    )
    return tuple(
        f"{kind} {quoted(p.name)}: {text}" for kind, ends, names, text in kinds for p in ends if p.name not in names
    )


@dataclass(frozen=True, slots=True)
class PopulationGroup:
    """Strongly connected component in causal order; a population on no cycle is a component of its own."""

    populations: tuple[Population, ...]
    has_cycle: bool


def population_groups(network: Network) -> tuple[PopulationGroup, ...]:
    """Strongly connected components in topological order, projections with a delay included.

    ``network.populations`` is in causal order (``in_causal_order``), and so are the members of a group.
    """
    rank = {p.name: k for k, p in enumerate(network.populations)}
    sources: dict[str, list[str]] = {p.name: [] for p in network.populations}
    for p in network.projections:
        if p.source in rank and p.target in rank:
            sources[p.target].append(p.source)
    return tuple(
        PopulationGroup(
            tuple(network.populations[k] for k in sorted(rank[n] for n in names)),
            has_cycle=len(names) > 1 or names[0] in sources[names[0]],
        )
        for names in _components(list(rank), sources)
    )


def _components(names: Sequence[str], sources: Mapping[str, Sequence[str]]) -> Iterator[list[str]]:
    """Strongly connected components, sources first (Tarjan 1972, without recursion)."""
    number: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    waiting: set[str] = set()
    for root in names:
        if root in number:
            continue
        path = [(root, iter(sources[root]))]
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
                path.append((other, iter(sources[other])))
            elif other in waiting:
                low[name] = min(low[name], number[other])


def _cut(stack: list[str], waiting: set[str], name: str) -> list[str]:
    component: list[str] = []
    while not component or component[-1] != name:
        component.append(stack.pop())
    waiting.difference_update(component)
    return component
