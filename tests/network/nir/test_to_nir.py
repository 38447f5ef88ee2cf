from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import nir
import numpy as np
import pytest
from hypothesis import given, settings

from nirbridge.arrays import freeze
from nirbridge.errors import ModelError
from nirbridge.importers import load_nir, save_nir
from nirbridge.network import (
    Network,
    Population,
    Timing,
    export_warnings,
    from_nir,
    network_differences,
    neuron,
    same_network,
    to_nir,
)
from nirbridge.network.nir.raise_linear import merged_axes
from nirbridge.network.operators import Chain, Conv, Dense, Operator, Reshape, Scale, Sparse, SumPool
from nirbridge.testing import networks, nir_graphs
from tests.cases import cases
from tests.network.graphs import chain, graph_of, lif, out, port, snapshot

REAL = ("01_lif/lif_norse.nir", "02_cnn/cnn_sinabs.nir", "03_rnn/braille_noDelay_bias_zero.nir")


@given(nir_graphs())
@settings(max_examples=cases(35, 100))
def test_graphs_come_back(graph: nir.NIRGraph) -> None:
    network = from_nir(graph)
    assert network_differences(from_nir(to_nir(network)), network) == ()


@given(networks())
@settings(max_examples=cases(35, 100))
def test_networks_come_back_bit_for_bit(network: Network) -> None:
    graph = to_nir(network)
    again = from_nir(graph)
    assert network_differences(again, network) == ()
    assert same_network(again, network)
    assert not any("differs" in note for note in again.notes)


@given(networks())
@settings(max_examples=cases(20, 40))
def test_plain_parameters_are_full_finite_vectors(network: Network) -> None:
    graph = to_nir(network)
    for population in network.populations:
        node = graph.nodes[population.name]
        for name, value in vars(node).items():
            if name not in ("input_type", "output_type", "metadata"):
                assert (value.shape, value.dtype) == (population.shape, np.float64)
                assert np.all(np.isfinite(value))
    assert all(key.startswith("nirbridge:") for node in graph.nodes.values() for key in node.metadata)


@pytest.mark.parametrize("name", REAL)
@pytest.mark.parametrize("integrator", ["euler", "zoh"])
def test_real_files_come_back_through_a_file(name: str, integrator: Any, shared_data: Path, tmp_path: Path) -> None:
    graph = load_nir(shared_data / "nir_paper" / name)
    network = from_nir(graph, Timing(integrator=integrator))
    save_nir(to_nir(network), tmp_path / "again.nir")
    again = load_nir(tmp_path / "again.nir")
    assert network_differences(from_nir(again), network) == ()
    for key, node in graph.nodes.items():
        for field in ("tau", "tau_mem", "tau_syn", "r", "v_leak", "w_in", "v_threshold", "weight"):
            if hasattr(node, field):
                assert getattr(again.nodes[key], field) == pytest.approx(getattr(node, field), rel=1e-9)


def test_no_array_is_shared() -> None:
    network = from_nir(chain(port(2), nir.Affine(np.eye(2), np.ones(2)), lif(2), out(2)))
    before = snapshot(to_nir(network))
    graph = to_nir(network)
    for node in graph.nodes.values():
        for value in vars(node).values():
            if isinstance(value, np.ndarray):
                value += 1
    assert snapshot(to_nir(network)) == before


def test_an_edited_file_means_what_it_says() -> None:
    network = from_nir(chain(port(1), lif(1, tau=3e-4), out(1)))
    odd = replace(network.populations[0], neuron=neuron("LIF", a_mem=0.7123456789, g_mem=0.1, theta=1.0))
    graph = to_nir(replace(network, populations=(odd,)))
    assert from_nir(graph).populations[0].neuron.a_mem == 0.7123456789
    graph.nodes["0"].tau = np.array([5e-4])
    again = from_nir(graph)
    assert float(again.populations[0].neuron.a_mem) == pytest.approx(0.8, rel=1e-12)


# -- parts that are hard to say -------------------------------------------------------------------------------------


