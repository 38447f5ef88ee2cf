from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import nir
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nirbridge.arrays import freeze
from nirbridge.errors import ModelError
from nirbridge.network import Network, check_network, from_nir
from nirbridge.network.graph import in_causal_order
from nirbridge.network.model import Population, Port, Projection, Timing
from nirbridge.network.neurons import neuron
from nirbridge.network.operators import Identity
from nirbridge.passes import Retime, RetimedNetwork
from nirbridge.passes.retiming.retime import LatencyArc, all_loops, cheapest_latencies, least_latencies, without_hops
from nirbridge.simulators.simulate import simulate
from nirbridge.testing import networks
from tests.cases import cases
from tests.network.graphs import graph_of, lif, out, port
from tests.passes.retimed import both_runs, differing, fired_early, on_grid, shortest_hops

STEPS = 8

# -- latencies, by trying them all -----------------------------------------------------------------------------------


def solutions(names: list[str], arcs: list[LatencyArc], most: int) -> Iterator[dict[str, int]]:
    for values in itertools.product(range(most + 1), repeat=len(names)):
        latency = dict(zip(names, values, strict=True))
        if latency["in"] == 0 and all(latency[a.target] - latency[a.source] >= a.needs for a in arcs):
            yield latency


def cost(latency: dict[str, int], arcs: list[LatencyArc]) -> int:
    return sum(a.weight * (latency[a.target] - latency[a.source] - a.needs) for a in arcs)


@st.composite
def problems(draw: st.DrawFn) -> tuple[list[str], list[LatencyArc], frozenset[str]]:
    names = ["in", *"abc"[: draw(st.integers(1, 3))], "out"]
    ends = st.tuples(st.sampled_from(names[:-1]), st.sampled_from(names[1:]))
    arc = st.builds(
        lambda e, n, w: LatencyArc(e[0], e[1], n, w if e[1] != "out" else 0),
        ends,
        st.integers(-2, 1),
        st.integers(0, 3),
    )
    arcs = draw(st.lists(arc, max_size=7))
    return names, arcs, frozenset(draw(st.sets(st.sampled_from(names[1:-1]))))


@given(problems())
@settings(max_examples=cases(50, 150))
def test_latencies_are_the_best_of_all(problem: tuple[list[str], list[LatencyArc], frozenset[str]]) -> None:
    names, arcs, free = problem
    every = list(solutions(names, arcs, 5))
    least, loop = least_latencies(names, arcs)
    assert bool(loop) == (not every)  # the longest path has 4 arcs of 1 step
    if not every:
        assert all(len(found) > 0 for found in all_loops(names, arcs))
        return
    assert least == {name: min(s[name] for s in every) for name in names}
    allowed = [s for s in every if all(s[n] == least[n] for n in names if n not in free)]
    best = min(cost(s, arcs) for s in allowed)
    found = cheapest_latencies(least, arcs, free)
    assert cost(found, arcs) == best
    cheapest = [s for s in allowed if cost(s, arcs) == best]
    assert found == {name: min(s[name] for s in cheapest) for name in names}


def test_every_loop_is_named_in_the_order_of_its_arcs() -> None:
    arcs = [
        LatencyArc("a", "b", 1),
        LatencyArc("b", "c", 1),
        LatencyArc("c", "a", -1),
        LatencyArc("d", "d", 1),
        LatencyArc("e", "f", 1),
        LatencyArc("f", "e", -1),
    ]
    found = all_loops(list("abcdef"), arcs)
    assert {frozenset(loop) for loop in found} == {frozenset("abc"), frozenset("d")}
    loop = next(loop for loop in found if len(loop) == 3)
    assert "".join(loop) in ("abc", "bca", "cab")


# -- the meaning is kept ---------------------------------------------------------------------------------------------


@given(networks(), st.sampled_from([None, 0, 1, 2, 5]), st.integers(0, 2**16))
@settings(max_examples=cases(40, 120), deadline=None)
def test_a_retimed_network_does_the_same_later(network: Network, most: int | None, seed: int) -> None:
    network = on_grid(network, seed)
    retimed = retimed_or_refused(network, most)
    if retimed is None:
        return
    check_network(retimed.network)
    assert shortest_hops(retimed) == []
    assert most is None or max((p.max_delay_steps for p in without_outputs(retimed.network)), default=0) <= most + 1
    a, b = both_runs(retimed, STEPS, seed)
    assert fired_early(retimed, b) == []
    assert differing(retimed, a, b) == []


