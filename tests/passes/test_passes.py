from __future__ import annotations

from typing import Any

import nir
import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from nirbridge.arrays import Array
from nirbridge.errors import ModelError, UsageError
from nirbridge.network import Network, check_network, from_nir, network_differences, same_network, to_nir
from nirbridge.network.compose import parts_of
from nirbridge.network.operators import Chain, Conv, Dense, Sparse, SumPool
from nirbridge.passes import EliminateDead, RelayPools, RelayProjection, ReplicateSource
from nirbridge.simulators.simulate import Probe, simulate
from nirbridge.testing import networks
from tests.cases import cases
from tests.network.graphs import chain, graph_of, lif, out, port, run
from tests.partitioner.nets import network_of

# -- eliminate_dead ----------------------------------------------------------------------------------------------------


@given(networks())
@settings(max_examples=cases(20, 60))
def test_dropping_dead_parts_changes_no_output(network: Network) -> None:
    left = EliminateDead()(network)
    check_network(left)
    assert (left.inputs, left.outputs) == (network.inputs, network.outputs)
    assert same_network(EliminateDead()(left), left)
    rng = np.random.default_rng(0)
    inputs = {p.name: rng.integers(0, 2, size=(5, *p.shape)).astype(float) for p in network.inputs}
    before, after = run(network, inputs, 5), run(left, inputs, 5)
    for port_ in network.outputs:
        assert np.array_equal(before[port_.name], after[port_.name])


def test_what_is_dropped_is_said() -> None:
    nodes = {"in": port(1), "n": lif(1), "out": out(1), "end": lif(1), "alone": lif(1)}
    edges = [("in", "n"), ("n", "out"), ("n", "end"), ("end", "end"), ("alone", "n")]
    left = EliminateDead()(from_nir(graph_of(nodes, edges)))
    assert {p.name for p in left.populations} == {"n", "alone"}
    assert {(p.source, p.target) for p in left.projections} == {("in", "n"), ("n", "out"), ("alone", "n")}
    assert left.notes == (
        "population 'alone': no input reaches it",
        "population 'end': removed, no output can be reached from it",
    )


def test_a_network_without_dead_parts_is_returned_as_it_is() -> None:
    network = from_nir(chain(port(1), lif(1), out(1)))
    assert EliminateDead()(network) is network


# -- relays ----------------------------------------------------------------------------------------------------------


def pooled(average: bool = False, **names: Any) -> Network:
    kind = nir.AvgPool2d if average else nir.SumPool2d
    pool = kind(kernel_size=np.array([2, 2]), stride=np.array([2, 2]), padding=np.array([0, 0]))
    weight = np.arange(16.0).reshape(2, 8) - 6
    return from_nir(
        chain(
            port(2, 4, 4),
            lif(2, 4, 4, tau=1e-3, theta=0.5),
            pool,
            nir.Flatten({"input": np.array([2, 2, 2])}, 0, -1),
            nir.Affine(weight, np.array([0.5, -0.5])),
            nir.LI(tau=np.full(2, 1e-3), r=np.ones(2), v_leak=np.zeros(2)),
            out(2),
            dt=1e-3,
            **names,
        )
    )


def spikes(seed: int, steps: int, quiet: int) -> Array:
    drawn = np.random.default_rng(seed).random((steps, 2, 4, 4)) < 0.4
    drawn[steps - quiet :] = False
    return drawn.astype(float)


def test_a_relay_stands_behind_its_pool() -> None:
    network = RelayPools()(pooled())
    check_network(network)
    assert [p.name for p in network.populations] == ["0", "1", "4"]
    relay = network.population("1")
    assert (relay.shape, relay.neuron.kind, relay.neuron.max_spikes) == ((2, 2, 2), "relay", 1)
    assert (relay.neuron.theta, relay.neuron.compare, relay.neuron.reset) == (1.0, ">=", "subtract")
    before, behind = (p for p in network.projections if "1" in (p.source, p.target))
    assert isinstance(before.operator, SumPool)
    assert (before.nodes, before.bias) == (("1",), None)
    assert isinstance(behind.operator, Chain)
    assert (behind.nodes, behind.bias is None) == (("2", "3"), False)


