"""Whether a map and a quantized network belong together: each difference alone, several at once, and none."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from nirbridge.mapping.storage.consistency import network_mismatches


def edge(source: str, target: str, delay: Any = 1, bits: int = 8, more: Any = 0) -> Any:
    """A projection of integers."""
    late = {"delay_steps": np.array(delay), "target_delay_steps": np.array(more)}
    return SimpleNamespace(source=source, target=target, weight_bits=bits, **late)


def kept(source: str, target: str, delay: int = 0, bits: int = 8, is_back: bool = False) -> Any:
    """A projection of a map."""
    late = {"delay_steps": delay, "is_back": is_back}
    return SimpleNamespace(source=source, target=target, weight_bits=bits, zeros=None, **late)


def things(**shapes: tuple[int, ...]) -> list[Any]:
    return [SimpleNamespace(name=name, shape=shape) for name, shape in shapes.items()]


def pair(own: dict[str, Any], stored: dict[str, Any]) -> tuple[Any, Any]:
    """Integers of in -> a -> b with b -> b, their map, and what is else in either."""
    both = {"populations": things(a=(3,), b=(2, 2)), "inputs": things(x=(4,))}
    ways = [edge("x", "a"), edge("a", "b", [2, 5, 3], more=[0, 1, 1, 0]), edge("b", "b")]
    mapped = [kept("x", "a"), kept("a", "b", 5), kept("b", "b", 1, is_back=True), kept("b", "out", 40, bits=1)]
    quantized = both | {"chip": "c", "projections": ways}
    record = both | {"chip": {"name": "c"}, "projections": mapped, "placement_only": False}
    return SimpleNamespace(**quantized | own), SimpleNamespace(**record | stored)


def test_the_same_network() -> None:
    quantized, record = pair({}, {})
    assert list(network_mismatches(quantized, record)) == []


WAYS = [edge("x", "a"), edge("a", "b", 6), edge("b", "b")]
KEPT = [kept("x", "a"), kept("a", "b", 5), kept("b", "b", 1, is_back=True)]


@pytest.mark.parametrize(
    ("own", "stored", "found"),
    [
        ({}, {"chip": {"name": "d"}}, [("chip: the map is of 'd', the integers are of 'c'", {})]),
        ({}, {"chip": {}}, [("chip: the map is of 'None', the integers are of 'c'", {})]),
        ({"inputs": things(x=(4,), y=(1,))}, {}, [("input 'y': is not in the map", {"name": "y"})]),
        (
            {},
            {"inputs": things(x=(2, 2))},
            [("input 'x': has shape (2, 2) in the map, (4,) in the network", {"name": "x"})],
        ),
        (
            {"populations": things(a=(3,), b=(4,), c=(1,)), "chip": "e"},
            {"populations": things(a=(3,), b=(2, 2), relay=(3,))},
            [
                ("chip: the map is of 'c', the integers are of 'e'", {}),
                ("population 'b': has shape (2, 2) in the map, (4,) in the network", {"name": "b"}),
                ("population 'c': is not in the map", {"name": "c"}),
            ],
        ),
        (
            {"projections": [*WAYS, edge("x", "b")]},
            {},
            [("projections 'x' -> 'b': are not in the map, 1 in the network", {"source": "x", "target": "b"})],
        ),
        (
            {"projections": [edge("x", "a", 2), edge("a", "b", 6), edge("b", "b", 2000)]},
            {},
            [
                (
                    "projections 'x' -> 'a': take 1 time step in the map, 2 in the network",
                    {"source": "x", "target": "a"},
                ),
                (
                    "projections 'b' -> 'b': take 1 time step in the map, 2,000 in the network",
                    {"source": "b", "target": "b"},
                ),
            ],
        ),
        ({"projections": [*WAYS, edge("x", "a", 3)]}, {"projections": [kept("x", "a", 2), *KEPT]}, []),
        (
            {"projections": [*WAYS, edge("x", "a", 3)]},
            {"projections": [kept("x", "a", 3), *KEPT]},
            [
                (
                    "projections 'x' -> 'a': take 1, 4 time steps in the map, 1, 3 in the network",
                    {"source": "x", "target": "a"},
                )
            ],
        ),
        ({"projections": [edge("x", "a", bits=8), *WAYS[1:]]}, {}, []),
        (
            {"projections": [edge("x", "a", bits=9), *WAYS[1:]]},
            {},
            [
                (
                    "projection 'x' -> 'a': weights of 9 bits, the map has memory for 8",
                    {"source": "x", "target": "a"},
                )
            ],
        ),
        (
            {"projections": [*WAYS, edge("x", "a", 3, bits=5)]},
            {"projections": [kept("x", "a", 2, bits=6), *KEPT[1:], kept("x", "a", bits=4)]},
            [
                (
                    f"projection 'x' -> 'a': weights of {n} bits, the map has memory for 4",
                    {"source": "x", "target": "a"},
                )
                for n in (8, 5)
            ],
        ),
    ],
)
def test_another_network(own: dict[str, Any], stored: dict[str, Any], found: list[tuple[str, dict[str, Any]]]) -> None:
    quantized, record = pair(own, stored)
    problems = list(network_mismatches(quantized, record))
    assert [(str(p), dict(p.ids)) for p in problems] == [(f"{text}; map the model again", ids) for text, ids in found]


def test_delays_are_compared_where_the_things_are_the_same_and_the_mark_in_any_case() -> None:
    wrong = {"projections": [edge("x", "a", 9, bits=9)]}
    mark = "map: is marked placement_only, such a map cannot be quantized, run or emitted; map the model"
    mark += " for a chip that can run it, without --placement-only"
    found = {}
    for name, own in (("delays", wrong), ("chip", wrong | {"chip": "e"}), ("nothing", {})):
        quantized, record = pair(own, {"placement_only": True})
        found[name] = [str(p).partition(":")[0] for p in network_mismatches(quantized, record)]
        assert str([*network_mismatches(quantized, record)][-1]) == mark
    ways = ["projections 'x' -> 'a'", "projection 'x' -> 'a'"]
    assert found == {"delays": [*ways, "map"], "chip": ["chip", "map"], "nothing": ["map"]}