@pytest.mark.parametrize("delay", [0, 1, 3])
@pytest.mark.parametrize("own", [{"bias": np.float64(0.5)}, {"v_init": np.float64(0.5)}], ids=["bias", "v_init"])
def test_an_output_that_reads_late_gets_nothing_from_before_the_first_step(delay: int, own: dict[str, Any]) -> None:
    """The potentials of a read-out that its start or its bias move before its first step are no output."""
    hidden, readout = (
        Population("a", (1,), neuron("IF")),
        Population("v", (1,), neuron("LI", theta=None, a_mem=np.float64(0.5), **own)),
    )
    ways = [Projection(a, b, Identity((1,))) for a, b in (("in", "a"), ("a", "v"))]
    ways.append(Projection("v", "out", Identity((1,)), delay_steps=freeze(np.int64(delay))))
    timing = Timing(1.0, "euler", "to-value", ">", "per-second")
    network = Network(1.0, timing, (hidden, readout), tuple(ways), (Port("in", (1,)),), (Port("out", (1,)),))
    try:
        retimed = Retime().retimed(network)
    except ModelError:
        assert delay
        assert "v_init" in own
        return
    late, spikes = retimed.latency["out"], np.ones((STEPS + 2, 1))
    exact: Any = {"dtype": "float64", "backend": "reference"}
    before = simulate(network, spikes[:STEPS], **exact).recording["out"]
    after = simulate(retimed.network, spikes[: STEPS + late], **exact).recording["out"]
    assert late == max(0, 2 - delay)
    assert np.array_equal(before, after[late:])
    assert before[delay] != 0


def retimed_or_refused(network: Network, most: int | None) -> RetimedNetwork | None:
    """None where it is refused for a reason that it may be refused for."""
    found: list[str] = []
    try:
        return Retime(delay_steps_max=most).retimed(network)
    except ModelError as error:
        found = [p.limit for p in error.problems]
    known = ("a hop between neurons takes a step", "its start is solved backwards", "a relay passes on")
    assert all(limit.startswith(known) for limit in found)
    return None


def without_outputs(network: Network) -> list[Any]:
    return [p for p in network.projections if p.target in {q.name for q in network.populations}]


@given(networks())
@settings(max_examples=cases(20, 60), deadline=None)
def test_without_hops_the_order_is_causal_already(network: Network) -> None:
    try:
        retimed = Retime().retimed(network)
    except ModelError:
        return
    bare = without_hops(retimed.network)
    check_network(bare)
    again = in_causal_order(bare)
    assert [p.name for p in again.populations] == [p.name for p in bare.populations]
    assert all(p is q for p, q in zip(again.projections, bare.projections, strict=True))


# -- cases -----------------------------------------------------------------------------------------------------------


def skip(**end: Any) -> Network:
    """in -> a -> b -> c, and a -> c beside it."""
    nodes = {"in": port(2), "a": lif(2), "b": lif(2), "c": lif(2, **end), "out": out(2)}
    return from_nir(graph_of(nodes, [("in", "a"), ("a", "b"), ("b", "c"), ("a", "c"), ("c", "out")]))


def delays(network: Network) -> dict[tuple[str, str], int]:
    return {(p.source, p.target): int(p.delay_steps.max()) for p in network.projections}


def test_a_skip_path_waits_for_the_long_one() -> None:
    retimed = Retime().retimed(skip())
    assert dict(retimed.latency) == {"in": 0, "a": 1, "b": 2, "c": 3, "out": 3}
    wanted = {("in", "a"): 1, ("a", "b"): 1, ("b", "c"): 1, ("a", "c"): 2, ("c", "out"): 0}
    assert delays(retimed.network) == wanted
    assert delays(without_hops(retimed.network))["a", "c"] == 1
    assert any("'a' -> 'c'" in note for note in retimed.notes)


def test_a_delay_beyond_the_range_takes_relays_that_are_shared() -> None:
    retimed = Retime(delay_steps_max=0).retimed(skip())
    relays = [p.name for p in retimed.network.populations if p.neuron.kind == "relay"]
    assert relays == ["a_relay"]
    assert retimed.latency["a_relay"] == 2
    assert delays(retimed.network)["a", "a_relay"] == delays(retimed.network)["a_relay", "c"] == 1


def test_a_network_without_skip_paths_is_mapped_as_it_was() -> None:
    network = from_nir(
        graph_of({"in": port(2), "a": lif(2), "b": lif(2), "out": out(2)}, chain_edges("in", "a", "b", "out"))
    )
    bare = without_hops(Retime().retimed(network).network)

    assert delays(bare) == delays(network)
    assert [p.is_back for p in bare.projections] == [p.is_back for p in network.projections]


def chain_edges(*names: str) -> list[tuple[str, str]]:
    return list(itertools.pairwise(names))


def test_a_loop_of_two_hops_and_one_step_is_refused_by_name() -> None:
    nodes = {"in": port(1), "a": lif(1), "b": lif(1), "out": out(1)}
    network = from_nir(graph_of(nodes, [("in", "a"), ("a", "b"), ("b", "a"), ("b", "out")]))
    with pytest.raises(ModelError) as caught:
        Retime().retimed(network)
    problem = caught.value.problems[0]
    assert set(problem.ids["names"]) == {"a", "b"}
    assert problem.ids["missing_steps"] == 1
    assert "1 step of delay for 2 hops" in str(problem)
    assert "Delay node" in str(problem)