def with_operator(operator: Operator, **own: Any) -> Network:
    """One input, one projection, one LIF population, one output."""
    base = from_nir(chain(port(*operator.input_shape), lif(*operator.input_shape), out(*operator.input_shape)))
    shape = operator.output_shape
    population = Population("0", shape, base.populations[0].neuron)
    into = replace(base.projections[0], operator=operator, nodes=(), **own)
    leaving = replace(base.projections[1], operator=type(base.projections[1].operator)(shape))  # type: ignore[call-arg]
    outputs = (replace(base.outputs[0], shape=shape),)
    return replace(base, populations=(population,), projections=(into, leaving), outputs=outputs)


POOL = SumPool((2, 2), (2, 2), ((1, 1), (0, 0)), (2, 4, 4))
CONV = Conv(freeze(np.ones((3, 2, 3, 3))), (1, 1), ((1, 1), (1, 1)), (1, 1), 1, (2, 4, 4))


@pytest.mark.parametrize(
    "operator",
    [
        replace(POOL, factor=0.3),
        Reshape((2, 1, 4, 3), (2, 12)),
        Sparse(freeze([0, 1, 1]), freeze([3]), freeze([0.0]), (2, 2), (2,)),
        Chain((CONV, SumPool((2, 2), (2, 2), ((1, 1), (1, 1)), (3, 4, 4)))),
        Scale(freeze(np.full((2, 2), 0.5, np.float32))),
        Conv(freeze(np.ones((1, 2, 4), np.float32)), (1,), ((1, 2),), (1,), 1, (2, 6)),
    ],
    ids=lambda op: type(op).__name__,
)
@pytest.mark.parametrize("bias", [None, "even", "uneven"])
@pytest.mark.parametrize("at_target", [0, 2])
def test_hard_operators_biases_and_delays_come_back(operator: Operator, bias: str | None, at_target: int) -> None:
    shape = operator.output_shape
    values = {None: None, "even": np.full(shape, 0.3), "uneven": np.random.default_rng(0).normal(size=shape)}[bias]
    network = with_operator(
        operator,
        bias=None if values is None else freeze(values),
        delay_steps=freeze(np.int64(3)),
        target_delay_steps=freeze(np.int64(at_target)),
    )
    assert network_differences(from_nir(to_nir(network)), network) == ()


def test_a_bias_in_front_of_a_pool_is_found_again() -> None:
    pool = nir.SumPool2d(kernel_size=np.array([2, 2]), stride=np.array([2, 2]), padding=np.array([0, 0]))
    bias = np.array([0.5, -0.25, 0.125])
    conv = nir.Conv2d((4, 4), np.ones((3, 2, 3, 3)), 1, 1, 1, 1, bias)
    network = from_nir(chain(port(2, 4, 4), conv, pool, lif(3, 2, 2), out(3, 2, 2)))
    graph = to_nir(network)
    assert graph.nodes["0"].bias.tolist() == bias.tolist()
    assert all(not node.metadata for node in graph.nodes.values())


def test_a_bias_that_no_node_gives_is_kept_and_said() -> None:
    network = with_operator(POOL, bias=freeze(np.arange(12.0).reshape(2, 3, 2)))
    assert same_network(from_nir(to_nir(network)), network)
    assert "population '0': a constant input that no bias of a NIR node can express: other tools drop it" in (
        export_warnings(network)
    )


def test_two_plain_edges_between_the_same_nodes_come_back() -> None:
    network = from_nir(chain(port(2), lif(2), out(2)))
    twice = replace(network, projections=(network.projections[0], *network.projections))
    graph = to_nir(twice)
    assert len(set(graph.edges)) == len(graph.edges)
    assert same_network(from_nir(graph), twice)


