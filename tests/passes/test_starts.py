"""Initial states that cancel the latency, run forwards one element at a time; and constant drives."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nirbridge.arrays import freeze
from nirbridge.errors import ModelError
from nirbridge.network.model import Network, Population, Port, Projection, Timing
from nirbridge.network.neurons import Neuron, neuron
from nirbridge.network.operators import Dense, Identity, Reshape
from nirbridge.passes import Retime
from nirbridge.passes.retiming.initial_states import LARGEST_START, initial_state_before, is_quiet
from tests.cases import cases
from tests.passes.retimed import both_runs, differing, fired_early

TIMING = Timing(1.0, "euler", "to-value", ">", "per-second")
eighths = st.integers(-8, 8).map(lambda n: n / 8)


@st.composite
def waiting(draw: st.DrawFn) -> tuple[Population, Any, int, bool]:
    """A population of two neurons on a grid where floats are exact, its drive, its latency, whether it feeds others."""

    def two(values: Any) -> Any:
        return np.array([draw(values), draw(values)]) if draw(st.booleans()) else draw(values)

    fires = draw(st.integers(0, 3)) > 0
    own = neuron(
        "CubaLIF" if fires else "CubaLI",
        a_mem=two(st.sampled_from([0.0, 0.5, 0.5, 1.0])),
        a_syn=two(st.sampled_from([0.0, 0.0, 0.5])),
        g_mem=two(st.sampled_from([0.0, 0.5, 1.0, 2.0])),
        g_syn=two(st.sampled_from([0.5, 1.0, 2.0])),
        bias=two(st.sampled_from([0.0, 0.25, -0.5])),
        theta=two(st.sampled_from([0.25, 1.0, 2.0])) if fires else None,
        compare=draw(st.sampled_from([">", ">="])),
        v_init=two(eighths),
        i_init=two(st.sampled_from([0.0, 0.5, -1.0])),
    )
    drive = draw(st.none() | st.lists(eighths, min_size=2, max_size=2).map(np.array))
    return Population("p", (2,), own), drive, draw(st.integers(0, 6)), draw(st.booleans())


def field(n: Neuron, name: str, k: int) -> float:
    return float(np.broadcast_to(getattr(n, name), (2,))[k])


def one(n: Neuron, drive: Any, v: float, i: float, k: int) -> tuple[float, float, bool]:
    """(v, i, whether anything is sent) after one step of neuron k that nothing reaches; plain floats."""
    i = field(n, "a_syn", k) * i + (0.0 if drive is None else field(n, "g_syn", k) * float(drive[k]))
    v = field(n, "a_mem", k) * v + field(n, "g_mem", k) * i + field(n, "bias", k)
    if n.theta is None:
        return v, i, v != 0
    return v, i, v > field(n, "theta", k) if n.compare == ">" else v >= field(n, "theta", k)


@settings(max_examples=cases(35, 100))
@given(waiting())
def test_a_start_leads_to_the_references_start(made: tuple[Population, Any, int, bool]) -> None:
    population, drive, steps, feeds = made
    n = population.neuron
    kept = initial_state_before(population, drive, steps, feeds_neurons=feeds)
    if kept is None:
        return
    for k in range(2):
        v, i = field(kept, "v_init", k), field(kept, "i_init", k)
        for _ in range(steps):
            v, i, sent = one(n, drive, v, i, k)
            assert not sent or (n.theta is None and not feeds)
        if field(n, "a_mem", k) and steps:
            assert v == field(n, "v_init", k)
        if field(n, "a_syn", k) and steps:
            assert i == field(n, "i_init", k)


def backwards(n: Neuron, drive: Any, steps: int, k: int) -> tuple[float, float]:
    """The only start that can lead to the neuron's own (a state without memory stays as it is)."""
    v, i = field(n, "v_init", k), field(n, "i_init", k)
    x = 0.0 if drive is None else field(n, "g_syn", k) * float(drive[k])
    a_mem, a_syn = field(n, "a_mem", k), field(n, "a_syn", k)
    for _ in range(steps):
        arriving = i if a_syn else x
        v = (v - field(n, "g_mem", k) * arriving - field(n, "bias", k)) / a_mem if a_mem else v
        i = (i - x) / a_syn if a_syn else i
    return v, i


@settings(max_examples=cases(35, 100))
@given(waiting())
def test_a_start_is_found_wherever_there_is_one(made: tuple[Population, Any, int, bool]) -> None:
    population, drive, steps, feeds = made
    n = population.neuron
    sends, large = False, False
    for k in range(2):
        v, i = backwards(n, drive, steps, k)
        x = 0.0 if drive is None else field(n, "g_syn", k) * float(drive[k])
        once = abs(field(n, "g_mem", k) * x + field(n, "bias", k))
        reach = max(once, abs(field(n, "v_init", k)), 0.0 if n.theta is None else field(n, "theta", k))
        large |= abs(v) > LARGEST_START * reach or abs(i) > LARGEST_START * max(abs(x), abs(field(n, "i_init", k)))
        for _ in range(steps):
            v, i, sent = one(n, drive, v, i, k)
            sends |= sent and (n.theta is not None or feeds)
    kept = initial_state_before(population, drive, steps, feeds_neurons=feeds)
    quiet = steps == 0 or is_quiet(population, drive, feeds_neurons=feeds)
    assert (kept is None) == (not quiet and (sends or large))
    assert not quiet or kept is n