def test_a_loop_onto_itself_and_one_with_a_delay_node_are_kept() -> None:
    nodes = {"in": port(1), "a": lif(1), "b": lif(1), "d": nir.Delay(np.array([2e-3])), "out": out(1)}
    edges = [("in", "a"), ("a", "a"), ("a", "b"), ("b", "d"), ("d", "a"), ("b", "out")]
    retimed = Retime().retimed(from_nir(graph_of(nodes, edges, dt=1e-3)))
    assert delays(retimed.network) == {("in", "a"): 1, ("a", "a"): 1, ("a", "b"): 1, ("b", "a"): 1, ("b", "out"): 0}
    check_network(without_hops(retimed.network))


def with_bias(network: Network, name: str, **changes: Any) -> Network:
    populations = tuple(
        Population(p.name, p.shape, neuron("LIF", **changes)) if p.name == name else p for p in network.populations
    )
    return replace(network, populations=populations)


def test_a_bias_is_met_by_the_start() -> None:
    retimed = Retime().retimed(with_bias(skip(), "c", a_mem=0.5, bias=0.25))
    # v(0) = 0 = v(-1) / 2 + 1/4, and so on: -1/2, -3/2, -7/2
    assert float(retimed.network.population("c").neuron.v_init) == -3.5
    assert differing(retimed, *both_runs(retimed, STEPS, 0)) == []


def test_a_bias_that_would_fire_on_the_way_comes_from_a_neuron_that_always_fires() -> None:
    network = with_bias(skip(), "c", a_mem=1.0, bias=-0.75)
    retimed = Retime(delay_steps_max=1).retimed(network)
    assert retimed.latency["always"] == 0
    assert not retimed.network.population("c").neuron.bias.any()
    assert delays(retimed.network)["always", "always_relay"] == 2
    assert delays(retimed.network)["always_relay", "c"] == 1
    a, b = both_runs(retimed, STEPS, 0)
    assert differing(retimed, a, b) == fired_early(retimed, b) == []
    assert b.arrays["always", "s"].all()
    assert any("always fires" in note for note in retimed.notes)


def test_a_neuron_that_fires_at_rest_is_refused_by_name() -> None:
    with pytest.raises(ModelError, match="population 'c'.*would leave its start in the 3 steps"):
        Retime().retimed(with_bias(skip(), "c", theta=-0.5))


def test_sources_that_no_relay_passes_on_are_listed() -> None:
    network = with_bias(skip(), "a", max_spikes=3)
    with pytest.raises(ModelError, match="'a': sends up to 3 spikes per time step over a delay that takes 1 relay"):
        Retime(delay_steps_max=0, graded_spikes=False).retimed(network)
    assert Retime(delay_steps_max=0).retimed(network).network.population("a_relay").neuron.max_spikes == 3


def test_all_sources_of_an_output_are_aligned() -> None:
    nodes = {"in": port(1), "a": lif(1), "b": lif(1), "out": out(1), "early": out(1)}
    edges = [("in", "a"), ("a", "b"), ("a", "out"), ("b", "out"), ("a", "early")]
    retimed = Retime().retimed(from_nir(graph_of(nodes, edges)))
    assert (retimed.latency["out"], retimed.latency["early"]) == (2, 1)
    assert delays(retimed.network)["a", "out"] == 1
    assert delays(retimed.network)["a", "early"] == 0


def test_a_small_side_branch_waits_behind_the_large_one() -> None:
    """Of two places for one step of delay, that with fewer source neurons is taken."""
    nodes: dict[str, Any] = {"in": port(4), "big": lif(4), "w": nir.Linear(np.ones((1, 4))), "small": lif(1)}
    nodes |= {"l1": lif(4), "l2": lif(4), "w2": nir.Linear(np.ones((1, 4))), "end": lif(1), "out": out(1)}
    edges = [("in", "big"), ("big", "l1"), ("l1", "l2"), ("l2", "w2"), ("w2", "end"), ("end", "out")]
    retimed = Retime().retimed(from_nir(graph_of(nodes, [*edges, ("big", "w"), ("w", "small"), ("small", "end")])))
    assert delays(retimed.network)["big", "small"] == 1
    assert delays(retimed.network)["small", "end"] == 2
    assert retimed.latency["small"] == 2


def test_delays_per_target_become_delays_at_the_source() -> None:
    nodes = {"in": port(2), "w": nir.Linear(np.ones((2, 2))), "d": nir.Delay(np.array([1e-3, 3e-3])), "a": lif(2)}
    network = from_nir(graph_of({**nodes, "out": out(2)}, chain_edges("in", "w", "d", "a", "out"), dt=1e-3))
    assert network.projections[0].target_delay_steps.any()
    retimed = Retime().retimed(network)
    assert not any(p.target_delay_steps.any() for p in retimed.network.projections)
    assert differing(retimed, *both_runs(retimed, STEPS, 3)) == []


def test_delays_far_apart_read_from_several_relays() -> None:
    network = skip()
    steps = freeze(np.array([0, 9]))
    projections = tuple(replace(p, delay_steps=steps) if p.source == "b" else p for p in network.projections)
    retimed = Retime(delay_steps_max=3).retimed(replace(network, projections=projections))
    assert {p.source for p in retimed.network.projections if p.target == "c"} >= {"b", "b_relay_2"}
    assert differing(retimed, *both_runs(retimed, 16, 3)) == []
