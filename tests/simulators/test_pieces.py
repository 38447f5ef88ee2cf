"""Computation in blocks equals computation at once: runs, recordings, scans of inputs, measures, distances."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nirbridge.arrays import Array
from nirbridge.chips import read_chip
from nirbridge.comparison import distances as d
from nirbridge.errors import UsageError
from nirbridge.network import Network
from nirbridge.pipeline.quantize import (
    CalibrationPlan,
    ReferenceScore,
    calibration_data,
    observe_reference,
    quantize_with_data,
)
from nirbridge.quantization.options import QuantizationOptions
from nirbridge.simulators.fixed.simulate import simulate_fixed
from nirbridge.simulators.simulate import Probe, Recording, from_chunks, simulate
from nirbridge.testing import networks
from nirbridge.verification.bounds import time_chunks
from tests.cases import cases
from tests.pieces import small_pieces
from tests.quantization.nets import layer, lif

SPIKING = pytest.mark.parametrize("backend", ["reference", "numpy", "event", "fast"])


def equal(a: Recording, b: Recording) -> None:
    assert set(a.arrays) == set(b.arrays)
    for key, values in a.arrays.items():
        assert values.dtype == b.arrays[key].dtype, key
        assert np.array_equal(values, b.arrays[key], equal_nan=True), key


def spikes(network: Any, steps: int, batch: int | None, seed: int) -> dict[str, Array]:
    rng = np.random.default_rng(seed)
    lead = (steps,) if batch is None else (steps, batch)
    return {p.name: (rng.random((*lead, *p.shape)) < 0.4).astype(np.uint8) for p in network.inputs}


def everything(network: Network, every: int) -> list[Probe]:
    records = [Probe("*", ("s", "v", "u", "i"), every)]
    firing = [p.name for p in network.populations if p.neuron.fires]
    return records + [Probe(name, ("count",)) for name in firing]


@SPIKING
@given(
    networks(max_populations=3), st.integers(3, 9), st.integers(1, 4), st.sampled_from([None, 3]), st.integers(0, 99)
)
@settings(max_examples=12)
def test_a_run_in_pieces_is_the_run(
    backend: str, network: Network, steps: int, every: int, batch: int | None, seed: int
) -> None:
    inputs, record = spikes(network, steps, batch, seed), everything(network, every)
    whole = simulate(network, inputs, record=record, backend=backend)
    with small_pieces():
        cut = simulate(network, inputs, record=record, backend=backend)
        rest = {name: from_chunks(np.array_split(a, 1 + seed % 4)) for name, a in inputs.items()}
        streamed = simulate(network, rest, record=record, backend=backend, steps=steps)
    equal(whole.recording, cut.recording)
    for key, values in whole.state.arrays.items():
        assert np.array_equal(values, cut.state.arrays[key], equal_nan=True)
        assert np.array_equal(values, streamed.state.arrays[key], equal_nan=True)
    for key, values in whole.recording.arrays.items():
        assert np.array_equal(values, streamed.recording.arrays[key], equal_nan=True)


@given(networks(max_populations=3), st.integers(2, 9), st.integers(1, 4), st.integers(1, 8), st.integers(0, 99))
@settings(max_examples=cases(12, 25))
def test_two_runs_one_after_the_other_record_what_one_does(
    network: Network, steps: int, every: int, first: int, seed: int
) -> None:
    """Of ``every`` steps the last is kept, counted from the first step of all, not of the run."""
    first = min(first, steps - 1)
    inputs, record = spikes(network, steps, None, seed), everything(network, every)
    whole = simulate(network, inputs, record=record)
    a = simulate(network, {k: v[:first] for k, v in inputs.items()}, record=record)
    b = simulate(network, {k: v[first:] for k, v in inputs.items()}, record=record, state=a.state)
    for key, values in whole.recording.arrays.items():
        parts = [a.recording.arrays[key], b.recording.arrays[key]]
        both = sum(parts) if key[1] == "count" else np.concatenate(parts)
        assert np.array_equal(values, both, equal_nan=True), key


@pytest.mark.parametrize("backend", ["reference", "fast"])
@pytest.mark.parametrize("every", [1, 2, 3])
def test_integers_in_pieces_are_the_integers(backend: str, every: int) -> None:
    rng = np.random.default_rng(every)
    net = layer(rng.normal(0, 0.5, (5, 6)), lif(a_mem=0.75), loop=rng.normal(0, 0.3, (5, 5)))
    quantized = quantize_with_data(net, read_chip("loihi2"), QuantizationOptions(), None, CalibrationPlan())
    record = [Probe("*", ("s", "u", "v"), every)]
    inputs = spikes(net, 11, 2, 0)
    whole = simulate_fixed(quantized, inputs, record=record, backend=backend)
    with small_pieces():
        cut = simulate_fixed(quantized, inputs, record=record, backend=backend)
    equal(whole.recording, cut.recording)
    assert whole.recording.arrays["p", "s"].any()
    assert len(whole.recording.arrays["p", "s"]) == 11 // every
    for key, values in whole.state.arrays.items():
        assert np.array_equal(values, cut.state.arrays[key]), key


def test_measures_of_samples_some_at_a_time_are_those_of_all() -> None:
    """The least u is in one piece, the greatest in another, and the last piece has one sample."""
    net = layer(np.diag([1.0, 2.0, -1.0]), lif(a_mem=0.5, theta=3.0))
    values = np.zeros((6, 5, 3), np.uint8)
    values[1, 0, 2] = values[2, 2, 1] = values[3, 4, 0] = 1
    data = calibration_data(net, {"in": values})
    whole = (
        quantize_with_data(net, read_chip("loihi2"), QuantizationOptions(), data, CalibrationPlan()).report[0].measured
    )
    with small_pieces():
        cut = (
            quantize_with_data(net, read_chip("loihi2"), QuantizationOptions(), data, CalibrationPlan())
            .report[0]
            .measured
        )
        seen = observe_reference(net, data)
    assert {**whole} == {**cut}
    assert whole["u"][0] < 0 < whole["u"][1]
    assert seen.seen["p"].x == (-1.0, 2.0)


@pytest.mark.parametrize("step", [0, 3, 6])
@pytest.mark.parametrize("wrong", [math.nan, math.inf, 1e39])
def test_one_value_that_is_not_finite_is_found_in_every_piece(step: int, wrong: float) -> None:
    net = layer(np.eye(3), lif())
    values = np.zeros((7, 3))
    values[step, 1] = wrong
    with small_pieces(), pytest.raises(UsageError, match=rf"^input 'in': .* at time step {step} \(1 such value\)"):
        simulate(net, values)


@pytest.mark.parametrize("step", [0, 3, 6])
def test_one_graded_value_is_seen_in_every_piece(step: int) -> None:
    """An input of 0 and 1 is recorded as bytes, any other as it is."""
    net = layer(np.eye(3), lif())
    values = np.zeros((7, 3))
    values[1] = 1.0
    with small_pieces():
        assert simulate(net, values, record=[Probe("in", ("s",))]).recording.arrays["in", "s"].dtype == np.uint8
        values[step, 2] = 0.5
        shown = simulate(net, values, record=[Probe("in", ("s",))]).recording.arrays["in", "s"]
    assert shown.dtype == np.float32
    assert shown.tolist() == values.tolist()


@pytest.mark.parametrize("steps", [254, 255, 256, 511, 600])
def test_counts_of_many_spikes_do_not_run_over(steps: int) -> None:
    net = layer(np.eye(2), lif(theta=0.5))
    values = np.ones((steps, 2), np.uint8)
    values[:, 1] = 0
    counts = simulate(net, values, record=[Probe("p", ("count",)), Probe("in", ("count",))]).recording.arrays
    assert counts["p", "count"].tolist() == [steps - 1, 0]
    assert counts["in", "count"].tolist() == [steps, 0]


@given(st.integers(1, 9), st.integers(0, 99))
@settings(max_examples=cases(12, 25))
def test_distances_in_pieces_are_the_distances(steps: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    a, b = (rng.integers(0, 3, (steps, 2, 2)) * (rng.random((steps, 2, 2)) < 0.5) for _ in range(2))

    def measures() -> list[Any]:
        own = [d.event_overlap(a, b), d.count_error(a, b), d.event_count(a), d.events_of_each(b).tolist()]
        return [*own, d.largest_difference(a, b), d.first_difference(a, b), d.is_counts(a), d.van_rossum(a, b)]

    whole = measures()
    with small_pieces():
        cut = measures()
    assert cut[:-1] == whole[:-1]
    assert cut[-1] == pytest.approx(whole[-1], rel=1e-12)


@pytest.mark.parametrize("steps", [1, 5, 6, 7])
def test_stretches_of_time_cover_every_step_once(steps: int) -> None:
    for bytes_max in (1, 16, 24, 10**6):
        found = list(time_chunks(steps, 1, bytes_max))
        assert [t for start, stop in found for t in range(start, stop)] == list(range(steps))
        assert max(stop - start for start, stop in found) == max(1, min(steps, bytes_max // 8))


def test_data_goes_on_with_silence_until_the_last_latency() -> None:
    net = layer(np.eye(3), lif(a_mem=0.5, theta=0.5))
    values = np.ones((4, 2, 3), np.uint8)
    judge = ReferenceScore(net, {"p": 1, "out": 3}, calibration_data(net, {"in": values}))
    assert judge.inputs["in"].shape == (7, 2, 3)
    assert judge.inputs["in"][:4].all()
    assert not judge.inputs["in"][4:].any()
    assert not judge.truth["p", "s"][6:].any()
