"""Relays after pools and along long delays: positions, values passed on, refusals."""

from __future__ import annotations

from typing import Any

import pytest

from nirbridge.network import neuron
from nirbridge.network.apply import matrix
from nirbridge.network.model import Network, Projection
from nirbridge.network.operators import Chain, Dense, Identity, Reshape, Scale, SumPool
from nirbridge.passes.relay_pools import RelayPools, RelayProjection
from nirbridge.passes.retiming import delay_lines
from tests.passes.test_passes_in_words import net, some, told, way

POOL = SumPool((1, 2), (1, 2), ((0, 0), (0, 0)), (1, 1, 4))
POOLED = Chain((POOL, Reshape((1, 1, 2), (2,)), Dense(some(2, 2))))


def pooled(**own: Any) -> Network:
    shapes = {"s": (1, 1, 4), "t": (2,)}
    return net(shapes, way("in", "t", Dense(some(2, 2))), way("s", "t", POOLED, **own), way("t", "out", Identity((2,))))


def test_what_no_relay_can_be_put_behind_is_told() -> None:
    made = pooled()
    for index in (-1, 3):
        assert told(lambda i=index: RelayProjection(i, 0)(made)) == [
            f"relay: there is no projection {index}, the network has 3; choose one of them"
        ]
    for part in (-1, 2):
        assert told(lambda k=part: RelayProjection(1, k)(made)) == [
            f"projection 's' -> 't': nothing follows part {part}, it has 3 parts; choose another"
        ]
    assert told(lambda: RelayPools(("z", "p", "d"))(pooled(nodes=("p", "r", "d")))) == [
        "relay-pools 'd', 'z': no pool of that name is followed by another operator"
    ]


@pytest.mark.parametrize(("graded", "most"), [(False, 1), (True, 2)])
def test_a_relay_stands_between_its_halves(graded: bool, most: int) -> None:
    own = {"nodes": ("pool", "r", "d"), "bias": [1.0, 2.0], "delay_steps": [[[3, 4, 5, 3]]], "target_delay_steps": 2}
    made = RelayPools(("pool",), graded_spikes=graded)(pooled(**own))
    assert [p.name for p in made.populations] == ["s", "pool", "t"]
    assert [(p.source, p.target, p.nodes) for p in made.projections] == [
        ("s", "pool", ("pool",)), ("in", "t", ()), ("pool", "t", ("r", "d")), ("t", "out", ()),
    ]  # fmt: skip
    first, second = made.projections[0], made.projections[2]
    assert (first.delay_steps.tolist(), second.delay_steps.tolist()) == ([[[0, 1, 2, 0]]], 3)
    assert (first.bias, second.target_delay_steps.tolist()) == (None, 2)
    assert second.bias is not None
    relay = made.population("pool")
    assert (relay.shape, relay.neuron.kind, relay.neuron.max_spikes, relay.neuron.compare) == (
        (1, 1, 2),
        "relay",
        most,
        ">=",
    )
    unnamed = RelayProjection(1, 1, graded_spikes=graded)(pooled(delay_steps=2))
    assert [p.name for p in unnamed.populations] == ["s", "s_t", "t"]
    assert unnamed.population("s_t").neuron.max_spikes == 1, "a reshape is no pool"
    assert [p.delay_steps.tolist() for p in unnamed.projections] == [0, 0, 2, 0]
    assert [len(p.nodes) for p in unnamed.projections] == [0] * 4


def test_a_relay_of_a_loop_stands_behind_its_source() -> None:
    loop = net(
        {"t": (1, 1, 4), "s": (1, 1, 4)},
        way("s", "t", Chain((Scale(some(1, 1, 4)), Scale(some(1, 1, 4)))), delay_steps=1, is_back=True),
    )
    assert [p.name for p in RelayProjection(0, 0)(loop).populations] == ["t", "s", "s_t"]
    last = net({"s": (2,)}, way("s", "out", Chain((Scale(some(2)), Scale(some(2))))))
    assert [p.name for p in RelayProjection(0, 0)(last).populations] == ["s", "s_out"]
    first = net({"a": (2,), "b": (2,)}, way("in", "a", Chain((Scale(some(2)), Scale(some(2))))))
    assert [p.name for p in RelayProjection(0, 0)(first).populations] == ["in_a", "a", "b"]


def lines_of(*ways: Projection, most: int = 3, graded: bool = True, cells: Any = None) -> Any:
    made = net({"a": (2,), "b": (2,)}, *ways, cells=cells)
    return delay_lines.with_delay_lines(
        made, {"in": 0, "a": 1, "b": 2, "out": 2}, delay_steps_max=most, graded_spikes=graded
    )


