# ruff: noqa: E501  (tables of messages read better in one line)
"""Timing and stored parameters of neurons: precedence, assumptions, refusals and their words."""

from __future__ import annotations

from typing import Any, NamedTuple

import nir
import numpy as np
import pytest

from nirbridge.errors import NirbridgeError
from nirbridge.network import Neuron, Timing, from_nir
from nirbridge.network.nir.lower_neurons import _agrees, decay_coefficients, lower_neuron, uniform_value
from nirbridge.network.nir.timing import ResolvedTiming, read_choice, read_dt
from tests.network.graphs import chain, graph_of, lif, out, port
from tests.network.test_graphs_in_words import told, with_field


def integrator(r: Any, **metadata: Any) -> Any:
    node = nir.IF(r=np.atleast_1d(np.asarray(r, float)), v_threshold=np.ones(np.size(r)))
    return with_field(node, metadata={f"nirbridge:{k}": v for k, v in metadata.items()})


def row(*nodes: Any, size: int = 1, **metadata: Any) -> Any:
    return chain(port(size), *nodes, out(size), **metadata)


UNIT = "dt = 0.2 s: 1/r, since no node has a time constant; a unit input then adds 1 a step"
NONE = "dt = 0.0001 s: the file stores none"
GAIN = "gain of integrators = r * dt (per-second): the file stores none"
RESET, SPIKE = (
    "reset = to-value, in the step of the spike: the file stores none",
    "a spike where v > threshold: the file stores no comparison",
)
EULER = "integrator = euler: the file stores none"


@pytest.mark.parametrize(
    ("nodes", "asked", "stored", "dt", "gain", "assumed"),
    [
        ([integrator(5)], {}, {}, 0.2, 1.0, (UNIT, RESET, SPIKE)),
        ([integrator([5, 5])], {}, {}, 0.2, 1.0, (UNIT, RESET, SPIKE)),
        ([integrator([5, 4])], {}, {}, 1e-4, 5e-4, (NONE, RESET, SPIKE, GAIN)),
        ([integrator([4, 5])], {}, {}, 1e-4, 4e-4, (NONE, RESET, SPIKE, GAIN)),
        ([integrator(5)], {"dt": 0.5}, {}, 0.5, 2.5, (RESET, SPIKE, GAIN)),
        ([integrator(5)], {}, {"dt": 0.5}, 0.5, 2.5, (RESET, SPIKE, GAIN)),
        ([integrator(5)], {"if_gain": "per-step"}, {}, 1e-4, 5.0, (NONE, RESET, SPIKE)),
        ([integrator(5)], {"if_gain": "per-second"}, {}, 0.2, 1.0, (UNIT, RESET, SPIKE)),
        ([integrator(5)], {}, {"if_gain": "per-step"}, 1e-4, 5.0, (NONE, RESET, SPIKE)),
        ([integrator(5)], {"if_gain": "per-second"}, {"if_gain": "per-step"}, 0.2, 1.0, (UNIT, RESET, SPIKE)),
        ([integrator(5, if_gain="per-step")], {}, {}, 0.2, 5.0, (UNIT, RESET, SPIKE)),
        ([integrator(5, reset="none", compare=">=")], {}, {}, 0.2, 1.0, (UNIT,)),
        ([integrator(5, reset="none"), integrator(5)], {}, {}, 0.2, 1.0, (UNIT, RESET, SPIKE)),
        ([integrator(5), integrator(5, reset="none")], {}, {}, 0.2, 1.0, (UNIT, RESET, SPIKE)),
        ([integrator(5), nir.Threshold(np.ones(1))], {}, {}, 0.2, 1.0, (UNIT, RESET, SPIKE)),
        ([integrator(5), lif(1)], {}, {"reset": "none"}, 1e-4, 5e-4, (NONE, EULER, SPIKE, GAIN)),
        ([nir.I(np.array([5.0]))], {}, {}, 0.2, 1.0, (UNIT,)),
        ([nir.I(np.array([5.0]))], {"dt": 1.0}, {}, 1.0, 5.0, (GAIN,)),
        ([nir.Threshold(np.ones(1))], {}, {}, 1e-4, 1.0, (NONE, SPIKE)),
        ([integrator(-5)], {}, {}, 1e-4, -5e-4, (NONE, RESET, SPIKE, GAIN)),
        ([integrator(0)], {}, {}, 1e-4, 0.0, (NONE, RESET, SPIKE, GAIN)),
        ([integrator(1e-310)], {}, {}, 1e-4, 1e-314, (NONE, RESET, SPIKE, GAIN)),
        ([integrator(1e300)], {}, {}, 1e-300, 1.0, ("dt = 1e-300 s: 1/r, since no node has a time constant; a unit input then adds 1 a step", RESET, SPIKE)),
    ],
)  # fmt: skip
def test_which_time_step_and_gain_count(
    nodes: Any, asked: Any, stored: Any, dt: float, gain: float, assumed: Any
) -> None:
    made = from_nir(row(*nodes, size=nodes[0].r.size if hasattr(nodes[0], "r") else 1, **stored), Timing(**asked))
    assert made.dt == pytest.approx(dt, rel=1e-15)
    by_name = {p.name: p for p in made.populations}
    assert float(by_name["0"].neuron.g_mem.flat[0]) == pytest.approx(gain, rel=1e-12)
    assert made.assumed == assumed


