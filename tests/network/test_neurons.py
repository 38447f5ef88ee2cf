from __future__ import annotations

import math
from typing import Any

import nir
import numpy as np
import pytest

from nirbridge.errors import ModelError, UsageError
from nirbridge.network import Network, Neuron, Timing, from_nir
from tests.network.graphs import chain, graph_of, lif, out, port


def lowered(node: nir.NIRNode, timing: Timing | None = None, size: int = 1, **metadata: object) -> Neuron:
    return network_of(node, timing, size, **metadata).populations[0].neuron


def network_of(node: nir.NIRNode, timing: Timing | None = None, size: int = 1, **metadata: object) -> Network:
    return from_nir(chain(port(size), node, out(size), **metadata), timing)


def one(value: float) -> np.ndarray:
    return np.array([value])


LIF = nir.LIF(tau=one(2e-3), r=one(3.0), v_leak=one(0.5), v_threshold=one(1.25), v_reset=one(-0.25))
E_HALF = math.exp(-0.5)


@pytest.mark.parametrize(
    ("integrator", "a", "g", "b"),
    [
        ("euler", 0.5, 1.5, 0.25),
        ("zoh", E_HALF, (1 - E_HALF) * 3, (1 - E_HALF) * 0.5),
        ("exponential", E_HALF, 1.5, (1 - E_HALF) * 0.5),
    ],
)
def test_lif(integrator: str, a: float, g: float, b: float) -> None:
    n = lowered(LIF, Timing(dt=1e-3, integrator=integrator))
    assert (n.kind, n.reset, n.compare, n.max_spikes) == ("LIF", "to-value", ">", 1)
    got = [float(x) for x in (n.a_mem, n.g_mem, n.bias)]
    assert got == pytest.approx([a, g, b], rel=1e-15)
    assert (n.theta, n.v_reset, n.reset_amount, n.a_syn, n.g_syn) == (1.25, -0.25, 1.25, 0.0, 1.0)


@pytest.mark.parametrize(
    ("integrator", "a_syn", "g_syn", "a_mem", "g_mem"),
    [
        ("euler", 0.75, 0.5, 0.5, 1.5),
        ("zoh", math.exp(-0.25), (1 - math.exp(-0.25)) * 2, E_HALF, (1 - E_HALF) * 3),
        ("exponential", math.exp(-0.25), 0.5, E_HALF, 1.5),
    ],
)
@pytest.mark.parametrize("kind", ["CubaLIF", "CubaLI"])
def test_cuba(kind: str, integrator: str, a_syn: float, g_syn: float, a_mem: float, g_mem: float) -> None:
    own = {"tau_syn": one(4e-3), "tau_mem": one(2e-3), "r": one(3.0), "v_leak": one(0.0), "w_in": one(2.0)}
    if kind == "CubaLIF":
        own["v_threshold"] = one(1.0)
    n = lowered(getattr(nir, kind)(**own), Timing(dt=1e-3, integrator=integrator))
    got = [float(x) for x in (n.a_syn, n.g_syn, n.a_mem, n.g_mem)]
    assert got == pytest.approx([a_syn, g_syn, a_mem, g_mem], rel=1e-15)
    assert n.fires == (kind == "CubaLIF")
    assert n.has_synapse


def test_li_is_a_lif_that_never_fires() -> None:
    n = lowered(nir.LI(tau=one(2e-3), r=one(3.0), v_leak=one(0.5)), Timing(dt=1e-3))
    assert (n.a_mem, n.g_mem, n.bias, n.theta, n.reset) == (0.5, 1.5, 0.25, None, "none")


def test_if_gains_r_dt() -> None:
    node = nir.IF(r=one(4.0), v_threshold=one(0.5))
    n = lowered(node, Timing(dt=0.25))
    assert (n.a_mem, n.g_mem, n.bias, n.theta) == (1.0, 1.0, 0.0, 0.5)
    assert lowered(node, Timing(dt=0.125)).g_mem == 0.5
    assert lowered(node, Timing(dt=0.125, if_gain="per-step")).g_mem == 4.0
    assert lowered(nir.I(r=one(4.0)), Timing(dt=0.125)).g_mem == 0.5


@pytest.mark.parametrize("r", [1.0, 1e4, 49.0, 1000.0])
def test_without_time_constants_dt_is_one_over_r(r: float) -> None:
    network = network_of(nir.IF(r=one(r), v_threshold=one(1.0)))
    assert network.dt == 1 / r
    assert network.populations[0].neuron.g_mem == 1.0
    assert network.assumed[0] == (
        f"dt = {1 / r:g} s: 1/r, since no node has a time constant; a unit input then adds 1 a step"
    )


