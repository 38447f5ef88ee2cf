"""Cycles of projections: which edges close them, and an order of the populations.

Only edges that act within the same step matter here: an edge with an explicit delay is causal as it is
(docs/decisions/0001-delays-in-cycles.md).
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass

from nirbridge.network.naming import natural_key


@dataclass(frozen=True, slots=True)
class Arc:
    """A projection as the graph of cycles sees it; ``delay_steps`` is the shortest delay of any of its synapses."""

    source: str
    target: str
    delay_steps: int


def back_arcs(inputs: Sequence[str], others: Sequence[str], arcs: Sequence[Arc]) -> tuple[bool, ...]:
    """For each arc, whether it closes a cycle of zero delay.

    Depth first from the inputs in natural order of names, successors in natural order, then from ``others`` that
    were not reached; an arc to a node on the current path closes a cycle. Without these arcs no cycle of zero delay
    is left.
    """
    following: dict[str, list[str]] = {}
    for source, target in {(a.source, a.target) for a in arcs if a.delay_steps == 0}:
        following.setdefault(source, []).append(target)
    for targets in following.values():
        targets.sort(key=natural_key)
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


def causal_order(names: Sequence[str], arcs: Sequence[Arc], is_back: Sequence[bool]) -> tuple[str, ...]:
    """``names`` so that each comes after the sources of its zero-delay arcs, back arcs aside; ties by natural name.

    Among the names that may come next, those wait that a delayed arc still leads to, so that a network of explicit
    delays keeps its layers in order. Names left over (a cycle of zero delay not marked as back) follow at the end.
    """
    known = set(names)
    must = dict.fromkeys(names, 0)
    should = dict.fromkeys(names, 0)
    leaving: dict[str, list[tuple[str, bool]]] = {}
    for arc, back in zip(arcs, is_back, strict=True):
        if back or arc.source not in known or arc.target not in known or arc.source == arc.target:
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