def test_time_steps_of_nodes_are_compared_in_order_of_names() -> None:
    def made(**dts: float) -> Any:
        nodes = {"in": port(1), "out": out(1), **{n: lif(1) for n in ("10", "2", "1")}}
        for name, dt in dts.items():
            nodes[name[1:]].metadata = {"nirbridge:dt": dt}
        return graph_of(nodes, [("in", "10"), ("10", "2"), ("2", "1"), ("1", "out")], dt=7.0)

    assert from_nir(made(n10=2.0)).dt == 2.0
    assert from_nir(made(n10=2.0, n2=2.0)).dt == 2.0
    assert from_nir(made()).dt == 7.0
    graph = made(n10=2.0, n2=3.0)
    with pytest.raises(NirbridgeError) as caught:
        from_nir(graph)
    (problem,) = caught.value.problems
    assert str(problem) == (
        "nodes '2' and '10': metadata nirbridge:dt is 3 s in one and 2 s in the other, a network has one dt; correct one of them, or give dt (--dt)"
    )
    assert dict(problem.ids) == {"nodes": ("2", "10")}


@pytest.mark.parametrize(
    ("value", "dt"),
    [(None, None), (0.5, 0.5), (np.array([2], np.uint8), 2.0), ("0.5", 0.0), (b"1", 0.0), (0, 0.0), (-1.0, 0.0), (np.inf, 0.0), (np.nan, 0.0), ([1.0, 1.0], 0.0), ([], 0.0), (True, 0.0)],
)  # fmt: skip
def test_a_stored_time_step_is_one_number_of_seconds(value: Any, dt: float | None) -> None:
    if dt == 0.0:
        (text,) = told(lambda: read_dt({"nirbridge:dt": value}, "graph"))
        assert text.startswith("graph: metadata nirbridge:dt is ")
        assert text.endswith(", one number of seconds above 0; correct the metadata")
        return
    assert read_dt({"nirbridge:dt": value}, "graph") == dt


def test_a_stored_word_is_one_of_those_there_are() -> None:
    assert read_choice({}, "reset", "graph") is None
    assert read_choice({"nirbridge:reset": b"none"}, "reset", "graph") == "none"
    assert told(lambda: read_choice({"nirbridge:if_gain": b"\xff"}, "if_gain", "graph")) == [
        "graph: metadata nirbridge:if_gain is '�', one of per-second, per-step; correct the metadata"
    ]


