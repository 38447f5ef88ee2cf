# ruff: noqa: E501  (tables of messages read better in one line)
"""``from_nir``: refusals, counts and order of constants, budgets, stored biases, patterns and metadata."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import Any

import nir
import numpy as np
import pytest

from nirbridge.arrays import freeze
from nirbridge.errors import ModelError
from nirbridge.network import from_nir
from nirbridge.network.model import Projection
from nirbridge.network.operators import Identity
from tests.network.graphs import chain, graph_of, lif, out, port
from tests.network.test_graphs_in_words import told, with_field

lowering: Any = sys.modules["nirbridge.network.nir.from_nir"]
graph: Any = sys.modules["nirbridge.network.graph"]


def plain_lif() -> Any:
    """One number for every neuron, so that few elements are stored."""
    return lif(1)


def wide(bias: bool) -> Any:
    weight = np.broadcast_to(np.float32(1.0), (5000, 2))
    node = nir.Affine(weight, np.broadcast_to(np.float32(1.0), (5000,))) if bias else nir.Linear(weight)
    return chain(port(2), node, plain_lif(), out(5000))


def test_elements_are_counted_as_they_are_stored() -> None:
    graph = chain(port(3), nir.Affine(np.ones((4, 3)), np.broadcast_to(np.float64(1.0), (4,))), lif(4), out(4))
    stored = 4 * 3 + 1 + 5 * 4
    assert from_nir(graph, max_elements=stored).neurons == 4
    assert told(lambda: from_nir(graph, max_elements=stored - 1)) == [
        f"graph: its arrays hold {stored} elements, at most {stored - 1}; raise max_elements to accept it"
    ]
    assert told(lambda: from_nir(chain(port(1), lif(1, tau=np.nan), out(1)))) == [
        "node '0' (LIF): tau[0] is NaN or infinite, every parameter must be finite; repair or retrain it"
    ]


def test_a_constant_needs_arrays_as_large_as_what_it_passes() -> None:
    assert from_nir(wide(bias=False), max_elements=100).neurons == 5000
    assert from_nir(wide(bias=True), max_elements=5000).neurons == 5000
    assert told(lambda: from_nir(wide(bias=True), max_elements=4999)) == [
        "graph: a bias would have to be propagated through 5,000 elements, at most 4,999; raise max_elements to accept it"
    ]
    small = chain(
        port(2), nir.Affine(np.eye(2), np.ones(2)), nir.Linear(np.broadcast_to(np.float32(1), (60, 2))), lif(1), out(60)
    )
    assert "propagated through 60 elements" in told(lambda: from_nir(small, max_elements=59))[0]


def test_constants_from_nowhere_are_listed_in_order_of_names() -> None:
    dead = {name: nir.Affine(np.eye(1), np.ones(1)) for name in ("10", "2")}
    nodes = {"in": port(1), "n": lif(1), "out": out(1), **dead, "1": nir.Linear(np.eye(1))}
    edges = [("in", "n"), ("n", "out"), ("10", "n"), ("2", "n"), ("1", "n")]
    assert told(lambda: from_nir(graph_of(nodes, edges))) == [
        f"node '{n}' (Affine): it has a bias, but no input or neuron leads to it; connect an Input to it, or remove it"
        for n in ("2", "10")
    ]


def test_visits_of_paths_have_a_budget() -> None:
    budget = lowering._ElementBudget(3)
    budget.spend(2)
    budget.spend(1)
    assert budget.left == 0
    assert told(lambda: budget.spend(1)) == [
        "graph: the paths between neurons pass more than 1,000,000 linear nodes, at most 1,000,000; merge linear nodes"
    ]
    assert lowering._ElementBudget().left == 1_000_000


def test_one_delay_on_two_paths_is_refused_once() -> None:
    between = nir.Delay(np.array([1e-4, 2e-4]))
    nodes = {
        "a": port(2),
        "b": port(2),
        "m": nir.Linear(np.eye(2)),
        "d": between,
        "n": nir.Linear(np.eye(2)),
        "x": lif(2),
        "o": out(2),
    }
    edges = [("a", "m"), ("b", "m"), ("m", "d"), ("d", "n"), ("n", "x"), ("x", "o")]
    assert told(lambda: from_nir(graph_of(nodes, edges, dt=1e-4))) == [
        "node 'd' (Delay): its delays differ between elements, and nodes before and after it mix them, such a delay has to stand before the first or after the last of them; move it, make it uniform, or put a neuron between"
    ]


def test_delays_along_a_path_add_up_to_a_limit() -> None:
    def late(first: int, second: int) -> Any:
        one, two = nir.Delay(np.array([float(first)])), nir.Delay(np.array([float(second)]))
        return chain(port(1), one, nir.Linear(np.eye(1)), two, lif(1), out(1), dt=1.0)

    most = 2**31 - 1
    assert from_nir(late(most - 5, 5)).projections[0].max_delay_steps == most
    assert told(lambda: from_nir(late(most - 5, 6))) == [
        "node '0' (Delay): the delays along the path add up to 2,147,483,648 steps, at most 2,147,483,647; shorten one of them"
    ]


@pytest.mark.parametrize(
    ("delays", "marks", "is_back"),
    [
        (([0.0, 0.0],), (1,), False),
        (([1.0, 0.0],), (1,), False),
        (([1.0, 2.0],), (1,), True),
        (([1.0, 2.0],), (0,), False),
        (([0.0, 0.0], [1.0, 1.0]), (1, 0), True),
        (([0.0, 0.0], [1.0, 1.0]), (0, 1), True),
        (([2.0, 1.0], [0.0, 0.0]), (1, 0), True),
    ],
)
@pytest.mark.parametrize("side", [None, "target", b"target"])
def test_a_mark_counts_where_every_element_is_late(delays: Any, marks: Any, is_back: bool, side: Any) -> None:
    """A loop with a delay needs no mark; with one it is the edge that closes the loop."""
    nodes = [nir.Delay(np.array(d)) for d in delays]
    for node, mark in zip(nodes, marks, strict=True):
        node.metadata = {"nirbridge:is_back": mark}
    if side is not None:
        nodes[-1].metadata["nirbridge:side"] = side
    made = from_nir(chain(port(2), *nodes, lif(2), out(2), dt=1.0)).projections[0]
    assert made.is_back is is_back
    assert made.delay_nodes == tuple(str(k) for k in range(len(nodes)))
    behind = np.array(delays[-1]) if side is not None else np.zeros(2)
    assert np.broadcast_to(made.target_delay_steps, (2,)).tolist() == behind.tolist()
    assert np.broadcast_to(made.delay_steps, (2,)).tolist() == (np.sum(delays, 0) - behind).tolist()


def test_constants_on_a_path_add_up() -> None:
    first, second = nir.Affine(2 * np.eye(2), np.array([1.0, -3.0])), nir.Affine(np.eye(2), np.array([0.5, 6.0]))
    made = from_nir(chain(port(2), first, nir.Scale(np.full(2, 4.0)), second, lif(2), out(2)))
    assert made.projections[0].bias is not None
    assert made.projections[0].bias.tolist() == [4.5, -6.0]
    gone = from_nir(
        chain(
            port(2), first, nir.Scale(np.full(2, 2.0)), with_field(second, bias=np.array([-2.0, 6.0])), lif(2), out(2)
        )
    )
    assert gone.projections[0].bias is None


@pytest.mark.parametrize(
    ("plain", "stored", "told"),
    [
        (None, [5.0, 5.0], True),
        ([0.0, 0.0], [5.0, 5.0], True),
        ([0.0, 1.0], [0.0, 1.0], True),
        ([0.0, 1.0], [5.0, 1.0], False),
        ([1.0, 2.0], [1.0, 3.0], False),
        ([2.0, 1.0], [3.0, 1.0], False),
        ([0.0, 1.0], [1e-12, 1.0], True),
        ([0.0, 1.0], [1.1e-12, 1.0], False),
        ([0.0, 1.0], [-1e-12, 1.0], True),
        ([1e3, -1e3], [1e3 + 0.9e-3, -1e3 + 0.9e-3], True),
        ([1e3, -1e3], [1e3 - 0.9e-3, -1e3 - 0.9e-3], True),
        ([1e3, -1e3], [1e3, -1e3 - 1.1e-3], False),
        ([1e3, -1e3], [1e3 - 1.1e-3, -1e3], False),
        ([0.25, 1.0], [0.25 + 2.4e-7, 1.0], True),
        ([0.25, 1.0], [0.25 + 2.6e-7, 1.0], False),
    ],
)
def test_a_stored_bias_counts_while_it_agrees(plain: Any, stored: Any, told: bool) -> None:
    assert lowering._agrees(None if plain is None else np.array(plain), np.array(stored)) is told


def test_the_exact_bias_of_a_path_is_taken_from_its_last_node() -> None:
    first = nir.Affine(np.eye(2), np.array([1.0, 2.0]))
    first.metadata = {"nirbridge:bias": np.array([1.0, 2.0 + 1e-7])}
    assert from_nir(chain(port(2), first, lif(2), out(2))).projections[0].bias.tolist() == [1.0, 2.0 + 1e-7]  # type: ignore[union-attr]
    scale = nir.Scale(np.ones(2) * 2)
    scale.metadata = {"nirbridge:bias": 3.0}
    assert from_nir(chain(port(2), scale, lif(2), out(2))).projections[0].bias.tolist() == [3.0, 3.0]  # type: ignore[union-attr]
    later = chain(port(2), nir.Affine(np.eye(2), np.array([1.0, 2.0])), scale, lif(2), out(2))
    assert from_nir(later).projections[0].bias.tolist() == [2.0, 4.0]  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("value", "is_read"),
    [
        (np.array([0.5, 0.25]), True), (0.5, True), (np.float32(0.5), True), (2, True), (np.array([1, 2], np.uint8), True),
        (np.zeros(3), False), (np.full((1, 2), 0.5), True), (np.array([1.0, np.nan]), False), (np.inf, False), ("x", False),
        (np.array([True, False]), False), (np.zeros(0), False),
    ],
)  # fmt: skip
def test_a_stored_bias_is_finite_numbers_of_the_shape(value: Any, is_read: bool) -> None:
    node = with_field(nir.Linear(np.eye(2)), metadata={"nirbridge:bias": value})
    graph = chain(port(2), node, lif(2), out(2))
    if is_read:
        bias = from_nir(graph).projections[0].bias
        assert bias is not None
        assert bias.tolist() == np.broadcast_to(np.ravel(value), 2).tolist()
        return
    assert told(lambda: from_nir(graph)) == [
        f"node '0' (Linear): metadata nirbridge:bias has shape {np.shape(value)}, finite numbers of shape (2,); correct the metadata"
    ]


# -- order -----------------------------------------------------------------------------------------------------------


def test_ports_populations_projections_and_notes_have_an_order_of_their_own() -> None:
    nodes = {
        "10": port(1), "9": port(1), "z": lif(1, tau=5e-5), "a10": lif(1, tau=5e-5), "a9": lif(1, tau=5e-5),
        "o10": out(1), "o9": out(1), "l10": nir.Linear(np.eye(1)), "l9": nir.Linear(np.eye(1)), "s": nir.Scale(np.ones(1)),
    }  # fmt: skip
    edges = [
        ("10", "z"),
        ("9", "z"),
        ("z", "a10"),
        ("a10", "a9"),
        ("a9", "o9"),
        ("a9", "o10"),
        ("l10", "z"),
        ("l9", "z"),
        ("s", "z"),
    ]
    made = from_nir(graph_of(nodes, edges))
    assert [p.name for p in made.inputs] == ["9", "10"]
    assert [p.name for p in made.outputs] == ["o9", "o10"]
    assert [p.name for p in made.populations] == ["z", "a10", "a9"]
    arrows = [(p.source, p.target) for p in made.projections]
    assert arrows == [("10", "z"), ("9", "z"), ("z", "a10"), ("a10", "a9"), ("a9", "o9"), ("a9", "o10")]
    noted = [note.split("'")[1] for note in made.notes]
    assert noted == ["a9", "a10", "z", "l9", "l10"], "decays, then what is left out; a Scale may have been merged"


def test_metadata_that_is_none_says_nothing() -> None:
    graph = chain(port(1), with_field(lif(1), metadata=None), out(1))
    graph.metadata = None
    assert from_nir(graph).dt == 1e-4
    inner = graph_of(
        {"i": port(1), "n": with_field(lif(1), metadata={"nirbridge:reset": "none"}), "o": out(1)},
        [("i", "n"), ("n", "o")],
        reset="subtract",
    )
    outer = graph_of({"in": port(1), "s": inner, "o": out(1)}, [("in", "s"), ("s", "o")])
    assert from_nir(outer).populations[0].neuron.reset == "none"


def test_a_read_out_is_graded_where_neurons_hear_it() -> None:
    def li() -> Any:
        return nir.LI(tau=np.full(1, 1e-3), r=np.ones(1), v_leak=np.zeros(1))

    nodes = {"in": port(1), "r": li(), "q": li(), "n": lif(1), "s": nir.Scale(np.full(1, 2.0)), "o": out(1)}
    edges = [("in", "r"), ("in", "q"), ("r", "n"), ("r", "s"), ("s", "n"), ("q", "o"), ("n", "q"), ("n", "o")]
    assert from_nir(graph_of(nodes, edges)).notes == ("population 'r' never fires: it feeds 'n' with its potential",)


def test_the_shortest_delay_of_a_projection_is_that_of_its_fastest_pair() -> None:
    made = Projection("a", "b", Identity((2,)), delay_steps=freeze([3, 1]), target_delay_steps=freeze([5, 2]))
    assert made.min_delay_steps == 3
    assert graph._one_later(made).delay_steps.tolist() == [4, 2]
    assert (graph._one_later(made).is_back, made.max_delay_steps) == (True, 8)


def test_a_projection_is_marked_and_late_by_one_in_a_loop() -> None:
    made = from_nir(graph_of({"in": port(1), "n": lif(1), "o": out(1)}, [("in", "n"), ("n", "n"), ("n", "o")]))
    assert [(p.is_back, p.delay_steps.tolist()) for p in made.projections] == [(False, 0), (True, 1), (False, 0)]
    again = graph.in_causal_order(made)
    assert [(p.is_back, p.delay_steps.tolist()) for p in again.projections] == [(False, 0), (True, 1), (False, 0)]
    turned = replace(made, populations=made.populations[::-1], projections=made.projections[::-1])
    assert [p.target for p in graph.in_causal_order(turned).projections] == ["n", "n", "o"]


def test_limits_are_those_of_the_documentation() -> None:
    assert (lowering.MAX_ELEMENTS, lowering.MAX_PATHS, lowering.MAX_VISITS) == (2**31, 10_000, 1_000_000)
    with pytest.raises(ModelError, match="at most 0"):
        from_nir(chain(port(1), lif(1), out(1)), max_projections=0)
