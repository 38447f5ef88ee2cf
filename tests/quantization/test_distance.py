"""The stated bound on the distance from the reference: never violated while spikes agree, and reasonably tight."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nirbridge.arrays import freeze
from nirbridge.chips import read_chip
from nirbridge.errors import ModelError, UsageError
from nirbridge.network.model import Network, Population, Port, Projection
from nirbridge.network.operators import Chain, Conv, Dense, Identity, Reshape
from nirbridge.passes import Retime
from nirbridge.quantization import QuantizationOptions, QuantizedNetwork, quantize, v_bounds
from nirbridge.quantization.operators import weights_of
from nirbridge.simulators.fixed.simulate import simulate_fixed
from nirbridge.simulators.simulate import Probe, simulate
from tests.cases import cases
from tests.quantization.nets import TIMING, layer, lif, one

SEEDS = st.integers(0, 2**32 - 1)


def cell(rng: np.random.Generator, shape: tuple[int, ...], *, fires: bool = True) -> Any:
    """Any neuron that loihi2 takes: with and without a current, a decay, a bias, all resets, a refractory time."""

    def some(low: float, high: float) -> Any:
        return rng.uniform(low, high, shape if rng.random() < 0.3 else ())

    synapse = rng.random() < 0.5
    kind = ("CubaLIF" if synapse else "LIF") if fires else ("CubaLI" if synapse else "LI")
    more = (
        {}
        if not fires
        else {
            "theta": some(1.0, 4.0),
            "reset": str(rng.choice(["to-value", "to-value", "subtract"])),
            "refractory_steps": rng.integers(0, 3),
            "v_min": some(-0.8, 0.1) if rng.random() < 0.3 else None,
        }
    )
    if not fires:
        more["theta"] = None
    elif more["reset"] == "to-value" and rng.random() < 0.3:
        more["v_reset"] = rng.uniform(-0.5, 0.5)
    return lif(
        kind=kind,
        a_mem=rng.choice(np.array([0.0, 1.0, rng.uniform(0.1, 0.999)])),
        a_syn=some(0.0, 0.95) if synapse else 0.0,
        g_mem=some(0.3, 2.0),
        bias=some(-0.1, 0.1),
        v_init=some(-0.3, 0.3),
        **more,
    )


def network(rng: np.random.Generator) -> Network:
    """A convolution, a dense layer with a loop, a read-out; delays, biases of projections."""
    conv = Conv(freeze(rng.normal(0, 0.7, (2, 1, 2, 2))), (1, 1), ((0, 0), (0, 1)), (1, 1), 1, (1, 3, 3))
    first, size = conv.output_shape, int(np.prod(conv.output_shape))
    populations = (
        Population("a", first, cell(rng, first)),
        Population("b", (4,), cell(rng, (4,))),
        Population("c", (2,), cell(rng, (2,), fires=False)),
    )
    flat = Dense(freeze(rng.normal(0, 0.5, (4, size))))
    bias = freeze(rng.normal(0, 0.1, (4,)))
    projections = (
        Projection("in", "a", conv, delay_steps=one(int(rng.integers(1, 3)))),
        Projection("a", "b", Chain((Reshape(first, (size,)), flat)), bias=bias, delay_steps=one()),
        Projection("b", "b", Dense(freeze(rng.normal(0, 0.5, (4, 4)))), delay_steps=one(), is_back=True),
        Projection("b", "c", Dense(freeze(rng.normal(0, 1, (2, 4)))), delay_steps=one()),
        Projection("c", "out", Identity((2,))),
    )
    return Network(1.0, TIMING, populations, projections, (Port("in", (1, 3, 3)),), (Port("out", (2,)),))


def held(q: QuantizedNetwork, arrays: Any) -> int:
    """Steps before the first one in which v is at its last value."""
    last = np.zeros(len(next(iter(arrays.values()))), bool)
    for p in q.populations:
        taken = arrays[p.name, "s"] * p.neuron.reset_amount if p.neuron.reset == "subtract" else 0
        reached = np.abs(arrays[p.name, "v"] + taken) >= (1 << (p.neuron.v_bits - 1)) - 1
        last |= reached.reshape(len(last), -1).any(axis=1)
    return int(np.argmax(last)) if last.any() else len(last)


def distances(net: Network, q: QuantizedNetwork, values: Any) -> tuple[dict[str, Any], dict[str, Any], int]:
    """|v - reference| of each population, its bound, and the steps in which all fire alike."""
    record = [Probe("*", ("s", "u", "v")), Probe("in", ("s",))]
    fixed = simulate_fixed(q, values, record=record).recording.arrays
    wanted = [Probe(p.name, ("s", "v") if p.neuron.fires else ("v",)) for p in net.populations]
    real = simulate(net, values, record=wanted, dtype="float64").recording.arrays
    steps = held(q, fixed)
    for p in net.populations:
        if p.neuron.fires:
            other = (fixed[p.name, "s"] != real[p.name, "s"]).reshape(len(values), -1).any(axis=1)
            steps = min(steps, int(np.argmax(other)) if other.any() else steps)
    off = {}
    for p in q.populations:
        n = p.neuron
        off[p.name] = np.abs(fixed[p.name, "v"] / n.scale + n.v_offset - real[p.name, "v"])
    return off, v_bounds(q, fixed), steps


@settings(max_examples=cases(50, 150))
@given(SEEDS)
def test_no_membrane_is_further_from_the_reference_than_stated(seed: int) -> None:
    """Up to the first spike that differs anywhere in the network, without any tolerance."""
    rng = np.random.default_rng(seed)
    net = network(rng)
    bits = int(rng.choice([8, 6, 5]))
    try:
        q = quantize(net, read_chip("loihi2"), QuantizationOptions(weight_bits=bits))
    except ModelError:
        return
    values = (rng.random((40, 2, 1, 3, 3)) < 0.3).astype(int)
    off, bound, steps = distances(net, q, values)
    for p, said in zip(q.populations, q.report, strict=True):
        assert np.all(off[p.name][:steps] <= bound[p.name][:steps]), p.name
        grown = said.v_bound.start * 2 + said.v_bound.per_step * (1 + np.arange(steps))
        assert np.all(bound[p.name][:steps].reshape(steps, -1).max(axis=1, initial=0) <= grown * (1 + 1e-6)), p.name
        if said.v_bound.limit is not None:
            assert bound[p.name][:steps].max(initial=0) <= said.v_bound.limit * (1 + 1e-6) + 2 * said.v_bound.start


@settings(max_examples=cases(20, 40))
@given(SEEDS)
def test_the_bound_counts_from_a_populations_own_latency(seed: int) -> None:
    """Retimed networks: infinite before a population's first step, kept behind it."""
    rng = np.random.default_rng(seed)
    plain = network(rng)
    loose = replace(plain, projections=tuple(p for p in plain.projections if not p.is_back))
    still = tuple(replace(p, delay_steps=one(0)) for p in loose.projections)
    try:
        retimed = Retime(delay_steps_max=62).retimed(replace(loose, projections=still))
        q = quantize(retimed, read_chip("loihi2"))
    except ModelError:
        return
    values = (rng.random((30, 1, 1, 3, 3)) < 0.3).astype(int)
    off, bound, steps = distances(retimed.network, q, values)
    for p in q.populations:
        late = q.latency[p.name]
        assert np.isinf(bound[p.name][:late]).all()
        assert np.isfinite(bound[p.name][late:]).all()
        assert np.all(off[p.name][late:steps] <= bound[p.name][late:steps]), p.name