def test_wrong_options_are_all_listed() -> None:
    asked: Any = Timing(0.0, "a", "b", "c", "d")  # type: ignore[arg-type]
    with pytest.raises(NirbridgeError) as caught:
        from_nir(row(lif(1)), asked)
    assert [str(p) for p in caught.value.problems] == [
        "timing option dt: 0.0, a finite number of seconds above 0; correct it",
        "timing option integrator: 'a', one of euler, zoh, exponential; choose one of them",
        "timing option reset: 'b', one of to-value, subtract, none; choose one of them",
        "timing option compare: 'c', one of >, >=; choose one of them",
        "timing option if_gain: 'd', one of per-second, per-step; choose one of them",
    ]


STATE = "v = 0 before the first step: the file stores no initial state"


@pytest.mark.parametrize(
    ("first", "second", "is_said"),
    [
        ({}, {}, False),
        ({"v_leak": np.array([0.0, 0.5])}, {}, True),
        ({}, {"v_leak": np.array([0.5, 0.0])}, True),
        ({"v_reset": np.array([0.0, -1.0])}, {}, True),
        ({"v_leak": np.array([0.0, 0.5]), "metadata": {"nirbridge:v_init": 0.0}}, {}, False),
        ({"v_leak": np.array([0.0, 0.5]), "metadata": {"nirbridge:v_init": 0.0}}, {"v_leak": np.ones(2)}, True),
        ({"v_reset": None}, {"v_reset": None}, False),
    ],
)
def test_a_start_elsewhere_than_rest_is_said(first: Any, second: Any, is_said: bool) -> None:
    made = from_nir(row(with_field(lif(2), **first), with_field(lif(2), **second), size=2))
    assert (STATE in made.assumed) is is_said


@pytest.mark.parametrize(
    ("taus", "is_said"),
    [([1.0, 1.0], True), ([20.0, 1.0], True), ([20.0, 0.99], False), ([0.99, 20.0], False), ([0.5, 0.5], False)],
)
def test_time_constants_that_look_like_steps_are_said(taus: list[float], is_said: bool) -> None:
    said = "every time constant is 1 s or more and dt = 0.0001 s: if the file counts them in steps, give --dt 1"
    cuba = nir.CubaLIF(
        tau_syn=np.array(taus[:1]), tau_mem=np.array(taus[1:]), r=np.ones(1), v_leak=np.zeros(1), v_threshold=np.ones(1)
    )
    both = row(with_field(lif(2), tau=np.array(taus)), size=2)
    two = row(lif(1, tau=taus[0]), lif(1, tau=taus[1]))
    for graph in (row(cuba), both, two):
        assert (said in from_nir(graph).notes) is is_said


# -- neurons ---------------------------------------------------------------------------------------------------------

PLAIN = ResolvedTiming(1e-3, "euler", "to-value", ">", "per-second", Timing(), False, (), ())


class Lowered(NamedTuple):
    neuron: Neuron
    notes: tuple[str, ...]


def lowered(node: Any, shape: tuple[int, ...] = (2,), **metadata: Any) -> Lowered:
    return Lowered(*lower_neuron("n", node, shape, {f"nirbridge:{k}": v for k, v in metadata.items()}, PLAIN))


LIF = lif(2, tau=4e-3, v_leak=0.5, theta=2.0)
META = "node 'n' (LIF): metadata nirbridge:"


