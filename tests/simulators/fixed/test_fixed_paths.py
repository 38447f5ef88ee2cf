"""The compiled paths of the fixed-point simulator against the plain one, where sums and updates differ."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nirbridge.arrays import freeze
from nirbridge.network.model import Port, Projection
from nirbridge.network.operators import Dense, Identity, Sparse
from nirbridge.quantization import FixedInput, FixedNeuron, FixedPopulation, FixedProjection, QuantizedNetwork
from nirbridge.simulators.fixed.kernels_sums import LANES, TILE, BlockSparse, TiledDense
from nirbridge.simulators.fixed.simulate import FixedSimulator
from nirbridge.simulators.simulate import Probe
from nirbridge.simulators.types import SimulationState

ALL = [Probe("*", ("s", "u", "v"))]


def whole(values: Any) -> Any:
    return freeze(np.asarray(values, np.int64))


def cell(rng: np.random.Generator, size: int) -> FixedNeuron:
    """What the 32-bit path takes: one spike at most, 24 bits; all of its settings, alike or per neuron."""

    def some(low: int, high: int) -> Any:
        return whole(rng.integers(low, high, (size,) if rng.random() < 0.5 else ()))

    return FixedNeuron(
        du=some(0, 4096) if rng.random() < 0.5 else whole(4095),
        dv=some(0, 4097),
        bias_mant=some(-4095, 4096),
        bias_exp=int(rng.integers(0, 8)),
        fires_above=some(-100, 2**12) if rng.random() < 0.5 else some(2**16, 2**24),
        reset=str(rng.choice(["zero", "subtract", "none"])),  # type: ignore[arg-type]
        reset_amount=some(0, 2**23),
        spike_size=whole(1),
        max_spikes=1,
        refractory_steps=some(0, 3) if rng.random() < 0.5 else whole(0),
        v_init=some(-(2**23) + 1, 2**23),
        u_init=some(-(2**23) + 1, 2**23),
        scale=freeze(np.float64(64)),
        v_offset=freeze(np.float64(0)),
        v_min=some(-(2**20), 2**10) if rng.random() < 0.3 else None,
    )


def operator(rng: np.random.Generator, targets: int, sources: int, most: int) -> Any:
    weights = rng.integers(-most, most + 1, (targets, sources))
    if rng.random() < 0.5:
        return Dense(whole(weights))
    mask = rng.random(weights.shape) < 0.4
    ends = np.concatenate(([0], np.cumsum(mask.sum(1))))
    return Sparse(whole(ends), whole(np.nonzero(mask)[1]), whole(weights[mask]), (sources,), (targets,))


def random_network(rng: np.random.Generator) -> QuantizedNetwork:
    """An input, a layer behind it, a layer with a loop; weights that need 16 bits to be added up, or 32."""
    sizes = {"in": int(rng.integers(1, 60)), "a": int(rng.choice([1, 15, 40, TILE + 3])), "b": int(rng.integers(1, 20))}
    projections = []
    for source, target in (("in", "a"), ("a", "b"), ("b", "b")):
        delays = rng.integers(1, 4, sizes[source]) if rng.random() < 0.5 else rng.integers(1, 4)
        made = operator(rng, sizes[target], sizes[source], int(rng.choice([3, 250, 20_000])))
        exponent = int(rng.integers(-2, 3))
        projections.append(FixedProjection(source, target, made, 8, exponent, delay_steps=whole(delays)))
    populations = tuple(FixedPopulation(x, (sizes[x],), cell(rng, sizes[x]), "custom") for x in "ab")
    return QuantizedNetwork(
        chip="loihi2",
        dt=1.0,
        populations=populations,
        projections=tuple(projections),
        inputs=(FixedInput("in", (sizes["in"],)),),
        outputs=(Port("out", (sizes["b"],)),),
        reads=(Projection("b", "out", Identity((sizes["b"],))),),
        latency={},
        formats={},
    )


@settings(max_examples=50)
@given(st.integers(0, 2**32 - 1))
def test_every_compiled_path_gives_the_same_bits(seed: int) -> None:
    """Steps below, at and beyond a block; few spikes and many; one sample and several; cut in two."""
    rng = np.random.default_rng(seed)
    q = random_network(rng)
    steps, batch = int(rng.integers(2, 2 * LANES + 3)), int(rng.integers(1, 4))
    values = (rng.random((steps, batch, *q.inputs[0].shape)) < rng.choice([0.02, 0.3, 1.0])).astype(int)
    plain = FixedSimulator(q, "reference").run(values, record=ALL)
    made = FixedSimulator(q, "fast")
    fast = made.run(values, record=ALL)
    cut = int(rng.integers(1, steps))
    first = made.run(values[:cut], record=ALL)
    second = made.run(values[cut:], record=ALL, state=first.state)
    for key, array in plain.recording.arrays.items():
        np.testing.assert_array_equal(fast.recording.arrays[key], array, err_msg=str(key))
        halves = [r.recording.arrays[key] for r in (first, second)]
        np.testing.assert_array_equal(np.concatenate(halves), array, err_msg=str(key))
    for result in (fast, second):
        for key, array in plain.state.arrays.items():
            np.testing.assert_array_equal(result.state.arrays[key], array)


@pytest.mark.parametrize("most", [2**15 - 1, 2**15])
def test_sums_at_the_end_of_16_bits(most: int) -> None:
    """All weights of a sign at once reach the last 16-bit number, or the first that needs more."""
    row = np.array([most - 3000, 2999, 1, -5, -(most - 10), 5])
    weights, ends = np.stack([row, -row]), np.array([0, 6, 12])
    history = np.ones((1 + LANES, 1, 6), np.int8)
    history[2:] = np.random.default_rng(0).random((LANES - 1, 1, 6)) < 0.5
    history[3, 0] = row > 0
    history[4, 0] = row < 0
    lists = Sparse(whole(ends), whole(np.tile(np.arange(6), 2)), whole(weights.ravel()), (6,), (2,))
    late = np.ones(6, np.int64)
    for made in (TiledDense(weights, late, np.int32), BlockSparse(lists, late, np.int32)):
        a_in = np.zeros((LANES, 1, 2), np.int32)
        made(history, 1, a_in)
        np.testing.assert_array_equal(a_in[:, 0], history[:LANES, 0].astype(int) @ weights.T)


def test_a_state_that_24_bits_do_not_hold_is_stepped_as_the_rule_says() -> None:
    q = random_network(np.random.default_rng(1))
    made = FixedSimulator(q, "fast")
    start = made.blank(1)
    wide = {k: freeze(np.full_like(x, 2**30)) if k[1] in ("u", "v") else x for k, x in start.arrays.items()}
    values = np.ones((5, 1, *q.inputs[0].shape), int)
    both = [FixedSimulator(q, x).run(values, record=ALL, state=SimulationState(0, wide)) for x in ("reference", "fast")]
    for key, array in both[0].recording.arrays.items():
        np.testing.assert_array_equal(both[1].recording.arrays[key], array)


@pytest.mark.parametrize("is_readout", [False, True])
def test_sums_that_are_shifted_to_the_right_may_exceed_32_bits(is_readout: bool) -> None:
    """Large values come from a graded input, or from a readout, whose potential is sent."""
    rng = np.random.default_rng(0)
    plain = FixedNeuron(
        du=whole(4095), dv=whole(4096), bias_mant=whole(0), bias_exp=0, fires_above=None, reset="none", v_min=None,
        reset_amount=whole(0), spike_size=whole(1), max_spikes=1, refractory_steps=whole(0), v_init=whole(0),
        u_init=whole(0), scale=freeze(np.float64(1)), v_offset=freeze(np.float64(0)),
    )  # fmt: skip
    weights = whole(2 * rng.integers(60, 128, (40, 40)))
    first = FixedProjection("in", "a", Dense(weights), 8, 0 if is_readout else -9)
    second = FixedProjection("a", "b", Dense(weights), 8, -9)
    q = QuantizedNetwork(
        chip="loihi2", dt=1.0, populations=tuple(FixedPopulation(x, (40,), plain, "custom") for x in "ab"),
        projections=(first, second), inputs=(FixedInput("in", (40,), 1000 if is_readout else 2**20),),
        outputs=(Port("out", (40,)),), reads=(Projection("b", "out", Identity((40,))),), latency={"out": 2}, formats={},
    )  # fmt: skip
    values = np.full((6, 2, 40), q.inputs[0].value_max)
    plain_run, compiled = (
        FixedSimulator(q, backend).run(values, record=ALL).recording.arrays for backend in ("reference", "fast")
    )
    assert max(int(np.abs(a).max()) for a in plain_run.values()) > 2**22
    assert all(np.array_equal(compiled[key], array) for key, array in plain_run.items())