def test_back_edges_elsewhere_than_the_rule_would_put_them_come_back() -> None:
    nodes = {"in": port(1), "a": lif(1), "b": lif(1), "out": out(1)}
    network = from_nir(graph_of(nodes, [("in", "a"), ("a", "b"), ("b", "a"), ("b", "out")]))
    one, none = freeze(np.int64(1)), freeze(np.int64(0))
    turned = tuple(
        replace(p, is_back=p.source == "a", delay_steps=one if p.source == "a" else none)
        if {p.source, p.target} == {"a", "b"}
        else p
        for p in network.projections
    )
    other = replace(network, projections=turned)
    assert not same_network(other, network)
    graph = to_nir(other)
    assert any(node.metadata.get("nirbridge:is_back") == 1 for node in graph.nodes.values())
    assert same_network(from_nir(graph), other)


def test_a_loop_is_written_as_it_was_found() -> None:
    network = from_nir(graph_of({"in": port(1), "a": lif(1), "out": out(1)}, [("in", "a"), ("a", "a"), ("a", "out")]))
    assert sorted(to_nir(network).edges) == [("a", "a"), ("a", "out"), ("in", "a")]


@pytest.mark.parametrize("a_mem", [0.0, -0.75, 1.0, 1 - 2**-53, 1e-300])
@pytest.mark.parametrize("integrator", ["euler", "zoh", "exponential"])
@pytest.mark.parametrize("kind", ["LIF", "CubaLIF"])
def test_decays_at_the_border_come_back(a_mem: float, integrator: Any, kind: str) -> None:
    network = from_nir(chain(port(1), lif(1), out(1)), Timing(integrator=integrator))
    record = neuron(kind, a_mem=a_mem, g_mem=0.7, bias=0.3, a_syn=0.5 if kind == "CubaLIF" else 0.0, g_syn=1.0)
    odd = replace(network, populations=(replace(network.populations[0], neuron=record),))
    graph = to_nir(odd)
    assert np.all(np.isfinite(graph.nodes["0"].tau if kind == "LIF" else graph.nodes["0"].tau_mem))
    assert network_differences(from_nir(graph), odd) == ()


def test_a_decay_above_one_has_no_nir() -> None:
    network = from_nir(chain(port(1), lif(1), out(1)))
    grows = replace(network, populations=(replace(network.populations[0], neuron=neuron("LIF", a_mem=1.5)),))
    with pytest.raises(
        ModelError,
        match=r"^population '0': tau would be -0\.0002, NIR parameters are finite, time constants above 0; its decay",
    ):
        to_nir(grows)


@pytest.mark.parametrize(
    ("operator", "message"),
    [
        (Reshape((6,), (2, 3)), r"a reshape from \(6,\) to \(2, 3\), NIR has no node for it; only neighbouring axes"),
        (Sparse(freeze([0, 1, 1]), freeze([0]), freeze([1.0]), (2,), (2, 1)), r"a sparse matrix onto neurons of shape"),
        (replace(POOL, padding=((0, 1), (0, 0))), r"a window with padding \(\(0, 1\), \(0, 0\)\), NIR has no node"),
        (SumPool((2,), (2,), ((0, 0),), (2, 4)), r"a pooling along 1 axis, NIR has no node for it; use two"),
    ],
)
def test_what_nir_can_not_say_is_refused(operator: Operator, message: str) -> None:
    with pytest.raises(ModelError, match=r"^projection 'in' -> '0': " + message):
        to_nir(with_operator(operator))


def test_a_broken_network_is_not_written() -> None:
    network = from_nir(chain(port(1), lif(1), out(1)))
    with pytest.raises(ModelError, match=r"^projection 0 'in' -> '0': there is no population or input 'in'; add it"):
        to_nir(replace(network, inputs=()))


@pytest.mark.parametrize(
    ("before", "after", "groups"),
    [
        ((2, 3, 4), (24,), (3,)),
        ((2, 3, 4), (2, 12), (1, 2)),
        ((2, 1, 3), (2, 3), (2, 1)),
        ((1, 2), (2,), (2,)),
        ((2, 1, 1, 3), (2, 1, 3), (2, 1, 1)),
        ((6,), (2, 3), None),
        ((2, 3), (3, 2), None),
    ],
)
def test_merged_axes(before: tuple[int, ...], after: tuple[int, ...], groups: tuple[int, ...] | None) -> None:
    assert merged_axes(before, after) == groups