@pytest.mark.parametrize(
    ("key", "value", "problem"),
    [
        ("max_spikes", 0, "max_spikes is 0, whole numbers from 1 to 2,147,483,647; correct the metadata"),
        ("max_spikes", 1.5, "max_spikes is 1.5, whole numbers from 1 to 2,147,483,647; correct the metadata"),
        ("max_spikes", 2**31, "max_spikes is 2.14748e+09, whole numbers from 1 to 2,147,483,647; correct the metadata"),
        ("max_spikes", [1, 2], "max_spikes has shape (2,), the node has (); correct the metadata"),
        ("refractory_steps", [0, -1], "refractory_steps is -1, whole numbers from 0 to 2,147,483,647; correct the metadata"),
        ("refractory_steps", [0, 0.5], "refractory_steps is 0.5, whole numbers from 0 to 2,147,483,647; correct the metadata"),
        ("refractory_steps", [2**31, 0], "refractory_steps is 2.14748e+09, whole numbers from 0 to 2,147,483,647; correct the metadata"),
        ("v_init", [0.0, np.nan], "v_init does not hold finite numbers; correct the metadata"),
        ("i_init", "x", "i_init does not hold finite numbers; correct the metadata"),
        ("theta", np.ones((2, 1)), "theta has shape (2, 1), the node has (2,); correct the metadata"),
        ("kind", "", "kind is '', a name of at most 40 letters; correct the metadata"),
        ("kind", "a-b", "kind is 'a-b', a name of at most 40 letters; correct the metadata"),
        ("kind", "k" * 41, f"kind is '{'k' * 41}', a name of at most 40 letters; correct the metadata"),
    ],
)  # fmt: skip
def test_a_stored_number_that_makes_no_sense_is_told(key: str, value: Any, problem: str) -> None:
    assert told(lambda: lowered(LIF, **{key: value})) == [META + problem]


@pytest.mark.parametrize(
    ("key", "value", "found"),
    [
        ("max_spikes", 1, 1), ("max_spikes", 2**31 - 1, 2**31 - 1), ("max_spikes", None, 1), ("max_spikes", np.array([3.0]), 3),
        ("refractory_steps", [0, 2**31 - 1], [0, 2**31 - 1]), ("refractory_steps", 2.0, 2), ("refractory_steps", None, 0),
        ("v_init", [0.25, -1], [0.25, -1.0]), ("i_init", True, 1.0), ("v_init", None, 0.0), ("i_init", np.array([[7]]), 7.0),
        ("kind", "k" * 40, "k" * 40), ("kind", b"relay", "relay"), ("kind", None, "LIF"), ("reset_amount", [1.0, 3.0], [1.0, 3.0]),
        ("reset_amount", None, 2.0), ("reset", "none", "none"), ("compare", ">=", ">="), ("v_reset", [1.0, 1.0], 0.0), ("theta", 2.0 + 1e-6, 2.0 + 1e-6),
    ],
)  # fmt: skip
def test_a_stored_number_is_taken_as_it_is(key: str, value: Any, found: Any) -> None:
    got = getattr(lowered(LIF, **{key: value}).neuron, key)
    assert (got.tolist() if isinstance(got, np.ndarray) else got) == found


@pytest.mark.parametrize("key", ["a_mem", "g_mem", "bias", "theta", "v_reset"])
def test_an_exact_number_that_differs_is_noted(key: str) -> None:
    plain = getattr(lowered(LIF).neuron, key)
    made = lowered(LIF, **{key: [float(plain), float(plain) + 0.5]})
    assert getattr(made.neuron, key).tolist() == plain.tolist()
    assert made.notes == (f"{META}{key} differs from the plain parameters, which are used",)
    assert lowered(LIF, **{key: plain}).notes == ()


def test_a_reset_value_that_a_class_has_no_parameter_for_is_taken() -> None:
    threshold = nir.Threshold(np.ones(2))
    made = lowered(threshold, v_reset=[0.5, 0.25], reset="to-value")
    assert (made.neuron.v_reset.tolist(), made.neuron.reset, made.notes) == ([0.5, 0.25], "to-value", ())
    assert (made.neuron.reset_amount.tolist(), lowered(threshold).neuron.reset) == (0.0, "none")
    read_out = lowered(nir.LI(np.full(2, 4e-3), np.ones(2), np.zeros(2)), theta=5.0)
    assert (read_out.neuron.theta, read_out.neuron.compare, read_out.notes) == (None, ">", ())


