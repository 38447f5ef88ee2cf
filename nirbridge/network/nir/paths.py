"""Paths of linear nodes from a population or input to a population or output."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from nirbridge.errors import ModelError
from nirbridge.network.graph import cycle_among, grouped, topological_order
from nirbridge.network.naming import natural_key

MAX_PATHS = 10_000
MAX_VISITS = 1_000_000
"""Linear nodes on all paths together."""


_Rest = tuple[str, bool, "_Rest"] | None
"""The rest of a path, seen from its start: a linear node, whether the edge into it is its first, and so on."""


@dataclass(frozen=True, slots=True)
class LinearPath:
    """From ``source`` through the linear ``nodes`` (perhaps none) to ``target``.

    ``first[k]``: the edge into ``nodes[k]`` is the first of that node's edges that a source reaches. Constants are
    counted once: the path whose edges up to a node are all first carries that node's bias.
    """

    source: str
    nodes: tuple[str, ...]
    target: str
    first: tuple[bool, ...]


@dataclass(frozen=True, slots=True)
class Wiring:
    """Edges into every node, in the file's order, and how many paths from a source end at each linear node."""

    incoming: Mapping[str, Sequence[str]]
    counts: Mapping[str, int]
    sources: frozenset[str]

    def live(self, name: str) -> int:
        """Paths from a source that arrive at ``name``: 1 for a source itself, 0 where none does."""
        return 1 if name in self.sources else self.counts.get(name, 0)


def build_wiring(edges: Sequence[tuple[str, str]], linear: frozenset[str], sources: frozenset[str]) -> Wiring:
    """The wiring of a graph.

    Raises:
        ModelError: a loop of linear nodes alone.
    """
    incoming = grouped((target, source) for source, target in edges)
    following = grouped((source, target) for source, target in edges if source in linear and target in linear)
    counts: dict[str, int] = {}
    for name in topological_order(linear, following):
        counts[name] = sum(1 if s in sources else counts.get(s, 0) for s in incoming.get(name, ()))
    if len(counts) < len(linear):
        names, shown = cycle_among(sorted(linear - set(counts), key=natural_key), following)
        found = f"linear nodes feed each other in a loop: {shown}"
        raise ModelError.of("graph", found, "a loop needs a neuron in it", "put a neuron between", nodes=names)
    return Wiring(incoming, counts, sources)


def check_count(wiring: Wiring, targets: Sequence[str], limit: int = MAX_PATHS) -> None:
    """Refuse graphs whose branches multiply.

    Raises:
        ModelError: more than ``limit`` paths.
    """
    total = sum(wiring.live(s) for t in targets for s in wiring.incoming.get(t, ()))
    if total > limit:
        shown = f"{total:,}" if total < 10**15 else "more than 10^15"
        found = f"{shown} paths of linear nodes between neurons"
        raise ModelError.of("graph", found, f"at most {limit:,}", "put neurons between the branches, or merge them")


def paths_into(target: str, wiring: Wiring, spend: Callable[[int], None]) -> Iterator[LinearPath]:
    """Every path that ends at ``target``, in the order of the edges (those into the target first).

    ``spend`` is called for each node visited and may raise.
    """
    stack: list[tuple[str, _Rest]] = [(s, None) for s in reversed(wiring.incoming.get(target, ())) if wiring.live(s)]
    while stack:
        name, rest = stack.pop()
        spend(1)
        if name in wiring.sources:
            yield _path(name, rest, target, spend)
            continue
        sources = [s for s in wiring.incoming[name] if wiring.live(s)]
        stack += reversed([(s, (name, k == 0, rest)) for k, s in enumerate(sources)])


def _path(source: str, rest: _Rest, target: str, spend: Callable[[int], None]) -> LinearPath:
    nodes: list[str] = []
    first: list[bool] = []
    while rest is not None:
        name, is_first, rest = rest
        nodes.append(name)
        first.append(is_first)
    spend(len(nodes))
    return LinearPath(source, tuple(nodes), target, tuple(first))