def test_graded_inputs_are_within_the_bound() -> None:
    rng = np.random.default_rng(0)
    net = layer(rng.normal(0, 1, (3, 5)), lif(kind="CubaLI", theta=None, a_mem=0.9, a_syn=0.5, bias=0.01))
    q = quantize(net, read_chip("loihi2"), QuantizationOptions(graded={"in": (1.0, 5)}))
    off, bound, steps = distances(net, q, rng.uniform(-1, 1, (60, 2, 5)))
    assert steps == 60
    assert np.all(off["p"] <= bound["p"])
    assert off["p"].max() > bound["p"].max() / 100  # it says something


def test_exact_integers_have_a_bound_of_what_floats_lose() -> None:
    """Whole weights, no decay: only the reference's own floats and the half unit of the start are left."""
    rng = np.random.default_rng(1)
    net = layer(rng.integers(-4, 5, (3, 5)), lif(kind="IF", theta=3.0))
    q = quantize(net, read_chip("loihi2"))
    off, bound, steps = distances(net, q, (rng.random((50, 1, 5)) < 0.4).astype(int))
    said = q.report[0].v_bound
    assert steps == 50
    assert off["p"].max() == 0
    assert (said.weight, said.weights, said.u_decay, said.v_decay, said.cuts, said.bias) == (0, 0, 0, 0, 0, 0)
    assert bound["p"].max() <= said.start * 2.001


def test_a_wrong_weight_breaks_the_bound() -> None:
    """Two steps of the grid more than the nearest integer are seen."""
    net = layer(np.random.default_rng(2).normal(0, 1, (3, 5)), lif(kind="I", theta=None))
    q = quantize(net, read_chip("loihi2"))
    link = q.projections[0]
    weights = weights_of(link.operator) + 4  # each is off by 3 units or more now, and by 1 at most before
    wrong = replace(q, projections=(replace(link, operator=Dense(freeze(weights))),))
    values = np.ones((30, 1, 5), int)
    off, _, _ = distances(net, wrong, values)
    _, bound, _ = distances(net, q, values)
    assert np.all(off["p"][5:] > bound["p"][5:])


def test_the_parts_add_up_and_a_file_has_no_reals() -> None:
    net = layer([[0.3, -0.7]], lif(kind="CubaLIF", a_mem=0.9, a_syn=0.6, bias=0.013))
    q = quantize(net, read_chip("loihi1"))
    said = q.report[0].v_bound
    assert all(value is not None and value >= 0 for value in (getattr(said, f.name) for f in fields(said)))
    assert said.limit == pytest.approx(said.per_step / 0.1)
    assert said.weight <= said.weights <= 2 * said.weight
    assert said.per_step >= said.weights / 0.4 + said.v_decay + said.bias
    with pytest.raises(UsageError, match=r"not in a .q.npz file"):
        v_bounds(replace(q, network=None), {})
    with pytest.raises(UsageError, match="v was not recorded; record it"):
        v_bounds(q, {("p", "u"): np.zeros((3, 1))})
