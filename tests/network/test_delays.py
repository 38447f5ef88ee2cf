from __future__ import annotations

from itertools import pairwise
from typing import Any

import nir
import numpy as np
import pytest

from nirbridge.errors import ModelError
from nirbridge.network import Network, Projection, check_network, from_nir, same_network, to_nir
from nirbridge.network.graph import DelayArc, back_arcs, causal_order
from nirbridge.network.naming import fresh_name, natural_key
from tests.network.graphs import chain, graph_of, lif, out, port, run

DT = 1e-3


def delay(*seconds: float, dtype: type = float) -> nir.Delay:
    return nir.Delay(np.array(seconds, dtype=dtype))


def first(*nodes: Any, size: int = 2) -> Projection:
    return from_nir(chain(port(2), *nodes, lif(size), out(size), dt=DT)).projections[0]


FC = nir.Linear(np.array([[1.0, 2.0], [3.0, 4.0]]))


def test_uniform_delays_add_up_anywhere() -> None:
    p = first(delay(0.002, 0.002), FC, delay(0.003, 0.003), FC, delay(0.001, 0.001))
    assert (p.delay_steps, p.target_delay_steps) == (6, 0)
    assert p.delay_steps.dtype == np.int64
    assert p.nodes == ("1", "3")


def test_float32_rounding_is_no_remainder() -> None:
    assert first(delay(0.1, 0.1, dtype=np.float32)).delay_steps == 100
    assert first(delay(5.0, 5.0, dtype=np.float32)).delay_steps == 5000


def test_a_delay_per_element_is_the_sources_before_and_the_targets_behind() -> None:
    p = first(delay(0.001, 0.002), nir.Scale(np.array([2.0, 3.0])), FC, delay(0.0, 0.004), delay(0.001, 0.001))
    assert (p.delay_steps.tolist(), p.target_delay_steps.tolist()) == ([2, 3], [0, 4])
    only = first(delay(0.001, 0.002))
    assert (only.delay_steps.tolist(), only.target_delay_steps) == ([1, 2], 0)


def test_a_delay_per_element_is_reshaped_with_the_path() -> None:
    flat = nir.Flatten({"input": np.array([2, 2])}, 0, -1)
    network = from_nir(chain(port(2, 2), flat, delay(0.0, 0.001, 0.002, 0.003), lif(4), out(4), dt=DT))
    assert network.projections[0].delay_steps.tolist() == [[0, 1], [2, 3]]


def test_delays_that_cancel_their_differences_are_uniform() -> None:
    p = first(delay(0.001, 0.002), delay(0.002, 0.001))
    assert p.delay_steps.shape == ()
    assert p.delay_steps == 3


@pytest.mark.parametrize(
    ("seconds", "message"),
    [
        (0.0015, r"^node '0' \(Delay\): a delay of 0\.0015 s is 1\.5 steps of dt = 0\.001 s, "
                 r"delays are whole time steps; give a --dt that divides it, or change the delay$"),
        (1e-9, r"^node '0' \(Delay\): a delay of 1e-09 s is 1e-06 steps of dt = 0\.001 s, "
                 r"delays are whole time steps; "),
        (1e9, r"^node '0' \(Delay\): a delay of 1e\+09 s is 1e\+12 steps, from 0 to 2,147,483,647; correct it, or dt$"),
    ],
)  # fmt: skip
def test_no_whole_steps(seconds: float, message: str) -> None:
    with pytest.raises(ModelError, match=message):
        first(delay(seconds, seconds))


def test_delays_per_element_between_mixing_nodes_are_refused() -> None:
    with pytest.raises(
        ModelError,
        match=r"^node '1' \(Delay\): its delays differ between elements, and nodes before and after it mix them, "
        r"such a delay has to stand before the first or after the last of them; "
        r"move it, make it uniform, or put a neuron between$",
    ):
        first(FC, delay(0.001, 0.002), FC)


# -- loops -----------------------------------------------------------------------------------------------------------


def loop(*delays: float) -> Network:
    """a -> b -> a, with a Delay of each given number of seconds on the way back."""
    nodes: dict[str, Any] = {"in": port(1), "a": lif(1), "b": lif(1), "out": out(1)}
    names = [f"d{k}" for k in range(len(delays))]
    nodes |= {n: delay(s) for n, s in zip(names, delays, strict=True)}
    way = ["b", *names, "a"]
    edges = [("in", "a"), ("a", "b"), *pairwise(way), ("b", "out")]
    return from_nir(graph_of(nodes, edges, dt=DT))


def marks(network: Network) -> list[tuple[str, str, int]]:
    return [(p.source, p.target, p.max_delay_steps) for p in network.projections if p.is_back]


def test_a_loop_is_closed_one_step_later() -> None:
    network = loop()
    check_network(network)
    assert marks(network) == [("b", "a", 1)]
    assert [p.name for p in network.populations] == ["a", "b"]