def test_different_r_or_a_time_constant_give_no_dt() -> None:
    nodes = {"in": port(1), "a": nir.IF(one(1.0), one(1.0)), "b": nir.IF(one(2.0), one(1.0)), "out": out(1)}
    edges = [("in", "a"), ("a", "b"), ("b", "out")]
    network = from_nir(graph_of(nodes, edges))
    assert network.dt == 1e-4
    assert network.notes == (
        "node 'a' (IF): r * dt = 0.0001 is below a thousandth of the threshold; if the file means 'add the input each "
        "step', give --if-gain per-step",
        "node 'b' (IF): r * dt = 0.0002 is below a thousandth of the threshold; if the file means 'add the input each "
        "step', give --if-gain per-step",
    )
    nodes["b"] = lif(1)
    assert from_nir(graph_of(nodes, edges)).dt == 1e-4


def test_threshold_has_no_memory() -> None:
    n = lowered(nir.Threshold(one(0.75)))
    assert (n.a_mem, n.g_mem, n.theta, n.reset, n.kind) == (0.0, 1.0, 0.75, "none", "Threshold")


def test_uniform_parameters_become_one_value_and_others_keep_the_shape() -> None:
    node = nir.LIF(
        tau=np.array([1e-3, 2e-3], np.float32), r=np.ones(2), v_leak=np.zeros(2), v_threshold=np.full(2, 3.0)
    )
    n = lowered(node, Timing(dt=1e-4), size=2)
    assert n.theta is not None
    assert n.theta.shape == ()
    assert n.a_mem.shape == (2,)
    assert n.a_mem.dtype == np.float64
    assert not n.a_mem.flags.writeable


def test_tau_of_one_and_more_is_said_unless_dt_is_known() -> None:
    network = network_of(lif(1, tau=20.0))
    assert network.notes == (
        "every time constant is 1 s or more and dt = 0.0001 s: if the file counts them in steps, give --dt 1",
    )
    assert network_of(lif(1, tau=20.0), Timing(dt=1.0)).notes == ()
    assert network_of(lif(1, tau=20.0), dt=1e-3).notes == ()


def test_a_negative_euler_decay_is_said() -> None:
    network = network_of(lif(1, tau=5e-5))
    assert network.notes == (
        "node '0' (LIF): tau = 5e-05 s is below dt = 0.0001 s, its Euler decay is negative; give a smaller --dt, or "
        "--integrator zoh",
    )
    assert network_of(lif(1, tau=5e-5), Timing(integrator="zoh")).notes == ()


def test_precedence_of_timing() -> None:
    node = lif(1)
    node.metadata = {"nirbridge:reset": "subtract", "nirbridge:compare": b">=", "nirbridge:dt": 2e-4}
    graph = chain(port(1), node, out(1), dt=5e-4, reset="none", integrator="zoh")
    n = from_nir(graph)
    assert (n.dt, n.timing.integrator, n.timing.reset, n.timing.compare) == (2e-4, "zoh", "none", ">")
    assert (n.populations[0].neuron.reset, n.populations[0].neuron.compare) == ("subtract", ">=")
    assert n.assumed == ()
    asked = from_nir(graph, Timing(dt=1e-3, reset="to-value", compare=">", integrator="euler"))
    neuron = asked.populations[0].neuron
    assert (asked.dt, neuron.reset, neuron.compare, float(neuron.a_mem)) == (1e-3, "to-value", ">", 0.0)


def test_what_was_assumed_is_said_once() -> None:
    assert network_of(lif(1, v_leak=0.5)).assumed == (
        "dt = 0.0001 s: the file stores none",
        "integrator = euler: the file stores none",
        "reset = to-value, in the step of the spike: the file stores none",
        "a spike where v > threshold: the file stores no comparison",
        "v = 0 before the first step: the file stores no initial state",
    )


def test_all_options_of_a_node() -> None:
    node = lif(2)
    node.metadata = {
        "nirbridge:reset": "subtract",
        "nirbridge:reset_amount": np.array([0.5, 0.75]),
        "nirbridge:max_spikes": np.int64(4),
        "nirbridge:refractory_steps": 3,
        "nirbridge:v_init": np.array([0.25, -1.0]),
    }
    n = lowered(node, size=2)
    assert (n.reset, n.max_spikes, n.refractory_steps) == ("subtract", 4, 3)
    assert n.reset_amount.tolist() == [0.5, 0.75]
    assert n.v_init.tolist() == [0.25, -1.0]


