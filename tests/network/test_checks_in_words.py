# ruff: noqa: E501  (tables of messages read better in one line)
"""Every problem of a network word by word, each bound on both sides; limits of matrices; export warnings."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest

from nirbridge.arrays import freeze
from nirbridge.errors import ModelError, NirbridgeError
from nirbridge.network import (
    Population,
    apply,
    check_network,
    diagnose_network,
    export_warnings,
    is_valid_network,
    neuron,
)
from nirbridge.network.apply import matrix
from nirbridge.network.compose import compose, is_trivial, one_value
from nirbridge.network.model import Network, Port, Projection, Timing
from nirbridge.network.operators import Chain, Conv, Dense, Identity, Reshape, Scale, Sparse, SumPool
from tests.network.test_one_wrong_element import CONV, POOL, SCALE, SHAPE, network


def some(*shape: int) -> Any:
    return freeze(np.arange(1.0, 1 + np.prod(shape)).reshape(shape))


TIMING = Timing(1.0, "euler", "to-value", ">", "per-second")


def found(made: Network) -> list[str]:
    lines = [str(p) for p in diagnose_network(made)]
    assert is_valid_network(made) is (not lines)
    return lines


@pytest.mark.parametrize(
    ("own", "lines"),
    [
        ({"dt": 5e-324, "timing": replace(TIMING, dt=5e-324)}, []),
        ({"dt": 0.0, "timing": replace(TIMING, dt=0.0)}, ["network: dt is 0.0 s, a finite number above 0; correct dt"]),
        ({"dt": np.inf, "timing": replace(TIMING, dt=np.inf)}, ["network: dt is inf s, a finite number above 0; correct dt"]),
        ({"dt": 2.0, "timing": TIMING}, ["network: dt is 2.0 s, its timing says 1.0 s; make them equal"]),
        ({"timing": Timing()}, [f"network: its timing leaves {f.name} open, a network's timing is resolved; set it" for f in fields(Timing)]),
        ({"outputs": (Port("out", SHAPE), Port("a", SHAPE), Port("a", SHAPE), Port("", (1,)))}, ["network: 3 populations or ports are named 'a'; rename", "network: a population or port has no name; name it"]),
        ({"inputs": (Port("in", SHAPE), Port("x", (1, 0, 2)), Port("y", (1, 1)))}, ["population or port 'x': shape (1, 0, 2), every axis has 1 or more; correct the shape"]),
    ],
)  # fmt: skip
def test_what_is_wrong_with_the_whole(own: Any, lines: list[str]) -> None:
    assert found(replace(network(), **own)) == lines


BACK = "it closes a cycle with a delay of 0, a back edge has 1 time step or more; delay it"
ENDS = "add it, or remove the projection"


@pytest.mark.parametrize(
    ("own", "lines"),
    [
        ({"source": "x", "target": "y"}, [f"'x' -> 'y': there is no population or input 'x'; {ENDS}", f"'x' -> 'y': there is no population or output 'y'; {ENDS}"]),
        ({"source": "out"}, [f"'out' -> 'b': there is no population or input 'out'; {ENDS}"]),
        ({"operator": Reshape(SHAPE, (32,))}, ["'a' -> 'b': its operator gives (32,), the target has (2, 4, 4); reshape"]),
        ({"operator": Reshape((32,), SHAPE)}, ["'a' -> 'b': its operator takes (32,), the source has (2, 4, 4); reshape"]),
        ({"bias": some(2, 4, 4)}, []),
        ({"bias": some(2, 4)}, ["'a' -> 'b': its bias of shape (2, 4) is wrong, finite numbers of shape (2, 4, 4); correct it"]),
        ({"nodes": ("s",)}, []),
        ({"nodes": ("s", "t")}, ["'a' -> 'b': 2 node names for 1 parts, none, or one for each part; correct nodes"]),
        ({"delay_steps": freeze(np.uint8(3))}, []),
        ({"delay_steps": freeze(np.float64(3))}, ["'a' -> 'b': delay_steps has shape () and type float64, integers of 0 or more, shape () or (2, 4, 4); correct it"]),
        ({"target_delay_steps": freeze(np.zeros(4, np.int64))}, ["'a' -> 'b': target_delay_steps has shape (4,) and type int64, integers of 0 or more, shape () or (2, 4, 4); correct it"]),
        ({"is_back": True}, [f"'a' -> 'b': {BACK}"]),
        ({"is_back": True, "delay_steps": freeze(np.int64(1))}, []),
        ({"is_back": True, "target_delay_steps": freeze(np.int64(1))}, []),
        ({"is_back": True, "delay_steps": freeze(np.int64(-1))}, ["'a' -> 'b': delay_steps has shape () and type int64, integers of 0 or more, shape () or (2, 4, 4); correct it"]),
        ({"operator": Chain((SCALE,))}, ["'a' -> 'b': its chain is nested or has fewer than two parts; compose it again"]),
        ({"operator": Chain((SCALE, CONV))}, []),
        ({"operator": replace(POOL, kernel=())}, ["'a' -> 'b': its SumPool has 0 kernel axes but entries for [0, 2]; correct it"]),
        ({"operator": replace(POOL, stride=(1,))}, ["'a' -> 'b': its SumPool has 2 kernel axes but entries for [1, 2]; correct it"]),
        ({"operator": replace(CONV, groups=0)}, ["'a' -> 'b': 2 kernels of 2 channels in 0 groups on 2 channels, groups divide both; correct the weight or groups"]),
        ({"operator": replace(CONV, groups=2, weight=some(2, 1, 3, 3))}, []),
        ({"operator": replace(CONV, groups=1, weight=some(2, 1, 3, 3))}, ["'a' -> 'b': 2 kernels of 1 channels in 1 groups on 2 channels, groups divide both; correct the weight or groups"]),
        ({"operator": Dense(some(2))}, ["'a' -> 'b': a dense weight of shape (2,), [post, pre]; correct it"]),
        ({"operator": replace(POOL, kernel=(6, 6))}, ["'a' -> 'b': its operator gives (2, 1, 1), the target has (2, 4, 4); reshape"]),
        ({"operator": replace(POOL, kernel=(7, 6))}, ["'a' -> 'b': its SumPool puts out (2, 0, 1), every axis has 1 or more; use a smaller kernel"]),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_projection(own: Any, lines: list[str]) -> None:
    made = network()
    changed = replace(made, projections=(made.projections[0], replace(made.projections[1], **own), made.projections[2]))
    assert found(changed) == [f"projection 1 {line}" for line in lines]


@pytest.mark.parametrize(
    ("own", "lines"),
    [
        ({"max_spikes": 1}, []), ({"max_spikes": 0}, ["max_spikes is 0, at least 1; correct it"]),
        ({"refractory_steps": freeze(np.int64(0))}, []), ({"refractory_steps": freeze(np.int64(-1))}, ["refractory_steps is negative, at least 0; correct it"]),
        ({"theta": some(4)}, ["neuron theta has shape (4,), () or (2, 4, 4); reshape it"]), ({"theta": freeze(np.float64(np.nan))}, ["neuron theta is not finite; repair it"]),
        ({"theta": freeze(np.full(4, np.inf))}, ["neuron theta has shape (4,), () or (2, 4, 4); reshape it", "neuron theta is not finite; repair it"]),
        ({"theta": None}, []),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_neuron(own: Any, lines: list[str]) -> None:
    made = network()
    populations = (made.populations[0], replace(made.populations[1], neuron=replace(made.populations[1].neuron, **own)))
    assert found(replace(made, populations=populations)) == [f"population 'b': {line}" for line in lines]


@pytest.mark.parametrize("length", [1, 2, 6, 7])
def test_a_cycle_without_delay_is_shown_up_to_six(length: int) -> None:
    names = [f"n{k}" for k in range(length)]
    populations = tuple(Population(n, (1,), neuron("IF")) for n in (*names, "before", "behind"))
    ring = [(a, b) for a, b in zip(names, [*names[1:], names[0]], strict=True)]
    ways = [Projection(a, b, Identity((1,))) for a, b in [("before", "n0"), *ring, (names[-1], "behind")]]
    made = Network(1.0, TIMING, populations, tuple(ways), (), ())
    with pytest.raises(ModelError) as caught:
        check_network(made)
    (problem,) = caught.value.problems
    loop = problem.ids["names"]
    assert sorted(loop) == sorted(names)
    assert all((a, b) in ring for a, b in zip(loop, [*loop[1:], loop[0]], strict=True))
    shown = " -> ".join([*(f"'{n}'" for n in loop[:6]), *["'…'"] * (length > 6), f"'{loop[0]}'"])
    assert str(problem) == f"network: a cycle without delay: {shown}; mark one edge of it as a back edge, or delay it"
    late = [replace(w, delay_steps=freeze(np.int64(w.source == names[-1] and w.target == "n0"))) for w in ways]
    assert found(replace(made, projections=tuple(late))) == []


# -- operators -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("operator", "synapses"),
    [
        (Dense(some(2, 3)), 6), (Sparse(freeze([0, 1, 2]), freeze([0, 1]), some(2), (5,), (2,)), 2), (Scale(some(2, 3)), 6), (Identity((7,)), 7), (Reshape((2, 3), (6,)), 6),
        (Conv(some(4, 1, 2), (1,), ((0, 0),), (1,), 2, (2, 5)), 4 * 4 * 2), (SumPool((2,), (2,), ((0, 0),), (3, 6)), 3 * 3 * 2),
    ],
    ids=lambda o: type(o).__name__,
)  # fmt: skip
def test_synapses_are_counted_before_they_are_listed(operator: Any, synapses: int) -> None:
    assert matrix(operator, synapses).shape == (int(np.prod(operator.output_shape)), int(np.prod(operator.input_shape)))
    with pytest.raises(NirbridgeError) as caught:
        matrix(operator, synapses - 1)
    assert (
        str(caught.value)
        == f"operator: up to {synapses} synapses, at most {synapses - 1} are listed as a matrix; use apply instead"
    )


def test_chains_are_counted_part_by_part_and_as_a_whole() -> None:
    wide = Chain((Dense(some(4, 1)), Dense(some(5, 4))))
    assert matrix(wide, 20).toarray().tolist() == (some(5, 4) @ some(4, 1)).tolist()
    with pytest.raises(NirbridgeError, match="up to 20 synapses, at most 19"):
        matrix(wide, 19)
    outer = Chain((Dense(some(1, 5)), Dense(some(5, 1))))
    assert matrix(outer, 25).toarray().tolist() == (some(5, 1) @ some(1, 5)).tolist()
    with pytest.raises(NirbridgeError, match="up to 25 synapses, at most 24"):
        matrix(outer, 24)


def test_an_array_of_another_shape_is_no_input() -> None:
    dense = Dense(some(2, 3))
    assert apply(dense, np.ones(3)).tolist() == [6.0, 15.0]
    assert apply(dense, np.ones((4, 5, 3))).shape == (4, 5, 2)
    for shape in ((2,), (3, 1), ()):
        with pytest.raises(NirbridgeError) as caught:
            apply(dense, np.ones(shape))
        assert str(caught.value) == f"operator: an array of shape {shape}, it takes [..., (3,)]; reshape the array"
    assert apply(Identity(()), np.ones((2, 2))).shape == (2, 2)


@pytest.mark.parametrize(
    ("x", "weights", "kind"),
    [
        (bool, np.float32, np.float32),
        (np.int64, np.float32, np.float64),
        (np.float32, np.float32, np.float32),
        (np.uint8, np.int64, np.int64),
    ],
)
def test_outputs_have_numpys_result_type(x: Any, weights: Any, kind: Any) -> None:
    dense = np.ones((2, 2), weights)
    operators = [
        Dense(dense),
        Scale(dense[0]),
        Sparse(freeze([0, 1, 2]), freeze([0, 1]), dense[0], (2,), (2,)),
        Conv(dense[:1, None], (1,), ((0, 0),), (1,), 1, (1, 2)),
    ]
    assert [apply(o, np.ones(o.input_shape, x)).dtype for o in operators] == [kind] * 4
    assert [matrix(o).dtype for o in operators] == [weights] * 4
    pool = SumPool((2,), (2,), ((0, 0),), (1, 2), 0.5)
    assert apply(pool, np.ones((1, 2), x)).dtype == np.result_type(x, np.float32)
    assert matrix(pool).dtype == np.float64


def test_what_is_composed_keeps_the_first_name() -> None:
    ones, twice = (
        Scale(freeze(np.broadcast_to(np.float64(1.0), (2, 3)))),
        Scale(freeze(np.broadcast_to(np.float64(2.0), (2, 3)))),
    )
    half, own = Scale(freeze(np.full((2, 3), 0.5))), Scale(some(2, 3))
    flat, back = Reshape((2, 3), (6,)), Reshape((6,), (2, 3))
    assert [is_trivial(p) for p in (ones, twice, own, flat, Reshape((2,), (2,)), Identity((2,)))] == [
        True,
        False,
        False,
        False,
        True,
        True,
    ]
    assert [one_value(a) for a in (ones.scale, own.scale, freeze(np.zeros(0)), freeze([2.0, 2.0]))] == [
        1.0,
        None,
        None,
        2.0,
    ]
    made, names = compose([twice, own, ones, flat, back, half], list("abcdef"), (2, 3))
    assert isinstance(made, Scale)
    assert (made.scale.tolist(), names) == (some(2, 3).tolist(), ("a",))
    assert compose([twice, half], ["a", "b"], (2, 3))[1] == ()
    uniform, _ = compose([twice, twice], ["a", "b"], (2, 3))
    assert isinstance(uniform, Scale)
    assert (uniform.scale.strides, uniform.scale.flat[0]) == ((0, 0), 4.0)
    nested, names = compose([Chain((own, flat)), Chain((back, Dense(some(2, 2))))], ["a", "b"], (2, 3))
    assert isinstance(nested, Chain)
    assert ([type(p).__name__ for p in nested.parts], names) == (["Scale", "Dense"], ("a", "b"))


# -- warnings ------------------------------------------------------------------------------------------------------


def warned(count: int = 1, ways: Any = (), integrator: str = "euler", **own: Any) -> list[str]:
    populations = tuple(Population(f"p{k}", (2,), neuron(**{"kind": "IF", **own})) for k in range(count))
    timing = replace(TIMING, dt=1e-3, integrator=integrator)  # type: ignore[arg-type]
    made = Network(1e-3, timing, populations, tuple(ways), (Port("in", (2,)),), ())
    first, *rest = export_warnings(made)
    assert first == "dt = 0.001 s is kept in metadata only: other tools run the file with their own dt"
    return rest


GREATER = "a spike needs v > threshold: spikingjelly, Sinabs and Rockpool fire at v >= threshold"
VALUE = "reset to a value: Sinabs and Rockpool subtract the threshold"
START = "an initial state: spikingjelly and Norse start at v_reset or v_leak, the others at 0"
DECAY = "a negative decay: only Euler tools have it"


@pytest.mark.parametrize(
    ("own", "texts"),
    [
        ({}, [GREATER, VALUE]),
        ({"a_mem": 0.0}, [GREATER]),
        ({"a_mem": [0.0, 0.5]}, [GREATER, VALUE]),
        ({"theta": None}, []),
        ({"compare": ">=", "reset": "none"}, ["a spike at v >= threshold: the NIR text, snnTorch and Norse need v > threshold", "no reset: every tool that reads plain NIR resets"]),
        ({"reset": "subtract"}, [GREATER, "reset by subtraction: the NIR text, Norse and Nengo reset to a value"]),
        ({"max_spikes": 2}, [GREATER, VALUE, "several spikes per time step: all but Sinabs and Rockpool fire at most once"]),
        ({"theta": None, "max_spikes": 2, "reset": "none"}, []),
        ({"refractory_steps": [0, 1]}, [GREATER, VALUE, "a refractory period: plain NIR has none, and no tool reads it"]),
        ({"v_init": [0.0, 0.5]}, [GREATER, VALUE, START]),
        ({"i_init": [-0.5, 0.0]}, [GREATER, VALUE, START]),
        ({"a_mem": [0.5, -0.5]}, [GREATER, VALUE, DECAY]),
        ({"a_syn": [0.5, -0.5]}, [GREATER, VALUE, DECAY]),
        ({"kind": "LIF"}, [GREATER, VALUE, "integrator euler: Nengo integrates exactly (zoh), Sinabs decays exponentially"]),
        ({"kind": "CubaLI", "theta": None, "integrator": "zoh"}, ["integrator zoh: snnTorch, Norse, spikingjelly and Lava integrate by Euler"]),
        ({"kind": "LI", "theta": None, "integrator": "exponential"}, ["integrator exponential: snnTorch, Norse, spikingjelly and Lava integrate by Euler, Nengo exactly (zoh)"]),
    ],
)  # fmt: skip
def test_each_thing_that_tools_settle_differently(own: Any, texts: list[str]) -> None:
    given = {k: np.array(v) if isinstance(v, list) else v for k, v in own.items()}
    assert warned(**given) == [f"population 'p0': {text}" for text in texts]


def test_populations_are_named_up_to_five_and_once() -> None:
    assert warned(2, theta=None, kind="LI")[0].startswith("populations 'p0', 'p1': integrator")
    assert warned(5, a_mem=0.0) == [f"populations 'p0', 'p1', 'p2', 'p3', 'p4': {GREATER}"]
    assert warned(7, a_mem=0.0) == [f"populations 'p0', 'p1', 'p2', 'p3', 'p4' and 2 more: {GREATER}"]


@pytest.mark.parametrize(
    ("own", "texts"),
    [
        ({}, []),
        ({"is_back": True, "delay_steps": freeze(np.int64(1))}, ["a loop is closed one time step later; Lava adds a time step on every edge"]),
        ({"is_back": True, "delay_steps": freeze(np.int64(2))}, ["a loop is closed one time step later; Lava adds a time step on every edge", "a Delay node on the way in: tools without delays refuse or drop it"]),
        ({"delay_steps": freeze([0, 1])}, ["a Delay node on the way in: tools without delays refuse or drop it"]),
        ({"bias": freeze([0.5, 0.0])}, []),
        ({"operator": Scale(freeze([1.0, 2.0])), "bias": freeze([0.5, 0.0])}, ["a constant input that no bias of a NIR node can express: other tools drop it"]),
    ],
)  # fmt: skip
def test_each_thing_of_a_projection_that_tools_leave_out(own: Any, texts: list[str]) -> None:
    p = replace(Projection("in", "p0", Dense(some(2, 2))), **own)
    assert warned(ways=(p, p), a_mem=0.0, theta=None) == [f"population 'p0': {text}" for text in texts]
