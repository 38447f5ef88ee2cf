"""Counts of runs against the recordings of the simulators, summed here again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

import nirbridge as nb
from nirbridge import pipeline
from nirbridge._types import no_progress
from nirbridge.profiling import activity
from nirbridge.profiling.activity import Activity, measure_integers, measure_reference
from tests.profiling.nets import readout_only, spikes, two_layers

WEIGHTS = np.random.default_rng(1).normal(0.6, 0.8, (6, 5)), np.random.default_rng(2).normal(0.6, 0.8, (3, 6))


def by_recording(model: object, inputs: np.ndarray, late: dict[str, int], steps: int) -> dict[str, Any]:
    """Spikes of the run, and those and changes of v in the time steps of the model; totals of the output."""
    run = nb.simulate(model, inputs, record=["a:s,v", "b:s,v", "out:s"], steps=steps, drain=False)
    found = {}
    for name in ("a", "b"):
        s, v = run[name, "s"], run[name, "v"]
        begin = late.get(name, 0)
        part = v[begin : begin + len(inputs)]
        changes = part[0].size + sum(int((x != y).sum()) for x, y in zip(part[1:], part[:-1], strict=True))
        found[name] = [int(s.sum()), int((s[begin : begin + len(inputs)] > 0).sum()), changes]
    begin = late.get("out", 0)
    found["out"] = run["out"][begin : begin + len(inputs)].sum(axis=0).tolist()
    return found


def counts(run: Activity) -> dict[str, Any]:
    found: dict[str, Any] = {
        name: [int(run.counts[name].sum()), run.active[name], run.updates[name]] for name in ("a", "b")
    }
    return {**found, "out": run.totals["out"].tolist()}


@pytest.mark.parametrize("block", [activity.BLOCK_BYTES, 1000, 1])
def test_counts_are_those_of_the_recordings_whatever_the_blocks(block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(activity, "BLOCK_BYTES", block)
    network, inputs = two_layers(*WEIGHTS), spikes(13, 4, 5)
    data = pipeline.read_data(network, inputs)
    reference = measure_reference(network, data.inputs, potentials=True, progress=no_progress)
    assert counts(reference) == by_recording(network, inputs, {}, 13)
    quantized = nb.quantize(network, "loihi1")
    late = max(quantized.latency.values())
    assert late > 0
    sent: list[int] = []
    integers = measure_integers(
        quantized,
        data.inputs,
        potentials=True,
        progress=no_progress,
        on_block=lambda block, _: sent.append(int(sum(np.count_nonzero(a) for a in block.values()))),
    )
    assert counts(integers) == by_recording(quantized, inputs, dict(quantized.latency), 13 + late)
    assert integers.run_steps == 13 + late
    assert sum(sent) == sum(int(c.sum()) for c in integers.counts.values())
    assert reference.counts["in"].tolist() == inputs.sum(axis=(0, 1)).tolist()


@pytest.mark.parametrize("block", [activity.BLOCK_BYTES, 1])
def test_active_neurons_have_a_potential_a_current_or_a_drive(block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(activity, "BLOCK_BYTES", block)
    network, inputs = two_layers(*WEIGHTS), spikes(13, 4, 5, rate=0.1)
    quantized = nb.quantize(network, "loihi1")
    steps = 13 + max(quantized.latency.values())
    run = nb.simulate(quantized, inputs, record=["a:u,v", "b:u,v"], steps=steps, drain=False)
    marked = {"a": 0, "b": 0}

    def add(_: object, updated: Mapping[str, np.ndarray]) -> None:
        for name, marks in updated.items():
            marked[name] += int(marks.sum())

    data = pipeline.read_data(network, inputs)
    measure_integers(quantized, data.inputs, potentials=False, progress=no_progress, on_block=add, marks_updates=True)
    expected = {}
    for name in ("a", "b"):
        u, v = run[name, "u"], run[name, "v"]
        assert not quantized.population(name).neuron.bias.any()
        expected[name] = sum(
            int(u[t, i, n] != 0 or (t > 0 and v[t - 1, i, n] != 0))
            for t in range(steps)
            for i in range(4)
            for n in range(u.shape[2])
        )
    assert marked == expected
    assert 0 < marked["a"] < steps * 4 * 6


def test_a_readout_is_summed_and_never_active() -> None:
    network, inputs = readout_only(WEIGHTS[0]), spikes(7, 2, 5)
    data = pipeline.read_data(network, inputs)
    run = measure_reference(network, data.inputs, potentials=False, progress=no_progress)
    expected = nb.simulate(network, inputs, record="out:s")["out"].sum(axis=0)
    assert np.allclose(run.totals["out"], expected)
    assert (dict(run.active), dict(run.updates)) == ({}, {})


def test_values_that_are_no_spikes_are_marked() -> None:
    network = two_layers(*WEIGHTS)
    data = pipeline.read_data(network, spikes(3, 2, 5) * 0.5)
    run = measure_reference(network, data.inputs, potentials=False, progress=no_progress)
    assert run.graded == {"in"}


def test_progress_ends_at_one() -> None:
    network, told = two_layers(*WEIGHTS), []
    data = pipeline.read_data(network, spikes(3, 2, 5))
    measure_reference(network, data.inputs, potentials=False, progress=lambda stage, done: told.append((stage, done)))
    assert told[-1] == ("reference", 1.0)