def test_nodes_that_disagree_on_dt_are_both_named() -> None:
    a, b = lif(1), lif(1)
    a.metadata, b.metadata = {"nirbridge:dt": 1e-3}, {"nirbridge:dt": 1e-4}
    graph = graph_of({"in": port(1), "a": a, "b": b, "out": out(1)}, [("in", "a"), ("a", "b"), ("b", "out")])
    with pytest.raises(
        ModelError,
        match=r"^nodes 'a' and 'b': metadata nirbridge:dt is 0\.001 s in one and 0\.0001 s in the other, a network has "
        r"one dt; correct one of them, or give dt \(--dt\)$",
    ):
        from_nir(graph)
    assert from_nir(graph, Timing(dt=1e-3)).dt == 1e-3


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        (
            "dt",
            0.0,
            r"^node '0': metadata nirbridge:dt is '0\.0', one number of seconds above 0; correct the metadata$",
        ),
        ("dt", "fast", r"^node '0': metadata nirbridge:dt is 'fast', one number"),
        ("reset", "soft", r"^node '0' \(LIF\): metadata nirbridge:reset is 'soft', one of to-value, subtract, none; "),
        ("max_spikes", 0, r"^node '0' \(LIF\): metadata nirbridge:max_spikes is 0, whole numbers from 1 to "),
        ("refractory_steps", 1.5, r"^node '0' \(LIF\): metadata nirbridge:refractory_steps is 1.5, whole"),
        (
            "v_init",
            np.zeros(3),
            r"^node '0' \(LIF\): metadata nirbridge:v_init has shape \(3,\), the node has \(2,\); ",
        ),
        (
            "v_init",
            np.nan,
            r"^node '0' \(LIF\): metadata nirbridge:v_init does not hold finite numbers; correct the metadata$",
        ),
    ],
)
def test_bad_metadata(key: str, value: object, message: str) -> None:
    node = lif(2)
    node.metadata = {f"nirbridge:{key}": value}
    with pytest.raises(ModelError, match=message):
        lowered(node, size=2)


@pytest.mark.parametrize("dt", [0.0, -1.0, math.nan, math.inf])
def test_bad_options_are_wrong_usage(dt: float) -> None:
    with pytest.raises(UsageError, match=r"^timing option dt: \S+, a finite number of seconds above 0; correct it"):
        from_nir(chain(port(1), lif(1), out(1)), Timing(dt=dt))
    with pytest.raises(UsageError, match=r"^timing option reset: 'hard', one of to-value, subtract, none; choose one"):
        from_nir(chain(port(1), lif(1), out(1)), Timing(reset="hard"))  # type: ignore[arg-type]


def test_stored_exact_coefficients_count_only_while_they_agree() -> None:
    node = lif(1, tau=1e-3)
    node.metadata = {"nirbridge:a_mem": 0.9 + 1e-9}
    assert lowered(node).a_mem == 0.9 + 1e-9
    node.metadata = {"nirbridge:a_mem": 0.8}
    network = network_of(node)
    assert network.populations[0].neuron.a_mem == 0.9
    assert network.notes == (
        "node '0' (LIF): metadata nirbridge:a_mem differs from the plain parameters, which are used",
    )


@pytest.mark.parametrize("dt", [1e-4, 1e-3, 2e-3, 0.01, 0.3])
@pytest.mark.parametrize("field", ["tau_mem", "tau_syn"])
def test_a_tau_that_float32_can_not_tell_from_dt_is_dt(dt: float, field: str) -> None:
    """One rounding and two, as exporters compute tau = dt / (1 - beta) in float32, and as a file may widen it."""
    fields: dict[str, Any] = {"tau_mem": one(8 * dt), "tau_syn": one(4 * dt)}
    rounded = np.float32(dt) / np.float32(1 - 1e-8)
    for tau in (np.float32(dt), rounded, np.nextafter(np.float32(dt), np.float32(0)), float(np.float32(dt))):
        node = nir.CubaLIF(
            **fields | {field: np.array([tau])}, r=one(3), v_leak=one(0.5), v_threshold=one(1), w_in=one(2)
        )
        n = lowered(node, Timing(dt=dt))
        assert (n.a_mem if field == "tau_mem" else n.a_syn) == 0.0
        assert (n.g_mem if field == "tau_mem" else n.g_syn) == (3.0 if field == "tau_mem" else 2.0)


def test_a_decay_that_is_below_zero_stays_so() -> None:
    for off in (3e-7, 1e-3, 1.0):
        node = nir.LIF(tau=one(1e-3 / (1 + off)), r=one(1), v_leak=one(0), v_threshold=one(1))
        assert float(lowered(node, Timing(dt=1e-3)).a_mem) == pytest.approx(-off, rel=1e-6)
        node = nir.LIF(tau=one(1e-3 * (1 + off)), r=one(1), v_leak=one(0), v_threshold=one(1))
        assert float(lowered(node, Timing(dt=1e-3)).a_mem) == pytest.approx(1 - 1 / (1 + off), rel=1e-6)