def test_a_delay_of_zero_is_none_and_one_of_a_step_is_enough() -> None:
    assert marks(loop(0.0)) == [("b", "a", 1)]
    assert marks(loop(0.001)) == []
    assert [p.max_delay_steps for p in loop(0.001, 0.002).projections] == [0, 3, 0, 0]


def test_a_loop_that_is_instant_for_one_element_is_marked_and_shifted() -> None:
    nodes = {"in": port(2), "a": lif(2), "d": delay(0.0, 0.002), "out": out(2)}
    network = from_nir(graph_of(nodes, [("in", "a"), ("a", "d"), ("d", "a"), ("a", "out")], dt=DT))
    back = next(p for p in network.projections if p.is_back)
    assert back.delay_steps.tolist() == [1, 3]


def test_a_loop_that_no_input_reaches_is_closed_too() -> None:
    nodes = {"in": port(1), "n": lif(1), "out": out(1), "y": lif(1), "x": lif(1)}
    network = from_nir(graph_of(nodes, [("in", "n"), ("n", "out"), ("x", "y"), ("y", "x"), ("y", "n")]))
    assert marks(network) == [("y", "x", 1)]


def test_an_impulse_in_a_loop_comes_back_after_the_delay() -> None:
    spikes = np.zeros((8, 1))
    spikes[0] = 20.0  # tau is dt, so that v is the input of the step
    strong = {"in": port(1), "a": lif(1, theta=0.5), "out": out(1), "d": delay(0.003)}
    network = from_nir(graph_of(strong, [("in", "a"), ("a", "d"), ("d", "a"), ("a", "out")], dt=DT))
    assert np.flatnonzero(run(network, {"in": spikes}, 8)["a"]).tolist() == [0, 3, 6]


def test_the_delay_after_an_operator_in_a_loop_comes_before_it_as_far_as_all_share_it() -> None:
    """The simulator takes a time step of a loop at a time: a projection in it may not read the present."""
    spikes = np.zeros((8, 2))
    spikes[0] = 20.0
    each = nir.Linear(np.array([[20.0, 0.0], [0.0, 20.0]]))
    nodes = {"in": port(2), "a": lif(2, theta=0.5), "out": out(2), "w": each, "d": delay(0.002, 0.003)}
    network = from_nir(graph_of(nodes, [("in", "a"), ("a", "w"), ("w", "d"), ("d", "a"), ("a", "out")], dt=DT))
    assert marks(network) == []
    p = next(p for p in network.projections if p.source == p.target)
    assert (p.delay_steps, p.target_delay_steps.tolist()) == (2, [0, 1])
    assert same_network(from_nir(to_nir(network)), network)
    fired = run(network, {"in": spikes}, 8)["a"]
    assert [np.flatnonzero(fired[:, k]).tolist() for k in range(2)] == [[0, 2, 4, 6], [0, 3, 6]]
    forward = from_nir(chain(port(2), each, delay(0.002, 0.003), lif(2), out(2), dt=DT)).projections[0]
    assert (forward.delay_steps, forward.target_delay_steps.tolist()) == (0, [2, 3])


def test_which_edge_is_back_is_decided_by_names() -> None:
    names = ["a", "b", "c"]
    arcs = [
        DelayArc("x", "c", 0),
        DelayArc("c", "a", 0),
        DelayArc("a", "b", 0),
        DelayArc("b", "c", 0),
        DelayArc("b", "b", 0),
        DelayArc("x", "a", 2),
    ]
    assert back_arcs(["x"], names, arcs) == (False, False, False, True, True, False)
    assert back_arcs(["x"], names, [DelayArc("x", "a", 0), *arcs[1:]]) == (False, True, False, False, True, False)


def test_order_puts_sources_first_and_delayed_layers_in_a_row() -> None:
    names = ["10", "2", "z", "a"]
    assert causal_order(names, [], []) == ("2", "10", "a", "z")
    arcs = [DelayArc("z", "a", 0), DelayArc("10", "2", 0)]
    assert causal_order(names, arcs, [False, False]) == ("10", "2", "z", "a")
    assert causal_order(names, arcs, [True, False]) == ("10", "2", "a", "z")
    delayed = [DelayArc("z", "10", 1), DelayArc("10", "2", 1), DelayArc("2", "a", 3), DelayArc("a", "z", 1)]
    order = causal_order(names, delayed[:3], [False] * 3)
    assert order == ("z", "10", "2", "a")
    assert sorted(causal_order(names, delayed, [False] * 4)) == sorted(names)


def test_natural_order() -> None:
    assert sorted(["10", "2", "a10", "a9", "a", "02", "²"], key=natural_key) == ["02", "2", "10", "a", "a9", "a10", "²"]
    assert natural_key("9" * 10_000) < natural_key("1" + "0" * 10_000)
    assert fresh_name("a", {"a", "a_2"}) == "a_3"


def test_loops_and_delays_come_back_as_they_were() -> None:
    for seconds in ((), (0.0,), (0.001,), (0.002, 0.003)):
        network = loop(*seconds)
        assert same_network(from_nir(to_nir(network)), network)