# -- warnings --------------------------------------------------------------------------------------------------------


def test_a_plain_integrate_and_fire_network_has_few_warnings() -> None:
    network = from_nir(chain(port(1), nir.IF(np.ones(1), np.ones(1)), out(1)))
    assert export_warnings(network) == (
        "dt = 1 s is kept in metadata only: other tools run the file with their own dt",
        "population '0': a spike needs v > threshold: spikingjelly, Sinabs and Rockpool fire at v >= threshold",
        "population '0': reset to a value: Sinabs and Rockpool subtract the threshold",
    )


def test_warnings_name_populations_and_tools() -> None:
    node = lif(1)
    node.metadata = {
        "nirbridge:reset": "subtract",
        "nirbridge:compare": ">=",
        "nirbridge:max_spikes": 3,
        "nirbridge:refractory_steps": 2,
        "nirbridge:v_init": 0.5,
    }
    network = from_nir(chain(port(1), node, out(1)), Timing(dt=1e-4, integrator="zoh"))
    found = export_warnings(network)
    assert found[1:] == (
        "population '0': a spike at v >= threshold: the NIR text, snnTorch and Norse need v > threshold",
        "population '0': reset by subtraction: the NIR text, Norse and Nengo reset to a value",
        "population '0': several spikes per time step: all but Sinabs and Rockpool fire at most once",
        "population '0': a refractory period: plain NIR has none, and no tool reads it",
        "population '0': an initial state: spikingjelly and Norse start at v_reset or v_leak, the others at 0",
        "population '0': integrator zoh: snnTorch, Norse, spikingjelly and Lava integrate by Euler",
    )


# -- sameness --------------------------------------------------------------------------------------------------------


def test_every_difference_is_seen() -> None:
    network = from_nir(chain(port(2), nir.Affine(np.eye(2), np.ones(2)), lif(2), out(2)))
    p, population = network.projections[0], network.populations[0]
    assert isinstance(p.operator, Dense)
    tiny = p.operator.weight.copy()
    tiny[0, 1] = -0.0
    others = {
        "dt: 0.0001 s and 0.001 s": replace(network, dt=1e-3),
        "timing reset: 'to-value' and 'none'": replace(network, timing=replace(network.timing, reset="none")),
        "population '1': only in the first": replace(network, populations=()),
        "input 'in': shape (2,) and (3,)": replace(network, inputs=(replace(network.inputs[0], shape=(3,)),)),
        "operator Dense and Dense": replace(network, projections=(replace(p, operator=Dense(tiny)),)),
        "bias array(2,)": replace(network, projections=(replace(p, bias=None),)),
        "delay_steps 0 and 1": replace(network, projections=(replace(p, delay_steps=freeze(np.int64(1))),)),
        "is_back False and True": replace(network, projections=(replace(p, is_back=True),)),
    }
    record = replace(population.neuron, max_spikes=2)
    others["neuron max_spikes 1 and 2"] = replace(network, populations=(replace(population, neuron=record),))
    for text, other in others.items():
        if len(other.projections) == 1:
            other = replace(other, projections=(*other.projections, network.projections[1]))
        assert any(text in found for found in network_differences(network, other)), text
        assert not same_network(network, other)


def test_what_does_not_count() -> None:
    network = from_nir(chain(port(2), nir.Affine(np.eye(2), np.ones(2)), lif(2), lif(2), out(2)))
    first = replace(network.projections[0], nodes=("other",))
    ones = Scale(freeze(np.ones(2)))
    padded = replace(first, operator=Chain((ones, first.operator)), nodes=())
    other = replace(
        network,
        populations=network.populations[::-1],
        projections=(*network.projections[1:], padded),
        notes=("note",),
        assumed=(),
    )
    assert same_network(network, other)