@settings(max_examples=cases(20, 60))
@given(waiting())
def test_quiet_is_the_same_state_after_a_step(made: tuple[Population, Any, int, bool]) -> None:
    population, drive, _, feeds = made
    n = population.neuron
    moves = []
    for k in range(2):
        v, i, sent = one(n, drive, field(n, "v_init", k), field(n, "i_init", k), k)
        moves += [sent and (n.theta is not None or feeds)]
        moves += [field(n, "a_mem", k) != 0 and v != field(n, "v_init", k)]
        moves += [field(n, "a_syn", k) != 0 and i != field(n, "i_init", k)]
    assert is_quiet(population, drive, feeds_neurons=feeds) == (not any(moves))


# -- constant drives -------------------------------------------------------------------------------------------------


def behind(cell: Neuron, shape: tuple[int, ...], bias: Any = None, other: Any = None) -> Network:
    """Four populations in a row and a second way into the last; the biases are those of the projections into it."""
    size, rest = int(np.prod(shape)), neuron("LIF", a_mem=0.5, theta=0.75)
    rng = np.random.default_rng(3)
    weight = [freeze(rng.integers(-8, 9, (size, 3)) / 8) for _ in range(2)]
    first = Population("a", (3,), rest)
    way = [Projection("d", "b0", Dense(weight[0])), Projection("in", "b0", Dense(weight[1]))]
    flat = [
        replace(p, bias=None if b is None else freeze(np.asarray(b, float)))
        for p, b in zip(way, (bias, other), strict=True)
    ]
    shaped = [
        replace(
            p,
            target="b",
            operator=p.operator if len(shape) == 1 else _shaped(p.operator, shape),
            bias=None if p.bias is None else freeze(p.bias.reshape(shape)),
        )
        for p in flat
    ]
    row = [Projection(x, y, Identity((3,))) for x, y in (("in", "a"), ("a", "c"), ("c", "d"))]
    projections = (*row, *shaped, Projection("b", "out", Identity(shape)))
    populations = (first, replace(first, name="c"), replace(first, name="d"), Population("b", shape, cell))
    return Network(1.0, TIMING, populations, projections, (Port("in", (3,)),), (Port("out", shape),))


def _shaped(operator: Any, shape: tuple[int, ...]) -> Any:
    from nirbridge.network.operators import Chain

    return Chain((operator, Reshape(operator.output_shape, shape)))


GAINS = [(g_mem, g_syn) for g_mem, g_syn in product((0.5, 1.0, 2.0), (0.5, 2.0))]


@pytest.mark.parametrize("shape", [(4,), (1, 2, 2)])
@pytest.mark.parametrize(("g_mem", "g_syn"), GAINS)
def test_a_drive_that_would_fire_is_a_synapse_with_its_gain_taken_out(
    shape: tuple[int, ...], g_mem: float, g_syn: float
) -> None:
    """Nothing of it shows: each step from the first on gets the neuron's bias and both projections' biases."""
    bias = np.linspace(0.25, 1.0, 4).reshape(shape)
    cell = neuron("LIF", a_mem=1.0, g_mem=g_mem, g_syn=g_syn, theta=0.5, bias=-1.5 * bias)
    network = behind(cell, shape, bias=[1.5, -0.5, 2.0, 0.25], other=[0.5, 1.5, 0.0, -0.25])
    retimed = Retime().retimed(network)
    assert "always" in retimed.latency
    a, b = both_runs(retimed, 12, 1)
    assert differing(retimed, a, b) == fired_early(retimed, b) == []
    assert a.arrays["b", "v"].any()


@pytest.mark.parametrize("which", [0, 1])
def test_a_drive_into_a_synaptic_current_is_taken_over_too(which: int) -> None:
    cell = neuron("CubaLIF", a_mem=1.0, a_syn=0.5, g_mem=0.5, g_syn=2.0, theta=0.25)
    own = [[-1.0, 0.5, 0.0, -0.5], None]
    network = behind(cell, (4,), bias=own[which], other=own[1 - which])
    retimed = Retime().retimed(network)
    assert "always" in retimed.latency
    a, b = both_runs(retimed, 12, 1)
    assert differing(retimed, a, b) == fired_early(retimed, b) == []


def test_one_neuron_without_a_gain_keeps_all_from_being_driven() -> None:
    """Its bias reaches v, a synapse would not: no weight stands for it."""
    cell = neuron("LIF", a_mem=1.0, g_mem=[1.0, 1.0, 0.0, 1.0], theta=0.5, bias=[-1.0, -1.0, -1.0, -1.0])
    with pytest.raises(ModelError, match="population 'b'"):
        Retime().retimed(behind(cell, (4,)))
    still = neuron("LIF", a_mem=1.0, g_mem=[1.0, 1.0, 0.0, 1.0], theta=0.5, bias=[-1.0, -1.0, 0.0, -1.0])
    retimed = Retime().retimed(behind(still, (4,)))
    a, b = both_runs(retimed, 12, 1)
    assert differing(retimed, a, b) == fired_early(retimed, b) == []


def test_a_bias_behind_a_synaptic_current_can_not_be_taken_over() -> None:
    cell = neuron("CubaLIF", a_mem=1.0, a_syn=0.5, theta=0.5, bias=-1.0)
    with pytest.raises(ModelError, match="population 'b': it would leave its start in the 4 steps"):
        Retime().retimed(behind(cell, (4,)))
