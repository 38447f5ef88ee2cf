"""Choice of Lava processes: every condition violated alone, each limit on both sides."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from nirbridge.arrays import freeze
from nirbridge.emitters.lava.plan import floating as real_plan
from nirbridge.emitters.lava.plan import processes
from nirbridge.errors import ModelError
from nirbridge.network.model import Network, Population, Port, Projection, Timing
from nirbridge.network.neurons import neuron
from nirbridge.network.operators import Conv, Dense, Identity, Sparse
from tests.emitters import hand_made as made

UNEVEN = freeze(np.array([0.5, 0.25]))
PLAIN: dict[str, Any] = {"a_mem": 0.5, "theta": 1.0}


@pytest.mark.parametrize(
    ("own", "drive", "shape", "plain"),
    [
        ({}, [0, 0], (2,), True),
        ({}, [0, 1], (2,), True),
        ({"a_syn": 0.5}, [0, 0], (2,), True),
        ({"a_syn": 0.5}, [0, 1], (2,), False),
        ({"bias": UNEVEN}, [0, 0], (2,), True),
        ({"g_mem": 0.5}, [0, 0], (2,), False),
        ({"g_mem": freeze(np.array([1.0, 0.5]))}, [0, 0], (2,), False),
        ({"g_syn": freeze(np.array([1.0, 0.5]))}, [0, 0], (2,), False),
        ({"a_mem": UNEVEN}, [0, 0], (2,), False),
        ({"a_syn": UNEVEN}, [0, 0], (2,), False),
        ({"theta": UNEVEN}, [0, 0], (2,), False),
        ({"theta": None, "reset": "none"}, [0, 0], (2,), False),
        ({"reset": "subtract"}, [0, 0], (2,), False),
        ({"reset": "none"}, [0, 0], (2,), False),
        ({"v_reset": freeze(np.array([0.0, 0.5]))}, [0, 0], (2,), False),
        ({"refractory_steps": freeze(np.array([0, 1]))}, [0, 0], (2,), False),
        ({"compare": ">="}, [0, 0], (2,), False),
        ({"max_spikes": 2}, [0, 0], (2,), False),
        ({}, np.zeros((2, 0)), (2, 0), False),
    ],
)
def test_lavas_float_lif_where_it_does_the_same(own: dict[str, Any], drive: Any, shape: Any, plain: bool) -> None:
    p = Population("p", shape, neuron("LIF", **(PLAIN | own)))
    assert real_plan._is_plain(p, np.asarray(drive, float)) is plain


def test_equal_values_are_one_number() -> None:
    compact = processes.uniform_number
    assert (compact(np.full((2, 2), 3)), compact(np.int64(3)), type(compact(np.full(1, 3)))) == (3, 3, int)
    for values in (np.array([3, 4]), np.array([4, 4, 3]), np.zeros(0)):
        assert compact(values) is values


def test_operators_that_lava_does_not_have_are_matrices() -> None:
    dense = Dense(freeze(np.ones((2, 3))))
    assert real_plan._single(dense) is dense
    single: Any = real_plan._single(Identity((2, 2)))
    assert isinstance(single, Sparse)
    assert (single.input_shape, single.output_shape, single.data.tolist()) == ((2, 2), (2, 2), [1.0] * 4)


@pytest.mark.parametrize(
    ("own", "late", "fits"), [(1, 0, True), (0, 1, True), ([0, 2], [1, 1], True), ([0, 2], 0, False)]
)
def test_a_real_projection_takes_a_step(own: Any, late: Any, fits: bool) -> None:
    delays: dict[str, Any] = {"delay_steps": freeze(np.array(own)), "target_delay_steps": freeze(np.array(late))}
    p = Projection("a", "b", Dense(freeze(np.ones((2, 2)))), **delays)
    if fits:
        assert real_plan._synapse("s", p, ("x", "y"), ((2,), (2,)), 0).id == "s"
        return
    with pytest.raises(ModelError) as caught:
        real_plan._synapse("s", p, ("x", "y"), ((2,), (2,)), 0)
    assert str(caught.value) == (
        "projection 'a' to 'b': a delay of 0 time steps, a synaptic process takes one time step; "
        "retime the network first"
    )


BASE = Conv(made.ints(np.ones((2, 1, 2, 2))), (1, 1), ((0, 0), (0, 0)), (1, 1), 1, (1, 300, 300))
LONG = Conv(made.ints(np.ones((2, 1, 2, 2, 2))), (1,) * 3, ((0, 0),) * 3, (1,) * 3, 1, (1, 4, 4, 4))


def wide(size: int, *, row: bool) -> Conv:
    return replace(BASE, weight=made.ints(np.ones((1, 1, size, 1) if row else (1, 1, 1, size))))


@pytest.mark.parametrize(
    ("operator", "own", "plain"),
    [
        (BASE, {}, True),
        (wide(127, row=True), {}, True),
        (wide(128, row=True), {}, False),
        (wide(128, row=False), {}, False),
        (replace(BASE, stride=(1, 127)), {}, True),
        (replace(BASE, stride=(1, 128)), {}, False),
        (replace(BASE, dilation=(128, 1)), {}, False),
        (replace(BASE, dilation=(127, 1)), {}, True),
        (replace(BASE, padding=((0, 0), (3, 3))), {}, True),
        (replace(BASE, padding=((0, 0), (3, 2))), {}, False),
        (replace(BASE, padding=((128, 128), (0, 0))), {}, False),
        (replace(BASE, groups=128, input_shape=(128, 4, 4), weight=made.ints(np.ones((128, 1, 2, 2)))), {}, False),
        (replace(BASE, groups=127, input_shape=(127, 4, 4), weight=made.ints(np.ones((127, 1, 2, 2)))), {}, True),
        (LONG, {}, False),
        (BASE, {"weight_exp": 1}, False),
        (BASE, {"weight_exp": -1}, False),
        (BASE, {"delay_steps": 2}, False),
        (BASE, {"delay_steps": 1, "target_delay_steps": 1}, False),
        (BASE, {"delay_steps": 0, "target_delay_steps": 1}, True),
        (BASE, {"delay_steps": [[[1, 2]]]}, False),
        (BASE, {"target_delay_steps": [[[0, 1]]]}, False),
    ],
)
def test_lavas_convolution_where_it_does_the_same(operator: Any, own: dict[str, Any], plain: bool) -> None:
    assert processes._is_plain_conv(made.projection("a", "b", operator, **own)) is plain


@pytest.mark.parametrize(("most", "process"), [(23, "DelaySparse"), (24, "DelayDense")])
def test_dense_delays_up_to_a_size(most: int, process: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Six weights in the four slots of three further steps."""
    monkeypatch.setattr(processes, "_DELAY_DENSE_MAX", most)
    p = made.projection("a", "b", Dense(made.ints(np.arange(6).reshape(2, 3) * 2)), delay_steps=4)
    found = processes.lava_synapse("s", p, ("x", "y"), ((3,), (2,)), 0)
    assert found.process == process
    delays = found.arguments["delays"]
    assert delays == 3 if process == "DelayDense" else np.asarray(delays).tolist() == [3] * np.asarray(delays).size


