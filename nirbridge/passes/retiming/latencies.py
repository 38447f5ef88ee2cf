"""Latency of each population: least latencies under difference constraints, and a loop that has none named.

Every arc asks for ``latency[target] - latency[source] >= needs``. Of all integer solutions with no latency below 0
there is one that is least in every latency at once (the longest paths); a loop whose needs add up to more than 0 has
none.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from nirbridge.errors import Bug

_ROOT = ""
"""Stands for time 0; no population or port has an empty name."""


@dataclass(frozen=True, slots=True)
class LatencyArc:
    """``latency[target] - latency[source] >= needs``; each time step above that costs ``weight``."""

    source: str
    target: str
    needs: int
    weight: int = 0


def least_latencies(names: Sequence[str], arcs: Sequence[LatencyArc]) -> tuple[dict[str, int], tuple[str, ...]]:
    """The least latencies of 0 or more, and a loop that cannot be met, in the order of its arcs.

    Bellman and Ford's rounds over the arcs in the order given, which is one round where that order is causal. With a
    loop the latencies mean nothing; without one it is empty.
    """
    latency = dict.fromkeys(names, 0)
    before: dict[str, str] = {}
    changed = ""
    for _ in range(len(names) + 1):
        changed = ""
        for arc in arcs:
            least = latency[arc.source] + arc.needs
            if least > latency[arc.target]:
                latency[arc.target], before[arc.target], changed = least, arc.source, arc.target
        if not changed:
            return latency, ()
    return latency, _loop(changed, before, len(names))


def _loop(name: str, before: Mapping[str, str], count: int) -> tuple[str, ...]:
    for _ in range(count):  # from a node that still rises, far enough back to be on the loop itself
        name = before[name]
    loop = [name]
    while before[loop[-1]] != name:
        loop.append(before[loop[-1]])
    return tuple(reversed(loop))


def all_loops(names: Sequence[str], arcs: Sequence[LatencyArc]) -> tuple[tuple[str, ...], ...]:
    """Loops that cannot be met: one after the other, each without the arcs of those before it."""
    loops: list[tuple[str, ...]] = []
    left = list(arcs)
    while loop := least_latencies(names, left)[1]:
        loops.append(loop)
        removed = set(pairwise((*loop, loop[0])))
        left = [arc for arc in left if (arc.source, arc.target) not in removed]
    return tuple(loops)


def cheapest_latencies(least: Mapping[str, int], arcs: Sequence[LatencyArc], free: Collection[str]) -> dict[str, int]:
    """Latencies of least cost where only those of ``free`` may rise above ``least``; of several the least ones.

    The cost is the sum over arcs of ``weight * (latency[target] - latency[source] - needs)``. It is a linear program
    over difference constraints, whose corners are integers. A solution costs the least exactly if the arcs
    that the dual solution pays for are tight; so the least of them all are least latencies once more.
    """
    costly = [a for a in arcs if a.weight and least[a.target] - least[a.source] > a.needs]
    if not any(a.source in free or a.target in free for a in costly):
        return dict(least)
    fixed = [name for name in least if name not in free]
    bounds = [LatencyArc(_ROOT, name, least[name]) for name in least] + [
        LatencyArc(name, _ROOT, -least[name]) for name in fixed
    ]
    every = [*arcs, *bounds]
    tight = [LatencyArc(a.target, a.source, -a.needs) for a in _paid_for((*least, _ROOT), every)]
    latency, loop = least_latencies((_ROOT, *least), [*every, *tight])
    if loop or latency[_ROOT]:
        raise Bug.of("latencies", "the tight arcs contradict each other", "", "please report it")
    return {name: latency[name] for name in least}


def _paid_for(names: Sequence[str], arcs: Sequence[LatencyArc]) -> list[LatencyArc]:
    """The arcs with a dual above 0: tight in every solution of least cost."""
    import numpy as np
    from scipy import sparse
    from scipy.optimize import linprog

    at = {name: k for k, name in enumerate(names)}
    rows = np.arange(len(arcs))
    sources, targets = (np.array([at[getattr(a, end)] for a in arcs]) for end in ("source", "target"))
    ones = np.ones(len(arcs))
    table = sparse.csr_array(
        (np.concatenate((ones, -ones)), (np.tile(rows, 2), np.concatenate((sources, targets)))),
        shape=(len(arcs), len(names)),
    )
    weights = np.array([float(a.weight) for a in arcs])
    cost = np.bincount(targets, weights, len(names)) - np.bincount(sources, weights, len(names))
    limits = [(None, None)] * (len(names) - 1) + [(0, 0)]
    solved = linprog(cost, A_ub=table, b_ub=[-a.needs for a in arcs], bounds=limits, method="highs")
    if solved.status != 0:
        raise Bug.of("latencies", f"the solver says: {solved.message}", "", "please report it")
    return [arc for arc, dual in zip(arcs, solved.ineqlin.marginals, strict=True) if dual < -0.5]
