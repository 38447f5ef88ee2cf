"""Networks of every form that pictures have to bear: chains, skips, cycles, many populations, hostile names."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np

from nirbridge.network.model import Network, Population, Port, Projection, Timing
from nirbridge.network.neurons import neuron
from nirbridge.network.operators import Dense, Identity

HOSTILE = (
    "<script>alert(1)</script>",
    "$\\frac{1}{",
    "\"'&amp;`",
    "x" * 1000,
    "_hidden\x1b[31m\n\u202e",
    "神経\U0001f9e0",
)


def network_of_arcs(sizes: dict[str, int], arcs: Sequence[tuple[str, str, int]]) -> Network:
    """Populations of LIF neurons; ``in`` and ``out`` are ports; an arc has a source, a target and a delay."""
    ends = {"in": sizes.get("in", 4), "out": sizes.get("out", 2)}
    sizes = {name: size for name, size in sizes.items() if name not in ends}

    def projection(source: str, target: str, delay: int) -> Projection:
        pre, post = ((sizes | ends)[name] for name in (source, target))
        operator = Identity((pre,)) if target == "out" and pre == post else Dense(np.zeros((post, pre)))
        return Projection(source, target, operator, delay_steps=np.int64(delay), is_back=delay == 1)  # pyright: ignore

    return Network(
        1e-3,
        Timing(1e-3, "euler", "to-value", ">", "per-second"),
        tuple(Population(name, (size,), neuron("LIF")) for name, size in sizes.items()),
        tuple(projection(*arc) for arc in arcs),
        (Port("in", (ends["in"],)),),
        (Port("out", (ends["out"],)),),
    )


def _chain(count: int, size: int = 8) -> Network:
    names = [f"l{k}" for k in range(count)]
    ends = ["in", *names, "out"]
    return network_of_arcs(dict.fromkeys(names, size) | {"out": size}, [(a, b, 0) for a, b in itertools.pairwise(ends)])


def _parallel(count: int) -> Network:
    names = [f"expert_{k}" for k in range(count)]
    arcs = [("in", n, 0) for n in names] + [(n, "sum", 0) for n in names] + [("sum", "out", 0)]
    return network_of_arcs(dict.fromkeys(names, 16) | {"sum": 2}, arcs)


NETWORKS = {
    "one": lambda: network_of_arcs({"only": 1}, [("in", "only", 0), ("only", "out", 0)]),
    "alone": lambda: network_of_arcs({"only": 1}, []),
    "chain": lambda: _chain(5),
    "chain of 100": lambda: _chain(100),
    "100 side by side": lambda: _parallel(100),
    "four side by side": lambda: _parallel(4),
    "different sizes": lambda: network_of_arcs(
        {f"p{k}": 3 + k for k in range(100)},
        [
            ("in", "p0", 0),
            *((f"p{k}", f"p{k + 1}", 0) for k in range(99)),
            *((f"p{k}", f"p{k + 7}", 0) for k in range(90)),
        ],
    ),
    "skips": lambda: network_of_arcs(
        {"a": 8, "b": 8, "c": 8, "d": 2},
        [("in", "a", 0), ("a", "b", 0), ("b", "c", 0), ("c", "d", 0), ("a", "d", 3), ("in", "c", 0), ("d", "out", 0)],
    ),
    "cycles": lambda: network_of_arcs(
        {"encoder": 8, "reservoir": 100, "feedback": 20, "readout": 2},
        [
            *(("in", "encoder", 0), ("encoder", "reservoir", 0), ("reservoir", "reservoir", 2)),
            *(("reservoir", "feedback", 0), ("feedback", "encoder", 4), ("reservoir", "readout", 0)),
            *(("readout", "readout", 1), ("readout", "reservoir", 7), ("readout", "out", 0)),
        ],
    ),
    "names": lambda: network_of_arcs(
        dict.fromkeys(HOSTILE, 6),
        [
            ("in", HOSTILE[0], 0),
            *((a, b, 0) for a, b in itertools.pairwise(HOSTILE)),
            (HOSTILE[-1], "out", 0),
        ],
    ),
}