@given(st.integers(0, 1000))
@settings(max_examples=20)
def test_graded_relays_change_nothing(seed: int) -> None:
    network = pooled()
    relayed = RelayPools(graded_spikes=True)(network)
    assert relayed.population("1").neuron.max_spikes == 4
    inputs = {"in": spikes(seed, 8, 0)}
    assert np.array_equal(run(network, inputs, 8)["out"], run(relayed, inputs, 8)["out"])


@given(st.integers(0, 1000))
@settings(max_examples=20)
def test_relays_of_one_spike_keep_the_counts_and_spread_them(seed: int) -> None:
    relayed = RelayPools()(pooled())
    result = run(relayed, {"in": spikes(seed, 30, 25)}, 30)
    windows = result["0"].reshape(30, 2, 2, 2, 2, 2).sum(axis=(3, 5))
    assert np.array_equal(result["1"].sum(axis=0), windows.sum(axis=0))
    assert result["1"].max() <= 1


def test_without_new_input_relays_of_averages_hold_fractions_back() -> None:
    relayed = RelayPools(graded_spikes=True)(pooled(average=True))
    given_spikes = np.zeros((4, 2, 4, 4))
    given_spikes[0, 0, 0, 0] = 1.0
    assert run(relayed, {"in": given_spikes}, 4)["1"].sum() == 0.0


def test_names_pools_and_clashes() -> None:
    network = pooled()
    assert [p.name for p in RelayPools(("1",))(network).populations] == ["0", "1", "4"]
    with pytest.raises(
        UsageError, match=r"^relay-pools '3', 'x': no pool of that name is followed by another operator$"
    ):
        RelayPools(("1", "x", "3"))(network)
    again = RelayProjection(2, 0)(RelayPools()(network))
    assert {p.name for p in again.populations} == {"0", "1", "2", "4"}


def test_a_pool_on_the_last_place_needs_no_relay() -> None:
    pool = nir.SumPool2d(kernel_size=np.array([2, 2]), stride=np.array([2, 2]), padding=np.array([0, 0]))
    network = from_nir(chain(port(1, 2, 2), pool, lif(1, 1, 1), out(1, 1, 1)))
    assert same_network(RelayPools()(network), network)


def test_chains_of_pools_get_a_relay_each_and_come_back_from_nir() -> None:
    pool = nir.SumPool2d(kernel_size=np.array([2, 2]), stride=np.array([2, 2]), padding=np.array([0, 0]))
    conv = nir.Conv2d((1, 1), np.ones((2, 1, 1, 1)), 1, 0, 1, 1, np.array([1.0, 0.5]))
    network = RelayPools()(from_nir(chain(port(1, 4, 4), pool, pool, conv, lif(2, 1, 1), out(2, 1, 1))))
    check_network(network)
    assert [p.name for p in network.populations] == ["0", "1", "3"]
    assert [type(p.operator) for p in network.projections][:3] == [SumPool, SumPool, Conv]
    assert network_differences(from_nir(to_nir(network)), network) == ()


def test_delays_bias_and_back_mark_go_to_the_right_half() -> None:
    nodes = {
        "in": port(4),
        "a": lif(4),
        "late": nir.Delay(np.array([0.0, 1e-3, 2e-3, 0.0])),
        "fc": nir.Linear(np.ones((3, 4))),
        "back": nir.Affine(np.ones((4, 3)), np.ones(4)),
        "out": out(4),
    }
    edges = [("in", "a"), ("a", "late"), ("late", "fc"), ("fc", "back"), ("back", "a"), ("a", "out")]
    network = from_nir(graph_of(nodes, edges, dt=1e-3))
    index = next(k for k, p in enumerate(network.projections) if p.is_back)
    relayed = RelayProjection(index, 0)(network)
    check_network(relayed)
    before = next(p for p in relayed.projections if p.target == "fc")
    behind = next(p for p in relayed.projections if p.source == "fc")
    assert (before.delay_steps.tolist(), before.is_back, before.bias) == ([0, 1, 2, 0], False, None)
    assert (int(behind.delay_steps), behind.is_back) == (1, True)
    assert behind.bias is not None
    assert isinstance(behind.operator, Dense)