def test_delays_of_both_ends_add_up_for_each_weight() -> None:
    weights = Dense(made.ints([[2, 4, 6], [8, 10, 12]]))
    p = made.projection("a", "b", weights, delay_steps=[1, 2, 3], target_delay_steps=[0, 5])
    dense = processes.lava_synapse("s", p, ("x", "y"), ((3,), (2,)), 0)
    assert np.asarray(dense.arguments["delays"]).tolist() == [[0, 1, 2], [5, 6, 7]]
    some = Sparse(made.ints([0, 1, 3]), made.ints([2, 0, 1]), made.ints([2, 4, 6]), (3,), (2,))
    found = processes.lava_synapse("s", replace(p, operator=some), ("x", "y"), ((1, 3), (2, 1)), 3).arguments
    assert np.asarray(found["delays"]).tolist() == [2, 5, 6]
    assert (found["matrix_shape"], found["num_message_bits"], found["weight_exp"]) == ((2, 3), 3, 0)


@pytest.mark.parametrize(
    ("own", "late", "shortest", "longest"), [([1, 3], [0, 2], 1, 5), ([0, 3], [1, 2], 1, 5), ([0, 3], [0, 2], 0, 5)]
)
def test_the_shortest_delay_of_both_ends_is_a_step(own: Any, late: Any, shortest: int, longest: int) -> None:
    p = made.projection("a", "b", Dense(made.ints([[2, 4], [6, 8]])), delay_steps=own, target_delay_steps=late)
    refused = ["a delay of 0 time steps"] if shortest < 1 else []
    assert [problem.found for problem in processes.synapse_problems(p)] == refused
    far = replace(p, delay_steps=made.ints(np.add(own, 60)))
    assert [problem.found for problem in processes.synapse_problems(far)] == [f"a delay of {60 + longest} steps"]


def test_a_population_of_one_neuron_without_axes_is_a_line_of_one() -> None:
    found = processes.lava_layer("id", made.population("p", (), made.neuron()))
    assert (found.shape, found.arguments["shape"]) == ((1,), (1,))
    real = Population("p", (), neuron("LIF", a_mem=0.75, theta=1.0, a_syn=0.25))
    plain = real_plan._lif("id", real, np.zeros(()))
    assert (plain.shape, plain.arguments["shape"]) == ((1,), (1,))
    assert {name: plain.arguments[name] for name in ("du", "dv", "vth")} == {"du": 0.75, "dv": 0.25, "vth": 1.0}


def test_messages_of_the_real_network_are_spikes_or_wide_values() -> None:
    """Of spikes 0 and 1 no bits are named; values of inputs and read-outs, and several spikes, take 24."""
    cells = {"one": PLAIN, "two": PLAIN | {"max_spikes": 2}, "still": PLAIN | {"theta": None, "reset": "none"}}
    populations = tuple(Population(name, (), neuron("LIF", **own)) for name, own in cells.items())
    ways = [("in", "one"), ("one", "two"), ("two", "still"), ("still", "one"), ("one", "out")]
    step = freeze(np.array(1))
    edges = [replace(Projection(a, b, Identity(())), delay_steps=step) for a, b in ways]
    timing = Timing(1e-3, "euler", "to-value", ">", "per-second")
    network = Network(1e-3, timing, populations, tuple(edges), (Port("in", ()),), (Port("out", ()),))
    given: Any = SimpleNamespace(network=network, chip="c", latency={"out": 1})
    plan = real_plan.floating_plan(given)
    assert [(s.source, s.target) for s in plan.synapses] == [
        ("input0", "layer0"),
        ("layer0", "layer1"),
        ("layer1", "layer2"),
        ("layer2", "layer0"),
    ]
    assert [s.arguments.get("num_message_bits") for s in plan.synapses] == [24, None, 24, 24]
    assert [layer.process for layer in plan.layers] == ["LIF", "RealNeuron", "RealNeuron"]
    assert {layer.shape for layer in plan.layers} == {(1,)}
    assert [(node.fires, node.max_spikes) for node in plan.nodes] == [(True, 1), (True, 2), (False, 1)]
    assert [s.id for s in plan.synapses] == [f"synapse{k}" for k in range(4)]
    assert (plan.processes, len(plan.outputs[0].reads)) == (1 + 3 + 4 + 1, 1)