@pytest.mark.parametrize(
    ("key", "plain", "stored", "found"),
    [
        ("theta", [1.0, 2.0], [1.0, 2.0], True), ("theta", [1.0, 2.0], [1.0, 2.1], False), ("theta", [1.0, 2.0], [1.1, 2.0], False),
        ("theta", 1000.0, 1000.0009, True), ("theta", 1000.0, 1000.0011, False), ("theta", -1000.0, -1000.0009, True), ("theta", -1000.0, -999.9989, False),
        ("theta", 0.0, 1e-15, True), ("theta", 0.0, 1.1e-15, False), ("bias", 0.5, 0.5 + 4e-7, True), ("bias", 0.5, 0.5 + 6e-7, False),
        ("a_mem", 0.75, 0.75 + 2.4e-7, True), ("a_mem", 0.75, 0.75 - 2.6e-7, False), ("a_syn", 0.75, 0.75 + 2.6e-7, False), ("a_syn", -1.0, -1.0 - 1.9e-6, True),
    ],
)  # fmt: skip
def test_exact_numbers_agree_to_a_millionth(key: str, plain: Any, stored: Any, found: bool) -> None:
    """Of decays it is the distance from 1 that counts."""
    assert _agrees(key, np.asarray(stored), np.asarray(plain)) is found


@pytest.mark.parametrize("off", [-2.0, -1.01, -0.99, 0.0, 0.99, 1.01, 2.0])
def test_a_time_constant_within_a_rounding_of_dt_is_dt(off: float) -> None:
    eps = float(np.finfo(np.float32).eps)
    ratio = 1.0 + off * eps
    a, share, gain = (float(x) for x in decay_coefficients(np.asarray(1.0 / ratio), 1.0, "euler"))
    if abs(off) <= 1:
        assert (a, share, gain) == (0.0, 1.0, 1.0)
    else:
        assert a == pytest.approx(-off * eps, rel=1e-6)
        assert share == gain == pytest.approx(ratio, rel=1e-12)


def test_values_that_are_all_one_are_one() -> None:
    for given, kept in (
        ([2, 2], 2.0),
        ([2, 3], [2.0, 3.0]),
        ([], []),
        (np.broadcast_to(np.float32(3), (4, 5)), 3.0),
        ([[1], [1]], 1.0),
    ):
        made = uniform_value(given)
        assert (made.tolist(), made.dtype) == (kept, np.float64)


@pytest.mark.parametrize(
    ("r", "theta", "is_said"),
    [(0.9, 1.0, True), (1.1, 1.0, False), (-0.9, 1.0, True), (0.9, -1.0, True), (1.0, 0.5, False)],
)
def test_a_gain_below_a_thousandth_of_the_threshold_is_said(r: float, theta: float, is_said: bool) -> None:
    node = nir.IF(np.array([5.0, r]), np.array([1.0, theta]))
    said = f"node 'n' (IF): r * dt = {abs(r) * 1e-3:g} is below a thousandth of the threshold; if the file means 'add the input each step', give --if-gain per-step"
    assert lowered(node).notes == ((said,) if is_said else ())


def test_negative_decays_are_said_for_each_time_constant() -> None:
    node = nir.CubaLIF(
        tau_syn=np.array([2e-3, 4e-4]),
        tau_mem=np.array([5e-4, 9e-4]),
        r=np.ones(2),
        v_leak=np.zeros(2),
        v_threshold=np.ones(2),
    )
    assert lowered(node).notes == tuple(
        f"node 'n' (CubaLIF): {tau} = {least} s is below dt = 0.001 s, its Euler decay is negative; give a smaller --dt, or --integrator zoh"
        for tau, least in (("tau_mem", "0.0005"), ("tau_syn", "0.0004"))
    )
    assert lowered(node, integrator="zoh").notes == ()