def test_there_must_be_something_to_split() -> None:
    network = pooled()
    with pytest.raises(ModelError, match=r"^relay: there is no projection 9, the network has 3; choose one of them$"):
        RelayProjection(9, 0)(network)
    with pytest.raises(
        ModelError, match=r"^projection '0' -> '4': nothing follows part 2, it has 3 parts; choose another"
    ):
        RelayProjection(1, 2)(network)


# -- split sources ----------------------------------------------------------------------------------------------------


@given(networks(), st.data())
@settings(max_examples=cases(30, 80))
def test_a_split_source_changes_no_bit(network: Network, data: st.DataObject) -> None:
    sizes = {p.name: p.size for p in network.populations}
    wide = [p for p in network.projections if p.source in sizes and sizes.get(p.target, 1) > 1]
    assume(wide)
    p = data.draw(st.sampled_from(wide))
    most = max(sizes[q.target] for q in wide if q.source == p.source)
    ways = data.draw(st.integers(2, min(most, 4)))
    split = ReplicateSource(p.source, ways)(network)
    check_network(split)
    assert len(split.populations) == len(network.populations) + ways - 1
    rng = np.random.default_rng(0)
    inputs = {q.name: rng.integers(0, 2, size=(6, *q.shape)).astype(float) for q in network.inputs}
    record = [Probe(q.name, ("s", "v") if q.neuron.fires else ("v",)) for q in network.populations]
    before = simulate(network, inputs, steps=6, record=record).recording.arrays
    after = simulate(split, inputs, steps=6, record=record).recording.arrays
    for key in before:
        assert np.array_equal(before[key], after[key])


def test_copies_that_feed_an_average_pool() -> None:
    """Its factor becomes a part of its own, after the sparse rows, so the names of its nodes no longer fit."""
    pool = nir.AvgPool2d(np.array([2, 2]), np.array([2, 2]), np.array([0, 0]))
    network = from_nir(chain(port(1, 4, 4), lif(1, 4, 4), pool, lif(1, 2, 2), out(1, 2, 2), dt=1e-4))
    split = ReplicateSource("0", 2)(network)
    check_network(split)
    assert [(len(p.nodes), len(parts_of(p.operator))) for p in split.projections if p.target == "2"] == [(0, 2)] * 2


def test_each_copy_feeds_its_part_and_only_that() -> None:
    network = network_of("4 dense3 lif dense10 lif")
    split = ReplicateSource("2_lif", 3)(network)
    assert [p.name for p in split.populations] == ["2_lif", "2_lif_copy", "2_lif_copy_2", "4_lif"]
    fed = {
        p.source: sorted(set(np.flatnonzero(np.diff(p.operator.indptr))))
        for p in split.projections
        if p.target == "4_lif" and isinstance(p.operator, Sparse)
    }
    assert fed == {"2_lif": [0, 1, 2], "2_lif_copy": [3, 4, 5], "2_lif_copy_2": [6, 7, 8, 9]}


@pytest.mark.parametrize(
    ("name", "ways", "words"),
    [
        ("nobody", 2, "^split: no population 'nobody', there are '2_lif', '4_lif'; name one$"),
        ("2_lif", 1, r"^split of '2_lif': 1 copy, 2 to 10 \(neurons of its largest target\)"),
        ("2_lif", 11, r"^split of '2_lif': 11 copies, 2 to 10 \(neurons of its largest target\)"),
        ("4_lif", 2, "^split of '4_lif': 2 copies, it feeds no population that can be cut"),
    ],
)
def test_splits_that_make_no_sense(name: str, ways: int, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        ReplicateSource(name, ways)(network_of("4 dense3 lif dense10 lif"))


def test_a_split_of_what_feeds_one_neuron_is_told_so() -> None:
    with pytest.raises(UsageError, match="^split of '2_lif': 2 copies, it feeds no population that can be cut"):
        ReplicateSource("2_lif", 2)(network_of("4 dense3 lif dense1 lif"))