def test_long_delays_are_tapped_where_the_rest_is_shortest() -> None:
    long = way("in", "a", Dense(some(2, 2)), delay_steps=[4, 9], bias=[1.0, 2.0], nodes=("w",))
    made, latency, lines = lines_of(
        long,
        way("a", "b", Identity((2,)), delay_steps=4, nodes=("i",)),
        way("b", "out", Identity((2,)), delay_steps=40),
    )
    assert lines == {"in": ("in_relay", "in_relay_2")}
    assert [p.name for p in made.populations] == ["in_relay", "in_relay_2", "a", "b"]
    assert latency == {"in": 0, "a": 1, "b": 2, "out": 2, "in_relay": 4, "in_relay_2": 8}
    found = [(p.source, p.target, p.delay_steps.tolist(), p.nodes, p.bias is not None) for p in made.projections]
    assert found == [
        ("in", "in_relay", 4, (), False), ("in_relay", "in_relay_2", 4, (), False), ("in", "a", [4, 1], (), False),
        ("in_relay_2", "a", 1, (), True), ("a", "b", 4, ("i",), False), ("b", "out", 40, (), False),
    ]  # fmt: skip
    assert [matrix(p.operator).toarray().any(axis=0).tolist() for p in made.projections[2:4]] == [
        [True, False],
        [False, True],
    ]
    kept, same, none = lines_of(way("a", "b", Identity((2,)), delay_steps=4))
    assert (len(kept.populations), same, none) == (2, {"in": 0, "a": 1, "b": 2, "out": 2}, {})
    whole, _, _ = lines_of(way("a", "b", Identity((2,)), delay_steps=5, nodes=("i",), bias=[1.0, 1.0]))
    tap = whole.projections[-1]
    assert (tap.source, tap.delay_steps.tolist(), tap.nodes, tap.bias is not None) == ("a_relay", 1, ("i",), True)


@pytest.mark.parametrize(("most", "kind"), [(1, (0.5, "to-value", ">", 1)), (3, (1.0, "subtract", ">=", 3))])
def test_relays_pass_on_what_their_source_sends(most: int, kind: Any) -> None:
    made, _, _ = lines_of(way("a", "b", Identity((2,)), delay_steps=5), cells={"a": neuron("IF", max_spikes=most)})
    n = made.population("a_relay").neuron
    assert n.theta is not None
    assert (float(n.theta), n.reset, n.compare, n.max_spikes) == kind
    assert float(n.reset_amount) == kind[0]


def test_what_a_relay_cannot_pass_on_is_listed() -> None:
    cells = {"a": neuron("IF", max_spikes=2000), "b": neuron("LI", theta=None)}
    ways = (way("a", "b", Identity((2,)), delay_steps=5), way("b", "a", Identity((2,)), delay_steps=9))
    hint = "shorten the delay, or choose a chip with longer delays or graded spikes"
    advice = f"a relay passes on one spike per time step; {hint}"
    potential = f"population 'b': sends its potential over a delay that takes 2 relay populations, {advice}"
    assert told(lambda: lines_of(*ways, graded=False, cells=cells)) == [
        f"population 'a': sends up to 2,000 spikes per time step over a delay that takes 1 relay population, {advice}",
        potential,
    ]
    assert told(lambda: lines_of(*ways, graded=True, cells=cells)) == [potential]
    assert len(lines_of(*ways[:1], graded=False)[2]) == 1


def test_relays_are_counted_before_they_are_made(monkeypatch: pytest.MonkeyPatch) -> None:
    ways = (
        way("in", "a", Identity((2,)), delay_steps=5),
        way("a", "b", Identity((2,)), delay_steps=13),
        way("a", "b", Identity((2,)), delay_steps=16, delay_nodes=("d", "e")),
        way("b", "a", Identity((2,)), delay_steps=[9, 3]),
    )
    assert (delay_lines.RELAYS_MAX, delay_lines._LISTED) == (500, 20)
    monkeypatch.setattr(delay_lines, "RELAYS_MAX", 6)
    assert sum(len(relays) for relays in lines_of(*ways)[2].values()) == 6
    monkeypatch.setattr(delay_lines, "RELAYS_MAX", 5)
    limit = "at most 5 are made for a network, which needs 6; a Delay of NIR is in seconds: correct it, or dt"
    a = f"nodes 'd', 'e' (Delay): a delay of 16 time steps takes 3 relay populations of 4 time steps each, {limit}"
    b = f"projection 'b' -> 'a': a delay of 9 time steps takes 2 relay populations of 4 time steps each, {limit}"
    assert told(lambda: lines_of(*ways)) == [a, b]
    monkeypatch.setattr(delay_lines, "_LISTED", 1)
    assert told(lambda: lines_of(*ways)) == [a]
